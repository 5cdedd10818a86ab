"""Cards through the real pynvml and a driver library made for the test: some tell, some do not, some are lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.run.diagnosis import with_troubles
from paceline.store.records.outcome import Outcome
from paceline.store.resources import gpu_memory, gpu_utilisation
from paceline.store.store import Store
from paceline.system.machine.gpus import Gpu
from tests.factories.command_line import wait_until
from tests.factories.fake_nvml import GPU_IS_LOST, NOT_SUPPORTED, OK, FakeDriver, compiled
from tests.factories.samples import sample

GIB = 2**30
GOOD = (OK, OK, OK, 5 * GIB, 80)
SHARED_MEMORY = (OK, NOT_SUPPORTED, OK, 0, 80)  # a card that has the machine's memory, or a part of one
LOST = (GPU_IS_LOST, OK, OK, 0, 0)
LOOK = """
import msgspec
from paceline.system.machine.gpus import WatchedGpus, nvidia
cards = WatchedGpus((0, 1, 2))
print(msgspec.json.encode((nvidia(), cards.look(), cards.troubles, sorted(cards.lost))).decode())
"""
# The command, with a fake framework that takes cards.
RUN = """
import msgspec
from paceline.catalog import frameworks
read = frameworks._read
def with_cards(name, folder):
    return msgspec.structs.replace(read(name, folder), devices=("cpu", "cuda"))
frameworks._read = with_cards
from paceline.cli import main
main()
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return compiled(tmp_path_factory.mktemp("driver"))


def look(driver: FakeDriver) -> Any:
    command = [sys.executable, "-c", LOOK]
    ended = subprocess.run(command, env=driver.environment, capture_output=True, text=True, check=True, timeout=60)
    return json.loads(ended.stdout)


def test_each_card_tells_what_it_can_and_keeps_its_number(driver: FakeDriver) -> None:
    driver.tell(LOST, SHARED_MEMORY, (OK, OK, NOT_SUPPORTED, 5 * GIB, 0))
    (version, names), looks, troubles, lost = look(driver)
    assert (version, names) == ("570.1", ["a card that does not answer", "card 1", "card 2"])
    assert looks == [
        {"index": 0, "memory_bytes": None, "busy_percent": None, "trouble": "GPU is lost"},
        {"index": 1, "memory_bytes": None, "busy_percent": 80.0, "trouble": None},
        {"index": 2, "memory_bytes": 5 * GIB, "busy_percent": None, "trouble": None},
    ]
    assert (troubles, lost) == ({"0": "GPU is lost"}, [0])


def test_joules_of_each_card_are_those_that_its_driver_counts(driver: FakeDriver) -> None:
    driver.tell(LOST, GOOD, (OK, OK, NOT_SUPPORTED, 5 * GIB, 0))
    program = LOOK.replace("(nvidia(), cards.look(), cards.troubles, sorted(cards.lost))", "cards.joules()")
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=driver.environment, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ended.stdout) == [None, 8.0, None]


def test_driver_that_went_away_is_trouble_of_every_card(driver: FakeDriver) -> None:
    (driver.folder / "cards").unlink(missing_ok=True)
    (version, names), looks, troubles, _ = look(driver)
    assert (version, names) == (None, [])
    assert {each["memory_bytes"] for each in looks} == {None}
    assert set(troubles.values()) == {"Driver Not Loaded"}


def command(store: Path, framework: str, devices: str, steps: int = 20) -> list[str]:
    flags = ("--steps", str(steps), "--warmup", "2", "--repeats", "1", "--devices", devices, "--store", str(store))
    return [sys.executable, "-c", RUN, "run", "cifar10-conv", "--framework", framework, *flags]


def run(driver: FakeDriver, store: Path, framework: str, devices: str) -> subprocess.CompletedProcess[str]:
    words = command(store, framework, devices)
    return subprocess.run(words, env=driver.environment, capture_output=True, text=True, timeout=120, check=False)


def rows(store: Path) -> list[dict[str, Any]]:
    sql = "SELECT status, kind, message, json_extract(cell, '$.framework') AS framework FROM run ORDER BY framework"
    return [dict(row) for row in Store(store).query(sql)]


