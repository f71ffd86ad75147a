"""What an Inspect log says of all of its samples: which task, model, solver, data and code.

Kept in every run as `extra["log"]`, but for the lists that grow with the number of samples (ids of
the dataset, reductions over epochs, connection limits over time), which stay in the file.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_log.py`, `EvalLog`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import text_at
from stepscope.model import Json
from stepscope.safety.door import decode
from stepscope.safety.limits import Limits

# What grows with the number of samples, and where it stands.
_GROWING = (
    ("eval", "dataset", "sample_ids"),
    ("eval", "config", "sample_id"),
    ("eval", "shards", "ledger"),
    ("stats", "connection_limit_history"),
    ("results", "sample_reductions"),
    ("reductions",),
    ("samples",),
)
_SIZE_BYTES = 4


class Log(msgspec.Struct, frozen=True):
    """The header of a log, as far as runs have fields for it; `told` is all of it that is kept.

    Attributes:
        workflow: the task that was evaluated.
        agent: the solver, where it was named; else the model.
        agent_version: the commit of the code.
        eval_id: the evaluation's own id, "" where it has none.
        version: of the format.
        tags: what runs are told apart by.
        scorers: names of the scorers, in their order.
        complete: whether the evaluation came to its end.
        told: the header, without what grows.
    """

    workflow: str
    agent: str | None
    agent_version: str | None
    eval_id: str
    version: str | None
    tags: dict[str, str]
    scorers: tuple[str, ...]
    complete: bool
    told: dict[str, Json]


def header(raw: bytes, limits: Limits) -> bytes:
    """Return the header of a log without what grows, to travel with each sample.

    Raises:
        TraceError: it is no JSON object.
    """
    value = decode(raw, limits=limits).value
    if not isinstance(value, dict):
        raise TraceError(f"the header of an Inspect log is {str(value)[:60]!r}; expected an object")
    for way in _GROWING:
        _forget(value, way)
    return msgspec.json.encode(value)


def _forget(value: dict[str, Json], way: tuple[str, ...]) -> None:
    *path, last = way
    holder: Json = value
    for key in path:
        holder = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(holder, dict):
        holder.pop(last, None)


def framed(header: bytes, sample: bytes) -> bytes:
    """Return a sample with the header of its log, as one record."""
    return len(header).to_bytes(_SIZE_BYTES, "big") + header + sample


def taken_apart(record: bytes) -> tuple[Log, bytes]:
    """Return the log and the sample of a record that `framed` made."""
    size = int.from_bytes(record[:_SIZE_BYTES], "big")
    end = _SIZE_BYTES + size
    return _log(record[_SIZE_BYTES:end]), record[end:]


@lru_cache(maxsize=2)
def _log(header: bytes) -> Log:
    told = msgspec.json.decode(header, type=dict[str, Json])
    about, plan = _object(told, "eval"), _object(told, "plan")
    revision, dataset = _object(about, "revision"), _object(about, "dataset")
    model, status = text_at(about, "model"), text_at(told, "status")
    solver = text_at(about, "solver")
    tags = {
        "model": model,
        "dataset": text_at(dataset, "name") or text_at(dataset, "location"),
        "task_version": _text(about.get("task_version")),
        "revision": text_at(revision, "commit"),
        "log_status": status if status != "success" else None,
        "tags": ", ".join([tag for tag in _list(about, "tags") if isinstance(tag, str)]),
    }
    version = told.get("version")
    return Log(
        workflow=text_at(about, "task") or text_at(plan, "name") or "inspect_ai",
        agent=solver or model,
        agent_version=text_at(revision, "commit"),
        eval_id=next((text for key in ("eval_id", "run_id") if (text := text_at(about, key))), ""),
        version=str(version) if isinstance(version, int) else None,
        tags={name: tag for name, tag in tags.items() if tag},
        scorers=_scorers(told, about),
        complete=status in {None, "success"},
        told=told,
    )


def _scorers(told: dict[str, Json], about: dict[str, Json]) -> tuple[str, ...]:
    """Return the scorers, the one of the headline first."""
    listed = [*_list(about, "scorers"), *_list(_object(told, "results"), "scores")]
    names = [text_at(scorer, "name") for scorer in listed if isinstance(scorer, dict)]
    headline = _object(_object(told, "results"), "headline") or _object(about, "headline_metric")
    first = text_at(headline, "scorer")
    return tuple(dict.fromkeys([name for name in (first, *names) if name]))


def _object(value: dict[str, Json], key: str) -> dict[str, Json]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: dict[str, Json], key: str) -> list[Json]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _text(value: Json) -> str | None:
    # Version 0 is what Inspect writes where nobody gave one.
    return str(value) if isinstance(value, str | int) and value else None
