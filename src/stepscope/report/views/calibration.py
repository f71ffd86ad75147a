"""Judges beside people, and rates corrected by people's labels, as text and tables.

Nothing is computed here. Names of judges, runs and labels are as the records hold them; renderers
escape them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from stepscope import values
from stepscope.calibrate.judges import JudgeCalibration
from stepscope.model.records import Figure
from stepscope.report import document as doc
from stepscope.report.views.judges import describe_curve
from stepscope.report.words import draw_interval

NO_LABELS = (
    "Nothing to compare: no run here has both a judge's verdict and a person's label under one "
    "rubric. stepscope judge asks judges; stepscope label, or import --verdicts FILE --human, "
    "takes in what people say."
)
PLAN = (
    "The protocol is one test: labels still needed are a plan, not leave to test until a judge "
    "passes."
)
DECIDED = {"pass": "passes", "fail": "fails", "undecided": "undecided"}
# Figures in the order in which they are read; those of each label follow.
_FIGURES = (
    ("accuracy", "accuracy"),
    ("kappa", "kappa"),
    ("gwet", "AC1"),
    ("bias", "bias"),
    ("pearson", "r"),
    ("spearman", "Spearman"),
    ("concordance", "concordance"),
    ("near", "within .1"),
    ("first", "named step first"),
    ("among_three", "among three"),
    ("among_five", "among five"),
    ("precision", "precision"),
)
_RECALL = "recall."


def make_calibration_document(found: Sequence[JudgeCalibration]) -> doc.Document:
    """Return each judge's figures against people, rubric by rubric."""
    if not found:
        return [[doc.Paragraph(NO_LABELS, hang=0)]]
    out: list[doc.Section] = []
    for rubric, members in groupby(found, lambda one: (one.rubric, one.unit)):
        out += [_describe_judge(one, rubric[0]) for one in members]
    return [*out, [doc.Paragraph(PLAN)]]


def _describe_judge(one: JudgeCalibration, rubric: str) -> doc.Section:
    runs = values.format_count(one.runs, "run")
    what = runs if one.unit == "runs" else f"{one.n:,} steps of {runs}"
    version = f" {one.version}" if one.version else ""
    head = f"{rubric}{version}   {one.judge}   against {', '.join(one.people)}   {what}"
    known = [(title, one.figures[key]) for key, title in _FIGURES if key in one.figures]
    known += [
        (f"recall of {key.removeprefix(_RECALL)}", figure)
        for key, figure in one.figures.items()
        if key.startswith(_RECALL)
    ]
    rows = [_row(title, figure) for title, figure in known]
    columns = doc.make_columns("", "value", "95 % interval", "n", numbers=("value", "n"))
    figures = doc.Table("calibration-figures", columns, rows, caption=head, indent=2)
    out: list[doc.Paragraph | doc.Table] = [doc.Paragraph(head, one_line=True), figures]
    if one.confusion:
        corner = "people, then judge"
        columns = doc.make_columns(corner, *one.labels, numbers=one.labels)
        pairs = zip(one.labels, one.confusion, strict=True)
        rows = [doc.make_row(label, *(f"{n:,}" for n in row)) for label, row in pairs if sum(row)]
        out.append(doc.Table("calibration-confusion", columns, rows, corner=corner, indent=2))
    return [*out, *(doc.Paragraph(said, indent=2) for said in describe_calibration(one))]


def describe_calibration(one: JudgeCalibration) -> Iterator[str]:
    """Yield what is decided about a judge, its confidence, and what to know of the figures."""
    reason = one.decision.reason
    yield f"Protocol: {DECIDED[one.decision.outcome]}. {reason[:1].upper()}{reason[1:]}."
    if one.curve is not None:
        yield describe_curve(one.curve)
    yield from (f"{note[:1].upper()}{note[1:]}." for note in one.notes)


def _row(title: str, figure: Figure) -> doc.TableRow:
    if isinstance(figure, values.Unmeasured):
        # Beside the figure a long reason would leave no place for what was counted.
        why = (doc.Paragraph(figure.reason, indent=4),)
        return replace(doc.make_row(title, "-", figure.kind, "-"), below=why)
    value = values.format_number(figure.value, figure.unit)
    if title == "bias":
        value = values.format_difference(figure.value, figure.unit)
    drawn = None if title == "bias" else draw_interval(figure)
    limits = doc.TableCell(values.format_interval(figure), interval=drawn)
    return doc.make_row(title, value, limits, f"{figure.n:,}")
