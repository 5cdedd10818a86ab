"""The one loop and its clock, on a device whose every second is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.store.records.events import AnyEvent, Block, Evaluation, EventFile, Phase
from paceline_worker import loop
from paceline_worker.contract import Backend, Batch
from paceline_worker.data import Source, fake_batch
from paceline_worker.graph import Graph
from paceline_worker.input.pipeline import Pipeline
from paceline_worker.place import Place, find_place
from paceline_worker.protocol import PHASES, EventLog, Job, Recipe
from paceline_worker.weights import Array, Weights, initial_weights
from tests.factories.jobs import JOB, job, small_graph

ALONE = find_place(JOB, {})
RATES = [0.1] * 4


class Clock:
    """Stands for the `time` module; time passes only where the device or the data take it."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.now / 4  # the processor is busy for a quarter of the time


class QueueingDevice(Backend):
    """Steps are only queued; they take their time when the device is waited for."""

    def __init__(self, clock: Clock, step_seconds: Iterator[float]) -> None:
        self._clock, self._step_seconds = clock, step_seconds
        self._queued = 0
        self._losses: list[float] = []
        self.others_ready: Iterator[bool] = itertools.repeat(True)  # the answers of the other ranks
        self.logits = np.array([0.0, 0.0, 5.0])  # of every image
        self.rates: list[float] = []  # of each step
        self._rate = math.nan
        self.calls: list[str] = []
        self.trained_on: list[Batch] = []
        self.weights: Weights = {}
        self.weights_before_steps: list[Array] = []

    def settings(self) -> dict[str, object]:
        return {"threads": 2}

    def build(self, graph: Graph, weights: Weights) -> None:
        self.calls.append("build")
        self.weights = {name: values.copy() for name, values in weights.items()}

    def to_host(self, images: Array, labels: Array) -> Batch:
        return images, labels

    def to_device(self, batch: Batch) -> Batch:
        return batch

    def train_step(self, batch: Batch) -> None:
        self.calls.append("step")
        self.trained_on.append(batch)
        self.weights_before_steps.append(self.weights["dense.kernel"].copy())
        self.weights["dense.kernel"] += 1
        self._queued += 1
        self.rates.append(self._rate)
        self._losses.append(0.5)

    def synchronize(self) -> None:
        self.calls.append("idle")
        self._clock.now += sum(itertools.islice(self._step_seconds, self._queued))
        self._queued = 0

    def losses(self) -> list[float]:
        self.synchronize()
        losses, self._losses = self._losses, []
        return losses

    def agree(self, ready: bool) -> bool:
        self.calls.append(f"agree {ready}")
        return ready and next(self.others_ready)

    def set_learning_rate(self, rate: float) -> None:
        self._rate = rate

    def correct(self) -> list[int]:
        return []

    def merge_statistics(self) -> None:
        self.calls.append("merge")

    def predict(self, batch: Batch) -> Array:
        self.calls.append("predict")
        self._clock.now += 7.0
        return np.stack([self.logits] * len(batch[1]))

    def outputs(self, batch: Batch) -> Weights:
        raise NotImplementedError

    def gradients(self, batch: Batch) -> Weights:
        raise NotImplementedError

    def read_weights(self) -> Weights:
        raise NotImplementedError

    def write_weights(self, weights: Weights) -> None:
        self.calls.append("write weights")
        self.weights = {name: values.copy() for name, values in weights.items()}

    def peak_memory_bytes(self) -> list[int] | None:
        return [4096]

    def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("paceline_worker.loop.time", clock)
    return clock


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "events-0.jsonl")


def device(clock: Clock, *step_seconds: float) -> QueueingDevice:
    """Its steps take these seconds, and the last of them for ever."""
    backend = QueueingDevice(clock, itertools.chain(step_seconds, itertools.repeat(step_seconds[-1])))
    backend.build(small_graph(), initial_weights(small_graph(), seed=7))
    backend.calls.clear()
    return backend


def source() -> Source:
    return Source(itertools.repeat(("images", "labels")))


