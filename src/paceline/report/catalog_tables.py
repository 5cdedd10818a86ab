"""What there is to choose from, as tables for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from paceline.analysis.quantities.definition import LESS, MORE
from paceline.analysis.quantities.known import all_quantities
from paceline.catalog.datasets import KNOWN, PreparedDataset
from paceline.catalog.datasets import find as find_dataset
from paceline.catalog.frameworks import Framework, all_frameworks
from paceline.catalog.networks import NETWORKS
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.published import all_benchmarks
from paceline.catalog.workloads import all_workloads
from paceline.environments.virtual_environments import brought, hindrance, installed
from paceline.plan.published.cells import added, planned
from paceline.plan.published.commands import blocks
from paceline.report.document import folding, listing
from paceline.report.formats import as_text
from paceline.run.samplers import all_samplers
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import printable, printable_lines, printed, quoted

OFFERS = re.compile(r" (?!only)")  # each may have a line of its own


def _print(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    sys.stdout.write(as_text([listing(headings, printed(rows))]))


def frameworks() -> None:
    """A row for each framework and mode; below them, which interpreter or exchange is not its own or is missing."""
    listed = [framework for framework in all_frameworks().values() if not framework.hidden]
    rows = [row for framework in listed for row in _framework_rows(framework)]
    table = listing(["framework", "version", "devices", "updates", "data", "precisions"], printed(rows), gap=1)
    sys.stdout.write(as_text([folding(table, OFFERS)]))
    for framework in listed:
        registered = brought(framework)
        note = hindrance(framework) or (f"uses {registered.python}" if registered else None)
        for note_text in filter(None, (note, framework.exchange)):
            print(printable(f"{framework.name}: {note_text}"))


def _framework_rows(framework: Framework) -> list[list[str]]:
    environment = installed(framework)
    version = environment.packages.get(framework.package, "?") if environment else "not installed"
    devices = (*framework.devices, *([f"({framework.max_devices} only)"] if framework.max_devices else []))
    offers = [" ".join(offer) for offer in (devices, framework.updates, framework.data, framework.precisions)]
    names = [framework.name, *(f"{framework.name}+{mode}" for mode in framework.modes)]
    return [[name, version, *offers] for name in names]


def workloads() -> None:
    for workload in all_workloads().values():
        recipe = workload.recipe
        rule = f"SGD lr {recipe.learning_rate:g}, momentum {recipe.momentum:g}, weight decay {recipe.weight_decay:g}"
        given = f", --input {'|'.join(workload.pipelines)}" if workload.pipelines else ""
        images = f"\n    images: {workload.dataset}{given}" if workload.dataset else ""
        first = f"{workload.name}: {workload.network}, batch {workload.batch_size}, {rule}{images}"
        print(printable_lines(f"{first}\n    {workload.origin}"))


def networks() -> None:
    costs = {name: NetworkCost.of(build()) for name, build in NETWORKS.items()}
    rows = [
        [name, f"{cost.trainable:,}", f"{cost.frozen:,}", f"{cost.running:,}", f"{cost.forward_macs:,}"]
        for name, cost in costs.items()
    ]
    _print(["network", "trainable", "frozen", "running", "forward MACs"], rows)


def published() -> None:
    """The texts that a suite of the same name continues."""
    rows = []
    for name, text in all_benchmarks().items():
        suite, cells = planned(name)
        rows.append([name, text.source.title, *map(str, (len(text.records), len(cells), len(added(suite, cells))))])
    _print(["suite", "published as", "rows", "cells", "added"], rows)
    print("added: cells that no row of the text has.")
    print("`paceline list published NAME` gives its rows, and the command of each.")


def published_rows(name: str) -> None:
    """Each with the command that measures its cell here."""
    if name not in all_benchmarks():
        raise unknown("published benchmark", name, all_benchmarks())
    print("\n".join(map(printable, blocks(all_benchmarks()[name].records))))


def quantities() -> None:
    """What is measured, and how it is called where results are compared."""
    better = {MORE: "more", LESS: "less"}
    rows = [[each.label, each.unit, better.get(each.better, ""), each.meaning] for each in all_quantities()]
    _print(["quantity", "unit", "better", "what it is"], rows)


def samplers() -> None:
    """What is looked at while a run goes on, and what of it this machine does not have."""
    rows = [[each.name, each.unit, each.scope, each.kind, each.why_not() or "yes"] for each in all_samplers()]
    _print(["sampler", "unit", "of each", "kind", "available here"], rows)


LISTS = {
    "frameworks": frameworks,
    "workloads": workloads,
    "networks": networks,
    "published": published,
    "quantities": quantities,
    "samplers": samplers,
}


def show(what: str, name: str) -> None:
    if name and what != "published":
        raise UserError(f"A name goes with `paceline list published`, not with {what}: {quoted(name)}.")
    if name:
        published_rows(name)
    else:
        LISTS[what]()


def show_datasets() -> None:
    """A row for each data set of this machine, and for the others the command that gets them."""
    found = {name: find_dataset(name) for name in KNOWN}
    if there := [dataset for dataset in found.values() if dataset]:
        _print(["data set", "images", "MiB", "source", "path"], list(map(_dataset_row, there)))
    for name, dataset in found.items():
        if dataset is None:
            print(f"{name}: not there; `paceline data get {name}` fetches it")


def _dataset_row(dataset: PreparedDataset) -> list[str]:
    images = " + ".join(f"{count:,} {split}" for split, count in dataset.counts.items())
    return [dataset.name, images, f"{dataset.size_bytes / 2**20:.0f}", dataset.source, str(dataset.folder)]
