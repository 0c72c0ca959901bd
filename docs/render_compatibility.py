"""Renders docs/compatibility.md from the profiles: python -m docs.render_compatibility > docs/compatibility.md"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from contracts.profile import DEFAULT, FACTS, PROFILES, Profile
from contracts.profile_endpoints import ENDPOINTS
from contracts.profile_errors import ErrorFamily
from contracts.profile_fact import Basis, Fact
from contracts.profile_fields import FIELD_ROWS
from contracts.profile_launch import LAUNCH_FLAGS
from contracts.profile_words import FACT_WORDS, shown_value
from contracts.profiles_table import ROWS

_MEASURED = "\u00b9"
_VERSIONS = tuple(PROFILES)

_INTRODUCTION = f"""# Compatibility

What each supported version of the engine, mistral.rs, does with what it is sent, field by field and endpoint by
endpoint, and what this product does about it. Generated from the tables that the code itself asks
(`contracts/profiles_table.py` and `contracts/profile_*.py`); a test fails when this page is stale. The same, for one
version with every source: `./mosaic release profile VERSION`, or with `--json` for programs.

| version | what it is for |
|---|---|
| 0.8.2 | the oldest one known. A client that leaves at a bad moment can end all streams: use it only to reproduce |
| {DEFAULT} | the default for a server of your own: the newest that reads media by path, with request ids and a log |
| 0.9.2 | media travel inside the request (`data:`, so 50 MiB in all). The oldest that answers about media on a CPU |
| 0.9.5 | the engine in the box: the published Python wheel behind our own HTTP front, which is closed and stricter |

Nothing here is taken from the engine's documentation, which mixes versions. A fact is either read in the source of
that version or measured on a running engine; {_MEASURED} marks what was measured. Sources are at the end."""

_FIELDS = """A request of ours has only fields that are *honoured*, and of these only the ones it needs. A bundle may
ask for a few more by name ([bundle.md](bundle.md)); what it may not name cannot be sent.

| word | means | a bundle that asks for it |
|---|---|---|
| honoured | it does what it says | is obeyed |
| deviates | it does something else than OpenAI's documents say | is refused |
| ignored | it is accepted and has no effect | is refused, or recorded as not honoured if the bundle says so |
| refused | the engine, or our front before it, fails the request | is refused |
| dangerous | it starts tools, searches, code or sessions, or harms other requests | cannot be written |"""

_ENDPOINTS = """*Used*: by the product. *Refused at the gateway*: no client of ours calls it, and whatever stands in
front of a server of your own has to let nobody else; the front of the engine in the box does not have it. *Planned*:
likewise for now, with a use to come. The engine asks nobody who they are."""

_FLAGS = """What a release can ask for, and what nothing of ours can say. A release that asks for a flag that its
version lacks is refused with the first version that has it; nothing is left out silently. `0.8.2` stands for 0.8.2 or
older. The wheel (0.9.5) has no server and so no flags."""

_ERRORS = """A message's beginning decides whatever the status is; a status decides only where no beginning is known:
500 is mostly the request's fault here. Status 200 is for a text inside a stream. *Again*: whether the same request can
go well another time."""


def render() -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        "## Facts",
        _table(("fact", *_VERSIONS, "says"), _facts()),
        "## Request fields",
        _FIELDS,
        _table(("field", *_VERSIONS, "how"), _fields()),
        "## Endpoints",
        _ENDPOINTS,
        _table(("endpoint", *_VERSIONS, "does", "we", "because"), _endpoints()),
        "## Launch flags",
        _FLAGS,
        _table(("flag", "first", "values", "default", "effect"), _flags(never=False)),
        "Nothing of ours can say these:",
        _table(("flag", "first", "why not"), _flags(never=True)),
        "## Known early ends",
        _table(("name", "versions", "what happens", "the same request again"), _defects()),
        "## Errors",
        _ERRORS,
        _table(("family", "versions", "known by", "means", "again", "outcome"), _errors()),
        "## Sources",
        "What is not listed for a version is as in the one before it. Files are those of the engine's repository.",
        *_sources(),
    ]
    return "\n\n".join(parts) + "\n"


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    header = list(columns)
    lines = [header, ["---"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _mark(row: Profile, name: str) -> str:
    return _MEASURED if row.evidence[name].basis is Basis.MEASURED else ""


def _facts() -> Iterator[list[str]]:
    for name in FACTS:
        cells = [shown_value(name, getattr(row, name)) + _mark(row, name) for row in PROFILES.values()]
        yield [f"`{name}`", *cells, FACT_WORDS[name]]


def _fields() -> Iterator[list[str]]:
    for name in PROFILES[DEFAULT].fields:
        cells = [row.fields[name].value + _mark(row, f"fields.{name}") for row in PROFILES.values()]
        yield [f"`{name}`", *cells, _how(name)]


def _how(name: str) -> str:
    """The sentence that all versions share, or each with the versions it is of."""
    versions: dict[str, list[str]] = {}
    for row in PROFILES.values():
        versions.setdefault(row.field_effects[name], []).append(row.version)
    if len(versions) == 1:
        return next(iter(versions))
    return "; ".join(f"{_span(of)}: {how}" for how, of in versions.items())


def _span(versions: list[str]) -> str:
    """`versions`, which are in the table's order, as people say it."""
    if len(versions) == len(_VERSIONS):
        return "all"
    first = _VERSIONS.index(versions[0])
    if len(versions) > 1 and _VERSIONS[first : first + len(versions)] == tuple(versions):
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(versions)


def _endpoints() -> Iterator[list[str]]:
    for each in ENDPOINTS:
        there = ["yes" if each in row.endpoints else "no" for row in PROFILES.values()]
        yield [f"`{each.path}`", *there, each.effect, each.use.value, each.why]


def _flags(*, never: bool) -> Iterator[list[str]]:
    for flag in LAUNCH_FLAGS:
        if never and flag.why_never is not None:
            yield [f"`{flag.name}`", flag.since, flag.why_never]
        elif not never and flag.why_never is None:
            yield [f"`{flag.name}`", flag.since, flag.values or "-", flag.default or "-", flag.effect]


def _defects() -> Iterator[list[str]]:
    defects = {defect: None for row in PROFILES.values() for defect in row.terminal_defects}
    for defect in defects:
        of = [row.version for row in PROFILES.values() if defect in row.terminal_defects]
        yield [f"`{defect.name}`", _span(of), defect.explanation, "ends alike" if defect.same_again else "may go well"]


def _errors() -> Iterator[list[str]]:
    families: dict[ErrorFamily, list[str]] = {}
    for row in PROFILES.values():
        for family in row.error_families:
            families.setdefault(family, []).append(row.version)
    for family, of in families.items():
        begins = ", ".join(f'"{beginning}"' for beginning in family.begins)
        statuses = ", ".join(map(str, family.statuses))
        by = begins or (f"status {statuses}" if statuses else "any other status")
        yield [f"`{family.name}`", _span(of), by, family.meaning, family.again.value, family.outcome.value]


def _sources() -> Iterator[str]:
    for version in _VERSIONS:
        yield f"### {version}"
        cells = {**ROWS[version], **{f"field {name}": fact for name, fact in FIELD_ROWS[version].items()}}
        yield _table(("of", "known", "source"), _own(cells))


def _own(cells: dict[str, Fact]) -> Iterator[list[str]]:
    for name, fact in cells.items():
        if "; as in " not in fact.source:
            yield [f"`{name}`", fact.basis.value, fact.source]


if __name__ == "__main__":
    sys.stdout.write(render())
