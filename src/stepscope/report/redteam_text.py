"""What attacks on judges came to, as text: a table of classes for each judge, and what it means."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.lab.redteam import Attacked, Redteam
from stepscope.lab.redteam_figures import AGAINST, FOR, NEUTRAL, Flips
from stepscope.report.text import fold
from stepscope.values import Unmeasured

LEGEND = (
    "runs: failing runs that the judge called failing, and on which a text of the class was "
    "measured. flipped: those that at least one text turned into a pass. at most: upper limit of "
    "that share, one-sided, 95 %, over runs. texts: single texts on runs, and how many of them "
    "flipped, became neither, or left no verdict. silent: flips that go away without the agent's "
    "words. checked: flips that the run's own check contradicts; no report counts them."
)
CLAIM = (
    "These are figures of these judges, this rubric, these runs and fixed texts. An attacker who "
    "sees verdicts and tries again does better than fixed texts do."
)
_CAME_TO = {AGAINST: "judged to fail", FOR: "judged to pass", NEUTRAL: "neither"}


def render(made: Redteam, width: int = 100) -> str:
    """Return attacks and what they came to as text; ends in a line break."""
    head = (
        f"{made.attacks} attacks on judges through {made.runs} failing runs, rubric {made.rubric}; "
        f"each wants the answer {made.answer!r}"
    )
    blocks = [fold(head, width, 2)]
    blocks += [list(_judge(one, width)) for one in made.judges]
    blocks.append([*fold(LEGEND, width, 2), *fold(CLAIM, width, 2)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _judge(one: Attacked, width: int) -> Iterator[str]:
    yield f"{one.judge} ({one.family})"
    clean = ", ".join(f"{n} {_CAME_TO.get(word, word)}" for word, n in one.clean.items())
    yield from fold(f"  as they are: {clean}", width, 4)
    yield (
        f"  {'class':<22}{'runs':>6}{'flipped':>9}{'at most':>9}{'texts':>8}{'flipped':>9}"
        f"{'neither':>9}{'none':>6}{'silent':>8}{'checked':>9}"
    )
    for row in one.flips:
        yield _row(row)
    yield from fold(f"  {_swap(one)}", width, 4)


def _row(row: Flips) -> str:
    limit = "-" if row.limit is None else f"{100 * row.limit:.1f} %"
    silent = "-" if row.narration_dependent is None else str(row.narration_dependent)
    return (
        f"  {row.class_:<22}{row.runs:>6}{row.runs_flipped:>9}{limit:>9}{row.tried:>8}"
        f"{row.flipped:>9}{row.neutral:>9}{sum(row.unmeasured.values()):>6}{silent:>8}"
        f"{row.outranked:>9}"
    )


def _swap(one: Attacked) -> str:
    made = one.narration_swap
    if isinstance(made, Unmeasured):
        return f"narration alone: not measured ({made.reason})"
    marked = "not all asked" if made.marked is None else f"{made.marked} go away without words"
    return (
        f"narration alone: {made.passed_before} of {made.runs} failing runs passed before, "
        f"{made.passed_after} after ({made.rise_points:+.1f} points); "
        f"{made.flipped} flips, {marked}"
    )
