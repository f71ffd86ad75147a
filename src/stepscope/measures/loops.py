"""The longest cycle of calls that went round at least twice, cited.

The value is the number of calls in it: `a b a b` is 4, `a a` is 2, no cycle is 0. A call is its
tool and its arguments; what came back does not count, so polling shows up as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from stepscope.measures.calls import agent_calls
from stepscope.measures.rule import Rule
from stepscope.model import Answer, Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

# Cycles longer than this many calls are a plan carried out again, not an agent going round; the
# bound also keeps the cost linear in the number of calls.
LONGEST_CYCLE_CALLS = 32

_NO_CALLS = (Unmeasured("not_applicable", "the agent made no tool calls", "loops"),)
_NONE = (Verdict("loops", 0.0),)


def longest_cycle(keys: Sequence[str]) -> tuple[int, int, int]:
    """Return start, length and period of the longest repeated cycle; length 0 where none is.

    Of equally long ones the first, with its shortest period.

    >>> longest_cycle("xababy")
    (1, 4, 2)
    """
    best = (0, 0, 0)
    for period in range(1, min(LONGEST_CYCLE_CALLS, len(keys) // 2) + 1):
        echoes = 0  # calls in a row that equal the one a period before
        for at in range(period, len(keys)):
            echoes = echoes + 1 if keys[at] == keys[at - period] else 0
            if echoes >= period and echoes + period > best[1]:
                best = (at + 1 - echoes - period, echoes + period, period)
    return best


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    made = agent_calls(trajectory)
    if not made:
        return _NO_CALLS
    keys = [exchange.key for exchange in made]
    if len(set(keys)) == len(keys):
        return _NONE
    start, length, period = longest_cycle(keys)
    if not length:
        return _NONE
    cycle = made[start : start + length]
    names = ", ".join(exchange.call.name for exchange in cycle[:period])
    return (
        Verdict(
            "loops",
            float(length),
            cites=tuple(exchange.step for exchange in cycle),
            reason=f"{length} calls go round: {names}",
        ),
    )


MEASURE = Rule("loops", "1", Scale(0.0, inf), (), _run)
