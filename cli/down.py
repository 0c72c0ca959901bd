"""`mosaic down`: stops the stack and shows that nothing of it is left; its data stay."""

from __future__ import annotations

import time

import typer

from cli.exit_codes import SOME_FAILED
from cli.output import Json, print_json, say


def down(as_json: Json = False) -> None:
    """Stop every part in order and wait. Exit 1 if something is left all the same; it is named."""
    say("mosaic: stopping the stack")
    from settings.load import load
    from stack.control import take_down
    from stack.folder import StackFolder
    from stack.report import StackReport, is_supervised

    begin = time.monotonic()
    folder = StackFolder(load().home)
    was_up = is_supervised(folder)
    told: dict[str, str] = {}

    def tell(report: StackReport | None) -> None:
        for part in report.parts if report is not None else ():
            if told.get(part.name) != part.state.value and part.state.value == "stopped":
                say(f"mosaic: {part.name} is stopped")
            told[part.name] = part.state.value

    left = take_down(folder, tell)
    if as_json:
        seconds = round(time.monotonic() - begin, 3)
        print_json({"state": "down", "was_up": was_up, "left": left, "data": str(folder.root), "seconds": seconds})
    elif left:
        say(f"mosaic: still there: {', '.join(left)}")
    else:
        print(f"the stack is down{'' if was_up else ' (it was not up)'}; its data are in {folder.root}")
    if left:
        raise typer.Exit(SOME_FAILED)
