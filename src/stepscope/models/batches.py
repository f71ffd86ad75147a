"""Batches: many asks sent at once, answered within a day, at half the price.

What goes over the wire for an ask is what would go over it alone (`dialect`), under a custom id
that is its key: 64 hex digits, which both providers take. Refuses protocols without batches.
Source: openai 3.54, resources/batches.py, files.py; anthropic 2.12, resources/messages/batches.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from stepscope.errors import ConfigError, ModelError
from stepscope.model import Model, Reply, Structure
from stepscope.models.configured import JudgesTable
from stepscope.models.opening import judge_table, own_provider
from stepscope.safety.limits import MIB

if TYPE_CHECKING:
    from stepscope.models.provider_batches import AnthropicBatches, OpenAIBatches

# Between what we saw of a provider's clock and ours.
CLOCKS_SECONDS = 3600.0
# A provider takes 200 MB or more; a quarter of it keeps what is held in memory bounded.
MOST_BATCH_BYTES = 48 * MIB


class BatchItem(NamedTuple):
    """What came of one ask: a reply, or why there is none."""

    key: str  # of the ask, as the provider gives it back
    reply: Reply | None  # None where there is none
    reason: str = ""  # why; "" where there is a reply
    again: bool = True  # whether asking again may help


class Batch(NamedTuple):
    """A batch as it was written down before it was sent."""

    token: str  # random; names it
    keys: frozenset[str]  # of the asks that it still owes
    structure: Structure  # how structured output is asked for in it
    since: float  # seconds since the epoch, by our clock, when it was written down
    purpose: str  # the judge whose batch it is
    owner: int  # of its asks in the ledger
    remote: str = ""  # the provider's name for it; "" while nobody knows if it was made


class BatchRefusedError(ModelError):
    """None of the asks of a batch was asked at all; the message says why."""


# The batches of one judge's provider; every method that asks it raises `ModelError`.
BatchClient: TypeAlias = "AnthropicBatches | OpenAIBatches"


def open_batches(model: Model, table: JudgesTable) -> BatchClient:
    """Return the batches of an opened model's provider; nothing is sent yet.

    A server of one's own has batches where its price says what share they cost; where no batches
    are known it is a `ConfigError`.
    """
    from stepscope.models import anthropic, openai
    from stepscope.models.http import SdkModel
    from stepscope.models.provider_batches import AnthropicBatches, OpenAIBatches

    made: BatchClient
    if isinstance(model, SdkModel) and model.dialect is openai.CHAT_COMPLETIONS:
        made = OpenAIBatches(model)
    elif isinstance(model, SdkModel) and model.dialect is anthropic.MESSAGES:
        made = AnthropicBatches(model)
    else:
        raise ConfigError(
            f"judge {model.name!r} has no batches: OpenAI's and Anthropic's have; leave out --batch"
        )
    price = judge_table(model.name, table).price
    if own_provider(model.name, table) is None and (price is None or price.batch is None):
        raise ConfigError(
            f"judge {model.name!r} is at a server of its own, and --batch is for OpenAI's and "
            "Anthropic's; if it takes batches as they do, say what share they cost, as "
            f'[judges.model."{model.name}"] price = {{ input = 0, output = 0, batch = 1.0 }}'
        )
    return made
