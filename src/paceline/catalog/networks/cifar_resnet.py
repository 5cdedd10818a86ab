"""Residual networks with pre-activation ("v2") for small images, as MXNet 0.11 builds them.

Program: apache/mxnet 0.11.0, example/image-classification/symbols/resnet.py, with the initialiser of common/fit.py.
Paper: He et al. 2016, "Identity Mappings in Deep Residual Networks". "ResNet-50" is here the net of 0.76 million
parameters with 8 basic units per stage, not the one for ImageNet; imagenet_resnet50.py builds that from the same units.
"""

from dataclasses import replace

from paceline.catalog.networks.blocks import Layers, Unit, residual_stages
from paceline_worker.graph import BatchNorm, Dense, GlobalPool, Graph, Init, Input

NORM = BatchNorm(epsilon=2e-5, decay=0.9)  # eps and bn_mom of symbols/resnet.py
INIT = Init("he_normal_fan_in")  # fit.py: Xavier, gaussian, factor_type "in", magnitude 2; for convolutions and dense

BOTTLENECK_DEPTH = 164  # from here on the program takes bottleneck units
BASIC_WIDTHS = (16, 32, 64)  # filter_list of the program, without its stem
BOTTLENECK_WIDTHS = (64, 128, 256)


def build(depth: int, *, size: int = 28, classes: int = 10) -> Graph:
    """Three stages of equal depth; the program crops to 28, larger images give the same parameters."""
    layers, source = open_network(size)
    source = layers.conv("stem", source, 16, 3)  # 16: first of filter_list; normalised inside the first unit
    if depth >= BOTTLENECK_DEPTH:
        units = units_per_stage(depth, 9)  # three stages of units with three convolutions
        source = residual_stages(layers, source, bottleneck_unit, [units] * 3, BOTTLENECK_WIDTHS)
    else:
        units = units_per_stage(depth, 6)  # three stages of units with two convolutions
        source = residual_stages(layers, source, basic_unit, [units] * 3, BASIC_WIDTHS)
    return close_network(layers, source, classes)


def units_per_stage(depth: int, layers_per_round: int) -> int:
    """All layers but the stem and the dense one are shared out evenly."""
    if (depth - 2) % layers_per_round:
        raise ValueError(f"A depth of {depth} does not fit: depth - 2 must be a multiple of {layers_per_round}.")
    return (depth - 2) // layers_per_round


def open_network(size: int) -> tuple[Layers, str]:
    """Input and a normalisation of the pixels (`bn_data`), whose gamma the program fixes at 1."""
    graph = Graph()
    source = graph.add("input", Input((size, size, 3)))
    source = graph.add("data_bn", replace(NORM, trained_gamma=False), source)
    return Layers(graph, NORM, INIT), source


def close_network(layers: Layers, source: str, classes: int) -> Graph:
    source = layers.norm_relu("last", source)
    source = layers.graph.add("pool", GlobalPool(), source)
    return layers.graph.lose(layers.graph.add("head", Dense(classes, init=INIT), source))


def basic_unit(layers: Layers, source: str, unit: Unit) -> str:
    ready = layers.norm_relu(f"{unit.name}_a", source)
    inner = layers.conv(f"{unit.name}_a", ready, unit.width, 3, unit.stride)
    inner = layers.norm_relu(f"{unit.name}_b", inner)
    inner = layers.conv(f"{unit.name}_b", inner, unit.width, 3)
    return layers.add(unit.name, inner, shortcut(layers, source, ready, unit))


def bottleneck_unit(layers: Layers, source: str, unit: Unit) -> str:
    """The stride sits on the 3x3; the inner width is a quarter of the outer (`num_filter*0.25`)."""
    ready = layers.norm_relu(f"{unit.name}_a", source)
    inner = layers.conv(f"{unit.name}_a", ready, unit.width // 4, 1)
    inner = layers.norm_relu(f"{unit.name}_b", inner)
    inner = layers.conv(f"{unit.name}_b", inner, unit.width // 4, 3, unit.stride)
    inner = layers.norm_relu(f"{unit.name}_c", inner)
    inner = layers.conv(f"{unit.name}_c", inner, unit.width, 1)
    return layers.add(unit.name, inner, shortcut(layers, source, ready, unit))


def shortcut(layers: Layers, source: str, ready: str, unit: Unit) -> str:
    """The unit's input; a stage begins with a projection of the activated one, even where the shape would fit."""
    return layers.conv(f"{unit.name}_shortcut", ready, unit.width, 1, unit.stride) if unit.first else source
