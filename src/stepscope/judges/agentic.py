"""A judge that looks things up before it answers: each reply is one look, or the answer.

No provider's own tool calls are needed: the schema offers the looks beside the answer, so that
every endpoint with structured output can do it, and the ledger holds each look as a reply like any
other. What a look found stands in the next request as fenced data, after everything that providers
cache. The answer is believed by whoever believes it without tools.

Looks are limited in number, bytes and tokens. The last request offers the answer alone; a judge
that goes on all the same, goes round in circles or writes no look has no verdict, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

import msgspec

from stepscope.judges import images
from stepscope.judges.agentic_turns import (
    ANSWER,
    Turn,
    block,
    dumped,
    listed,
    manual,
    read,
    schema_of,
    sent_bytes,
)
from stepscope.judges.believing_json import Disbelief
from stepscope.judges.fence import Fence, nonce_of
from stepscope.judges.judgement import Ask, Belief, Judge, Judgement, Outcome, key_of
from stepscope.judges.options import Options
from stepscope.judges.rendering import BYTES_PER_TOKEN, tokens_of
from stepscope.judges.rubric import Rubric
from stepscope.judges.tools import Call, Look, Toolbox
from stepscope.model import Answer, Reply, Verdict
from stepscope.safety.text import visible
from stepscope.values import Unmeasured

# Raised with every change of what a judge with tools is told.
VERSION = "1"
# The measure of the record that says what was looked at: the judgement's own, and this.
LOOKS = ".looks"
# The same look so often is a circle.
_CIRCLE = 3
# What the manual of the tools takes.
_MANUAL_TOKENS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a judge may look before it answers.

    Attributes:
        looks: how many, refused ones included.
        bytes: of all that was found, together.
        tokens: read and written in all its replies; 0 where a provider does not say.
    """

    looks: int = 12
    bytes: int = 65_536
    tokens: int = 1_000_000


LIMITS = Limits()


def may_look(rubric: Rubric, options: Options) -> bool:
    """Tell whether a rubric may be asked with tools: not where it sees one step and no other."""
    return rubric.kind != "score" and options.mode == "contextual"


