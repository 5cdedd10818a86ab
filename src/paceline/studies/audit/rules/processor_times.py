"""Times of the shell: user and system time against real time. All of it is odd at most, so it is a note."""

from __future__ import annotations

from paceline.studies.audit.printed_rows import SECONDS, SYSTEM_SECONDS, USER_SECONDS, Document, PrintedRow
from paceline.studies.audit.rules.definition import Checks, TableCheck, figures
from paceline.studies.audit.rules.robust_statistics import spread

FEWEST_RUNS = 3  # of a program, that show a pattern
ALIKE = 0.05  # spread of processor time for each second of real time
FAR = 0.15  # from that of the other runs

TimedProcess = tuple[PrintedRow, float, float]  # with processor and real seconds


def processor_time(document: Document) -> Checks:
    """A program that needs as much processor time for each second in all runs but one."""
    programs: dict[str, list[TimedProcess]] = {}
    for table in document.tables:
        for row in table.rows:
            real, user, system = (row.one(name) for name in (SECONDS, USER_SECONDS, SYSTEM_SECONDS))
            if row.about and real and user and system and real.value > 0:
                programs.setdefault(row.about[0], []).append((row, user.value + system.value, real.value))
            if user and system and 2 * system.value > user.value:
                text = f"{system.text} s in the kernel, but {user.text} s outside of it"
                odd = system.value > user.value
                yield TableCheck(row.where, text if odd else None, figures(row, SYSTEM_SECONDS), counts=False)
    for runs in programs.values():
        yield from _pattern(runs)


def _pattern(runs: list[TimedProcess]) -> Checks:
    middle, stray = spread([used / real for _, used, real in runs])
    if len(runs) < FEWEST_RUNS or middle <= 0 or stray > ALIKE * middle:
        return
    for row, used, real in runs:
        share = used / real
        text = f"{used:.6g} s of processor time in {real:.6g} s make {share:.2f}, but {middle:.2f} in the other runs"
        far = abs(share / middle - 1) > FAR
        yield TableCheck(row.where, text if far else None, figures(row, SECONDS, USER_SECONDS), counts=False)
