"""How far training is by its events; the same as the index says of a run that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from paceline.store.records.events import AnyEvent, Block


@dataclass(frozen=True)
class TrainingSoFar:
    """What all ranks have trained together so far, as `merged_block` and `training` in schema.sql have it."""

    steps: int
    images: int
    seconds: float

    @classmethod
    def of(cls, ranks: Iterable[Sequence[AnyEvent]]) -> TrainingSoFar:
        """A block counts when every rank has done it: images add up, and the slowest rank sets its time."""
        begun = [[event for event in events if _is_training(event)] for events in ranks if events]
        done = list(zip(*begun, strict=False))  # as many as the rank has that got least far
        return cls(
            steps=sum(max(block.steps for block in blocks) for blocks in done),
            images=sum(block.images for blocks in done for block in blocks),
            seconds=sum(max(block.seconds for block in blocks) for blocks in done),
        )

    @property
    def images_per_second(self) -> float | None:
        """Totals over totals; None before the first block."""
        return self.images / self.seconds if self.seconds else None


def _is_training(event: AnyEvent) -> TypeGuard[Block]:
    return isinstance(event, Block) and event.phase == "train"
