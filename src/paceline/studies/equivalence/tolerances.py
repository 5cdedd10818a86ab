"""What is compared of a framework and the reference, how far each may be off, and where they part first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.store.records.certificate import Divergence
from paceline.studies.equivalence import update_rule
from paceline.studies.equivalence.probing import Arrays
from paceline.studies.equivalence.rounding import longest_way, noise, room, summed
from paceline_worker.graph import Conv, Dense, Graph
from paceline_worker.protocol import Job


class ComparedQuantity(msgspec.Struct, frozen=True):
    """Something that is compared, and how far it may be off."""

    name: str
    meaning: str
    tolerance: float  # of the norm of the difference, relative to the norm of the reference
    backwards: bool = False  # an error shows at the last layer first
    adds_up: bool = False  # the tolerance is that of one layer, and each on the longest way through the network has it
    rounded: bool = False  # in bfloat16 each value is rounded once, and what is beyond that is held to the tolerance
    noise: float = 0.0  # in bfloat16 the tolerance is so much of the noise of the whole network; 0: it stays as it is

    def allowed(self, graph: Graph, precision: str) -> float:
        if precision == "bfloat16" and self.noise:
            return self.noise * noise(graph)
        return self.tolerance * (depth(graph) if self.adds_up else 1)


# Float32 rounds at 6e-8; this is what sums over a deep network leave of that.
QUANTITIES = (
    ComparedQuantity("output", "outputs", 1e-5, rounded=True),
    ComparedQuantity("strained", "outputs on values as small as epsilon", 1e-4, rounded=True),
    ComparedQuantity("gradient", "gradients", 1e-3, backwards=True, noise=1.0),
    # In bfloat16 a mean over 16 values or more.
    ComparedQuantity("statistics", "what a step adds to running statistics", 2e-5, noise=0.25),
    ComparedQuantity("update", "changes of weights in a step", 1e-3, noise=1.0),
    *(ComparedQuantity(name, meaning, 1e-3, noise=1.0) for name, meaning in update_rule.QUANTITIES.items()),
    ComparedQuantity("prediction", "predictions", 1e-5, adds_up=True, noise=1.0),
    ComparedQuantity("losses", "losses", 1e-4, noise=0.5),  # a mean over four images or more
    ComparedQuantity("evaluation", "predictions in evaluation", 1e-3, noise=1.0),
)

FLOAT32_ROUNDING = 2.0**-23
RUNNING = (".mean", ".variance")
END_TO_END = ("prediction/", "losses", "evaluation")
STEPPING = ("update", "statistics", *update_rule.QUANTITIES)  # changes of arrays
LEAST = 1e-3  # of the typical gradient of a layer or of the network: what is smaller counts as zero
Judge = Callable[[Job, Arrays, str], Arrays]  # the reference: what it makes of these outputs, for a task of a probe


def findings_of(arrays: Arrays, truth: Arrays, job: Job, judge: Judge) -> Iterator[Divergence]:
    """From what a framework showed, and what the reference did of the whole network."""
    graph = Graph.from_json(job.graph)
    whole = {name: array for name, array in derived(graph, truth).items() if name.startswith(END_TO_END)}
    expected = {**local_truth(arrays, job, judge), **update_rule.ruled(job, arrays), **whole}
    yield from compare(graph, {**derived(graph, arrays), **update_rule.seen(job, arrays)}, expected, job.precision)


def local_truth(arrays: Arrays, job: Job, judge: Judge) -> Arrays:
    """What each layer should make of what the framework gave before it, in a usual pass and in a strained one."""
    graph = Graph.from_json(job.graph)
    layers = judge(job, outputs_of("output", arrays, graph, job), "probe layers")
    strained = judge(job, outputs_of("strained", arrays, graph, job), "probe strained")
    return {**derived(graph, layers), **strained}


def outputs_of(part: str, arrays: Arrays, graph: Graph, job: Job) -> Arrays:
    """By layer; one that is missing, misshapen or no number is nothing that the next layers could be judged by."""
    shapes = {f"{part}/{node.name}": (job.batch_size, *node.shape) for node in graph.nodes.values()}
    return {
        key.partition("/")[2]: arrays[key]
        for key, shape in shapes.items()
        if key in arrays and arrays[key].shape == shape and np.isfinite(arrays[key]).all()
    }


def derived(graph: Graph, arrays: Arrays) -> Arrays:
    """With what follows from them: the change of each array in the first step, and the predictions."""
    changes = {}
    for key, after in arrays.items():
        part, _, name = key.partition("/")
        before = arrays.get(f"written/{name}")
        if part == "trained" and before is not None and before.shape == after.shape:
            layer = graph.nodes.get(name.rpartition(".")[0])
            if name.endswith(RUNNING) and layer is not None:  # what is kept of before hides how little differs
                changes[f"statistics/{name}"] = after - layer.op.decay * before
            else:
                changes[f"update/{name}"] = after - before
    logits = {name: arrays.get(f"output/{name}") for name in graph.losses}
    return {**arrays, **changes, **{f"prediction/{name}": value for name, value in logits.items() if value is not None}}


def compare(graph: Graph, arrays: Arrays, truth: Arrays, precision: str = "float32") -> Iterator[Divergence]:
    for quantity in QUANTITIES:
        allowed = quantity.allowed(graph, precision)
        differences = differences_of(quantity, graph, (arrays, truth), precision)
        if not differences:
            continue  # statistics of a network without any
        yield finding(quantity.name, allowed, {_place(name): value for name, value in differences.items()})


def finding(quantity: str, allowed: float, differences: Mapping[str, float]) -> Divergence:
    """From how far each place is off, in the order of computation."""
    where = max(differences, key=lambda name: differences[name])
    wrong = next((name for name, value in differences.items() if not value <= allowed), None)
    return Divergence(
        quantity=quantity,
        tolerance=allowed,
        largest=_finite(differences[where]),
        where=where,
        diverges_at=wrong,
        by=None if wrong is None else _finite(differences[wrong]),
    )


def differences_of(
    quantity: ComparedQuantity, graph: Graph, found_and_true: tuple[Arrays, Arrays], precision: str
) -> dict[str, float]:
    """How far each array of a quantity is off, in the order in which they are computed."""
    arrays, truth = found_and_true
    names, allowed = _in_order(graph, quantity, truth), quantity.allowed(graph, precision)
    found = {}
    for name in names:
        if not _fits(arrays.get(name), truth[name]):
            found[name] = float("inf")  # missing, misshapen or no number
            continue
        rounded = precision == "bfloat16" and quantity.rounded
        allowance = room(graph, _place(name), _of_part(quantity.name, arrays), truth[name]) if rounded else 0.0
        of_layer = _noise_of_layer(name, truth, allowed) if precision == "bfloat16" and quantity.noise else LEAST
        floor = max(_floor(name, names, truth, of_layer), _rounding(name, truth) / allowed)
        found[name] = _difference(arrays[name], truth[name], allowance, floor)
    unknown = _unknown(graph, arrays) if quantity.name == "gradient" and names else []
    return {**found, **dict.fromkeys(unknown, float("inf"))}


def _unknown(graph: Graph, arrays: Arrays) -> list[str]:
    """Gradients of what the network does not have, or does not train."""
    trained = {f"gradient/{name}" for name, parameter in graph.parameters().items() if parameter.kind == "trainable"}
    return sorted(name for name in arrays if name.startswith("gradient/") and name not in trained)


def _noise_of_layer(name: str, truth: Arrays, allowed: float) -> float:
    """In bfloat16 what should be zero has the noise of its layer, and a bias that of a long sum."""
    layer, _, own = _place(name).rpartition(".")
    if own != "bias":
        return 1.0
    output = truth[f"output/{layer}"]
    return max(1.0, summed(output.size // output.shape[-1]) / allowed)


def _fits(found: NDArray[np.float64] | None, truth: NDArray[np.float64]) -> bool:
    return found is not None and found.shape == truth.shape and bool(np.isfinite(found).all())


def _of_part(part: str, arrays: Arrays) -> Arrays:
    return {_place(name): array for name, array in arrays.items() if name.startswith(f"{part}/")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def depth(graph: Graph) -> int:
    """Layers with a kernel on the longest way from the images to a loss: each adds rounding to what it was given."""
    return longest_way(graph, (Conv, Dense))


def _rounding(name: str, truth: Arrays) -> float:
    """How well float32 can hold a change: no better than the array that is changed."""
    part, _, place = name.partition("/")
    changed = truth.get(f"written/{place}") if part in STEPPING else None
    return 0.0 if changed is None else FLOAT32_ROUNDING * float(np.sqrt(np.mean(changed**2)))


def _in_order(graph: Graph, quantity: ComparedQuantity, truth: Arrays) -> list[str]:
    """The arrays of a quantity, in the order in which they are computed."""
    order = [*graph.nodes, *graph.parameters()]
    names = [f"{quantity.name}/{name}" for name in order if f"{quantity.name}/{name}" in truth]
    if quantity.name in truth:
        return [quantity.name]
    return names[::-1] if quantity.backwards else names


def _floor(name: str, names: Sequence[str], truth: Arrays, of_layer: float) -> float:
    """A size below which values are rounding noise: a bias before batch normalisation has a gradient of zero in theory.

    What is left of it comes from sums over the same slopes as the gradient of the layer's kernel, so both the layer and
    the whole network are looked at.
    """
    layer = name.rpartition(".")[0]
    siblings = [other for other in names if layer and other.rpartition(".")[0] == layer] or [name]
    sizes = [_size([truth[other] for other in group]) for group in ([name], siblings, names)]
    return max(of_layer * sizes[0], of_layer * sizes[1], LEAST * sizes[2])


def _size(arrays: Sequence[NDArray[np.float64]]) -> float:
    """Root of the mean square."""
    return math.sqrt(sum(float(np.sum(array**2)) for array in arrays) / sum(array.size for array in arrays))


def _difference(
    found: NDArray[np.float64], truth: NDArray[np.float64], allowance: NDArray[np.float64] | float, floor: float
) -> float:
    """Norm of the difference, less what each value is allowed, relative to the norm of the truth."""
    size = max(float(np.linalg.norm(truth)), floor * float(np.sqrt(truth.size)))
    off = np.maximum(np.abs(found.astype(np.float64) - truth) - allowance, 0.0)
    return float(np.linalg.norm(off)) / size


def _place(name: str) -> str:
    return name.partition("/")[2] or name
