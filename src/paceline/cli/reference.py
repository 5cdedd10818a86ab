"""The reference of the command line, made from the commands themselves: `make docs` writes docs/cli.md."""

from __future__ import annotations

import re
import sys

from paceline.cli import app
from paceline.cli.application import (
    EXIT_FAILED_CELLS,
    EXIT_INTERRUPTED,
    EXIT_NO_VERDICT,
    EXIT_REGRESSION,
    EXIT_USER_ERROR,
)

INTRODUCTION = (
    "Every command and every flag. This page is made from the code by `make docs`; "
    "`paceline --help` and `paceline COMMAND --help` say the same in a terminal. "
    "Where a flag takes several values (`INT,...`), they are joined by commas."
)
EXIT_CODES = {
    0: "all went well",
    EXIT_USER_ERROR: "a mistake in the command or in what it was given: one line says what is wrong",
    EXIT_FAILED_CELLS: "some cells failed, or something was found to be wrong",
    EXIT_REGRESSION: "slower than before (`compare`)",
    EXIT_NO_VERDICT: "one cannot tell: of some cell (`compare --require-verdict`), or of a table (`audit`)",
    EXIT_INTERRUPTED: "interrupted; finished runs are kept",
}


def page() -> str:
    """The whole of docs/cli.md: what cyclopts writes of the commands, from their list on, below our own head."""
    _, heading, commands = app.generate_docs().partition("**Commands**")
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    head = ["# Commands", "", INTRODUCTION, "", "| exit code | meaning |", "|---|---|", *codes, ""]
    # Made by `python -m …`, a usage line takes over what follows `python`.
    commands = re.sub(r"^(paceline[a-z ]*) -m \S+", r"\1", commands.rstrip(), flags=re.MULTILINE)
    return "\n".join([*head, f"{heading}{commands}\n"])


if __name__ == "__main__":
    sys.stdout.write(page())
