"""What the two halves say to each other: a job goes in, events come out, both as JSON in the run's folder."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, Tuple

JOB_FILE = "job.json"
JOB_FORMAT = 1  # raised when an older worker would take a job for something else
LEASE_FILE = "lease"  # locked by the orchestrator for as long as it lives

# The phases of a run, in order. Only `train` is measured as training.
PHASES = ("start", "build", "compile", "warmup", "train", "evaluate", "finish")


@dataclass(frozen=True)
class Recipe:
    """How the weights are changed: d = g + decay * w, v = momentum * v + d, w = w - rate * v.

    Nesterov's form takes w = w - rate * (d + momentum * v). The rate stands outside of v, as in PyTorch and
    TensorFlow: a new rate holds at once for all that momentum has gathered.
    """

    learning_rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0  # as it stands in the gradient: a loss term of c * sum(w**2) is a decay of 2c
    decayed: Tuple[str, ...] = ("conv.kernel", "dense.kernel")  # roles of the parameters it applies to
    nesterov: bool = False
    drops: Tuple[Tuple[float, float], ...] = ()  # from this epoch on, the learning rate times this factor
    warmup_epochs: float = 0.0  # the rate grows in equal steps until then

    def rate(self, epochs: float, epochs_per_step: float) -> float:
        """The learning rate of the step that begins after so many passes over the data."""
        grown = (epochs + epochs_per_step) / self.warmup_epochs if self.warmup_epochs else 1.0
        factors = [factor for start, factor in self.drops if epochs >= start]
        return self.learning_rate * min(1.0, grown) * math.prod(factors)


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
    update: str  # how the devices agree: replicated, parameter_server, independent
    data: str  # fake:device, fake:host, fake:python, or the name of a data set
    precision: str
    seed: int
    steps: int
    warmup: int  # at least so many steps before the clock
    block_steps: int  # steps between two readings of the clock
    patience_seconds: float  # how long a rank waits for the others
    epoch_images: int  # how many images a pass over the training data is
    parameter_device: str = "cpu"  # where a parameter server keeps its copy: "cpu", the host, or the first "device"
    wrapped: bool = False  # use what several devices need also for one: its cost without the others
    slow: Tuple[float, ...] = ()  # how much longer each device is to take than it needs: a simulation
    dataset: str = ""  # the folder of real images
    pipeline: Dict[str, Any] = field(default_factory=dict)  # Pipeline.to_json(): what is done to them
    evaluate: str = "never"  # on all test images: after each "epoch", at the "end"
    count_correct: bool = False  # whether training counts the images that it gets right
    task: str = "train"  # or one of probe.SHOWN: show what is computed instead of how fast
    rates: Tuple[float, ...] = ()  # of a probe's steps
    given: str = ""  # for the reference: a file of another framework's layer outputs to go on from

    @property
    def batch_size(self) -> int:
        """Images of one step on all devices together."""
        return sum(self.shares)

    @property
    def exchanges(self) -> bool:
        """Whether the update's mechanism is used: one device alone has nobody to agree with."""
        return len(self.devices) > 1 or self.wrapped

    def weight(self, share: int) -> float:
        """What a mean over so many images counts in a mean of the devices, so that every image counts the same."""
        return share * len(self.devices) / self.batch_size

    def to_json(self) -> dict[str, Any]:
        return {"format": JOB_FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Job:
        """Also a job of an older version, which lacks the fields that came later."""
        told = dict(value)
        if told.pop("format", 1) > JOB_FORMAT:
            raise ValueError(f"This job has format {value['format']}, and Paceline here reads up to {JOB_FORMAT}.")
        recipe: Dict[str, Any] = dict(told["recipe"])
        recipe["decayed"] = tuple(recipe.get("decayed", Recipe.decayed))
        recipe["drops"] = tuple((start, factor) for start, factor in recipe.get("drops", ()))
        told["recipe"] = Recipe(**recipe)
        told.update({name: tuple(told[name]) for name in ("devices", "shares", "rates", "slow") if name in told})
        told["cores"] = tuple(tuple(row) for row in told["cores"])
        return cls(**told)

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
