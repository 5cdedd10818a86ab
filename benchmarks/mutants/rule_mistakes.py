"""Mistakes in the loss, in the rule of a step, and in how devices agree."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.mutants.changes import (
    decay_added,
    decay_removed,
    recipe,
    rule,
    scaled_recipe,
    wrong,
)
from benchmarks.mutants.mutation import (
    Change,
    Mistake,
)
from benchmarks.mutants.proofs import (
    equal_shares,
    no_such_role,
)
from benchmarks.mutants.sites import (
    ROLES,
    decayed,
    if_recipe,
    on_devices,
    parameters,
    side_losses,
    undecayed,
    whole,
)
from benchmarks.mutants.surgery import with_losses

RULES = ("update", "rate", "momentum", "schedule", "large step")

RULE_MISTAKES = (
    # Loss
    Mistake("labels: shifted by one", whole, wrong("LabelsShifted"), ("gradient",), anywhere=True),
    Mistake(
        "loss: summed over the images",
        whole,
        lambda s, n: Change(with_losses(s.graph, dict.fromkeys(s.graph.losses, float(sum(s.shares))))),
        ("gradient",),
        anywhere=True,
    ),
    Mistake(
        "loss: of the side head in full",
        side_losses,
        lambda s, n: Change(with_losses(s.graph, {n: 1 / s.graph.losses[n]})),
        ("gradient",),
    ),
    Mistake(
        "loss: of the side head forgotten",
        side_losses,
        lambda s, n: Change(with_losses(s.graph, {n: 0.0})),
        ("gradient",),
    ),
    # Recipe
    Mistake(
        "decay: missing", if_recipe(lambda r: r.weight_decay > 0), recipe(weight_decay=0.0), ("update",), anywhere=True
    ),
    Mistake(
        "decay: twice, as of a loss term c * sum(w**2)",
        if_recipe(lambda r: r.weight_decay > 0),
        scaled_recipe("weight_decay", 2.0),
        ("update",),
        anywhere=True,
    ),
    Mistake("decay: also on", undecayed, decay_added, ("update",), no_such_role, site_is_role=True),
    Mistake("decay: not on", decayed, decay_removed, ("update",), no_such_role, site_is_role=True),
    Mistake(
        "decay: beside the momentum",
        if_recipe(lambda r: r.weight_decay > 0 and r.momentum > 0),
        rule("decoupled"),
        ("momentum", "update"),
        anywhere=True,
    ),
    Mistake(
        "decay: 5e-4 by default",
        if_recipe(lambda r: r.weight_decay == 0),
        recipe(weight_decay=5e-4, decayed=ROLES),
        RULES,
        anywhere=True,
    ),
    Mistake(
        "momentum: missing",
        if_recipe(lambda r: r.momentum > 0),
        recipe(momentum=0.0, nesterov=False),
        ("momentum", "update"),
        anywhere=True,
    ),
    Mistake(
        "momentum: 0.9 by default",
        if_recipe(lambda r: r.momentum == 0),
        recipe(momentum=0.9),
        ("momentum",),
        anywhere=True,
    ),
    Mistake(
        "momentum: 0.99 for 0.9",
        if_recipe(lambda r: r.momentum > 0),
        recipe(momentum=0.99),
        ("momentum", "update"),
        anywhere=True,
    ),
    Mistake(
        "momentum: the other of plain and Nesterov's",
        if_recipe(lambda r: r.momentum > 0),
        lambda s, n: Change(recipe=replace(s.workload.recipe, nesterov=not s.workload.recipe.nesterov)),
        ("update",),
        anywhere=True,
    ),
    Mistake("momentum: dampened", if_recipe(lambda r: r.momentum > 0), rule("dampened"), ("update",), anywhere=True),
    Mistake(
        "momentum: dampened from the second step on",
        if_recipe(lambda r: r.momentum > 0),
        rule("dampened later"),
        ("momentum",),
        anywhere=True,
    ),
    Mistake(
        "momentum: the rate inside the velocity",
        if_recipe(lambda r: r.momentum > 0),
        rule("rate inside"),
        ("schedule",),
        anywhere=True,
    ),
    Mistake(
        "momentum: forgotten when the rate changes",
        if_recipe(lambda r: r.momentum > 0),
        rule("forgotten"),
        ("schedule",),
        anywhere=True,
    ),
    Mistake(
        "momentum: of before the start kept",
        if_recipe(lambda r: r.momentum > 0),
        rule("kept"),
        ("rate",),
        anywhere=True,
    ),
    Mistake("rate: twice the recipe's", whole, rule("scaled", factor=2.0), ("update",), anywhere=True),
    Mistake("rate: of the second step wrong", whole, rule("second step", factor=1.1), ("momentum",), anywhere=True),
    Mistake("rate: the schedule is ignored", whole, wrong("ScheduleIgnored"), ("rate", "schedule"), anywhere=True),
    Mistake("rate: changes a step late", whole, wrong("RateLate"), ("rate", "schedule"), anywhere=True),
    Mistake("gradients: clipped at norm 1", whole, rule("clip norm", limit=1.0), RULES, anywhere=True),
    Mistake("gradients: clipped at norm 5", whole, rule("clip norm", limit=5.0), RULES, anywhere=True),
    Mistake("gradients: each value clipped at 0.5", whole, rule("clip value", limit=0.5), RULES, anywhere=True),
    Mistake("weights: one is not trained", parameters(*ROLES), rule("frozen"), ("update",)),
    # Several devices
    Mistake("devices: gradients summed", on_devices(), wrong("GradientsTimes"), ("gradient",), anywhere=True),
    Mistake(
        "devices: shares count alike",
        on_devices(),
        lambda s, n: Change(job={"weigh": False}),
        ("gradient",),
        equal_shares,
        anywhere=True,
    ),
    Mistake(
        "devices: gradients are not exchanged",
        on_devices(),
        lambda s, n: Change(job={"update": "independent"}),
        ("gradient", "statistics"),
        anywhere=True,
    ),
)
