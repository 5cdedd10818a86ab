"""What the prose around results tables says, against the tables: ratios, and commands under their headings."""

from __future__ import annotations

import re

from paceline.auditing.rows import DEVICES, Command, Document, Finding, Number, Verdicts


def claims(document: Document, name: str) -> Verdicts:
    """Ratios in the prose against the rows of one device; near enough on some of them is a note."""
    for claim in document.claims:
        ratios = _claimed_ratios(document, claim.quantity, claim.better, claim.worse)
        if not ratios:
            continue
        half = claim.factor.step / 2
        fits = [abs(ratio - claim.factor.value) <= half for ratio, _ in ratios]
        sums = " and ".join(text for _, text in ratios)
        if not any(fits):
            yield Finding(where=claim.where, rule=name, text=f"claimed {claim.factor.text} times, but {sums}")
        elif not all(fits):
            text = f"claimed {claim.factor.text} times: {sums}; rounding makes it right in {sum(fits)} of {len(fits)}"
            yield Finding(where=claim.where, rule=name, text=text, counts=False)
        else:
            yield None


def _claimed_ratios(document: Document, quantity: str, better: str, worse: str) -> list[tuple[float, str]]:
    """For each single device that both were measured on; less time or memory is better."""
    figures: dict[str, dict[str, Number]] = {better.lower(): {}, worse.lower(): {}}
    for row in (row for table in document.tables for row in table.rows if len(row.about) == 2):
        found, devices = row.one(quantity), row.one(DEVICES)
        if found and devices and devices.value == 1 and row.about[0].lower() in figures:
            figures[row.about[0].lower()].setdefault(row.about[1], found)
    pairs = [(d, a, b) for d, a in figures[worse.lower()].items() if (b := figures[better.lower()].get(d)) and b.value]
    return [(a.value / b.value, f"{a.text} / {b.text} = {a.value / b.value:.2f} on {device}") for device, a, b in pairs]


def commands(document: Document, name: str) -> Verdicts:
    """The number of devices that a command asks for, against what its heading says."""
    for command in document.commands:
        if asked := _asked_devices(command):
            flag, counts = asked
            text = f"heading has {command.devices} devices, but `{flag}` asks for {counts[-1]}"
            yield None if command.devices in counts else Finding(where=command.where, rule=name, text=text)


def _asked_devices(command: Command) -> tuple[str, tuple[int, ...]] | None:
    """The flag and what it may mean; a single number behind --gpus may be a count or an index."""
    if found := re.search(
        r"(?:--num[-_]gpus|--max[-_]devices|(?<!python)(?<!python3) -m)[ =](\d{1,9})\b", command.text
    ):
        return found[0].strip(), (int(found[1]),)
    if found := re.search(r"--gpus?[ =](\d{1,9}(?:,\d{1,9})*)(?!\S)", command.text):
        indices = found[1].split(",")
        return found[0], (1, int(indices[0]) or 1) if len(indices) == 1 else (len(indices),)
    return None
