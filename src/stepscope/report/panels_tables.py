"""What judges say as tables of words, the same for every renderer: terminal, Markdown, page.

Nothing is computed here. Names of judges, runs and labels are as they stand in the records: each
renderer makes them harmless in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stepscope.report import lines
from stepscope.report.panels_types import Agreed, Figure, Onset, Panel, PanelGroup, Panels
from stepscope.values import Unmeasured

# Disputed runs and flags that people are shown; JSON has all.
SHOWN = 5
# Remarks on coefficients that people are shown; most repeat each other.
SENTENCES = 2
MOST_FLAGS = 12
# Steps named of one verdict.
CITED = 6


class Sheet(NamedTuple):
    """A table of words: its heading, its columns, its rows, and what stands below it."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def sheets(found: Panels) -> list[Sheet]:
    """Return every table that has rows, in the order in which they are read."""
    all_ = (
        *shares(found),
        claims(found),
        agreement(found),
        queue(found),
        trace(found),
        patterns(found),
        behaviours(found),
        answers(found),
        flags(found),
        costs(found),
    )
    return [sheet for sheet in all_ if sheet.rows or sheet.notes]


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


class _Names(dict[str, str]):
    """What judges are called; who is no judge of the report keeps its name."""

    def __missing__(self, name: str) -> str:
        return name


def _names(found: Panels) -> _Names:
    sitting = dict.fromkeys(m.judge for panel in found.panels for m in panel.members)
    raters = dict.fromkeys(name for one in found.agreement for name in one.judges)
    return _Names(called(dict.fromkeys([*found.judges, *sitting, *raters])))


def share(figure: Figure) -> str:
    """Return a share with its interval and how many it is of; of what is absent, the kind."""
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    return f"{lines.share(figure.value)} {lines.interval('share', figure)} of {figure.n:,}"


def shares(found: Panels) -> Iterator[Sheet]:
    """Yield the failure profile: of one group by judge, of several by group, any and all."""
    titles = [group.title for group in found.panels[0].groups] if found.panels else []
    if len(titles) == 1:
        yield _one_group(found.panels, _names(found))
    elif titles:
        yield _many_groups(found.panels, titles, "any", _names(found))
        yield _many_groups(found.panels, titles, "all", _names(found))


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
    return Sheet("panel", "Panel: found at fault", head, tuple(rows), tuple(_notes(panels, names)))


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
    title = f"Panel: {how} judge{'s' if how == 'all' else ''} found at fault"
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
    if any(panel.drawn for panel in panels):
        yield "runs were drawn: each share is weighed, and speaks of all that could have been"
    left_out = sum(seat.not_judged for p in panels for group in p.groups for seat in group.seats)
    if left_out:
        yield "shares are of the judged runs; others are in no share"


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


def claims(found: Panels) -> Sheet:
    """Return the comparisons of groups that survive Holm, and how many were made."""
    made = [(panel, c) for panel in found.panels for c in panel.claims if c.p is not None]
    rows = tuple(
        (
            panel.title,
            f"{claim.second} against {claim.first}",
            _difference(claim.effect),
            _p(claim.p_adjusted),
        )
        for panel, claim in made
        if claim.survives
    )
    n = len(made)
    note = f"{len(rows):,} of {n:,} comparisons of groups survive{'s' * (len(rows) == 1)} Holm"
    head = ("", "groups", "difference", "p, Holm")
    return Sheet("claims", "Groups that differ", head, rows, (note,) if n else ())


