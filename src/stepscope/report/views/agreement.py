"""Agreement of raters, disputes, and isolated against contextual judging, as documents.

Nothing is computed here. Whatever a rater wrote is made visible by the renderer.
`tabulate_agreement` is the agreement table of a report, in text, in Markdown and on its pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stepscope.calibrate.modes import ModeComparison, ModeGap
from stepscope.calibrate.ratings import WHAT_ENTERS
from stepscope.calibrate.types import (
    Agreement,
    CalibrationCurve,
    Dispute,
    GroupAgreement,
    ProofAgreement,
    Rater,
    RaterAnswer,
    RubricAgreement,
    RubricChange,
)
from stepscope.model.records import Figure
from stepscope.report import words
from stepscope.report.document import (
    Document,
    Paragraph,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    make_row,
)
from stepscope.report.panel_types import Panels
from stepscope.report.views.profile import make_sheet, name_judges
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_count,
    format_estimate,
    format_interval,
    format_number,
    format_percent,
)

NO_MODES = (
    "Nothing to compare: no judge has judged the same steps alone and in their run. stepscope "
    "judge --rubric no_look and --rubric step_labels do, with one judge."
)
NAMES = {
    "raw": "same label", "kappa": "kappa", "gwet": "AC1", "difference": "isolated - contextual",
    "distance": "size of the difference", "rank": "rank correlation",
    "shift": "whole run - prefix", "halo": "halo: half of pass - fail",
}  # fmt: skip


def make_modes_document(found: Sequence[ModeComparison]) -> Document:
    """Return what the modes of every judge differ in."""
    return [_modes(modes) for modes in found] or [[Paragraph(text=NO_MODES, hang=0)]]


def _modes(modes: ModeComparison) -> Section:
    head = (
        f"{modes.judge}: {modes.isolated} against {modes.contextual}   {modes.n:,} steps of "
        f"{modes.runs:,} runs"
    )
    prefix = "shift" in modes.figures
    what = "mean difference" if modes.of == "scores" else "labels that differ"
    what = "mean shift" if prefix else what
    figures = [
        (NAMES[name], figure, modes.n if isinstance(figure, Unmeasured) else figure.n)
        for name, figure in modes.figures.items()
    ]
    parts = [(place.part, place.difference, place.n) for place in modes.where]
    out: list[Paragraph | Table] = [
        Paragraph(text=head, one_line=True),
        _figures("all steps", figures),
        _figures(f"{what}, by part of the run", parts),
    ]
    for label, row in modes.table.items():
        told = ", ".join(f"{isolated} {n:,}" for isolated, n in row.items())
        out.append(Paragraph(text=f"{label} in context, alone: {told}", indent=2))
    if modes.most:
        alone = "up to it" if prefix else "alone"
        gaps = (Paragraph(text=_gap(gap, alone), indent=4, one_line=True) for gap in modes.most)
        out += [Paragraph(text="Steps that differ most:", indent=2), *gaps]
    return out


def _figures(corner: str, found: Iterable[tuple[str, Figure, int]]) -> Table:
    """Return a figure a row; one that is absent says why."""
    rows = []
    for name, figure, n in found:
        if isinstance(figure, Unmeasured):
            rows.append(make_row(name, "-", f"{figure.kind}: {figure.reason}"))
        else:
            interval = format_interval(figure)
            rows.append(make_row(name, _value(figure), interval, f"{n:,}"))
    columns = (
        TableColumn(corner),
        TableColumn("value", number=True, least=6),
        TableColumn("95 % interval", least=15),
        TableColumn("n", number=True),
    )
    return Table(id="modes", corner=corner, columns=columns, rows=tuple(rows), indent=2)


def _gap(gap: ModeGap, seen: str) -> str:
    alone, within = gap.isolated, gap.contextual
    score = ["" if one.value is None else f" {format_number(one.value)}" for one in (alone, within)]
    why = f": {within.reason}" if within.reason else ""
    head = f"{gap.name} step {gap.step}"
    return f"{head}  {seen} {alone.label}{score[0]}, in context {within.label}{score[1]}{why}"


COLUMNS = (
    TableColumn("raters"),
    TableColumn("raw", number=True),
    TableColumn("kappa", number=True),
    TableColumn("95 % interval"),
    TableColumn("AC1", number=True),
    TableColumn("95 % interval"),
    TableColumn("alpha", number=True),
    TableColumn("cites", number=True),
    TableColumn("n", number=True),
    TableColumn("lost", number=True),
)
# Of a reason in a queue.
REASON = 160
WORDS = {"pass": "proceed", "fail": "sharpen", "undecided": "undecided"}
NO_RATERS = (
    "Nothing to compare: no judge and no person has rated a run here. stepscope judge asks judges; "
    "stepscope import --verdicts FILE --map run=...,label=... brings in what others said."
)


def make_agreement_document(groups: Sequence[Agreement]) -> Document:
    """Return the agreement of each group."""
    if not any(group.aspects for group in groups):
        return [[Paragraph(text=NO_RATERS, hang=0)]]
    out: list[Section] = []
    for group in groups:
        rubrics = format_count(len(group.aspects), "rubric")
        out += [
            [Paragraph(text=f"{field} = {value or 'none'}   {rubrics} rated", one_line=True)]
            for field, value in group.group.items()
        ]
        out += [_aspect(aspect) for aspect in group.aspects]
    return [*out, [Paragraph(text=f"{_capital(WHAT_ENTERS)}.")]]


def _aspect(aspect: RubricAgreement) -> Section:
    runs = format_count(aspect.runs, "run")
    what = f"{runs}, whole" if aspect.unit == "runs" else f"{aspect.items:,} steps of {runs}"
    raters, labels = format_count(len(aspect.raters), "rater"), ", ".join(aspect.labels)
    head = f"{aspect.name}   {what}   {raters}   labels: {labels}"
    out: list[Paragraph | Table] = [Paragraph(text=head, one_line=True)]
    if aspect.pairs:
        found = [*aspect.pairs, *aspect.families]
        found += [aspect.together] if len(aspect.together.raters) > 2 else []
        out.append(Table(id="agreement", columns=COLUMNS, rows=tuple(map(_row, found)), indent=2))
    out += [Paragraph(text=sentence, indent=2) for sentence in describe_aspect(aspect)]
    if aspect.decision.outcome == "fail" and aspect.disputed:
        out.append(Paragraph(text="Most disputed:", indent=2))
        for dispute in aspect.disputed:
            out += _dispute(dispute, named=False)
    return out


def _title(found: GroupAgreement) -> str:
    """Return the raters' names."""
    if found.of == "all":
        return f"all {len(found.raters)}, Fleiss"
    return ("families " if found.of == "families" else "") + ", ".join(found.raters)


