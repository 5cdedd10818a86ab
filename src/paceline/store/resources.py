"""What the samples of a run say: memory of its GPUs and child processes, how busy its devices were, and noise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from paceline.store.records.events import EventFile, Phase
from paceline.store.records.samples import Sample

MOSTLY = 0.8  # two samples tell about training if it filled this part of the time between them
WORKING = ("compile", "warmup", "train")  # from the first step to the end of training
CONTEXT_BYTES = 2**30  # a driver's context and its libraries' work space may take so much: that is no preallocation

Span = tuple[float, float]  # from … to, in seconds since 1970
Range = tuple[float, float, float]  # lowest, median, highest
SamplePair = tuple[Sample, Sample]


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """What else happened on the machine while a cell trained; None where it is not known."""

    load: float | None = None  # average of the last minute before the start
    other: float | None = None  # part of the time of its cores that programs not of the run took
    stolen: float | None = None  # and that the host of a virtual machine took
    throttled: float | None = None  # part of the time that the run wanted of them and its CPU quota held back
    switches_per_second: float | None = None  # threads of the run that had to leave their core
    lowest_mhz: float | None = None
    highest_mhz: float | None = None


@dataclass(frozen=True)
class MemoryUse:
    """Of a process with its children, or of a GPU."""

    idle_bytes: int
    peak_bytes: int
    started_bytes: int | None = None  # a GPU's, when the framework has started and nothing is built


def spans(file: EventFile, *phases: str) -> list[Span]:
    """When a rank was in these phases."""
    entered = [event for event in file.events if isinstance(event, Phase)]
    return [(event.time, after.time) for event, after in pairwise(entered) if event.phase in phases]


def process_memory(files: Mapping[int, EventFile], samples: Sequence[Sample]) -> dict[int, MemoryUse]:
    """Idle and peak of each rank as the kernel counted them, with those of its children as they were sampled."""
    found = {}
    for rank, file in files.items():
        phases = [event for event in file.events if isinstance(event, Phase)]
        idle = [event for event in phases if event.idle_memory_bytes is not None]
        peaks = [event.peak_memory_bytes for event in phases if event.peak_memory_bytes is not None]  # of each epoch
        if idle and peaks:
            before = _children_bytes(_nearest(samples, idle[0].time), rank)
            working = _within(samples, spans(file, *WORKING))
            most = max((_children_bytes([sample], rank) for sample in working), default=0)
            found[rank] = MemoryUse((idle[0].idle_memory_bytes or 0) + before, max(peaks) + most)
    return found


def gpu_memory(gpus: Iterable[int], files: Collection[EventFile], samples: Sequence[Sample]) -> list[MemoryUse]:
    """Of each GPU as the driver counted it at each sample; idle is before anything was started.

    What trained too shortly for a sample has that of its end; what has no phases counts as a whole. A driver that
    does not tell of one of them tells of none.
    """
    built = [start for file in files for start, _ in spans(file, "build")]
    started = _nearest(samples, max(built)) if built else []
    trained = [span for file in files for span in spans(file, *WORKING)]
    working = _within(samples, trained) or _nearest(samples, max(end for _, end in trained)) if trained else samples
    found = [_one_gpu(_used(samples[:1], gpu), _used(working, gpu), _used(started, gpu)) for gpu in gpus if samples]
    known = [memory for memory in found if memory is not None]
    return known if len(known) == len(found) else []  # a part of the cards would be taken for all of them


def _one_gpu(idle: list[int], working: list[int], started: list[int]) -> MemoryUse | None:
    return MemoryUse(idle[0], max(working), next(iter(started), None)) if idle and working else None


def _used(samples: Iterable[Sample], gpu: int) -> list[int]:
    """Bytes in use at each look, as far as they were told."""
    looks = [sample.gpu(gpu) for sample in samples]
    return [look.memory_bytes for look in looks if look is not None and look.memory_bytes is not None]


def allocator_bytes(files: Iterable[EventFile]) -> list[int]:
    """The peak of each device as the framework's own allocator counted it; none where it does not tell."""
    found: list[int] = []
    for file in files:
        known = [event.device_peak_bytes for event in file.events if isinstance(event, Phase)]
        found += [max(epochs) for epochs in zip(*(peaks for peaks in known if peaks), strict=True)]
    return found


def preallocated(memory_bytes: float, started_bytes: float, allocator_bytes: float | None) -> bool:
    """Whether a framework took much of a GPU before it needed it, by the driver's peak and start and its own peak."""
    early = started_bytes > max(memory_bytes / 2, CONTEXT_BYTES)
    unused = allocator_bytes is not None and memory_bytes > max(2 * allocator_bytes, allocator_bytes + CONTEXT_BYTES)
    return early or unused


def core_utilisation(samples: Sequence[Sample], training: Sequence[Span], cores: Sequence[int]) -> Range | None:
    """Part of the time in which these cores were busy, from sample to sample while they trained."""
    between = training_pairs(samples, training, cores)
    return _range([min(1.0, _busy([pair], cores) / _core_seconds([pair], cores)) for pair in between])


def gpu_utilisation(samples: Sequence[Sample], training: Sequence[Span], gpu: int) -> Range | None:
    """Part of the time in which the driver saw work, at each sample while the GPU trained."""
    looks = [sample.gpu(gpu) for sample in _within(samples, training)]
    return _range([look.busy_percent / 100 for look in looks if look is not None and look.busy_percent is not None])


