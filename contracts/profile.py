"""Profiles: what is true of one engine version. Every rule that depends on a version reads this and nothing else.

A profile's values are plain attributes; how each is known is in `evidence`, under the attribute's name (a request
field's under `fields.<name>`). The rows are in contracts/profiles_table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from contracts.errors import InputError
from contracts.profiles_table import ROWS, Basis, Fact, FieldUse, TerminalDefect


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a fact is in the table: its basis and where it was seen."""

    basis: Basis
    source: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine version.

    `regroup_order` is the order of kinds in which one message's parts reach the model, whatever their order on the
    wire; texts are joined with `text_join`. `least_completion_tokens` is what even a smaller budget yields.
    `schema_guidance` tells whether a JSON schema takes the grammar's `x-guidance` options. `response_id_pattern`
    must match a response's whole id.
    """

    version: str
    media_transports: tuple[str, ...]
    request_id_echo: bool
    keep_alive_s: float
    response_id_pattern: str
    role_in_every_delta: bool
    regroup_order: tuple[str, ...]
    text_join: str
    least_completion_tokens: int
    schema_guidance: bool
    terminal_defects: tuple[TerminalDefect, ...]
    fields: Mapping[str, FieldUse] = field(hash=False)
    evidence: Mapping[str, Evidence] = field(hash=False)

    def honours(self, name: str) -> bool:
        """Whether the request field `name` has its documented effect. Unknown fields have none."""
        return self.fields.get(name) is FieldUse.HONOURED

    def terminal_defect(self, *, after_text: bool) -> TerminalDefect | None:
        """The known defect that fits a stream which ended cleanly but early, or None."""
        fitting = (defect for defect in self.terminal_defects if defect.after_text == after_text)
        return next(fitting, None)


FACTS = tuple(each.name for each in fields(Profile) if each.name not in ("version", "fields", "evidence"))
"""The names of the facts that every row states, besides its request fields."""


def _row(version: str, facts: Mapping[str, Fact]) -> Profile:
    uses = {name.removeprefix("fields."): fact.value for name, fact in facts.items() if name.startswith("fields.")}
    evidence = {name: Evidence(fact.basis, fact.source) for name, fact in facts.items()}
    values = {name: facts[name].value for name in FACTS}
    return Profile(version=version, fields=MappingProxyType(uses), evidence=MappingProxyType(evidence), **values)


PROFILES: Mapping[str, Profile] = MappingProxyType({version: _row(version, facts) for version, facts in ROWS.items()})
DEFAULT = "0.8.17"
"""The newest version with file:// media, request ids, access log and metrics."""


def profile(version: str) -> Profile:
    """The row of `version`. Raises InputError that lists the known versions."""
    try:
        return PROFILES[version]
    except KeyError:
        known = ", ".join(PROFILES)
        raise InputError("profile-unknown", f"no profile of engine version {version[:32]!r}; known: {known}") from None
