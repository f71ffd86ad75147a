from __future__ import annotations

import msgspec
import pytest

from stepscope.model import Figures, Instant, Step, ToolCall, Trajectory, Usage, figures
from tests.factories import agent, calls, did, run, user


def timed(step: Step, start: int, end: int) -> Step:
    return msgspec.structs.replace(step, start=Instant(start, ""), end=Instant(end, ""))


def with_usage(usage: Usage) -> Step:
    return msgspec.structs.replace(agent("b"), usage=usage, cost_usd=0.5)


SECOND = 10**9
CALL, ANSWER = did("x")
COSTLY = with_usage(Usage(input_total=5, output_total=2))
REPLAYED = msgspec.structs.replace(CALL, replayed=True)
THREE_SECONDS = (
    timed(CALL, 0, SECOND),
    timed(ANSWER, SECOND, 2 * SECOND),
    timed(user("a"), 2 * SECOND, 3 * SECOND),
)

TABLE = [
    (run(user("a")), Figures(1, 0, None, None, None)),
    (run(*THREE_SECONDS), Figures(3, 1, None, None, 3.0)),
    (run(user("a"), start=Instant(0, ""), end=Instant(0, "")), Figures(1, 0, None, None, 0.0)),
    (run(CALL, start=Instant(9, ""), end=Instant(7, "")), Figures(1, 1, None, None, None)),
    (run(timed(CALL, 4, 4), start=Instant(0, "")), Figures(1, 1, None, None, 0.0)),
    (run(COSTLY, COSTLY), Figures(2, 0, 14, 1.0, None)),
    (run(COSTLY, usage=Usage(input_total=1, output_total=1)), Figures(1, 0, 2, 0.5, None)),
    (run(COSTLY, cost_usd=0.25, cost_computed_usd=9.0), Figures(1, 0, 7, 0.25, None)),
    (run(COSTLY, usage=Usage(input_total=1)), Figures(1, 0, None, 0.5, None)),
    (run(with_usage(Usage(output_total=3))), Figures(1, 0, None, 0.5, None)),
    (run(user("a"), cost_computed_usd=0.125), Figures(1, 0, None, 0.125, None)),
    (run(calls(ToolCall("x", {}, requestor="user"))), Figures(1, 0, None, None, None)),
    (run(REPLAYED, CALL, ANSWER), Figures(3, 1, None, None, None)),
]


@pytest.mark.parametrize(("made", "expected"), TABLE)
def test_what_the_whole_run_says_wins_and_what_nobody_says_is_none(
    made: Trajectory, expected: Figures
) -> None:
    assert figures(made) == expected
