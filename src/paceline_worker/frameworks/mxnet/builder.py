"""Graph to MXNet: one symbol of native layers, channels first, whose variables bear the neutral names."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import mxnet as mx
import numpy as np

from paceline_worker import graph as g
from paceline_worker.mxnet1.pooling import Symbol, padded, pool
from paceline_worker.weights import Layout

Own = Dict[str, Symbol]  # a layer's variables
IMAGES, LABELS = "images", "labels"


def conv(op: g.Conv, own: Own, images: Symbol) -> Symbol:
    images, padding = padded(op, images, 0.0)
    return mx.sym.Convolution(
        images,
        own["kernel"],
        own.get("bias"),
        no_bias=not op.bias,
        num_filter=op.channels,
        kernel=op.kernel,
        stride=op.stride,
        pad=padding,
    )


def dense(op: g.Dense, own: Own, features: Symbol) -> Symbol:
    return mx.sym.FullyConnected(
        features, own["kernel"], own.get("bias"), no_bias=not op.bias, num_hidden=op.features, flatten=False
    )


def batch_norm(op: g.BatchNorm, own: Own, values: Symbol) -> Symbol:
    return mx.sym.BatchNorm(
        values,
        own["gamma"],
        own["beta"],
        own["mean"],
        own["variance"],
        eps=op.epsilon,
        momentum=op.decay,
        fix_gamma=not op.trained_gamma,
        axis=1,
    )


def flatten(op: g.Flatten, own: Own, images: Symbol) -> Symbol:
    return mx.sym.Flatten(mx.sym.transpose(images, axes=(0, 2, 3, 1)))  # the graph flattens channels last


LAYERS: Dict[type, Callable[..., Symbol]] = {
    g.Conv: conv,
    g.Dense: dense,
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, own, values: mx.sym.Activation(values, act_type="relu"),
    g.Tanh: lambda op, own, values: mx.sym.Activation(values, act_type="tanh"),
    g.Dropout: lambda op, own, values: mx.sym.Dropout(values, p=op.rate),
    g.MaxPool: lambda op, own, images: pool(op, images),
    g.AveragePool: lambda op, own, images: pool(op, images),
    g.GlobalPool: lambda op, own, images: mx.sym.Flatten(
        mx.sym.Pooling(images, pool_type="avg", global_pool=True, kernel=(1, 1))
    ),
    g.Flatten: flatten,
    g.Add: lambda op, own, *inputs: mx.sym.add_n(*inputs),
    g.Concat: lambda op, own, *inputs: mx.sym.concat(*inputs, dim=1),
    g.Input: lambda op, own: mx.sym.Variable(IMAGES),
}


def layers(graph: g.Graph) -> Dict[str, Symbol]:
    """What every layer gives."""
    values: Dict[str, Symbol] = {}
    for node in graph.nodes.values():
        names = [parameter.name for parameter in node.op.parameters(graph.source(node))]
        own = {name: mx.sym.Variable(f"{node.name}.{name}") for name in names}
        values[node.name] = LAYERS[type(node.op)](node.op, own, *(values[name] for name in node.inputs))
    return values


def training(graph: g.Graph, values: Dict[str, Symbol], scale: float) -> Symbol:
    """Two outputs: the loss, which a backward pass starts from with this scale, and the logits of the prediction."""
    labels = mx.sym.Variable(LABELS)
    terms = [
        mx.sym.mean(mx.sym.pick(mx.sym.log_softmax(values[name]), labels)) * -weight
        for name, weight in graph.losses.items()
    ]
    loss = mx.sym.MakeLoss(sum(terms[1:], terms[0]), grad_scale=scale)
    return mx.sym.Group([loss, mx.sym.BlockGrad(values[graph.prediction])])


LAYOUT = Layout({"conv.kernel": (3, 2, 0, 1), "dense.kernel": (1, 0)})


def native_shape(parameter: g.Parameter) -> g.Shape:
    axes = LAYOUT.axes.get(parameter.role, range(len(parameter.shape)))
    return tuple(parameter.shape[axis] for axis in axes)


def spread(array: Any, shares: Tuple[int, ...], contexts: List[Any]) -> List[Any]:
    """A part for each device."""
    ends = np.cumsum(shares)
    return [
        array[int(end - share) : int(end)].as_in_context(context) for share, end, context in zip(shares, ends, contexts)
    ]
