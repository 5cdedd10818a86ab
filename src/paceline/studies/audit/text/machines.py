"""The machine of each row: its table may name it, or the prose above; well-known ones have a known number of GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from paceline.studies.audit.printed_rows import PrintedMachine, PrintedRow
from paceline.studies.audit.text.headings import LONGEST, counts_machines

# From the makers' pages: AWS EC2 accelerated instances, Azure N series, Google Cloud A2 and A3, NVIDIA DGX.
GPUS = {
    "p2.xlarge": 1, "p2.8xlarge": 8, "p2.16xlarge": 16,
    "p3.2xlarge": 1, "p3.8xlarge": 4, "p3.16xlarge": 8, "p3dn.24xlarge": 8,
    "p4d.24xlarge": 8, "p4de.24xlarge": 8, "p5.48xlarge": 8, "p5e.48xlarge": 8, "p5en.48xlarge": 8,
    "g3s.xlarge": 1, "g3.4xlarge": 1, "g3.8xlarge": 2, "g3.16xlarge": 4,
    "g4dn.xlarge": 1, "g4dn.2xlarge": 1, "g4dn.4xlarge": 1, "g4dn.8xlarge": 1, "g4dn.16xlarge": 1,
    "g4dn.12xlarge": 4, "g4dn.metal": 8,
    "g5.xlarge": 1, "g5.2xlarge": 1, "g5.4xlarge": 1, "g5.8xlarge": 1, "g5.16xlarge": 1,
    "g5.12xlarge": 4, "g5.24xlarge": 4, "g5.48xlarge": 8,
    "g6.xlarge": 1, "g6.2xlarge": 1, "g6.4xlarge": 1, "g6.8xlarge": 1, "g6.16xlarge": 1,
    "g6.12xlarge": 4, "g6.24xlarge": 4, "g6.48xlarge": 8,
    "nc6": 1, "nc12": 2, "nc24": 4, "nc24r": 4,
    "nd40rs_v2": 8, "nd96asr_v4": 8, "nd96amsr_a100_v4": 8, "nd96isr_h100_v5": 8,
    "a2-highgpu-1g": 1, "a2-highgpu-2g": 2, "a2-highgpu-4g": 4, "a2-highgpu-8g": 8, "a2-megagpu-16g": 16,
    "a2-ultragpu-1g": 1, "a2-ultragpu-2g": 2, "a2-ultragpu-4g": 4, "a2-ultragpu-8g": 8, "a3-highgpu-8g": 8,
    "dgx1": 8, "dgx-1": 8, "dgx2": 16, "dgx-2": 16, "dgx a100": 8, "dgx h100": 8,
}  # fmt: skip
NAMED = re.compile(
    r"(?<![\w.-])(?:standard_)?(" + "|".join(map(re.escape, sorted(GPUS, key=len, reverse=True))) + r")(?![\w-]|\.\w)",
    re.IGNORECASE,
)
SHORT = re.compile(r"(?<![\w.-])([pg]\d\w{0,3}\.\d{0,2}x)(?![\w-])", re.IGNORECASE)  # p2.8x
SEVERAL = re.compile(
    r"\b((compute|worker|\d+|two|four|several|many|multiple) (nodes|hosts|instances|machines|servers|workers)|"
    r"clusters?|multi-?node|slurm|mpirun)\b|\d\s?[x×]\s?(aws|p\d|g\d|dgx)|dgx.{0,9}pod",
    re.IGNORECASE,
)
LINK = re.compile(r"\]\([^()\s]{0,500}\)|https?://[^\s)]{0,500}")


ALONE = re.compile(r"\b(machine|instance|server|host|infrastructure|hardware)\b", re.IGNORECASE)
COUNTED = re.compile(
    r"(?<![\w.])(\d{1,5})\s?[x×]\s?(?:nvidia |tesla |geforce )?[A-Z]{1,3}\d", re.IGNORECASE
)  # 32x V100
MULTIPLIED = re.compile(
    r"large\)?\s?[x×*]\s?\d|\b\d{1,5}\s?[x×*]\s?(?:standard_)?\w{1,9}[.-]|\(\d{1,5}\)", re.IGNORECASE
)


def machine_in(text: str) -> PrintedMachine | None:
    """The largest machine that a text names; a number of cards with it counts as well."""
    bare = LINK.sub(" ", text)
    found = [*NAMED.findall(bare), *(f"{name}large" for name in SHORT.findall(bare))]
    largest = max((name for name in found if name.lower() in GPUS), key=lambda name: GPUS[name.lower()], default=None)
    if not largest:
        return None
    devices = max(GPUS[largest.lower()], *map(int, COUNTED.findall(bare)), 0)
    return PrintedMachine(largest, devices, bool(ALONE.search(bare)))


def speaks_of_several(text: str) -> bool:
    """Several machines together have more GPUs than one."""
    return bool(SEVERAL.search(LINK.sub(" ", text)))


def with_machines(rows: list[PrintedRow], headings: Sequence[str], above: PrintedMachine | None) -> list[PrintedRow]:
    """None where a column counts machines, since several have more devices than one."""
    if any(map(counts_machines, headings)):
        return rows
    alone = any(ALONE.search(heading) for heading in headings if len(heading) <= LONGEST)
    named = {text: _named(text, alone=alone) for text in {text for row in rows for text in row.about}}
    return [replace(row, machine=machine) if (machine := _largest(row, named) or above) else row for row in rows]


def _named(cell: str, *, alone: bool) -> PrintedMachine | None:
    machine = machine_in(cell)
    if machine and (speaks_of_several(cell) or MULTIPLIED.search(cell)):
        return replace(machine, devices=0)  # how many they have together is not known
    return machine and replace(machine, alone=alone or machine.alone)


def _largest(row: PrintedRow, named: dict[str, PrintedMachine | None]) -> PrintedMachine | None:
    found = [machine for text in row.about if (machine := named[text])]
    return max(found, key=lambda each: each.devices, default=None)
