"""Ask measures about one run, and believe no answer before it was checked.

A measure may be anybody's code. If it crashes, that is one `Unmeasured("error")`; if it answers off
its scale, twice, or citing steps that do not exist, that is one too. For every aspect it names it
must answer about the whole run, so that what could not be measured is counted and not missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

import msgspec

from stepscope import registry
from stepscope.model import Answer, Case, Facts, Measure, Scale, Trajectory, Verdict
from stepscope.store.records import Line, Question, cells
from stepscope.store.trajectories import Stored
from stepscope.values import Unmeasured

# An exception's text may hold half a trace; a reason is one line.
_REASON_CHARACTERS = 300


class Plan(msgspec.Struct, frozen=True):
    """What every process needs to know: measures by registry name, facts by workflow."""

    measures: tuple[str, ...]
    facts: dict[str, Facts]


class Batch(msgspec.Struct, array_like=True):
    """Answers ready for the store; `unmeasured` counts those about whole runs, by kind."""

    questions: list[Question]
    lines: list[Line]
    runs: int
    unmeasured: dict[str, int]


# A run's row, and which measures to ask: bit n stands for measure n of the plan.
Task = tuple[int, int]


class Asker:
    """The measures of a plan, loaded; answers come as lines of a batch."""

    def __init__(self, plan: Plan) -> None:
        self._measures = [registry.measure(name) for name in plan.measures]
        self._facts = plan.facts
        self._hashes = {
            (workflow, at): facts.hash_of(measure.learns)
            for workflow, facts in plan.facts.items()
            for at, measure in enumerate(self._measures)
        }

    def batch(self, stored: Iterable[Stored], masks: Mapping[int, int]) -> Batch:
        """Ask about runs; `masks` gives the measures to ask, by the run's row."""
        asked: dict[tuple[str, int, str], int] = {}
        questions: list[Question] = []
        batch = Batch(questions, [], 0, {})
        for run in stored:
            batch.runs += 1
            workflow = run.trajectory.workflow
            facts = self._facts.get(workflow)
            for at, measure in enumerate(self._measures):
                if not masks[run.key] >> at & 1:
                    continue
                for answer in answers(measure, run.trajectory, run.trajectory.case, facts):
                    key = (answer.measure, at, workflow)
                    question = asked.get(key)
                    if question is None:
                        question = asked[key] = len(questions)
                        hash_ = self._hashes.get((workflow, at), "")
                        questions.append(Question(answer.measure, measure.version, hash_))
                    batch.lines.append((question, run.key, run.case_id, 0, *cells(answer)))
                    if answer.step is None and type(answer) is Unmeasured:
                        kind = answer.kind
                        batch.unmeasured[kind] = batch.unmeasured.get(kind, 0) + 1
        return batch


def answers(
    measure: Measure, trajectory: Trajectory, case: Case | None, facts: Facts | None
) -> list[Answer]:
    """Return one measure's checked answers about a run; a crash is one of them."""
    try:
        given = list(measure(trajectory, case, facts))
    except Exception as e:  # noqa: BLE001 (anybody's code: a crash is an answer, not our end)
        said = " ".join(f"{type(e).__name__}: {e}".split())
        return [Unmeasured("error", _storable(said[:_REASON_CHARACTERS]), measure.name)]
    return checked(measure, given, len(trajectory.steps))


