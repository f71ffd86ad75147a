"""What weakens the word of judges, counted: kinship, turns, outranked verdicts, mixed answers.

A flag takes nothing away: the figures stand as they are, and it says in how many runs what is the
matter. A verdict turns where its label changes; a step label too, by the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from stepscope.model import Record, Verdict
from stepscope.report.axes import INCORRECT
from stepscope.report.panels_types import Flag, FlagKind, Panel
from stepscope.report.panels_votes import outranked, word
from stepscope.report.rows import Table
from stepscope.store.judged import Judged, OfRun
from stepscope.values import Unmeasured

# Runs that a flag names.
NAMED = 5
NARRATION_OFF = "narration-off"
# An endpoint ignores the schema where this share of its answers, of at least so many, breaks it.
BROKEN, OF_AT_LEAST = 0.2, 5
BREACHES = frozenset({
    "not_json", "off_menu", "wrong_type", "missing_field", "out_of_range", "missing_step",
    "duplicate_step", "extra_step",
})  # fmt: skip

Family = Callable[[str], str | None]


def flags(
    table: Table, judged: Sequence[Judged], panels: Sequence[Panel], *, family: Family
) -> tuple[Flag, ...]:
    """Return every flag, by kind; `family` says which family an agent is of, if it is known."""
    by_mode = {(one.asked.measure, one.asked.judge): one for one in judged if one.main}
    found: list[Flag] = list(_kin(table, judged, family))
    for one in judged:
        key = one.asked.measure, one.asked.judge
        if one.asked.mode == NARRATION_OFF and not one.main:
            found.append(_dependent(table, by_mode[key], one))
        if one.main:
            found += _of_one(table, one)
    found += _outranked(table, judged)
    found += _ignored(table, judged)
    found += _unequal(panels)
    kept = [flag for flag in found if flag.n]
    return tuple(sorted(kept, key=lambda flag: (flag.kind, flag.judge, flag.said)))


def _flag(kind: FlagKind, one: Judged, said: str, runs: Sequence[str]) -> Flag:
    about = f"{one.asked.measure}: {said}"
    return Flag(kind=kind, judge=one.asked.judge, said=about, n=len(runs), runs=tuple(runs[:NAMED]))


def _kin(table: Table, judged: Sequence[Judged], family: Family) -> Iterator[Flag]:
    agents = {agent: family(agent) for agent in set(table.runs.agent.tolist()) if agent}
    own: dict[tuple[str, str, str], set[int]] = {}
    for one in judged:
        for at in one.runs:
            agent = table.runs.agent[at]
            if agent and agents[agent] == one.asked.family:
                own.setdefault((one.asked.judge, one.asked.family, agent), set()).add(at)
    for (judge, of, agent), places in sorted(own.items()):
        names = [str(table.runs.name[at]) for at in sorted(places)]
        said = f"judges runs of {agent}, which is of its own family ({of})"
        yield Flag(
            kind="self_family", judge=judge, said=said, n=len(names), runs=tuple(names[:NAMED])
        )


def _of_one(table: Table, one: Judged) -> Iterator[Flag]:
    name = table.runs.name
    runs = {at: str(name[at]) for at in sorted(one.runs)}
    turned = [runs[at] for at in runs if _flips(one.runs[at])]
    yield _flag("flips", one, "turns when it is asked again", turned)
    missed = [runs[at] for at in runs if _begins(one.runs[at].verdict, "canary_missed")]
    yield _flag("canary_missed", one, "set aside: it missed a planted step", missed)
    if len(one.snapshots) > 1:
        counts = ", ".join(f"{name or 'as asked'} {n:,}" for name, n in one.snapshots.items())
        yield _flag("snapshots_mixed", one, f"answered by {counts}", list(runs.values()))
    if len(one.prompts) > 1:
        said = f"judged under {len(one.prompts):,} prompts of version {one.version}"
        yield _flag("prompts_mixed", one, said, list(runs.values()))
    for version, n in one.older.items():
        said = f"{one.asked.measure}: answers of version {version} stand aside"
        yield Flag(kind="older_answers", judge=one.asked.judge, said=said, n=n)


def _outranked(table: Table, judged: Sequence[Judged]) -> Iterator[Flag]:
    """Yield the judges that find no fault at all in runs that are known to have failed."""
    praised: dict[str, set[int]] = {}
    faulted: dict[str, set[int]] = {}
    for one in judged:
        for at, of_run in one.runs.items():
            if outranked(of_run.verdict):
                praised.setdefault(one.asked.judge, set()).add(at)
            elif _label(of_run.verdict) == INCORRECT:
                faulted.setdefault(one.asked.judge, set()).add(at)
    for judge, places in sorted(praised.items()):
        left = sorted(places - faulted.get(judge, set()))
        names = tuple(str(table.runs.name[at]) for at in left[:NAMED])
        said = "finds no fault in runs whose state check failed: the check stands"
        yield Flag(kind="outranked", judge=judge, said=said, n=len(left), runs=names)


def _begins(record: Record | None, with_word: str) -> bool:
    return record is not None and record.answer.reason.startswith(f"{with_word}:")


def _label(record: Record | None) -> str | None:
    """Return what a verdict says, None where there is none."""
    if record is None or not isinstance(record.answer, Verdict):
        return None
    return record.answer.label


def _flips(of_run: OfRun) -> bool:
    whole = {label for r in of_run.whole.values() if (label := _label(r)) is not None}
    if len(whole) > 1:
        return True
    return any(len(labels) > 1 for labels in _by_step(of_run).values())


def _by_step(of_run: OfRun) -> Mapping[int, set[str]]:
    found: dict[int, set[str]] = {}
    for steps in of_run.steps.values():
        for step, record in steps.items():
            label = _label(record)
            if label is not None:
                found.setdefault(step, set()).add(label)
    return found


def _dependent(table: Table, with_it: Judged, without: Judged) -> Flag:
    """Return in which runs an answer turns when the agent's words are left out."""
    turned = [
        str(table.runs.name[at])
        for at in sorted(with_it.runs.keys() & without.runs.keys())
        if _turns(with_it.runs[at], without.runs[at])
    ]
    return _flag("narration_dependent", with_it, "turns without the agent's narration", turned)


