"""Commands that move results between machines, or repeat them: export, import, replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from paceline.cli.application import EXIT_FAILED_CELLS, Format, MachineFlag, StoreFlag, WaitFlag, app
from paceline.system.paths import default_store


@app.command
def export(
    *runs: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("bundle.zip"),
    suite: str | None = None,
    plan: str | None = None,
    everything: Annotated[bool, Parameter("--all", negative=())] = False,
    store: StoreFlag = None,
) -> None:
    """Write results into one file that `paceline import` takes in elsewhere; without arguments those of the last plan.

    Parameters
    ----------
    runs
        Their ids, or how they begin or end.
    output
        The file to write.
    suite
        The newest plan of this suite.
    plan
        This plan: its id, or how it begins or ends.
    everything
        All plans and runs of the store.
    """
    from paceline.bundles.exporting import export_bundle
    from paceline.bundles.messages import written
    from paceline.bundles.selection import BundleRequest
    from paceline.store.store import Store

    choice = BundleRequest(runs, suite, plan, everything)
    print(written(export_bundle(Store(store or default_store()), choice, output), output))


@app.command(name="import")
def import_(bundle: Path, *, machine_name: MachineFlag = None, store: StoreFlag = None) -> None:
    """Take in results from a file that `paceline export` wrote, after checking all of it.

    Parameters
    ----------
    bundle
        The file.
    """
    from paceline.bundles.importing import import_bundle
    from paceline.bundles.messages import taken
    from paceline.store.store import Store
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    print(taken(import_bundle(bundle, Store(store or default_store())), bundle))


@app.command
def replay(  # noqa: PLR0913 - each is a flag
    run: str,
    *,
    repeats: int = 1,
    trust: Annotated[bool, Parameter(negative=())] = False,
    wait: WaitFlag = False,
    format: Format = "text",  # noqa: A002 - the flag's name
    machine_name: MachineFlag = None,
    store: StoreFlag = None,
) -> int:
    """Run the same job again on this machine, and compare it with what was recorded.

    Parameters
    ----------
    run
        Its id, or how it begins or ends.
    repeats
        Fresh processes; with several, all runs of its cell are compared with them.
    trust
        Also run what came from elsewhere: a command, or a job that is not the one that its cell makes here.
    """
    from paceline.report.studies.replays import FORMATS
    from paceline.store.store import Store
    from paceline.studies.replay.rerun import replay as run_again
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    found = run_again(run, repeats, Store(store or default_store()), trust=trust, wait=wait)
    sys.stdout.write(FORMATS[format](found))
    return EXIT_FAILED_CELLS if found.new_failures else 0
