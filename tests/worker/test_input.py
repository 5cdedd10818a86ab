"""The same images in the same order for every framework and any number of devices."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline_worker.input import colour, geometry, pipeline, pixels, warp
from paceline_worker.input.batches import EvaluationBatches, TrainingBatches
from paceline_worker.input.dataset import Dataset
from paceline_worker.input.draws import Draws, splitmix
from paceline_worker.input.order import ENDINGS, Order
from paceline_worker.input.pipeline import INCEPTION, KERAS, MXNET_LEVELS, SCALED, WHITENED, Pipeline, mxnet
from paceline_worker.place import find_place
from tests.factories.jobs import job

READY = {"SCALED": SCALED, "WHITENED": WHITENED, "KERAS": KERAS, "INCEPTION": INCEPTION} | {
    f"MXNET_LEVELS[{level}]": ready for level, ready in MXNET_LEVELS.items()
}
SHARES = [(12,), (6, 6), (5, 4, 3)]  # the same batch for one, two and three ranks


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("small-cifar")
    stream = np.random.RandomState(8)
    for name, count in (("train", 50), ("test", 23)):
        np.save(folder / f"{name}_images.npy", stream.randint(0, 256, (count, 32, 32, 3)).astype(np.uint8))
        np.save(folder / f"{name}_labels.npy", np.arange(count, dtype=np.uint8))  # each label names its image
    return Dataset.open(folder)


def without_whitening(ready: Pipeline) -> bool:
    return "whiten" not in ready.training  # 3,072 dimensions take half a minute to fit


def test_hash_is_the_published_splitmix64() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert splitmix(1234567, np.arange(4)).tolist() == published


def test_draws_are_uniform_and_unlike_for_names_seeds_and_epochs() -> None:
    count = 20_000
    zeros, indices = np.zeros(count, np.int64), np.arange(count)
    values = [
        Draws(1, zeros, indices).uniform("a"),
        Draws(1, zeros, indices).uniform("b"),
        Draws(2, zeros, indices).uniform("a"),
        Draws(1, zeros + 1, indices).uniform("a"),
    ]
    for drawn in values:
        shares = np.histogram(drawn, bins=20, range=(0, 1))[0] / count
        assert np.abs(shares - 0.05).max() < 0.008  # five standard deviations
    correlations = np.corrcoef([*values, np.roll(values[0], 1)]) - np.eye(5)
    assert np.abs(correlations).max() < 0.035


def test_integers_include_both_ends_equally() -> None:
    drawn = Draws(4, np.zeros(9000, np.int64), np.arange(9000)).integers("dice", -1, 1)
    assert set(drawn.tolist()) == {-1, 0, 1}
    assert np.bincount(drawn + 1).min() > 2800


@given(st.permutations(range(30)), st.integers(1, 29))
def test_draw_of_an_image_does_not_depend_on_those_beside_it(order: list[int], cut: int) -> None:
    epochs, indices = np.arange(30) % 3, np.arange(30)
    whole = Draws(9, epochs, indices).uniform("x")
    for some in (order[:cut], order[cut:]):
        np.testing.assert_array_equal(Draws(9, epochs[some], indices[some]).uniform("x"), whole[some])


def test_neons_last_batch_goes_on_into_the_next_epoch() -> None:
    order = Order(images=5, batch=3, seed=0, shuffled=False, ending="continue")
    batches = [order.positions(step) for step in range(4)]
    assert [batch.indices.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]
    assert [batch.epochs.tolist() for batch in batches] == [[0, 0, 0], [0, 0, 1], [1, 1, 1], [1, 2, 2]]
    assert [order.steps(epochs) for epochs in (1, 2, 3)] == [2, 4, 5]


def test_mxnets_last_batch_is_completed_from_the_start_of_its_epoch() -> None:
    order = Order(images=5, batch=3, seed=0, shuffled=False, ending="complete")
    batches = [order.positions(step) for step in range(3)]
    assert [batch.indices.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 0], [0, 1, 2]]
    assert [batch.epochs.tolist() for batch in batches] == [[0, 0, 0], [0, 0, 0], [1, 1, 1]]
    assert [order.steps(epochs) for epochs in (1, 2, 3)] == [2, 4, 6]


def test_an_epoch_of_cifar10_has_391_batches_of_128() -> None:
    assert Order(50_000, 128, 0, True, "complete").steps(1) == 391
    assert Order(50_000, 128, 0, False, "continue").steps(10) == 3907  # neon: 390 or 391 each


SIZES = st.tuples(st.integers(1, 40), st.integers(1, 60), st.integers(0, 2**63), st.booleans())


@given(SIZES)
@settings(deadline=None)
def test_no_image_is_skipped_or_repeated_when_the_sequence_goes_on(sizes: tuple[int, int, int, bool]) -> None:
    order = Order(*sizes, ending="continue")
    steps = [order.positions(step) for step in range(order.steps(3))]
    seen = Counter(pair for step in steps for pair in zip(step.epochs.tolist(), step.indices.tolist(), strict=True))
    assert set(itertools.product(range(3), range(order.images))) <= set(seen)
    assert set(seen.values()) == {1}


@given(SIZES)
@settings(deadline=None)
def test_completed_epochs_hold_every_image_and_then_their_own_first_ones(sizes: tuple[int, int, int, bool]) -> None:
    order = Order(*sizes, ending="complete")
    for epoch in range(2):
        steps = [order.positions(step) for step in range(order.steps(epoch), order.steps(epoch + 1))]
        assert all((step.epochs == epoch).all() and len(step.indices) == order.batch for step in steps)
        indices = np.concatenate([step.indices for step in steps])
        assert sorted(indices[: order.images]) == list(range(order.images))
        np.testing.assert_array_equal(indices, np.resize(indices[: order.images], len(indices)))


@pytest.mark.parametrize("ending", ENDINGS)
def test_shuffling_depends_on_seed_and_epoch_alone(ending: str) -> None:
    def first_epoch(batch: int, seed: int, epoch: int = 0) -> list[int]:
        order = Order(60, batch, seed, True, ending)
        steps = range(order.steps(epoch), order.steps(epoch + 1))
        return [int(index) for step in steps for index in order.positions(step).indices]

    assert first_epoch(batch=20, seed=1) == first_epoch(batch=12, seed=1)
    assert first_epoch(batch=20, seed=1) != first_epoch(batch=20, seed=2)
    assert first_epoch(batch=20, seed=1) != first_epoch(batch=20, seed=1, epoch=1)
    assert first_epoch(batch=20, seed=1) != sorted(first_epoch(batch=20, seed=1)) == list(range(60))


def part(shares: tuple[int, ...], rank: int) -> slice:
    """A rank's images of the batch, as its place says."""
    devices = len(shares)
    work = job(shares=shares, devices=("cpu:0",) * devices, cores=((0,),) * devices)
    return find_place(work, {"RANK": str(rank), "WORLD_SIZE": str(devices)}).images


