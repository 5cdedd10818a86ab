"""How charts look: what stands on a page takes its colour, what goes to a file brings its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Look = Mapping[str, str | float]  # attributes of SVG

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, BAR_STEP, EDGE = 400, 236, 210, 24, 8
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
FONT_SIZE, TITLE_SIZE, LINE_HEIGHT = 11, 14, 15
INK = "currentColor"  # of text, axes and intervals: what `Theme` has, or the colour of the page's text
# Neither light nor dark, so that each has a contrast of 3 and more on white and on black; in grey print it is
# the shape of points, the dashes of lines and the words that tell them apart.
COLOURS = ("#3b76c4", "#c2661c", "#1a8c7d", "#b5468c", "#7d7d22", "#7a62c9", "#c94a4a", "#747c85")
DASHES = ("none", "7,3", "2,2", "9,3,2,3", "4,4", "12,4", "5,2,1,2,1,2", "1,4")
SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",  # circle
    "M-3.6,-3.6h7.2v7.2h-7.2z",
    "M0,-4.6L4.6,3.4H-4.6z",
    "M0,-5.2L4.4,0L0,5.2L-4.4,0z",
    "M-1.7,-4.8h3.4v3.1h3.1v3.4h-3.1v3.1h-3.4v-3.1h-3.1v-3.4h3.1z",
    "M0,4.6L4.6,-3.4H-4.6z",
    "M4.6,0L-3.4,4.6V-4.6z",
    "M-4.6,0L3.4,4.6V-4.6z",
)
# All of one ink, from hardly any to all of it; the one that is measured stands out.
PHASE_INK = {"start": 0.2, "build": 0.34, "compile": 0.48, "warmup": 0.62, "train": 0.95, "evaluate": 0.08}

VALUE: Look = {"fill": COLOURS[0], "fill-opacity": 0.55, "stroke": COLOURS[0]}
HOLLOW: Look = {"fill": COLOURS[0], "fill-opacity": 0, "stroke": COLOURS[0]}
OUTLINE: Look = {"fill-opacity": 0, "stroke": INK}
INTERVAL: Look = {"fill": "none", "stroke": INK, "stroke-width": 1.5}
AIM: Look = {"fill": "none", "stroke": INK, "stroke-dasharray": "3,3", "opacity": 0.7}
GRID: Look = {"fill": "none", "stroke": INK, "stroke-opacity": 0.12}
STROKES: Look = {"fill": "none", "stroke": INK, "stroke-opacity": 0.6}


@dataclass(frozen=True)
class Theme:
    ink: str
    paper: str


LOOKS = {"light": Theme("#1b1f24", "#ffffff"), "dark": Theme("#e6e8eb", "#15181d")}

NARROW, WIDE = frozenset("fijlrtI.,:;'|!()[]- /"), frozenset("mwMW%@…×÷")


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """At most so wide in any common font: whoever looks at a picture has fonts of their own."""
    shares = [0.42 if letter in NARROW else 1.0 if letter in WIDE or letter > "\u2e7f" else 0.65 for letter in text]
    return size * sum(shares)
