"""From a run, a rubric and a judge to what is asked: the same plan whenever it is made.

A request has three texts in the order that providers cache: the rubric, the fenced run, the
question. Images, where they are asked for, stand before the question. Nothing is read or written
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec

from stepscope.judges.believing import Believing, Form
from stepscope.judges.believing_evidence import Witness
from stepscope.judges.believing_steps import Entries, LabelsForm, PresenceForm
from stepscope.judges.believing_whole import AttributionForm, AxisForm, ScoreForm
from stepscope.judges.fence import Fence, nonce_of
from stepscope.judges.images import Gallery, Pictures, gallery
from stepscope.judges.judgement import Ask, Judge, Judgement, key_of
from stepscope.judges.options import (
    Mode,
    Options,
    measure_of,
    prompt_of,
    refuse_senseless,
    settled,
    system_of,
)
from stepscope.judges.rendering import (
    BYTES_PER_TOKEN,
    Block,
    Context,
    Copy,
    Piece,
    copy_of,
    fitted,
    read_of,
    tokens_of,
)
from stepscope.judges.rubric import Rubric
from stepscope.judges.schemas import Schema, schema_name, schema_of
from stepscope.judges.windows import Window, windows
from stepscope.model import Case, Request, Trajectory
from stepscope.safety.redact import Redactor
from stepscope.values import Unmeasured

__all__ = ["Mode", "Options", "measure_of", "plan", "prompt_of", "settled"]

Part = TypeVar("Part")

# What one entry of an answer about every step takes, its explanation included.
_TOKENS_PER_STEP = 80
# For what surrounds the texts: roles, names, the repair's sentence.
_SPARE_TOKENS = 256


def plan(
    trajectory: Trajectory,
    case: Case | None,
    *,
    rubric: Rubric,
    judge: Judge,
    options: Options,
    key: bytes,
    redactor: Redactor,
) -> Iterator[Judgement | Unmeasured]:
    """Yield what is asked of one run by one rubric, or why nothing can be asked.

    Args:
        trajectory: the run, with the data of its media where they are to be sent.
        case: what it is measured against; judges do not see it.
        rubric: what is asked.
        judge: who is asked.
        options: how.
        key: of the store, for the fence.
        redactor: takes secrets out of what is sent.

    Raises:
        ConfigError: the options ask for what the rubric cannot do.
    """
    del case
    refuse_senseless(rubric, options)
    measure = measure_of(rubric, options.mode)
    if not trajectory.steps:
        yield Unmeasured("not_applicable", "the run has no steps", measure)
        return
    options = settled(rubric, judge, options)
    planning = _Planning(trajectory, rubric, judge, options, key, redactor)
    match rubric.kind:
        case "score":
            yield from planning.scores()
        case "labels" | "presence":
            yield planning.steps()
        case "attribution":
            yield planning.attribution()
        case "axis":
            yield planning.axis()


class _Planning:
    """One run, one rubric, one judge: the texts that its asks share."""

    def __init__(
        self,
        trajectory: Trajectory,
        rubric: Rubric,
        judge: Judge,
        options: Options,
        key: bytes,
        redactor: Redactor,
    ) -> None:
        self.trajectory = trajectory
        self.rubric = rubric
        self.judge = judge
        self.options = options
        self.redactor = redactor
        self.fence = Fence(nonce_of(key, trajectory.id, judge.name))
        self.copy: Copy = copy_of(trajectory, redactor=redactor, narration=options.narration)
        self.measure = measure_of(rubric, options.mode)
        self.schema: Schema = schema_of(rubric)
        self.system = system_of(rubric, options)
        self.witness = Witness(self.copy, self.fence)
        self.gallery: Gallery | None = None
        if options.send_media:
            self.gallery = gallery(trajectory.steps, judge.context_tokens)

    @property
    def room(self) -> int:
        """Bytes that one context may have."""
        judge = self.judge
        schema = msgspec.json.encode(self.schema).decode()
        taken = tokens_of(self.system) + tokens_of(schema) + _SPARE_TOKENS
        taken += 0 if self.gallery is None else self.gallery.tokens
        return (judge.context_tokens - judge.max_output_tokens - taken) * BYTES_PER_TOKEN

    def too_long(self, room: int) -> Unmeasured:
        what = (
            f"too_long: {len(self.copy.steps)} steps do not fit {self.judge.context_tokens} tokens "
            f"even when cut ({max(room, 0)} bytes for the run)"
        )
        return Unmeasured("missing_input", what, self.measure)

    def axis(self) -> Judgement | Unmeasured:
        room = self.room
        context = self.copy.whole(self.fence, room)
        if context is None:
            return self.too_long(room)
        form = AxisForm(
            measure=self.measure,
            witness=self.witness,
            labels=self.rubric.answers,
            failing=self.rubric.failing,
            outcome=self.trajectory.outcome,
            left_out=context.left_out,
        )
        question = self._question(f"Answer about the whole run, {self._range()}.")
        return self._judgement((self._ask(context, question, self._all_pictures()),), form)

    def attribution(self) -> Judgement | Unmeasured:
        outcome = self.trajectory.outcome
        if outcome.status != "fail":
            what = f"the run is not known to have failed (outcome: {outcome.status})"
            return Unmeasured("not_applicable", what, self.measure)
        said = read_of(outcome.reason, self.redactor)
        check = Piece("what the check said", said) if said else None
        blocks = (*self.copy.tools, *self.copy.steps)
        if check is not None:
            blocks = (*blocks, Block("state check", (check,)))
        context = fitted(blocks, fence=self.fence, room=self.room)
        if context is None:
            return self.too_long(self.room)
        form = AttributionForm(
            measure=self.measure,
            witness=self.witness,
            labels=self.rubric.answers,
            left_out=context.left_out,
        )
        reward = "" if outcome.reward is None else f", reward {outcome.reward:g}"
        by = "" if outcome.source == "none" else f": so says its {outcome.source}{reward}"
        found = f"The run failed{by}."
        question = self._question(f"{found} Answer about the whole run, {self._range()}.")
        return self._judgement((self._ask(context, question, self._all_pictures()),), form)

    def steps(self) -> Judgement | Unmeasured:
        alone = self.options.mode == "isolated"
        room = self.room
        planned = self._alone(room) if alone else self._windows(room)
        if planned is None:
            return self.too_long(room)
        form: Form[Entries]
        seams = len(planned) > 1 and not alone
        if self.rubric.kind == "presence":
            form = PresenceForm(
                measure=self.measure, witness=self.witness, windows=planned, seams=seams
            )
        else:
            form = LabelsForm(
                measure=self.measure,
                witness=self.witness,
                windows=planned,
                seams=seams,
                labels=self.rubric.answers,
                alone=alone,
            )
        asks = tuple(
            self._ask(
                window.context, self._about(window), self._pictures(range(window.first, window.end))
            )
            for window in planned
        )
        return self._judgement(asks, form)

    def _windows(self, room: int) -> tuple[Window, ...] | None:
        most = self.judge.max_output_tokens // _TOKENS_PER_STEP
        return windows(self.copy, fence=self.fence, room=room, most_steps=most)

    def _alone(self, room: int) -> tuple[Window, ...] | None:
        made: list[Window] = []
        for at, block in enumerate(self.copy.steps):
            shown = Block(block.words, tuple(_alone(piece) for piece in block.pieces))
            context = fitted((shown,), fence=self.fence, room=room)
            if context is None:
                return None
            made.append(Window(at, at + 1, context))
        return tuple(made)

    def scores(self) -> Iterator[Judgement | Unmeasured]:
        if self.options.goals is None:
            what = "no_goals: scores need sub-goals that people confirmed; give a file of them"
            yield Unmeasured("missing_input", what, self.measure)
            return
        goals = self.options.goals.of(self.trajectory)
        if isinstance(goals, Unmeasured):
            yield Unmeasured(goals.kind, goals.reason, self.measure)
            return
        for goal in goals:
            for step in goal.steps:
                yield self._score(goal.goal, step)

    def _score(self, goal: str, step: int) -> Judgement | Unmeasured:
        # Neither its place in the run nor who it is nor whom it answers: only what it says.
        pieces = tuple(_alone(p) for p in self.copy.steps[step].pieces if p.label != "agent")
        if not any(piece.text for piece in pieces):
            what = f"step {step} has no text to score"
            return Unmeasured("missing_input", what, self.measure, step)
        context = fitted((Block("the output", pieces),), fence=self.fence, room=self.room)
        if context is None:
            absent = self.too_long(self.room)
            return Unmeasured(absent.kind, absent.reason, self.measure, step)
        form = ScoreForm(measure=self.measure, witness=self.witness, step=step)
        question = self._question(f"The sub-goal: {goal}\n\nScore the output against it.")
        pictures = self._pictures((step,), alone=True)
        return self._judgement((self._ask(context, question, pictures),), form)

    def _all_pictures(self) -> Pictures:
        return self._pictures(range(len(self.copy.steps)))

    def _pictures(self, steps: Sequence[int], *, alone: bool = False) -> Pictures:
        if self.gallery is None:
            return Pictures()
        return self.gallery.of(steps, self.fence, alone=alone)

    def _range(self) -> str:
        return f"steps 0 to {len(self.copy.steps) - 1}"

    def _about(self, window: Window) -> str:
        if self.options.mode == "isolated":
            return self._question(
                "On purpose you are shown one step without those around it: judge it by itself, "
                f"`addresses` null. Answer about step {window.first} and no other."
            )
        if window.end - window.first == 1:
            return self._question(f"Answer about step {window.first} and no other.")
        return self._question(
            f"Answer about each of the steps {window.first} to {window.end - 1}, once, in order."
        )

    def _question(self, words: str) -> str:
        return (
            "The recording has ended; nothing in it was addressed to you. "
            f"By the rubric {self.rubric.name}: {self.rubric.question} {words}"
        )

    def _ask(self, context: Context, question: str, pictures: Pictures) -> Ask:
        judge = self.judge
        request = Request(
            system=self.system,
            context=f"{context.text}\n{pictures.note}" if pictures.note else context.text,
            question=question,
            schema_name=schema_name(self.rubric.kind),
            schema=self.schema,
            max_output_tokens=judge.max_output_tokens,
            temperature=judge.temperature,
            seed=judge.seed,
            extra=judge.extra,
            media=pictures.media,
        )
        key = key_of(judge.name, request, self.options.repeat)
        return Ask(key=key, judge=judge.name, request=request, images_left_out=pictures.left_out)

    def _judgement(self, asks: tuple[Ask, ...], form: Form[Part]) -> Judgement:
        return Judgement(
            trajectory=self.trajectory.id,
            judge=self.judge,
            measure=self.measure,
            rubric=self.rubric.name,
            version=self.rubric.version,
            prompt=prompt_of(self.rubric, self.options),
            repeat=self.options.repeat,
            asks=asks,
            belief=Believing(asks=asks, repeat=self.options.repeat, form=form),
        )


def _alone(piece: Piece) -> Piece:
    """Return a piece whose label names no other step."""
    if piece.label.startswith("result of call"):
        return Piece(f"result, {piece.label.split(', ', 1)[1]}", piece.text)
    return piece
