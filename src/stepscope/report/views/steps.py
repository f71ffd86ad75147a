"""The steps of one run: texts, calls and results, with the remarks on each, and the strip of marks.

A step stands as it was recorded. Long text is folded; text longer than `clip` characters is cut and
says by how much. A column of the strip holds several steps of a long run and shows the gravest
mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from stepscope.model import Exchange, Part, Step, ToolCall, Trajectory
from stepscope.report.document import StepAddress, step_anchor
from stepscope.report.formatting import (
    clip,
    cut_words,
    describe_call,
    format_json,
    format_number,
    format_share,
    quote_result,
)
from stepscope.report.views.verdicts import (
    CATEGORIES,
    UNMARKED,
    Chip,
    RunData,
    RunVerdicts,
    StepMark,
)
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# A remark on the right keeps at least this much of the line for the call itself.
REMARK_WIDTH = 46
STATUS = {"ok": "  ok", "error": " err", "unknown": "   ?"}


class StepLine(NamedTuple):
    """One line of a run: the step, the actor or kind, the text."""

    step: int
    actor: str
    text: str


def _lines(trajectory: Trajectory, step: Step, previous: dict[str, Exchange]) -> Iterator[StepLine]:
    media = [f"[{part.kind} {part.media_type or ''}]" for part in step.parts if part.text is None]
    text = " ".join([step.text, *media]).strip()
    if not step.results and (text or not step.calls):
        actor = "env" if step.actor == "environment" else step.actor
        yield StepLine(step.index, actor, text or f"({step.kind}, no text)")
    for exchange in trajectory.exchanges:
        if exchange.step == step.index:
            before = previous.get(exchange.call.name)
            yield StepLine(
                step.index, "call", describe_call(exchange.call, before.call if before else None)
            )
            previous[exchange.call.name] = exchange
    for result in step.results:
        yield StepLine(step.index, STATUS[result.status], quote_result(result))


def _laid_out(line: StepLine, mark: StepMark, width: int) -> str:
    head = f" {mark.sign:<1}{line.step:>4} {line.actor:<6} "
    remark = clip(visible_line(mark.remark), REMARK_WIDTH)
    room = width - len(head) - (len(remark) + 2 if remark else 0)
    body = clip(visible_line(line.text), room)
    return (head + body + (remark.rjust(width - len(head) - len(body)) if remark else "")).rstrip()


# Characters of a text that are seen before it is unfolded; what is hardly longer is not folded.
OPEN = 900
LONG = 1300
# Characters of a call or a result on its one line.
LINE = 160
# A record longer than this is not put into a page beside its own words.
RAW = 6_000
# What is said of these is read without unfolding them.
GRAVE = frozenset({"error", "fault"})
WHO = {"system": "system", "user": "user", "agent": "agent", "environment": "tool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedText:
    """A text: what is seen at once, what is folded, how many characters are left out.

    `kind` is that of the part: text, reasoning, refusal, or a medium, of which `shown` says what
    it is.
    """

    kind: str
    shown: str
    folded: str = ""
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A call: in few words, its arguments in full, why they could not be read, what came back."""

    name: str
    words: str
    arguments: FoldedText
    parse_error: str
    failed: bool
    answer_step: int | None
    answer_href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What a tool said: ok, error or unknown, and all of it."""

    status: str
    text: FoldedText


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step."""

    step: Step
    mark: StepMark
    anchor: str
    actor: str
    who: str
    category: str  # colour of its edge: "error", "redundant", "fault", "suspect", "mark" or ""
    score: str
    facts: tuple[str, ...]  # time, tokens and cost, where known
    texts: tuple[FoldedText, ...]
    calls: tuple[CallView, ...]
    results: tuple[ResultView, ...]
    chips: tuple[Chip, ...]  # verdicts about it, and those that cite it
    labels: tuple[str, ...]  # what people said of it
    marked: bool  # whether it is worth a stop on the way through
    folded: bool  # whether it is shut until asked for
    summary: str
    # the record as JSON, of a marked step that is not too long for a page; else it is at
    # `raw_href`, or only in the store
    raw: str
    raw_href: str | None


