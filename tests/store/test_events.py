"""Event files are read while they grow: whole lines only, and what is no event is kept as rubbish."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.store.records.events import Block, Evaluation, EventFile, Failed, Finished, Phase

START = b'{"event": "phase", "time": 1.5, "phase": "start", "pid": 42, "rank": 0, "size": 1, "python": "3.11.7"}\n'
BUILD = b'{"event": "phase", "time": 2.0, "phase": "build", "idle_memory_bytes": 4096, "settings": {"threads": 2}}\n'
BLOCK = (
    b'{"event": "block", "time": 3.0, "phase": "train", "steps": 2, "images": 256, "seconds": 0.5, '
    b'"processor_seconds": 0.75, "losses": [2.25, null]}\n'
)
END = b'{"event": "finished", "time": 9.0, "phase": "finish"}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events-0.jsonl"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_events_have_types_and_facts(path: Path) -> None:
    append(path, START + BUILD + BLOCK + END)
    start, build, block, end = EventFile(path).read_on()
    assert start == Phase(time=1.5, phase="start", pid=42, python="3.11.7")
    assert build == Phase(time=2.0, phase="build", idle_memory_bytes=4096, settings={"threads": 2})
    assert block == Block(
        time=3.0, phase="train", steps=2, images=256, seconds=0.5, processor_seconds=0.75, losses=[2.25, None]
    )
    assert end == Finished(time=9.0, phase="finish")


def test_failure_and_evaluation_have_theirs(path: Path) -> None:
    append(path, b'{"event": "failed", "time": 1, "phase": "build", "kind": "E", "message": "m", "traceback": "t"}\n')
    append(
        path,
        b'{"event": "evaluation", "time": 2, "phase": "evaluate", "steps": 3, "images": 8, "loss": null, "correct": 1, '
        b'"seconds": 0.25}\n',
    )
    assert EventFile(path).read_on() == [
        Failed(time=1.0, phase="build", kind="E", message="m", traceback="t"),
        Evaluation(time=2.0, phase="evaluate", steps=3, images=8, loss=None, correct=1, seconds=0.25),
    ]


def test_file_that_is_not_there_yet_has_no_events(path: Path) -> None:
    file = EventFile(path)
    assert file.read_on() == []
    append(path, START)
    assert len(file.read_on()) == 1


def test_each_event_is_given_once_and_all_are_kept(path: Path) -> None:
    file = EventFile(path)
    append(path, START)
    assert [event.phase for event in file.read_on()] == ["start"]
    assert file.read_on() == []
    append(path, BUILD + BLOCK)
    assert [event.phase for event in file.read_on()] == ["build", "train"]
    assert [event.phase for event in file.events] == ["start", "build", "train"]


def test_half_written_line_is_waited_for(path: Path) -> None:
    file = EventFile(path)
    append(path, START + BLOCK[:70])
    assert [event.phase for event in file.read_on()] == ["start"]
    assert file.read_on() == []
    append(path, BLOCK[70:-1])
    assert file.read_on() == []  # all of it, but for the line's end
    append(path, b"\n")
    assert [event.phase for event in file.read_on()] == ["train"]
    assert file.rubbish == []


@given(st.lists(st.integers(0, len(START + BUILD + BLOCK + END)), max_size=6))
@settings(deadline=None)
def test_pieces_in_which_a_file_is_written_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("pieces") / "events-0.jsonl"
    text, file = START + BUILD + BLOCK + END, EventFile(path)
    edges = [0, *sorted(cuts), len(text)]
    read = []
    for begin, end in pairwise(edges):
        append(path, text[begin:end])
        read += file.read_on()
    assert [event.phase for event in read] == ["start", "build", "train", "finish"]
    assert file.rubbish == []


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe not an event",
        b"",
        b"Traceback (most recent call last):",
        b"[1, 2]",
        b'{"event": "party", "time": 1.0, "phase": "train"}',
        b'{"time": 1.0, "phase": "train"}',
        b'{"event": "finished", "phase": "finish"}',
        b'{"event": "block", "time": 1.0, "phase": "train", "steps": "two", "images": 1, "seconds": 1}',
        BLOCK[:-20] + START[:-1],  # two ranks in one file, or a torn write
        BLOCK[:-1].replace(b"null", b"NaN"),  # Python writes it, but it is no JSON
        BUILD[:-1].replace(b"2}", b"[" * 5000 + b"]" * 5000 + b"}"),  # deeper than any decoder follows
    ],
)
def test_rubbish_is_kept_and_the_rest_is_read(path: Path, line: bytes) -> None:
    append(path, START + line + b"\n" + END)
    file = EventFile(path)
    assert [event.phase for event in file.read_on()] == ["start", "finish"]
    assert file.rubbish == [line]


def test_of_much_rubbish_the_first_lines_are_kept(path: Path) -> None:
    append(path, START + b"".join(b"%d\n" % number for number in range(1000)) + END)
    file = EventFile(path)
    assert [event.phase for event in file.read_on()] == ["start", "finish"]
    assert file.rubbish == [b"%d" % number for number in range(10)]


def test_empty_lines_take_no_memory(path: Path) -> None:
    """As a list of lines these would take eight times the size of the file, and as much again as rubbish."""
    append(path, b"\n" * 2**17)
    tracemalloc.start()
    try:
        EventFile(path).read_on()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**17


def test_half_written_line_at_the_end_of_a_killed_worker_is_no_rubbish(path: Path) -> None:
    append(path, START + BLOCK[:-1])
    file = EventFile(path)
    file.read_on()
    assert file.rubbish == []
    assert file.phase == "start"


def test_file_knows_its_phase_its_process_and_how_far_it_came(path: Path) -> None:
    file = EventFile(path)
    assert (file.phase, file.pid, file.has(Finished)) == ("start", None, False)
    append(path, START + BUILD + BLOCK)
    file.read_on()
    assert (file.phase, file.pid, file.has(Block), file.has(Finished)) == ("train", 42, True, False)
    append(path, END)
    file.read_on()
    assert (file.phase, file.pid, file.has(Finished), file.has(Failed)) == ("finish", 42, True, False)
