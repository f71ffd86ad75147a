"""An envelope as text: for each generator and noise, what the classifiers are worth by n and sigma.

Shares have two decimals, as far as the simulation knows them; the line at the end says how far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from stepscope.lab.envelope import Envelope
from stepscope.lab.envelope_row import Figure, Row
from stepscope.report.text import fold
from stepscope.values import Unmeasured

# What a classifier with a posterior has beside its label: heading in two lines, and the figure.
DETAILS: tuple[tuple[str, str, Callable[[Row], Figure | Unmeasured]], ...] = (
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
LEGEND = (
    "named right: every run is given its most probable shape. gives a label: the others are "
    "unresolved. claims off by: claimed probability against how often it is right. fits none: runs "
    "of the five shapes that are said to have none of them. break found, within one, in its 90 %: "
    "of the runs that broke, then of those whose break was found. false break: of healthy runs."
)


def render(envelope: Envelope, width: int = 100) -> str:
    """Return an envelope as text; ends in a line break."""
    blocks: list[list[str]] = [fold(_head(envelope), width, 2)]
    for (generator, noise), rows in groupby(envelope.rows, lambda row: (row.generator, row.noise)):
        blocks.append([f"{generator}, {noise} noise", *_tables(list(rows))])
    sure = any(isinstance(row.calibration_error, Figure) for row in envelope.rows)
    blocks.append(fold(_error(envelope), width, 2) + (fold(LEGEND, width, 2) if sure else []))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _head(envelope: Envelope) -> str:
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


def _tables(rows: Sequence[Row]) -> Iterator[str]:
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
        if isinstance(sure[0].calibration_error, Figure):
            yield from ("", *_details(name, sure))


def _details(name: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"  {name:<11}{_words([first for first, _, _ in DETAILS])}  weakest"
    yield f"{'n':>4}  {'sigma':<7}{_words([second for _, second, _ in DETAILS])}  shape"
    for row in rows:
        known = {shape: one.value for shape, one in row.recall.items() if isinstance(one, Figure)}
        weakest = min(known, key=lambda shape: known[shape])
        figures = _figures([figure(row) for _, _, figure in DETAILS])
        said = f"{weakest.partition('_')[0]} {known[weakest]:.2f}"
        yield f"{row.n:>4}  {row.sigma:<7g}{figures}  {said}"


def _words(words: Sequence[str]) -> str:
    return "".join(f"{word:>{WIDE}}" for word in words)


def _figures(figures: Sequence[Figure | Unmeasured]) -> str:
    return _words(["-" if isinstance(one, Unmeasured) else f"{one.value:.2f}" for one in figures])


def _error(envelope: Envelope) -> str:
    errors = [row.accuracy.error for row in envelope.rows if isinstance(row.accuracy, Figure)]
    return (
        f"Shares of all runs are known to {2 * max(errors):.3f} or better (two standard errors of "
        "the simulation); more with --trials. Nothing is promised between or beyond these cells."
    )
