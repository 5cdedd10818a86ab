"""What a workload is: a network, and how the program it comes from trained it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.catalog.networks import NETWORKS, NetworkBuilder
from paceline_worker.graph import Graph
from paceline_worker.input.pipeline import Pipeline
from paceline_worker.protocol import Recipe


@dataclass(frozen=True, kw_only=True)
class Workload:
    name: str
    network: str  # a name in NETWORKS, unless `build` is given
    classes: int
    recipe: Recipe
    batch_size: int  # images of one step on one device, as published
    epochs: int  # as published
    images_per_epoch: int
    origin: str  # the program and its revision, in one line
    dataset: str = ""  # whose images it was made for; only those of paceline.catalog.datasets can be had
    # What may be done to them; the first is what its program did.
    pipelines: Mapping[str, Pipeline] = field(default_factory=dict, hash=False)
    build: NetworkBuilder | None = None  # a plug-in's own network

    def graph(self) -> Graph:
        return (self.build or NETWORKS[self.network])(classes=self.classes)

    def steps(self, epochs: float, batch_size: int, given: str) -> int:
        """So many that every image is seen often enough; some inputs fill up the last batch of an epoch."""
        batches = self.images_per_epoch / batch_size
        filled_up = given in self.pipelines and self.pipelines[given].ending == "complete"
        return max(1, math.ceil(epochs * (math.ceil(batches) if filled_up else batches)))

    def whole_epochs(self, steps: int, batch_size: int, given: str) -> int | None:
        """How many make just these steps; None if no whole number does."""
        filled_up, going_on = steps // self.steps(1, batch_size, given), steps * batch_size // self.images_per_epoch
        fitting = (count for count in (filled_up, going_on) if count and self.steps(count, batch_size, given) == steps)
        return next(fitting, None)
