"""What is seen in a chart: shapes at places in the numbers of a panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from paceline.report.charts.style import AIM, BAR_STEP, INTERVAL, Look, text_width

Place = tuple[float, float]
Span = tuple[float, float]  # from, to


@dataclass(frozen=True)
class Mark:
    """Who only hears the picture hears what is told."""

    kind: str
    places: Sequence[Place]
    look: Look = field(default_factory=dict)
    shape: str = ""  # of a point
    text: str = ""
    told: str = ""
    href: str = ""

    @property
    def length(self) -> float:
        """Of its text, to the right of its place."""
        return 0 if "text-anchor" in self.look else 6 + text_width(self.text)

    def attributes(self, at: Callable[[Place], Place]) -> Look:
        """As SVG has them."""
        places = [at(place) for place in self.places]
        (across, down), closed = places[0], "" if self.look.get("fill") == "none" else "z"
        if self.text:  # another mark tells the same, unless it is the link itself
            return {"x": across, "y": down, **self.look, **({} if self.href else {"aria-hidden": "true"})}
        where: Look = (
            {"d": self.shape, "transform": f"translate({across},{down})"}
            if self.shape
            else {"d": "M" + "L".join(f"{across},{down}" for across, down in places) + closed}
        )
        told = {"role": "graphics-symbol", "aria-roledescription": self.kind, "aria-label": self.told}
        return {**where, **self.look, **(told if self.told else {})}


def words(text: str, place: Place, look: Look, href: str = "") -> Mark:
    return Mark("text", [place], look, text=text, href=href)


def aim(first: Place, last: Place, text: str) -> list[Mark]:
    """A dashed line that says what is wished for."""
    return [Mark("rule", [first, last], AIM), words(text, last, {"text-anchor": "end", "dy": -4})]


def bar(ends: Span, line: int, height: float, look: Look, **told: str) -> Mark:
    """So many points high, in a line of a panel of cells."""
    (low, high), half = ends, height / 2 / BAR_STEP
    corners = [(low, line - half), (high, line - half), (high, line + half), (low, line + half)]
    return Mark("bar", corners, look, **told)


def interval(ends: Span, line: int, *, cut: bool = False) -> Mark:
    """With a stroke at either end but where it was cut: one line, there and back."""
    (low, high), half = ends, 4 / BAR_STEP
    places = [(low, line - half), (low, line + half), (low, line), (high, line)]
    return Mark("interval", places if cut else [*places, (high, line - half), (high, line + half)], INTERVAL)
