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
from stepscope.report.document import (
    Document,
    EmptyNotice,
    Paragraph,
    Section,
    Table,
    TableCell,
    Tone,
    make_columns,
    make_row,
)
from stepscope.report.production import compare_production
from stepscope.report.views.calibration import make_calibration_document
from stepscope.safety.redact import hide_in
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import parse_where
from stepscope.values import (
    Decision,
    Estimate,
    Unmeasured,
    format_count,
    format_difference,
    format_estimate,
    format_interval,
    format_number,
    format_p,
)

_DECIDED = {"pass": "accepted", "fail": "rejected", "undecided": "undecided"}
_TONES: Mapping[str, Tone] = {"pass": "good", "fail": "bad", "undecided": "quiet"}
# Runs of which a page compares shapes while it is opened: seconds.
MOST_RUNS = 2_000
CalibrationParts: TypeAlias = Mapping[str, Document | EmptyNotice]


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
        said = f"{format_count(len(outcomes), 'judge')} compared with people: {', '.join(of)}."
    if shifts:
        shifted = sum(one.decision.outcome == "fail" for one in shifts)
        said += f" Asked again: {shifted:,} of {len(shifts):,} shifted."
    return said, {title: _number_tables(part, title) for title, part in parts.items()}


def _number_tables(part: Document | EmptyNotice, title: str) -> Document | EmptyNotice:
    """Return a part whose tables have an id of their own, and a name."""
    if isinstance(part, EmptyNotice):
        return part
    return [
        [
            replace(one, id=f"{one.id}-{at}-{n}", caption=one.caption or one.corner or title)
            if isinstance(one, Table)
            else one
            for n, one in enumerate(section)
        ]
        for at, section in enumerate(part)
    ]


def _tell_labels(store: Store) -> Document | EmptyNotice:
    said = hide_in(store.shown, list(describe_labels(store.labels())))
    if not said:
        why = "Nobody has labelled anything here yet."
        return EmptyNotice(said=why, commands=("stepscope label --annotator NAME",))
    return [[Paragraph(text=one) for one in said]]


def _compare_with_people(view: CalibrationView) -> Document | EmptyNotice:
    if not view.value:
        return EmptyNotice(
            said="No run has both a judge's verdict and a person's label under one rubric.",
            commands=("stepscope judge --judge PROVIDER/MODEL", "stepscope label --annotator NAME"),
        )
    # What heads a judge in a terminal is the caption of its table here.
    return [
        [one for one in section if not isinstance(one, Paragraph) or not one.one_line]
        for section in make_calibration_document(view.value)
    ]


def _tell_noise(store: Store) -> Document | EmptyNotice:
    found = noise_of_store(store)
    measured = [one for one in found if isinstance(one.sigma, Estimate)]
    if not measured:
        why = "No judge has scored a step twice, so its noise (sigma) is not known."
        return EmptyNotice(said=why, commands=("stepscope calibrate sigma scores.csv",))
    rows = [
        make_row(one.judge or "(no judge named)", *_cells(one.sigma), _decide(one.decision))
        for one in hide_in(store.shown, measured)
    ]
    columns = make_columns(
        "judge", "sigma", "95 % interval", "n", "decision", numbers=("sigma", "n")
    )
    return [[Table(id="noise", columns=columns, rows=tuple(rows))]]


def _tell_drift(found: Sequence[JudgeDrift]) -> Document | EmptyNotice:
    if not found:
        return EmptyNotice(
            said="No judge was asked about fixed runs again.",
            commands=("stepscope judge --drift 20 --judge PROVIDER/MODEL",),
        )
    rows = []
    for one in found:
        for label, shift in one.shifts.items() or (("-", Unmeasured("not_applicable", "")),):
            value, limits, n = _cells(shift, signed=True)
            rows.append(
                make_row(
                    one.judge,
                    one.rubric,
                    str(one.occasion),
                    label,
                    value,
                    limits,
                    n,
                    _decide(one.decision),
                )
            )
    names = ("judge", "rubric", "occasion", "label", "shift", "95 % interval", "n", "decision")
    columns = make_columns(*names, numbers=("occasion", "shift", "n"))
    return [[Table(id="drift", columns=columns, rows=tuple(rows))]]


def _tell_bias(store: Store) -> Document | EmptyNotice:
    if not (found := hide_in(store.shown, find_bias(store))):
        return EmptyNotice(
            said="No judge was asked again with one thing changed.",
            commands=("stepscope judge --bias 100 --judge PROVIDER/MODEL",),
        )
    rows = []
    for one in found:
        shift = _cells(one.shift, signed=True)
        rows.append(make_row(one.judge, one.rubric, one.change, *shift, _decide(one.decision)))
    names = ("judge", "rubric", "changed", "shift", "95 % interval", "n", "decision")
    columns = make_columns(*names, numbers=("shift", "n"))
    return [[Table(id="bias", columns=columns, rows=tuple(rows))]]


