"""Evidence read from the calls of one run: attempts that failed, sub-goals never reached.

The records say that something is wrong and where; these sentences say what a person would see
there. They are made for the few runs that someone will open, never for a whole fleet.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model import Exchange, Json, SubGoal, Trajectory
from stepscope.report.calls import brief, differences, value
from stepscope.report.types import Suspect

# Evidence names at most this many differing arguments; the rest are counted.
NAMED_DIFFERENCES = 2
# What the agent did about an error that leaves nothing to suspect, when it happened once.
HANDLED = frozenset({"recovered", "replanned", "reported"})


def failures(trajectory: Trajectory, handled: dict[int, str]) -> Iterator[tuple[float, Suspect]]:
    """Yield one suspect for each tool that failed, with its weight.

    Args:
        trajectory: the run.
        handled: what the agent did about each error, by the step that the error is cited at.
    """
    by_tool: dict[str, list[Exchange]] = {}
    for exchange in trajectory.exchanges:
        by_tool.setdefault(exchange.call.name, []).append(exchange)
    for tool, exchanges in by_tool.items():
        failed = [e for e in exchanges if e.failed]
        if failed:
            yield _thread(tool, exchanges, failed, handled, len(trajectory.exchanges) - 1)


def _thread(
    tool: str,
    exchanges: list[Exchange],
    failed: list[Exchange],
    handled: dict[int, str],
    last_position: int,
) -> tuple[float, Suspect]:
    first, last = failed[0], failed[-1]
    texts = [error_text(e) for e in failed]
    after = next((e for e in exchanges if e.position > last.position and not e.failed), None)
    labels = {handled.get(e.step) or handled.get(_result_step(e), "") for e in failed}
    times = len(failed)
    same = "same " if times > 1 and len(set(texts)) == 1 else ""
    if times == 1:
        said = f"{tool} fails{_ending(labels)}: {texts[0]}"
    elif after is not None:
        said = f"{tool} fails {times} times, accepted at {after.step}; {same or 'last '}error: "
        said += texts[-1]
    elif last.position == last_position:
        said = f"{same}{tool} error {times} times, ends on it: {texts[-1]}"
    else:
        said = f"{same}{tool} error {times} times, never accepted: {texts[-1]}"
    settled = after is not None or labels <= HANDLED
    weight = (1.0 if settled else 4.0) + 0.5 * (times - 1) + (1.0 if times > 1 else 0.0)
    stop = after.step if after is not None and times > 1 else last.step
    return weight, Suspect(first=first.step, last=stop, kind="error", evidence=said)


def _ending(labels: set[str]) -> str:
    label = "".join(sorted(labels)) if len(labels) == 1 else ""
    return {"ignored": ", and is ignored", "repeated": ", and is repeated"}.get(label, "")


def error_text(exchange: Exchange) -> str:
    """Return the first line of an error, without the word that only says it is one."""
    result = exchange.result
    if result is None:
        return "no result"
    text = (result.error or result.text or value(result.structured)).strip()
    line = text.splitlines()[0] if text else "no text"
    return line.removeprefix("Error:").strip() or "no text"


def missed(trajectory: Trajectory, goals: list[SubGoal]) -> Iterator[tuple[float, Suspect]]:
    """Yield where sub-goals were missed, with a weight: nearest attempts, or where the run stopped.

    Several sub-goals whose nearest attempt is one and the same call are one suspect.
    """
    never = []
    near: dict[int, list[tuple[Exchange, SubGoal]]] = {}
    for goal in goals:
        tries = [e for e in trajectory.exchanges if e.call.name == goal.tool]
        if tries:
            nearest = min(tries, key=lambda e: (len(_lacks(e, goal)), e.failed, -e.position))
            near.setdefault(nearest.position, []).append((nearest, goal))
        else:
            never.append(goal)
    for attempts in near.values():
        attempt, goal = attempts[0]
        more = f" ({len(attempts)} sub-goals missed)" if len(attempts) > 1 else ""
        how = "not as asked" if _lacks(attempt, goal) else "as asked, but"
        said = f"{goal.tool} {how}{more}: {_gap(attempt, goal)}"
        yield 3.0, Suspect(first=attempt.step, last=attempt.step, kind="missed", evidence=said)
    if never:
        first, last, how = _stop(trajectory)
        names = ", ".join(_goal(goal) for goal in never[:NAMED_DIFFERENCES])
        rest = len(never) - NAMED_DIFFERENCES
        said = f"{how} {names}{f' and {rest} more' if rest > 0 else ''}"
        yield 2.5, Suspect(first=first, last=last, kind="missed", evidence=said)


def _goal(goal: SubGoal) -> str:
    named = next((item for item in goal.arguments.values() if isinstance(item, str)), None)
    return f"{goal.tool}({named}, ...)" if named else goal.tool


def _lacks(exchange: Exchange, goal: SubGoal) -> list[tuple[str, Json, Json]]:
    given = exchange.call.arguments if isinstance(exchange.call.arguments, dict) else {}
    wanted = goal.arguments
    return list(differences({name: given.get(name) for name in wanted}, wanted))


def _gap(exchange: Exchange, goal: SubGoal) -> str:
    lacks = _lacks(exchange, goal)
    parts = [
        f"{path} {brief(was) or repr(was)}, expected {brief(want) or repr(want)}"
        for path, was, want in lacks[:NAMED_DIFFERENCES]
    ]
    if len(lacks) > NAMED_DIFFERENCES:
        parts.append(f"{len(lacks) - NAMED_DIFFERENCES} more differ")
    if exchange.failed:
        parts.append(f"refused: {error_text(exchange)}")
    return "; ".join(parts) or "called, but not in the asked order"


def _stop(trajectory: Trajectory) -> tuple[int, int, str]:
    """Return the last thing the agent did: first and last step of it, and in words."""
    spoken = [s.index for s in trajectory.steps if s.actor == "agent"]
    end = spoken[-1] if spoken else len(trajectory.steps) - 1
    if not trajectory.exchanges:
        return (spoken[0] if spoken else end), end, "makes no call at all; never"
    last = trajectory.exchanges[-1]
    return last.step, max(end, last.step), f"stops after {last.call.name}; never calls"


def _result_step(exchange: Exchange) -> int:
    return exchange.step if exchange.result_step is None else exchange.result_step
