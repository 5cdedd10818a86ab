"""From specifications to pictures, by vl-convert: no browser, no network."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from xml.sax.saxutils import escape, quoteattr, unescape

import msgspec

from paceline.analysis.rows.row import Row
from paceline.report.charts.kinds import KINDS, Picture, pictures
from paceline.report.charts.style import EDGE, FONT, LOOKS, Theme, config
from paceline.store.series import Series

PIXELS = 2  # of a PNG for each point: sharp on paper and on dense screens
TITLE_HEIGHT, LINE_HEIGHT, LETTER_WIDTH, FEWEST_LETTERS = 22, 15, 5.4, 76
DRAWN = re.compile(r'<svg [^>]*width="([\d.]+)" height="([\d.]+)"[^>]*>(.*)</svg>\s*$', re.DOTALL)
LINK = re.compile(r'(<a [^>]*?)xlink:href="[^"#]*#(\d+)"')  # the converter puts an address of its own before the sign
# What says nothing: the whole picture has its font, and frames without content are not seen.
EMPTY = re.compile(
    rf' font-family="{re.escape(FONT)}"| opacity="1"|<path class="foreground"[^>]*/>'
    r'|<path class="background"[^>]*d="M0,0h0v0h0Z"[^>]*/>'
)


SPACE = re.compile(r'(<a [^>]*>)?<text aria-label="([^"]*)" role="[^"]*" aria-roledescription="[^"]*"([^>]*)/>')
ANCHOR = re.compile(r'text-anchor="(\w+)" transform="translate\(([-\d.]+),')
ORIGIN = re.compile(r'<g fill="none" stroke-miterlimit="10" transform="translate\(([-\d.]+),')
SHAPE = re.compile(r' (?:d|transform|x2|y2)="[^"]*"')
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")  # a hundredth of a point is not seen


# Draws in parallel to Python: the converter lets go of its lock. One thread, since one engine draws at a time.
PENCIL = ThreadPoolExecutor(max_workers=1, thread_name_prefix="charts")


def start_drawing() -> None:
    """Start the converter's engine, which takes half a second, while there is nothing to draw yet."""

    def draw_nothing() -> None:
        import vl_convert

        vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "point"}, allowed_base_urls=[])

    PENCIL.submit(draw_nothing)


def stop_drawing() -> None:
    """Draw nothing more than what is on the paper: whoever waits for the rest sees it cancelled."""
    PENCIL.shutdown(wait=False, cancel_futures=True)


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A chart for a page."""

    kind: str
    title: str
    description: str  # in words, with the numbers that matter
    svg: str  # to stand inside of HTML: takes the colour of its text, has no ids, no styles and no scripts


def figures(
    rows: Sequence[Row], series: Series, link: Callable[[Row], str], kinds: Iterable[str] = KINDS
) -> list[Figure]:
    """All charts that these rows have the data for and that tell something; a mark leads to where `link` says."""
    places: list[str] = []

    def number(row: Row) -> str:
        places.append(link(row))
        return f"#{len(places) - 1}"

    return [
        Figure(
            kind=kind,
            title=picture.title,
            description=picture.description,
            svg=svg(picture, LOOKS["page"], places),
        )
        for kind in kinds
        for picture in pictures(kind, list(filter(KINDS[kind].on_pages, rows)), series, number)
    ]


def svg(picture: Picture, look: Theme, places: Sequence[str] = ()) -> str:
    """The chart below its title and notes; its marks lead to the places whose numbers they have.

    Long texts are put in here: the converter takes longer to measure their letters than for all the rest.
    """
    import vl_convert  # it starts a JavaScript engine: only where something is drawn

    whole = vl_convert.vegalite_to_svg({**picture.spec, "config": config(look)}, allowed_base_urls=[])
    drawn = _only(DRAWN.match(whole))
    content = SHAPE.sub(lambda found: LONG_NUMBER.sub(r"\1", found[0]), EMPTY.sub("", drawn[3]))
    content, left, right = _filled(content, float(drawn[1]))
    content = LINK.sub(lambda found: f"{found[1]}href={quoteattr(places[int(found[2])])}", content)
    lines = list(_lines(picture.notes, left + right))
    width = max([left + right, *(2 * EDGE + LETTER_WIDTH * len(line) for line in lines)])
    top = EDGE + TITLE_HEIGHT + LINE_HEIGHT * len(lines)
    height = top + float(drawn[2])
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family={quoteattr(FONT)} overflow="visible" '
        f'role="graphics-document" aria-label={quoteattr(picture.title)}>{_heading(picture.title, lines, look)}'
        f'<g transform="translate({left:.0f},{top})">{content}</g></svg>'
    )


def _filled(content: str, width: float) -> tuple[str, float, float]:
    """With the texts of `material.words` in their places, and how far to the left and right the picture then goes."""
    origin = _only(ORIGIN.match(content))
    ends = [0.0, width]

    def fill(found: re.Match[str]) -> str:
        link, words, rest = found.groups("")
        anchor, place = _only(ANCHOR.search(rest)).groups()
        length = EDGE + LETTER_WIDTH * len(unescape(words))
        ends.append(float(origin[1]) + float(place) + (length if anchor == "start" else -length))
        hidden = "" if link else ' aria-hidden="true"'  # what it says, a bar says too
        return f"{link}<text{hidden}{rest}>{words}</text>"

    return SPACE.sub(fill, content), -min(ends), max(ends)


def _only(found: re.Match[str] | None) -> re.Match[str]:
    if found is None:
        raise ValueError("vl-convert writes SVG otherwise than it did")
    return found


def _lines(notes: Iterable[str], width: float) -> Iterator[str]:
    letters = max(FEWEST_LETTERS, int((width - 2 * EDGE) / LETTER_WIDTH))
    for note in notes:
        yield from textwrap.wrap(note, letters, break_on_hyphens=False)


def _heading(title: str, lines: Sequence[str], look: Theme) -> str:
    paper = f'<rect width="100%" height="100%" fill="{look.paper}"/>' if look.paper else ""
    first = f'<text x="{EDGE}" y="{EDGE + 14}" font-size="14px" font-weight="600" fill="{look.ink}">'
    texts = [f"{first}{escape(title)}</text>"]
    for place, line in enumerate(lines, 1):
        start = f'<text x="{EDGE}" y="{EDGE + 18 + LINE_HEIGHT * place}" font-size="11px" fill="{look.ink}">'
        texts.append(f"{start}{escape(line)}</text>")
    return paper + "".join(texts)


def png(picture: Picture, look: Theme) -> bytes:
    import vl_convert

    return vl_convert.svg_to_png(svg(picture, look), scale=PIXELS)


def pdf(picture: Picture, look: Theme) -> bytes:
    import vl_convert

    return vl_convert.svg_to_pdf(svg(picture, look))


FORMATS: dict[str, Callable[[Picture, Theme], bytes]] = {
    ".svg": lambda picture, look: svg(picture, look).encode(),
    ".png": png,
    ".pdf": pdf,
}
