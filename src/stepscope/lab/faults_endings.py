"""Faults in how a run ends: too late, on an error, on a limit, or on a promise.

No fault is chosen or shaped by the judge's own rules: what it misses here, it misses.
"""

from __future__ import annotations

import msgspec
import numpy as np

from stepscope.effects import words_of
from stepscope.lab.faults_edits import changed, finished, said, with_error
from stepscope.lab.faults_words import ERRORS
from stepscope.measures.calls import effect_of
from stepscope.model import Exchange, Trajectory

Spot = tuple[Trajectory, int]
Draw = np.random.Generator

CLOSINGS = (
    "Thank you, that is all I needed. Goodbye!",
    "Great, everything is settled then. Have a nice day!",
    "No, that's everything. Thanks for your help!",
    "Perfect, thanks so much. Bye!",
)
PROMISES = (
    "I will now {what} for you. Please hold on a moment.",
    "Let me {what} right away.",
    "One moment please, I'm going to {what}.",
    "Thank you for confirming. I'll {what} now.",
)
LIMITS = ("max_steps", "timeout", "context_length_exceeded")


def calls_after_closing(run: Trajectory, rng: Draw) -> Spot | None:
    """After the user has said goodbye the agent calls again, and gets an answer."""
    done = [x for x in run.exchanges if x.result_step == x.step + 1 and not x.failed]
    if not done:
        return None
    steps = list(run.steps)
    if steps[-1].actor != "user":
        steps += [said("Is there anything else?"), said(_one(CLOSINGS, rng), "user")]
    again = done[rng.integers(len(done))]
    at = len(steps)
    steps += [run.steps[again.step], run.steps[again.step + 1]]
    return finished(run, "calls_after_closing", at, steps), at


def ended_on_error(run: Trajectory, rng: Draw) -> Spot | None:
    """A call fails, and that is the last that is heard."""
    exchange = _any(run, rng)
    if exchange is None or exchange.result is None or exchange.result_step is None:
        return None
    at = exchange.result_step
    error = with_error(run.steps[at], exchange.result, _one(ERRORS, rng))
    return finished(run, "ended_on_error", at, changed(run.steps[: at + 1], at, error)), at


def ended_on_limit(run: Trajectory, rng: Draw) -> Spot | None:
    """The run is cut behind a result by a limit, as its recorder says."""
    exchange = _any(run, rng)
    if exchange is None or exchange.result_step is None:
        return None
    at = exchange.result_step
    cut = finished(run, "ended_on_limit", at, run.steps[: at + 1])
    return msgspec.structs.replace(cut, termination=_one(LIMITS, rng)), at


def announced_never_made(run: Trajectory, rng: Draw) -> Spot | None:
    """The agent says what it is about to do, and the run ends."""
    writes = [x for x in run.exchanges if effect_of(x.call.name, None) == "write" and x.step]
    if not writes:
        return None
    exchange = writes[rng.integers(len(writes))]
    verb, *rest = words_of(exchange.call.name)
    promise = _one(PROMISES, rng).format(what=f"{verb} the {' '.join(rest)}")
    at = exchange.step
    steps = [*run.steps[:at], said(promise)]
    return finished(run, "announced_never_made", at, steps), at


def _any(run: Trajectory, rng: Draw) -> Exchange | None:
    return run.exchanges[rng.integers(len(run.exchanges))] if run.exchanges else None


def _one(texts: tuple[str, ...], rng: Draw) -> str:
    return texts[rng.integers(len(texts))]
