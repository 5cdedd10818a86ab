"""From the words after `--` to commands with labels, devices and metrics, and to the plan of their runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.plan.cell import Cell
from paceline.plan.devices import DeviceSet, assign_cores, check_present, wanted_devices
from paceline.plan.external.command import ExternalCommand, OutputMetric
from paceline.plan.external.output_metrics import parse_metric, preset
from paceline.plan.planning import Plan, plan_anew
from paceline.system.errors import UserError
from paceline.system.limits import check_flag, check_runs
from paceline.system.machine.hardware import Machine
from paceline.system.text.safe_text import QUOTED, printable, shortened

SUITE = "time"  # under which `show --suite` finds the newest
BETWEEN = "---"
WORKLOAD = "command"  # what stands in a cell where Paceline does not know what is trained
LABEL_LENGTH = 24
STARTERS = re.compile(r"(python|pypy)[\d.]*|bash|sh|env|time|nice|taskset")


@dataclass(frozen=True)
class TimeOptions:
    """What the command line asks for in addition to the commands."""

    repeats: int
    warmup_runs: int
    timeout: float
    names: Sequence[str] = ()
    devices: Sequence[str] = ()
    presets: Sequence[str] = ()
    metrics: Sequence[str] = ()
    echo: bool = False


def make_plan(given: Sequence[str], options: TimeOptions, moment: str, machine: Machine) -> Plan:
    """Check all that a user can get wrong, then lay out the rounds."""
    check_flag("--repeats", options.repeats)
    check_flag("--warmup-runs", options.warmup_runs)
    check_flag("--timeout", options.timeout)
    cells = cells_of(split(given), options, machine)
    check_runs(len(cells) * options.repeats)
    return plan_anew(SUITE, cells, range(options.repeats), options.timeout, moment)


def cells_of(commands: Sequence[tuple[str, ...]], options: TimeOptions, machine: Machine) -> list[Cell]:
    called, count = labels(commands, options.names), len(commands)
    devices = for_each("--devices", options.devices, count, usual_devices(machine))
    presets = for_each("--preset", options.presets, count, "none")
    found = []
    for label, place, preset_name, words in zip(called, devices, presets, commands, strict=True):
        metrics = chosen_metrics(options.metrics, preset_name)
        command = ExternalCommand(arguments=words, folder=str(Path.cwd()), metrics=metrics)
        found.append(cell_of(label, device_set(place, machine), command, machine))
    return found


def split(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands between the `---`."""
    commands: list[list[str]] = [[]]
    for word in words:
        if word == BETWEEN:
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(command and command[0] for command in commands):
        raise UserError("Give a command after --, such as `paceline time -- python train.py`, and --- between several.")
    for word in words:
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(
                f"The word {shortened(word, QUOTED)!a} is not UTF-8, so it cannot be kept with the results."
            )
    return [tuple(command) for command in commands]


def labels(commands: Sequence[Sequence[str]], given: Sequence[str]) -> list[str]:
    """Those that were given, or a short name of each command; no two are alike."""
    if not given:
        return _numbered(_derived(commands))
    names = [printable(" ".join(name.split())) for name in given]
    if len(names) != len(commands):
        raise UserError(f"Give --name once for each command: there are {len(commands)}, but {len(names)} names.")
    if len(set(names)) < len(names) or not all(names) or any("," in name for name in names):
        raise UserError("Each --name must be another one, not empty and without commas.")
    return names


def _derived(commands: Sequence[Sequence[str]]) -> list[str]:
    """The program of each command, with its arguments where several have the same."""
    programs = [_program(command) for command in commands]
    count = Counter(name for name, _ in programs)
    names = [name if count[name] == 1 else " ".join((name, *arguments)) for name, arguments in programs]
    names = [printable(" ".join(name.replace(",", ";").split())) or "command" for name in names]
    return [name if len(name) <= LABEL_LENGTH else name[: LABEL_LENGTH - 1] + "…" for name in names]


def _program(command: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The script rather than its interpreter, and its arguments."""
    first = Path(command[0]).name
    if STARTERS.fullmatch(first):
        for position, word in enumerate(command[1:], 1):
            if word.endswith((".py", ".sh")) or command[position - 1] == "-m":
                return Path(word).name, command[position + 1 :]
    return first, command[1:]


def _numbered(names: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return numbered


def for_each(flag: str, given: Sequence[str], count: int, default: str) -> list[str]:
    """One value for all commands, or one for each."""
    if len(given) in (0, 1):
        return [*given, default][:1] * count
    if len(given) != count:
        raise UserError(f"Give {flag} once, or once for each of the {count} commands, not {len(given)} times.")
    return list(given)


def chosen_metrics(texts: Sequence[str], preset_name: str) -> tuple[OutputMetric, ...]:
    """Those that were asked for, before those of the preset."""
    own = tuple(parse_metric(text) for text in texts)
    asked = {metric.name for metric in own}
    return (*own, *(metric for metric in preset(preset_name) if metric.name not in asked))


def device_set(text: str, machine: Machine) -> DeviceSet:
    devices = wanted_devices(text)
    check_present(devices, machine)
    return devices


def usual_devices(machine: Machine) -> str:
    """All GPUs, or the processor where there is none."""
    return "+".join(f"cuda:{index}" for index in range(len(machine.gpus))) or "1xcpu"


def cell_of(label: str, devices: DeviceSet, command: ExternalCommand, machine: Machine) -> Cell:
    """Its place in a table. Nothing is known of batch, data or precision, and cores are noted, not enforced."""
    each = max(1, len(machine.cores) // devices.count)
    return Cell(
        workload=WORKLOAD,
        framework=label,
        devices=devices.name,
        update="",
        data="",
        precision="",
        batch_size=0,
        scaling="",
        steps=0,
        warmup=0,
        learning_rate=0.0,
        seed=0,
        cores=assign_cores(devices, each, machine.cores),
        oversubscribed=False,
        command=command,
    )
