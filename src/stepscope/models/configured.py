"""Models as the settings describe them, table `[judges]`, and the keys of the environment.

Refuses parameters that types cannot rule out. Of a key only the name of its variable is ever shown.
"""

from __future__ import annotations

import math
from collections import UserDict
from collections.abc import Mapping

import msgspec

from stepscope.errors import ConfigError
from stepscope.model import Json, Structure

# Set by the request, or multiplying its price; a judge's own parameters may not say them.
_RESERVED = frozenset(
    "background best_of functions function_call max_completion_tokens max_tokens mcp_servers "
    "messages model modalities models n response_format seed service_tier speed stream system "
    "temperature tool_choice tools web_search_options".split()
)


class PriceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, USD for a million tokens."""

    input: float  # tokens that are read.
    output: float  # tokens that are written, reasoning included.
    cache_read: float | None = None  # tokens read from the cache; None: as `input`.
    cache_write: float | None = None  # tokens read and put into the cache; None: as `input`.
    # share of all that a batch costs; None: a server of one's own has none.
    batch: float | None = None


# Where an answer is cut off if the settings do not say it.
USUAL_OUTPUT_TOKENS = 4_096


class JudgeTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One judge model, table `[judges.model."PROVIDER/NAME"]`; every key has a default."""

    # how it is spoken to: "openai", "anthropic", or an installed plugin; "" is what the provider
    # speaks.
    protocol: str = ""
    base_url: str = ""  # where it is; "" is the provider's own address.
    key: str = ""  # name of the variable that holds its key; "" is the provider's own.
    family: str = ""  # who trained it; "" is told from its name.
    structure: Structure | None = None  # how structured output is asked for; None finds out.
    context_tokens: int = 128_000  # what it reads at once, its answer included.
    # where an answer is cut off; None: at 4,096, and later where many steps are asked about.
    max_output_tokens: int | None = None
    temperature: float | None = None  # of sampling; None leaves the provider's.
    seed: int | None = None  # where the provider takes one.
    price: PriceTable | None = None  # instead of the table of prices.
    # further parameters of its provider.
    extra: dict[str, Json] = msgspec.field(default_factory=dict)


class JudgesTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Judges, table `[judges]`."""

    budget_usd: float = 5.0  # what one command may spend.
    concurrency: int = 32  # calls in flight at most, to one provider.
    # model, or pattern with `*`, -> family.
    families: dict[str, str] = msgspec.field(default_factory=dict)
    # provider, slash, model -> how it is asked.
    model: dict[str, JudgeTable] = msgspec.field(default_factory=dict)


def check_judges_table(table: JudgesTable, where: str) -> None:
    """Raise `ConfigError` for a number out of range, a name of no judge, a reserved parameter."""
    usd, calls = table.budget_usd, table.concurrency
    if not 0 <= usd < math.inf:
        raise ConfigError(f"{where}, [judges]: budget_usd is {usd}; expected 0 or more")
    if calls < 1:
        raise ConfigError(f"{where}, [judges]: concurrency is {calls}; expected 1 or more")
    for name, family in table.families.items():
        if not family.strip():
            raise ConfigError(f"{where}, [judges.families]: {name!r} has no family; write one")
    for name, judge in table.model.items():
        _refuse_judge(name, judge, f"{where}, [judges.model.{name!r}]")


def _refuse_judge(name: str, judge: JudgeTable, where: str) -> None:
    provider, _, model = name.partition("/")
    if not provider or not model:
        raise ConfigError(f'{where}: no judge; expected [judges.model."PROVIDER/MODEL"]')
    for field in ("context_tokens", "max_output_tokens"):
        value = getattr(judge, field)
        if value is not None and value < 1:
            raise ConfigError(f"{where}: {field} is {value}; expected 1 or more")
    if (written := judge.max_output_tokens or USUAL_OUTPUT_TOKENS) >= judge.context_tokens:
        most = f"context_tokens, which includes them, is {judge.context_tokens}"
        raise ConfigError(f"{where}: max_output_tokens is {written}, and {most}")
    if judge.temperature is not None and not 0 <= judge.temperature <= 2:
        raise ConfigError(f"{where}: temperature is {judge.temperature}; expected 0 to 2")
    for parameter in judge.extra:
        if parameter in _RESERVED:
            why = "would change what is asked or what it costs; leave it out"
            raise ConfigError(f"{where}: extra.{parameter} {why}")
    if (price := judge.price) is not None:
        for name, usd in msgspec.structs.asdict(price).items():
            if usd is not None and not 0 <= usd < math.inf:
                raise ConfigError(f"{where}.price: {name} is {usd}; expected 0 or more")
        if (share := price.batch or 0.0) > 1:
            raise ConfigError(f"{where}.price: batch is {share}; expected a share from 0 to 1")


# Ends the name of the variable that says which host a key of the user's own opens.
HOST_VARIABLE = "_HOST"


class ProviderKeys(UserDict[str, str]):
    """Variables of the environment and of `.env`; its `repr` holds no value and no name.

    The environment goes before the file, and the host of a key is believed only where the key
    stands: a file that others may change cannot send a key of the environment elsewhere.
    """

    def __init__(self, environment: Mapping[str, str], file: Mapping[str, str]) -> None:
        super().__init__(environment)
        for name, value in file.items():
            if not {name, name.removesuffix(HOST_VARIABLE)} & environment.keys():
                self[name] = value

    def __repr__(self) -> str:
        return f"<{len(self)} variables>"
