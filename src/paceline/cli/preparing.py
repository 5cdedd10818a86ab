"""Commands that prepare a machine: frameworks and data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from paceline.cli.application import app


@app.command
def install(*frameworks: str, python: Path | None = None) -> None:
    """Make the environments of frameworks, or repair them.

    Parameters
    ----------
    frameworks
        Such as torch jax; all stands for every one.
    python
        An interpreter that can import the framework: use it as it is instead of making an environment.
    """
    from paceline.cli.actions import install_frameworks

    install_frameworks(frameworks, python)


@app.command
def uninstall(*frameworks: str) -> None:
    """Delete the environments of frameworks, or forget interpreters that were registered.

    Parameters
    ----------
    frameworks
        Such as torch jax; all stands for every one.
    """
    from paceline.cli.actions import uninstall_frameworks

    uninstall_frameworks(frameworks)


@app.command(name="list")
def list_(
    what: Literal["frameworks", "workloads", "networks", "published", "quantities", "samplers"] = "frameworks",
    name: str = "",
) -> None:
    """List frameworks, workloads, networks, published benchmarks, or what is measured: quantities and samplers.

    Parameters
    ----------
    name
        Of a published benchmark, such as neon-vs-mxnet: its rows, with the commands that measure them here.
    """
    from paceline.report import catalog_tables

    catalog_tables.show(what, name)


app.command(data := App(name="data", help="Fetch data sets, or list those that are there."))
FromFlag = Annotated[Path | None, Parameter("--from", help="An archive or a folder that you have: fetch nothing.")]


@data.command(name="get")
def get_data(name: str, *, given: FromFlag = None) -> None:
    """Fetch a data set such as cifar10, check it and prepare it; one that is there is checked."""
    from paceline.catalog import datasets

    got = datasets.get(name, lambda line: print(line, file=sys.stderr), given)
    print(f"{name}: {got.counts['train']:,} training and {got.counts['test']:,} test images in {got.folder}")


@data.command(name="list")
def list_data() -> None:
    """List the data sets of this machine."""
    from paceline.report import catalog_tables

    catalog_tables.show_datasets()
