"""The flags that choose what is measured: the keys of a suite."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cyclopts import Parameter

from paceline.system.errors import UserError
from paceline.system.text.safe_text import quoted


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SuiteFlags:
    """The keys of a suite as flags; several values are joined by commas."""

    quick: bool = False
    "A suite in its small form, for a machine without GPUs."
    framework: str | None = None
    "Such as torch,jax,torch+compile; all stands for every one."
    devices: str | None = None
    "Device sets, such as 1xcpu,2xcpu or cuda:0,cuda:0+cuda:2."
    gpus: str | None = None
    "Short for one set of GPUs: 0,2 is --devices cuda:0+cuda:2."
    scale: str | None = None
    "Short for sets of growing size: 1,2,4 is --devices 1xcpu,2xcpu,4xcpu, or xcuda where there are GPUs."
    batch_size: str | None = None
    "Images of a step on all devices together (strong scaling)."
    batch_per_device: str | None = None
    "Images of a step on each device (weak scaling)."
    shares: str | None = None
    "How the batch is divided: equal, measured (each device alone, in short runs), or 2:2:1 where a set has three."
    slow: str | None = None
    "Simulate unlike CPU devices: 1:2.0 makes device 1 take twice as long."
    single: str | None = None
    "How one device runs: plain, wrapped (in what several devices need), or both."
    steps: str | None = None
    "Measured steps of a run."
    epochs: str | None = None
    "Measured length as passes over the data set; 10,100 makes two cells."
    warmup: str | None = None
    "Steps before the clock starts, at least."
    evaluate: str | None = None
    "When to evaluate on all test images of real data: epoch, end or never; default: epoch with --epochs."
    lr: str | None = None
    "Learning rate instead of the workload's; 0.05,0.4 makes two cells."
    lr_rule: str | None = None
    "How the rate follows the batch, from the workload's own batch on: none, linear or sqrt."
    seed: str | None = None
    "For weights, data and the order of runs."
    update: str | None = None
    "How devices agree: replicated, parameter_server, independent."
    parameter_device: str | None = None
    "Where a parameter server keeps its copy: cpu (the host) or device (the first one)."
    data: str | None = None
    "Where images come from: fake:device, fake:host, fake:python or cifar10."
    input: str | None = None
    "What is done to real images, such as level1; `paceline list workloads` shows the choices."
    precision: str | None = None
    "float32 or bfloat16."
    cores_per_device: str | None = None
    "Cores of a CPU device; default: all cores divided by the largest CPU set."
    repeats: str | None = None
    "Fresh processes per cell."
    layout: str | None = None
    "Shape of the table: rows, sources, matrix, long or transposed."
    interval_target: str | None = None
    "Add rounds for cells whose 95 % interval is wider than this part of the median, such as 0.03."
    budget: str | None = None
    "Seconds for those rounds, of which the last is finished once it has begun; default: 600."
    timeout: str | None = None
    "Seconds after which a run is ended."

    def settings(self) -> dict[str, Any]:
        """Those that were given, as a suite file would have them."""
        from paceline.plan.suite import FIELDS, LISTS

        given = {key: value for key, value in vars(self).items() if value is not None and value is not False}
        ways = [key for key in ("devices", "gpus", "scale") if key in given]
        if len(ways) > 1:
            raise UserError(f"Give {' or '.join(f'--{way}' for way in ways)}, not both.")
        if "gpus" in given:
            given["devices"] = _cards(given.pop("gpus"))
        if "scale" in given:
            given["devices"] = _growing_sets(given.pop("scale"))
        return {
            key: value if value is True else _parse(key, value, FIELDS[key], key in LISTS)
            for key, value in given.items()
        }


def _cards(text: str) -> str:
    from paceline.system.text.synonyms import NO_GPUS

    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise UserError(f"--gpus {quoted(text)}: give the numbers of cards from 0 up, such as 0,2. {NO_GPUS}")
    return "+".join(f"cuda:{number}" for number in numbers)


def _growing_sets(text: str) -> str:
    from paceline.plan.devices import MOST_DEVICES
    from paceline.system.machine.hardware import this_machine
    from paceline.system.text.synonyms import NO_GPUS

    counts = text.split(",")
    if not all(re.fullmatch(r"[1-9]\d{0,3}", count) for count in counts):
        none = f" {NO_GPUS}" if "0" in counts else ""
        raise UserError(
            f"--scale {quoted(text)}: give numbers of devices from 1 to {MOST_DEVICES}, such as 1,2,4.{none}"
        )
    kind = "cuda" if this_machine().gpus else "cpu"
    return ",".join(f"{count}x{kind}" for count in counts)


def _parse(key: str, text: str, kind: Any, several: bool) -> Any:
    """Numbers where the suite wants numbers."""
    convert = float if "float" in str(kind) else int if "int" in str(kind) else str
    values = [_value(key, part, convert) for part in (text.split(",") if several else [text])]
    return values if several else values[0]


def _value(key: str, text: str, convert: type) -> Any:
    try:
        return convert(text)
    except ValueError:
        whole = "whole " if convert is int else ""
        raise UserError(f"--{key.replace('_', '-')} {quoted(text)} is not a {whole}number.") from None
