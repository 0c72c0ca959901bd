"""Renders docs/tables.md from the tables that the code is made of: python -m docs.render_tables > docs/tables.md"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from contracts.address_tables import IPV4_DENIED, IPV4_REGISTRY_DATE, IPV6_ALLOWED, IPV6_HOLES, IPV6_REGISTRY_DATE
from contracts.artifact import MEDIA_TYPES
from contracts.completion_table import TABLE, Signal, State
from contracts.errors import EvidenceError
from contracts.lease import TRANSITIONS
from contracts.limits import Limits
from contracts.network_policy import RULES

_ROOT = Path(__file__).resolve().parent.parent
_LIMIT = re.compile(r"    (?P<name>\w+): (?:int|float) = .+?  # (?P<reason>.+)")


def render() -> str:
    """The page."""
    parts = [
        "# Tables",
        "Generated from the code by `docs/render_tables.py`; a test fails when this page is stale.",
        "## Limits",
        _table(("limit", "default", "why"), _limits()),
        "## Media types",
        _table(("type", "staged as", "as a part of"), _media_types()),
        "## Network policy",
        "Rules, in the order in which they are asked: " + ", ".join(f"`{rule}`" for rule in RULES) + ".",
        f"Denied IPv4 (IANA registry of {IPV4_REGISTRY_DATE}); of IPv6 (that of {IPV6_REGISTRY_DATE}) only "
        f"`{IPV6_ALLOWED}` is allowed, minus ISATAP forms and holes:",
        _table(("denied", "because", "registered"), _denied()),
        "## Completion machine",
        "Rows are states, columns what happens; a cell is the next state, or the outcome and rule it fails with.",
        _table(("state", *(signal.value for signal in Signal)), _completion()),
        "## Lease",
        _table(("state", "event", "next"), ((a.value, e.value, b.value) for (a, e), b in TRANSITIONS.items())),
        "## Errors",
        _table(("error", "outcome", "a retry can help"), _errors(EvidenceError)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    header = list(columns)
    lines = [header, ["---"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _limits() -> Iterator[tuple[str, str, str]]:
    source = (_ROOT / "contracts" / "limits.py").read_text("utf-8")
    reasons = {match["name"]: match["reason"] for match in map(_LIMIT.match, source.splitlines()) if match}
    for each in fields(Limits):
        yield f"`{each.name}`", f"{each.default:,}", reasons[each.name]


def _denied() -> Iterator[tuple[str, str, str]]:
    for block in (*IPV4_DENIED, *IPV6_HOLES):
        yield f"`{block.network}`", block.why, block.since or "no: the cloud's own documents"


def _media_types() -> Iterator[tuple[str, str, str]]:
    for media_type in MEDIA_TYPES.values():
        parts = ", ".join(sorted(modality.value for modality in media_type.modalities))
        yield f"`{media_type.name}`", f".{media_type.extension}", parts


def _completion() -> Iterator[list[str]]:
    for state in State:
        cells = []
        for signal in Signal:
            step = TABLE[state][signal]
            cells.append(
                step.state.value if step.outcome is None else f"{step.outcome.value} `{step.rule or 'its own'}`"
            )
        yield [state.value, *cells]


def _errors(error: type[EvidenceError]) -> Iterator[tuple[str, str, str]]:
    for child in error.__subclasses__():
        if child.__module__ == "contracts.errors":
            yield f"`{child.__name__}`", child.outcome.value, "yes" if child.retryable else "no"
            yield from _errors(child)


if __name__ == "__main__":
    sys.stdout.write(render())