def view_steps(
    data: RunData,  # the run
    said: RunVerdicts,  # what was said of it
    *,
    to: StepAddress,  # the address of a step; None where the page does not hold it
    raw: StepAddress,  # the address of a step's record; None where it belongs into the page
    window: range,  # the steps
    clip: int | None,  # the most characters of one text
) -> Iterator[StepView]:
    """Yield the steps of a window."""
    run = data.trajectory
    by_step: dict[int, list[Exchange]] = {}
    previous: dict[str, Exchange] = {}
    for exchange in run.exchanges:
        if exchange.step in window:
            by_step.setdefault(exchange.step, []).append(exchange)
        elif exchange.step < window.start:
            previous[exchange.call.name] = exchange
    scores = _scores(data)
    for index in window:
        step = run.steps[index]
        made = by_step.get(index, [])
        calls = tuple(_calls(step, made, previous, to, clip))
        previous |= {exchange.call.name: exchange for exchange in made}
        score = scores.get(index, "")
        yield _view(data, step, calls, said, clip=clip, score=score, raw_href=raw(index))


def _view(
    data: RunData,
    step: Step,
    calls: tuple[CallView, ...],
    said: RunVerdicts,
    *,
    clip: int | None,
    score: str,
    raw_href: str | None,
) -> StepView:
    index = step.index
    mark = data.marks.get(index, UNMARKED)
    category = said.categories.get(index, "mark" if mark.sign else "")
    marked = bool(mark.sign) or category in GRAVE
    raw = (
        msgspec.json.format(msgspec.json.encode(step), indent=1).decode()
        if marked and raw_href is None
        else ""
    )
    return StepView(
        step=step,
        mark=mark,
        anchor=step_anchor(data.trajectory.id, index),
        actor=WHO[step.actor],
        who=_who(step),
        category=category,
        score=score,
        facts=tuple(_facts(step)),
        texts=tuple(_text(part, clip) for part in step.parts),
        calls=calls,
        results=tuple(
            ResultView(
                status=result.status, text=fold_long_text(quote_result(result), "data", clip)
            )
            for result in step.results
        ),
        chips=said.at(index),
        labels=tuple(said.labels.get(index, ())),
        marked=marked,
        folded=_uneventful(step) and category not in GRAVE,
        summary=cut_words(visible_line(quote_result(step.results[0])), LINE)
        if step.results
        else cut_words(visible_line(step.text), LINE),
        raw=raw if len(raw) <= RAW else "",
        raw_href=raw_href,
    )


def _uneventful(step: Step) -> bool:
    """A system prompt, or a tool's answer that is no error: shut until asked for."""
    if step.actor == "system":
        return True
    return bool(step.results) and not step.text and all(r.status != "error" for r in step.results)


def _who(step: Step) -> str:
    """Return who acts; of a tool's answer also whether it is one."""
    said = dict.fromkeys(result.status for result in step.results)
    return " ".join([WHO[step.actor], *(status for status in said if status != "unknown")])


def _scores(data: RunData) -> dict[int, str]:
    """Return the scores that somebody gave; labels taken as scores are none."""
    curve = data.curve
    if isinstance(curve, Unmeasured) or curve.source == "step_labels":
        return {}
    pairs = zip(curve.steps, curve.scores, strict=True)
    return {step: format_share(score) for step, score in pairs if score is not None}


def _text(part: Part, clip: int | None) -> FoldedText:
    if part.text is None:
        size = f", {part.size:,} bytes" if part.size is not None else ""
        return FoldedText(kind=part.kind, shown=f"[{part.kind} {part.media_type or ''}{size}]")
    return fold_long_text(part.text, part.kind, clip)


