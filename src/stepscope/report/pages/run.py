"""The page of one run: the curve or the strip of verdicts, where it broke, then its steps.

The curve is the page: one looks before one reads. A window of steps is laid out, never all of a
long run; the strip above it is of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from stepscope.report import lines
from stepscope.report.pages import curve_view
from stepscope.report.pages.curve_view import CurveView
from stepscope.report.pages.links import Links, run_anchor, step_anchor
from stepscope.report.pages.look import Look, look
from stepscope.report.pages.page import Empty, Page, Tone
from stepscope.report.pages.run_data import RunData
from stepscope.report.pages.run_table import TONES
from stepscope.report.pages.runs import RunRow
from stepscope.report.pages.steps import StepView, views
from stepscope.report.pages.strip import Strip, strip
from stepscope.report.pages.verdicts import Said, To, said
from stepscope.report.types import Report
from stepscope.values import Unmeasured

# Steps that one page lays out; a page of so many stays quick to scroll.
WINDOW = 200
# Steps shown before the one that was asked for.
LEAD_IN = 20
# Suspects named at the top.
MOST_SUSPECTS = 6
# Remarks from the import that a page lists.
MOST_NOTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectView:
    """Where the run may have broken: the steps, what kind of evidence, what it says."""

    where: str
    kind: str
    evidence: str
    href: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Another trial of the same task: its page, and both side by side."""

    name: str
    outcome: str
    tone: Tone
    href: str | None
    pair: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContent:
    """What the template of a run reads."""

    id: str
    name: str
    outcome: str
    tone: Tone
    because: str
    facts: tuple[tuple[str, str], ...]
    suspects: tuple[SuspectView, ...]
    more_suspects: int
    curve: CurveView | None
    no_curve: str
    strip: Strip
    said: Said
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[StepView, ...]
    total: int
    first: int
    last: int
    before: str | None
    after: str | None
    others: tuple[Other, ...]
    home: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRun:
    """What the template reads before a run is chosen."""

    looks: tuple[Look, ...]
    empty: Empty


def run(
    data: RunData,
    *,
    links: Links,
    window: range | None = None,
    clip: int | None = None,
    others: Sequence[RunRow] = (),
) -> Page:
    """Return the page of one run.

    Args:
        data: what `read_run` read.
        links: where things are.
        window: the steps to lay out; around the first suspect when left out.
        clip: the most characters of one text; all when left out.
        others: runs of the same task.
    """
    trajectory = data.trajectory
    count = len(trajectory.steps)
    shown = window_around(count, _first(data)) if window is None else window
    shown = range(max(shown.start, 0), min(shown.stop, count))
    to = _addresses(trajectory.id, shown, count, links)
    spoken = said(data, to)
    curve = None
    if not isinstance(data.curve, Unmeasured):
        curve = curve_view.view(data.curve, count, run_anchor(trajectory.id), to)
    steps = views(
        data, spoken, to=to, raw=partial(links.raw, trajectory.id), window=shown, clip=clip
    )
    content = RunContent(
        id=trajectory.id,
        name=trajectory.name,
        outcome=trajectory.outcome.status,
        tone=TONES.get(trajectory.outcome.status, "quiet"),
        because=_because(data),
        facts=tuple(_facts(data)),
        suspects=tuple(_suspects(data, to)),
        more_suspects=max(len(data.suspects) - MOST_SUSPECTS, 0),
        curve=curve,
        no_curve=data.curve.reason if isinstance(data.curve, Unmeasured) else "",
        strip=strip(data, spoken, to),
        said=spoken,
        labels=spoken.labels.get(-1, ()),
        notes=tuple(_notes(data)),
        steps=tuple(steps),
        total=count,
        first=shown.start,
        last=shown.stop - 1,
        before=_window(links, trajectory.id, shown.start - WINDOW) if shown.start > 0 else None,
        after=_window(links, trajectory.id, shown.stop) if shown.stop < count else None,
        others=tuple(_others(trajectory.id, others, links)),
        home=links.page("run"),
    )
    return _page(content, curve)


