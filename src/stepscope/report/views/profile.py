"""The failure profile: by axis and by judge, each by group.

Nothing is computed here. What the rules say of an axis is a lower bound: runs in which they proved
a fault, and runs in which their checks ran and proved nothing, which are not called correct. Beside
it stands how often these checks were right where the truth is known. Names of judges, runs and
labels are as the records hold them; renderers escape them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

from stepscope.model.records import RULES, Figure
from stepscope.report import words
from stepscope.report.document import (
    Chart,
    DrawnInterval,
    Links,
    Paragraph,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
    make_columns,
    make_row,
)
from stepscope.report.panel_types import Panel, PanelGroup, Panels
from stepscope.report.types import CheckAccuracy, Profile
from stepscope.safety.text import visible_line
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_count,
    format_estimate,
    format_interval,
    format_number,
    format_p,
    format_percent,
)

# Groups that a chart tells apart by colour and form.
MOST_GROUPS = 7


def name_profile(profile: Profile) -> str:
    """Return what a group is called."""
    return visible_line(profile.title) or "all runs"


def choose_largest(profiles: Sequence[Profile], most: int = MOST_GROUPS) -> list[Profile]:
    """Return the groups that a chart can tell apart: those with the most runs, in their order."""
    kept = sorted(range(len(profiles)), key=lambda at: -profiles[at].n_runs)[:most]
    return [profiles[at] for at in sorted(kept)]


def make_interval_row(label: str, group: str, figure: Estimate, order: int) -> dict[str, object]:
    """Return a row of a chart of intervals."""
    return {
        "label": label,
        "group": group,
        "value": figure.value,
        "low": figure.low,
        "high": figure.high,
        "text": format_estimate(figure),
        "order": order,
    }


def make_figure_cell(key: str, figure: Figure) -> TableCell:
    """Return one figure as a cell: value and interval; pointed at, its n, or why there is none."""
    if isinstance(figure, Unmeasured):
        return TableCell("-", title=f"{figure.kind}: {figure.reason}", tone="quiet")
    return TableCell(
        text=format_number(figure.value, figure.unit),
        sort=figure.value,
        note=format_interval(figure),
        title=f"n {words.format_n(figure)}; unmeasured {words.format_losses(key, figure)}",
        interval=words.draw_interval(figure),
    )


AXES_TITLE = "Failure profile"
# Columns of one group in text as in its vector; an axis' name may take some of its value's.
AXIS_COLUMNS = (
    TableColumn("axis", least=22),
    TableColumn("proved in at least", least=12),
    TableColumn("95 % interval", least=14),
    TableColumn("nothing proved", number=True, least=5),
    TableColumn("not checked", overflow="wrap"),
)
LOWER_BOUND = (
    "The proved share is a lower bound: a run in which nothing is proved may still have a fault"
)

# Runs that a row of the failure profile names, the worst first.
NAMED_RUNS = 3
ALL_RUNS = "The worst runs come first; show RUN prints the fault, report --json lists all (faulty)"
KNOWN_FAULTS = "How often these checks are right, on other runs whose faults are known:"


def count_proved(figure: Estimate) -> int:
    """Return the runs in which a fault was proved."""
    return round(figure.value * figure.n)


def describe_checks(one: CheckAccuracy) -> str:
    """Return how often the checks of an axis were right where the truth is known."""
    proved, planted = (sum(n) for n in zip(*one.planted.values(), strict=True))
    good = f"a false fault in {one.false_faults:,} of {one.good_runs:,} good runs"
    return f"{words.AXES[one.axis]}: {good}, and {proved:,} of {planted:,} planted faults found"


def tabulate_axes(
    profiles: Sequence[Profile], checks: Sequence[CheckAccuracy] = ()
) -> Table | None:
    """Return the axes of all groups, one group in full, several beside each other.

    None where no axis is part of them.
    """
    asked = [key for key in words.AXES if any(key in p.figures for p in profiles)]
    scored = list_scored_axes(profiles)
    left = ", ".join(words.AXES[key] for key in asked if key not in scored)
    if not scored:
        heading = f"{AXES_TITLE}: not scored; {words.SCORE_FIRST}"
        return Table(id="axes", columns=(), rows=(), heading=heading) if asked else None
    rows = []
    absent: dict[str, list[str]] = {}
    for key in scored:
        figures = [profile.figures[key] for profile in profiles]
        reasons = {one.reason if isinstance(one, Unmeasured) else "" for one in figures}
        if len(reasons) == 1 and (why := reasons.pop()):
            absent.setdefault(why, []).append(words.AXES[key])
            continue
        cells = list(map(_axis_cell, figures))
        if len(profiles) == 1 and isinstance(figures[0], Estimate):
            cells = _page_cells(figures[0])
        row = make_row(TableCell(words.AXES[key], level=1), *cells)
        found = profiles[0].faulty.get(key, ()) if len(profiles) == 1 else [
            run for one in profiles for run in one.faulty.get(key, ())[:1]
        ]  # fmt: skip
        if found:
            named = Paragraph(text=words.name_some(found, NAMED_RUNS), indent=4, code=True)
            row = replace(row, below=(named,))
        rows.append(row)
    titles = [TableColumn(profile.title, code=True) for profile in profiles]
    notes = [f"not checked: {', '.join(names)} ({why})" for why, names in absent.items()]
    notes += [LOWER_BOUND, *([ALL_RUNS] if any(p.faulty for p in profiles) else [])]
    known = [describe_checks(one) for one in checks if one.axis in scored]
    notes += [KNOWN_FAULTS, *known] if known else []
    return Table(
        id="axes", corner=AXES_TITLE, heading="" if rows else AXES_TITLE,
        columns=AXIS_COLUMNS if len(profiles) == 1 else (TableColumn("axis"), *titles),
        rows=tuple(rows), notes=(*([f"not scored: {left}"] if left else []), *notes),
        layout="lines" if len(profiles) == 1 else "beside", own=True,
    )  # fmt: skip


def _axis_cell(figure: Figure) -> TableCell:
    if isinstance(figure, Unmeasured):
        said = "not scored" if words.is_unscored(figure) else f"not checked: {figure.reason}"
        return TableCell(said, tone="quiet")
    return TableCell(
        f"at least {count_proved(figure):,} of {figure.n:,}, {format_interval(figure)}"
    )


def chart_intervals(
    spec: str, title: str, rows: list[dict[str, object]], table: Table | None, id: str = ""
) -> Chart | None:
    """Return a chart of values with their intervals; None where there is none."""
    if not rows or table is None:
        return None
    alt = f"{title}, each with its 95 % interval."
    return Chart(id=id or f"{spec}-chart", spec=spec, title=title, alt=alt, rows=rows, table=table)


def chart_axes(profiles: Sequence[Profile]) -> Chart | None:
    """Return the failure profile as a chart; None where no axis was scored."""
    rows = [
        make_interval_row(words.AXES[key], name_profile(one), figure, order)
        for order, key in enumerate(list_scored_axes(profiles))
        for one in choose_largest(profiles)
        if isinstance(figure := one.figures.get(key), Estimate) and figure.low is not None
    ]
    title = "Runs with a proved fault, by axis: a lower bound"
    return chart_intervals("axes", title, rows, tabulate_axes(profiles))


class AxisCell(NamedTuple):
    """One axis of one group as it is drawn, in percent of the scale, and in words."""

    proved: float | None  # None where the rules judge no such axis
    words: str
    limits: str
    href: str | None  # the worst run of those that it was proved in
    judges: list[DrawnInterval]
    said: list[tuple[str, str, str]]  # each judge with its share and its limits


# What an axis asks, in few words.
AXIS_WORDS = {
    "axes.tool_selection": "the wrong tool, or the same failed call again",
    "axes.argument_validity": "a value without origin, or not as expected",
    "axes.sequencing": "a write before consent, steps out of order",
    "axes.result_interpretation": "claims something that the result does not say",
    "axes.termination": "ends on an error, too early or too late",
}
# Where the scale of the small multiples may end, in percent.
SCALES = (10, 20, 40, 60, 100)
# Groups beside each other; the table below has all.
SHOWN_GROUPS = 4


def draw_axes(
    profiles: Sequence[Profile], panels: Panels | None, links: Links
) -> tuple[list[str], list[tuple[str, str, list[AxisCell]]]]:
    """Return the ticks of one scale, and a row for each axis or aspect: its cells by group."""
    shown = choose_largest(profiles, SHOWN_GROUPS)
    by_rubric = {panel.rubric: panel for panel in panels.panels} if panels else {}
    names = name_judges(panels) if panels else JudgeNames()
    found: dict[str, list[list[tuple[str, Estimate]]]] = {}
    for key in dict.fromkeys([*list_scored_axes(profiles), *by_rubric]):
        groups = by_rubric[key].groups if key in by_rubric else ()
        of = {group.title: group.seats for group in groups}
        if len(groups) == len(shown) == 1:
            of = {shown[0].title: groups[0].seats}
        found[key] = [
            [
                (names[seat.judge], seat.failing)
                for seat in of.get(one.title, ())
                if seat.judge != RULES and isinstance(seat.failing, Estimate)
            ]
            for one in shown
        ]
    shares = [f.value for one in shown for f in map(one.figures.get, found) if _is_known(f)]
    shares += [x.high or x.value for seats in found.values() for some in seats for _, x in some]
    scale = next(end for end in SCALES if end >= min(100 * max(shares, default=0.0), 100))
    rows = []
    for key, seats in found.items():
        label = words.AXES[key] if key in words.AXES else words.name_panel(by_rubric[key])
        cells = [
            _draw_axis(key, one, some, 100 / scale, links)
            for one, some in zip(shown, seats, strict=True)
        ]
        rows.append((label[:1].upper() + label[1:], AXIS_WORDS.get(key, ""), cells))
    return [f"{scale * at / 4:g}" for at in range(5)], rows


def _is_known(figure: Figure | None) -> TypeGuard[Estimate]:
    return isinstance(figure, Estimate)


def _draw_axis(
    key: str, one: Profile, seats: Sequence[tuple[str, Estimate]], scale: float, links: Links
) -> AxisCell:
    drawn, said = [], []
    for name, seat in seats:
        limits = format_interval(seat)
        said.append((f"{name}, of {seat.n:,}", format_percent(seat.value), limits))
        ends = (seat.value if x is None else x for x in (seat.low, seat.value, seat.high))
        low, value, high = (min(100 * scale * x, 100.0) for x in ends)
        drawn.append(DrawnInterval(low=low, value=value, high=high))
    proved, worst = one.figures.get(key), one.faulty.get(key, ())
    if proved is None or isinstance(proved, Unmeasured):
        why = "" if proved is None else proved.reason
        return AxisCell(None, "not checked", why, None, drawn, said)
    href = links.run(worst[0].id) if worst else None
    bar, limits = min(100 * scale * proved.value, 97.0), format_interval(proved)
    if not count_proved(proved):
        return AxisCell(None, f"none in {proved.n:,}", limits, None, drawn, said)
    count = f"\u2265 {count_proved(proved):,} of {proved.n:,}"
    return AxisCell(bar, count, limits, href, drawn, said)


def head_groups(profiles: Sequence[Profile]) -> list[tuple[str, str]]:
    """Return the heads of the small multiples: each group, and how many of its runs pass."""
    out = []
    for one in choose_largest(profiles, SHOWN_GROUPS):
        passed = one.figures.get("outcome.pass")
        said = f"{format_percent(passed.value)} pass, " if _is_known(passed) else ""
        out.append((name_profile(one), f"{said}{format_count(one.n_runs, 'run')}"))
    return out


def state_faults(profiles: Sequence[Profile], whole: Profile) -> list[tuple[str, Tone]]:
    """Return the first sentence of the profile: which axis breaks most, as far as it is proved."""
    found = [
        (count_proved(figure), figure.n, words.AXES[key])
        for key in list_scored_axes(profiles)
        if isinstance(figure := whole.figures.get(key), Estimate)
    ]
    most = max(found, default=(0, 0, ""))
    if not found:
        return [("No axis was measured in these runs.", "")]
    if not most[0]:
        said = "No fault is proved on any axis; that does not show that the runs have none."
        return [(said, "")]
    names = [name for count, _, name in found if count == most[0]]
    subject = " and ".join(names) if len(names) < 3 else f"{len(names)} axes alike"
    verb, each = ("break", " each") if len(names) > 1 else ("breaks", "")
    said = f"{subject[:1].upper()}{subject[1:]} {verb} most often: "
    runs = f"at least {most[0]:,} of {most[1]:,} runs"
    return [(said, ""), (runs, "bad"), (f"{each}, proved by rules.", "")]


def list_scored_axes(profiles: Sequence[Profile]) -> list[str]:
    """Return the axes that any of the groups was scored on."""
    return [
        key
        for key in words.AXES
        if any(key in p.figures and not words.is_unscored(p.figures[key]) for p in profiles)
    ]


def _page_cells(figure: Estimate) -> list[TableCell]:
    lost = [f"{n:,} {k.replace('_', ' ')}" for k, n in sorted(figure.unmeasured.items()) if n]
    proved = count_proved(figure)
    return [
        TableCell(f"{proved:,} of {format_count(figure.n, 'run')}", sort=proved),
        TableCell(format_interval(figure), interval=words.draw_interval(figure)),
        TableCell(f"{figure.n - proved:,}", sort=figure.n - proved),
        TableCell(", ".join(lost) or "0", tone="quiet"),
    ]


def tabulate_checks(checks: Sequence[CheckAccuracy]) -> Table:
    """Return how often the checks were right where the truth is known, a row a planted kind."""
    rows = []
    for one in checks:
        of = f"{one.false_faults:,} of {one.good_runs:,}"
        for kind, (proved, planted) in one.planted.items():
            found = TableCell(f"{proved:,} of {planted:,}", sort=proved / max(planted, 1))
            rows.append(
                make_row(words.AXES[one.axis], kind.replace("_", " "), found, of, one.version)
            )
    return Table(
        id="checks-table",
        caption="Accuracy of these checks where the truth is known",
        columns=make_columns(
            "axis", "planted fault", "proved", "false faults in good runs", "version measured",
            numbers=("proved",),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def make_sheet(
    key: str,
    heading: str,
    head: Sequence[str],
    rows: Iterable[Sequence[TableCell | str]],
    notes: Sequence[str] = (),
) -> Table:
    """Return a table of what judges say, under a heading."""
    return Table(
        id=f"judges-{key}", caption=heading, heading=heading, columns=make_columns(*head),
        rows=tuple(make_row(*row) for row in rows), notes=tuple(notes),
        layout="beside" if key.startswith("panel") else "wrapped",
    )  # fmt: skip


class JudgeNames(dict[str, str]):
    """What judges are called; who is no judge of the report keeps its name."""

    def __missing__(self, name: str) -> str:
        return name


def name_judges(found: Panels) -> JudgeNames:
    """Return what the judges of a report are called."""
    sitting = dict.fromkeys(m.judge for panel in found.panels for m in panel.members)
    raters = dict.fromkeys(name for one in found.agreement for name in one.judges)
    return JudgeNames(words.shorten_names(dict.fromkeys([*found.judges, *sitting, *raters])))


def format_share_of(figure: Figure) -> str:
    """Return a share with its interval, how many it is of, and the worst case where there is one.

    Of what is absent, the kind.
    """
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    worst = words.format_worst_case(figure)
    said = f"{format_estimate(figure)} of {figure.n:,}"
    return f"{said} ({worst})" if worst else said


def tabulate_shares(found: Panels) -> Iterator[Table]:
    """Yield the failure profile: of one group by judge, of several by group, any and all."""
    titles = [group.title for group in found.panels[0].groups] if found.panels else []
    if len(titles) == 1:
        panels = found.panels
        names = name_judges(found)
        judges = list(dict.fromkeys(m.judge for panel in panels for m in panel.members))
        judges.sort(key=lambda judge: judge == "rules")
        summed = any(panel.groups[0].votes for panel in panels)
        rows = []
        for panel in panels:
            group = panel.groups[0]
            seats = {seat.judge: format_share_of(seat.failing) for seat in group.seats}
            seats |= {RULES: f"at least {seats[RULES]}"} if RULES in seats else {}
            both = [format_share_of(x) for vote in group.votes[:1] for x in (vote.any, vote.all)]
            votes = (both or ["-", "-"]) if summed else ()
            rows.append(
                (words.name_panel(panel), *votes, *(seats.get(judge, "-") for judge in judges))
            )
        summary = ("any judge", "all judges") if summed else ()
        head = ("", *summary, *(names[judge] for judge in judges))
        yield make_sheet(
            "panel", "At fault, by judge", head, tuple(rows), tuple(_notes(panels, names))
        )
    elif titles:
        yield _many_groups(found.panels, titles, "any", name_judges(found))
        yield _many_groups(found.panels, titles, "all", name_judges(found))


def _many_groups(
    panels: Sequence[Panel], titles: Sequence[str], how: str, names: Mapping[str, str]
) -> Table:
    rows = []
    for panel in panels:
        cells = []
        for group in panel.groups:
            figures = [getattr(vote, how) for vote in group.votes] or [
                seat.failing for seat in group.seats if how == "any"
            ]
            cells.append(format_share_of(figures[0]) if figures else "-")
        rows.append((words.name_panel(panel), *cells))
    title = "At fault: any judge" if how == "any" else "At fault: all judges"
    notes = (*_notes(panels, names), "each judge alone: --json") if how == "all" else ()
    return make_sheet(f"panel-{how}", title, ("", *titles), tuple(rows), notes)


def _notes(panels: Sequence[Panel], names: Mapping[str, str]) -> Iterator[str]:
    """Yield whose verdicts are summed up, what they left open, and what the shares speak of."""
    sitting = [group.votes[0] for p in panels for group in p.groups if group.votes]
    for judges in dict.fromkeys(vote.judges for vote in sitting):
        part = sum(vote.incomplete for vote in sitting if vote.judges == judges)
        left = f"; {part:,} run verdicts left out" if part else ""
        *some, last = [names[judge] for judge in judges]
        said = f"{', '.join(some)} and {last}" if some else last
        yield f"any, all: over the runs that {said} answered{left}"
    seats = [seat for panel in panels for group in panel.groups for seat in group.seats]
    by_judge: dict[str, Counter[str]] = {}
    for seat in seats:
        by_judge.setdefault(seat.judge, Counter()).update(seat.lost)
    for judge, lost in by_judge.items():
        if lost:
            yield f"no usable verdict from {names[judge]}: {format_counts(lost)}"
    if any(words.format_worst_case(seat.failing) for seat in seats):
        yield "in brackets: the share if all runs without a yes or no were at fault, or none"
    if any(panel.drawn for panel in panels):
        yield "runs were sampled: each share is weighted, and is about all that could be drawn"
    if any(seat.not_judged for seat in seats):
        yield "shares are of the judged runs; others are in no share"


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as words, the largest first.

    >>> format_counts({"refused": 1, "uncertain": 3})
    '3 uncertain, 1 refused'
    """
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{n:,} {name}" for name, n in order)


