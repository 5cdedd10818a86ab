"""One run, finished or under way, as its folder tells it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from paceline.plan.cell import Cell
from paceline.plan.external.command import CommandCode
from paceline.report.page.templating import moment
from paceline.report.server.unfinished_runs import OpenRun, read_record
from paceline.run import internal_errors
from paceline.run.worker import LOG_FILE
from paceline.store.records.events import AnyEvent, Block, Evaluation, EventFile, Failed, Phase
from paceline.store.records.outcome import Outcome, cause_of
from paceline.store.records.runs import OUTCOME_FILE, RUN_FOLDER, UNREADABLE
from paceline.store.shown_variables import shown_variables
from paceline.store.store import Store
from paceline.system.files.regular_files import is_own_folder, read_plain
from paceline.system.text.formatting import NOTHING, duration, number

Pairs = list[tuple[str, object]]


@dataclass(frozen=True)
class RunPage:
    id: str
    name: str
    status: str  # ok, failed, running or interrupted
    cause: str
    when: str
    facts: Pairs  # what it was and what came of it
    settings: Pairs  # of its cell
    packages: Pairs
    environment: Pairs
    commands: tuple[str, ...]
    events: tuple[tuple[object, ...], ...]
    traceback: str
    plans: tuple[str, ...]  # that want it, newest first
    log: Path


def folder_of(store: Store, run_id: str) -> Path | None:
    """The folder of that very name, looked up among those that there are."""
    store.check_place()
    parent = store.folder / RUN_FOLDER
    found = [path for path in parent.iterdir() if path.name == run_id] if parent.is_dir() else []
    return found[0] if found and is_own_folder(found[0]) else None


def one_run(store: Store, run_id: str) -> RunPage | None:
    """None if there is no such run, or none that can be read."""
    folder = folder_of(store, run_id)
    record = read_record(folder) if folder else None
    if folder is None or record is None:
        return None
    run = OpenRun(folder, record)
    run.read_on()
    outcome = _outcome_of(folder)
    status = outcome.status if outcome else "running" if run.is_alive else "interrupted"
    plans = store.query("SELECT DISTINCT plan_id FROM plan_run WHERE key = ? ORDER BY plan_id DESC", record.key)
    return RunPage(
        id=run_id,
        name=run.name,
        status=status,
        cause=cause_of(outcome.kind, outcome.phase, outcome.message) if outcome and status == "failed" else "",
        when=moment(record.started),
        facts=_facts(run, outcome),
        settings=_settings(record.cell),
        packages=sorted(record.packages.items()),
        environment=sorted(shown_variables(record.environment).items()),
        commands=tuple(map(shlex.join, record.commands)),
        events=tuple(_event_lines(run.files, record.started)),
        traceback=_traceback(run.files.values()) or _own_traceback(folder),
        plans=tuple(row["plan_id"] for row in plans),
        log=folder / LOG_FILE,
    )


def _outcome_of(folder: Path) -> Outcome | None:
    try:
        return msgspec.json.decode(read_plain(folder / OUTCOME_FILE), type=Outcome)
    except UNREADABLE:
        return None


def _facts(run: OpenRun, outcome: Outcome | None) -> Pairs:
    record, speed = run.record, run.trained.images_per_second
    found: Pairs = [
        ("repeat", record.repeat + 1),
        ("seed", record.cell.seed + record.repeat),
        ("started (UTC)", moment(record.started)),
        ("took", duration(outcome.seconds) if outcome else ""),
        ("phase", outcome.phase if outcome else run.phase),
        ("images/s", number(speed) if speed else ""),
        ("images of a step on each device", " + ".join(map(str, record.shares))),
        ("exit codes", ", ".join(map(str, outcome.exit_codes)) if outcome else ""),
        ("remarks", "; ".join(outcome.remarks) if outcome else ""),
        ("machine", f"{record.machine.description} ({record.machine.host}, {record.machine.id})"),
        ("framework version", record.framework_version),
        ("Python", record.python_version),
        ("Paceline", record.paceline_version),
        ("worker code", record.worker_code),
        ("environment fingerprint", record.fingerprint),
        ("checksum of the images", record.data_checksum),
        *(_code(record.code) if record.code else []),
        ("key", record.key),
    ]
    return [(name, value) for name, value in found if value != ""]


def _code(code: CommandCode) -> Pairs:
    """What a command ran."""
    return [*((f"hash of {name}", digest) for name, digest in code.files.items()), ("commit", code.state)]


def _settings(cell: Cell) -> Pairs:
    values = {name.replace("_", " "): _as_text(getattr(cell, name)) for name in Cell.__struct_fields__}
    return [(name, value) for name, value in values.items() if value]


def _as_text(value: object) -> str:
    """Empty where there is nothing to show; places of cores as numbers."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, tuple):
        return ", ".join(" ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
    return "" if value is None else str(value)


def _event_lines(files: Mapping[int, EventFile], started: float) -> Iterator[tuple[object, ...]]:
    """In the order of time, ranks among each other."""
    ranked = [(event.time, rank, event) for rank, file in files.items() for event in file.events]
    for moment_, rank, event in sorted(ranked, key=lambda entry: entry[:2]):
        yield (rank, f"{moment_ - started:.2f}", event.phase, *_event_text(event))


def _event_text(event: AnyEvent) -> tuple[object, ...]:
    if isinstance(event, Block):
        losses = [loss for loss in event.losses if loss is not None]
        speed = number(event.images / event.seconds) if event.seconds else NOTHING
        loss = f"{losses[-1]:.4g}" if losses else NOTHING
        return ("block", event.steps, event.images, f"{event.seconds:.4g}", speed, loss)
    if isinstance(event, Evaluation):
        right = f"{event.correct / event.images:.1%} right" if event.images else NOTHING
        return (f"evaluation: {right}", event.steps, event.images, f"{event.seconds:.4g}", "", "")
    names = {Phase: "begins", Failed: "failed"}
    return (names.get(type(event), "finished"), "", "", "", "", "")


def _traceback(files: Iterable[EventFile]) -> str:
    failures = (event.traceback for file in files for event in file.events if isinstance(event, Failed))
    return next(failures, "").rstrip("\n")


def _own_traceback(folder: Path) -> str:
    """Of an error of Paceline's own while it carried out the run."""
    try:
        return read_plain(folder / internal_errors.FILE).decode(errors="replace").rstrip("\n")
    except OSError:
        return ""
