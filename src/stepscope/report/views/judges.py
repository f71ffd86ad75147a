"""What judges say: shares at fault, agreement, disputes, patterns, costs, and isolated judging.

Nothing is computed here. Names of judges, runs and labels are as the records hold them; renderers
escape them. `tabulate_agreement` is the agreement table of a report on every medium.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepscope.calibrate import types
from stepscope.calibrate.modes import ModeComparison, ModeGap
from stepscope.calibrate.ratings import WHAT_ENTERS
from stepscope.model.records import RULES, Figure
from stepscope.report import document as doc
from stepscope.report import words
from stepscope.report.types import CorrectedShare, Panel, PanelGroup, Panels
from stepscope.report.views.profile import MOST_GROUPS, chart_intervals, make_interval_row
from stepscope.values import (
    Estimate,
    Unmeasured,
    format_count,
    format_estimate,
    format_interval,
    format_number,
    format_p,
    format_percent,
)

SCORE = "step score"


def make_sheet(
    key: str,
    heading: str,
    head: Sequence[str],
    rows: Iterable[Sequence[doc.TableCell | str]],
    notes: Sequence[str] = (),
) -> doc.Table:
    """Return a table of what judges say, under a heading."""
    return doc.Table(
        id=f"judges-{key}",
        caption=heading,
        heading=heading,
        columns=doc.make_columns(*head),
        rows=tuple(doc.make_row(*row) for row in rows),
        notes=tuple(notes),
        layout="beside" if key.startswith("panel") else "wrapped",
    )


def format_share_of(figure: Figure) -> str:
    """Return a share, its interval, n, and any worst case; of what is absent, the kind."""
    if isinstance(figure, Unmeasured):
        return f"- {figure.kind}"
    worst = words.format_worst_case(figure)
    said = f"{format_estimate(figure)} of {figure.n:,}"
    return f"{said} ({worst})" if worst else said


def _headline(own: Figure, fixed: CorrectedShare | None) -> str:
    """Return a judge's share or mean, or what labels make of it where they carry it."""
    if fixed is None or fixed.weak:
        return format_share_of(own)
    return f"{format_share_of(fixed.rate)}, corrected"


def tabulate_corrected(found: Panels) -> doc.Table:
    """Return shares corrected by people's labels beside the judges' own, and why some are weak."""
    names = words.name_judges(found)
    rows, notes = [], dict[str, None]()
    shares = [
        (words.name_panel(panel), "runs", seat.judge, group.title, seat.failing, seat.corrected)
        for panel in found.panels
        for group in panel.groups
        for seat in group.seats
    ]
    means = [(SCORE, "steps", x.judge, x.group, x.mean, x.corrected) for x in found.scores]
    for name, unit, judge, title, own, fixed in [*shares, *means]:
        if fixed is None:
            continue
        glad = fixed.rogan_gladen
        labels = f"{fixed.n_labels:,} of {fixed.n_judged:,} {unit}"
        other = "-" if isinstance(glad, Unmeasured) else format_estimate(glad)
        cells = format_share_of(own), format_estimate(fixed.rate), labels, other
        standing = "weak" if fixed.weak else "headline"
        rows.append((name, *_whose(judge, title, found), *cells, standing))
        if fixed.weak:
            notes[f"weak: {fixed.weak}"] = None
        if fixed.refused:
            notes[f"{name}, labels for no rate: {format_counts(fixed.refused)}"] = None
        notes |= {f"{names[judge]}: {warning}": None for warning in fixed.warnings}
    head = ("", *_who(found), "says", "corrected", "labels of", "Rogan-Gladen", "shown as")
    return make_sheet("corrected", "Corrected by people's labels", head, rows, tuple(notes))


def tabulate_panels(found: Panels, links: doc.Links | None = None) -> list[doc.Table]:
    """Return every table that has rows, in the order in which they are read."""
    all_ = (
        *tabulate_shares(found),
        tabulate_scores(found),
        tabulate_corrected(found),
        tabulate_claims(found),
        *([tabulate_agreement(found)] if found.agreement else []),
        tabulate_disputes(found, links),
        tabulate_trace(found),
        tabulate_patterns(found),
        tabulate_behaviours(found),
        tabulate_answers(found),
        tabulate_flags(found),
        tabulate_costs(found),
    )
    return [sheet for sheet in all_ if sheet.rows or sheet.notes]


