"""What a person said about a run or a step of it, with how they came to be asked.

Calibration needs more than the answer: from which queue it came and how probable it was that this
item was asked, under which policy, and whether the annotator could see what others had said. A
label that a trace itself carries is a `TraceLabel`; one of a file has queue "file".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from stepscope.errors import DataError
from stepscope.model.records import GIVEN_VERSION, HUMAN, JUDGE_PREFIX, Answer, Record, Verdict
from stepscope.values import Unmeasured

# How an item came to be asked:
#   uniform, active: drawn at random, with a known probability
#   shape: drawn at random among runs with step scores; unresolved: because no shape was decided
#   disagreement, look_first: chosen because raters disagree, or because something looks wrong
#   norming: a round in which annotators learn the policy, kept apart from all figures
#   adjudication: because annotators answered it differently, with their answers in sight
#   file: from a file, which may say the probability
Queue = Literal[
    "uniform",
    "active",
    "shape",
    "unresolved",
    "disagreement",
    "look_first",
    "norming",
    "adjudication",
    "file",
]
QUEUES: tuple[Queue, ...] = get_args(Queue)
# Drawn at random from what they are of; and those whose probability is one among all runs.
DRAWN_QUEUES, RANDOM_QUEUES = ("uniform", "active", "shape"), ("uniform", "active", "file")
ADJUDICATION: Queue = "adjudication"
# The reading that an adjudicated answer is, behind those that a file may number.
ADJUDICATION_REPEAT = 1_000
_NOT_DECIDED = "the annotator says that the recording does not decide it"


class Label(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One answer of one annotator; a score has a value, everything else a label."""

    trajectory: str
    measure: str  # as the verdict about the same has it ("judge.axes.termination", "scores")
    annotator: str
    label: str | None = None
    value: float | None = None  # 0 to 1
    step: int | None = None  # None: the whole run
    decided: bool = True  # False: the annotator said that it cannot be decided
    queue: Queue = "file"
    # how probable it was that this item was asked, above 0 to 1; None: unknown
    probability: float | None = None
    round: int = 0  # of norming, from 1; 0: none
    policy: str = ""  # hash of the labelling policy that the annotator read; "": unknown
    blind: bool | None = None  # whether verdicts and other labels were hidden; None: unknown
    position: int | None = None  # how many items of this queue the annotator had answered before
    seconds: float | None = None  # from the question to the answer
    expanded: tuple[str, ...] = ()  # what more than the usual context was opened
    given_at: int | None = None  # nanoseconds UTC since 1970; None: unknown
    repeat: int = 0  # which reading of this item by this annotator, from 0
    cites: tuple[int, ...] = ()  # steps that the annotator named
    confidence: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Check what needs no knowledge of a rubric; `DataError` says what is wrong."""
        if not self.annotator:
            raise DataError("a label without an annotator; expected a name")
        if self.decided and self.label is None and self.value is None:
            raise DataError(f"a label of {self.measure!r} has neither a label nor a value")
        if self.probability is not None and not 0 < self.probability <= 1:
            said = f"probability {self.probability!r}; expected a number above 0, up to 1"
            raise DataError(f"a label has {said}")

    @property
    def is_random(self) -> bool:
        """Whether a rate may be computed from it: drawn with a probability that is known."""
        return self.probability is not None and self.queue in RANDOM_QUEUES

    @property
    def has_verdict(self) -> bool:
        """Whether a human verdict follows: the first answers are verdicts, and no practice."""
        return not self.round and self.queue != ADJUDICATION

    def record(self) -> Record:
        """Return the label as the human verdict that agreement and reports read."""
        answer: Answer = Unmeasured("missing_input", _NOT_DECIDED, self.measure, self.step)
        if self.label is not None or self.value is not None:
            cites = self.cites or (() if self.step is None else (self.step,))
            said = (self.measure, self.value, self.label, self.step, cites)
            answer = Verdict(*said, self.reason, self.confidence)
        return Record(
            trajectory=self.trajectory,
            answer=answer,
            version=GIVEN_VERSION,
            family=HUMAN,
            judge=self.annotator,
            rubric=self.measure.removeprefix(JUDGE_PREFIX),
            repeat=self.repeat,
        )


def settle_labels(labels: Iterable[Label]) -> list[Label]:
    """Return the labels that decide: of an adjudicated item that answer, in place of all others.

    It has the queue and the probability of those it settles, which say whether a rate may use it.
    """
    items: dict[tuple[str, str, int | None], list[Label]] = {}
    for one in labels:
        items.setdefault((one.measure, one.trajectory, one.step), []).append(one)
    found: list[Label] = []
    for of in items.values():
        settled = [one for one in of if one.queue == ADJUDICATION]
        first = sorted((x for x in of if x.has_verdict), key=lambda one: not one.is_random)
        if first and settled:
            asked = {name: getattr(first[0], name) for name in ("queue", "probability", "policy")}
            of = [msgspec.structs.replace(settled[-1], **asked)]
        found += of
    return found
