"""Explanations: the cause first, then the parts of the lost time."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from paceline.analysis.statistics.intervals import Estimate
from paceline.report.document import GAP, Document, Heading, Notes, Paragraph, Table
from paceline.report.formats import formats
from paceline.studies.scaling.explain import Explanation
from paceline.studies.scaling.lost_time import (
    CONTENTION,
    EXCHANGE,
    EXCHANGE_AND_CONTENTION,
    IMBALANCE,
    INPUT,
    REST,
    LostPart,
    LostTime,
    bounds,
    ranked,
)
from paceline.system.text.formatting import NOTHING, number

HEADINGS = (
    Heading("part"),
    Heading("ms per step", number=True, stacked="ms per\nstep"),
    Heading("95 % interval", number=True, whole=True),
    Heading("of lost time", number=True, stacked="of lost\ntime"),
    Heading("what it is, and what to try"),
)
MEANINGS = {
    INPUT: "images come late, or are copied; try a simpler --input or more --cores-per-device",
    EXCHANGE: "devices agree on the weights, step by step; try a larger batch or another --update",
    CONTENTION: "devices hinder each other (memory, caches, cores); try fewer devices or fewer cores for each",
    EXCHANGE_AND_CONTENTION: "devices agree and hinder each other, which cannot be told apart here; try a larger batch",
    IMBALANCE: "all wait for a slower device or a larger share; try --shares measured",
    REST: "mostly: a smaller part of the batch is less efficient; try a larger batch",
}
DIFFERENT_DEVICES_REST = "mostly: together, unlike devices are slower than as many of the first one"
DIFFERENT_CARDS_REST = "how the fastest device differs from the mean of all"
WEAK_REST = "how the fastest device differs from the first"  # its part of the batch is no smaller than that of one
FOOTNOTE = (
    "Each part is the difference of two ablations of the cell, round by round; medians of rounds, which need not add "
    "up exactly, with 95 % intervals."
)


def milliseconds(value: float) -> str:
    shown = number(abs(value) * 1000)
    return f"-{shown}" if value < 0 and float(shown.replace(",", "")) else shown  # no -0.00


def interval(value: Estimate, show: Callable[[float], str] = milliseconds) -> str:
    """Written out, since a dash would look like a sign."""
    return NOTHING if value.low is None or value.high is None else f"{show(value.low)} to {show(value.high)}"


def sentence(explained: Explanation) -> str:
    """What came of it: a cause, that there is none, that it cannot be told, or that it could not be measured."""
    name = f"{explained.workload} on {explained.framework} {explained.devices}"
    if explained.time is None:
        return f"{name} cannot be explained: {'; '.join(explained.failures)}."
    return f"{name} {_verdict(explained.time, explained.rounds)}"


def _verdict(time: LostTime, rounds: int) -> str:
    step, sure = milliseconds(time.step.median), f"95 % interval {interval(time.lost)}"
    if bounds(time.lost)[1] < 0:
        return f"scales more than linearly: a step of {step} ms saves {milliseconds(-time.lost.median)} ms ({sure})."
    lost = milliseconds(time.lost.median)
    if time.scales:
        return f"scales: of a step of {step} ms, {lost} ms are lost, which may be noise ({sure})."
    if time.may_be_nothing:
        unsure = f"{lost} of a step's {step} ms seem lost, which may be noise ({sure})"
        return f"is not known well enough: {unsure}; more than {rounds} rounds, or a quieter machine, may tell."
    loses = f"loses {lost} of each step's {step} ms"
    if time.largest is None:
        few = ", ".join(f"{part.name} {amount(part)}" for part in ranked(time.parts)[:2])
        return f"{loses} ({sure}); cannot tell which part is largest: {few}. More than {rounds} rounds may tell."
    part = ranked(time.parts)[0]
    parts = f"{part.of_step:.0%} of the step and {_of_loss(part)} of the lost time"
    return f"{loses}, mostly to {part.name}: {amount(part)}, {parts}."


def amount(part: LostPart) -> str:
    return f"{milliseconds(part.seconds.median)} ms (95 % interval {interval(part.seconds)})"


def _of_loss(part: LostPart) -> str:
    return NOTHING if part.of_loss is None else f"{part.of_loss:.0%}"


def lines(explained: Explanation, time: LostTime) -> list[tuple[str, ...]]:
    """The table without its headings."""
    unequal = explained.slow or len(set(explained.shares)) > 1
    rest = DIFFERENT_DEVICES_REST if unequal else WEAK_REST if explained.scaling == "weak" else MEANINGS[REST]
    rest = DIFFERENT_CARDS_REST if len(_bases(explained)) > 1 else rest
    meanings = {**MEANINGS, REST: rest}
    parts = [
        (part.name, milliseconds(part.seconds.median), interval(part.seconds), _of_loss(part), meanings[part.name])
        for part in time.parts
    ]
    return [*parts, ("lost in all", milliseconds(time.lost.median), interval(time.lost), "", "")]


def _bases(explained: Explanation) -> list[str]:
    """The ablations that it is held against: one device, or one of each kind."""
    return [ablation.name for ablation in explained.ablations if ablation.name.startswith("one ")] or ["one device"]


def remarks(explained: Explanation, time: LostTime) -> list[str]:
    """How well it scales, what was measured, and what is special about it."""
    size = "+".join(map(str, explained.shares))
    source = f"{explained.data} {explained.input}".strip()
    slowed = [f"device {index} by {times:g}×" for index, times in enumerate(explained.slow) if times > 1]
    bases = _bases(explained)
    base = bases[0] if len(bases) == 1 else f"the mean of {' and '.join(bases)}"
    found = [
        f"speed-up over {base} without input: {time.speed_up.median:.2f}× "
        f"({interval(time.speed_up, lambda value: f'{value:.2f}')}), efficiency {time.efficiency.median:.0%} "
        f"({interval(time.efficiency, lambda value: f'{value:.0%}')})",
        f"{explained.update}, {source}, {explained.precision}, batch {size}={explained.batch_size} "
        f"({explained.scaling} scaling), {explained.rounds} rounds of {explained.steps} steps",
    ]
    if explained.oversubscribed:
        found.append("oversubscribed: its devices share cores, or have more than a CPU quota lets them use")
    if slowed:
        found.append(f"simulated: devices were slowed down on purpose ({', '.join(slowed)})")
    return found


def document(explained: Explanation) -> Document:
    said = Paragraph(sentence(explained))
    if explained.time is None:
        return [said, Table(HEADINGS, [], optional=True)]
    table = Table(HEADINGS, lines(explained, explained.time))
    return [said, GAP, table, Notes(remarks(explained, explained.time)), Paragraph(FOOTNOTE)]


def _with_sentence(explained: Explanation) -> object:
    return {"sentence": sentence(explained), **msgspec.to_builtins(explained)}


FORMATS = formats(document, _with_sentence)
