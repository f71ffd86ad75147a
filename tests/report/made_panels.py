"""Stores with verdicts of judges: runs in two lines, and who said what of them."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model import Answer, Outcome, Record, Trajectory, Usage, Verdict
from stepscope.report.build import build_report
from stepscope.report.types import JudgeShare, Panel, PanelGroup, Panels, Report
from stepscope.store import Store
from stepscope.values import Unmeasured
from tests.factories import FAILED, agent, current_version, did, run, user

ONE, TWO = "anthropic/claude-sonnet-4-5", "openai/gpt-5"
FAMILY = {ONE: "anthropic", TWO: "openai", "qwen/qwen3": "qwen", "rules": "rules"}
SELECTION, TERMINATION = "axes.tool_selection", "axes.termination"

WRONG, RIGHT, OPEN = "incorrect", "correct", "uncertain"


def runs(
    count: int, agents: Sequence[str] = ("gpt-4o",), outcome: Outcome = FAILED
) -> list[Trajectory]:
    """Return runs of six steps, so many of each agent, each on a task of its own."""
    return [
        run(
            user("cancel the hose, no #W2575533"),
            *did("get_order", "five items, $1,619.34", order="#W2575533"),
            *did("cancel_order", "refund $1,619.34", order="#W2575533"),
            agent("Your refund is $95.08."),
            id=f"{place:02x}{at:02x}" + "f" * 28,
            name=f"shop/{at}/{who}",
            task=str(at),
            agent=who,
            outcome=outcome,
        )
        for place, who in enumerate(agents)
        for at in range(count)
    ]


def said(
    judge: str,
    of: Trajectory,
    answer: Answer,
    *,
    version: str = "1",
    prompt: str = "0123456789abcdef",
    repeat: int = 0,
    usage: Usage | None = None,
    cost_usd: float | None = None,
) -> Record:
    """Return a record of a judge, its family told by its name without a snapshot."""
    return Record(
        trajectory=of.id,
        answer=answer,
        version=current_version(answer.measure) if judge == "rules" else version,
        family=FAMILY.get(judge.partition("@")[0], judge.partition("/")[0]),
        judge="" if judge == "rules" else judge,
        rubric=answer.measure.removeprefix("judge."),
        prompt="" if judge == "rules" else prompt,
        repeat=repeat,
        usage=usage,
        cost_usd=cost_usd,
    )


def axis(judge: str, label: str, *cites: int, rubric: str = SELECTION, sure: float = 0.9) -> Answer:
    """Return an answer about an axis; a word and a colon make it the reason of an absence."""
    measure = rubric if judge == "rules" else f"judge.{rubric}"
    if ":" in label and not label.startswith("outranked"):
        kind = "invalid_evidence" if "_" in label.partition(":")[0] else "refused"
        return Unmeasured(kind, label, measure)  # type: ignore[arg-type]
    if label.startswith("outranked"):
        return Verdict(measure, label=RIGHT, cites=cites, reason=label, confidence=sure)
    confidence = None if judge == "rules" else sure
    return Verdict(
        measure, label=label, cites=cites, reason=f"{label} it is", confidence=confidence
    )


def axes(
    judge: str, held: Sequence[Trajectory], labels: str, rubric: str = SELECTION
) -> list[Record]:
    """Return one answer a run: `x` incorrect, `.` correct, `?` uncertain, `-` none at all."""
    words = {"x": WRONG, ".": RIGHT, "?": OPEN, "n": "not_applicable",
             "h": "hallucinated_citation: step 99 of 6", "e": "evidence_not_found: 'no'",
             "r": "refused: no", "o": "outranked: it says it went well"}  # fmt: skip
    return [
        said(judge, of, axis(judge, words[mark], 3, rubric=rubric))
        for of, mark in zip(held, labels, strict=True)
        if mark != "-"
    ]


def labelled(judge: str, of: Trajectory, labels: str) -> list[Record]:
    """Return labels of steps by their first letters: P, R, D, E; any other mark is no label."""
    names = {"P": "PROGRESS", "R": "REDUNDANT", "D": "DETOUR", "E": "ERROR"}
    measure = "judge.step_labels"
    steps = [
        Verdict(measure, 0.5, names[mark], step=at, cites=(at,), reason="why")
        for at, mark in enumerate(labels)
        if mark in names
    ]
    whole = Verdict(measure, float(len(steps)), reason="labels")
    return [said(judge, of, answer) for answer in (whole, *steps)]


def repaired(judge: str, of: Trajectory, *, error: int, by: int) -> Record:
    """Return a step label that addresses an earlier error."""
    why = f"addresses {error}: it undoes it"
    answer = Verdict("judge.step_labels", 0.9, "PROGRESS", step=by, cites=(by, error), reason=why)
    return said(judge, of, answer)


def behaved(judge: str, of: Trajectory, shown: str) -> list[Record]:
    """Return whether a behaviour shows at each step: `x` present, `.` absent."""
    measure = "judge.behaviour.sycophancy"
    steps = [
        Verdict(measure, label="present" if mark == "x" else "absent", step=at, cites=(at,))
        for at, mark in enumerate(shown)
    ]
    whole = Verdict(measure, shown.count("x") / len(shown))
    return [said(judge, of, answer) for answer in (whole, *steps)]


def store_of(held: Sequence[Trajectory], *records: Sequence[Record]) -> Store:
    """Return a store in memory with these runs and records."""
    store = Store.open(":memory:")
    store.put(held)
    for batch in records:
        store.append(batch)
    return store


def reported(store: Store) -> Report:
    """Return the report of a store."""
    return build_report(store)


def panels_of(store: Store) -> Panels:
    """Return what the report of a store says of judges."""
    found = build_report(store).panels
    assert isinstance(found, Panels)
    return found


def only(found: Panels, rubric: str = SELECTION, failing: str = WRONG) -> Panel:
    """Return the one panel of an aspect."""
    (panel,) = [p for p in found.panels if (p.rubric, p.failing) == (rubric, failing)]
    return panel


def seat(of: PanelGroup, judge: str) -> JudgeShare:
    """Return a judge's seat."""
    (found,) = [one for one in of.seats if one.judge == judge]
    return found