def tabulate_shares(found: Panels) -> Iterator[doc.Table]:
    """Yield the failure profile: of one group by judge, of several by group, any and all."""
    titles = [group.title for group in found.panels[0].groups] if found.panels else []
    if len(titles) == 1:
        panels = found.panels
        names = words.name_judges(found)
        judges = list(dict.fromkeys(m.judge for panel in panels for m in panel.members))
        judges.sort(key=lambda judge: judge == "rules")
        summed = any(panel.groups[0].votes for panel in panels)
        rows = []
        for panel in panels:
            group = panel.groups[0]
            seats = {one.judge: _headline(one.failing, one.corrected) for one in group.seats}
            seats |= {RULES: f"at least {seats[RULES]}"} if RULES in seats else {}
            both = [format_share_of(x) for vote in group.votes[:1] for x in (vote.any, vote.all)]
            votes = (both or ["-", "-"]) if summed else ()
            each = (seats.get(judge, "-") for judge in judges)
            rows.append((words.name_panel(panel), *votes, *each))
        summary = ("any judge", "all judges") if summed else ()
        head = ("", *summary, *(names[judge] for judge in judges))
        yield make_sheet("panel", "At fault, by judge", head, rows, tuple(_notes(panels, names)))
    elif titles:
        yield _many_groups(found.panels, titles, "any", words.name_judges(found))
        yield _many_groups(found.panels, titles, "all", words.name_judges(found))


def _many_groups(
    panels: Sequence[Panel], titles: Sequence[str], how: str, names: Mapping[str, str]
) -> doc.Table:
    rows = []
    for panel in panels:
        cells = []
        for group in panel.groups:
            alone = [seat.failing for seat in group.seats if how == "any"]
            figures = [getattr(vote, how) for vote in group.votes] or alone
            cells.append(format_share_of(figures[0]) if figures else "-")
        rows.append((words.name_panel(panel), *cells))
    title = "At fault: any judge" if how == "any" else "At fault: all judges"
    notes = (*_notes(panels, names), "each judge alone: --json") if how == "all" else ()
    return make_sheet(f"panel-{how}", title, ("", *titles), tuple(rows), notes)


def _notes(panels: Sequence[Panel], names: Mapping[str, str]) -> Iterator[str]:
    """Yield whose verdicts are summed up, what they left open, and what the shares speak of."""
    sitting = [group.votes[0] for p in panels for group in p.groups if group.votes]
    for judges in dict.fromkeys(vote.judges for vote in sitting):
        part = sum(vote.incomplete for vote in sitting if vote.judges == judges)
        left = f"; {part:,} run verdicts left out" if part else ""
        *some, last = [names[judge] for judge in judges]
        said = f"{', '.join(some)} and {last}" if some else last
        yield f"any, all: over the runs that {said} answered{left}"
    seats = [seat for panel in panels for group in panel.groups for seat in group.seats]
    by_judge: dict[str, Counter[str]] = {}
    for seat in seats:
        by_judge.setdefault(seat.judge, Counter()).update(seat.lost)
    for judge, lost in by_judge.items():
        if lost:
            yield f"no usable verdict from {names[judge]}: {format_counts(lost)}"
    if any(words.format_worst_case(seat.failing) for seat in seats):
        yield "in brackets: the share if all runs without a yes or no were at fault, or none"
    if any(panel.drawn for panel in panels):
        yield "runs were sampled: each share is weighted, and is about all that could be drawn"
    if any(seat.not_judged for seat in seats):
        yield "shares are of the judged runs; others are in no share"


def format_counts(counts: Mapping[str, int]) -> str:
    """Return counts as words, the largest first."""
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{n:,} {name}" for name, n in order)


