"""The table of mistakes: where they can be made, what is proved to be none, and that verify sees a sample of them."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest
from benchmarks.mutants import equivalence as proved
from benchmarks.mutants import report
from benchmarks.mutants.__main__ import run, suits
from benchmarks.mutants.dropout_mistakes import DROPOUT_MISTAKES
from benchmarks.mutants.judging import Shown, names
from benchmarks.mutants.mistakes import MISTAKES, mutants, spread
from benchmarks.mutants.mutation import Change, Mistake, Mutant
from benchmarks.mutants.networks import Setting, blocks, settings
from benchmarks.mutants.optimizers import RULES
from benchmarks.mutants.surgery import MARK, rebuilt
from benchmarks.mutants.wrong import KINDS

from paceline.catalog.frameworks import find
from paceline.environments.virtual_environments import hindrance
from paceline.plan.devices import parse_devices
from paceline.store.records.certificate import Divergence
from paceline.studies.equivalence import dropout
from paceline.studies.equivalence.tolerances import QUANTITIES
from paceline.studies.equivalence.verification_cases import VerificationCase
from paceline.studies.equivalence.verify import make_verification, verify
from paceline.system.machine.hardware import this_machine
from paceline_worker.graph import Add, BatchNorm, Conv, Flatten, Graph, Input, MaxPool, Relu

SETTINGS = settings()
SAMPLE = 10  # of each framework, beside the dropout mistakes


def mistake(name: str) -> Mistake:
    return next(one for one in (*MISTAKES, *DROPOUT_MISTAKES) if one.name == name)


def test_there_are_hundreds_of_mutants_and_no_mistake_without_one() -> None:
    made = [mutant for setting in SETTINGS.values() for mutant in mutants(setting)[0]]
    equivalent = [one for setting in SETTINGS.values() for one in mutants(setting)[1]]
    assert len(made) > 400
    unmade = {one.name for one in (*MISTAKES, *DROPOUT_MISTAKES)} - {mutant.mistake.name for mutant in made}
    assert unmade == {"joint: sum in another order"}
    assert unmade <= {one.mistake.name for one in equivalent}


def test_every_mutant_is_a_change_and_can_be_told_to_a_driver() -> None:
    for setting in SETTINGS.values():
        for mutant in mutants(setting)[0]:
            change = mutant.change
            graphs = change.graph is not None and change.graph.to_json() != setting.graph.to_json()
            recipes = change.recipe is not None and change.recipe != setting.workload.recipe
            assert graphs or recipes or change.wrong or change.job or change.native, mutant.name
            assert not change.wrong or change.wrong in KINDS
            assert change.wrong != "Rule" or change.about["rule"] in RULES


def test_expected_quantities_are_known() -> None:
    known = {quantity.name for quantity in QUANTITIES}
    assert {name for one in MISTAKES for name in one.quantities} <= known


def maps(*ops: object) -> Graph:
    """A chain; layers are named by their place in it."""
    graph = Graph()
    source = graph.add("0", Input((8, 8, 4)))
    for index, op in enumerate(ops, start=1):
        source = graph.add(str(index), op, source)
    return graph


def test_what_comes_of_a_relu_is_never_negative_until_a_kernel() -> None:
    graph = maps(Relu(), MaxPool((2, 2), (2, 2)), Conv(4, (1, 1)), Flatten())
    assert [proved.never_negative(graph, str(index)) for index in range(5)] == [False, True, True, False, False]


def test_a_sum_is_never_negative_if_no_part_of_it_is() -> None:
    graph = maps(Relu())
    graph.add("both", Add(), "1", "1")
    graph.add("one", Add(), "0", "1")
    assert proved.never_negative(graph, "both")
    assert not proved.never_negative(graph, "one")


def test_a_constant_is_taken_out_by_batch_norm_alone() -> None:
    norm = BatchNorm(epsilon=1e-5, decay=0.9)
    graph = maps(Conv(4, (1, 1)), norm)
    assert proved.normalised_at_once(graph, "1")
    graph.add("too", Relu(), "1")
    assert not proved.normalised_at_once(graph, "1")


@pytest.mark.parametrize(
    ("network", "name", "site", "reason"),
    [
        ("blocks", "padding: odd pixel on the other side", "row_conv", "its padding is equal on both sides"),
        ("blocks", "ReLU: one too many", "largest", "what it gets is never negative"),
        ("blocks", "ReLU: one too many", "one_bn", "a second ReLU leaves what the first one gives"),
        ("blocks", "kernel: flipped", "one_conv.kernel", "a kernel of one pixel has no direction"),
        (
            "blocks",
            "bias: one too many",
            "stem_conv",
            "batch normalisation takes a constant out again, and its gradient is zero",
        ),
        ("blocks 8:8", "devices: shares count alike", "", "equal shares have equal weights"),
        ("cifar10-resnet20", "decay: also on", "bias", ""),
    ],
)
def test_equivalent_changes_are_named_by_rule(network: str, name: str, site: str, reason: str) -> None:
    found = {(one.mistake.name, one.site): one.reason for one in mutants(SETTINGS[network])[1]}
    assert found.get((name, site), "") == reason


def test_change_that_no_weights_fit_is_no_mutant() -> None:
    impossible = {(one.mistake.name, one.site) for one in mutants(SETTINGS["plain"])[2]}
    assert ("padding: missing", "conv1") in impossible  # the dense layer would get other numbers


def test_sites_are_spread() -> None:
    setting = SETTINGS["blocks"]
    found = [Mutant(mistake("batch norm: missing"), setting, str(index), Change()) for index in range(9)]
    assert [mutant.site for mutant in spread(found, 3)] == ["0", "4", "8"]
    assert [mutant.site for mutant in spread(found, 1)] == ["4"]


def mutant(name: str, network: str = "blocks", site: str | None = None) -> Mutant:
    found = [one for one in mutants(SETTINGS[network], 99)[0] if one.mistake.name == name]
    return next(one for one in found if site in (None, one.site))


def finding(quantity: str, place: str) -> Divergence:
    return Divergence(quantity, 1e-5, 1.0, place, place, 1.0)


@pytest.mark.parametrize(
    ("name", "site", "quantity", "place", "right"),
    [
        ("batch norm: missing", "one_bn", "output", "one_bn", True),
        ("batch norm: missing", "one_bn", "output", "one_relu", False),
        ("batch norm: missing", "one_bn", "losses", "losses", False),
        ("bias: missing", "head", "gradient", "head.bias", True),
        ("ReLU: one too many", "last_bn", "output", "unit_add", True),
        ("decay: also on", "gamma", "update", "stem_bn.gamma", True),
        ("decay: also on", "gamma", "update", "stem_bn.beta", False),
        ("momentum: dampened", "", "update", "head.bias", True),
        ("momentum: dampened", "", "losses", "losses", False),
    ],
)
def test_right_name_is_that_of_the_layer_or_the_rule(
    name: str, site: str, quantity: str, place: str, right: bool
) -> None:
    assert names(mutant(name, site=site), finding(quantity, place)) is right


def test_surgery_keeps_the_names_of_all_parameters() -> None:
    graph = blocks()
    for one in mutants(SETTINGS["blocks"])[0]:
        if one.change.graph is not None:
            added = set(one.change.graph.nodes) - set(graph.nodes)
            assert all(name.startswith(MARK) for name in added)
    assert rebuilt(graph).to_json() == graph.to_json()


def shown(name: str, found: Divergence | None, failure: str | None = None) -> Shown:
    return Shown("torch", mutant(name), found, failure)


def test_refused_mutants_count_apart_and_alarms_fail() -> None:
    right = Shown("torch", Mutant(report.RIGHT, SETTINGS["blocks"], "", Change()), None, None)
    caught = shown("batch norm: missing", finding("output", "stem_bn"))
    summary = report.summary([right, caught, shown("ReLU: missing", None, "crash")], [], 60.0)
    assert (summary.caught, summary.named, len(summary.judged), summary.met) == (1.0, 1.0, 1, True)
    alarm = replace(right, finding=finding("output", "stem_bn"))
    assert not report.summary([alarm, caught], [], 60.0).met
    assert not report.summary([right, shown("ReLU: missing", None)], [], 60.0).met


def test_framework_without_unequal_shares_is_not_asked() -> None:
    assert suits("torch", SETTINGS["blocks 8:4"])
    assert not suits("jax", SETTINGS["blocks 8:4"])


@pytest.mark.real
@pytest.mark.parametrize(
    ("framework", "setting", "most"),
    [
        ("torch", SETTINGS["every-layer"], SAMPLE),
        ("torch", SETTINGS["dropping"], SAMPLE),
        ("jax", SETTINGS["plain"], SAMPLE // 2),
    ],
    ids=["torch", "torch's dropout", "jax"],
)
def test_real_frameworks_are_caught_at_a_sample_of_mistakes(framework: str, setting: Setting, most: int) -> None:
    reason = hindrance(find(framework).framework)
    if reason:
        pytest.skip(reason)
    rows = run(framework, setting, argparse.Namespace(most=most, precision="float32"))
    summary = report.summary(rows, [], 0.0)
    assert len(summary.judged) >= most // 2
    assert summary.caught == 1.0, report.text(summary)
    assert summary.named >= report.NAMED_TARGET, report.text(summary)
    assert not summary.alarms, report.text(summary)


@pytest.mark.real
def test_verify_of_a_network_with_dropout_finds_nothing_wrong() -> None:
    reason = hindrance(find("torch").framework)
    if reason:
        pytest.skip(reason)
    question = VerificationCase(workload=SETTINGS["dropping"].workload, devices=parse_devices("1xcpu"))
    found = verify(find("torch"), make_verification(question, this_machine(), print), print)
    assert found.equal, found
    assert {finding.quantity for finding in found.findings} >= set(dropout.MEANINGS)
