"""Charts of one number against another: speed-up against devices, speed against batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.labels import where
from paceline.analysis.rows.row import Row
from paceline.report.charts.captions import WITHOUT_RESULT, about, counted, doubts, kind_of_device, names, numbered
from paceline.report.charts.style import PANEL_HEIGHT, PANEL_WIDTH, WIDTH, Spec
from paceline.report.charts.vega_lite import (
    MOST_INTERVAL,
    MOST_LINES,
    ChartData,
    Drawing,
    amount,
    dashes,
    distinct_lines,
    layer,
    silent,
    slowness,
)
from paceline.system.text.formatting import number


@dataclass(frozen=True)
class Lines:
    """Rows as points of lines that can be told apart."""

    rows: Sequence[Row]
    names: Sequence[str]  # of the line of each row
    notes: Sequence[str]

    @property
    def called(self) -> list[str]:
        return list(dict.fromkeys(self.names))

    def points(self) -> Iterator[tuple[Row, str]]:
        return zip(self.rows, self.names, strict=True)


def scaling(data: ChartData) -> Drawing | None:
    """Speed-up against devices with the ideal line, and efficiency."""
    alike = [row for row in data.rows if not (row.cell.wrapped or row.cell.slow or _has_different_devices(row))]
    lines = _lines(alike, BY_DEVICES, lambda row: row.scaling is not None)
    most = max((row.device_count for row in lines.rows), default=1)
    if most == 1:
        return None
    values = [
        {
            "line": name,
            "devices": row.device_count,
            **_speed_up(row),
            **data.linked(row, _scaling_text(row, name)),
        }
        for row, name in lines.points()
    ]
    counts = sorted({row.device_count for row in lines.rows})
    along = amount("devices", "devices", zero=False, values=counts, format="d", grid=False)
    along["scale"] = {"domain": [1, most], "nice": False, "padding": 12}
    kinds = " and ".join(sorted({row.cell.scaling for row in lines.rows}))
    speed_up = amount("scaling", f"speed-up ({kinds} scaling)")
    efficiency = amount("efficiency", "speed-up ÷ devices", format=".0%")
    ideal = [{"devices": count, "scaling": count, "efficiency": 1, "said": "ideal"} for count in (1, most)]
    shown, cut = _cut(values, "scaling", "efficiency")
    panels = [
        {**_size(PANEL_WIDTH), "layer": [*_ideal(ideal, along, up), *_points(shown, along, up, lines, data)]}
        for up in (speed_up, efficiency)
    ]
    left = len(data.rows) - len(alike)
    left_out = [f"without {left} cells of unlike, slowed or wrapped devices"] if left else []
    in_words = [_scaling_text(row, name) for row, name in lines.points() if row.device_count > 1]
    return Drawing({"hconcat": panels, "spacing": 40}, in_words, [*lines.notes, *left_out, *cut])


def _has_different_devices(row: Row) -> bool:
    """Whether its devices have unlike shares, or no speed-up that is one number."""
    return len(set(row.shares)) > 1 or len(row.scaling_against) > 1


def _speed_up(row: Row) -> Spec:
    scale, low_high = row.scaling or 0.0, row.scaling_interval
    ends = {"scaling_low": low_high[0], "scaling_high": low_high[1]} if low_high else {}
    parts = {name.replace("scaling", "efficiency"): value / row.device_count for name, value in ends.items()}
    return {
        "scaling": scale,
        "efficiency": scale / row.device_count,
        **ends,
        **parts,
        "doubtful": bool(doubts(row)),
    }


def _scaling_text(row: Row, name: str) -> str:
    devices = f"{row.device_count} device{'s' if row.device_count > 1 else ''}"
    between = f" ({row.scaling_interval[0]:.2f}–{row.scaling_interval[1]:.2f})" if row.scaling_interval else ""
    return f"{name} on {devices} {row.scaling or 0.0:.2f}×{between}, efficiency {row.efficiency or 0.0:.0%}"


def _ideal(ends: Sequence[Spec], along: Spec, up: Spec) -> Iterator[Spec]:
    yield layer(silent("rule", strokeDash=[3, 3], opacity=0.7), [_joined(ends, up)], **_both_ends(along, up))
    words = {"field": "said", "type": "nominal"}
    yield layer(silent("text", align="right", baseline="bottom", dy=-4), ends[-1:], x=along, y=up, text=words)


def _joined(ends: Sequence[Spec], up: Spec) -> Spec:
    first, last = ends
    return {**first, "last_devices": last["devices"], "last": last[up["field"]]}


def _both_ends(along: Spec, up: Spec) -> dict[str, Spec]:
    return {"x": along, "y": up, "x2": {"field": "last_devices"}, "y2": {"field": "last"}}


def batch(data: ChartData) -> Drawing | None:
    """Images/s against the images of a step."""
    rows = [row for row in data.rows if not row.command]
    lines = _lines(rows, BY_BATCH, lambda row: row.estimate(SPEED) is not None)
    sizes = sorted({row.cell.batch_size for row in lines.rows})
    if len(lines.rows) == len(lines.called):
        return None  # each line is a point
    values = [
        {"line": name, "batch": row.cell.batch_size, **_speed(row), **data.linked(row, _speed_text(row, name))}
        for row, name in lines.points()
    ]
    along = amount("batch", "images of a step, on all devices", zero=False, values=sizes, format="d")
    along["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 12}
    up = amount("speed", "images/s")
    best = {name: min((row for row, line in lines.points() if line == name), key=slowness) for name in lines.called}
    in_words = [f"fastest {_speed_text(row, name)}" for name, row in best.items()]
    shown, cut = _cut(values, "speed")
    body = {**_size(WIDTH), "layer": list(_points(shown, along, up, lines, data))}
    return Drawing(body, in_words, [*lines.notes, *cut])


def _speed(row: Row) -> Spec:
    found = row.estimate(SPEED)
    if found is None:
        raise ValueError(f"{row.cell.framework} has no speed")
    ends = {} if found.low is None else {"speed_low": found.low, "speed_high": found.high}
    return {"speed": found.median, **ends, "doubtful": bool(doubts(row))}


def _speed_text(row: Row, name: str) -> str:
    speed = row.median(SPEED)
    return f"{name} at batch {row.cell.batch_size} {number(speed)} images/s"


@dataclass(frozen=True)
class LineAxis:
    """What is set against speed."""

    place: Callable[[Row], int]
    place_text: Callable[[Row], str]  # a place in words
    distinguished_by: Sequence[Callable[[Row], str]]  # what makes lines of their own where it differs


BY_DEVICES = LineAxis(lambda row: row.device_count, where, (kind_of_device,))
BY_BATCH = LineAxis(lambda row: row.cell.batch_size, lambda row: f"batch {row.cell.batch_size}", (where,))


def _lines(rows: Sequence[Row], along: LineAxis, usable: Callable[[Row], bool]) -> Lines:
    """One row for each place of a line, and of the lines the fastest."""
    called = _called(rows, along)
    points: dict[tuple[str, int], Row] = {}
    alike = 0
    for row, name in zip(rows, called, strict=True):
        if usable(row) and row.status not in WITHOUT_RESULT:
            alike += points.setdefault((name, along.place(row)), row) is not row
    ranked = list(dict.fromkeys(name for (name, _), row in sorted(points.items(), key=lambda each: slowness(each[1]))))
    kept = ranked[:MOST_LINES]
    shown = {key: row for key, row in sorted(points.items(), key=lambda each: each[0][1]) if key[0] in kept}
    notes = [f"{len(kept)} of {len(ranked)} lines, the fastest"] if len(ranked) > len(kept) else []
    notes += counted(alike, "cell of the same name is left out", "cells of the same name are left out")
    left_out = ranked[MOST_LINES:]
    listed = {
        f"{name} {along.place_text(row)}": row for row, name in zip(rows, called, strict=True) if name not in left_out
    }
    notes += about(list(listed.values()), list(listed))
    return Lines(list(shown.values()), [name for name, _ in shown], notes)


def _called(rows: Sequence[Row], along: LineAxis) -> list[str]:
    """The line of each row: short, and still two where the whole names are."""
    whole = names(rows, along.distinguished_by, along.place)
    lines = list(dict.fromkeys(whole))
    shown = dict(zip(lines, numbered(lines), strict=True))
    return [shown[name] for name in whole]


def _size(width: int) -> Spec:
    return {"width": width, "height": PANEL_HEIGHT}


def _cut(values: Sequence[Spec], *names: str) -> tuple[list[Spec], list[str]]:
    """These with no interval that reaches far beyond the highest point, and a note if one did."""
    ends = {f"{name}_high": MOST_INTERVAL * max(value[name] for value in values) for name in names}
    shown = [
        {**value, **{high: min(value[high], end) for high, end in ends.items() if high in value}} for value in values
    ]
    count = sum(before != after for before, after in zip(values, shown, strict=True))
    return shown, counted(count, "interval goes on beyond the picture", "intervals go on beyond the picture")


def _points(values: Sequence[Spec], along: Spec, up: Spec, lines: Lines, data: ChartData) -> Iterator[Spec]:
    """Intervals below lines below points; hollow ones are doubtful."""
    look, name = distinct_lines(lines.called), up["field"]
    spans = [value for value in values if f"{name}_low" in value]
    if spans:
        ends = {"x": along, "y": {**up, "field": f"{name}_low"}, "y2": {"field": f"{name}_high"}}
        yield layer(silent("rule", strokeWidth=1.5), spans, **ends, color=look["color"])
    dash = dashes(lines.called)
    dashed = [{**value, "dash": dash[value["line"]]} for value in values]
    yield layer(silent("line"), dashed, x=along, y=up, color=look["color"], strokeDash=look["strokeDash"])
    for doubtful in (False, True):
        found = [value for value in values if value["doubtful"] is doubtful]
        if found:
            mark = {"type": "point", "filled": not doubtful}
            yield layer(mark, found, x=along, y=up, color=look["color"], shape=look["shape"], **data.links())
