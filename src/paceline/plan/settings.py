"""The settings of a suite, each declared once: its type, group, bound, default and help.

Keys of suite files, flags of `run`, their help and docs/cli.md are all made from here. Every command imports this file,
so it needs nothing but the standard library and the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from paceline.system import limits
from paceline.system.limits import Bound

Names = tuple[str, ...]
Numbers = tuple[float, ...]
WholeNumbers = tuple[int, ...]
Update = Literal["replicated", "parameter_server", "independent"]
Precision = Literal["float32", "bfloat16"]
RateRule = Literal["none", "linear", "sqrt"]
Single = Literal["plain", "wrapped", "both"]
Layout = Literal["rows", "sources", "matrix", "long", "transposed"]

DEFAULT_STEPS = 100
GROUPS = ("What to train", "Length", "Devices and updates", "Data", "How to measure", "Results")
TRAINED, LENGTH, DEVICES, DATA, MEASURED, RESULTS = GROUPS


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What to run. Keys that take several values span the matrix; `batch_size = [64, 128]` makes two cells of one.

    A key that is in a group is also a flag, and what stands below it is its help.
    """

    name: str = ""
    parts: tuple[Suite, ...] = ()  # matrices of their own, one after the other, instead of one for all
    quick: Annotated[bool, TRAINED] = False
    "Use the small form of a suite, for a machine without GPUs."
    workload: Names = ()
    framework: Annotated[Names, TRAINED] = ("torch", "jax")
    "Frameworks, with their modes: torch,jax,torch+compile; all stands for every one."
    devices: Annotated[Names, DEVICES] = ("1xcpu",)
    "Sets of devices: 1xcpu,2xcpu or cuda:0,cuda:0+cuda:2."
    update: Annotated[tuple[Update, ...], DEVICES] = ("replicated",)
    "How devices agree on new weights."
    parameter_device: Annotated[Literal["cpu", "device"], DEVICES] = "cpu"
    "Where a parameter server keeps its copy: on the host, or on the first device."
    data: Annotated[Names, DATA] = ("fake:device",)
    "Source of images: fake:device, fake:host, fake:python or cifar10."
    input: Annotated[Names, DATA] = ()
    "What is done to real images; `paceline list workloads` shows the choices; default: the workload's first."
    precision: Annotated[tuple[Precision, ...], TRAINED] = ("float32",)
    "Number format of the training."
    batch_size: Annotated[WholeNumbers, TRAINED, limits.BATCH] = ()
    "Images of a step on all devices together (strong scaling); default: the workload's."
    batch_per_device: Annotated[WholeNumbers, TRAINED, limits.BATCH] = ()
    "Images of a step on each device (weak scaling)."
    shares: Annotated[Names, DEVICES] = ("equal",)
    "How the batch is divided: equal, measured (each device alone, in short runs), or 2:2:1 for a set of three."
    slow: Annotated[Names, DEVICES] = ()
    "Simulate a slower CPU device: 1:2.0 makes device 1 take twice as long."
    single: Annotated[Single, DEVICES] = "plain"
    "How one device runs: by itself, in the wrapper that several devices need, or each in turn."
    steps: Annotated[int | None, LENGTH, limits.STEPS] = None
    "Measured steps of a run; default: 100, or those of the epochs."
    epochs: Annotated[Numbers, LENGTH, limits.EPOCHS] = ()
    "Measured length as passes over the data set; 10,100 makes two cells."
    warmup: Annotated[int, LENGTH, limits.WARMUP] = 10
    "Least number of steps before the clock starts."
    evaluate: Annotated[Literal["epoch", "end", "never"] | None, LENGTH] = None
    "When to evaluate on all test images of real data; default: epoch with --epochs, otherwise never."
    lr: Annotated[Numbers, TRAINED, limits.RATE] = ()
    "Learning rate; 0.05,0.4 makes two cells; default: the workload's."
    lr_rule: Annotated[RateRule, TRAINED] = "none"
    "How the learning rate grows with the batch, starting at the workload's own batch."
    seed: Annotated[int, TRAINED, limits.SEED] = 1
    "Seed for weights, data and the order of runs."
    cores_per_device: Annotated[int | None, DEVICES, limits.CORES] = None
    "Cores of a CPU device; default: all cores divided by the largest CPU set."
    repeats: Annotated[int, MEASURED, limits.REPEATS] = 5
    "Fresh processes per cell."
    layout: Annotated[Layout, RESULTS] = "rows"
    "Shape of the table."
    interval_target: Annotated[float | None, MEASURED, limits.INTERVAL] = None
    "Add rounds until the 95 % interval of each cell is no wider than this part of the median, for example 0.03."
    budget: Annotated[float, MEASURED, limits.BUDGET] = 600.0
    "Seconds for added rounds; the last one is finished once it has begun."
    timeout: Annotated[float, MEASURED, limits.TIMEOUT] = 1800.0
    "Seconds after which a run is ended."


FIELDS = {name: kind for name, kind in get_type_hints(Suite).items() if name != "parts"}  # what a file may say
LISTS = [name for name, kind in FIELDS.items() if get_origin(kind) is tuple]
BOUNDS: dict[str, Bound] = {
    name: told
    for name, hint in get_type_hints(Suite, include_extras=True).items()
    for told in getattr(hint, "__metadata__", ())
    if isinstance(told, Bound)
}


def choices_of(kind: object) -> tuple[str, ...]:
    """The words that a type allows, also where it allows several of them; none for any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((found for part in get_args(kind) if (found := choices_of(part))), ())
