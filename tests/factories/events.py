"""Events as a worker would have written them, one call for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from paceline.store.records.events import AnyEvent, Block, Evaluation, EventFile, Failed, Finished, Phase


def entered(phase: str, time: float = 0.0, **facts: Any) -> Phase:
    return Phase(time=time, phase=phase, **facts)


def block(phase: str, seconds: float, images: int, *, processor_seconds: float = 1.0, **facts: Any) -> Block:
    return Block(
        time=0.0,
        phase=phase,
        steps=1,
        images=images,
        seconds=seconds,
        processor_seconds=processor_seconds,
        losses=[1.0],
        **facts,
    )


def evaluated(images: int, seconds: float, *, steps: int = 1, correct: int = 0, epoch: int | None = None) -> Evaluation:
    counts = {"steps": steps, "images": images, "correct": correct}
    return Evaluation(time=0.0, phase="evaluate", loss=1.0, seconds=seconds, epoch=epoch, **counts)


def failed(kind: str, message: str, *, phase: str = "train", time: float = 0.0) -> Failed:
    return Failed(time=time, phase=phase, kind=kind, message=message, traceback="Traceback …")


def finished() -> Finished:
    return Finished(time=0.0, phase="finish")


def write(path: Path, *events: AnyEvent) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))


def written(path: Path, *events: AnyEvent) -> EventFile:
    """A file with these events, read to its end."""
    write(path, *events)
    file = EventFile(path)
    file.read_on()
    return file
