"""What the prose of the four texts says: every sentence of it is stored, and checked where figures allow it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest

from paceline.catalog.published import PublishedClaim, PublishedRow, all_benchmarks, definitions
from tests.docs.pages import rows_below

BENCHMARKS = all_benchmarks()
CLAIMS = [(name, claim) for name, benchmark in BENCHMARKS.items() for claim in benchmark.claims]
LESS_IS_BETTER = ("seconds", "seconds_per_epoch", "memory")

SAID = {  # every sentence of the texts but those that name rows, machines and settings, by its first words
    "neon-vs-mxnet": [
        "Neon faster than MXNet in single GPU (1.5X)",
        "MXNet are memory eficient compared to Neon (4X)",
        "Neon's multi gpu slower than single under this setting",
        "MXNet's speed 2GPU > 3GPU > 1GPU",
        "A MXNet implementation of",
        "Tested 3, 2, 1 GPUs",
    ],
    "mxnet-multi-gpu": ["Dataset: CIFAR10. 60000 samples", "Models: ResNet-110, ResNet-50", "Based on https://github"],
    "keras-backends": [
        "MXNet distributes the data batch across all GPUs.",
        "Parameters are not tuned",
        "We run these tests for few epochs",
        "Reduce Randomization",
        "CIFAR10 small image dataset resized to 299x299",
    ],
    "tensorpack-vs-tf": [
        "tensorpack MultiGPU trainers are implemented",
        "Their performance should be the same.",
        "Note that these experiements are run on machines of the same configurations",
        "is roughly the same as this tensorpack script",
        "There are tiny differences in the way data is synthesized",
        "gpu: synthesized on GPU as a constant. TF benchmark uses something similar to this but not the same.",
        "cpu: synthesized on CPU inside TF runtime.",
        "python: synthesized on CPU inside Python",
        "This is the recommended experiement setting",
    ],
}


@pytest.mark.parametrize("name", SAID)
def test_every_sentence_is_stored(name: str) -> None:
    found = BENCHMARKS[name]
    texts = dict.fromkeys([claim.text for claim in found.claims] + [said.text for said in found.statements])
    assert len(texts) == len(SAID[name])
    assert all(text.startswith(start) for text, start in zip(texts, SAID[name], strict=True))
    for each in found.statements:
        assert each.kind in ("claim", "caveat", "setting")
        assert each.remark.endswith(".")


@pytest.mark.parametrize(
    ("name", "claim"), CLAIMS, ids=lambda each: each.text if isinstance(each, PublishedClaim) else each
)
def test_claim_is_a_ratio_of_frameworks_or_an_order_of_rows(name: str, claim: PublishedClaim) -> None:
    assert claim.metric in definitions()
    is_ratio = (bool(claim.better), bool(claim.worse), claim.factor is not None, bool(claim.printed))
    assert set(is_ratio) == {not claim.order}
    for row in claim.order:
        assert claim.metric in one_row(name, claim, row).metrics


def one_row(name: str, claim: PublishedClaim, row: str) -> PublishedRow:
    (found,) = [each for each in BENCHMARKS[name].records if each.row == row and claim.table in ("", each.table)]
    return found


def test_claims_hold_on_so_many_of_what_they_speak_of() -> None:
    assert [(claim.text, *verdict(name, claim)) for name, claim in CLAIMS] == [
        ("Neon faster than MXNet in single GPU (1.5X)", 0, 2),  # 1.85 on Titan X, 2.00 on GTX 980
        ("MXNet are memory eficient compared to Neon (4X)", 1, 3),  # 4.26, 4.83, and 2.86 on two cards
        ("Neon's multi gpu slower than single under this setting", 1, 1),  # 20.616 < 43.526
        ("Neon's multi gpu slower than single under this setting", 1, 1),  # 20.054 < 43.526
        ("MXNet's speed 2GPU > 3GPU > 1GPU", 2, 2),  # 33.149 < 34.269 < 38.159
        ("MXNet's speed 2GPU > 3GPU > 1GPU", 2, 2),  # 33.149 < 34.269 < 40.120
    ]
    wrong = [(error.kind, *verdict(name, claim)) for name, claim in CLAIMS for error in claim.errors]
    assert wrong == [("wrong claim", 0, 2), ("true in part", 1, 3)]


def verdict(name: str, claim: PublishedClaim) -> tuple[int, int]:
    """How many ratios round to the claimed one, or neighbours stand in the claimed order, and of how many."""
    if claim.order:
        values = [one_row(name, claim, row).metrics[claim.metric].value for row in claim.order]
        held = [gain(claim, better, worse) > 1 for better, worse in pairwise(values)]
    else:
        held = [abs(ratio - (claim.factor or math.nan)) <= half_a_step(claim) for ratio in ratios(name, claim)]
    return sum(held), len(held)


def half_a_step(claim: PublishedClaim) -> float:
    return 0.5 * 10.0 ** -len(claim.printed.partition(".")[2])


def ratios(name: str, claim: PublishedClaim) -> Iterator[float]:
    """For each set of devices on which both were measured."""
    rows = [each for each in BENCHMARKS[name].records if claim.metric in each.metrics]
    for better in (each for each in rows if each.framework == claim.better):
        for worse in (each for each in rows if (each.framework, each.devices) == (claim.worse, better.devices)):
            if claim.device_count in (None, better.device_count) and better.table == worse.table:
                yield gain(claim, better.metrics[claim.metric].value, worse.metrics[claim.metric].value)


def gain(claim: PublishedClaim, better: float, worse: float) -> float:
    return worse / better if claim.metric.partition(".")[0] in LESS_IS_BETTER else better / worse


def test_claim_without_a_number_has_its_arithmetic_in_its_remark() -> None:
    """Recomputed from the figures, since a remark is prose."""
    remarks = {each.text[:20]: each.remark for each in BENCHMARKS["tensorpack-vs-tf"].statements}
    speeds = {(each.update, each.row): next(iter(each.metrics.values())).value for each in tensorpack()}
    counts = [(each.update, each.row.partition(",")[0]) for each in tensorpack() if each.row.endswith("tensorpack gpu")]

    def between(over: str, under: str) -> str:
        found = [speeds[update, f"{n}, {over}"] / speeds[update, f"{n}, {under}"] for update, n in counts]
        return f"{min(found):.3f} to {max(found):.3f} times as fast"

    assert len(counts) == 8
    assert between("tensorpack gpu", "tensorflow/benchmarks") in remarks["Their performance sh"]
    assert between("tensorpack python", "tensorpack gpu") in remarks["This is the recommen"]


def tensorpack() -> tuple[PublishedRow, ...]:
    return BENCHMARKS["tensorpack-vs-tf"].records


def test_page_has_every_claim_with_its_verdict() -> None:
    expected = []
    for name, claim in CLAIMS:
        held, of = verdict(name, claim)
        arithmetic = " ".join(error.why for error in claim.errors) or claim.remark
        expected.append(f"| `{name}` | {claim.text} | {held} of {of} | {arithmetic} |")
    assert rows_below("published.md", "### Ratios and orders") == expected


def test_page_has_every_other_sentence() -> None:
    expected = [f"| `{b.name}` | {s.kind} | {s.text} | {s.remark} |" for b in BENCHMARKS.values() for s in b.statements]
    assert rows_below("published.md", "### Sentences that no rule can check") == expected
