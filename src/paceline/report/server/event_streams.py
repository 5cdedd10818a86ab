"""Server-sent events: how far a plan is, told to everybody who watches it each time it changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import anyio.to_thread
import msgspec

from paceline.report.server.live import PERIOD_SECONDS, PlanProgress
from paceline.system.errors import UserError

MOST_STREAMS = 50  # who watches at once; each is cheap, but not free
HEARTBEAT_SECONDS = 15.0  # a comment, so that neither end takes the other for gone
RETRY_MILLISECONDS = 3000  # after which a browser that lost the server asks again


@dataclass
class Streams:
    """All open streams; they end together with the server."""

    progress: Callable[[str], PlanProgress | None]
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    @property
    def are_full(self) -> bool:
        return self._open >= MOST_STREAMS

    def close(self) -> None:
        self._closing.set()

    async def of_plan(self, plan_id: str) -> AsyncIterator[bytes]:
        """The state now and each new one; the last, after which nothing will change, is named `end`."""
        self._open += 1
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
            async for progress in self._changes(plan_id):
                yield _event(progress) if progress else b": still here\n\n"
        finally:
            self._open -= 1

    async def _changes(self, plan_id: str) -> AsyncIterator[PlanProgress | None]:
        """None where for some time nothing has changed."""
        loop, sent, sent_at = asyncio.get_running_loop(), None, 0.0
        while not self._closing.is_set():
            progress = await anyio.to_thread.run_sync(self._look, plan_id)
            quiet = progress in (sent, None)
            if not quiet or loop.time() - sent_at > HEARTBEAT_SECONDS:
                sent, sent_at = progress or sent, loop.time()
                yield None if quiet else progress
            if progress and progress.final:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PERIOD_SECONDS)

    def _look(self, plan_id: str) -> PlanProgress | None:
        """None while the index is being rebuilt."""
        with contextlib.suppress(UserError):
            return self.progress(plan_id)
        return None


def _event(progress: PlanProgress) -> bytes:
    """JSON has no line breaks, which would end the event."""
    name = b"end" if progress.final else b"progress"
    return b"event: " + name + b"\ndata: " + msgspec.json.encode(progress) + b"\n\n"
