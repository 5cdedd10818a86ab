"""The flags that choose what is measured: the settings of a suite, and two short words for devices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from cyclopts import Parameter, Token

from paceline.cli.application import PANELS
from paceline.plan.settings import DEVICES, GROUPS, Suite, choices_of
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import quoted


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True, init=False)
class SuiteFlags(Suite):
    """A suite as help shows it; `given` has what the command line says."""

    gpus: Annotated[str | None, DEVICES] = None
    "One set of GPUs, in short: 0,2 is --devices cuda:0+cuda:2."
    scale: Annotated[str | None, DEVICES] = None
    "Sets of growing size, in short: 1,2,4 is --devices 1xcpu,2xcpu,4xcpu, or xcuda where there are GPUs."

    def __init__(self, **given: Any) -> None:
        object.__setattr__(self, "given", given)

    def settings(self) -> dict[str, Any]:
        """Those that were given, as a suite file would have them."""
        given = {key: value for key, value in vars(self)["given"].items() if value is not False}
        ways = [key for key in ("devices", "gpus", "scale") if key in given]
        if len(ways) > 1:
            raise UserError(f"Give {' or '.join(f'--{way}' for way in ways)}, not both.")
        if "gpus" in given:
            given["devices"] = _cards(given.pop("gpus"))
        if "scale" in given:
            given["devices"] = _growing_sets(given.pop("scale"))
        return given


def _cards(text: str) -> tuple[str]:
    from paceline.system.text.synonyms import NO_GPUS

    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise UserError(f"--gpus {quoted(text)}: give the numbers of cards from 0 up, such as 0,2. {NO_GPUS}")
    return ("+".join(f"cuda:{number}" for number in numbers),)


def _growing_sets(text: str) -> tuple[str, ...]:
    from paceline.plan.devices import MOST_DEVICES
    from paceline.system.machine.hardware import this_machine
    from paceline.system.text.synonyms import NO_GPUS

    counts = text.split(",")
    if not all(re.fullmatch(r"[1-9]\d{0,3}", count) for count in counts):
        none = f" {NO_GPUS}" if "0" in counts else ""
        raise UserError(
            f"--scale {quoted(text)}: give numbers of devices from 1 to {MOST_DEVICES}, such as 1,2,4.{none}"
        )
    kind = "cuda" if this_machine().gpus else "cpu"
    return tuple(f"{count}x{kind}" for count in counts)


def _values(kind: Any, tokens: Sequence[Token]) -> Any:
    """What a flag says; several values are joined by commas."""
    (token,) = tokens
    if get_origin(kind) is not tuple:
        return _value(kind, token.keyword or "", token.value)
    return tuple(_value(get_args(kind)[0], token.keyword or "", part) for part in token.value.split(","))


def _value(kind: Any, flag: str, text: str) -> Any:
    if known := choices_of(kind):
        if text not in known:
            raise unknown(flag, text, known)
        return text
    try:
        return kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise UserError(f"{flag} {quoted(text)} is not a {whole}number.") from None


def _default_text(value: Any) -> str:
    """A default as the command line takes it; nothing where there is none."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None or value is False else f"{value:g}" if isinstance(value, float) else str(value)


def _as_parameter(name: str, hint: Any) -> Any:
    """The type of a setting with all that cyclopts wants to know of its flag; what is in no group has none."""
    kind, group, *_ = (*get_args(hint), "", "")
    if group not in GROUPS:
        return Annotated[hint, Parameter(parse=False, show=False)]
    shown = Parameter(group=PANELS[group], show_default=_default_text(getattr(SuiteFlags, name)) or False)
    if kind is bool:
        return Annotated[kind, shown]
    several = f"{_word(get_args(kind)[0])},..." if get_origin(kind) is tuple else None
    return Annotated[kind, shown, Parameter(converter=_values, allow_repeating=False, negative=(), metavar=several)]


def _word(kind: type) -> str:
    """What help writes for a value of this type."""
    return "CHOICE" if choices_of(kind) else kind.__name__.upper()


SuiteFlags.__annotations__ = {
    name: _as_parameter(name, hint) for name, hint in get_type_hints(SuiteFlags, include_extras=True).items()
}
