"""Graph to Keras 3: its own layers in a functional model, in the layout that the backend likes best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import keras
from keras import layers

from paceline_worker import graph as g
from paceline_worker.protocol import Recipe
from paceline_worker.weights import Array

NO_PADDING = (0, 0, 0, 0)
Make = Callable[[Any, "Site", List[Any]], Any]  # an op, where it stands, its inputs: its output


@dataclass(frozen=True)
class Site:
    """Where a layer stands: its name, what comes in, how maps lie in memory, and what is decayed."""

    name: str
    source: g.Shape
    layout: str  # channels_last or channels_first
    recipe: Recipe

    @property
    def channel_axis(self) -> int:
        return 1 if self.layout == "channels_first" and len(self.source) == 3 else -1

    def regularizer(self, role: str) -> Any:
        """Keras decays weights apart from the gradient; a loss of decay / 2 * sum(w**2) puts decay * w into it."""
        decay = self.recipe.weight_decay if role in self.recipe.decayed else 0.0
        return keras.regularizers.L2(decay / 2) if decay else None


def padded(op: Any, site: Site, images: Any, filler: float) -> Tuple[str, Any]:
    """Keras' word for the padding, and the images; they are padded here where there is no word for it."""
    if op.padding == NO_PADDING:
        return "valid", images
    if op.padding == g.same_padding(site.source, op.kernel, op.stride):
        return "same", images
    return "valid", pad(op.padding, site, images, filler)


def pad(padding: g.Padding, site: Site, images: Any, filler: float) -> Any:
    top, bottom, left, right = padding
    sides = ((top, bottom), (left, right))
    if filler == 0.0:
        return layers.ZeroPadding2D(sides, data_format=site.layout)(images)
    channels_first = site.layout == "channels_first"
    every = ((0, 0), (0, 0), *sides) if channels_first else ((0, 0), *sides, (0, 0))
    return keras.ops.pad(images, every, constant_values=filler)


def conv(op: g.Conv, site: Site, inputs: List[Any]) -> Any:
    padding, images = padded(op, site, inputs[0], 0.0)
    layer = layers.Conv2D(
        op.channels,
        op.kernel,
        op.stride,
        padding,
        data_format=site.layout,
        use_bias=op.bias,
        kernel_regularizer=site.regularizer("conv.kernel"),
        bias_regularizer=site.regularizer("bias"),
        name=site.name,
    )
    return layer(images)


def dense(op: g.Dense, site: Site, inputs: List[Any]) -> Any:
    layer = layers.Dense(
        op.features,
        use_bias=op.bias,
        kernel_regularizer=site.regularizer("dense.kernel"),
        bias_regularizer=site.regularizer("bias"),
        name=site.name,
    )
    return layer(inputs[0])


def batch_norm(op: g.BatchNorm, site: Site, inputs: List[Any]) -> Any:
    layer = layers.BatchNormalization(
        site.channel_axis,
        momentum=op.decay,
        epsilon=op.epsilon,
        scale=op.trained_gamma,  # one that is not trained stays 1, and multiplying by it can be left out
        gamma_regularizer=site.regularizer("gamma"),
        beta_regularizer=site.regularizer("beta"),
        name=site.name,
    )
    return layer(inputs[0])


def max_pool(op: g.MaxPool, site: Site, inputs: List[Any]) -> Any:
    padding, images = padded(op, site, inputs[0], float("-inf"))
    return layers.MaxPooling2D(op.kernel, op.stride, padding, site.layout)(images)


def average_pool(op: g.AveragePool, site: Site, inputs: List[Any]) -> Any:
    """Keras' "same" leaves padding out of the divisor; padding that counts is a layer of its own."""
    top, bottom, left, right = op.padding
    if op.count_padding or op.padding == NO_PADDING:
        images = pad(op.padding, site, inputs[0], 0.0) if any(op.padding) else inputs[0]
        return layers.AveragePooling2D(op.kernel, op.stride, "valid", site.layout)(images)
    if op.padding != g.same_padding(site.source, op.kernel, op.stride) or (top, left) != (bottom, right):
        raise NotImplementedError("Keras' backends disagree on such padding around an average pool.")
    return layers.AveragePooling2D(op.kernel, op.stride, "same", site.layout)(inputs[0])


def images_input(op: g.Input, site: Site, inputs: List[Any]) -> Any:
    channels_first = site.layout == "channels_first" and len(op.size) == 3
    return keras.Input((op.size[2], *op.size[:2]) if channels_first else op.size, name=site.name)


LAYERS: Dict[type, Make] = {
    g.Input: images_input,
    g.Conv: conv,
    g.Dense: dense,
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, site, inputs: layers.ReLU()(inputs[0]),
    g.Tanh: lambda op, site, inputs: layers.Activation("tanh")(inputs[0]),
    g.Dropout: lambda op, site, inputs: layers.Dropout(op.rate)(inputs[0]),
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
    g.GlobalPool: lambda op, site, inputs: layers.GlobalAveragePooling2D(site.layout)(inputs[0]),
    g.Flatten: lambda op, site, inputs: layers.Flatten(site.layout)(inputs[0]),  # channels last in either layout
    g.Add: lambda op, site, inputs: layers.Add()(inputs),
    g.Concat: lambda op, site, inputs: layers.Concatenate(site.channel_axis)(inputs),
}


def build(graph: g.Graph, table: Dict[type, Make], layout: str, recipe: Recipe) -> Dict[str, Any]:
    """What every layer gives, as Keras' symbolic tensors."""
    values: Dict[str, Any] = {}
    for node in graph.nodes.values():
        site = Site(safe(node.name), graph.source(node), layout, recipe)
        values[node.name] = table[type(node.op)](node.op, site, [values[name] for name in node.inputs])
    return values


def safe(name: str) -> str:
    """A layer's name as Keras takes it."""
    return name.replace("/", "_")


NAMES = {"mean": "moving_mean", "variance": "moving_variance"}


def variables(graph: g.Graph, model: Any) -> Dict[str, Any]:
    """The model's own variables under their neutral names; a gamma that is not trained has none."""
    found: Dict[str, Any] = {}
    for node in graph.nodes.values():
        for parameter in node.op.parameters(graph.source(node)):
            if parameter.kind != "frozen":
                layer = model.get_layer(safe(node.name))
                found[f"{node.name}.{parameter.name}"] = getattr(layer, NAMES.get(parameter.name, parameter.name))
    return found


def channels_last(array: Array, layout: str) -> Array:
    return array.transpose(0, 2, 3, 1) if layout == "channels_first" and array.ndim == 4 else array