# Disputed runs and flags that people are shown; JSON has all.
SHOWN = 5
MOST_FLAGS = 12
# Steps named of one verdict.
CITED = 6


def tabulate_claims(found: Panels) -> Table:
    """Return the comparisons of groups that survive Holm, and how many were made."""
    made = [(panel, c) for panel in found.panels for c in panel.claims if c.p is not None]
    rows = tuple(
        (
            words.name_panel(panel),
            f"{claim.second} against {claim.first}",
            words.describe_effect(claim.effect),
            format_p(claim.p_adjusted),
        )
        for panel, claim in made
        if claim.survives
    )
    n = len(made)
    note = f"{len(rows):,} of {n:,} comparisons of groups survive{'s' * (len(rows) == 1)} Holm"
    head = ("", "groups", "difference", "p, Holm")
    return make_sheet("claims", "Groups that differ", head, rows, (note,) if n else ())


def tabulate_disputes(found: Panels, links: Links | None) -> Table:
    """Return the runs on which families disagree: material for the rubric, no sample."""
    names = name_judges(found)
    rows = tuple(
        (
            TableCell(
                one.name if one.step is None else f"{one.name} step {one.step}",
                href=links.run(one.id) if links else None,
            ),
            words.name_rubric(one.rubric),
            " · ".join(f"{names[judge]} {label}" for judge, label in one.answers.items()),
            words.list_some(one.steps, CITED) or "-",
        )
        for one in found.queue[:SHOWN]
    )
    more = found.n_disputed - len(rows)
    notes = [f"and {more:,} more: stepscope agree --queue"] if more > 0 else []
    notes += ["selected because they are disputed: no rate is computed on them"] if rows else []
    return make_sheet("queue", "Disputed", ("run", "about", "answers", "cites"), rows, tuple(notes))


