"""`paceline time`: any command, measured from outside as a shell's `time` would, in the same store as all else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.analysis.comparison.selections import choose
from paceline.analysis.quantities.known import MEMORY, comparable
from paceline.analysis.rows.table_rows import table_rows
from paceline.environments.worker_variables import INHERITED
from paceline.plan.external.command import ExternalCommand
from paceline.plan.external.output_metrics import LINE_BYTES, parse_metric, preset, read_log, values_of
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.render import FORMATS, text
from paceline.run.external import waiter
from paceline.run.external.command_line import labels, split
from paceline.run.external.session import TimeOptions, judge, make_plan
from paceline.run.samplers import PERIOD_SECONDS
from paceline.run.worker import LOG_FILE
from paceline.store.index.command_usage import FILE as USAGE_FILE
from paceline.store.index.command_usage import WaiterReport, usage_of
from paceline.store.records.samples import FILE as MONITOR_FILE
from paceline.store.records.samples import Sample
from paceline.store.store import Store
from paceline.system.errors import UserError
from paceline.system.machine.gpus import Gpu
from paceline.system.paths import environments_folder
from paceline.system.processes import RUN_VARIABLE, state
from tests.factories.command_line import CommandLine, send, wait_until
from tests.factories.machines import machine
from tests.factories.runs import CELL, OK, cell, record, save_plan, save_run, trained

PYTHON = sys.executable
ONE = TimeOptions(repeats=1, warmup_runs=0, timeout=60.0)


@dataclass(frozen=True)
class Timing:
    """`paceline time` in a home of its own, so that tests do not wait for another measurement's lock."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PACELINE_HOME": str(self.folder / "home"), "COLUMNS": "80"}

    def words(self, flags: list[str], command: list[str]) -> list[str]:
        store = [] if "--store" in flags else ["--store", str(self.store)]
        return [PYTHON, "-m", "paceline", "time", *store, *flags, "--", *command]

    def __call__(self, *command: str, flags: tuple[str, ...] = ("--repeats", "1")) -> subprocess.CompletedProcess[str]:
        words = self.words(list(flags), list(command))
        return subprocess.run(
            words, capture_output=True, text=True, timeout=120, check=False, cwd=self.folder, env=self.environment
        )

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        words = self.words(["--repeats", "2"], list(command))
        return subprocess.Popen(
            words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, cwd=self.folder, env=self.environment
        )

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(FORMATS["json"](table_rows(Store(self.store), {})))
        return rows

    def logs(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self.store.glob("runs/*/log.txt"))]


@pytest.fixture
def timing(tmp_path: Path) -> Timing:
    return Timing(tmp_path)


def python(code: str) -> list[str]:
    return [PYTHON, "-c", code]


