"""Memory, utilisation and noise: by hand from made samples, and on real processes that hold what is known."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from paceline.analysis.quantities.known import ALLOCATOR_MEMORY, IDLE_MEMORY, MEMORY, STARTED_MEMORY
from paceline.analysis.rows.resource_rows import unrest
from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.analysis.statistics.intervals import Estimate
from paceline.plan.cell import Cell
from paceline.report.tables import columns
from paceline.report.tables.remarks import remarks
from paceline.run.monitor import Monitor
from paceline.run.process_usage import SeenTimes, _usage
from paceline.store.records.events import AnyEvent, EventFile
from paceline.store.records.samples import FILE, ProcessUsage, Sample, read_samples
from paceline.store.resources import (
    Noise,
    core_utilisation,
    further_values,
    gpu_memory,
    gpu_utilisation,
    noise,
    preallocated,
    process_memory,
    spans,
)
from paceline.store.store import Store
from paceline.system.machine.cgroups import Throttling
from paceline.system.machine.cpu_times import core_counters
from paceline.system.machine.energy import PackageEnergy
from paceline.system.machine.gpus import Gpu
from tests.factories.command_line import CommandLine
from tests.factories.events import block, entered, finished, written
from tests.factories.runs import OK, Ranks, begin_run, cell, on_devices, record, result, save_plan
from tests.factories.samples import sample

MEBIBYTE = 2**20
GIB = 2**30
TRAINING = [(10.0, 20.0)]


def row_of(store: Store, of: Cell, events: Ranks, samples: list[Sample]) -> Row:
    """The row of a cell with one run that left these events and samples."""
    folder = begin_run(store, record("run", "key", of), events)
    (folder / FILE).write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in samples))
    store.finish_run(folder, OK)
    save_plan(store, {of: ["key"]})
    (row,) = table_rows(store, {})
    return row


def test_utilisation_is_busy_time_of_the_devices_own_cores_between_samples() -> None:
    counters = [(11.0, 1.0), (12.0, 1.5), (14.0, 3.5), (15.0, 4.4)]  # half of a second, 2 of 2 s, 0.9 of 1 s
    samples = [sample(time, (time, 0.0), (busy, 0.0)) for time, busy in counters]
    assert core_utilisation(samples, TRAINING, [1]) == pytest.approx((0.5, 0.9, 1.0))
    assert core_utilisation(samples, TRAINING, [0, 1]) == pytest.approx((0.75, 0.95, 1.0))


def test_only_time_that_was_mostly_training_counts() -> None:
    samples = [sample(time, (busy, 0.0)) for time, busy in ((9.0, 0.0), (11.0, 0.0), (19.2, 8.2), (20.1, 9.1), (21, 9))]
    # Half of the first two seconds was before training; of the 0.9 s at its end 0.8 s count; the last were after it.
    assert core_utilisation(samples, TRAINING, [0]) == pytest.approx((1.0, 1.0, 1.0))
    assert core_utilisation(samples[:2], TRAINING, [0]) is None


def test_cores_that_are_numbered_anew_are_not_known() -> None:
    samples = [sample(time, (time, 0.0)) for time in (11.0, 12.0)]
    assert core_utilisation(samples, TRAINING, [8]) is None
    assert noise(samples, TRAINING, [8]) == Noise(load=0.5)


def test_gpu_is_as_busy_as_the_driver_says_while_it_trains() -> None:
    loads = ((9.0, 0), (11.0, 2), (12.0, 80), (13.0, 90), (21.0, 100))
    samples = [sample(time, gpus=[Gpu(memory_bytes=0, busy_percent=load)]) for time, load in loads]
    assert gpu_utilisation(samples, TRAINING, 0) == (0.02, 0.8, 0.9)


def test_cores_keep_their_numbers_when_others_are_switched_off(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  9 0 9 9 0 0 0 0\ncpu0 100 0 0 5 9 0 0 0 0 0\ncpu3 100 10 40 5 9 20 30 300 0 0\nintr 5 0\n")
    assert core_counters(stat) == {0: (1.0, 0.0), 3: (2.0, 3.0)}


def test_core_is_found_by_its_number(tmp_path: Path) -> None:
    """Core 1 is switched off, and 2 is the second that the system tells of."""
    samples = [
        sample(time, (0.0, 0.0), (time, 0.0), core_numbers=[0, 2], mhz=[1000.0, 2000.0]) for time in (11.0, 12.0)
    ]
    assert core_utilisation(samples, TRAINING, [2]) == pytest.approx((1.0, 1.0, 1.0))
    assert core_utilisation(samples, TRAINING, [0]) == pytest.approx((0.0, 0.0, 0.0))
    assert core_utilisation(samples, TRAINING, [1]) is None
    assert noise(samples, TRAINING, [2]).lowest_mhz == 2000.0


def test_numbers_of_cores_are_recorded_where_one_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.run.samplers.core_counters", lambda: {0: (1.0, 0.0), 2: (5.0, 0.5)})
    Monitor(tmp_path).sample({})
    monkeypatch.setattr("paceline.run.samplers.core_counters", lambda: {0: (1.0, 0.0), 1: (5.0, 0.5)})
    Monitor(tmp_path).sample({})
    gap, whole = read_samples(tmp_path)
    assert (gap.core_numbers, gap.core(2), gap.place(1)) == ([0, 2], (5.0, 0.5), None)
    assert (whole.core_numbers, whole.core(1), whole.place(2)) == ([], (5.0, 0.5), None)


def test_what_the_system_does_not_tell_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("hidden")

    monkeypatch.setattr("paceline.run.samplers.core_counters", refuse)
    monkeypatch.setattr("psutil.getloadavg", refuse)
    Monitor(tmp_path).sample({})
    (found,) = read_samples(tmp_path)
    assert (found.load, found.cores) == (None, [])
    assert noise([found, found], TRAINING, [0]) == Noise()


def test_noise_is_what_the_cores_did_beside_the_run() -> None:
    before = sample(11.0, (5.0, 1.0), (7.0, 0.0), used=3.0, mhz=[2000.0, 3000.0])
    after = sample(15.0, (9.0, 1.4), (9.0, 0.0), used=7.4, mhz=[1900.0, 0.0])
    found = noise([before, after], TRAINING, [0, 1])
    assert found.other == pytest.approx(0.2)  # 4 + 2 s busy less 4.4 s of the run, of two cores' 8 s
    assert found.stolen == pytest.approx(0.05)  # 0.4 of 8 s
    assert (found.lowest_mhz, found.highest_mhz) == (1900.0, 3000.0)
    quiet = noise(
        [before, msgspec.structs.replace(after, ranks={0: ProcessUsage(resident_bytes=0, processor_seconds=99)})],
        TRAINING,
        [0],
    )
    assert quiet.other == 0.0


def test_throttled_is_what_a_quota_held_back_of_the_time_that_was_wanted() -> None:
    before = sample(11.0, (0.0, 0.0), used=1.0, throttled=Throttling(seconds=2.0, periods=3))
    after = sample(15.0, (1.0, 0.0), used=2.0, throttled=Throttling(seconds=5.0, periods=40))
    assert noise([before, after], TRAINING, [0]).throttled == pytest.approx(0.75)  # 3 s in vain, 1 s used
    free = msgspec.structs.replace(after, throttled=before.throttled)
    assert noise([before, free], TRAINING, [0]).throttled == 0.0
    assert noise([before, sample(15.0, (1.0, 0.0), used=2.0)], TRAINING, [0]).throttled is None  # nobody told


def test_row_that_was_throttled_says_so(tmp_path: Path) -> None:
    ranks: Ranks = [[entered("train", 10.0), block("train", 4.0, 10), entered("evaluate", 20.0)]]
    samples = [
        sample(11.0, (0.0, 0.0), throttled=Throttling(seconds=0.0, periods=0)),
        sample(13.0, (1.0, 0.0), used=1.5, throttled=Throttling(seconds=0.5, periods=20)),
    ]
    row = row_of(Store(tmp_path), cell(), ranks, samples)
    assert row.noise.throttled == 0.25
    assert row.marks == ("throttled",)
    assert "throttled 25.0 %" in columns.noise(row)
    assert remarks([row]) == [
        "fake 1xcpu is throttled: its CPU quota held back 25% of the processor time that it wanted"
    ]
    quiet = msgspec.structs.replace(row, noise=Noise(other=0.01, stolen=0.0, throttled=0.0))
    assert columns.noise(quiet) == "other 1.0 %, stolen 0.0 %"


def test_noisy_row_names_the_quota_among_its_causes() -> None:
    said = unrest(Estimate(100.0, 50.0, 150.0), 0.1, [result(throttled=0.25)] * 2)
    assert said.endswith("; its CPU quota held back 25.0 %")


def test_rank_trains_from_its_entry_to_the_next_phase(tmp_path: Path) -> None:
    events = [entered("train", 1.0), entered("evaluate", 3.0), entered("train", 5.0), entered("evaluate", 6.0)]
    file = written(tmp_path / "events", *events, finished())
    assert spans(file, "train") == [(1.0, 3.0), (5.0, 6.0)]


def working(tmp_path: Path, idle: int, peak: int) -> EventFile:
    return written(
        tmp_path / "events",
        entered("build", 5.0, idle_memory_bytes=idle),
        entered("compile", 6.0),
        entered("train", 10.0),
        entered("evaluate", 20.0, peak_memory_bytes=peak),
        entered("finish", 30.0),
    )


def test_memory_of_children_is_added_to_that_of_their_rank(tmp_path: Path) -> None:
    sizes = ((5.1, 10), (8.0, 50), (12.0, 40), (25.0, 900))  # the last is evaluation
    samples = [
        sample(time, ranks={0: ProcessUsage(resident_bytes=0, children_bytes=size, processor_seconds=0)})
        for time, size in sizes
    ]
    found = process_memory({0: working(tmp_path, 100, 300)}, samples)[0]
    assert (found.idle_bytes, found.peak_bytes) == (110, 350)


def test_peak_of_a_gpu_is_that_of_training(tmp_path: Path) -> None:
    sizes = ((1.0, 10), (5.1, 20), (8.0, 50), (12.0, 40), (25.0, 900))  # the last is evaluation
    samples = [sample(time, gpus=[Gpu(memory_bytes=size, busy_percent=0)]) for time, size in sizes]
    (found,) = gpu_memory([0], [working(tmp_path, 1, 2)], samples)
    assert (found.idle_bytes, found.started_bytes, found.peak_bytes) == (10, 20, 50)


def test_gpu_that_trained_between_two_samples_has_that_of_its_end(tmp_path: Path) -> None:
    sizes = ((1.0, 10), (5.1, 20), (20.1, 60), (25.0, 900))
    samples = [sample(time, gpus=[Gpu(memory_bytes=size, busy_percent=0)]) for time, size in sizes]
    (found,) = gpu_memory([0], [working(tmp_path, 1, 2)], samples)
    assert found.peak_bytes == 60


@pytest.mark.parametrize(
    ("peak", "started", "own", "expected"),
    [
        (10 * GIB, 9 * GIB, None, True),  # taken at the start
        (10 * GIB, 1 * GIB, None, False),
        (10 * GIB, 1 * GIB, 4 * GIB, True),  # never needed
        (10 * GIB, 1 * GIB, 5 * GIB, False),
        (GIB // 2, GIB // 3, GIB // 10, False),  # a small network beside the driver's own context
    ],
)
def test_preallocation_is_known_by_its_start_or_by_the_allocator(
    peak: int, started: int, own: int | None, expected: bool
) -> None:
    assert preallocated(peak, started, own) is expected


def test_gpu_that_is_taken_at_the_start_is_marked(tmp_path: Path) -> None:
    used = ((1.0, 1), (5.2, 9), (12.0, 11))  # GiB: before anything started, when nothing was built, in training
    samples = [
        sample(time, gpus=[Gpu(memory_bytes=gib * GIB, busy_percent=50 + time)], cores=[(0.0, 0.0)])
        for time, gib in used
    ]
    events: list[AnyEvent] = [
        entered("build", 5.0, idle_memory_bytes=1),
        entered("train", 10.0),
        block("train", 1.0, 10),
        entered("evaluate", 20.0, peak_memory_bytes=2, device_peak_bytes=[2 * GIB]),
        finished(),
    ]
    row = row_of(Store(tmp_path), cell(framework="torch", devices="cuda:0"), [events], samples)
    assert row.marks == ("preallocated",)
    assert (row.of_each(IDLE_MEMORY), row.of_each(STARTED_MEMORY), row.of_each(MEMORY)) == (
        (1024.0,),
        (8192.0,),
        (10240.0,),
    )
    assert row.of_each(ALLOCATOR_MEMORY) == (2048.0,)
    assert row.utilisation == ((0.62, 0.62, 0.62),)


def test_row_has_the_utilisation_of_each_device_and_the_noise_of_the_run(tmp_path: Path) -> None:
    ranks: Ranks = [
        [entered("train", 10.0), block("train", 4.0, 10, involuntary_switches=6), entered("evaluate", 20.0)],
        [entered("train", 10.0), block("train", 5.0, 10, involuntary_switches=4), entered("evaluate", 20.0)],
    ]
    samples = [sample(11.0, (0.0, 0.0), (0.0, 0.0)), sample(13.0, (2.0, 0.0), (1.0, 0.4), used=2.0)]
    row = row_of(Store(tmp_path), on_devices(2), ranks, samples)
    assert row.utilisation == ((1.0, 1.0, 1.0), (0.5, 0.5, 0.5))
    assert row.noise == Noise(load=0.5, other=0.25, stolen=0.1, switches_per_second=2.0)


def test_record_from_before_cores_were_sampled_is_read(tmp_path: Path) -> None:
    old = b'{"time": 11.0, "load": 0.1, "ranks": {"0": {"resident_bytes": 5, "processor_seconds": 0.1}}, "gpus": []}\n'
    (tmp_path / FILE).write_bytes(old + old[:-1])  # the second is half written
    (found,) = read_samples(tmp_path)
    assert (found.ranks[0].children_bytes, found.cores, found.mhz, found.throttled) == (0, [], [], None)
    assert noise([found, found], TRAINING, [0]) == Noise(load=0.1)


FORKED = """
import os, time
pages = bytearray(60_000_000)
pages[::4096] = bytes([1]) * len(pages[::4096])
if os.fork() == 0:
    print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def forked() -> Iterator[int]:
    """A process with 60 MB that its child shares."""
    with subprocess.Popen([sys.executable, "-c", FORKED], stdout=subprocess.PIPE, start_new_session=True) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        yield parent.pid
        os.killpg(parent.pid, signal.SIGKILL)


