"""How figures, runs and calls are written, the same in every output: names, numbers, cut texts.

Nothing is estimated here; numbers are written by `values`. Untrusted text is made visible where it
is printed, unless a docstring says otherwise.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from stepscope import values
from stepscope.errors import UsageError
from stepscope.model import Json, ToolCall, ToolResult
from stepscope.model.records import COMPLETENESS_NAME, INPUTS, Figure
from stepscope.model.signatures import generalise, sign_step
from stepscope.report import types
from stepscope.report.document import DrawnInterval, Paragraph, TableCell, TableRow, Tone, make_row
from stepscope.safety.text import visible_line

# Units of the figures that have a median, and what they are called.
UNITS = {"steps": "steps", "tokens": "tokens", "cost_usd": "usd", "seconds": "seconds"}
_AMOUNTS = {"steps": "steps", "tokens": "tokens", "cost_usd": "cost", "seconds": "latency"}
# Figure -> the measure (and aspect) whose answers it is made of.
MEASURES: dict[str, str] = {
    "outcome.pass": "outcome",
    "subgoals.reached": "subgoals.reached",
    "redundant_calls.per_run": "redundant_calls.count",
    "errors.recovered": "recovery.recovered",
    "policy.violations": "policy",
    **{amount: f"efficiency.{amount}" for amount in UNITS},
}
# Read beside them: for joint tables, and to choose the runs to look at first.
ALSO_READ = (
    *("errors", "recovery", "loops", "subgoals", "subgoals.total", "subgoals.other_writes"),
    *(f"{COMPLETENESS_NAME}.{name}" for name in INPUTS),
)

# The evidence judge, one measure an axis: the figure is the share of judged runs that are
# incorrect, and the measure has the same name.
AXES: dict[str, str] = {
    "axes.tool_selection": "tool selection",
    "axes.argument_validity": "argument validity",
    "axes.sequencing": "sequencing",
    "axes.result_interpretation": "result interpretation",
    "axes.termination": "termination",
}

# Figure -> the measure whose answers are compared.
COMPARED = {
    "outcome.pass": "outcome",
    "subgoals.reached": "subgoals",
    "redundant_calls.per_run": "redundant_calls.count",
    "errors.per_run": "errors",
    "errors.recovered": "recovery",
    "policy.violations": "policy",
    **{f"{amount}.mean": f"efficiency.{amount}" for amount in UNITS},
    **{key: key for key in AXES},
}
# Units of the figures of which a run has a number.
RATES = {"redundant_calls.per_run": "calls", "errors.per_run": "errors"}
# Before the key of an axis: what judges answer, not the rules.
JUDGED = "judged."

LABELS: dict[str, str] = {
    "outcome.pass": "outcome: pass",
    "subgoals.reached": "sub-goals reached",
    "redundant_calls.per_run": "redundant calls per run",
    "errors.per_run": "errors per run",
    "errors.recovered": "errors recovered",
    "policy.violations": "runs that break the policy",
    **{
        f"{key}.{how}": f"{name}, {how}"
        for key, name in _AMOUNTS.items()
        for how in ("median", "mean")
    },
    **{f"{key}.p95": "  p95" for key in _AMOUNTS},
    **{key: f"fault in {name}" for key, name in AXES.items()},
    **{JUDGED + key: f"fault in {name}, by judges" for key, name in AXES.items()},
}

# Not a kind of Unmeasured: the run has no record of the measure at all.
NOT_SCORED = "not_scored"
SCORE_FIRST = "run `stepscope score`"

REASONS: dict[tuple[str, str], str] = {
    ("outcome", "missing_input"): "no reward, check or label",
    ("outcome", "insufficient_data"): "too few trials",
    ("subgoals", "not_applicable"): "the reference solution changes nothing",
    ("subgoals", "missing_input"): "no case to measure against",
    ("redundant_calls", "not_applicable"): "no calls",
    ("errors", "not_applicable"): "no tool error",
    ("errors", "missing_input"): "no result says ok or error",
    ("policy", "missing_input"): "no rules in settings",
    ("tokens", "missing_input"): "not in the trace",
    ("cost_usd", "missing_input"): "not in the trace",
    ("seconds", "missing_input"): "not in the trace",
    ("axes", "not_applicable"): "nothing to judge",
}


def explain_absence(key: str, kind: str) -> str:
    """Return why a figure has no answer of this kind, in few words; "" when nothing is known."""
    if kind == NOT_SCORED:
        return SCORE_FIRST
    return REASONS.get((key.split(".")[0], kind), "")


def give_reason(key: str, figure: Figure) -> Figure:
    """Give an absent figure the reason that a reader can act on, where one is known."""
    if not isinstance(figure, values.Unmeasured):
        return figure
    why = explain_absence(key, NOT_SCORED if NOT_SCORED in figure.reason else figure.kind)
    return values.Unmeasured(figure.kind, why) if why else figure


INCORRECT = "incorrect"
# A tool's name before what it did, as `suspects` writes it; what was called last, before what
# never was; that the error quoted is the last one.
_SPARE = re.compile(
    r"^\S+ (?:is )?(?=(?:fails|not as expected|as expected)\b)"
    r"|^the agent stopped after \S+ at step \d+ and (?=never called )"
    r"|; last error(?=: )"
)
# A word longer than this is cut inside: going back to its start would lose more than it saves.
LONGEST_WORD = 24
# What may not stand before an ellipsis: an opened bracket, a joint, half a list.
_LOOSE = " ,;:.(+-…"


def cut_words(text: str, width: int) -> str:
    """Cut `text` to `width` columns between words, its end marked."""
    if len(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    space = kept.rfind(" ")
    if text[len(kept)] != " " and space > len(kept) - LONGEST_WORD:
        kept = kept[: max(space, 0)]
    return kept.rstrip(_LOOSE) + "…"


def shorten(text: str, width: int, *, ends: bool) -> str:
    """Cut `text` to `width` columns; with `ends` its last words are kept as well as its first.

    The claim before a colon stays whole where it leaves room for the end of its evidence.

    >>> shorten("book fails 5 times: total price is 1203, but paid 833", 36, ends=True)
    'fails 5 times: …1203, but paid 833'
    >>> shorten("says 'One bag has been added for you now.', but no call did that", 52, ends=True)
    "says 'One bag has been added…', but no call did that"
    """
    if len(text) > width:
        text = _SPARE.sub("", text)
    if len(text) <= width or not ends:
        return cut_words(text, width)
    # What is behind a quotation stays whole, its closing mark included.
    behind = text[max(text.rfind("', "), text.rfind('", ')) :]
    if 2 * len(behind) < width and behind != text[-1:]:
        return cut_words(text[: -len(behind)], width - len(behind)) + behind
    head = text.find(": ") + 2
    if not 2 < head <= 3 * width // 4:
        head = text.rfind(" ", 0, 3 * width // 5) + 1 or 3 * width // 5
    tail = text[len(text) - (width - 1 - head) :]
    start = 0 if text[len(text) - len(tail) - 1] == " " else tail.find(" ") + 1
    return text[:head] + "…" + tail[start if start <= LONGEST_WORD else 0 :].lstrip()


def keep_first_lines(lines: list[str], most: int, width: int) -> list[str]:
    """Return at most so many lines of a folded text; where more follow, the last one says so."""
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    kept = last if len(last) < width else last.rpartition(" ")[0]
    return [*lines[: most - 1], kept.rstrip(_LOOSE) + "…"]


# A text of one or two characters says nothing without the name of its argument.
SHORT_TEXT = 2
# Below this many arguments a repeated call is clearer in full than as a difference.
WORTH_A_DIFFERENCE = 3
# No evidence needs more of one value than this many characters.
VALUE_WIDTH = 60


def describe_call(call: ToolCall, earlier: ToolCall | None = None) -> str:
    """Return the call as `name(values)`; against an `earlier` call, only what changed.

    >>> describe_call(ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 0}))
    'book(DTW, SEA, bags=0)'
    >>> describe_call(ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 1}),
    ...       ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 0}))
    'book(... bags=1)'
    """
    given = call.arguments
    if not isinstance(given, dict):
        return f"{call.name}({call.raw or '' if given is None else describe_value(given)})"
    before = earlier.arguments if earlier is not None and earlier.name == call.name else None
    if isinstance(before, dict) and len(given) >= WORTH_A_DIFFERENCE:
        if 2 * sum(bool(given.get(key) == item) for key, item in before.items()) > len(given):
            changed = [_named(path, new) for path, _, new in find_differences(before, given)]
            return f"{call.name}(... {', '.join(changed) or 'the same'})"
    return f"{call.name}({', '.join(_argument(name, item) for name, item in given.items())})"


def describe_value(item: Json) -> str:
    """Return an argument in few words: members of a list joined by `+`, of an object by spaces."""
    if isinstance(item, dict):
        return " ".join(describe_value(member) for member in item.values())
    if isinstance(item, list | tuple):
        return " + ".join(describe_value(member) for member in item) if item else "[]"
    if isinstance(item, bool) or item is None:
        return {True: "true", False: "false", None: "null"}[item]
    return item if isinstance(item, str) else str(item)


def find_differences(before: Json, after: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Yield every place where two arguments differ: its path, the value before, the value after."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*after, *(name for name in before if name not in after)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from find_differences(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for was, now in zip(before, after, strict=True):
            yield from find_differences(was, now, path)
    elif before != after:
        yield path, before, after


def brief_value(item: Json) -> str:
    """Return a value cut to a length that evidence can carry."""
    return cut_words(describe_value(item), VALUE_WIDTH)


def _argument(name: str, item: Json) -> str:
    if isinstance(item, str) and len(item) > SHORT_TEXT:
        return item
    return describe_value(item) if isinstance(item, list | dict) and item else _named(name, item)


def _named(path: str, item: Json) -> str:
    return f"{path}={describe_value(item) or repr(item)}"


def list_figures(profile: types.Profile) -> tuple[dict[str, TableRow], str]:
    """Return the vector's lines by key (no axes, the largest pass^k), and what is not measured."""
    powers = [key for key in profile.figures if "^" in key]
    keys = [key for key in profile.figures if key not in AXES and key not in powers]
    if powers:
        keys.insert(keys.index("outcome.pass") + 1, powers[-1])
    lines: dict[str, TableRow] = {}
    absent: dict[str, list[str]] = {}
    for key in keys:
        figure = profile.figures[key]
        if isinstance(figure, values.Unmeasured):
            absent.setdefault(figure.reason or figure.kind, []).append(key)
        else:
            lines[key] = describe_figure(key, figure, note=profile.notes.get(key, ""))
    said = []
    for why, of in absent.items():
        names = dict.fromkeys(name_figure(key.replace("p95", "median")) for key in of)
        said.append(f"{', '.join(one.removesuffix(', median') for one in names)} ({why})")
    return lines, f"Not measured: {'; '.join(said)}." if said else ""