# Disputed runs and flags that people are shown; JSON has all.
SHOWN = 5
MOST_FLAGS = 12
# Steps named of one verdict.
CITED = 6


def tabulate_claims(found: Panels) -> doc.Table:
    """Return the comparisons of groups that survive Holm, and how many were made."""
    made = [(panel, c) for panel in found.panels for c in panel.claims if c.p is not None]
    rows = tuple(
        (
            words.name_panel(panel),
            f"{claim.second} against {claim.first}",
            words.describe_effect(claim.effect),
            format_p(claim.p_adjusted),
        )
        for panel, claim in made
        if claim.survives
    )
    n = len(made)
    note = f"{len(rows):,} of {n:,} comparisons of groups survive{'s' * (len(rows) == 1)} Holm"
    head = ("", "groups", "difference", "p, Holm")
    return make_sheet("claims", "Groups that differ", head, rows, (note,) if n else ())


def tabulate_disputes(found: Panels, links: doc.Links | None) -> doc.Table:
    """Return the runs on which families disagree: material for the rubric, no sample."""
    names = words.name_judges(found)
    rows = tuple(
        (
            doc.TableCell(
                one.name if one.step is None else f"{one.name} step {one.step}",
                href=links.run(one.id) if links else None,
            ),
            words.name_rubric(one.rubric),
            " · ".join(f"{names[judge]} {label}" for judge, label in one.answers.items()),
            words.list_some(one.steps, CITED) or "-",
        )
        for one in found.queue[:SHOWN]
    )
    more = found.n_disputed - len(rows)
    notes = [f"and {more:,} more: stepscope agree --queue"] if more > 0 else []
    notes += ["selected because they are disputed: no rate is computed on them"] if rows else []
    return make_sheet("queue", "Disputed", ("run", "about", "answers", "cites"), rows, tuple(notes))


def tabulate_trace(found: Panels) -> doc.Table:
    """Return one run worked through: its aspects by judge, then the steps cited in common."""
    worked = found.trace
    head = ("about", "answers", "cited by two or more")
    if worked is None:
        return make_sheet("trace", "", head, ())
    names = words.name_judges(found)
    rows = [
        (
            words.name_rubric(line.rubric),
            " · ".join(
                f"{names[one.judge]} {one.label}"
                + ("" if one.confidence is None else f" {format_number(one.confidence)}")
                for one in line.answers
            ),
            words.list_some(line.common, CITED) or "-",
        )
        for line in worked.lines
    ]
    notes = tuple(f"{one.step} {one.actor}: {one.text}" for one in worked.steps)
    title = f"Worked through: {worked.name} ({worked.outcome})"
    return make_sheet("trace", title, head, tuple(rows), notes)


def tabulate_patterns(found: Panels) -> doc.Table:
    """Return how often each pattern of step labels shows, and what to do about it."""
    named = [(one.name.replace("_", " "), one) for one in found.patterns]
    rows = tuple(
        (name, *_whose(x.judge, x.group, found), format_share_of(x.share), ", ".join(x.runs) or "-")
        for name, x in named
        if x.n
    )
    advice = dict.fromkeys(f"{name}: {one.advice}" for name, one in named if one.n)
    shown = {name for name, one in named if one.n}
    open_ = {name: max(x.unknown for n, x in named if n == name) for name, _ in named}
    left = [name for name in open_ if name not in shown]
    if none := [name for name in left if not open_[name]]:
        advice |= {f"none in any labelled run: {', '.join(none)}": None}
    for name in (name for name in left if open_[name]):
        runs = format_count(open_[name], "run")
        advice |= {f"unknown outcome in {runs} with labels: {name}": None}
    head = ("", *_who(found), "share of runs", "for example")
    return make_sheet("patterns", "Patterns of steps", head, rows, tuple(advice))


def _who(found: Panels) -> tuple[str, ...]:
    several = bool(found.panels) and len(found.panels[0].groups) > 1
    return ("judge", "group") if several else ("judge",)


def _whose(judge: str, group: str, found: Panels) -> tuple[str, ...]:
    return (words.name_judges(found)[judge], group)[: len(_who(found))]


