"""`mosaic deploy`: registers the deployments of prefect.yaml."""

from __future__ import annotations

from cli.output import Json, print_json, print_table, say


def deploy(as_json: Json = False) -> None:
    """Register what prefect.yaml says on the configured server, or on this home's stack. Again changes nothing."""
    say("mosaic: registering deployments")
    import asyncio

    from cli.deployments import register
    from cli.prefect_api import server_of
    from settings.load import load

    settings = load()
    url, auth = server_of(settings)
    registered = asyncio.run(register(settings, url, auth))
    if as_json:
        print_json(registered)
        return
    columns = ("deployment", "queue", "schedules", "entrypoint")
    print_table("deployments", columns, ([each[name] for name in columns] for each in registered["deployments"]))
    print(f"automation: {registered['automation']}")
