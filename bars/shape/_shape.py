"""One line of the bars of shapes: a figure, what the articles' best gives, what it must be."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stepscope.lab.envelope import EnvelopeRow, SimulatedFigure
from stepscope.values import Unmeasured

# Missed: dips of one or two steps in 40, at a noise of half their depth; who knows how the
# generator draws them reaches .90 (docs/design/classifier.md). The figure is what is reached today:
# a classifier that gives less fails.
KNOWN = {("macro F1", "agent, n 40, sigma 0.15"): 0.835}

# A figure less than this many standard errors of its simulation beyond a bar is at it.
WITHIN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: a figure, V3's beside it, and what it must be."""

    what: str
    where: str
    ours: float
    error: float = 0.0
    v3: float | None = None
    least: float | None = None
    most: float | None = None

    def holds(self, slack: float = 0.0) -> bool:
        """Return whether the bar holds, `slack` standard errors given away."""
        low = self.least is None or self.ours + slack * self.error >= self.least
        return low and (self.most is None or self.ours - slack * self.error <= self.most)

    def known(self) -> bool:
        """Return whether the bar is missed as it is known to be, and no further."""
        reached = KNOWN.get((self.what, self.where))
        return reached is not None and self.ours + WITHIN * self.error >= reached

    def text(self) -> str:
        """Return the line as printed."""
        v3 = "" if self.v3 is None else f"{self.v3:.3f}"
        bar = f">= {self.least:g}" if self.least is not None else ""
        bar = bar or (f"<= {self.most:g}" if self.most is not None else "")
        known = ", known" if self.known() else ""
        verdict = "at the bar" if self.holds(WITHIN) else f"MISSED{known}"
        verdict = ("holds" if self.holds() else verdict) if bar else ""
        return f"{self.what:<34}{self.where:<34}{self.ours:>8.3f}{v3:>8}  {bar:<10}{verdict}"


def figure(found: SimulatedFigure | Unmeasured) -> SimulatedFigure:
    return SimulatedFigure(math.nan, 0.0) if isinstance(found, Unmeasured) else found


def line(
    what: str,
    pair: tuple[EnvelopeRow, EnvelopeRow],
    field: str,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Line:
    ours, theirs = (figure(getattr(row, field)) for row in reversed(pair))
    row = pair[1]
    return Line(
        what=what,
        where=f"{row.generator}, n {row.n}, sigma {row.sigma:g}",
        ours=ours.value,
        error=ours.error,
        v3=None if math.isnan(theirs.value) else theirs.value,
        least=least,
        most=most,
    )
