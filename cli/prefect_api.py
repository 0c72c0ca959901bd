"""Prefect's REST API, as far as we speak it ourselves: importing Prefect's client takes longer than all of these."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from contracts.errors import NeedMissing
from contracts.locator import redact_url
from settings.values import Settings
from stack.prefect import authorization

_TIMEOUT_S = 30.0


class PrefectApi:
    """A server's API. Every method raises NeedMissing where the server cannot be reached or refuses."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self._client = client

    async def get(self, path: str, *, missing: str = "") -> Any:
        """The object at `path`; `missing` says what to do where there is none."""
        response = await self._ask("GET", path, None, allowed=httpx.codes.NOT_FOUND if missing else None)
        if not response.is_success:
            raise NeedMissing("prefect-server", f"the server has nothing at {path}: {missing}")
        return response.json()

    async def post(self, path: str, body: Mapping[str, Any], *, conflict: bool = False) -> Any:
        """What a POST gives; None where there is such an object already and `conflict` allows it."""
        response = await self._ask("POST", path, body, allowed=httpx.codes.CONFLICT if conflict else None)
        return None if response.status_code == httpx.codes.CONFLICT else response.json()

    async def change(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        """PATCH or PUT."""
        await self._ask(method, path, body)

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, allowed: int | None = None
    ) -> httpx.Response:
        try:
            response = await self._client.request(method, f"{self.url}{path}", json=body)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            told = f"no Prefect server answers at {redact_url(self.url)} ({type(error).__name__})"
            raise NeedMissing("prefect-server", told) from None
        if response.status_code == httpx.codes.UNAUTHORIZED:
            told = "Prefect's server refuses the authentication string: set MOSAIC_PREFECT_API_AUTH_STRING"
            raise NeedMissing("prefect-server", told)
        if not response.is_success and response.status_code != allowed:
            raise NeedMissing("prefect-server", f"expected success of {method} {path}, got {response.status_code}")
        return response


@asynccontextmanager
async def prefect_api(url: str, auth_string: str | None) -> AsyncIterator[PrefectApi]:
    """The API at `url`, opened by `user:password` where it asks for it."""
    headers = {} if auth_string is None else authorization(auth_string)
    async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_S, headers=headers) as client:
        yield PrefectApi(url.rstrip("/"), client)


def server_of(settings: Settings) -> tuple[str, str | None]:
    """The API and the authentication string of the configured server, or of this home's stack. Raises NeedMissing."""
    if settings.prefect_api_url is not None:
        auth = settings.prefect_api_auth_string
        return settings.prefect_api_url, None if auth is None else auth.reveal()
    from cli.stack import running_plan

    plan = running_plan(settings)
    return plan.prefect_api_url, plan.secrets.prefect_auth.reveal()
