"""Graph to PyTorch: native layers in straight-line code, as if the forward function had been written by hand."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from typing import Any, Callable, Dict

import numpy as np
import torch
from torch import fx, nn

from paceline_worker import graph as g
from paceline_worker.weights import Array, Layout, channels_last


def even(padding: g.Padding) -> bool:
    top, bottom, left, right = padding
    return bool(top == bottom and left == right)


def padded(layer: Callable[..., nn.Module], padding: g.Padding, value: float) -> nn.Module:
    """A windowed layer with its own padding where both sides are equal, else behind a padding layer."""
    top, bottom, left, right = padding
    if even(padding):
        return layer(padding=(top, left))
    return nn.Sequential(nn.ConstantPad2d((left, right, top, bottom), value), layer(padding=0))


def conv(op: g.Conv, source: g.Shape) -> nn.Module:
    def layer(padding: Any) -> nn.Module:
        return nn.Conv2d(source[-1], op.channels, op.kernel, op.stride, padding, bias=op.bias)

    return padded(layer, op.padding, 0.0)


def max_pool(op: g.MaxPool, source: g.Shape) -> nn.Module:
    return padded(lambda padding: nn.MaxPool2d(op.kernel, op.stride, padding), op.padding, float("-inf"))


def average_pool(op: g.AveragePool, source: g.Shape) -> nn.Module:
    if not even(op.padding) and not op.count_padding:
        raise NotImplementedError("PyTorch cannot leave uneven padding out of an average pool's divisor.")

    def layer(padding: Any) -> nn.Module:
        return nn.AvgPool2d(op.kernel, op.stride, padding, count_include_pad=op.count_padding)

    return padded(layer, op.padding, 0.0)


class BiasedBatchNorm(nn.BatchNorm2d):
    """PyTorch's layer keeps an unbiased running variance; this one takes the factor n / (n - 1) out again."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        assert self.running_var is not None and self.momentum is not None
        if not self.training:
            return super().forward(input)
        before = self.running_var.clone()
        output = super().forward(input)
        count = input.numel() / input.shape[1]
        excess = (self.running_var - (1 - self.momentum) * before) / count
        self.running_var.data.sub_(excess)  # behind autograd's back, which holds on to this tensor but reads it no more
        return output

    def _check_input_dim(self, input: torch.Tensor) -> None:
        """Maps and flat features alike."""


def batch_norm(op: g.BatchNorm, source: g.Shape) -> nn.Module:
    native = nn.BatchNorm2d if len(source) == 3 else nn.BatchNorm1d
    layer = native if op.unbiased_running_variance else BiasedBatchNorm
    norm = layer(source[-1], eps=op.epsilon, momentum=1 - op.decay)
    norm.weight.requires_grad_(op.trained_gamma)
    return norm


def flatten(images: torch.Tensor) -> torch.Tensor:
    return images.permute(0, 2, 3, 1).flatten(1)  # the graph flattens channels last; in that memory format it is a view


def global_pool(images: torch.Tensor) -> torch.Tensor:
    return images.mean((2, 3))


LAYERS: Dict[type, Callable[[Any, g.Shape], nn.Module]] = {
    g.Conv: conv,
    g.Dense: lambda op, source: nn.Linear(source[0], op.features, bias=op.bias),
    g.BatchNorm: batch_norm,
    g.Relu: lambda op, source: nn.ReLU(),
    g.Tanh: lambda op, source: nn.Tanh(),
    g.Dropout: lambda op, source: nn.Dropout(op.rate),
    g.MaxPool: max_pool,
    g.AveragePool: average_pool,
}

FUNCTIONS: Dict[type, Callable[[fx.Graph, list[fx.Node]], fx.Node]] = {
    g.GlobalPool: lambda code, inputs: code.call_function(global_pool, tuple(inputs)),
    g.Flatten: lambda code, inputs: code.call_function(flatten, tuple(inputs)),
    g.Add: lambda code, inputs: functools.reduce(lambda a, b: code.call_function(operator.add, (a, b)), inputs),
    g.Concat: lambda code, inputs: code.call_function(torch.cat, (inputs, 1)),
    g.Input: lambda code, inputs: code.placeholder("images"),
}


def build(graph: g.Graph) -> fx.GraphModule:
    """A module that maps images to the logits of each loss, in the order of `graph.losses`."""
    modules, code = nn.Module(), fx.Graph()
    values: Dict[str, fx.Node] = {}
    for node in graph.nodes.values():
        inputs = [values[name] for name in node.inputs]
        if type(node.op) in FUNCTIONS:
            values[node.name] = FUNCTIONS[type(node.op)](code, inputs)
        else:
            modules.add_module(safe(node.name), LAYERS[type(node.op)](node.op, graph.source(node)))
            values[node.name] = code.call_module(safe(node.name), tuple(inputs))
        values[node.name].meta["layer"] = node.name
    code.output(tuple(values[name] for name in graph.losses))
    work_in_place(graph, modules, values)
    return fx.GraphModule(modules, code)


class Recorder(fx.Interpreter):
    """Runs the model layer by layer and keeps a copy of what each gives, before the next may overwrite it."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.found: Dict[str, Array] = {}

    def run_node(self, n: fx.Node) -> Any:
        output = super().run_node(n)
        if "layer" in n.meta:
            self.found[n.meta["layer"]] = np.array(channels_last(output.detach().float().cpu().numpy()))
        return output


def layer_outputs(model: fx.GraphModule, images: torch.Tensor) -> Dict[str, Array]:
    recorder = Recorder(model)
    recorder.run(images)
    return recorder.found


OVERWRITABLE = (g.BatchNorm, g.Conv, g.Dense, g.Add)  # none of them needs its output to compute gradients


def work_in_place(graph: g.Graph, modules: nn.Module, values: Dict[str, fx.Node]) -> None:
    """Let ReLUs and sums overwrite their first input where nobody else reads it: less memory traffic."""
    readers = Counter(name for node in graph.nodes.values() for name in node.inputs)
    for node in graph.nodes.values():
        first = node.inputs[0] if node.inputs else ""
        if readers[first] != 1 or not isinstance(graph.nodes[first].op, OVERWRITABLE):
            continue
        if isinstance(node.op, g.Relu):
            getattr(modules, safe(node.name)).inplace = True
        elif isinstance(node.op, g.Add) and len(node.inputs) == 2:
            values[node.name].target = operator.iadd


def safe(name: str) -> str:
    """A layer's name as an attribute."""
    return name.replace(".", "_").replace("-", "_").replace("/", "_")


LAYOUT = Layout({"conv.kernel": (3, 2, 0, 1), "dense.kernel": (1, 0)})
NAMES = {"kernel": "weight", "gamma": "weight", "beta": "bias", "mean": "running_mean", "variance": "running_var"}


def tensors(graph: g.Graph, model: nn.Module) -> Dict[str, torch.Tensor]:
    """The model's own tensors under their neutral names."""
    found = {}
    for node in graph.nodes.values():
        for parameter in node.op.parameters(graph.source(node)):
            layer = getattr(model, safe(node.name))
            layer = layer[-1] if isinstance(layer, nn.Sequential) else layer
            found[f"{node.name}.{parameter.name}"] = getattr(layer, NAMES.get(parameter.name, parameter.name))
    return found


def to_neutral(role: str, tensor: torch.Tensor) -> Array:
    return np.array(LAYOUT.to_neutral(role, tensor.detach().float().cpu().numpy()))  # training goes on below


def from_neutral(role: str, array: Array) -> torch.Tensor:
    return torch.from_numpy(LAYOUT.from_neutral(role, array))
