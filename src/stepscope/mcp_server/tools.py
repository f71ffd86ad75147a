"""The eight tools: each reads the store, computes nothing of its own, and says it as an `Answer`.

What they say comes from the views of `report`, so that it is what pages and commands say. None of
them writes, spends, or opens a connection. Gates are not decided here, since each look at a commit
spends some of its alpha: `explain_gate` reads what `stepscope gate --json` wrote.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, structs

from stepscope.errors import UsageError, suggest_name
from stepscope.findings.modes import find_modes
from stepscope.gates.types import GateReport
from stepscope.judges.transcript import make_transcript
from stepscope.mcp_server.answers import MOST_ROWS, Answer, list_table
from stepscope.report import words
from stepscope.report.build import build_report, read_chosen_runs
from stepscope.report.compare import compare_groups
from stepscope.report.document import Paragraph, ServerLinks
from stepscope.report.render.data import read_gate_reports
from stepscope.report.rows import RunTable
from stepscope.report.views import gates as gate_views
from stepscope.report.views import overview, profile, show
from stepscope.report.views import run as run_views
from stepscope.report.views.compare import diff_runs, make_comparison_document, make_diff_document
from stepscope.report.views.runs import COLUMNS, make_run_rows, tabulate_runs
from stepscope.report.views.steps import TOLD_SHARE
from stepscope.safety.redact import hide_in
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import combine_filters
from stepscope.values import Unmeasured, format_count


@dataclass(frozen=True, slots=True)
class Query:
    """What a tool reads, and the answer that it adds to."""

    store: Store
    settings: Settings
    gates: tuple[Path, ...]  # files of `stepscope gate --json`, the latest last
    answer: Answer  # what a tool adds to


WhereText = Annotated[
    str, Meta(description="Only these runs, as: outcome = 'fail' and steps > 40 and task = '9'.")
]
Since = Annotated[str, Meta(description="Only runs since then: 7d, 12h, 2026-01-31.")]
Number = Annotated[int, Meta(ge=0, le=1 << 40)]
Offset = Annotated[Number, Meta(description="Begin at this one, counted from 0.")]
RunName = Annotated[str, Meta(description="A run: its id or the first digits of it, or its name.")]
StepAsked = Annotated[Number | None, Meta(description="Give the texts of this step, from 0 on.")]
Around = Annotated[int, Meta(ge=0, le=3, description="With step: steps before and after, too.")]
FirstStep = Annotated[Number, Meta(description="Without step: outline the run from here on.")]
Side = Annotated[str, Meta(description="A run by id or name; with `by`, a value of that field.")]
ByField = Annotated[str, Meta(description="A field that makes groups: agent, trial, tag.KEY.")]
GateName = Annotated[str, Meta(description="Only this gate, with its failing cases.")]
Needle = Annotated[str, Meta(min_length=2, max_length=200, description="Found in any case.")]

# Digits of an id that tell a run from the others.
ID_DIGITS = 12
# Lines of views are not folded, but cut to so many characters.
UNFOLDED, LINE = 1 << 20, 140
# Steps that one row cites.
CITED = 12
# Runs that one search opens, and characters that it shows on either side of what it finds.
MOST_SEARCHED, AROUND = 200, 60
NO_GATES = (
    "missing_input: no report of gates; `stepscope gate --json --out FILE`, `mcp --gates FILE`"
)


def list_runs(ask: Query, where: WhereText = "", since: Since = "", offset: Offset = 0) -> None:
    """List runs, those that say most of what breaks first, with outcome and counts."""
    rows = make_run_rows(_choose_runs(ask, where, since), ask.store.shown)
    _check_offset(offset, len(rows), "run")
    shown = rows[offset : offset + MOST_ROWS]
    lines = list_table(tabulate_runs(shown, rows, ServerLinks()))
    absent = ", ".join(label for label, _, _ in COLUMNS.values() if label not in lines[0])
    ask.answer.block("runs", ("not measured in any of them, see report", absent))
    ids = ["id", *(row.id[:ID_DIGITS] for row in shown)]
    table = [[id_, *line] for id_, line in zip(ids, lines, strict=True)]
    ask.answer.rows("runs", *table, first=offset, total=len(rows), onward="offset")


def get_run(
    ask: Query, run: RunName, step: StepAsked = None, around: Around = 2, first: FirstStep = 0
) -> None:
    """Read a run: an outline with a sentence a step, or the texts of a window of steps.

    Texts that do not fit are cut in the middle, the longest first: ask with a smaller `around`.
    """
    data = run_views.read_run(ask.store, run)
    count, asked = len(data.trajectory.steps), first if step is None else step
    if asked >= count:
        raise UsageError(f"step {asked}: the run has {format_count(count, 'step')}, from 0 on")
    _add_run(ask.answer, data)
    if step is None:
        lines = data.describe_steps(range(asked, min(asked + MOST_ROWS, count)))
        columns = ["step", "event", "what happens", "chance that it went wrong here"]
        rows = [[str(one.step), one.event, one.sentence, _chance(one.share)] for one in lines]
        ask.answer.rows("steps", columns, *rows, first=asked, total=count, onward="first")
    else:
        said = [x.evidence for x in data.suspects if x.first <= step <= x.last]
        ask.answer.block("suspected", (f"why step {step}", "\n".join(said)))
        copy = make_transcript(data.trajectory, redactor=ask.store.redactor, narration="on")
        ask.answer.blocks(copy.steps[max(step - around, 0) : step + around + 1])


def suspects(ask: Query, run: RunName, offset: Offset = 0) -> None:
    """Say where a run most likely went wrong: steps with probabilities, evidence, cited steps.

    Also why it failed, what rules, judges and people say, and what could not be measured, and why.
    """
    data = run_views.read_run(ask.store, run)
    look, trajectory = data.look, data.trajectory
    _check_offset(offset, len(look.suspects), "suspect")
    _add_run(ask.answer, data)
    none = ("chance that no step of the agent is at fault, or not seen", _chance(look.nobody))
    reasons = ("why it failed", look.because), none, ("how sure", look.reliability)
    ask.answer.block("verdict", *reasons)
    columns = ["step", "chance", "evidence", "steps that show it"]
    rows = [
        [words.name_steps(one), _chance(one.share), one.evidence, words.list_some(one.cites, CITED)]
        for one in look.suspects[offset:]
    ]
    ask.answer.rows("suspects", columns, *rows, first=offset, onward="offset")
    labels = run_views.collect_labels(trajectory).items()
    lost = run_views.list_unmeasured(data.records).items()
    for label, lines in (
        ("axes", show.describe_axes(data.found, UNFOLDED)),
        ("judges", show.describe_judges(trajectory, data.records, UNFOLDED)),
        ("people", [f"{'run' if at is None else at}: {'; '.join(said)}" for at, said in labels]),
        ("unmeasured", [f"{', '.join(names)}: {why} ({who})" for (who, why), names in lost]),
    ):
        if lines:
            said = "\n".join(words.cut_words(line.strip(), LINE) for line in lines)
            ask.answer.block(label, ("said", said))


def failure_modes(ask: Query, where: WhereText = "", since: Since = "", offset: Offset = 0) -> None:
    """List what went wrong in several runs, whether runs with it fail more often, and examples."""
    table = _choose_runs(ask, where, since)
    modes = find_modes(ask.store, table.runs, table.clusters, table.columns)
    found = hide_in(ask.store.shown, modes)
    if isinstance(found, Unmeasured):
        return ask.answer.block("modes, unmeasured", ("why", f"{found.kind}: {found.reason}"))
    columns, *rows = list_table(profile.tabulate_modes(found, ServerLinks()))
    _check_offset(offset, len(rows), "mode")
    lone = f"{found.n_lone:,} of {found.n_signatures:,}"
    together = "\n".join(profile.describe_modes(found))
    ask.answer.block("failure modes", ("all", together), ("signatures in too few runs", lone))
    ask.answer.rows("modes", columns, *rows[offset:], first=offset, onward="offset")


def compare_runs(ask: Query, a: Side, b: Side, by: ByField = "", where: WhereText = "") -> None:
    """Compare two runs call by call, beside other trials; with `by`, two groups, paired by task."""
    if by:
        chosen, seed = combine_filters(where or None), ask.settings.seed
        groups = compare_groups(ask.store, a, b, by=by, where=chosen, seed=seed)
        document = make_comparison_document(groups)
    else:
        document = make_diff_document(diff_runs(ask.store, a, b))
    for at, section in enumerate(document):
        ask.answer.section(f"comparison, part {at + 1}", section)


def explain_gate(ask: Query, gate: GateName = "") -> None:
    """Explain why gates passed, failed or are undecided: their numbers, and failing cases.

    Decides nothing: it reads what `stepscope gate --json` wrote.
    """
    documents = read_gate_reports(ask.gates)
    if not documents:
        return ask.answer.block("gates, unmeasured", ("why", NO_GATES))
    last = documents[-1]
    chosen = _choose_gates(last.report, gate)
    said = gate_views.make_gate_document(chosen, code=last.exit_code, remarks=last.remarks)
    # The last section sums up all gates.
    shown = said[:-1] if gate else said
    ask.answer.section("gates as decided", [part for section in shown for part in section])
    rows = [
        [x.case, ", ".join(x.runs), words.list_some(x.steps, CITED), x.evidence]
        for one in chosen.gates
        for x in one.failing
    ]
    if gate:
        ask.answer.rows("failing cases", ["case", "runs", "steps", "evidence"], *rows)


def search(ask: Query, text: Needle, where: WhereText = "", offset: Offset = 0) -> None:
    """Find a text in what was said, called and returned: run, step, and what stands around it.

    Looks at 200 runs, by name; `offset` counts runs.
    """
    chosen = combine_filters(where or None)
    keys = ask.store.runs(chosen).key.tolist()
    if not keys:
        raise UsageError(ask.store.explain_no_match(chosen))
    _check_offset(offset, len(keys), "run")
    rows, end = list[list[str]](), min(offset + MOST_SEARCHED, len(keys))
    for run in (stored.trajectory for stored in ask.store.stored(keys[offset:end])):
        # What judges read: a secret that is hidden is not found either.
        for block in make_transcript(run, redactor=ask.store.redactor, narration="on").steps:
            found = (_excerpt(piece.text, text.casefold()) for piece in block.pieces)
            if around := next(filter(None, found), ""):
                rows.append([run.id[:ID_DIGITS], run.name, str(block.at), block.actor, around])
    more = f"; go on with offset {end}" if end < len(keys) else ""
    ask.answer.block(f"searched runs {offset} to {end - 1} of {len(keys)}{more}")
    ask.answer.rows("steps that have it", ["id", "run", "step", "actor", "around it"], *rows)


def report(
    ask: Query, where: WhereText = "", since: Since = "", by: ByField = "", offset: Offset = 0
) -> None:
    """Report outcome and path of a group of runs, each figure with interval and what is unmeasured.

    Also which axes are at fault, and runs to look at first. `offset` chooses the group.
    """
    chosen, seed = combine_filters(where or None), ask.settings.seed
    found = build_report(
        ask.store, where=chosen, since=since or None, by=by or None, seed=seed, look_first=5
    )
    _check_offset(offset, len(found.profiles), "group")
    one = found.profiles[offset]
    named = [f"{at}: {words.name_group(each)}" for at, each in enumerate(found.profiles)]
    about = Paragraph(": ".join(words.describe_profile(one, found)))
    vector = overview.tabulate_vector(one, "vector")
    ask.answer.section(f"group {offset} of {len(found.profiles)}", [about, vector])
    tables = profile.tabulate_axes([one]), overview.tabulate_shapes([one])
    ask.answer.section("axes and shapes", [table for table in tables if table is not None])
    looks = found.look_first
    rows = [[run.id[:ID_DIGITS], run.name, *words.describe_suspect(run)] for run in looks]
    ask.answer.rows("runs to look at first", ["id", "run", "suspect step", "evidence"], *rows)
    ask.answer.block(
        "how to read it",
        ("warning", one.too_loose.reason if one.too_loose.outcome == "fail" else ""),
        ("recorded", words.describe_inputs(one) if one.inputs else ""),
        ("other groups, by offset", "\n".join(named[:offset] + named[offset + 1 :])),
        ("the list", overview.describe_list(found.look_first)),
        ("not claimed", ", ".join(found.not_claimed)),
    )


def _choose_runs(ask: Query, where: str, since: str) -> RunTable:
    chosen = combine_filters(where or None)
    return read_chosen_runs(ask.store, where=chosen, since=since or None, by=None)


def _check_offset(offset: int, count: int, what: str) -> None:
    if offset and offset >= count:
        raise UsageError(f"offset {offset}: there are {format_count(count, what)}, from 0 on")


def _add_run(answer: Answer, data: run_views.RunData) -> None:
    run = data.trajectory
    about = "; ".join([*run_views.place_run(run), *run_views.list_facts(run)])
    texts = {"id": run.id[:ID_DIGITS], "name": run.name, "about": about}
    texts["summary"] = run_views.sum_up(data)
    answer.block(f"run, outcome {run.outcome.status}", *texts.items())


def _chance(share: float | None) -> str:
    """Return a chance; "" where there is none, or next to none."""
    return "" if share is None or share < TOLD_SHARE else words.format_chance(share)


def _choose_gates(report: GateReport, gate: str) -> GateReport:
    kept = [
        structs.replace(one, gates=tuple(g for g in one.gates if gate in ("", g.name)))
        for one in report.workflows
    ]
    if gate and not any(one.gates for one in kept):
        near = suggest_name(gate, [one.name for one in report.gates])
        raise UsageError(f"no gate {gate!r} in the report; {near}")
    return structs.replace(report, workflows=tuple(one for one in kept if one.gates))


def _excerpt(text: str, asked: str) -> str:
    at = text.casefold().find(asked)
    return "" if at < 0 else text[max(at - AROUND, 0) : at + len(asked) + AROUND]


def _arguments(tool: Callable[..., None]) -> type[msgspec.Struct]:
    hints = get_type_hints(tool, include_extras=True)
    fields: list[Any] = [
        (name, hints[name]) if one.default is one.empty else (name, hints[name], one.default)
        for name, one in list(inspect.signature(tool).parameters.items())[1:]
    ]
    return msgspec.defstruct(tool.__name__, fields, forbid_unknown_fields=True)


_ALL = (list_runs, suspects, get_run, failure_modes, compare_runs, search, explain_gate, report)
TOOLS: Mapping[str, tuple[Callable[..., None], type[msgspec.Struct]]] = {
    tool.__name__: (tool, _arguments(tool)) for tool in _ALL
}


def describe_tools() -> list[dict[str, Any]]:
    """Return each tool's name, description and JSON schema of its arguments."""
    return [
        {"name": name, "description": inspect.getdoc(tool), "input_schema": schema}
        for name, (tool, kind) in TOOLS.items()
        for schema in [msgspec.json.schema(kind)["$defs"][name]]
    ]


def call_tool(ask: Query, name: str, arguments: object) -> None:
    """Add to the answer what a tool says; refuse arguments that it does not take."""
    if name not in TOOLS:
        raise UsageError(f"no tool {name!r}; there are: {', '.join(TOOLS)}")
    tool, kind = TOOLS[name]
    taken = f"it takes {', '.join(kind.__struct_fields__)}"
    try:
        msgspec.json.encode(arguments)  # SQLite takes no half of a character
        given = msgspec.convert(arguments, kind)
    except UnicodeEncodeError as e:
        raise UsageError(f"{name}: a text holds half of a character; {taken}") from e
    except (msgspec.ValidationError, OverflowError, RecursionError) as e:
        raise UsageError(f"{name}: {str(e).replace('`$.', '`')}; {taken}") from e
    tool(ask, **structs.asdict(given))
