"""The networks in which mistakes are made: two that are measured, and small ones that have what those lack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from tests.factories.every_layer import every_layer

from paceline.catalog.networks import cifar_resnet
from paceline.catalog.networks.blocks import Layers, around
from paceline.catalog.workloads import known_workload
from paceline.catalog.workloads.definition import Workload
from paceline_worker.graph import (
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
    Relu,
    same_padding,
)
from paceline_worker.protocol import Recipe

DECAYED = Recipe(learning_rate=0.05, momentum=0.9, weight_decay=1e-4, decayed=("conv.kernel", "dense.kernel", "gamma"))
NESTEROV = Recipe(learning_rate=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4, decayed=("conv.kernel", "bias"))
PLAIN = Recipe(learning_rate=0.05)
NORM = BatchNorm(epsilon=1e-5, decay=0.9)
CLASSES = 5


def blocks(*, classes: int = CLASSES) -> Graph:
    """A residual unit with three convolutions and its ReLU after the sum, then a module of four branches."""
    graph = Graph()
    layers = Layers(graph, NORM, Init("he_normal_fan_in"))
    stem = layers.norm_relu("stem", layers.conv("stem", graph.add("input", Input((16, 16, 3))), 8, 3, 2, (0, 1, 0, 1)))
    inner = layers.norm_relu("one", layers.conv("one", stem, 4, 1))
    inner = layers.norm_relu("three", layers.conv("three", inner, 4, 3, 2, same_padding((8, 8), (3, 3), (2, 2))))
    inner = graph.add("last_bn", NORM, layers.conv("last", inner, 16, 1))
    beside = graph.add("beside_bn", NORM, layers.conv("beside", stem, 16, 1, 2))
    unit = layers.relu("unit", layers.add("unit", inner, beside))
    row = layers.norm_relu("row", layers.conv("row", unit, 6, (1, 3)))
    column = layers.norm_relu("column", layers.conv("column", row, 6, (3, 1)))
    pooled = graph.add("pooled", AveragePool((3, 3), (1, 1), around(1), count_padding=False), unit)
    pooled = layers.norm_relu("pooled", layers.conv("pooled", pooled, 6, 1))
    largest = graph.add("largest", MaxPool((3, 3), (1, 1), around(1)), unit)
    joined = graph.add("joined", Concat(), column, pooled, largest)
    return graph.lose(graph.add("head", Dense(classes), graph.add("mean", GlobalPool(), joined)))


def resnet8(*, classes: int = 10) -> Graph:
    """The smallest of the measured residual networks."""
    return cifar_resnet.build(8, classes=classes)


def plain_net(*, classes: int = CLASSES) -> Graph:
    """Biases and no batch normalisation, trained without momentum."""
    graph = Graph()
    source = graph.add("input", Input((12, 12, 3)))
    source = graph.add("conv1", Conv(8, (5, 5), (1, 1), around(2), bias=True), source)
    source = graph.add("pool1", MaxPool((2, 2), (2, 2)), graph.add("relu1", Relu(), source))
    source = graph.add("conv2", Conv(12, (3, 3), (1, 1), around(1), bias=True), source)
    source = graph.add("pool2", AveragePool((2, 2), (2, 2)), graph.add("relu2", Relu(), source))
    source = graph.add("hidden", Dense(32), graph.add("flat", Flatten(), source))
    return graph.lose(graph.add("logits", Dense(classes), graph.add("hidden_relu", Relu(), source)))


def dropping_net(*, classes: int = CLASSES) -> Graph:
    """Dropout in the two places where it is used: on maps and before the last layer."""
    graph = Graph()
    source = graph.add("input", Input((12, 12, 3)))
    source = graph.add("conv_bn", NORM, graph.add("conv", Conv(16, (3, 3), padding=around(1)), source))
    source = graph.add("pool", MaxPool((2, 2), (2, 2)), graph.add("relu", Relu(), source))
    source = graph.add("flat", Flatten(), graph.add("map_dropout", Dropout(0.2), source))
    source = graph.add("hidden_relu", Relu(), graph.add("hidden", Dense(128), source))
    return graph.lose(graph.add("logits", Dense(classes), graph.add("dropout", Dropout(0.5), source)))


@dataclass(frozen=True)
class Setting:
    """A network with its recipe, on so many devices, with their shares of a batch."""

    name: str
    workload: Workload
    devices: int = 1
    shares: tuple[int, ...] = (16,)
    mistakes: str = ""  # what the names of its mistakes begin with
    dropping: bool = False  # the question is its dropout, and not the rest of it

    @cached_property
    def graph(self) -> Graph:
        return self.workload.graph()


def made(name: str, build: Callable[..., Graph], recipe: Recipe, classes: int = CLASSES) -> Workload:
    return Workload(
        name=name,
        network=name,
        classes=classes,
        recipe=recipe,
        batch_size=16,
        epochs=1,
        images_per_epoch=1000,
        origin="made for these mutants",
        build=build,
    )


def every(*, classes: int = CLASSES) -> Graph:
    return every_layer()


WORKLOADS = (
    made("every-layer", every, DECAYED),
    made("blocks", blocks, NESTEROV),
    made("plain", plain_net, PLAIN),
    made("resnet8", resnet8, known_workload("cifar10-resnet20").recipe, 10),
    known_workload("cifar10-conv"),
    known_workload("cifar10-resnet20"),
)


def settings() -> dict[str, Setting]:
    alone = {workload.name: Setting(workload.name, workload) for workload in WORKLOADS}
    blocks_workload = next(workload for workload in WORKLOADS if workload.name == "blocks")
    dropping_workload = made("dropping", dropping_net, DECAYED)
    return {
        **alone,
        "dropping": Setting("dropping", dropping_workload, dropping=True),
        "blocks 8:8": Setting("blocks 8:8", blocks_workload, 2, (8, 8), "devices"),
        "blocks 8:4": Setting("blocks 8:4", blocks_workload, 2, (8, 4), "devices"),
    }
