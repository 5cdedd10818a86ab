"""From marks to pictures: panels side by side, above them the title and the notes, below them the legend."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from paceline.analysis.rows.row import Row
from paceline.report.charts import style
from paceline.report.charts.kinds import KINDS, Picture, kinds, pictures
from paceline.report.charts.marks import Mark, Place
from paceline.report.charts.material import Panel, Samples
from paceline.report.charts.style import EDGE, LINE_HEIGHT, TITLE_SIZE, Theme, text_width
from paceline.store.series import Series

FORMATS = (".svg", ".png", ".pdf")
PIXELS = 2  # of a PNG for each point: sharp on paper and on dense screens
LETTER_WIDTH, LEAST_WIDTH, GAP = 6.1, 480, 24
BELOW = 44  # a panel: labels and title of its axis
SAMPLE, LEGEND_HEIGHT = 36, 18  # of a legend, with what is between a sample and its name


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A chart for a page."""

    kind: str
    title: str
    description: str  # in words, with the numbers that matter
    svg: str  # to stand inside of HTML: takes the colour of its text, has no ids, no styles and no scripts


def figures(
    rows: Sequence[Row], series: Series, link: Callable[[Row], str], wanted: Iterable[str] = KINDS
) -> list[Figure]:
    """All charts that these rows have the data for and that tell something; a mark leads to where `link` says."""
    return [
        Figure(kind=kind, title=picture.title, description=picture.description, svg=svg(picture))
        for kind in wanted
        for picture in pictures(kind, list(filter(kinds()[kind].on_pages, rows)), series, link)
    ]


def svg(picture: Picture, look: Theme | None = None) -> str:
    """With paper and ink of its own, or to take the colour of the text around it."""
    panels: list[tuple[Panel, int]] = []
    right = 0.0
    for panel in picture.drawing.panels:
        left = round(panel.before + (right + GAP if panels else EDGE))
        right = left + panel.size[0] + panel.after
        panels.append((panel, left))
    width = round(max(LEAST_WIDTH, right + EDGE, text_width(picture.title, TITLE_SIZE) + 2 * EDGE))
    letters = int((width - 2 * EDGE) / LETTER_WIDTH)
    notes = [line for note in picture.notes for line in textwrap.wrap(note, letters, break_on_hyphens=False)]
    top = 4 * EDGE + TITLE_SIZE + LINE_HEIGHT * len(notes)
    bottom = top + BELOW + max(panel.size[1] for panel, _ in panels)
    legend = list(_legend(picture.drawing.legend, panels[0][1], bottom, width))
    height = legend[-1][2][1] + 2 * EDGE if legend else bottom
    shown = {"picture": picture, "look": look, "notes": notes, "panels": panels, "legend": legend, "style": style}
    return _template().render(shown, width=width, height=height, top=top, as_it_is=lambda place: place)


def _legend(samples: Samples, left: int, top: int, width: int) -> Iterator[tuple[str, Sequence[Mark], Place]]:
    """In columns: each name with its marks and their place."""
    column = SAMPLE + max(map(text_width, samples), default=0) + EDGE
    count = max(1, int((width - left) / column))
    for number, (name, marks) in enumerate(samples.items()):
        place = (left + SAMPLE / 2 + column * (number % count), top + LEGEND_HEIGHT * (number // count) + EDGE)
        yield name, marks, place


@cache
def _template() -> Template:
    loader = PackageLoader("paceline.report.charts", "")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return made.get_template("chart.svg.j2")


def contents(picture: Picture, look: Theme, suffix: str) -> bytes:
    """Of a file with this ending."""
    drawn = svg(picture, look)
    if suffix == ".svg":
        return drawn.encode()
    import vl_convert  # only where it is needed: it is large

    return vl_convert.svg_to_pdf(drawn) if suffix == ".pdf" else vl_convert.svg_to_png(drawn, scale=PIXELS)
