"""A report in its order: the vector of each group, shapes, outcome against path, and its runs.

A row a run is read from columns; no trace is opened. The default order of runs is that of
`evidence.weigh_runs`: a reading order, so no rate may be computed on its beginning. In outcome
against path a case counts with the mean of its runs. Cases at one place are one point whose area
counts them; runs without both grades are left out and counted. A group without shares of shapes
counts the labels of its runs instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import compress

import msgspec
import numpy as np

from stepscope.report import words
from stepscope.report.document import (
    Chart,
    Document,
    EmptyNotice,
    Links,
    Paragraph,
    Section,
    SortOrder,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
    make_columns,
    make_row,
)
from stepscope.report.evidence import weigh_runs
from stepscope.report.panel_types import Panels
from stepscope.report.rows import (
    DEFAULT_BY,
    RunTable,
    combine_conditions,
    hide_texts,
    read_table,
)
from stepscope.report.types import (
    LookFirst,
    OutcomeTable,
    Profile,
    Report,
    Shapes,
    ShapesDifference,
)
from stepscope.report.views.agreement import tabulate_agreement
from stepscope.report.views.modes import lay_out_modes
from stepscope.report.views.profile import (
    choose_largest,
    make_figure_cell,
    make_interval_row,
    name_profile,
    tabulate_answers,
    tabulate_axes,
    tabulate_behaviours,
    tabulate_claims,
    tabulate_costs,
    tabulate_disputes,
    tabulate_flags,
    tabulate_patterns,
    tabulate_shares,
    tabulate_trace,
)
from stepscope.safety.redact import Redactor
from stepscope.safety.text import visible_line
from stepscope.shape.types import SHAPES
from stepscope.store import Store
from stepscope.store.columns import Rows, Runs
from stepscope.store.where import Where
from stepscope.values import Estimate, Flip, RankFlips, Unmeasured, format_count

# Pairs of groups of which a text tells the flips; the page and the JSON have them all.
SHOWN_FLIPS = 5
CHANCE = "In brackets: how likely the run went wrong at that step; the rest is other steps, or none"
TONES: dict[str, Tone] = {"pass": "good", "fail": "bad", "unknown": "quiet", "undecided": "warn"}
# Cases named of one spot.
NAMED_CASES = 4
# Spots closer than this are one: shares of few sub-goals, not measurements.
PLACES = 3
VECTOR = (
    TableColumn("figure", least=22),
    TableColumn("value", number=True, least=9, gap=0),
    TableColumn("95 % interval", least=15),
    TableColumn("n", number=True, least=10, gap=0),
    TableColumn("unmeasured", overflow="wrap"),
)


def make_report_document(report: Report) -> Document:
    """Return a report as text and Markdown have it."""
    out: list[Section] = []
    for profile in report.profiles:
        title, about = words.describe_profile(profile, report)
        out += [
            [Paragraph(heading=title, text=about)],
            [tabulate_vector(profile, "vector")],
            [tabulate_outcomes(table, profile, at) for at, table in enumerate(profile.earned)],
        ]
        if profile.too_loose.outcome == "fail":
            out.append([Paragraph(lead="Warning: ", text=profile.too_loose.reason)])
        if profile.inputs:
            out.append([Paragraph(lead="Recorded: ", text=words.describe_inputs(profile))])
    tables = [
        tabulate_axes(report.profiles, report.checks),
        tabulate_shapes(report.profiles),
        *(tabulate_panels(report.panels) if report.panels else []),
    ]
    closing = []
    if report.not_claimed:
        closing.append(Paragraph(text=f"Not claimed: {', '.join(report.not_claimed)}."))
    if report.next:
        said = " · ".join(report.next)
        closing.append(Paragraph(lead="Next: ", text=said, hang=6, terminal=True))
    looks: list[Section] = [_look_first(report)] if report.look_first else []
    shown = [[table] for table in tables if table is not None]
    flips = describe_flips(report.rank_flips, SHOWN_FLIPS) if len(report.profiles) > 1 else []
    return [*out, flips, *shown, lay_out_modes(report.modes), *looks, closing]


def describe_list(found: Sequence[LookFirst]) -> str:
    """Return what the chances mean, and how often the lists are right; "" where none is ranked."""
    ranked = any(x.suspects and x.suspects[0].share is not None for x in found)
    said = dict.fromkeys([CHANCE if ranked else "", *(x.reliability for x in found)])
    return " ".join(f"{one}." for one in said if one)


def describe_flips(found: RankFlips | Unmeasured, most: int | None = None) -> list[Paragraph]:
    """Return the rank flips, a sentence for each of `most` pairs of groups; or that none is."""
    if isinstance(found, Unmeasured):
        return [Paragraph(text=f"Rank flips: unmeasured, {found.reason}.")]
    over = format_count(len(found.figures), "path figure")
    if found.n_pairs > 1:
        over += f" and {found.n_pairs:,} pairs of groups"
    by_pair: dict[tuple[str, str], list[Flip]] = {}
    for flip in found.flips:
        by_pair.setdefault((flip.first, flip.second), []).append(flip)
    if not by_pair:
        said = "whether the path orders these groups as their outcome does cannot be told"
        return [Paragraph(text=f"Rank flips: none shown by {over}; {said}.")]
    out = []
    for (first, second), flips in list(by_pair.items())[:most]:
        outcome = words.describe_effect("outcome.pass", flips[0].outcome)
        behind = ", ".join(
            f"{words.name_figure(flip.figure)} ({words.describe_effect(flip.figure, flip.path)})"
            for flip in flips
        )
        p = words.format_p(max(flip.p_adjusted for flip in flips))
        said = f"{first} is ahead of {second} by outcome ({outcome}) and behind by {behind}"
        said += f"; largest p {p} after Holm over {over}."
        out.append(Paragraph(lead="Rank flip: ", text=visible_line(said), code=True))
    more = len(by_pair) - len(out)
    rest = [Paragraph(text=f"Rank flips of {more:,} more pairs: stepscope report --json")]
    return [*out, *(rest if more else [])]


def _look_first(report: Report) -> Section:
    rows = []
    for run in report.look_first:
        where, said = words.describe_suspect(run)
        # The last words of an error message say most.
        ends = bool(run.suspects) and run.suspects[0].kind == "error"
        evidence = TableCell(said, code=True, keep_end=ends)
        row = make_row(TableCell(run.name, code=True, level=1), f"{run.steps:,}", where, evidence)
        if run.because and run.suspects:
            lead = "failed because " if run.outcome == "fail" else "not done: "
            below = Paragraph(lead=lead, text=run.because, indent=4, one_line=True, code=True)
            row = replace(row, below=(below,))
        rows.append(row)
    table = Table(
        id="look-first",
        corner="Look first",
        columns=(
            TableColumn("run", least=16, most=32),
            TableColumn("steps", number=True, least=5, gap=1),
            TableColumn("suspect", least=8),
            TableColumn("evidence", gap=1, overflow="cut"),
        ),
        rows=tuple(rows),
        own=True,
    )
    right = describe_list(report.look_first)
    return [table, *([Paragraph(text=right)] if right else [])]


def tabulate_vector(profile: Profile, anchor: str) -> Table:
    """Return the vector of one group, a row a figure."""
    caption = f"The vector of {name_profile(profile)}"
    rows = tuple(words.list_figures(profile))
    return Table(id=anchor, caption=caption, columns=VECTOR, rows=rows, own=True)


def tabulate_groups(profiles: Sequence[Profile], keys: Sequence[str]) -> Table:
    """Return groups down and figures across, each with its interval."""
    labels = [name_column(key) for key in keys]
    return Table(
        id="groups",
        caption="Outcome and path, by group",
        columns=make_columns("group", "runs", *labels, numbers=("runs", *labels)),
        rows=tuple(
            make_row(
                name_profile(profile),
                TableCell(f"{profile.n_runs:,}", sort=profile.n_runs),
                *(make_figure_cell(key, profile.figures[key]) for key in keys),
            )
            for profile in profiles
        ),
    )


def name_column(key: str) -> str:
    """Return the name of a figure that stands above a column of its own.

    >>> name_column("steps.p95"), name_column("outcome.pass")
    ('steps, p95', 'outcome: pass')
    """
    if key.endswith(".p95"):
        return words.LABELS[key.removesuffix(".p95") + ".median"].replace("median", "p95")
    return words.name_figure(key).strip()


def choose_measured(profiles: Sequence[Profile], keys: Iterable[str]) -> list[str]:
    """Return the figures that any of the groups has, in the order given, without axes."""
    return [
        key
        for key in keys
        if key not in words.AXES
        and all(key in p.figures for p in profiles)
        and any(isinstance(p.figures[key], Estimate) for p in profiles)
    ]


def chart_vector(profiles: Sequence[Profile], table: Table) -> Chart | None:
    """Return the shares of the vector with their intervals; None where there is none."""
    keys = choose_measured(profiles, profiles[0].figures)
    powers = [key for key in keys if "^" in key]
    keys = [key for key in keys if key not in powers[:-1]]
    rows: list[dict[str, object]] = []
    for order, key in enumerate(keys):
        for profile in choose_largest(profiles):
            figure = profile.figures[key]
            if words.draw_interval(figure) is not None and isinstance(figure, Estimate):
                name = words.name_figure(key).strip()
                rows.append(make_interval_row(name, name_profile(profile), key, figure, order))
    if not rows:
        return None
    return Chart(
        id="vector-chart",
        spec="vector",
        title="Outcome and path",
        alt=f"Shares with 95 % intervals of {len(choose_largest(profiles))} groups; table below.",
        rows=rows,
        table=table,
    )


def _with_curves(profiles: Sequence[Profile]) -> list[tuple[Profile, Shapes]]:
    return [(p, p.shapes) for p in profiles if isinstance(p.shapes, Shapes)]


def chart_shapes(profiles: Sequence[Profile]) -> Chart | None:
    """Return the shares of shapes of all groups; None where none has any."""
    held = _with_curves(profiles)
    shown = {id(profile) for profile in choose_largest([profile for profile, _ in held])}
    rows: list[dict[str, object]] = []
    shares = []
    for profile, shapes in held:
        for order, (shape, share) in enumerate(shapes.shares.items()):
            shares.append(
                make_row(
                    name_profile(profile),
                    words.name_shape(shape),
                    TableCell(words.format_share(share.value), sort=share.value),
                    words.format_interval("shape", share),
                    TableCell(words.format_n(share), sort=share.n),
                )
            )
            if id(profile) in shown and share.low is not None and share.high is not None:
                name, group = words.name_shape(shape), name_profile(profile)
                rows.append(make_interval_row(name, group, "shape", share, order))
    if not rows:
        return None
    return Chart(
        id="shapes-chart",
        spec="shapes",
        title="Shapes of the effort",
        alt="Share of the runs by the shape of their score curve, with 95 % intervals.",
        rows=rows,
        table=Table(
            id="shapes-table",
            caption="Share of runs by shape",
            columns=make_columns(
                "group", "shape", "share", "95 % interval", "n", numbers=("share", "n")
            ),
            rows=tuple(shares),
        ),
    )


def tabulate_shape_counts(profiles: Sequence[Profile]) -> Table | None:
    """Return how many runs of each group have which kind of curve; None where no run has one."""
    held = _with_curves(profiles)
    if not held:
        return None
    notes = dict.fromkeys(f"Scores: {shapes.source}; noise: {shapes.sigma}." for _, shapes in held)
    counted = {
        "runs with a curve": "n_runs",
        "unresolved": "unresolved",
        "no shape fits": "unmodelled",
        "low throughout": "low_level",
        "a weighty step below the gate": "gate_failed",
    }
    rows = []
    for profile, shapes in held:
        why = shapes.no_shares
        said = "estimated" if why is None else f"{why.kind}: {why.reason}"
        counts = [int(getattr(shapes, field)) for field in counted.values()]
        cells = (TableCell(f"{count:,}", sort=count) for count in counts)
        rows.append(make_row(name_profile(profile), *cells, TableCell(said, tone="quiet")))
    return Table(
        id="shape-counts",
        caption="Runs with a curve",
        columns=make_columns("group", *counted, "shares", numbers=counted),
        rows=tuple(rows),
        notes=tuple(notes),
    )


# What is counted beside the five shares, and how it is called.
BESIDE = {
    "unresolved": "unresolved",
    "unmodelled": "no shape fits",
    "low_level": "low mean score",
    "gate_failed": "gate failed",
}


def tabulate_shapes(profiles: Sequence[Profile]) -> Table | None:
    """Return the shapes of all groups beside each other; None where there is nothing to say."""
    held = [
        (profile, shapes)
        for profile, shapes in _with_curves(profiles)
        if shapes.shares or shapes.labels or not shapes.source.startswith("labels")
    ]
    if not held:
        return None
    titles = [TableColumn(profile.title, code=True) for profile, _ in held]
    return tabulate_shapes_of(
        [shapes for _, shapes in held],
        titles if len(held) > 1 else [TableColumn("share, 95 % interval")],
    )


def tabulate_shapes_of(held: Sequence[Shapes], titles: Sequence[TableColumn]) -> Table:
    """Return shapes beside each other, a column each, with what their figures rest on."""
    rows = [
        (words.name_shape(shape), [_share(shapes, shape) for shapes in held]) for shape in SHAPES
    ]
    if any(shapes.shares for shapes in held):
        sums = [(s.n_runs - s.unmodelled, s.n_runs + sum(s.unmeasured.values())) for s in held]
        rows.append(("shares are of", [f"{n:,} of {total:,} runs" for n, total in sums]))
    for field, called in BESIDE.items():
        counts = [int(getattr(shapes, field)) for shapes in held]
        if any(counts):
            of = [f"{n:,} of {s.n_runs:,} runs" for n, s in zip(counts, held, strict=True)]
            rows.append((called, of))
    if any(shapes.unmeasured for shapes in held):
        lost = [", ".join(f"{n:,} {kind}" for kind, n in s.unmeasured.items()) for s in held]
        rows.append(("without a shape", [said or "0" for said in lost]))
    return Table(
        id="shapes",
        corner="Shapes",
        columns=(TableColumn("shape"), *titles),
        rows=tuple(make_row(TableCell(label, level=1), *cells) for label, cells in rows),
        notes=tuple(describe_basis(held)),
        layout="beside",
        own=True,
    )


def _share(shapes: Shapes, shape: str) -> str:
    found = {str(name): estimate for name, estimate in shapes.shares.items()}.get(shape)
    if found is not None:
        return words.format_with_interval("shape", found)
    return format_count(shapes.labels.get(shape, 0), "run")


def describe_basis(held: Sequence[Shapes]) -> Iterator[str]:
    """Yield where the scores come from, their noise, and why there are no shares."""
    yield from dict.fromkeys(f"scores: {s.source}; noise: {s.sigma}" for s in held)
    absent = [s.no_shares for s in held if s.no_shares is not None]
    yield from dict.fromkeys(f"no shares: {a.reason}; runs by their own label" for a in absent)


def tabulate_shape_differences(found: ShapesDifference, first: Shapes, second: Shapes) -> Table:
    """Return the comparison of two groups by shape."""
    rows = []
    for shape, difference in found.difference.items():
        sides = (shapes.shares.get(shape) for shapes in (first, second))
        values = ["-" if side is None else words.format_share(side.value) for side in sides]
        values += [words.format_signed("shape", difference.value)]
        interval = words.format_interval("shape", difference)
        rows.append(
            make_row(words.name_shape(shape), *values, interval, words.format_p(found.p[shape]))
        )
    columns = make_columns(
        "share of runs", "first", "second", "difference", "95 % interval", "p, max of 5",
        numbers=("first", "second", "difference", "95 % interval", "p, max of 5"),
    )  # fmt: skip
    return Table(
        id="shape-differences", corner="share of runs", columns=columns, rows=tuple(rows), own=True
    )


def tabulate_panels(found: Panels, links: Links | None = None) -> list[Table]:
    """Return every table that has rows, in the order in which they are read."""
    all_ = (
        *tabulate_shares(found),
        tabulate_claims(found),
        *([tabulate_agreement(found)] if found.agreement else []),
        tabulate_disputes(found, links),
        tabulate_trace(found),
        tabulate_patterns(found),
        tabulate_behaviours(found),
        tabulate_answers(found),
        tabulate_flags(found),
        tabulate_costs(found),
    )
    return [sheet for sheet in all_ if sheet.rows or sheet.notes]


def tabulate_outcomes(
    joint: OutcomeTable, profile: Profile, at: int, links: Links | None = None
) -> Table:
    """Return outcome against one grade of the path; on a page the first note leads to its run."""
    notes = words.note_unearned(joint, profile)
    lucky = sorted(profile.lucky, key=lambda run: not run.sure)[:1]
    named = {"pass": lucky, "fail": profile.unlucky[:1]} if at == 0 and links else {}
    hrefs = {name: links.run(run.id) for name, runs in named.items() for run in runs if links}
    left = f"; {joint.unmeasured:,} runs without both grades" if joint.unmeasured else ""
    noted = any(notes.values())
    rows = []
    for name, counts in (("pass", joint.passed), ("fail", joint.failed)):
        said = notes.get(name, "")
        href = hrefs.get(name) if said else None
        note = TableCell(said, tone="quiet", href=href, code=bool(said))
        cells = [TableCell(f"{count:,}", sort=count) for count in counts]
        first = TableCell(name, tone=TONES[name], level=1)
        rows.append(make_row(first, *cells, *([note] if noted else [])))
    return Table(
        id=f"joint-{at}",
        caption=f"Was it earned? Outcome against {joint.grade}{left}",
        corner="" if at else "Was it earned?",
        columns=(
            TableColumn("outcome", least=16),
            *(
                TableColumn(name, number=True, least=max(len(name) + 2, 7), gap=0)
                for name in joint.columns
            ),
            *([TableColumn("note" if links else "", gap=3, overflow="wrap")] if noted else []),
        ),
        rows=tuple(rows),
    )


def plot_outcome_path(runs: Sequence[RunListRow], by: str | None) -> Chart | None:
    """Return outcome against path over cases; None where no run has both grades."""
    cases: dict[tuple[str, str], list[RunListRow]] = {}
    graded = [row for row in runs if row.reached is not None and row.outcome != "unknown"]
    fields = [x for x in ((by,) if by else DEFAULT_BY) if x in RunListRow.__struct_fields__]
    title = cache(lambda *values: visible_line(" · ".join(filter(None, values))) or "all runs")
    for row in graded:
        group = title(*[str(getattr(row, field)) for field in fields])
        cases.setdefault((group, row.task or row.name), []).append(row)
    spots: dict[tuple[str, float, float], list[str]] = {}
    for (group, case), held in cases.items():
        path = sum(row.reached or 0.0 for row in held) / len(held)
        passed = sum(row.outcome == "pass" for row in held) / len(held)
        spots.setdefault((group, round(path, PLACES), round(passed, PLACES)), []).append(case)
    if not spots:
        return None
    rows: list[dict[str, object]] = []
    cells = []
    for (group, path, passed), named in sorted(spots.items()):
        n = len(named)
        more = f" and {n - NAMED_CASES} more" if n > NAMED_CASES else ""
        which = visible_line(", ".join(named[:NAMED_CASES])) + more
        rows.append({"group": group, "path": path, "passed": passed, "cases": n, "named": which})
        shares = (TableCell(f"{share:.2f}", sort=share) for share in (path, passed))
        cells.append(make_row(group, *shares, TableCell(str(n), sort=n), which))
    left = len(runs) - len(graded)
    return Chart(
        id="earned-chart",
        spec="earned",
        title="Outcome against path, by case",
        alt=(
            f"{len(cases)} cases by mean share of sub-goals reached and pass rate; "
            f"{left} runs without both grades are left out."
        ),
        rows=rows,
        table=Table(
            id="earned-table",
            caption="Cases by path and outcome",
            columns=make_columns(
                "group", "path", "pass rate", "cases", "which",
                numbers=("path", "pass rate", "cases"),
            ),
            rows=tuple(cells),
        ),
    )  # fmt: skip


# Rows of one page of runs on the server.
PAGE_SIZE = 100


class RunListRow(msgspec.Struct, frozen=True, gc=False):
    """One run in few figures, in the order of `make_run_rows`; None where one is not measured."""

    id: str
    name: str
    workflow: str
    agent: str
    task: str
    trial: str
    outcome: str
    steps: int
    calls: int
    reached: float | None = None  # share of the sub-goals that were reached
    failed_calls: float | None = None  # tool calls that failed
    repeats: float | None = None  # calls that ask again what is known
    violations: float | None = None  # rules of conduct broken
    cost_usd: float | None = None
    seconds: float | None = None
    faults: tuple[str, ...] | None = None  # axes at fault; None where no axis was scored

    @classmethod
    def of(cls, runs: Runs, at: int) -> RunListRow:
        """Return the row of one run in columns, nothing measured."""
        return cls(
            id=runs.id[at],
            name=runs.name[at],
            workflow=runs.workflow[at],
            agent=runs.agent[at] or "",
            task=runs.task[at] or "",
            trial=runs.trial[at] or "",
            outcome=runs.outcome[at],
            steps=int(runs.steps[at]),
            calls=int(runs.calls[at]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs are shown, and how ordered: what the address says."""

    text: str = ""  # a part of a name, case not minded
    outcome: str = ""  # "pass", "fail", "unknown"; "" for all
    agent: str = ""  # an agent; "" for all
    workflow: str = ""  # a workflow; "" for all
    sort: str = ""  # a key of `COLUMNS`; anything else is the order of `look_first`
    descending: bool = False  # whether the order is turned round
    page: int = 0  # which hundred, from 0


