"""Three dense layers for MNIST, as MXNet builds them.

Program: apache/mxnet 0.11.0, example/image-classification/symbols/mlp.py.
"""

from paceline_worker.graph import Dense, Flatten, Graph, Input, Relu

# Kernels start as he_normal_fan_in, the graph's default: it is what common/fit.py of the same example sets.


def build(*, classes: int = 10) -> Graph:
    graph = Graph()
    source = graph.add("flatten", Flatten(), graph.add("input", Input((28, 28, 1))))
    for index, features in enumerate((128, 64), start=1):  # num_hidden of the program's fc1 and fc2
        source = graph.add(f"dense{index}", Dense(features), source)
        source = graph.add(f"dense{index}_relu", Relu(), source)
    return graph.lose(graph.add("dense3", Dense(classes), source))