def is_unscored(figure: Figure) -> bool:
    """Whether there is no figure because nobody asked for it."""
    return isinstance(figure, values.Unmeasured) and figure.reason == SCORE_FIRST


def describe_figure(key: str, figure: Figure, *, note: str = "") -> TableRow:
    """Return one figure as a line: name, value, interval, n, what was not measured, and `note`."""
    name = name_figure(key)
    own = key not in LABELS and "^" not in key
    label = TableCell(name.strip(), level=int(name.startswith("  ")), code=own)
    if isinstance(figure, values.Unmeasured):
        absent = TableCell("-", tone="quiet")
        why = TableCell(f"{figure.kind}: {figure.reason}", tone="quiet")
        return make_row(label, absent, absent, absent, why)
    weak = (said for said in figure.diagnostics if said != figure.no_interval)
    said = _join(format_losses(key, figure), format_bounds(figure))
    remarks = _join(note, *weak)
    drawn = draw_interval(figure)
    whole = figure.unit == "share" and "^" not in key
    counted = f"{round(figure.value * figure.n):,} of " if whole else ""
    value = TableCell(values.format_number(figure.value, figure.unit), sort=figure.value)
    tone: Tone = "" if drawn else "quiet"
    limits = TableCell(values.format_interval(figure), interval=drawn, tone=tone)
    count = TableCell(counted + format_n(figure), sort=figure.n)
    row = make_row(label, value, limits, count, TableCell(said, tone="quiet"))
    return replace(row, below=(Paragraph(remarks, indent=4),)) if remarks else row


