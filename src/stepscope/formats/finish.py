"""The last touch on every run that is read: its outcome, its id, and warnings.

The id is content: sha256 over the canonical JSON of the steps, then the source's own run id, else
task and trial, else how many records of equal content came before in the file. File name, key
order, outcome, labels, tags and agent never enter it (spec: identity). Nothing odd is corrected.

Of the scores or feedback that a backend holds of a whole run, a few names mean that it worked:
`success`, `passed`, `correct` and their like, and `reward`. What a person says outranks what code
computed; a model's opinion is no outcome. Contradictions, of people or of code, leave it unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from stepscope.errors import LimitError, TraceError
from stepscope.model import Json, Outcome, Step, TraceLabel, Trajectory, Warn
from stepscope.safety.json import Repair
from stepscope.safety.limits import DEFAULT_LIMITS, Limits

_canonical = msgspec.json.Encoder(order="deterministic").encode

# Hex digits of the id that are kept: 128 bits, enough that two runs never meet.
_ID_DIGITS = 32


class Ordinals:
    """Counts records of equal content within one file: `seen` says how many of each there were."""

    def __init__(self) -> None:
        self.seen: dict[bytes, int] = {}

    def next(self, content: bytes) -> int:
        """Return how many records of this content came before, and count one more."""
        count = self.seen.get(content, 0)
        self.seen[content] = count + 1
        return count


def finish_run(
    draft: Trajectory,
    ordinals: Ordinals,
    *,
    limits: Limits = DEFAULT_LIMITS,
    repairs: Iterable[Repair] = (),
) -> Trajectory:
    """Return the draft with its id, its ordinal and its warnings.

    Raises:
        LimitError: the run has more steps than `limits` allows.
        TraceError: the steps cannot be written as JSON.
    """
    steps = draft.steps
    if len(steps) > limits.steps:
        raise LimitError(
            f"{draft.source.uri}: a run of {len(steps)} steps; the limit is {limits.steps} "
            "(`limits.steps` in stepscope.toml)"
        )
    try:
        content = sha256(_canonical(steps))
    except (UnicodeEncodeError, RecursionError, OverflowError) as e:
        raise TraceError(f"{draft.source.uri}: the steps cannot be written as JSON ({e})") from e
    source = draft.source
    if source.run_id is not None:
        content.update(_canonical(("run", source.run_id)))
    elif draft.trial is not None:
        content.update(_canonical(("trial", draft.task, draft.trial)))
    else:
        # A run that we wrote knows its ordinal from the file it was first read from.
        ordinal = source.ordinal or ordinals.next(content.digest())
        content.update(_canonical(("ordinal", ordinal)))
        if ordinal:
            source = replace(source, ordinal=ordinal)
    warnings = (*draft.warnings, *(Warn(*repair) for repair in repairs), *find_oddities(steps))
    identity = content.hexdigest()[:_ID_DIGITS]
    name = draft.name or identity[:12]
    return replace(draft, id=identity, name=name, source=source, warnings=warnings)


def find_oddities(steps: tuple[Step, ...]) -> list[Warn]:
    """Return a warning for every unpaired call or result, doubled call id and broken time."""
    warnings: list[Warn] = []
    # Steps of the calls that nothing has answered yet, by call id.
    waiting: dict[str | None, list[int]] = {}
    clock: int | None = None
    for step in steps:
        if not step.replayed:
            if step.calls or step.results:
                for call in step.calls:
                    asked = waiting.get(call.id)
                    if asked is None:
                        waiting[call.id] = [step.index]
                        continue
                    asked.append(step.index)
                    if call.id is not None:
                        reason = f"call id {call.id!r} is used twice"
                        warnings.append(Warn("duplicate_call_id", reason, step.index))
                for result in step.results:
                    asked = waiting.get(result.call_id)
                    if asked:
                        # Without ids, results come in the order of their calls.
                        asked.pop(0 if result.call_id is None else -1)
                    else:
                        reason = f"a result for call id {result.call_id!r} answers no call"
                        warnings.append(Warn("result_without_call", reason, step.index))
            if step.start is not None:
                clock = _check_clock(step, step.start.ns, clock, warnings)
    for call_id, asked in waiting.items():
        for at in asked:
            warnings.append(Warn("call_without_result", f"call {call_id!r} has no result", at))
    return warnings


def _check_clock(step: Step, start: int, clock: int | None, warnings: list[Warn]) -> int:
    """Return the latest start so far, having warned of a step that disagrees with it."""
    if step.end is not None and step.end.ns < start:
        warnings.append(Warn("negative_duration", "the step ends before it starts", step.index))
    if clock is not None and start < clock:
        reason = "the step starts before an earlier one"
        warnings.append(Warn("clock_backwards", reason, step.index))
    return start if clock is None else max(start, clock)


# tau-bench's own tolerance: `(1 - 1e-6) <= reward` counts as success (run.py, display_metrics).
PASSING_REWARD = 1 - 1e-6

OpinionSource = Literal["person", "code", "model"]

_OUTCOME_NAMES = frozenset(
    "success successful task_success passed pass correct resolved completed task_completed outcome "
    "reward".split()
)
_PASS_WORDS = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "success", "correct", "resolved"), True),
    **dict.fromkeys(("false", "no", "fail", "failed", "failure", "incorrect"), False),
}


class Opinion(NamedTuple):
    """What one source says of a whole run under one name."""

    name: str
    value: Json
    who: OpinionSource
    reason: str = ""


def reward_outcome(reward: float | None, same_state: Json = None) -> Outcome:
    """Return the outcome that a reward means, if there is one, by the tolerance of tau-bench.

    `same_state` is true where the state at the end is the one that the reference calls leave, false
    where it is another; anything but true, false, 1 and 0 says nothing.
    """
    if reward is None:
        return Outcome()
    status: Literal["pass", "fail"] = "pass" if reward >= PASSING_REWARD else "fail"
    if same_state in (True, False) and bool(same_state) == (status == "pass"):
        like = "is" if same_state else "differs from"
        said = f"the final state {like} that of the reference calls"
        return Outcome(status, "check", reward, said)
    return Outcome(status, "reward", reward, f"reward {reward:g}")


def first_steps(run: Trajectory) -> dict[str, int]:
    """Return the index of the first step of each span."""
    return {step.span: step.index for step in reversed(run.steps) if step.span is not None}


def add_opinions(
    run: Trajectory, labels: Sequence[TraceLabel], opinions: Sequence[Opinion]
) -> Trajectory:
    """Return a run with more labels, and the outcome of opinions where they decide one."""
    outcome = read_outcome(opinions)
    known = outcome.status != "unknown" or outcome.reason
    return replace(run, labels=(*run.labels, *labels), outcome=outcome if known else run.outcome)


def read_outcome(opinions: Sequence[Opinion]) -> Outcome:
    """Return the outcome that opinions name, unknown where none of them does."""
    for who in ("person", "code"):
        read = [(one, _opinion_passes(one)) for one in opinions if one.who == who]
        held = [(opinion, passed) for opinion, passed in read if passed is not None]
        if not held:
            continue
        if len({passed for _, passed in held}) > 1:
            names = ", ".join(f"{opinion.name} {opinion.value!r}" for opinion, _ in held)
            return Outcome(reason=f"scores contradict each other: {names}")
        opinion, passed = held[0]
        rewarded = opinion.name.lower() == "reward" and isinstance(opinion.value, int | float)
        return Outcome(
            "pass" if passed else "fail",
            "label" if who == "person" else "reward" if rewarded else "check",
            float(opinion.value) if rewarded else None,
            opinion.reason or f"{opinion.name} {opinion.value!r}",
        )
    return Outcome()


def _opinion_passes(opinion: Opinion) -> bool | None:
    name, value = opinion.name.lower().replace(" ", "_").replace("-", "_"), opinion.value
    if name not in _OUTCOME_NAMES:
        return None
    if isinstance(value, str):
        return _PASS_WORDS.get(value.lower())
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float):
        return None
    if name == "reward":
        return value >= PASSING_REWARD
    return bool(value) if value in (0, 1) else None