def _row(found: GroupAgreement) -> TableRow:
    kappa = found["fleiss"] if found.of == "all" else found["kappa"]
    gwet, raw = found["gwet"], found["raw"]
    short = ", ".join(words.shorten_names(found.raters).values())
    return make_row(
        TableCell(_title(found), short=short if found.of != "all" else ""),
        _value(raw),
        _value(kappa),
        _interval(kappa),
        _value(gwet),
        _interval(gwet),
        _value(found["alpha"]),
        _value(found["jaccard"]),
        f"{found.n:,}",
        "0" if isinstance(raw, Unmeasured) else f"{raw.n_unmeasured:,}",
    )


def _value(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else format_number(figure.value, figure.unit)


def _interval(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else format_interval(figure)


def describe_aspect(aspect: RubricAgreement) -> Iterator[str]:
    """Yield what is decided, what to know before the figures are read, and who said what."""
    yield f"Decision: {WORDS[aspect.decision.outcome]}. {_capital(aspect.decision.reason)}."
    for judge, decision in aspect.judges.items():
        yield f"{judge} against people: {WORDS[decision.outcome]}. {_capital(decision.reason)}."
    for pair in [*aspect.pairs, *([aspect.together] if len(aspect.together.raters) > 2 else [])]:
        if pair.sentence:
            yield f"{_title(pair)}: {pair.sentence}."
    yield from filter(None, map(describe_first_bad, aspect.pairs))
    yield from map(_proofs, aspect.proofs)
    yield from filter(None, map(describe_weighted, aspect.pairs))
    yield from filter(None, map(describe_worst_case, aspect.pairs))
    yield from map(describe_rater, aspect.raters)
    yield from map(_curve, aspect.curves)
    yield from map(_change, aspect.changes)
    yield from (f"{_capital(note)}." for note in aspect.notes if note != WHAT_ENTERS)


def _capital(text: str) -> str:
    """Return a sentence with its first letter as it stands at the beginning."""
    return text[:1].upper() + text[1:]


def _proofs(one: ProofAgreement) -> str:
    said = (
        f"{name} -"
        if isinstance(figure, Unmeasured)
        else f"{name} {format_estimate(figure)} of {figure.n:,}"
        for name, figure in (("precision", one.precision), ("recall", one.recall))
    )
    return f"The rules' proofs, compared with {one.rater}: {', '.join(said)}."


def _curve(curve: CalibrationCurve) -> str:
    if isinstance(curve.bins, Unmeasured):
        return f"{curve.judge}'s confidence: {curve.bins.reason}."
    told = ", ".join(
        f"{_span(part.low, part.high)} right {_value(part.right)} {_interval(part.right)}"
        for part in curve.bins
    )
    return f"{curve.judge}'s confidence over {curve.n:,}: {told}."


def _change(change: RubricChange) -> str:
    confidence = _value(change.confidence)
    if isinstance(change.confidence, Estimate) and change.confidence.value > 0:
        confidence = f"+{confidence}"
    return (
        f"{change.judge}, version {change.before} to {change.after} on {change.n:,}: kept "
        f"{_value(change.kept)} {_interval(change.kept)}, confidence "
        f"{confidence} {_interval(change.confidence)}, same steps cited "
        f"{_value(change.cites)}."
    )


def _span(low: float, high: float) -> str:
    ends = format_number(low), format_number(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def describe_first_bad(pair: GroupAgreement) -> str:
    """Return how often two raters name the same first bad step; "" where that was not measured."""
    found, chance = pair.figures.get("first_bad"), pair.first_bad_by_chance
    if found is None or isinstance(found, Unmeasured) or chance is None:
        return ""
    share = format_estimate(found)
    same = f"name the same first bad step, or none, in {share} of {format_count(found.n, 'run')}"
    near = pair["first_bad.within_one"]
    return (
        f"{_title(pair)}: {same}; one step off or less in {_value(near)} {_interval(near)}; by "
        f"chance {format_percent(chance)}."
    )


def describe_weighted(pair: GroupAgreement) -> str:
    """Return the agreement expected of calibrated confidences; "" where there is none."""
    found = pair.figures.get("weighted")
    if not isinstance(found, Estimate):
        return ""
    return (
        f"{_title(pair)}, weighted by calibrated confidence: expected to agree on "
        f"{format_estimate(found)}."
    )


def describe_worst_case(pair: GroupAgreement) -> str:
    """Return what the raw agreement could be, had every lost verdict been there; "" if none is."""
    raw = pair["raw"]
    bounds = "" if isinstance(raw, Unmeasured) else words.format_bounds(raw)
    return f"{_title(pair)}: counting lost answers, raw agreement is {bounds}." if bounds else ""


def describe_rater(rater: Rater) -> str:
    """Return what a rater said how often, and what it did not say."""
    said = [f"{label} {n:,}" for label, n in rater.labels.items()] or ["nothing"]
    if rater.silent:
        said.append(f"nothing proved {rater.silent:,}")
    lost = ", ".join(f"{kind} {n:,}" for kind, n in sorted(rater.unmeasured.items()))
    family = "" if rater.family == rater.name else f" ({rater.family})"
    told = f"; unmeasured: {lost}" if lost else ""
    return f"{rater.name}{family}: {', '.join(said)}{told}."


def make_disputes_document(queue: Iterable[Dispute], total: int) -> Document:
    """Return disputes, a section each, and how many there are."""
    tail = (
        f"{total:,} in all. Labels on these tune a rubric; they cannot test it, and no rate is "
        "computed on them."
    )
    return [*(_dispute(dispute, named=True) for dispute in queue), [Paragraph(text=tail)]]


def _dispute(dispute: Dispute, *, named: bool) -> list[Paragraph]:
    """Return one dispute: where it is, and a line for what each rater said."""
    step = "" if dispute.step is None else f" step {dispute.step}"
    head = f"{dispute.aspect}: {dispute.name}{step}" if named else f"{dispute.name}{step}"
    indent = 0 if named else 4
    return [
        Paragraph(text=head, indent=indent, one_line=True),
        *(
            Paragraph(text=_answer(answer), indent=indent + 2, one_line=True)
            for answer in dispute.answers
        ),
    ]


def _answer(answer: RaterAnswer) -> str:
    score = "" if answer.value is None else f" {format_number(answer.value)}"
    sure = "" if answer.confidence is None else f", sure {format_number(answer.confidence)}"
    cites = f", cites {', '.join(map(str, answer.cites))}" if answer.cites else ""
    why = f": {words.clip(answer.reason, REASON)}" if answer.reason else ""
    return f"{answer.rater}  {answer.label}{score}{sure}{cites}{why}"


# Remarks on coefficients that people are shown; most repeat each other.
SENTENCES = 2


def tabulate_agreement(found: Panels) -> Table:
    """Return how far each pair of judges agrees."""
    names = name_judges(found)
    rows = []
    for one in found.agreement:
        raw, cites = (
            f"- {f.kind}" if isinstance(f, Unmeasured) else format_number(f.value, f.unit)
            for f in (one.raw, one.cites)
        )
        same = raw if isinstance(one.raw, Unmeasured) else f"{raw} of {one.raw.n:,}"
        chance = (
            format_estimate(figure, f"- {getattr(figure, 'kind', '')}")
            for figure in (one.kappa, one.ac1)
        )
        about = words.name_rubric(one.rubric) + (" (steps)" if one.unit == "steps" else "")
        rows.append((about, " x ".join(names[judge] for judge in one.judges), same, *chance, cites))
    head = ("", "judges", "same", "kappa", "AC1", "cites")
    said = [
        f"{words.name_rubric(one.rubric)}: {one.sentence}"
        for one in found.agreement
        if one.sentence
    ]
    notes = list(dict.fromkeys(said))
    if len(notes) > SENTENCES:
        more = f"and {len(notes) - SENTENCES:,} more such remarks: stepscope agree"
        notes = [*notes[:SENTENCES], more]
    same = "same: share of equal answers; cites: of the steps that either cites, those that both do"
    return make_sheet("agreement", "Agreement", head, rows, (same, *notes) if rows else ())
