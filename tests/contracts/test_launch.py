"""The launch plan: exactly the seed's vector, nothing else expressible, nothing ever left out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from contracts.errors import InputError
from contracts.launch import launch_argv, scrubbed_environment, without_scrubbed
from contracts.profile import PROFILES, profile
from contracts.release import Release, parse_release
from tests.contracts.releases import PLAN, WHOLE, changed, embedded_release, launched_release, manifest

SEED = (
    f"serve --model-id /srv/mosaic-models/{'2' * 64} --format plain --host 127.0.0.1 --port 1234 --no-ui "
    "--access-log-format json --max-seqs 4 --max-seq-len 8192 --max-batch-size 4 --paged-attn off "
    "--prefix-cache-n 4 --max-num-images 4 --max-edge 1024 --cpu"
)


def argv(release: Release) -> tuple[str, ...]:
    return launch_argv(release, release.engine_profile())


def planned(document: dict[str, Any], **changes: Any) -> tuple[str, ...]:
    return argv(parse_release(manifest(changed(document, changes))))


def test_the_seeds_plan_is_the_seeds_vector() -> None:
    """Argument for argument, in the order that the seed prints."""
    assert argv(launched_release()) == tuple(SEED.split(" "))


def test_what_a_version_lacks_is_refused_with_the_version_that_has_it() -> None:
    """0.8.2, the seed's own pin, cannot be launched with the seed's plan; nobody trims the plan to make it fit."""
    with pytest.raises(InputError) as refused:
        argv(launched_release(engine="0.8.2"))
    assert refused.value.rule == "launch-flag"
    for word in ("--access-log-format", "launch.access_log", "0.8.2", "first in 0.8.11"):
        assert word in refused.value.reason
    trimmed = tuple(SEED.replace(" --access-log-format json", "").split(" "))
    assert planned(PLAN, **{"engine": "0.8.2", "launch.access_log": None}) == trimmed


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "a port": ({"launch.port": 9}, "--port 9"),
    "no access log": ({"launch.access_log": None}, "--port 1234 --no-ui --max-seqs"),
    "sequences": ({"limits.max_seqs": 9}, "--max-seqs 9"),
    "a length": ({"limits.max_seq_len": 9}, "--max-seq-len 9"),
    "no length": ({"limits.max_seq_len": None}, "--max-seqs 4 --max-batch-size 4"),
    "a batch": ({"limits.max_batch_size": 9}, "--max-batch-size 9"),
    "images": ({"limits.max_num_images": 9}, "--max-num-images 9"),
    "an edge": ({"limits.max_edge": 9}, "--max-edge 9"),
    "an image length": ({"limits.max_image_length": 9}, "--max-image-length 9"),
    "no prefixes": ({"kv.prefix_cache_n": 0}, "--prefix-cache-n 0"),
    "a type": ({"model.dtype": "bf16"}, "--format plain --dtype bf16"),
    "a pool for tokens": ({}, "--paged-attn on --pa-context-len 4096 --pa-block-size 32 --pa-cache-type auto"),
    "a pool of memory": (
        {"kv.paged_attention.context_tokens": None, "kv.paged_attention.memory_mb": 512},
        "--paged-attn on --pa-memory-mb 512 --pa-block-size 32",
    ),
    "a pool of a share": (
        {"kv.paged_attention.context_tokens": None, "kv.paged_attention.memory_percent": 5},
        "--paged-attn on --pa-memory-fraction 0.05 --pa-block-size 32",
    ),
    "blocks as the engine likes": ({"kv.paged_attention.block_tokens": None}, "4096 --pa-cache-type auto"),
    "another cache": ({"kv.paged_attention.cache_type": "f8e4m3"}, "--pa-cache-type f8e4m3"),
    "quantised files": ({"model.quantisation.files": ["a-0.uqff", "b-0.uqff"]}, "--from-uqff a-0.uqff;b-0.uqff"),
    "quantised at load": (
        {"model.quantisation.method": "isq", "model.quantisation.level": "q4k", "model.quantisation.files": []},
        "--format plain --isq q4k",
    ),
    "another format": (
        {"model.format": "gguf", "model.quantisation.method": "gguf", "model.quantisation.files": ["m.gguf"]},
        "--format gguf --quantized-file m.gguf",
    ),
    "a topology": ({"model.topology.file": "t.yml"}, f"--topology /srv/mosaic-models/{'2' * 64}/t.yml"),
}


@pytest.mark.parametrize(("changes", "said"), ASKED.values(), ids=ASKED)
def test_what_is_asked_for_is_in_the_vector(changes: dict[str, Any], said: str) -> None:
    """Every field that the engine must know reaches it."""
    document = changed(WHOLE, {"model.quantisation": None}) if "model.dtype" in changes else WHOLE
    vector = planned(document, **changes)
    assert said in " ".join(vector)
    assert "--cpu" not in vector
    assert vector[0] == "serve"


def test_only_what_is_asked_for_is_in_the_vector() -> None:
    """The flags of the largest plan are these: no agent, search, code, shell, MCP, tool, adapter or log among them."""
    flags = {text for text in planned(WHOLE, **{"model.dtype": "f16", "limits.max_image_length": 9}) if text[:1] == "-"}
    flags |= set(argv(launched_release()))
    assert {flag for flag in flags if flag.startswith("-")} == {
        *("--model-id", "--format", "--dtype", "--from-uqff", "--topology", "--host", "--port", "--no-ui"),
        *("--access-log-format", "--max-seqs", "--max-seq-len", "--max-batch-size", "--paged-attn"),
        *("--pa-context-len", "--pa-block-size", "--pa-cache-type", "--prefix-cache-n", "--max-num-images"),
        *("--max-edge", "--max-image-length", "--cpu"),
    }


@pytest.mark.parametrize("name", ["a b", "$(id)", "-x", "a;b", "a/b", "a\nb", "--agent", ""])
def test_no_name_becomes_another_argument(name: str) -> None:
    """Files, levels and folders of a manifest cannot smuggle a flag, a path or a shell's word in."""
    for path in ("model.topology.file", "model.quantisation.level"):
        changes: dict[str, Any] = {path: name}
        if path.endswith("level"):
            changes |= {"model.quantisation.method": "isq", "model.quantisation.files": []}
        with pytest.raises(InputError, match="release-form"):
            planned(WHOLE, **changes)
    with pytest.raises(InputError, match=r"release-(form|route)"):
        planned(PLAN, route=f"/x{name.replace('/', ' ')} /{'2' * 64}")


