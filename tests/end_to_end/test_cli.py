"""The command line as a user meets it: one clear line for a mistake, and nothing half written."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.command_line import CommandLine

SHORT = ("--steps", "20", "--warmup", "2")
QUICK = ("--framework", "fake", *SHORT, "--repeats", "2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cifar10-convv"], "Unknown workload 'cifar10-convv'. Did you mean 'cifar10-conv'? Known: cifar10-conv, "),
        (["cifar10-conv", "--scale", "0"], "--scale '0': give numbers of devices from 1 to 256, such as 1,2,4."),
        (["cifar10-conv", "--scale", "2", "--devices", "1xcpu"], "Give --devices or --scale, not both."),
        ([], "the command line: name at least one workload; `paceline list workloads` shows them."),
        (
            ["cifar10-conv", "--framework", "tourch"],
            "Unknown framework 'tourch'. Did you mean 'torch'? Known: jax, ",
        ),
        (["cifar10-conv", "--framework", "torch+xla"], "Unknown mode of torch 'xla'. Known: compile."),
        (
            ["cifar10-conv", "--devices", "2xgpu"],
            "Unknown devices '2xgpu': here that is 2xcuda.",
        ),
        (
            ["cifar10-conv", "--gpus", "98,99"],
            "There is no cuda:98 for the device set 'cuda:98+cuda:99'; this machine has ",
        ),
        (
            ["cifar10-conv", "--devices", "3xcpu"],
            "A batch of 128 cannot be split over 3 devices (3xcpu); use a multiple of 3",
        ),
        (
            ["cifar10-conv", "--steps", "9", "--warmup", "9"],
            "warmup 9 must be less than the 9 steps; use --warmup 8 or more",
        ),
        (["cifar10-conv", "--layout", "rowz"], "Unknown --layout 'rowz'. Did you mean 'rows'? Known: rows, sources, "),
        (["cifar10-conv", "--seed", "1", "--seed", "2"], "--seed specified multiple times."),
        (["cifar10-conv", "--batch-size", "3x"], "--batch-size '3x' is not a whole number."),
        (["cifar10-conv", "--steps", "ten"], "--steps 'ten' is not a whole number."),
        (["cifar10-conv", "--stepz", "10"], "Unknown option: --stepz. Did you mean --steps?"),
        (
            ["cifar10-conv", "--data", "cifar"],
            "Unknown data source 'cifar'. Did you mean 'cifar10'? Known: fake:device, fake:host,",
        ),
        (
            ["cifar10-conv", "--update", "none"],
            "Unknown --update 'none'. Known: replicated, parameter_server, independent.",
        ),
        (["cifar10-conv", "--precision", "int8"], "Unknown --precision 'int8'. Known: float32, bfloat16."),
        (["nowhere.toml"], "Cannot read the suite nowhere.toml: No such file or directory."),
        (["cifar10-conv", "nowhere.toml"], "Give workloads or one suite, not both"),
        (["cifar10-conv", "--gpus", "0", "--devices", "1xcpu"], "Give --devices or --gpus, not both."),
    ],
)
def test_mistake_is_one_line_and_writes_nothing(paceline: CommandLine, words: list[str], message: str) -> None:
    ended = paceline.here("run", *words)
    assert ended.returncode == 1
    assert message in ended.stderr
    assert ended.stderr.startswith("paceline: ")
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""
    assert not paceline.store.exists()


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ('workload = "cifar10-conv"\nbatchsize = 3', "'batchsize'. Did you mean 'batch_size'?"),
        ('workload = "cifar10-conv"\nsteps = "3"', "steps: expected int, got str."),
        ("workload =", "is not TOML: "),
    ],
)
def test_mistake_in_a_suite_file_names_the_file(
    paceline: CommandLine, tmp_path: Path, suite: str, message: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(suite)
    ended = paceline("run", str(path))
    assert ended.returncode == 1
    assert message in ended.stderr
    assert str(path) in ended.stderr
    assert ended.stderr.count("\n") == 1


def older_runs(paceline: CommandLine) -> list[str]:
    """Which runs from before it counted as done for each plan, the oldest first."""
    return [json.loads(path.read_bytes())["older_runs"] for path in sorted(paceline.store.glob("plans/*.json"))]


@pytest.mark.slow
def test_same_command_goes_on_instead_of_repeating(paceline: CommandLine) -> None:
    command = ("run", "cifar10-conv", *QUICK)
    assert paceline(*command).returncode == 0
    first = paceline.outcomes()
    assert paceline(*command).returncode == 0
    assert paceline.outcomes() == first
    assert paceline("run", "cifar10-conv", "--framework", "fake", *SHORT, "--repeats", "3").returncode == 0
    assert len(paceline.outcomes()) == 3  # one more, not three
    assert paceline(*command, "--again").returncode == 0
    assert len(paceline.outcomes()) == 5
    assert older_runs(paceline) == ["all", "all", "all", "none"]


@pytest.mark.slow
def test_failed_runs_are_repeated_when_asked(paceline: CommandLine) -> None:
    command = ("run", "cifar10-conv", *SHORT, "--framework", "fake+fail,fake", "--repeats", "1")
    assert paceline(*command).returncode == 2
    assert paceline(*command).returncode == 2
    assert len(paceline.outcomes()) == 2
    assert paceline(*command, "--retry-failed").returncode == 2
    assert len(paceline.outcomes()) == 3
    assert older_runs(paceline) == ["all", "all", "ok"]


@pytest.mark.slow
def test_plan_shows_cells_skips_and_time(paceline: CommandLine) -> None:
    command = ("cifar10-conv", *SHORT, "--framework", "fake", "--precision", "float32,bfloat16")
    assert paceline("run", *command, "--repeats", "2").returncode == 0
    shown = paceline("plan", *command, "--repeats", "4").stdout.splitlines()
    assert shown[0] == "cifar10-conv fake 1xcpu fake:device batch 128, float32: 4 runs, 2 to do"
    assert shown[1].endswith("skipped: fake has no bfloat16, only float32")
    assert shown[2].startswith("2 cells, 2 runs to do, about ")


@pytest.mark.slow
def test_suite_file_with_flags_on_top(paceline: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'workload = "mnist-mlp"\nframework = "fake"\nbatch-per-device = 8\nsteps = 20\nwarmup = 2\nrepeats = 1'
    )
    assert paceline("run", str(path), "--devices", "1xcpu,2xcpu").returncode == 0
    rows = paceline.rows("--suite", "mine")
    assert [(row["devices"], row["batch_size"], row["scaling_kind"]) for row in rows] == [
        ("1xcpu", 8, "weak"),
        ("2xcpu", 16, "weak"),
    ]


@pytest.mark.slow
def test_index_is_made_anew_from_the_folders(paceline: CommandLine) -> None:
    paceline("run", "cifar10-conv", *QUICK)
    before = paceline.rows()
    (paceline.store / "index.sqlite").write_bytes(b"no database at all" * 100)
    broken = paceline("show")
    assert broken.returncode == 1
    assert "`paceline index` makes it anew" in broken.stderr
    assert paceline("index").stdout.startswith("2 runs in ")
    assert paceline.rows() == before


def seconds_of(paceline: CommandLine, run_id: str) -> float:
    """Of all blocks, each as long as its slowest rank took."""
    ranks = paceline.trained(run_id)
    assert [sum(block["steps"] for block in rank) for rank in ranks] == [40] * len(ranks)
    return sum(max(float(block["seconds"]) for block in blocks) for blocks in zip(*ranks, strict=True))


@pytest.mark.alone
def test_speeds_are_those_of_the_time_that_the_fake_framework_is_known_to_take(paceline: CommandLine) -> None:
    """It sleeps 0.1 ms for each image of a device. No clock may show less; a busy machine adds to it."""
    flags = ("--devices", "1xcpu,2xcpu", "--steps", "40", "--warmup", "2", "--repeats", "2")
    assert paceline("run", "cifar10-conv", "--framework", "fake", *flags).returncode == 0
    one, two = paceline.rows()
    for row, known in ((one, 0.0128), (two, 0.0064)):
        seconds = [seconds_of(paceline, run) for run in row["runs"]]
        assert min(seconds) >= 40 * known
        assert known <= paceline.fastest_step(row["runs"]) < 1.5 * known
        assert row["images_per_second"]["median"] == pytest.approx(statistics.mean(40 * 128 / each for each in seconds))
        assert row["seconds"] == pytest.approx(statistics.mean(seconds))
        assert row["seconds_per_epoch"] == pytest.approx(50_000 / row["images_per_second"]["median"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("free_bytes", [4_000, 100_000, 190_000])
def test_full_disk_is_one_line_and_keeps_what_is_whole(small_disk: Path, free_bytes: int) -> None:
    (small_disk / "ballast").write_bytes(bytes(256 * 1024 - free_bytes))
    ended = CommandLine(small_disk / "store")("run", "cifar10-conv", "--framework", "fake", *SHORT, "--repeats", "50")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("paceline: Cannot ")
    assert "Traceback" not in ended.stderr
    (small_disk / "ballast").unlink()
    for folder in small_disk.glob("store/runs/*"):
        assert (folder / "outcome.json").exists()


def test_read_only_store_is_one_line(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = CommandLine(small_disk / "store")("run", "cifar10-conv", *QUICK)
    assert ended.returncode == 1
    assert "Read-only file system" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.alone
def test_help_is_fast() -> None:
    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    def seconds() -> float:
        """Of the processor, of which a busy machine gives less but does not need more."""
        before = used()
        shown = subprocess.run([sys.executable, "-m", "paceline", "--help"], capture_output=True, text=True, check=True)
        assert "Usage: paceline COMMAND" in shown.stdout
        return used() - before

    assert min(seconds() for _ in range(5)) < 0.3


@pytest.mark.slow
def test_every_command_explains_itself(paceline: CommandLine) -> None:
    commands = (
        "plan",
        "run",
        "show",
        "explain",
        "verify",
        "compare",
        "audit",
        "time",
        "log",
        "install",
        "list",
        "index",
    )
    for command in commands:
        shown = subprocess.run(
            [sys.executable, "-m", "paceline", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "80"},
        ).stdout
        assert f"Usage: paceline {command}" in shown
        assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_noisy_cells_get_more_rounds_until_the_budget_ends(paceline: CommandLine) -> None:
    """No machine is so quiet that three runs differ by less than a millionth."""
    flags = ("--framework", "fake", "--steps", "20", "--warmup", "1", "--repeats", "3")
    ended = paceline("run", "cifar10-conv", *flags, "--interval-target", "0.000001", "--budget", "4", "--again")
    assert ended.returncode == 0, ended.stderr
    (row,) = paceline.rows()
    assert row["repeats"] > 3
    assert row["status"] == "noisy"
    assert older_runs(paceline)[:2] == ["none", "all"]  # a further round goes on with those before it


@pytest.mark.slow
def test_again_holds_for_further_rounds(paceline: CommandLine) -> None:
    """Else runs of long ago would stand beside those of now."""
    flags = ("--framework", "fake", "--steps", "20", "--warmup", "1", "--repeats")
    assert paceline("run", "cifar10-conv", *flags, "4").returncode == 0
    older = len(paceline.outcomes())
    ended = paceline("run", "cifar10-conv", *flags, "2", "--interval-target", "0.000001", "--budget", "1", "--again")
    assert ended.returncode == 0, ended.stderr
    (row,) = paceline.rows()
    assert 2 < row["repeats"] == len(paceline.outcomes()) - older


@pytest.mark.slow
def test_cell_that_is_known_well_enough_gets_no_more_rounds(paceline: CommandLine) -> None:
    flags = ("--framework", "fake", "--steps", "20", "--warmup", "1", "--repeats", "3")
    ended = paceline("run", "cifar10-conv", *flags, "--interval-target", "0.99")
    assert ended.returncode == 0, ended.stderr
    (row,) = paceline.rows()
    assert row["status"] == "ok"
    assert row["repeats"] >= 5  # no three runs are enough, however alike they are


def test_scale_is_short_for_growing_sets(paceline: CommandLine) -> None:
    shown = paceline("plan", "cifar10-conv", "--framework", "fake", "--scale", "1,2,4", "--repeats", "1")
    assert shown.returncode == 0, shown.stderr
    assert [line.split()[2] for line in shown.stdout.splitlines()[:3]] == ["1xcpu", "2xcpu", "4xcpu"]


def test_reader_that_has_seen_enough_is_no_error() -> None:
    """As in `paceline list workloads | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "paceline", "list", "workloads"]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_list_says_whose_exchange_it_is_where_it_is_not_the_frameworks_own() -> None:
    command = [sys.executable, "-m", "paceline", "list", "frameworks"]
    listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "neon: the exchange between devices is Paceline's own, since neon's add-on" in listed
    assert "torch: the exchange" not in listed