@pytest.fixture
def real(tmp_path: Path) -> dict[str, Any]:
    """Settings of a job with real images: ten to train on, seven to test on, a third of them of each class."""
    for part, count in (("train", 10), ("test", 7)):
        np.save(tmp_path / f"{part}_images.npy", np.zeros((count, 2, 2, 1), np.uint8))
        np.save(tmp_path / f"{part}_labels.npy", (np.arange(count) % 3).astype(np.uint8))
    pipeline = Pipeline(("scale",), ("scale",), shuffled=False, ending="continue")
    return {"data": "made", "dataset": str(tmp_path), "pipeline": pipeline.to_json(), "epoch_images": 10}


def written(log: EventLog) -> list[AnyEvent]:
    file = EventFile(log.path)
    file.read_on()
    assert file.rubbish == []
    return file.events


def blocks(log: EventLog, phase: str | None = None) -> list[Block]:
    return [event for event in written(log) if isinstance(event, Block) and phase in (None, event.phase)]


def warmed_up_steps(log: EventLog, backend: Backend, warmup: int) -> list[int]:
    """Steps of each block until the loop was content."""
    loop.warm_up(backend, source(), job(warmup=warmup), ALONE, log)
    return [block.steps for block in blocks(log)]


def run(backend: Backend, log: EventLog, work: Job = JOB, place: Place = ALONE) -> None:
    loop.run(backend, work, place, log)


def test_time_covers_work_still_queued_on_the_device(clock: Clock) -> None:
    wall, processor = loop.timed_steps(device(clock, 0.5), source(), RATES)
    assert wall == 2.0
    assert processor == 0.5


def test_time_leaves_out_work_that_was_queued_before(clock: Clock) -> None:
    backend = device(clock, 8.0, 0.5)
    backend.train_step(("images", "labels"))  # 8 s, still to be done: not our block's time
    assert loop.timed_steps(backend, source(), RATES)[0] == 2.0


def test_time_covers_the_making_of_batches(clock: Clock) -> None:
    def slow_source() -> Iterator[Batch]:
        while True:
            clock.now += 0.25
            yield ("images", "labels")

    assert loop.timed_steps(device(clock, 0.5), Source(slow_source()), RATES)[0] == 3.0  # and no fifth batch is made


def test_device_is_idle_at_both_ends_and_nowhere_between(clock: Clock) -> None:
    backend = device(clock, 0.5)
    loop.timed_steps(backend, source(), RATES[:3])
    assert backend.calls == ["agree True", "idle", "step", "step", "step", "idle"]


def test_block_is_written_with_its_steps_images_seconds_and_losses(clock: Clock, log: EventLog) -> None:
    log.enter("train")
    seconds = loop.train_block(device(clock, 0.5), source(), RATES, ALONE, log)
    (block,) = blocks(log)
    assert seconds == block.seconds == 2.0
    assert (block.phase, block.steps, block.images) == ("train", 4, 24)  # 6 images a step
    assert (block.processor_seconds, block.losses) == (0.5, [0.5] * 4)


def test_images_of_a_block_are_this_ranks_own(clock: Clock, log: EventLog) -> None:
    work = job(devices=("cpu:0", "cpu:1"), cores=((0,), (1,)), shares=(4, 2))
    second = find_place(work, {"RANK": "1", "WORLD_SIZE": "2"})
    loop.train_block(device(clock, 0.5), source(), RATES[:3], second, log)
    assert [block.images for block in blocks(log)] == [6]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_loss_that_is_no_number_is_written_as_none(clock: Clock, log: EventLog, loss: float) -> None:
    backend = device(clock, 0.5)
    backend._losses = [loss]
    loop.train_block(backend, source(), RATES[:1], ALONE, log)
    assert [block.losses for block in blocks(log)] == [[None, 0.5]]


def test_steady_steps_are_warmed_up_for_the_least_number(clock: Clock, log: EventLog) -> None:
    assert warmed_up_steps(log, device(clock, 0.5), warmup=4) == [2, 2]


def test_warm_up_goes_on_until_two_blocks_take_equally_long(clock: Clock, log: EventLog) -> None:
    # Blocks of two steps take 8, 4, 2 and 2 seconds.
    assert warmed_up_steps(log, device(clock, 4.0, 4.0, 2.0, 2.0, 1.0), warmup=4) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("second_block", "expected"),
    [(1.04, [1, 1]), (0.96, [1, 1]), (1.06, [1, 1, 1]), (0.95, [1, 1, 1])],  # 5 % of the later one
)
def test_blocks_that_differ_by_less_than_a_twentieth_are_steady(
    clock: Clock, log: EventLog, second_block: float, expected: list[int]
) -> None:
    assert warmed_up_steps(log, device(clock, 1.0, second_block), warmup=2) == expected


