"""The bytes of a request against the receipt that names them: they are exactly what the builder makes of its parts.

The request is built again by the code that built it, so that nothing more, less or other can be in it. Two things are
taken from the body, because the receipt does not fix them: how the media were carried (the folder in which they were
staged, or their bytes, which must have the artifacts' digests), and the order of the keys within the answer form.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from contracts.artifact import Artifact
from contracts.digest import Digest, canonical_json
from contracts.errors import EvidenceError, InputError
from contracts.limits import Limits
from contracts.locator import Derived, FileSource, Locator
from contracts.parameters import NotHonoured, parameters_of
from contracts.profile import Profile
from contracts.question import MediaPart, Part, Question, TextPart
from contracts.receipt import PartRecord, Receipt
from contracts.request import ChatRequest, build_request
from contracts.strict_json import read_strict
from contracts.transport import DataUrls, MediaUrls

_BODY_DEPTH = 80  # an answer form of 64 levels, and what holds it
_STAGED_URL = re.compile(r"(file:///(?:[^?#]*/)?)[0-9a-f]{64}\.[a-z0-9]{2,4}")
_GUIDANCE_KEY = "x-guidance"

Fault = tuple[str, str]
"""A rule and a reason."""


class _Asked(msgspec.Struct, frozen=True):
    """What a question's document says besides its parts."""

    max_output_tokens: int
    temperature: str
    answer_schema: dict[str, Any] | None
    parameters: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class _Said:
    """What a body says, sorted for comparison: media as kind and URL, texts, and the fields beside the messages."""

    media: list[Any]
    texts: list[Any]
    fields: dict[str, Any]


def request_faults(receipt: Receipt, body: bytes, profile: Profile, limits: Limits) -> Iterator[Fault]:
    """Why `body` is not the request of `receipt`: by the first thing that tells, or nothing if it is."""
    try:
        document = read_strict(body, max_depth=_BODY_DEPTH)
        said = _said(document)
        asked = msgspec.convert(receipt.question, _Asked)
    except (InputError, msgspec.ValidationError, KeyError, TypeError, AttributeError):
        yield "request-form", f"the {len(body)} bytes are not a chat request to the receipt's question"
        return
    try:
        built = _built(receipt, asked, said, profile, limits)
    except EvidenceError as error:
        yield "request-refused", f"the builder refuses what the receipt says was asked: {error.rule}"
        return
    if str(built.question_digest) != receipt.question_digest:
        yield "question-digest", f"expected {receipt.question_digest}, what was asked has {built.question_digest}"
    if receipt.request is not None and receipt.request.ordering_form != built.ordering_form.value:
        yield "question-form", f"the parts are laid out as {built.ordering_form.value}, the receipt says another form"
    noted = receipt.request.requested_not_honoured if receipt.request is not None else msgspec.UNSET
    if (() if isinstance(noted, msgspec.UnsetType) else noted) != built.not_honoured:
        yield "request-not-honoured", "the parameters that were not sent are not those that the engine ignores"
    if body != built.body:
        yield from _differences(said, _said(read_strict(built.body, max_depth=_BODY_DEPTH)), document)


def _built(receipt: Receipt, asked: _Asked, said: _Said, profile: Profile, limits: Limits) -> ChatRequest:
    question = Question(
        parts=tuple(_part(part) for part in receipt.parts),
        max_output_tokens=asked.max_output_tokens,
        temperature=asked.temperature,
        answer_schema=_in_the_order_sent(asked.answer_schema, said.fields),
        parameters=parameters_of(asked.parameters),
        not_honoured=NotHonoured.RECORD,
    )
    return build_request(
        question,
        profile=profile,
        route=receipt.engine.route,
        staged_url=_urls(said, _ending(receipt)),
        limits=limits,
    )


def _ending(receipt: Receipt) -> str:
    """What the path of the folder ends with in which the media were staged: the tenant's, or one of all tenants."""
    is_flat = receipt.request is not None and receipt.request.staging == "flat"
    return "/" if is_flat else f"/{receipt.tenant}/"