def _difference(figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return "-"
    text = lines.share(figure.value)
    signed = text if text.startswith("-") else f"+{text}"
    return f"{signed} {lines.interval('share', figure)}"


def _p(p: float | None) -> str:
    if p is None:
        return "-"
    return "<.001" if p < 0.001 else lines.share(p)


def agreement(found: Panels) -> Sheet:
    """Return how far each pair of judges agrees."""
    names = _names(found)
    rows = tuple(_agreed(one, names) for one in found.agreement)
    head = ("", "judges", "same", "kappa", "AC1", "cites")
    said = [f"{_words(one.rubric)}: {one.sentence}" for one in found.agreement if one.sentence]
    notes = list(dict.fromkeys(said))
    if len(notes) > SENTENCES:
        more = f"and {len(notes) - SENTENCES:,} more such remarks: stepscope agree"
        notes = [*notes[:SENTENCES], more]
    same = "same: share of equal answers; cites: of the steps that either cites, those that both do"
    return Sheet("agreement", "Agreement", head, rows, (same, *notes) if rows else ())


def _agreed(one: Agreed, names: Mapping[str, str]) -> tuple[str, ...]:
    figures = (_of(one.raw), _bare(one.kappa), _bare(one.ac1), _value(one.cites))
    about = _words(one.rubric) + (" (steps)" if one.unit == "steps" else "")
    return (about, " x ".join(names[judge] for judge in one.judges), *figures)


def _bare(figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    return f"{lines.share(figure.value)} {lines.interval('share', figure)}"


def _of(figure: Figure) -> str:
    return _value(figure) if isinstance(figure, Unmeasured) else f"{_value(figure)} of {figure.n:,}"


def _value(figure: Figure) -> str:
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    return lines.share(figure.value)


def queue(found: Panels) -> Sheet:
    """Return the runs on which families disagree: material for the rubric, no sample."""
    names = _names(found)
    rows = tuple(
        (
            one.name if one.step is None else f"{one.name} step {one.step}",
            _words(one.rubric),
            " · ".join(f"{names[judge]} {label}" for judge, label in one.answers.items()),
            _steps(one.steps),
        )
        for one in found.queue[:SHOWN]
    )
    more = found.n_disputed - len(rows)
    notes = [f"and {more:,} more: stepscope agree --queue"] if more > 0 else []
    notes += ["chosen for being disputed: no rate is computed on these"] if rows else []
    head = ("run", "about", "answers", "cites")
    return Sheet("queue", "Disputed", head, rows, tuple(notes))


def _steps(steps: Sequence[int]) -> str:
    said = " ".join(str(step) for step in steps[:CITED])
    return said + " ..." if len(steps) > CITED else said or "-"


def trace(found: Panels) -> Sheet:
    """Return one run worked through: its aspects by judge, then the steps cited in common."""
    worked = found.trace
    head = ("about", "answers", "cited by two or more")
    if worked is None:
        return Sheet("trace", "", head, ())
    names = _names(found)
    rows = [
        (
            _words(line.rubric),
            " · ".join(
                f"{names[one.judge]} {one.label}"
                + ("" if one.confidence is None else f" {lines.score(one.confidence)}")
                for one in line.answers
            ),
            _steps(line.common),
        )
        for line in worked.lines
    ]
    notes = tuple(f"{one.step} {one.actor}: {one.text}" for one in worked.steps)
    title = f"Worked through: {worked.name} ({worked.outcome})"
    return Sheet("trace", title, head, tuple(rows), notes)


def patterns(found: Panels) -> Sheet:
    """Return how often each pattern of step labels shows, and what to do about it."""
    rows = tuple(
        (
            one.name.replace("_", " "),
            *_whose(one.judge, one.group, found),
            share(one.share),
            ", ".join(one.runs) or "-",
        )
        for one in found.patterns
        if one.n
    )
    advice = dict.fromkeys(
        f"{one.name.replace('_', ' ')}: {one.advice}" for one in found.patterns if one.n
    )
    none = [one for one in found.patterns if not one.n]
    if none:
        names = dict.fromkeys(one.name.replace("_", " ") for one in none)
        shown = {one.name.replace("_", " ") for one in found.patterns if one.n}
        left = [name for name in names if name not in shown]
        advice |= {f"none in any labelled run: {', '.join(left)}": None} if left else {}
    head = ("", *_who(found), "share of runs", "for example")
    return Sheet("patterns", "Patterns of steps", head, rows, tuple(advice))


def _several(found: Panels) -> bool:
    return bool(found.panels) and len(found.panels[0].groups) > 1


def _who(found: Panels) -> tuple[str, ...]:
    return ("judge", "group") if _several(found) else ("judge",)


def _whose(judge: str, group: str, found: Panels) -> tuple[str, ...]:
    name = _names(found)[judge]
    return (name, group) if _several(found) else (name,)


def behaviours(found: Panels) -> Sheet:
    """Return where each behaviour begins in a run, and how it spreads over it."""
    rows = tuple(
        (_words(one.rubric), *_whose(one.judge, one.group, found), *_onset(one))
        for one in found.onsets
    )
    head = ("", *_who(found), "runs with it", "begins at", "share of steps, by tenth of the run")
    notes = ("begins at: median place of its first step, 0 the run's first and 1 its last",)
    return Sheet("behaviours", "Behaviours", head, rows, notes if rows else ())


def _onset(one: Onset) -> tuple[str, str, str]:
    spread = (
        "-" if isinstance(tenth, Unmeasured) else lines.score(tenth.value) for tenth in one.tenths
    )
    begins = one.onset
    at = "-" if isinstance(begins, Unmeasured) else f"{lines.share(begins.value)} {_limits(begins)}"
    return share(one.runs), at.strip(), " ".join(spread)


def _limits(figure: Figure) -> str:
    said = "" if isinstance(figure, Unmeasured) else lines.interval("share", figure)
    return "" if said == "-" else said


def answers(found: Panels) -> Sheet:
    """Return the answers to rubrics that have none against the agent."""
    rows = tuple(
        (
            _words(one.rubric),
            *_whose(one.judge, one.group, found),
            counted(one.counts) or "-",
            counted(one.lost) or "0",
        )
        for one in found.answers
    )
    head = ("", *_who(found), "answers", "without one")
    return Sheet("answers", "Other answers", head, rows)


def flags(found: Panels) -> Sheet:
    """Return what weakens these verdicts."""
    names = _names(found)
    rows = tuple(
        (one.kind, names[one.judge] or "-", f"{one.n:,}", one.said, ", ".join(one.runs[:2]) or "-")
        for one in found.flags[:MOST_FLAGS]
    )
    more = len(found.flags) - len(rows)
    notes = (f"and {more:,} more",) if more > 0 else ()
    head = ("flag", "judge", "runs", "what", "for example")
    return Sheet("flags", "What weakens these verdicts", head, rows, notes)


def costs(found: Panels) -> Sheet:
    """Return what each judge took."""
    rows = tuple(
        (
            one.judge,
            f"{one.calls:,}",
            _count(one.input_tokens),
            _count(one.cached_tokens),
            _count(one.output_tokens),
            _usd(one.usd, one.unpriced),
            "-" if one.usd_saved is None else lines.number("cost_usd", one.usd_saved),
        )
        for one in found.costs
    )
    head = ("judge", "calls", "tokens in", "of these cached", "out", "paid", "saved by the cache")
    return Sheet("costs", "What the judges took", head, rows)


def _count(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"


def _usd(usd: float | None, unpriced: int) -> str:
    if usd is None:
        return "price unknown"
    said = lines.number("cost_usd", usd)
    return f"{said}, {unpriced:,} without a price" if unpriced else said


def _words(rubric: str) -> str:
    return (rubric.partition(".")[2] or rubric).replace("_", " ")