def tabulate_behaviours(found: Panels) -> doc.Table:
    """Return where each behaviour begins in a run, and how it spreads over it."""
    rows = []
    for one in found.onsets:
        spread = (
            "-" if isinstance(tenth, Unmeasured) else format_number(tenth.value)
            for tenth in one.tenths
        )
        begins = format_estimate(one.onset).removesuffix(" -")
        cells = format_share_of(one.runs), begins, " ".join(spread)
        rows.append((words.name_rubric(one.rubric), *_whose(one.judge, one.group, found), *cells))
    head = ("", *_who(found), "runs with it", "begins at", "share of steps, by tenth of the run")
    notes = ("begins at: median place of its first step, 0 the run's first and 1 its last",)
    return make_sheet("behaviours", "Behaviours", head, rows, notes if rows else ())


def tabulate_scores(found: Panels) -> doc.Table:
    """Return the mean score that each judge gives steps."""
    rows = [
        (SCORE, *_whose(one.judge, one.group, found), _headline(one.mean, one.corrected))
        for one in found.scores
    ]
    return make_sheet("scores", "Scores of steps", ("", *_who(found), "mean"), rows)


def tabulate_answers(found: Panels) -> doc.Table:
    """Return the answers to rubrics that have none against the agent."""
    rows = tuple(
        (
            words.name_rubric(one.rubric),
            *_whose(one.judge, one.group, found),
            format_counts(one.counts) or "-",
            format_counts(one.lost) or "0",
        )
        for one in found.answers
    )
    head = ("", *_who(found), "answers", "without one")
    return make_sheet("answers", "Other answers", head, rows)


def tabulate_flags(found: Panels) -> doc.Table:
    """Return what weakens these verdicts."""
    names = words.name_judges(found)
    rows = tuple(
        (one.kind, names[one.judge] or "-", f"{one.n:,}", one.said, ", ".join(one.runs[:2]) or "-")
        for one in found.flags[:MOST_FLAGS]
    )
    more = len(found.flags) - len(rows)
    notes = (f"and {more:,} more",) if more > 0 else ()
    head = ("flag", "judge", "runs", "what", "for example")
    return make_sheet("flags", "What weakens these verdicts", head, rows, notes)


def tabulate_costs(found: Panels) -> doc.Table:
    """Return what each judge took."""
    rows = []
    for one in found.costs:
        counts = (one.input_tokens, one.cached_tokens, one.output_tokens)
        tokens = ("-" if count is None else f"{count:,}" for count in counts)
        prices = (one.usd, one.usd_saved)
        paid, saved = ("" if usd is None else format_number(usd, "usd") for usd in prices)
        paid += f", {one.unpriced:,} without a price" if paid and one.unpriced else ""
        rows.append((one.judge, f"{one.calls:,}", *tokens, paid or "price unknown", saved or "-"))
    head = ("judge", "calls", "tokens in", "of these cached", "out", "paid", "saved by the cache")
    return make_sheet("costs", "Cost of the judges", head, rows)


def chart_panels(found: Panels) -> list[doc.Chart]:
    """Return a picture for each group of runs: the share at fault by aspect and judge."""
    shares, names = tabulate_all_shares(found), words.name_judges(found)
    charts = []
    for at, group in enumerate(found.panels[0].groups[:MOST_GROUPS] if found.panels else ()):
        rows = [
            make_interval_row(words.name_panel(panel), names[seat.judge], figure, order)
            for order, panel in enumerate(found.panels)
            for seat in panel.groups[at].seats
            if isinstance(figure := seat.failing, Estimate) and figure.low is not None
        ]
        title = f"Share of runs at fault, by judge: {group.title}"
        charts.append(chart_intervals("panel", title, rows, shares, f"panel-chart-{at}"))
    return [chart for chart in charts if chart is not None]


