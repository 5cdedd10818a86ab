"""What a command is about to run: the hashes of its files and the commit of their folder, just before it starts."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.plan.external.command import CommandCode, ExternalCommand

INTERPRETERS = re.compile(r"(python|pypy)[\d.]*|bash|sh")
# Of programs and of settings. Other files may be data, which to read would warm the disk's cache, or the output.
SUFFIXES = {".py", ".sh", ".r", ".jl", ".lua", ".pl", ".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".conf"}
LARGEST_BYTES = 1 << 20  # nothing longer is written by hand
GIT_SECONDS = 5.0  # after which a slow disk is not waited for
STATUS = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
QUIETLY = ("--no-optional-locks", "-c", "core.fsmonitor=false")  # it writes nothing and starts nothing


def code_of(command: ExternalCommand) -> CommandCode:
    """As it is now."""
    folder = Path(command.folder)
    found = {name: _hash(folder / name) for name in dict.fromkeys(_names(command.arguments, folder))}
    files = {name: output for name, output in found.items() if output}
    first = next((folder / name for name in files), None)
    commit, dirty = _commit(first.parent if first else folder)
    return CommandCode(files=files, commit=commit, dirty=dirty)


def _names(words: Sequence[str], folder: Path) -> Iterator[str]:
    """Of files that may be code: the program, the script of an interpreter, and all that look so."""
    if "/" in words[0]:
        yield words[0]
    yield from _scripts(words, folder)
    for word in words[1:]:
        name = word.partition("=")[2] if word.startswith("-") else word
        if Path(name).suffix.lower() in SUFFIXES:
            yield name


def _scripts(words: Sequence[str], folder: Path) -> Iterator[str]:
    """What an interpreter runs, also as a module; nothing that it is given as text."""
    places = [place for place, word in enumerate(words) if INTERPRETERS.fullmatch(Path(word).name)]
    after = words[places[0] + 1 :] if places else ()
    for place, word in enumerate(after):
        if word == "-c":
            return
        if word == "-m":
            module = (after[place + 1] if place + 1 < len(after) else "").replace(".", "/")
            yield from (f"{module}.py", f"{module}/__main__.py")
            return
        if not word.startswith("-") and _is_file(folder / word):
            yield word
            return


def _is_file(path: Path) -> bool:
    """No folder, pipe or device, and of no size that only data has."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST_BYTES


def _hash(path: Path) -> str:
    """Empty if it is not there or not to be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if _is_file(path) else ""
    except OSError:
        return ""


def _commit(folder: Path) -> tuple[str, bool]:
    """And whether files differ from it; nothing where there is no git, no repository or no commit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        output = subprocess.run(
            ["git", *QUIETLY, "-C", str(folder), *STATUS],  # noqa: S607 - the user's own git
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            env=environment,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return "", False
    lines = output.splitlines()
    commits = [found[1] for line in lines if (found := re.fullmatch(r"# branch\.oid ([0-9a-f]{40,64})", line))]
    return (commits[0], any(not line.startswith("#") for line in lines)) if commits else ("", False)
