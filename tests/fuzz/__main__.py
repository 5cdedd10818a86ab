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
from paceline.bundles.exporting import export_bundle
from tests.bundles.made import ALL, filled
from tests.fuzz.children import run
from tests.fuzz.kinds import KINDS, Material
from tests.fuzz.requests import requests

EVERY = (*KINDS, "requests")
PARTS = {"requests": 4}  # a request takes less time than a process


def main() -> int:
    given = _arguments()
    began, counts, faults = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="paceline-fuzz-") as folder:
        os.environ["PACELINE_HOME"] = f"{folder}/home"
        for kind, fault in _all(given, Path(folder), counts):
            faults += 1
            print(f"{kind}: {fault}", flush=True)
    told = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    print(f"{sum(counts.values()):,} inputs ({told}), {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--kinds", default=",".join(EVERY), help=", ".join(EVERY))
    parser.add_argument("--only", type=int, help="the number of one input of one kind")
    return parser.parse_args()


def _all(given: argparse.Namespace, folder: Path, counts: Counter[str]) -> Iterator[tuple[str, str]]:
    store, bundle = filled(folder / "good").folder, folder / "good.zip"
    export_bundle(filled(folder / "other"), ALL, bundle)
    _load_everything()
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        del os.environ[name]  # below a test, the library that parses flags would speak of it
    kinds = given.kinds.split(",")
    each = given.inputs // sum(PARTS.get(kind, 1) for kind in kinds)
    for kind in kinds:
        count = each * PARTS.get(kind, 1)
        if kind == "requests":
            counts[kind] += count
            yield from requests(random.Random(f"{given.seed}/{kind}"), store, count)  # noqa: S311 - a test, no secret
            continue
        material = Material(store, bundle, folder / kind)
        for number in range(count) if given.only is None else [given.only]:
            counts[kind] += 1
            made = KINDS[kind](random.Random(f"{given.seed}/{kind}/{number}"), material)  # noqa: S311 - as above
            for fault in run(made):
                yield f"{kind} {number}", f"{fault} ({' '.join(word[:60] for word in made.words)!r})"


def _load_everything() -> None:
    """Once, and not again in each of thousands of processes."""
    for module in pkgutil.walk_packages(paceline.__path__, "paceline."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


if __name__ == "__main__":
    sys.exit(main())
