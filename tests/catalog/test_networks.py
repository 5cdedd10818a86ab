"""Every network has the layers, parameters and multiplications that its layer table says; all numbers are by hand."""

import json
import math

import pytest

from paceline.catalog.networks import NETWORKS
from paceline.catalog.networks.cifar_resnet import build as cifar_resnet
from paceline.catalog.networks.cost import NetworkCost
from paceline.catalog.workloads import WORKLOADS
from paceline.catalog.workloads.definition import Workload
from paceline_worker.graph import Graph, Relu

# Trainable, frozen, running, convolutions, batch normalisations, multiply-accumulates of one image.
COSTS = {
    ("cifar10-conv", 10): NetworkCost(420_096, 0, 1_096, 2, 3, 2_625_800),
    ("cifar10-conv-mxnet", 10): NetworkCost(420_106, 548, 1_096, 2, 3, 2_625_800),
    ("cifar-resnet20", 10): NetworkCost(272_541, 3, 1_382, 22, 20, 31_448_448),
    ("cifar-resnet50", 10): NetworkCost(758_621, 3, 3_622, 52, 50, 85_638_528),
    ("cifar-resnet56", 10): NetworkCost(855_837, 3, 4_070, 58, 56, 96_476_544),
    ("cifar-resnet110", 10): NetworkCost(1_730_781, 3, 8_102, 112, 110, 194_018_688),
    ("cifar-resnet164", 10): NetworkCost(1_703_261, 3, 24_230, 166, 164, 189_605_120),
    ("keras-resnet50", 10): NetworkCost(23_547_402, 0, 45_440, 53, 49, 75_517_952),
    ("resnet50-v1", 1000): NetworkCost(25_557_032, 0, 53_120, 53, 53, 3_857_973_248),
    ("resnet50-v1.5", 1000): NetworkCost(25_557_032, 0, 53_120, 53, 53, 4_089_184_256),
    ("resnet50-v2", 1000): NetworkCost(25_549_483, 3, 45_574, 53, 51, 4_089_184_256),
    ("inception-v3", 1000): NetworkCost(23_834_568, 0, 34_432, 94, 94, 5_713_216_096),
    ("inception-v3-aux", 1000): NetworkCost(27_161_264, 0, 36_224, 96, 96, 5_718_899_296),
    ("inception-v3", 10): NetworkCost(21_806_058, 0, 34_432, 94, 94, 5_711_188_576),
    ("lenet", 10): NetworkCost(431_080, 0, 0, 2, 0, 2_293_000),
    ("mlp", 10): NetworkCost(109_386, 0, 0, 0, 0, 109_184),
}

# Trainable numbers of all layers whose names begin so.
PARTS = {
    "cifar10-conv": {
        "conv1": 1_200 + 32,
        "conv2": 12_800 + 64,
        "dense1": 400_000 + 1_000,
        "dense2": 5_000,
    },
    "cifar-resnet50": {
        "data_bn": 3,
        "stem_": 432,
        "stage1_": 37_632,
        "stage1_unit1_": 4_928,
        "stage1_unit2_": 4_672,
        "stage2_": 144_352,
        "stage2_unit1_": 14_432,
        "stage2_unit2_": 18_560,
        "stage3_": 575_424,
        "stage3_unit1_": 57_536,
        "stage3_unit2_": 73_984,
        "last_": 128,
        "head": 650,
    },
    "cifar-resnet110": {
        "data_bn": 3,
        "stem_": 432,
        "stage1_": 84_352,
        "stage2_": 329_952,
        "stage3_": 1_315_264,
        "last_": 128,
        "head": 650,
    },
    "keras-resnet50": {
        "stem_": 9_600,
        "stage1_": 216_192,
        "stage2_": 1_221_632,
        "stage3_": 7_105_536,
        "stage4_": 14_969_856,
        "last_": 4_096,
        "head": 20_490,
    },
    "resnet50-v1": {
        "stem_": 9_536,
        "stage1_": 215_808,
        "stage2_": 1_219_584,
        "stage3_": 7_098_368,
        "stage4_": 14_964_736,
        "head": 2_049_000,
    },
    "inception-v3-aux": {
        "stem_1a_": 928,
        "stem_2a_": 9_280,
        "stem_2b_": 18_560,
        "stem_3b_": 5_280,
        "stem_4a_": 138_624,
        "mixed0_": 255_904,
        "mixed1_": 277_472,
        "mixed2_": 285_152,
        "mixed3_": 1_153_280,
        "mixed4_": 1_297_408,
        "mixed5_": 1_691_008,
        "mixed6_": 1_691_008,
        "mixed7_": 2_141_952,
        "mixed8_": 1_698_304,
        "mixed9_": 5_044_608,
        "mixed10_": 6_076_800,
        "head": 2_049_000,
        "auxiliary_": 3_326_696,
    },
}
PARTS["resnet50-v1.5"] = PARTS["resnet50-v1"]  # the stride stands elsewhere, the parameters are the same

