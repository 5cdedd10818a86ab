"""The graph finds a mistake where it is made, and says sizes and padding as worked out by hand."""

from dataclasses import make_dataclass

import pytest

from paceline.catalog.networks.blocks import half_padding
from paceline_worker.graph import (
    OPS,
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Flatten,
    GlobalPool,
    Graph,
    Init,
    Input,
    MaxPool,
    Op,
    Relu,
    Tanh,
    same_padding,
)


@pytest.fixture
def graph() -> Graph:
    graph = Graph()
    graph.add("input", Input((8, 8, 3)))
    return graph


def test_add_refuses_unequal_shapes(graph: Graph) -> None:
    graph.add("conv", Conv(4, (1, 1)), "input")
    with pytest.raises(ValueError, match=r"Add needs inputs of one shape, not \(8, 8, 3\), \(8, 8, 4\)\."):
        graph.add("sum", Add(), "input", "conv")
    assert list(graph.nodes) == ["input", "conv"]  # what failed was not added


def test_concat_refuses_maps_of_unequal_size(graph: Graph) -> None:
    graph.add("pool", MaxPool((2, 2), (2, 2)), "input")
    with pytest.raises(ValueError, match="Concat needs maps of one size"):
        graph.add("join", Concat(), "input", "pool")


def test_dense_refuses_a_map(graph: Graph) -> None:
    with pytest.raises(ValueError, match=r"Dense takes a flat input.*put Flatten or GlobalPool before it"):
        graph.add("dense", Dense(10), "input")


@pytest.mark.parametrize(
    "op",
    [Conv(4, (9, 9)), Conv(4, (1, 9)), MaxPool((9, 9), (1, 1)), AveragePool((11, 1), (2, 2), (1, 1, 1, 1))],
)
def test_window_larger_than_its_map_is_refused(graph: Graph, op: Op) -> None:
    with pytest.raises(ValueError, match="does not fit into"):
        graph.add("window", op, "input")


def test_name_can_be_given_only_once(graph: Graph) -> None:
    graph.add("relu", Relu(), "input")
    with pytest.raises(ValueError, match="There is a layer named 'relu' already"):
        graph.add("relu", Relu(), "relu")


@pytest.mark.parametrize("inputs", [(), ("input", "input")])
def test_layer_of_one_input_takes_exactly_one(graph: Graph, inputs: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=f"Relu takes 1 inputs, 'relu' gives it {len(inputs)}"):
        graph.add("relu", Relu(), *inputs)


def test_input_that_was_never_added_is_refused(graph: Graph) -> None:
    with pytest.raises(ValueError, match="'relu' takes 'nowhere', which is no layer before it"):
        graph.add("relu", Relu(), "nowhere")


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (Conv(4, (3, 3)), (6, 6, 4)),
        (Conv(4, (3, 3), (2, 2), (1, 1, 1, 1)), (4, 4, 4)),  # (8 + 2 - 3) // 2 + 1: the last row is dropped
        (Conv(4, (1, 7), (1, 1), (0, 0, 3, 3)), (8, 8, 4)),
        (Conv(4, (7, 1)), (2, 8, 4)),
        (MaxPool((3, 3), (2, 2)), (3, 3, 3)),
        (AveragePool((3, 3), (1, 1), (1, 1, 1, 1)), (8, 8, 3)),
        (GlobalPool(), (3,)),
        (Flatten(), (192,)),
        (BatchNorm(1e-3, 0.9), (8, 8, 3)),
        (Relu(), (8, 8, 3)),
        (Tanh(), (8, 8, 3)),
        (Dropout(0.5), (8, 8, 3)),
    ],
)
def test_shape_after_one_layer(graph: Graph, op: Op, shape: tuple[int, ...]) -> None:
    assert graph.nodes[graph.add("layer", op, "input")].shape == shape


def test_concat_adds_up_channels(graph: Graph) -> None:
    graph.add("conv", Conv(4, (1, 1)), "input")
    assert graph.nodes[graph.add("join", Concat(), "conv", "input", "conv")].shape == (8, 8, 11)


def test_parameters_are_listed_in_the_order_of_the_layers(graph: Graph) -> None:
    graph.add("conv", Conv(4, (3, 3), bias=True), "input")
    graph.add("bn", BatchNorm(1e-3, 0.9, trained_gamma=False), "conv")
    rows = {name: (item.shape, item.role, item.kind) for name, item in graph.parameters().items()}
    assert list(rows.items()) == [
        ("conv.kernel", ((3, 3, 3, 4), "conv.kernel", "trainable")),
        ("conv.bias", ((4,), "bias", "trainable")),
        ("bn.gamma", ((4,), "gamma", "frozen")),
        ("bn.beta", ((4,), "beta", "trainable")),
        ("bn.mean", ((4,), "mean", "running")),
        ("bn.variance", ((4,), "variance", "running")),
    ]


