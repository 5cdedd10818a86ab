"""Numbers in the output of a command: what the user asks for, where they are found, and what they come to."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.plan.external.command import OutputMetric
from paceline.plan.external.presets import PRESETS
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import quoted

LAST = ("accuracy", "error", "loss")  # what training is about in the end; of all else the typical value is wanted
PERCENT = {"accuracy%": "right", "error%": "wrong"}  # both are shown as accuracy
LINE_BYTES = 8192  # a longer line is searched piece by piece: it is rubbish, or a progress bar without an end
CHUNK_BYTES = 1 << 20
LINE_END = re.compile(rb"[\r\n]+")
TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08+")  # colours and steps back, as progress bars print them


def parse_metric(text: str) -> OutputMetric:
    """Read NAME=REGEX."""
    name, equals, pattern = text.partition("=")
    name = " ".join(name.split())
    if not (name and equals and pattern):
        raise UserError(f"--metric {quoted(text)}: write NAME=REGEX, such as 'images/s=Speed: ([0-9.]+)'.")
    try:
        groups = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"--metric {name}: {quoted(pattern)} is no regular expression: {error}.") from None
    if groups.groups != 1 and "value" not in groups.groupindex:
        has = "no group" if not groups.groups else f"{groups.groups} groups"
        raise UserError(
            f"--metric {name}: {quoted(pattern)} has {has}; "
            "put one pair of ( ) around the number, or name one (?P<value>…)."
        )
    shown = "accuracy" if name in PERCENT else name
    take = "last" if any(word in shown for word in LAST) else "median"
    return OutputMetric(name=shown, pattern=pattern, take=take, percent=PERCENT.get(name, ""))


def preset(name: str) -> tuple[OutputMetric, ...]:
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def read_log(path: Path, metrics: Sequence[OutputMetric]) -> tuple[tuple[float, ...], ...]:
    """For each metric the numbers of all its matches, in order."""
    found: list[list[float]] = [[] for _ in metrics]
    patterns = [re.compile(metric.pattern) for metric in metrics]
    for line in lines_of(path) if metrics else ():
        for pattern, values in zip(patterns, found, strict=True):
            values += [number for match in pattern.finditer(line) if (number := _number(match)) is not None]
    return tuple(tuple(values) for values in found)


def lines_of(path: Path) -> Iterator[str]:
    """Lines, ended also by a carriage return, without the codes that steer a terminal; never the whole file at once."""
    rest = b""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            *whole, rest = LINE_END.split(rest + chunk)
            yield from _pieces(whole)
            if len(rest) > LINE_BYTES:
                yield from _pieces([rest])
                rest = b""
    yield from _pieces([rest])


def _pieces(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        for start in range(0, len(line), LINE_BYTES):
            text = line[start : start + LINE_BYTES].decode(errors="replace")
            yield TERMINAL_CODES.sub("", text)


def _number(match: re.Match[str]) -> float | None:
    """None where the group holds no number: a loss may be nan."""
    text = match["value"] if "value" in match.re.groupindex else match[1]
    try:
        value = float((text or "").replace(",", "").rstrip("."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def values_of(metrics: Sequence[OutputMetric], found: Sequence[Sequence[float]]) -> dict[str, float]:
    """What the numbers of a run come to, by name; a metric without a match is not there."""
    values: dict[str, float] = {}
    for metric, numbers in zip(metrics, found, strict=True):
        if numbers:
            values.setdefault(metric.name, _value(metric, numbers))
    return values


def _value(metric: OutputMetric, numbers: Sequence[float]) -> float:
    # The first is left out where there are others: it has start-up in it.
    value = numbers[-1] if metric.take == "last" else statistics.median(numbers[1:] or numbers)
    return {"right": value / 100, "wrong": 1 - value / 100}.get(metric.percent, value)