@pytest.mark.slow
def test_lost_card_explains_a_failure_and_the_plan_goes_on(driver: FakeDriver, tmp_path: Path) -> None:
    driver.tell(GOOD, (OK, GPU_IS_LOST, GPU_IS_LOST, 0, 0))
    ended = run(driver, tmp_path, "fake+fail,fake", "cuda:1")
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    good, failed = rows(tmp_path)
    assert failed["kind"] == "lost device"
    assert failed["message"] == (
        "the driver could not tell of cuda:1: GPU is lost; error: RuntimeError: the fake framework was told to fail"
    )
    assert good["status"] == "ok"
    assert "* fake cuda:1: the driver could not tell of cuda:1: GPU is lost" in ended.stdout


@pytest.mark.slow
def test_run_survives_a_card_that_is_lost_while_it_trains(driver: FakeDriver, tmp_path: Path) -> None:
    driver.tell(GOOD)
    words = command(tmp_path, "fake", "cuda:0", steps=200)  # 2.6 s of training
    with subprocess.Popen(words, env=driver.environment, stdout=subprocess.PIPE, text=True) as running:
        wait_until(lambda: any(b'"train"' in path.read_bytes() for path in tmp_path.glob("runs/*/events-0.jsonl")))
        driver.tell(LOST)
        shown, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert [row["status"] for row in rows(tmp_path)] == ["ok"]
    assert "* fake cuda:0: the driver could not tell of cuda:0: GPU is lost" in shown


@pytest.mark.slow
def test_card_that_does_not_tell_its_memory_has_no_figure_and_no_trouble(driver: FakeDriver, tmp_path: Path) -> None:
    driver.tell(SHARED_MEMORY, LOST)  # of the other one nothing is asked
    ended = run(driver, tmp_path, "fake", "cuda:0")
    assert ended.returncode == 0, ended.stderr
    assert [row["status"] for row in rows(tmp_path)] == ["ok"]
    assert "could not tell" not in ended.stdout + ended.stderr
    assert Store(tmp_path).query("SELECT * FROM value WHERE name = 'memory_bytes'") == []


def test_memory_of_a_card_is_unknown_if_it_was_never_told() -> None:
    told, untold = ([Gpu(index=3, memory_bytes=size, busy_percent=None)] for size in (7, None))
    assert gpu_memory([3], [], [sample(1.0, gpus=told), sample(2.0, gpus=untold)])[0].peak_bytes == 7
    assert gpu_memory([3], [], [sample(1.0, gpus=untold), sample(2.0, gpus=told)]) == []
    both = [told[0], Gpu(index=4, memory_bytes=None, busy_percent=None)]
    assert gpu_memory([3, 4], [], [sample(1.0, gpus=both)]) == []  # one figure would be taken for that of both
    assert gpu_utilisation([sample(1.0, gpus=told)], [(0.0, 2.0)], 3) is None


def test_cards_of_an_older_record_are_known_by_their_place() -> None:
    old = sample(1.0, gpus=[Gpu(memory_bytes=size, busy_percent=None) for size in (5, 6)])
    assert gpu_memory([1], [], [old])[0].peak_bytes == 6
    assert old.gpu(2) is None


class Troubled:
    """Cards as they are after a run."""

    def __init__(self, lost: set[int], **troubles: str) -> None:
        self.lost, self.troubles = lost, {int(name[-1]): why for name, why in troubles.items()}

    def look(self) -> None: ...


FAILED = Outcome(status="failed", phase="train", kind="crash", message="killed by SIGSEGV", seconds=1.0)


def test_trouble_that_is_no_loss_is_a_remark() -> None:
    found = with_troubles(FAILED, Troubled(set(), card0="Unknown Error"))  # type: ignore[arg-type]
    assert (found.kind, found.message) == ("crash", "killed by SIGSEGV")
    assert found.remarks == ("the driver could not tell of cuda:0: Unknown Error",)


def test_card_that_was_lost_after_the_last_look_explains_a_failure() -> None:
    class Lost(Troubled):
        def look(self) -> None:
            self.lost, self.troubles = {0}, {0: "GPU is lost"}

    found = with_troubles(FAILED, Lost(set()))  # type: ignore[arg-type]
    assert found.kind == "lost device"


def test_lost_card_is_named_with_what_the_run_said() -> None:
    found = with_troubles(FAILED, Troubled({1}, card0="Timeout", card1="GPU is lost"))  # type: ignore[arg-type]
    assert (found.kind, found.phase) == ("lost device", "train")
    assert found.message == "the driver could not tell of cuda:1: GPU is lost; crash: killed by SIGSEGV"
    assert found.remarks == ("the driver could not tell of cuda:0: Timeout",)
