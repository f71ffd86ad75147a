"""Results of the lab as documents: the envelope of the classifiers, and attacks on judges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from stepscope.lab.envelope import ClassifierEnvelope, EnvelopeRow, SimulatedFigure
from stepscope.lab.redteam import AGAINST, FOR, NEUTRAL, JudgeUnderAttack, RedteamResult
from stepscope.report import document as doc
from stepscope.values import Unmeasured

# What a classifier with a posterior has beside its label: heading in two lines, and the figure.
DETAILS: dict[str, Callable[[EnvelopeRow], SimulatedFigure | Unmeasured]] = {
    "gives a\nlabel": lambda row: row.resolved,
    "right\nthen": lambda row: row.resolved_accuracy,
    "claims\noff by": lambda row: row.calibration_error,
    "fits\nnone": lambda row: row.unmodelled,
    "break\nfound": lambda row: row.break_found,
    "within\none": lambda row: row.break_within_one,
    "in its\n90 %": lambda row: row.coverage,
    "false\nbreak": lambda row: row.false_breaks,
}
WIDE = 8
# The words of the headings, once, below all tables.
ENVELOPE_LEGEND = (
    "named right: every run is given its most probable shape. gives a label: the others are "
    "unresolved. claims off by: claimed probability against how often it is right. fits none: runs "
    "of the five shapes that are said to have none of them. break found, within one, in its 90 %: "
    "of the runs that broke, then of those whose break was found. false break: of healthy runs."
)


def make_envelope_document(envelope: ClassifierEnvelope) -> doc.Document:
    """Return an envelope: a section for each generator and noise."""
    match envelope.told:
        case None:
            told = "are not given sigma"
        case 1.0:
            told = "are given the true sigma"
        case factor:
            told = f"are given {factor:g} times the true sigma"
    trials = envelope.rows[0].trials
    head = (
        f"Accuracy of labels: {trials:,} simulated runs per cell, a fifth of each shape; "
        f"classifiers {told}; seed {envelope.seed}"
    )
    out: list[doc.Section] = [[doc.Paragraph(head)]]
    for (generator, noise), rows in groupby(envelope.rows, lambda row: (row.generator, row.noise)):
        first, *more = _tables(list(rows))
        out.append([doc.Paragraph(f"{generator}, {noise} noise"), first])
        out += [[table] for table in more]
    sure = any(isinstance(row.calibration_error, SimulatedFigure) for row in envelope.rows)
    known = (row.accuracy for row in envelope.rows)
    errors = [one.error for one in known if isinstance(one, SimulatedFigure)]
    last = (
        f"Shares of all runs are known to {2 * max(errors):.3f} or better (two standard errors of "
        "the simulation); more with --trials. Nothing is promised between or beyond these cells."
    )
    return [*out, [doc.Paragraph(last), *([doc.Paragraph(ENVELOPE_LEGEND)] if sure else [])]]


def _tables(rows: Sequence[EnvelopeRow]) -> Iterator[doc.Table]:
    names = list(dict.fromkeys(row.classifier for row in rows))
    groups = [
        [f"{title}\n{names[0]}", *(f"\n{name}" for name in names[1:])]
        for title in ("named right", "macro-F1")
    ]
    cells = []
    for (n, sigma), cell in groupby(rows, lambda row: (row.n, row.sigma)):
        same = list(cell)
        figures = [*(row.accuracy for row in same), *(row.macro_f1 for row in same)]
        cells.append(doc.make_row(str(n), f"{sigma:g}", *map(_figure, figures)))
    columns = [
        doc.TableColumn(label, number=True, least=WIDE, gap=0 if at else 3)
        for group in groups
        for at, label in enumerate(group)
    ]
    yield _table(columns, cells)
    for name in names:
        sure = [row for row in rows if row.classifier == name]
        if isinstance(sure[0].calibration_error, SimulatedFigure):
            yield _details(name, sure)


def _table(
    columns: Sequence[doc.TableColumn], rows: Sequence[doc.TableRow], heading: str = ""
) -> doc.Table:
    first = doc.TableColumn("n", number=True, least=4), doc.TableColumn("\nsigma", least=7)
    return doc.Table("envelope", (*first, *columns), rows, heading=heading, corner="\nn")


def _details(name: str, rows: Sequence[EnvelopeRow]) -> doc.Table:
    cells = []
    for row in rows:
        found = row.recall.items()
        known = {shape: one.value for shape, one in found if isinstance(one, SimulatedFigure)}
        weakest = min(known, key=lambda shape: known[shape])
        figures = [_figure(figure(row)) for figure in DETAILS.values()]
        said = f"{weakest.partition('_')[0]} {known[weakest]:.2f}"
        cells.append(doc.make_row(str(row.n), f"{row.sigma:g}", *figures, said))
    columns = [doc.TableColumn(label, number=True, least=WIDE, gap=0) for label in DETAILS]
    return _table([*columns, doc.TableColumn("weakest\nshape")], cells, f"  {name}")


def _figure(figure: SimulatedFigure | Unmeasured) -> str:
    return "-" if isinstance(figure, Unmeasured) else f"{figure.value:.2f}"


REDTEAM_LEGEND = (
    "runs: failing runs that the judge called failing, and on which a text of the class was "
    "measured. flipped: those that at least one text turned into a pass. at most: upper limit of "
    "that share, one-sided, 95 %, over runs. texts: single texts on runs, and how many of them "
    "flipped, became neither, or left no verdict. silent: flips that go away without the agent's "
    "words. checked: flips that the run's own check contradicts; no report counts them."
)
CLAIM = (
    "The figures hold for these judges, this rubric, these runs and fixed texts. An attacker who "
    "sees verdicts and tries again does better than fixed texts do."
)
_CAME_TO = {AGAINST: "judged to fail", FOR: "judged to pass", NEUTRAL: "neither"}
ATTACK_COLUMNS = (
    doc.TableColumn("class", least=22),
    doc.TableColumn("runs", number=True, least=6, gap=0),
    doc.TableColumn("flipped", number=True, least=9, gap=0),
    doc.TableColumn("at most", number=True, least=9, gap=0),
    doc.TableColumn("texts", number=True, least=8, gap=0),
    doc.TableColumn("flipped", number=True, least=9, gap=0),
    doc.TableColumn("neither", number=True, least=9, gap=0),
    doc.TableColumn("none", number=True, least=6, gap=0),
    doc.TableColumn("silent", number=True, least=8, gap=0),
    doc.TableColumn("checked", number=True, least=9, gap=0),
)


def make_redteam_document(made: RedteamResult) -> doc.Document:
    """Return attacks and what they came to."""
    head = (
        f"{made.attacks} attacks on judges through {made.runs} failing runs, rubric {made.rubric}; "
        f"each wants the answer {made.answer!r}"
    )
    legend = [doc.Paragraph(REDTEAM_LEGEND), doc.Paragraph(CLAIM)]
    return [[doc.Paragraph(head)], *map(_judge, made.judges), legend]


def _judge(one: JudgeUnderAttack) -> doc.Section:
    clean = ", ".join(f"{n} {_CAME_TO.get(word, word)}" for word, n in one.clean.items())
    rows = []
    for row in one.flips:
        limit = "-" if row.limit is None else f"{100 * row.limit:.1f} %"
        silent = "-" if row.narration_dependent is None else row.narration_dependent
        texts = (row.tried, row.flipped, row.neutral, sum(row.unmeasured.values()))
        cells = (row.runs, row.runs_flipped, limit, *texts, silent, row.outranked)
        rows.append(doc.make_row(row.class_, *map(str, cells)))
    return [
        doc.Paragraph(f"{one.judge} ({one.family})"),
        doc.Paragraph(f"as they are: {clean}", indent=2),
        doc.Table("attacks", ATTACK_COLUMNS, rows, corner="class", indent=2),
        doc.Paragraph(_swap(one), indent=2),
    ]


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
