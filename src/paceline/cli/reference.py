"""The reference of the command line, made from the commands themselves: `make docs` writes docs/cli.md.

Own tables instead of cyclopts' generated pages: those repeat the flags of a suite for every command that takes them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

from cyclopts import App, Argument

from paceline.cli import app
from paceline.cli.application import (
    EXIT_FAILED_CELLS,
    EXIT_INTERRUPTED,
    EXIT_NO_VERDICT,
    EXIT_REGRESSION,
    EXIT_USER_ERROR,
    PANELS,
)
from paceline.cli.suite_flags import SuiteFlags
from paceline.report.escaping import markdown_cell

INTRODUCTION = (
    "Every command and every flag. This page is made from the code by `make docs`; "
    "`paceline --help` and `paceline COMMAND --help` say the same in a terminal."
)
EXIT_CODES = {
    0: "all went well",
    EXIT_USER_ERROR: "a mistake in the command or in what it was given: one line says what is wrong",
    EXIT_FAILED_CELLS: "some cells failed, or something was found to be wrong",
    EXIT_REGRESSION: "slower than before (`compare`)",
    EXIT_NO_VERDICT: "one cannot tell: of some cell (`compare --require-verdict`), or of a table (`audit`)",
    EXIT_INTERRUPTED: "interrupted; finished runs are kept",
}
SUITE_FLAGS = "Flags of a suite"
SUITE_WORDS = (
    "They span the matrix of cells; several values are joined by commas. A suite file has the same keys, and flags go "
    "before what it says."
)


def page() -> str:
    """The whole of docs/cli.md."""
    commands = all_commands(app)
    codes = [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    listed = [
        f"| [`{name}`](#paceline-{_anchor(name)}) | {_summary(command)[0]} |" for name, command in commands.items()
    ]
    return "\n".join(
        [
            *("# Commands", "", INTRODUCTION, ""),
            *("| command | what it does |", "|---|---|", *listed, ""),
            *("| exit code | meaning |", "|---|---|", *codes, ""),
            *(line for name, command in commands.items() for line in _section(name, command)),
            *(f"## {SUITE_FLAGS}", "", SUITE_WORDS, "", *_groups(_suite_arguments(commands["run"]))),
        ]
    )


def all_commands(parent: App, before: str = "") -> dict[str, App]:
    """By full name, such as `data get`, in the order of the alphabet."""
    found: dict[str, App] = {}
    for name, command in sorted(parent.resolved_commands().items(), key=lambda pair: pair[0]):
        if name.startswith("-"):  # cyclopts takes --help for a command
            continue
        if command.default_command:
            found[before + name] = command
        else:
            found.update(all_commands(command, f"{before}{name} "))
    return found


def flags_of(command: App) -> set[str]:
    """All names by which a command knows its flags."""
    return {name for argument in _shown(command) if not _positional(argument) for name in argument.names}


def _section(name: str, command: App) -> Iterator[str]:
    own, shared = _own_arguments(command), _suite_arguments(command)
    places = [_name(argument) for argument in own if _positional(argument)]
    flags = ["[flags]"] if shared or len(places) < len(own) else []
    yield from (f"## paceline {name}", "", "```text", " ".join(["paceline", name, *places, *flags]), "```", "")
    for paragraph in _summary(command):
        yield from (paragraph, "")
    yield from _table(own)
    if shared:
        yield from (f"And the [{SUITE_FLAGS.lower()}](#{_anchor(SUITE_FLAGS)}).", "")


def _summary(command: App) -> list[str]:
    """What the docstring says before its list of parameters, paragraph by paragraph."""
    text = inspect.cleandoc(command.help).partition("Parameters\n-----")[0]
    return [markdown_cell(paragraph) for paragraph in text.strip().split("\n\n")]


def _groups(arguments: list[Argument]) -> Iterator[str]:
    """A table for each group, as in help."""
    for name, panel in PANELS.items():
        members = [argument for argument in arguments if argument.parameter.group == (panel,)]
        yield from (f"### {name}", "", *_table(members))


def _table(arguments: Iterable[Argument]) -> list[str]:
    rows = [_row(argument) for argument in arguments]
    return ["| | meaning | default |", "|---|---|---|", *rows, ""] if rows else []


def _row(argument: Argument) -> str:
    text = (argument.parameter.help or "").strip()
    choices = ", ".join(argument.get_choices() or ())
    meaning = " ".join(filter(None, (text, f"One of {choices}." if choices else "")))
    names = _name(argument) if _positional(argument) else ", ".join(argument.parameter.name or ())
    in_words = "default:" in text  # in words, which say more
    shown = "" if in_words else _default(argument)
    return f"| `{names}` | {markdown_cell(meaning)} | {f'`{shown}`' if shown else ''} |"


def _default(argument: Argument) -> str:
    if isinstance(argument.show_default, str):
        return argument.show_default
    value = argument.field_info.default
    return "" if value in (inspect.Parameter.empty, None, False, ()) else str(value)


def _own_arguments(command: App) -> list[Argument]:
    shared = {argument.name for argument in _suite_arguments(command)}
    return [argument for argument in _shown(command) if argument.name not in shared]


def _suite_arguments(command: App) -> list[Argument]:
    """Those that come from `SuiteFlags`, if the command takes it."""
    if not command.default_command or "choices" not in inspect.signature(command.default_command).parameters:
        return []
    names = {_flag(name) for name in SuiteFlags.__dataclass_fields__}
    return [argument for argument in _shown(command) if argument.name in names]


def _shown(command: App) -> list[Argument]:
    return [argument for argument in command.assemble_argument_collection(parse_docstring=True) if argument.show]


def _positional(argument: Argument) -> bool:
    return argument.field_info.is_positional


def _name(argument: Argument) -> str:
    """A place: `OLD` must be there, `[WHAT]` may, `WHAT...` may be several."""
    word = argument.field_info.name.upper()
    if argument.is_var_positional():
        return f"{word}..."
    return word if argument.required else f"[{word}]"


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")


if __name__ == "__main__":
    sys.stdout.write(page())
