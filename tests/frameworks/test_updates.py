"""How devices agree: whatever the mode and the framework, two devices do what one with the whole batch does."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from paceline.catalog.frameworks import Framework, all_frameworks, find
from paceline.environments.virtual_environments import hindrance
from paceline.run.worker import Worker
from paceline.store.records.events import AnyEvent, Phase
from paceline.studies.equivalence.probing import Arrays, Probe, probe, reference_probe
from paceline_worker.graph import Conv, Dense, Flatten, Graph, Input, MaxPool, Relu
from paceline_worker.protocol import Job, Recipe
from tests.factories.command_line import CommandLine

AGREEING = ("replicated", "parameter_server")
EQUAL, UNEQUAL = (8, 8), (12, 4)
pytestmark = pytest.mark.real


def plain_network() -> Graph:
    """Without batch normalisation, which depends on how images are divided."""
    graph = Graph()
    features = graph.add(
        "conv", Conv(6, (3, 3), padding=(1, 1, 1, 1), bias=True), graph.add("images", Input((8, 8, 3)))
    )
    pooled = graph.add("pool", MaxPool((2, 2), (2, 2)), graph.add("relu", Relu(), features))
    return graph.lose(graph.add("logits", Dense(4), graph.add("flat", Flatten(), pooled)))


def job(
    shares: tuple[int, ...], update: str = "replicated", parameter_device: str = "cpu", *, wrapped: bool = False
) -> Job:
    return Job(
        framework="",
        mode="",
        graph=plain_network().to_json(),
        classes=4,
        recipe=Recipe(learning_rate=0.1, momentum=0.9, weight_decay=1e-2),
        devices=tuple(f"cpu:{index}" for index in range(len(shares))),
        cores=tuple((index,) for index in range(len(shares))),
        shares=shares,
        update=update,
        parameter_device=parameter_device,
        wrapped=wrapped,
        data="fake:device",
        precision="float32",
        seed=5,
        steps=5,
        warmup=0,
        block_steps=5,
        patience_seconds=60.0,
        epoch_images=1000,
        rates=(0.1, 0.1, 0.1, 0.05, 0.05),
    )


@cache
def one_device(images: int) -> Arrays:
    return reference_probe(job((images,)), print).arrays


def anything(framework: Framework) -> bool:
    return True


def offering(*updates: str, able: Callable[[Framework], bool] = anything) -> list[tuple[str, str]]:
    """Frameworks that train on several devices and can do it, each with every mode of these that it has."""
    rows = [row for row in all_frameworks().values() if not row.hidden and row.max_devices != 1 and able(row)]
    return [(row.name, update) for row in rows for update in updates if update in row.updates]


def shown(framework: str, work: Job) -> Probe:
    """What it computes, where it can be installed or was brought."""
    if reason := hindrance(find(framework).framework):
        pytest.skip(reason)
    found = probe(find(framework), work, print)
    assert found.failure is None, found.outcome.log_end
    return found


def of(part: str, arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name.startswith(f"{part}/")}


def assert_equal(found: Arrays, expected: Arrays, part: str = "final") -> None:
    assert set(of(part, found)) == set(of(part, expected)) != set()
    for name, array in of(part, expected).items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("framework", "update"), offering(*AGREEING))
@pytest.mark.parametrize("parameter_device", ["cpu", "device"])
def test_two_devices_train_as_one_with_the_whole_batch(framework: str, update: str, parameter_device: str) -> None:
    if (update, parameter_device) == ("replicated", "device"):
        pytest.skip("only a parameter server has a place of its own")
    found = shown(framework, job(EQUAL, update, parameter_device))
    assert_equal(found.arrays, one_device(16))
    np.testing.assert_allclose(found.arrays["losses"], one_device(16)["losses"], rtol=1e-4)


@pytest.mark.parametrize(("framework", "update"), offering("independent"))
def test_independent_device_trains_as_if_it_were_alone(framework: str, update: str) -> None:
    """The first of two has the first part of the batch, and nothing of the second."""
    shares = UNEQUAL if all_frameworks()[framework].unequal_shares else EQUAL
    found = shown(framework, job(shares, update))
    assert_equal(found.arrays, one_device(shares[0]))


@pytest.mark.parametrize(("framework", "update"), offering(*AGREEING, able=lambda row: row.unequal_shares))
def test_every_image_counts_the_same_whatever_the_shares(framework: str, update: str) -> None:
    found = shown(framework, job(UNEQUAL, update))
    assert_equal(found.arrays, one_device(16), "gradient")
    assert_equal(found.arrays, one_device(16))
    np.testing.assert_allclose(found.arrays["losses"], one_device(16)["losses"], rtol=1e-4)


@pytest.mark.parametrize(
    ("framework", "update"), offering(*AGREEING, able=lambda row: row.unequal_shares and row.processes == "per device")
)
def test_every_process_has_the_same_weights_to_the_last_bit(
    framework: str, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or replicas would drift away from each other in a long training."""
    ranks: list[Arrays] = []

    def kept(found: Sequence[Arrays], shares: Sequence[int]) -> Arrays:
        ranks.extend(found)
        return {}

    monkeypatch.setattr("paceline.studies.equivalence.probing.joined", kept)
    shown(framework, replace(job((7, 5, 4), update), cores=((0,), (1,), (0,))))
    first, *others = (of("final", rank) for rank in ranks)
    assert len(others) == 2
    for other, (name, array) in itertools.product(others, first.items()):
        assert other[name].tobytes() == array.tobytes(), name


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[AnyEvent]:
    """Every event of a probe."""
    events: list[AnyEvent] = []

    class Overheard(Worker):
        def follow(self) -> Iterator[AnyEvent]:
            for event in super().follow():
                events.append(event)
                yield event

    monkeypatch.setattr("paceline.studies.equivalence.probing.Worker", Overheard)
    return events


@pytest.mark.parametrize(("framework", "update"), offering(*AGREEING, "independent", able=lambda row: row.wrapper))
def test_wrapped_device_trains_as_a_plain_one(framework: str, update: str, heard: list[AnyEvent]) -> None:
    expected = one_device(16)
    heard.clear()
    assert_equal(shown(framework, job((16,), update, wrapped=True)).arrays, expected)
    (settings,) = [event.settings for event in heard if isinstance(event, Phase) and event.settings]
    assert (settings["exchange"] in (None, "none")) == (update == "independent")


def test_there_is_something_to_compare() -> None:
    assert len(offering(*AGREEING)) >= 8
    assert offering("independent")
    assert len(offering(*AGREEING, able=lambda row: row.unequal_shares)) >= 6
    assert len(offering(*AGREEING, able=lambda row: row.wrapper)) >= 8


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow", "mxnet", "neon"])
def test_sixteen_devices_train_together(paceline: CommandLine, framework: str) -> None:
    """As many as the largest published table has, on however few cores."""
    if reason := hindrance(find(framework).framework):
        pytest.skip(reason)
    flags = ("--devices", "16xcpu", "--cores-per-device", "1", "--batch-per-device", "2")
    short = ("--steps", "2", "--warmup", "1", "--repeats", "1")
    ended = paceline("run", "cifar10-conv", "--framework", framework, *flags, *short)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = paceline.rows()
    assert (row["status"], row["device_count"], row["shares"]) == ("ok", 16, [2] * 16)
    assert ("oversubscribed" in row["marks"]) == (len(os.sched_getaffinity(0)) < 16)
