"""Claims in one line of prose. Every repetition is bounded, so that a long line takes as long as its letters."""

from __future__ import annotations

import re
from itertools import pairwise

from paceline.studies.audit.printed_rows import (
    EPOCH_SECONDS,
    IMAGES_PER_SECOND,
    MEMORY,
    SECONDS,
    ProseOrder,
    ProseRatio,
    RankedPlace,
    number,
)

NAME = r"(?<!\w)(?P<{}>\w{{1,40}})"
BETTER, WORSE = NAME.format("better"), NAME.format("worse")
FACTOR = r"(?P<factor>\d{1,9}(?:\.\d{1,9})?)\s?[x×]"
CLAIMS = tuple(
    (quantity, re.compile(form, re.IGNORECASE))
    for quantity, form in (
        (SECONDS, rf"{BETTER} (?:is )?faster than {WORSE}[^()]{{0,200}}\({FACTOR}\)"),
        (SECONDS, rf"{BETTER} is {FACTOR} (?:faster than|as fast as) {WORSE}"),
        (
            MEMORY,
            rf"{BETTER} (?:is |are )?(?:more )?memory[ -]ef{{1,2}}icient (?:compared to|than) {WORSE}[^()]{{0,200}}"
            rf"\({FACTOR}\)",
        ),
    )
)
SINGLE = re.compile(r"\b(?:single|one|1)[ -]?(?:gpu|device|card)s?\b", re.IGNORECASE)
COUNTS = re.compile(
    r"(\d{1,6}) ?(?:gpus?|devices?|cards?)((?: ?> ?\d{1,6} ?(?:gpus?|devices?|cards?)){1,20})", re.IGNORECASE
)
OWNER = re.compile(r"(?<!\w)(\w{1,40})['’]s\b")
MULTI = re.compile(
    r"\bmulti[ -]?(?:gpu|device|card)s? (?:is |are )?(?P<how>slower|faster) than (?:a )?single", re.IGNORECASE
)
SPEED = re.compile(r"\b(speed|throughput|images|faster|performance)", re.IGNORECASE)
SPEEDS = (IMAGES_PER_SECOND, EPOCH_SECONDS, SECONDS)
MANY = 10**9


def claim_in(line: str, where: str) -> ProseRatio | None:
    """A ratio; one that names a single device speaks of nothing else."""
    for quantity, form in CLAIMS:
        claimed = form.search(line)
        factor = number(claimed["factor"]) if claimed else None
        if claimed and factor:
            devices = 1 if SINGLE.search(line) else None
            return ProseRatio(where, quantity, claimed["better"], claimed["worse"], factor, devices)
    return None


def order_in(line: str, where: str) -> ProseOrder | None:
    """2GPU > 3GPU > 1GPU, where the line speaks of speed; or several devices against a single one."""
    owner = OWNER.search(line)
    framework = owner[1] if owner else ""
    chain = COUNTS.search(line)
    if chain and SPEED.search(line):
        counts = [int(count) for count in re.findall(r"\d+", chain[0])]
        if all(a != b for a, b in pairwise(counts)):
            return ProseOrder(where, SPEEDS, tuple(RankedPlace(f"{n} GPU", framework, n, n) for n in counts))
    if found := MULTI.search(line):
        single, several = RankedPlace("a single one", framework, 1, 1), RankedPlace("several", framework, 2, MANY)
        return ProseOrder(where, SPEEDS, (several, single) if found["how"].lower() == "faster" else (single, several))
    return None