def fold_long_text(text: str, kind: str, clip: int | None) -> FoldedText:
    """Return a text in what is seen, what is folded, and how much is left out."""
    kept = text if clip is None or len(text) <= clip else text[:clip]
    left = len(text) - len(kept)
    if len(kept) <= LONG:
        return FoldedText(kind=kind, shown=kept, left=left)
    at = kept.rfind("\n", OPEN // 2, OPEN) + 1 or kept.rfind(" ", OPEN // 2, OPEN) + 1 or OPEN
    return FoldedText(kind=kind, shown=kept[:at], folded=kept[at:], left=left)


def _calls(
    step: Step,
    made: Sequence[Exchange],
    previous: dict[str, Exchange],
    to: StepAddress,
    clip: int | None,
) -> Iterator[CallView]:
    before = dict(previous)
    for exchange in made:
        yield _call(exchange.call, exchange, before.get(exchange.call.name), to, clip)
        before[exchange.call.name] = exchange
    # Copies of earlier calls make no exchange; they are shown as they stand.
    for call in step.calls[len(made) :]:
        yield _call(call, None, None, to, clip)


def _call(
    call: ToolCall,
    exchange: Exchange | None,
    earlier: Exchange | None,
    to: StepAddress,
    clip: int | None,
) -> CallView:
    given = (call.raw or "") if call.arguments is None else format_json(call.arguments)
    at = None if exchange is None else exchange.result_step
    said = describe_call(call, None if earlier is None else earlier.call)
    return CallView(
        name=call.name,
        words=cut_words(visible_line(said), LINE),
        arguments=fold_long_text(given, "data", clip),
        parse_error=call.parse_error or "",
        failed=exchange is not None and exchange.failed,
        answer_step=at,
        answer_href=None if at is None else to(at),
    )


def _facts(step: Step) -> Iterator[str]:
    if step.start is not None and step.end is not None:
        yield format_number("seconds", (step.end.ns - step.start.ns) / 1e9)
    if step.usage is not None:
        for count, what in ((step.usage.input_total, "in"), (step.usage.output_total, "out")):
            if count is not None:
                yield f"{count:,} {what}"
    if step.cost_usd is not None:
        yield format_number("cost_usd", step.cost_usd)
    if step.model:
        yield step.model


# Columns that a wide screen shows apart.
MOST_COLUMNS = 100
# Columns up to which each has room for its number.
ROOMY = 20
# The sign of each category, for those who do not see its colour.
SIGNS = {
    "error": "✕",
    "fault": "!",
    "redundant": "○",
    "detour": "~",
    "suspect": "?",
    "progress": "·",
    "label": "▲",
    "user": "",
    "agent": "",
    "system": "",
    "call": "▪",
    "failed": "✕",
}
_CALLS = ("failed", "call")


@dataclass(frozen=True, slots=True, kw_only=True)
class StripMark:
    """One column of a lane; without a category there is nothing to see."""

    category: str = ""
    sign: str = ""
    title: str = ""
    href: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StripLane:
    """Who speaks, and a mark a column."""

    name: str
    marks: tuple[StripMark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """All lanes; `each` is how many steps a column holds."""

    lanes: tuple[StripLane, ...]
    each: int
    ticks: tuple[str, ...]


def make_strip(data: RunData, said: RunVerdicts, to: StepAddress) -> Strip:
    """Return the strip of a whole run."""
    count = len(data.trajectory.steps)
    each = count_steps_per_column(count)
    calls = {exchange.step: "call" for exchange in data.trajectory.exchanges}
    calls |= {exchange.step: "failed" for exchange in data.trajectory.exchanges if exchange.failed}
    suspects = {
        step: "suspect"
        for suspect in reversed(data.suspects)
        for step in range(suspect.first, suspect.last + 1, each)
    }
    people = {step: "label" for step in said.labels if step >= 0}
    lanes = [("calls", calls, _CALLS), ("look", suspects, CATEGORIES)]
    lanes += [(judge, steps, CATEGORIES) for judge, steps in said.by_judge.items()]
    lanes += [("people", people, ("label",))] if people else []
    return Strip(
        lanes=tuple(_lane(name, steps, order, count, to) for name, steps, order in lanes if steps),
        each=each,
        ticks=tuple(_ticks(count, each)),
    )


def count_steps_per_column(count: int) -> int:
    """Return how many steps a column holds.

    >>> count_steps_per_column(100), count_steps_per_column(101), count_steps_per_column(100_000)
    (1, 2, 1000)
    """
    return max(-(-count // MOST_COLUMNS), 1)


def _ticks(count: int, each: int) -> Iterator[str]:
    """Yield what stands below each column: its first step, or nothing where it would be crowded."""
    columns = -(-count // each)
    spread = next((n for n in (1, 2) if columns <= ROOMY * n), 5)
    for column in range(columns):
        yield "" if column % spread else str(column * each)


def _lane(
    name: str, steps: Mapping[int, str], order: tuple[str, ...], count: int, to: StepAddress
) -> StripLane:
    each = count_steps_per_column(count)
    held: dict[int, dict[str, int]] = {}
    for step in sorted(steps):
        held.setdefault(step // each, {}).setdefault(steps[step], step)
    marks = []
    for column in range(-(-count // each)):
        here = held.get(column)
        if not here:
            marks.append(StripMark())
            continue
        category = next((c for c in order if c in here), next(iter(here)))
        step = here[category]
        marks.append(
            StripMark(
                category=category,
                sign=SIGNS.get(category, "·"),
                title=f"step {step}: {visible_line(name)} {category}",
                href=to(step),
            )
        )
    return StripLane(name=name, marks=tuple(marks))
