"""The Calibration page: can the judges of a store be trusted? A part for each question.

A part says what its command prints, as tables; one without data names the commands that give it.
Several judges, rubrics and versions are rows of one table. Nothing here decides a gate or consumes
a test set. Left to the commands: single facts, texts of rubrics, figures that are Unmeasured for
want of a second version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from stepscope import values
from stepscope.api.agreement import CalibrationView, view_calibration
from stepscope.api.judging import find_first_answers
from stepscope.calibrate.bias import find_bias
from stepscope.calibrate.drift import JudgeDrift, measure_drift
from stepscope.calibrate.gap import HeldOutGap, measure_gap
from stepscope.calibrate.history import trace_rubric
from stepscope.calibrate.judges import describe_labels
from stepscope.calibrate.noise import noise_of_store
from stepscope.calibrate.ratings import rated_rubrics
from stepscope.cases.split import find_split
from stepscope.errors import ConfigError, UsageError
from stepscope.model.records import JUDGE_PREFIX, Figure
from stepscope.report import document as doc
from stepscope.report.production import compare_production
from stepscope.report.views.calibration import make_calibration_document
from stepscope.safety.redact import hide_in
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import parse_where

_DECIDED = {"pass": "accepted", "fail": "rejected", "undecided": "undecided"}
_TONES: Mapping[str, doc.Tone] = {"pass": "good", "fail": "bad", "undecided": "quiet"}
# Columns behind that of a judge's figure.
_FIGURE = ("95 % interval", "n", "decision")
# Runs of which a page compares shapes while it is opened: seconds.
MOST_RUNS = 2_000
CalibrationParts: TypeAlias = Mapping[str, doc.Document | doc.EmptyNotice]


def list_calibration(store: Store, settings: Settings) -> tuple[str, CalibrationParts]:
    """Return the page in a sentence, and its parts by their titles, in the order of reading."""
    seed = settings.seed
    view = view_calibration(store, None, where=None, names=None, version=None, seed=seed)
    shifts = hide_in(store.shown, measure_drift(store, seed))
    parts = {
        "Labels of people": _tell_labels(store),
        "Judges beside people": _compare_with_people(view),
        "Noise of judges": _tell_noise(store),
        "Drift of judges": _tell_drift(shifts),
        "Bias of judges": _tell_bias(store),
        "Versions of rubrics": _trace_rubrics(store),
        "Held-out gap": _tell_gaps(store, settings),
        "Evaluation and production": _tell_production(store, seed),
    }
    outcomes = [one.decision.outcome for one in view.value if one.labels]
    said = "No judge has been compared with people."
    if outcomes:
        of = [f"{sum(x == one for one in outcomes):,} {word}" for x, word in _DECIDED.items()]
        judges = values.format_count(len(outcomes), "judge")
        said = f"{judges} compared with people: {', '.join(of)}."
    if shifts:
        shifted = sum(one.decision.outcome == "fail" for one in shifts)
        said += f" Asked again: {shifted:,} of {len(shifts):,} shifted."
    return said, {title: _number_tables(part, title) for title, part in parts.items()}


def _number_tables(
    part: doc.Document | doc.EmptyNotice, title: str
) -> doc.Document | doc.EmptyNotice:
    """Return a part whose tables have an id of their own, and a name."""
    if isinstance(part, doc.EmptyNotice):
        return part
    return [
        [
            replace(one, id=f"{one.id}-{at}-{n}", caption=one.caption or one.corner or title)
            if isinstance(one, doc.Table)
            else one
            for n, one in enumerate(section)
        ]
        for at, section in enumerate(part)
    ]


def _tell_labels(store: Store) -> doc.Document | doc.EmptyNotice:
    said = hide_in(store.shown, list(describe_labels(store.labels())))
    if not said:
        why = "Nobody has labelled anything here yet."
        return doc.EmptyNotice(said=why, commands=("stepscope label --annotator NAME",))
    return [[doc.Paragraph(text=one) for one in said]]


def _compare_with_people(view: CalibrationView) -> doc.Document | doc.EmptyNotice:
    if not view.value:
        return doc.EmptyNotice(
            said="No run has both a judge's verdict and a person's label under one rubric.",
            commands=("stepscope judge --judge PROVIDER/MODEL", "stepscope label --annotator NAME"),
        )
    # What heads a judge in a terminal is the caption of its table here.
    return [
        [one for one in section if not isinstance(one, doc.Paragraph) or not one.one_line]
        for section in make_calibration_document(view.value)
    ]


def _tell_noise(store: Store) -> doc.Document | doc.EmptyNotice:
    measured = [one for one in noise_of_store(store) if isinstance(one.sigma, values.Estimate)]
    if not measured:
        why = "No judge has scored a step twice, so its noise (sigma) is not known."
        return doc.EmptyNotice(said=why, commands=("stepscope calibrate sigma scores.csv",))
    rows = [
        (one.judge or "(no judge named)", *_cells(one.sigma), _decide(one.decision))
        for one in hide_in(store.shown, measured)
    ]
    names = ("judge", "sigma", *_FIGURE)
    return [[doc.make_table("noise", names, rows, numbers=("sigma", "n"))]]


def _tell_drift(found: Sequence[JudgeDrift]) -> doc.Document | doc.EmptyNotice:
    if not found:
        return doc.EmptyNotice(
            said="No judge was asked about fixed runs again.",
            commands=("stepscope judge --drift 20 --judge PROVIDER/MODEL",),
        )
    rows = []
    for one in found:
        for label, shift in one.shifts.items() or (("-", values.Unmeasured("not_applicable", "")),):
            cells = *_cells(shift, signed=True), _decide(one.decision)
            rows.append((one.judge, one.rubric, str(one.occasion), label, *cells))
    names = ("judge", "rubric", "occasion", "label", "shift", *_FIGURE)
    return [[doc.make_table("drift", names, rows, numbers=("occasion", "shift", "n"))]]


def _tell_bias(store: Store) -> doc.Document | doc.EmptyNotice:
    if not (found := hide_in(store.shown, find_bias(store))):
        return doc.EmptyNotice(
            said="No judge was asked again with one thing changed.",
            commands=("stepscope judge --bias 100 --judge PROVIDER/MODEL",),
        )
    rows = []
    for one in found:
        shift = _cells(one.shift, signed=True)
        rows.append((one.judge, one.rubric, one.change, *shift, _decide(one.decision)))
    names = ("judge", "rubric", "changed", "shift", *_FIGURE)
    return [[doc.make_table("bias", names, rows, numbers=("shift", "n"))]]


def _trace_rubrics(store: Store) -> doc.Document | doc.EmptyNotice:
    runs = store.runs()
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    rows = []
    for rubric in rated_rubrics(store.measures(), None):
        asked = find_first_answers(store, [(rubric, JUDGE_PREFIX + rubric)], None)
        trail = trace_rubric(rubric, {key[1:]: of for key, of in asked.items()}, names, {})
        for pair in hide_in(store.shown, trail.pairs):
            changed = sum(one.before.label != one.after.label for one in pair.facts)
            counts = f"{pair.runs:,}", f"{changed:,} of {len(pair.facts):,}"
            change = "one run: no average", ""
            if pair.change is not None:
                figures = (pair.change.kept, pair.change.confidence)
                change = values.format_estimate(figures[0]), values.format_estimate(figures[1])
            rows.append((rubric, pair.judge, f"{pair.before} -> {pair.after}", *counts, *change))
    if not rows:
        why = "No judge has answered about the same runs under two versions of a rubric."
        return doc.EmptyNotice(why, ("stepscope judge --again", "stepscope rubric list"))
    labels = ("rubric", "judge", "versions", "runs", "labels changed", "kept", "confidence by")
    said = "stepscope rubric history NAME prints each run and the changed texts."
    table = doc.make_table("versions", labels, rows, numbers=("runs",))
    return [[table, doc.Paragraph(text=said)]]


def _tell_gaps(store: Store, settings: Settings) -> doc.Document | doc.EmptyNotice:
    places = {one.cases for one in settings.workflow.values() if one.cases is not None}
    found, lost = [], list[str]()
    for place in sorted(places):
        try:
            split = find_split(Path(place))
            found += [] if split is None else [measure_gap(store, place, split, seed=settings.seed)]
        except (ConfigError, UsageError) as error:
            lost.append(f"{error}.")
    if not found:
        return doc.EmptyNotice(
            said=" ".join(lost) or "No run is of a corpus with held-out cases.",
            commands=("stepscope case split cases --held-out 0.2 --freeze",),
        )
    gaps = [_tell_gap(one) for one in hide_in(store.shown, found)]
    return [*gaps, [doc.Paragraph(text=one) for one in lost]]


def _tell_production(store: Store, seed: int) -> doc.Document | doc.EmptyNotice:
    sides = (parse_where("tag.evaluation != null"), parse_where("tag.production != null"))
    command = 'stepscope calibrate production --evaluation "EXPR" --production "EXPR"'
    sizes = [len(store.runs(side)) for side in sides]
    why = "No run has a tag production, or none has a tag evaluation."
    if all(sizes) and sum(sizes) <= MOST_RUNS:
        try:
            found = hide_in(store.shown, compare_production(store, sides, seed=seed))
        except UsageError as error:
            return doc.EmptyNotice(said=f"{error}.", commands=(command,))
        shapes = () if isinstance(found.shapes, values.Unmeasured) else found.shapes
        rows = []
        for one in shapes:
            shares = (values.format_estimate(one.first), values.format_estimate(one.second))
            value, limits, _ = _cells(one.difference, signed=True)
            name = one.shape.replace("_", " ")
            rows.append((name, *shares, value, limits, values.format_p(one.p), one.change))
        names = ("shape", *found.sides, "difference", "95 % interval", "p", "shown")
        table = doc.make_table("production", names, rows, numbers=("difference", "p"))
        return [[table, doc.Paragraph(text=str(found).splitlines()[-1])]]
    if all(sizes):
        why = f"{sum(sizes):,} runs are compared by a command, not while a page is opened."
    return doc.EmptyNotice(said=why, commands=(command,))


def _tell_gap(found: HeldOutGap) -> doc.Section:
    rows = []
    for one in found.groups:
        value, limits, _ = _cells(one.gap, signed=True)
        parts = (values.format_estimate(one.development), values.format_estimate(one.held_out))
        rows.append((one.group or "-", *parts, value, limits, _decide(one.decision)))
    names = (found.by, "development", "held out", "gap", "95 % interval", "decision")
    said = [f"Benchmark: {found.retire.reason}."]
    if isinstance(found.trend, values.Estimate):
        said.insert(0, f"Trend: {found.trend_decision.reason}.")
    table = doc.make_table("gap", names, rows, numbers=("gap",), caption=found.corpus)
    return [table, *(doc.Paragraph(text=one) for one in said)]


def _cells(figure: Figure, *, signed: bool = False) -> tuple[str, str, str]:
    """Return value, interval and n of a figure; of an unmeasured one why it is not known."""
    if isinstance(figure, values.Unmeasured):
        return "-", figure.reason, ""
    format_value = values.format_difference if signed else values.format_number
    value = format_value(figure.value, figure.unit)
    return value, values.format_interval(figure), f"{figure.n:,}"


def _decide(decision: values.Decision | None) -> doc.TableCell:
    if decision is None:
        return doc.TableCell("")
    return doc.TableCell(decision.reason, tone=_TONES[decision.outcome])
