"""Makes a virtual environment with pip, whole or not at all, and says in one line why it could not."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from paceline.system.errors import UserError

# What pip's output shows, in the order in which it is looked for, and what the user can do about it.
CURES = (
    (r"No space left on device", "the disk is full: free some space, or set PACELINE_HOME to another disk"),
    (
        r"connection broken by|Temporary failure in name resolution|Network is unreachable|Connection refused",
        "pip cannot reach its package index: check the network and `pip config list`, and try again",
    ),
    (
        r"No matching distribution found|Could not find a version",
        f"there is no such build for Python {platform.python_version()} on {platform.system()} {platform.machine()}: "
        "run Paceline with another Python, or bring one that has it, `paceline install {name} --python PATH`",
    ),
    (r"Failed to build|error: subprocess-exited-with-error", "it could not be built from source"),
)
CONSTRAINTS = "constraints.txt"
BUILD_TOOLS = ("setuptools==", "wheel==")
PACKAGES = (
    r"No matching distribution found for (\S+)",
    r"satisfies the requirement (\S+)",
    r"(?:Failed to build|Failed building wheel for) (?:'(\S+)'|(\S+))",
    r"Collecting (\S+)",
)


def make_environment(name: str, folder: Path, requirements: str) -> Path:
    """The interpreter of a new environment with these packages; after a failure there is no folder at all."""
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".log")
    python, pins = folder / "bin" / "python", folder / "requirements.txt"
    try:
        _call([sys.executable, "-m", "venv", str(folder)], log, name)
        pins.write_text(requirements, encoding="utf-8")
        (folder / CONSTRAINTS).write_text(_constraints(requirements), encoding="utf-8")
        _call([str(python), "-m", "pip", "install", "--disable-pip-version-check", "-r", str(pins)], log, name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return python


def _constraints(requirements: str) -> str:
    """Pins of the tools that packages are built with: old ones need old tools, also in the places where pip builds."""
    return "".join(f"{line}\n" for line in requirements.split() if line.startswith(BUILD_TOOLS))


def _call(command: list[str], log: Path, name: str) -> None:
    """Run a step of the installation; its output goes to the log, what was wrong into the message."""
    constraints = str(log.with_suffix("") / CONSTRAINTS)
    # Newer versions of pip ask for those of builds by a name of their own.
    environment = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints, **os.environ}
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, check=False
        ).returncode
    if code:
        printed = log.read_text(encoding="utf-8", errors="replace")
        raise UserError(f"Installing {name} failed{at_package(printed)}: {cure(printed, name)} (all of it: {log}).")


def at_package(output: str) -> str:
    """The package that pip speaks of last."""
    for pattern in PACKAGES:
        found = re.findall(pattern, output)
        if found:
            last = found[-1] if isinstance(found[-1], str) else next(filter(None, found[-1]))
            return f" at {last.strip(',')}"
    return ""


def cure(output: str, name: str) -> str:
    for pattern, cure in CURES:
        if re.search(pattern, output):
            return cure.format(name=name)
    lines = output.splitlines()
    return ([line for line in lines if line.startswith("ERROR:")] or lines or ["no output"])[-1]
