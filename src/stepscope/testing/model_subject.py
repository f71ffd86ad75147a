"""A model under check: opened at a server of its own, asked, and what came of it."""

from __future__ import annotations

import asyncio

from stepscope.judges.models.opening import closing
from stepscope.model import Endpoint, Model, Opener, Reply, Request
from stepscope.testing.model_server import Canned, ModelServer
from stepscope.testing.model_wires import Situation, Wire

NAME = "checked/model-1"
KEY = "sk-checked-0123456789abcdefghijkl"
TEXT = '{"label": "correct"}'
REQUEST = Request(
    system="RUBRIC: judge whether the run was ended in time.",
    context="TRACE: step 0, the user says goodbye.",
    question="QUESTION: was it?",
    schema_name="termination",
    schema={
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["correct", "incorrect"]}},
        "required": ["label"],
        "additionalProperties": False,
    },
)
Outcome = Reply | BaseException


class Subject:
    """What opens models, and a server at which they are opened."""

    def __init__(self, opener: Opener, wire: Wire, server: ModelServer) -> None:
        """Check what `opener` opens; it speaks as `wire` does."""
        self.opener = opener
        self.wire = wire
        self.server = server

    def opened(self, base: str = "") -> Model:
        """Return the model, at the server or at another address."""
        return self.opener(Endpoint(name=NAME, base_url=base or self.server.base, key=KEY))

    def can(self, situation: Situation, text: str = TEXT) -> Canned | None:
        """Return how the server says something; None where the protocol has no words for it."""
        body = self.wire(situation, text)
        return None if body is None else Canned(body=body)

    @property
    def answer(self) -> Canned:
        """A good answer."""
        return self.can("answer") or Canned()

    def asked(self, canned: Canned) -> Outcome:
        """Return what one question gives, or what it raises, where the server answers so."""
        self.server.canned = canned
        return asked(self.opened())


def asked(model: Model) -> Outcome:
    """Return what one question gives, or what it raises."""
    return many(model, 1)[0]


def many(model: Model, times: int) -> list[Outcome]:
    """Return what so many questions at once give, on an event loop of their own."""

    async def whole() -> list[Outcome]:
        async with closing([model]):
            calls = [model.complete(REQUEST) for _ in range(times)]
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(whole())