def _turns(first: OfRun, second: OfRun) -> bool:
    one, other = _label(first.verdict), _label(second.verdict)
    if one is not None and other is not None and one != other:
        return True
    steps, others = first.steps.get(0, {}), second.steps.get(0, {})
    for step in steps.keys() & others.keys():
        one, other = _label(steps[step]), _label(others[step])
        if one is not None and other is not None and one != other:
            return True
    return False


def _ignored(table: Table, judged: Sequence[Judged]) -> Iterator[Flag]:
    """Yield the judges whose answers often do not have the form that was asked for."""
    asked: dict[str, int] = {}
    broken: dict[str, set[int]] = {}
    for one in judged:
        for at, of_run in one.runs.items():
            record = of_run.verdict
            if record is None:
                continue
            judge, answer = one.asked.judge, record.answer
            asked[judge] = asked.get(judge, 0) + 1
            if isinstance(answer, Unmeasured) and word(answer.reason, answer.kind) in BREACHES:
                broken.setdefault(judge, set()).add(at)
    for judge, places in sorted(broken.items()):
        n = len(places)
        if asked[judge] >= OF_AT_LEAST and n >= BROKEN * asked[judge]:
            names = tuple(str(table.runs.name[at]) for at in sorted(places)[:NAMED])
            said = f"answers do not have the form that was asked for, of {asked[judge]:,}"
            yield Flag(kind="schema_ignored", judge=judge, said=said, n=n, runs=names)


def _unequal(panels: Sequence[Panel]) -> Iterator[Flag]:
    """Yield the panels before which some groups came with other judges than others did."""
    for panel in panels:
        of_group = {
            group.title: frozenset(s.judge for s in group.seats if s.not_judged < group.n_runs)
            for group in panel.groups
        }
        whole = frozenset().union(*of_group.values())
        for title, judges in of_group.items():
            if judges and judges != whole:
                absent = ", ".join(sorted(whole - judges))
                said = f"{panel.rubric}: {title} was not judged by {absent}"
                yield Flag(kind="unequal_panels", judge=absent, said=said, n=1)
