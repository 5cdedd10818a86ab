"""Runs one input in a process of its own, within limits, and says what was wrong with how it went."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_SECONDS = 10  # on the wall, whether it computes or waits
MOST_BYTES = 500 << 20
MOST_WRITTEN = 100 << 20
MOST_READ = 10 << 20  # of what was printed
MOST_LETTERS = 1700  # of an error line
CODES = (0, 1, 2, 3, 4)  # documented ones; 130 is for who interrupts
Tree = dict[str, bytes | None]


@dataclass(frozen=True)
class Input:
    """What a command line is given, and what must stay as it is."""

    kind: str
    words: tuple[str, ...]
    folder: Path  # all that it may touch
    kept: tuple[Path, ...]  # stores that only a success may change
    written: tuple[str, ...] = ()  # names in the folder that a success may leave
    then: tuple[str, ...] = ()  # a command that must succeed after a success
    raw: bool = False  # what is printed is as it was written


@dataclass(frozen=True)
class Ended:
    code: int  # negative: a signal
    seconds: float
    bytes: int
    said: str
    complained: str

    @property
    def too_late(self) -> bool:
        return self.seconds > MOST_SECONDS


def judged(make: Callable[[], Input]) -> tuple[str, list[str]]:
    """How it went, and what was wrong, if anything was.

    What takes too long is made and given a second time: a busy moment of the machine is no fault, while what hangs does
    so again.
    """
    ended, faults = run(make())
    if not any(one.too_late for one in ended):
        return f"exit code {ended[0].code}", faults
    ended, faults = run(make())
    return f"exit code {ended[0].code} at a second try", faults


def run(given: Input) -> tuple[list[Ended], list[str]]:
    before = [tree(path) for path in given.kept]
    names = _names(given.folder)
    ended = in_child(given.folder, lambda: _main(given.words))
    changed = [path for path, was in zip(given.kept, before, strict=True) if tree(path) != was]
    more = _names(given.folder) - names - (set(given.written) if ended.code == 0 else set())
    faults = list(_faults(given, ended, changed, more))
    if not given.then or ended.code:
        return [ended], faults
    after = in_child(given.folder, lambda: _main(given.then))
    faults += [f"then {fault}" for fault in _faults(given, after, [], set())]
    faults += [f"then ended with {after.code}: {after.complained[-300:]!r}"] if after.code else []
    return [ended, after], faults


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _faults(given: Input, ended: Ended, changed: list[Path], more: set[str]) -> Iterator[str]:
    if ended.too_late:
        yield f"took more than {MOST_SECONDS} s"
    if ended.bytes > MOST_BYTES:
        yield f"took {ended.bytes >> 20} MiB"
    if "Traceback" in ended.complained:
        yield f"a traceback: {ended.complained.strip().splitlines()[-1][:300]}"
    elif ended.code not in CODES:
        yield f"ended with {ended.code}: {ended.complained[-300:]!r}"
    elif ended.code == 1:
        yield from _no_line(ended.complained)
    if not given.raw and _steers(ended.said):
        yield f"printed {_steers(ended.said)!r}"
    if changed and not (ended.code == 0 and given.kind == "bundles"):
        yield f"changed {', '.join(path.name for path in changed)}"
    if more:
        yield f"left {', '.join(sorted(more))}"


def _no_line(said: str) -> Iterator[str]:
    if not said.startswith("paceline: ") or said.count("\n") != 1 or len(said) > MOST_LETTERS:
        yield f"no short line: {len(said)} letters: {said[:200]!r}"
    if _steers(said):
        yield f"complained with {_steers(said)!r}"


def _steers(text: str) -> str:
    return "".join(dict.fromkeys(letter for letter in text if not letter.isprintable() and letter not in "\n\t"))


def tree(folder: Path) -> Tree:
    """What is in a store; its index is left out, since it can be made anew."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")) if folder.is_dir() and not folder.is_symlink() else []:
        if "index.sqlite" not in path.name and "lock" not in path.name:
            regular = path.is_file() and not path.is_symlink()
            large = regular and path.stat().st_size > MOST_WRITTEN  # and full of nothing
            found[str(path.relative_to(folder))] = path.read_bytes() if regular and not large else None
    return found


def _main(words: tuple[str, ...]) -> None:
    from paceline.cli import main

    sys.argv = ["paceline", *words]
    main()


def in_child(folder: Path, work: Callable[[], None]) -> Ended:
    """Fork, work there, and wait for it as long as is allowed."""
    outputs = [folder.parent / f"{folder.name}.{name}" for name in ("out", "err")]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _work(folder, outputs, work)
    status, used = _wait(child, began)
    seconds = time.monotonic() - began
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever it has left running
    said, complained = (path.read_bytes()[:MOST_READ].decode("utf-8", "backslashreplace") for path in outputs)
    for path in outputs:
        path.unlink()
    return Ended(
        code=os.waitstatus_to_exitcode(status),
        seconds=seconds,
        bytes=used.ru_maxrss << 10,
        said=said,
        complained=complained,
    )


def _wait(child: int, began: float) -> tuple[int, resource.struct_rusage]:
    while True:
        found, status, used = os.wait4(child, os.WNOHANG)
        if found:
            return status, used
        if time.monotonic() - began > MOST_SECONDS or _bytes_of(child) > 2 * MOST_BYTES:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status, used = os.wait4(child, 0)
            return status, used
        time.sleep(0.005)


def _bytes_of(child: int) -> int:
    """Looked at from outside: the library that draws charts reserves much more than it uses, so no limit will do."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{child}/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def _work(folder: Path, outputs: list[Path], work: Callable[[], None]) -> None:
    """In the child: never returns."""
    code = 99
    try:
        os.setsid()  # so that what it started can be ended with it
        for number, path in enumerate(outputs, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, MOST_WRITTEN))
        code = _code_of(work)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _code_of(work: Callable[[], None]) -> int:
    try:
        work()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it at the end of a program
        traceback.print_exc()
        return 1
    return 0