def test_the_engine_in_the_box_is_not_launched() -> None:
    """A wheel holds no server: an invented vector would be a lie."""
    with pytest.raises(InputError, match="launch-none"):
        argv(embedded_release())


def test_another_versions_profile_says_nothing_of_this_release() -> None:
    """The profile is asked for, so that it can be a measured one; it must be of the release's version."""
    with pytest.raises(InputError, match="launch-profile"):
        launch_argv(launched_release(), profile("0.8.2"))


@pytest.mark.parametrize("version", PROFILES)
def test_every_version_launches_or_says_why_not(version: str) -> None:
    """The seed's plan, on each row of the table. Of 0.9.5 the table knows the wheel behind our front, and no server."""
    if not profile(version).has_server:
        with pytest.raises(InputError, match="release-launch"):
            launched_release(engine=version)
        return
    release = launched_release(engine=version)
    if version == "0.8.2":
        with pytest.raises(InputError, match="launch-flag"):
            argv(release)
    else:
        assert argv(release) == tuple(SEED.split(" "))


def test_what_steers_the_engine_from_outside_is_scrubbed() -> None:
    """Variables that change what the manifest pins, or that carry credentials, do not reach the engine."""
    steering = {
        *("MCP_CONFIG_PATH", "KEEP_ALIVE_INTERVAL", "RUST_LOG", "HF_TOKEN", "HF_ENDPOINT", "HUGGING_FACE_HUB_TOKEN"),
        *("LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "RUST_BACKTRACE"),
        *("https_proxy", "ALL_PROXY", "LD_PRELOAD", "MISTRALRS_ALLOW_RUNTIME_LORA_UPDATING", "AWS_SECRET_ACCESS_KEY"),
    }
    kept = {"PATH": "/usr/bin", "LANG": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "0"}
    assert without_scrubbed(dict.fromkeys(steering, "x") | kept) == kept
    for pattern, reason in scrubbed_environment().items():
        assert re.fullmatch(r"[A-Z_*]+", pattern)
        assert len(reason) > 10
