"""The application that the commands belong to, and how it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Group, Parameter, Token

from paceline.plan.settings import GROUPS, MEASURED, RESULTS
from paceline.system.errors import UserError
from paceline.system.paths import default_store
from paceline.system.text.safe_text import note

app = App(
    name="paceline",
    help="Train the same network on several frameworks and devices, and see side by side what each costs.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # `main` says what became of the runs
)
PANELS = {name: Group(name, sort_key=place) for place, name in enumerate(GROUPS, 1)}
EXIT_USER_ERROR, EXIT_FAILED_CELLS, EXIT_REGRESSION, EXIT_NO_VERDICT, EXIT_INTERRUPTED = 1, 2, 3, 4, 130
HOPELESS = {
    errno.ENOSPC,
    errno.EROFS,
    errno.EACCES,
    errno.EDQUOT,
    errno.EPERM,
    errno.EFBIG,
}  # the user's disk, not our bug
UNUSABLE = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP}  # what a path was mistaken for
VALUE_LETTERS = 80  # of a path that is no use


def store_folder(_: object, tokens: Sequence[Token]) -> Path:
    """Absolute, since workers run in folders of their own, from which a relative path would lead elsewhere."""
    text = tokens[0].value
    if not text.strip():
        raise UserError("--store is empty; name the folder where results are kept.")
    path, why = Path(text).absolute(), "it is no folder"
    try:
        if path.is_dir() or not path.exists():
            return path
    except OSError as error:
        why = str(error.strerror)
    raise UserError(f"Cannot use the store {_cut(text)}: {why}; --store names another.")


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LETTERS else f"{text[: VALUE_LETTERS - 1]}…"


StoreFlag = Annotated[
    Path | None,
    Parameter(
        converter=store_folder,
        group=PANELS[RESULTS],
        help="Where results are kept; default: in the user's data directory.",
    ),
]
WaitFlag = Annotated[
    bool,
    Parameter(
        negative=(),
        group=PANELS[MEASURED],
        help="Wait for another measurement on this machine to end, instead of giving up.",
    ),
]
Format = Literal["text", "markdown", "csv", "json"]
MachineFlag = Annotated[
    str | None,
    Parameter(
        group=PANELS[RESULTS],
        help="What to call this machine, in place of its system's id; or set PACELINE_MACHINE_NAME.",
    ),
]


def main() -> None:
    """Run a command; a user's mistake is one line."""
    try:
        code = _carry_out() or 0
        sys.stdout.flush()
        sys.exit(code)
    except (UserError, CycloptsError) as error:
        complain(str(error))
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno in UNUSABLE:
            complain(f"Cannot use {_cut(str(error.filename))}: {error.strerror}; name another place.")
        if error.errno not in HOPELESS:
            raise
        complain(f"Cannot write {error.filename or 'to the disk'}: {error.strerror}; nothing half written was kept.")
    except KeyboardInterrupt:
        kept = "finished runs are kept, the same command goes on from here (with --again from the start)"
        print(f"paceline: interrupted; {kept}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _carry_out() -> int | None:
    """The command; what it has stumbled over may be a damaged index."""
    try:
        code: int | None = app(sys.argv[1:], exit_on_error=False, print_error=False)
    except (UserError, CycloptsError, OSError):
        raise
    except Exception:
        from paceline.store.index_damage import blaming_the_index
        from paceline.store.store import Store

        _, bound, _ = app.parse_args(sys.argv[1:], exit_on_error=False, print_error=False)
        with blaming_the_index(Store(bound.arguments.get("store") or default_store())):
            raise
    return code


def complain(line: str) -> None:
    note(line)
    sys.exit(EXIT_USER_ERROR)
