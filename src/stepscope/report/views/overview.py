"""A report in its order: the vector of each group, shapes, outcome against path, and its runs.

A known value is shown where its interval is not; what cannot be measured is one line with the
reasons. A group without shares of shapes counts the labels of its runs instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepscope.report import document as doc
from stepscope.report import types, words
from stepscope.report.views.judges import tabulate_panels
from stepscope.report.views.profile import (
    SHOWN_GROUPS,
    chart_intervals,
    choose_largest,
    lay_out_modes,
    make_interval_row,
    name_profile,
    tabulate_axes,
)
from stepscope.report.views.runs import TONES, RunListRow
from stepscope.safety.text import visible_line
from stepscope.shape.types import SHAPES
from stepscope.values import (
    Estimate,
    Flip,
    RankFlips,
    Unmeasured,
    format_count,
    format_difference,
    format_estimate,
    format_interval,
    format_number,
    format_p,
    format_percent,
)

# Pairs of groups of which a text tells the flips; the page and the JSON have them all.
SHOWN_FLIPS = 5
CHANCE = "The number in brackets is the probability that the run went wrong at this step"
VECTOR = (
    doc.TableColumn("figure", least=22),
    doc.TableColumn("value", number=True, least=8, gap=0),
    doc.TableColumn("95 % interval", least=14),
    doc.TableColumn("count", number=True, least=15),
    doc.TableColumn("not measured", overflow="wrap"),
)


def make_report_document(report: types.Report) -> doc.Document:
    """Return a report as text and Markdown have it."""
    out: list[doc.Section] = []
    full = choose_full(report)
    for profile in full:
        title, about = words.describe_profile(profile, report)
        out += [
            [doc.Paragraph(heading=title, text=about)],
            [tabulate_vector(profile, "vector")],
            [tabulate_outcomes(table, profile, at) for at, table in enumerate(profile.earned)],
        ]
        if profile.too_loose.outcome == "fail":
            out.append([doc.Paragraph(lead="Warning: ", text=profile.too_loose.reason)])
        if profile.inputs:
            out.append([doc.Paragraph(lead="Recorded ", text=words.describe_inputs(profile))])
    tables = [
        tabulate_small_groups(report.profiles),
        tabulate_axes(full, report.checks),
        tabulate_shapes(full),
        *(tabulate_panels(report.panels) if report.panels else []),
    ]
    closing = []
    if report.not_claimed:
        said = f"This report does not cover: {', '.join(report.not_claimed)}."
        closing.append(doc.Paragraph(said))
    if report.next:
        said = " · ".join(report.next)
        closing.append(doc.Paragraph(lead="Next: ", text=said, hang=6, terminal=True))
    looks: list[doc.Section] = [_look_first(report)] if report.look_first else []
    shown = [[table] for table in tables if table is not None]
    flips = describe_flips(report.rank_flips, SHOWN_FLIPS) if len(report.profiles) > 1 else []
    return [*out, flips, *shown, lay_out_modes(report.modes), *looks, closing]


def describe_list(found: Sequence[types.LookFirst], chance: str = CHANCE) -> str:
    """Return what the chances mean, and how often the lists are right; "" where none is ranked."""
    ranked = any(x.suspects and x.suspects[0].share is not None for x in found)
    said = dict.fromkeys([chance if ranked else "", *(x.reliability for x in found)])
    return " ".join(f"{one}." for one in said if one)


def describe_flips(found: RankFlips | Unmeasured, most: int | None = None) -> list[doc.Paragraph]:
    """Return the rank flips, a sentence for each of `most` pairs of groups; or that none is."""
    if isinstance(found, Unmeasured):
        return [doc.Paragraph(f"Rank flips: unmeasured, {found.reason}.")]
    over = f"{format_count(len(found.figures), 'figure')} about the path"
    if found.n_pairs > 1:
        over += f" and {found.n_pairs:,} pairs of groups"
    by_pair: dict[tuple[str, str], list[Flip]] = {}
    for flip in found.flips:
        by_pair.setdefault((flip.first, flip.second), []).append(flip)
    if not by_pair:
        said = "it is not known whether path and outcome put these groups in the same order"
        return [doc.Paragraph(f"Rank flips: none is proved among {over}; {said}.")]
    out = []
    for (first, second), flips in list(by_pair.items())[:most]:
        outcome = words.describe_effect(flips[0].outcome)
        behind = ", ".join(
            f"{words.name_figure(flip.figure)} ({words.describe_effect(flip.path)})"
            for flip in flips
        )
        p = format_p(max(flip.p_adjusted for flip in flips))
        said = f"{first} is ahead of {second} by outcome ({outcome}) and behind by {behind}"
        said += f"; largest p {p} after Holm over {over}."
        out.append(doc.Paragraph(lead="Rank flip: ", text=visible_line(said), code=True))
    more = len(by_pair) - len(out)
    rest = [doc.Paragraph(f"Rank flips of {more:,} more pairs: stepscope report --json")]
    return [*out, *(rest if more else [])]


# Characters of a run's name in the list of runs to look at first.
MOST_NAME = 32


def _look_first(report: types.Report) -> doc.Section:
    rows = []
    for run, others in words.group_looks(report.look_first):
        where, said = words.describe_suspect(run)
        # The last words of an error message say most, and what is behind a long quotation.
        failed = bool(run.suspects) and run.suspects[0].kind == "error"
        ends = failed or said.startswith("says '")
        evidence = doc.TableCell(said, code=True, keep_end=ends)
        named = run.handle or run.name
        if named.startswith("'") and len(named) > MOST_NAME - 2:
            named = run.id[: doc.DIGITS]  # a cut quotation could not be pasted; a cut name can
        name = doc.TableCell(named, code=True, level=1)
        row = doc.make_row(name, f"{run.steps:,}", where, evidence)
        if run.because and run.suspects:
            lead = "failed because " if run.outcome == "fail" else "not done: "
            below = doc.Paragraph(lead=lead, text=run.because, indent=4, one_line=True, code=True)
            row = replace(row, below=(below,))
        if others:
            also = words.name_alike(others)
            alike = doc.Paragraph(lead="the same fault in ", text=also, indent=4, code=True)
            row = replace(row, below=(*row.below, alike))
        rows.append(row)
    columns = (
        doc.TableColumn("run", least=16, most=MOST_NAME),
        doc.TableColumn("steps", number=True, least=5, gap=1),
        doc.TableColumn("suspect", least=8),
        doc.TableColumn("evidence", gap=1, overflow="cut"),
    )
    table = doc.Table("look-first", columns, rows, corner="Look first", own=True)
    right = describe_list(report.look_first)
    return [table, *([doc.Paragraph(right)] if right else [])]


def tabulate_vector(profile: types.Profile, anchor: str) -> doc.Table:
    """Return the vector of one group, a row a figure; what cannot be measured is one note."""
    caption, (lines, absent) = f"The vector of {name_profile(profile)}", words.list_figures(profile)
    rows, notes = list(lines.values()), [absent] if absent else []
    return doc.Table(anchor, VECTOR, rows, caption=caption, notes=notes, own=True)


def choose_full(report: types.Report) -> Sequence[types.Profile]:
    """Return the groups that are shown in full: one alone, those of 5 runs or more, or all runs."""
    large = [profile for profile in report.profiles if profile.n_runs >= SMALL_GROUP]
    return report.profiles if len(report.profiles) == 1 else large or [report.whole]


def tabulate_small_groups(profiles: Sequence[types.Profile]) -> doc.Table | None:
    """Return the groups of few runs, a row each, without intervals; None where there is none."""
    small = [profile for profile in profiles if profile.n_runs < SMALL_GROUP]
    if not small or len(profiles) == 1:
        return None
    keys = [key for key in choose_measured(small) if not key.endswith(".p95") and "^" not in key]
    rows = []
    for profile in small:
        cells = [doc.TableCell(f"{profile.n_runs:,}", sort=profile.n_runs)]
        for figure in map(profile.figures.__getitem__, keys):
            if isinstance(figure, Unmeasured):
                cells.append(doc.TableCell("none", title=figure.reason, tone="quiet"))
                continue
            said = format_number(figure.value, figure.unit)
            if figure.unit == "share":
                said = f"{round(figure.value * figure.n):,} of {figure.n:,}"
            cells.append(doc.TableCell(said, sort=figure.value))
        rows.append(doc.make_row(doc.TableCell(name_profile(profile), level=1), *cells))
    names = (words.name_figure(key).removeprefix("outcome: ") for key in keys)
    short = (name.removesuffix(", median").removesuffix(" a run") for name in names)
    columns = [doc.TableColumn("group", most=40), doc.TableColumn("runs", number=True)]
    columns += [doc.TableColumn(name, number=True) for name in short]
    said = f"Groups of fewer than {SMALL_GROUP} runs"
    notes = ["These values have no intervals: so few runs say little about others."]
    return doc.Table(
        "small-groups", columns, rows, caption=said, corner=said, notes=notes, layout="beside"
    )


def tabulate_groups(profiles: Sequence[types.Profile]) -> doc.Table:
    """Return figures down and the largest groups across, each with its interval on one scale."""
    large = [profile for profile in profiles if profile.n_runs >= SMALL_GROUP]
    shown = choose_largest(large or profiles, SHOWN_GROUPS)
    rows = []
    for key in choose_measured(shown):
        cells = [doc.TableCell(name_on_page(key))]
        for figure in (profile.figures[key] for profile in shown):
            cells.append(doc.TableCell("", interval=words.draw_interval(figure)))
            if isinstance(figure, Unmeasured):
                cells.append(doc.TableCell("-", title=figure.reason, tone="quiet"))
            else:
                value = format_number(figure.value, figure.unit)
                cells.append(doc.TableCell(value, sort=figure.value, note=format_interval(figure)))
        rows.append(doc.make_row(*cells))
    columns = [doc.TableColumn("figure")]
    for profile in shown:
        runs = doc.TableColumn(format_count(profile.n_runs, "run"), number=True)
        columns += [doc.TableColumn(name_profile(profile), axis=True), runs]
    more = len(profiles) - len(shown)
    left = (f"{format_count(more, 'more group')} below.",) if more else ()
    caption, made = "Outcome and path, by group", tuple(rows)
    return doc.Table("groups", columns, made, caption=caption, notes=left)


def choose_measured(profiles: Sequence[types.Profile]) -> list[str]:
    """Return the figures that any of the groups has, without axes; of pass^k the largest k."""
    keys = [
        key
        for key in profiles[0].figures
        if key not in words.AXES
        and all(key in p.figures for p in profiles)
        and any(isinstance(p.figures[key], Estimate) for p in profiles)
    ]
    powers = [key for key in keys if "^" in key]
    return [key for key in keys if key not in powers[:-1]]


def chart_vector(profiles: Sequence[types.Profile], table: doc.Table) -> doc.Chart | None:
    """Return the shares of the vector with their intervals; None where there is none."""
    rows = [
        make_interval_row(words.name_figure(key).strip(), name_profile(profile), figure, order)
        for order, key in enumerate(choose_measured(profiles))
        for profile in choose_largest(profiles)
        if isinstance(figure := profile.figures[key], Estimate) and words.draw_interval(figure)
    ]
    return chart_intervals("vector", "Outcome and path", rows, table)


def _with_curves(profiles: Sequence[types.Profile]) -> list[tuple[types.Profile, types.Shapes]]:
    return [(p, p.shapes) for p in profiles if isinstance(p.shapes, types.Shapes)]


def chart_shapes(profiles: Sequence[types.Profile]) -> doc.Chart | None:
    """Return the shares of shapes of all groups; None where none has any."""
    rows = [
        make_interval_row(words.name_shape(shape), name_profile(profile), share, order)
        for profile in choose_largest([profile for profile, _ in _with_curves(profiles)])
        for order, (shape, share) in enumerate(_with_curves([profile])[0][1].shares.items())
        if share.low is not None and share.high is not None
    ]
    return chart_intervals("shapes", "Shapes of the effort", rows, tabulate_shapes(profiles))


# What is counted beside the five shares, and how it is called.
BESIDE = {
    "unresolved": "unresolved",
    "unmodelled": "no shape fits",
    "low_level": "low mean score",
    "gate_failed": "gate failed",
}


def tabulate_shapes(profiles: Sequence[types.Profile]) -> doc.Table | None:
    """Return the shapes of all groups beside each other; None where there is nothing to say."""
    held = _with_curves(profiles)
    if not held:
        return None
    titles = [doc.TableColumn(words.name_group(profile), code=True) for profile, _ in held]
    titles = titles if len(held) > 1 else [doc.TableColumn("share, 95 % interval")]
    return tabulate_shapes_of([shapes for _, shapes in held], titles)


def tabulate_shapes_of(
    held: Sequence[types.Shapes], titles: Sequence[doc.TableColumn]
) -> doc.Table:
    """Return shapes beside each other, a column each, with what their figures rest on."""
    rows = []
    for shape in SHAPES:
        shares = [(s.shares.get(shape), format_count(s.labels.get(shape, 0), "run")) for s in held]
        cells = [said if one is None else format_estimate(one) for one, said in shares]
        rows.append((words.name_shape(shape), cells))
    if any(shapes.shares for shapes in held):
        sums = [(s.n_runs - s.unmodelled, s.n_runs + sum(s.unmeasured.values())) for s in held]
        rows.append(("computed from", [f"{n:,} of {total:,} runs" for n, total in sums]))
    for field, called in BESIDE.items():
        counts = [int(getattr(shapes, field)) for shapes in held]
        if any(counts):
            of = [f"{n:,} of {s.n_runs:,} runs" for n, s in zip(counts, held, strict=True)]
            rows.append((called, of))
    if any(shapes.unmeasured for shapes in held):
        lost = [", ".join(f"{n:,} {kind}" for kind, n in s.unmeasured.items()) for s in held]
        rows.append(("without a shape", [said or "0" for said in lost]))
    notes = [*dict.fromkeys(f"scores: {s.source}; noise: {s.sigma}" for s in held)]
    absent = [s.no_shares for s in held if s.no_shares is not None]
    notes += dict.fromkeys(f"no shares: {a.reason}; runs by their own label" for a in absent)
    columns = (doc.TableColumn("shape"), *titles)
    made = [doc.make_row(doc.TableCell(label, level=1), *cells) for label, cells in rows]
    return doc.Table(
        "shapes", columns, made, corner="Shapes", notes=notes, layout="beside", own=True
    )


def tabulate_shape_differences(
    found: types.ShapesDifference, first: types.Shapes, second: types.Shapes
) -> doc.Table:
    """Return the comparison of two groups by shape."""
    rows = []
    for shape, difference in found.difference.items():
        sides = (shapes.shares.get(shape) for shapes in (first, second))
        values = ["-" if side is None else format_percent(side.value) for side in sides]
        values.append(format_difference(difference.value, difference.unit))
        values += [format_interval(difference), format_p(found.p[shape])]
        rows.append(doc.make_row(words.name_shape(shape), *values))
    labels = ("first", "second", "difference", "95 % interval", "p over all 5")
    columns = doc.make_columns("share of runs", *labels, numbers=labels)
    return doc.Table("shape-differences", columns, rows, corner="share of runs", own=True)


# How grades of a path are called above runs.
GRADES = {
    "all sub-goals": "all sub-goals reached",
    "no error": "no tool error",
    "all recovered": "recovered from all errors",
    "some not": "not from all",
}


def tabulate_outcomes(joint: types.OutcomeTable, profile: types.Profile, at: int) -> doc.Table:
    """Return outcome against one grade of the path."""
    notes = words.note_unearned(joint, profile)
    left = f"; {joint.unmeasured:,} runs without both grades" if joint.unmeasured else ""
    rows = []
    for name, counts in (("pass", joint.passed), ("fail", joint.failed)):
        said = doc.Paragraph(notes.get(name, ""), indent=4, code=True)
        cells = [doc.TableCell(f"{count:,}", sort=count) for count in counts]
        row = doc.make_row(doc.TableCell(f"runs that {name}", tone=TONES[name], level=1), *cells)
        rows.append(replace(row, below=(said,)) if said.text else row)
    columns = [doc.TableColumn("outcome", least=19)]
    for name in (GRADES.get(one, one) for one in joint.columns):
        columns.append(doc.TableColumn(name, number=True, least=max(len(name) + 2, 7), gap=0))
    asked = "Was a pass earned?"
    caption = f"{asked} Outcome against {joint.grade}{left}"
    return doc.Table(f"joint-{at}", columns, rows, caption=caption, corner="" if at else asked)


# Runs below which a group has no column beside larger ones.
SMALL_GROUP = 5
# Groups that the first sentence names; of more it says how far apart they are.
NAMED_GROUPS = 3


def state_result(
    report: types.Report,
    held: Sequence[Sequence[RunListRow]],  # the runs of each group, or all of them together
    breaks: Sequence[tuple[str, int, int, int]],  # what `list_breaks` found
) -> list[tuple[str, doc.Tone]]:
    """Return the first sentence of the report in parts: what passes, and what breaks most."""
    whole, trials = report.whole, report.whole.trials
    profiles = report.profiles if len(report.profiles) == len(held) else (whole,)
    counts = [Counter(row.outcome for row in rows) for rows in held]
    graded = [
        (one, count["pass"], count["pass"] + count["fail"])
        for one, count in zip(profiles, counts, strict=True)
        if count["pass"] + count["fail"]
    ]
    passed, n = sum(count for _, count, _ in graded), sum(n for _, _, n in graded)
    if not n:
        runs, calls = format_count(whole.n_runs, "run"), format_count(whole.n_calls, "call")
        return [(f"{runs} with {calls}; no outcome is known.", "")]
    parts: list[tuple[str, doc.Tone]] = []
    if len(graded) > NAMED_GROUPS:
        shares = sorted(count / n for _, count, n in graded)
        ends = dict.fromkeys(format_percent(share) for share in (shares[0], shares[-1]))
        said = f"{len(graded):,} groups pass {' to '.join(ends)} of their runs; together they "
        parts = [(said, ""), *_passes("pass ", whole, passed, n, "")]
    before = ""
    for at, (one, count, total) in enumerate(graded if not parts else ()):
        named = words.name_group(one) if profiles[1:] else ""
        name = one.group.get("agent") or named or "The agent"
        lead = " and " if name == before else f"{', ' if at else ''}{visible_line(name)} "
        verb = "" if name == before else "passes "
        parts.append((lead, ""))
        workflow = one.group.get("workflow") or ""
        parts += _passes(verb, one, count, total, "" if workflow == name else workflow)
        before = name
    rest = sum(map(len, held)) - n
    if rest:
        have = "has" if rest == 1 else "have"
        parts.append((f", {rest:,} more run{'s' * (rest > 1)} {have} no outcome", ""))
    elif not profiles[1:] and trials is not None and trials.high > 1:
        tasks = format_count(trials.always + trials.mixed + trials.never, "task")
        parts.append((f" and {trials.always:,} of {tasks} every time", ""))
    if passed == n:
        figure = whole.figures.get("outcome.pass")
        low_end = figure.low if isinstance(figure, Estimate) else None
        most = "" if low_end is None else format_percent(1 - low_end)
        limit = f"; at most {most} fail, 95 %" if most else ""
        return [*parts, (f". Nothing failed{limit}.", "")]
    if breaks:
        said, count, *_ = breaks[0]
        parts += [("; ", ""), (f"{count:,} of {format_count(n - passed, 'failure')}", "bad")]
        parts.append((f" {said}", ""))
    return [*parts, (".", "")]


def _passes(
    verb: str, group: types.Profile, passed: int, n: int, workflow: str
) -> list[tuple[str, doc.Tone]]:
    figure = group.figures.get("outcome.pass")
    known = isinstance(figure, Estimate) and not figure.no_interval
    limits = format_interval(figure) if isinstance(figure, Estimate) and known else ""
    runs = f"{visible_line(workflow)} run" if workflow else "run"
    said = format_percent(passed / n) + (f", {limits}" if limits else "")
    return [
        (f"{verb}{passed:,} of {n:,}", "good"),
        (f" {runs}{'s' * (n != 1)} ", ""),
        (f"({said})", "quiet"),
    ]


def list_breaks(rows: Sequence[RunListRow]) -> list[tuple[str, int, int, int]]:
    """Return what failing runs show, with counts: failed that do, passed that do, passed."""
    kinds = Counter(
        (
            row.outcome,
            row.faults or (),
            row.reached is not None and row.reached < 1,
            not row.calls,
            bool(row.violations),
            bool(row.failed_calls),
        )
        for row in rows
    )
    found: dict[str, list[int]] = {}
    passing = 0
    for (outcome, faults, missed, silent, broken, errors), count in kinds.items():
        passing += count * (outcome == "pass")
        shown = [f"have a proved fault of {axis}" for axis in faults]
        shown += ["make no call at all" if silent else "miss a call that is expected"] * missed
        shown += ["break a rule"] * broken + ["meet a tool error"] * errors
        for said in shown if outcome != "unknown" else ():
            found.setdefault(said, [0, 0])[outcome == "pass"] += count
    breaks = [(said, failed, passed, passing) for said, (failed, passed) in found.items() if failed]
    return sorted(breaks, key=lambda one: (-one[1], one[2], one[0]))


# What figures are called on a page, where they stand alone.
PAGE_NAMES = {
    "outcome.pass": "Runs that pass",
    "subgoals.reached": "Sub-goals reached",
    "redundant_calls.per_run": "Redundant calls per run",
    "errors.recovered": "Tool errors recovered",
    "policy.violations": "Runs that break a rule",
    **{f"{key}.median": f"{key.capitalize()}, median" for key in ("steps", "tokens")},
    "steps.p95": "Steps, 95th percentile",
    "cost_usd.median": "Cost, median",
    "cost_usd.p95": "Cost, 95th percentile",
    "seconds.median": "Time, median",
    "seconds.p95": "Time, 95th percentile",
}
# Bars of a histogram.
BINS = 24
REPORT = (
    doc.TableColumn("figure"),
    doc.TableColumn("", axis=True),
    doc.TableColumn("value", number=True),
    doc.TableColumn("95 %", number=True),
    doc.TableColumn("count"),
)


def name_on_page(key: str) -> str:
    """Return what a figure is called where it stands alone."""
    if "^" in key:
        return f"Tasks that pass {key.partition('^')[2]} trials in a row"
    return PAGE_NAMES.get(key) or words.name_figure(key).strip()


def tabulate_report(profile: types.Profile, rows: Sequence[RunListRow], anchor: str) -> doc.Table:
    """Return the figures of a group as a page draws them; `rows` are its runs."""
    found, absent = words.list_figures(profile)
    lines = []
    for key, line in found.items():
        _, value, limits, counted, said = line.cells
        drawn = _draw_histogram(key, rows) if key.endswith(".median") else replace(limits, text="")
        remarks = (*([] if said.text == "0" else [said.text]), *(one.text for one in line.below))
        counted = replace(counted, note="; ".join(remarks))
        limits = replace(limits, interval=None)
        lines.append(doc.make_row(doc.TableCell(name_on_page(key)), drawn, value, limits, counted))
    caption, notes = f"The report of {name_profile(profile)}", (absent,) if absent else ()
    return doc.Table(anchor, REPORT, lines, caption=caption, notes=notes)


def _draw_histogram(key: str, rows: Sequence[RunListRow]) -> doc.TableCell:
    field = key.partition(".")[0]
    known = field in RunListRow.__struct_fields__
    values = [x for row in rows if known and (x := getattr(row, field)) is not None]
    if len(values) < 2 or min(values) == max(values):
        return doc.TableCell("")
    counts, _ = np.histogram(np.array(values, np.float64), BINS)
    heights = tuple((-(-100 * counts // counts.max())).tolist())
    ends = [format_number(value, words.UNITS[field]) for value in (min(values), max(values))]
    return doc.TableCell(" to ".join(ends), histogram=heights)


# Pixels across of the largest square.
SQUARE = 88


def draw_earned(profile: types.Profile) -> tuple[str, list[tuple[str, int, float, str]]] | None:
    """Return whether outcomes were earned: in a sentence, and four squares whose area is runs.

    A square has its outcome, its runs, its side in pixels, and what is read of it: passed and
    failed with every sub-goal, then with one missed. None where no run has both grades.
    """
    joint = next((table for table in profile.earned if table.grade == "sub-goals"), None)
    if joint is None:
        return None
    most = max(*joint.passed, *joint.failed, 1)
    failed = format_count(sum(joint.failed), "failure")
    said = f"{joint.passed[0]:,} of {sum(joint.passed):,} passes reached every sub-goal, and so "
    said += f"did {joint.failed[0]:,} of {failed}."
    squares = []
    for outcome, counts in (("pass", joint.passed), ("fail", joint.failed)):
        for count, grade in zip(
            counts, ("every sub-goal reached", "a sub-goal missed"), strict=True
        ):
            side = SQUARE * (count / most) ** 0.5
            squares.append((outcome, count, side, f"{count:,} {outcome}, {grade}"))
    return said, squares


# A suspect below this share is not seen in a strip as long as a line.
SEEN = 0.02


def draw_suspicion(run: types.LookFirst) -> list[tuple[float, float, str]]:
    """Return where in a run its suspects stand and how high, in percent, and of which kind."""
    count = max(run.steps, 1)
    found: list[tuple[float, float, str]] = []
    for one in run.suspects:
        if one.share is None or one.share >= SEEN:
            height = 100.0 if one.share is None else min(100 * one.share / 0.5, 100.0)
            found.append((100 * one.first / count, height, one.kind))
    return found
