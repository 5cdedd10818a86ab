"""The picture of the rooms, made from the real imports: `python -m tests.docs.rooms > docs/rooms.svg`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib import import_module

import grimp

from tests.docs.documented import ROOT

PICTURE = ROOT / "docs" / "rooms.svg"
LAYERS = "Rooms import only rooms below them"  # the name of the contract in pyproject.toml
CELL, LEFT, TOP, TEXT = 46, 110, 84, 780
STYLE = (
    "text{font:12px sans-serif;fill:#1f2937}.room{font-weight:600}.number{text-anchor:middle;fill:#fff}"
    ".what{fill:#4b5563}.own{fill:#e5e7eb}.paper{fill:#fff}"
)


def rooms() -> list[str]:
    """From the top to the bottom, as the layers contract has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {each["name"]: each for each in project["tool"]["importlinter"]["contracts"]}
    return [str(layer) for layer in contracts[LAYERS]["layers"]]


def imports() -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    graph = grimp.build_graph("paceline")
    return Counter(
        (_room(module), _room(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if "" not in (_room(module), _room(imported))
    )


def _room(module: str) -> str:
    """Empty for the package itself, which no room holds."""
    return ".".join(module.split(".")[1:2])


def purpose(room: str) -> str:
    """The first sentence of its docstring."""
    return (import_module(f"paceline.{room}").__doc__ or "").strip().splitlines()[0]


def picture() -> str:
    """A matrix: what the room of a line imports from the room of a column. All of it lies right of the diagonal."""
    names, counts = rooms(), imports()
    width, height = LEFT + CELL * len(names) + TEXT, TOP + CELL * len(names) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Imports between the rooms of Paceline</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *_headings(names),
        *_cells(names, counts),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _headings(names: list[str]) -> Iterator[str]:
    for place, name in enumerate(names):
        x, y = LEFT + CELL * place + CELL / 2, TOP + CELL * place + CELL / 2 + 5
        yield f'<text transform="translate({x:g} {TOP - 6}) rotate(-45)">{name}</text>'
        yield f'<text class="room" x="8" y="{y:g}">{name}</text>'
        yield f'<text class="what" x="{LEFT + CELL * len(names) + 12}" y="{y:g}">{escape(purpose(name))}</text>'


def _cells(names: list[str], counts: Counter[tuple[str, str]]) -> Iterator[str]:
    most = max(count for (above, below), count in counts.items() if above != below)
    for row, above in enumerate(names):
        for column, below in enumerate(names):
            x, y, count = LEFT + CELL * column, TOP + CELL * row, counts[above, below]
            if row == column:
                yield f'<rect class="own" x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"/>'
            elif count:
                shade = 0.35 + 0.65 * count / most
                yield (
                    f'<rect fill="#1d4ed8" fill-opacity="{shade:.2f}" x="{x}" y="{y}" '
                    f'width="{CELL - 2}" height="{CELL - 2}"/>'
                )
                yield f'<text class="number" x="{x + CELL / 2 - 1:g}" y="{y + CELL / 2 + 4:g}">{count}</text>'


if __name__ == "__main__":
    print(picture(), end="")
