"""Reports and runs written by hand: what the renderers are tested with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.model import (
    Case,
    Outcome,
    Part,
    Record,
    Source,
    Step,
    SubGoal,
    ToolCall,
    ToolResult,
    Trajectory,
)
from stepscope.report.render import text
from stepscope.report.types import (
    Curve,
    LookFirst,
    OutcomeTable,
    Profile,
    Provenance,
    Report,
    RunLine,
    SuspectSteps,
    TrialCounts,
)
from stepscope.report.views.run import gather_run
from stepscope.report.views.show import describe_run, make_run_document
from stepscope.store import Store
from stepscope.values import Decision, Estimate, Unmeasured

NO_CURVE = Unmeasured("missing_input", "no step scores")
HOSTILE = "@alice Fixes #1 ``` <img src=x> | \x1b[2J \u202e [a](http://b)"


def rate(value: float, low: float, high: float, n: int = 200, **more: int) -> Estimate:
    return Estimate(
        value=value, low=low, high=high, method="wilson", n=n, n_tasks=50, unmeasured=more
    )


def profile(title: str = "airline", hostile: str = "airline/5/1") -> Profile:
    return Profile(
        group={"workflow": title},
        n_runs=200,
        n_tasks=50,
        n_steps=5308,
        n_calls=1164,
        trials=TrialCounts(low=4, high=4, always=10, mixed=26, never=14),
        figures={
            "outcome.pass": rate(0.42, 0.32, 0.52),
            "outcome.pass^2": rate(0.2733, 0.18, 0.37, 50),
            "outcome.pass^4": rate(0.2, 0.1, 0.32, 50),
            "subgoals.reached": rate(0.393, 0.258, 0.531, 120, not_applicable=80),
            "policy.violations": Unmeasured("missing_input", "no policy is declared"),
            "steps.median": Estimate(
                value=24, low=22, high=28, method="bootstrap", n=200, n_tasks=50, unit="steps"
            ),
            "tokens.median": Unmeasured("missing_input", "not in the trace"),
            "cost_usd.median": Unmeasured("missing_input", "not in the trace"),
            "cost_usd.p95": Unmeasured("missing_input", "not in the trace"),
        },
        notes={"outcome.pass^4": "always 10, mixed 26, never 14"},
        earned=(
            OutcomeTable(
                grade="sub-goals",
                columns=("all sub-goals", "some missed"),
                passed=(26, 1),
                failed=(11, 82),
                unmeasured=80,
                notes={"fail": "9 of the 11 wrote more"},
            ),
        ),
        lucky=(RunLine(id="aa", name=hostile, reason="1 sub-goal missed"),),
        unlucky=(),
        disagreement=rate(0.1, 0.06, 0.17, 120),
        too_loose=Decision("pass", "12 of 120 disagree"),
    )


def report(hostile: str = "airline/9/2", evidence: str = "same error 5 times") -> Report:
    suspect = SuspectSteps(first=45, last=61, kind="error", evidence=evidence)
    return Report(
        whole=profile(hostile=hostile),
        profiles=(profile(hostile=hostile),),
        rank_flips=Unmeasured("not_applicable", "one group"),
        look_first=(
            LookFirst(
                id="bb",
                name=hostile,
                outcome="fail",
                steps=62,
                suspects=(suspect,),
                command="stepscope show bb",
            ),
            LookFirst(id="cc", name="b", outcome="unknown", steps=2, suspects=(), command="x"),
            LookFirst(id="dd", name="c", outcome="pass", steps=2, suspects=(), command="x"),
        ),
        not_claimed=("suspect-step accuracy (no labels here)",),
        next=("stepscope show airline/9/2",),
        provenance=Provenance(
            where=None, since=None, by=None, seed=0, judges=("rules",), measures={"outcome": "1"}
        ),
    )


def said(index: int, actor: str, text: str) -> Step:
    return Step(index=index, actor=actor, parts=(Part("text", text),))  # type: ignore[arg-type]


def call(index: int, name: str, **arguments: object) -> Step:
    return Step(
        index=index, actor="agent", kind="call", calls=(ToolCall(name, arguments, id=f"c{index}"),)
    )


def result(index: int, text: str, *, error: bool = False) -> Step:
    answer = ToolResult(
        call_id=f"c{index - 1}",
        parts=(Part("text", text),),
        status="error" if error else "ok",
        source="heuristic",
    )
    return Step(index=index, actor="environment", kind="result", results=(answer,))


def trajectory(*steps: Step, passed: bool = False, case: Case | None = None) -> Trajectory:
    outcome = Outcome("pass" if passed else "fail", "reward", float(passed))
    return Trajectory(
        id="f" * 32,
        name="airline/11/2",
        steps=steps,
        source=Source(format="tau_bench"),
        workflow="airline",
        task="11",
        trial="2",
        outcome=outcome,
        case=case,
    )


def case(*goals: SubGoal, outputs: tuple[str, ...] = ()) -> Case:
    return Case(workflow="airline", task="11", subgoals=goals, outputs=outputs)


def show_run(store: Store, run: str, *, width: int = 100, **chosen: Any) -> str:
    """Return one run of a store as text."""
    return text.render(make_run_document(store, run, width=width, **chosen), width)


def render_run(
    at: Trajectory,
    of: Case | None,
    records: Sequence[Record],
    *,
    curve: Curve | Unmeasured = NO_CURVE,
    width: int = 100,
    **how: Any,
) -> str:
    """Return a run as text, without a store."""
    data = gather_run(at, of, records, curve)
    return "\n".join(describe_run(data, width=width, **how)) + "\n"
