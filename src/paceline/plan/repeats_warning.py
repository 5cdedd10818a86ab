"""What few repeats can and cannot show, printed before hours are spent on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.plan.settings import Suite

FEW_REPEATS = {
    1: "1 repeat has no interval, so that nothing can be told about differences",
    2: "2 repeats show failures and large differences only: with equal scatter their 95 % interval is 8 times as wide "
    "as that of 5, so that most cells come out noisy",
}


def few_repeats_warning(suite: Suite, flags: Mapping[str, Any]) -> str:
    """A line for the user; empty where repeats are enough, are added as needed, or belong to a suite's small form."""
    small_form = suite.quick and "repeats" not in flags
    if suite.repeats not in FEW_REPEATS or suite.interval_target is not None or small_form:
        return ""
    return f"paceline: {FEW_REPEATS[suite.repeats]}; add --repeats 5"
