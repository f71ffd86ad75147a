"""Whether the run stopped at the right time, measured against its case.

`limit`: it did not stop by itself; the trace says so, or it ends on a tool result that the agent
never answered (unless the tool is one that ends a run). `too_early`: something of the case was
undone when it stopped. `too_late`: everything was done and it wrote on. `stopped_well`: neither.
Without a case a recorded pass counts as stopped well; else nobody knows, and it is unmeasured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepscope.measures.calls import agent_calls, ends
from stepscope.measures.rule import Rule
from stepscope.measures.subgoals import other_writes, taken, untold
from stepscope.model import Answer, Case, Exchange, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

LABELS = ("stopped_well", "too_early", "too_late", "limit")
# How recorders name a stop that was not the agent's: max_steps, context_length_exceeded, timeout.
LIMITS = re.compile(
    r"max|limit|time_?out|timed|exceed|exhaust|length|budget|abort|kill|cancel|interrupt|crash|error",
    re.IGNORECASE,
)

_UNKNOWN = (
    Unmeasured("missing_input", "neither a case nor an outcome says when to stop", "termination"),
)
_WELL = (Verdict("termination", label="stopped_well"),)


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    cut = _cut(trajectory)
    if cut is not None:
        last = (trajectory.steps[-1].index,) if trajectory.steps else ()
        return (Verdict("termination", label="limit", cites=last, reason=cut),)
    if case is None or (not case.subgoals and case.reference is None and not case.outputs):
        return _WELL if trajectory.outcome.status == "pass" else _UNKNOWN
    pairs = taken(case, trajectory)
    undone = [goal.name for goal, at in zip(case.subgoals, pairs, strict=True) if at is None]
    if case.outputs:
        undone += [f"telling {output}" for output in untold(trajectory, case.outputs)]
    if undone:
        last = (trajectory.steps[-1].index,) if trajectory.steps else ()
        reason = f"stopped before {', '.join(undone)}"
        return (Verdict("termination", label="too_early", cites=last, reason=reason),)
    return _after(trajectory, pairs, facts)


def _after(
    trajectory: Trajectory, pairs: list[int | None], facts: Facts | None
) -> tuple[Answer, ...]:
    """Judge what was written once everything was done."""
    made = agent_calls(trajectory)
    done = max((at for at in pairs if at is not None), default=-1)
    late = [
        write
        for write in other_writes(trajectory, pairs, facts)
        if write.position > _place(made, done)
    ]
    if not late:
        return _WELL
    since = (
        f"everything was done at {made[done].step}" if done >= 0 else "nothing was to be written"
    )
    return (
        Verdict(
            "termination",
            label="too_late",
            cites=tuple(write.step for write in late),
            reason=f"{since}, yet it wrote {', '.join(write.call.name for write in late)}",
        ),
    )


def _place(made: tuple[Exchange, ...], at: int) -> int:
    return made[at].position if at >= 0 else -1


def _cut(trajectory: Trajectory) -> str | None:
    """Return what ended the run from outside, as recorded or as its last step shows."""
    said = trajectory.termination
    if said and LIMITS.search(said):
        return f"recorded: {said}"
    steps = trajectory.steps
    if said or not steps or steps[-1].actor != "environment" or not steps[-1].results:
        return None
    last = trajectory.exchanges[-1] if trajectory.exchanges else None
    if last is None or last.result_step != steps[-1].index or ends(last.call.name):
        return None
    return f"ends on the result of {last.call.name}, which the agent never answered"


MEASURE = Rule("termination", "1", Scale(0.0, 0.0, LABELS), ("effects",), _run)
