"""Commands in a text, against the headings that they stand under."""

from __future__ import annotations

import re
from collections import Counter

from paceline.studies.audit.printed_rows import Document, PrintedCommand
from paceline.studies.audit.rules.definition import Checks, TableCheck

PROGRAM = re.compile(r"(?<![\w-])([\w-]{1,100}\.(?:py|sh|lua|jl|exe))(?![\w.])")
OF_A_HEADING = 2  # commands with one program, before it is taken for the program of that heading


def devices_of_commands(document: Document) -> Checks:
    """The number of devices that a command asks for, against what its heading says."""
    for command in document.commands:
        if asked := _asked_devices(command):
            flag, counts = asked
            text = f"heading has {command.devices} devices, but `{flag}` asks for {counts[-1]}"
            yield TableCheck(command.where, None if command.devices in counts else text)


def _asked_devices(command: PrintedCommand) -> tuple[str, tuple[int, ...]] | None:
    """The flag and what it may mean; a single number behind --gpus may be a count or an index."""
    if found := re.search(
        r"(?:--num[-_]gpus|--max[-_]devices|(?<!python)(?<!python3) -m)[ =](\d{1,9})\b", command.text
    ):
        return found[0].strip(), (int(found[1]),)
    if found := re.search(r"--gpus?[ =](\d{1,9}(?:,\d{1,9}){0,999})(?!\S)", command.text):
        indices = found[1].split(",")
        return found[0], (1, int(indices[0]) or 1) if len(indices) == 1 else (len(indices),)
    return None


def programs_of_headings(document: Document) -> Checks:
    """Find commands under the heading of one framework whose program belongs to another heading."""
    named = [(command, found[1]) for command in document.commands if (found := PROGRAM.search(command.text))]
    counts: dict[str, Counter[str]] = {}
    for command, program in named:
        counts.setdefault(command.heading, Counter())[program] += 1
    own = {heading: max(programs, key=lambda name: programs[name]) for heading, programs in counts.items() if heading}
    own = {heading: name for heading, name in own.items() if counts[heading][name] >= OF_A_HEADING}
    if len(set(own.values())) < 2:
        return
    owners = {name: heading for heading, name in reversed(own.items())}
    for command, program in named:
        if command.heading not in own:
            continue
        is_wrong = own[command.heading] != program and program in owners
        wrong = f"heading is {command.heading}, but `{program}` is the program of {owners.get(program)}"
        yield TableCheck(command.where, wrong if is_wrong else None)