# Height, width, channels after some layers.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "cifar10-conv": {
        "conv1_relu": (28, 28, 16),
        "pool1": (14, 14, 16),
        "conv2_relu": (10, 10, 32),
        "pool2": (5, 5, 32),
        "flatten": (800,),
        "dense1_relu": (500,),
    },
    "cifar-resnet50": {
        "stem_conv": (28, 28, 16),
        "stage1_unit8_add": (28, 28, 16),
        "stage2_unit8_add": (14, 14, 32),
        "stage3_unit8_add": (7, 7, 64),
        "pool": (64,),
    },
    "cifar-resnet164-32": {"stage1_unit18_add": (32, 32, 64), "stage3_unit18_add": (8, 8, 256)},
    "keras-resnet50": {
        "stem_relu": (16, 16, 64),
        "stem_pool": (7, 7, 64),
        "stage1_unit3_add": (7, 7, 256),
        "stage2_unit4_add": (4, 4, 512),
        "stage3_unit6_add": (2, 2, 1024),
        "stage4_unit3_add": (1, 1, 2048),
    },
    "resnet50-v1": {
        "stem_relu": (112, 112, 64),
        "stem_pool": (56, 56, 64),
        "stage1_unit3_relu": (56, 56, 256),
        "stage2_unit1_a_conv": (28, 28, 128),  # the stride sits on the 1x1
        "stage2_unit4_relu": (28, 28, 512),
        "stage3_unit6_relu": (14, 14, 1024),
        "stage4_unit3_relu": (7, 7, 2048),
    },
    "resnet50-v1.5": {"stage2_unit1_a_conv": (56, 56, 128), "stage2_unit1_b_conv": (28, 28, 128)},  # on the 3x3
    "resnet50-v2": {"stage2_unit1_a_conv": (56, 56, 128), "stage4_unit3_add": (7, 7, 2048)},
    "inception-v3-aux": {
        "stem_1a_1_relu": (149, 149, 32),
        "stem_2a_1_relu": (147, 147, 32),
        "stem_2b_1_relu": (147, 147, 64),
        "stem_3a_pool": (73, 73, 64),
        "stem_4a_1_relu": (71, 71, 192),
        "stem_5a_pool": (35, 35, 192),
        "mixed0_concat": (35, 35, 256),
        "mixed1_concat": (35, 35, 288),
        "mixed2_concat": (35, 35, 288),
        "mixed3_concat": (17, 17, 768),
        "mixed7_concat": (17, 17, 768),
        "mixed8_concat": (8, 8, 1280),
        "mixed9_concat": (8, 8, 2048),
        "mixed10_concat": (8, 8, 2048),
        "auxiliary_pool": (5, 5, 768),
        "auxiliary_five_1_relu": (1, 1, 768),
    },
    "lenet": {"pool1": (12, 12, 20), "pool2": (4, 4, 50), "flatten": (800,)},
    "mlp": {"flatten": (784,), "dense1": (128,), "dense2": (64,)},
}


def trainable(graph: Graph, prefix: str) -> int:
    """Trainable numbers in the layers whose names begin with `prefix`."""
    return sum(
        math.prod(parameter.shape)
        for name, parameter in graph.parameters().items()
        if name.startswith(prefix) and parameter.kind == "trainable"
    )


@pytest.mark.parametrize(("name", "classes"), COSTS)
def test_cost_is_that_of_the_layer_table(name: str, classes: int) -> None:
    assert NetworkCost.of(NETWORKS[name](classes=classes)) == COSTS[name, classes]