def tabulate_trace(found: Panels) -> Table:
    """Return one run worked through: its aspects by judge, then the steps cited in common."""
    worked = found.trace
    head = ("about", "answers", "cited by two or more")
    if worked is None:
        return make_sheet("trace", "", head, ())
    names = name_judges(found)
    rows = [
        (
            words.name_rubric(line.rubric),
            " · ".join(
                f"{names[one.judge]} {one.label}"
                + ("" if one.confidence is None else f" {format_number(one.confidence)}")
                for one in line.answers
            ),
            words.list_some(line.common, CITED) or "-",
        )
        for line in worked.lines
    ]
    notes = tuple(f"{one.step} {one.actor}: {one.text}" for one in worked.steps)
    title = f"Worked through: {worked.name} ({worked.outcome})"
    return make_sheet("trace", title, head, tuple(rows), notes)


def tabulate_patterns(found: Panels) -> Table:
    """Return how often each pattern of step labels shows, and what to do about it."""
    named = [(one.name.replace("_", " "), one) for one in found.patterns]
    rows = tuple(
        (
            name,
            *_whose(one.judge, one.group, found),
            format_share_of(one.share),
            ", ".join(one.runs) or "-",
        )
        for name, one in named
        if one.n
    )
    advice = dict.fromkeys(f"{name}: {one.advice}" for name, one in named if one.n)
    shown = {name for name, one in named if one.n}
    open_ = {name: max(x.unknown for n, x in named if n == name) for name, _ in named}
    left = [name for name in open_ if name not in shown]
    if none := [name for name in left if not open_[name]]:
        advice |= {f"none in any labelled run: {', '.join(none)}": None}
    for name in (name for name in left if open_[name]):
        advice |= {
            f"unknown outcome in {format_count(open_[name], 'run')} with labels: {name}": None
        }
    head = ("", *_who(found), "share of runs", "for example")
    return make_sheet("patterns", "Patterns of steps", head, rows, tuple(advice))


