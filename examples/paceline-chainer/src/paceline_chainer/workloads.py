"""A network small enough for a first try, and how it is trained."""

from paceline.catalog.workloads.definition import Workload
from paceline_worker.graph import BatchNorm, Conv, Dense, GlobalPool, Graph, Input, MaxPool, Relu
from paceline_worker.protocol import Recipe


def tiny(*, classes: int = 10) -> Graph:
    """Two convolutions of 3x3, each with normalisation, ReLU and halving, and one dense layer."""
    graph = Graph()
    source = graph.add("images", Input((32, 32, 3)))
    for index, channels in enumerate((16, 32), start=1):
        source = graph.add(f"conv{index}", Conv(channels, (3, 3), padding=(1, 1, 1, 1)), source)
        source = graph.add(f"norm{index}", BatchNorm(epsilon=1e-5, decay=0.9), source)
        source = graph.add(f"relu{index}", Relu(), source)
        source = graph.add(f"pool{index}", MaxPool((2, 2), (2, 2)), source)
    source = graph.add("mean", GlobalPool(), source)
    return graph.lose(graph.add("logits", Dense(classes), source))


TINY = Workload(
    name="cifar10-tiny",
    network="cifar10-tiny",
    build=tiny,
    classes=10,
    recipe=Recipe(learning_rate=0.01, momentum=0.9, weight_decay=1e-4),
    batch_size=64,
    epochs=1,
    images_per_epoch=50_000,  # training part of CIFAR-10
    origin="made for this example; no published program trains it",
)
