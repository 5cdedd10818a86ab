"""Mistakes in dropout."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.mutants import native
from benchmarks.mutants.changes import (
    natively,
    setting_of,
    swapped,
)
from benchmarks.mutants.mutation import (
    Mistake,
)
from benchmarks.mutants.sites import (
    droppers,
    first_dropper,
    op_of,
)

HALF = 0.5

DROPOUT_MISTAKES = (
    Mistake("dropout: missing", droppers(), setting_of(rate=0.0), ("dropout chance",)),
    Mistake(
        "dropout: rate a fifth too high",
        droppers(),
        swapped(lambda op: replace(op, rate=1.2 * op.rate)),
        ("dropout chance",),
    ),
    Mistake(
        "dropout: the chance to keep taken for the rate",
        droppers(),
        swapped(lambda op: replace(op, rate=1 - op.rate)),
        ("dropout chance",),
        lambda s, n: "half are kept either way" if op_of(s, n).rate == HALF else "",
    ),
    Mistake("dropout: not scaled", first_dropper(), natively(native.UNSCALED), ("dropout scale",), anywhere=True),
    Mistake("dropout: scaled twice", first_dropper(), natively(native.TWICE), ("dropout scale",), anywhere=True),
    Mistake(
        "dropout: on in evaluation",
        first_dropper(),
        natively(native.ALWAYS),
        ("dropout evaluation", "dropout chance"),
        anywhere=True,
    ),
    Mistake(
        "dropout: by channel", first_dropper(maps=True), natively(native.BY_CHANNEL), ("dropout chance",), anywhere=True
    ),
    Mistake(
        "dropout: the same mask in every pass",
        first_dropper(),
        natively(native.SAME_MASK),
        ("dropout chance",),
        anywhere=True,
    ),
    Mistake(
        "dropout: gradient not masked", first_dropper(), natively(native.UNMASKED), ("dropout gradient",), anywhere=True
    ),
)
