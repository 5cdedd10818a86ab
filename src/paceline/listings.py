"""What there is to choose from, as tables for people."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from paceline.cost import Cost
from paceline.environments import installed
from paceline.frameworks import all_frameworks
from paceline.networks import NETWORKS
from paceline.workloads import WORKLOADS


def _print(headings: list[str], rows: list[list[str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for position, heading in enumerate(headings):
        table.add_column(heading, no_wrap=position == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def frameworks() -> None:
    rows = []
    for framework in all_frameworks().values():
        environment = installed(framework)
        version = environment.packages.get(framework.package, "?") if environment else "not installed"
        offers = [framework.devices, framework.updates, framework.data, framework.precisions]
        for mode in () if framework.hidden else ("", *framework.modes):
            rows.append([f"{framework.name}+{mode}" if mode else framework.name, version, *map("\n".join, offers)])
    _print(["framework", "version", "devices", "updates", "data", "precisions"], rows)


def workloads() -> None:
    for workload in WORKLOADS.values():
        recipe = workload.recipe
        rule = f"SGD lr {recipe.learning_rate:g}, momentum {recipe.momentum:g}, weight decay {recipe.weight_decay:g}"
        print(f"{workload.name}: {workload.network}, batch {workload.batch_size}, {rule}\n    {workload.origin}")


def networks() -> None:
    costs = {name: Cost.of(build()) for name, build in NETWORKS.items()}
    rows = [
        [name, f"{cost.trainable:,}", f"{cost.frozen:,}", f"{cost.running:,}", f"{cost.forward_macs:,}"]
        for name, cost in costs.items()
    ]
    _print(["network", "trainable", "frozen", "running", "forward MACs"], rows)
