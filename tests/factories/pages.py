"""The pages of a store, asked without a server."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from paceline.report.server.application import application
from paceline.report.server.views import ServedSite
from paceline.store.store import Store


class Pages:
    """What the server would answer; a mistake of ours is an error here."""

    def __init__(self, folder: Path) -> None:
        self._app = application(ServedSite(Store(folder, read_only=True)))

    def get(self, address: str) -> tuple[int, str]:
        path, _, query = address.partition("?")
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
        said: list[MutableMapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            said.append(message)

        asyncio.run(self._app({**scope, "server": ("127.0.0.1", 80), "scheme": "http"}, receive, send))
        return said[0]["status"], b"".join(each.get("body", b"") for each in said[1:]).decode(errors="replace")