def _page(content: RunContent, curve: CurveView | None) -> Page:
    return Page(
        name="run",
        title=content.name,
        template="run.html",
        anchor=run_anchor(content.id),
        content=content,
        charts=() if curve is None else (curve.chart,),
    )


def _addresses(run: str, shown: range, count: int, links: Links) -> To:
    """Return what gives the address of a step: in the window, on another page, or nowhere."""

    def to(step: int) -> str | None:
        if step in shown:
            return f"#{step_anchor(run, step)}"
        elsewhere = links.window(run, step) is not None and 0 <= step < count
        return links.run(run, step) if elsewhere else None

    return to


def no_run(report: Report, *, links: Links) -> Page:
    """Return the page of runs before one is chosen: those to look at first."""
    empty = Empty(said="The rules found nothing to look at first.", commands=("stepscope score",))
    looks = tuple(look(one, links) for one in report.look_first)
    return Page(
        name="run",
        title="Run",
        template="no_run.html",
        anchor="run",
        content=NoRun(looks=looks, empty=empty),
    )


def window_around(count: int, step: int) -> range:
    """Return the steps to lay out so that `step` is among them; all of a short run.

    >>> window_around(150, 90), window_around(1000, 500), window_around(1000, 990)
    (range(0, 150), range(480, 680), range(800, 1000))
    """
    if count <= WINDOW:
        return range(count)
    start = min(max(step - LEAD_IN, 0), count - WINDOW)
    return range(start, start + WINDOW)


def _window(links: Links, run: str, first: int) -> str | None:
    return links.window(run, max(first, 0))


def _first(data: RunData) -> int:
    return data.suspects[0].first if data.suspects else 0


def _because(data: RunData) -> str:
    outcome = data.trajectory.outcome
    if outcome.source == "reward" and outcome.reward is not None:
        return f"recorded reward {outcome.reward:g}"
    return "" if outcome.source == "none" else outcome.source


def _facts(data: RunData) -> Iterator[tuple[str, str]]:
    trajectory = data.trajectory
    for name in ("workflow", "task", "trial", "agent", "agent_version", "termination"):
        value: str | None = getattr(trajectory, name)
        if value:
            yield name.replace("_", " "), value
    calls = trajectory.exchanges
    yield "steps", f"{len(trajectory.steps):,}"
    yield "calls", f"{len(calls):,}"
    yield "failed calls", f"{sum(call.failed for call in calls):,}"
    usage = trajectory.usage
    if usage is not None and usage.input_total is not None and usage.output_total is not None:
        yield "tokens", f"{usage.input_total:,} in, {usage.output_total:,} out"
    if trajectory.cost_usd is not None:
        yield "cost", lines.number("cost_usd", trajectory.cost_usd)
    if trajectory.start is not None and trajectory.end is not None:
        seconds = (trajectory.end.ns - trajectory.start.ns) / 1e9
        yield "latency", lines.number("seconds", seconds)
    yield "source", trajectory.source.format


def _notes(data: RunData) -> Iterator[str]:
    warnings = data.trajectory.warnings
    for warning in warnings[:MOST_NOTES]:
        yield warning.reason if warning.step is None else f"step {warning.step}: {warning.reason}"
    if len(warnings) > MOST_NOTES:
        yield f"and {len(warnings) - MOST_NOTES:,} more"


def _suspects(data: RunData, to: To) -> Iterator[SuspectView]:
    for suspect in data.suspects[:MOST_SUSPECTS]:
        yield SuspectView(
            where=suspect.where,
            kind=suspect.kind.replace("_", " "),
            evidence=suspect.evidence,
            href=to(suspect.first),
        )


def _others(run: str, others: Sequence[RunRow], links: Links) -> Iterator[Other]:
    for row in others:
        if row.id != run:
            yield Other(
                name=row.name,
                outcome=row.outcome,
                tone=TONES.get(row.outcome, "quiet"),
                href=links.run(row.id),
                pair=links.pair(run, row.id),
            )
