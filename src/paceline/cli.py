"""The command line: it parses and calls; the library does."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from paceline.errors import UserError
from paceline.home import default_store

app = App(
    name="paceline",
    help="Train the same network on several frameworks and devices, and see side by side what each costs.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # `main` says what became of the runs
)
EXIT_USER_ERROR, EXIT_FAILED_CELLS, EXIT_REGRESSION, EXIT_INTERRUPTED = 1, 2, 3, 130
HOPELESS = {
    errno.ENOSPC,
    errno.EROFS,
    errno.EACCES,
    errno.EDQUOT,
    errno.EPERM,
    errno.EFBIG,
}  # the user's disk, not our bug


def main() -> None:
    """Run a command; a user's mistake is one line."""
    try:
        sys.exit(app(exit_on_error=False, print_error=False) or 0)
    except (UserError, CycloptsError) as error:
        complain(" ".join(str(error).split()))
    except OSError as error:
        if error.errno not in HOPELESS:
            raise
        complain(f"Cannot write {error.filename or 'to the disk'}: {error.strerror}; nothing half written was kept.")
    except KeyboardInterrupt:
        print("paceline: interrupted; finished runs are kept, the same command goes on from here", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def complain(line: str) -> None:
    print(f"paceline: {line}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choices:
    """The keys of a suite as flags; several values are joined by commas."""

    quick: bool = False
    "A suite in its small form, for a machine without GPUs."
    framework: str | None = None
    "Such as torch,jax,torch+compile; all stands for every one."
    devices: str | None = None
    "Device sets, such as 1xcpu,2xcpu or cuda:0,cuda:0+cuda:2."
    gpus: str | None = None
    "Short for one set of GPUs: 0,2 is --devices cuda:0+cuda:2."
    scale: str | None = None
    "Short for sets of growing size: 1,2,4 is --devices 1xcpu,2xcpu,4xcpu, or xcuda where there are GPUs."
    batch_size: str | None = None
    "Images of a step on all devices together (strong scaling)."
    batch_per_device: str | None = None
    "Images of a step on each device (weak scaling)."
    shares: str | None = None
    "How the batch is divided: equal, measured (in a short run of each device alone), or such as 2:2:1."
    slow: str | None = None
    "Simulate unlike CPU devices: 1:2.0 makes device 1 take twice as long."
    single: str | None = None
    "How one device runs: plain, wrapped (in what several devices need), or both."
    steps: str | None = None
    "Measured steps of a run."
    epochs: str | None = None
    "Measured length as passes over the data set."
    warmup: str | None = None
    "Steps before the clock starts, at least."
    evaluate: str | None = None
    "When to evaluate on all test images of real data: epoch, end or never; default: epoch with --epochs."
    lr: str | None = None
    "Learning rate instead of the workload's."
    lr_rule: str | None = None
    "How the rate follows the batch, from the workload's own batch on: none, linear or sqrt."
    seed: str | None = None
    "For weights, data and the order of runs."
    update: str | None = None
    "How devices agree: replicated, parameter_server, independent."
    parameter_device: str | None = None
    "Where a parameter server keeps its copy: cpu (the host) or device (the first one)."
    data: str | None = None
    "Where images come from: fake:device, fake:host, fake:python or cifar10."
    input: str | None = None
    "What is done to real images, such as level1; `paceline list workloads` shows the choices."
    precision: str | None = None
    "float32 or bfloat16."
    cores_per_device: str | None = None
    "Cores of a CPU device; default: all cores divided by the largest CPU set."
    repeats: str | None = None
    "Fresh processes per cell."
    layout: str | None = None
    "Shape of the table: rows, sources, matrix, long or transposed."
    interval_target: str | None = None
    "Add rounds for cells whose 95 % interval is wider than this part of the median, such as 0.03."
    budget: str | None = None
    "Seconds for those rounds; default: 600."
    timeout: str | None = None
    "Seconds after which a run is ended."

    def settings(self) -> dict[str, Any]:
        """Those that were given, as a suite file would have them."""
        from paceline.suite import FIELDS, LISTS

        given = {key: value for key, value in vars(self).items() if value is not None and value is not False}
        ways = [key for key in ("devices", "gpus", "scale") if key in given]
        if len(ways) > 1:
            raise UserError(f"Give {' or '.join(f'--{way}' for way in ways)}, not both.")
        if "gpus" in given:
            given["devices"] = "+".join(f"cuda:{index}" for index in given.pop("gpus").split(","))
        if "scale" in given:
            given["devices"] = _growing_sets(given.pop("scale"))
        return {
            key: value if value is True else _parse(key, value, FIELDS[key], key in LISTS)
            for key, value in given.items()
        }


def _growing_sets(text: str) -> str:
    from paceline.machine import this_machine

    counts = text.split(",")
    if not all(count.isdecimal() and int(count) > 0 for count in counts):
        raise UserError(f"--scale {text}: give numbers of devices from 1 up, such as 1,2,4.")
    kind = "cuda" if this_machine().gpus else "cpu"
    return ",".join(f"{count}x{kind}" for count in counts)


def _parse(key: str, text: str, kind: Any, several: bool) -> Any:
    """Numbers where the suite wants numbers; what is none stays text and is refused with its name."""
    convert = float if "float" in str(kind) else int if "int" in str(kind) else str
    try:
        values = [convert(part) for part in (text.split(",") if several else [text])]
    except ValueError:
        raise UserError(f"--{key.replace('_', '-')} {text!r} is not a {'whole ' * (convert is int)}number.") from None
    return values if several else values[0]


StoreFlag = Annotated[Path | None, Parameter(help="Where results are kept; default: in the user's data directory.")]


@app.command
def plan(*what: str, choices: Choices = Choices(), store: StoreFlag = None) -> None:
    """Show what `run` would do: cells, runs, skips and their reasons, and the time where it is known.

    Parameters
    ----------
    what
        Workloads, or one suite: its name or its file.
    """
    from paceline.commands import show_plan

    show_plan(what, choices.settings(), store or default_store())


@app.command
def run(
    *what: str,
    choices: Choices = Choices(),
    store: StoreFlag = None,
    again: bool = False,
    retry_failed: bool = False,
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
    from paceline.commands import run_suite

    done = "none" if again else "ok" if retry_failed else "all"
    return EXIT_FAILED_CELLS if run_suite(what, choices.settings(), store or default_store(), done) else 0


@app.command
def show(  # noqa: PLR0913 - each is a flag
    *,
    suite: str | None = None,
    workload: str | None = None,
    framework: str | None = None,
    devices: str | None = None,
    data: str | None = None,
    target: float | None = None,
    layout: Literal["rows", "sources", "matrix", "long", "transposed"] | None = None,
    beside: Annotated[Literal["published"] | None, Parameter("--with", help="Also show published figures.")] = None,
    format: Literal["text", "markdown", "csv", "json", "findings"] = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> None:
    """Print the table of the last run, or of all results that the filters choose.

    Parameters
    ----------
    suite
        The newest run of this suite.
    workload
        Only these (joined by commas), from all runs.
    framework
        Only these, from all runs.
    devices
        Only these, from all runs.
    data
        Only these, from all runs.
    target
        A test accuracy such as 0.7: show the training time and the images until it is reached.
    layout
        Shape of the table; default: the suite's. rows: a row for each cell; sources: data sources joined by /;
        matrix: frameworks by device sets; long: with machines as numbers; transposed: a table for each framework.
    """
    from paceline.commands import Shape, show_table

    filters = {"suite": suite, "workload": workload, "framework": framework, "devices": devices, "data": data}
    if target is not None and not 0 < target <= 1:
        raise UserError(f"--target is a part of the test images such as 0.7, above 0 and at most 1, not {target:g}.")
    shape = Shape(layout, published=beside == "published")
    show_table(store or default_store(), filters, format, target, shape)


@app.command
def compare(
    old: str,
    new: str,
    *,
    metric: Literal["images/s", "seconds", "memory", "accuracy"] = "images/s",
    threshold: float = 0.05,
    format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> int:
    """Compare two sets of results, cell by cell; exit code 3 if the new ones are worse.

    Parameters
    ----------
    old
        The folder of a store, or of --store suite:NAME, plan:ID, date:2026-11-15, version:torch=2.13.0 or machine:ID.
    new
        Likewise.
    metric
        What to compare: images/s, seconds (of training), memory (peak minus idle) or accuracy (on the test images).
    threshold
        By which part a cell must surely be worse to make the exit code 3.
    """
    from paceline.comparison import compare as compare_sides
    from paceline.report.comparison import FORMATS
    from paceline.sides import choose

    if not 0 <= threshold < 1:
        raise UserError(f"--threshold is a part such as 0.05, from 0 up and below 1, not {threshold:g}.")
    folder = store or default_store()
    compared = compare_sides(choose(old, folder, metric), choose(new, folder, metric), threshold)
    sys.stdout.write(FORMATS[format](compared))
    return EXIT_REGRESSION if compared.regressions else 0


@app.command
def explain(
    *what: str,
    choices: Choices = Choices(),
    rounds: int = 5,
    format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the flag's name
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
    from paceline.explain import explain_cell
    from paceline.report.explanation import FORMATS

    explained = explain_cell(what, choices.settings(), rounds, store or default_store())
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
    from paceline.commands import time_commands
    from paceline.timing.measuring import Wishes

    flags = {"names": name, "devices": devices, "metrics": metric, "presets": preset}
    wishes = Wishes(repeats, warmup_runs, timeout, **{key: given or () for key, given in flags.items()}, echo=echo)
    try:
        return EXIT_FAILED_CELLS if time_commands(command, wishes, store or default_store()) else 0
    except KeyboardInterrupt:
        print("paceline: interrupted; finished runs are kept, `paceline show` prints them", file=sys.stderr)
        return EXIT_INTERRUPTED


@app.command
def verify(
    *workloads: str,
    framework: str = "all",
    devices: str = "1xcpu",
    batch_size: int | None = None,
    format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the flag's name
    store: StoreFlag = None,
) -> int:
    """Prove that frameworks compute the same network: outputs, gradients, weights and losses against the reference.

    Parameters
    ----------
    workloads
        Such as cifar10-conv; default: cifar10-conv.
    framework
        Such as torch,jax; all stands for every installed one.
    devices
        CPU device sets, such as 1xcpu,2xcpu.
    batch_size
        Images of a step on all devices together; default: 16, or 4 for large networks.
    """
    from paceline.commands import show_verdicts, verify_frameworks

    names = [part for name in workloads or ("cifar10-conv",) for part in name.split(",")]
    verdicts = verify_frameworks(names, framework.split(","), devices.split(","), batch_size)
    return 0 if show_verdicts(verdicts, format, store or default_store()) else EXIT_FAILED_CELLS


@app.command
def audit(
    what: str,
    *,
    format: Literal["text", "markdown", "json"] = "text",  # noqa: A002 - the flag's name
) -> int:
    """Recompute a results table, and list the cells that contradict each other.

    Parameters
    ----------
    what
        A Markdown or CSV file, the folder of a store, or published: the figures that Paceline brings along.
    """
    from paceline.auditing import audit as examine
    from paceline.report.audits import FORMATS

    found = examine(what)
    sys.stdout.write(FORMATS[format](found))
    return EXIT_FAILED_CELLS if found.findings else 0


@app.command
def log(run: str, *, store: StoreFlag = None) -> None:
    """Print the whole log of a run.

    Parameters
    ----------
    run
        Its id, or how it begins or ends.
    """
    from paceline.commands import print_log

    print_log(store or default_store(), run)


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
    from paceline.commands import install_frameworks

    install_frameworks(frameworks, python)


@app.command
def uninstall(*frameworks: str) -> None:
    """Delete the environments of frameworks, or forget interpreters that were registered.

    Parameters
    ----------
    frameworks
        Such as torch jax; all stands for every one.
    """
    from paceline.commands import uninstall_frameworks

    uninstall_frameworks(frameworks)


@app.command(name="list")
def list_(what: Literal["frameworks", "workloads", "networks"] = "frameworks") -> None:
    """List what there is: frameworks, workloads or networks."""
    from paceline import listings

    {"frameworks": listings.frameworks, "workloads": listings.workloads, "networks": listings.networks}[what]()


@app.command
def index(*, store: StoreFlag = None) -> None:
    """Make the index anew from the run folders."""
    from paceline.store import Store

    folder = store or default_store()
    print(f"{Store(folder).rebuild()} runs in {folder}")


app.command(data := App(name="data", help="Fetch data sets, or list those that are there."))
FromFlag = Annotated[Path | None, Parameter("--from", help="An archive or a folder that you have: fetch nothing.")]


@data.command(name="get")
def get_data(name: str, *, given: FromFlag = None) -> None:
    """Fetch a data set such as cifar10, check it and prepare it; one that is there is checked."""
    from paceline import datasets

    got = datasets.get(name, lambda line: print(line, file=sys.stderr), given)
    print(f"{name}: {got.counts['train']:,} training and {got.counts['test']:,} test images in {got.folder}")


@data.command(name="list")
def list_data() -> None:
    """List the data sets of this machine."""
    from paceline.datasets import listing

    listing.show()
