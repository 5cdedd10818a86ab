"""The data sets of this machine, as a table for people."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from paceline.catalog.datasets.known import KNOWN
from paceline.catalog.datasets.prepared import PreparedDataset, find


def show() -> None:
    """A row for each that is there, and for the others the command that gets them."""
    found = {name: find(name) for name in KNOWN}
    there = [dataset for dataset in found.values() if dataset]
    if there:
        Console(highlight=False, markup=False).print(_table(there))
    for name, dataset in found.items():
        if dataset is None:
            print(f"{name}: not there; `paceline data get {name}` fetches it")


def _table(datasets: list[PreparedDataset]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("data set", "images", "MiB", "source", "path"):
        table.add_column(heading, no_wrap=heading == "data set", overflow="fold")
    for dataset in datasets:
        images = " + ".join(f"{count:,} {split}" for split, count in dataset.counts.items())
        size = f"{dataset.size_bytes / 2**20:.0f}"
        table.add_row(dataset.name, images, size, dataset.source, str(dataset.folder))
    return table
