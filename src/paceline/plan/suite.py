"""Suites: a matrix of cells, from a TOML file or from flags, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from paceline import catalog
from paceline.plan.devices import parse_devices
from paceline.plan.shares import fitting
from paceline.system.errors import UserError, unknown
from paceline.system.files.user_files import parse_toml, read_text
from paceline.system.limits import MOST_VALUES, SUITE, check_length, check_word
from paceline.system.text.safe_text import QUOTED, printable, shortened

Names = tuple[str, ...]
Numbers = tuple[float, ...]
FOLDER = Path(catalog.__file__).parent / "suites"


class Suite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run. Keys that take several values span the matrix; `batch_size = [64, 128]` makes two cells of one."""

    name: str = ""
    parts: tuple[Suite, ...] = ()  # matrices of their own, one after the other, instead of one for all
    quick: bool = False  # scaled down for a small machine
    workload: Names = ()
    framework: Names = ("torch", "jax")
    devices: Names = ("1xcpu",)
    update: Names = ("replicated",)
    parameter_device: Literal["cpu", "device"] = "cpu"  # where a parameter server keeps its copy
    data: Names = ("fake:device",)
    input: Names = ()  # what is done to real images; default: the workload's first
    precision: Names = ("float32",)
    batch_size: tuple[int, ...] = ()  # images of a step on all devices together; default: the workload's
    batch_per_device: tuple[int, ...] = ()
    shares: Names = ("equal",)  # of the batch: equal, measured, or such as 2:2:1
    slow: Names = ()  # such as "1:2.0": device 1 takes twice as long, which is a simulation
    single: Literal["plain", "wrapped", "both"] = "plain"  # one device: by itself, or in what several devices need
    steps: int | None = None
    epochs: Numbers = ()
    warmup: int = 10
    evaluate: Literal["epoch", "end", "never"] | None = None  # on all test images; default: epoch with epochs
    lr: Numbers = ()  # default: the workload's
    lr_rule: Literal["none", "linear", "sqrt"] = "none"  # how it follows the batch, from the workload's own on
    seed: int = 1
    cores_per_device: int | None = None  # default: all cores divided by the largest CPU set of the plan
    repeats: int = 5
    layout: Literal["rows", "sources", "matrix", "long", "transposed"] = "rows"  # the shape of its table
    interval_target: float | None = None  # add rounds until the interval is no wider than this part of the median
    budget: float = 600.0  # seconds for those rounds; the last is finished once it has begun
    timeout: float = 1800.0  # seconds for one run


FIELDS = {field.name: field.type for field in msgspec.structs.fields(Suite)}
LISTS = [name for name, kind in FIELDS.items() if kind in (Names, Numbers, tuple[int, ...])]
WHOLE = ("name", "repeats", "timeout", "layout", "interval_target", "budget")  # not for single parts
DEFAULT_STEPS = 100
MOST_BYTES = 2**18  # of a file; those that come with Paceline have 2,000


def known_suites() -> dict[str, Path]:
    """Those that come with Paceline, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def load_suite(path: Path, overrides: Mapping[str, Any]) -> Suite:
    """Read a suite file; what the command line says goes before what the file says.

    A table `[[part]]` is a matrix of its own, with the keys outside of tables as its defaults. `[quick]` has other
    values for these keys, and parts in place of the others, for a small machine.
    """
    table = parse_toml(read_text(path, "suite", MOST_BYTES), path)
    settings = _with_quick({"name": path.stem, **_keys(table)}, overrides.get("quick", False), path)
    parts = _parts(settings.pop("part", []), path)
    whole, *matrices = (_overridden(settings, part, overrides) for part in ({}, *parts))
    if not parts:
        return make_suite(whole, str(path))
    return _checked({**whole, "parts": [make_suite(matrix, str(path)) for matrix in matrices]}, str(path))


def has_small_form(path: Path) -> bool:
    """Whether the file has other values for --quick."""
    return "quick" in parse_toml(read_text(path, "suite", MOST_BYTES), path)


def _parts(tables: Any, path: Path) -> list[dict[str, Any]]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UserError(f"{path}: write [[part]] in two brackets: a suite may have several.")
    if len(tables) > MOST_VALUES:
        raise UserError(f"{path} has {len(tables):,} parts; at most {MOST_VALUES} make a suite.")
    parts = [_keys(table) for table in tables]
    for key in (key for part in parts for key in part if key in WHOLE):
        raise UserError(f"{path}: {key} is for the whole suite: write it above the parts.")
    return parts


def _keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """With underscores: files may have either."""
    return {key.replace("-", "_"): value for key, value in table.items()}


def _with_quick(settings: dict[str, Any], wanted: bool, path: Path) -> dict[str, Any]:
    """The settings of a file, in their small form if that is wanted."""
    small = settings.pop("quick", None)
    if not wanted:
        return settings
    if small is None:
        raise UserError(f"{path} has no [quick] form.")
    return {**settings, **_in_place_of(_keys(small), settings), "quick": True}


def _overridden(settings: Mapping[str, Any], part: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults, what a part has of its own, and the flags on top."""
    merged = {**settings, **_in_place_of(part, settings)}
    return {**merged, **_fitting_shares(merged, overrides), **_in_place_of(overrides, merged)}


