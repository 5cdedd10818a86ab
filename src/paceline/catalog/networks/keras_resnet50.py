"""ResNet-50 with pre-activation on 32x32 images, as the Keras profiling runs trained it.

Program: sandeep-krishnamurthy/keras-mxnet-benchmarks, keras1.2/test_cifar_resnet.py (July 2017, Keras 1.2.2), which
takes its network from the public keras-resnet builder: the ImageNet layout, put on CIFAR-10 without resizing. On its
MXNet backend Keras lost two settings (decay became 0.9, gamma stayed 1); here is what the program asked for.
"""

from paceline.catalog.networks.blocks import Layers, Unit, residual_stages
from paceline_worker.graph import BatchNorm, Dense, GlobalPool, Graph, Init, Input, MaxPool, same_padding

NORM = BatchNorm(epsilon=1e-3, decay=0.99)  # defaults of Keras 1.2.2
INIT = Init("he_normal_fan_in")  # init="he_normal" for convolutions and the dense layer
DEPTHS = (3, 4, 6, 3)  # He et al. 2015, table 1, column "50-layer"
WIDTHS = (64, 128, 256, 512)  # the inner ones of the same column; a unit gives four times as many channels


def build(*, classes: int = 10) -> Graph:
    """7x7 stem, pool without padding (16 -> 7), four stages, and an average over what is left: one pixel."""
    graph = Graph()
    layers = Layers(graph, NORM, INIT, bias=True)  # Keras 1 gives every convolution a bias
    source = graph.add("input", Input((32, 32, 3)))
    padding = same_padding((32, 32), (7, 7), (2, 2))  # border_mode="same"
    source = layers.norm_relu("stem", layers.conv("stem", source, 64, 7, 2, padding))
    source = graph.add("stem_pool", MaxPool((3, 3), (2, 2)), source)  # Keras 1 pools without padding by default
    source = residual_stages(layers, source, unit_of_builder, DEPTHS, WIDTHS)
    source = graph.add("pool", GlobalPool(), layers.norm_relu("last", source))
    return graph.lose(graph.add("head", Dense(classes, init=INIT), source))


def unit_of_builder(layers: Layers, source: str, unit: Unit) -> str:
    """Bottleneck with the stride on its first 1x1 and a shortcut from the raw, not the activated input."""
    opens_network = unit.first and unit.stride == 1  # the stem has just normalised and activated for it
    ready = source if opens_network else layers.norm_relu(f"{unit.name}_a", source)
    inner = layers.conv(f"{unit.name}_a", ready, unit.width, 1, unit.stride)
    inner = layers.conv(f"{unit.name}_b", layers.norm_relu(f"{unit.name}_b", inner), unit.width, 3)
    inner = layers.conv(f"{unit.name}_c", layers.norm_relu(f"{unit.name}_c", inner), 4 * unit.width, 1)
    if unit.first:
        source = layers.conv(f"{unit.name}_shortcut", source, 4 * unit.width, 1, unit.stride)
    return layers.add(unit.name, inner, source)
