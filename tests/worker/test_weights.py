"""Initial weights follow their rule and depend on nothing but the seed and the layer's own name."""

import math

import numpy as np
import pytest

from paceline.catalog.networks import NETWORKS
from paceline_worker.graph import BatchNorm, Conv, Dense, Flatten, Graph, Init, Input, Relu
from paceline_worker.weights import Array, Weights, initial_weights

SEED = 7


def dense_kernel(init: Init) -> Array:
    """A kernel of 400 x 300: enough values for a deviation to be known within one per cent."""
    graph = Graph()
    graph.add("dense", Dense(300, init=init), graph.add("input", Input((400,))))
    return initial_weights(graph, SEED)["dense.kernel"]


def conv_kernel(init: Init) -> Array:
    """A kernel of 3 x 3 from 64 to 128 channels: fan-in 576, fan-out 1152."""
    graph = Graph()
    graph.add("conv", Conv(128, (3, 3), init=init), graph.add("input", Input((8, 8, 64))))
    return initial_weights(graph, SEED)["conv.kernel"]


def small_network(*, extra: bool) -> Graph:
    graph = Graph()
    source = graph.add("input", Input((8, 8, 3)))
    source = graph.add("conv", Conv(4, (3, 3)), source)
    if extra:
        source = graph.add("extra", Conv(4, (1, 1)), source)
    source = graph.add("relu", Relu(), source)
    source = graph.add("flatten", Flatten(), source)
    return graph.lose(graph.add("dense", Dense(10), source))


def assert_equal(left: Weights, right: Weights) -> None:
    assert list(left) == list(right)
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name], err_msg=name)


def test_same_seed_gives_the_same_weights() -> None:
    build = NETWORKS["cifar-resnet20"]
    assert_equal(initial_weights(build(), SEED), initial_weights(build(), SEED))


def test_weights_of_a_seed_are_known_for_ever() -> None:
    # RandomState([seed, crc32(name)]) is frozen by NumPy: a change here breaks the comparison with stored runs.
    stream = np.random.RandomState([7, 0x9C9BB7A7])  # crc32 of b"dense.kernel"
    expected = stream.uniform(-0.1, 0.1, (400, 300)).astype(np.float32)
    np.testing.assert_array_equal(dense_kernel(Init("uniform", 0.1)), expected)


def test_other_seed_gives_other_kernels() -> None:
    graph = small_network(extra=False)
    one, other = initial_weights(graph, 1), initial_weights(graph, 2)
    assert not np.any(one["conv.kernel"] == other["conv.kernel"])
    assert not np.any(one["dense.kernel"] == other["dense.kernel"])


def test_another_layer_changes_no_other() -> None:
    without = initial_weights(small_network(extra=False), SEED)
    with_it = initial_weights(small_network(extra=True), SEED)
    assert set(with_it) - set(without) == {"extra.kernel"}
    assert_equal(without, {name: with_it[name] for name in without})


def test_layers_of_one_shape_differ() -> None:
    weights = initial_weights(NETWORKS["cifar-resnet20"](), SEED)
    assert not np.any(weights["stage1_unit2_a_conv.kernel"] == weights["stage1_unit2_b_conv.kernel"])


@pytest.mark.parametrize("name", ["cifar10-conv", "cifar-resnet20", "lenet", "mlp"])
def test_every_array_is_float32_of_its_parameters_shape(name: str) -> None:
    graph = NETWORKS[name]()
    weights = initial_weights(graph, SEED)
    assert {name: values.shape for name, values in weights.items()} == {
        name: parameter.shape for name, parameter in graph.parameters().items()
    }
    assert {values.dtype for values in weights.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("rule", "deviation"),
    [
        ("he_normal_fan_in", math.sqrt(2 / 576)),  # 3 * 3 * 64
        ("he_normal_fan_out", math.sqrt(2 / 1152)),  # 3 * 3 * 128
        ("glorot_uniform", math.sqrt(2 / (576 + 1152))),  # limit sqrt(6 / sum), and a uniform one has limit / sqrt(3)
        ("normal", 1.0),
    ],
)
def test_deviation_of_a_convolution(rule: str, deviation: float) -> None:
    kernel = conv_kernel(Init(rule))
    assert kernel.std() == pytest.approx(deviation, rel=0.01)
    assert abs(kernel.mean()) < 0.02 * deviation


def test_he_normal_of_a_dense_layer_counts_its_inputs() -> None:
    assert dense_kernel(Init("he_normal_fan_in")).std() == pytest.approx(math.sqrt(2 / 400), rel=0.01)


def test_uniform_fills_its_range_and_no_more() -> None:
    kernel = dense_kernel(Init("uniform", 0.1))
    assert -0.1 <= kernel.min() < -0.0999
    assert 0.0999 < kernel.max() <= np.float32(0.1)
    assert kernel.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.01)


def test_glorot_uniform_stays_within_its_limit() -> None:
    limit = math.sqrt(6 / 700)  # 400 inputs and 300 outputs
    assert 0.999 * limit < np.abs(dense_kernel(Init("glorot_uniform"))).max() <= np.float32(limit)


def test_truncated_normal_stays_within_two_deviations() -> None:
    kernel = dense_kernel(Init("truncated_normal", 0.01))
    assert 0.0199 < np.abs(kernel).max() <= np.float32(0.02)
    # Cutting a normal distribution at 2 leaves a variance of 1 - 2 * 2 * 0.053991 / 0.954500 = 0.773741.
    assert kernel.std() == pytest.approx(0.01 * math.sqrt(0.773741), rel=0.01)


@pytest.mark.parametrize(
    ("norm", "variance"), [(BatchNorm(1e-3, 0.9), 1.0), (BatchNorm(1e-3, 0.9, True, True, 0.0), 0.0)]
)
def test_normalisation_starts_as_the_identity(norm: BatchNorm, variance: float) -> None:
    graph = Graph()
    graph.add("bn", norm, graph.add("input", Input((8, 8, 3))))
    starts = {name: values.tolist() for name, values in initial_weights(graph, SEED).items()}
    assert starts == {"bn.gamma": [1] * 3, "bn.beta": [0] * 3, "bn.mean": [0] * 3, "bn.variance": [variance] * 3}


def test_biases_start_at_zero() -> None:
    assert not initial_weights(NETWORKS["lenet"](), SEED)["conv1.bias"].any()


def test_neon_starts_with_no_running_variance() -> None:
    assert not initial_weights(NETWORKS["cifar10-conv"](), SEED)["conv1_bn.variance"].any()
