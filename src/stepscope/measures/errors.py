"""Tool errors, each with where the belief comes from: explicit flag, protocol or heuristic.

Only tool results count, paired with their calls. Where no result of a run says ok or error the
count is unmeasured, not 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from stepscope.measures.calls import failures
from stepscope.measures.rule import Rule, one_a_step
from stepscope.model import Answer, Case, Exchange, Facts, Scale, ToolResult, Trajectory, Verdict
from stepscope.values import Unmeasured

# A reason is one line of a table; the whole text stands at the step cited.
REASON_CHARACTERS = 120

# The strongest first.
BELIEFS: tuple[str, ...] = ("explicit", "protocol", "heuristic", "none")

_NO_STATUS = (
    Unmeasured("missing_input", "no tool result says whether it is ok or an error", "errors"),
)
_NONE = (Verdict("errors", 0.0),)


def gist(result: ToolResult | None) -> str:
    """Return the first line of what an error says, cut to a table's width."""
    text = "" if result is None else (result.error or result.text).strip()
    line = text.split("\n", 1)[0]
    return line if len(line) <= REASON_CHARACTERS else line[: REASON_CHARACTERS - 1] + "…"


def judged(exchanges: Sequence[Exchange]) -> bool:
    """Tell whether any result says ok or error; true where there is no call to say it of."""
    if not exchanges:
        return True
    for exchange in exchanges:
        if exchange.result is not None and exchange.result.status != "unknown":
            return True
    return False


def error_step(exchange: Exchange) -> int:
    """Return the step where the error is read: the result's."""
    return exchange.step if exchange.result_step is None else exchange.result_step


def _run(trajectory: Trajectory, case: Case | None, facts: Facts | None) -> Iterable[Answer]:
    exchanges = trajectory.exchanges
    failed = failures(trajectory)
    if not failed:
        return _NONE if judged(exchanges) else _NO_STATUS
    whole = Verdict(
        "errors",
        float(len(failed)),
        cites=tuple(sorted({error_step(exchange) for exchange in failed})),
        reason=f"{len(failed)} of {len(exchanges)} calls; first: {gist(failed[0].result)}",
    )
    each = [
        Verdict(
            "errors",
            label=exchange.result.source,
            step=error_step(exchange),
            cites=(exchange.step,),
            reason=gist(exchange.result),
        )
        for exchange in sorted(failed, key=error_step)
        if exchange.result is not None
    ]
    return (whole, *one_a_step(each, _strongest))


def _strongest(labels: list[str]) -> str:
    return min(labels, key=BELIEFS.index)


MEASURE = Rule("errors", "1", Scale(0.0, inf, BELIEFS), (), _run)
