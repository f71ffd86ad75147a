"""The pages of a report, each laid out by one macro of `templates/pages.html`.

Everything is escaped, and an unknown name is an error. Trace text passes through `visible`, then
autoescape; nothing is marked safe but what a macro made. Scripts read blocks of JSON in which no
character can end the block. A page never decides a gate: each look at a commit spends some of its
alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stepscope.gates.looks import GateHistory
from stepscope.gates.types import GateReport
from stepscope.judges.patterns import PATTERN_ADVICE
from stepscope.model import Exchange, Part, Step
from stepscope.report.document import (
    Chart,
    EmptyNotice,
    Links,
    PageName,
    StepAddress,
    pair_anchor,
    run_anchor,
    step_anchor,
    verdict_anchor,
)
from stepscope.report.render import charts
from stepscope.report.types import ComparisonReport, GateDocument, LookFirst, Report
from stepscope.report.views import compare, gates, modes, overview, profile
from stepscope.report.views import run as runs
from stepscope.report.views.overview import TONES, RunListRow, RunQuery
from stepscope.report.views.run import RunData, ShownVerdict
from stepscope.report.votes import describe_pattern, find_patterns
from stepscope.report.words import (
    SCORE_FIRST,
    brief_value,
    cut_words,
    describe_call,
    describe_inputs,
    describe_profile,
    describe_suspect,
    find_differences,
    format_chance,
    format_json,
    quote_result,
)
from stepscope.safety.redact import scrub_value
from stepscope.safety.text import visible, visible_line
from stepscope.values import Unmeasured

NAVIGATION: Mapping[PageName, str] = {
    "overview": "Overview",
    "run": "Run",
    "compare": "Compare",
    "profile": "Profile",
    "gates": "Gates",
}
# What draws the charts, below `static/`.
CHART_SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")
# What could end a script block or a line of a script, by what JSON writes instead.
_ACTIVE = str.maketrans({
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
})  # fmt: skip


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
    r"""Return a value as JSON that no element of a page can end or begin in.

    >>> embed_json({"a": "</script>"})
    Markup('{"a":"\\u003c/script\\u003e"}')
    """
    return Markup(msgspec.json.encode(value).decode().translate(_ACTIVE))


def embed_specs(names: Iterable[str]) -> dict[str, Markup]:
    """Return specifications of charts by name, as JSON."""
    return {name: embed_json(charts.make_spec(name)) for name in sorted(set(names))}


def lay_out(macro: str, **values: object) -> Markup:
    """Return what a macro of `pages.html` makes of values."""
    made: Markup = getattr(open_macros(), macro)(**values)
    return made


def make_overview_page(
    report: Report,  # what `build` made
    rows: Sequence[RunListRow],  # what `read_runs` read with the same choice
    *,
    links: Links,  # where things are
    query: RunQuery | None = None,  # which runs the table shows; all when left out
    decided: GateReport | None = None,  # the last gate report, where there is one
) -> Page:
    """Return the first page of a report: vectors, outcome against path, shapes, gates, runs."""
    profiles, whole = report.profiles, report.whole
    several = len(profiles) > 1
    keys = overview.choose_measured(profiles, profiles[0].figures)
    tables = [overview.tabulate_vector(one, f"vector-{at}") for at, one in enumerate(profiles)]
    matrix = overview.tabulate_groups(profiles, keys) if several else None
    vector = overview.chart_vector(profiles, matrix or tables[0])
    earned = overview.plot_outcome_path(rows, report.provenance.by)
    shapes_chart = overview.chart_shapes(profiles)
    groups = [
        lay_out(
            "group",
            title=profile.name_profile(one),
            about=describe_profile(one, report)[1].partition("   ")[0],
            vector=table,
            warning=one.too_loose.reason if one.too_loose.outcome == "fail" else "",
            folded=several,
        )
        for one, table in zip(profiles, tables, strict=True)
    ]
    decisions = []
    for workflow in () if decided is None else decided.workflows:
        outcome = gates.resolve_outcome(workflow)
        tone, word = TONES.get(outcome, "quiet"), gates.WORDS[outcome]
        name, href = workflow.workflow, links.page("gates")
        decisions.append(lay_out("gate_line", workflow=name, word=word, tone=tone, href=href))
    asked = report.provenance
    parts = [
        f"only runs where {asked.where}" if asked.where else "",
        f"since {asked.since}" if asked.since else "",
        f"grouped by {asked.by}" if asked.by else "",
    ]
    said = ", ".join(part for part in parts if part)
    body = lay_out(
        "overview",
        anchor="overview",
        title="Overview",
        report=report,
        about=describe_profile(whole, report)[1].replace("   ", " · "),
        chosen=said[:1].upper() + said[1:],
        kept=links.kept,
        server=links.runs() is not None,
        looks_found=_looks(report.look_first, links),
        looks_right=overview.describe_list(report.look_first),
        modes=lay_out("modes", found=modes.tabulate_modes(report.modes, links)),
        vector=vector,
        matrix=matrix,
        groups=groups,
        earned=earned,
        joints=[
            overview.tabulate_outcomes(table, whole, at, links)
            for at, table in enumerate(whole.earned)
        ],
        flips=overview.describe_flips(report.rank_flips) if several else (),
        recorded=[(profile.name_profile(one), describe_inputs(one)) for one in profiles],
        shapes=overview.tabulate_shape_counts(profiles),
        shapes_chart=shapes_chart,
        gates=decisions,
        runs=lay_out_runs(rows, query or RunQuery(), links),
    )
    drawn = tuple(chart for chart in (vector, earned, shapes_chart) if chart is not None)
    return Page(name="overview", title="Overview", body=body, charts=drawn)


def _looks(found: Sequence[LookFirst], links: Links) -> list[Markup]:
    out = []
    for run in found:
        where, said = describe_suspect(run)
        href = links.run(run.id, run.suspects[0].first if run.suspects else None)
        tone = TONES[run.outcome]
        out.append(lay_out("look", run=run, tone=tone, where=where, evidence=said, href=href))
    return out


def lay_out_runs(rows: Sequence[RunListRow], query: RunQuery, links: Links) -> Markup:
    """Return the runs that a query chooses; on a server one page of them."""
    size, server = overview.PAGE_SIZE, links.runs() is not None
    chosen = overview.select_runs(rows, query)
    here = min(query.page, max(len(chosen) - 1, 0) // size)
    first = here * size
    shown = chosen[first : first + size] if server else chosen
    more = server and first + size < len(chosen)
    counted = f"{len(chosen):,} of " if len(chosen) < len(rows) else ""
    counted += f"{len(rows):,} runs"
    address = partial(overview.address_runs, links, query)
    return lay_out(
        "run_list",
        found=overview.tabulate_runs(shown, rows, links, query),
        query=query,
        choices={
            key: sorted({value for row in rows if (value := getattr(row, key))})
            for key in ("outcome", "agent", "workflow")
        },
        shown=f"{first + 1:,}-{first + len(shown):,} of {counted}" if more or first else counted,
        before=address(page=here - 1) if here else None,
        after=address(page=here + 1) if more else None,
        server=server,
        kept=links.kept,
    )


def make_profile_page(report: Report, *, links: Links) -> Page:
    """Return the failure profile of every group, by axis and by judge."""
    panels, axes = report.panels, profile.chart_axes(report.profiles)
    drawn = profile.chart_panels(panels) if panels else ()
    sheets = overview.tabulate_panels(panels, links) if panels else []
    body = lay_out(
        "profile",
        anchor="profile",
        title="Profile",
        about="judges: " + (", ".join(report.provenance.judges) or "none"),
        scored=profile.list_scored_axes(report.profiles),
        score_first=SCORE_FIRST,
        axes=axes,
        found=profile.tabulate_profile(report.profiles, links),
        bound=profile.LOWER_BOUND,
        runs=links.page("overview"),
        checks=profile.tabulate_checks(report.checks),
        judged=bool(panels),
        charts=drawn,
        shares=profile.tabulate_all_shares(panels) if panels else None,
        # The table of shares stands in full, not side by side as in a terminal.
        sheets=[sheet for sheet in sheets if sheet.layout != "beside"],
    )
    shown = drawn if axes is None else (axes, *drawn)
    return Page(name="profile", title="Profile", body=body, charts=shown)


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
    served = links.runs() is not None
    shown = "stepscope view" if served else "stepscope report --html report.html"
    return EmptyNotice(
        said="No gate was decided for this page: decide the gates, and name the report."
        if declared
        else "No gate was decided for this page: declare [workflow.NAME.gates] in stepscope.toml, "
        "decide them, and name the report.",
        commands=("stepscope gate --json --out gate.json", f"{shown} --gates gate.json"),
    )


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
        first=first,
        second=second,
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
    form = links.runs() is not None
    body = lay_out(
        "comparisons", anchor="compare", title="Compare", form=form, groups=groups, pairs=pairs
    )
    return Page(name="compare", title="Compare", body=body)


# Characters of the agent's last words.
LAST_WORDS = 500
# Differences named of one pair of calls.
NAMED_DIFFERENCES = 5


def make_runs_page(first: RunData, second: RunData, *, links: Links) -> Page:
    """Return two runs side by side, call by call."""
    one, other = first.trajectory, second.trajectory
    words = runs.RELATION_WORDS
    pairs = list(runs.align_calls(one, other))
    how = [runs.relate_calls(left, right) for left, right in pairs]
    said = [f"{n:,} {words[name]}" for name in words if (n := how.count(name))]
    differing = next((at for at, name in enumerate(how) if name != "same"), None)
    start = "No call differs."
    if differing is not None:
        side = pairs[differing][0] or pairs[differing][1]
        step = "" if side is None else f" at step {side.step}"
        start = f"First difference{step}: {words[how[differing]]}."
    title = f"{one.name} and {other.name}"
    body = lay_out(
        "compared_runs",
        anchor=pair_anchor(one.id, other.id),
        title=title,
        summary=", ".join(said) or "neither run made a call",
        first_difference=start,
        sides=[_run_side(first, links), _run_side(second, links)],
        pairs=[
            _call_pair(name, pair, (one.id, other.id), links)
            for name, pair in zip(how, pairs, strict=True)
        ],
        left=max(len(one.exchanges), len(other.exchanges), runs.MOST_CALLS) - runs.MOST_CALLS,
        last_words=[_last_words(first), _last_words(second)],
    )
    return Page(name="compare", title=title, body=body)


def _call_pair(
    how: runs.CallRelation, pair: runs.ExchangePair, ids: tuple[str, str], links: Links
) -> Markup:
    left, right = pair
    found = (
        list(find_differences(left.call.arguments, right.call.arguments))
        if how == "arguments" and left is not None and right is not None
        else []
    )
    return lay_out(
        "call_pair",
        how=how,
        words=runs.RELATION_WORDS[how],
        sides=[
            None
            if exchange is None
            else lay_out(
                "call_side",
                step=exchange.step,
                words=cut_words(visible_line(describe_call(exchange.call)), runs.CALL_WIDTH),
                status="no answer" if exchange.result is None else exchange.result.status,
                result=runs.summarise_result(exchange),
                href=links.run(run, exchange.step),
            )
            for exchange, run in zip(pair, ids, strict=True)
        ],
        differences=[
            (visible_line(path or "arguments"), brief_value(was), brief_value(now))
            for path, was, now in found[:NAMED_DIFFERENCES]
        ],
        more=max(len(found) - NAMED_DIFFERENCES, 0),
    )


def _run_side(data: RunData, links: Links) -> Markup:
    run = data.trajectory
    return lay_out(
        "run_side",
        name=run.name,
        outcome=run.outcome.status,
        tone=TONES[run.outcome.status],
        size=f"{len(run.steps):,} steps, {len(run.exchanges):,} calls",
        href=links.run(run.id),
        suspect=data.suspects[0] if data.suspects else None,
    )


def _last_words(data: RunData) -> str:
    steps = reversed(data.trajectory.steps)
    last = next((step.text for step in steps if step.actor == "agent" and step.text), "")
    return last[:LAST_WORDS] + ("…" if len(last) > LAST_WORDS else "")


def make_run_choice_page(report: Report, *, links: Links) -> Page:
    """Return the page of runs before one is chosen: those to look at first."""
    body = lay_out("run_choice", anchor="run", title="Run", found=_looks(report.look_first, links))
    return Page(name="run", title="Run", body=body)


# Steps that one page lays out; a page of so many stays quick to scroll.
WINDOW = 200
# Steps shown before the one that was asked for.
LEAD_IN = 20
# Suspects named at the top.
MOST_SUSPECTS = 6
# Verdicts of one run that a page lists; the rest are counted, and `show --json` has all.
MOST_VERDICTS = 400
# Characters of a reason that a remark on a step tells; its row has all of it.
REASON = 90
# The sign of each category, for those who do not see its colour.
SIGNS = {
    "error": "✕", "fault": "!", "redundant": "○", "detour": "~", "suspect": "?", "progress": "·",
    "label": "▲", "call": "▪", "failed": "✕",
}  # fmt: skip


def make_run_page(
    data: RunData,  # what `read_run` read
    *,
    links: Links,  # where things are
    window: range | None = None,  # the steps to lay out; around the first suspect when left out
    clip: int | None = None,  # the most characters of one text; all when left out
    others: Sequence[RunListRow] = (),  # runs of the same task
) -> Page:
    """Return the page of one run: head, curve, suspects, verdicts, and a window of its steps."""
    run, curve = data.trajectory, data.curve
    count, anchor = len(run.steps), run_anchor(data.trajectory.id)
    suspect = data.suspects[0].first if data.suspects else 0
    shown = choose_window(count, suspect) if window is None else window
    shown = range(max(shown.start, 0), min(shown.stop, count))
    to = _address_steps(run.id, shown, count, links)
    answered, labels = data.verdicts, runs.collect_labels(run)
    by_judge = runs.categorise_steps(answered)
    categories = runs.merge_categories(data.suspects, by_judge, MOST_VERDICTS)
    listed = answered[:MOST_VERDICTS]
    remarks = runs.remark_on_steps(listed)
    each = runs.count_steps_per_column(count)
    ticks = list(runs.number_columns(count, each))
    labelled = [step for step in labels if step is not None]
    lanes = [
        lay_out(
            "lane",
            name=visible_line(name),
            steps=steps,
            marks=runs.choose_marks(steps, each),
            columns=len(ticks),
            signs=SIGNS,
            to=to,
        )
        for name, steps in runs.place_lanes(data, by_judge, labelled).items()
    ]
    drawn = None if isinstance(curve, Unmeasured) else runs.chart_curve(curve, count, anchor, to)
    steps = _lay_out_steps(
        data, shown, categories=categories, labels=labels, listed=listed, remarks=remarks,
        to=to, links=links, clip=clip,
    )  # fmt: skip
    body = lay_out(
        "run",
        anchor=anchor,
        title=run.name,
        run=run,
        tone=TONES[run.outcome.status],
        because=runs.explain_outcome(run),
        facts=runs.list_facts(run, data.found),
        labels=labels.get(None, ()),
        notes=list(runs.list_notes(run)),
        to=to,
        failed_because=data.look.because,
        suspects=data.suspects,
        chances=["" if x.share is None else format_chance(x.share) for x in data.suspects],
        nobody="" if data.look.nobody is None else format_chance(data.look.nobody),
        reliability=data.look.reliability,
        most_suspects=MOST_SUSPECTS,
        patterns=list(_pattern_lines(data, to)),
        curve=drawn,
        said=() if isinstance(curve, Unmeasured) else runs.describe_curve(curve),
        rests_on="" if isinstance(curve, Unmeasured) else runs.describe_curve_basis(curve),
        no_curve=curve.reason if isinstance(curve, Unmeasured) else "",
        lanes=lanes,
        each=each,
        ticks=ticks,
        verdicts=[_verdict_row(run.id, at, one, to) for at, one in enumerate(listed)],
        verdicts_left=len(answered) - len(listed),
        unmeasured=runs.list_unmeasured(data.records),
        others=[_other_trial(run.id, row, links) for row in others if row.id != run.id],
        before=links.window(run.id, max(shown.start - WINDOW, 0)) if shown.start else None,
        after=links.window(run.id, shown.stop) if shown.stop < count else None,
        shown=shown,
        steps=steps,
    )
    return Page(name="run", title=run.name, body=body, charts=() if drawn is None else (drawn,))


def choose_window(count: int, step: int) -> range:
    """Return the steps to lay out so that `step` is among them; all of a short run.

    >>> choose_window(150, 90), choose_window(1000, 500), choose_window(1000, 990)
    (range(0, 150), range(480, 680), range(800, 1000))
    """
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


def _pattern_lines(data: RunData, to: StepAddress) -> Iterator[Markup]:
    for judge, by_name in find_patterns(data.trajectory, data.records).items():
        for name, found in by_name.items():
            cites = dict.fromkeys(step for pattern in found for step in pattern.cites)
            yield lay_out(
                "pattern_line",
                name=name.replace("_", " "),
                judge=judge,
                cites=list(cites)[: runs.NAMED_STEPS],
                to=to,
                reason=describe_pattern(found),
                advice=PATTERN_ADVICE[name],
            )


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


def _other_trial(run: str, row: RunListRow, links: Links) -> Markup:
    return lay_out(
        "other_trial",
        name=row.name,
        outcome=row.outcome,
        tone=TONES[row.outcome],
        href=links.run(row.id),
        pair=links.pair(run, row.id),
    )


# Characters of a call or a result on its one line.
LINE = 160
# A record longer than this is not put into a page beside its own words.
RAW = 6_000
# What is said of these is read without unfolding them.
GRAVE = frozenset({"error", "fault"})
WHO = {"system": "system", "user": "user", "agent": "agent", "environment": "tool"}


def _lay_out_steps(
    data: RunData,
    shown: range,
    *,
    categories: Mapping[int, str],
    labels: Mapping[int | None, Sequence[str]],
    listed: Sequence[ShownVerdict],
    remarks: Mapping[int, Mapping[str, int]],
    to: StepAddress,
    links: Links,
    clip: int | None,
) -> Iterator[Markup]:
    """Yield the steps of a window, each as it was recorded, with the remarks on it."""
    run = data.trajectory
    by_step: dict[int, list[Exchange]] = {}
    previous: dict[str, Exchange] = {}
    for exchange in run.exchanges:
        if exchange.step in shown:
            by_step.setdefault(exchange.step, []).append(exchange)
        elif exchange.step < shown.start:
            previous[exchange.call.name] = exchange
    scores = runs.list_scores(data.curve)
    for index in shown:
        step, mark = run.steps[index], data.marks.get(index, runs.UNMARKED)
        category = categories.get(index, "mark" if mark.sign else "")
        marked = bool(mark.sign) or category in GRAVE
        raw_href = links.raw(run.id, index)
        raw = ""
        if marked and raw_href is None:
            raw = msgspec.json.format(msgspec.json.encode(step), indent=1).decode()
        summary = quote_result(step.results[0]) if step.results else step.text
        statuses = dict.fromkeys(result.status for result in step.results)
        yield lay_out(
            "step",
            step=step,
            anchor=step_anchor(run.id, index),
            actor=WHO[step.actor],
            who=" ".join([WHO[step.actor], *(one for one in statuses if one != "unknown")]),
            category=category,
            mark=mark,
            marked=marked,
            score=scores.get(index, ""),
            facts=runs.list_step_facts(step),
            folded=_is_uneventful(step) and category not in GRAVE,
            summary=cut_words(visible_line(summary), LINE),
            parts=[
                *(_part(part, clip) for part in step.parts),
                *_calls(step, by_step.get(index, []), previous, to, clip),
                *_results(step, clip),
            ],
            labels=labels.get(index, ()),
            chips=list(_chips(run.id, index, remarks.get(index, {}), listed)),
            raw=raw if len(raw) <= RAW else "",
            raw_href=raw_href,
        )


def _is_uneventful(step: Step) -> bool:
    """A system prompt, or a tool's answer that is no error: shut until asked for."""
    if step.actor == "system":
        return True
    return bool(step.results) and not step.text and all(r.status != "error" for r in step.results)


