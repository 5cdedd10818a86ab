"""What is special about a cell, as a sign and a word: never by colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.analysis.rows.row import Row


@dataclass(frozen=True)
class Badge:
    word: str
    sign: str
    meaning: str

    @property
    def kind(self) -> str:
        """As the style sheet names it."""
        return self.word.replace(" ", "-")


def _by_word(*badges: Badge) -> dict[str, Badge]:
    return {badge.word: badge for badge in badges}


BADGES = _by_word(
    Badge("ok", "✓", "all runs ended well, and their interval, if there are several, is narrow enough"),
    Badge("one run", "1", "a single run has no interval: nothing tells how sure it is"),
    Badge("noisy", "≈", "the interval is wider than asked for: repeat it, or look for what disturbed it"),
    Badge("failed", "✕", "a run did not end well; its cause and the end of its log are here"),
    Badge("skipped", "⊘", "it cannot be measured, for the reason given"),
    Badge("not run", "…", "it is planned and not measured yet"),
    Badge("simulated", "◇", "devices were slowed down on purpose: no real machine is like that"),
    Badge("oversubscribed", "⇉", "more devices than cores, or than a CPU quota lets them use: they share"),
    Badge("throttled", "⏸", "a CPU quota held its processes back while they trained"),
    Badge("preallocated", "▣", "memory was taken before it was needed: its peak says nothing about the need"),
    Badge("quick", "½", "scaled down for a small machine"),
    Badge("verified", "≡", "`paceline verify` found the network equal to the reference, with these versions here"),
)

STATES = _by_word(  # of plans and runs under way, which only a server sees
    Badge("running", "▶", "it is being measured now"),
    Badge("interrupted", "‖", "whoever measured it is gone; the same command goes on"),
    Badge("complete", "✓", "all its runs are done"),
)


def badges_of(row: Row) -> tuple[Badge, ...]:
    """Its status first."""
    true = {"one run": row.status == "ok" and row.repeats == 1, "quick": row.quick, "verified": row.verified}
    special = row.marks if row.status != "skipped" else ()
    return tuple(BADGES[word] for word in (row.status, *special, *(word for word, holds in true.items() if holds)))