def test_multiplications_of_a_convolution_and_a_dense_layer() -> None:
    assert Conv(4, (3, 3), bias=True).macs((8, 8, 3)) == 6 * 6 * 4 * 27  # biases are additions only
    assert Dense(10).macs((192,)) == 1_920
    assert BatchNorm(1e-3, 0.9).macs((8, 8, 3)) == 0


def test_every_operation_survives_json(graph: Graph) -> None:
    source = graph.add("conv", Conv(3, (3, 1), (1, 1), (1, 1, 0, 0), bias=True, init=Init("uniform", 0.1)), "input")
    source = graph.add("bn", BatchNorm(2e-5, 0.9, False, False, 0.0), source)
    source = graph.add("relu", Relu(), source)
    source = graph.add("tanh", Tanh(), source)
    source = graph.add("dropout", Dropout(0.5), source)
    source = graph.add("max", MaxPool((2, 2), (2, 2), (0, 1, 0, 1)), source)
    source = graph.add("average", AveragePool((3, 3), (1, 1), (1, 1, 1, 1), count_padding=False), source)
    source = graph.add("sum", Add(), source, source)
    source = graph.add("join", Concat(), source, source)
    graph.add("flat", Flatten(), source)
    graph.lose(graph.add("dense", Dense(10, bias=False), graph.add("pool", GlobalPool(), source)), 0.5)
    assert {type(node.op).__name__ for node in graph.nodes.values()} == set(OPS)
    again = Graph.from_json(graph.to_json())
    assert (again.nodes, again.losses) == (graph.nodes, graph.losses)


def test_graph_without_what_stands_at_its_default_is_read_alike(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that was written before an operation had some field."""
    graph.add("conv", Conv(3, (3, 3)), "input")
    written = graph.to_json()
    *_, conv = written["nodes"]
    short = {name: conv[name] for name in ("name", "op", "inputs", "channels", "kernel")}
    assert len(conv) > len(short)
    assert Graph.from_json({**written, "nodes": [*written["nodes"][:-1], short]}).nodes == graph.nodes
    monkeypatch.setitem(OPS, "Conv", make_dataclass("Conv", [("groups", int, 1)], bases=(Conv,), frozen=True))
    assert Graph.from_json(written).nodes["conv"].op.groups == 1


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        ((32, 32), (7, 7), (2, 2), (2, 3, 2, 3)),  # 16 outputs: 15 * 2 + 7 - 32 = 5
        ((224, 224), (7, 7), (2, 2), (2, 3, 2, 3)),  # 112 outputs: 111 * 2 + 7 - 224 = 5
        ((112, 112), (3, 3), (2, 2), (0, 1, 0, 1)),  # 56 outputs: 55 * 2 + 3 - 112 = 1
        ((35, 35), (3, 3), (2, 2), (1, 1, 1, 1)),  # 18 outputs: 17 * 2 + 3 - 35 = 2
        ((28, 28), (5, 5), (1, 1), (2, 2, 2, 2)),  # 28 outputs: 27 + 5 - 28 = 4
        ((28, 28), (2, 2), (1, 1), (0, 1, 0, 1)),  # 28 outputs: 27 + 2 - 28 = 1
        ((7, 7), (1, 1), (2, 2), (0, 0, 0, 0)),  # 4 outputs: 3 * 2 + 1 - 7 = 0
        ((8, 8), (1, 1), (2, 2), (0, 0, 0, 0)),  # 4 outputs: 3 * 2 + 1 - 8 is negative, so no padding
        ((17, 32), (1, 7), (1, 2), (0, 0, 2, 3)),  # each direction by itself: 0, and 15 * 2 + 7 - 32 = 5
    ],
)
def test_same_padding_by_hand(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int, int, int]
) -> None:
    assert same_padding(size, kernel, stride) == padding


def test_half_padding_keeps_the_size_at_stride_one(graph: Graph) -> None:
    assert half_padding((1, 7)) == (0, 0, 3, 3)
    assert graph.nodes[graph.add("conv", Conv(4, (5, 3), padding=half_padding((5, 3))), "input")].shape == (8, 8, 4)