def _several(found: Panels) -> bool:
    return bool(found.panels) and len(found.panels[0].groups) > 1


def _who(found: Panels) -> tuple[str, ...]:
    return ("judge", "group") if _several(found) else ("judge",)


def _whose(judge: str, group: str, found: Panels) -> tuple[str, ...]:
    name = name_judges(found)[judge]
    return (name, group) if _several(found) else (name,)


def tabulate_behaviours(found: Panels) -> Table:
    """Return where each behaviour begins in a run, and how it spreads over it."""
    rows = []
    for one in found.onsets:
        spread = (
            "-" if isinstance(tenth, Unmeasured) else format_number(tenth.value)
            for tenth in one.tenths
        )
        begins = format_estimate(one.onset).removesuffix(" -")
        cells = format_share_of(one.runs), begins, " ".join(spread)
        rows.append((words.name_rubric(one.rubric), *_whose(one.judge, one.group, found), *cells))
    head = ("", *_who(found), "runs with it", "begins at", "share of steps, by tenth of the run")
    notes = ("begins at: median place of its first step, 0 the run's first and 1 its last",)
    return make_sheet("behaviours", "Behaviours", head, rows, notes if rows else ())


def tabulate_answers(found: Panels) -> Table:
    """Return the answers to rubrics that have none against the agent."""
    rows = tuple(
        (
            words.name_rubric(one.rubric),
            *_whose(one.judge, one.group, found),
            format_counts(one.counts) or "-",
            format_counts(one.lost) or "0",
        )
        for one in found.answers
    )
    head = ("", *_who(found), "answers", "without one")
    return make_sheet("answers", "Other answers", head, rows)


