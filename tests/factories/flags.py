"""Flags of `run` as the command line reads them."""

from __future__ import annotations

from typing import Any

from paceline.cli import app
from paceline.cli.suite_flags import SuiteFlags


def settings_of(*flags: str) -> dict[str, Any]:
    """What a suite gets of them."""
    _, bound, _ = app.parse_args(["plan", *flags], exit_on_error=False, print_error=False)
    choices: SuiteFlags = bound.arguments.get("choices", SuiteFlags())
    return choices.settings()
