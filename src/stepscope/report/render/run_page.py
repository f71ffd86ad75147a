"""The page of one run: what happened and where, then every step with its evidence.

Our words stand left, what was recorded right. No element, attribute, link or picture comes from a
trace: HTML is shown as it was written, and what hides in a text is spelt out. A long run is laid
out in windows. Source: CommonMark 0.31 and the tables of GitHub Markdown, by markdown-it-py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from markupsafe import Markup, escape

from stepscope.judges.patterns import PATTERN_ADVICE
from stepscope.model import Exchange, Part, Step, ToolCall
from stepscope.report import words
from stepscope.report.document import Links, StepAddress, run_anchor, step_anchor, verdict_anchor
from stepscope.report.render.pages import Page, lay_out
from stepscope.report.types import SuspectSteps
from stepscope.report.views import run as runs
from stepscope.report.views import steps as narration
from stepscope.report.views.run import RunData, ShownVerdict
from stepscope.report.views.runs import TONES, RunListRow
from stepscope.report.views.steps import StepLine
from stepscope.report.votes import describe_pattern, find_patterns
from stepscope.safety.text import visible, visible_line
from stepscope.values import Unmeasured, format_count

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# Steps that one page lays out; a page of so many stays quick to scroll.
WINDOW = 200
# Steps shown before the one that was asked for.
LEAD_IN = 20
# Suspects named at the top, of a run that is ranked and of one that is not.
MOST_RANKED, MOST_FOUND = 4, 6
# Suspects named one by one behind them.
MOST_SUSPECTS = 40
# Verdicts of one run that a page lists; the rest are counted, and `show --json` has all.
MOST_VERDICTS = 400
# Steps that a search through a long run names.
MOST_HITS = 200
# Characters of a reason where there is no more room, of a call on its line, of an error.
REASON, LINE, ERROR = 90, 160, 600
# A record longer than this is not put into a page beside its own words.
RAW = 6_000
# Probability from which a step is written in bold, and at which its bar in the strip is full.
HOT, FULL = 0.05, 0.4
# Pixels of a bar of the strip that is full.
HIGH = 24
# The sign of each category, for those who do not see its colour.
SIGNS = {
    "error": "✕",
    "fault": "!",
    "redundant": "○",
    "detour": "~",
    "suspect": "?",
    "progress": "·",
    "label": "▲",
}
WHO = {"system": "system", "user": "user", "agent": "agent", "environment": "tool"}


def make_run_page(
    data: RunData,  # what `read_run` read
    *,
    links: Links,  # where things are
    window: range | None = None,  # the steps to lay out; around the first suspect when left out
    clip: int | None = None,  # the most characters of one text; all when left out
    others: Sequence[RunListRow] = (),  # runs of the same task
    find: str = "",  # what was searched for in a run of several windows
) -> Page:
    """Return the page of one run."""
    run, curve = data.trajectory, data.curve
    count, anchor, tone = len(run.steps), run_anchor(run.id), TONES[run.outcome.status]
    suspect = data.suspects[0].first if data.suspects else 0
    shown = choose_window(count, suspect) if window is None else window
    shown = range(max(shown.start, 0), min(shown.stop, count))
    to = _address_steps(run.id, shown, count, links)
    labels, listed = runs.collect_labels(run), data.verdicts[:MOST_VERDICTS]
    lines = {line.step: line for line in data.describe_steps(shown)}
    drawn = said = rests_on = None
    if not isinstance(curve, Unmeasured):
        drawn = runs.chart_curve(curve, count, anchor, to)
        said, rests_on = runs.describe_curve(curve), runs.describe_curve_basis(curve)
    paged = len(shown) < count and links.is_served
    outlined, found = lines.values(), None
    if paged and find:
        hits = _search(data, find)
        outlined = {line.step: line for line in data.describe_steps(hits)}.values()
        most = f"; the first {MOST_HITS} are shown" if len(hits) == MOST_HITS else ""
        found = f"{format_count(len(hits), 'step')} with {find!r}{most}"
    trials, passed = list[Markup](), list[tuple[str, str]]()
    for row in others:
        if row.id != run.id:
            pair = links.pair(run.id, row.id)
            href, colour = links.run(row.id), TONES[row.outcome]
            trials.append(lay_out("other_trial", row.name, row.outcome, colour, href, pair))
            passed += [(row.name, pair)] if pair and row.outcome == "pass" else []
    first, rest = _suspect_lines(data, to)
    notes, timed = list(runs.list_notes(run, data.found)), narration.lay_out_time(run)
    strip, each = _strip(data, to)
    steps = _lay_out_steps(
        data, shown, lines, labels=labels, listed=listed, to=to, links=links, clip=clip
    )
    body = lay_out(
        "run",
        anchor=anchor,
        title=run.name,
        run=run,
        tone=tone,
        eyebrow=list(runs.place_run(run)),
        facts=list(runs.list_facts(run)),
        failed_because=data.look.because[:1].upper() + data.look.because[1:],
        verdict=runs.sum_up(data),
        passing=passed[0] if passed and run.outcome.status != "pass" else None,
        labels=labels.get(None, ()),
        notes=notes,
        noted=format_count(len(notes), "remark"),
        suspects=first,
        more_suspects=rest,
        reliability=data.look.reliability,
        patterns=list(_pattern_lines(data, to)),
        curve=drawn,
        said=said,
        rests_on=rests_on,
        strip=strip,
        each=each,
        lanes=list(_lanes(data, each, len(strip), to)) if strip else [],
        time=lay_out("time_strip", *timed) if timed else "",
        outline=[_outline_row(line, data, to) for line in outlined],
        search=(f"/run/{run.id}", find) if paged else None,
        found=found,
        kept=links.kept,
        verdicts=[_verdict_row(run.id, at, one, to) for at, one in enumerate(listed)],
        verdicts_left=len(data.verdicts) - len(listed),
        unmeasured=runs.list_unmeasured(data.records),
        others=trials,
        before=links.window(run.id, max(shown.start - WINDOW, 0)) if shown.start else None,
        after=links.window(run.id, shown.stop) if shown.stop < count else None,
        shown=shown,
        steps=list(steps),
    )
    return Page(name="run", title=run.name, body=body, charts=() if drawn is None else (drawn,))


def choose_window(count: int, step: int) -> range:
    """Return the steps to lay out so that `step` is among them; all of a short run."""
    if count <= WINDOW:
        return range(count)
    start = min(max(step - LEAD_IN, 0), count - WINDOW)
    return range(start, start + WINDOW)


def _address_steps(run: str, shown: range, count: int, links: Links) -> StepAddress:
    """Return what gives the address of a step: in the window, on another page, or nowhere."""

    def to(step: int) -> str | None:
        if step in shown:
            return f"#{step_anchor(run, step)}"
        elsewhere = links.window(run, step) is not None and 0 <= step < count
        return links.run(run, step) if elsewhere else None

    return to


def _search(data: RunData, text: str) -> list[int]:
    """Return the first steps in which a text stands, capitals not minded."""
    wanted, found = text.casefold(), []
    for step in data.trajectory.steps:
        said = [step.text, *(words.quote_result(result) for result in step.results)]
        said += [f"{x.name} {x.raw or words.format_json(x.arguments)}" for x in step.calls]
        if any(wanted in one.casefold() for one in said):
            found.append(step.index)
            if len(found) == MOST_HITS:
                break
    return found


def _suspect_lines(data: RunData, to: StepAddress) -> tuple[list[Markup], list[Markup]]:
    """Return the suspects named first, with what remains to a hundred percent, and the others."""
    ranked = [one for one in data.suspects if one.share is not None]
    named = data.suspects[: MOST_RANKED if ranked else MOST_FOUND]
    first = list(_suspects(data, named, to))
    if ranked:
        others = ranked[len(named) :]
        left = sum(one.share or 0.0 for one in others)
        said = f"one of the {len(others):,} other steps of the agent"
        for share, whose in (
            (left, said if len(others) > 1 else "the other step of the agent"),
            (data.look.nobody or 0.0, "no step of the agent: the user, a tool, or the check"),
        ):
            if share:
                first.append(_suspect_line("", words.format_chance(share), share, whose, "", None))
    rest = data.suspects[len(named) : len(named) + MOST_SUSPECTS]
    return first, list(_suspects(data, rest, to))


def _suspects(data: RunData, found: Sequence[SuspectSteps], to: StepAddress) -> Iterator[Markup]:
    lines = {line.step: line for line in data.describe_steps([one.first for one in found])}
    for one in found:
        chance = "" if one.share is None else words.format_chance(one.share)
        sentence = lines[one.first].sentence
        why = "" if one.kind == "place" else runs.add_evidence(sentence, one.evidence)
        why = words.cut_words(why, REASON)
        yield _suspect_line(words.name_steps(one), chance, one.share, sentence, why, to(one.first))


def _suspect_line(
    where: str, chance: str, share: float | None, sentence: str, why: str, href: str | None
) -> Markup:
    full = None if share is None else min(100 * share / FULL, 100)
    return lay_out("suspect_line", where, chance, full, sentence, why, href)


def _strip(data: RunData, to: StepAddress) -> tuple[list[tuple[object, ...]], int]:
    """Return the columns of the strip, the gravest of each; and how many steps each holds."""
    count = len(data.trajectory.steps)
    each = runs.count_steps_per_column(count)
    shares: dict[int, float] = {}
    for one in data.suspects:
        column = one.first // each
        shares[column] = max(shares.get(column, 0.0), one.share or 0.0)
    out: list[tuple[object, ...]] = []
    if count < runs.FEW_STEPS:
        return out, each
    spread = next((n for n in (1, 2) if count <= runs.ROOMY * n), 5)
    for column, event in enumerate(narration.choose_events(data.events, each)):
        share, step = shares.get(column, 0.0), column * each
        height = max(round(HIGH * min(share / FULL, 1.0)), 1) if share >= 0.005 else 0
        sign = "✕" if event == "refused" else ""
        tick = "" if column % spread else str(step)
        said = f"step {step}" if each == 1 else f"steps {step} to {min(step + each, count) - 1}"
        said += f": {event}" + (f", {words.format_chance(share)}" if height else "")
        href = to(step) or f"#{run_anchor(data.trajectory.id)}"
        out.append((event, height, sign, tick, href, said))
    return out, each


def _lanes(data: RunData, each: int, columns: int, to: StepAddress) -> Iterator[Markup]:
    """Yield a lane for each judge that spoke of steps, and one for people."""
    labels = runs.collect_labels(data.trajectory)
    lanes = runs.place_lanes(data, [step for step in labels if step is not None])
    for name, found in lanes.items():
        cells: list[tuple[str, str, str | None, str]] = [("", "", None, "")] * columns
        for column, step in runs.choose_marks(found, each).items():
            said = f"step {step}: {name} {found[step]}"
            cells[column] = found[step], SIGNS.get(found[step], ""), to(step), said
        yield lay_out("lane", visible_line(name), cells)


def _outline_row(line: StepLine, data: RunData, to: StepAddress) -> Markup:
    step = data.trajectory.steps[line.step]
    told = line.share is not None and line.share >= narration.TOLD_SHARE
    chance = words.format_chance(line.share) if told and line.share is not None else ""
    who = step.agent if data.several_agents and step.actor == "agent" else ""
    href, sign = to(line.step), narration.EVENT_SIGNS[line.event]
    return lay_out("outline_row", href, line.event, line.step, sign, who, line.sentence, chance)


def _pattern_lines(data: RunData, to: StepAddress) -> Iterator[Markup]:
    for judge, by_name in find_patterns(data.trajectory, data.records).items():
        for name, found in by_name.items():
            cites = dict.fromkeys(step for pattern in found for step in pattern.cites)
            named, shown = name.replace("_", " "), list(cites)[: runs.NAMED_STEPS]
            why, advice = describe_pattern(found), PATTERN_ADVICE[name]
            yield lay_out("pattern_line", named, judge, shown, to, reason=why, advice=advice)


def _verdict_row(run: str, at: int, one: ShownVerdict, to: StepAddress) -> Markup:
    return lay_out(
        "verdict_row",
        anchor=verdict_anchor(run, at),
        judge=runs.name_judge(one.record),
        measure=one.called,
        verdict=one.verdict,
        label=runs.name_label(one),
        value=runs.format_value(one.verdict),
        category=runs.categorise(one.verdict),
        most=runs.NAMED_STEPS,
        to=to,
    )


def _lay_out_steps(
    data: RunData,
    shown: range,
    lines: Mapping[int, StepLine],
    *,
    labels: Mapping[int | None, Sequence[str]],
    listed: Sequence[ShownVerdict],
    to: StepAddress,
    links: Links,
    clip: int | None,
) -> Iterator[Markup]:
    """Yield the steps of a window; what a tool gave stands with the call that it answers."""
    run, remarks = data.trajectory, runs.remark_on_steps(listed)
    made, _ = narration.group_calls(run, shown)
    scores = runs.list_scores(data.curve)
    for index, behind in _pair_steps(run.steps, shown):
        step, line = run.steps[index], lines[index]
        inside = [index, *behind]
        message = step.actor != "environment" and not step.calls
        marked = (line.share or 0.0) >= narration.TOLD_SHARE or any(
            lines[at].event == "refused" or data.marks.get(at, runs.UNMARKED).sign == "!"
            for at in inside
        )
        raw_href = links.raw(run.id, index)
        raw = ""
        if marked and raw_href is None:
            raw = msgspec.json.format(msgspec.json.encode(step), indent=1).decode()
        chips = [chip for at in inside for chip in _chips(run.id, at, remarks.get(at, {}), listed)]
        said, why = line.sentence, runs.add_evidence(line.sentence, line.why)
        found = line.why.casefold().startswith(said.casefold().removesuffix("…"))
        if message and not (line.why and found):
            said = runs.name_message(step, line)
        given = list(lay_out_results(step, index, None, clip)) if step.results else []
        for at in behind:
            given += lay_out_results(run.steps[at], at, step_anchor(run.id, at), clip)
        yield lay_out(
            "step",
            anchor=step_anchor(run.id, index),
            number=f"{index}\u2013{behind[-1]}" if behind else str(index),
            event=line.event,
            hot=(line.share or 0.0) >= HOT,
            said=message,
            marked=marked,
            who=step.agent or WHO[step.actor],
            tools=list(dict.fromkeys(call.name for call in step.calls)),
            facts=[
                *([f"score {scores[index]}"] if index in scores else []),
                *([step.kind] if step.kind not in ("message", "call", "result") else []),
                *(fact for at in inside for fact in runs.list_step_facts(run.steps[at])),
            ],
            sentence=said,
            chance="" if not line.share or line.share < 0.01 else words.format_chance(line.share),
            why=why,
            labels=[label for at in inside for label in labels.get(at, ())],
            parts=[lay_out_part(part, clip, step) for part in step.parts],
            calls=list(_calls(data, made.get(index, []), to, inside, clip)),
            results=given,
            error=step.error or "",
            checked=len(chips),
            chips=chips,
            raw=raw if len(raw) <= RAW else "",
            raw_href=raw_href,
        )


def _pair_steps(steps: Sequence[Step], shown: Iterable[int]) -> list[tuple[int, list[int]]]:
    """Return each step of a window with those of tools that come right behind the agent's."""
    found: list[tuple[int, list[int]]] = []
    answered = False
    for index in shown:
        if answered and steps[index].actor == "environment":
            found[-1][1].append(index)
        else:
            found.append((index, []))
            answered = steps[index].actor == "agent"
    return found