# The columns of the table: label, field of a row, and unit of the numbers that it holds.
COLUMNS: dict[str, tuple[str, str, str]] = {
    "run": ("run", "name", ""),
    "outcome": ("outcome", "outcome", ""),
    "agent": ("agent", "agent", ""),
    "task": ("task", "task", ""),
    "steps": ("steps", "steps", "steps"),
    "calls": ("calls", "calls", "steps"),
    "reached": ("sub-goals", "reached", "share"),
    "failed": ("failed calls", "failed_calls", "steps"),
    "repeats": ("repeats", "repeats", "steps"),
    "violations": ("rules broken", "violations", "steps"),
    "axes": ("axes at fault", "faults", ""),
    "cost": ("cost", "cost_usd", "cost_usd"),
    "seconds": ("seconds", "seconds", "seconds"),
}


def read_runs(
    rows: Rows, *, where: Where | None = None, since: str | None = None
) -> tuple[RunListRow, ...]:
    """Return a row for each chosen run, most telling first.

    Raises:
        StoreError: versions of a measure are mixed.
    """
    table = read_table(rows, combine_conditions(where, since))
    return make_run_rows(table, rows.shown if isinstance(rows, Store) else None)


def make_run_rows(table: RunTable, redactor: Redactor | None) -> tuple[RunListRow, ...]:
    """Return the same from rows that are already read, without secrets."""
    order = np.argsort(-weigh_runs(table), kind="stable")
    runs, columns = table.runs, {"id": table.runs.id[order].tolist()}
    for name in ("name", "workflow", "agent", "task", "trial", "outcome"):
        texts = [text or "" for text in getattr(runs, name)[order].tolist()]
        columns[name] = hide_texts(redactor, texts)
    columns |= {"steps": runs.steps[order].tolist(), "calls": runs.calls[order].tolist()}
    for name, measure in (
        ("reached", "subgoals"),
        ("failed_calls", "errors"),
        ("repeats", "redundant_calls.count"),
        ("violations", "policy"),
        ("cost_usd", "efficiency.cost_usd"),
        ("seconds", "efficiency.seconds"),
    ):
        columns[name] = table.columns[measure].numbers[order].tolist()
    axes = {name: key for key, name in words.AXES.items() if table.scored(key)}
    if axes:
        wrong = [table.columns[key].label[order] == words.INCORRECT for key in axes.values()]
        columns["faults"] = [tuple(compress(axes, run)) for run in zip(*wrong, strict=True)]
    return tuple(map(RunListRow, *columns.values()))