def tabulate_all_shares(found: Panels) -> doc.Table | None:
    """Return every share: a row for each group, aspect and judge, any and all among them."""
    rows = [
        row
        for panel in found.panels
        for group in panel.groups
        for row in _rows(words.name_panel(panel), group)
    ]
    if not rows:
        return None
    said = dict.fromkeys(note for sheet in tabulate_shares(found) for note in sheet.notes)
    notes = tuple(note for note in said if "--json" not in note)
    labels = ("group", "aspect", "judge", "at fault", "95 % interval", "worst case", "judged")
    columns = doc.make_columns(*labels, "no usable verdict", numbers=("at fault", "judged"))
    caption = "Panels: runs at fault among those that a judge answered"
    return doc.Table("panel-table", columns, tuple(rows), caption=caption, notes=notes)


def _rows(aspect: str, group: PanelGroup) -> Iterator[doc.TableRow]:
    for vote in group.votes:
        of = ", ".join(vote.judges)
        lost = f"{vote.incomplete:,} not answered by all" if vote.incomplete else "0"
        for name, figure in (("any judge", vote.any), ("all judges", vote.all)):
            who = doc.TableCell(name, note=of)
            yield doc.make_row(group.title, aspect, who, *_cells_of(figure, lost))
    for seat in group.seats:
        lost = format_counts(seat.lost) or "0"
        if seat.not_judged:
            lost += f"; {seat.not_judged:,} not asked about"
        name = f"{RULES}, at least" if seat.judge == RULES else seat.judge
        yield doc.make_row(group.title, aspect, name, *_cells_of(seat.failing, lost))


def _cells_of(figure: Figure, lost: str) -> tuple[doc.TableCell, ...]:
    gone = doc.TableCell(lost, tone="quiet")
    if isinstance(figure, Unmeasured):
        blank = doc.TableCell("-", tone="quiet")
        why = doc.TableCell("-", tone="quiet", title=f"{figure.kind}: {figure.reason}")
        return why, blank, blank, doc.TableCell("0", sort=0), gone
    return (
        doc.TableCell(format_percent(figure.value), sort=figure.value),
        doc.TableCell(format_interval(figure), interval=words.draw_interval(figure)),
        doc.TableCell(words.format_worst_case(figure) or "-", tone="quiet"),
        doc.TableCell(f"{figure.n:,}", sort=figure.n),
        gone,
    )


NO_MODES = (
    "Nothing to compare: no judge has judged the same steps alone and in their run. stepscope "
    "judge --rubric no_look and --rubric step_labels do, with one judge."
)
NAMES = {
    "raw": "same label",
    "kappa": "kappa",
    "gwet": "AC1",
    "difference": "isolated - contextual",
    "distance": "size of the difference",
    "rank": "rank correlation",
    "shift": "whole run - prefix",
    "halo": "halo: half of pass - fail",
}


def make_modes_document(found: Sequence[ModeComparison]) -> doc.Document:
    """Return what the modes of every judge differ in."""
    return [_modes(modes) for modes in found] or [[doc.Paragraph(text=NO_MODES, hang=0)]]


def _modes(modes: ModeComparison) -> doc.Section:
    head = (
        f"{modes.judge}: {modes.isolated} against {modes.contextual}   {modes.n:,} steps of "
        f"{modes.runs:,} runs"
    )
    prefix = "shift" in modes.figures
    what = "mean difference" if modes.of == "scores" else "labels that differ"
    what = "mean shift" if prefix else what
    figures = [
        (NAMES[name], figure, modes.n if isinstance(figure, Unmeasured) else figure.n)
        for name, figure in modes.figures.items()
    ]
    parts = [(place.part, place.difference, place.n) for place in modes.where]
    out: list[doc.Paragraph | doc.Table] = [
        doc.Paragraph(text=head, one_line=True),
        _figures("all steps", figures),
        _figures(f"{what}, by part of the run", parts),
    ]
    for label, row in modes.table.items():
        told = ", ".join(f"{isolated} {n:,}" for isolated, n in row.items())
        out.append(doc.Paragraph(text=f"{label} in context, alone: {told}", indent=2))
    if modes.most:
        alone = "up to it" if prefix else "alone"
        gaps = (doc.Paragraph(text=_gap(gap, alone), indent=4, one_line=True) for gap in modes.most)
        out += [doc.Paragraph(text="Steps that differ most:", indent=2), *gaps]
    return out


