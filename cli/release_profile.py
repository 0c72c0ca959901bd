"""`mosaic release profile`: what each engine version does, and how that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from contracts.profile import Profile

Version = Annotated[str | None, typer.Argument(help="An engine version; all of them by default.")]


def profile(version: Version = None, as_json: Json = False) -> None:
    """Print what is known of an engine version, or of all side by side. Exit 2 for an unknown one, with the known."""
    from contracts.profile import PROFILES
    from contracts.profile import profile as profile_of
    from contracts.profile_words import profile_document

    rows = list(PROFILES.values()) if version is None else [profile_of(version)]
    if as_json:
        for row in rows:
            print_json(profile_document(row))
    elif version is None:
        _print_all(rows)
    else:
        _print_one(rows[0])


def _print_all(rows: list[Profile]) -> None:
    from contracts.profile_endpoints import ENDPOINTS
    from contracts.profile_launch import LAUNCH_FLAGS
    from contracts.profile_words import every_fact

    versions = [row.version for row in rows]
    print_table("facts", ("fact", *versions, "says"), ([name, *values, words] for name, words, values in every_fact()))
    fields = ([name, *(row.fields[name].value for row in rows)] for name in rows[0].fields)
    print_table("request fields", ("field", *versions), fields)
    endpoints = (
        [each.path, *("yes" if each in row.endpoints else "-" for row in rows), each.use.value] for each in ENDPOINTS
    )
    print_table("endpoints", ("endpoint", *versions, "we"), endpoints)
    flags = (
        [each.name, *("yes" if each in row.launch_flags else "-" for row in rows), "no" if each.why_never else "yes"]
        for each in LAUNCH_FLAGS
    )
    print_table("launch flags", ("flag", *versions, "a release can ask"), flags)
    typer.echo("one version with sources, effects and errors: ./mosaic release profile VERSION")


def _print_one(row: Profile) -> None:
    from contracts.profile import FACTS
    from contracts.profile_words import shown_value

    version = row.version
    facts = ([name, shown_value(name, getattr(row, name)), *_evidence(row, name)] for name in FACTS)
    print_table(f"{version}: facts", ("fact", "value", "known", "source"), facts)
    fields = (
        [name, use.value, row.field_effects[name], *_evidence(row, f"fields.{name}")]
        for name, use in row.fields.items()
    )
    print_table(f"{version}: request fields", ("field", "use", "how", "known", "source"), fields)
    endpoints = ([each.path, each.use.value, each.effect, each.why] for each in row.endpoints)
    print_table(f"{version}: endpoints", ("endpoint", "we", "does", "because"), endpoints)
    flags = (
        [each.name, each.values or "-", each.default or "-", each.why_never or each.effect] for each in row.launch_flags
    )
    print_table(f"{version}: launch flags", ("flag", "values", "default", "says"), flags)
    errors = (
        [each.name, ", ".join(each.begins) or _statuses(each.statuses), each.meaning, each.again.value]
        for each in row.error_families
    )
    print_table(f"{version}: errors", ("family", "known by", "means", "try again"), errors)


def _evidence(row: Profile, name: str) -> tuple[str, str]:
    evidence = row.evidence[name]
    return evidence.basis.value, evidence.source


def _statuses(statuses: tuple[int, ...]) -> str:
    return f"status {', '.join(map(str, statuses))}" if statuses else "any other status"
