"""Flags of `mistralrs serve`: since when, their values, and whether anything of ours can say them.

Flags that are not here are said by nothing of ours either. Values and defaults are those of the parsers in
mistralrs-cli at v0.8.2 (args/mod.rs, model.rs, server.rs, paged_attn.rs, sandbox.rs), or of the first version that has
the flag; its documents name flags that the code lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from contracts.profile_fact import Basis

OLDEST = "0.8.2"
"""The oldest version with a profile: a flag since then may be older."""


@dataclass(frozen=True, slots=True)
class LaunchFlag:
    """A flag. `values` describes what it takes, empty for a switch; `default` is None where there is none or where it
    was not looked up. `why_never` says why no release can ask for it, None where one can."""

    name: str
    since: str
    values: str
    default: str | None
    effect: str
    why_never: str | None
    basis: Basis
    source: str


def first_version(flag: str) -> str | None:
    """The first version that has `flag`; `OLDEST` also for what is older; None for a flag that no version has."""
    return next((each.since for each in LAUNCH_FLAGS if each.name == flag), None)


def numbers(version: str) -> tuple[int, ...]:
    """`version` in a form that orders: 0.8.17 is after 0.8.2."""
    return tuple(int(part) for part in version.split("."))


def flags_of(version: str) -> tuple[LaunchFlag, ...]:
    """The flags that a server of `version` has, of those in the table.

    That a later version dropped one is not known here; its parser would refuse to start.
    """
    return tuple(flag for flag in LAUNCH_FLAGS if numbers(flag.since) <= numbers(version))


_ACTS = "gives the engine means to act: none of ours may"
_AUTO = "sizes the device mapping; refuses nothing"

_ASKED: tuple[tuple[str, str, str | None, str, str], ...] = (
    # name, values, default, effect, file
    ("--model-id", "a folder or a hub's name", None, "the model; ours is always a folder", "args/mod.rs"),
    ("--format", "plain, gguf, ggml", "plain", "how weights are stored; left out, it is detected", "args/model.rs"),
    ("--dtype", "auto, bf16, f16, f32", "auto", "type to compute in", "core/utils/normal.rs"),
    ("--isq", "a level such as 4, 8, q4k", None, "quantises while loading", "args/model.rs"),
    ("--from-uqff", "files", None, "weights quantised before", "args/model.rs"),
    ("--quantized-file", "files", None, "weights quantised before, for gguf and ggml", "args/model.rs"),
    ("--topology", "a YAML file", None, "places layers on devices", "args/model.rs"),
    ("--host", "an address", "0.0.0.0", "where it listens; ours is loopback only", "args/server.rs"),  # noqa: S104
    ("--port", "1 to 65535", "1234", "where it listens", "args/server.rs"),
    ("--no-ui", "", None, "no page at /ui; /docs stays", "args/server.rs"),
    ("--max-seqs", "a number", "32", "sequences at once; no hard cap without paged attention", "args/mod.rs"),
    ("--max-seq-len", "tokens", "4096", f"{_AUTO}: no cap of the context", "args/model.rs"),
    ("--max-batch-size", "a number", "1", _AUTO, "args/model.rs"),
    ("--max-num-images", "a number", None, f"{_AUTO}, whatever its help says", "args/model.rs"),
    ("--max-image-length", "pixels", None, _AUTO, "args/model.rs"),
    ("--max-edge", "pixels", None, "resizes images, in families that heed it", "args/model.rs"),
    (
        "--paged-attn",
        "auto, on, off",
        "auto",
        "paged key-value memory; on a CPU `on` warns and stays off",
        "paged_attn.rs",
    ),
    ("--pa-context-len", "tokens", None, "size of the pool; one of three", "args/paged_attn.rs"),
    ("--pa-memory-mb", "megabytes", None, "size of the pool; one of three", "args/paged_attn.rs"),
    ("--pa-memory-fraction", "0 to 1", None, "size of the pool; one of three", "args/paged_attn.rs"),
    ("--pa-block-size", "tokens", None, "tokens in a block", "args/paged_attn.rs"),
    ("--pa-cache-type", "auto, f8e4m3", "auto", "type of the pool", "args/paged_attn.rs"),
    ("--prefix-cache-n", "a number", "16", "prefixes kept; 0 keeps none", "args/mod.rs"),
    ("--cpu", "", None, "computes on the CPU", "args/model.rs"),
)

_NEVER: tuple[tuple[str, str, str, str | None, str, str], ...] = (
    # name, first version, values, default, why never, source
    ("--agent", OLDEST, "", None, f"search and code together; {_ACTS}", "args/mod.rs"),
    ("--enable-search", OLDEST, "", None, f"web search; {_ACTS}", "args/mod.rs"),
    ("--search-embedding-model", OLDEST, "embedding-gemma", None, f"web search; {_ACTS}", "args/mod.rs"),
    ("--enable-code-execution", OLDEST, "", None, f"Python; {_ACTS}", "args/mod.rs"),
    ("--code-exec-python", OLDEST, "a path", None, f"Python; {_ACTS}", "args/mod.rs"),
    ("--code-exec-timeout", OLDEST, "seconds", None, f"Python; {_ACTS}", "args/mod.rs"),
    ("--code-exec-workdir", OLDEST, "a folder", None, f"Python; {_ACTS}", "args/mod.rs"),
    ("--agent-permission", OLDEST, "auto, ask, deny", "auto", f"whether tools ask; {_ACTS}", "args/mod.rs"),
    ("--enable-shell", "0.8.4", "", None, f"a shell; {_ACTS}", "git grep over tags"),
    ("--skills-dir", "0.8.4", "a folder", None, f"scripts that were uploaded; {_ACTS}", "git grep over tags"),
    ("--mcp-port", "0.8.4", "a port", None, f"a second protocol; {_ACTS}", "git grep over tags; documented before"),
    (
        "--mcp-config",
        OLDEST,
        "a file",
        None,
        f"servers with tools, also by MCP_CONFIG_PATH; {_ACTS}",
        "commands/serve.rs",
    ),
    ("--max-tool-rounds", OLDEST, "a number", None, "puts every request through the agentic loop", "add_request.rs"),
    (
        "--tool-dispatch-url",
        OLDEST,
        "a URL",
        None,
        "sends tool calls elsewhere, each request in the loop",
        "add_request.rs",
    ),
    ("--log", OLDEST, "a file", None, "writes whole requests and answers, media too", "core/lib.rs"),
    (
        "--seed",
        OLDEST,
        "a number",
        None,
        "has no effect on sampling, so it would promise what is not",
        "core/engine/mod.rs",
    ),
    ("--lora", OLDEST, "adapters", None, "other weights than the manifest pins", "args/model.rs"),
    ("--xlora", OLDEST, "an adapter", None, "other weights than the manifest pins", "args/model.rs"),
    ("--quant", OLDEST, "a level", None, "may fetch another artifact than was named", "args/model.rs"),
    ("--chat-template", OLDEST, "a file", None, "the template is in the pinned bundle", "args/mod.rs"),
    ("--jinja-explicit", OLDEST, "a file", None, "the template is in the pinned bundle", "args/mod.rs"),
    ("--disable-access-log", "0.8.11", "", None, "the log is how a request is found again", "PR 2248"),
    ("--disable-request-id-header", "0.8.11", "", None, "the echo ties an answer to its request", "PR 2248"),
    ("--disable-metrics", "0.8.4", "", None, "the operator's scraper would see nothing", "git grep over tags"),
)

_OTHER: tuple[tuple[str, str, str | None, str, str], ...] = (
    # name, values, default, why never, source; all since `OLDEST`
    ("--tokenizer", "a file", None, "the tokenizer is in the pinned bundle", "args/mod.rs"),
    ("--tok-model-id", "a hub's name", None, "the tokenizer is in the pinned bundle", "args/model.rs"),
    ("--arch", "a family", None, "the bundle's configuration says it", "args/mod.rs"),
    ("--gqa", "a number", "1", "for ggml files that do not say it", "args/model.rs"),
    ("--xlora-order", "a file", None, "other weights than the manifest pins", "args/model.rs"),
    ("--tgt-non-granular-index", "a number", None, "part of X-LoRA", "args/model.rs"),
    ("--isq-organization", "a name", None, "how it quantises beyond the level; no field for it", "args/model.rs"),
    ("--imatrix", "a file", None, "steers quantising at load by a file that no digest pins", "args/model.rs"),
    ("--calibration-file", "a file", None, "steers quantising at load by a file that no digest pins", "args/model.rs"),
    ("--matformer-*", "a file, a name", None, "takes a part of the model: other weights than pinned", "args/mod.rs"),
    ("--mtp-model", "a model", None, "a second model, which no digest pins", "args/mod.rs"),
    ("--mtp-n-predict", "a number", None, "part of --mtp-model", "args/mod.rs"),
    ("--device-layers", "layers by device", None, "placement is the topology's, which has a digest", "args/model.rs"),
    ("--hf-cache", "a folder", None, "nothing is loaded from a hub", "args/model.rs"),
    ("--token-source", "cache and others", "cache", "a credential for the model hub", "args/mod.rs"),
    ("--no-kv-cache", "", None, "computes each token anew; no release needs it", "args/mod.rs"),
    ("--sandbox", "auto, on, off", "auto", f"confines tools; {_ACTS}", "sandbox.rs"),
    ("--sandbox-network", "none, loopback, full", "loopback", f"confines tools; {_ACTS}", "sandbox.rs"),
    ("--sb-max-memory-mb", "megabytes", None, f"confines tools; {_ACTS}", "sandbox.rs"),
    ("--sb-max-cpu-secs", "seconds", None, f"confines tools; {_ACTS}", "sandbox.rs"),
    ("--sb-max-procs", "a number", None, f"confines tools; {_ACTS}", "sandbox.rs"),
    ("--verbose", "", None, "-v; debug levels write payloads into the log", "args/mod.rs"),
)


def _flags() -> Iterator[LaunchFlag]:
    for name, values, default, effect, file in _ASKED:
        yield LaunchFlag(name, OLDEST, values, default, effect, None, Basis.READ, file)
    logged = "a line per request, without payloads"
    known = "json; others were not looked up"
    source = "PR 2248, git grep over tags"
    yield LaunchFlag("--access-log-format", "0.8.11", known, None, logged, None, Basis.READ, source)
    others = ((name, OLDEST, values, default, why, source) for name, values, default, why, source in _OTHER)
    for name, since, values, default, why, source in (*_NEVER, *others):
        yield LaunchFlag(name, since, values, default, why, why, Basis.READ, source)


LAUNCH_FLAGS: tuple[LaunchFlag, ...] = tuple(_flags())
"""All flags that we know of and care for: those a release can ask for, and those that nothing of ours can say."""
