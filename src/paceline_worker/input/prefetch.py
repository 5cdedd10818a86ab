"""A thread that makes the next batches while the framework trains on this one."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Deque, Generic, Iterable, Iterator, Optional, TypeVar

Item = TypeVar("Item")
DEPTH = 3  # batches ready at most: enough to even out a slow one, small beside a network's memory


class Prefetch(Generic[Item]):
    """Iterates over `source`, which runs ahead in a thread of its own; close it, or use it in a `with` statement.

    What the source does before its first item is done here and now, before anyone's clock runs.
    Items are handed on as they were made and never touched again: frameworks may read an array long after they took it.
    """

    def __init__(self, source: Iterable[Item], depth: int = DEPTH) -> None:
        self.waited_seconds = 0.0  # by the consumer, for items that were not ready
        self.waits = 0
        self._depth = depth
        self._ready: Deque[Item] = deque()
        self._changed = threading.Condition()
        self._over = False  # no item will be added
        self._failure: Optional[BaseException] = None
        self._closed = False
        self._thread = threading.Thread(target=self._fill, args=(iter(source),), name="prefetch", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._changed:
            if not self._ready and not self._over:
                self._wait()
            if not self._ready:
                raise StopIteration if self._closed or self._failure is None else self._failure
            item = self._ready.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Stop the thread and forget what it made; returns when it has ended."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()
        self._thread.join()

    def __enter__(self) -> Prefetch[Item]:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _wait(self) -> None:
        start = time.perf_counter()
        self._changed.wait_for(lambda: bool(self._ready) or self._over)
        self.waited_seconds += time.perf_counter() - start
        self.waits += 1

    def _fill(self, source: Iterator[Item]) -> None:
        try:
            for item in source:
                if not self._put(item):
                    break
        except BaseException as failure:  # noqa: BLE001  raised in the consumer instead, after the items before it
            self._failure = failure
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _put(self, item: Item) -> bool:
        """Add an item when there is room; false when nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._depth or self._closed)
            if self._closed:
                return False
            self._ready.append(item)
            self._changed.notify_all()
            return True
