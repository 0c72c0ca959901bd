"""The release manifest as it is written, version 1: the structs that parse it and that its schema is made from.

Every key but `derivatives` must be there; what does not apply to a release, or is not known of it, is an explicit null,
so that nobody has to guess whether it was forgotten. What the engine could do and we do not want (its UI, agent,
search, code execution, MCP, the log of payloads) has no key at all. What types cannot say is in `release_rules`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from contracts.artifact import Modality
from contracts.derivation_document import COLOUR_PATTERN, AudioRecipe, Derivatives, ImageRecipe, VideoRecipe

_END = r"$(?!\n)"  # `$` alone would accept a line feed after the end in Python, and only there
DIGEST_PATTERN = rf"^sha256:[0-9a-f]{{64}}{_END}"
COMMIT_PATTERN = rf"^[0-9a-f]{{40}}{_END}"
NAME_PATTERN = rf"^[a-z0-9][a-z0-9._-]{{0,63}}{_END}"
ROUTE_PATTERN = rf"^[!-~]{{1,512}}{_END}"
FILE_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,127}}{_END}"
WORD_PATTERN = rf"^[A-Za-z0-9][A-Za-z0-9._+-]{{0,63}}{_END}"
NOTE_PATTERN = rf"^[ -~]{{1,128}}{_END}"

PATTERN_WORDS = {
    DIGEST_PATTERN: "sha256: and 64 lowercase hex digits",
    COMMIT_PATTERN: "a commit of 40 lowercase hex digits",
    NAME_PATTERN: "lowercase letters, digits, '.', '_' and '-', at most 64",
    ROUTE_PATTERN: "1 to 512 printable ASCII characters without spaces",
    FILE_PATTERN: "the name of a file in the model's folder, at most 128 characters",
    WORD_PATTERN: "letters, digits, '.', '_', '+' and '-', at most 64",
    NOTE_PATTERN: "1 to 128 printable ASCII characters",
    COLOUR_PATTERN: "six lowercase hex digits, RRGGBB",
}
"""What each pattern asks for, as a message says it."""

DigestText = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Commit = Annotated[str, Meta(pattern=COMMIT_PATTERN)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Route = Annotated[str, Meta(pattern=ROUTE_PATTERN)]
File = Annotated[str, Meta(pattern=FILE_PATTERN)]
Word = Annotated[str, Meta(pattern=WORD_PATTERN)]
Note = Annotated[str, Meta(pattern=NOTE_PATTERN)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
Percent = Annotated[int, Meta(ge=1, le=99)]


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Strict: unknown keys, missing keys and wrong types are errors."""


class Wheel(_Section, frozen=True, kw_only=True):
    """An engine from a Python distribution: its name and version, and the digest of its compiled library."""

    distribution: Word
    version: Word
    library: DigestText


class Build(_Section, frozen=True, kw_only=True):
    """Which build of the engine: exactly one of `binary`, the server's own digest, and `wheel`.

    `target` is the compiler's triple, `features` those it was compiled with; `toolchain` (compiler, native toolkit)
    and `driver` are as observed. Null is: not known.
    """

    binary: DigestText | None
    wheel: Wheel | None
    target: Word | None
    features: tuple[Word, ...] | None
    toolchain: Note | None
    driver: Note | None


class Quantisation(_Section, frozen=True, kw_only=True):
    """How the weights are quantised.

    `isq` quantises at load to `level`; the others read `files` of the model's folder. `digest` is that of the record
    of how it was made: algorithm, group size, calibration data, exempt layers.
    """

    method: Literal["isq", "uqff", "gguf", "ggml"]
    level: Word | None
    files: tuple[File, ...]
    digest: DigestText


class Topology(_Section, frozen=True, kw_only=True):
    """The file of the model's folder that places layers on devices, and its digest."""

    file: File
    digest: DigestText


