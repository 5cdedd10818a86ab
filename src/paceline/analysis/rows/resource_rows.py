"""The resources of a cell: from those of its runs in the index to what stands in its row."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from paceline.analysis.statistics.intervals import LEAST_TO_STOP, Estimate
from paceline.store.index.values import UTILISATION
from paceline.store.resources import Noise, Range
from paceline.store.run_results import RunResult

THROTTLED = 0.01  # from here on it is remarked: less is within what the cores lose in any case
Runs = Sequence[RunResult]


def utilisation(runs: Runs, count: int) -> tuple[Range, ...]:
    """Of each device: the median of the runs' medians, and the lowest and highest; of runs that saw all devices."""
    seen = [tuple(zip(*(run.of_each(name) for name in UTILISATION), strict=True)) for run in runs]
    complete = [devices for devices in seen if len(devices) == count]
    devices = [list(zip(*device, strict=True)) for device in zip(*complete, strict=True)]
    return tuple((min(low), statistics.median(middle), max(high)) for low, middle, high in devices)


def noise(runs: Runs) -> Noise:
    """The median of each kind."""
    found = {name: [value for run in runs for value in run.of_each(name)] for name in Noise.__struct_fields__}
    return Noise(**{name: statistics.median(values) for name, values in found.items() if values})


def is_throttled(runs: Runs) -> bool:
    """Whether a CPU quota has slowed them down."""
    return (noise(runs).throttled or 0.0) > THROTTLED


def too_few(speed: Estimate, widest: float, runs: int) -> str:
    """Why a cell wants more runs however narrow its interval is."""
    if speed.width is None:
        return f"a single run has no 95 % interval ({100 * widest:g} % of the median is the limit)"
    return f"{_width_and_limit(speed, widest, runs)}; no cell stops before {LEAST_TO_STOP} runs"


def _width_and_limit(speed: Estimate, widest: float, runs: int) -> str:
    width = 100 * (speed.width or 0.0)
    return f"the 95 % interval of its {runs} runs is {width:.0f} % of the median ({100 * widest:g} % is the limit)"


def unrest(speed: Estimate, widest: float, runs: Runs) -> str:
    """How unsure a noisy cell is, and what was seen during its runs that may have made it so."""
    seen = noise(runs)
    limit = _width_and_limit(speed, widest, len(runs))
    causes = [
        "" if seen.other is None else f"other programs took {100 * seen.other:.1f} % of its cores",
        "" if seen.stolen is None else f"{100 * seen.stolen:.1f} % was stolen",
        f"its CPU quota held back {100 * seen.throttled:.1f} %" if seen.throttled else "",
        "" if seen.switches_per_second is None else f"{seen.switches_per_second:.0f} involuntary switches/s",
    ]
    return "; ".join(filter(None, [limit, ", ".join(filter(None, causes))]))