def tabulate_flags(found: Panels) -> Table:
    """Return what weakens these verdicts."""
    names = name_judges(found)
    rows = tuple(
        (one.kind, names[one.judge] or "-", f"{one.n:,}", one.said, ", ".join(one.runs[:2]) or "-")
        for one in found.flags[:MOST_FLAGS]
    )
    more = len(found.flags) - len(rows)
    notes = (f"and {more:,} more",) if more > 0 else ()
    head = ("flag", "judge", "runs", "what", "for example")
    return make_sheet("flags", "What weakens these verdicts", head, rows, notes)


def tabulate_costs(found: Panels) -> Table:
    """Return what each judge took."""
    rows = []
    for one in found.costs:
        tokens = (
            "-" if count is None else f"{count:,}"
            for count in (one.input_tokens, one.cached_tokens, one.output_tokens)
        )
        paid, saved = (
            "" if usd is None else format_number(usd, "usd") for usd in (one.usd, one.usd_saved)
        )
        paid += f", {one.unpriced:,} without a price" if paid and one.unpriced else ""
        rows.append((one.judge, f"{one.calls:,}", *tokens, paid or "price unknown", saved or "-"))
    head = ("judge", "calls", "tokens in", "of these cached", "out", "paid", "saved by the cache")
    return make_sheet("costs", "Cost of the judges", head, rows)


