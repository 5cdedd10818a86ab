"""Pages that take long to make."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_KEPT = 8  # pages; each may have some megabytes


@dataclass
class Rendered:
    """Pages that take long: made one at a time, to leave cores to a measurement, and kept until something changes."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _kept: OrderedDict[str, tuple[object, str]] = field(default_factory=OrderedDict)

    def page(self, address: str, stamp: object, make: Callable[[], str]) -> str:
        with self._lock:
            known = self._kept.pop(address, None)
            page = known[1] if known and known[0] == stamp else make()
            self._kept[address] = stamp, page
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            return page