def _figures(corner: str, found: Iterable[tuple[str, Figure, int]]) -> doc.Table:
    """Return a figure a row; one that is absent says why."""
    rows = []
    for name, figure, n in found:
        if isinstance(figure, Unmeasured):
            rows.append(doc.make_row(name, "-", f"{figure.kind}: {figure.reason}"))
        else:
            rows.append(doc.make_row(name, _value(figure), format_interval(figure), f"{n:,}"))
    columns = (
        doc.TableColumn(corner),
        doc.TableColumn("value", number=True, least=6),
        doc.TableColumn("95 % interval", least=15),
        doc.TableColumn("n", number=True),
    )
    return doc.Table(id="modes", corner=corner, columns=columns, rows=tuple(rows), indent=2)


def _gap(gap: ModeGap, seen: str) -> str:
    alone, within = gap.isolated, gap.contextual
    score = ["" if one.value is None else f" {format_number(one.value)}" for one in (alone, within)]
    said = f"{gap.name} step {gap.step}  {seen} {alone.label}{score[0]}, "
    said += f"in context {within.label}{score[1]}"
    return f"{said}: {within.reason}" if within.reason else said


_FIGURES = ("raw", "kappa", "95 % interval", "AC1", "95 % interval", "alpha", "cites", "n", "lost")
COLUMNS = doc.make_columns("raters", *_FIGURES, numbers={*_FIGURES} - {"95 % interval"})
# Of a reason in a queue.
REASON = 160
WORDS = {"pass": "proceed", "fail": "sharpen", "undecided": "undecided"}
NO_RATERS = (
    "Nothing to compare: no judge and no person has rated a run here. stepscope judge asks judges; "
    "stepscope import --verdicts FILE --map run=...,label=... brings in what others said."
)


def make_agreement_document(groups: Sequence[types.Agreement]) -> doc.Document:
    """Return the agreement of each group."""
    if not any(group.aspects for group in groups):
        return [[doc.Paragraph(text=NO_RATERS, hang=0)]]
    out: list[doc.Section] = []
    for group in groups:
        rubrics = format_count(len(group.aspects), "rubric")
        out += [
            [doc.Paragraph(text=f"{field} = {value or 'none'}   {rubrics} rated", one_line=True)]
            for field, value in group.group.items()
        ]
        out += [_aspect(aspect) for aspect in group.aspects]
    return [*out, [doc.Paragraph(text=f"{_capital(WHAT_ENTERS)}.")]]


def _aspect(aspect: types.RubricAgreement) -> doc.Section:
    runs = format_count(aspect.runs, "run")
    what = f"{runs}, whole" if aspect.unit == "runs" else f"{aspect.items:,} steps of {runs}"
    raters, labels = format_count(len(aspect.raters), "rater"), ", ".join(aspect.labels)
    head = f"{aspect.name}   {what}   {raters}   labels: {labels}"
    out: list[doc.Paragraph | doc.Table] = [doc.Paragraph(text=head, one_line=True)]
    if aspect.pairs:
        found = [*aspect.pairs, *aspect.families]
        found += [aspect.together] if len(aspect.together.raters) > 2 else []
        out.append(doc.Table("agreement", COLUMNS, tuple(map(_row, found)), indent=2))
    out += [doc.Paragraph(text=sentence, indent=2) for sentence in describe_aspect(aspect)]
    if aspect.decision.outcome == "fail" and aspect.disputed:
        out.append(doc.Paragraph(text="Most disputed:", indent=2))
        for dispute in aspect.disputed:
            out += _dispute(dispute, named=False)
    return out


def _title(found: types.GroupAgreement) -> str:
    if found.of == "all":
        return f"all {len(found.raters)}, Fleiss"
    return ("families " if found.of == "families" else "") + ", ".join(found.raters)


