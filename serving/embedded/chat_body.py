"""The closed request body of the embedded worker. What is not listed here is refused, not ignored.

The engine's own server ignores unknown keys and lets requests switch on search, code execution and agent loops; this
one takes what the product sends and nothing else.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from contracts.digest import wire_json
from contracts.errors import InputError
from contracts.strict_json import read_strict

_MAX_TOKENS = 9_999  # the engine's response channel holds 10,000 and blocks everybody when full
_MAX_MESSAGES = 64
_MAX_PARTS = 64
_MAX_DEPTH = 80  # an answer form of 64 levels, and what holds it


class MediaUrl(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where a medium is staged."""

    url: Annotated[str, msgspec.Meta(max_length=4096)]


class TextPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="text"):
    """Text of a message."""

    text: str


class ImagePart(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="image_url"):
    """A staged image."""

    image_url: MediaUrl


class AudioPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="audio_url"):
    """A staged sound."""

    audio_url: MediaUrl


class VideoPart(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag_field="type", tag="video_url"):
    """A staged clip."""

    video_url: MediaUrl


Part = TextPart | ImagePart | AudioPart | VideoPart


class Message(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str | Annotated[list[Part], msgspec.Meta(min_length=1, max_length=_MAX_PARTS)]


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A named answer form. `strict` is accepted and has no meaning: the grammar always holds."""

    name: str
    schema: dict[str, Any]
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The answer form, enforced by the engine's grammar."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


class ChatBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A chat request. `stream` must be true: a request that does not stream cannot be cancelled in the engine."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=_MAX_MESSAGES)]
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=_MAX_TOKENS)]
    stream: Literal[True]
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    enable_thinking: bool | None = None
    response_format: ResponseFormat | None = None

    @property
    def grammar(self) -> str | None:
        """The answer form as the engine takes it: a JSON Schema's text, with `x-guidance` as the client gave it."""
        return None if self.response_format is None else wire_json(self.response_format.json_schema.schema).decode()


def parse_body(data: bytes) -> ChatBody:
    """Read a request body. Raises InputError (`body-json` or `body-field`) that names the field, never its value."""
    try:
        value = read_strict(data, max_depth=_MAX_DEPTH)
    except InputError as error:
        raise InputError("body-json", error.reason) from None
    try:
        return msgspec.convert(value, ChatBody)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError("body-field", str(error)[:300]) from None
