"""The pages of a report, each laid out by one macro of `templates/pages.html`.

Everything is escaped, and an unknown name is an error. Trace text passes through `visible`, then
autoescape; nothing is marked safe but what a macro made. Scripts read blocks of JSON in which no
character can end the block. A page never decides a gate: each look at a commit spends some of its
alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import get_args

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stepscope.gates.looks import GateHistory
from stepscope.gates.types import GateReport
from stepscope.model import Json
from stepscope.report import words
from stepscope.report.document import (
    Chart,
    Document,
    EmptyNotice,
    Links,
    PageName,
    pair_anchor,
    parting_anchor,
)
from stepscope.report.render import charts
from stepscope.report.types import ComparisonReport, GateDocument, LookFirst, Profile, Report
from stepscope.report.views import compare, gates, judges, overview, profile
from stepscope.report.views import run as runs
from stepscope.report.views import runs as run_lists
from stepscope.report.views.run import RunData
from stepscope.report.views.runs import TONES, MapCell, RunListRow, RunQuery
from stepscope.safety.redact import scrub_value
from stepscope.safety.text import visible, visible_line
from stepscope.values import format_count

NAVIGATION: Mapping[PageName, str] = {name: name.capitalize() for name in get_args(PageName)}
# What draws the charts, below `static/`.
CHART_SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")
# What could end a script block or a line of a script, by what JSON writes instead.
_ACTIVE = str.maketrans({active: f"\\u{ord(active):04x}" for active in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its element as HTML, and the charts that the browser has to draw in it."""

    name: PageName
    title: str
    body: Markup
    charts: tuple[Chart, ...] = ()


