"""Stores in which raters said things: runs of nothing but steps, and records about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepscope.model import Answer, Record, Verdict
from stepscope.store import Store
from tests.factories import agent, run

AXIS = "axes.termination"
FAMILIES = {
    "openai/a": "openai",
    "anthropic/b": "anthropic",
    "qwen/c": "qwen",
    "openai/d": "openai",
}


def store(runs: int, *, steps: int = 6) -> Store:
    """Return a store of runs "r0", "r1", ..., ids alike, each with so many steps."""
    made = Store.open(":memory:")
    made.put(
        run(*[agent(f"step {at}") for at in range(steps)], id=f"r{n}", name=f"shop/{n}/0",
            task=str(n), agent="a" if n % 2 else "b")
        for n in range(runs)
    )  # fmt: skip
    return made


def said(
    judge: str,
    run: int,
    answer: Answer,
    *,
    family: str | None = None,
    version: str = "1",
    prompt: str = "p" * 16,
    repeat: int = 0,
) -> Record:
    """Return a record of a judge, whose family is told from its name."""
    named = FAMILIES.get(judge.partition("@")[0], "human") if family is None else family
    return Record(
        trajectory=f"r{run}",
        answer=answer,
        version=version,
        family=named,
        judge=judge,
        rubric=answer.measure.removeprefix("judge."),
        prompt=prompt,
        repeat=repeat,
    )


def whole(
    judge: str,
    labels: Iterable[str],
    *,
    axis: str = AXIS,
    cites: Sequence[tuple[int, ...]] = (),
    confidence: Sequence[float] = (),
    version: str = "1",
    family: str | None = None,
) -> list[Record]:
    """Return one verdict a run: the first label is of run 0."""
    return [
        said(
            judge,
            n,
            Verdict(
                f"judge.{axis}",
                label=label,
                cites=cites[n] if cites else (),
                reason=f"{judge} on {n}",
                confidence=confidence[n] if confidence else None,
            ),
            version=version,
            family=family,
        )
        for n, label in enumerate(labels)
    ]


def by_step(
    judge: str, rows: Iterable[str], *, axis: str = "step_labels", family: str | None = None
) -> list[Record]:
    """Return one verdict a step, a text of first letters a run: "PPE" is PROGRESS twice, ERROR."""
    names = {"P": "PROGRESS", "R": "REDUNDANT", "D": "DETOUR", "E": "ERROR"}
    return [
        said(
            judge,
            n,
            Verdict(f"judge.{axis}", label=names[letter], value=0.5, step=step, cites=(step,)),
            family=family,
        )
        for n, row in enumerate(rows)
        for step, letter in enumerate(row)
        if letter in names
    ]