def checked(measure: Measure, given: Iterable[object], steps: int) -> list[Answer]:
    """Return the answers with every unsound one replaced by why it is not believed.

    An answer about a step that does not exist, or no answer at all, spoils the whole-run answer of
    its aspect.
    """
    kept: dict[tuple[str, int | None], Answer] = {}
    spoiled: dict[str, Unmeasured] = {}
    whole: set[str] = set()
    at_steps: set[str] = set()
    own, scale = measure.name, measure.scale
    for answer in given:
        sound = _sound(own, scale, answer, steps)
        key = (sound.measure, sound.step)
        if sound.step is not None:
            at_steps.add(sound.measure)
        else:
            whole.add(sound.measure)
            if sound is not answer and type(sound) is Unmeasured and type(answer) is not Unmeasured:
                spoiled[sound.measure] = sound
        if key in kept:
            where = "the whole run" if sound.step is None else f"step {sound.step}"
            reason = f"answered twice about {where}"
            spoiled.setdefault(sound.measure, Unmeasured("error", reason, sound.measure))
        kept[key] = sound
    for name in at_steps - whole if kept else {own}:
        kept[name, None] = Unmeasured("error", "gave no answer about the whole run", name)
    for name, fault in spoiled.items():
        kept[name, None] = fault
    return list(kept.values())


def _sound(own: str, scale: Scale, answer: object, steps: int) -> Answer:
    """Return the answer itself where it may be believed, else why it may not be."""
    # By type, not isinstance: this line runs for every answer of every run.
    if type(answer) is not Verdict and type(answer) is not Unmeasured:
        found = type(answer).__name__
        return Unmeasured("error", f"gave a {found}; expected Verdict or Unmeasured", own)
    name = answer.measure or own
    if name != own and not name.startswith(own + "."):
        return Unmeasured("error", f"gave an answer named {name!r}; its name is {own!r}", own)
    step = answer.step
    if step is not None and not (type(step) is int and 0 <= step < steps):
        reason = f"an answer about step {step!r}; the run has {steps} steps"
        return Unmeasured("invalid_evidence", reason, name)
    if isinstance(answer, Unmeasured):
        if answer.measure and answer.reason.isascii():
            return answer
        return Unmeasured(answer.kind, _storable(answer.reason), name, step)
    for cited in answer.cites:
        if not (type(cited) is int and 0 <= cited < steps):
            reason = f"cites step {cited!r}; the run has {steps} steps"
            return Unmeasured("invalid_evidence", reason, name, step)
    if not _is_figure(scale, answer) and (reason := _off_scale(scale, answer)):
        return Unmeasured("error", reason, name, step)
    if (
        answer.reason.isascii()
        and (answer.label is None or answer.label.isascii())
        and type(answer.value) in (float, type(None))
    ):
        return answer
    return msgspec.structs.replace(
        answer,
        value=None if answer.value is None else float(answer.value),
        label=None if answer.label is None else _storable(answer.label),
        reason=_storable(answer.reason),
    )


def _is_figure(scale: Scale, answer: Verdict) -> bool:
    """Tell whether an answer is a number on the scale and nothing else, as most are."""
    value = answer.value
    return (
        type(value) is float
        and scale.low <= value <= scale.high
        and isfinite(value)
        and answer.label is None
        and answer.confidence is None
    )


def _off_scale(scale: Scale, answer: Verdict) -> str:
    """Return what is wrong with an answer's value, label or confidence, "" when nothing is."""
    # Structs made in Python are not type-checked: a plugin may put anything here.
    value: object = answer.value
    label: object = answer.label
    confidence: object = answer.confidence
    if value is not None:
        if not isinstance(value, (float, int)) or isinstance(value, bool) or not isfinite(value):
            return f"value {value!r} is no finite number"
        if not scale.low <= value <= scale.high:
            return f"value {value!r} is off the declared scale [{scale.low:g}, {scale.high:g}]"
    elif not label:
        return "gave neither a value nor a label"
    if label is not None:
        if not isinstance(label, str):
            return f"label {label!r} is no text"
        if scale.labels and label not in scale.labels:
            return f"label {label!r} is not among the declared {', '.join(scale.labels)}"
    if confidence is not None and not (
        isinstance(confidence, (float, int)) and 0 <= confidence <= 1
    ):
        return f"confidence {confidence!r} is no share"
    return ""


def _storable(text: str) -> str:
    """Return text without lone surrogates, which no UTF-8 can hold."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