def _fitting_shares(settings: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the file that are for devices which a flag has replaced would only be in the way."""
    if "devices" not in overrides or "shares" not in settings:
        return {}
    sets = [parse_devices(text) for text in _listed(overrides["devices"])]
    written = [str(text) for text in _listed(settings["shares"])]
    return {"shares": list(dict.fromkeys(text for devices in sets for text in fitting(written, devices)))}


def _in_place_of(overrides: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides, and nothing for the other way of saying the same thing."""
    rivals = {"batch_size": "batch_per_device", "steps": "epochs"}
    pairs = {**rivals, **{two: one for one, two in rivals.items()}}
    dropped = {pairs[key]: () if pairs[key] in LISTS else None for key in overrides if pairs.get(key) in settings}
    return {**dropped, **overrides}


def make_suite(settings: Mapping[str, Any], where: str) -> Suite:
    """Check names, types and limits; `where` names the source in messages."""
    for key in settings:
        if key not in FIELDS:
            raise unknown(f"key in {where}:", key, FIELDS)
    suite = _checked(settings, where)
    _check_sizes(suite, where)
    for broken in (message for message, is_wrong in LIMITS.items() if is_wrong(suite)):
        raise UserError(f"{where}: {broken}")
    return suite


def _checked(settings: Mapping[str, Any], where: str) -> Suite:
    """Of the right types; whether the values make sense is another question."""
    listed = {key: _listed(value) if key in LISTS else value for key, value in settings.items()}
    try:
        return msgspec.convert(listed, Suite)
    except msgspec.ValidationError as error:
        message = printable(str(error)).replace("`", "").replace(" | null", "")
        problem, key = (shortened(part, 2 * QUOTED) for part in message.rsplit(" - at $.", 1))
        raise UserError(f"{where}: {key}: {problem[:1].lower()}{problem[1:]}.") from None


def _check_sizes(suite: Suite, where: str) -> None:
    """Numbers within their bounds; lists and words that are no longer than anybody writes them."""
    for key in FIELDS:
        values = getattr(suite, key)
        listed = values if isinstance(values, tuple) else (values,)
        check_length(where, key, listed)
        for value in listed:
            if isinstance(value, str):
                check_word(where, key, value)
            if key in SUITE and value is not None:
                SUITE[key].check(f"{where}: {key}", value)


def _listed(value: Any) -> Any:
    """One value stands for a list of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


LIMITS: dict[str, Callable[[Suite], Any]] = {
    "name at least one workload; `paceline list workloads` shows them.": lambda s: not s.workload,
    "framework, devices, update, data, precision and shares need at least one value each.": lambda s: (
        not (s.framework and s.devices and s.update and s.data and s.precision and s.shares)
    ),
    "give batch_size (all devices together) or batch_per_device, not both.": lambda s: (
        s.batch_size and s.batch_per_device
    ),
    "give steps or epochs, not both.": lambda s: s.steps is not None and s.epochs,
}