@pytest.mark.parametrize("name", [name for name, _ in COSTS if name != "inception-v3"])
def test_original_number_of_classes_is_the_default(name: str) -> None:
    classes = next(classes for known, classes in COSTS if known == name)
    assert NETWORKS[name]().to_json() == NETWORKS[name](classes=classes).to_json()


@pytest.mark.parametrize(
    ("name", "parameters", "running", "macs"),
    [
        ("cifar-resnet50-32", 758_621, 3_622, 111_854_208),
        ("cifar-resnet110-32", 1_730_781, 8_102, 253_411_968),
    ],
)
def test_larger_images_cost_multiplications_and_no_parameters(
    name: str, parameters: int, running: int, macs: int
) -> None:
    cost = NetworkCost.of(NETWORKS[name]())
    assert (cost.trainable, cost.frozen, cost.running, cost.forward_macs) == (parameters, 3, running, macs)


def test_auxiliary_head_with_ten_classes() -> None:
    graph = NETWORKS["inception-v3-aux"](classes=10)
    assert trainable(graph, "auxiliary_") == 2_565_386
    assert NetworkCost.of(graph).trainable == 24_371_444


def test_resnet50_with_ten_classes() -> None:
    assert NetworkCost.of(NETWORKS["resnet50-v1.5"](classes=10)).trainable == 23_528_522


@pytest.mark.parametrize(("name", "prefix"), [(name, prefix) for name, parts in PARTS.items() for prefix in parts])
def test_trainable_numbers_of_each_part(name: str, prefix: str) -> None:
    assert trainable(NETWORKS[name](), prefix) == PARTS[name][prefix]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_at_key_layers(name: str) -> None:
    nodes = NETWORKS[name]().nodes
    assert {layer: nodes[layer].shape for layer in SHAPES[name]} == SHAPES[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_graph_survives_json(name: str) -> None:
    graph = NETWORKS[name]()
    again = Graph.from_json(json.loads(json.dumps(graph.to_json())))
    assert list(again.nodes.items()) == list(graph.nodes.items())
    assert list(again.losses.items()) == list(graph.losses.items())


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_serves_a_loss(name: str) -> None:
    graph = NETWORKS[name]()
    used = {source for node in graph.nodes.values() for source in node.inputs}
    assert set(graph.nodes) - used == set(graph.losses)


@pytest.mark.parametrize("name", NETWORKS)
def test_layer_names_suit_every_framework(name: str) -> None:
    assert all(layer.isidentifier() for layer in NETWORKS[name]().nodes)  # torch forbids dots, for one


def test_main_loss_comes_first_and_the_auxiliary_one_weighs_less() -> None:
    graph = NETWORKS["inception-v3-aux"]()
    assert graph.losses == {"head": 1.0, "auxiliary_head": 0.4}
    assert graph.prediction == "head"


def test_port_to_mxnet_lacks_the_last_relu() -> None:
    neon, port = (
        [layer for layer, node in NETWORKS[name]().nodes.items() if isinstance(node.op, Relu)]
        for name in ("cifar10-conv", "cifar10-conv-mxnet")
    )
    assert neon == ["conv1_relu", "conv2_relu", "dense1_relu"]
    assert port == ["conv1_relu", "conv2_relu"]


def test_stem_of_keras_has_the_odd_pixel_behind() -> None:
    assert NETWORKS["keras-resnet50"]().nodes["stem_conv"].op.padding == (2, 3, 2, 3)  # 15 * 2 + 7 - 32 = 5


def test_depth_that_cannot_be_shared_out_is_refused() -> None:
    with pytest.raises(ValueError, match="depth - 2 must be a multiple of 6"):
        cifar_resnet(51)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_workload_trains_its_network_and_decays_what_is_there(workload: Workload) -> None:
    graph = workload.graph()
    roles = {parameter.role for parameter in graph.parameters().values()}
    assert graph.nodes[graph.prediction].shape == (workload.classes,)
    assert roles.intersection(workload.recipe.decayed)
    assert "\n" not in workload.origin


def test_all_workloads_of_the_published_benchmarks_are_there() -> None:
    assert list(WORKLOADS) == [
        "cifar10-conv",
        "cifar10-resnet20",
        "cifar10-resnet50",
        "cifar10-resnet110",
        "cifar10-resnet50-keras",
        "cifar10-inception-v3",
        "imagenet-resnet50",
        "imagenet-resnet50-v1.5",
        "mnist-lenet",
        "mnist-mlp",
    ]
