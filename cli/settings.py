"""`mosaic settings`: what is in force and from where."""

from __future__ import annotations

from cli.output import Json, print_json, print_table


def settings(as_json: Json = False) -> None:
    """Show every setting in force and where its value comes from (default, file, environment)."""
    from settings.load import load

    in_force = load().describe()
    if as_json:
        for name, value, source in in_force:
            print_json({"name": name, "value": None if value == "-" else value, "source": source})
        return
    print_table("settings in force", ("setting", "value", "from"), in_force)