def _chips(
    run: str, step: int, remarks: Mapping[str, int], listed: Sequence[ShownVerdict]
) -> Iterator[Markup]:
    for said, at in remarks.items():
        answer = listed[at].verdict
        category = runs.categorise(answer) if step in runs.list_faulted(answer) else ""
        yield lay_out("chip", words=said, category=category, href=f"#{verdict_anchor(run, at)}")


def lay_out_part(part: Part, clip: int | None, step: Step) -> Markup:
    """Return one part of a message, a long text folded."""
    if part.text is None:
        size = f", {part.size:,} bytes" if part.size is not None else ""
        shown = f"[{part.kind} {part.media_type or ''}{size}]"
        return lay_out("message", kind=part.kind, shown=shown, folded="", left=0, about="")
    seen, folded, left = lay_out_message(part.text, clip)
    length = len(part.text.split())
    about = f"{length:,} words" if step.actor == "system" else f"all {length:,} words"
    if step.actor == "system" and length > 12:
        seen, folded = Markup(""), seen + folded
    return lay_out("message", kind=part.kind, shown=seen, folded=folded, left=left, about=about)


def lay_out_call(call: ToolCall, said: str, clip: int | None, **more: object) -> Markup:
    """Return a call in few words, what it passed folded; `more` is said of its exchange."""
    given = (call.raw or "") if call.arguments is None else words.format_json(call.arguments)
    return lay_out("call", call, said, lay_out_data(given, clip), **more)


