"""What the commands do, once the command line is understood."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import chosen_rows, layout_of
from paceline.catalog.frameworks import Contestant, Framework, expand, find
from paceline.environments import virtual_environments
from paceline.environments.virtual_environments import Environment
from paceline.plan.planning import Plan, Run
from paceline.plan.published.cells import added
from paceline.plan.repeats_warning import few_repeats_warning
from paceline.plan.requested_suites import plan_of, suite_files
from paceline.plan.skipping import skip_summary
from paceline.plan.suite import has_small_form
from paceline.report.studies.certificates import FORMATS as CERTIFICATE_FORMATS
from paceline.report.tables.published_comparison import with_published
from paceline.report.tables.render_layouts import FORMATS as GRID_FORMATS
from paceline.report.tables.render_layouts import in_layout
from paceline.run.external.command_line import TimeOptions, make_plan
from paceline.run.memory_warning import memory_warning
from paceline.run.older_keys import with_older_results
from paceline.run.plan_runner import further_rounds, measure, pending, warmed_up
from paceline.run.worker import LOG_FILE
from paceline.store import certificates
from paceline.store.records.certificate import Certificate
from paceline.store.store import Store, new_id
from paceline.studies.equivalence.verification_cases import VerificationMatrix
from paceline.studies.equivalence.verify import make_verification, verify
from paceline.system.errors import UserError
from paceline.system.files.regular_files import LINES_BYTES, open_plain
from paceline.system.machine.hardware import this_machine
from paceline.system.machine_lock import alone
from paceline.system.text.formatting import duration
from paceline.system.text.safe_text import printable


def show_plan(what: Sequence[str], settings: Mapping[str, Any], folder: Path) -> None:
    machine = this_machine()
    store = Store(folder)
    plan = with_older_results(plan_of(what, settings), store, "all")
    left = pending(plan, store, "all")
    if machine.quota_cores is not None:
        print(f"{machine.cores_in_words}: devices that want more of them are marked oversubscribed")
    if machine.memory_limit_bytes is not None:
        print(f"{machine.memory_in_words}: cells that are known to need more are named")
    _warn(plan, left, settings, store)
    skips = {skip.cell: skip.reason for skip in plan.skips}
    runs, todo = (Counter(run.cell for run in some) for some in (plan.runs, left))
    names, more = plan.names(), set(added(plan.suite, plan.cells))
    for cell in plan.cells:
        state = f"skipped: {skips[cell]}" if cell in skips else f"{runs[cell]} runs, {todo[cell]} to do"
        print(printable(f"{names[cell]}: {state}{' (added)' if cell in more else ''}"))
    known = [seconds for run in left if (seconds := store.seconds_of(run)) is not None]
    about = [f"about {duration(sum(known))}"] if known else []
    about += (
        [f"{len(left) - len(known)} of them for the first time, of unknown length"] if len(known) < len(left) else []
    )
    print(f"{len(plan.cells)} cells, {', '.join([f'{len(left)} runs to do', *about])}")
    if more:
        published = f"{len(plan.cells) - len(more)} of {len(plan.cells)} cells"
        print(f"{published} are those of published rows; the rest, marked (added), have none")
    _say_skips(plan, what)


def _say_skips(plan: Plan, what: Sequence[str]) -> None:
    small_form = not plan.suite.quick and any(map(has_small_form, suite_files(what)))
    if advice := skip_summary(plan, this_machine(), small_form=small_form):
        print(advice, file=sys.stderr)


def _warn(plan: Plan, left: Sequence[Run], flags: Mapping[str, Any], store: Store) -> None:
    """Of repeats that are too few to tell much, and of too little memory, where something is still to be measured."""
    advice = few_repeats_warning(plan.suite, flags) if left else ""
    for line in filter(None, (advice, memory_warning(plan.names(), left, store, this_machine()))):
        print(printable(line), file=sys.stderr)


def run_suite(what: Sequence[str], settings: Mapping[str, Any], folder: Path, done: str, *, wait: bool = False) -> bool:
    """Measure what is missing and print the table; whether any cell failed."""
    store = Store(folder)
    plan = with_older_results(plan_of(what, settings), store, done)
    save = partial(store.save_plan, command=shlex.join(["paceline", *sys.argv[1:]]))
    with alone(wait=wait) as lock:
        plan_id = save(plan, older_runs=done)
        lock.note_plan(folder, plan_id)
        _warn(plan, pending(plan, store, done), settings, store)
        measure(plan, store, done, lock)
        for wider_id, added in further_rounds(plan, plan_id, store, save, done):
            lock.note_plan(folder, wider_id)
            measure(added, store, done, lock)
            plan_id = wider_id
    failed = show_measured(folder, plan_id)
    _say_skips(plan, what)
    return failed


def time_commands(words: Sequence[str], options: TimeOptions, folder: Path, *, wait: bool = False) -> bool:
    """Measure commands that are not ours and print their table; whether any failed."""
    store = Store(folder)
    plan = make_plan(words, options, new_id(), this_machine())
    with alone(wait=wait) as lock:
        plan_id = store.save_plan(plan, shlex.join(["paceline", *sys.argv[1:]]))
        lock.note_plan(folder, plan_id)
        _warn(plan, plan.runs, {}, store)
        measure(warmed_up(plan, options.warmup_runs), store, "none", lock, echo=options.echo)
    return show_measured(folder, plan_id)


def show_measured(folder: Path, plan_id: str) -> bool:
    """Print the table of a plan that has been measured; whether any cell failed."""
    return any(row.status == "failed" for row in show_table(folder, {"plan": plan_id}, "text"))


@dataclass(frozen=True)
class TableOptions:
    """How a table is arranged, and what it is shown with."""

    layout: str | None = None  # None is the suite's own
    published: bool = False


def show_table(
    folder: Path,
    filters: Mapping[str, str | None],
    form: str,
    target: float | None = None,
    shape: TableOptions = TableOptions(),
) -> list[Row]:
    """Print the table; its rows."""
    if shape.published and form not in ("text", "markdown"):
        raise UserError(f"--with published goes with --format text or markdown, not {form}.")
    rows = chosen_rows(folder, filters, target)
    layout = shape.layout or layout_of(Store(folder), filters)
    sys.stdout.write(in_layout(rows, layout, form))
    if shape.published:
        sys.stdout.write("\n" + GRID_FORMATS[form]([with_published(rows)]))
    return rows


def verify_frameworks(matrix: VerificationMatrix, names: Sequence[str]) -> Iterator[Certificate]:
    """Compare each framework with the reference, one after the other."""
    machine, say = this_machine(), Console(stderr=True, highlight=False, soft_wrap=True).print
    cases = matrix.cases(machine)
    contestants = list(_ready(names, say))
    for case in cases:
        reasons = {contestant.name: case.reason_to_skip(contestant.framework) for contestant in contestants}
        for name, reason in reasons.items():
            if reason:
                say(f"{case.workload.name} {name} {case.setting}: skipped: {reason}", markup=False)
        able = [contestant for contestant in contestants if not reasons[contestant.name]]
        verification = make_verification(case, machine, say) if able else None
        yield from (verify(contestant, verification, say) for contestant in able if verification)


def _ready(names: Sequence[str], say: Callable[[str], None]) -> Iterator[Contestant]:
    """Those named; of `all` only what is installed, and a line names the others."""
    for name in expand(names):
        contestant = find(name)
        ready = name in names or virtual_environments.installed(contestant.framework)
        reason = virtual_environments.hindrance(contestant.framework) or (None if ready else "not installed")
        if reason:
            say(f"{name}: skipped: {reason}")
        else:
            yield contestant


def show_certificates(made: Iterable[Certificate], form: str, folder: Path) -> bool:
    """Keep and print them, as they come where the form allows; whether all are equal."""
    kept = []
    Store(folder).check_place()  # before the first is worked out
    for certificate in made:
        certificates.save(folder, certificate)
        kept.append(certificate)
        if form == "text":
            sys.stdout.write(CERTIFICATE_FORMATS[form]([certificate]))
            sys.stdout.flush()
    if form != "text":
        sys.stdout.write(CERTIFICATE_FORMATS[form](kept))
    return all(certificate.equal for certificate in kept)


def print_log(folder: Path, run: str) -> None:
    """As it was written, rubbish included; but what a program printed must not steer the reader's terminal."""
    log = Store(folder).find_run(run) / LOG_FILE
    try:
        file = open_plain(log, LINES_BYTES)
    except FileNotFoundError:
        raise UserError(f"Run {log.parent.name} has no log.") from None
    with file:
        if sys.stdout.isatty():
            from paceline.report.server.logs import all_lines

            sys.stdout.writelines(f"{line}\n" for line in all_lines(file))
        else:
            shutil.copyfileobj(file, sys.stdout.buffer)  # piece by piece: it may be larger than the memory


