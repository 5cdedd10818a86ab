"""Reads a suite: a matrix of cells, from a TOML file or from flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from paceline import catalog
from paceline.plan.devices import parse_devices
from paceline.plan.settings import BOUNDS, FIELDS, LISTS, Suite, choices_of
from paceline.plan.shares import fitting
from paceline.system.errors import UserError, unknown
from paceline.system.files.user_files import parse_toml, read_text
from paceline.system.limits import MOST_VALUES, check_length, check_word
from paceline.system.text.safe_text import QUOTED, printable, shortened

FOLDER = Path(catalog.__file__).parent / "suites"


WHOLE = ("name", "repeats", "timeout", "layout", "interval_target", "budget")  # not for single parts
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
    made = tuple(make_suite(matrix, str(path)) for matrix in matrices)
    return replace(_checked(whole, str(path)), parts=made)


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
    _check_words(settings, where)
    listed = {key: _listed(value) if key in LISTS else value for key, value in settings.items()}
    try:
        return msgspec.convert(listed, Suite)
    except msgspec.ValidationError as error:
        message = printable(str(error)).replace("`", "").replace(" | null", "")
        problem, key = (shortened(part, 2 * QUOTED) for part in message.rsplit(" - at $.", 1))
        raise UserError(f"{where}: {key}: {problem[:1].lower()}{problem[1:]}.") from None


def _check_words(settings: Mapping[str, Any], where: str) -> None:
    """Those of which there are only a few."""
    for key, value in settings.items():
        known = choices_of(FIELDS[key])
        for word in _listed(value) if known else ():
            if isinstance(word, str) and word not in known:
                raise unknown(f"{key} in {where}:", word, known)


def _check_sizes(suite: Suite, where: str) -> None:
    """Numbers within their bounds; lists and words that are no longer than anybody writes them."""
    for key in FIELDS:
        values = getattr(suite, key)
        listed = values if isinstance(values, tuple) else (values,)
        check_length(where, key, listed)
        for value in listed:
            if isinstance(value, str):
                check_word(where, key, value)
            if key in BOUNDS and value is not None:
                BOUNDS[key].check(f"{where}: {key}", value)


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