def _calls(
    data: RunData, made: Sequence[Exchange], to: StepAddress, inside: list[int], clip: int | None
) -> Iterator[Markup]:
    """Yield the calls of the first of some steps that are laid out as one."""
    for at, call in enumerate(data.trajectory.steps[inside[0]].calls):
        # Copies of earlier calls make no exchange; they are shown as they stand.
        if at >= len(made):
            said = words.cut_words(visible_line(words.describe_call(call)), LINE)
            yield lay_out_call(call, said, clip)
            continue
        call, answer, brief = made[at].call, made[at].result_step, words.brief_value
        earlier = data.history.earlier.get(made[at].position)
        said = words.describe_call(call, None if earlier is None else earlier.call)
        # What was expected is said where a mistake is made, not at each of its repetitions.
        again = data.history.errors.get(made[at].position)
        lacks = [] if again else narration.find_expected(made[at], data.goals)
        fields = len(call.arguments) if isinstance(call.arguments, dict) else 0
        differing = len({path.partition(".")[0] for path, _, _ in lacks})
        yield lay_out_call(
            call,
            words.cut_words(visible_line(said), LINE),
            clip,
            expected=[
                (visible_line(x), brief(was) or "none", brief(y) or "none") for x, was, y in lacks
            ],
            same=max(fields - differing, 0) if lacks else 0,
            answer_step=None if answer in inside else answer,
            answer_href=None if answer is None else to(answer),
        )


