"""The table of mistakes, and the mutants that it makes of a network."""

from __future__ import annotations

from benchmarks.mutants.dropout_mistakes import DROPOUT_MISTAKES
from benchmarks.mutants.layer_mistakes import LAYER_MISTAKES
from benchmarks.mutants.mutation import (
    Change,
    Mistake,
    Mutant,
    Omitted,
)
from benchmarks.mutants.networks import Setting
from benchmarks.mutants.rule_mistakes import RULE_MISTAKES

MISTAKES = (*LAYER_MISTAKES, *RULE_MISTAKES)


def mutants(setting: Setting, limit: int = 3) -> tuple[list[Mutant], list[Omitted], list[Omitted]]:
    """Mutants at some of the places where a mistake can be made; what is equivalent; what has impossible shapes."""
    found, equivalent, impossible = [], [], []
    for mistake in setting_mistakes(setting):
        possible = []
        for site in mistake.sites(setting):
            reason = mistake.proof(setting, site)
            if reason:
                equivalent.append(Omitted(mistake, setting, site, reason))
                continue
            try:
                possible.append(Mutant(mistake, setting, site, fitting(setting, mistake.make(setting, site))))
            except ValueError as error:
                impossible.append(Omitted(mistake, setting, site, str(error)))
        found += spread(possible, limit)
    return found, equivalent, impossible


def setting_mistakes(setting: Setting) -> list[Mistake]:
    if setting.dropping:
        return list(DROPOUT_MISTAKES)
    return [one for one in MISTAKES if one.name.startswith(setting.mistakes)]


def fitting(setting: Setting, change: Change) -> Change:
    """The change, if the weights still fit into the network."""
    wanted, found = setting.graph.parameters(), change.graph.parameters() if change.graph else {}
    for name, parameter in found.items():
        if name in wanted and wanted[name].shape != parameter.shape:
            raise ValueError(f"{name} would be of shape {parameter.shape}, not {wanted[name].shape}.")
    return change


def spread(sites: list[Mutant], limit: int) -> list[Mutant]:
    """First, last and some between them."""
    if len(sites) <= limit:
        return sites
    if limit == 1:
        return [sites[len(sites) // 2]]
    return [sites[round(index * (len(sites) - 1) / (limit - 1))] for index in range(limit)]
