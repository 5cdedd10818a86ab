"""NVIDIA's cards as their driver tells of them: which there are, what each holds and does, and which is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

UNKNOWN = "a card that does not answer"  # it keeps its number, and so do the others
# Of the driver's answers, by its own numbers. What some cards, and parts of cards, never tell is no trouble.
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 3, 4, 13, 15, 16
NOT_REPORTED, LOST = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND), (GPU_IS_LOST, RESET_REQUIRED)
Number = TypeVar("Number", int, float)


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a card."""

    index: int | None = None  # its number; None in older records, where it is the place in the list
    memory_bytes: int | None  # in use; None where the driver does not tell
    busy_percent: float | None  # likewise
    trouble: str | None = None  # why the driver could not tell, where it should


def nvidia() -> tuple[str | None, tuple[str, ...]]:
    """Driver version and card names; none without NVIDIA's driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return None, ()
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        driver = None
    return driver, tuple(_name(index) for index in range(count))


def _name(index: int) -> str:
    import pynvml

    try:
        return str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(index)))
    except pynvml.NVMLError:
        return UNKNOWN


class WatchedGpus:
    """Some cards that are looked at again and again, and what was the matter with each first."""

    def __init__(self, indices: Iterable[int]) -> None:
        self._indices = tuple(indices)
        self.troubles: dict[int, str] = {}
        self.lost: set[int] = set()
        if self._indices:
            self._begin()

    def _begin(self) -> None:
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.troubles = dict.fromkeys(self._indices, str(error))

    def look(self) -> list[Gpu]:
        return [self._one(index) for index in self._indices]

    def joules(self) -> list[float | None]:
        """What each has used since its driver was loaded; cards before Volta do not count it."""
        import pynvml

        def joules(card: Any) -> float:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(card)) / 1000

        return [self._ask(index, joules)[0] for index in self._indices]

    def _one(self, index: int) -> Gpu:
        import pynvml

        memory_bytes, memory_trouble = self._ask(index, lambda card: int(pynvml.nvmlDeviceGetMemoryInfo(card).used))
        busy, busy_trouble = self._ask(index, lambda card: float(pynvml.nvmlDeviceGetUtilizationRates(card).gpu))
        return Gpu(index=index, memory_bytes=memory_bytes, busy_percent=busy, trouble=memory_trouble or busy_trouble)

    def _ask(self, index: int, ask: Callable[[Any], Number]) -> tuple[Number | None, str | None]:
        """The answer; or none, and why if there should be one."""
        import pynvml

        try:
            return ask(pynvml.nvmlDeviceGetHandleByIndex(index)), None
        except pynvml.NVMLError as error:
            if error.value in NOT_REPORTED:
                return None, None
            if error.value in LOST:
                self.lost.add(index)
            self.troubles.setdefault(index, str(error))
            return None, str(error)