def lay_out_results(
    step: Step, index: int, anchor: str | None, clip: int | None
) -> Iterator[Markup]:
    """Yield what a step of a tool gave, an error in full, anything else in few words."""
    for at, result in enumerate(step.results):
        text = words.quote_result(result)
        failed = result.status == "error"
        short = " ".join(text.split())
        whole = len(text) <= ERROR
        if failed:
            said = words.cut_words(text, ERROR)
        elif whole := len(short) <= FOLDED_LINE and not short.startswith(("{", "[")):
            said = short or "returned nothing"
        else:
            said = narration.summarise_value(text)
        more = Markup("") if whole else lay_out_data(text, clip)
        number, place = str(index) if anchor and at == 0 else "", anchor if at == 0 else None
        said = f"{result.name}: {said}" if result.name and len(step.results) > 1 else said
        yield lay_out("result", anchor=place, step=number, failed=failed, said=said, data=more)
    if not step.results and anchor is not None:
        shown, folded, left = lay_out_message(step.text, clip)
        made = lay_out("message", kind="text", shown=shown, folded=folded, left=left, about="all")
        said = narration.summarise_value(step.text)
        yield lay_out("result", anchor, str(index), failed=False, said=said, data=made)


# Characters of a text that are seen before it is unfolded; what is hardly longer is not folded.
OPEN, LONG = 900, 1300
# Characters of the line that stands for folded JSON.
FOLDED_LINE = 110
# Markdown nested deeper than this is not rendered: its reader drops what is nested deeper still.
DEEPEST = 14
# What links to, embeds or passes on: a text shows these as they were written.
INERT = ("link", "image", "autolink", "entity", "html_inline", "html_block", "reference")
_MARKED = re.compile(r"[*_`#|]|^\s*(?:[-+>]|\d+[.)])\s|\n", re.MULTILINE)
_KEY = re.compile(r"^( *)(&#34;[^\n]*?&#34;)(?=: )", re.MULTILINE)


