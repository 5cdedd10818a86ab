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
    table = Table(*headings, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
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
    rows = [
        [
            workload.name,
            workload.network,
            str(workload.batch_size),
            f"{workload.recipe.learning_rate:g}",
            workload.origin,
        ]
        for workload in WORKLOADS.values()
    ]
    _print(["workload", "network", "batch", "lr", "origin"], rows)


def networks() -> None:
    costs = {name: Cost.of(build()) for name, build in NETWORKS.items()}
    rows = [
        [name, f"{cost.trainable:,}", f"{cost.frozen:,}", f"{cost.running:,}", f"{cost.forward_macs:,}"]
        for name, cost in costs.items()
    ]
    _print(["network", "trainable", "frozen", "running", "forward MACs"], rows)