def test_variables_that_may_be_secrets_are_not_kept(timing: Timing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terraform's begin like those of TensorFlow."""
    for name, value in (("TF_TOKEN_example", "hunter2"), ("TF_VAR_password", "hunter2"), ("TF_CPP_MIN_LOG_LEVEL", "1")):
        monkeypatch.setenv(name, value)
    timing(*python("pass"))
    (record,) = timing.store.glob("runs/*/run.json")
    assert "hunter2" not in record.read_text(encoding="utf-8")
    assert "TF_CPP_MIN_LOG_LEVEL" in record.read_text(encoding="utf-8")


# What is read from the output


def readings(tmp_path: Path, preset_name: str, *lines: str) -> dict[str, float]:
    log = tmp_path / "log.txt"
    log.write_text("\n".join(lines), encoding="utf-8")
    metrics = preset(preset_name)
    return values_of(metrics, read_log(log, metrics))


def test_mxnet_prints_speed_and_accuracies(tmp_path: Path) -> None:
    found = readings(
        tmp_path,
        "mxnet",
        "INFO:root:Epoch[0] Batch [20]\tSpeed: 100.00 samples/sec\taccuracy=0.100000",
        "INFO:root:Epoch[0] Batch [40]\tSpeed: 310.50 samples/sec\taccuracy=0.200000",
        "INFO:root:Epoch[0] Train-accuracy=0.300000",
        "INFO:root:Epoch[0] Time cost=9.000",
        "INFO:root:Epoch[0] Validation-accuracy=0.350000",
        "INFO:root:Epoch[1] Batch [20-40]\tSpeed: 300.50 samples/sec\taccuracy=0.400000",
        "INFO:root:Epoch[1] Train-accuracy=0.500000",
        "INFO:root:Epoch[1] Time cost=8.500",
        "INFO:root:Epoch[1] Validation-accuracy=0.450000",
    )
    # 310.50 and 300.50 after the first; the last accuracies; 8.5 after the first epoch
    assert found == {"images/s": 305.5, "accuracy": 0.45, "training accuracy": 0.5, "s/epoch": 8.5}


def test_tf_cnn_benchmarks_total_goes_before_its_steps(tmp_path: Path) -> None:
    steps = ("1\timages/sec: 210.4 +/- 0.0 (jitter = 0.0)\t8.213", "10\timages/sec: 220.1 +/- 1.2 (jitter = 3.4)\t8.1")
    assert readings(tmp_path, "tf_cnn_benchmarks", *steps) == {"images/s": 220.1}
    total = ("-" * 64, "total images/sec: 1,225.73", "-" * 64)
    assert readings(tmp_path, "tf_cnn_benchmarks", *steps, *total) == {"images/s": 1225.73}


def test_keras_counts_only_lines_that_end_an_epoch(tmp_path: Path) -> None:
    found = readings(
        tmp_path,
        "keras",
        "Epoch 1/2",
        "  640/50000 [..........] - ETA: 99s - loss: 2.3 - acc: 0.0900\x08\x08\r",
        "50000/50000 [==========] - 20s - loss: 1.9 - acc: 0.3000\r50000/50000 [==========] - 24s - loss: 1.9 "
        "- acc: 0.3000 - val_loss: 1.7 - val_acc: 0.3700",
        "50000/50000 [==========] - 16s - loss: 1.6 - acc: 0.4000 - val_loss: 1.5 - val_acc: 0.4600",
    )
    assert found == {"accuracy": 0.46, "training accuracy": 0.4, "s/epoch": 16.0}


def test_keras_3_draws_in_colours(tmp_path: Path) -> None:
    bar = "\x1b[1m4/4\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m2s\x1b[0m 319ms/step - accuracy: 0.5352"
    found = readings(tmp_path, "keras", f"\x1b[1m1/4\x1b[0m ━ \x1b[1m1:02\x1b[0m 900ms/step - accuracy: 0.1\r{bar}")
    assert found == {"training accuracy": 0.5352, "s/epoch": 2.0, "ms/step": 319.0}
    validated = "4/4 - 3s - 196ms/step - accuracy: 0.54 - loss: 0.69 - val_accuracy: 0.53 - val_loss: 0.70"
    found = readings(tmp_path, "keras", "Epoch 1/1", validated)
    assert found == {"accuracy": 0.53, "training accuracy": 0.54, "s/epoch": 3.0, "ms/step": 196.0}


def test_neon_tells_what_is_wrong_in_percent(tmp_path: Path) -> None:
    bar = "\r\rEpoch 0   [Train |███       |   39/390  batches, 2.10 cost, 0.31s]"
    ends = [f"\rEpoch {epoch}   [Train |██████████|  390/390  batches, 1.62 cost, {epoch + 2}.50s]" for epoch in (0, 1)]
    found = readings(tmp_path, "neon", bar, *ends, "Misclassification error = 24.5%")
    assert found == {"accuracy": 0.755, "s/epoch": 3.5}


@pytest.mark.parametrize(
    ("text", "numbers", "value"),
    [
        ("images/s=at ([0-9.]+)", (9.0, 4.0, 6.0), 5.0),  # the median of those after the first
        ("images/s=at ([0-9.]+)", (9.0,), 9.0),
        ("accuracy=at ([0-9.]+)", (0.9, 0.4, 0.6), 0.6),  # the last
        ("test loss=at ([0-9.]+)", (3.0, 2.0), 2.0),
        ("accuracy%=at ([0-9.]+)", (90.0,), 0.9),
        ("error%=at ([0-9.]+)", (25.0,), 0.75),
    ],
)
def test_what_numbers_come_to(text: str, numbers: tuple[float, ...], value: float) -> None:
    metric = parse_metric(text)
    assert values_of([metric], [numbers]) == {metric.name: value}


def test_numbers_that_are_none_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"at 1.5\nat nan\nat inf\nat ...\nat 2,000.5.\rat 1e3 \xff at 4")
    assert read_log(log, [parse_metric("x=at ([^ ]+)")]) == ((1.5, 2000.5, 1000.0, 4.0),)