@cache
def _open_markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    made.disable(list(INERT))
    plain = {"heading_open": "<p><b>", "heading_close": "</b></p>\n", "th_open": "<th>"}
    rules = {name: partial(_write, tag) for name, tag in {**plain, "td_open": "<td>"}.items()}
    made.renderer.rules.update({**rules, "fence": _write_fence})  # type: ignore[attr-defined]
    return made


def _write(tag: str, *_: object) -> str:
    """Write an element of ours, without attributes of the text."""
    return tag


def _write_fence(tokens: Sequence[Token], at: int, *_: object) -> str:
    """Write a block of code; what a text calls its language stands above it."""
    name = tokens[at].info.strip()
    kind = f'<span class="kind">{escape(name)}</span>' if name else ""
    return f"{kind}<pre>{escape(tokens[at].content)}</pre>\n"


def render_markdown(text: str) -> Markup:
    """Return a text of a trace as HTML of a few known elements without attributes."""
    shown = visible(text)
    if _MARKED.search(shown) is None:
        return Markup("<p>") + escape(shown) + Markup("</p>")
    markdown = _open_markdown()
    env: dict[str, Any] = {}
    tokens = markdown.parse(shown, env)
    if any(token.level > DEEPEST for token in tokens):
        return Markup('<div class="plain">') + escape(shown) + Markup("</div>")
    return Markup(markdown.renderer.render(tokens, markdown.options, env))


