"""What one judge is asked about one run, and who makes records of its replies.

A judgement is planned from the run, the rubric and the judge alone, so that the same plan is made
again after a crash: its keys are looked up in the ledger, and what was received is not bought
again. Refuses no reply and believes none: that is the `Belief` it carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from stepscope.model import Answer, Json, Reply, Request
from stepscope.values import Unmeasured

# Records of judges have measure names of their own, beside the rules' of the same rubric.
PREFIX = "judge."
# But scores of single steps are what curves are made of, whoever gives them.
SCORES = "scores"
# Behind the name where each step was judged without its run: both modes stand side by side.
ISOLATED = ".isolated"

_encode = msgspec.json.encode


class Judge(msgspec.Struct, frozen=True, kw_only=True):
    """A judge as it was chosen: a model, its family, and how it is asked.

    Attributes:
        name: provider, slash, model, as given to `--judge`.
        family: who trained it; judges of one family are wrong together.
        context_tokens: what it can read at once, its answer included.
        max_output_tokens: where an answer is cut off.
        temperature: of sampling; None leaves the provider's.
        seed: where the provider takes one.
        extra: further parameters of the provider.
        tools: whether it may look things up with read-only tools before it answers.
    """

    name: str
    family: str
    context_tokens: int = 128_000
    max_output_tokens: int = 4_096
    temperature: float | None = None
    seed: int | None = None
    extra: dict[str, Json] = msgspec.field(default_factory=dict)
    tools: bool = False


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one judge.

    Attributes:
        key: under which its reply is bought, once: see `key_of`.
        judge: the judge's name.
        request: what is sent.
        images_left_out: how many images of its steps are not sent though images are.
    """

    key: str
    judge: str
    request: Request
    images_left_out: int = 0


class Outcome(NamedTuple):
    """What became of an ask: a reply, or why there is none."""

    ask: Ask
    reply: Reply | Unmeasured


class Belief(Protocol):
    """Makes answers of replies; pure, so that stored replies can be read again without a key."""

    def more(self, outcomes: Sequence[Outcome]) -> Ask | None:
        """Return one further ask that these outcomes call for, None when there is none.

        Called when every ask so far has its outcome; what it returns is asked and appended. A
        repair of an answer that does not fit the schema, or a judge's next look with its tools.
        """

    def answers(self, outcomes: Sequence[Outcome]) -> tuple[Answer, ...]:
        """Return the answers: the first is about the whole run where the rubric asks of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One judge, one run, one rubric, one repeat.

    Attributes:
        trajectory: id of the run.
        case: hash of what the run is measured against; "" where the judge does not see it.
        judge: who is asked.
        measure: the name that the records carry.
        rubric: name of the rubric.
        version: of the rubric.
        prompt: hash of everything that is not the run: template, rubric file, schema, mode.
        repeat: from 0.
        asks: what can be asked at once.
        belief: what makes answers of the replies.
    """

    trajectory: str
    case: str = ""
    judge: Judge
    measure: str
    rubric: str
    version: str
    prompt: str
    repeat: int = 0
    asks: tuple[Ask, ...]
    belief: Belief


def key_of(judge: str, request: Request, repeat: int) -> str:
    """Return 64 hex digits over everything that makes a reply: judge, request and repeat.

    The request holds the slice of the run, the rubric and its version, the prompt and the
    parameters, so that any change of them is another purchase.
    """
    return sha256(_encode((judge, _told(request), repeat))).hexdigest()


def request_hash(judge: str, request: Request) -> str:
    """Return 64 hex digits over what is sent: equal for all repeats."""
    return sha256(_encode((judge, _told(request)))).hexdigest()


def _told(request: Request) -> dict[str, Json]:
    """Return a request as it is hashed: without media where it has none, and never their data."""
    told: dict[str, Json] = msgspec.to_builtins(request, order="deterministic")
    media = [(one.content_type, one.sha256, one.words) for one in request.media]
    return {**told, "media": media} if media else {k: v for k, v in told.items() if k != "media"}