def test_pages_that_a_child_shares_with_its_rank_count_half(tmp_path: Path, forked: int) -> None:
    monitor = Monitor(tmp_path)
    monitor.sample({0: forked})
    monitor.sample({0: forked})  # too early
    monitor.sample({0: forked}, now=True)
    first, second = read_samples(tmp_path)
    assert 25e6 < first.ranks[0].children_bytes < 40e6
    assert first.ranks[0].resident_bytes > 85e6
    assert second.cores[0][0] >= first.cores[0][0] > 0


@pytest.mark.slow
def test_memory_that_is_held_is_reported(paceline: CommandLine) -> None:
    flags = ("--batch-size", "8", "--steps", "300", "--warmup", "2", "--repeats", "1")
    ended = paceline("run", "cifar10-conv", "--framework", "fake,fake+hold", *flags)
    assert ended.returncode == 0, ended.stderr
    plain, held = (row["peak_memory_mib"][0] * MEBIBYTE for row in paceline.rows())
    assert held == pytest.approx(200e6, rel=0.05)
    shared = paceline("run", "cifar10-conv", "--framework", "fake+share", "--devices", "2xcpu", *flags)
    assert shared.returncode == 0, shared.stderr
    (row,) = paceline.rows()
    both = [mebibytes * MEBIBYTE - plain for mebibytes in row["peak_memory_mib"]]
    assert both == pytest.approx([100e6, 100e6], rel=0.05)  # one and the same 200 MB
    assert min(row["idle_memory_mib"]) > 5
    assert list(paceline.store.glob("runs/*/shared")) == []


