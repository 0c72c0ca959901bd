"""Profiles: what is true of one engine version. Every rule that depends on a version reads this and nothing else.

A profile's values are plain attributes; how each is known is in `evidence`, under the attribute's name (a request
field's under `fields.<name>`). The rows are in contracts/profiles_table (facts), profile_fields, profile_launch,
profile_endpoints and profile_errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from contracts.errors import InputError
from contracts.profile_endpoints import ENDPOINTS, Endpoint, is_there
from contracts.profile_errors import ERROR_ROWS, ErrorFamily, family_of
from contracts.profile_fields import FIELD_ROWS
from contracts.profile_launch import LaunchFlag, flags_of
from contracts.profiles_table import ROWS, Basis, Fact, FieldUse, TerminalDefect


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a fact is in the table: its basis and where it was seen."""

    basis: Basis
    source: str


@dataclass(frozen=True, slots=True)
class Profile:
    """One engine version. What each fact says is in `FACT_WORDS`; None stands for no bound.

    `response_id_pattern` must match a response's whole id. `fields` has what becomes of each request field, and
    `field_effects` how. `error_families` are asked by `error_family`.
    """

    version: str
    has_server: bool
    media_transports: tuple[str, ...]
    media_part_bytes: int | None
    remote_media: str
    body_bytes: int
    video_frames: int | None
    multimodal_on_cpu: bool
    request_id_echo: bool
    metrics: bool
    access_log: bool
    keep_alive_s: float
    keep_alive_form: str
    response_id_pattern: str
    role_in_every_delta: bool
    usage_placement: str
    finish_reasons: tuple[str, ...]
    error_form: str
    stream_error_form: str
    regroup_orders: tuple[tuple[str, ...], ...]
    text_join: str
    keeps_message_order: bool
    takes_lone_medium: bool
    least_completion_tokens: int
    schema_guidance: bool
    terminal_defects: tuple[TerminalDefect, ...]
    disconnect_stops_decoding: bool
    disconnect_stops_prefill: bool
    disconnect_kills_engine: bool
    buffered_responses: int
    refuses_overload: bool
    stops_gracefully: bool
    health_tells_engine: bool
    authenticates: bool
    fields: Mapping[str, FieldUse] = field(hash=False)
    field_effects: Mapping[str, str] = field(hash=False)
    evidence: Mapping[str, Evidence] = field(hash=False)
    error_families: tuple[ErrorFamily, ...]

    def honours(self, name: str) -> bool:
        """Whether the request field `name` has its documented effect. Unknown fields have none."""
        return self.fields.get(name) is FieldUse.HONOURED

    def terminal_defect(self, *, after_text: bool) -> TerminalDefect | None:
        """The known defect that fits a stream which ended cleanly but early, or None."""
        fitting = (defect for defect in self.terminal_defects if defect.after_text == after_text)
        return next(fitting, None)

    def error_family(self, status: int, message: str) -> ErrorFamily:
        """What an error means: by how its message begins, else by its status. 200 is for texts in the stream."""
        return family_of(self.error_families, status, message)

    @property
    def launch_flags(self) -> tuple[LaunchFlag, ...]:
        """The flags of its server, of those that the table has; none where there is no server."""
        return flags_of(self.version) if self.has_server else ()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that a worker of this version has: its own server's, or our front's."""
        return tuple(each for each in ENDPOINTS if is_there(each, self.version, has_server=self.has_server))


_ROWS_OF_THEIR_OWN = ("version", "fields", "field_effects", "evidence", "error_families")
FACTS = tuple(each.name for each in fields(Profile) if each.name not in _ROWS_OF_THEIR_OWN)
"""The names of the facts that every row states, besides its request fields."""


def _row(version: str, facts: Mapping[str, Fact]) -> Profile:
    of_fields = FIELD_ROWS[version]
    every = {**facts, **{f"fields.{name}": fact for name, fact in of_fields.items()}}
    return Profile(
        version=version,
        fields=MappingProxyType({name: fact.value.use for name, fact in of_fields.items()}),
        field_effects=MappingProxyType({name: fact.value.how for name, fact in of_fields.items()}),
        evidence=MappingProxyType({name: Evidence(fact.basis, fact.source) for name, fact in every.items()}),
        error_families=ERROR_ROWS[version],
        **{name: facts[name].value for name in FACTS},
    )


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
