"""Manifests for tests, as JSON values: the seed's launch plan, one with everything in it, the engine in the box."""

from __future__ import annotations

import copy
import json
from typing import Any

from contracts.release import Release, parse_release

BUNDLE = "2" * 64


def digest(digit: str) -> str:
    """A digest of one hex digit over and over."""
    return "sha256:" + digit * 64


PLAN: dict[str, Any] = {
    "document": "release.v1",
    "name": "plan-0.8.17",
    "engine": "0.8.17",
    "build": {
        "binary": digest("1"),
        "wheel": None,
        "target": "x86_64-unknown-linux-gnu",
        "features": [],
        "toolchain": "rustc 1.86.0",
        "driver": None,
    },
    "backend": "cpu",
    "route": f"/srv/mosaic-models/{BUNDLE}",
    "model": {
        "public_id": "google/gemma-3n-E2B-it",
        "revision": "a" * 40,
        "bundle": digest("2"),
        "tokenizer": digest("3"),
        "processor": digest("4"),
        "chat_template": digest("5"),
        "licences": [digest("6")],
        "format": "plain",
        "dtype": None,
        "quantisation": None,
        "topology": None,
    },
    "launch": {"host": "127.0.0.1", "port": 1234, "ui": False, "access_log": "json"},
    "kv": {"paged_attention": "off", "prefix_cache_n": 4, "tenants": "one"},
    "modalities": ["image", "audio", "video"],
    "limits": {
        "context_tokens": 8192,
        "max_seqs": 4,
        "max_seq_len": 8192,
        "max_batch_size": 4,
        "max_num_images": 4,
        "max_edge": 1024,
        "max_image_length": None,
    },
    "calibration_model": False,
}
"""The seed's plan."""

_BOX: dict[str, Any] = {
    "name": "calibration",
    "engine": "0.9.5",
    "build.binary": None,
    "build.wheel": {"distribution": "mistralrs", "version": "0.9.5", "library": digest("7")},
    "build.target": None,
    "build.features": None,
    "build.toolchain": None,
    "route": "mosaic-calibration",
    "model.public_id": "mosaic/calibration",
    "model.revision": None,
    "model.licences": [],
    "launch": None,
    "kv.prefix_cache_n": 0,
    "kv.tenants": "shared",
    "limits": dict.fromkeys(PLAN["limits"]) | {"context_tokens": 2048, "max_seqs": 4},
    "calibration_model": True,
}


def changed(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy with some values set, each under its dotted path."""
    copied = copy.deepcopy(document)
    for path, value in changes.items():
        *outer, last = path.split(".")
        section = copied
        for name in outer:
            section = section[name]
        section[last] = value
    return copied


_QUANTISATION = {"method": "uqff", "level": None, "files": ["q4k-0.uqff"], "digest": digest("8")}
_TOPOLOGY = {"file": "topology.yml", "digest": digest("9")}
_POOL = {"context_tokens": 4096, "memory_mb": None, "memory_percent": None, "block_tokens": 32, "cache_type": "auto"}
DERIVATIVES: dict[str, Any] = {
    "image": {"max_side_px": 1024, "format": "webp", "quality": 80, "alpha": "flatten", "background": "ffffff"},
    "audio": {"rate_hz": 16000, "channels": 1},
    "video": {
        "select": "even",
        "frames": 8,
        "every": None,
        "times_ms": None,
        "scene_threshold": None,
        "max_side_px": 256,
        "frame_delay_ms": 120,
        "container": "gif",
        "allow_square": False,
    },
}
WHOLE = changed(
    PLAN,
    {
        "backend": "cuda",
        "build.features": ["cuda"],
        "kv.paged_attention": _POOL,
        "model.quantisation": _QUANTISATION,
        "model.topology": _TOPOLOGY,
        "derivatives": DERIVATIVES,
    },
)
"""A plan in which everything but the wheel is there."""


def manifest(document: dict[str, Any]) -> bytes:
    """As people write it: one line for each value that is not nested."""
    return json.dumps(document, indent=2).encode()


def whole_release(**changes: Any) -> Release:
    """The plan with everything in it, with some values set, each under its dotted path."""
    return parse_release(manifest(changed(WHOLE, changes)))


def launched_release(**changes: Any) -> Release:
    """The plan, with top-level changes."""
    return parse_release(manifest(PLAN | changes))


def embedded_release(**changes: Any) -> Release:
    """The engine in the box, with top-level changes."""
    return parse_release(manifest(changed(PLAN, _BOX) | changes))