@pytest.mark.slow
def test_run_leaves_utilisation_and_noise(paceline: CommandLine) -> None:
    flags = ("--batch-size", "128", "--steps", "200", "--warmup", "2", "--repeats", "1")  # 2.6 s of training
    assert paceline("run", "cifar10-conv", "--framework", "fake", *flags).returncode == 0
    (row,) = paceline.rows()
    ((lowest, median, highest),) = row["utilisation"]
    assert 0 <= lowest <= median <= highest <= 1
    assert 0 <= row["noise"]["other"] <= 1
    assert row["noise"]["load"] >= 0
    assert {event["involuntary_switches"] >= 0 for event in paceline.events() if event["event"] == "block"} == {True}


def test_counter_of_a_sampler_counts_in_training_alone() -> None:
    """Spans of 4 s: samples around the first saw it grow by 5 in 5 s, and those inside the other by 2 in 2 s."""
    looks = [(9.5, 0.0), (14.5, 5.0), (21.0, 20.0), (23.0, 22.0)]
    samples = [sample(time, counters={"joules": [value, 2 * value]}) for time, value in looks]
    others = [sample(14.2), sample(20.2)]  # at which it was not asked
    mixed = sorted([*samples, *others], key=lambda one: one.time)
    assert further_values(mixed, [(10.0, 14.0)]) == {"joules": pytest.approx([4.0, 8.0])}
    assert further_values(mixed, [(10.0, 14.0), (20.0, 24.0)]) == {"joules": pytest.approx([8.0, 16.0])}
    assert further_values(samples[:1], [(10.0, 14.0)]) == {"joules": []}
    assert further_values([], [(10.0, 14.0)]) == {}


