"""A graph of neon's layers, run forwards and backwards; neon's own containers know chains and simple branches only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
from neon.layers import BatchNorm, Bias, Convolution, Linear, Pooling, SkipNode
from neon.layers.layer import Layer
from neon.transforms import CrossEntropyMulti, Softmax

from paceline_worker import graph as g
from paceline_worker.frameworks.neon import builder
from paceline_worker.frameworks.neon.builder import Step, Tensor

# Layers that can add to a gradient instead of overwriting it.
ADDING = (Convolution, Linear, Pooling, SkipNode)
# Layers that multiply their last output by zero and add to it. Zero times infinity is no number, for ever.
REMEMBERING = (BatchNorm, Pooling, SkipNode)
Watch = Callable[[str, Tensor], None]


@dataclass
class Buffer:
    tensor: Tensor
    users: int = 0


@dataclass(frozen=True)
class Slope:
    """Gradient of a layer's output: all or a part of a buffer."""

    tensor: Tensor
    buffer: Buffer


class Slopes:
    """Gradients live shortly, so they take turns in a few buffers, as in neon's own containers."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.buffers: List[Buffer] = []

    def take(self, layer: Layer) -> Slope:
        """Room for the gradient of this layer's output, in the smallest free buffer that is large enough."""
        shape = (int(np.prod(layer.out_shape)), self._backend.bsz)
        free = [buffer for buffer in self.buffers if not buffer.users and buffer.tensor.size >= shape[0] * shape[1]]
        if not free:
            free = [Buffer(self._backend.zeros(shape))]
            self.buffers += free
        smallest = min(free, key=lambda buffer: int(buffer.tensor.size))
        return self.share(smallest, smallest.tensor.share(shape))

    def share(self, buffer: Buffer, tensor: Tensor) -> Slope:
        buffer.users += 1
        return Slope(tensor, buffer)

    def drop(self, slope: Slope) -> None:
        slope.buffer.users -= 1


@dataclass
class Move:
    """One layer's backward pass, and the gradients that it does not bring to their place by itself."""

    layer: Optional[Layer]
    error: Tensor
    options: Dict[str, float] = field(default_factory=dict)
    copied: List[Tuple[Tensor, Tensor]] = field(default_factory=list)
    added: List[Tuple[Tensor, Tensor]] = field(default_factory=list)

    def run(self) -> None:
        if self.layer is not None:
            self.layer.bprop(self.error, **self.options)
        for target, part in self.copied:
            target[:] = part
        for target, part in self.added:
            target[:] = target + part


@dataclass(frozen=True)
class Head:
    """One of the outputs that the loss is taken from."""

    logits: str
    weight: float
    cost: Any
    chances: Tensor
    slope: Tensor


class Network:
    values: Dict[str, Tensor]  # what each layer gave; an activation overwrites its input

    def __init__(self, backend: Any, graph: g.Graph) -> None:
        self._backend, self._input = backend, graph.input.name
        self.steps = builder.steps(graph)
        self._layers = {step.name: step.layer for step in self.steps}
        self._trained = {self._input: False}  # whether there are weights on the way to this layer's output
        for step in self.steps:
            below = any(self._trained[source] for source in step.sources)
            self._trained[step.name] = below or bool(step.layer.has_params)
        self._softmax, self._costs = Softmax(), backend.iobuf(1)
        self._slopes = Slopes(backend)
        self._plan_backward(graph.losses)

    def forward(self, images: Tensor, *, training: bool, watch: Optional[Watch] = None) -> None:
        """Compute all layers; `watch` sees each output before the next layer may overwrite it."""
        self.values = {self._input: images}
        for step in self.steps:
            inputs = [self.values[source] for source in step.sources]
            joins = isinstance(step.layer, builder.JOINING)
            output = step.layer.fprop(inputs if joins else inputs[0], inference=not training)
            self.values[step.name] = output
            if watch is not None:
                watch(step.name, output)

    def backward(self, labels: Tensor) -> Tensor:
        """Compute all gradients, summed over the batch as neon does; return the mean loss, still on the device."""
        loss = self._backend.zeros((1, 1))
        for head in self._heads:
            head.chances[:] = self._softmax(self.values[head.logits])
            head.slope[:] = head.cost.bprop(head.chances, labels)  # of the logits: it takes softmax for granted
            self._costs[:] = head.cost(head.chances, labels)
            loss[:] = loss + self._backend.mean(self._costs, axis=1) * head.weight
        for move in self._moves:
            move.run()
        return loss

    def forget(self) -> None:
        """Clear what a diverged training could leave behind: see REMEMBERING; pooling does so with gradients too."""
        for step in self.steps:
            if isinstance(step.layer, REMEMBERING):
                step.layer.outputs.fill(0)
        for buffer in self._slopes.buffers:
            buffer.tensor.fill(0)

    def _plan_backward(self, losses: Dict[str, float]) -> None:
        """Give each layer the buffers that its error comes from and goes to; they stay the same for all steps."""
        self._readers = Counter([*(source for step in self.steps for source in step.sources), *losses])
        self._open = {logits: self._slopes.take(self._layers[logits]) for logits in losses}  # written, not yet read
        self._heads = [self._head(logits, weight) for logits, weight in losses.items()]
        self._moves: List[Move] = []
        for step in reversed(self.steps):
            if step.name in self._open:
                slope = self._open[step.name]
                join = isinstance(step.layer, (Bias, *builder.JOINING))
                self._moves.append(self._hand_on(step, slope) if join else self._pass_back(step, slope))
                self._slopes.drop(slope)

    def _head(self, logits: str, weight: float) -> Head:
        slope = self._open[logits].tensor
        cost = CrossEntropyMulti(scale=weight)
        return Head(logits, weight, cost, self._backend.zeros(slope.shape), slope)

    def _hand_on(self, step: Step, slope: Slope) -> Move:
        """Of a sum or join: sources that nobody else reads share its gradient, others get a copy or add it."""
        bias = isinstance(step.layer, Bias)
        move = Move(step.layer if bias else None, slope.tensor)
        parts = [slope.tensor] if bias else step.layer.parts(slope.tensor)
        for source, part in zip(step.sources, parts):
            if source in self._open:
                move.added.append((self._open[source].tensor, part))
            elif self._trained[source] and self._readers[source] == 1:
                self._open[source] = self._slopes.share(slope.buffer, part)
            elif self._trained[source]:
                self._open[source] = self._slopes.take(self._layers[source])
                move.copied.append((self._open[source].tensor, part))
        return move

    def _pass_back(self, step: Step, slope: Slope) -> Move:
        (source,), layer = step.sources, step.layer
        move = Move(layer, slope.tensor)
        layer.set_deltas(None)  # where pooling makes room for the places of its maxima
        if not self._trained[source]:
            layer.deltas = None  # nobody needs a gradient of the images, but batch normalisation always computes it
            if isinstance(layer, BatchNorm):
                layer.deltas = self._backend.iobuf(layer.in_shape)
        elif source not in self._open:
            self._open[source] = self._slopes.take(self._layers[source])
            layer.deltas = self._open[source].tensor
        elif isinstance(layer, ADDING):
            layer.deltas, move.options = self._open[source].tensor, {"beta": 1.0}
        else:
            scratch = self._slopes.take(self._layers[source])
            layer.deltas = scratch.tensor
            move.added.append((self._open[source].tensor, scratch.tensor))
            self._slopes.drop(scratch)
        return move
