"""What all scripts written by hand share: the task, the command line, the clock, and the line that they print."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

UNITS = [  # channels in, channels out, stride, and whether the shortcut is a projection
    *[(16, 16, 1, True), (16, 16, 1, False), (16, 16, 1, False)],
    *[(16, 32, 2, True), (32, 32, 1, False), (32, 32, 1, False)],
    *[(32, 64, 2, True), (64, 64, 1, False), (64, 64, 1, False)],
]
SIZE, CLASSES = 28, 10  # pixels on each side of an image, and its possible labels
EPSILON, DECAY = 2e-5, 0.9  # of batch normalisation
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.05, 0.9, 1e-4
FIRST_LOSSES = 3


class Trainer(NamedTuple):
    """A network that is ready to train."""

    train: Callable[[int], list[float]]  # takes so many steps to their end; the loss of each, or a mean of them
    parameters: int  # that are trained


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=11)
    parser.add_argument("--batch-size", type=int, default=128, help="images of a step on all devices together")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--cores", type=cores, default=[0], help="one for each device, such as 0,1")
    return parser.parse_args()


def cores(text: str) -> list[int]:
    return [int(core) for core in text.split(",")]


def measured(
    trainer: Trainer, options: argparse.Namespace, meet: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Warm up, `meet` the other processes, train; what it took."""
    first_losses = [loss for _ in range(FIRST_LOSSES) for loss in trainer.train(1)]
    trainer.train(options.warmup - FIRST_LOSSES)
    meet()
    processor, start = time.process_time(), time.perf_counter()
    trainer.train(options.steps)
    seconds, processor_seconds = time.perf_counter() - start, time.process_time() - processor
    return {
        "images": options.steps * options.batch_size,
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "parameters": trainer.parameters,
        "first_losses": first_losses,
    }


def report(result: dict[str, Any]) -> None:
    """Print it and end at once: some frameworks hang or crash while the interpreter is taken down."""
    print(json.dumps(result), flush=True)
    os._exit(0)
