"""A comparison of two groups of runs, as text and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stepscope.report import words
from stepscope.report.document import (
    Chart,
    Document,
    Paragraph,
    Table,
    TableCell,
    TableRow,
    make_columns,
    make_row,
)
from stepscope.report.types import ComparisonReport, Difference, Shapes, ShapesDifference
from stepscope.report.views.overview import describe_flips, tabulate_shape_differences
from stepscope.report.views.profile import (
    chart_intervals,
    make_figure_cell,
    make_interval_row,
    name_profile,
)
from stepscope.safety.text import visible_line
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_difference,
    format_interval,
    format_limits,
    format_number,
    format_p,
)


def make_comparison_document(report: ComparisonReport) -> Document:
    """Return a comparison of groups as text and Markdown have it."""
    title, _, about = describe_comparison(report).partition("   ")
    first, second, found = report.first.shapes, report.second.shapes, report.shapes
    shapes = []
    if (
        isinstance(first, Shapes)
        and isinstance(second, Shapes)
        and isinstance(found, ShapesDifference)
    ):
        shapes.append(tabulate_shape_differences(found, first, second))
    return [
        [Paragraph(heading=title, text=about)],
        [_tabulate_differences(report)],
        shapes,
        [
            *(Paragraph(text=sentence) for sentence in conclude_comparison(report)),
            *describe_flips(report.rank_flips),
        ],
    ]


def _tabulate_differences(report: ComparisonReport) -> Table:
    """Return a row a figure; one without an effect ends early, and says why."""
    rows = []
    for key, difference in report.differences.items():
        label = words.name_figure(key)
        name = TableCell(label.strip(), level=int(label.startswith("  ")))
        first, second = (
            "-" if isinstance(figure, Unmeasured) else format_number(figure.value, figure.unit)
            for figure in (difference.first, difference.second)
        )
        effect = difference.effect
        if isinstance(effect, Unmeasured):
            rows.append(make_row(name, first, second, "-", words.describe_effect(effect)))
            continue
        holm = format_p(difference.p_adjusted) + (" *" if difference.survives else "")
        limits = format_limits(effect.low, effect.high, effect.unit)
        below = () if limits else (Paragraph(text=effect.no_interval, indent=4),)
        shown = format_difference(effect.value, effect.unit), limits or "none"
        cases = f"{difference.n_cases:,}" if difference.paired else "-"
        row = make_row(name, first, second, *shown, cases, format_p(difference.p), holm)
        rows.append(replace(row, below=below))
    return Table(
        id="differences",
        columns=make_columns(
            "", "first", "second", "difference", "95 % interval", "cases", "p", "Holm",
            numbers=("first", "second", "difference", "cases", "p", "Holm"),
        ),
        rows=tuple(rows),
        own=True,
    )  # fmt: skip


def describe_comparison(report: ComparisonReport) -> str:
    """Return what is compared: the groups, their runs, the cases they share."""
    first, second = report.first, report.second
    return visible_line(
        f"{first.title} (first) against {second.title} (second)   {first.n_runs:,} and "
        f"{second.n_runs:,} runs, {report.n_shared:,} shared cases   "
        f"seed {report.provenance.seed}"
    )


def conclude_comparison(report: ComparisonReport) -> Iterator[str]:
    """Yield what survives, what could have been seen, and what stayed outside the pairs."""
    found = [key for key, d in report.differences.items() if d.survives]
    named = ", ".join(words.name_figure(key).strip() for key in found)
    tested = sum(d.p is not None for d in report.differences.values())
    yield (
        f"Differences that survive Holm's correction at 0.05 over {tested} figures: "
        f"{named or 'none'}."
    )
    for key, d in report.differences.items():
        if d.cases_needed is not None and key == "outcome.pass":
            points = f"{report.worth_seeing * 100:g} points"
            seen = (
                ""
                if d.detectable is None
                else f"; these can detect only {100 * d.detectable:.0f} points"
            )
            yield (
                f"To detect {points} in {words.name_figure(key).strip()!r} you need about "
                f"{d.cases_needed:,} cases{seen}."
            )
    if report.n_shared and (report.n_only_first + report.n_only_second):
        yield (
            f"Outside every pair: {report.n_only_first:,} cases of the first group only, "
            f"{report.n_only_second:,} of the second."
        )
    shapes = report.shapes
    if isinstance(shapes, ShapesDifference):
        yield f"Shapes rest on {shapes.source}; noise: {shapes.sigma}."
    if not report.n_shared:
        yield "No case is shared: nothing is paired, and cases differ as well as groups."


def tabulate_figures(report: ComparisonReport) -> Table:
    """Return two groups figure by figure, as a page has it."""
    first, second = name_profile(report.first), name_profile(report.second)
    rest = ("difference", "cases", "p", "p, Holm", "smallest seen")
    return Table(
        id="differences",
        caption="Every figure, paired by case",
        columns=make_columns("figure", first, second, *rest, numbers=(first, second, *rest)),
        rows=tuple(_row(key, d) for key, d in report.differences.items()),
    )


def chart_effects(report: ComparisonReport, table: Table) -> Chart | None:
    """Return the differences of shares with their intervals; None where there is none."""
    rows: list[dict[str, object]] = []
    for order, (key, difference) in enumerate(report.differences.items()):
        effect = difference.effect
        if not isinstance(effect, Estimate) or effect.unit != "share":
            continue
        if effect.low is not None and effect.high is not None:
            group = "survives correction" if difference.survives else "does not"
            rows.append(make_interval_row(words.name_figure(key).strip(), group, effect, order))
    title = f"{name_profile(report.second)} minus {name_profile(report.first)}"
    return chart_intervals("effects", title, rows, table)


def state_difference(report: ComparisonReport) -> str:
    """Return the first sentence of a comparison: which group passes more, as far as is shown."""
    first, second = name_profile(report.first), name_profile(report.second)
    found = report.differences.get("outcome.pass")
    if found is None or not isinstance(found.effect, Estimate):
        return f"{second} against {first}: their outcomes cannot be compared."
    points = 100 * found.effect.value
    limits = format_interval(found.effect)
    if not round(points):
        return f"{second} and {first} pass equally often, to the point (95 %: {limits})."
    said = f"{second} passes {abs(points):.0f} points {'fewer' if points < 0 else 'more'} than"
    doubt = "" if found.survives else "; chance alone may do that"
    return f"{said} {first} (95 %: {limits}){doubt}."


def _row(key: str, difference: Difference) -> TableRow:
    effect = difference.effect
    shown, detectable = make_figure_cell(key, effect), "-"
    if isinstance(effect, Estimate):
        shown = TableCell(
            format_difference(effect.value, effect.unit),
            sort=effect.value,
            note=format_interval(effect),
            tone="warn" if difference.survives else "",
        )
        if difference.detectable is not None:
            detectable = format_difference(difference.detectable, effect.unit).removeprefix("+")
    holm = format_p(difference.p_adjusted) + (" survives" if difference.survives else "")
    return make_row(
        words.name_figure(key).strip(),
        make_figure_cell(key, difference.first),
        make_figure_cell(key, difference.second),
        shown,
        f"{difference.n_cases:,}" if difference.paired else "-",
        TableCell(format_p(difference.p), sort=difference.p),
        TableCell(holm, sort=difference.p_adjusted),
        TableCell(detectable, sort=difference.detectable, tone="quiet"),
    )
