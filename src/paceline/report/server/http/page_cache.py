"""Pages that take long to make."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

MOST_KEPT = 8  # pages; each may have some megabytes


@dataclass
class PageCache:
    """Pages that take long: made one at a time, to leave cores to a measurement; the last ones are kept.

    A key says what is asked for and as of when.
    """

    closing: bool = False  # the server ends: who still waits gets nothing
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[Hashable, str] = field(default_factory=OrderedDict)

    def has(self, key: Hashable) -> bool:
        """Whether a page is there already; does not wait for one that is being made."""
        return key in self._kept

    def page(self, key: Hashable, make: Callable[[], str]) -> str:
        with self._lock:
            if key not in self._kept:
                if self.closing:
                    raise HTTPException(503, "This server is ending.")
                self._kept[key] = make()
            self._kept.move_to_end(key)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]
