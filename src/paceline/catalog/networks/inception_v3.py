"""Inception-v3 for images of 299x299, in torchvision's form.

Paper: Szegedy et al. 2015, "Rethinking the Inception Architecture for Computer Vision". Program: torchvision's
inception_v3, whose counts of channels are those of Google's released model. Without its dropout before the last
layer: the random masks cannot be made equal between frameworks, and then neither could losses.
"""

from dataclasses import dataclass, replace

from paceline.catalog.networks.blocks import NO_PADDING, Layers, Sides, around
from paceline_worker import graph as g

NORM = g.BatchNorm(epsilon=1e-3, decay=0.9)  # torchvision's BasicConv2d: eps 0.001, PyTorch's default momentum 0.1
INIT = g.Init("truncated_normal", 0.1)  # torchvision's default deviation, for dense layers too
AUXILIARY_CONV_INIT = g.Init("truncated_normal", 0.01)  # stddev set in torchvision's InceptionAux
AUXILIARY_DENSE_INIT = g.Init("truncated_normal", 0.001)  # the same
AUXILIARY_WEIGHT = 0.4  # tensorflow/benchmarks, tf_cnn_benchmarks; torchvision leaves it to the caller

SHRINK = g.MaxPool((3, 3), (2, 2))
AVERAGE = g.AveragePool((3, 3), (1, 1), around(1), count_padding=True)  # PyTorch's default; Keras does not count it


@dataclass(frozen=True)
class ConvStep:
    """A convolution of a branch, with normalisation and ReLU after it; it keeps the size unless told otherwise."""

    channels: int
    kernel: int | tuple[int, int]
    stride: int = 1
    padding: Sides | None = None


def shrinking(channels: int) -> ConvStep:
    return ConvStep(channels, 3, 2, NO_PADDING)


def build(*, auxiliary: bool = False, classes: int = 1000) -> g.Graph:
    """Stem, eleven modules and a dense layer; the auxiliary head serves training only."""
    graph = g.Graph()
    layers = Layers(graph, NORM, INIT)
    grid = modules_to_17x17(layers, stem(layers, graph.add("input", g.Input((299, 299, 3)))))
    source = module_d(layers, "mixed8", grid)
    source = module_e(layers, "mixed9", source)
    source = module_e(layers, "mixed10", source)
    source = graph.add("pool", g.GlobalPool(), source)
    graph.lose(graph.add("head", g.Dense(classes, init=INIT), source))
    if auxiliary:
        graph.lose(auxiliary_head(layers, grid, classes), AUXILIARY_WEIGHT)
    return graph


def stem(layers: Layers, source: str) -> str:
    """299 -> 35 pixels; the names are those of Google's model."""
    source = branch(layers, "stem_1a", source, shrinking(32))
    source = branch(layers, "stem_2a", source, ConvStep(32, 3, padding=NO_PADDING))
    source = branch(layers, "stem_2b", source, ConvStep(64, 3))
    source = layers.graph.add("stem_3a_pool", SHRINK, source)
    source = branch(layers, "stem_3b", source, ConvStep(80, 1))
    source = branch(layers, "stem_4a", source, ConvStep(192, 3, padding=NO_PADDING))
    return layers.graph.add("stem_5a_pool", SHRINK, source)


def modules_to_17x17(layers: Layers, source: str) -> str:
    for index, pool_channels in enumerate((32, 64, 64)):  # pool_features of torchvision's Mixed_5b, 5c, 5d
        source = module_a(layers, f"mixed{index}", source, pool_channels)
    source = module_b(layers, "mixed3", source)
    for index, inner in enumerate((128, 160, 160, 192), start=4):  # channels_7x7 of Mixed_6b to 6e
        source = module_c(layers, f"mixed{index}", source, inner)
    return source


def module_a(layers: Layers, name: str, source: str, pool_channels: int) -> str:
    pooled = layers.graph.add(f"{name}_pool", AVERAGE, source)
    return join(
        layers,
        name,
        branch(layers, f"{name}_one", source, ConvStep(64, 1)),
        branch(layers, f"{name}_five", source, ConvStep(48, 1), ConvStep(64, 5)),
        branch(layers, f"{name}_three", source, ConvStep(64, 1), ConvStep(96, 3), ConvStep(96, 3)),
        branch(layers, f"{name}_pooled", pooled, ConvStep(pool_channels, 1)),
    )