def indent_json(text: str) -> str | None:
    """Return JSON a line a member, its numbers as they were written; None where it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.format(text.strip(), indent=1)
    except (msgspec.DecodeError, RecursionError):
        return None


def find_fold(text: str) -> int:
    """Return where a text is folded: behind a line or a word, never within a block of code."""
    if len(text) <= LONG:
        return len(text)
    at = text.rfind("\n", OPEN // 2, OPEN) + 1 or text.rfind(" ", OPEN // 2, OPEN) + 1 or OPEN
    if text.count("```", 0, at) % 2:
        end = text.find("```", at)
        at = len(text) if end < 0 else end + 3
    return at


def lay_out_message(text: str, clip: int | None) -> tuple[Markup, Markup, int]:
    """Return what is seen of a message, what is folded, and how many characters are left out."""
    kept = text[:clip]
    if indent_json(kept) is not None:
        return Markup(""), lay_out_data(kept, clip), len(text) - len(kept)
    at = find_fold(kept)
    folded = render_markdown(kept[at:]) if kept[at:].strip() else Markup("")
    return render_markdown(kept[:at]), folded, len(text) - len(kept)


def lay_out_data(text: str, clip: int | None) -> Markup:
    """Return what a call passed or gave: JSON indented, anything else as it was written."""
    made = indent_json(text)
    if made is None:
        return Markup("<pre>") + escape(visible(text[:clip])) + Markup("</pre>")
    # Keys are told from values.
    marked = _KEY.sub(r"\1<b>\2</b>", str(escape(visible(made[:clip]))))
    return Markup(f"<pre>{marked}</pre>")
