"""Graph to TensorFlow: native ops on channels-last tensors, in the forms for which it has its oneDNN kernels."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import tensorflow as tf

from paceline_worker import graph as g

Tensors = Dict[str, Any]


def is_same(op: Any, images: Any) -> bool:
    return bool(g.same_padding(images.shape[1:3], op.kernel, op.stride) == op.padding)


def padded(op: Any, images: Any, filler: float) -> Any:
    """For a VALID window: TensorFlow's explicit padding made a max pool nine times slower on the CPU (measured)."""
    top, bottom, left, right = op.padding
    if not any(op.padding):
        return images
    return tf.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=filler)


def windowed(op: Any, images: Any, filler: float, layer: Callable[[Any, str], Any]) -> Any:
    """A layer with a sliding window, under the rule that gives the graph's padding."""
    if any(op.padding) and is_same(op, images):
        return layer(images, "SAME")
    return layer(padded(op, images, filler), "VALID")


def conv(op: g.Conv, own: Tensors, images: Any, training: bool) -> Any:
    output = windowed(op, images, 0.0, lambda source, rule: tf.nn.conv2d(source, own["kernel"], op.stride, rule))
    return tf.nn.bias_add(output, own["bias"]) if op.bias else output


def dense(op: g.Dense, own: Tensors, features: Any, training: bool) -> Any:
    output = tf.matmul(features, own["kernel"])
    return tf.nn.bias_add(output, own["bias"]) if op.bias else output


def batch_norm(op: g.BatchNorm, own: Tensors, values: Any, training: bool) -> Any:
    """Normalise; the kernel moves the running statistics too, and they are left in `own`.

    The raw op, because tf.compat.v1.nn.fused_batch_norm raises an epsilon of 1e-5 to 1.001e-5.
    """
    maps = values if len(values.shape) == 4 else values[:, None, None, :]
    before = own["variance"]
    result = tf.raw_ops.FusedBatchNormV3(
        x=maps,
        scale=own["gamma"],
        offset=own["beta"],
        mean=own["mean"],
        variance=before,
        epsilon=op.epsilon,
        exponential_avg_factor=1 - op.decay,
        is_training=training,
    )
    own["mean"], own["variance"] = result.batch_mean, result.batch_variance
    if training and not op.unbiased_running_variance:  # the kernel has put n / (n - 1) into the batch's part
        count = values.shape.num_elements() // values.shape[-1]
        own["variance"] -= (own["variance"] - op.decay * before) / count
    return result.y if maps is values else result.y[:, 0, 0, :]


def max_pool(op: g.MaxPool, own: Tensors, images: Any, training: bool) -> Any:
    return windowed(op, images, -np.inf, lambda source, rule: tf.nn.max_pool2d(source, op.kernel, op.stride, rule))


def average_pool(op: g.AveragePool, own: Tensors, images: Any, training: bool) -> Any:
    """TensorFlow divides by the pixels inside the image, so padding that counts is put there first."""
    if not op.count_padding and is_same(op, images):
        return tf.nn.avg_pool2d(images, op.kernel, op.stride, "SAME")
    output = tf.nn.avg_pool2d(padded(op, images, 0.0), op.kernel, op.stride, "VALID")
    return output if op.count_padding else output / inside(op, images)


def inside(op: g.AveragePool, images: Any) -> Any:
    """Which part of each window lies inside the image."""
    ones = tf.ones((1, *images.shape[1:3], 1), images.dtype)
    return tf.nn.avg_pool2d(padded(op, ones, 0.0), op.kernel, op.stride, "VALID")


def dropout(op: g.Dropout, own: Tensors, values: Any, training: bool) -> Any:
    return tf.nn.dropout(values, op.rate) if training else values


LAYERS: Dict[type, Callable[..., Any]] = {
    g.Conv: conv,
    g.Dense: dense,
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, own, values, training: tf.nn.relu(values),
    g.Tanh: lambda op, own, values, training: tf.tanh(values),
    g.Dropout: dropout,
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
    g.GlobalPool: lambda op, own, images, training: tf.reduce_mean(images, (1, 2)),
    g.Flatten: lambda op, own, images, training: tf.reshape(images, (images.shape[0], -1)),
    g.Add: lambda op, own, *rest: sum(rest[1:-1], rest[0]),
    g.Concat: lambda op, own, *rest: tf.concat(rest[:-1], -1),
    g.Input: lambda op, own, images, training: images,
}


def forward(graph: g.Graph, weights: Tensors, images: Any, *, training: bool) -> Tuple[Tensors, Tensors]:
    """What every layer gives, and the running statistics after this batch."""
    values: Tensors = {}
    running: Tensors = {}
    for node in graph.nodes.values():
        names = [parameter.name for parameter in node.op.parameters(graph.source(node))]
        own = {name: weights[f"{node.name}.{name}"] for name in names}
        inputs: List[Any] = [values[name] for name in node.inputs] or [images]
        values[node.name] = LAYERS[type(node.op)](node.op, own, *inputs, training)
        if isinstance(node.op, g.BatchNorm):
            running.update({f"{node.name}.{name}": own[name] for name in ("mean", "variance")})
    return values, running
