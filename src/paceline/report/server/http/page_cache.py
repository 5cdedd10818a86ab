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
    """Pages that take long: made one at a time, to leave cores to a measurement, and kept until something changes."""

    closing: bool = False  # the server ends: who still waits gets nothing
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[Hashable, tuple[object, str]] = field(default_factory=OrderedDict)

    def has(self, key: Hashable, stamp: object) -> bool:
        """Whether a page is there already; does not wait for one that is being made."""
        known = self._kept.get(key)
        return known is not None and known[0] == stamp

    def page(self, key: Hashable, stamp: object, make: Callable[[], str]) -> str:
        with self._lock:
            if self.closing:
                raise HTTPException(503, "This server is ending.")
            known = self._kept.pop(key, None)
            page = known[1] if known and known[0] == stamp else self._made(make)
            self._kept[key] = stamp, page
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return page

    def _made(self, make: Callable[[], str]) -> str:
        try:
            return make()
        except Exception:
            if self.closing:  # its charts are not drawn any more
                raise HTTPException(503, "This server is ending.") from None
            raise
