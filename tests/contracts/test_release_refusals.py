"""The release manifest: what is wrong with it is said with line, field, expected and got."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.artifact import Modality
from contracts.errors import InputError
from contracts.release import parse_release
from contracts.release_document import SECTIONS
from contracts.release_rules import HOST
from tests.contracts.releases import BUNDLE, PLAN, WHOLE, changed, digest, launched_release, manifest, whole_release

LEAVES = sorted(
    ".".join((*where, name))
    for where, section in SECTIONS.items()
    for name in section.__struct_fields__
    if where != ("build", "wheel") and name != "derivatives"
)

BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown key": ({"limits.max_seq": 4}, "release-unknown-key", "limits.max_seq: unknown key; did you mean max_"),
    "a log of payloads": ({"launch.log": "/tmp/l"}, "release-unknown-key", "launch.log: unknown key; known here: host"),
    "an MCP port": ({"launch.mcp_port": 1}, "release-unknown-key", "launch.mcp_port: unknown key"),
    "the first version": (
        {"document": "release.v0"},
        "release-form",
        "document: expected release.v1, got 'release.v0'",
    ),
    "a wrong type": ({"limits.max_seqs": "4"}, "release-form", "limits.max_seqs: expected int, got str"),
    "a number too small": ({"limits.max_seqs": 0}, "release-form", "limits.max_seqs: expected int >= 1, got 0"),
    "no context": ({"limits.context_tokens": None}, "release-form", "limits.context_tokens: expected int, got null"),
    "a backend of another kind": ({"backend": "tpu"}, "release-form", "backend: expected cpu or cuda or metal, got"),
    "an unknown modality": (
        {"modalities": ["image", "smell"]},
        "release-form",
        "modalities[1]: expected image or audio or video, got 'smell'",
    ),
    "a modality twice": ({"modalities": ["image", "image"]}, "release-modalities", "modalities: expected each"),
    "a name with a slash": ({"name": "a/b"}, "release-form", "name: expected lowercase letters"),
    "an uppercase digest": (
        {"build.binary": "sha256:" + "A" * 64},
        "release-form",
        "build.binary: expected sha256: and 64 lowercase hex digits, got 'sha256:AAA",
    ),
    "a digest with a line feed": ({"model.bundle": digest("2") + "\n"}, "release-form", "model.bundle: expected"),
    "a branch for a commit": ({"model.revision": "main"}, "release-form", "model.revision: expected a commit of 40"),
    "a moving version": ({"engine": "latest"}, "profile-unknown", "engine: no profile of engine version 'latest'"),
    "no build": ({"build.binary": None}, "release-build", "build: expected exactly one of binary and wheel, got neit"),
    "a backend that is not compiled in": (
        {"build.features": ["metal"]},
        "release-backend",
        "build.features: expected the feature cuda for that backend, got metal",
    ),
    "all addresses": (
        {"launch.host": "0.0.0.0"},
        "release-host",
        f"launch.host: expected {HOST} (loopback only: the engine has no authentication), got '0.0.0.0'",
    ),
    "the UI": ({"launch.ui": True}, "release-ui", "launch.ui: expected false"),
    "no port": ({"launch.port": 0}, "release-form", "launch.port: expected int >= 1, got 0"),
    "a server that is not launched": ({"launch": None}, "release-launch", "launch: expected where a server's binary"),
    "a model by its name": ({"route": "google/gemma"}, "release-route", "route: expected an absolute folder named 222"),
    "a folder of another bundle": ({"route": "/srv/" + "3" * 64}, "release-route", "route: expected an absolute"),
    "a folder that climbs": ({"route": f"/srv/../{BUNDLE}"}, "release-route", "route: expected an absolute folder"),
    "files without a format": ({"model.format": "gguf"}, "release-quantisation", "model.format: expected plain for"),
    "a format without files": (
        {"model.format": "gguf", "model.quantisation": None},
        "release-quantisation",
        "model.quantisation: expected the files of format gguf, got null",
    ),
    "a level of files": ({"model.quantisation.level": "q4k"}, "release-quantisation", "expected null for uqff, got"),
    "no level": (
        {"model.quantisation.method": "isq", "model.quantisation.files": []},
        "release-quantisation",
        "model.quantisation.level: expected a level for isq, got null",
    ),
    "no files": ({"model.quantisation.files": []}, "release-quantisation", "expected at least one file for uqff, got"),
    "a file elsewhere": ({"model.quantisation.files": ["../x"]}, "release-form", "model.quantisation.files[0]: expect"),
    "paged attention on a CPU": (
        {"backend": "cpu"},
        "release-paged-attention",
        "kv.paged_attention: expected off on cpu",
    ),
    "a pool of two sizes": (
        {"kv.paged_attention.memory_mb": 1},
        "release-paged-attention",
        "kv.paged_attention: expected exactly one of context_tokens, memory_mb and memory_percent, got 2",
    ),
    "prefixes that tenants share": (
        {"kv.tenants": "shared"},
        "release-prefix-cache",
        "kv.prefix_cache_n: expected 0 where tenants share a worker",
    ),
    "a derivative of another kind": (
        {"derivatives.text": None},
        "release-unknown-key",
        "derivatives.text: unknown key; known here: image, audio, video",
    ),
    "a format no engine reads": (
        {"derivatives.image.format": "avif"},
        "release-form",
        "derivatives.image.format: expected png or jpeg or webp, got 'avif'",
    ),
    "a colour by name": (
        {"derivatives.image.background": "white"},
        "release-form",
        "derivatives.image.background: expected six lowercase hex digits, RRGGBB, got 'white'",
    ),
    "a quality that png has not": (
        {"derivatives.image.format": "png"},
        "derivation-quality",
        "derivatives.image.quality: expected null for png, which is lossless, got 80",
    ),
    "times that nobody selects": (
        {"derivatives.video.times_ms": [0, 500]},
        "derivation-select",
        "derivatives.video.times_ms: expected null for select even, got a value",
    ),
    "more frames than a GIF should have": (
        {"derivatives.video.frames": 65},
        "release-form",
        "derivatives.video.frames: expected int <= 64, got 65",
    ),
}


@pytest.mark.parametrize(("changes", "rule", "said"), BAD.values(), ids=BAD)
def test_a_manifest_that_is_not_right_is_refused_by_name(changes: dict[str, Any], rule: str, said: str) -> None:
    """The reason has the line, the field, what was expected and what came."""
    written = manifest(changed(WHOLE, changes))
    with pytest.raises(InputError) as refused:
        parse_release(written, "my.json")
    assert refused.value.rule == rule
    first = refused.value.reason.split("\n")[0]
    place, _, told = first.partition(": ")
    assert said in first
    assert place.startswith("my.json:")
    key = told.partition(":")[0].split(".")[-1].partition("[")[0]
    line = written.decode().split("\n")[int(place.removeprefix("my.json:")) - 1]
    assert key in line or "smell" in line or "../x" in line


@pytest.mark.parametrize("path", LEAVES)
def test_no_key_may_be_missing(path: str) -> None:
    """What does not apply is an explicit null: a value that nobody wrote is not guessed."""
    document = changed(WHOLE, {})
    *outer, last = path.split(".")
    section = document
    for name in outer:
        section = section[name]
    del section[last]
    with pytest.raises(InputError, match=rf"expected the key {last} \(null where it does not apply\), got none"):
        parse_release(manifest(document))


def test_all_broken_rules_are_told_at_once() -> None:
    """Who mends a manifest sees every rule, in the order of the lines."""
    with pytest.raises(InputError) as refused:
        whole_release(**{"engine": "0.1", "launch.ui": True, "modalities": ["image", "image"]})
    told = [line.rpartition("(")[2] for line in refused.value.reason.split("\n")]
    assert told == ["profile-unknown)", "release-ui)", "release-modalities)"]


def test_a_release_made_in_the_program_is_held_to_the_rules() -> None:
    """Not only what is read."""
    good = launched_release()
    with pytest.raises(InputError, match="release-modalities: modalities: "):
        msgspec.structs.replace(good, modalities=(Modality.IMAGE, Modality.IMAGE))


NOT_MANIFESTS = {
    "nothing": (b"", "release-syntax"),
    "a list": (b"[]", "release-form"),
    "an empty object": (b"{}", "release-form"),
    "no UTF-8": (b"\xff", "release-syntax"),
    "endless nesting": (b"[" * 100_000, "release-depth"),
    "a key twice": (manifest(PLAN)[:-2] + b',"name":"x"}', "release-duplicate-key"),
    "too much": (b" " * (1 << 20) + manifest(PLAN), "release-size"),
}


@pytest.mark.parametrize(("data", "rule"), NOT_MANIFESTS.values(), ids=NOT_MANIFESTS)
def test_what_is_no_manifest_is_refused(data: bytes, rule: str) -> None:
    """Any bytes are a release or an InputError."""
    with pytest.raises(InputError) as refused:
        parse_release(data)
    assert refused.value.rule == rule


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*PLAN, *PLAN["model"]]), inner),
    )
)
def test_no_value_makes_the_reader_fail(value: Any) -> None:
    """Whatever stands in a manifest, our error comes and no other."""
    for document in (value, PLAN | {"model": value}, PLAN | {"modalities": [value]}):
        with contextlib.suppress(InputError):
            parse_release(json.dumps(document).encode())
