"""`mosaic run`: analyse a bundle and keep a receipt for every question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import regular_file
from cli.output import Json, print_json, say
from contracts.errors import InputError

PREFECT_TOO = " and Prefect's server, which takes some 15 s (--direct does without)"

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, such as limits.image_bytes."),
]
Direct = Annotated[bool, typer.Option("--direct", help="Run the same pipeline without Prefect.")]
Remote = Annotated[bool, typer.Option("--remote", help="Submit it to the stack (./mosaic up) and follow it there.")]


def run(
    bundle: Annotated[Path, typer.Argument(help="The bundle, YAML or JSON.", exists=True, dir_okay=False)],
    release: Annotated[str | None, typer.Option(help="Release to ask, where the bundle names none.")] = None,
    direct: Direct = False,
    remote: Remote = False,
    again: Annotated[
        bool, typer.Option("--again", help="Ask also where the ledger has an answer or a lasting failure.")
    ] = False,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Analyse BUNDLE. Exit 0 if every question is complete, 1 if some are not."""
    say(f"mosaic: reading {regular_file(bundle)}")
    import asyncio

    from cli.analysis import analyse
    from pipeline.loading import load_bundle
    from settings.load import load

    if direct and remote:
        raise InputError("run-where", "--direct and --remote: choose one")
    chosen = {} if release is None else {"release": release}
    named = named_values(overrides or [])
    settings = load(named | chosen)
    loaded = load_bundle(bundle, settings)
    if remote:
        from cli.remote import analyse_remotely, options_of

        options = options_of(named, release, again=again)
        analysis = asyncio.run(analyse_remotely(settings, str(bundle.resolve()), options, quiet=as_json))
    else:
        say(f"mosaic: {len(loaded.bundle.questions)} questions; starting the worker{'' if direct else PREFECT_TOO}")
        analysis = asyncio.run(analyse(settings, bundle, loaded, again=again, direct=direct, quiet=as_json))
    if as_json:
        print_json(analysis.to_json())
    else:
        analysis.print()
    raise typer.Exit(analysis.exit_code)


def named_values(items: list[str]) -> dict[str, str]:
    """`NAME=VALUE` items as a mapping. Raises InputError for another form."""
    values = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise InputError("set-form", f"expected NAME=VALUE, got {item!r}")
        values[name] = value
    return values
