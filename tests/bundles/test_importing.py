"""Bundles that somebody has changed: refused in one line, with the store as it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.bundles.importing import import_bundle
from paceline.bundles.manifest import MANIFEST_FILE
from paceline.store.store import Store
from paceline.system.errors import UserError
from tests.bundles.made import FIRST, SECOND, Files, edited, pack, read, refused, renamed, with_true_list


def changed_log(files: Files) -> Files:
    return {**files, f"runs/{FIRST}/log.txt": b"it went very well\n"}


def changed_speed(files: Files) -> Files:
    name = f"runs/{FIRST}/events-0.jsonl"
    return {**files, name: files[name].replace(b'"seconds":2.0', b'"seconds":1.0')}


def without(name: str) -> Callable[[Files], Files]:
    return lambda files: {other: content for other, content in files.items() if other != name}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed_log, f"runs/{FIRST}/log.txt has 18 bytes, not 13 as its list says"),
        (changed_speed, f"runs/{FIRST}/events-0.jsonl has been changed: its checksum is not the one on its list"),
        (without(f"runs/{FIRST}/log.txt"), f"'runs/{FIRST}/log.txt' is on its list, but not in it"),
        (lambda files: {**files, f"runs/{FIRST}/usage.json": b"{}"}, f"'runs/{FIRST}/usage.json' is not on its list"),
        (without(MANIFEST_FILE), "it has no manifest.json, so it was not written by `paceline export`"),
        (lambda files: {**files, MANIFEST_FILE: b"{"}, "manifest.json: Input data was truncated"),
        (
            edited(MANIFEST_FILE, lambda found: found.update(format=2)),
            "manifest.json was written by a newer Paceline (bundle version 2; this one reads up to 1): upgrade",
        ),
        (
            edited(MANIFEST_FILE, lambda found: found["files"].append(found["files"][0])),
            "manifest.json lists a file twice",
        ),
    ],
)
def test_bundle_that_was_changed_is_refused(
    bundle: Path, target: Store, change: Callable[[Files], Files], reason: str
) -> None:
    refused(pack(change(read(bundle)), bundle), target, reason)


def of_run(file: str, change: Callable[[Any], None]) -> Callable[[Files], Files]:
    return edited(f"runs/{FIRST}/{file}", change)


def plan_name(files: Files) -> str:
    return next(name for name in files if name.startswith("plans/"))


def of_plan(change: Callable[[Any], None]) -> Callable[[Files], Files]:
    return lambda files: edited(plan_name(files), change)(files)


def added_event(line: bytes) -> Callable[[Files], Files]:
    name = f"runs/{FIRST}/events-0.jsonl"
    return lambda files: {**files, name: files[name] + line + b"\n"}


def of_certificate(**changes: Any) -> Callable[[Files], Files]:
    def apply(files: Files) -> Files:
        name = next(name for name in files if name.startswith("verified/"))
        return edited(name, lambda found: found.update(changes))(files)

    return apply


def another_rank(files: Files) -> Files:
    return {**files, f"runs/{FIRST}/events-1.jsonl": files[f"runs/{FIRST}/events-0.jsonl"]}


EMPTY_BLOCK = (
    b'{"event":"block","time":0,"phase":"train","steps":0,"images":1,"seconds":1,"processor_seconds":1,"losses":[]}'
)


DEPTH = 5000  # more than any decoder follows
DEEP = b"[" * DEPTH + b"]" * DEPTH
DEEP_EVENT = b'{"event":"phase","time":0,"phase":"build","settings":{"odd":' + DEEP + b"}}"
DEEP_SAMPLE = b'{"odd":' + DEEP + b"}\n"


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            of_run("run.json", lambda run: run.update(format=2)),
            f"{FIRST}/run.json was written by a newer Paceline (run record version 2; ",
        ),
        (of_run("run.json", lambda run: run.update(id=SECOND)), f"run {FIRST} has another id inside than its folder"),
        (of_run("run.json", lambda run: run.update(key="../one")), f"run {FIRST} has a key that is none"),
        (of_run("run.json", lambda run: run.update(started=1e300)), "began at no moment that there is"),
        (of_run("run.json", lambda run: run.pop("machine")), "Object missing required field machine"),
        (of_run("run.json", lambda run: run["cell"].update(devices="many")), "Unknown devices 'many'"),
        (of_run("run.json", lambda run: run["cell"].update(cores=[])), "1xcpu has cores for 0 devices"),
        (
            of_run("run.json", lambda run: run["machine"].update(host="a\x1b[2Jb")),
            "has control characters in 'a\\x1b[2Jb'",
        ),
        (of_run("run.json", lambda run: run.update(python_version="3" * 70000)), "has a text of 70,000 letters"),
        (
            of_run("run.json", lambda run: run["cell"].update(steps=99)),
            f"run {FIRST} had another job than its cell says",
        ),
        (of_run("run.json", lambda run: run.update(key="two")), "have one key, but measured different things"),
        (of_run("outcome.json", lambda outcome: outcome.update(status="great")), "is neither ok nor failed"),
        (of_run("outcome.json", lambda outcome: outcome.update(message="\x9b2J")), "has control characters"),
        (of_run("job.json", lambda job: job.update(seed="x")), f"{FIRST}/job.json: Expected int, got str"),
        (without(f"runs/{FIRST}/outcome.json"), f"run {FIRST} has no outcome.json"),
        (without(f"runs/{FIRST}/events-0.jsonl"), f"run {FIRST} is ok, but has no events"),
        (another_rank, f"run {FIRST} has events of 2 ranks, but 1xcpu has fewer devices"),
        (added_event(b"__import__('os')"), "events-0.jsonl has a line that is no event: b\"__import__('os')\""),
        (added_event(EMPTY_BLOCK), "events-0.jsonl has a block without a step"),
        (lambda files: {**files, f"runs/{FIRST}/monitor.jsonl": b"{}\n"}, f"{FIRST}/monitor.jsonl: Object missing"),
        (of_plan(lambda plan: plan["reasons"].pop()), "has 3 cells, 2 reasons and 3 keys"),
        (of_plan(lambda plan: plan.update(id=FIRST)), "has another id inside"),
        (of_plan(lambda plan: plan.update(older_runs="some")), "Expected str matching regex"),
        (of_plan(lambda plan: plan["keys"].reverse()), "in the place of another cell"),
        (
            of_plan(lambda plan: plan["settings"].update(interval_target="wide")),
            "its results cannot be shown: ValueError",
        ),
        (of_plan(lambda plan: plan.update(suite="\x1b]0;owned\x07")), "has control characters"),
        (of_plan(lambda plan: plan["settings"].update(odd=nested(500))), "its records cannot be read: RecursionError"),
        (of_run("job.json", lambda job: job["graph"].update(odd=nested(500))), "cannot be read: RecursionError"),
        (added_event(DEEP_EVENT), 'events-0.jsonl has a line that is no event: b\'{"event":"phase"'),
        (lambda files: {**files, f"runs/{FIRST}/monitor.jsonl": DEEP_SAMPLE}, "cannot be read: RecursionError"),
        (of_certificate(fingerprint="beef"), "is about none of its runs"),
        (of_certificate(devices="2xcpus"), "Unknown devices"),
        (of_certificate(update="parameter_server"), "is about something else than its name says"),
        (of_certificate(worker_code="beef"), "is about something else than its name says"),
    ],
)
def test_bundle_with_wrong_records_is_refused_even_if_its_list_is_right(
    bundle: Path, target: Store, change: Callable[[Files], Files], reason: str
) -> None:
    refused(pack(with_true_list(change(read(bundle))), bundle), target, reason)


def test_refused_bundle_makes_no_store(bundle: Path, tmp_path: Path) -> None:
    pack(changed_speed(read(bundle)), bundle)
    with pytest.raises(UserError, match="has been changed"):
        import_bundle(bundle, Store(tmp_path / "some" / "store"))
    assert not (tmp_path / "some").exists()


@pytest.mark.parametrize("letter", ["\n", "\t", "\u200e", "\u200f", "\u061c", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    "change",
    [
        lambda name: of_plan(lambda plan: plan.update(suite=name)),
        lambda name: of_plan(lambda plan: plan["cells"][2].update(framework=name)),
        lambda name: of_run("run.json", lambda run: run["machine"].update(host=name)),
        lambda name: of_run("run.json", lambda run: run["machine"].update(processor=name)),
        lambda name: of_run("run.json", lambda run: run["cell"].update(workload=name)),
        lambda name: of_run("run.json", lambda run: run["cell"].update(data=name)),
        lambda name: of_run("run.json", lambda run: run.update(framework_version=name)),
        lambda name: of_certificate(workload=name),
    ],
    ids=["suite", "framework", "host", "description", "workload", "data", "version", "verdict"],
)
def test_name_that_is_not_read_as_it_is_written_is_refused(
    bundle: Path, target: Store, change: Callable[[str], Callable[[Files], Files]], letter: str
) -> None:
    files = change(f"a{letter}b")(read(bundle))
    refused(pack(with_true_list(files), bundle), target, "has a name with characters that no name has: 'a")


def day(ahead: float) -> str:
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() + ahead * 86400))


@pytest.mark.parametrize(
    ("moment", "reason"),
    [
        ("the day after tomorrow", "has an id that is more than a day ahead of this machine's clock"),
        ("99991231-235959", "has an id that is more than a day ahead of this machine's clock"),
        ("20251301-000000", "has an id that is no moment"),
    ],
)
@pytest.mark.parametrize("kind", ["runs", "plans"])
def test_id_of_no_moment_so_far_is_refused(bundle: Path, target: Store, kind: str, moment: str, reason: str) -> None:
    files = read(bundle)
    old = FIRST if kind == "runs" else Path(plan_name(files)).stem
    moment = day(2) if moment == "the day after tomorrow" else moment  # no clock may be in the name of a test
    refused(pack(with_true_list(renamed(files, old, f"{moment}-aaaaaa")), bundle), target, reason)


def test_id_of_a_clock_that_is_a_little_ahead_is_taken(bundle: Path, target: Store) -> None:
    files = read(bundle)
    new = f"{day(0.5)}-aaaaaa"
    moved = edited(f"runs/{new}/run.json", lambda run: run.update(started=time.time()))(renamed(files, FIRST, new))
    assert import_bundle(pack(with_true_list(moved), bundle), target).runs == 3


def test_run_that_began_another_day_than_its_id_says_is_refused(bundle: Path, target: Store) -> None:
    files = of_run("run.json", lambda run: run.update(started=run["started"] + 90000))(read(bundle))
    refused(pack(with_true_list(files), bundle), target, f"run {FIRST} began more than a day from what its id says")
