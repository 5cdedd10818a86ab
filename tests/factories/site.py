"""A served store whose names, reasons and logs want to be scripts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import escape

from paceline.store.store import Store
from tests.factories.runs import FAILED, cell, record, save_plan, save_run, trained
from tests.factories.server import Served, serving

HOSTILE = "\"'><script>alert(1)</script>"
ESCAPED = str(escape(HOSTILE))
RUNS = {name: f"20260101-00000{place}-000000-aaaaa{place}" for place, name in enumerate(("good", "bad", "new"))}


@dataclass(frozen=True)
class Site:
    """A served store with a plan of two cells, one of them failed and both with hostile names, and a newer plan."""

    served: Served
    store: Store
    plan: str
    newer: str


@contextlib.contextmanager
def served_site(folder: Path) -> Iterator[Site]:
    """Its plans were made now; the ids of its runs are older."""
    store = Store(folder)
    hostile, usual = cell(framework=HOSTILE), cell()
    save_plan(store, {hostile: ["bad"], usual: ["good"]}, skips={cell(precision="bfloat16"): HOSTILE}, suite=HOSTILE)
    good = save_run(store, record(RUNS["good"], "good"), [trained(1000, 2.0)])
    (good / "log.txt").write_bytes(b"first\n" + b"\x1b[31mred\x1b[0m \x07\x1b]0;title\x07\n" + HOSTILE.encode() + b"\n")
    save_run(store, record(RUNS["bad"], "bad", hostile), [trained(10, 1.0)], FAILED)
    save_plan(store, {usual: ["new"]}, suite="again")
    save_run(store, record(RUNS["new"], "new"), [trained(1000, 1.0)])
    older, newer = (row["id"] for row in store.query("SELECT id FROM plan ORDER BY id"))
    with serving(store.folder) as served:
        yield Site(served, store, older, newer)


def paths(site: Site) -> list[str]:
    """Every kind of page, and what can be downloaded."""
    compared, hostile = f"/compare?old=plan:{site.plan}&new=plan:{site.newer}", quote(HOSTILE)
    shown = ["/", f"/plans/{site.plan}", "/results", "/runs", *(f"/runs/{run}" for run in RUNS.values()), compared]
    asked = [f"/compare?old={hostile}&new=suite:{hostile}", f"/runs?framework={hostile}", f"/nowhere/{hostile}"]
    return [
        *shown,
        *asked,
        *(f"/plans/{site.plan}/table.{form}" for form in ("csv", "md")),
        f"/runs/{RUNS['good']}/log",
    ]
