"""The receipt, version 0: what one attempt did, bound by digests.

Its bytes are canonical JSON (RFC 8785) and its id is their digest, which therefore is not inside. Media, request and
stream are not inside either: they are blobs, named by digest. Numbers are integers, save in the two documents whose
own digest is in the receipt too (`question`, `limits.values`); RFC 8785 fixes the form of those. Times are UTC in
RFC 3339 with milliseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from contracts.artifact import Modality
from contracts.digest import Digest, canonical_json
from contracts.errors import InputError
from contracts.outcome import ENGINE_ANSWERED, NEVER_SUBMITTED, Outcome

RECEIPT_BYTES_MAX = 8 << 20  # 16 parts with their records are some 50 KiB; hostile files stop here
SCHEMA_ID = "urn:mosaic-evidence:schema:receipt.v0"
_TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"

DigestText = Annotated[str, msgspec.Meta(pattern=r"^sha256:[0-9a-f]{64}$")]
TimeText = Annotated[str, msgspec.Meta(pattern=_TIME)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Strict: unknown keys and wrong types are errors."""


class BundleRecord(_Document, frozen=True, kw_only=True):
    """The bundle that asked; `digest` is that of its file's bytes."""

    id: str
    digest: DigestText


class AttemptRecord(_Document, frozen=True, kw_only=True):
    """Which try of the question this was (from 1), and the id it had on the wire."""

    id: str
    number: Annotated[int, msgspec.Meta(ge=1)]
    request_id: str


class ArtifactRecord(_Document, frozen=True, kw_only=True):
    """contracts.artifact.Artifact.to_json."""

    digest: DigestText
    size_bytes: Count
    media_type: str
    modality: Modality


class PartRecord(_Document, frozen=True, kw_only=True):
    """One part of the question, in the bundle's order.

    A medium has what is known of it: the artifact as the worker sees it, `original` if that is a derivative of other
    bytes, its locator with its digest, the records of its acquisition and inspection, and what the bundle noted of
    its origin (`provenance`: caption, collected_at, collector). A text has its text.
    """

    index: Count
    kind: Literal["image", "audio", "video", "text"]
    artifact: ArtifactRecord | None = None
    original: DigestText | None = None
    locator: dict[str, Any] | None = None
    locator_digest: DigestText | None = None
    acquisition: dict[str, Any] | None = None
    inspection: dict[str, Any] | None = None
    provenance: dict[str, str] | None = None
    text: str | None = None


class RequestRecord(_Document, frozen=True, kw_only=True):
    """The request's bytes as sent (a blob), and how its parts were laid out in messages.

    `requested_not_honoured` names the parameters that were asked for and not sent, because the engine ignores them, as
    the bundle chose; absent where there are none. `staging` is there where files were not staged for this tenant alone:
    `flat` is one folder for all tenants of the host.
    """

    digest: DigestText
    size_bytes: Count
    ordering_form: str
    requested_not_honoured: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    staging: Literal["flat"] | msgspec.UnsetType = msgspec.UNSET


class StreamRecord(_Document, frozen=True, kw_only=True):
    """The response body as received (a blob); `events` counts its server-sent events."""

    digest: DigestText
    size_bytes: Count
    events: Count


class UsageRecord(_Document, frozen=True, kw_only=True):
    """Tokens, as the engine counted them."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count


class AnswerRecord(_Document, frozen=True, kw_only=True):
    """What the stream said. The text itself is in the stream; `text_digest` is that of its UTF-8 bytes."""

    text_digest: DigestText
    finish_reason: str | None
    usage: UsageRecord | None
    max_tokens: Count
    schema_digest: DigestText | None


class EngineRecord(_Document, frozen=True, kw_only=True):
    """Who answered, or would have: the release's document and its digest, the serve identity."""

    release: dict[str, Any]
    identity: DigestText
    profile: str
    route: str
    calibration_model: bool


class LimitsRecord(_Document, frozen=True, kw_only=True):
    """The limits in force."""

    digest: DigestText
    values: dict[str, int | float]


class PolicyRecord(_Document, frozen=True, kw_only=True):
    """The network policy in force."""

    name: str
    digest: DigestText


class LeaseRecord(_Document, frozen=True, kw_only=True):
    """A lease under which a file was read."""

    id: str
    fence: Count


