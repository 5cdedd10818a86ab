"""Proof that frameworks train the same network: each is compared, quantity by quantity, with the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from paceline.environments import Say
from paceline.frameworks import Contestant
from paceline.machine import Machine
from paceline.probing import Arrays, Probe, probe, reference_probe
from paceline.questions import Question, setting
from paceline.rounding import longest_way, noise, room, summed
from paceline.shares import EQUAL
from paceline.worker_code import code_hash
from paceline_worker.graph import Conv, Dense, Graph
from paceline_worker.protocol import Job

STEPS = 5


class Quantity(msgspec.Struct, frozen=True):
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
    Quantity("output", "outputs", 1e-5, rounded=True),
    Quantity("gradient", "gradients", 1e-3, backwards=True, noise=1.0),
    Quantity(
        "statistics", "changes of running statistics in a step", 1e-3, noise=0.25
    ),  # a mean over 16 values or more
    Quantity("update", "changes of weights in a step", 1e-3, noise=1.0),
    Quantity("prediction", "predictions", 1e-5, adds_up=True, noise=1.0),
    Quantity("losses", "losses", 1e-4, noise=0.5),  # a mean over four images or more
    Quantity("evaluation", "predictions in evaluation", 1e-3, noise=1.0),
)

DECAY_FACTOR = 100.0  # a weight decay so large that a wrong exclusion shows in one step
# The further steps are so small that the first of them lowers the loss by about so much. At the recipe's rate random
# labels make a deep network chaotic: there rounding grows a thousandfold from step to step, and nothing can be told.
GENTLE_DROP = 0.03
FLOAT32_ROUNDING = 2.0**-23
RUNNING = (".mean", ".variance")
END_TO_END = ("prediction/", "losses", "evaluation")
LEAST = 1e-3  # of the typical gradient of a layer or of the network: what is smaller counts as zero


class Finding(msgspec.Struct, frozen=True):
    """The largest difference of one quantity, and the first place where it is too large."""

    quantity: str
    tolerance: float
    largest: float | None  # None: infinite or no number, which JSON cannot hold
    where: str
    diverges_at: str | None  # in the order of computation
    by: float | None  # likewise


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One framework on one workload: equal, or where it is not, or why it could not be seen."""

    workload: str
    framework: str
    devices: str
    version: str
    fingerprint: str  # of the framework's environment
    worker_code: str
    machine: str
    update: str = "replicated"
    precision: str = "float32"
    shares: str = EQUAL  # or such as 2:1
    wrapped: bool = False  # one device in what several devices need
    equal: bool
    findings: tuple[Finding, ...]
    failure: str | None

    @property
    def setting(self) -> str:
        return setting(self.devices, self.update, self.precision, self.shares, self.wrapped)


@dataclass(frozen=True)
class Trial:
    """What all frameworks are asked, and what the reference answered."""

    workload: str
    devices: str
    machine: str
    job: Job
    truth: Probe
    shares: str = EQUAL


def make_trial(question: Question, machine: Machine, say: Say) -> Trial:
    job = verification_job(question, machine)
    slopes = [array for name, array in reference_probe(job, say).arrays.items() if name.startswith("gradient/")]
    gentle = GENTLE_DROP / sum(float(np.sum(slope**2)) for slope in slopes)
    job = replace(job, rates=(gentle,) * (STEPS - 2) + (gentle / 2,) * 2)  # a change of the rate is seen, too
    truth = reference_probe(job, say)
    return Trial(question.workload.name, question.devices.name, machine.id, job, truth, question.shares)


def verification_job(question: Question, machine: Machine) -> Job:
    """A few steps on a small batch, one core per device."""
    workload, devices, cores = question.workload, question.devices, machine.cores
    return Job(
        framework="",
        mode="",
        graph=workload.graph().to_json(),
        classes=workload.classes,
        recipe=replace(workload.recipe, weight_decay=DECAY_FACTOR * workload.recipe.weight_decay),
        devices=devices.devices,
        cores=tuple((cores[index % len(cores)],) for index in range(devices.count)),
        shares=question.images(),
        update=question.update,
        wrapped=question.wrapped,
        data="fake:device",
        precision=question.precision,
        seed=1,
        steps=STEPS,
        warmup=0,
        block_steps=STEPS,
        patience_seconds=300.0,
        epoch_images=workload.images_per_epoch,
    )


def verify(contestant: Contestant, trial: Trial, say: Say) -> Verdict:
    """Compare a framework with what the reference showed for the same job."""
    seen = probe(contestant, trial.job, say)
    findings = () if seen.failure else tuple(compare_with_reference(seen, trial, say))
    return Verdict(
        workload=trial.workload,
        framework=contestant.name,
        devices=trial.devices,
        version=seen.environment.packages.get(contestant.framework.package, "?"),
        fingerprint=seen.environment.fingerprint,
        worker_code=code_hash(contestant.framework.name),
        machine=trial.machine,
        update=trial.job.update,
        precision=trial.job.precision,
        shares=trial.shares,
        wrapped=trial.job.wrapped,
        equal=not seen.failure and all(finding.diverges_at is None for finding in findings),
        findings=findings,
        failure=seen.failure,
    )


def compare_with_reference(seen: Probe, trial: Trial, say: Say) -> Iterator[Finding]:
    """Layer by layer on what the framework itself gave so far, and from end to end on its own."""
    given = {name.partition("/")[2]: array for name, array in seen.arrays.items() if name.startswith("output/")}
    local = reference_probe(trial.job, say, given).arrays
    graph = Graph.from_json(trial.job.graph)
    whole = {name: array for name, array in derived(graph, trial.truth.arrays).items() if name.startswith(END_TO_END)}
    yield from compare(graph, derived(graph, seen.arrays), {**derived(graph, local), **whole}, trial.job.precision)


def derived(graph: Graph, arrays: Arrays) -> Arrays:
    """With what follows from them: the change of each array in the first step, and the predictions."""
    changes = {
        f"{'statistics' if name.endswith(RUNNING) else 'update'}/{_place(name)}": array
        - arrays[f"written/{_place(name)}"]
        for name, array in arrays.items()
        if name.startswith("trained/")
    }
    return {**arrays, **changes, **{f"prediction/{name}": arrays[f"output/{name}"] for name in graph.losses}}


def compare(graph: Graph, arrays: Arrays, truth: Arrays, precision: str = "float32") -> Iterator[Finding]:
    for quantity in QUANTITIES:
        allowed = quantity.allowed(graph, precision)
        differences = differences_of(quantity, graph, (arrays, truth), precision)
        if not differences:
            continue  # statistics of a network without any
        where = max(differences, key=lambda name: differences[name])
        wrong = next((name for name, value in differences.items() if not value <= allowed), None)
        yield Finding(
            quantity=quantity.name,
            tolerance=allowed,
            largest=_finite(differences[where]),
            where=_place(where),
            diverges_at=None if wrong is None else _place(wrong),
            by=None if wrong is None else _finite(differences[wrong]),
        )


def differences_of(
    quantity: Quantity, graph: Graph, found_and_true: tuple[Arrays, Arrays], precision: str
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
    return found


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
    changed = truth.get(f"written/{_place(name)}") if name.startswith(("update/", "statistics/")) else None
    return 0.0 if changed is None else FLOAT32_ROUNDING * float(np.sqrt(np.mean(changed**2)))


def _in_order(graph: Graph, quantity: Quantity, truth: Arrays) -> list[str]:
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
