"""One virtual environment per framework, with exact pins, made when it is first needed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from paceline.errors import UserError
from paceline.frameworks import Framework
from paceline.home import environments_folder
from paceline.machine import nvidia

RECORD = "environment.json"  # written last: a folder without it is half made
Say = Callable[[str], None]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """A finished environment and everything that is installed in it."""

    framework: str
    python: str  # the interpreter's path
    python_version: str
    requirements: str
    packages: dict[str, str]

    @property
    def fingerprint(self) -> str:
        facts = (self.python_version, sorted(self.packages.items()))
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:12]


def ensure(framework: Framework, say: Say) -> Environment:
    """The framework's environment, installed or repaired if need be."""
    ready = installed(framework)
    if ready:
        return ready
    with _lock(framework):
        return installed(framework) or _install(framework, say)


def installed(framework: Framework) -> Environment | None:
    """The environment if it is whole, made from today's pins, and still holds what was put in."""
    folder = environments_folder() / framework.name
    try:
        known = msgspec.json.decode((folder / RECORD).read_bytes(), type=Environment)
    except (OSError, msgspec.DecodeError):
        return None
    whole = (
        known.requirements == _requirements(framework)
        and Path(known.python).exists()
        and known.packages == _packages(folder)
    )
    return known if whole else None


def _install(framework: Framework, say: Say) -> Environment:
    folder = environments_folder() / framework.name
    say(f"Installing {framework.name} ({', '.join(_requirements(framework).split())}) into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".log")
    python = folder / "bin" / "python"
    pins = folder / "requirements.txt"
    try:
        _call([sys.executable, "-m", "venv", str(folder)], log, framework)
        pins.write_text(_requirements(framework), encoding="utf-8")
        _call([str(python), "-m", "pip", "install", "--disable-pip-version-check", "-r", str(pins)], log, framework)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    made = Environment(
        framework=framework.name,
        python=str(python),
        python_version=platform.python_version(),
        requirements=_requirements(framework),
        packages=_packages(folder),
    )
    (folder / RECORD).write_bytes(msgspec.json.format(msgspec.json.encode(made)))
    return made


def _requirements(framework: Framework) -> str:
    _, gpus = nvidia()
    return "\n".join([framework.requirements.strip(), *(framework.cuda_requirements if gpus else ())]) + "\n"


def _call(command: list[str], log: Path, framework: Framework) -> None:
    """Run a step of the installation; its output goes to the log, its last error into the message."""
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False
        ).returncode
    if code:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["no output"]
        raise UserError(f"Installing {framework.name} failed: {errors[-1]} (all of it: {log}).")


def _packages(folder: Path) -> dict[str, str]:
    """What is installed there, read from its metadata."""
    sites = [str(path) for path in folder.glob("lib/python*/site-packages")]
    found = importlib.metadata.distributions(path=sites)
    return {str(distribution.metadata["Name"]): distribution.version for distribution in found}


@contextlib.contextmanager
def _lock(framework: Framework) -> Iterator[None]:
    """Two installations of one framework must not meet."""
    try:
        environments_folder().mkdir(parents=True, exist_ok=True)
        handle = (environments_folder() / f"{framework.name}.lock").open("w")
    except OSError as error:
        raise UserError(
            f"Cannot write {environments_folder()}: {error.strerror}. Set PACELINE_HOME to another place."
        ) from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