def chart_panels(found: Panels) -> list[Chart]:
    """Return a picture for each group of runs: the share at fault by aspect and judge."""
    shares, names = tabulate_all_shares(found), name_judges(found)
    charts = []
    for at, group in enumerate(found.panels[0].groups[:MOST_GROUPS] if found.panels else ()):
        rows = [
            make_interval_row(words.name_panel(panel), names[seat.judge], figure, order)
            for order, panel in enumerate(found.panels)
            for seat in panel.groups[at].seats
            if isinstance(figure := seat.failing, Estimate) and figure.low is not None
        ]
        title = f"Share of runs at fault, by judge: {group.title}"
        charts.append(chart_intervals("panel", title, rows, shares, f"panel-chart-{at}"))
    return [chart for chart in charts if chart is not None]


def tabulate_all_shares(found: Panels) -> Table | None:
    """Return every share: a row for each group, aspect and judge, any and all among them."""
    rows = [
        row
        for panel in found.panels
        for group in panel.groups
        for row in _rows(words.name_panel(panel), group)
    ]
    if not rows:
        return None
    notes = [note for sheet in tabulate_shares(found) for note in sheet.notes]
    return Table(
        id="panel-table",
        notes=tuple(dict.fromkeys(note for note in notes if "--json" not in note)),
        caption="Panels: runs at fault among those that a judge answered",
        columns=make_columns(
            "group", "aspect", "judge", "at fault", "95 % interval", "worst case", "judged",
            "no usable verdict", numbers=("at fault", "judged"),
        ),
        rows=tuple(rows),
    )  # fmt: skip