def test_ranks_take_slices_one_after_the_other() -> None:
    assert [part((43, 43, 42), rank) for rank in range(3)] == [slice(0, 43), slice(43, 86), slice(86, 128)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, ready in READY.items() if without_whitening(ready)])
def test_ranks_together_see_what_one_would_see(dataset: Dataset, name: str) -> None:
    def steps(shares: tuple[int, ...]) -> list[tuple[Any, ...]]:
        ranks = [iter(TrainingBatches(dataset, READY[name], 12, part(shares, rank), 3)) for rank in range(len(shares))]
        parts = [list(itertools.islice(rank, 6)) for rank in ranks]  # beyond the first epoch
        return [
            tuple(np.concatenate(values) for values in zip(*step, strict=True)) for step in zip(*parts, strict=True)
        ]

    alone, pair, three = map(steps, SHARES)
    for images, labels in alone:
        assert images.dtype == np.float32 and images.flags.c_contiguous and labels.dtype == np.int64
    for (images, labels), *others in zip(alone, pair, three, strict=True):
        for other_images, other_labels in others:
            np.testing.assert_array_equal(other_images, images)
            np.testing.assert_array_equal(other_labels, labels)


def test_each_iteration_begins_anew_and_each_seed_and_epoch_is_another(dataset: Dataset) -> None:
    def first(seed: int, steps: int = 1) -> Any:
        batches = TrainingBatches(dataset, MXNET_LEVELS[3], 50, slice(0, 50), seed)
        images, labels = list(itertools.islice(batches, steps))[-1]
        return images[np.argsort(labels)]  # the 50 images of an epoch in their own order

    np.testing.assert_array_equal(first(seed=1), first(seed=1))
    assert (first(seed=1) != first(seed=2)).any(axis=(1, 2, 3)).mean() > 0.9
    assert (first(seed=1) != first(seed=1, steps=2)).any(axis=(1, 2, 3)).mean() > 0.9


def test_cifar10_conv_gets_its_images_as_they_are_divided_by_255(dataset: Dataset) -> None:
    images, labels = next(iter(TrainingBatches(dataset, SCALED, 12, slice(4, 8), 3)))
    assert labels.tolist() == [4, 5, 6, 7]
    np.testing.assert_array_equal(images, (dataset.train_images[4:8] / np.float32(255)).astype(np.float32))


def test_level_3_of_mxnet_warps_pads_crops_jitters_mirrors_and_subtracts_in_this_order(dataset: Dataset) -> None:
    images, labels = next(iter(TrainingBatches(dataset, MXNET_LEVELS[3], 20, slice(0, 20), 3)))
    draws = Draws(3, np.zeros(20, np.int64), labels)
    padded = geometry.pad(warp.affine(dataset.train_images[labels], draws), border=4)
    jittered = colour.jitter(geometry.crop(padded, draws, size=28), draws)
    np.testing.assert_array_equal(images, pixels.subtract_mean(geometry.mirror(jittered, draws)))


