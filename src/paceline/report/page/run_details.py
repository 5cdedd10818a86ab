"""All that is known about single runs, short enough to be carried by a page: what runs share is there once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import msgspec

from paceline.plan.external.command import CommandCode
from paceline.report.escaping import page_text
from paceline.run.worker import LOG_FILE
from paceline.store.records.outcome import cause_of
from paceline.store.records.runs import RUN_FILE, RUN_FOLDER, UNREADABLE
from paceline.store.shown_variables import shown_variables
from paceline.store.store import Store
from paceline.system.files.regular_files import open_plain, read_plain
from paceline.system.text.safe_text import shortened

MOST_BLOCKS = 100  # of one phase
LOG_LINES, FAILED_LOG_LINES = 3, 20  # last ones
LINE_LETTERS = 300
TAIL_BYTES = 1024
PER_RUN = ("MASTER_PORT",)  # variables that are chosen for each run
ITSELF = "‹run›"  # stands for a run's own id in what runs share

RUNS = """
SELECT run.*, json_extract(run.cell, '$.seed') AS seed
FROM run WHERE run.id IN (SELECT value FROM json_each(?)) ORDER BY run.id
"""
# Text at once, since there are many.
BLOCKS = """
SELECT run_id, phase, MAX(steps) AS steps, group_concat(printf('%.4g', seconds), ' ') AS seconds
FROM (SELECT * FROM step_block WHERE run_id IN (SELECT value FROM json_each(?)) ORDER BY run_id, phase, position)
GROUP BY run_id, phase
"""


class SetupDetail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run ran with; many share one."""

    machine: str = ""
    host: str = ""
    version: str = ""
    python: str = ""
    paceline: str = ""
    worker: str = ""  # fingerprint of the worker's code
    packages: int = -1  # their place among the texts
    environment: int = -1
    commands: int = -1
    data: str = ""  # checksum of real images
    code: str = ""  # of a command: hashes of its files and the commit of their folder


class BlockDetail(msgspec.Struct, frozen=True, array_like=True):
    steps: int
    count: int
    seconds: str  # of the first ones, joined by spaces


class RunDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    seed: int
    started: int  # seconds since 1970
    seconds: float
    setup: int | None = None  # None if the record of the run is gone or damaged
    status: str = "ok"
    cause: str = ""
    blocks: dict[str, BlockDetail] = {}
    log: str = ""


class RunDetails(msgspec.Struct, frozen=True):
    runs: list[RunDetail]
    setups: list[SetupDetail]
    texts: list[str]


class _Machine(msgspec.Struct):
    host: str


class _Record(msgspec.Struct):
    """Those parts of a run's record that the index does not have."""

    machine: _Machine
    packages: dict[str, str]
    framework_version: str
    python_version: str
    paceline_version: str
    worker_code: str
    data_checksum: str = ""
    code: CommandCode | None = None
    commands: tuple[tuple[str, ...], ...] = ()
    environment: dict[str, str] = {}


class _SharedValues:
    """Values that are kept once and named by their place."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.setups: dict[SetupDetail, int] = {}

    def text(self, lines: Iterable[str], run: str = ITSELF) -> int:
        return self.texts.setdefault("\n".join(lines).replace(run, ITSELF), len(self.texts))

    def setup(self, folder: str, run: str, machine: str) -> int | None:
        try:
            record = _DECODER.decode(read_plain(f"{folder}/{RUN_FILE}"))
        except UNREADABLE:
            return None
        variables = shown_variables(record.environment)
        variables |= {name: "(a free port)" for name in PER_RUN if name in variables}
        made = SetupDetail(
            machine,
            page_text(record.machine.host),
            page_text(record.framework_version),
            record.python_version,
            record.paceline_version,
            record.worker_code,
            self.text(map(" ".join, sorted(record.packages.items()))),
            self.text(map("=".join, sorted(variables.items())), run),
            self.text(map(" ".join, record.commands), run),
            record.data_checksum,
            page_text(str(record.code)) if record.code else "",
        )
        return self.setups.setdefault(made, len(self.setups))


_DECODER = msgspec.json.Decoder(_Record)


def of_runs(store: Store, ids: Sequence[str]) -> RunDetails:
    """In the order of their ids, which is that of time."""
    chosen = json.dumps(list(ids))
    shared, blocks = _SharedValues(), _blocks(store, chosen)
    runs = []
    for row in store.query(RUNS, chosen):
        folder = f"{store.folder}/{RUN_FOLDER}/{row['id']}"  # text, since joining thousands of paths takes its time
        failed = row["status"] != "ok"
        detail = RunDetail(
            id=row["id"],
            seed=row["seed"] + row["repeat"],
            started=int(row["started"]),
            seconds=round(row["seconds"], 2),
            setup=shared.setup(folder, row["id"], row["machine_description"]),
            status=row["status"],
            cause=page_text(cause_of(row["kind"], row["phase"], row["message"])) if failed else "",
            blocks=blocks.get(row["id"], {}),
            log=_last_lines(row["log_end"] or "", FAILED_LOG_LINES) if failed else _end_of_log(f"{folder}/{LOG_FILE}"),
        )
        runs.append(detail)
    return RunDetails(
        runs,
        list(shared.setups),
        ["\n".join(map(page_text, text.split("\n"))) for text in shared.texts],
    )


def _blocks(store: Store, chosen: str) -> dict[str, dict[str, BlockDetail]]:
    found: dict[str, dict[str, BlockDetail]] = {}
    for row in store.query(BLOCKS, chosen):
        seconds = row["seconds"].split(" ")
        first = " ".join(seconds[:MOST_BLOCKS])
        found.setdefault(row["run_id"], {})[row["phase"]] = BlockDetail(row["steps"], len(seconds), first)
    return found


def _end_of_log(log: str) -> str:
    """A run that went well needs no more."""
    try:
        with open_plain(log) as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            return _last_lines(file.read(TAIL_BYTES).decode(errors="replace"), LOG_LINES)
    except OSError:
        return ""


def _last_lines(text: str, count: int) -> str:
    """A program's own words must not steer what shows them."""
    lines = (line.rstrip().expandtabs() for line in text.splitlines()[-count:])
    return "\n".join(page_text(shortened(line, LINE_LETTERS)) for line in lines)
