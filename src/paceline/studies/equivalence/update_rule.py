"""What the recipe's rule makes of a framework's own gradients, step by step: so a step is judged apart from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from paceline_worker.graph import Graph
from paceline_worker.protocol import Job, Recipe

Array = NDArray[np.float64]
Arrays = dict[str, Array]
QUANTITIES = {  # what steps show, and in words
    "rate": "changes of weights at another rate",
    "momentum": "changes of weights in further steps",
    "schedule": "changes of weights after the rate has changed",
    "large step": "changes of weights by large gradients",
}
WATCHED, LARGE = "watched", "large"  # the parts of a probe: all steps, and one from strained weights


def rule(recipe: Recipe, decay: float, weights: Array, gradients: Array, rates: Sequence[float]) -> Array:
    """Changes of an array's values in each step, from the values before it (rows) and their gradients."""
    velocity = np.zeros_like(gradients[0])
    changes = []
    for before, gradient, rate in zip(weights, gradients, rates, strict=False):  # weights have one row more
        pull = gradient + decay * before
        velocity = recipe.momentum * velocity + pull
        move = pull + recipe.momentum * velocity if recipe.nesterov else velocity
        changes.append(-rate * move)
    return np.stack(changes)


def seen(job: Job, arrays: Mapping[str, Array]) -> Arrays:
    """The changes that a framework made, named by what they show."""
    return _named(job, {key: np.diff(weights, axis=0) for key, (weights, _) in _watched(arrays).items()})


def ruled(job: Job, arrays: Mapping[str, Array]) -> Arrays:
    """The changes that it should have made, given its gradients; none where it showed none."""
    parameters = Graph.from_json(job.graph).parameters()
    recipe, changes = job.recipe, {}
    for (part, name), (weights, gradients) in _watched(arrays).items():
        if name in parameters:
            decay = recipe.weight_decay if parameters[name].role in recipe.decayed else 0.0
            rates = job.rates if part == WATCHED else (recipe.learning_rate,)
            changes[part, name] = rule(recipe, decay, weights, gradients, rates)
    return _named(job, changes)


def _watched(arrays: Mapping[str, Array]) -> dict[tuple[str, str], tuple[Array, Array]]:
    """Weights and gradients of each part and parameter."""
    found = {}
    for key, weights in arrays.items():
        part, _, rest = key.partition("/")
        kind, _, name = rest.partition("/")
        if part in (WATCHED, LARGE) and kind == "weights":
            gradients = arrays[f"{part}/gradients/{name}"]
            found[part, name] = weights.astype(np.float64), gradients.astype(np.float64)
    return found


def _named(job: Job, changes: Mapping[tuple[str, str], Array]) -> Arrays:
    """By quantity: a first step at a set rate, those after it with momentum, those after the rate has changed."""
    same = next((index for index, rate in enumerate(job.rates) if rate != job.rates[0]), len(job.rates))
    parts = {"rate": slice(0, 1), "momentum": slice(1, same), "schedule": slice(same, None)}
    named = {}
    for (part, name), rows in changes.items():
        if part == LARGE:
            named[f"large step/{name}"] = rows
            continue
        for quantity, steps in parts.items():
            if len(rows[steps]):
                named[f"{quantity}/{name}"] = rows[steps]
    return named