def test_warm_up_gives_up_after_four_times_the_least_number(clock: Clock, log: EventLog) -> None:
    never_steady = device(clock, *(2.0**-step for step in range(50)))
    assert warmed_up_steps(log, never_steady, warmup=4) == [2] * 8


def test_warm_up_takes_the_least_number_even_if_blocks_do_not_fit(clock: Clock, log: EventLog) -> None:
    assert warmed_up_steps(log, device(clock, 0.5), warmup=5) == [2, 2, 2]


def test_single_step_of_warm_up_needs_a_second_to_compare_with(clock: Clock, log: EventLog) -> None:
    assert warmed_up_steps(log, device(clock, 0.5), warmup=1) == [1, 1]


def test_no_warm_up_is_none(clock: Clock, log: EventLog) -> None:
    assert warmed_up_steps(log, device(clock, 0.5), warmup=0) == []


def test_warm_up_waits_for_ranks_that_are_not_steady_yet(clock: Clock, log: EventLog) -> None:
    backend = device(clock, 0.5)
    # Each block begins with a meeting; only a steady rank asks the others about its end. Twice they say no.
    backend.others_ready = iter([True, True, False, True, False, True, True])
    assert warmed_up_steps(log, backend, warmup=4) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("steps", "block_steps", "expected"),
    [(7, 3, [3, 3, 1]), (6, 3, [3, 3]), (2, 3, [2]), (3, 1, [1, 1, 1])],
)
def test_training_is_cut_into_blocks_and_the_last_may_be_shorter(
    clock: Clock, log: EventLog, steps: int, block_steps: int, expected: list[int]
) -> None:
    loop.train(device(clock, 0.5), source(), loop.Epoch(0, range(steps)), job(block_steps=block_steps), ALONE, log)
    assert [block.steps for block in blocks(log)] == expected
    assert [block.seconds for block in blocks(log)] == [0.5 * count for count in expected]
    assert [block.images for block in blocks(log)] == [6 * count for count in expected]


def test_phases_come_in_order_and_each_has_its_blocks(clock: Clock, log: EventLog) -> None:
    run(device(clock, 3.0, 0.5), log)
    entered = [event.phase for event in written(log) if isinstance(event, Phase)]
    assert entered == list(PHASES[1:])  # the first is entered before the framework is loaded
    assert [(block.phase, block.steps, block.seconds) for block in blocks(log)] == [
        ("compile", 1, 3.0),  # the first step, alone
        ("warmup", 2, 1.0),
        ("warmup", 2, 1.0),
        ("train", 3, 1.5),
        ("train", 3, 1.5),
        ("train", 1, 0.5),
    ]


def test_training_begins_with_the_initial_weights(clock: Clock, log: EventLog) -> None:
    backend = device(clock, 0.5)
    run(backend, log)
    initial = initial_weights(small_graph(), seed=7)["dense.kernel"]
    warm_steps = 1 + 4
    np.testing.assert_array_equal(backend.weights_before_steps[0], initial)
    np.testing.assert_allclose(backend.weights_before_steps[warm_steps - 1], initial + 4, rtol=1e-6)  # changed by then
    np.testing.assert_array_equal(backend.weights_before_steps[warm_steps], initial)
    assert backend.calls.count("write weights") == 1


def test_training_begins_with_the_first_batch(clock: Clock, log: EventLog) -> None:
    work = job(data="fake:python")  # four batches in turn
    backend = device(clock, 0.5)
    run(backend, log, work)
    first_images, _ = fake_batch(work, ALONE, 0)
    second_images, _ = fake_batch(work, ALONE, 1)
    np.testing.assert_array_equal(backend.trained_on[0][0], first_images)
    np.testing.assert_array_equal(backend.trained_on[1][0], second_images)  # warm-up went on with the others
    np.testing.assert_array_equal(backend.trained_on[5][0], first_images)


def evaluations(log: EventLog) -> list[Evaluation]:
    return [event for event in written(log) if isinstance(event, Evaluation)]


