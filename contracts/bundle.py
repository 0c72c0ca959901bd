"""The bundle: what is asked about which media, parsed strictly.

`parse_bundle` is the only way from text to a `Bundle`, and a `Bundle` cannot exist invalid: below it nobody checks
again. Tenant, policy and limits in it are assertions against the deployment's settings (`apply_assertions`): they
may confirm or narrow, never widen. Nothing is opened or fetched here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from contracts.artifact import Modality
from contracts.bundle_document import (
    VERSION,
    AnswerDocument,
    BundleDocument,
    PartDocument,
    QuestionDocument,
    RetryDocument,
)
from contracts.bundle_json import read_json
from contracts.bundle_location import source_of
from contracts.bundle_reader import Document
from contracts.bundle_rules import Finding, defaults_findings, part_kind, question_findings
from contracts.bundle_types import type_findings
from contracts.bundle_yaml import read_yaml
from contracts.digest import Digest, canonical_digest, canonical_json
from contracts.errors import InputError
from contracts.limits import Limits
from contracts.locator import Source
from contracts.parameters import NO_PARAMETERS, NotHonoured, ParametersDocument, decimal_string
from contracts.question import Ordering, TextPart
from contracts.request_bounds import counted
from contracts.retry import NO_RETRY, RetryRule

DEFAULT_OUTPUT_TOKENS = 256  # a paragraph; who wants more says so
MAX_FINDINGS = 20  # more than anybody mends before the next try


@dataclass(frozen=True, slots=True)
class MediaSource:
    """A medium as the bundle names it: `location` is an http(s) URL, an object `s3://bucket/key`, bytes of the store
    `sha256:<hex>`, or a path beneath the bundle's folder.

    `sha256` is what the bundle says the bytes must have; the rest is provenance, carried and never interpreted
    (`collected_at` in RFC 3339).
    """

    modality: Modality
    location: str
    sha256: Digest | None = None
    caption: str | None = None
    collected_at: str | None = None
    collector: str | None = None

    @property
    def is_url(self) -> bool:
        """Whether the medium is fetched from the web."""
        return self.location[:8].lower().startswith(("http://", "https://"))

    @property
    def source(self) -> Source:
        """The locator of the original."""
        return source_of(self.location)

    def to_json(self) -> dict[str, Any]:
        """The form that the bundle's digest covers."""
        noted = {"caption": self.caption, "collected_at": self.collected_at, "collector": self.collector}
        if self.sha256 is not None:
            noted["sha256"] = self.sha256.hex
        return {self.modality.value: self.location} | {key: value for key, value in noted.items() if value is not None}


BundlePart = MediaSource | TextPart


@dataclass(frozen=True, slots=True)
class BundleQuestion:
    """A question as asked, with the bundle's defaults applied. `parts` is in the order written, and order is meaning.

    `temperature` is a decimal string; `release` None means the deployment's; `answer_schema` None means free text.
    """

    id: str
    parts: tuple[BundlePart, ...]
    max_output_tokens: int
    temperature: str
    ordering: Ordering
    release: str | None
    answer_schema: dict[str, Any] | None = field(hash=False)
    labels: Mapping[str, str] = field(hash=False)
    parameters: ParametersDocument = NO_PARAMETERS
    not_honoured: NotHonoured = NotHonoured.REFUSE
    retry: RetryRule = NO_RETRY

    @property
    def media(self) -> tuple[MediaSource, ...]:
        """The media, in order."""
        return tuple(part for part in self.parts if isinstance(part, MediaSource))

    def to_json(self) -> dict[str, Any]:
        """The form that the bundle's digest covers."""
        parts = [{"text": part.text} if isinstance(part, TextPart) else part.to_json() for part in self.parts]
        return {
            "id": self.id,
            "parts": parts,
            "max_output_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "ordering": self.ordering.value,
            "release": self.release,
            "answer": "text" if self.answer_schema is None else {"json_schema": self.answer_schema},
            "labels": dict(self.labels),
        } | self._rarely_said()

    def _rarely_said(self) -> dict[str, Any]:
        """What is in the digest only where it is not the default, so that it changed no older bundle's digest."""
        said: dict[str, Any] = {}
        if self.parameters != NO_PARAMETERS:
            said["parameters"] = self.parameters.identity()
        if self.not_honoured is not NotHonoured.REFUSE:
            said["not_honoured"] = self.not_honoured.value
        if self.retry != NO_RETRY:
            said["retry"] = {"attempts": self.retry.attempts, "change_budget": self.retry.change_budget}
        return said


