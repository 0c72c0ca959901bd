"""The typer application: commands are listed here, each lives in the module of its name.

Starting must stay light (`stream check` of a small file answers within half a second), so command modules import
their machinery inside the command.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli import (
    demo,
    deploy,
    down,
    fetch,
    inspect,
    policy,
    reap,
    receipts,
    release,
    results,
    run,
    settings,
    status,
    store,
    stream,
    up,
    worker,
)
from cli.exit_codes import INTERRUPTED, UNAVAILABLE, exit_code
from cli.output import say
from contracts.errors import EvidenceError
from contracts.version import VERSION

app = typer.Typer(
    name="mosaic",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """Local multimodal models over media you cannot trust, with receipts you can."""
    if show:
        typer.echo(f"mosaic-evidence {VERSION}")
        raise typer.Exit


app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("results")(results.results)
app.command("fetch")(fetch.fetch)
app.command("inspect")(inspect.inspect)
app.command("reap")(reap.reap)
app.command("settings")(settings.settings)
app.command("up")(up.up)
app.command("down")(down.down)
app.command("deploy")(deploy.deploy)
app.command("status")(status.status)
app.add_typer(receipts.app, name="receipts")
app.add_typer(release.app, name="release")
app.add_typer(store.app, name="store")
app.add_typer(stream.app, name="stream")
app.add_typer(policy.app, name="policy")
app.add_typer(worker.app, name="worker")


@app.command("test", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def tests() -> None:
    """Run the tests. The launcher does it, in an environment of its own: ./mosaic test [pytest arguments]."""
    say("tests are run by the launcher: ./mosaic test")
    raise typer.Exit(2)


def main() -> None:
    """Run the command line; errors of ours become one line on stderr and an exit code."""
    try:
        app(prog_name="./mosaic")
    except EvidenceError as error:
        say(f"mosaic: {error.reason} [{error.rule}]")
        sys.exit(exit_code(error))
    except OSError as error:
        say(f"mosaic: {error.strerror or type(error).__name__}: {error.filename or 'standard output'}")
        sys.exit(UNAVAILABLE)
    except KeyboardInterrupt:
        say("mosaic: interrupted")
        sys.exit(INTERRUPTED)