class Model(_Section, frozen=True, kw_only=True):
    """The model: what people call it, the upstream commit, and the bytes.

    `bundle` is the digest of the reviewed folder (all files); `tokenizer`, `processor`, `chat_template` (as resolved)
    and `licences` are digests of what is in it, null where the model has none.
    """

    public_id: Note
    revision: Commit | None
    bundle: DigestText
    tokenizer: DigestText | None
    processor: DigestText | None
    chat_template: DigestText | None
    licences: tuple[DigestText, ...]
    format: Literal["plain", "gguf", "ggml"]
    dtype: Literal["auto", "bf16", "f16", "f32"] | None
    quantisation: Quantisation | None
    topology: Topology | None


class Launch(_Section, frozen=True, kw_only=True):
    """Where the server listens: loopback, without its UI. `access_log` null leaves the engine's default."""

    host: str
    port: Port
    ui: bool
    access_log: Literal["json"] | None


class Pool(_Section, frozen=True, kw_only=True):
    """The pool of paged key-value blocks: sized by exactly one of context, memory (MB) and share of memory (%)."""

    context_tokens: Positive | None
    memory_mb: Positive | None
    memory_percent: Percent | None
    block_tokens: Positive | None
    cache_type: Literal["auto", "f8e4m3"]


class KeyValuePolicy(_Section, frozen=True, kw_only=True):
    """Keys and values: paged or not, and how many prefixes are kept.

    `tenants` says whose questions one worker answers: those of `one` tenant, so that its prefixes are partitioned from
    those of others, or of several (`shared`), and then no prefix is kept: its timing would tell one tenant what
    another asked.
    """

    paged_attention: Literal["off"] | Pool
    prefix_cache_n: Count
    tenants: Literal["one", "shared"]


class ReleaseLimits(_Section, frozen=True, kw_only=True):
    """What the engine is given and told to expect.

    `context_tokens` is the longest prompt and answer together. `max_seq_len`, `max_batch_size`, `max_num_images` and
    `max_image_length` size the engine's device mapping and refuse nothing; `max_edge` bounds images where the model's
    family heeds it. Null leaves the engine's default.
    """

    context_tokens: Positive
    max_seqs: Positive
    max_seq_len: Positive | None
    max_batch_size: Positive | None
    max_num_images: Positive | None
    max_edge: Positive | None
    max_image_length: Positive | None


class ReleaseDocument(_Section, frozen=True, kw_only=True):
    """A release, version 1.

    `engine` is a version of the profile table. `route` is the model's name on the wire; for a server that is launched
    it is the model's folder, named by its digest. `modalities` are those we accept, which may be fewer than the engine
    supports. `launch` is null for the engine in the box, which is no server of its own. `derivatives` alone may be
    left out: manifests, and the receipts that hold them, are older than it. Then videos are given as frames (ADR 0002),
    images and recordings as they are.
    """

    document: Literal["release.v1"]
    name: Name
    engine: str
    build: Build
    backend: Literal["cpu", "cuda", "metal"]
    route: Route
    model: Model
    launch: Launch | None
    kv: KeyValuePolicy
    modalities: tuple[Modality, ...]
    limits: ReleaseLimits
    calibration_model: bool
    derivatives: Derivatives | UnsetType = UNSET


SECTIONS: dict[tuple[str, ...], type[Struct]] = {
    (): ReleaseDocument,
    ("build",): Build,
    ("build", "wheel"): Wheel,
    ("model",): Model,
    ("model", "quantisation"): Quantisation,
    ("model", "topology"): Topology,
    ("launch",): Launch,
    ("kv",): KeyValuePolicy,
    ("kv", "paged_attention"): Pool,
    ("limits",): ReleaseLimits,
    ("derivatives",): Derivatives,
    ("derivatives", "image"): ImageRecipe,
    ("derivatives", "audio"): AudioRecipe,
    ("derivatives", "video"): VideoRecipe,
}
"""Where each struct stands in the document."""
