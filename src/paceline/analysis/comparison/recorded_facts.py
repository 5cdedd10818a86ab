"""All that is recorded of what a run ran with, kind by kind, in the words in which a difference is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from paceline.store.index.setups import Setup
from paceline.store.shown_variables import harmless
from paceline.system.machine.hardware import Machine
from paceline.system.machine.identity import name_in

UNKNOWN, NONE = "unknown", "none"
Items = Mapping[str, str]  # a value for each; where a kind has only one, its name is empty


@dataclass(frozen=True)
class FactKind:
    """Something that may differ."""

    items: Callable[[Setup], Items]
    everywhere: bool = False  # it does not belong to a framework, so that none is named
    missing: str = NONE  # what stands for an item that one side does not have
    follows: tuple[str, ...] = ()  # it differs whenever one of these does, and is not worth a line then
    only_with: str = ""  # it is worth a line only where this differs, too
    harmless: Callable[[str, str], bool] | None = None  # of which items, and values, may be shown; otherwise all


def _one(
    fact: Callable[[Setup], object],
    *,
    everywhere: bool = False,
    missing: str = UNKNOWN,
    follows: tuple[str, ...] = (),
    only_with: str = "",
) -> FactKind:
    """A kind with a single value, which is not known where nothing is recorded."""

    def items(setup: Setup) -> Items:
        text = _as_text(fact(setup))
        return {"": text} if text else {}

    return FactKind(items, everywhere, missing, follows, only_with)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def spans(numbers: Sequence[int]) -> str:
    """0–3, 6: many cores in few letters."""
    rows = [list(row) for _, row in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{row[0][1]}–{row[-1][1]}" if len(row) > 1 else str(row[0][1]) for row in rows)


MACHINE_WORDS = {"system": "kernel", "gpus": "GPUs", "gpu_driver": "driver", "cores": "usable cores"}
NOT_SHOWN = ("identity",)  # the machine's id is made of it


def _machine_kinds() -> dict[str, FactKind]:
    """Whatever is recorded of a machine, also what will be one day."""
    kinds = {"machine": _one(_machine, everywhere=True)}
    for name in Machine.__struct_fields__:
        if name not in NOT_SHOWN:
            word = MACHINE_WORDS.get(name, name.removesuffix("_bytes").replace("_", " "))
            with_machine = "machine" if name == "host" else ""  # a mere name: a container has a new one each time
            kinds[word] = _one(partial(_of_machine, name), everywhere=True, missing=NONE, only_with=with_machine)
    return kinds


def _machine(setup: Setup) -> str:
    name = name_in(setup.machine.identity)
    return f"{setup.machine.id} ({name})" if name else setup.machine.id


def _of_machine(name: str, setup: Setup) -> object:
    value = getattr(setup.machine, name)
    if name == "cores":
        return spans(value)
    return f"{value / 2**20:,.0f} MiB" if name.endswith("_bytes") and value is not None else value


def _recipe(setup: Setup) -> Items:
    return {name: _as_text(value) for name, value in setup.job.recipe.items()} if setup.job else {}


def _command(setup: Setup) -> Items:
    """What was typed and where, and what is read from its output."""
    command = setup.command
    if command is None:
        return {}
    metrics = {
        f"metric {one.name}": " ".join(filter(None, (one.pattern, one.take, one.percent))) for one in command.metrics
    }
    return {"": str(command), "folder": command.folder, **metrics}


def _commit(setup: Setup) -> str:
    code = setup.code
    return f"{code.commit[:12]}{' (dirty)' if code.dirty else ''}" if code and code.commit else ""


KINDS: dict[str, FactKind] = {
    **_machine_kinds(),
    "cores": _one(lambda setup: " ".join(map(spans, setup.cores)), everywhere=True),
    "oversubscribed": _one(lambda setup: setup.oversubscribed, everywhere=True),
    "Paceline": _one(lambda setup: setup.paceline_version, everywhere=True),
    "data": _one(lambda setup: setup.data_checksum[:12], everywhere=True),
    "version": _one(lambda setup: setup.framework_version),
    "measuring code": _one(lambda setup: setup.worker_code),
    "Python": _one(lambda setup: setup.python_version),
    "packages": FactKind(lambda setup: setup.packages),
    "environment": _one(lambda setup: setup.fingerprint, follows=("Python", "packages")),
    "variables": FactKind(lambda setup: setup.environment, harmless=harmless),
    "shares": _one(lambda setup: setup.shares),
    "network": _one(lambda setup: setup.job and setup.job.network),
    "recipe": FactKind(_recipe, missing=UNKNOWN),
    "preparation of images": _one(lambda setup: setup.job and setup.job.pipeline),
    "steps of a block": _one(lambda setup: setup.job and setup.job.block_steps),
    "images of an epoch": _one(lambda setup: setup.job and setup.job.epoch_images),
    "command": FactKind(_command),
    "file": FactKind(lambda setup: setup.code.files if setup.code else {}, missing=UNKNOWN),
    "commit": _one(_commit),
}
