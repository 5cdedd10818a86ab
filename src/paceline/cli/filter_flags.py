"""The flags that choose results: show, chart and report have the same."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from paceline.system.limits import check_flag


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FilterFlags:
    """Which cells, and the accuracy that matters; several values are joined by commas."""

    suite: str | None = None
    "The newest run of this suite."
    workload: str | None = None
    "Only these, from all runs."
    framework: str | None = None
    "Only these, from all runs."
    devices: str | None = None
    "Only these, from all runs."
    data: str | None = None
    "Only these, from all runs."
    target: float | None = None
    "A test accuracy such as 0.7: who reaches it, and in how much training."

    def __post_init__(self) -> None:
        check_flag("--target", self.target)

    def cells(self) -> dict[str, str | None]:
        """Those that say which cells, by the names that a cell has for them."""
        return {name: value for name, value in vars(self).items() if name != "target"}
