"""Open a judge model by its name: `PROVIDER/MODEL`, or `FILE.py:NAME` for a model of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from stepscope import registry
from stepscope.errors import ConfigError
from stepscope.judges.judgement import Judge
from stepscope.judges.models import endpoints
from stepscope.judges.models.configured import JudgesTable
from stepscope.judges.models.family import family
from stepscope.model import Model

_FILE = ".py:"


def open_model(
    name: str, table: JudgesTable, *, keys: Mapping[str, str], offline: bool = False
) -> Model:
    """Return the model of a judge; nothing is sent yet.

    Args:
        name: provider, slash, model; or `FILE.py:NAME`, which names the model itself.
        table: the settings.
        keys: variable -> value, of the operator's environment.
        offline: refuse an address that is not this machine's.

    Raises:
        ConfigError: no such model, its SDK or its key is missing, or the key is not for its host.
    """
    if _FILE in name:
        return _own(name)
    opener = registry.model(endpoints.protocol(name, table))
    if not callable(opener):
        raise ConfigError(
            f"judge {name!r}: its protocol names a model, not what opens one: a function of an "
            "Endpoint"
        )
    return opener(endpoints.endpoint(name, table, keys=keys, offline=offline))


def judge_of(name: str, table: JudgesTable) -> Judge:
    """Return the judge called `name`, with its family and parameters; `name` is that of its model.

    Raises:
        ConfigError: the name is no judge's, or its family is unknown.
    """
    if _FILE in name:
        name = _own(name).name
    judge = endpoints.judge_table(name, table)
    return Judge(
        name=name,
        family=judge.family or family(name, table.families),
        context_tokens=judge.context_tokens,
        max_output_tokens=judge.max_output_tokens,
        temperature=judge.temperature,
        seed=judge.seed,
        extra=judge.extra,
    )


@asynccontextmanager
async def closing(models: Iterable[Model]) -> AsyncIterator[None]:
    """Close the connections of models at the end, on the event loop that used them."""
    held = tuple(models)
    try:
        yield
    finally:
        for model in held:
            close = getattr(model, "close", None)
            if close is not None:
                await close()


def _own(name: str) -> Model:
    found = registry.model(name)
    if callable(found):
        raise ConfigError(
            f"{name!r} opens models; name a model itself: something with `name` and `complete`"
        )
    return found
