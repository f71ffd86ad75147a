"""Agreement of raters, disputes, and isolated against contextual judging, as text.

Nothing is computed here. Whatever a rater wrote passes through `visible_line`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stepscope.calibrate.modes import ModeComparison, ModeDifference, ModeGap
from stepscope.calibrate.ratings import WHAT_ENTERS
from stepscope.calibrate.types import (
    Agreement,
    CalibrationCurve,
    Dispute,
    GroupAgreement,
    Rater,
    RaterAnswer,
    RubricAgreement,
    RubricChange,
)
from stepscope.model.records import Figure
from stepscope.report import words
from stepscope.report.words import clip, fold
from stepscope.safety.text import visible_line
from stepscope.values import Decision, Estimate, Unmeasured

NO_MODES = (
    "Nothing to compare: no judge has judged the same steps alone and in their run. stepscope "
    "judge --rubric no_look and --rubric step_labels do, with one judge."
)
NAMES = {
    "raw": "same label", "kappa": "kappa", "gwet": "AC1", "difference": "isolated - contextual",
    "distance": "size of the difference", "rank": "rank correlation",
}  # fmt: skip


def render_modes(found: Sequence[ModeComparison], width: int = 100) -> str:
    """Return what the modes of every judge differ in; ends in a line break."""
    blocks = [list(_block(modes, width)) for modes in found]
    return "\n\n".join("\n".join(block) for block in blocks or [fold(NO_MODES, width, 0)]) + "\n"


def _block(modes: ModeComparison, width: int) -> Iterator[str]:
    head = (
        f"{modes.judge}: {modes.isolated} against {modes.contextual}   {modes.n:,} steps of "
        f"{modes.runs:,} runs"
    )
    yield clip(visible_line(head), width)
    rows = [
        (NAMES[name], figure, str(modes.n) if isinstance(figure, Unmeasured) else f"{figure.n:,}")
        for name, figure in modes.figures.items()
    ]
    what = "mean difference" if modes.of == "scores" else "labels that differ"
    wide = max(map(len, [*(name for name, *_ in rows), *(place.part for place in modes.where)]))
    for name, figure, n in rows:
        if isinstance(figure, Unmeasured):
            said = f"  {name:<{wide}}      -  {figure.kind}: {figure.reason}"
            yield clip(visible_line(said), width)
        else:
            interval = words.format_interval("agreement", figure)
            yield f"  {name:<{wide}}  {words.format_share(figure.value):>6}  {interval:<15} n {n}"
    yield f"  {what}, by part of the run and by label in context:"
    for place in modes.where:
        yield clip(visible_line(_place(place, wide)), width)
    for label, row in modes.table.items():
        told = ", ".join(f"{isolated} {n:,}" for isolated, n in row.items())
        yield from (f"  {line}" for line in fold(f"{label} in context, alone: {told}", width, 4))
    if modes.most:
        yield "  Steps that differ most:"
        for gap in modes.most:
            yield clip("    " + visible_line(_gap(gap)), width)


def _place(place: ModeDifference, wide: int) -> str:
    found = place.difference
    if isinstance(found, Unmeasured):
        return f"  {place.part:<{wide}}       -  {found.kind}: {found.reason}"
    interval = words.format_interval("agreement", found)
    return (
        f"  {place.part:<{wide}}  {words.format_share(found.value):>6}  {interval:<15} n "
        f"{place.n:,}"
    )


def _gap(gap: ModeGap) -> str:
    alone, within = gap.isolated, gap.contextual
    score = [
        "" if one.value is None else f" {words.format_score(one.value)}" for one in (alone, within)
    ]
    why = f": {within.reason}" if within.reason else ""
    head = f"{gap.name} step {gap.step}"
    return f"{head}  alone {alone.label}{score[0]}, in context {within.label}{score[1]}{why}"


HEAD = ("", "raw", "kappa", "95 % interval", "AC1", "95 % interval", "alpha", "cites", "n", "lost")
# What is left of two names when the figures need the line.
SHORTEST = 24
# Of a reason in a queue.
REASON = 160
WORDS = {"pass": "proceed", "fail": "sharpen", "undecided": "undecided"}
NO_RATERS = (
    "Nothing to compare: no judge and no person has rated a run here. stepscope judge asks judges; "
    "stepscope import --verdicts FILE --map run=...,label=... brings in what others said."
)


def render_agreement(groups: Sequence[Agreement], width: int = 100) -> str:
    """Return the agreement of each group as text; ends in a line break."""
    blocks = [block for group in groups for block in _group(group, width)]
    if not any(group.aspects for group in groups):
        return "\n".join(fold(NO_RATERS, width, 0)) + "\n"
    blocks.append(fold(f"{_capital(WHAT_ENTERS)}.", width, 2))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _group(found: Agreement, width: int) -> Iterator[list[str]]:
    for field, value in found.group.items():
        rubrics = "1 rubric" if len(found.aspects) == 1 else f"{len(found.aspects)} rubrics"
        named = "none" if value is None else visible_line(value)
        yield [clip(f"{field} = {named}   {rubrics} rated", width)]
    for aspect in found.aspects:
        yield list(_aspect(aspect, width))


def _aspect(aspect: RubricAgreement, width: int) -> Iterator[str]:
    raters = "1 rater" if len(aspect.raters) == 1 else f"{len(aspect.raters)} raters"
    runs = "1 run" if aspect.runs == 1 else f"{aspect.runs:,} runs"
    what = f"{runs}, whole" if aspect.unit == "runs" else f"{aspect.items:,} steps of {runs}"
    labels = ", ".join(aspect.labels)
    yield clip(visible_line(f"{aspect.name}   {what}   {raters}   labels: {labels}"), width)
    if aspect.pairs:
        yield from _table(aspect, width)
    yield from _said(aspect, width)


def _table(aspect: RubricAgreement, width: int) -> Iterator[str]:
    found = [*aspect.pairs, *aspect.families]
    found += [aspect.together] if len(aspect.raters) > 2 else []
    rows = [HEAD[1:], *map(_row, found)]
    wide = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    room = max(width - sum(wide) - 2 * len(wide) - 2, SHORTEST)
    names = ["", *(_title(one, room) for one in found)]
    first = max(map(len, names))
    for name, row in zip(names, rows, strict=True):
        cells = [
            f"{cell:<{w}}" if head.startswith("95") else f"{cell:>{w}}"
            for cell, w, head in zip(row, wide, HEAD[1:], strict=True)
        ]
        yield clip(("  " + "  ".join([f"{name:<{first}}", *cells])).rstrip(), width)


def _title(found: GroupAgreement, room: int = 80) -> str:
    """Return the raters' names, or the last parts of them where there is no room for more."""
    if found.of == "all":
        return f"all {len(found.raters)}, Fleiss"
    of = "families " if found.of == "families" else ""
    names = [visible_line(name) for name in found.raters]
    if len(of) + len(", ".join(names)) > room:
        each = max((room - len(of) - 2) // 2, 4)
        names = [clip(name.rpartition("/")[2], each) for name in names]
    return of + ", ".join(names)


def _row(found: GroupAgreement) -> tuple[str, ...]:
    kappa = found["fleiss"] if found.of == "all" else found["kappa"]
    gwet = found["gwet"]
    lost = 0 if isinstance(found["raw"], Unmeasured) else found["raw"].n_unmeasured
    return (
        _value(found["raw"]),
        _value(kappa),
        _interval(kappa),
        _value(gwet),
        _interval(gwet),
        _value(found["alpha"]),
        _value(found["jaccard"]),
        f"{found.n:,}",
        f"{lost:,}",
    )


def _value(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else words.format_share(figure.value)


def _interval(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else words.format_interval("agreement", figure)


def _said(aspect: RubricAgreement, width: int) -> Iterator[str]:
    for sentence in describe_aspect(aspect):
        yield from _folded(sentence, width)
    if aspect.decision.outcome == "fail" and aspect.disputed:
        yield "  Most disputed:"
        for dispute in aspect.disputed:
            yield from lay_out_dispute(dispute, width, named=False)


def describe_aspect(aspect: RubricAgreement) -> Iterator[str]:
    """Yield what is decided, what to know before the figures are read, and who said what."""
    yield describe_decision(aspect.decision)
    for pair in [*aspect.pairs, *([aspect.together] if len(aspect.raters) > 2 else [])]:
        if pair.sentence:
            yield f"{_title(pair)}: {pair.sentence}."
    yield from filter(None, map(describe_weighted, aspect.pairs))
    yield from filter(None, map(describe_worst_case, aspect.pairs))
    yield from map(describe_rater, aspect.raters)
    yield from map(_curve, aspect.curves)
    yield from map(_change, aspect.changes)
    yield from (f"{_capital(note)}." for note in aspect.notes if note != WHAT_ENTERS)


def _capital(text: str) -> str:
    """Return a sentence with its first letter as it stands at the beginning."""
    return text[:1].upper() + text[1:]


def _curve(curve: CalibrationCurve) -> str:
    if isinstance(curve.bins, Unmeasured):
        return f"{curve.judge}'s confidence: {curve.bins.reason}."
    told = ", ".join(
        f"{_span(part.low, part.high)} right {_value(part.right)} {_interval(part.right)}"
        for part in curve.bins
    )
    return f"{curve.judge}'s confidence over {curve.n:,}: {told}."


def _change(change: RubricChange) -> str:
    return (
        f"{change.judge}, version {change.before} to {change.after} on {change.n:,}: kept "
        f"{_value(change.kept)} {_interval(change.kept)}, confidence "
        f"{_signed(change.confidence)} {_interval(change.confidence)}, same steps cited "
        f"{_value(change.cites)}."
    )


def _span(low: float, high: float) -> str:
    ends = words.format_score(low), words.format_score(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _signed(figure: Figure) -> str:
    said = _value(figure)
    return f"+{said}" if isinstance(figure, Estimate) and figure.value > 0 else said


def _folded(text: str, width: int) -> list[str]:
    return [f"  {line}" for line in fold(visible_line(text), width - 2, 2)]


def describe_decision(decision: Decision) -> str:
    """Return the decision as a sentence."""
    return f"Decision: {WORDS[decision.outcome]}. {_capital(decision.reason)}."


def describe_weighted(pair: GroupAgreement) -> str:
    """Return the agreement expected of calibrated confidences; "" where there is none."""
    found = pair.figures.get("weighted")
    if not isinstance(found, Estimate):
        return ""
    return (
        f"{_title(pair)}, weighted by calibrated confidence: expected to agree on "
        f"{words.format_share(found.value)} {_interval(found)}."
    )


def describe_worst_case(pair: GroupAgreement) -> str:
    """Return what the raw agreement could be, had every lost verdict been there; "" if none is."""
    raw = pair["raw"]
    bounds = "" if isinstance(raw, Unmeasured) else words.format_bounds("agreement", raw)
    return f"{_title(pair)}: with what was lost, raw agreement {bounds}." if bounds else ""


def describe_rater(rater: Rater) -> str:
    """Return what a rater said how often, and what it did not say."""
    said = [f"{label} {n:,}" for label, n in rater.labels.items()] or ["nothing"]
    if rater.silent:
        said.append(f"cannot know {rater.silent:,}")
    lost = ", ".join(f"{kind} {n:,}" for kind, n in sorted(rater.unmeasured.items()))
    told = f"; unmeasured: {lost}" if lost else ""
    family = "" if rater.family == rater.name else f" ({rater.family})"
    return f"{rater.name}{family}: {', '.join(said)}{told}."


def render_disputes(queue: Iterable[Dispute], total: int, width: int = 100) -> str:
    """Return the disputes as text; ends in a line break."""
    out = []
    for dispute in queue:
        out += [*lay_out_dispute(dispute, width, named=True), ""]
    tail = (
        f"{total:,} in all. Labels on these tune a rubric; they are no test of it, and no rate is "
        "computed on them."
    )
    return "\n".join([*out, *fold(tail, width, 2)]) + "\n"


def lay_out_dispute(dispute: Dispute, width: int, *, named: bool) -> Iterator[str]:
    """Yield one dispute: where it is, and a line for what each rater said."""
    step = "" if dispute.step is None else f" step {dispute.step}"
    head = f"{dispute.aspect}: {dispute.name}{step}" if named else f"{dispute.name}{step}"
    indent = "" if named else "    "
    yield clip(indent + visible_line(head), width)
    for answer in dispute.answers:
        yield clip(f"{indent}  {visible_line(_answer(answer))}", width)


def _answer(answer: RaterAnswer) -> str:
    score = "" if answer.value is None else f" {words.format_score(answer.value)}"
    sure = "" if answer.confidence is None else f", sure {words.format_score(answer.confidence)}"
    cites = f", cites {', '.join(map(str, answer.cites))}" if answer.cites else ""
    why = f": {clip(answer.reason, REASON)}" if answer.reason else ""
    return f"{answer.rater}  {answer.label}{score}{sure}{cites}{why}"
