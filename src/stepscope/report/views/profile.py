"""The failure profile by axis and group, and the failure modes.

What the rules say of an axis is a lower bound: runs in which they proved a fault, and runs in which
their checks ran and proved nothing, which are not called correct. Beside it stands how often these
checks were right where the truth is known. A mode is never told without what is shown of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from string import ascii_uppercase
from typing import NamedTuple

from stepscope import values
from stepscope.findings import modes as failure_modes
from stepscope.model.records import RULES, Figure
from stepscope.report import document as doc
from stepscope.report import words
from stepscope.report.types import CheckAccuracy, Panels, Profile
from stepscope.safety.text import visible_line
from stepscope.values import Estimate, Unmeasured

# Groups that a chart tells apart by colour and form.
MOST_GROUPS = 7


def name_profile(profile: Profile) -> str:
    """Return what a group is called."""
    return visible_line(words.name_group(profile)) or "all runs"


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
        "text": values.format_estimate(figure),
        "order": order,
    }


def make_figure_cell(key: str, figure: Figure) -> doc.TableCell:
    """Return one figure as a cell: value and interval; pointed at, its n, or why there is none."""
    if isinstance(figure, Unmeasured):
        return doc.TableCell("-", title=f"{figure.kind}: {figure.reason}", tone="quiet")
    return doc.TableCell(
        text=values.format_number(figure.value, figure.unit),
        sort=figure.value,
        note=values.format_interval(figure),
        title=f"n {words.format_n(figure)}; unmeasured {words.format_losses(key, figure)}",
        interval=words.draw_interval(figure),
    )


AXES_TITLE = "Failure profile"
# Columns of one group in text as in its vector; an axis' name may take some of its value's.
AXIS_COLUMNS = (
    doc.TableColumn("axis", least=22),
    doc.TableColumn("fault proved in", least=12),
    doc.TableColumn("95 % interval (%)", least=14),
    doc.TableColumn("no fault proved", number=True, least=5),
    doc.TableColumn("not checked", overflow="wrap"),
)
LOWER_BOUND = (
    "These counts are lower bounds: a run in which nothing is proved may still have a fault"
)

# Runs that a row of the failure profile names, the worst first.
NAMED_RUNS = 3
ALL_RUNS = (
    "The worst runs come first; 'show RUN' prints the fault, and 'report --json' lists all runs"
)
KNOWN_FAULTS = "These checks were tested on other runs, whose faults are known, with these results:"


def count_proved(figure: Estimate) -> int:
    """Return the runs in which a fault was proved."""
    return round(figure.value * figure.n)


def describe_checks(one: CheckAccuracy) -> str:
    """Return how often the checks of an axis were right where the truth is known."""
    proved, planted = (sum(n) for n in zip(*one.planted.values(), strict=True))
    good = f"a false alarm in {one.false_faults:,} of {one.good_runs:,} good runs"
    return f"{words.AXES[one.axis]}: {good}; {proved:,} of {planted:,} inserted faults found"


def tabulate_axes(
    groups: Sequence[Profile], checks: Sequence[CheckAccuracy] = ()
) -> doc.Table | None:
    """Return the axes of all groups, one in full, several beside each other; None without axes."""
    asked = [key for key in words.AXES if any(key in p.figures for p in groups)]
    scored = list_scored_axes(groups)
    left = ", ".join(words.AXES[key] for key in asked if key not in scored)
    if not scored:
        heading = f"{AXES_TITLE}: not scored; {words.SCORE_FIRST}"
        return doc.Table("axes", (), (), heading=heading) if asked else None
    rows = []
    absent: dict[str, list[str]] = {}
    for key in scored:
        figures = [profile.figures[key] for profile in groups]
        reasons = {one.reason if isinstance(one, Unmeasured) else "" for one in figures}
        if len(reasons) == 1 and (why := reasons.pop()):
            absent.setdefault(why, []).append(words.AXES[key])
            continue
        cells = list(map(_axis_cell, figures))
        if len(groups) == 1 and isinstance(figures[0], Estimate):
            cells = _page_cells(figures[0])
        row = doc.make_row(doc.TableCell(words.AXES[key], level=1), *cells)
        worst = [run for one in groups for run in one.faulty.get(key, ())[:1]]
        if found := groups[0].faulty.get(key, ()) if len(groups) == 1 else worst:
            named = doc.Paragraph(words.name_some(found, NAMED_RUNS), indent=4, code=True)
            row = replace(row, below=(named,))
        rows.append(row)
    titles = [doc.TableColumn(words.name_group(profile), code=True) for profile in groups]
    notes = [f"not checked: {', '.join(names)} ({why})" for why, names in absent.items()]
    notes += [LOWER_BOUND, *([ALL_RUNS] if any(p.faulty for p in groups) else [])]
    known = [describe_checks(one) for one in checks if one.axis in scored]
    notes += [KNOWN_FAULTS, *known] if known else []
    heading = "" if rows else AXES_TITLE
    table = doc.Table("axes", AXIS_COLUMNS, rows, corner=AXES_TITLE, heading=heading, own=True)
    table = replace(table, notes=[f"not scored: {left}", *notes] if left else notes)
    if len(groups) == 1:
        return table
    return replace(table, columns=(doc.TableColumn("axis"), *titles), layout="beside")


def _axis_cell(figure: Figure) -> doc.TableCell:
    if isinstance(figure, Unmeasured):
        said = "not scored" if words.is_unscored(figure) else f"not checked: {figure.reason}"
        return doc.TableCell(said, tone="quiet")
    proved = f"at least {count_proved(figure):,} of {figure.n:,}"
    return doc.TableCell(f"{proved}, {values.format_interval(figure)}")


def chart_intervals(
    spec: str, title: str, rows: list[dict[str, object]], table: doc.Table | None, id: str = ""
) -> doc.Chart | None:
    """Return a chart of values with their intervals; None where there is none."""
    if not rows or table is None:
        return None
    alt = f"{title}, each with its 95 % interval."
    return doc.Chart(
        id=id or f"{spec}-chart", spec=spec, title=title, alt=alt, rows=rows, table=table
    )


def chart_axes(profiles: Sequence[Profile]) -> doc.Chart | None:
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
    judges: list[doc.DrawnInterval]
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
    profiles: Sequence[Profile], panels: Panels | None, links: doc.Links
) -> tuple[list[str], list[tuple[str, str, list[AxisCell]]]]:
    """Return the ticks of one scale, and a row for each axis or aspect: its cells by group."""
    shown = choose_largest(profiles, SHOWN_GROUPS)
    by_rubric = {panel.rubric: panel for panel in panels.panels} if panels else {}
    names = words.name_judges(panels) if panels else words.JudgeNames()
    found: dict[str, list[list[tuple[str, Estimate]]]] = {}
    for key in dict.fromkeys([*list_scored_axes(profiles), *by_rubric]):
        groups = by_rubric[key].groups if key in by_rubric else ()
        of = {group.title: group.seats for group in groups}
        if len(groups) == len(shown) == 1:
            of = {words.name_group(shown[0]): groups[0].seats}
        found[key] = [
            [
                (names[seat.judge], seat.failing)
                for seat in of.get(words.name_group(one), ())
                if seat.judge != RULES and isinstance(seat.failing, Estimate)
            ]
            for one in shown
        ]
    shares = [f.value for x in shown for f in map(x.figures.get, found) if isinstance(f, Estimate)]
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


def _draw_axis(
    key: str, one: Profile, seats: Sequence[tuple[str, Estimate]], scale: float, links: doc.Links
) -> AxisCell:
    drawn, said = [], []
    for name, seat in seats:
        limits = values.format_interval(seat)
        said.append((f"{name}, of {seat.n:,}", values.format_percent(seat.value), limits))
        ends = (seat.value if x is None else x for x in (seat.low, seat.value, seat.high))
        low, value, high = (min(100 * scale * x, 100.0) for x in ends)
        drawn.append(doc.DrawnInterval(low=low, value=value, high=high))
    proved, worst = one.figures.get(key), one.faulty.get(key, ())
    if proved is None or isinstance(proved, Unmeasured):
        why = "" if proved is None else proved.reason
        return AxisCell(None, "not checked", why, None, drawn, said)
    href = links.run(worst[0].id) if worst else None
    bar, limits = min(100 * scale * proved.value, 97.0), values.format_interval(proved)
    if not count_proved(proved):
        return AxisCell(None, f"none in {proved.n:,}", limits, None, drawn, said)
    count = f"\u2265 {count_proved(proved):,} of {proved.n:,}"
    return AxisCell(bar, count, limits, href, drawn, said)


def head_groups(profiles: Sequence[Profile]) -> list[tuple[str, str]]:
    """Return the heads of the small multiples: each group, and how many of its runs pass."""
    out = []
    for one in choose_largest(profiles, SHOWN_GROUPS):
        passed = one.figures.get("outcome.pass")
        said = values.format_count(one.n_runs, "run")
        if isinstance(passed, Estimate):
            said = f"{values.format_percent(passed.value)} pass, {said}"
        out.append((name_profile(one), said))
    return out


def state_faults(profiles: Sequence[Profile], whole: Profile) -> list[tuple[str, doc.Tone]]:
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


def _page_cells(figure: Estimate) -> list[doc.TableCell]:
    lost = [f"{n:,} {k.replace('_', ' ')}" for k, n in sorted(figure.unmeasured.items()) if n]
    proved = count_proved(figure)
    limits = doc.TableCell(values.format_interval(figure), interval=words.draw_interval(figure))
    rest = doc.TableCell(f"{figure.n - proved:,}", sort=figure.n - proved)
    found = doc.TableCell(f"{proved:,} of {values.format_count(figure.n, 'run')}", sort=proved)
    return [found, limits, rest, doc.TableCell(", ".join(lost) or "0", tone="quiet")]


def tabulate_checks(checks: Sequence[CheckAccuracy]) -> doc.Table:
    """Return how often the checks were right where the truth is known, a row a planted kind."""
    rows = []
    for one in checks:
        of, axis = f"{one.false_faults:,} of {one.good_runs:,}", words.AXES[one.axis]
        for kind, (proved, planted) in one.planted.items():
            found = doc.TableCell(f"{proved:,} of {planted:,}", sort=proved / max(planted, 1))
            rows.append((axis, kind.replace("_", " "), found, of, one.version))
    labels = ("axis", "planted fault", "proved", "false faults in good runs", "version measured")
    caption = "Accuracy of these checks where the truth is known"
    return doc.make_table("checks-table", labels, rows, numbers=("proved",), caption=caption)


# Modes of a text, and of these what is not as expected; the page and the JSON have more.
SHOWN, SHOWN_JUDGED = 4, 2
VERDICTS: dict[failure_modes.ModeVerdict, tuple[str, doc.Tone]] = {
    "marks_failure": ("linked to failure", "bad"),
    "unclear": ("unclear", "warn"),
    "judged_by": ("the failure itself", ""),
    "not_tested": ("not tested", "quiet"),
    "hard_tasks": ("also fails without it", "quiet"),
    "harmless": ("harmless", "quiet"),
}
BEGINS = "runs by the fifth of the run in which it begins"
_COUNTS = (
    doc.TableColumn("code", least=30),
    doc.TableColumn("failed", number=True, least=9, help="failed runs among all that have it"),
    doc.TableColumn("expected", number=True, least=8, help="of other trials of the same tasks"),
    doc.TableColumn("tasks", number=True, least=5),
    doc.TableColumn("where it begins", least=6, help=BEGINS),
)
_BARS = "▁▂▃▄▅▆▇█"


def lay_out_modes(found: failure_modes.FailureModes | Unmeasured) -> doc.Section:
    """Return the modes as text and Markdown have them: the first ones, and what is left out."""
    if isinstance(found, Unmeasured) or not found.n_modes:
        left_out = [] if found == failure_modes.NO_SIGNS else describe_unseen(found)
        return [doc.Paragraph(lead="Failure modes: ", text=line, hang=0) for line in left_out]
    judged = [mode for mode in found.modes if mode.verdict == "judged_by"]
    others = [mode for mode in found.modes if mode.verdict not in ("judged_by", "harmless")]
    shown = [*others[:SHOWN], *judged[:SHOWN_JUDGED]] or list(found.modes[:SHOWN])
    rows, any_value = [], any("*" in mode.name for mode in shown)
    for mode in shown:
        said = [mode.name, *describe_mode(mode)]
        if isinstance(mode.worth, Estimate) and mode.failed:
            worth = values.format_difference(mode.worth.value, mode.worth.unit).removeprefix("+")
            limits = f"{100 * mode.worth.level:g} % interval of this maximum: "
            limits += values.format_interval(mode.worth)
            gain = f"the pass rate could rise by at most {worth} ({limits})"
            said.append(f"without this mode, {gain}")
        below = doc.Paragraph(visible_line("; ".join(said)), indent=4, code=True)
        runs = doc.TableCell(", ".join(map(_name_example, mode.examples)), code=True)
        # Where it begins is drawn on pages: few read bars of text.
        rows.append(doc.TableRow((*_count(mode)[:-1], runs), below=(below,)))
    examples = doc.TableColumn("examples", overflow="wrap")
    columns = (_COUNTS[0], replace(_COUNTS[1], label="failed runs"), *_COUNTS[2:-1], examples)
    table = doc.Table("modes", columns, rows, corner="Failure modes", own=True)
    left = Counter(VERDICTS[mode.verdict][0] for mode in found.modes if mode not in shown)
    more = [f"{verdict} ({n:,})" for verdict, n in left.items()]
    if unlisted := found.n_modes - len(found.modes):
        more.append(f"rarer than the {len(found.modes):,} that a report keeps ({unlisted:,})")
    count = values.format_count(found.n_modes - len(shown), "mode")
    listed = f"{count} not listed here: {', '.join(more)}. "
    lone = f"{found.n_lone:,} of {found.n_signatures:,} error signatures (kinds of error) occur "
    lone += "in too few runs to be a mode." + " In a mode, * stands for any value." * any_value
    lines = (*describe_modes(found), f"{listed if more else ''}{lone}")
    where = f"To list the runs of a mode: stepscope report --where \"mode = '{shown[0].code}'\""
    return [table, *(doc.Paragraph(line) for line in lines), doc.Paragraph(where, terminal=True)]


def letter_runs(found: failure_modes.FailureModes | Unmeasured) -> dict[str, str]:
    """Return for each failed run, by its id, the letter of the mode that it is counted under."""
    if isinstance(found, Unmeasured):
        return {}
    return {run: letter for mode, letter in _letter(found.modes) for run in mode.assigned}


def _letter(
    modes: Sequence[failure_modes.FailureMode],
) -> Iterator[tuple[failure_modes.FailureMode, str]]:
    free = iter(ascii_uppercase)
    for mode in modes:
        yield mode, next(free) if mode.assigned else ""


def tabulate_modes(found: failure_modes.FailureModes | Unmeasured, links: doc.Links) -> doc.Table:
    """Return the modes as a page has them, a row a mode; without rows where there is none."""
    if isinstance(found, Unmeasured):
        left_out = () if found == failure_modes.NO_SIGNS else tuple(describe_unseen(found))
        return doc.Table("modes", (), (), caption="Failure modes", notes=left_out)
    rows = []
    for mode, letter in _letter(found.modes):
        examples = [
            doc.TableCell(_name_example(one), href=links.run(one.id, one.step), code=True)
            for one in mode.examples
        ]
        examples += [doc.TableCell("")] * (failure_modes.EXAMPLES - len(examples))
        name = doc.TableCell(mode.name, code=True, note="; ".join(describe_mode(mode)))
        cells = (name, doc.TableCell(letter), *_count(mode))
        cells += (make_figure_cell("outcome", mode.worth), *examples)
        rows.append(doc.TableRow(cells, match=mode.name, facets={"mode": letter} if letter else {}))
    columns = (
        doc.TableColumn("what happened"),
        doc.TableColumn("map", help="the letter of failed runs counted under this mode"),
        *_COUNTS,
        doc.TableColumn("worth at most", number=True, help="share of all runs that failed with it"),
        *doc.make_columns("run", "another", "a third"),
    )
    said = tuple(describe_modes(found))
    return doc.Table("modes", columns, rows, caption="Failure modes", notes=said)


def describe_modes(found: failure_modes.FailureModes) -> Iterator[str]:
    """Yield what is known of all modes together: tests, what chance gives, runs in none, lost."""
    alpha = f"{failure_modes.ALPHA:g}"
    modes = values.format_count(found.n_modes, "mode")
    chance = f"; by chance, about {found.small_by_chance:.1f} would" if found.n_small else ""
    if found.n_tested:
        yield (
            f"{found.n_tested:,} of {modes} could be tested by comparison with other trials of the "
            "same tasks (expected: the number of failures if the mode made no difference). "
            f"Linked to failure at {alpha} after Holm's correction: {found.n_shown or 'no'} "
            f"mode{'s' * (found.n_shown > 1)}. Before this correction, {found.n_small or 'none'} "
            f"had a p-value of at most {alpha}{chance}."
        )
    else:
        yield (
            "No mode could be tested: a test needs a task on which some runs pass and some fail, "
            "and on which some runs, but not all, show the mode."
        )
    if isinstance(found.unassigned, Estimate):
        none = round(found.unassigned.value * found.n_failed)
        share = f"{values.format_percent(found.unassigned.value)} of the failed runs, "
        share += f"95 % interval {values.format_interval(found.unassigned)}"
        likely = f"{found.n_failed - none - found.n_judged_by:,} under a mode that is probably "
        likely += "linked to failure, "
        yield (
            f"Each failed run is counted once ({found.n_failed:,} in all): "
            f"{likely if found.n_tested else ''}{found.n_judged_by:,} under a mode that is "
            f"itself the failure, {none:,} under no mode ({share})."
        )
    yield from describe_unseen(found)


def describe_unseen(found: failure_modes.FailureModes | Unmeasured) -> Iterator[str]:
    """Yield how many runs are in no count because rules could not see what went wrong there."""
    if isinstance(found, Unmeasured):
        yield f"unmeasured ({found.kind}): {found.reason}."
    elif found.unmeasured:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in found.unmeasured.items())
        runs = values.format_count(sum(found.unmeasured.values()), "run")
        yield f"{runs} not counted, unmeasured ({kinds}): {failure_modes.UNSEEN.reason}."


def describe_mode(mode: failure_modes.FailureMode) -> Iterator[str]:
    """Yield what is shown of a mode, and its share of the runs of each version."""
    if mode.verdict == "marks_failure":
        yield f"p {values.format_p(mode.p_adjusted)} after Holm"
    elif mode.verdict == "unclear" and mode.by_chance is not None:
        yield f"p {values.format_p(mode.p)}, {mode.by_chance:.1f} such modes by chance"
    for version, share in mode.versions.items():
        yield f"in {values.format_estimate(share)} of the runs of {version}"


def draw_begins(begins: Sequence[int]) -> str:
    """Return runs by the part of the run in which a mode begins as bars."""
    most = max(begins, default=0)
    return "".join([_BARS[-(-n * len(_BARS) // most) - 1] if n else "·" for n in begins])


def _count(mode: failure_modes.FailureMode) -> tuple[doc.TableCell, ...]:
    verdict, tone = VERDICTS[mode.verdict]
    expected = "-" if mode.p is None else f"{mode.expected:,.1f}"
    return (
        doc.TableCell(f"{mode.code} ({verdict})", level=1, tone=tone),
        doc.TableCell(f"{mode.failed:,} of {mode.runs:,}", sort=mode.failed),
        doc.TableCell(expected, sort=mode.expected),
        doc.TableCell(f"{mode.tasks:,}", sort=mode.tasks),
        doc.TableCell(draw_begins(mode.begins), title=", ".join(map(str, mode.begins))),
    )


def _name_example(one: failure_modes.ModeExample) -> str:
    return one.name if one.step is None else f"{one.name} at step {one.step}"
