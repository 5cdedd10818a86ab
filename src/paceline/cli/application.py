"""The application that the commands belong to, and how it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, Token

from paceline.errors import UserError
from paceline.letters import message

app = App(
    name="paceline",
    help="Train the same network on several frameworks and devices, and see side by side what each costs.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # `main` says what became of the runs
)
EXIT_USER_ERROR, EXIT_FAILED_CELLS, EXIT_REGRESSION, EXIT_NO_VERDICT, EXIT_INTERRUPTED = 1, 2, 3, 4, 130
HOPELESS = {
    errno.ENOSPC,
    errno.EROFS,
    errno.EACCES,
    errno.EDQUOT,
    errno.EPERM,
    errno.EFBIG,
}  # the user's disk, not our bug


def absolute(_: object, tokens: Sequence[Token]) -> Path:
    """Workers run in folders of their own, from which a relative path would lead elsewhere."""
    return Path(tokens[0].value).absolute()


StoreFlag = Annotated[
    Path | None,
    Parameter(converter=absolute, help="Where results are kept; default: in the user's data directory."),
]
WaitFlag = Annotated[
    bool, Parameter(negative=(), help="Wait for another measurement on this machine to end, instead of giving up.")
]
MachineFlag = Annotated[
    str | None,
    Parameter(help="What to call this machine instead of knowing it by its system's id; or set PACELINE_MACHINE_NAME."),
]


def main() -> None:
    """Run a command; a user's mistake is one line."""
    try:
        code = app(exit_on_error=False, print_error=False) or 0
        sys.stdout.flush()
        sys.exit(code)
    except (UserError, CycloptsError) as error:
        complain(str(error))
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno not in HOPELESS:
            raise
        complain(f"Cannot write {error.filename or 'to the disk'}: {error.strerror}; nothing half written was kept.")
    except KeyboardInterrupt:
        kept = "finished runs are kept, the same command goes on from here (with --again from the start)"
        print(f"paceline: interrupted; {kept}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def complain(line: str) -> None:
    print(f"paceline: {message(line)}", file=sys.stderr)
    sys.exit(EXIT_USER_ERROR)