def select_runs(runs: Sequence[RunListRow], query: RunQuery) -> list[RunListRow]:
    """Return the runs that a query chooses, in its order; what is not measured comes last."""
    text = query.text.casefold()
    chosen = [
        row
        for row in runs
        if text in row.name.casefold()
        and query.outcome in ("", row.outcome)
        and query.agent in ("", row.agent)
        and query.workflow in ("", row.workflow)
    ]
    if query.sort not in COLUMNS:
        return chosen
    field = COLUMNS[query.sort][1]
    values = [getattr(row, field) for row in chosen]
    if query.sort == "axes":
        values = [None if faults is None else len(faults) for faults in values]
    known = [(value, row) for value, row in zip(values, chosen, strict=True) if value is not None]
    known.sort(key=lambda pair: pair[0], reverse=query.descending)
    absent = [row for value, row in zip(values, chosen, strict=True) if value is None]
    return [row for _, row in known] + absent


def tabulate_runs(
    shown: Sequence[RunListRow],
    runs: Sequence[RunListRow],
    links: Links,
    query: RunQuery | None = None,
) -> Table:
    """Return a table of `shown`, with the columns that any of `runs` has something in."""
    asked = query or RunQuery()
    kept = [
        name
        for name, (_, field, _) in COLUMNS.items()
        if any(getattr(row, field) not in (None, "") for row in runs)
    ]
    columns = []
    for name in kept:
        label, _, unit = COLUMNS[name]
        turned = bool(unit) if asked.sort != name else not asked.descending
        order: SortOrder = ""
        if asked.sort == name:
            order = "descending" if asked.descending else "ascending"
        href = address_runs(links, asked, sort=name, descending=turned)
        columns.append(TableColumn(label, number=bool(unit), href=href, order=order))
    return Table(
        id="runs",
        caption="Runs",
        columns=tuple(columns),
        rows=tuple(
            TableRow(
                tuple(_cell(name, row, links) or TableCell("-", tone="quiet") for name in kept),
                match=row.name,
                facets={"outcome": row.outcome, "agent": row.agent, "workflow": row.workflow},
            )
            for row in shown
        ),
        empty=EmptyNotice(
            said="No run is so. Clear the filter, or read more runs.",
            commands=("stepscope import PATHS",),
        ),
    )


def address_runs(
    links: Links,
    query: RunQuery,
    *,
    page: int = 0,
    sort: str | None = None,
    descending: bool | None = None,
) -> str | None:
    """Return the address of the runs that a query chooses, turned to another page or order."""
    return links.runs(
        q=query.text,
        outcome=query.outcome,
        agent=query.agent,
        workflow=query.workflow,
        sort=query.sort if sort is None else sort,
        desc="1" if (query.descending if descending is None else descending) else "",
        page=str(page) if page else "",
    )


def _cell(name: str, row: RunListRow, links: Links) -> TableCell | None:
    """Return one cell; None where there is nothing to say."""
    _, field, unit = COLUMNS[name]
    value = getattr(row, field)
    if value is None or value == "":
        return None
    if name == "axes":
        return TableCell(", ".join(value), sort=len(value))
    if not unit:
        href = links.run(row.id) if name == "run" else None
        return TableCell(
            value, href=href, tone=TONES.get(value, "quiet") if name == "outcome" else ""
        )
    return TableCell(words.format_number(unit, value), sort=value, tone="" if value else "quiet")
