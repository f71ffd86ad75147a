"""A run to look at first, as a page names it."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Tone
from stepscope.report.text import evidence
from stepscope.report.types import LookFirst

OUTCOME: dict[str, Tone] = {"pass": "good", "fail": "bad", "unknown": "quiet", "undecided": "warn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A run to look at first: where in it, why, and the address of that step."""

    name: str
    outcome: str
    tone: Tone
    steps: str
    where: str
    evidence: str
    href: str | None
    command: str


def look(run: LookFirst, links: Links) -> Look:
    """Return where to look in a run, and why."""
    where, said = evidence(run)
    step = run.suspects[0].first if run.suspects else None
    return Look(
        name=run.name,
        outcome=run.outcome,
        tone=OUTCOME[run.outcome],
        steps=f"{run.steps:,}",
        where=where,
        evidence=said,
        href=links.run(run.id, step),
        command=run.command,
    )
