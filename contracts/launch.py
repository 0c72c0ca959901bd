"""From a release to the arguments of `mistralrs`, never to a shell's text; and what its environment must not hold.

A release says what is wanted; the engine's version says which flags there are. What a version lacks is refused with
the version that has it, and never left out. The engine's documents are wrong about its flags, so only its source
counts: the parsers of mistralrs-cli (args/mod.rs, model.rs, server.rs, paged_attn.rs) at the version's tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from contracts.errors import InputError
from contracts.profile import Profile
from contracts.profile_launch import first_version, numbers
from contracts.release import Release
from contracts.release_document import Launch, Model, Pool, ReleaseLimits

Argument = tuple[str, str | None, str]
"""A flag, its value where it takes one, and the field that asks for it."""

_SCRUBBED: Mapping[str, str] = {
    "MCP_CONFIG_PATH": "connects the engine to MCP servers, as --mcp-config does",
    "MISTRALRS_*": "switches of the engine that no manifest states, such as LoRA updates at run time",
    "KEEP_ALIVE_INTERVAL": "changes the keep-alive that the profile states",
    "RUST_LOG": "debug levels write payloads into the log",
    "HF_*": "token, mirror and cache of the model hub: only the pinned folder is read",
    "HUGGING_FACE_HUB_TOKEN": "a credential for the model hub",
    "*_PROXY": "the engine's HTTP client would follow it",
    "TMPDIR": "decoded frames would go where nobody looks after them",
    "LD_*": "puts other code into the pinned binary, by name or by another folder of libraries",
    "DYLD_*": "the same on macOS",
    "GLIBC_TUNABLES": "changes the allocator and the loader below the pinned binary",
    "RUST_BACKTRACE": "writes paths and code into the texts of errors",
    "RUST_LIB_BACKTRACE": "writes paths and code into the texts of errors",
    "MOSAIC_*": "settings of ours, which may hold credentials",
    "PREFECT_*": "settings of the scheduler, which may hold credentials",
    "AWS_*": "credentials of the object store",
}


def launch_argv(release: Release, profile: Profile) -> tuple[str, ...]:
    """The arguments after the program's name.

    Raises InputError: launch-none for the engine in the box, launch-profile for the profile of another version, and
    launch-flag with every flag that this version lacks, the field that asks for it, and the first version that has it.
    """
    if release.launch is None:
        raise InputError("launch-none", f"{release.name} is the engine in the box: no server, so no arguments")
    if profile.version != release.engine:
        raise InputError("launch-profile", f"expected the profile of {release.engine}, got that of {profile.version}")
    arguments = list(_arguments(release, release.launch))
    lacking = [
        f"{flag} (asked for by {field}) does not exist in {profile.version}, first in {first_version(flag)}"
        for flag, _, field in arguments
        if not has_flag(profile.version, flag)
    ]
    if lacking:
        raise InputError("launch-flag", f"{release.name}: {'; '.join(lacking)}")
    return ("serve", *(text for flag, value, _ in arguments for text in (flag, value) if text is not None))


def has_flag(version: str, flag: str) -> bool:
    """Whether `version` has `flag`, one of those that `launch_argv` writes."""
    since = first_version(flag)
    return since is not None and numbers(since) <= numbers(version)


def scrubbed_environment() -> Mapping[str, str]:
    """Names of variables that must not reach an engine (`*` stands for any text), each with the reason."""
    return _SCRUBBED


def without_scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what steers an engine past its manifest; names are compared in upper case."""
    return {
        name: value
        for name, value in environment.items()
        if not any(fnmatchcase(name.upper(), pattern) for pattern in _SCRUBBED)
    }


def _arguments(release: Release, launch: Launch) -> Iterator[Argument]:
    """In the order of the seed's plan."""
    yield "--model-id", release.route, "route"
    yield from _weights(release.model, release.route)
    yield "--host", launch.host, "launch.host"
    yield "--port", str(launch.port), "launch.port"
    yield "--no-ui", None, "launch.ui"
    if launch.access_log is not None:
        yield "--access-log-format", launch.access_log, "launch.access_log"
    yield "--max-seqs", str(release.limits.max_seqs), "limits.max_seqs"
    yield from _sizes(release.limits, ("max_seq_len", "max_batch_size"))
    yield from _paged_attention(release.kv.paged_attention)
    yield "--prefix-cache-n", str(release.kv.prefix_cache_n), "kv.prefix_cache_n"
    yield from _sizes(release.limits, ("max_num_images", "max_edge", "max_image_length"))
    if release.backend == "cpu":
        yield "--cpu", None, "backend"


def _weights(model: Model, folder: str) -> Iterator[Argument]:
    yield "--format", model.format, "model.format"
    if model.dtype is not None:
        yield "--dtype", model.dtype, "model.dtype"
    if model.quantisation is not None:
        flags = {"isq": "--isq", "uqff": "--from-uqff", "gguf": "--quantized-file", "ggml": "--quantized-file"}
        value = model.quantisation.level or ";".join(model.quantisation.files)
        yield flags[model.quantisation.method], value, "model.quantisation"
    if model.topology is not None:
        yield "--topology", f"{folder}/{model.topology.file}", "model.topology"


def _sizes(limits: ReleaseLimits, names: tuple[str, ...]) -> Iterator[Argument]:
    for name in names:
        value = getattr(limits, name)
        if value is not None:
            yield f"--{name.replace('_', '-')}", str(value), f"limits.{name}"


def _paged_attention(pool: str | Pool) -> Iterator[Argument]:
    where = "kv.paged_attention"
    if not isinstance(pool, Pool):
        yield "--paged-attn", "off", where
        return
    yield "--paged-attn", "on", where
    if pool.context_tokens is not None:
        yield "--pa-context-len", str(pool.context_tokens), f"{where}.context_tokens"
    if pool.memory_mb is not None:
        yield "--pa-memory-mb", str(pool.memory_mb), f"{where}.memory_mb"
    if pool.memory_percent is not None:
        yield "--pa-memory-fraction", f"0.{pool.memory_percent:02d}", f"{where}.memory_percent"
    if pool.block_tokens is not None:
        yield "--pa-block-size", str(pool.block_tokens), f"{where}.block_tokens"
    yield "--pa-cache-type", pool.cache_type, f"{where}.cache_type"
