"""The small CIFAR-10 network of the Neon against MXNet comparison, in the form of each program.

Neon: NervanaSystems/neon, examples/cifar10_conv.py, v1.2.2 (February 2016). Its MXNet port is a public network file
that calls itself the equivalent of that example; the driver it ran under was never published.
"""

from paceline_worker.graph import BatchNorm, Conv, Dense, Flatten, Graph, Init, Input, MaxPool, Relu

# Neon: Uniform(-0.1, 0.1) for all weights. The port gets the same, so that the two differ in their layers alone.
INIT = Init("uniform", 0.1)

# Neon's BatchNorm defaults: rho 0.9, eps 1e-3, and running values that are allocated as zeros, the variance too.
NEON_NORM = BatchNorm(epsilon=1e-3, decay=0.9, first_running_variance=0.0)

# MXNet's BatchNorm defaults: eps 1e-3, momentum 0.9, fix_gamma on; the running variance starts at 1.
MXNET_NORM = BatchNorm(epsilon=1e-3, decay=0.9, trained_gamma=False)


def neon_form(*, classes: int = 10) -> Graph:
    """Two convolutions of 5x5 and two dense layers; no biases anywhere, not even before the softmax."""
    graph = Graph()
    source = feature_maps(graph, NEON_NORM, bias=False)
    source = graph.add("dense1", Dense(500, bias=False, init=INIT), source)
    source = graph.add("dense1_bn", NEON_NORM, source)
    source = graph.add("dense1_relu", Relu(), source)
    return graph.lose(graph.add("dense2", Dense(classes, bias=False, init=INIT), source))


def mxnet_form(*, classes: int = 10) -> Graph:
    """The port as it was: biases, gamma fixed, and no ReLU after the 500 units.

    It builds that ReLU on the wrong tensor and never uses it, so we leave it out.
    """
    graph = Graph()
    source = feature_maps(graph, MXNET_NORM, bias=True)
    source = graph.add("dense1", Dense(500, init=INIT), source)
    source = graph.add("dense1_bn", MXNET_NORM, source)
    return graph.lose(graph.add("dense2", Dense(classes, init=INIT), source))


def feature_maps(graph: Graph, norm: BatchNorm, *, bias: bool) -> str:
    """Two rounds of convolution without padding, normalisation, ReLU and halving: 32 -> 28 -> 14 -> 10 -> 5."""
    source = graph.add("input", Input((32, 32, 3)))
    for index, channels in enumerate((16, 32), start=1):  # Conv((5, 5, 16)) and Conv((5, 5, 32)) of the example
        source = graph.add(f"conv{index}", Conv(channels, (5, 5), bias=bias, init=INIT), source)
        source = graph.add(f"conv{index}_bn", norm, source)
        source = graph.add(f"conv{index}_relu", Relu(), source)
        source = graph.add(f"pool{index}", MaxPool((2, 2), (2, 2)), source)
    return graph.add("flatten", Flatten(), source)