def _row(found: types.GroupAgreement) -> doc.TableRow:
    kappa = found["fleiss"] if found.of == "all" else found["kappa"]
    gwet, raw = found["gwet"], found["raw"]
    short = ", ".join(words.shorten_names(found.raters).values())
    title = doc.TableCell(_title(found), short=short if found.of != "all" else "")
    cells = _value(raw), _value(kappa), _interval(kappa), _value(gwet), _interval(gwet)
    others = _value(found["alpha"]), _value(found["jaccard"])
    lost = "0" if isinstance(raw, Unmeasured) else f"{raw.n_unmeasured:,}"
    return doc.make_row(title, *cells, *others, f"{found.n:,}", lost)


def _value(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else format_number(figure.value, figure.unit)


def _interval(figure: Figure) -> str:
    return "-" if isinstance(figure, Unmeasured) else format_interval(figure)


def describe_aspect(aspect: types.RubricAgreement) -> Iterator[str]:
    """Yield what is decided, what to know before the figures are read, and who said what."""
    yield f"Decision: {WORDS[aspect.decision.outcome]}. {_capital(aspect.decision.reason)}."
    for judge, decision in aspect.judges.items():
        yield f"{judge} against people: {WORDS[decision.outcome]}. {_capital(decision.reason)}."
    for pair in [*aspect.pairs, *([aspect.together] if len(aspect.together.raters) > 2 else [])]:
        if pair.sentence:
            yield f"{_title(pair)}: {pair.sentence}."
    yield from filter(None, map(describe_first_bad, aspect.pairs))
    yield from map(_proofs, aspect.proofs)
    yield from filter(None, map(describe_weighted, aspect.pairs))
    yield from filter(None, map(describe_worst_case, aspect.pairs))
    yield from map(describe_rater, aspect.raters)
    yield from map(describe_curve, aspect.curves)
    yield from map(_change, aspect.changes)
    yield from (f"{_capital(note)}." for note in aspect.notes if note != WHAT_ENTERS)


def _capital(text: str) -> str:
    """Return a sentence with its first letter as it stands at the beginning."""
    return text[:1].upper() + text[1:]


def _proofs(one: types.ProofAgreement) -> str:
    said = (
        f"{name} -"
        if isinstance(figure, Unmeasured)
        else f"{name} {format_estimate(figure)} of {figure.n:,}"
        for name, figure in (("precision", one.precision), ("recall", one.recall))
    )
    return f"The rules' proofs, compared with {one.rater}: {', '.join(said)}."


def describe_curve(curve: types.CalibrationCurve) -> str:
    """Return how often a judge is right at each confidence."""
    if isinstance(curve.bins, Unmeasured):
        return f"{curve.judge}'s confidence: {curve.bins.reason}."
    told = ", ".join(
        " to ".join(dict.fromkeys(map(format_number, (part.low, part.high))))
        + f" right {_value(part.right)} {_interval(part.right)}"
        for part in curve.bins
    )
    return f"{curve.judge}'s confidence over {curve.n:,}: {told}."


def _change(change: types.RubricChange) -> str:
    confidence = _value(change.confidence)
    if isinstance(change.confidence, Estimate) and change.confidence.value > 0:
        confidence = f"+{confidence}"
    return (
        f"{change.judge}, version {change.before} to {change.after} on {change.n:,}: kept "
        f"{_value(change.kept)} {_interval(change.kept)}, confidence "
        f"{confidence} {_interval(change.confidence)}, same steps cited "
        f"{_value(change.cites)}."
    )


def describe_first_bad(pair: types.GroupAgreement) -> str:
    """Return how often two raters name the same first bad step; "" where that was not measured."""
    found, chance = pair.figures.get("first_bad"), pair.first_bad_by_chance
    if found is None or isinstance(found, Unmeasured) or chance is None:
        return ""
    share = format_estimate(found)
    same = f"name the same first bad step, or none, in {share} of {format_count(found.n, 'run')}"
    near = pair["first_bad.within_one"]
    return (
        f"{_title(pair)}: {same}; one step off or less in {_value(near)} {_interval(near)}; by "
        f"chance {format_percent(chance)}."
    )


def describe_weighted(pair: types.GroupAgreement) -> str:
    """Return the agreement expected of calibrated confidences; "" where there is none."""
    found = pair.figures.get("weighted")
    if not isinstance(found, Estimate):
        return ""
    said = "weighted by calibrated confidence: expected to agree"
    return f"{_title(pair)}, {said} on {format_estimate(found)}."


def describe_worst_case(pair: types.GroupAgreement) -> str:
    """Return what the raw agreement could be, had every lost verdict been there; "" if none is."""
    raw = pair["raw"]
    bounds = "" if isinstance(raw, Unmeasured) else words.format_bounds(raw)
    return f"{_title(pair)}: counting lost answers, raw agreement is {bounds}." if bounds else ""


def describe_rater(rater: types.Rater) -> str:
    """Return what a rater said how often, and what it did not say."""
    said = [f"{label} {n:,}" for label, n in rater.labels.items()] or ["nothing"]
    if rater.silent:
        said.append(f"nothing proved {rater.silent:,}")
    lost = ", ".join(f"{kind} {n:,}" for kind, n in sorted(rater.unmeasured.items()))
    family = "" if rater.family == rater.name else f" ({rater.family})"
    told = f"; unmeasured: {lost}" if lost else ""
    return f"{rater.name}{family}: {', '.join(said)}{told}."


def make_disputes_document(queue: Iterable[types.Dispute], total: int) -> doc.Document:
    """Return disputes, a section each, and how many there are."""
    tail = (
        f"{total:,} in all. Labels on these tune a rubric; they cannot test it, and no rate is "
        "computed on them."
    )
    return [*(_dispute(dispute, named=True) for dispute in queue), [doc.Paragraph(text=tail)]]


def _dispute(dispute: types.Dispute, *, named: bool) -> list[doc.Paragraph]:
    step = "" if dispute.step is None else f" step {dispute.step}"
    head = f"{dispute.aspect}: {dispute.name}{step}" if named else f"{dispute.name}{step}"
    lines, first = [head, *map(_answer, dispute.answers)], 0 if named else 4
    return [
        doc.Paragraph(text=line, indent=first + 2 * (at > 0), one_line=True)
        for at, line in enumerate(lines)
    ]


def _answer(answer: types.RaterAnswer) -> str:
    score = "" if answer.value is None else f" {format_number(answer.value)}"
    sure = "" if answer.confidence is None else f", sure {format_number(answer.confidence)}"
    cites = f", cites {', '.join(map(str, answer.cites))}" if answer.cites else ""
    why = f": {words.clip(answer.reason, REASON)}" if answer.reason else ""
    return f"{answer.rater}  {answer.label}{score}{sure}{cites}{why}"


# Remarks on coefficients that people are shown; most repeat each other.
SENTENCES = 2


def tabulate_agreement(found: Panels) -> doc.Table:
    """Return how far each pair of judges agrees."""
    names = words.name_judges(found)
    rows = []
    for one in found.agreement:
        raw, cites = (
            f"- {f.kind}" if isinstance(f, Unmeasured) else format_number(f.value, f.unit)
            for f in (one.raw, one.cites)
        )
        same = raw if isinstance(one.raw, Unmeasured) else f"{raw} of {one.raw.n:,}"
        chance = (format_estimate(x, f"- {getattr(x, 'kind', '')}") for x in (one.kappa, one.ac1))
        about = words.name_rubric(one.rubric) + (" (steps)" if one.unit == "steps" else "")
        rows.append((about, " x ".join(names[judge] for judge in one.judges), same, *chance, cites))
    head = ("", "judges", "same", "kappa", "AC1", "cites")
    said = [f"{words.name_rubric(x.rubric)}: {x.sentence}" for x in found.agreement if x.sentence]
    notes = list(dict.fromkeys(said))
    if len(notes) > SENTENCES:
        more = f"and {len(notes) - SENTENCES:,} more such remarks: stepscope agree"
        notes = [*notes[:SENTENCES], more]
    same = "same: share of equal answers; cites: of the steps that either cites, those that both do"
    return make_sheet("agreement", "Agreement", head, rows, (same, *notes) if rows else ())