def noise(samples: Sequence[Sample], training: Sequence[Span], cores: Sequence[int]) -> Noise:
    """What else ran on the run's cores while it trained."""
    between = training_pairs(samples, training, cores)
    seconds = _core_seconds(between, cores)
    mhz = [value for sample in _within(samples, training) for value in _frequencies(sample, cores)]
    others = _busy(between, cores) - _growth(between, _processor_seconds)
    stolen = _growth(between, lambda sample: sum(sample.core(core)[1] for core in cores))
    return Noise(
        load=samples[0].load if samples else None,
        other=min(max(0.0, others / seconds), 1.0) if between else None,  # two counters never agree to the last tick
        stolen=stolen / seconds if between else None,
        throttled=throttled(between, _growth(between, _processor_seconds)),
        lowest_mhz=min(mhz, default=None),
        highest_mhz=max(mhz, default=None),
    )


def throttled(between: Sequence[SamplePair], processor_seconds: float) -> float | None:
    """Of the processor time that a run wanted, which it had or was kept from by a quota, the part it was kept from."""
    waited = [
        after.throttled.seconds - before.throttled.seconds
        for before, after in between
        if before.throttled and after.throttled
    ]
    if not waited or len(waited) < len(between):
        return None
    return sum(waited) / (sum(waited) + processor_seconds) if sum(waited) > 0 else 0.0


def training_pairs(samples: Sequence[Sample], training: Sequence[Span], cores: Sequence[int]) -> list[SamplePair]:
    """Neighbouring samples of these cores between which there was hardly anything but training."""
    return [
        (before, after)
        for before, after in pairwise(samples)
        if cores
        and all(sample.place(core) is not None for sample in (before, after) for core in cores)
        and before.ranks.keys() == after.ranks.keys()
        and _shared_seconds((before.time, after.time), training) > MOSTLY * (after.time - before.time)
    ]


def further_values(samples: Sequence[Sample], training: Sequence[Span]) -> dict[str, list[float]]:
    """What further samplers saw in training: of a counter how much it grew, of a gauge its median, place by place.

    Of a place that is not known all are left out: a part would be taken for the whole.
    """
    within = _within(samples, training)
    counters = dict.fromkeys(name for sample in samples for name in sample.counters)
    gauges = dict.fromkeys(name for sample in within for name in sample.gauges)
    found = {
        **{name: _counted(name, [look for look in samples if name in look.counters], training) for name in counters},
        **{name: _gauged([look.gauges[name] for look in within if name in look.gauges]) for name in gauges},
    }
    return {
        name: [value for value in values if value is not None] for name, values in found.items() if None not in values
    }


def _counted(name: str, samples: Sequence[Sample], training: Sequence[Span]) -> list[float | None]:
    """Of samples that are a little before or after a span, in proportion; nothing if a span was too short for two."""
    spans = []
    for start, end in training:
        (before,), (after,) = _nearest(samples, start), _nearest(samples, end)
        if before.time >= after.time:
            return []
        part = (end - start) / (after.time - before.time)
        pairs = zip(before.counters[name], after.counters[name], strict=False)
        spans.append([None if one is None or other is None else part * (other - one) for one, other in pairs])
    return [None if None in place else sum(filter(None, place)) for place in zip(*spans, strict=False)]


def _gauged(looks: Sequence[list[float | None]]) -> list[float | None]:
    places = [[value for value in place if value is not None] for place in zip(*looks, strict=False)]
    return [statistics.median(place) if place else None for place in places]


def _shared_seconds(span: Span, others: Iterable[Span]) -> float:
    return sum(max(0.0, min(span[1], end) - max(span[0], start)) for start, end in others)


def _within(samples: Iterable[Sample], among: Sequence[Span]) -> list[Sample]:
    return [sample for sample in samples if any(start <= sample.time <= end for start, end in among)]


def _nearest(samples: Sequence[Sample], moment: float) -> list[Sample]:
    """The sample taken nearest to a moment; none where none was taken."""
    return sorted(samples, key=lambda sample: abs(sample.time - moment))[:1]


def _children_bytes(samples: Iterable[Sample], rank: int) -> int:
    return sum(sample.ranks[rank].children_bytes for sample in samples if rank in sample.ranks)


def _frequencies(sample: Sample, cores: Sequence[int]) -> list[float]:
    """Of these cores, or the one of all; 0 is how some systems say that they do not know."""
    places = [sample.place(core) for core in cores] if len(sample.mhz) == len(sample.cores) else []
    chosen = [sample.mhz[place] for place in places if place is not None]
    return [mhz for mhz in chosen or sample.mhz if mhz > 0]


def _growth(between: Iterable[SamplePair], counter: Callable[[Sample], float]) -> float:
    return sum(counter(after) - counter(before) for before, after in between)


def _busy(between: Iterable[SamplePair], cores: Sequence[int]) -> float:
    return _growth(between, lambda sample: sum(sample.core(core)[0] for core in cores))


def _processor_seconds(sample: Sample) -> float:
    return sum(usage.processor_seconds for usage in sample.ranks.values())


def _core_seconds(between: Iterable[SamplePair], cores: Sequence[int]) -> float:
    return len(cores) * sum(after.time - before.time for before, after in between)


def _range(values: list[float]) -> Range | None:
    return (min(values), statistics.median(values), max(values)) if values else None
