"""LeNet for MNIST, as MXNet builds it: apache/mxnet 0.11.0, example/image-classification/symbols/lenet.py."""

from paceline_worker.graph import Conv, Dense, Flatten, Graph, Input, MaxPool, Tanh

# Kernels start as he_normal_fan_in, the graph's default: it is what common/fit.py of the same example sets.


def build(*, classes: int = 10) -> Graph:
    """Two rounds of 5x5 convolution, tanh and pool, then 500 units; biases everywhere."""
    graph = Graph()
    source = graph.add("input", Input((28, 28, 1)))
    for index, channels in enumerate((20, 50), start=1):  # num_filter of the two convolutions
        source = graph.add(f"conv{index}", Conv(channels, (5, 5), bias=True), source)
        source = graph.add(f"conv{index}_tanh", Tanh(), source)
        source = graph.add(f"pool{index}", MaxPool((2, 2), (2, 2)), source)
    source = graph.add("flatten", Flatten(), source)
    source = graph.add("dense1", Dense(500), source)  # num_hidden of the program's fc1
    source = graph.add("dense1_tanh", Tanh(), source)
    return graph.lose(graph.add("dense2", Dense(classes), source))
