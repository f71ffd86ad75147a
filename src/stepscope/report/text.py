"""A report as text for a terminal: fits 100 columns, degrades to 80, readable in a log.

Whatever came from a trace passes through `visible_line`: no escape sequence of a run reaches the
terminal. No colour: the words carry the meaning, and a pipe reads the same.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from stepscope.report import axes_text, lines, panels_text, shapes_text
from stepscope.report.cutting import shorten
from stepscope.report.types import JointTable, LookFirst, Profile, RankFlip, Report, RunLine
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# Of many groups more pairs than this differ by chance alone; the JSON has them all.
SHOWN_FLIPS = 5
# Columns of the vector; an interval in dollars or seconds may need more than its column.
LABEL, VALUE, INTERVAL, COUNT = 22, 9, 15, 10


def render(report: Report, width: int = 100) -> str:
    """Return the report as text, no line longer than `width` columns; ends in a line break."""
    blocks = [_profile(profile, report, width) for profile in report.profiles]
    flips = list(_flips(report, width))
    if flips:
        blocks.append(flips)
    blocks.append(axes_text.block(report.profiles, width))
    blocks.append(shapes_text.block(report.profiles, width))
    if report.panels:
        blocks += panels_text.blocks(report.panels, width)
    if report.look_first:
        blocks.append(_look_first(report, width))
    blocks.append(list(_closing(report, width)))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def fold(text: str, width: int, indent: int) -> list[str]:
    """Break `text` at spaces into lines of `width`, all but the first indented.

    >>> fold("one two three", 9, 2)
    ['one two', '  three']
    """
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False) or [
        ""
    ]


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` columns, its end marked.

    >>> clip("abcdef", 4), clip("abcd", 4)
    ('abc…', 'abcd')
    """
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def headline(profile: Profile, report: Report) -> tuple[str, str]:
    """Return the group, and what was read of it: runs, tasks, steps, calls, judges, seed."""
    judges = ", ".join(report.provenance.judges) or "none"
    title = visible_line(profile.title) or "all runs"
    return title, (
        f"{_count(profile.n_runs, 'run')}, {_tasks(profile)}, "
        f"{_count(profile.n_steps, 'step')}, {_count(profile.n_calls, 'call')}   "
        f"judges: {visible_line(judges)}   seed {report.provenance.seed}"
    )


def _tasks(profile: Profile) -> str:
    tasks = _count(profile.n_tasks, "task")
    trials = profile.trials
    if trials is None or trials.high < 2:
        return tasks
    # Trials are counted over graded runs: where others are among these, tasks x trials is no count.
    if not trials.low * profile.n_tasks <= profile.n_runs <= trials.high * profile.n_tasks:
        return tasks
    each = f"{trials.low}" if trials.low == trials.high else f"{trials.low} to {trials.high}"
    return f"{tasks} x {each} trials"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _profile(profile: Profile, report: Report, width: int) -> list[str]:
    out = fold("   ".join(headline(profile, report)), width, 2)
    vector = lines.vector(profile)
    wide = max(INTERVAL, *(len(item.interval) for item in vector))
    out += ["", _row("", "value", "95 % interval", "n", wide) + "unmeasured"]
    for item in vector:
        head = _row(item.label, item.value, item.interval, item.n, wide)
        room = max(width - len(head), 12)
        said = fold(visible_line(item.unmeasured), room, 2)
        out.append((head + said[0]).rstrip())
        out += [" " * len(head) + rest for rest in said[1:]]
    earned = [line for table in profile.earned for line in _joint(table, profile, width)]
    if earned:
        out += ["", *earned]
    if profile.too_loose.outcome == "fail":
        out += ["", *fold(f"Warning: {profile.too_loose.reason}", width, 2)]
    return out


def _row(label: str, value: str, interval: str, n: str, wide: int) -> str:
    return f"{label:<{LABEL}}{value:>{VALUE}}  {interval:<{wide}}{n:>{COUNT}}  "