def test_line_without_end_is_searched_piece_by_piece(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"." * 3 * LINE_BYTES + b" at 7")
    assert read_log(log, [parse_metric("x=at ([0-9])"), parse_metric("y=^(.).*")])[0] == (7.0,)


# What is asked for


@pytest.mark.parametrize(
    ("wishes", "command", "message"),
    [
        ({"metrics": ["images/s=Speed: ([0-9"]}, "true", "is no regular expression"),
        ({"metrics": ["images/s=Speed: [0-9]+"]}, "true", "has no group"),
        ({"metrics": ["images/s=(a)(b)"]}, "true", "has 2 groups"),
        ({"metrics": ["images/s"]}, "true", "write NAME=REGEX"),
        ({"presets": ["caffe"]}, "true", "Unknown preset 'caffe'"),
        ({"repeats": 0}, "true", "--repeats is a whole number from 1 to 1,000"),
        ({"timeout": 0.0}, "true", "--timeout is a number of seconds above 0"),
        ({"warmup_runs": -1}, "true", "--warmup-runs is a whole number from 0 to 1,000"),
        ({"devices": ["cuda:97"]}, "true", "There is no cuda:97"),
        ({"names": ["a", "b"]}, "true", "once for each command"),
        ({"names": ["a", "a"]}, "true --- true", "must be another one"),
        ({"presets": ["mxnet", "neon"]}, "a --- b --- c", "once for each of the 3 commands"),
        ({}, "", "Give a command after --"),
        ({}, "true ---", "Give a command after --"),
    ],
)
def test_what_cannot_be_measured_is_refused(wishes: dict[str, Any], command: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_plan(command.split(), replace(ONE, **wishes), machine())


def test_mistake_is_one_line_before_anything_runs(timing: Timing) -> None:
    ended = timing("touch", "ran", flags=("--metric", "images/s=Speed: ([0-9"))
    assert ended.returncode == 1
    assert ended.stderr.startswith("paceline: --metric images/s: 'Speed: ([0-9' is no regular expression")
    assert ended.stderr.count("\n") == 1
    assert not (timing.folder / "ran").exists()
    assert not timing.store.exists()


def test_word_that_is_no_text_is_refused() -> None:
    with pytest.raises(UserError, match="not UTF-8"):
        split(["ls", os.fsdecode(b"\xff")])


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([["python3.11", "-u", "bench/train.py", "--gpus", "0"]], ["train.py"]),
        ([["python", "-m", "pack.train", "-e", "2"], ["./run", "x"]], ["pack.train", "run"]),
        (
            [["python", "t.py", "--gpus", "0"], ["python", "t.py", "--gpus", "0,1"]],
            ["t.py --gpus 0", "t.py --gpus 0;1"],
        ),
        ([["sleep", "1"], ["sleep", "1"]], ["sleep 1", "sleep 1 #2"]),
        ([["sh", "-c", "exit 3"]], ["sh"]),
        ([["a" * 99]], ["a" * 23 + "…"]),
    ],
)
def test_labels_are_short_and_unlike(commands: list[list[str]], expected: list[str]) -> None:
    assert labels(commands, []) == expected


