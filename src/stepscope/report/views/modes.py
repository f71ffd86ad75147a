"""Failure modes as a report shows them: the sentence, its runs, what is shown of it, examples.

A mode that is not shown to mark failure is never told without that; counts of modes that are left
out stand beside those that are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from stepscope.findings.modes import (
    ALPHA,
    EXAMPLES,
    NO_SIGNS,
    UNSEEN,
    FailureMode,
    FailureModes,
    ModeExample,
    ModeVerdict,
)
from stepscope.report.document import (
    Links,
    Paragraph,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
    make_columns,
)
from stepscope.report.views.profile import make_figure_cell
from stepscope.safety.text import visible_line
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_count,
    format_difference,
    format_estimate,
    format_interval,
    format_p,
    format_percent,
)

# Modes of a text, and of these what is not as expected; the page and the JSON have more.
SHOWN, SHOWN_JUDGED = 4, 2
VERDICTS: dict[ModeVerdict, tuple[str, Tone]] = {
    "marks_failure": ("marks failure", "bad"),
    "unclear": ("unclear", "warn"),
    "judged_by": ("not as expected", ""),
    "not_tested": ("not tested", "quiet"),
    "hard_tasks": ("hard tasks", "quiet"),
    "harmless": ("harmless", "quiet"),
}
_COUNTS = (
    TableColumn("code", least=24),
    TableColumn("failed", number=True, least=8, help="failed runs among all that have it"),
    TableColumn("expected", number=True, least=8, help="of other trials of the same tasks"),
    TableColumn("tasks", number=True, least=5),
    TableColumn("begins", least=6, help="runs by the fifth of the run in which it begins"),
)
_BARS = "▁▂▃▄▅▆▇█"


def lay_out_modes(found: FailureModes | Unmeasured) -> Section:
    """Return the modes as text and Markdown have them: the first ones, and what is left out."""
    if isinstance(found, Unmeasured) or not found.n_modes:
        left_out = [] if found == NO_SIGNS else describe_unseen(found)
        return [Paragraph(lead="Failure modes: ", text=line, hang=0) for line in left_out]
    judged = [mode for mode in found.modes if mode.verdict == "judged_by"]
    others = [mode for mode in found.modes if mode.verdict not in ("judged_by", "harmless")]
    shown = [*others[:SHOWN], *judged[:SHOWN_JUDGED]] or list(found.modes[:SHOWN])
    rows = []
    for mode in shown:
        said = [mode.name, *describe_mode(mode)]
        if isinstance(mode.worth, Estimate) and mode.failed:
            worth = format_difference(mode.worth.value, mode.worth.unit).removeprefix("+")
            limits = f"({100 * mode.worth.level:g} % interval {format_interval(mode.worth)})"
            said.append(f"fixing it would raise the pass rate by at most {worth} {limits}")
        below = Paragraph(text=visible_line("; ".join(said)), indent=4, code=True)
        runs = TableCell(", ".join(map(_name_example, mode.examples)), code=True)
        rows.append(TableRow((*_count(mode), runs), below=(below,)))
    columns = (*_COUNTS, TableColumn("runs", overflow="wrap"))
    table = Table(id="modes", corner="Failure modes", columns=columns, rows=tuple(rows), own=True)
    left = Counter(VERDICTS[mode.verdict][0] for mode in found.modes if mode not in shown)
    more = [f"{n:,} {verdict}" for verdict, n in left.items()]
    if unlisted := found.n_modes - len(found.modes):
        more.append(f"{unlisted:,} more")
    more.append(f"{found.n_lone:,} of {found.n_signatures:,} signatures (in too few runs)")
    lines = (*describe_modes(found), f"Not listed here: {', '.join(more)}.")
    where = f"To list the runs of a mode: stepscope report --where \"mode = '{shown[0].code}'\""
    return [table, *(Paragraph(text=line) for line in lines), Paragraph(text=where, terminal=True)]


def letter_runs(found: FailureModes | Unmeasured) -> dict[str, str]:
    """Return for each failed run, by its id, the letter of the mode that it is counted under."""
    if isinstance(found, Unmeasured):
        return {}
    return {run: letter for mode, letter in _letter(found.modes) for run in mode.assigned}


def _letter(modes: Sequence[FailureMode]) -> Iterator[tuple[FailureMode, str]]:
    free = iter(ascii_uppercase)
    for mode in modes:
        yield mode, next(free) if mode.assigned else ""


def tabulate_modes(found: FailureModes | Unmeasured, links: Links) -> Table:
    """Return the modes as a page has them, a row a mode; without rows where there is none."""
    if isinstance(found, Unmeasured):
        left_out = () if found == NO_SIGNS else tuple(describe_unseen(found))
        return Table(id="modes", caption="Failure modes", columns=(), rows=(), notes=left_out)
    rows = []
    for mode, letter in _letter(found.modes):
        examples = [
            TableCell(_name_example(one), href=links.run(one.id, one.step), code=True)
            for one in mode.examples
        ]
        examples += [TableCell("")] * (EXAMPLES - len(examples))
        name = TableCell(mode.name, code=True, note="; ".join(describe_mode(mode)))
        cells = (name, TableCell(letter), *_count(mode))
        cells += (make_figure_cell("outcome", mode.worth), *examples)
        facets = {"mode": letter} if letter else {}
        rows.append(TableRow(cells, match=mode.name, facets=facets))
    columns = (
        TableColumn("what happened"),
        TableColumn("map", help="the letter of failed runs counted under this mode"),
        *_COUNTS,
        TableColumn("worth at most", number=True, help="share of all runs that failed with it"),
        *make_columns("run", "another", "a third"),
    )
    said = tuple(describe_modes(found))
    return Table(id="modes", caption="Failure modes", columns=columns, rows=tuple(rows), notes=said)


def describe_modes(found: FailureModes) -> Iterator[str]:
    """Yield what is known of all modes together: tests, what chance gives, runs in none, lost."""
    alpha = f"{ALPHA:g}"
    modes = format_count(found.n_modes, "mode")
    if found.n_tested:
        shown = f"{found.n_shown:,} mark" if found.n_shown else "none is proved to mark"
        yield (
            f"{found.n_tested:,} of {modes} could be tested against other trials of the same "
            f"tasks: {shown} failure at {alpha} after Holm's correction; {found.n_small:,} "
            f"have an unadjusted p of at most {alpha}, {found.small_by_chance:.1f} are expected by "
            "chance."
        )
    else:
        yield (
            f"None of {modes} could be tested: a test needs tasks with some trials that show the "
            "mode and some that do not, and with both outcomes."
        )
    if isinstance(found.unassigned, Estimate):
        none = round(found.unassigned.value * found.n_failed)
        share = f"{format_percent(found.unassigned.value)}, 95 % interval "
        share += format_interval(found.unassigned)
        likely = f"{found.n_failed - none - found.n_judged_by:,} have a mode that chance hardly "
        likely += "explains (in at most 1 of 5 fleets), "
        yield (
            f"Of {format_count(found.n_failed, 'failed run')}, {likely if found.n_tested else ''}"
            f"{found.n_judged_by:,} have only modes of the kind 'not as expected' (part of the "
            f"outcome, so not tested), and {none:,} have no mode ({share})."
        )
    yield from describe_unseen(found)


def describe_unseen(found: FailureModes | Unmeasured) -> Iterator[str]:
    """Yield how many runs are in no count because rules could not see what went wrong there."""
    if isinstance(found, Unmeasured):
        yield f"unmeasured ({found.kind}): {found.reason}."
    elif found.unmeasured:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in found.unmeasured.items())
        runs = format_count(sum(found.unmeasured.values()), "run")
        yield f"{runs} not counted, unmeasured ({kinds}): {UNSEEN.reason}."


def describe_mode(mode: FailureMode) -> Iterator[str]:
    """Yield what is shown of a mode, and its share of the runs of each version."""
    if mode.verdict == "marks_failure":
        yield f"p {format_p(mode.p_adjusted)} after Holm"
    elif mode.verdict == "unclear" and mode.by_chance is not None:
        yield f"p {format_p(mode.p)}, {mode.by_chance:.1f} such modes by chance"
    for version, share in mode.versions.items():
        yield f"in {format_estimate(share)} of the runs of {version}"


def draw_begins(begins: Sequence[int]) -> str:
    """Return runs by the part of the run in which a mode begins as bars.

    >>> draw_begins((0, 2, 4, 8, 0))
    '·▂▄█·'
    """
    most = max(begins, default=0)
    return "".join([_BARS[-(-n * len(_BARS) // most) - 1] if n else "·" for n in begins])


def _count(mode: FailureMode) -> tuple[TableCell, ...]:
    verdict, tone = VERDICTS[mode.verdict]
    expected = "-" if mode.p is None else f"{mode.expected:,.1f}"
    return (
        TableCell(f"{mode.code} {verdict}", level=1, tone=tone),
        TableCell(f"{mode.failed:,} of {mode.runs:,}", sort=mode.failed),
        TableCell(expected, sort=mode.expected),
        TableCell(f"{mode.tasks:,}", sort=mode.tasks),
        TableCell(draw_begins(mode.begins), title=", ".join(map(str, mode.begins))),
    )


def _name_example(one: ModeExample) -> str:
    return one.name if one.step is None else f"{one.name} at {one.step}"