@dataclass(frozen=True, slots=True)
class Bundle:
    """A parsed bundle. `tenant`, `policy` and `limits` are what it asserts, None or empty where it is silent."""

    id: str
    questions: tuple[BundleQuestion, ...]
    tenant: str | None = None
    policy: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict, hash=False)

    def digest(self) -> Digest:
        """The identity of what the bundle says: the same for YAML, JSON and any layout, with the defaults applied."""
        head = {"version": VERSION, "id": self.id, "tenant": self.tenant, "policy": self.policy}
        limits = {name: decimal_string(value) for name, value in self.limits.items()}
        # A list of digests, so that a million questions are never one canonical text in memory.
        questions = [str(canonical_digest(question.to_json())) for question in self.questions]
        return canonical_digest({**head, "limits": limits, "questions": questions})


def parse_bundle(data: bytes, *, name: str, limits: Limits) -> Bundle:
    """The bundle in `data`: JSON where `name` ends in .json, else YAML; UTF-8.

    `name` is what messages call the document. Raises InputError: its rule is that of the first problem, its reason
    has a line `name:line: what` for each of up to `MAX_FINDINGS` problems. Questions are held to `limits` as the bundle
    itself narrows them.
    """
    if len(data) > limits.bundle_bytes:
        raise InputError("bundle-size", f"{name}: expected at most {limits.bundle_bytes} bytes, got {len(data)}")
    document = _read(data, name)
    try:
        parsed = msgspec.convert(document.value, BundleDocument)
    except msgspec.ValidationError:
        raise _refusal(document, list(islice(type_findings(document.value), MAX_FINDINGS))) from None
    findings = list(islice(_findings(parsed, limits), MAX_FINDINGS))
    if findings:
        raise _refusal(document, findings)
    return _resolved(parsed)


def apply_assertions(bundle: Bundle, *, tenant: str, policy_name: str, limits: Limits) -> Limits:
    """The limits in force for `bundle` under a deployment's `tenant`, policy and `limits`.

    Raises InputError: bundle-tenant or bundle-policy where the bundle asserts another one, limits-unknown and
    limits-only-narrow, and bundle-narrowed where a question does not fit what is then in force.
    """
    for key, asserted, actual in (("tenant", bundle.tenant, tenant), ("policy", bundle.policy, policy_name)):
        if asserted is not None and asserted != actual:
            raise InputError(f"bundle-{key}", f"bundle {bundle.id} is for {key} {asserted!r}, in force is {actual!r}")
    narrowed = limits.narrowed(bundle.limits)
    _check_count(len(bundle.questions), narrowed, bundle.id)
    for question in bundle.questions:
        for name, got in _sizes(question):
            if got > getattr(narrowed, name):
                reason = f"question {question.id}: expected at most {getattr(narrowed, name)}, got {got}"
                raise InputError("bundle-narrowed", f"{reason} (limits.{name})")
    return narrowed


def _read(data: bytes, name: str) -> Document:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("bundle-syntax", f"{name}:{line}: expected UTF-8, got other bytes") from error
    return read_json(name, text) if name.lower().endswith(".json") else read_yaml(name, text)


