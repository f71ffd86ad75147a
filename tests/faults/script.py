"""What a scripted provider does with a request: data, so that it can be given to a process as JSON.

A `Fault` is one way of answering; a `Script` says which request gets which. Numbers count requests
to models from 0, in the order they came; requests about batches and files are not counted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Reset = Literal["", "before", "headers", "body"]
Structure = Literal["json_schema", "json_object_schema", "forced_tool", "prompt_only"]
EVERY: tuple[Structure, ...] = ("json_schema", "json_object_schema", "forced_tool", "prompt_only")


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way of answering; without arguments, the right one.

    Attributes:
        status: of an error, with the provider's error body; 0 answers.
        headers: added to the reply's, or put in their place.
        message: of the error; `{key}` becomes the key that was sent, as a careless proxy does it.
        delay: seconds before the first byte.
        hang: nothing is ever answered; the connection stays open.
        reset: the connection is reset before the reply, after its head, or amid its body.
        drip: seconds between bytes of the body.
        truncated: the connection ends after half of the announced body.
        padding: bytes of blanks after the JSON.
        bomb: bytes of blanks after the JSON, sent as gzip.
        gzip: the body is sent as gzip.
        body: sent instead of the provider's JSON.
        text: what the model says, instead of its answer: an endpoint that ignores the schema.
        stop: the provider's finish or stop reason, instead of that of a finished answer.
        refusal: the model declines, with these words.
        usage: whether tokens are told.
        snapshot: the model that answered, instead of the one asked.
    """

    status: int = 0
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    message: str = "scripted"
    delay: float = 0.0
    hang: bool = False
    reset: Reset = ""
    drip: float = 0.0
    truncated: bool = False
    padding: int = 0
    bomb: int = 0
    gzip: bool = False
    body: str | None = None
    text: str | None = None
    stop: str = ""
    refusal: str = ""
    usage: bool = True
    snapshot: str = ""


class Where(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault for requests whose body holds a text, the first `times` of them (0: all)."""

    text: str
    fault: Fault
    times: int = 0


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of batches.

    Attributes:
        polls: how often a batch is looked at before it has ended.
        order: of the results.
        expired: how many items, from the first, run out of time.
        errored: how many of the next fail.
        canceled: how many of the next are cancelled.
        missing: how many of the next have no result at all.
        refused: the whole batch fails at once, with this message.
        doubled: every result comes twice, the second time with another answer.
        foreign: the results hold one more, under a custom id that nobody has sent.
        hidden: how many lists of batches are empty, whatever there is.
        rounds: in how many batches, from the first, items go wrong; 0 in all.
        faults: of the first requests about batches and files, in the order they come; the request
            is carried out all the same.
    """

    polls: int = 0
    order: Literal["given", "reversed"] = "reversed"
    expired: int = 0
    errored: int = 0
    canceled: int = 0
    missing: int = 0
    refused: str = ""
    doubled: bool = False
    foreign: bool = False
    hidden: int = 0
    rounds: int = 1
    faults: tuple[Fault, ...] = ()


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a scripted provider does.

    Attributes:
        always: for a request that nothing below names.
        first: for the first requests, in the order they come.
        where: for requests that hold a text; the first that fits wins, before `first`.
        every: each request whose number is a multiple of the key gets the fault (0 never counts).
        answer: name of an answer function in `answers.ANSWERS`, or "quoting", which cites truly,
            or "exact", which labels steps without an error as well.
        structures: forms of structured output that are known; others are refused with a 400.
        ignores: forms that are accepted and ignored: the model says what it likes.
        strict: schemas that the real provider refuses are refused.
        most: requests in flight beyond which the answer is 429; 0 for any number.
        key: the only key that is let in; "" lets in any.
        remember: a body that comes again is answered with the same bytes, without reading it: a
            server that is faster than what is measured against it.
        batches: what becomes of batches.
    """

    always: Fault = Fault()
    first: tuple[Fault, ...] = ()
    where: tuple[Where, ...] = ()
    every: dict[int, Fault] = msgspec.field(default_factory=dict)
    answer: str = "hash"
    structures: tuple[Structure, ...] = EVERY
    ignores: tuple[Structure, ...] = ()
    strict: bool = True
    most: int = 0
    key: str = ""
    remember: bool = False
    batches: Batches = Batches()
