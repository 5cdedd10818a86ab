"""One row of a table: a cell and all that its runs came to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from paceline.analysis.quantities.definition import Quantity
from paceline.analysis.quantities.known import SPEED
from paceline.analysis.rows.command_rows import CommandRow
from paceline.analysis.statistics.intervals import Estimate, confidence_of
from paceline.plan.cell import Cell
from paceline.store.resources import Noise, Range


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of the runs that ended well, in its unit."""

    median: float | None = None
    estimate: Estimate | None = None  # where its interval is wanted
    of_runs: tuple[float, ...] = ()
    of_each: tuple[float, ...] = ()
    doubt: str = ""


NOT_MEASURED = Measured()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One cell with all that was measured."""

    cell: Cell  # what was to be measured
    framework_version: str | None
    machine: str | None  # its id
    machine_description: str | None
    quick: bool  # scaled down for a small machine
    cards: tuple[str, ...] = ()  # what each of its GPUs is; empty for processors
    shares: tuple[int, ...]  # of the batch, on each device
    epochs: float | None  # the steps as passes over the data set
    whole_epochs: int | None = None  # the `--epochs` that make just these steps; None if no whole number does
    status: str  # ok, noisy, failed, skipped, not run
    reason: str | None  # why it failed or was skipped, or which runs of it failed
    marks: tuple[str, ...]  # such as oversubscribed
    repeats: int  # runs that ended well
    sequential: bool = False  # rounds were added until the interval was narrow enough; intervals are wider for that
    measured: Mapping[str, Measured]  # by the names of quantities: those that some run has
    seconds_per_epoch: float | None  # of a training by its images/s, of a command what it printed
    chance: float | None = None  # the test accuracy of guessing; unknown where the workload's plug-in is gone
    above_chance: bool | None = None  # whether it was trained long enough to tell; None if it was not evaluated
    target: float | None  # the test accuracy that was asked for
    runs_at_target: int  # how many runs reached it
    utilisation: tuple[Range, ...]  # part of its time in training that each device was busy: lowest, median, highest
    noise: Noise  # what else happened on its cores, medians of the runs
    memory_of: str  # what each of them belongs to: "device", or "all devices" where one process serves them all
    scaling: float | None = None  # images/s against one of its devices; None where these are unlike
    scaling_interval: tuple[float, float] | None = None
    scaling_against: tuple[DeviceScaling, ...] = ()  # the same by the device it is held against, one for each kind
    efficiency: float | None = None  # images/s divided by what its devices do one by one
    wrapped_efficiency: float | None = None  # likewise against one device in the same wrapper
    batch_norm: bool  # the network normalises over the images of each device
    parameters: int | None  # trainable; unknown where the plug-in with the workload is gone
    verified: bool  # `paceline verify` found it equal to the reference, with this code, these versions and this machine
    runs: tuple[str, ...]  # their ids
    failed_run: str | None  # the one that `reason` speaks of
    log_end: str | None  # and the last lines it printed
    command: CommandRow | None = None  # what `paceline time` measured in place of a workload
    quota_cores: float | None = None  # how many cores' time the container could use; None where it was all of them
    remarks: tuple[str, ...] = ()  # what went wrong in runs without making them fail

    @property
    def device_count(self) -> int:
        return self.cell.device_set.count

    @property
    def cores_per_device(self) -> int:
        """Of a CPU device."""
        return len(self.cell.cores[0])

    @property
    def scaling_kind(self) -> str:
        """Weak: the batch grows with the devices; strong: it stays."""
        return self.cell.scaling

    @property
    def confidence(self) -> float:
        """Asked of its intervals."""
        return confidence_of(sequential=self.sequential)

    def estimate(self, quantity: Quantity) -> Estimate | None:
        return self._measured(quantity).estimate

    def median(self, quantity: Quantity) -> float | None:
        return self._measured(quantity).median

    def of_runs(self, quantity: Quantity) -> tuple[float, ...]:
        """Of each run that ended well, all devices together."""
        return self._measured(quantity).of_runs

    def of_each(self, quantity: Quantity) -> tuple[float, ...]:
        """Of each process or device, the median of the runs."""
        return self._measured(quantity).of_each

    def doubt(self, quantity: Quantity) -> str:
        """Why its values are no result; empty if they are."""
        return self._measured(quantity).doubt

    def _measured(self, quantity: Quantity) -> Measured:
        return self.measured.get(quantity.name, NOT_MEASURED)

    @property
    def judged(self) -> Estimate | None:
        """By how sure this is, the cell is ok or noisy."""
        return self.command.real_seconds if self.command else self.estimate(SPEED)


class DeviceScaling(msgspec.Struct, frozen=True):
    """How many times as fast as one device a cell is."""

    devices: str  # the one device
    count: int  # how many devices of the cell are like it
    scaling: Estimate
