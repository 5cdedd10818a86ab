"""What must be said below a table: causes, reasons, marks, and which rows are not the same training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from paceline.analysis.quantities.chance_accuracy import little_better
from paceline.analysis.quantities.known import ALLOCATOR_MEMORY, MEMORY, STARTED_MEMORY, TEST_ACCURACY, TRAIN_ACCURACY
from paceline.analysis.rows.labels import labels, where
from paceline.analysis.rows.row import Row
from paceline.catalog.frameworks import all_frameworks
from paceline.report.escaping import few
from paceline.report.tables.columns import batch, joined
from paceline.report.tables.small_forms import small_form_note, without_doubts

Name = tuple[str, str]  # what most rows are called by, and what tells apart those that have it in common
MOST_TRAININGS = 6  # that a sentence names
MOST_NOISY = 4  # rows of which each has its reason
MOST_NAMED = 8  # of those that share one
SEVERAL = {"is": "are", "was": "were"}
SETTINGS: dict[str, Callable[[Row], float]] = {
    "batches": lambda row: row.cell.batch_size,
    "learning rates": lambda row: row.cell.learning_rate,
}
NO_SINGLE_NETWORK = (
    "each device judged its part of the test images with weights of its own: "
    "the test accuracy is that of no single network"
)


def remarks(rows: Iterable[Row], *, memory: bool = True) -> list[str]:
    """About all rows, then about single ones, those of which the same is to be said together."""
    rows = without_doubts(list(rows))
    about: dict[tuple[str, str], list[Name]] = {}
    names = _names(rows)
    for row, name in zip(_alike_if_many_are_noisy(rows), names, strict=True):
        for remark in _about_one(row, memory):
            about.setdefault(remark, []).append(name)
    return [*_about_all(rows), *(_sentence(_called(some, names), *remark) for remark, some in about.items())]


def _alike_if_many_are_noisy(rows: list[Row]) -> list[Row]:
    """With one reason for all of them, so that they become one sentence: the table itself must stay in sight."""
    noisy = [_noisy_width(row) for row in rows]
    widths = [100 * width for width in noisy if width]
    if len(widths) <= MOST_NOISY:
        return rows
    wide = f"95 % intervals of {min(widths):.0f} to {max(widths):.0f} % of the median"
    reason = f"{wide}; paceline show --format json has all of them, and what was seen beside each"
    return [replace(row, reason=reason) if width else row for row, width in zip(rows, noisy, strict=True)]


def _noisy_width(row: Row) -> float | None:
    """Of the interval that made the row noisy; a single run has none."""
    return row.judged.width if row.status == "noisy" and row.judged else None


def _names(rows: list[Row]) -> list[Name]:
    """Framework and devices, and what sets rows of the same framework and devices apart."""
    short = [row.cell.framework if row.command else f"{row.cell.framework} {where(row)}" for row in rows]
    called = dict(zip(map(id, rows), short, strict=True))
    return list(zip(short, labels(rows, lambda row: called[id(row)]), strict=True))


def _called(some: list[Name], names: list[Name]) -> list[str]:
    """In short where all of one framework and its devices are meant."""
    meant, there = (Counter(short for short, _ in each) for each in (some, names))
    called = (short if meant[short] == there[short] else f"{short} {rest}".strip() for short, rest in some)
    return list(dict.fromkeys(called))


def _about_all(rows: list[Row]) -> Iterator[str]:
    if any(row.quick for row in rows):
        yield small_form_note(rows)
    for quota in dict.fromkeys(row.quota_cores for row in rows if row.quota_cores is not None):
        yield f"measured under a CPU quota, which gave all programs of the container together {cores_time(quota)}"
    if proven := list(_verified(rows)):
        yield f"verified to compute the same network: {', '.join(proven)}"
    yield from different_trainings(rows)


def _verified(rows: list[Row]) -> Iterator[str]:
    """Frameworks, with their devices where not all that ran was verified."""
    for name in dict.fromkeys(row.cell.framework for row in rows if row.verified):
        own = [row for row in rows if row.cell.framework == name and row.runs]
        places = dict.fromkeys(where(row) for row in own if row.verified)
        yield name if all(row.verified for row in own) else f"{name} on {' and '.join(places)}"


def _about_one(row: Row, memory: bool) -> Iterator[tuple[str, str]]:
    """What it is, and why or what that means."""
    if row.reason:
        yield f"{'is ' if row.status == 'noisy' else ''}{row.status}", row.reason
    if row.failed_run:
        yield "log", f"paceline log {row.failed_run}"
    for remark in row.remarks:
        yield "", remark
    if exchange := supplied_exchange(row):
        yield "", exchange
    for mark in row.marks if row.status != "skipped" else ():
        yield "" if mark in where(row) else f"is {mark}", MARKS[mark](row)
    if row.cell.update == "independent" and row.device_count > 1 and row.estimate(TEST_ACCURACY):
        yield "", NO_SINGLE_NETWORK
    if row.target is not None and 0 < row.runs_at_target < row.repeats:
        yield "", f"{row.runs_at_target} of {row.repeats} runs reached the test accuracy {row.target:g}"
    if row.above_chance is False:
        yield "was not trained long enough", little_better(row.chance or 0.0)
    if memory and row.memory_of == "all devices" and row.of_each(MEMORY) and not row.command:
        yield "", "one process serves all devices, so its memory is that of all together"


def _sentence(names: list[str], state: str, words: str) -> str:
    verb, _, rest = state.partition(" ")
    if len(names) > 1 and verb in SEVERAL:
        state = f"{SEVERAL[verb]} {rest}"
    named = few(names, MOST_NAMED if state.endswith("noisy") else len(names), ", ")
    return f"{named}{' ' if state else ''}{state}: {words}"


def different_trainings(rows: list[Row]) -> list[str]:
    """What makes rows of one table different trainings, where accuracies might be compared."""
    judged = [row for row in rows if (row.estimate(TEST_ACCURACY) or row.estimate(TRAIN_ACCURACY)) and not row.command]
    workloads = list(dict.fromkeys(row.cell.workload for row in judged))
    return [
        f"{f'{name}: ' if len(workloads) > 1 else ''}{remark}"
        for name in workloads
        for remark in _different([row for row in judged if row.cell.workload == name])
    ]


def _different(rows: list[Row]) -> Iterator[str]:
    """About trainings of one workload."""
    batches, rates = {row.cell.batch_size for row in rows}, {row.cell.learning_rate for row in rows}
    if len(batches) > 1 or len(rates) > 1:
        found = few((f"{row.cell.devices} has {batch(row)}" for row in rows), MOST_TRAININGS, ", ")
        advice = "; the learning rate is not scaled with the batch (--lr-rule linear does)" if len(rates) == 1 else ""
        yield f"not the same training: {_what_differs(rows)}: {found}{advice}"
    own = {(row.cell.batch_size, _own_images(row)) for row in rows if row.batch_norm}
    if len(own) > len({size for size, _ in own}):  # where the batch is another, so is all that follows from it
        found = few((f"{_own_images(row)} images on {row.cell.devices}" for row in rows), MOST_TRAININGS, ", ")
        yield f"not quite the same training: each device normalises over its own images: {found}"


def _what_differs(rows: list[Row]) -> str:
    if (
        len({row.device_count for row in rows}) > 1
        and len({row.cell.batch_size / row.device_count for row in rows}) == 1
    ):
        return "the batch grows with the devices"
    differing = [name for name, value in SETTINGS.items() if len(set(map(value, rows))) > 1]
    return f"{' and '.join(differing)} differ"


def _own_images(row: Row) -> str:
    """Of each device; of all with their own number where these are unlike."""
    return "+".join(map(str, row.shares if len(set(row.shares)) > 1 else row.shares[:1]))


def slowed(row: Row) -> str:
    factors = [f"device {index} by {times:g}×" for index, times in enumerate(row.cell.slow) if times > 1]
    return f"devices were slowed down on purpose ({', '.join(factors)})"


def early_memory(row: Row) -> str:
    own = (
        f"; its own allocator needed {joined(row.of_each(ALLOCATOR_MEMORY))} MiB"
        if row.of_each(ALLOCATOR_MEMORY)
        else ""
    )
    started, most = joined(row.of_each(STARTED_MEMORY)), joined(row.of_each(MEMORY))
    return f"of {most} MiB that the driver saw at most, {started} MiB were taken before anything was built{own}"


def crowded(row: Row) -> str:
    """Too few cores, or a quota that does not let them work all the time."""
    wanted = row.device_count * row.cores_per_device
    if row.quota_cores is None or wanted <= row.quota_cores:
        return "devices share cores"
    return f"devices have {wanted} core{'s' if wanted > 1 else ''}, and a CPU quota gives {cores_time(row.quota_cores)}"


def held_back(row: Row) -> str:
    return f"its CPU quota held back {row.noise.throttled or 0.0:.0%} of the processor time that it wanted"


def cores_time(count: float) -> str:
    return f"the time of {round(count, 2):g} core{'s' if count > 1 else ''}"


MARKS: dict[str, Callable[[Row], str]] = {
    "preallocated": early_memory,
    "oversubscribed": crowded,
    "throttled": held_back,
    "simulated": slowed,
}


def supplied_exchange(row: Row) -> str:
    """Why it is not the framework's own; empty where it is, and where nothing was exchanged."""
    framework = all_frameworks().get(row.cell.framework.partition("+")[0])
    exchanged = (
        (row.device_count > 1 or row.cell.wrapped) and row.cell.update != "independent" and row.runs and not row.command
    )
    return framework.exchange if framework and exchanged else ""
