"""What README and docs tell people to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cyclopts import App

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"(^|\s)#(\s.*)?$")


def commands(text: str) -> list[str]:
    """The lines of all sh blocks of a page, without comments; one that ends with a backslash goes on."""
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [line for line in (COMMENT.sub("", line).strip() for line in lines) if line]


def all_commands(parent: App, before: str = "") -> dict[str, App]:
    """By full name, such as `data get`."""
    found: dict[str, App] = {}
    for name, command in parent.resolved_commands().items():
        if name.startswith("-"):  # cyclopts takes --help for a command
            continue
        if command.default_command:
            found[before + name] = command
        else:
            found.update(all_commands(command, f"{before}{name} "))
    return found


def flags_of(command: App) -> set[str]:
    """All names by which a command knows its flags."""
    known = [each for each in command.assemble_argument_collection() if each.show and not each.field_info.is_positional]
    return {name for argument in known for name in argument.names}


def inline_commands(text: str) -> list[list[str]]:
    """`paceline …` in the middle of a sentence, as words; what stands behind `--` is another program's."""
    found = (shlex.split(" ".join(line.split())) for line in re.findall(r"`(paceline [^`]+)`", text))
    return [words[1 : words.index("--")] if "--" in words else words[1:] for words in found]


COMMANDS = list(dict.fromkeys(line for page in PAGES for line in commands(page.read_text(encoding="utf-8"))))