def test_commands_are_interleaved_and_the_order_changes() -> None:
    wishes = TimeOptions(repeats=8, warmup_runs=0, timeout=9.0)
    plan = make_plan(["a", "---", "b", "1", "---", "c"], wishes, machine())
    rounds = [[run.cell.framework for run in plan.runs[start : start + 3]] for start in range(0, 24, 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 2
    assert [run.repeat for run in plan.runs] == [repeat for repeat in range(8) for _ in range(3)]


def test_same_command_again_is_measured_anew_under_the_same_name() -> None:
    first, second = (make_plan(["a", "x"], ONE, machine()).runs[0].key for _ in range(2))
    other = make_plan(["a", "y"], ONE, machine()).runs[0].key
    assert first != second
    assert first[:16] == second[:16] != other[:16]


# What is measured


@pytest.mark.slow
def test_several_commands_stand_in_one_table_that_show_prints_again(timing: Timing) -> None:
    speak = "import sys, time; time.sleep(0.3); print('at', sys.argv[1]); print('at', 7); print('right 0.25')"
    flags = ("--repeats", "2", "--metric", "images/s=at ([0-9]+)", "--metric", "accuracy=right (.*)")
    ended = timing(*python(speak), "5", "---", *python(speak), "6", flags=(*flags, "--name", "one", "--name", "two"))

    assert ended.returncode == 0, ended.stderr
    assert max(map(len, ended.stdout.splitlines()[:6])) <= 80
    one, two = timing.rows()
    assert (one["framework"], two["framework"]) == ("one", "two")
    assert one["images_per_second"]["median"] == 7.0
    assert one["test_accuracy"]["median"] == 0.25
    assert one["command"]["real_seconds"]["median"] == one["seconds"] > 0.3
    assert one["repeats"] == 2
    assert f"  $ {PYTHON} -c " in ended.stdout
    assert text(table_rows(Store(timing.store), {}), width=80) == ended.stdout
    assert [row.cell.framework for row in table_rows(Store(timing.store), {"framework": "two"})] == ["two"]
    for form in ("markdown", "csv"):
        assert "sys.argv[1]" in FORMATS[form](table_rows(Store(timing.store), {}))


@pytest.mark.slow
def test_command_stands_beside_built_in_frameworks(timing: Timing) -> None:
    timing("true")
    store = Store(timing.store)
    save_plan(store, {CELL: ["a"]})
    save_run(store, record("run-a", "a"), [trained(100, 2.0)])
    rows = table_rows(store, {"framework": "true,fake"})
    assert {(row.cell.workload, row.cell.framework) for row in rows} == {("command", "true"), ("cifar10-conv", "fake")}
    shown = text(rows, width=80)
    assert "cifar10-conv: " in shown
    assert "commands: " in shown


def test_index_made_anew_has_the_same_rows(timing: Timing) -> None:
    timing(*python("print('at 3')"), "---", "false", flags=("--repeats", "1", "--metric", "images/s=at (.)"))
    before = timing.rows()
    Store(timing.store).rebuild()
    assert timing.rows() == before


BURN = "import os, time\nwhile time.process_time() < 0.4: pass\n"
TELL = """
import os, resource
use = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
open("used.part", "w").write(f"{sum(each.ru_utime + each.ru_stime for each in use)} {os.getpid()}")
os.rename("used.part", "used")
"""
AS_LITTLE = 0.25  # seconds that processes take to start and end, before and after they look at their own


def told_and_counted(timing: Timing) -> tuple[float, float]:
    """Seconds of processors, by the command's own account at its end and by the one row of the table."""
    (row,) = timing.rows()
    counted = row["command"]["user_seconds"] + row["command"]["system_seconds"]
    return float((timing.folder / "used").read_text().split()[0]), counted


@pytest.mark.slow
def test_time_of_the_whole_tree_is_counted(timing: Timing) -> None:
    tree = f"import os, subprocess, sys; [subprocess.run([sys.executable, '-c', {BURN!r}]) for _ in range(2)]\n{TELL}"
    timing(*python(tree))
    told, counted = told_and_counted(timing)
    assert told > 0.8
    assert told - 0.02 <= counted < told + AS_LITTLE  # the kernel's clock ticks
    assert not timing.rows()[0]["command"]["times_sampled"]


# Ends when its orphan has: that is nobody's child but the waiter's, which sees to it later.
WITH_ORPHAN = """
import os, sys, time
from pathlib import Path
if os.fork() == 0:
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
    os._exit(0)
os.wait()
while not Path("used").exists():
    time.sleep(0.05)
orphan = Path("/proc") / Path("used").read_text().split()[1] / "stat"
while orphan.read_text().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_time_of_an_orphan_that_has_ended_is_counted(timing: Timing) -> None:
    ended = timing(PYTHON, "-c", WITH_ORPHAN, BURN + TELL)
    assert ended.returncode == 0, ended.stdout
    told, counted = told_and_counted(timing)
    assert told > 0.4
    assert told - 0.02 <= counted < told + AS_LITTLE
    assert not timing.rows()[0]["command"]["times_sampled"]


def test_page_names_the_variables_that_are_kept() -> None:
    page = (Path(__file__).parents[2] / "docs" / "measure-a-command.md").read_text(encoding="utf-8")
    assert [name for name in INHERITED if f"`{name}`" not in page] == []


def test_waiter_knows_the_mark() -> None:
    assert waiter.MARK == RUN_VARIABLE  # it imports nothing of Paceline, to be small


@pytest.mark.slow
def test_processes_for_which_nobody_waits_are_sampled_and_it_is_said(timing: Timing) -> None:
    burn = f"{BURN}{TELL}\ntime.sleep(300)"
    leave = (
        "import os, signal, subprocess, sys, time; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"p = subprocess.Popen([sys.executable, '-c', {burn!r}], start_new_session=True)\n"
        "while not os.path.exists('used'): time.sleep(0.05)\n"
        f"time.sleep({4 * PERIOD_SECONDS})"  # in which it is looked at
    )
    ended = timing(*python(leave))
    (row,) = timing.rows()
    told, counted = told_and_counted(timing)
    assert row["command"]["times_sampled"]
    assert told - 0.02 <= counted < told + 2 * AS_LITTLE  # that of the two that start it, too
    assert row["command"]["left_behind"] == 1
    assert "left processes behind, which were ended: 1" in ended.stdout


def test_memory_of_each_gpu_is_peak_minus_idle(tmp_path: Path) -> None:
    """As published: (1038 - 138) MiB + (201 - 29) MiB."""
    command = ExternalCommand(arguments=("neon",), folder="/")
    pair = cell(framework="neon", devices="cuda:0+cuda:1", cores=((0,), (1,)), command=command)
    store = Store(tmp_path)
    save_plan(store, {pair: ["k"]})
    folder = store.create_run(record("run", "k", pair))
    seen = [sample_of_gpus(*mebibytes) for mebibytes in ((138, 29), (1038, 90), (700, 201))]
    (folder / MONITOR_FILE).write_bytes(b"".join(msgspec.json.encode(sample) + b"\n" for sample in seen))
    report = WaiterReport(exit_code=0, seconds=43.526, user_seconds=40.118, system_seconds=3.797)
    (folder / USAGE_FILE).write_bytes(msgspec.json.encode(usage_of(report, (0.0, 0.0), 0, ())))
    store.finish_run(folder, OK)

    (row,) = table_rows(store, {})
    assert row.of_each(MEMORY) == (900.0, 172.0)
    shown = text([row], width=80)
    assert "900+172" in shown
    assert "real 43.5 s, user 40.1 s, sys 3.80 s" in shown
    assert "peak memory (1,038 - 138) MiB + (201 - 29) MiB" in shown
    for arrange in LAYOUTS.values():
        assert any("neon" in str(grid) for grid in arrange([row]))


def sample_of_gpus(*mebibytes: int) -> Sample:
    gpus = [Gpu(memory_bytes=size << 20, busy_percent=90.0) for size in mebibytes]
    return Sample(time=0.0, load=0.0, ranks={}, gpus=gpus)


@pytest.mark.slow
def test_two_stores_are_compared_by_seconds_and_by_what_was_printed(timing: Timing, tmp_path: Path) -> None:
    command = python("import sys; print('at 5')")
    for store in ("a", "b"):
        timing(*command, flags=("--repeats", "2", "--metric", "images/s=at (.)", "--store", str(tmp_path / store)))
    for metric in ("seconds", "images/s"):
        old, new = (choose(str(tmp_path / store), tmp_path, comparable(metric)) for store in ("a", "b"))
        assert old.cells.keys() == new.cells.keys()
        (runs,) = new.cells.values()
        assert len(comparable(metric).values(runs.good)) == 2


def test_kernel_is_believed_unless_samples_saw_clearly_more() -> None:
    report = WaiterReport(exit_code=0, seconds=3.0, user_seconds=2.0, system_seconds=1.0)
    assert usage_of(report, (2.02, 1.05), 0, ()).user_seconds == 2.0
    more = usage_of(report, (2.5, 1.0), 0, ())
    assert (more.user_seconds, more.system_seconds, more.times_sampled) == (2.5, 1.0, True)


@pytest.mark.slow
def test_memory_of_processes_side_by_side_adds_up(timing: Timing) -> None:
    hold = "import time; held = bytearray(b'x') * (80 << 20); time.sleep(3)"
    timing("sh", "-c", '"$0" -c "$1" & "$0" -c "$1"; wait', PYTHON, hold)
    (row,) = timing.rows()
    assert 160 <= row["peak_memory_mib"][0] < 220
    assert 80 <= row["command"]["largest_process_mib"] < 110


def test_command_sees_its_own_world(timing: Timing) -> None:
    look = "import os, sys; print(os.getcwd(), os.environ['COLUMNS'], repr(sys.stdin.read()))"
    timing(*python(look))
    assert timing.logs() == [f"{timing.folder} 80 ''\n".encode()]


def test_warm_up_runs_are_forgotten(timing: Timing) -> None:
    ended = timing("sh", "-c", "echo x >> count", flags=("--repeats", "2", "--warmup-runs", "1"))
    assert (timing.folder / "count").read_text() == "x\n" * 3
    assert len(list(timing.store.glob("runs/*"))) == 2
    assert "[warm-up 1/1] sh:" in ended.stderr


@pytest.mark.slow
def test_echo_shows_the_output(timing: Timing) -> None:
    assert "hello\n" not in timing("echo", "hello").stderr
    assert "hello\n" in timing("echo", "hello", flags=("--repeats", "1", "--echo")).stderr


@pytest.mark.slow
def test_much_output_and_rubbish_do_no_harm(timing: Timing) -> None:
    shout = (
        "import random, sys; rubbish = random.Random(1).randbytes(1 << 20)\n"
        "for _ in range(30): sys.stdout.buffer.write(rubbish)\n"
        "print('\\nat 5')"
    )
    ended = timing(*python(shout), flags=("--repeats", "1", "--metric", "images/s=^at ([0-9])$"))
    assert ended.returncode == 0, ended.stderr
    (row,) = timing.rows()
    assert row["images_per_second"]["median"] == 5.0
    (log,) = timing.logs()
    assert len(log) > 30 << 20
    assert log.endswith(b"\nat 5\n")


def test_metric_that_never_matched_is_missing_and_said(timing: Timing) -> None:
    ended = timing("true", flags=("--repeats", "1", "--metric", "images/s=at ([0-9])"))
    assert ended.returncode == 0
    (row,) = timing.rows()
    assert row["images_per_second"] is None
    assert row["command"]["missing"] == ["images/s"]
    assert "not found in its output: images/s" in ended.stdout


# What goes wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (
            python("print('the end is near'); raise SystemExit(3)"),
            "crash in command: ended with exit code 3: the end is",
        ),
        (python("import os; os.kill(os.getpid(), 11)"), "crash in command: killed by SIGSEGV"),
        (python("raise MemoryError"), "out of memory in command: ended with exit code 1: MemoryError"),
        (["no-such-program", "x"], "error in start: no-such-program: command not found"),
        (["/etc/passwd"], "error in start: /etc/passwd: Permission denied"),
        (["sleep", "60"], "timeout in command: no end after 4 s"),
    ],
)
def test_failure_is_kept_with_its_cause_and_the_others_go_on(timing: Timing, command: list[str], cause: str) -> None:
    ended = timing(*command, "---", "true", flags=("--repeats", "1", "--timeout", "4"))
    assert ended.returncode == 2, ended.stderr
    failed, good = timing.rows()
    assert (failed["status"], good["status"]) == ("failed", "ok")
    assert failed["reason"].startswith(cause)
    assert failed["command"]["real_seconds"] is None
    assert "  N/A (" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_control_codes_of_a_failed_command_do_not_reach_the_terminal(timing: Timing) -> None:
    ended = timing(*python(r"print('\x1b[31mred [bold]'); raise SystemExit(1)"))
    assert "\x1b" not in ended.stdout
    assert "red [bold]" in ended.stdout


def test_processes_left_behind_are_ended(timing: Timing) -> None:
    ended = timing("sh", "-c", "setsid sleep 300 & (sleep 300 &); echo done")
    assert ended.returncode == 0
    (row,) = timing.rows()
    assert row["command"]["real_seconds"]["median"] < 60
    assert CommandLine(timing.store).processes() == []


# Two processes without the mark of their run, one of them in a session of its own and without a parent
HIDDEN = (
    "(setsid env -i sh -c 'echo $$ > $0; exec sleep 300' $PWD/one &); exec env -i sh -c 'echo $$ > $0; {}' $PWD/two"
)


def hidden(folder: Path) -> list[int]:
    """Those that have told their number."""
    return [int(told) for name in ("one", "two") if (path := folder / name).exists() and (told := path.read_text())]


@pytest.mark.slow
def test_timeout_ends_processes_that_cleared_their_environment(timing: Timing) -> None:
    ended = timing("sh", "-c", HIDDEN.format("exec sleep 300"), flags=("--repeats", "1", "--timeout", "3"))
    assert ended.returncode == 2
    (row,) = timing.rows()
    assert row["reason"].startswith("timeout in command")
    assert [state(pid) for pid in hidden(timing.folder)] == ["gone", "gone"]


def test_left_processes_that_cleared_their_environment_are_counted_and_ended(timing: Timing) -> None:
    ended = timing("sh", "-c", HIDDEN.format("until test -s $(dirname $0)/one; do sleep 0.1; done"))
    assert ended.returncode == 0
    (row,) = timing.rows()
    assert row["command"]["left_behind"] == 1
    assert [state(pid) for pid in hidden(timing.folder)] == ["gone", "gone"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_that_cleared_their_environment_do_not_outlive_paceline(
    timing: Timing, number: signal.Signals
) -> None:
    process = timing.start("sh", "-c", HIDDEN.format("exec sleep 300"))
    wait_until(lambda: len(hidden(timing.folder)) == 2)
    send(process.pid, number)
    process.communicate(timeout=30)
    wait_until(lambda: [state(pid) for pid in hidden(timing.folder)] == ["gone", "gone"], 10)
    wait_until(lambda: CommandLine(timing.store).processes() == [], 10)  # the waiter too


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_paceline(timing: Timing, number: signal.Signals) -> None:
    process = timing.start("sh", "-c", "setsid sleep 300 & sleep 300")
    line = CommandLine(timing.store)
    wait_until(lambda: len(line.processes()) > 3)  # waiter, shell and both sleeps
    send(process.pid, number)
    _, said = process.communicate(timeout=30)
    wait_until(lambda: line.processes() == [], 10)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert number == signal.SIGKILL or b"paceline: interrupted; finished runs are kept" in said


def test_interrupt_keeps_finished_runs(timing: Timing) -> None:
    again = timing.folder / "again"
    process = timing.start("sh", "-c", 'test -e "$0" && sleep 300; touch "$0"', str(again))
    line = CommandLine(timing.store)
    wait_until(lambda: line.outcomes() and len(line.processes()) > 2)  # the second run is under way
    send(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    (row,) = timing.rows()
    assert (row["status"], row["repeats"]) == ("not run", 1)
    assert row["reason"] == "1 of 2 runs are done"


# Real training programs

TORCH = """
import time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(14400, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))
for block in range(6):
    began = time.time()
    for _ in range(8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    print(f"Speed: {8 * 64 / (time.time() - began):.2f} samples/sec", flush=True)
"""
MXNET = """
import logging, numpy, mxnet
logging.basicConfig(level=logging.INFO)
net = mxnet.sym.FullyConnected(mxnet.sym.Variable("data"), num_hidden=256)
net = mxnet.sym.FullyConnected(mxnet.sym.Activation(net, act_type="relu"), num_hidden=10)
images, labels = numpy.random.rand(6400, 784).astype("float32"), numpy.random.randint(0, 10, 6400)
data = mxnet.io.NDArrayIter(images, labels, 64)
test = mxnet.io.NDArrayIter(images[:640], labels[:640], 64)
model = mxnet.mod.Module(mxnet.sym.SoftmaxOutput(net, name="softmax"))
model.fit(data, test, num_epoch=3, batch_end_callback=mxnet.callback.Speedometer(64, 20))
"""


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("time"), reason="there is no /usr/bin/time to compare with")
@pytest.mark.parametrize(("framework", "script"), [("torch", TORCH), ("mxnet", MXNET)])
def test_training_agrees_with_the_time_command(timing: Timing, framework: str, script: str) -> None:
    """Both measure the same processes: /usr/bin/time inside, Paceline around it."""
    interpreter = environments_folder() / framework / "bin" / "python"
    (timing.folder / "train.py").write_text(script)
    told = timing.folder / "told.txt"
    inside = ["time", "--output", str(told), "--format", "%e %U %S %M", str(interpreter), "train.py"]
    ended = timing(*inside, flags=("--repeats", "1", "--preset", "mxnet"))

    assert ended.returncode == 0, ended.stdout
    (row,) = timing.rows()
    real, user, system, kibibytes = map(float, told.read_text().split())
    command = row["command"]
    assert command["real_seconds"]["median"] > real - 0.02  # which is inside, and of two decimals
    used = command["user_seconds"] + command["system_seconds"]
    assert user + system - 0.02 <= used < user + system + AS_LITTLE
    assert row["peak_memory_mib"][0] == pytest.approx(kibibytes / 1024, rel=0.05)
    assert command["largest_process_mib"] == pytest.approx(kibibytes / 1024, rel=0.001)
    speeds = [float(line.split()[-2]) for line in speed_lines(timing)]
    assert row["images_per_second"]["median"] == pytest.approx(statistics.median(speeds[1:]))
    assert (row["test_accuracy"] is not None) == (row["seconds_per_epoch"] is not None) == (framework == "mxnet")


def speed_lines(timing: Timing) -> list[str]:
    """Up to the unit: what follows it differs."""
    (log,) = timing.logs()
    return [line.split("/sec")[0] + "/sec" for line in log.decode().splitlines() if "Speed: " in line]


class Ended:
    """A command that has come to its end."""

    timed_out, seconds = False, 1.0


@pytest.mark.parametrize(
    ("code", "printed", "memory_ran_out", "kind"),
    [
        (-9, "", True, "out of memory"),
        (-9, "", False, "crash"),
        (137, "", True, "out of memory"),  # as a shell tells of it
        (1, "local_rank: 0, exitcode: -9, Signal 9 (SIGKILL) received by PID 71", True, "out of memory"),
        (1, "ValueError: no such layer", True, "crash"),  # something else in the same container may have been ended
        (-11, "", True, "crash"),
        (1, "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB", False, "out of memory"),
        (1, "OSError: cannot allocate a port", False, "crash"),
    ],
)
def test_memory_ran_out_if_the_command_says_so_or_the_kernel_killed_it(
    tmp_path: Path, code: int, printed: str, kind: str, *, memory_ran_out: bool
) -> None:
    (tmp_path / LOG_FILE).write_text(f"{printed}\n")
    (run,) = make_plan(["true"], ONE, machine()).runs
    ended: Any = Ended()
    outcome = judge(run, ended, WaiterReport(exit_code=code), tmp_path / LOG_FILE, memory_ran_out=memory_ran_out)
    assert (outcome.status, outcome.kind) == ("failed", kind)