def reserved(judge: Judge, limits: Limits = LIMITS) -> Judge:
    """Return a judge to plan with: what it can read at once, less the room for what it looks up."""
    room = min(_room_tokens(limits), judge.context_tokens // 2)
    return msgspec.structs.replace(judge, context_tokens=judge.context_tokens - room)


def agentic(
    judgement: Judgement, toolbox: Toolbox, *, judge: Judge, key: bytes, limits: Limits = LIMITS
) -> Judgement:
    """Return the judgement of a judge that may look things up with these tools first.

    Its records carry another prompt hash, over the tools, what they can see, and the limits: what
    was judged with tools is not what was judged without, nor with another state of the workspace.

    Args:
        judgement: as it is planned without tools, for the judge that `reserved` returns.
        toolbox: what there is to look up; it is used while the judgement is judged.
        judge: who is asked, with all that it can read at once.
        key: of the store; what is found stands within the fence of this run before this judge.
        limits: how far the judge may look.
    """
    judgement = replace(judgement, judge=judge)
    fence = Fence(nonce_of(key, judgement.trajectory, judge.name))
    looking = _Looking(judgement, toolbox, fence, limits)
    prompt = f"{judgement.prompt} {VERSION} {toolbox.state} {limits} {sorted(toolbox.off)}"
    return replace(
        judgement,
        asks=tuple(looking.ask(plain, _Path(())) for plain in judgement.asks),
        prompt=sha256(prompt.encode()).hexdigest()[:16],
        belief=looking,
    )


class _Path(NamedTuple):
    """What a judge did so far on the way to one answer.

    Attributes:
        turns: its looks, in order.
        tokens: of all its replies.
        wrong: replies that were no look and no answer; one is forgiven.
    """

    turns: tuple[Turn, ...]
    tokens: int = 0
    wrong: int = 0


class _Followed(NamedTuple):
    """What the outcomes so far say: the paths, an outcome for each that ended, what is next."""

    paths: tuple[_Path, ...]
    ended: tuple[Outcome, ...]
    next: Ask | None


class _Looking:
    """Believes what the plain belief believes, and looks up what the judge asks for until then."""

    def __init__(
        self, judgement: Judgement, toolbox: Toolbox, fence: Fence, limits: Limits
    ) -> None:
        self.judgement = judgement
        self.plain: Belief = judgement.belief
        self.toolbox = toolbox
        self.fence = fence
        self.limits = limits

    def more(self, outcomes: Sequence[Outcome]) -> Ask | None:
        """Return the ask that follows the last look, or the plain belief's own, if any."""
        return self._follow(outcomes).next

    def answers(self, outcomes: Sequence[Outcome]) -> tuple[Answer, ...]:
        """Return the plain belief's answers, and one that says what was looked at."""
        followed = self._follow(outcomes)
        turns = [turn for path in followed.paths for turn in path.turns]
        measure = f"{self.judgement.measure}{LOOKS}"
        told = visible(self.fence.cleared(dumped(listed(turns))))
        looks = Verdict(measure, value=float(len(turns)), reason=told)
        return (*self.plain.answers(followed.ended), looks)

    def ask(self, plain: Ask, path: _Path) -> Ask:
        """Return the ask of a judge that has come so far on the way to a plain answer."""
        offered = () if self._spent(plain, path) else tuple(self.toolbox.tools)
        request = msgspec.structs.replace(
            plain.request,
            question=self._question(plain, path, offered),
            schema=schema_of(plain.request.schema, offered),
            schema_name=f"look_or_{plain.request.schema_name}",
        )
        key = key_of(plain.judge, request, self.judgement.repeat)
        return msgspec.structs.replace(plain, key=key, request=request)

    def _follow(self, outcomes: Sequence[Outcome]) -> _Followed:
        plain = self.judgement.asks
        rest = iter(outcomes[len(plain) :])
        paths: list[_Path] = []
        ended: list[Outcome] = []
        for ask, first in zip(plain, outcomes, strict=False):
            path, reply = self._walk(ask, first, rest)
            paths.append(path)
            if reply is None:
                return _Followed(tuple(paths), tuple(ended), self.ask(ask, path))
            ended.append(Outcome(ask, reply))
        # The plain belief may want an answer repaired: it is asked as it is, with what was found.
        while (wanted := self.plain.more(ended)) is not None:
            outcome = next(rest, None)
            if outcome is None:
                return _Followed(tuple(paths), tuple(ended), self._repair(wanted, paths))
            ended.append(Outcome(wanted, outcome.reply))
        return _Followed(tuple(paths), tuple(ended), None)

    def _walk(
        self, ask: Ask, first: Outcome, rest: Iterator[Outcome]
    ) -> tuple[_Path, Reply | Unmeasured | None]:
        """Return the way to one answer, and the answer; None where the next reply is not here."""
        path, outcome = _Path(()), first
        while True:
            reply = outcome.reply
            if isinstance(reply, Unmeasured):
                return path, reply
            spent = self._spent(ask, path)
            path = path._replace(tokens=path.tokens + _tokens(reply))
            try:
                said = read(reply)
            except Disbelief as e:
                if e.kind == "refused" or e.reason.startswith("truncated") or path.wrong or spent:
                    return path, Unmeasured(e.kind, e.reason)
                path = self._wrong(path, e.reason)
            else:
                if isinstance(said, Reply):
                    return path, said
                if spent:
                    return path, Unmeasured("budget", f"budget: {spent}, and then no answer")
                path = path._replace(turns=(*path.turns, Turn(said, self.toolbox.look(said))))
            following = next(rest, None)
            if following is None:
                return path, None
            outcome = following

    def _wrong(self, path: _Path, reason: str) -> _Path:
        look = Look(False, f"that was no look and no answer ({reason.partition(':')[0]})")
        return path._replace(turns=(*path.turns, Turn(Call(action="-"), look)), wrong=1)

    def _spent(self, plain: Ask, path: _Path) -> str:
        """Say which limit a path has reached, "" where the judge may look on."""
        if not self.toolbox.tools:
            return "there are no tools"
        if len(path.turns) >= self.limits.looks:
            return f"{len(path.turns)} looks were taken"
        if any(n >= _CIRCLE for n in Counter(turn.call for turn in path.turns).values()):
            return f"the same look was taken {_CIRCLE} times"
        found = sum(map(sent_bytes, path.turns))
        if found + self.toolbox.result_bytes > self._room(plain):
            return f"{found:,} bytes were found"
        if path.tokens >= self.limits.tokens:
            return f"{path.tokens:,} tokens were used"
        return ""

    def _room(self, plain: Ask) -> int:
        """Return how many bytes of finds the judge can read beside what it reads anyway."""
        request, judge = plain.request, self.judgement.judge
        texts = (request.system, request.context, request.question, dumped(request.schema))
        left = judge.context_tokens - request.max_output_tokens - sum(map(tokens_of, texts))
        left -= images.TOKENS * len(request.media)
        # Text that is marked line by line may take twice its bytes.
        return min(self.limits.bytes, (left - _MANUAL_TOKENS) * BYTES_PER_TOKEN // 2)

    def _question(self, plain: Ask, path: _Path, offered: Sequence[str]) -> str:
        parts = [plain.request.question, manual(self.toolbox)]
        parts += [block(self.fence, number, turn) for number, turn in enumerate(path.turns)]
        if path.turns:
            parts.append(self.fence.closing())
        if offered:
            left = self.limits.looks - len(path.turns)
            parts.append(f"You may look {left} more times. Take one look, or answer.")
        else:
            parts.append(f"There is nothing more to look up. Answer now: action {ANSWER!r}.")
        return "\n\n".join(parts)

    def _repair(self, wanted: Ask, paths: Sequence[_Path]) -> Ask:
        turns = [turn for path in paths for turn in path.turns]
        if not turns:
            return wanted
        blocks = [block(self.fence, number, turn) for number, turn in enumerate(turns)]
        question = "\n\n".join([*blocks, self.fence.closing(), wanted.request.question])
        request = msgspec.structs.replace(wanted.request, question=question)
        key = key_of(wanted.judge, request, self.judgement.repeat)
        return Ask(key=key, judge=wanted.judge, request=request)


def _room_tokens(limits: Limits) -> int:
    return _MANUAL_TOKENS + 2 * limits.bytes // BYTES_PER_TOKEN


def _tokens(reply: Reply) -> int:
    usage = reply.usage
    return 0 if usage is None else (usage.input_total or 0) + (usage.output_total or 0)
