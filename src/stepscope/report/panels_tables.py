"""What judges say as tables of words, the same for every renderer: terminal, Markdown, page.

Nothing is computed here. Names of judges, runs and labels are as they stand in the records: each
renderer makes them harmless in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.report import lines
from stepscope.report.panels_profile import Sheet, counted, names_of, share, shares
from stepscope.report.panels_types import Agreed, Figure, Onset, Panels, words
from stepscope.values import Unmeasured

# Disputed runs and flags that people are shown; JSON has all.
SHOWN = 5
# Remarks on coefficients that people are shown; most repeat each other.
SENTENCES = 2
MOST_FLAGS = 12
# Steps named of one verdict.
CITED = 6


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
    names = names_of(found)
    rows = tuple(_agreed(one, names) for one in found.agreement)
    head = ("", "judges", "same", "kappa", "AC1", "cites")
    said = [f"{words(one.rubric)}: {one.sentence}" for one in found.agreement if one.sentence]
    notes = list(dict.fromkeys(said))
    if len(notes) > SENTENCES:
        more = f"and {len(notes) - SENTENCES:,} more such remarks: stepscope agree"
        notes = [*notes[:SENTENCES], more]
    same = "same: share of equal answers; cites: of the steps that either cites, those that both do"
    return Sheet("agreement", "Agreement", head, rows, (same, *notes) if rows else ())


def _agreed(one: Agreed, names: Mapping[str, str]) -> tuple[str, ...]:
    figures = (_of(one.raw), _bare(one.kappa), _bare(one.ac1), _value(one.cites))
    about = words(one.rubric) + (" (steps)" if one.unit == "steps" else "")
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
    names = names_of(found)
    rows = tuple(
        (
            one.name if one.step is None else f"{one.name} step {one.step}",
            words(one.rubric),
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
    names = names_of(found)
    rows = [
        (
            words(line.rubric),
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
    name = names_of(found)[judge]
    return (name, group) if _several(found) else (name,)


def behaviours(found: Panels) -> Sheet:
    """Return where each behaviour begins in a run, and how it spreads over it."""
    rows = tuple(
        (words(one.rubric), *_whose(one.judge, one.group, found), *_onset(one))
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
            words(one.rubric),
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
    names = names_of(found)
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