def _trace_rubrics(store: Store) -> Document | EmptyNotice:
    runs = store.runs()
    names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
    rows = []
    for rubric in rated_rubrics(store.measures(), None):
        asked = find_first_answers(store, [(rubric, JUDGE_PREFIX + rubric)], None)
        trail = trace_rubric(rubric, {key[1:]: of for key, of in asked.items()}, names, {})
        for pair in hide_in(store.shown, trail.pairs):
            changed = sum(one.before.label != one.after.label for one in pair.facts)
            kept, sure = "one run: no average", ""
            if pair.change is not None:
                kept = format_estimate(pair.change.kept)
                sure = format_estimate(pair.change.confidence)
            rows.append(
                make_row(
                    rubric,
                    pair.judge,
                    f"{pair.before} -> {pair.after}",
                    f"{pair.runs:,}",
                    f"{changed:,} of {len(pair.facts):,}",
                    kept,
                    sure,
                )
            )
    if not rows:
        why = "No judge has answered about the same runs under two versions of a rubric."
        return EmptyNotice(said=why, commands=("stepscope judge --again", "stepscope rubric list"))
    names_ = ("rubric", "judge", "versions", "runs", "labels changed", "kept", "confidence by")
    columns = make_columns(*names_, numbers=("runs",))
    note = Paragraph(text="stepscope rubric history NAME prints each run and the changed texts.")
    return [[Table(id="versions", columns=columns, rows=tuple(rows)), note]]


def _tell_gaps(store: Store, settings: Settings) -> Document | EmptyNotice:
    places = {one.cases for one in settings.workflow.values() if one.cases is not None}
    found, lost = [], list[str]()
    for place in sorted(places):
        try:
            split = find_split(Path(place))
            found += [] if split is None else [measure_gap(store, place, split, seed=settings.seed)]
        except (ConfigError, UsageError) as error:
            lost.append(f"{error}.")
    if not found:
        return EmptyNotice(
            said=" ".join(lost) or "No run is of a corpus with held-out cases.",
            commands=("stepscope case split cases --held-out 0.2 --freeze",),
        )
    gaps = [_tell_gap(one) for one in hide_in(store.shown, found)]
    return [*gaps, [Paragraph(text=one) for one in lost]]


def _tell_production(store: Store, seed: int) -> Document | EmptyNotice:
    sides = (parse_where("tag.evaluation != null"), parse_where("tag.production != null"))
    command = 'stepscope calibrate production --evaluation "EXPR" --production "EXPR"'
    sizes = [len(store.runs(side)) for side in sides]
    why = "No run has a tag production, or none has a tag evaluation."
    if all(sizes) and sum(sizes) <= MOST_RUNS:
        try:
            found = hide_in(store.shown, compare_production(store, sides, seed=seed))
        except UsageError as error:
            return EmptyNotice(said=f"{error}.", commands=(command,))
        shapes = () if isinstance(found.shapes, Unmeasured) else found.shapes
        rows = []
        for one in shapes:
            shares = (format_estimate(one.first), format_estimate(one.second))
            value, limits, _ = _cells(one.difference, signed=True)
            name = one.shape.replace("_", " ")
            rows.append(make_row(name, *shares, value, limits, format_p(one.p), one.change))
        names = ("shape", *found.sides, "difference", "95 % interval", "p", "shown")
        columns = make_columns(*names, numbers=("difference", "p"))
        table = Table(id="production", columns=columns, rows=tuple(rows))
        return [[table, Paragraph(text=str(found).splitlines()[-1])]]
    if all(sizes):
        why = f"{sum(sizes):,} runs are compared by a command, not while a page is opened."
    return EmptyNotice(said=why, commands=(command,))


def _tell_gap(found: HeldOutGap) -> Section:
    rows = []
    for one in found.groups:
        value, limits, _ = _cells(one.gap, signed=True)
        parts = (format_estimate(one.development), format_estimate(one.held_out))
        rows.append(make_row(one.group or "-", *parts, value, limits, _decide(one.decision)))
    names = (found.by, "development", "held out", "gap", "95 % interval", "decision")
    columns = make_columns(*names, numbers=("gap",))
    said = [f"Benchmark: {found.retire.reason}."]
    if isinstance(found.trend, Estimate):
        said.insert(0, f"Trend: {found.trend_decision.reason}.")
    table = Table(id="gap", caption=found.corpus, columns=columns, rows=tuple(rows))
    return [table, *(Paragraph(text=one) for one in said)]


def _cells(figure: Figure, *, signed: bool = False) -> tuple[str, str, str]:
    """Return value, interval and n of a figure; of an unmeasured one why it is not known."""
    if isinstance(figure, Unmeasured):
        return "-", figure.reason, ""
    value = (format_difference if signed else format_number)(figure.value, figure.unit)
    return value, format_interval(figure), f"{figure.n:,}"


def _decide(decision: Decision | None) -> TableCell:
    if decision is None:
        return TableCell("")
    tone = _TONES[decision.outcome]
    return TableCell(decision.reason, tone=tone)
