"""Rules of a step that people mistake for the recipe's, and the recipe's own to see that the stage is set right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from paceline_worker.protocol import Recipe
from paceline_worker.weights import Weights


@dataclass
class State:
    """What is kept from step to step."""

    velocity: Weights = field(default_factory=dict)
    steps: int = 0
    rate: float = 0.0  # of the step before


@dataclass(frozen=True)
class Step:
    """What a rule is given: the recipe, the values before the step, and their gradients."""

    recipe: Recipe
    roles: dict[str, str]
    weights: Weights
    gradients: Weights
    rate: float
    about: dict[str, Any]  # the mistake

    def scaled(self, change: Callable[[Any], Any]) -> Step:
        return replace(self, gradients={name: change(value) for name, value in self.gradients.items()})


def right(state: State, step: Step, dampening: float = 0.0, coupled: bool = True) -> Weights:
    """Changes by the recipe's rule, but for what is said."""
    changes, recipe = {}, step.recipe
    for name, gradient in step.gradients.items():
        decay = recipe.weight_decay * step.weights[name].astype(np.float64)
        decay = decay if step.roles[name] in recipe.decayed else 0.0
        pull = gradient.astype(np.float64) + (decay if coupled else 0.0)
        velocity = recipe.momentum * state.velocity.get(name, 0.0) + (1 - dampening) * pull
        state.velocity[name] = velocity
        move = pull + recipe.momentum * velocity if recipe.nesterov else velocity
        changes[name] = -step.rate * (move + (0.0 if coupled else decay))
    state.rate, state.steps = step.rate, state.steps + 1
    return changes


def dampened_later(state: State, step: Step) -> Weights:
    """As PyTorch's dampening, which leaves out the first step."""
    return right(state, step, step.recipe.momentum if state.steps else 0.0)


def rate_inside(state: State, step: Step) -> Weights:
    """The velocity is a sum of steps and not of gradients: a new rate holds for new gradients only."""
    factor = state.rate / step.rate if state.rate else 1.0
    state.velocity = {name: value * factor for name, value in state.velocity.items()}
    return right(state, step)


def forgotten(state: State, step: Step) -> Weights:
    if state.rate and step.rate != state.rate:
        state.velocity = {}
    return right(state, step)


def second_step(state: State, step: Step) -> Weights:
    changes = right(state, step)
    return {name: value * step.about["factor"] for name, value in changes.items()} if state.steps == 2 else changes


def clip_norm(state: State, step: Step) -> Weights:
    norm = float(np.sqrt(sum(float(np.sum(np.square(value, dtype=np.float64))) for value in step.gradients.values())))
    factor = min(1.0, step.about["limit"] / norm)
    return right(state, step.scaled(lambda value: value * factor))


def clip_value(state: State, step: Step) -> Weights:
    limit = step.about["limit"]
    return right(state, step.scaled(lambda value: np.clip(value, -limit, limit)))


def frozen(state: State, step: Step) -> Weights:
    site = step.about["site"]
    return {**right(state, step), site: np.zeros_like(step.weights[site])}


RULES: dict[str, Callable[[State, Step], Weights]] = {
    "right": right,
    "kept": right,  # its velocity outlives the weights: see wrong.Rule
    "decoupled": lambda state, step: right(state, step, coupled=False),
    "dampened": lambda state, step: right(state, step, step.recipe.momentum),
    "dampened later": dampened_later,
    "rate inside": rate_inside,
    "forgotten": forgotten,
    "scaled": lambda state, step: right(state, replace(step, rate=step.rate * step.about["factor"])),
    "second step": second_step,
    "clip norm": clip_norm,
    "clip value": clip_value,
    "frozen": frozen,
}
