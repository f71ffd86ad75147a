"""Check that a model plugin keeps what judge models promise.

    from stepscope.testing import check_model
    check_model("acme_models.py:open_endpoint", wire=acme_reply)

In pytest or anywhere: what is broken is one `ModelFault` with a line for every rule, saying what
was done and what to do. The rules are the functions of `model_rules`, each asked of a model of its
own at a server on loopback; no provider is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepscope import registry
from stepscope.errors import ConfigError, UsageError
from stepscope.model import Opener
from stepscope.safety.text import visible_line
from stepscope.testing import model_rules as rules
from stepscope.testing.model_server import serving
from stepscope.testing.model_subject import Subject
from stepscope.testing.model_wires import WIRES, Wire

Rule = Callable[[Subject], Iterator[str]]

RULES: tuple[Rule, ...] = (
    rules.is_called_as_it_was_opened,
    rules.keeps_everything_that_came,
    rules.asks_in_the_order_that_is_cached,
    rules.asks_once,
    rules.says_why_the_model_stopped,
    rules.hands_on_what_does_not_fit,
    rules.says_whether_to_ask_again,
    rules.tells_what_is_no_reply,
    rules.tells_that_nobody_listens,
    rules.reads_up_to_a_cap,
    rules.unpacks,
    rules.follows_no_redirect,
    rules.keeps_its_key,
    rules.can_be_given_up,
    rules.asks_many_at_once,
    rules.works_on_another_loop,
)


class ModelFault(AssertionError):
    """A model does not keep what models promise; one line for every rule that is broken."""


class ModelChecked(NamedTuple):
    """What was checked: print it."""

    model: str
    rules: int

    def __str__(self) -> str:
        """One line."""
        return f"{self.model}: {self.rules} rules hold"


def check_model(opener: Opener | str, wire: Wire | str = "openai") -> ModelChecked:
    """Check what opens judge models.

    Args:
        opener: the function itself, its installed name, or `FILE.py:NAME`.
        wire: the protocol that it speaks: "openai", "anthropic", or a function of a situation
            ("answer", "refusal", "length", "filter") and a text that returns the body of a reply
            that says it: 100 tokens read, 20 written, by the model `checked-2026-01-01`; None
            where the protocol cannot say it.

    Raises:
        ModelFault: rules are broken; the message has a line for each.
        UsageError: no such protocol.
        ConfigError: no such opener.
    """
    named = opener if isinstance(opener, str) else getattr(opener, "__name__", repr(opener))
    found = registry.model(opener) if isinstance(opener, str) else opener
    if not callable(found):
        raise ConfigError(f"{named!r} is a model; name the function of an Endpoint that opens it")
    speaks = WIRES.get(wire) if isinstance(wire, str) else wire
    if speaks is None:
        raise UsageError(f"no protocol {wire!r}; known: {', '.join(WIRES)}, or give a function")
    faults = [f"{named}: {line}" for rule in RULES for line in _broken(rule, found, speaks)]
    if faults:
        raise ModelFault("\n".join(faults))
    return ModelChecked(named, len(RULES))


def _broken(rule: Rule, opener: Opener, wire: Wire) -> Iterator[str]:
    """Yield the ways in which a rule is broken, each as one line."""
    with serving() as server:
        for line in rule(Subject(opener, wire, server)):
            yield visible_line(f"{rule.__name__}: {line}")