@cache
def open_macros() -> object:
    """Return the macros of `pages.html`, as attributes."""
    environment = Environment(
        loader=PackageLoader("stepscope.report.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show,
    )
    environment.filters["json"] = embed_json
    return environment.get_template("pages.html").module


def _show(value: object) -> object:
    """Spell out what hides in a text; what is HTML already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def embed_json(value: object) -> Markup:
    """Return a value as JSON that no element of a page can end or begin in."""
    return Markup(msgspec.json.encode(value).decode().translate(_ACTIVE))


def embed_specs(names: Iterable[str]) -> dict[str, Markup]:
    """Return specifications of charts by name, as JSON."""
    return {name: embed_json(charts.make_spec(name)) for name in sorted(set(names))}


def lay_out(macro: str, *values: object, **named: object) -> Markup:
    """Return what a macro of `pages.html` makes of values."""
    made: Markup = getattr(open_macros(), macro)(*values, **named)
    return made


def make_overview_page(
    report: Report,  # what `build` made
    rows: Sequence[RunListRow],  # what `make_run_rows` made with the same choice
    *,
    links: Links,  # where things are
    query: RunQuery | None = None,  # which runs the table shows; all when left out
    decided: GateReport | None = None,  # the last gate report, where there is one
) -> Page:
    """Return the first page of a report: what passes, the runs as a map, what broke, figures."""
    profiles, whole, asked = report.profiles, report.whole, report.provenance
    several = len(profiles) > 1
    shapes_chart = overview.chart_shapes(profiles)
    groups = []
    held = _split(rows, profiles)
    full = overview.choose_full(report)
    for at, one in enumerate(full):
        its = rows if one is whole else held[profiles.index(one)]
        figures = overview.tabulate_report(one, its, f"vector-{at}")
        about = words.describe_profile(one, report)[1].partition("   ")[0]
        title, folded = profile.name_profile(one), len(full) > 1
        groups.append(lay_out("group", title=title, about=about, figures=figures, folded=folded))
    if (small := overview.tabulate_small_groups(profiles)) is not None:
        groups.append(lay_out("group", title="", about="", figures=small, folded=False))
    decisions = []
    for workflow in () if decided is None else decided.workflows:
        outcome, name = gates.resolve_outcome(workflow), workflow.workflow
        word, tone = gates.WORDS[outcome], gates.TONES[outcome]
        decisions.append(lay_out("gate_line", name, word, tone, links.page("gates")))
    chosen = {"only runs where ": asked.where, "since ": asked.since, "grouped by ": asked.by}
    said = ", ".join(name + value for name, value in chosen.items() if value)
    failed, breaks = sum(row.outcome == "fail" for row in rows), overview.list_breaks(rows)
    body = lay_out(
        "overview",
        anchor="overview",
        title="Overview",
        report=report,
        about=words.describe_profile(whole, report)[1].replace("   ", " · "),
        chosen=said[:1].upper() + said[1:],
        kept=links.kept,
        server=links.is_served,
        parts=overview.state_result(report, held if any(held) else [rows], breaks),
        map=lay_out_map(rows, links, profile.letter_runs(report.modes)),
        modes=lay_out("breaks", found=breaks, failed=failed) if breaks else "",
        looks_found=_looks(report.look_first, links),
        looks_right=overview.describe_list(report.look_first, SHARES),
        matrix=overview.tabulate_groups(profiles) if len(full) > 1 else None,
        groups=groups,
        failure_modes=lay_out("modes", found=profile.tabulate_modes(report.modes, links)),
        warnings=[one.too_loose.reason for one in profiles if one.too_loose.outcome == "fail"],
        earned=_lay_out_earned(whole, links),
        flips=overview.describe_flips(report.rank_flips) if several else (),
        recorded=[(profile.name_profile(one), words.describe_inputs(one)) for one in profiles],
        shapes=overview.tabulate_shapes(profiles),
        shapes_chart=shapes_chart,
        gates=decisions,
        runs=lay_out_runs(rows, query or RunQuery(), links),
    )
    drawn = () if shapes_chart is None else (shapes_chart,)
    return Page(name="overview", title="Overview", body=body, charts=drawn)


def _split(rows: Sequence[RunListRow], profiles: Sequence[Profile]) -> list[Sequence[RunListRow]]:
    """Return the runs of each group, as far as a row knows the fields that make groups."""
    if len(profiles) == 1:
        return [rows]
    fields = [name for name in profiles[0].group if name in RunListRow.__struct_fields__]
    held: dict[tuple[str, ...], list[RunListRow]] = {}
    groups = zip(*[map(attrgetter(name), rows) for name in fields], strict=True)
    for group, row in zip(groups, rows, strict=False):  # of no fields there are no groups
        held.setdefault(group, []).append(row)
    return [held.get(tuple([one.group[name] or "" for name in fields]), []) for one in profiles]


def lay_out_map(
    rows: Sequence[RunListRow], links: Links, letters: Mapping[str, str] | None = None
) -> Markup:
    """Return the runs as a map; `letters` are their failure modes by id, where there are any."""
    blocks = run_lists.arrange_runs(rows)
    short = all(len(x) <= run_lists.SHORT_NAME for block in blocks for x, _ in block.columns)
    agents: dict[str, list[Markup]] = {}
    cells: list[tuple[MapCell, str]] = []
    for block in blocks:
        columns = []
        for name, held in block.columns:
            drawn = [
                run_lists.draw_cell(runs, len(cells) + row, links, letters or {})
                for row, runs in enumerate(held)
            ]
            columns.append((name, drawn))
            cells += [(cell, runs[0].name) for cell, runs in zip(drawn, held, strict=True)]
        count = format_count(block.count, "task" if block.tasks else "run")
        named = short and block.tasks
        made = lay_out("map_block", count, block.said, columns, names=named, first=not agents)
        agents.setdefault(visible_line(block.agent), []).append(made)
    few = len(rows) <= run_lists.FEW_RUNS
    about = "One column per task, one cell per trial. Point at a cell, or press the arrow keys."
    if len(rows) > run_lists.MOST_CELLS:
        about = f"A cell is the runs of its place: {len(rows):,} runs in {len(cells):,} cells."
    elif few:
        about = ""
    tones = {cell.tone for cell, _ in cells}
    shown, size = cells if few else [], run_lists.size_cells(blocks)
    kinds = {"letters": bool(letters), "mixed": "mixed" in tones, "unknown": "unknown" in tones}
    return lay_out("run_map", agents=agents, few=shown, size=size, about=about, **kinds)


def _lay_out_earned(whole: Profile, links: Links) -> Markup:
    if not whole.earned:
        return Markup("")
    said, squares = overview.draw_earned(whole) or ("", [])
    notes = words.note_unearned(whole.earned[0], whole)
    sure_first = sorted(whole.lucky, key=lambda run: not run.sure)
    named = [
        (notes[row], links.run(held[0].id) if held else None)
        for row, held in (("pass", sure_first), ("fail", whole.unlucky))
        if notes.get(row)
    ]
    left = f"{whole.earned[0].unmeasured:,}" if whole.earned[0].unmeasured else ""
    tables = [overview.tabulate_outcomes(one, whole, at) for at, one in enumerate(whole.earned)]
    return lay_out(
        "earned_squares", said=said, squares=squares, named=named, left=left, joints=tables
    )


def _looks(found: Sequence[LookFirst], links: Links) -> list[Markup]:
    out = []
    for run, others in words.group_looks(found):
        first = run.suspects[0] if run.suspects else None
        alike = []
        for other in others:
            step = other.suspects[0].first if other.suspects else None
            where = words.describe_suspect(other)[0] if other.suspects else ""
            alike.append((other.name, links.run(other.id, step), where))
        said, *more = words.describe_suspect(run)[1].split("; ")
        for part in more:  # whole clauses, as many as there is room for
            said += f"; {part}" if len(f"{said}; {part}") <= EVIDENCE else ""
        said = words.cut_words(said, EVIDENCE)
        named = "_" in said.partition(" ")[0]  # a tool, which is written as it is
        because = words.cut_words(run.because, EVIDENCE)
        because = f"{'Failed' if run.outcome == 'fail' else 'Not done'}: {because}"
        lines = [said if named else said[:1].upper() + said[1:]]
        # Why it failed says more of a run than that nothing was found at a step.
        if first is not None and run.because:
            lines = [because] if first.kind == "place" else [*lines, because]
        where, href, share = "", links.run(run.id), None
        if first is not None:
            where, share = words.name_steps(first), first.share
            href = links.run(run.id, first.first)
        made = lay_out(
            "look",
            run=run,
            tone=TONES[run.outcome],
            where=where,
            chance="" if share is None else words.format_chance(share),
            sentence=lines[0],
            evidence=lines[1] if lines[1:] else "",
            href=href,
            bars=overview.draw_suspicion(run),
            alike=alike,
        )
        out.append(made)
    return out


def lay_out_runs(rows: Sequence[RunListRow], query: RunQuery, links: Links) -> Markup:
    """Return the runs that a query chooses; on a server one page of them, in a file the first."""
    server = links.is_served
    size = run_lists.PAGE_SIZE if server else run_lists.MOST_CELLS
    chosen = run_lists.select_runs(rows, query)
    here = min(query.page, max(len(chosen) - 1, 0) // size)
    first = here * size
    shown = chosen[first : first + size]
    more, left = server and first + size < len(chosen), len(chosen) - len(shown)
    counted = f"{len(chosen):,} of " if len(chosen) < len(rows) else ""
    counted += f"{len(rows):,} runs"
    gone = f"{left:,} more runs are not in this file's list: stepscope view has all."
    fields = ("outcome", "agent", "workflow")
    return lay_out(
        "run_list",
        found=run_lists.tabulate_runs(shown, rows, links, query),
        query=query,
        choices={key: sorted({*map(attrgetter(key), rows)} - {""}) for key in fields},
        shown=f"{first + 1:,}-{first + len(shown):,} of {counted}" if more or first else counted,
        before=run_lists.address_runs(links, replace(query, page=here - 1)) if here else None,
        after=run_lists.address_runs(links, replace(query, page=here + 1)) if more else None,
        server=server,
        kept=links.kept,
        left="" if server or not left else gone,
    )


def make_profile_page(report: Report, *, links: Links) -> Page:
    """Return the failure profile of every group, by axis and by judge."""
    panels = report.panels or None
    sheets = judges.tabulate_panels(panels, links) if panels else []
    ticks, rows = profile.draw_axes(report.profiles, panels, links)
    heads = profile.head_groups(report.profiles)
    drawn = lay_out("multiples", axes=ticks, heads=heads, judged=bool(panels), rows=rows)
    body = lay_out(
        "profile",
        anchor="profile",
        title="Profile",
        about="judges: " + (", ".join(report.provenance.judges) or "none"),
        parts=profile.state_faults(report.profiles, report.whole),
        scored=profile.list_scored_axes(report.profiles),
        score_first=words.SCORE_FIRST,
        drawn=drawn if rows else "",
        found=profile.tabulate_axes(report.profiles),
        bound=profile.LOWER_BOUND,
        runs=links.page("overview"),
        checks=profile.tabulate_checks(report.checks),
        judged=bool(panels),
        shares=judges.tabulate_all_shares(panels) if panels else None,
        # The table of shares stands in full, not side by side as in a terminal.
        sheets=[sheet for sheet in sheets if sheet.layout != "beside"],
    )
    return Page(name="profile", title="Profile", body=body)


# What stands behind the step of a run to look at first.
SHARES = "The share is how likely the run went wrong at that step; the rest is other steps, or none"
# Characters of the evidence of a run to look at first.
EVIDENCE = 120
# A report says nothing of those before it.
ALONE = "One report, so no history: name earlier ones as well, --gates FILE for each, latest last."
# Lines of a difference that a page shows; the command that writes the baseline prints all.
MOST_LINES = 60


def make_gates_page(
    documents: Sequence[GateDocument],  # what `stepscope gate --json` wrote, the latest last
    *,
    links: Links,
    kept: Sequence[GateHistory] = (),  # baselines and looks, by workflow
) -> Page:
    """Return the page of gates: each workflow's decisions, history and baseline."""
    last = documents[-1] if documents else None
    decided = {} if last is None else {one.workflow: one for one in last.report.workflows}
    held = {one.workflow: one for one in scrub_value(tuple(kept))}
    earlier = [one.workflow for document in documents for one in document.report.workflows]
    alone, workflows = last is not None, []
    for at, name in enumerate(dict.fromkeys([*decided, *held, *earlier])):
        one, history = decided.get(name), gates.tabulate_history(documents, name, at)
        alone &= history is None
        found = None if one is None else gates.resolve_outcome(one)
        laid_out = lay_out(
            "gates_of",
            name=name,
            word="not decided" if found is None else gates.WORDS[found],
            tone="quiet" if found is None else gates.TONES[found],
            size="" if one is None else gates.describe_size(one),
            decided=None if one is None else gates.tabulate_gates(one, at),
            changes=() if one is None else gates.describe_changes(one),
            failing=None if one is None else gates.tabulate_failing(one, at, links),
            history=history,
            kept=held.get(name),
            looked=gates.tabulate_looks(held[name], at) if name in held else None,
            most=MOST_LINES,
        )
        workflows.append(laid_out)
    body = lay_out(
        "gates",
        anchor="gates",
        title="Gates",
        summary="" if last is None else gates.summarise_gates(last.report, last.exit_code),
        nothing=_tell_how_to_gate(bool(kept), links) if last is None else None,
        remarks=() if last is None else last.remarks,
        workflows=workflows,
        alone=ALONE if alone else "",
    )
    return Page(name="gates", title="Gates", body=body)


def _tell_how_to_gate(declared: bool, links: Links) -> EmptyNotice:
    shown = "stepscope view" if links.is_served else "stepscope report --html report.html"
    how = "declare [workflow.NAME.gates] in stepscope.toml, decide them"
    how = "decide the gates" if declared else how
    return EmptyNotice(
        f"No gate was decided for this page: {how}, and name the report.",
        commands=("stepscope gate --json --out gate.json", f"{shown} --gates gate.json"),
    )


def make_calibration_page(said: str, parts: Mapping[str, Document | EmptyNotice]) -> Page:
    """Return whether the judges can be trusted: a sentence, and a part for each question."""
    body = lay_out("calibration", anchor="calibration", said=said, parts=parts)
    return Page(name="calibration", title="Calibration", body=body)


def make_groups_page(report: ComparisonReport) -> Page:
    """Return two groups, figure by figure."""
    first, second = profile.name_profile(report.first), profile.name_profile(report.second)
    table = compare.tabulate_figures(report)
    effects = compare.chart_effects(report, table)
    title = f"{first} and {second}"
    body = lay_out(
        "compared_groups",
        anchor="groups-compared",
        title=title,
        sentence=compare.state_difference(report),
        about=compare.describe_comparison(report).partition("   ")[2].replace("   ", " · "),
        said=compare.conclude_comparison(report),
        flips=overview.describe_flips(report.rank_flips),
        effects=effects,
        found=table,
    )
    drawn = () if effects is None else (effects,)
    return Page(name="compare", title=title, body=body, charts=drawn)


def make_choice_page(
    *, links: Links, pairs: Sequence[tuple[str, str]] = (), groups: Sequence[tuple[str, str]] = ()
) -> Page:
    """Return what there is to compare; `pairs` and `groups` are names and addresses."""
    form = links.is_served
    body = lay_out("comparisons", "compare", "Compare", form=form, groups=groups, pairs=pairs)
    return Page(name="compare", title="Compare", body=body)


# Characters of the agent's last words.
LAST_WORDS = 500
# Differences named of one pair of calls.
NAMED_DIFFERENCES = 5


def make_runs_page(first: RunData, second: RunData, *, links: Links) -> Page:
    """Return two runs side by side, call by call."""
    one, other = first.trajectory, second.trajectory
    relations = runs.RELATION_WORDS
    pairs = list(runs.align_calls(one, other))
    how = [runs.relate_calls(left, right) for left, right in pairs]
    said = [f"{n:,} {relations[name]}" for name in relations if (n := how.count(name))]
    differing = runs.find_parting(pairs)
    start = "No call differs." if set(how) <= {"same"} else "Only thoughts differ."
    if differing is not None:
        side = pairs[differing][0] or pairs[differing][1]
        tool = "" if side is None else f" at step {side.step}: {side.call.name}"
        start = f"They part{visible_line(tool)}, {relations[how[differing]]}."
    title = f"{one.name} and {other.name}"
    longest = max(len(one.exchanges), len(other.exchanges))
    body = lay_out(
        "compared_runs",
        anchor=pair_anchor(one.id, other.id),
        title=title,
        summary=", ".join(said) or "neither run made a call",
        first_difference=start,
        parting=parting_anchor(one.id, other.id),
        parts=differing is not None,
        sides=[_run_side(data, links) for data in (first, second)],
        pairs=[
            _call_pair(name, pair, (one.id, other.id), links, at == differing)
            for at, (name, pair) in enumerate(zip(how, pairs, strict=True))
        ],
        left=max(longest - runs.MOST_CALLS, 0),
        last_words=[_last_words(data) for data in (first, second)],
    )
    return Page(name="compare", title=title, body=body)


def _call_pair(
    how: runs.CallRelation, pair: runs.ExchangePair, ids: tuple[str, str], links: Links, parts: bool
) -> Markup:
    left, right = pair
    sides = []
    for made, run in zip(pair, ids, strict=True):
        side = None
        if made is not None:
            said = words.cut_words(visible_line(words.describe_call(made.call)), runs.CALL_WIDTH)
            status = "no answer" if made.result is None else made.result.status
            result, href = runs.summarise_result(made), links.run(run, made.step)
            side = lay_out("call_side", made.step, said, status, result, href)
        sides.append(side)
    found: list[tuple[str, Json, Json]] = []
    if how == "arguments" and left is not None and right is not None:
        found = list(words.find_differences(left.call.arguments, right.call.arguments))
    differences = [
        (visible_line(path or "arguments"), words.brief_value(was), words.brief_value(now))
        for path, was, now in found[:NAMED_DIFFERENCES]
    ]
    more, anchor = max(len(found) - NAMED_DIFFERENCES, 0), parting_anchor(*ids) if parts else ""
    told = runs.RELATION_WORDS[how]
    return lay_out("call_pair", how, told, sides, differences, more=more, anchor=anchor)


def _run_side(data: RunData, links: Links) -> Markup:
    run, outcome = data.trajectory, data.trajectory.outcome.status
    size = f"{len(run.steps):,} steps, {len(run.exchanges):,} calls"
    said = words.cut_words(runs.sum_up(data), EVIDENCE)
    return lay_out("run_side", run.name, outcome, TONES[outcome], size, links.run(run.id), said)


def _last_words(data: RunData) -> str:
    steps = reversed(data.trajectory.steps)
    last = next((step.text for step in steps if step.actor == "agent" and step.text), "")
    return last[:LAST_WORDS] + ("…" if len(last) > LAST_WORDS else "")


def make_run_choice_page(report: Report, *, links: Links) -> Page:
    """Return the page of runs before one is chosen: those to look at first."""
    body = lay_out("run_choice", anchor="run", title="Run", found=_looks(report.look_first, links))
    return Page(name="run", title="Run", body=body)