@pytest.mark.parametrize("shares", [(7,), (4, 3), (3, 3, 1), (1, 5, 1), (23,), (30,), (20, 10)])
def test_every_test_image_comes_once_over_all_ranks(dataset: Dataset, shares: tuple[int, ...]) -> None:
    ranks = [EvaluationBatches(dataset, SCALED, sum(shares), part(shares, rank)) for rank in range(len(shares))]
    seen: list[int] = []
    for rank, share in zip(ranks, shares, strict=True):
        batches = list(rank)
        assert len(batches) == len(rank) == len(ranks[0])
        assert all(len(batch.images) == len(batch.labels) == share for batch in batches)
        for images, labels, valid in batches:
            seen += labels[:valid].tolist()
            np.testing.assert_array_equal(images, dataset.test_images[labels] / np.float32(255))
    assert sorted(seen) == list(range(23))


@pytest.mark.parametrize("name", READY)
def test_pipeline_survives_json(name: str) -> None:
    assert Pipeline.from_json(json.loads(json.dumps(READY[name].to_json()))) == READY[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": ("pad4", "crop29")}, "crop29.*expected one of.*crop28"),
        ({"evaluation": ("mirror", "scale")}, "mirror.*expected one of.*scale"),
        ({"ending": "drop"}, "drop.*expected one of continue, complete"),
    ],
)
def test_unknown_names_are_refused_with_the_known(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Pipeline.from_json({**SCALED.to_json(), **change})


@pytest.mark.parametrize(
    ("ready", "size"),
    [(SCALED, 32), (KERAS, 32), (INCEPTION, 299), (mxnet(2), 28), (mxnet(2, 32), 32)],
    ids=["scaled", "keras", "inception", "mxnet-28", "mxnet-32"],
)
def test_training_and_evaluation_give_images_of_the_networks_size(dataset: Dataset, ready: Pipeline, size: int) -> None:
    training, _ = next(iter(TrainingBatches(dataset, ready, 2, slice(0, 2), 0)))
    evaluation = next(iter(EvaluationBatches(dataset, ready, 2, slice(0, 2))))
    assert training.shape == evaluation.images.shape == (2, size, size, 3)


def test_whitening_is_fitted_on_training_images_and_used_for_both(tmp_path: Path) -> None:
    images = np.random.RandomState(2).randint(0, 256, (40, 2, 2, 3)).astype(np.uint8)
    labels = np.arange(40, dtype=np.uint8)
    small = Dataset(tmp_path, images, labels, images[::-1], labels)
    trained, _ = next(iter(TrainingBatches(small, WHITENED, 40, slice(0, 40), 0)))
    evaluated = next(iter(EvaluationBatches(small, WHITENED, 40, slice(0, 40))))
    np.testing.assert_allclose(evaluated.images[::-1], trained, atol=1e-5)
    np.testing.assert_allclose(trained.mean(axis=0), 0, atol=1e-5)


def test_every_step_is_of_one_kind() -> None:
    names = [*pipeline.FIXED, *pipeline.RANDOM, *pipeline.FITTED]
    assert len(names) == len(set(names))


def test_wrong_files_are_refused_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "train_images.npy", np.zeros((3, 2, 2, 3), np.float32))
    with pytest.raises(ValueError, match=r"train_images.npy holds float32\(3, 2, 2, 3\); expected uint8"):
        Dataset.open(tmp_path)
    np.save(tmp_path / "train_images.npy", np.zeros((3, 2, 2, 3), np.uint8))
    np.save(tmp_path / "train_labels.npy", np.zeros(4, np.uint8))
    with pytest.raises(ValueError, match="3 train images have 4 labels"):
        Dataset.open(tmp_path)
    np.save(tmp_path / "train_labels.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        Dataset.open(tmp_path)


def test_images_of_a_data_set_cannot_be_changed(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="read-only"):
        dataset.train_images[0] = 0


def mapped_bytes() -> int:
    """File pages that this process holds."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssFile"))


def test_pages_of_the_data_set_are_given_back(tmp_path: Path) -> None:
    for name in ("train", "test"):
        np.save(tmp_path / f"{name}_images.npy", np.ones((10_000, 32, 32, 3), np.uint8))
        np.save(tmp_path / f"{name}_labels.npy", np.zeros(10_000, np.uint8))
    large = Dataset.open(tmp_path)
    before = mapped_bytes()
    batches = iter(TrainingBatches(large, SCALED, 500, slice(0, 500), seed=1))
    for _ in range(20):
        next(batches)
    assert mapped_bytes() - before < 10 * 2**20  # of 30 MiB that were read
    assert int(large.train_images.sum()) == large.train_images.size  # which can be read again
    assert mapped_bytes() - before > 20 * 2**20
