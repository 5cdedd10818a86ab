"""Commands that measure: plan, run, explain, time."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from paceline.cli.application import (
    EXIT_FAILED_CELLS,
    EXIT_INTERRUPTED,
    PANELS,
    Format,
    MachineFlag,
    StoreFlag,
    WaitFlag,
    app,
)
from paceline.cli.suite_flags import SuiteFlags
from paceline.plan.settings import MEASURED, RESULTS
from paceline.system.paths import default_store

Measured, Shown = Parameter(group=PANELS[MEASURED]), Parameter(group=PANELS[RESULTS])


@app.command
def plan(
    *what: str, choices: SuiteFlags = SuiteFlags(), machine_name: MachineFlag = None, store: StoreFlag = None
) -> None:
    """Show what `run` would do: cells, runs, skips and their reasons, and the time where it is known.

    Parameters
    ----------
    what
        Workloads, or one suite: its name or its file.
    """
    from paceline.cli.actions import show_plan
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    show_plan(what, choices.settings(), store or default_store())


@app.command
def run(
    *what: str,
    choices: SuiteFlags = SuiteFlags(),
    machine_name: MachineFlag = None,
    store: StoreFlag = None,
    again: Annotated[bool, Measured] = False,
    retry_failed: Annotated[bool, Measured] = False,
    wait: WaitFlag = False,
) -> int:
    """Measure workloads, or a suite file, and show the table.

    Parameters
    ----------
    what
        Workloads, or one suite: its name or its file.
    again
        Measure also what is measured already.
    retry_failed
        Measure again what failed.
    """
    from paceline.cli.actions import run_suite
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    done = "none" if again else "ok" if retry_failed else "all"
    return EXIT_FAILED_CELLS if run_suite(what, choices.settings(), store or default_store(), done, wait=wait) else 0


@app.command
def explain(
    *what: str,
    choices: SuiteFlags = SuiteFlags(),
    rounds: Annotated[int, Measured] = 5,
    wait: WaitFlag = False,
    machine_name: MachineFlag = None,
    format: Annotated[Format, Shown] = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> int:
    """Say where the time goes when several devices are less fast than they should be.

    Parameters
    ----------
    what
        One workload; with the flags it must name one cell of several devices.
    rounds
        How often everything is measured; more rounds, narrower intervals.
    """
    from paceline.report.studies.explanation import FORMATS
    from paceline.studies.scaling.explain import explain_cell
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    explained = explain_cell(what, choices.settings(), rounds, store or default_store(), wait=wait)
    sys.stdout.write(FORMATS[format](explained))
    return EXIT_FAILED_CELLS if explained.failures else 0


PerCommand = Annotated[list[str] | None, Parameter(negative=())]


@app.command
def time(  # noqa: PLR0913 - each is a flag
    *command: str,
    repeats: int = 3,
    warmup_runs: int = 0,
    name: PerCommand = None,
    devices: PerCommand = None,
    metric: PerCommand = None,
    preset: PerCommand = None,
    timeout: float = 86400.0,
    echo: bool = False,
    wait: WaitFlag = False,
    machine_name: MachineFlag = None,
    store: StoreFlag = None,
) -> int:
    """Measure any training command, or several in turn: paceline time [flags] -- COMMAND [--- COMMAND]...

    Parameters
    ----------
    command
        What to run, as a shell would take it; --- stands between several.
    repeats
        Fresh processes of each command.
    warmup_runs
        Runs of each command before those that count.
    name
        What tables call it; once for each command.
    devices
        Whose memory is measured, such as 1xcpu or cuda:0+cuda:2; once, or once for each command; default: all GPUs.
    metric
        NAME=REGEX: a number in the output, such as 'images/s=Speed: ([0-9.]+)'; repeatable.
    preset
        Metrics of mxnet, tf_cnn_benchmarks, keras or neon; once, or once for each command.
    timeout
        Seconds after which a run is ended.
    echo
        Show the output of the commands as it comes.
    """
    from paceline.cli.actions import time_commands
    from paceline.run.external.command_line import TimeOptions
    from paceline.system.machine.identity import name_machine

    name_machine(machine_name)
    flags = {"names": name, "devices": devices, "metrics": metric, "presets": preset}
    wishes = TimeOptions(repeats, warmup_runs, timeout, **{key: given or () for key, given in flags.items()}, echo=echo)
    try:
        return EXIT_FAILED_CELLS if time_commands(command, wishes, store or default_store(), wait=wait) else 0
    except KeyboardInterrupt:
        print("paceline: interrupted; finished runs are kept, `paceline show` prints them", file=sys.stderr)
        return EXIT_INTERRUPTED