def module_b(layers: Layers, name: str, source: str) -> str:
    """35 -> 17 pixels."""
    return join(
        layers,
        name,
        branch(layers, f"{name}_three", source, shrinking(384)),
        branch(layers, f"{name}_double", source, ConvStep(64, 1), ConvStep(96, 3), shrinking(96)),
        layers.graph.add(f"{name}_pool", SHRINK, source),
    )


def module_c(layers: Layers, name: str, source: str, inner: int) -> str:
    row, column = ConvStep(inner, (1, 7)), ConvStep(inner, (7, 1))
    last_row, last_column = ConvStep(192, (1, 7)), ConvStep(192, (7, 1))
    pooled = layers.graph.add(f"{name}_pool", AVERAGE, source)
    return join(
        layers,
        name,
        branch(layers, f"{name}_one", source, ConvStep(192, 1)),
        branch(layers, f"{name}_seven", source, ConvStep(inner, 1), row, last_column),
        branch(layers, f"{name}_double", source, ConvStep(inner, 1), column, row, column, last_row),
        branch(layers, f"{name}_pooled", pooled, ConvStep(192, 1)),
    )


def module_d(layers: Layers, name: str, source: str) -> str:
    """17 -> 8 pixels."""
    row, column = ConvStep(192, (1, 7)), ConvStep(192, (7, 1))
    return join(
        layers,
        name,
        branch(layers, f"{name}_three", source, ConvStep(192, 1), shrinking(320)),
        branch(layers, f"{name}_seven", source, ConvStep(192, 1), row, column, shrinking(192)),
        layers.graph.add(f"{name}_pool", SHRINK, source),
    )


def module_e(layers: Layers, name: str, source: str) -> str:
    """Two branches fork at their end; one Concat joins all arms, in the order that nested ones would give."""
    fork = branch(layers, f"{name}_fork", source, ConvStep(384, 1))
    double = branch(layers, f"{name}_double", source, ConvStep(448, 1), ConvStep(384, 3))
    pooled = layers.graph.add(f"{name}_pool", AVERAGE, source)
    return join(
        layers,
        name,
        branch(layers, f"{name}_one", source, ConvStep(320, 1)),
        branch(layers, f"{name}_fork_row", fork, ConvStep(384, (1, 3))),
        branch(layers, f"{name}_fork_column", fork, ConvStep(384, (3, 1))),
        branch(layers, f"{name}_double_row", double, ConvStep(384, (1, 3))),
        branch(layers, f"{name}_double_column", double, ConvStep(384, (3, 1))),
        branch(layers, f"{name}_pooled", pooled, ConvStep(192, 1)),
    )


def auxiliary_head(layers: Layers, source: str, classes: int) -> str:
    """17 -> 5 -> 1 pixel, so torchvision's average over the rest has nothing left to do."""
    source = layers.graph.add("auxiliary_pool", g.AveragePool((5, 5), (3, 3)), source)
    source = branch(layers, "auxiliary_one", source, ConvStep(128, 1))
    last = replace(layers, init=AUXILIARY_CONV_INIT)
    source = branch(last, "auxiliary_five", source, ConvStep(768, 5, padding=NO_PADDING))
    source = layers.graph.add("auxiliary_flatten", g.Flatten(), source)
    return layers.graph.add("auxiliary_head", g.Dense(classes, init=AUXILIARY_DENSE_INIT), source)


def branch(layers: Layers, name: str, source: str, *steps: ConvStep) -> str:
    for index, step in enumerate(steps, start=1):
        label = f"{name}_{index}"
        source = layers.conv(label, source, step.channels, step.kernel, step.stride, step.padding)
        source = layers.norm_relu(label, source)
    return source


def join(layers: Layers, name: str, *branches: str) -> str:
    return layers.graph.add(f"{name}_concat", g.Concat(), *branches)
