"""What a run came to if the driver could not tell of its cards while it was measured."""

from __future__ import annotations

from msgspec.structs import replace

from paceline.store.records.outcome import Outcome
from paceline.system.machine.gpus import WatchedGpus


def with_troubles(outcome: Outcome, cards: WatchedGpus) -> Outcome:
    """A lost card explains a run that failed; any other trouble, or one that it survived, is a remark."""
    if outcome.status == "failed":
        cards.look()  # it may have been lost after the last look
    causes = {index: f"the driver could not tell of cuda:{index}: {why}" for index, why in cards.troubles.items()}
    lost = sorted(cards.lost)
    if outcome.status == "ok" or not lost:
        return replace(outcome, remarks=(*outcome.remarks, *causes.values()))
    others = tuple(why for index, why in causes.items() if index != lost[0])
    message = f"{causes[lost[0]]}; {outcome.kind}: {outcome.message}"
    return replace(outcome, kind="lost device", message=message, remarks=(*outcome.remarks, *others))
