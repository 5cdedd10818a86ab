"""ResNet-50 for images of 224x224, in the three forms that go by that name.

v1: He et al. 2015, "Deep Residual Learning for Image Recognition"; a stage's stride sits on its first 1x1.
v1.5: torchvision's resnet50; the stride sits on the 3x3. Same parameters, 6 % more multiplications.
v2: apache/mxnet 0.11.0, example/image-classification/symbols/resnet.py; pre-activation, stride on the 3x3.
"""

import math
from functools import partial

from paceline.catalog.networks.blocks import Layers, Unit, around, residual_stages
from paceline.catalog.networks.cifar_resnet import bottleneck_unit, close_network, open_network
from paceline_worker.graph import BatchNorm, Dense, GlobalPool, Graph, Init, Input, MaxPool

SIZE = 224  # crop of He et al. 2015, section 3.4
DEPTHS = (3, 4, 6, 3)  # He et al. 2015, table 1, column "50-layer"
WIDTHS = (64, 128, 256, 512)  # the inner ones of the same column
OUTER_WIDTHS = (256, 512, 1024, 2048)  # the outer ones: a unit gives four times its inner width

NORM = BatchNorm(epsilon=1e-5, decay=0.9)  # torchvision (momentum 0.1) and tensorpack's resnet-multigpu.py alike
INIT = Init("he_normal_fan_out")  # torchvision: kaiming_normal_, mode "fan_out"; tensorpack scales by fan-out too
# torchvision leaves the dense layer to PyTorch: uniform within 1 / sqrt(inputs). Our bias starts at 0, as everywhere.
HEAD_INIT = Init("uniform", 1 / math.sqrt(2048))
POOL = MaxPool((3, 3), (2, 2), around(1))  # tensorpack's SAME would put its one pixel of padding behind instead


def version_2(*, classes: int = 1000) -> Graph:
    """The units and the normalisation of cifar_resnet.py: one function of MXNet's example builds both."""
    layers, source = open_network(SIZE)
    source = layers.norm_relu("stem", layers.conv("stem", source, 64, 7, 2))
    source = layers.graph.add("stem_pool", POOL, source)
    source = residual_stages(layers, source, bottleneck_unit, DEPTHS, OUTER_WIDTHS)
    return close_network(layers, source, classes)


def post_activation(*, stride_on_3x3: bool, classes: int = 1000) -> Graph:
    """Version 1 and, with the stride on the 3x3, version 1.5."""
    graph = Graph()
    layers = Layers(graph, NORM, INIT)
    source = graph.add("input", Input((SIZE, SIZE, 3)))
    source = layers.norm_relu("stem", layers.conv("stem", source, 64, 7, 2))
    source = graph.add("stem_pool", POOL, source)
    source = residual_stages(layers, source, partial(original_unit, stride_on_3x3=stride_on_3x3), DEPTHS, WIDTHS)
    source = graph.add("pool", GlobalPool(), source)
    return graph.lose(graph.add("head", Dense(classes, init=HEAD_INIT), source))


def original_unit(layers: Layers, source: str, unit: Unit, *, stride_on_3x3: bool) -> str:
    """Bottleneck that activates last; only the place of the stride tells v1 from v1.5."""
    first_stride, second_stride = (1, unit.stride) if stride_on_3x3 else (unit.stride, 1)
    inner = layers.conv(f"{unit.name}_a", source, unit.width, 1, first_stride)
    inner = layers.conv(f"{unit.name}_b", layers.norm_relu(f"{unit.name}_a", inner), unit.width, 3, second_stride)
    inner = layers.conv(f"{unit.name}_c", layers.norm_relu(f"{unit.name}_b", inner), 4 * unit.width, 1)
    inner = layers.graph.add(f"{unit.name}_c_bn", layers.norm, inner)
    if unit.first:
        source = layers.conv(f"{unit.name}_shortcut", source, 4 * unit.width, 1, unit.stride)
        source = layers.graph.add(f"{unit.name}_shortcut_bn", layers.norm, source)
    return layers.relu(unit.name, layers.add(unit.name, inner, source))
