"""What a release must satisfy beyond its types. Each rule yields findings: a path, the rule, expected and got."""

from __future__ import annotations

import re
from collections.abc import Iterator

from contracts.bundle_reader import Path, shown
from contracts.derivation_document import Derivatives, recipe_findings
from contracts.digest import Digest
from contracts.errors import InputError
from contracts.profile import PROFILES, profile
from contracts.release_document import Model, Pool, Quantisation, ReleaseDocument

Finding = tuple[Path, str, str]

HOST = "127.0.0.1"
"""The one address a server may listen on. IPv6's loopback is not one: the engine joins host and port by a colon."""

_FOLDER = re.compile(r"(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+")


def release_findings(release: ReleaseDocument) -> Iterator[Finding]:
    """Everything wrong with a release that its types do not say."""
    try:
        profile(release.engine)
    except InputError as error:
        yield ("engine",), error.rule, error.reason
    yield from _build(release)
    yield from _launch(release)
    yield from _weights(release.model)
    yield from _key_values(release)
    if isinstance(release.derivatives, Derivatives):
        yield from _derivatives(release.derivatives)
    if len(set(release.modalities)) != len(release.modalities):
        yield ("modalities",), "release-modalities", "expected each modality once, got one twice"


def _build(release: ReleaseDocument) -> Iterator[Finding]:
    build = release.build
    if (build.binary is None) == (build.wheel is None):
        got = "neither" if build.binary is None else "both"
        yield ("build",), "release-build", f"expected exactly one of binary and wheel, got {got}"
    if build.wheel is not None and build.wheel.version != release.engine:
        reason = f"expected the engine's version {shown(release.engine)}, got {shown(build.wheel.version)}"
        yield ("build", "wheel", "version"), "release-build", reason
    if build.features is not None and release.backend not in ("cpu", *build.features):
        reason = f"expected the feature {release.backend} for that backend, got {', '.join(build.features) or 'none'}"
        yield ("build", "features"), "release-backend", reason


def _launch(release: ReleaseDocument) -> Iterator[Finding]:
    launch = release.launch
    if launch is None:
        if release.build.binary is not None:
            yield ("launch",), "release-launch", "expected where a server's binary listens, got null"
        return
    row = PROFILES.get(release.engine)
    if row is not None and not row.has_server:
        reason = f"expected a version whose server is in the table, got {release.engine}, of which only the wheel is"
        yield ("engine",), "release-launch", reason
    if release.build.wheel is not None:
        yield ("launch",), "release-launch", "expected null for a wheel, which holds no server, got a launch plan"
    if launch.host != HOST:
        reason = f"expected {HOST} (loopback only: the engine has no authentication), got {shown(launch.host)}"
        yield ("launch", "host"), "release-host", reason
    if launch.ui:
        yield ("launch", "ui"), "release-ui", "expected false (the engine's UI stays off), got true"
    yield from _route(release)


def _route(release: ReleaseDocument) -> Iterator[Finding]:
    """A server's route is what it is given as the model, and that must be the folder that the digest names."""
    hexadecimal = Digest.parse(release.model.bundle).hex
    if not _FOLDER.fullmatch(release.route) or not release.route.endswith(f"/{hexadecimal}"):
        reason = f"expected an absolute folder named {hexadecimal} as the bundle, got {shown(release.route)}"
        yield ("route",), "release-route", reason


def _weights(model: Model) -> Iterator[Finding]:
    where, quantisation = ("model", "quantisation"), model.quantisation
    if quantisation is None:
        if model.format != "plain":
            yield where, "release-quantisation", f"expected the files of format {model.format}, got null"
        return
    method = quantisation.method
    wanted = method if method in ("gguf", "ggml") else "plain"
    if model.format != wanted:
        reason = f"expected {wanted} for quantisation by {method}, got {model.format}"
        yield ("model", "format"), "release-quantisation", reason
    yield from _quantised(quantisation, where)


def _quantised(quantisation: Quantisation, where: Path) -> Iterator[Finding]:
    method, at_load = quantisation.method, quantisation.method == "isq"
    if at_load != (quantisation.level is not None):
        expected, got = ("a level", "null") if at_load else ("null", shown(quantisation.level))
        yield (*where, "level"), "release-quantisation", f"expected {expected} for {method}, got {got}"
    if at_load == bool(quantisation.files):
        expected = "no file" if at_load else "at least one file"
        yield (
            (*where, "files"),
            "release-quantisation",
            f"expected {expected} for {method}, got {len(quantisation.files)}",
        )


def _key_values(release: ReleaseDocument) -> Iterator[Finding]:
    kv = release.kv
    if kv.tenants == "shared" and kv.prefix_cache_n:
        reason = f"expected 0 where tenants share a worker (prefixes tell on them), got {kv.prefix_cache_n}"
        yield ("kv", "prefix_cache_n"), "release-prefix-cache", reason
    if not isinstance(kv.paged_attention, Pool):
        return
    where = ("kv", "paged_attention")
    if release.backend == "cpu":
        yield where, "release-paged-attention", "expected off on cpu, where the engine warns and stays off, got a pool"
    sizes = [kv.paged_attention.context_tokens, kv.paged_attention.memory_mb, kv.paged_attention.memory_percent]
    given = sum(size is not None for size in sizes)
    if given != 1:
        reason = f"expected exactly one of context_tokens, memory_mb and memory_percent, got {given}"
        yield where, "release-paged-attention", reason


def _derivatives(derivatives: Derivatives) -> Iterator[Finding]:
    for kind in ("image", "audio", "video"):
        recipe = getattr(derivatives, kind)
        if recipe is not None:
            for name, rule, reason in recipe_findings(recipe):
                yield ("derivatives", kind, name), rule, reason
