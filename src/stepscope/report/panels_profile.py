"""The failure profile of a panel in words: of one group by judge, of several by group.

Any and all judges stand first; below the table is whose verdicts these sum up, and what was left
open. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stepscope.report import lines
from stepscope.report.panels_types import Figure, Panel, PanelGroup, Panels
from stepscope.values import Estimate, Unmeasured


class Sheet(NamedTuple):
    """A table of words: its heading, its columns, its rows, and what stands below it."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def called(judges: Iterable[str]) -> dict[str, str]:
    """Return what judges are called where there is little room: their model, if that tells them.

    >>> called(["openai/gpt-5", "a/qwen3", "b/qwen3", "rules"])
    {'openai/gpt-5': 'gpt-5', 'a/qwen3': 'a/qwen3', 'b/qwen3': 'b/qwen3', 'rules': 'rules'}
    """
    names = list(judges)
    ends = [name.rpartition("/")[2] for name in names]
    return {
        name: end if ends.count(end) == 1 and end else name
        for name, end in zip(names, ends, strict=True)
    }


class Names(dict[str, str]):
    """What judges are called; who is no judge of the report keeps its name."""

    def __missing__(self, name: str) -> str:
        return name


def names_of(found: Panels) -> Names:
    """Return what the judges of a report are called."""
    sitting = dict.fromkeys(m.judge for panel in found.panels for m in panel.members)
    raters = dict.fromkeys(name for one in found.agreement for name in one.judges)
    return Names(called(dict.fromkeys([*found.judges, *sitting, *raters])))


def share(figure: Figure) -> str:
    """Return a share with its interval, how many it is of, and the worst case where there is one.

    Of what is absent, the kind.
    """
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    said = f"{lines.share(figure.value)} {lines.interval('share', figure)} of {figure.n:,}"
    worst = lines.bounds("share", figure).removeprefix("worst case ").replace(" to ", "-")
    return f"{said} ({worst})" if worst else said


def shares(found: Panels) -> Iterator[Sheet]:
    """Yield the failure profile: of one group by judge, of several by group, any and all."""
    titles = [group.title for group in found.panels[0].groups] if found.panels else []
    if len(titles) == 1:
        yield _one_group(found.panels, names_of(found))
    elif titles:
        yield _many_groups(found.panels, titles, "any", names_of(found))
        yield _many_groups(found.panels, titles, "all", names_of(found))


def _one_group(panels: Sequence[Panel], names: Mapping[str, str]) -> Sheet:
    judges = list(dict.fromkeys(m.judge for panel in panels for m in panel.members))
    judges.sort(key=lambda judge: judge == "rules")
    summed = any(panel.groups[0].votes for panel in panels)
    rows = []
    for panel in panels:
        group = panel.groups[0]
        seats = {seat.judge: share(seat.failing) for seat in group.seats}
        votes = _both(group) if summed else ()
        rows.append((panel.title, *votes, *(seats.get(judge, "-") for judge in judges)))
    both = ("any judge", "all judges") if summed else ()
    head = ("", *both, *(names[judge] for judge in judges))
    return Sheet("panel", "At fault, by judge", head, tuple(rows), tuple(_notes(panels, names)))


def _both(group: PanelGroup) -> tuple[str, str]:
    if not group.votes:
        return "-", "-"
    return share(group.votes[0].any), share(group.votes[0].all)


def _many_groups(
    panels: Sequence[Panel], titles: Sequence[str], how: str, names: Mapping[str, str]
) -> Sheet:
    rows = []
    for panel in panels:
        cells = []
        for group in panel.groups:
            figure = _summed(group, how)
            cells.append("-" if figure is None else share(figure))
        rows.append((panel.title, *cells))
    title = "At fault: any judge" if how == "any" else "At fault: all judges"
    notes = (*_notes(panels, names), "each judge alone: --json") if how == "all" else ()
    return Sheet(f"panel-{how}", title, ("", *titles), tuple(rows), notes)


def _summed(group: PanelGroup, how: str) -> Figure | None:
    if group.votes:
        return group.votes[0].any if how == "any" else group.votes[0].all
    return group.seats[0].failing if group.seats and how == "any" else None


def _notes(panels: Sequence[Panel], names: Mapping[str, str]) -> Iterator[str]:
    """Yield whose verdicts are summed up, what they left open, and what the shares speak of."""
    sitting = [group.votes[0] for p in panels for group in p.groups if group.votes]
    for judges in dict.fromkeys(vote.judges for vote in sitting):
        part = sum(vote.incomplete for vote in sitting if vote.judges == judges)
        left = f"; {part:,} run verdicts left out" if part else ""
        yield f"any, all: over the runs that {_and([names[j] for j in judges])} answered{left}"
    yield from _lost(panels, names)
    if any(_bounded(panel) for panel in panels):
        yield "in brackets: the share if all runs without a yes or no were at fault, or none"
    if any(panel.drawn for panel in panels):
        yield "runs were drawn: each share is weighed, and speaks of all that could have been"
    left_out = sum(seat.not_judged for p in panels for group in p.groups for seat in group.seats)
    if left_out:
        yield "shares are of the judged runs; others are in no share"


def _bounded(panel: Panel) -> bool:
    figures = [seat.failing for group in panel.groups for seat in group.seats]
    return any(isinstance(f, Estimate) and lines.bounds("share", f) for f in figures)


def _lost(panels: Sequence[Panel], names: Mapping[str, str]) -> Iterator[str]:
    by_judge: dict[str, dict[str, int]] = {}
    for panel in panels:
        for group in panel.groups:
            for seat in group.seats:
                held = by_judge.setdefault(seat.judge, {})
                for why, n in seat.lost.items():
                    held[why] = held.get(why, 0) + n
    for judge, lost in by_judge.items():
        if lost:
            yield f"no yes or no from {names[judge]}: {counted(lost)}"


def counted(counts: Mapping[str, int]) -> str:
    """Return counts as words, the largest first.

    >>> counted({"refused": 1, "uncertain": 3})
    '3 uncertain, 1 refused'
    """
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{n:,} {name}" for name, n in order)


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else names[0]