def draw_interval(figure: Figure) -> DrawnInterval | None:
    """Return a share's interval as it is drawn; None for other units and what has no limits."""
    if isinstance(figure, values.Unmeasured) or figure.unit != "share":
        return None
    if figure.low is None or figure.high is None:
        return None
    return DrawnInterval(low=100 * figure.low, value=100 * figure.value, high=100 * figure.high)


def name_figure(key: str) -> str:
    """Return the name of a figure as people read it."""
    return "  " + key.removeprefix("outcome.") if "^" in key else LABELS.get(key, key)


def describe_effect(shift: Figure) -> str:
    """Return a difference with its interval, or why there is none."""
    if isinstance(shift, values.Unmeasured):
        return f"{shift.kind}: {shift.reason}"
    return f"{values.format_difference(shift.value, shift.unit)}, {values.format_interval(shift)}"


def format_worst_case(figure: Figure) -> str:
    """Return the least and the greatest that the figure could be, "" where they are alike."""
    if isinstance(figure, values.Unmeasured) or figure.worst_low == figure.worst_high:
        return ""
    return values.format_limits(figure.worst_low, figure.worst_high, figure.unit)


def list_some(items: Collection[object], most: int, separator: str = " ") -> str:
    """Return the first of some things; where there are more, the end says so."""
    shown = separator.join(map(str, list(items)[:most]))
    return f"{shown} ..." if len(items) > most else shown