def _urls(said: _Said, ending: str) -> MediaUrls:
    """The way in which the body carries its media, told by its first."""
    first = said.media[0][1] if said.media else ""
    if isinstance(first, str) and first.startswith("data:"):
        carried = {Digest.of(data): data for _, url in said.media if (data := _carried(url)) is not None}
        return DataUrls(lambda artifact: carried.get(artifact.digest, b""))
    folder = _folder(said, ending)
    return lambda artifact: folder + artifact.staged_name


def _carried(url: Any) -> bytes | None:
    """The bytes in a data URL; None if it is none. Whether it is written as we write it is judged by what is built."""
    if not isinstance(url, str):
        return None
    try:
        return base64.b64decode(url.partition(";base64,")[2], validate=True)
    except (binascii.Error, ValueError):
        return None


def _folder(said: _Said, ending: str) -> str:
    """The folder of the first medium, if its path ends so; otherwise one that no body can name."""
    first = said.media[0][1] if said.media else ""
    found = _STAGED_URL.fullmatch(first) if isinstance(first, str) else None
    return found[1] if found is not None and found[1].endswith(ending) else "file:"


def _part(part: PartRecord) -> Part:
    if part.text is not None:
        return TextPart(part.text)
    if part.artifact is None:
        raise InputError("part-artifact", f"part {part.index} has no artifact")
    seen = part.artifact
    artifact = Artifact(Digest.parse(seen.digest), seen.size_bytes, seen.media_type, seen.modality)
    return MediaPart(artifact, _locator(part))


def _locator(part: PartRecord) -> Locator:
    """Of a locator, a question knows whether it is a derivation, and by which transformation."""
    said = part.locator or {}
    transformation = said.get("transformation")
    if said.get("kind") == "derived" and isinstance(transformation, dict) and part.original is not None:
        return Derived(Digest.parse(part.original), transformation)
    return FileSource("")


def _in_the_order_sent(schema: dict[str, Any] | None, fields: dict[str, Any]) -> dict[str, Any] | None:
    """The receipt's schema with its keys in the order of the body's; the receipt's own where the body has another."""
    if schema is None:
        return None
    sent = fields.get("response_format")
    for name in ("json_schema", "schema"):
        sent = sent.get(name) if isinstance(sent, dict) else None
    if not isinstance(sent, dict):
        return schema
    bare = {name: value for name, value in sent.items() if name != _GUIDANCE_KEY or name in schema}
    if _GUIDANCE_KEY in bare:
        bare[_GUIDANCE_KEY] = schema[_GUIDANCE_KEY]
    try:
        return bare if canonical_json(bare) == canonical_json(schema) else schema
    except InputError:
        return schema


def _said(document: Any) -> _Said:
    media: list[Any] = []
    texts: list[Any] = []
    for message in document["messages"]:
        for item in message["content"]:
            kind = item["type"]
            if kind == "text":
                texts.append(item["text"])
            else:
                media.append((kind, item[kind]["url"]))
    return _Said(media, texts, {name: value for name, value in document.items() if name != "messages"})


_FIELD_RULES = {"model": "request-route", "max_tokens": "request-budget"}


def _differences(said: _Said, wanted: _Said, document: Any) -> Iterator[Fault]:
    """What two bodies that are not the same differ in: at least one fault."""
    told = False
    if said.media != wanted.media:
        told = True
        yield "request-artifacts", f"the request does not name the {len(wanted.media)} staged artifacts, in order"
    if said.texts != wanted.texts:
        told = True
        yield "request-texts", f"the request does not have the {len(wanted.texts)} texts, in order"
    for name in sorted({*said.fields, *wanted.fields}):
        if name not in said.fields or name not in wanted.fields or said.fields[name] != wanted.fields[name]:
            told = True
            rule = _FIELD_RULES.get(name, "request-fields")
            yield rule, f"the field {name[:32]!r} is not what the builder makes of the receipt"
    if not told:
        size = len(document["messages"])
        yield "request-bytes", f"the {size} messages hold what was asked, and are not the bytes the builder makes"
