"""Claims in one line of prose. Every repetition is bounded, so that a long line takes as long as its letters."""

from __future__ import annotations

import re
from itertools import pairwise

from paceline.studies.audit import printed_rows as p

NAME = r"(?<!\w)(?P<{}>\w{{1,40}})"
BETTER, WORSE = NAME.format("better"), NAME.format("worse")
FACTOR = r"(?P<factor>\d{1,9}(?:\.\d{1,9})?)\s?[x×]"
CLAIMS = tuple(
    (quantity, re.compile(form, re.IGNORECASE))
    for quantity, form in (
        (p.SECONDS, rf"{BETTER} (?:is )?faster than {WORSE}[^()]{{0,200}}\({FACTOR}\)"),
        (p.SECONDS, rf"{BETTER} is {FACTOR} (?:faster than|as fast as) {WORSE}"),
        (
            p.MEMORY,
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
SPEEDS = (p.IMAGES_PER_SECOND, p.EPOCH_SECONDS, p.SECONDS)
MANY = 10**9


def claim_in(line: str, where: str) -> p.ProseRatio | None:
    """A ratio; one that names a single device speaks of nothing else."""
    for quantity, form in CLAIMS:
        claimed = form.search(line)
        factor = p.number(claimed["factor"]) if claimed else None
        if claimed and factor:
            devices = 1 if SINGLE.search(line) else None
            return p.ProseRatio(where, quantity, claimed["better"], claimed["worse"], factor, devices)
    return None


def order_in(line: str, where: str) -> p.ProseOrder | None:
    """2GPU > 3GPU > 1GPU, where the line speaks of speed; or several devices against a single one."""
    owner = OWNER.search(line)
    framework = owner[1] if owner else ""
    chain = COUNTS.search(line)
    if chain and SPEED.search(line):
        counts = [int(count) for count in re.findall(r"\d+", chain[0])]
        if all(a != b for a, b in pairwise(counts)):
            return p.ProseOrder(where, SPEEDS, tuple(p.RankedPlace(f"{n} GPU", framework, n, n) for n in counts))
    if found := MULTI.search(line):
        single, several = p.RankedPlace("a single one", framework, 1, 1), p.RankedPlace("several", framework, 2, MANY)
        return p.ProseOrder(where, SPEEDS, (several, single) if found["how"].lower() == "faster" else (single, several))
    return None