def format_n(estimate: values.Estimate) -> str:
    """Return how many of what an estimate counts; a single one loses its plural s."""
    unit = estimate.unit_of_n
    return f"{estimate.n:,} {unit[:-1] if estimate.n == 1 and unit.endswith('s') else unit}"


def format_losses(key: str, estimate: values.Estimate) -> str:
    """Return how many runs, of pass^k tasks, were not measured, by kind and why: "0" when none."""
    unit, said = "task" if "^" in key else "run", []
    for kind, count in sorted(estimate.unmeasured.items()):
        why = explain_absence(key, kind)
        if count:
            name = kind.replace("_", " ")
            said.append(f"{values.format_count(count, unit)} {name}{f' ({why})' if why else ''}")
    return ", ".join(said) or "0"


def format_bounds(estimate: values.Estimate) -> str:
    """Return the worst case over the unmeasured, where it differs from the value."""
    worst = format_worst_case(estimate)
    unit = " %" if estimate.unit == "share" else ""
    return f"worst case {worst}{unit}" if worst else ""


def _join(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def name_shape(shape: str) -> str:
    """Return a shape as people read it."""
    return shape.replace("_", " ")


def name_rubric(rubric: str) -> str:
    """Return a rubric as people read it; axes and behaviours need no name of their set."""
    of, _, aspect = rubric.replace("_", " ").partition(".")
    if of in ("axes", "behaviour"):
        return aspect
    return f"{of}: {aspect}" if aspect else of


def name_panel(panel: types.Panel) -> str:
    """Return the aspect that a panel judges as people read it."""
    said = name_rubric(panel.rubric)
    return said if panel.failing in (INCORRECT, "present") else f"{said}: {panel.failing}"


def shorten_names(judges: Iterable[str]) -> dict[str, str]:
    """Return what judges are called where there is little room: their model, if that tells them."""
    ends = {name: name.rpartition("/")[2] for name in judges}
    alone = {end for end, n in Counter(ends.values()).items() if n == 1 and end}
    return {name: end if end in alone else name for name, end in ends.items()}


class JudgeNames(dict[str, str]):
    """What judges are called; who is no judge of the report keeps its name."""

    def __missing__(self, name: str) -> str:
        return name


def name_judges(found: types.Panels) -> JudgeNames:
    """Return what the judges of a report are called."""
    sitting = dict.fromkeys(m.judge for panel in found.panels for m in panel.members)
    raters = dict.fromkeys(name for one in found.agreement for name in one.judges)
    return JudgeNames(shorten_names(dict.fromkeys([*found.judges, *sitting, *raters])))


def fold(text: str, width: int, indent: int) -> list[str]:
    """Break `text` at spaces into lines of `width`, all but the first indented."""
    lines = textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    return lines or [""]


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` columns, its end marked."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def name_group(profile: types.Profile) -> str:
    """Return the values of a group as people write them."""
    named = [value for value in profile.group.values() if value]
    return " · ".join(named or [f"no {field}" for field in profile.group])


def find_profile(report: types.Report, value: str) -> types.Profile:
    """Return the vector of the one group whose name is, or one of whose values is, `value`."""
    groups = report.profiles
    found = [x for x in groups if value == name_group(x) or value in x.group.values()]
    if len(found) != 1:
        have = ", ".join(repr(name_group(one)) for one in groups) or "none"
        raise UsageError(f"{len(found)} groups match {value!r}; the report has: {have}")
    return found[0]


def name_steps(one: types.SuspectSteps) -> str:
    """Return a step or a range of steps as people write it: `14` or `14-34`."""
    return str(one.first) if one.first == one.last else f"{one.first}-{one.last}"


def describe_profile(profile: types.Profile, report: types.Report) -> tuple[str, str]:
    """Return the group, and what was read of it: runs, tasks, steps, calls, judges, seed."""
    judges = ", ".join(report.provenance.judges) or "none"
    return (visible_line(name_group(profile)) or "all runs"), (
        f"{values.format_count(profile.n_runs, 'run')}, {_tasks(profile)}, "
        f"{values.format_count(profile.n_steps, 'step')}, "
        f"{values.format_count(profile.n_calls, 'call')}   "
        f"judges: {visible_line(judges)}   seed {report.provenance.seed}"
    )


def _tasks(profile: types.Profile) -> str:
    n, trials, tasks = profile.n_tasks, profile.trials, values.format_count(profile.n_tasks, "task")
    # Trials are counted over graded runs: where others are among these, tasks x trials is no count.
    if trials is None or trials.high < 2 or not trials.low * n <= profile.n_runs <= trials.high * n:
        return tasks
    each = f"{trials.low}" if trials.low == trials.high else f"{trials.low} to {trials.high}"
    return f"{tasks} x {each} trials"


# What only runs that made some call should have.
_OF_CALLS = dict.fromkeys(("tools", "arguments", "results"), " with calls")


def describe_input(one: types.InputCount, *, name_first: bool = False) -> str:
    """Return in how many runs an input was recorded, and what cannot be told of the others."""
    name, blind = INPUTS[one.input]
    hidden = [f"{n:,} {state}" for state, n in one.lost.items() if state != "not_recorded"]
    how = f" ({', '.join(hidden)})" if hidden else ""
    held, made = one.runs - sum(one.lost.values()), _OF_CALLS.get(one.input, "")
    said = f"in {f'{held:,}' if held else 'none'} of {one.runs:,} runs{made}{how}"
    said = f"{name[0].upper()}{name[1:]}: {said}" if name_first else f"{said}: {name}"
    return f"{said} ({blind})" if one.lost else said


def describe_inputs(profile: types.Profile) -> str:
    """Return which inputs of the verdicts are in the traces, and what cannot be told of others."""
    whole = ", ".join(INPUTS[one.input][0] for one in profile.inputs if not one.lost)
    lost = [describe_input(one, name_first=bool(whole)) for one in profile.inputs if one.lost]
    return ". ".join([f"in all runs: {whole}", *lost] if whole else lost)


def note_unearned(table: types.OutcomeTable, profile: types.Profile) -> dict[str, str]:
    """Return a remark for each row, "pass" and "fail"; the first table names the unearned runs."""
    notes = dict(table.notes)
    if table is profile.earned[0]:
        asked: dict[str, Sequence[types.RunLine]] = {
            "right for the wrong reason?": [run for run in profile.lucky if run.sure],
            "may be right for the wrong reason:": [run for run in profile.lucky if not run.sure],
            "wrong for a right reason?": profile.unlucky,
        }
        said = [f"{lead} {name_some(runs, 2)}" if runs else "" for lead, runs in asked.items()]
        notes.setdefault("pass", _join(*said[:2], profile.notes.get("lucky", "")))
        notes.setdefault("fail", said[2])
    return notes


def name_some(runs: Sequence[types.RunLine], most: int) -> str:
    """Return the names of the first runs, and how many there are besides."""
    shown = ", ".join(run.name for run in runs[:most])
    return shown + (f" and {len(runs) - most:,} more" if len(runs) > most else "")


def describe_suspect(run: types.LookFirst) -> tuple[str, str]:
    """Return where to look in a run, how likely it is there, and why, in one line."""
    if run.note:
        return "-", run.note
    if not run.suspects:
        return "-", run.because or f"{run.verdict}: the rules found nothing to point at"
    first = run.suspects[0]
    share = "" if first.share is None else f" ({format_chance(first.share)})"
    return name_steps(first) + share, first.evidence


def mark_same_faults(found: Iterable[types.LookFirst]) -> Iterator[types.LookFirst]:
    """Yield runs, each with the first one before it of the same signature, or reason to fail."""
    seen: dict[tuple[str, ...], str] = {}
    for run in found:
        first = run.suspects[0] if run.suspects else None
        fault = "" if first is None else sign_step("", first.evidence) or first.evidence
        because = generalise(run.because) if first is None or first.kind == "place" else ""
        same = seen.setdefault((run.outcome, run.verdict, fault, because, run.note), run.id)
        yield run if same == run.id else msgspec.structs.replace(run, same_as=same)


def group_looks(
    found: Sequence[types.LookFirst],
) -> list[tuple[types.LookFirst, list[types.LookFirst]]]:
    """Return the runs to look at first, each with those after it that show the same fault."""
    groups: dict[str, list[types.LookFirst]] = {}
    for run in found:
        groups.setdefault(run.same_as or run.id, []).append(run)
    return [(run, others) for run, *others in groups.values()]


# Runs with the same fault that one line names.
MOST_ALIKE = 6


def name_alike(others: Sequence[types.LookFirst]) -> str:
    """Return the runs that show the same fault as one before them, and where, in one line."""
    named = []
    for run in others[:MOST_ALIKE]:
        where = describe_suspect(run)[0]
        named.append(run.name if where == "-" else f"{run.name} at step {where}")
    more = len(others) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def format_chance(share: float) -> str:
    """Return a probability in percent: it is never surer than a whole one."""
    if share < 0.01:
        return "<1 %"
    return ">99 %" if share > 0.99 else f"{100 * share:.0f} %"


def quote_result(result: ToolResult) -> str:
    """Return what a tool said, as text; an error without the word that only says it is one."""
    if result.status == "error":
        return (result.error or result.text).strip().removeprefix("Error:").strip()
    return result.text or ("" if result.structured is None else format_json(result.structured))


def format_json(value: object) -> str:
    """Return any value of the trace as compact JSON."""
    return msgspec.json.encode(value, order="deterministic").decode()
