"""A comparison for people: text for a terminal, Markdown for a comment; computes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.report import lines
from stepscope.report.curve_types import ShapesDifference
from stepscope.report.markdown import code
from stepscope.report.shapes_text import compared
from stepscope.report.text import clip, fold
from stepscope.report.types import ComparisonReport, Difference, Figure
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

HEAD = ("", "first", "second", "difference", "95 % interval", "cases", "p", "Holm")


def render(report: ComparisonReport, width: int = 100) -> str:
    """Return the comparison as text, no line longer than `width`; ends in a line break."""
    out = [*fold(headline(report), width, 2), ""]
    rows = [HEAD, *(_cells(key, d) for key, d in report.differences.items())]
    # A row that stops early says why in its last cell, which belongs to no column.
    full = [row for row in rows if len(row) == len(HEAD)]
    wide = [max(len(row[at]) for row in full) for at in range(len(HEAD))]
    wide[0] = max(len(row[0]) for row in rows)
    for row in rows:
        kept = [f"{cell:>{w}}" for cell, w in zip(row[1:4], wide[1:4], strict=False)]
        head = "  ".join([f"{row[0]:<{wide[0]}}", *kept])
        if len(row) == len(HEAD):
            numbers = "  ".join(f"{c:>{w}}" for c, w in zip(row[5:], wide[5:], strict=True))
            out.append(clip(f"{head}  {row[4]:<{wide[4]}}  {numbers}".rstrip(), width))
        else:
            out += fold(f"{head}  {row[-1]}", width, wide[0] + 2)
    out += [clip(row, width) for row in _shapes(report)]
    out.append("")
    for sentence in sentences(report):
        out += fold(visible_line(sentence), width, 2)
    return "\n".join(out) + "\n"


def _shapes(report: ComparisonReport) -> Iterator[str]:
    """Yield the shapes of both groups as rows; none where they cannot be compared."""
    cells = shape_rows(report)
    if cells:
        yield ""
        wide = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        for row in cells:
            numbers = "  ".join(f"{c:>{w}}" for c, w in zip(row[1:], wide[1:], strict=True))
            yield f"{row[0]:<{wide[0]}}  {numbers}"


def shape_rows(report: ComparisonReport) -> list[tuple[str, ...]]:
    """Return the shapes of both groups as cells, the head first; [] where none are compared."""
    first, second, found = report.first.shapes, report.second.shapes, report.shapes
    if isinstance(first, Unmeasured) or isinstance(second, Unmeasured):
        return []
    return [] if isinstance(found, Unmeasured) else compared(found, first, second)


def markdown(report: ComparisonReport) -> str:
    """Return the comparison as GitHub-flavoured Markdown; ends in a line break."""
    out = [code(headline(report)), ""]
    out += ["| " + " | ".join(HEAD) + " |"]
    out += ["|---|---:|---:|---:|---|---:|---:|---:|"]
    for key, difference in report.differences.items():
        cells = list(_cells(key, difference))
        if len(cells) < len(HEAD):
            cells[4:] = ["", "", "", cells[4]]
        out.append("| " + " | ".join(cell.strip() for cell in cells) + " |")
    shapes = shape_rows(report)
    if shapes:
        out += ["", "| " + " | ".join(shapes[0]) + " |", "|---|---:|---:|---:|---|---:|"]
        out += ["| " + " | ".join(row) + " |" for row in shapes[1:]]
    out += ["", *sentences(report)]
    return "\n".join(out) + "\n"


def headline(report: ComparisonReport) -> str:
    """Return what is compared: the groups, their runs, the cases they share."""
    first, second = report.first, report.second
    return visible_line(
        f"{first.title} (first) against {second.title} (second)   {first.n_runs:,} and "
        f"{second.n_runs:,} runs, {report.n_shared:,} shared cases   "
        f"seed {report.provenance.seed}"
    )


def sentences(report: ComparisonReport) -> Iterator[str]:
    """Yield what survives, what could have been seen, and what stayed outside the pairs."""
    found = [key for key, d in report.differences.items() if d.survives]
    named = ", ".join(lines.label(key).strip() for key in found)
    yield f"Survives Holm at .05 over {_tested(report)} figures: {named or 'none'}."
    for key, d in report.differences.items():
        if d.cases_needed is not None and key == "outcome.pass":
            points = f"{report.worth_seeing * 100:g} points"
            seen = "" if d.detectable is None else f"; these find {lines.share(d.detectable)}"
            yield (
                f"To see {points} in {lines.label(key).strip()!r} you need about "
                f"{d.cases_needed:,} cases{seen}."
            )
    outside = report.n_only_first + report.n_only_second
    if report.n_shared and outside:
        yield (
            f"Outside every pair: {report.n_only_first:,} cases of the first group only, "
            f"{report.n_only_second:,} of the second."
        )
    shapes = report.shapes
    if isinstance(shapes, ShapesDifference):
        yield f"Shapes rest on {shapes.source}; noise: {shapes.sigma}."
    if not report.n_shared:
        yield "No case is shared: nothing is paired, and cases differ as well as groups."


def cell(key: str, figure: Figure) -> str:
    """Return a figure's value, or "-"."""
    return "-" if isinstance(figure, Unmeasured) else lines.number(key, figure.value)


def _cells(key: str, difference: Difference) -> tuple[str, ...]:
    """Return a row: eight cells, or five where there is no effect and the last says why."""
    first, second = cell(key, difference.first), cell(key, difference.second)
    effect = difference.effect
    if isinstance(effect, Unmeasured):
        return lines.label(key), first, second, "-", visible_line(lines.absent(effect, 0))
    holm = p_value(difference.p_adjusted) + (" *" if difference.survives else "")
    shown = signed(key, effect.value), lines.interval(key, effect)
    cases = f"{difference.n_cases:,}" if difference.paired else "-"
    return lines.label(key), first, second, *shown, cases, p_value(difference.p), holm


def _tested(report: ComparisonReport) -> int:
    return sum(d.p is not None for d in report.differences.values())


def signed(key: str, value: float) -> str:
    """Return a difference with its sign, also of a positive one."""
    text = lines.number(key, value)
    return text if text.startswith("-") else f"+{text}"


def p_value(p: float | None) -> str:
    """Return p in few characters; "-" where nothing was tested."""
    if p is None:
        return "-"
    return "<.001" if p < 0.001 else lines.share(p)