def _chips(
    run: str, step: int, remarks: Mapping[str, int], listed: Sequence[ShownVerdict]
) -> Iterator[Markup]:
    for words, at in remarks.items():
        answer = listed[at].verdict
        yield lay_out(
            "chip",
            words=words,
            title=cut_words(answer.reason, REASON),
            category=runs.categorise(answer) if step in runs.list_faulted(answer) else "",
            href=f"#{verdict_anchor(run, at)}",
        )


def _part(part: Part, clip: int | None) -> Markup:
    if part.text is not None:
        return lay_out_text(part.kind, part.text, clip)
    size = f", {part.size:,} bytes" if part.size is not None else ""
    shown = f"[{part.kind} {part.media_type or ''}{size}]"
    return lay_out("text", kind=part.kind, shown=shown, folded="", left=0)


# Characters of a text that are seen before it is unfolded; what is hardly longer is not folded.
OPEN = 900
LONG = 1300


def find_fold(text: str) -> int:
    """Return where a text is folded: behind a line or a word, at the end of one that is short."""
    if len(text) <= LONG:
        return len(text)
    return text.rfind("\n", OPEN // 2, OPEN) + 1 or text.rfind(" ", OPEN // 2, OPEN) + 1 or OPEN


def lay_out_text(kind: str, text: str, clip: int | None) -> Markup:
    """Return a text with what is seen, what is folded, and how much is left out."""
    kept = text[:clip]
    at = find_fold(kept)
    return lay_out("text", kind=kind, shown=kept[:at], folded=kept[at:], left=len(text) - len(kept))


def _calls(
    step: Step,
    made: Sequence[Exchange],
    previous: dict[str, Exchange],
    to: StepAddress,
    clip: int | None,
) -> Iterator[Markup]:
    """Yield the calls of a step; `previous` has the last call of each tool."""
    # Copies of earlier calls make no exchange; they are shown as they stand.
    for at, call in enumerate(step.calls):
        exchange = made[at] if at < len(made) else None
        earlier = None if exchange is None else previous.get(exchange.call.name)
        call = call if exchange is None else exchange.call
        given = (call.raw or "") if call.arguments is None else format_json(call.arguments)
        said = describe_call(call, None if earlier is None else earlier.call)
        answer = None if exchange is None else exchange.result_step
        yield lay_out(
            "call",
            call=call,
            words=cut_words(visible_line(said), LINE),
            arguments=lay_out_text("data", given, clip),
            failed=exchange is not None and exchange.failed,
            answer_step=None if answer == step.index else answer,
            answer_href=None if answer is None else to(answer),
        )
        if exchange is not None:
            previous[exchange.call.name] = exchange


def _results(step: Step, clip: int | None) -> Iterator[Markup]:
    for result in step.results:
        words = lay_out_text("data", quote_result(result), clip)
        yield lay_out("result", status=result.status, words=words, several=len(step.results) > 1)
