"""What the two halves say to each other: a job goes in, events come out, both as JSON in the run's folder."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, Tuple

JOB_FILE = "job.json"
LEASE_FILE = "lease"  # locked by the orchestrator for as long as it lives

# The phases of a run, in order. Only `train` is measured as training.
PHASES = ("start", "build", "compile", "warmup", "train", "evaluate", "finish")


@dataclass(frozen=True)
class Recipe:
    """How the weights are changed: v = momentum * v + g + decay * w, w = w - learning_rate * v."""

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0  # as it stands in the gradient: a loss term of c * sum(w**2) is a decay of 2c
    decayed: Tuple[str, ...] = ("conv.kernel", "dense.kernel")  # roles of the parameters it applies to


@dataclass(frozen=True)
class Job:
    """All that a worker needs to know; every rank reads the same one."""

    framework: str  # the folder under frameworks/
    mode: str  # such as "compile", or "" for none
    graph: Dict[str, Any]  # Graph.to_json()
    classes: int
    recipe: Recipe
    devices: Tuple[str, ...]  # "cpu:0", "cuda:1", …: they train together
    cores: Tuple[Tuple[int, ...], ...]  # processor cores of each device
    shares: Tuple[int, ...]  # images of each step that each device gets
    update: str  # replicated, …
    data: str  # fake:device, fake:host, fake:python
    precision: str
    seed: int
    steps: int
    warmup: int  # at least so many steps before the clock
    evaluation_steps: int  # batches to evaluate after training
    block_steps: int  # steps between two readings of the clock
    patience_seconds: float  # how long a rank waits for the others
    task: str = "train"  # or "probe": show what is computed instead of how fast
    given: str = ""  # for the reference: a file of another framework's layer outputs to go on from

    @property
    def batch_size(self) -> int:
        """Images of one step on all devices together."""
        return sum(self.shares)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        recipe = Recipe(**{**value["recipe"], "decayed": tuple(value["recipe"]["decayed"])})
        tuples = {name: tuple(value[name]) for name in ("devices", "shares")}
        cores = tuple(tuple(row) for row in value["cores"])
        return cls(**{**value, **tuples, "recipe": recipe, "cores": cores})

    @classmethod
    def read(cls, folder: Path) -> Job:
        return cls.from_json(json.loads((folder / JOB_FILE).read_text(encoding="utf-8")))


def event_file(folder: Path, rank: int) -> Path:
    return folder / f"events-{rank}.jsonl"


def arrays_file(folder: Path, rank: int) -> Path:
    """What a probe has seen."""
    return folder / f"arrays-{rank}.npz"


@dataclass
class EventLog:
    """Appends events to this rank's file; each is on disk before the call returns, whatever comes after."""

    path: Path
    phase: str = field(default="start")

    def __post_init__(self) -> None:
        self._descriptor = os.open(str(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **facts: Any) -> None:
        line = json.dumps({"event": event, "time": time.time(), "phase": self.phase, **facts}, ensure_ascii=False)
        os.write(self._descriptor, line.encode(errors="replace") + b"\n")  # half a surrogate pair is no JSON

    def enter(self, phase: str, **facts: Any) -> None:
        """Begin a phase: what comes next, and what goes wrong next, belongs to it."""
        self.phase = phase
        self.write("phase", **facts)