def _joint(table: JointTable, profile: Profile, width: int) -> Iterator[str]:
    first = table is profile.earned[0]
    widths = [max(len(column) + 2, 7) for column in table.columns]
    title = "Was it earned?" if first else ""
    yield f"{title:<16}" + "".join(f"{c:>{w}}" for c, w in zip(table.columns, widths, strict=True))
    notes = joint_notes(table, profile)
    for name, counts in (("pass", table.passed), ("fail", table.failed)):
        cells = "".join(f"{n:>{w},}" for n, w in zip(counts, widths, strict=True))
        row = f"  {name:<14}{cells}   "
        note = fold(visible_line(notes.get(name, "")), width - len(row), 2)
        yield (row + note[0]).rstrip()
        yield from (" " * len(row) + rest for rest in note[1:2])


def joint_notes(table: JointTable, profile: Profile) -> dict[str, str]:
    """Return a remark for each row, "pass" and "fail"; the first table names the unearned runs."""
    notes = dict(table.notes)
    if table is profile.earned[0]:
        notes.setdefault("pass", _asked("right for the wrong reason?", profile.lucky))
        notes.setdefault("fail", _asked("wrong for a right reason?", profile.unlucky))
    return notes


def _asked(question: str, runs: tuple[RunLine, ...]) -> str:
    if not runs:
        return ""
    shown = ", ".join(run.name for run in runs[:2])
    return f"{question} {shown}" + (f" and {len(runs) - 2} more" if len(runs) > 2 else "")


def _flips(report: Report, width: int) -> Iterator[str]:
    if isinstance(report.rank_flips, Unmeasured):
        if len(report.profiles) > 1:
            yield from fold(f"Rank flips: unmeasured, {report.rank_flips.reason}", width, 2)
        return
    for flip in report.rank_flips[:SHOWN_FLIPS]:
        yield from fold(f"Rank flip: {flipped(flip)}", width, 2)
    if not report.rank_flips and len(report.profiles) > 1:
        yield "Rank flips: none; outcome and path order these groups alike."


def flipped(flip: RankFlip) -> str:
    """Return a rank flip as a sentence."""
    ahead = flip.first if flip.outcome_difference < 0 else flip.second
    behind = flip.second if flip.outcome_difference < 0 else flip.first
    return visible_line(
        f"{ahead} is ahead of {behind} by outcome ({lines.share(abs(flip.outcome_difference))}) "
        f"and behind by path ({lines.share(abs(flip.path_difference))}) over {flip.n_tasks:,} "
        f"shared tasks; so in {flip.probability:.0%} of resamples"
    )


def _look_first(report: Report, width: int) -> list[str]:
    runs = report.look_first
    names = [clip(visible_line(run.name), 30) for run in runs]
    wide = max(14, *(len(name) for name in names))
    out = [f"{'Look first':<{wide + 2}} {'steps':>5}  {'suspect':<8} evidence"]
    for name, run in zip(names, runs, strict=True):
        where, said = evidence(run)
        head = f"  {name:<{wide}} {run.steps:>5,}  {where:<8} "
        out.append(head + shorten(visible_line(said), width - len(head), ends=_ends(run)))
    return out


def _ends(run: LookFirst) -> bool:
    """Whether the last words of the evidence say most: those of an error message do."""
    return bool(run.suspects) and run.suspects[0].kind == "error"


def evidence(run: LookFirst) -> tuple[str, str]:
    """Return where to look in a run, and why, in one line."""
    if run.note:
        return "-", run.note
    if not run.suspects:
        return "-", f"{run.verdict}: the rules found nothing to point at"
    return run.suspects[0].where, run.suspects[0].evidence


def _closing(report: Report, width: int) -> Iterator[str]:
    if report.not_claimed:
        yield from fold(f"Not claimed: {', '.join(report.not_claimed)}.", width, 2)
    if report.next:
        yield from fold("Next: " + visible_line(" · ".join(report.next)), width, 6)
