"""What is looked at while a run goes on, a sampler for each; plug-ins may bring more.

A sampler looks from outside, twice a second, and what it sees stands in the run's folder. A counter only ever grows:
what a run has of it is how much it grew in training. Of a gauge a run has the median of the looks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import psutil

from paceline.catalog import plugins
from paceline.run.process_usage import SeenTimes, usage_of_ranks
from paceline.system.machine.cgroups import cpu_groups, throttling
from paceline.system.machine.cpu_times import Core, core_counters
from paceline.system.machine.energy import PackageEnergy
from paceline.system.machine.gpus import WatchedGpus, nvidia
from paceline.system.text.safe_text import note

PERIOD_SECONDS = 0.5
Scope = Literal["process", "device", "host"]
Kind = Literal["counter", "gauge"]
Fields = Mapping[str, object]


@dataclass
class Watched:
    """What a run has that can be looked at."""

    cards: WatchedGpus
    pids: Mapping[int, int] = field(default_factory=dict)  # by rank
    seen: SeenTimes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    name: str  # of its values in the index
    unit: str
    scope: Scope  # whether it has a value for each process, for each GPU, or for parts of the machine
    kind: Kind
    read: Callable[[Watched], Sequence[float | None]] = lambda watched: ()  # the values, in a fixed order
    fields: Callable[[Watched], Fields] = lambda watched: {}  # of our own: fields of a `Sample`
    why_not: Callable[[], str] = lambda: ""  # why it is not available here; empty if it is
    period: float = PERIOD_SECONDS


def _processes(watched: Watched) -> Fields:
    return {"ranks": usage_of_ranks(watched.pids, watched.seen)}


def _cards(watched: Watched) -> Fields:
    return {"gpus": watched.cards.look()}


def _load(watched: Watched) -> Fields:
    try:
        return {"load": psutil.getloadavg()[0]}
    except OSError:
        return {"load": None}


def _cores(watched: Watched) -> Fields:
    """Their numbers only where some number is missing among them."""
    try:
        cores: dict[int, Core] = core_counters()
    except OSError:  # some containers hide them
        return {}
    plain = list(cores) == list(range(len(cores)))
    return {"cores": list(cores.values()), **({} if plain else {"core_numbers": list(cores)})}


def _frequencies(watched: Watched) -> Fields:
    try:
        found = psutil.cpu_freq(percpu=True)
    except (AttributeError, NotImplementedError, OSError):  # each says on some system that it is not known
        return {}
    return {"mhz": [core.current for core in found or []]}


@cache
def _cpu_groups() -> list[Path]:
    """Workers stay in them."""
    return cpu_groups()


def _throttling(watched: Watched) -> Fields:
    return {"throttled": throttling(_cpu_groups())}


PACKAGES = PackageEnergy()

BUILT_IN = (
    Sampler(name="memory and processor time", unit="bytes, s", scope="process", kind="gauge", fields=_processes),
    Sampler(
        name="GPU memory and utilisation",
        unit="bytes, %",
        scope="device",
        kind="gauge",
        fields=_cards,
        why_not=lambda: "" if nvidia()[1] else "there is no NVIDIA GPU",
    ),
    Sampler(name="load", unit="processes", scope="host", kind="gauge", fields=_load),
    Sampler(name="busy and stolen time of cores", unit="s", scope="host", kind="counter", fields=_cores),
    Sampler(
        name="frequencies",
        unit="MHz",
        scope="host",
        kind="gauge",
        fields=_frequencies,
        period=2.0,  # seldom: some systems interrupt a core to read its frequency
    ),
    Sampler(name="time held back by a CPU quota", unit="s", scope="host", kind="counter", fields=_throttling),
    Sampler(
        name="package_joules",
        unit="J",
        scope="host",
        kind="counter",
        read=lambda watched: PACKAGES.look(),
        why_not=PACKAGES.why_not,
    ),
    Sampler(
        name="gpu_joules",
        unit="J",
        scope="device",
        kind="counter",
        read=lambda watched: watched.cards.joules(),
        why_not=lambda: "" if nvidia()[1] else "there is no NVIDIA GPU",
    ),
)


@cache
def all_samplers() -> tuple[Sampler, ...]:
    taken = {sampler.name for sampler in BUILT_IN}
    return (*BUILT_IN, *plugins.load(plugins.SAMPLERS, taken, _from_plugin).values())


def _from_plugin(point: EntryPoint) -> Sampler:
    sampler = point.load()
    if not isinstance(sampler, Sampler) or sampler.name != point.name:
        raise ValueError(f"{point.value} is no Sampler called {point.name!r}")
    sampler.why_not()  # one that breaks is left out now, not in every run
    return replace(sampler, read=partial(_read, sampler))


def _read(sampler: Sampler, watched: Watched) -> Sequence[float | None]:
    """A reading that fails is missing; the run goes on."""
    try:
        return sampler.read(watched)
    except Exception as error:  # noqa: BLE001 - it is foreign code, which may fail in any way
        _warn(f"sampler {sampler.name!r} failed: {type(error).__name__}: {error}")
        return ()


_warn = cache(note)  # said once, however often it fails


@cache
def useful_samplers() -> tuple[Sampler, ...]:
    """Those that are available here."""
    return tuple(sampler for sampler in all_samplers() if not sampler.why_not())
