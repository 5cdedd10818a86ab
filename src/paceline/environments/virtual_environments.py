"""One environment per framework: made with exact pins when first needed, or an interpreter that the user brought."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from paceline.catalog.frameworks import Framework
from paceline.environments.pip import make_environment
from paceline.environments.worker_code import deploy
from paceline.environments.worker_variables import worker_environment
from paceline.system.errors import UserError
from paceline.system.hashing import short_key
from paceline.system.locks import exclusive
from paceline.system.machine.gpus import nvidia
from paceline.system.paths import environments_folder

RECORD = "environment.json"  # written last: a folder without it is half made
IMPORT_SECONDS = 300.0
Say = Callable[[str], None]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A finished environment and everything that is installed in it."""

    framework: str
    python: str  # the interpreter's path
    python_version: str
    requirements: str
    packages: dict[str, str]
    sites: tuple[str, ...] = ()  # where an interpreter that the user brought looks for packages; none if it is ours

    @property
    def brought(self) -> bool:
        return bool(self.sites)

    @property
    def fingerprint(self) -> str:
        facts = (self.python_version, sorted(self.packages.items()))
        return short_key(facts, 12)


def ensure(framework: Framework, say: Say) -> Environment:
    """The framework's environment, installed or repaired if need be."""
    ready = installed(framework)
    if ready:
        return ready
    reason = hindrance(framework)
    if reason:
        raise UserError(f"{framework.name}: {reason}.")
    with _lock(framework):
        return installed(framework) or _install(framework, say)


def installed(framework: Framework) -> Environment | None:
    """The environment if it is whole, made from today's pins, and still holds what was put in."""
    known = _record(framework)
    if known is None or not Path(known.python).exists():
        return None
    if known.brought:
        return known if _packages(list(known.sites)).items() <= known.packages.items() else None
    whole = known.requirements == _requirements(framework) and known.packages == _packages(_sites(framework))
    return known if whole else None


def brought(framework: Framework) -> Environment | None:
    """The interpreter that the user registered, whatever state it is in."""
    known = _record(framework)
    return known if known and known.brought else None


def hindrance(framework: Framework) -> str | None:
    """Why no run of it can start until the user does something."""
    registered = brought(framework)
    if registered and not installed(framework):
        return (
            f"{registered.python} has changed or is gone since it was registered; "
            f"`paceline install {framework.name} --python PATH` registers it again"
        )
    if framework.provided and not registered:
        return (
            f"{framework.provided}; `paceline install {framework.name} --python PATH` registers a Python that can "
            "import it"
        )
    return None


def register(framework: Framework, python: Path) -> Environment:
    """Use an interpreter of the user's from now on, if it can import the framework; nothing is installed into it."""
    found = _ask(framework, python)
    own = {"framework": framework.name, "python": str(python.absolute()), "requirements": ""}
    environment = msgspec.convert({**own, **found}, Environment)
    with _lock(framework):
        shutil.rmtree(_folder(framework), ignore_errors=True)
        _folder(framework).mkdir()
        _write(environment)
    return environment


def remove(framework: Framework) -> bool:
    """Delete our environment, or forget a registered interpreter, which stays as it is; whether there was one."""
    with _lock(framework):
        there = _folder(framework).exists()
        shutil.rmtree(_folder(framework), ignore_errors=True)
    return there


def _install(framework: Framework, say: Say) -> Environment:
    folder, requirements = _folder(framework), _requirements(framework)
    say(f"Installing {framework.name} ({', '.join(requirements.split())}) into {folder}")
    python = make_environment(framework.name, folder, requirements)
    made = Environment(
        framework=framework.name,
        python=str(python),
        python_version=platform.python_version(),
        requirements=requirements,
        packages=_packages(_sites(framework)),
    )
    _write(made)
    return made


def _ask(framework: Framework, python: Path) -> dict[str, object]:
    """What the interpreter itself says, after it has imported the framework in the way a run does."""
    code = deploy(framework.name)
    command = [str(python.absolute()), "-m", "paceline_worker.describe", framework.name, framework.package]
    try:
        answer = subprocess.run(
            command,
            env=worker_environment(framework, code, threads=1),
            cwd=code,
            capture_output=True,
            text=True,
            timeout=IMPORT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{python} cannot be run: {error}. Give the path of a Python interpreter.") from None
    if answer.returncode:
        last = (answer.stderr.strip() or "it said nothing").splitlines()[-1]
        raise UserError(f"{python} cannot import {framework.name}: {last}. Nothing was registered.")
    try:
        found: dict[str, object] = json.loads(answer.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise UserError(f"{python} is not a Python interpreter: it answered {answer.stdout[-80:]!r}.") from None
    return found


def _record(framework: Framework) -> Environment | None:
    try:
        return msgspec.json.decode((_folder(framework) / RECORD).read_bytes(), type=Environment)
    except (OSError, msgspec.DecodeError):
        return None


def _write(environment: Environment) -> None:
    path = environments_folder() / environment.framework / RECORD
    path.write_bytes(msgspec.json.format(msgspec.json.encode(environment)))


def _folder(framework: Framework) -> Path:
    return environments_folder() / framework.name


def _sites(framework: Framework) -> list[str]:
    return [str(path) for path in _folder(framework).glob("lib/python*/site-packages")]


def _requirements(framework: Framework) -> str:
    _, gpus = nvidia()
    return "\n".join([framework.requirements.strip(), *(framework.cuda_requirements if gpus else ())]) + "\n"


def _packages(sites: list[str]) -> dict[str, str]:
    """What is installed there, read from its metadata."""
    found = importlib.metadata.distributions(path=sites)
    return {str(distribution.metadata["Name"]): distribution.version for distribution in found}


def _lock(framework: Framework) -> AbstractContextManager[None]:
    """Two installations of one framework must not meet."""
    return exclusive(environments_folder() / f"{framework.name}.lock")
