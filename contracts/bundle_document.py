"""The bundle as it is written: the structs that a YAML or JSON text is converted to, and the schema is made from.

Absent and null are different: no key may be null. What a struct cannot say (one kind per part, how a location must
look) is in `bundle_rules`, and in the schema as far as a schema can say it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from contracts.parameters import NotHonoured, ParametersDocument
from contracts.question import Ordering

VERSION = 1
MAX_TEMPERATURE = 2.0  # what the OpenAI request allows, and engines after it
MAX_LOCATION_CHARACTERS = 4_096  # PATH_MAX of Linux; a signed URL is a quarter of it
_END = r"$(?!\n)"  # `$` alone would accept a line feed after the end in Python, and only there

Name = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}{_END}")]
ReleaseName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9._-]{{0,63}}{_END}")]
TenantName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,31}}{_END}")]
PolicyName = Annotated[str, Meta(pattern=rf"^[a-z0-9][a-z0-9-]{{0,63}}{_END}")]
Sha256 = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{64}}{_END}")]
Timestamp = Annotated[  # RFC 3339 section 5.6; whether the date exists is checked afterwards
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
        rf"([Zz]|[+-][0-9]{{2}}:[0-9]{{2}}){_END}"
    ),
]
Location = Annotated[str, Meta(min_length=1, max_length=MAX_LOCATION_CHARACTERS)]
Note = Annotated[str, Meta(min_length=1, max_length=4_096)]
Tokens = Annotated[int, Meta(ge=1)]
Temperature = Annotated[float, Meta(ge=0, le=MAX_TEMPERATURE)]


class PartDocument(Struct, forbid_unknown_fields=True, frozen=True):
    """One part: exactly one of `image`, `audio`, `video` (where it is; contracts.bundle_location) or `text`."""

    image: Location | UnsetType = UNSET
    audio: Location | UnsetType = UNSET
    video: Location | UnsetType = UNSET
    text: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    sha256: Sha256 | UnsetType = UNSET
    caption: Note | UnsetType = UNSET
    collected_at: Timestamp | UnsetType = UNSET
    collector: Note | UnsetType = UNSET


class AnswerDocument(Struct, forbid_unknown_fields=True, frozen=True):
    """An answer that must satisfy a JSON Schema (draft 2020-12)."""

    json_schema: dict[str, Any]


class RetryDocument(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How often a question may be tried, and whether a later try may have another token budget."""

    attempts: Annotated[int, Meta(ge=1)] = 1
    change_budget: bool = False


class DefaultsDocument(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What may stand at the top for all questions, or in one question for itself."""

    max_output_tokens: Tokens | UnsetType = UNSET
    temperature: Temperature | UnsetType = UNSET
    ordering: Ordering | UnsetType = UNSET
    release: ReleaseName | UnsetType = UNSET
    parameters: ParametersDocument | UnsetType = UNSET
    not_honoured: NotHonoured | UnsetType = UNSET
    retry: RetryDocument | UnsetType = UNSET


class QuestionDocument(DefaultsDocument, frozen=True, kw_only=True):
    """One question: ordered parts, and what may be said about its answer."""

    id: Name
    parts: Annotated[tuple[PartDocument, ...], Meta(min_length=1)]
    answer: Literal["text"] | AnswerDocument = "text"
    labels: dict[str, str] = {}


class HeadDocument(DefaultsDocument, frozen=True, kw_only=True):
    """Everything of a bundle but its questions."""

    version: Literal[1]
    id: Name
    tenant: TenantName | UnsetType = UNSET
    policy: PolicyName | UnsetType = UNSET
    limits: dict[str, float] = {}


class BundleDocument(HeadDocument, frozen=True, kw_only=True):
    """A bundle, version 1."""

    questions: Annotated[tuple[QuestionDocument, ...], Meta(min_length=1)]