def test_sampler_that_does_not_know_one_place_has_no_value_of_the_others() -> None:
    samples = [sample(time, counters={"joules": [time, None]}, gauges={"watts": [None, 1.0]}) for time in (10.0, 14.0)]
    assert further_values(samples, [(10.0, 14.0)]) == {}


def test_gauge_of_a_sampler_is_the_median_in_training() -> None:
    looks = [(9.0, [90.0]), (11.0, [1.0]), (12.0, [None]), (13.0, [5.0]), (13.5, [6.0])]
    samples = [*(sample(time, gauges={"celsius": values}) for time, values in looks), sample(13.7)]
    assert further_values(samples, [(10.0, 14.0)]) == {"celsius": [5.0]}


def test_energy_of_packages_goes_on_where_their_counters_begin_again(tmp_path: Path) -> None:
    zones = [tmp_path / f"intel-rapl:{number}" for number in (0, 1)]
    for zone in zones:
        zone.mkdir()
        (zone / "max_energy_range_uj").write_text("10000000\n")
        (zone / "name").write_text(f"package-{zone.name[-1]}\n")
    for name in ("intel-rapl:0:0", "intel-rapl:2"):  # a part of a package, and the whole platform
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text("psys\n")

    def counters(*microjoules: int) -> None:
        for zone, value in zip(zones, microjoules, strict=True):
            (zone / "energy_uj").write_text(f"{value}\n")

    counters(9_000_000, 0)
    energy = PackageEnergy(tmp_path)
    assert energy.why_not() == ""
    assert energy.look() == [0.0, 0.0]
    counters(2_000_000, 500_000)
    assert energy.look() == [3.0, 0.5]
    (zones[1] / "energy_uj").unlink()
    assert energy.look() == []
    assert PackageEnergy(tmp_path / "nowhere").why_not().startswith("no RAPL counters")


def test_process_that_has_ended_takes_no_times_of_others_with_it() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    seen: SeenTimes = {}
    assert _usage(os.getpid(), [ended.pid, os.getppid()], seen) is None
    assert {process.pid for process in seen} == {os.getpid(), os.getppid()}
