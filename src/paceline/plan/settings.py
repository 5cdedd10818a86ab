"""The settings of a suite, each declared once: type, default, help, group and bound.

Keys of suite files, flags of `run`, their help and docs/cli.md are all made from here. Every command imports this file,
so it needs nothing but the standard library and the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from paceline.system.limits import BATCH, NO_LIMIT, REPEATS, SECONDS, STEPS, TIMEOUT, WHOLE, Bound

Names = tuple[str, ...]
Numbers = tuple[float, ...]
WholeNumbers = tuple[int, ...]
Update = Literal["replicated", "parameter_server", "independent"]
Precision = Literal["float32", "bfloat16"]
Single = Literal["plain", "wrapped", "both"]
RateRule = Literal["none", "linear", "sqrt"]
Layout = Literal["rows", "sources", "matrix", "long", "transposed"]

DEFAULT_STEPS = 100
TRAINED, LENGTH, DEVICES, DATA, MEASURED, RESULTS = GROUPS = (
    "What to train",
    "Length",
    "Devices and updates",
    "Data",
    "How to measure",
    "Results",
)


@dataclass(frozen=True)
class Flag:
    """What there is to say about a setting that its type and default do not."""

    group: str
    help: str
    bound: Bound | None = None  # of its numbers


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What to run. Keys that take several values span the matrix; `batch_size = [64, 128]` makes two cells of one.

    What has no `Flag` stands in suite files only.
    """

    name: str = ""
    parts: tuple[Suite, ...] = ()  # matrices of their own, one after the other, instead of one for all
    quick: Annotated[bool, Flag(TRAINED, "Use the small form of a suite, for a machine without GPUs.")] = False
    workload: Names = ()
    framework: Annotated[
        Names, Flag(TRAINED, "Frameworks, with their modes: torch,jax,torch+compile; all stands for every one.")
    ] = ("torch", "jax")
    devices: Annotated[Names, Flag(DEVICES, "Sets of devices: 1xcpu,2xcpu or cuda:0,cuda:0+cuda:2.")] = ("1xcpu",)
    update: Annotated[tuple[Update, ...], Flag(DEVICES, "How devices agree on new weights.")] = ("replicated",)
    parameter_device: Annotated[
        Literal["cpu", "device"],
        Flag(DEVICES, "Where a parameter server keeps its copy: on the host, or on the first device."),
    ] = "cpu"
    data: Annotated[Names, Flag(DATA, "Source of images: fake:device, fake:host, fake:python or cifar10.")] = (
        "fake:device",
    )
    input: Annotated[
        Names,
        Flag(
            DATA,
            "What is done to real images, for example level1; `paceline list workloads` shows the choices; "
            "default: the workload's first.",
        ),
    ] = ()
    precision: Annotated[tuple[Precision, ...], Flag(TRAINED, "Number format of the training.")] = ("float32",)
    batch_size: Annotated[
        WholeNumbers,
        Flag(TRAINED, "Images of a step on all devices together (strong scaling); default: the workload's.", BATCH),
    ] = ()
    batch_per_device: Annotated[
        WholeNumbers, Flag(TRAINED, "Images of a step on each device (weak scaling).", BATCH)
    ] = ()
    shares: Annotated[
        Names,
        Flag(
            DEVICES,
            "How the batch is divided: equal, measured (each device alone, in short runs), "
            "or 2:2:1 for a set of three.",
        ),
    ] = ("equal",)
    slow: Annotated[Names, Flag(DEVICES, "Simulate a slower CPU device: 1:2.0 makes device 1 take twice as long.")] = ()
    single: Annotated[
        Single,
        Flag(DEVICES, "How one device runs: by itself, in the wrapper that several devices need, or each in turn."),
    ] = "plain"
    steps: Annotated[int | None, Flag(LENGTH, f"Measured steps of a run; default: {DEFAULT_STEPS}.", STEPS)] = None
    epochs: Annotated[
        Numbers,
        Flag(
            LENGTH,
            "Measured length as passes over the data set; 10,100 makes two cells.",
            Bound("a number", 0, 1e6, "nothing learns for longer", above=True, below=True),
        ),
    ] = ()
    warmup: Annotated[
        int, Flag(LENGTH, "Least number of steps before the clock starts.", Bound(WHOLE, 0, STEPS.most, STEPS.why))
    ] = 10
    evaluate: Annotated[
        Literal["epoch", "end", "never"] | None,
        Flag(
            LENGTH,
            "When to evaluate on all test images of real data; default: epoch with --epochs, otherwise never.",
        ),
    ] = None
    lr: Annotated[
        Numbers,
        Flag(
            TRAINED,
            "Learning rate; 0.05,0.4 makes two cells; default: the workload's.",
            Bound("a number", 0, 1e6, "no weight would stay a number", above=True),
        ),
    ] = ()
    lr_rule: Annotated[
        RateRule, Flag(TRAINED, "How the learning rate grows with the batch, starting at the workload's own batch.")
    ] = "none"
    seed: Annotated[
        int,
        Flag(
            TRAINED,
            "Seed for weights, data and the order of runs.",
            Bound(WHOLE, 0, 2**32 - 1, "NumPy takes no more"),
        ),
    ] = 1
    cores_per_device: Annotated[
        int | None,
        Flag(
            DEVICES,
            "Cores of a CPU device; default: all cores divided by the largest CPU set.",
            Bound(WHOLE, 1, 4096, "no machine has more"),
        ),
    ] = None
    repeats: Annotated[int, Flag(MEASURED, "Fresh processes per cell.", REPEATS)] = 5
    layout: Annotated[Layout, Flag(RESULTS, "Shape of the table.")] = "rows"
    interval_target: Annotated[
        float | None,
        Flag(
            MEASURED,
            "Add rounds until the 95 % interval of each cell is no wider than this part of the median, "
            "for example 0.03.",
            Bound("a part of the median such as 0.03,", 0, 1, "", above=True, below=True),
        ),
    ] = None
    budget: Annotated[
        float,
        Flag(
            MEASURED,
            "Seconds for added rounds; the last one is finished once it has begun.",
            Bound(SECONDS, 0, 1e9, NO_LIMIT),
        ),
    ] = 600.0
    timeout: Annotated[float, Flag(MEASURED, "Seconds after which a run is ended.", TIMEOUT)] = 1800.0


FIELDS = {name: kind for name, kind in get_type_hints(Suite).items() if name != "parts"}  # what a file may say
FLAGS: dict[str, Flag] = {
    name: flag
    for name, hint in get_type_hints(Suite, include_extras=True).items()
    for flag in getattr(hint, "__metadata__", ())
}
LISTS = [name for name, kind in FIELDS.items() if get_origin(kind) is tuple]


def choices_of(kind: object) -> tuple[str, ...]:
    """The words that a type allows, also where it allows several of them; none for any other type."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((found for part in get_args(kind) if (found := choices_of(part))), ())
