"""`python -m tests.fuzz --inputs 10000 --seed 1`: counts what was given, and prints what was not held."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import paceline
from tests.fuzz.children import Input, judged
from tests.fuzz.kinds import KINDS
from tests.fuzz.material import Material, material
from tests.fuzz.requests import requests

EVERY = (*KINDS, "requests")
PARTS = {"requests": 4}  # a request takes less time than a process


def main() -> int:
    given = _arguments()
    began, counts, faults = time.monotonic(), {kind: Counter[str]() for kind in given.kinds.split(",")}, 0
    with tempfile.TemporaryDirectory(prefix="paceline-fuzz-") as folder:
        os.environ["PACELINE_HOME"] = f"{folder}/home"
        os.environ["PACELINE_LOCK"] = f"{folder}/lock"  # while somebody measures, pages say that and nothing else
        for kind, fault in _all(given, Path(folder), counts):
            faults += 1
            print(f"{kind}: {fault}", flush=True)
    for kind, found in counts.items():
        ways = ", ".join(f"{count:,} {way}" for way, count in sorted(found.items()))
        print(f"{found.total():,} {kind}: {ways}")
    inputs = sum(found.total() for found in counts.values())
    print(f"{inputs:,} inputs, {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kinds", default=",".join(EVERY), help=", ".join(EVERY))
    parser.add_argument("--only", type=int, help="the number of one input of one kind")
    return parser.parse_args()


def _all(given: argparse.Namespace, folder: Path, counts: dict[str, Counter[str]]) -> Iterator[tuple[str, str]]:
    good = material(folder)
    _load_everything()
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        del os.environ[name]  # below a test, the library that parses flags would speak of it
    each = given.inputs // sum(PARTS.get(kind, 1) for kind in counts)
    for kind, count in counts.items():
        several = each * PARTS.get(kind, 1)
        if kind == "requests":
            draw = random.Random(f"{given.seed}/{kind}")  # noqa: S311 - a test, no secret
            yield from requests(draw, good.store, several, count)
            continue
        for number in range(several) if given.only is None else [given.only]:
            yield from _one(kind, f"{given.seed}/{kind}/{number}", good, count)


def _one(kind: str, seed: str, good: Material, count: Counter[str]) -> Iterator[tuple[str, str]]:
    made: list[Input] = []

    def make() -> Input:
        made.append(KINDS[kind](random.Random(seed), good))  # noqa: S311 - a test, no secret
        return made[-1]

    way, faults = judged(make)
    count[way] += 1
    for fault in faults:
        yield seed, f"{fault} ({' '.join(word[:60] for word in made[-1].words)!r})"


def _load_everything() -> None:
    """Once, and not again in each of thousands of processes."""
    for module in pkgutil.walk_packages(paceline.__path__, "paceline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    sys.exit(main())