def test_every_test_image_is_judged_once_after_each_epoch(clock: Clock, log: EventLog, real: dict[str, Any]) -> None:
    backend = device(clock, 0.5)
    run(backend, log, job(evaluate="epoch", steps=4, **real))  # six images a step: the first epoch ends in the second
    # Two batches of seven images in all; the labels are 0, 1, 2, 0, 1, 2, 0, and class 2 is predicted.
    sure, wrong = math.log(2 + math.exp(5)) - 5, math.log(2 + math.exp(5))
    assert [(event.steps, event.images, event.correct, event.seconds) for event in evaluations(log)] == [
        (2, 7, 2, 14.0),
        (4, 7, 2, 14.0),
    ]
    assert [event.loss for event in evaluations(log)] == pytest.approx([2 * sure + 5 * wrong] * 2)
    assert backend.calls[-4:] == ["merge", "predict", "predict", "agree True"]  # all have counted their memory


def test_evaluation_is_outside_the_clock_of_training(clock: Clock, log: EventLog, real: dict[str, Any]) -> None:
    run(device(clock, 0.5), log, job(evaluate="epoch", steps=4, **real))
    assert [(block.steps, block.seconds) for block in blocks(log, "train")] == [(2, 1.0), (2, 1.0)]
    entered = [event.phase for event in written(log) if isinstance(event, Phase)]
    assert entered[-5:] == ["train", "evaluate", "train", "evaluate", "finish"]


@pytest.mark.parametrize(("when", "steps"), [("end", [5]), ("never", [])])
def test_evaluation_comes_when_it_is_asked_for(
    clock: Clock, log: EventLog, real: dict[str, Any], when: str, steps: list[int]
) -> None:
    run(device(clock, 0.5), log, job(evaluate=when, steps=5, **real))
    assert [event.steps for event in evaluations(log)] == steps
    assert [(block.steps, block.epoch) for block in blocks(log, "train")] == [(2, 0), (2, 1), (1, 2)]
    assert [event.epoch for event in evaluations(log)] == [2] * len(steps)
    entered = [event.phase for event in written(log) if isinstance(event, Phase)]
    assert entered[-3:] == ["train", "evaluate", "finish"]  # one phase, whatever its epochs: each makes a sample
    assert entered.count("train") == 1


def test_prediction_that_is_no_number_is_written_as_no_loss(clock: Clock, log: EventLog, real: dict[str, Any]) -> None:
    backend = device(clock, 0.5)
    backend.logits = np.array([math.nan] * 3)
    run(backend, log, job(evaluate="end", **real))
    assert [event.loss for event in evaluations(log)] == [None]


def test_learning_rate_follows_the_schedule_and_warm_up_does_not(clock: Clock, log: EventLog) -> None:
    recipe = Recipe(learning_rate=0.8, warmup_epochs=0.2, drops=((0.3, 0.5), (0.5, 0.1)))
    backend = device(clock, 0.5)
    run(backend, log, job(recipe=recipe, steps=7))  # a tenth of an epoch each
    assert backend.rates[:5] == [0.8] * 5
    assert backend.rates[5:] == pytest.approx([0.4, 0.8, 0.8, 0.4, 0.4, 0.04, 0.04])


def test_facts_are_written_with_the_phase_in_which_they_are_known(clock: Clock, log: EventLog) -> None:
    run(device(clock, 0.5), log)
    facts = {event.phase: event for event in written(log) if isinstance(event, Phase)}
    assert facts["build"].settings == {"threads": 2}
    assert facts["build"].idle_memory_bytes is not None
    assert facts["build"].idle_memory_bytes > 2**20  # a Python with NumPy
    assert facts["evaluate"].peak_memory_bytes is not None
    assert facts["evaluate"].peak_memory_bytes > 2**20
    assert facts["evaluate"].device_peak_bytes == [4096]


def test_device_stands_still_between_two_blocks(clock: Clock, log: EventLog) -> None:
    backend = device(clock, 0.5)
    loop.train(backend, source(), loop.Epoch(0, range(2)), job(block_steps=1), ALONE, log)
    one_block = ["agree True", "idle", "step", "idle", "idle"]  # the last for the losses, after the clock
    assert backend.calls == one_block * 2
