"""The steps of a run as they are read: words, calls and results, with what was said of each.

A step stands as it was recorded; what is long is folded, not dropped. A text longer than `clip`
characters is cut, and says by how much and where the rest is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from stepscope.model import Exchange, Part, Step, ToolCall, ToolResult
from stepscope.report import lines
from stepscope.report.calls import words
from stepscope.report.cutting import cut
from stepscope.report.pages.links import step_anchor
from stepscope.report.pages.run_data import RunData
from stepscope.report.pages.verdicts import Chip, Said, To
from stepscope.report.run_text import UNMARKED, pretty, result_text
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

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
class Text:
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
    arguments: Text
    parse_error: str
    failed: bool
    answer_step: int | None
    answer_href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultView:
    """What a tool said: ok, error or unknown, who believes so, its first words, all of it."""

    status: str
    source: str
    line: str
    text: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step.

    Attributes:
        category: colour of its edge: "error", "redundant", "fault", "suspect", "mark" or "".
        sign: the same as a mark: "!", "?" or "".
        facts: time, tokens and cost, where known.
        chips: verdicts about it, and those that cite it.
        labels: what people said of it.
        marked: whether it is worth a stop on the way through.
        folded: whether it is shut until asked for.
        raw: the record as JSON, of a marked step that is not too long for a page; else it is at
            `raw_href`, or only in the store.
    """

    index: int
    anchor: str
    actor: str
    who: str
    kind: str
    agent: str
    category: str
    sign: str
    remark: str
    score: str
    facts: tuple[str, ...]
    texts: tuple[Text, ...]
    calls: tuple[CallView, ...]
    results: tuple[ResultView, ...]
    error: str
    chips: tuple[Chip, ...]
    labels: tuple[str, ...]
    marked: bool
    folded: bool
    summary: str
    raw: str
    raw_href: str | None


def views(
    data: RunData, said: Said, *, to: To, raw: To, window: range, clip: int | None
) -> Iterator[StepView]:
    """Yield the steps of a window.

    Args:
        data: the run.
        said: what was said of it.
        to: the address of a step; None where the page does not hold it.
        raw: the address of a step's record; None where it belongs into the page.
        window: the steps.
        clip: the most characters of one text.
    """
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
    said: Said,
    *,
    clip: int | None,
    score: str,
    raw_href: str | None,
) -> StepView:
    index = step.index
    mark = data.marks.get(index, UNMARKED)
    results = tuple(_result(result, clip) for result in step.results)
    category = said.categories.get(index, "mark" if mark.sign else "")
    marked = bool(mark.sign) or category in GRAVE
    raw = _raw(step) if marked and raw_href is None else ""
    return StepView(
        index=index,
        anchor=step_anchor(data.trajectory.id, index),
        actor=WHO[step.actor],
        who=_who(step),
        kind=step.kind,
        agent=step.agent or "",
        category=category,
        sign=mark.sign,
        remark=mark.remark,
        score=score,
        facts=tuple(_facts(step)),
        texts=tuple(_text(part, clip) for part in step.parts),
        calls=calls,
        results=results,
        error=step.error or "",
        chips=said.at(index),
        labels=tuple(said.labels.get(index, ())),
        marked=marked,
        folded=_uneventful(step) and category not in GRAVE,
        summary=_summary(step),
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


def _summary(step: Step) -> str:
    if step.results:
        return cut(visible_line(result_text(step.results[0])), LINE)
    return cut(visible_line(step.text), LINE)


def _scores(data: RunData) -> dict[int, str]:
    """Return the scores that somebody gave; labels taken as scores are none."""
    curve = data.curve
    if isinstance(curve, Unmeasured) or curve.source == "step_labels":
        return {}
    pairs = zip(curve.steps, curve.scores, strict=True)
    return {step: lines.share(score) for step, score in pairs if score is not None}


def _text(part: Part, clip: int | None) -> Text:
    if part.text is None:
        size = f", {part.size:,} bytes" if part.size is not None else ""
        return Text(kind=part.kind, shown=f"[{part.kind} {part.media_type or ''}{size}]")
    return clipped(part.text, part.kind, clip)


def clipped(text: str, kind: str, clip: int | None) -> Text:
    """Return a text in what is seen, what is folded, and how much is left out."""
    kept = text if clip is None or len(text) <= clip else text[:clip]
    left = len(text) - len(kept)
    if len(kept) <= LONG:
        return Text(kind=kind, shown=kept, left=left)
    at = kept.rfind("\n", OPEN // 2, OPEN) + 1 or kept.rfind(" ", OPEN // 2, OPEN) + 1 or OPEN
    return Text(kind=kind, shown=kept[:at], folded=kept[at:], left=left)


def _calls(
    step: Step,
    made: Sequence[Exchange],
    previous: dict[str, Exchange],
    to: To,
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
    to: To,
    clip: int | None,
) -> CallView:
    given = (call.raw or "") if call.arguments is None else pretty(call.arguments)
    at = None if exchange is None else exchange.result_step
    said = words(call, None if earlier is None else earlier.call)
    return CallView(
        name=call.name,
        words=cut(visible_line(said), LINE),
        arguments=clipped(given, "data", clip),
        parse_error=call.parse_error or "",
        failed=exchange is not None and exchange.failed,
        answer_step=at,
        answer_href=None if at is None else to(at),
    )


def _result(result: ToolResult, clip: int | None) -> ResultView:
    said = result_text(result)
    return ResultView(
        status=result.status,
        source=result.source,
        line=cut(visible_line(said), LINE),
        text=clipped(said, "data", clip),
    )


def _facts(step: Step) -> Iterator[str]:
    if step.start is not None and step.end is not None:
        yield lines.number("seconds", (step.end.ns - step.start.ns) / 1e9)
    if step.usage is not None:
        for count, what in ((step.usage.input_total, "in"), (step.usage.output_total, "out")):
            if count is not None:
                yield f"{count:,} {what}"
    if step.cost_usd is not None:
        yield lines.number("cost_usd", step.cost_usd)
    if step.model:
        yield step.model


def _raw(step: Step) -> str:
    return msgspec.json.format(msgspec.json.encode(step), indent=1).decode()
