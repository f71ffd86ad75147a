"""What `stepscope show` prints of one run: head, steps, curve, suspects, verdicts, and agents.

Every text of the trace is made visible. Marks before a step: `!` fails, breaks a rule or writes
what nothing asked for; `?` repeats an answered call or is another suspect. A column of the curve is
a scored step, or the lowest of several neighbours; a step without a score is a dot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from stepscope.errors import UsageError
from stepscope.judges.patterns import PATTERN_ADVICE
from stepscope.measures.agents import AgentAnswers, measure_agents
from stepscope.measures.localise import NOBODY_NAME
from stepscope.measures.outcome import ANOTHER_WAY
from stepscope.model import SCORES, Exchange, Record, Step, Trajectory, Verdict
from stepscope.model.records import COMPLETENESS_NAME, STEP_SCORES
from stepscope.report import document as doc
from stepscope.report import votes, words
from stepscope.report.rows import RuleFindings, is_custom
from stepscope.report.types import Curve, LookFirst, SuspectSteps
from stepscope.report.views import run as runs
from stepscope.report.views.steps import group_calls
from stepscope.report.votes import CurrentAnswer
from stepscope.safety.text import render_json, visible, visible_line
from stepscope.shape.types import CredibleInterval
from stepscope.shape.weights import FLOOR
from stepscope.store import Store
from stepscope.values import Unmeasured, format_count, format_limits, format_number, format_percent


def make_run_document(
    store: Store,  # where the run and its records are
    run: str,  # a unique id prefix, or the source's own name
    *,
    around: int | None = None,  # show only the steps near this one, and below them this one whole
    steps: tuple[int, int] | None = None,  # show only these: the first, and the one after the last
    width: int = 100,  # no line is longer, but for the step shown whole
) -> doc.Document:
    """Return one run of the store, for text of this width."""
    data = runs.read_run(store, run)
    trajectory, case = data.trajectory, data.case
    chosen = _chosen(trajectory, around, steps)
    first: list[str | doc.Table] = ["\n".join(describe_run(data, chosen=chosen, width=width))]
    if chosen is None:
        agents = tabulate_agents(measure_agents(trajectory, case, store.facts(trajectory.workflow)))
        first += [] if agents is None else [agents]
    if around is None:
        return [first]
    return [first, ["\n".join(describe_step(data, around, width=width))]]


def show_run_json(store: Store, run: str) -> str:
    """Return one run with its records and suspects as JSON; ends in a line break."""
    data = runs.read_run(store, run)
    document = {
        "run": data.trajectory,
        "case": data.case,
        "records": data.records,
        "suspects": data.suspects,
        "because": data.look.because,
        "nobody": data.look.nobody,
        "reliability": data.look.reliability,
        "curve": data.curve,
        "agents": measure_agents(data.trajectory, data.case, store.facts(data.trajectory.workflow)),
    }
    return render_json(document)


# Steps shown on either side of `around`.
NEIGHBOURS = 6


def _chosen(run: Trajectory, around: int | None, steps: tuple[int, int] | None) -> range | None:
    count = len(run.steps)
    if around is not None:
        _check(run, around)
        steps = around - NEIGHBOURS, around + NEIGHBOURS + 1
    if steps is None:
        return None
    if not (chosen := range(max(steps[0], 0), min(steps[1], count))):
        where = f"{steps[0]}:{steps[1]}; its steps are 0 to {count - 1}"
        raise UsageError(f"no step of {run.name!r} is in {where}")
    return chosen


def _check(trajectory: Trajectory, step: int) -> None:
    count = len(trajectory.steps)
    if not 0 <= step < count:
        raise UsageError(f"{trajectory.name!r} has no step {step}; its steps are 0 to {count - 1}")


# Measure -> heading.
COLUMNS = {
    "efficiency.steps": "steps",
    "handoffs": "handoffs",
    "efficiency.calls": "calls",
    "redundant_calls.count": "repeats",
    "errors": "errors",
    "recovery.recovered": "recovered",
    "policy": "breaches",
    "tool_schema": "schema",
    "efficiency.tokens": "tokens",
    "efficiency.cost_usd": "cost",
}


def tabulate_agents(found: tuple[AgentAnswers, ...] | Unmeasured) -> doc.Table | None:
    """Return the agents of a run, one a row, no column empty; None for fewer than two."""
    if isinstance(found, Unmeasured) or len(found) < 2:
        return None
    cells = {name: [_agent_cell(one, name) for one in found] for name in COLUMNS}
    kept = {COLUMNS[name]: column for name, column in cells.items() if set(column) != {"-"}}
    rows = [
        doc.make_row(doc.TableCell(one.agent, level=1), *(column[at] for column in kept.values()))
        for at, one in enumerate(found)
    ]
    columns = doc.TableColumn("agent", least=16, most=80), *doc.make_columns(*kept, numbers=kept)
    return doc.Table("agents", columns, rows, corner="Agents")


def _agent_cell(one: AgentAnswers, name: str) -> str:
    answer = one.answer(name)
    if isinstance(answer, Unmeasured) or answer.value is None:
        return "-"
    cost = name == "efficiency.cost_usd"
    return format_number(answer.value, "usd") if cost else f"{answer.value:,.0f}"


# Steps shown before the first mark, so that what led to it can be read.
LEAD_IN = 2
# Lines of evidence a suspect may take; the step itself says the rest.
EVIDENCE_LINES = 3
# Suspects named below a run.
MOST_SUSPECTS = 8
# Measures whose names say something else in a sentence: one is the name of an axis, too.
MEASURES = {"termination": "end of the run", "localise": "suspects from calls"}
# What is said of the steps that a measure cites, with this label if one is named.
VERDICTS = {
    ("policy", None): "violations at step {}",
    ("errors", None): "errors at step {}",
    ("redundant_calls", None): "repeats at step {}",
    ("subgoals.other_writes", None): "writes not in the reference solution at step {}",
    ("loops", None): "loops at step {}",
    ("termination", "limit"): "the run was cut off at step {}",
    ("termination", "too_early"): "the run ended at step {} before everything was done",
    ("termination", "too_late"): "the agent wrote at step {} after everything was done",
}


def describe_run(data: runs.RunData, *, chosen: range | None = None, width: int = 100) -> list[str]:
    """Return a run as lines; without `chosen` the beginning is folded and the curve drawn."""
    trajectory, found, marks = data.trajectory, data.found, data.marks
    shown = chosen
    if shown is None:
        start = max(min(marks, default=0) - LEAD_IN, 0)
        shown = range(start if start > 1 else 0, len(trajectory.steps))
    if trajectory.source.format == SCORES and chosen is None:
        shown = range(len(trajectory.steps), len(trajectory.steps))
    outcome = trajectory.outcome
    said = {"pass": "PASS", "fail": "FAIL", "unknown": "no outcome recorded"}[outcome.status]
    if why := runs.explain_outcome(trajectory):
        said += f" ({why})"
    if others := trajectory.contradictions:
        said += f", but {visible_line(', '.join(others))}"
    calls = trajectory.exchanges
    errors = sum(e.failed for e in calls)
    about = {"task": trajectory.task, "trial": trajectory.trial, "agent": trajectory.agent}
    known = [f"{name} {visible_line(v)}" for name, v in about.items() if v is not None]
    head = f"{visible_line(trajectory.name)}   {said}   {len(trajectory.steps)} steps, "
    out = [*words.fold(f"{head}{len(calls)} calls, {errors} errors   {', '.join(known)}", width, 2)]
    folded = [range(0, shown.start), range(shown.stop, len(trajectory.steps))]
    if trajectory.source.format == SCORES:
        folded = [range(0), range(0)]
    out += _fold_line(trajectory, folded[0], width)
    made, _ = group_calls(trajectory, range(len(trajectory.steps)))
    previous = {e.call.name: e for e in calls if e.step < shown.start}
    for index in shown:
        mark = marks.get(index, runs.UNMARKED)
        step = trajectory.steps[index]
        marked_actor = "call" if step.calls else None
        for actor, said in _lines(step, made.get(index, ()), previous):
            here = actor == marked_actor or marked_actor is None
            out.append(_lay_out(index, actor, said, mark if here else runs.UNMARKED, width))
            mark = runs.UNMARKED if here else mark
    out += _fold_line(trajectory, folded[1], width)
    if isinstance(data.curve, Curve) and chosen is None:
        out += draw_curve(data.curve, width)
    out += describe_failure(data.look, width) + describe_suspects(data.suspects, width)
    out += describe_certainty(data.look, width) + describe_axes(found, width)
    out += _verdicts(trajectory, found, width)
    return out + describe_judges(trajectory, data.records, width)


def _fold_line(trajectory: Trajectory, steps: range, width: int) -> list[str]:
    if not steps:
        return []
    inside = [e for e in trajectory.exchanges if e.step in steps]
    failed = sum(e.failed for e in inside)
    actors = Counter(trajectory.steps[index].actor for index in steps)
    parts = ["the system prompt"] if actors["system"] else []
    parts += [format_count(actors["user"], "user message")] if actors["user"] else []
    if inside:
        failing = f" ({failed} failed)" if failed else ""
        kind = "call" if failed else "successful call"
        parts.append(format_count(len(inside), kind) + failing)
    left = f"{f'{steps[0]}-{steps[-1]}':>11}  folded: {', '.join(parts) or 'words only'}"
    hint = f"--steps {steps[0]}:{steps[-1] + 1} shows them"
    return [left + hint.rjust(width - len(left)) if len(left) + len(hint) < width else left]


def describe_failure(look: LookFirst, width: int) -> list[str]:
    """Return why the run failed, which is no suspect."""
    head = "Failed because  " if look.outcome == "fail" else "Not done  "
    said = words.fold(head + visible_line(look.because), width, 10) if look.because else []
    return words.keep_first_lines(said, EVIDENCE_LINES, width)


def describe_suspects(marked: Sequence[SuspectSteps], width: int) -> list[str]:
    """Return the suspects, one a line, most telling first, with their probabilities."""
    out = []
    for at, suspect in enumerate(marked[:MOST_SUSPECTS]):
        share = "" if suspect.share is None else f"{words.format_chance(suspect.share):>5}  "
        head = f"{'Suspects' if at == 0 else '':<10}{words.name_steps(suspect):>7}  {share}"
        said = words.fold(head + visible_line(suspect.evidence), width, len(head))
        out += words.keep_first_lines(said, EVIDENCE_LINES, width)
    left = len(marked) - MOST_SUSPECTS
    return out + ([f"{'':<10}and {left} more steps (--json prints all)"] if left > 0 else [])


def describe_certainty(look: LookFirst, width: int) -> list[str]:
    """Return how likely no step of the agent is at fault, and how often such a list is right."""
    if not look.reliability or not look.suspects:
        return []
    said = words.fold(f"{'':<10}{look.reliability}.", width, 10)
    if look.nobody is None:
        return said
    lead = f"{'':<10}{'-':>7}  {words.format_chance(look.nobody):>5}  "
    return [f"{lead}the cause is not a step of the agent, or the rules did not see it", *said]


def _verdicts(trajectory: Trajectory, found: RuleFindings, width: int) -> list[str]:
    if not found.whole and not found.absent:
        return ["Verdicts  none yet: run `stepscope score`"]
    said = []
    for (measure, only), where in VERDICTS.items():
        verdict = found.whole.get(measure)
        if verdict is not None and verdict.cites and only in (None, verdict.label):
            cited = where.format(", ".join(map(str, verdict.cites)))
            said.append(cited.replace("step", "steps", 1) if len(verdict.cites) > 1 else cited)
    goals = found.whole.get("subgoals")
    if goals is not None:
        how = goals.reason if goals.label == ANOTHER_WAY else goals.label or goals.value
        said.insert(0, f"sub-goals reached: {how}")
    rules = visible_line(" · ".join(said) or "nothing found")
    out = words.fold(f"Verdicts (rules)  {rules}", width, 10)
    answers: dict[str, Verdict | Unmeasured] = {**found.whole, **found.absent}
    own = " · ".join(
        f"{name} {_verdict(one) if isinstance(one, Verdict) else f'{one.kind}: {one.reason}'}"
        for name, one in answers.items()
        if is_custom(name)
    )
    out += words.fold(f"Own measures  {visible_line(own)}", width, 10) if own else []
    if (lacks := found.whole.get(COMPLETENESS_NAME)) is not None:
        out += words.fold(f"Missing data  {lacks.reason}", width, 10)
    if lost := _lost(found):
        out += words.fold("Unmeasured  " + visible_line(lost), width, 10)
    for label in trajectory.labels:
        where = "" if label.step is None else f" at {label.step}"
        text = f"Label ({label.annotator})  {label.kind}{where} {label.category or ''}"
        out.append(words.clip(visible_line(f"{text} {label.reason}"), width))
    return out


def _lost(found: RuleFindings) -> str:
    """Say what could not be measured, by kind; where the question does not arise, nothing.

    A ratio to the baseline is left out: what it lacks is said by its numerator; so is the share of
    no step, which lacks what `localise` lacks.
    """
    by_kind: dict[str, dict[str, list[str]]] = {}
    for name, answer in sorted(found.absent.items()):
        said_elsewhere = name.startswith(("efficiency_ratio", NOBODY_NAME))
        if answer.kind != "not_applicable" and not said_elsewhere:
            measure, _, aspect = name.partition(".")
            measure = MEASURES.get(measure, measure)
            by_kind.setdefault(answer.kind, {}).setdefault(measure, []).append(aspect)
    said = []
    for kind, measures in by_kind.items():
        named = ((measure, ", ".join(filter(None, found))) for measure, found in measures.items())
        told = (f"{measure} ({aspects})" if aspects else measure for measure, aspects in named)
        said.append(f"{kind}: {', '.join(told)}")
    return " · ".join(said)


def describe_step(data: runs.RunData, step: int, *, width: int) -> list[str]:
    """Return one step whole: every text, call and result in full, made visible."""
    _check(data.trajectory, step)
    whole = data.trajectory.steps[step]
    out = [f"Step {step} of {visible_line(data.trajectory.name)}: {whole.actor} {whole.kind}"]
    out += [visible(part.text) for part in whole.parts if part.text is not None]
    for call in whole.calls:
        given = (call.raw or "") if call.arguments is None else words.format_json(call.arguments)
        out.append(f"call {visible_line(call.name)} {visible(given)}")
        if call.parse_error is not None:
            out.append(f"arguments that could not be read: {visible_line(call.parse_error)}")
    for result in whole.results:
        out += [f"result {result.status} ({result.source})", visible(words.quote_result(result))]
    if whole.error is not None:
        out.append(f"error {visible(whole.error)}")
    out += describe_suspects([s for s in data.suspects if s.first <= step <= s.last], width)
    out += describe_axes_at(data.found, step, width)
    return out + describe_judges_at(data.records, step, width)


# A remark on the right keeps at least this much of the line for the call itself.
REMARK_WIDTH = 46
STATUS = {"ok": "  ok", "error": " err", "unknown": "   ?"}


def _lines(
    step: Step, made: Sequence[Exchange], previous: dict[str, Exchange]
) -> Iterator[tuple[str, str]]:
    media = [f"[{part.kind} {part.media_type or ''}]" for part in step.parts if part.text is None]
    text = " ".join([step.text, *media]).strip()
    if not step.results and (text or not step.calls):
        actor = "env" if step.actor == "environment" else step.actor
        yield actor, text or f"({step.kind}, no text)"
    for exchange in made:
        before = previous.get(exchange.call.name)
        yield "call", words.describe_call(exchange.call, before.call if before else None)
        previous[exchange.call.name] = exchange
    for result in step.results:
        yield STATUS[result.status], words.quote_result(result)


def _lay_out(step: int, actor: str, text: str, mark: runs.StepMark, width: int) -> str:
    head = f" {mark.sign:<1}{step:>4} {actor:<6} "
    remark = words.clip(visible_line(mark.remark), REMARK_WIDTH)
    body = words.clip(visible_line(text), width - len(head) - (len(remark) + 2 if remark else 0))
    return (head + body + (remark.rjust(width - len(head) - len(body)) if remark else "")).rstrip()


# Lines of evidence an axis may take.
AXIS_LINES = 2
# Steps named of one axis; its records hold all.
AXIS_CITES = 8
NOTHING_PROVED = "checked, nothing proved"


def describe_axes(found: RuleFindings, width: int) -> list[str]:
    """Return the verdicts of the axes as lines; none where no axis has a record."""
    out: list[str] = []
    others: dict[str, list[str]] = {}
    for key, name in words.AXES.items():
        verdict, absent = found.whole.get(key), found.absent.get(key)
        if verdict is not None and verdict.label == words.INCORRECT:
            cites = words.list_some(verdict.cites, AXIS_CITES)
            said = f"{_head(out)}{name} incorrect [{cites}]: {verdict.reason}"
            lines = words.fold(visible_line(said), width, 10)
            out += words.keep_first_lines(lines, AXIS_LINES, width)
        else:
            unscored = "not scored" if absent is None else absent.kind.replace("_", " ")
            others.setdefault(unscored if verdict is None else NOTHING_PROVED, []).append(name)
    if not out and set(others) == {"not scored"}:
        return []
    order = sorted(others, key=lambda one: (one != NOTHING_PROVED, one == "not scored", one))
    rest = " · ".join(f"{label}: {', '.join(others[label])}" for label in order)
    return out + (words.fold(_head(out) + visible_line(rest), width, 10) if rest else [])


def describe_axes_at(found: RuleFindings, step: int, width: int) -> list[str]:
    """Return what the axes say against one step, whole."""
    out: list[str] = []
    for key, name in words.AXES.items():
        for verdict in found.by_step.get(key, ()):
            if verdict.label == words.INCORRECT and step in (verdict.step, *verdict.cites):
                said = f"{_head(out)}{name} incorrect at {verdict.step}: {verdict.reason}"
                out += words.fold(visible_line(said), width, 10)
    return out


def _head(before: list[str]) -> str:
    return f"{'' if before else 'Axes':<10}"


# Lines that the evidence of one verdict may take, and steps named of it.
VERDICT_LINES, VERDICT_CITES = 2, 8
ABSENT = "absent"


def describe_judges(trajectory: Trajectory, records: Sequence[Record], width: int) -> list[str]:
    """Return what judges say of a run as lines; none where no judge was asked."""
    by_judge: dict[str, list[CurrentAnswer]] = {}
    for one in votes.select_current(records):
        by_judge.setdefault(one.asked.judge, []).append(one)
    marked = votes.find_patterns(trajectory, records) if by_judge else {}
    out: list[str] = []
    for judge, all_ in by_judge.items():
        out += words.fold(f"Verdicts ({visible_line(judge)})", width, 2)
        for said in _said(all_):
            lines = words.fold("  " + visible_line(said), width, 6)
            out += words.keep_first_lines(lines, VERDICT_LINES, width)
        for name, found in marked.get(judge, {}).items():
            named = name.replace("_", " ") + _bracket_steps([pattern.step for pattern in found])
            said = f"  {named}: {votes.describe_pattern(found)}. {PATTERN_ADVICE[name]}"
            out += words.fold(said, width, 6)
    return out


def _said(all_: Sequence[CurrentAnswer]) -> Iterator[str]:
    """Yield what one judge says, a line a fault or what outranks; other answers share lines."""
    rest: dict[str, list[str]] = {}
    steps: dict[str, dict[str, list[CurrentAnswer]]] = {}
    for one in all_:
        answer, name = one.record.answer, words.name_rubric(one.asked.measure)
        if not isinstance(answer, Verdict):
            if answer.step is None:
                rest.setdefault(votes.classify_absence(answer.reason, answer.kind), []).append(name)
        elif answer.step is not None:
            label = answer.label or ""
            steps.setdefault(one.asked.measure, {}).setdefault(label, []).append(one)
        elif answer.label is not None and (
            answer.label not in ("correct", "uncertain", "not_applicable")
            or one.turns
            or votes.is_outranked(one.record)
        ):
            yield f"{name} {_verdict(answer)}{_why(one)}"
        elif answer.label is not None:
            rest.setdefault(answer.label, []).append(name)
    for measure, labels in steps.items():
        yield f"{words.name_rubric(measure)}: {_labelled(measure, labels)}"
    if rest:
        yield " · ".join(f"{label}: {', '.join(names)}" for label, names in sorted(rest.items()))


def _verdict(answer: Verdict) -> str:
    sure = "" if answer.confidence is None else f" {format_number(answer.confidence)}"
    return f"{answer.label or runs.format_value(answer)}{sure}{_bracket_steps(answer.cites)}"


def _why(one: CurrentAnswer) -> str:
    turns = f" ({', '.join(one.turns)})" if one.turns else ""
    return f"{turns}: {one.record.answer.reason}" if one.record.answer.reason else turns


def _bracket_steps(cites: Collection[int]) -> str:
    return f" [{words.list_some(cites, VERDICT_CITES)}]" if cites else ""


def _labelled(measure: str, labels: dict[str, list[CurrentAnswer]]) -> str:
    if measure == STEP_SCORES:
        answers = [one.record.answer for all_ in labels.values() for one in all_]
        values = [x.value for x in answers if isinstance(x, Verdict) and x.value is not None]
        low, high = min(values, default=0.0), max(values, default=0.0)
        return f"{len(values)} steps scored, {format_number(low)} to {format_number(high)}"
    told_of = [*votes.AGAINST, votes.PRESENT]
    told = [label for label in told_of if label in labels]
    said = [f"{label}{_bracket_steps(_steps(labels[label]))}" for label in told]
    said += [f"{len(all_)} {label}" for label, all_ in labels.items() if label not in told_of]
    turned = [one for all_ in labels.values() for one in all_ if one.turns]
    if turned:
        said.append(f"turning{_bracket_steps(_steps(turned))}")
    return " · ".join(said)


def _steps(all_: Sequence[CurrentAnswer]) -> list[int]:
    return [one.record.answer.step for one in all_ if one.record.answer.step is not None]


def describe_judges_at(records: Sequence[Record], step: int, width: int) -> list[str]:
    """Return what judges say of one step, whole, and which of their verdicts rest on it."""
    out: list[str] = []
    for one in votes.select_current(records):
        answer = one.record.answer
        if not isinstance(answer, Verdict):
            continue
        name = f"{one.asked.judge}: {words.name_rubric(one.asked.measure)}"
        if answer.step == step and answer.label != ABSENT:
            value = "" if answer.value is None else f" {format_number(answer.value)}"
            said = f"{name} {answer.label or 'score'}{value}{_why(one)}"
        elif answer.step is None and answer.label == words.INCORRECT and step in answer.cites:
            said = f"{name} {_verdict(answer)}{_why(one)}"
        else:
            continue
        out += words.fold(visible_line(said), width, 10)
    return out


BLOCKS = " ▁▂▃▄▅▆▇█"
# Rows of bars, eight levels each.
HEIGHT = 4
MARGIN = 16
# A probability below this is no bar.
LEAST = 0.01
# Steps named in a line.
MOST_STEPS = 8


def draw_sparkline(scores: Sequence[float | None]) -> str:
    """Return scores from 0 to 1 as one row of bars, a dot where there is none."""
    heights = (None if x is None else min(int(min(max(x, 0.0), 1.0) * 8), 7) for x in scores)
    return "".join(["·" if height is None else BLOCKS[1 + height] for height in heights])


def draw_curve(curve: Curve, width: int) -> list[str]:
    """Return a curve as lines of text, none longer than `width`."""
    out = [*_drawn(curve, width), *words.fold(f"{'Shape':<10}{_shape(curve)}", width, 10)]
    noise = "" if curve.sigma is None else f"{format_number(curve.sigma)}, "
    of = f" of {visible_line(curve.judge)}" if curve.judge else ""
    times = f", means of {curve.repeats} scorings" if curve.repeats > 1 else ""
    rest = f"{runs.SOURCES[curve.source]}{of}{times}; noise {noise}{runs.NOISE[curve.sigma_source]}"
    steps = words.list_some(curve.watch, MOST_STEPS)
    watch = f"watch {steps}: latency or cost spikes and the score holds" if steps else ""
    for text in (_describe_break(curve), _gate(curve), watch, *curve.notes, rest):
        if text:
            out += words.fold(f"{'':<10}{text}", width, 10)
    return out


def _drawn(curve: Curve, width: int) -> Iterator[str]:
    room = max(width - MARGIN, 10)
    count = len(curve.steps)
    columns = min(count, room)
    ends = [count * column // columns for column in range(columns + 1)] if columns else []
    bins = [range(a, b) for a, b in pairwise(ends)]
    known = [[s for i in each if (s := curve.scores[i]) is not None] for each in bins]
    lows = [min(scores, default=None) for scores in known]
    wide = max(1, min(3, room // max(len(bins), 1)))
    names = {0: "1.0", HEIGHT // 2: "0.5"}
    for row in range(HEIGHT):
        bars = "".join([_bar(low, HEIGHT - 1 - row) * wide for low in lows])
        title = "Curve" if row == 0 else ""
        yield f"{title:<10}{names.get(row, ''):>4}  {bars}".rstrip()
    if max(curve.break_probability, default=0.0) >= LEAST:
        sums = [sum(curve.break_probability[i] for i in each) for each in bins]
        bars = "".join([(draw_sparkline([p]) if p >= LEAST else " ") * wide for p in sums])
        yield f"{'':<8}{'break':>6}  {bars}".rstrip()
    yield f"{'':<8}{'steps':>6}  {_axis(curve, bins, wide)}".rstrip()


def _bar(value: float | None, row: int) -> str:
    if value is None:
        return "·" if row == 0 else " "
    least = 1 if row == 0 else 0
    return BLOCKS[min(max(round(value * HEIGHT * 8) - 8 * row, least), 8)]


def _axis(curve: Curve, bins: Sequence[range], wide: int) -> str:
    """Return the first step, the break and the last step under their columns, where they fit."""
    line = str(curve.steps[0]) if curve.steps else ""
    if curve.break_step is not None:
        entry = curve.steps.index(curve.break_step)
        at = wide * next(column for column, each in enumerate(bins) if entry in each)
        if at > len(line):
            line = line.ljust(at) + str(curve.break_step)
    last = str(curve.steps[-1]) if curve.steps else ""
    at = wide * len(bins) - len(last)
    return line.ljust(at) + last if at > len(line) else line


def _shape(curve: Curve) -> str:
    if isinstance(curve.shape, Unmeasured):
        return f"none: {visible_line(curve.shape.reason)}"
    best, second = curve.best, curve.runner_up
    parts = [curve.shape.replace("_", " ")]
    if curve.unmodelled:
        parts = ["unmodelled: no shape fits these scores"]
    elif best is not None and second is not None:
        odds = f"{_named(curve, best)}, {_named(curve, second)}"
        found = f" {format_percent(curve.posterior[best])}; second: {_named(curve, second)}"
        parts = [parts[0] + (f": {odds}" if curve.shape == "unresolved" else found)]
    if curve.mean is not None:
        parts.append(f"mean {_interval(curve.mean)}{', low' if curve.low_level else ''}")
    if curve.depth is not None and not curve.unmodelled and curve.shape != "unresolved":
        parts.append(f"drop {_interval(curve.depth)}")
    return " · ".join(parts)


def _named(curve: Curve, name: str) -> str:
    return f"{words.name_shape(name)} {format_percent(curve.posterior[name])}"


def _interval(found: CredibleInterval) -> str:
    return f"{format_number(found.value)}, {format_limits(found.low, found.high)}"


def _describe_break(curve: Curve) -> str:
    if curve.break_step is None or curve.break_first is None or curve.break_last is None:
        return ""
    where = "-".join(dict.fromkeys(map(str, (curve.break_first, curve.break_last))))
    sure = format_percent(sum(curve.break_probability))
    said = f"breaks at step {curve.break_step} (90 % interval: step {where})"
    return f"{said}; probability that there is a break: {sure}"


def _gate(curve: Curve) -> str:
    if curve.weights is None:
        return ""
    mean = "" if curve.weighted is None else f"weighted mean {format_number(curve.weighted)}"
    if not curve.gate_failed:
        return f"{mean}; no gate failed" if mean else ""
    score, floor = dict(zip(curve.steps, curve.scores, strict=True)), format_number(FLOOR)
    shown = ((step, format_number(score[step] or 0.0)) for step in curve.gate_failed)
    failed = ", ".join(f"{step} ({value}, below {floor})" for step, value in shown)
    return f"gate failed at {failed}" + (f", whatever the {mean} says" if mean else "")