def _rows(aspect: str, group: PanelGroup) -> Iterator[TableRow]:
    for vote in group.votes:
        of = ", ".join(vote.judges)
        lost = f"{vote.incomplete:,} not answered by all" if vote.incomplete else "0"
        for name, figure in (("any judge", vote.any), ("all judges", vote.all)):
            yield make_row(group.title, aspect, TableCell(name, note=of), *_cells_of(figure, lost))
    for seat in group.seats:
        lost = format_counts(seat.lost) or "0"
        if seat.not_judged:
            lost += f"; {seat.not_judged:,} not asked about"
        name = f"{RULES}, at least" if seat.judge == RULES else seat.judge
        yield make_row(group.title, aspect, name, *_cells_of(seat.failing, lost))


def _cells_of(figure: Figure, lost: str) -> tuple[TableCell, ...]:
    gone = TableCell(lost, tone="quiet")
    if isinstance(figure, Unmeasured):
        blank = TableCell("-", tone="quiet")
        why = TableCell("-", tone="quiet", title=f"{figure.kind}: {figure.reason}")
        return why, blank, blank, TableCell("0", sort=0), gone
    return (
        TableCell(format_percent(figure.value), sort=figure.value),
        TableCell(format_interval(figure), interval=words.draw_interval(figure)),
        TableCell(words.format_worst_case(figure) or "-", tone="quiet"),
        TableCell(f"{figure.n:,}", sort=figure.n),
        gone,
    )
