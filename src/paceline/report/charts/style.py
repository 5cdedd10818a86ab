"""How charts look: what stands on a page takes its colour, what goes to a file brings its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]  # Vega-Lite

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, BAR_STEP, EDGE = 400, 250, 210, 24, 8
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
# Neither light nor dark, so that each has a contrast of 3 and more on white and on black; in grey print it is
# the shape of points, the dashes of lines and the words that tell them apart.
COLOURS = ("#3b76c4", "#c2661c", "#1a8c7d", "#b5468c", "#7d7d22", "#7a62c9", "#c94a4a", "#747c85")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [12, 4], [5, 2, 1, 2, 1, 2], [1, 4])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
# All of one ink, from hardly any to all of it; the one that is measured stands out.
PHASE_INK = {"start": 0.2, "build": 0.34, "compile": 0.48, "warmup": 0.62, "train": 0.95, "evaluate": 0.08}

# The converter takes a tenth of a millisecond to measure a letter: names are short already, and are measured once.
FIXED_LABELS = {"labelLimit": 0, "labelOverlap": False, "labelFlush": False, "labelBound": False}


@dataclass(frozen=True)
class Theme:
    ink: str  # text, axes, intervals
    paper: str | None


LOOKS = {
    "page": Theme("currentColor", None),
    "light": Theme("#1b1f24", "#ffffff"),
    "dark": Theme("#e6e8eb", "#15181d"),
}


def config(look: Theme) -> Spec:
    """Everything that has a colour; specifications themselves name none."""
    ink = look.ink
    strokes = {"domainColor": ink, "domainOpacity": 0.6, "tickColor": ink, "tickOpacity": 0.6}
    grid = {"gridColor": ink, "gridOpacity": 0.12}
    symbols = {"symbolSize": 60, "symbolStrokeWidth": 0}
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": 400}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": EDGE,
        "view": {"stroke": None},
        "axis": {**words, **strokes, **grid, **FIXED_LABELS, "titlePadding": 8},
        "legend": {**words, **symbols, "orient": "bottom", "columns": 4, "labelLimit": 0},
        "bar": {"color": COLOURS[0]},
        "line": {"strokeWidth": 1.75},
        "point": {"size": 55, "opacity": 1, "strokeWidth": 1.5},
        "rule": {"color": ink},
        "tick": {"color": ink},
        "text": {"color": ink, "fontSize": 11},
        "range": {"category": list(COLOURS)},
        "style": {
            "value": {"color": COLOURS[0], "fillOpacity": 0.55, "stroke": COLOURS[0], "strokeWidth": 1},
            "hollow": {"fillOpacity": 0, "stroke": COLOURS[0], "strokeWidth": 1},
            "phase": {"color": ink},
            "outline": {"fillOpacity": 0, "stroke": ink, "strokeWidth": 1},
        },
    }
