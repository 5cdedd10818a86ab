"""How large the numbers that a user gives may be, and why: declared here, for suites and flags alike."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

from paceline.system.errors import UserError


@dataclass(frozen=True)
class Bound:
    """From the least to the most, both allowed unless said otherwise."""

    what: str
    least: float
    most: float
    why: str  # there is no more; empty where the words say it
    above: bool = False  # the least itself is too little
    below: bool = False  # the most itself is too much

    def check(self, name: str, value: float) -> None:
        """Refuse, in one line, what is not within; nothing that is no number is."""
        enough = self.least < value if self.above else self.least <= value
        if not (enough and (value < self.most if self.below else value <= self.most)):
            why = f" ({self.why})" if self.why else ""
            raise UserError(f"{name} is {self.what} {self._range()}{why}, not {number_text(value)}.")

    def _range(self) -> str:
        if not (self.above or self.below):
            return f"from {number_text(self.least)} to {number_text(self.most)}"
        least = f"above {number_text(self.least)}" if self.above else f"from {number_text(self.least)} up"
        return f"{least} and {'below' if self.below else 'at most'} {number_text(self.most)}"


def number_text(value: float) -> str:
    """A number as people read it; one of thousands of digits has no place in a line."""
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**12 else f"one of {1 + int(value.bit_length() * 0.30103):,} digits"
    return f"{value:,.0f}" if abs(value) < 10**12 and value == int(value) else f"{value:g}"


WHOLE, SECONDS = "a whole number", "a number of seconds"
REPEATS = Bound(WHOLE, 1, 1000, "each is a fresh process for every cell, and its interval would not become narrower")
STEPS = Bound(WHOLE, 1, 10**8, "at 1,000 steps a second that is more than a day")
BATCH = Bound(WHOLE, 1, 2**20, "no device holds the images of more")
NO_LIMIT = "more would be no limit: that is 30 years"
TIMEOUT = Bound(SECONDS, 0, 1e9, NO_LIMIT, above=True)
BUDGET = Bound(SECONDS, 0, 1e9, NO_LIMIT)
EPOCHS = Bound("a number", 0, 1e6, "nothing learns for longer", above=True, below=True)
WARMUP = Bound(WHOLE, 0, STEPS.most, STEPS.why)
RATE = Bound("a number", 0, 1e6, "no weight would stay a number", above=True)
SEED = Bound(WHOLE, 0, 2**32 - 1, "NumPy takes no more")
CORES = Bound(WHOLE, 1, 4096, "no machine has more")
INTERVAL = Bound("a part of the median such as 0.03,", 0, 1, "", above=True, below=True)

FLAGS = {
    "--repeats": REPEATS,
    "--warmup-runs": Bound(WHOLE, 0, REPEATS.most, "each runs the whole command"),
    "--timeout": TIMEOUT,
    "--rounds": Bound(WHOLE, 2, REPEATS.most, "each measures every ablation of the cell, and one alone tells nothing"),
    "--batch-size": Bound(WHOLE, 1, 4096, "the reference computes in NumPy, and more images prove no more"),
    "--threshold": Bound("a part such as 0.05,", 0, 1, "", below=True),
    "--target": Bound("a part of the test images such as 0.7,", 0, 1, "", above=True),
    "--table": Bound(WHOLE, 1, 10**6, "no store has more tables"),
    "--port": Bound(WHOLE, 0, 65535, "0 takes any that is free"),
}
MOST_CELLS = 5000  # of a plan: a table that anybody can read has fewer
MOST_RUNS = 20_000  # at 20 seconds each, five days
MOST_VALUES = 256  # of one key, or parts of a suite
MOST_LETTERS = 4096  # of one value: a set of as many devices as there can be has fewer
MOST_NAME = 255  # letters of a suite's name, which is that of its file


def check_flag(name: str, value: float | None) -> None:
    """Refuse a flag that is beyond its bound; one that was not given is within."""
    if value is not None:
        FLAGS[name].check(name, value)


def check_cells(count: int) -> None:
    if count > MOST_CELLS:
        raise UserError(
            f"That makes {number_text(count)} cells, since every value of a list meets those of all others; at most "
            f"{number_text(MOST_CELLS)} go into a plan: name fewer values, or use [[part]] in a suite."
        )


def check_runs(count: int) -> None:
    if count > MOST_RUNS:
        raise UserError(
            f"That makes {number_text(count)} runs; at most {number_text(MOST_RUNS)} go into a plan, which take days: "
            "name fewer values or repeats."
        )


def check_length(where: str, name: str, values: Sized) -> None:
    if len(values) > MOST_VALUES:
        raise UserError(f"{where}: {name} has {len(values):,} values; at most {MOST_VALUES} can be told apart.")


def check_word(where: str, name: str, word: str) -> None:
    most = MOST_NAME if name == "name" else MOST_LETTERS
    if len(word) > most:
        has = "" if name == "name" else "a value of "
        raise UserError(f"{where}: {name} has {has}{len(word):,} letters; at most {most:,} are a name of anything.")