def install_frameworks(names: Sequence[str], python: Path | None) -> None:
    if not names:
        raise UserError("Name frameworks to install, such as torch jax, or all.")
    if python:
        _register(names, python)
        return
    for framework in [find(name).framework for name in expand(names)]:
        reason = virtual_environments.hindrance(framework)
        if reason and framework.name not in names:  # one of all
            print(f"{framework.name}: skipped: {reason}")
        else:
            _say_ready(framework, virtual_environments.ensure(framework, print))


def _register(names: Sequence[str], python: Path) -> None:
    if len(names) > 1 or names[0] == "all":
        raise UserError("--python goes with the name of one framework, such as `paceline install torch --python PATH`.")
    framework = find(names[0]).framework
    _say_ready(framework, virtual_environments.register(framework, python))


def _say_ready(framework: Framework, made: Environment) -> None:
    where = f" in {made.python}" if made.brought else ""
    print(f"{framework.name} {made.packages.get(framework.package, '')} is ready{where} ({made.fingerprint})")


def uninstall_frameworks(names: Sequence[str]) -> None:
    if not names:
        raise UserError("Name frameworks to uninstall, such as torch jax, or all.")
    for framework in [find(name).framework for name in expand(names)]:
        registered = virtual_environments.brought(framework)
        if not virtual_environments.remove(framework):
            print(f"{framework.name} was not installed")
        elif registered:
            print(f"{framework.name} no longer uses {registered.python}, which stays as it is")
        else:
            print(f"{framework.name} is uninstalled; results stay")
