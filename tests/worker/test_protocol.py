"""Jobs and events survive the way through their files, whatever happens to the process after."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.store.records.events import EventFile, Failed
from paceline_worker.protocol import EventLog, Job, Recipe, event_file
from tests.factories.jobs import JOB, job

ON_GPUS = job(
    framework="torch",
    mode="compile",
    recipe=Recipe(0.1, 0.9, 1e-4, ("conv.kernel", "gamma")),
    devices=("cuda:2", "cuda:0"),
    cores=((0, 1), (2, 3)),
    shares=(48, 16),
    precision="bfloat16",
)
OPTIONAL = (
    *("format", "parameter_device", "wrapped", "slow", "dataset", "pipeline", "evaluate", "count_correct", "task"),
    *("rates", "given"),
)


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(event_file(tmp_path, 0))


def lines(log: EventLog) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.path.read_text().splitlines()]


@pytest.mark.parametrize("one", [JOB, ON_GPUS], ids=["cpu", "gpus"])
def test_job_survives_json(one: Job) -> None:
    neutral = replace(one, graph=json.loads(json.dumps(one.graph)))  # in the graph, tuples are lists by then
    assert Job.from_json(json.loads(json.dumps(one.to_json()))) == neutral


def test_job_without_what_stands_at_its_default_is_read_alike() -> None:
    """So are jobs of versions that did not have these fields."""
    told = json.loads(json.dumps(ON_GPUS.to_json()))
    short = {name: value for name, value in told.items() if name not in OPTIONAL}
    short["recipe"] = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 1e-4, "decayed": ["conv.kernel", "gamma"]}
    assert len(told) - len(short) == len(OPTIONAL)
    assert Job.from_json(short) == Job.from_json(told)
    short["recipe"] = {"learning_rate": 0.1}
    assert Job.from_json(short).recipe == Recipe(0.1)


def test_job_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(ON_GPUS.to_json()), encoding="utf-8")
    assert Job.read(tmp_path).devices == ("cuda:2", "cuda:0")


@given(st.lists(st.integers(1, 4096), min_size=1, max_size=8))
@settings(deadline=None)
def test_batch_is_the_sum_of_its_shares(shares: list[int]) -> None:
    work = Job.from_json(json.loads(json.dumps(job(shares=tuple(shares)).to_json())))
    assert work.batch_size == sum(shares)
    assert work.shares == tuple(shares)


def test_unlike_shares_make_one_batch() -> None:
    assert ON_GPUS.batch_size == 64


def test_every_rank_has_a_file_of_its_own() -> None:
    assert [event_file(Path("/run"), rank).name for rank in (0, 1, 11)] == [
        "events-0.jsonl",
        "events-1.jsonl",
        "events-11.jsonl",
    ]


def test_event_is_a_line_with_its_time_its_phase_and_its_facts(log: EventLog) -> None:
    before = time.time()
    log.write("block", steps=3, losses=[0.5, None])
    (event,) = lines(log)
    moment = event.pop("time")
    assert isinstance(moment, float)
    assert before <= moment <= time.time()
    assert event == {"event": "block", "phase": "start", "steps": 3, "losses": [0.5, None]}


def test_events_belong_to_the_phase_that_was_entered_last(log: EventLog) -> None:
    log.enter("build", settings={"threads": 2})
    log.enter("train")
    log.write("block")
    log.write("finished")
    assert [(event["event"], event["phase"]) for event in lines(log)] == [
        ("phase", "build"),
        ("phase", "train"),
        ("block", "train"),
        ("finished", "train"),
    ]
    assert lines(log)[0]["settings"] == {"threads": 2}


def test_event_is_in_the_file_as_soon_as_it_was_written(log: EventLog) -> None:
    log.write("one")
    assert [event["event"] for event in lines(log)] == ["one"]
    log.write("two")
    assert [event["event"] for event in lines(log)] == ["one", "two"]


def test_event_outlives_a_process_that_ends_without_cleaning_up(tmp_path: Path) -> None:
    path = event_file(tmp_path, 0)
    program = """
import os, sys
from pathlib import Path
from paceline_worker.protocol import EventLog
EventLog(Path(sys.argv[1])).write("last words")
os._exit(9)  # no buffer is flushed, as after a signal
"""
    ended = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert ended.returncode == 9
    assert json.loads(path.read_text())["event"] == "last words"


def test_log_is_appended_to_what_is_there(log: EventLog) -> None:
    log.write("one")
    EventLog(log.path).write("two")
    log.write("three")
    assert [event["event"] for event in lines(log)] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("two\nlines\r\nor three", "two\nlines\r\nor three"),
        ('"quoted" \\ and \x00 odd', '"quoted" \\ and \x00 odd'),
        ("größer \u2028 🙂", "größer \u2028 🙂"),
        ("file\udcff", "file?"),  # a name that is no UTF-8, as Python spells it
    ],
)
def test_any_message_is_one_line_that_the_other_half_can_read(log: EventLog, message: str, read: str) -> None:
    log.write("failed", kind="OSError", message=message, traceback="")
    assert log.path.read_bytes().count(b"\n") == 1
    (event,) = EventFile(log.path).read_on()
    assert isinstance(event, Failed)
    assert event.message == read