class Receipt(_Document, frozen=True, kw_only=True):
    """One attempt. What never came to be is null.

    `reused` names the receipt whose request and stream answer this attempt too: the same question had been put to the
    same identity, so nothing was submitted.
    """

    receipt_version: Literal["receipt.v0"] = "receipt.v0"
    product_version: str
    run: str
    bundle: BundleRecord
    question_id: str
    attempt: AttemptRecord
    tenant: str
    outcome: Outcome
    rule: str | None
    reason: str | None
    parts: tuple[PartRecord, ...]
    question: dict[str, Any] | None
    question_digest: DigestText | None
    request: RequestRecord | None
    stream: StreamRecord | None
    answer: AnswerRecord | None
    reused: DigestText | None = None
    engine: EngineRecord
    limits: LimitsRecord
    policy: PolicyRecord | None
    leases: tuple[LeaseRecord, ...]
    layers: tuple[str, ...]
    started_at: TimeText
    finished_at: TimeText

    def __post_init__(self) -> None:
        """Raise InputError for a receipt that contradicts itself; the rule names how."""
        for name, broken in _contradictions(self):
            if broken:
                raise InputError(f"receipt-{name}", f"attempt {self.attempt.id} ({self.outcome.value})")

    def to_bytes(self) -> bytes:
        """The canonical bytes. Raises InputError for what has no canonical form, or floats outside the two places."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        floats = _find_float({name: value for name, value in document.items() if name not in ("question", "limits")})
        if floats is not None:
            raise InputError("receipt-float", f"{floats} is not an integer; write decimals as text")
        return canonical_json(document)


def receipt_id(data: bytes) -> Digest:
    """The id of a receipt: the digest of its bytes."""
    return Digest.of(data)


def parse_receipt(data: bytes) -> Receipt:
    """Read a receipt. Raises InputError for anything but the canonical bytes of a receipt that is consistent."""
    if len(data) > RECEIPT_BYTES_MAX:
        raise InputError("receipt-size", f"expected at most {RECEIPT_BYTES_MAX} bytes, got {len(data)}")
    try:
        receipt = msgspec.json.decode(data, type=Receipt)
        canonical = receipt.to_bytes()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError("receipt-form", f"not a receipt: {str(error)[:200]}") from error
    if canonical != data:
        raise InputError("receipt-canonical", f"the {len(data)} bytes are not the canonical form of what they say")
    return receipt


def exact(value: Any) -> Any:
    """`value` with every float as its shortest decimal text: how findings and records go into a receipt."""
    if isinstance(value, float):
        return re.sub(r"\.0$", "", repr(value))
    if isinstance(value, dict):
        return {name: exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [exact(each) for each in value]
    return value


def timestamp(seconds: float) -> str:
    """Epoch seconds as RFC 3339 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def schema_document() -> bytes:
    """The JSON Schema (2020-12) of receipts, as schemas/receipt.v0.json holds it."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **msgspec.json.schema(Receipt),
    }
    return msgspec.json.format(canonical_json(schema), indent=2) + b"\n"


def _contradictions(receipt: Receipt) -> tuple[tuple[str, bool], ...]:
    parts, outcome = receipt.parts, receipt.outcome
    whole = (receipt.question, receipt.request, receipt.stream, receipt.answer)
    has_media = any(part.kind != "text" for part in parts)
    return (
        ("part-order", [part.index for part in parts] != list(range(len(parts)))),
        ("part-kind", any((part.kind == "text") != (part.text is not None) for part in parts)),
        ("part-modality", any(part.artifact and part.artifact.modality.value != part.kind for part in parts)),
        ("part-locator", any((part.locator is None) != (part.locator_digest is None) for part in parts)),
        ("question-digest", (receipt.question is None) != (receipt.question_digest is None)),
        ("rule", outcome is Outcome.COMPLETE and receipt.rule is not None),
        ("submitted", outcome in NEVER_SUBMITTED and any((receipt.request, receipt.stream, receipt.answer))),
        ("unsubmitted", receipt.stream is not None and receipt.request is None),
        ("unanswered", outcome in ENGINE_ANSWERED and any(each is None for each in whole)),
        ("reused", receipt.reused is not None and outcome not in ENGINE_ANSWERED),
        ("media", outcome in ENGINE_ANSWERED and any(not _known(part) for part in parts)),
        ("leases", outcome in ENGINE_ANSWERED and has_media and not (receipt.leases or receipt.reused)),
    )


def _known(part: PartRecord) -> bool:
    return part.kind == "text" or (part.artifact is not None and part.locator is not None)


def _find_float(value: Any, path: str = "receipt") -> str | None:
    if isinstance(value, float):
        return path
    if isinstance(value, dict):
        nested = (_find_float(each, f"{path}.{name}") for name, each in value.items())
    elif isinstance(value, list | tuple):
        nested = (_find_float(each, f"{path}[{index}]") for index, each in enumerate(value))
    else:
        return None
    return next((found for found in nested if found is not None), None)
