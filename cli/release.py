"""`mosaic release`: what a release manifest says, its identity, and how its engine is launched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.arguments import regular_file
from cli.output import Json, print_json, print_table, say
from cli.release_profile import profile
from contracts.errors import InputError
from contracts.printable import printable

if TYPE_CHECKING:
    from contracts.release import Release

app = typer.Typer(help="Read release manifests, and what is known of engine versions.", no_args_is_help=True)
app.command("profile")(profile)

File = Annotated[Path, typer.Argument(help="A release manifest (release.v1, JSON).")]


@app.command("show")
def show(file: File, as_json: Json = False) -> None:
    """Explain a manifest and print its serve identity. Exit 2, with line and field, for what is none."""
    from contracts.launch import launch_argv
    from contracts.release_words import FIELD_WORDS

    release = _read(file)
    identity, arguments, refusal = str(release.identity()), None, None
    try:
        arguments = list(launch_argv(release, release.engine_profile()))
    except InputError as error:
        refusal = {"rule": error.rule, "reason": error.reason}
    document = release.to_json()
    if as_json:
        row = {"file": str(file), "name": release.name, "identity": identity, "release": document}
        print_json(row | {"argv": arguments, "argv_refused": refusal})
        return
    rows = ((field, value, FIELD_WORDS[field]) for field, value in _leaves(document))
    print_table(f"release {release.name}", ("field", "value", "says"), rows)
    typer.echo(f"serve identity: {identity}")
    if release.calibration_model:
        typer.echo("calibration model: not for evidence")
    if refusal is not None:
        say(f"mosaic: no arguments: {refusal['reason']} [{refusal['rule']}]")


@app.command("argv")
def argv(file: File, as_json: Json = False) -> None:
    """Print the engine's arguments, one per line, or as a JSON array. Exit 2 where its version lacks one."""
    from contracts.launch import launch_argv

    release = _read(file)
    arguments = launch_argv(release, release.engine_profile())
    if as_json:
        print_json(arguments)
        return
    for argument in arguments:
        typer.echo(printable(argument))


def _read(file: Path) -> Release:
    from contracts.release import parse_release
    from contracts.release_reader import RELEASE_BYTES_MAX

    try:
        with regular_file(file).open("rb") as manifest:
            data = manifest.read(RELEASE_BYTES_MAX + 1)
    except OSError as error:
        raise InputError("release-file", f"cannot read {str(file)!r}: {error.strerror}") from error
    return parse_release(data, str(file))


def _leaves(value: dict[str, Any], where: str = "") -> Iterator[tuple[str, str]]:
    """Every field with its value as text, in the manifest's order."""
    for name, inner in value.items():
        field = f"{where}{name}"
        if isinstance(inner, dict):
            yield from _leaves(inner, f"{field}.")
        elif isinstance(inner, list):
            yield field, ", ".join(inner) or "none"
        elif isinstance(inner, bool) or inner is None:
            yield field, {True: "yes", False: "no", None: "-"}[inner]
        else:
            yield field, str(inner)