def _findings(document: BundleDocument, limits: Limits) -> Iterator[Finding]:
    try:
        limits = limits.narrowed(document.limits)
    except InputError as error:
        yield ("limits",), error.rule, error.reason
    if len(document.questions) > limits.bundle_questions:
        reason = f"expected at most {limits.bundle_questions} questions, got {len(document.questions)}"
        yield ("questions",), "bundle-questions", reason
        return
    yield from defaults_findings(document, (), limits)
    seen: dict[str, int] = {}
    for index, question in enumerate(document.questions):
        first = seen.setdefault(question.id, index)
        if first != index:
            reason = f"the id {question.id!r} is already that of question {first + 1}"
            yield ("questions", index, "id"), "bundle-duplicate-id", reason
        yield from question_findings(question, ("questions", index), limits)


def _refusal(document: Document, findings: list[Finding]) -> InputError:
    lines = document.lines(path for path, _, _ in findings)
    ordered = sorted(findings, key=lambda finding: lines[finding[0]])
    several = len(findings) > 1
    told = [
        f"{document.name}:{lines[path]}: {reason}{f' ({rule})' if several else ''}" for path, rule, reason in ordered
    ]
    if len(findings) == MAX_FINDINGS:
        told.append(f"{document.name}: stopped after {MAX_FINDINGS} problems")
    return InputError(ordered[0][1], "\n".join(told))


def _check_count(count: int, limits: Limits, bundle_id: str) -> None:
    if count > limits.bundle_questions:
        reason = f"bundle {bundle_id}: expected at most {limits.bundle_questions} questions, got {count}"
        raise InputError("bundle-narrowed", f"{reason} (limits.bundle_questions)")


def _sizes(question: BundleQuestion) -> Iterator[tuple[str, int]]:
    """Everything about a question that a limit bounds, by the limit's name."""
    yield "question_parts", len(question.parts)
    for modality in Modality:
        yield counted(modality), sum(part.modality is modality for part in question.media)
    yield "question_attempts", question.retry.attempts
    yield "prompt_bytes", sum(len(part.text.encode()) for part in question.parts if isinstance(part, TextPart))
    yield "output_tokens", question.max_output_tokens
    yield "labels", len(question.labels)
    yield (
        "label_bytes",
        max((len(key.encode()) + len(value.encode()) for key, value in question.labels.items()), default=0),
    )
    yield "schema_bytes", 0 if question.answer_schema is None else len(canonical_json(question.answer_schema))


def _resolved(document: BundleDocument) -> Bundle:
    return Bundle(
        id=document.id,
        questions=tuple(_question(question, document) for question in document.questions),
        tenant=_or(document.tenant, None),
        policy=_or(document.policy, None),
        limits=document.limits,
    )


def _question(question: QuestionDocument, top: BundleDocument) -> BundleQuestion:
    return BundleQuestion(
        id=question.id,
        parts=tuple(_part(part) for part in question.parts),
        max_output_tokens=_or(question.max_output_tokens, _or(top.max_output_tokens, DEFAULT_OUTPUT_TOKENS)),
        temperature=decimal_string(_or(question.temperature, _or(top.temperature, 0.0))),
        ordering=_or(question.ordering, _or(top.ordering, Ordering.AUTO)),
        release=_or(question.release, _or(top.release, None)),
        answer_schema=question.answer.json_schema if isinstance(question.answer, AnswerDocument) else None,
        labels=question.labels,
        parameters=_or(question.parameters, _or(top.parameters, NO_PARAMETERS)),
        not_honoured=_or(question.not_honoured, _or(top.not_honoured, NotHonoured.REFUSE)),
        retry=_retry(_or(question.retry, top.retry)),
    )


def _retry(asked: RetryDocument | UnsetType) -> RetryRule:
    return NO_RETRY if isinstance(asked, UnsetType) else RetryRule(asked.attempts, asked.change_budget)


def _part(part: PartDocument) -> BundlePart:
    found = part_kind(part)
    if found is None:
        raise InputError("bundle-part-kind", "a part has exactly one kind")
    kind, value = found
    if kind == "text":
        return TextPart(value)
    return MediaSource(
        modality=Modality(kind),
        location=value,
        sha256=None if isinstance(part.sha256, UnsetType) else Digest(part.sha256),
        caption=_or(part.caption, None),
        collected_at=_or(part.collected_at, None),
        collector=_or(part.collector, None),
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is UNSET else value
