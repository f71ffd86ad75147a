"""Agreement as text: a row a pair of raters, then what is decided and what to look at first.

Whatever a rater wrote passes through `visible_line`. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stepscope.calibrate.agreement_reading import WHAT_ENTERS
from stepscope.calibrate.agreement_types import (
    Agreement,
    Answer,
    Aspect,
    Change,
    Curve,
    Dispute,
    Figure,
    Rater,
    Together,
)
from stepscope.report import lines
from stepscope.report.text import clip, fold
from stepscope.safety.text import visible_line
from stepscope.values import Decision, Estimate, Unmeasured

HEAD = ("", "raw", "kappa", "95 % interval", "AC1", "95 % interval", "alpha", "cites", "n", "lost")
# What is left of two names when the figures need the line.
SHORTEST = 24
# Of a reason in a queue.
REASON = 160
WORDS = {"pass": "proceed", "fail": "sharpen", "undecided": "undecided"}
NOTHING = (
    "Nothing to compare: no judge and no person has rated a run here. stepscope judge asks judges; "
    "stepscope import --verdicts FILE --map run=...,label=... brings in what others said."
)


def render(groups: Sequence[Agreement], width: int = 100) -> str:
    """Return the agreement of each group as text; ends in a line break."""
    blocks = [block for group in groups for block in _group(group, width)]
    if not any(group.aspects for group in groups):
        return "\n".join(fold(NOTHING, width, 0)) + "\n"
    blocks.append(fold(f"{_capital(WHAT_ENTERS)}.", width, 2))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _group(found: Agreement, width: int) -> Iterator[list[str]]:
    for field, value in found.group.items():
        rubrics = "1 rubric" if len(found.aspects) == 1 else f"{len(found.aspects)} rubrics"
        named = "none" if value is None else visible_line(value)
        yield [clip(f"{field} = {named}   {rubrics} rated", width)]
    for aspect in found.aspects:
        yield list(_aspect(aspect, width))


def _aspect(aspect: Aspect, width: int) -> Iterator[str]:
    raters = "1 rater" if len(aspect.raters) == 1 else f"{len(aspect.raters)} raters"
    runs = "1 run" if aspect.runs == 1 else f"{aspect.runs:,} runs"
    what = f"{runs}, whole" if aspect.unit == "runs" else f"{aspect.items:,} steps of {runs}"
    labels = ", ".join(aspect.labels)
    yield clip(visible_line(f"{aspect.name}   {what}   {raters}   labels: {labels}"), width)
    if aspect.pairs:
        yield from _table(aspect, width)
    yield from _said(aspect, width)


def _table(aspect: Aspect, width: int) -> Iterator[str]:
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


def _title(found: Together, room: int = 80) -> str:
    """Return the raters' names, or the last parts of them where there is no room for more."""
    if found.of == "all":
        return f"all {len(found.raters)}, Fleiss"
    of = "families " if found.of == "families" else ""
    names = [visible_line(name) for name in found.raters]
    if len(of) + len(", ".join(names)) > room:
        each = max((room - len(of) - 2) // 2, 4)
        names = [clip(name.rpartition("/")[2], each) for name in names]
    return of + ", ".join(names)


def _row(found: Together) -> tuple[str, ...]:
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
    return "-" if isinstance(figure, Unmeasured) else lines.share(figure.value)


def _interval(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else lines.interval("agreement", figure)


def _said(aspect: Aspect, width: int) -> Iterator[str]:
    for sentence in sentences(aspect):
        yield from _folded(sentence, width)
    if aspect.decision.outcome == "fail" and aspect.disputed:
        yield "  Most disputed:"
        for dispute in aspect.disputed:
            yield from queued(dispute, width, named=False)


def sentences(aspect: Aspect) -> Iterator[str]:
    """Yield what is decided, what to know before the figures are read, and who said what."""
    yield decided(aspect.decision)
    for pair in [*aspect.pairs, *([aspect.together] if len(aspect.raters) > 2 else [])]:
        if pair.sentence:
            yield f"{_title(pair)}: {pair.sentence}."
    yield from filter(None, map(weighted, aspect.pairs))
    yield from filter(None, map(worst, aspect.pairs))
    yield from map(counts, aspect.raters)
    yield from map(_curve, aspect.curves)
    yield from map(_change, aspect.changes)
    yield from (f"{_capital(note)}." for note in aspect.notes if note != WHAT_ENTERS)


def _capital(text: str) -> str:
    """Return a sentence with its first letter as it stands at the beginning."""
    return text[:1].upper() + text[1:]


def _curve(curve: Curve) -> str:
    if isinstance(curve.bins, Unmeasured):
        return f"{curve.judge}'s confidence: {curve.bins.reason}."
    told = ", ".join(
        f"{_span(part.low, part.high)} right {_value(part.right)} {_interval(part.right)}"
        for part in curve.bins
    )
    return f"{curve.judge}'s confidence over {curve.n:,}: {told}."


def _change(change: Change) -> str:
    return (
        f"{change.judge}, version {change.before} to {change.after} on {change.n:,}: kept "
        f"{_value(change.kept)} {_interval(change.kept)}, confidence "
        f"{_signed(change.confidence)} {_interval(change.confidence)}, same steps cited "
        f"{_value(change.cites)}."
    )


def _span(low: float, high: float) -> str:
    ends = lines.score(low), lines.score(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _signed(figure: Figure) -> str:
    said = _value(figure)
    return f"+{said}" if isinstance(figure, Estimate) and figure.value > 0 else said


def _folded(text: str, width: int) -> list[str]:
    return [f"  {line}" for line in fold(visible_line(text), width - 2, 2)]


def decided(decision: Decision) -> str:
    """Return the decision as a sentence."""
    return f"Decision: {WORDS[decision.outcome]}. {_capital(decision.reason)}."


def weighted(pair: Together) -> str:
    """Return the agreement expected of calibrated confidences; "" where there is none."""
    found = pair.figures.get("weighted")
    if not isinstance(found, Estimate):
        return ""
    return (
        f"{_title(pair)}, weighted by calibrated confidence: expected to agree on "
        f"{lines.share(found.value)} {_interval(found)}."
    )


def worst(pair: Together) -> str:
    """Return what the raw agreement could be, had every lost verdict been there; "" if none is."""
    raw = pair["raw"]
    bounds = "" if isinstance(raw, Unmeasured) else lines.bounds("agreement", raw)
    return f"{_title(pair)}: with what was lost, raw agreement {bounds}." if bounds else ""


def counts(rater: Rater) -> str:
    """Return what a rater said how often, and what it did not say."""
    said = [f"{label} {n:,}" for label, n in rater.labels.items()] or ["nothing"]
    if rater.silent:
        said.append(f"cannot know {rater.silent:,}")
    lost = ", ".join(f"{kind} {n:,}" for kind, n in sorted(rater.unmeasured.items()))
    told = f"; unmeasured: {lost}" if lost else ""
    family = "" if rater.family == rater.name else f" ({rater.family})"
    return f"{rater.name}{family}: {', '.join(said)}{told}."


def queue_text(queue: Iterable[Dispute], total: int, width: int = 100) -> str:
    """Return the disputes as text; ends in a line break."""
    out = []
    for dispute in queue:
        out += [*queued(dispute, width, named=True), ""]
    tail = (
        f"{total:,} in all. Labels on these tune a rubric; they are no test of it, and no rate is "
        "computed on them."
    )
    return "\n".join([*out, *fold(tail, width, 2)]) + "\n"


def queued(dispute: Dispute, width: int, *, named: bool) -> Iterator[str]:
    """Yield one dispute: where it is, and a line for what each rater said."""
    step = "" if dispute.step is None else f" step {dispute.step}"
    head = f"{dispute.aspect}: {dispute.name}{step}" if named else f"{dispute.name}{step}"
    indent = "" if named else "    "
    yield clip(indent + visible_line(head), width)
    for answer in dispute.answers:
        yield clip(f"{indent}  {visible_line(_answer(answer))}", width)


def _answer(answer: Answer) -> str:
    score = "" if answer.value is None else f" {lines.score(answer.value)}"
    sure = "" if answer.confidence is None else f", sure {lines.score(answer.confidence)}"
    cites = f", cites {', '.join(map(str, answer.cites))}" if answer.cites else ""
    why = f": {clip(answer.reason, REASON)}" if answer.reason else ""
    return f"{answer.rater}  {answer.label}{score}{sure}{cites}{why}"
