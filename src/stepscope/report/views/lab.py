"""Results of the lab as text: the envelope of the classifiers, and attacks on judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from stepscope.lab.envelope import ClassifierEnvelope, EnvelopeRow, SimulatedFigure
from stepscope.lab.redteam import AGAINST, FOR, NEUTRAL, ClassFlips, JudgeUnderAttack, RedteamResult
from stepscope.report.words import fold
from stepscope.values import Unmeasured

# What a classifier with a posterior has beside its label: heading in two lines, and the figure.
DETAILS: tuple[tuple[str, str, Callable[[EnvelopeRow], SimulatedFigure | Unmeasured]], ...] = (
    ("gives a", "label", lambda row: row.resolved),
    ("right", "then", lambda row: row.resolved_accuracy),
    ("claims", "off by", lambda row: row.calibration_error),
    ("fits", "none", lambda row: row.unmodelled),
    ("break", "found", lambda row: row.break_found),
    ("within", "one", lambda row: row.break_within_one),
    ("in its", "90 %", lambda row: row.coverage),
    ("false", "break", lambda row: row.false_breaks),
)
WIDE = 8
# The words of the headings, once, below all tables.
ENVELOPE_LEGEND = (
    "named right: every run is given its most probable shape. gives a label: the others are "
    "unresolved. claims off by: claimed probability against how often it is right. fits none: runs "
    "of the five shapes that are said to have none of them. break found, within one, in its 90 %: "
    "of the runs that broke, then of those whose break was found. false break: of healthy runs."
)


def render_envelope(envelope: ClassifierEnvelope, width: int = 100) -> str:
    """Return an envelope as text; ends in a line break."""
    blocks: list[list[str]] = [fold(_head(envelope), width, 2)]
    for (generator, noise), rows in groupby(envelope.rows, lambda row: (row.generator, row.noise)):
        blocks.append([f"{generator}, {noise} noise", *_tables(list(rows))])
    sure = any(isinstance(row.calibration_error, SimulatedFigure) for row in envelope.rows)
    blocks.append(
        fold(_error(envelope), width, 2) + (fold(ENVELOPE_LEGEND, width, 2) if sure else [])
    )
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(envelope: ClassifierEnvelope) -> str:
    match envelope.told:
        case None:
            told = "are not told sigma"
        case 1.0:
            told = "are told the true sigma"
        case factor:
            told = f"are told {factor:g} times the true sigma"
    trials = envelope.rows[0].trials
    return (
        f"What a label is worth: {trials:,} simulated runs a cell, a fifth of each shape; "
        f"classifiers {told}; seed {envelope.seed}"
    )


def _tables(rows: Sequence[EnvelopeRow]) -> Iterator[str]:
    names = list(dict.fromkeys(row.classifier for row in rows))
    size = len(names) * WIDE
    yield f"{'':<13}{'named right':>{WIDE}}{'':<{size - WIDE}}   {'macro-F1':>{WIDE}}"
    yield f"{'n':>4}  {'sigma':<7}{_words(names)}   {_words(names)}"
    for (n, sigma), cell in groupby(rows, lambda row: (row.n, row.sigma)):
        same = list(cell)
        named = _figures([row.accuracy for row in same])
        yield f"{n:>4}  {sigma:<7g}{named}   {_figures([row.macro_f1 for row in same])}"
    for name in names:
        sure = [row for row in rows if row.classifier == name]
        if isinstance(sure[0].calibration_error, SimulatedFigure):
            yield from ("", *_details(name, sure))


def _details(name: str, rows: Sequence[EnvelopeRow]) -> Iterator[str]:
    yield f"  {name:<11}{_words([first for first, _, _ in DETAILS])}  weakest"
    yield f"{'n':>4}  {'sigma':<7}{_words([second for _, second, _ in DETAILS])}  shape"
    for row in rows:
        known = {
            shape: one.value
            for shape, one in row.recall.items()
            if isinstance(one, SimulatedFigure)
        }
        weakest = min(known, key=lambda shape: known[shape])
        figures = _figures([figure(row) for _, _, figure in DETAILS])
        said = f"{weakest.partition('_')[0]} {known[weakest]:.2f}"
        yield f"{row.n:>4}  {row.sigma:<7g}{figures}  {said}"


def _words(words: Sequence[str]) -> str:
    return "".join(f"{word:>{WIDE}}" for word in words)


def _figures(figures: Sequence[SimulatedFigure | Unmeasured]) -> str:
    return _words(["-" if isinstance(one, Unmeasured) else f"{one.value:.2f}" for one in figures])


def _error(envelope: ClassifierEnvelope) -> str:
    errors = [
        row.accuracy.error for row in envelope.rows if isinstance(row.accuracy, SimulatedFigure)
    ]
    return (
        f"Shares of all runs are known to {2 * max(errors):.3f} or better (two standard errors of "
        "the simulation); more with --trials. Nothing is promised between or beyond these cells."
    )


REDTEAM_LEGEND = (
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


def render_redteam(made: RedteamResult, width: int = 100) -> str:
    """Return attacks and what they came to as text; ends in a line break."""
    head = (
        f"{made.attacks} attacks on judges through {made.runs} failing runs, rubric {made.rubric}; "
        f"each wants the answer {made.answer!r}"
    )
    blocks = [fold(head, width, 2)]
    blocks += [list(_judge(one, width)) for one in made.judges]
    blocks.append([*fold(REDTEAM_LEGEND, width, 2), *fold(CLAIM, width, 2)])
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _judge(one: JudgeUnderAttack, width: int) -> Iterator[str]:
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


def _row(row: ClassFlips) -> str:
    limit = "-" if row.limit is None else f"{100 * row.limit:.1f} %"
    silent = "-" if row.narration_dependent is None else str(row.narration_dependent)
    return (
        f"  {row.class_:<22}{row.runs:>6}{row.runs_flipped:>9}{limit:>9}{row.tried:>8}"
        f"{row.flipped:>9}{row.neutral:>9}{sum(row.unmeasured.values()):>6}{silent:>8}"
        f"{row.outranked:>9}"
    )


def _swap(one: JudgeUnderAttack) -> str:
    made = one.narration_swap
    if isinstance(made, Unmeasured):
        return f"narration alone: not measured ({made.reason})"
    marked = "not all asked" if made.marked is None else f"{made.marked} go away without words"
    return (
        f"narration alone: {made.passed_before} of {made.runs} failing runs passed before, "
        f"{made.passed_after} after ({made.rise_points:+.1f} points); "
        f"{made.flipped} flips, {marked}"
    )
