"""Judges for a notebook: names become models, prices and a ledger; what they said is kept.

Nothing is opened and nothing is sent before it is asked for; `dry_run` needs no key.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import msgspec

from stepscope.errors import ConfigError, UsageError
from stepscope.judges import goals as goals_file
from stepscope.judges.budget import Budget
from stepscope.judges.judgement import Judge
from stepscope.judges.ledger import Ledger, beside
from stepscope.judges.models.batches import open_batches
from stepscope.judges.models.family import agent_family
from stepscope.judges.models.opening import judge_of, open_model
from stepscope.judges.models.patience import Patience
from stepscope.judges.models.prices import Prices
from stepscope.judges.planning import Mode, Options
from stepscope.judges.rendering import Narration
from stepscope.judges.rubrics import rubrics
from stepscope.model import Model
from stepscope.score.judging_loop import Access
from stepscope.score.planned import Asking
from stepscope.settings import Settings, keys
from stepscope.store import Purged, Store
from stepscope.store.samples import draw
from stepscope.store.where import Where


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How runs are judged; every field has a default.

    Attributes:
        repeats: how often each question is asked, to see the judge's own noise.
        narration: "off" leaves out what the agent says and thinks; calls and results stay.
        mode: "isolated" labels each step without any other.
        goals: file of sub-goals that people confirmed, for `no_look`.
        sample: how many of the chosen runs are drawn for each rubric; None asks about all.
        only: rubric -> ids of the runs that it is asked of; a rubric without an entry, of all.
        canaries: whether runs with known answers are asked about first; a judge that gets one
            wrong has its answers to that rubric set aside.
        send_media: whether images of the runs are sent, too; nothing is taken out of a picture.
        tools: whether judges may look things up before they answer.
        workspace: folder whose files they may look at, too.
        batch: whether questions are sent in batches, at half the price, answered within a day.
        strict_families: refuse a judge of the family of an agent that it would judge.
    """

    repeats: int = 1
    narration: Narration = "on"
    mode: Mode = "contextual"
    goals: str | Path | None = None
    sample: int | None = None
    only: dict[str, frozenset[str]] = msgspec.field(default_factory=dict)
    canaries: bool = False
    send_media: bool = False
    tools: bool = False
    workspace: str | Path | None = None
    batch: bool = False
    strict_families: bool = False

    def __post_init__(self) -> None:
        """Refuse numbers that ask for nothing.

        Raises:
            UsageError: repeats or sample is less than 1.
        """
        for name, number in (("repeats", self.repeats), ("sample", self.sample)):
            if number is not None and number < 1:
                raise UsageError(f"{name} is {number}; expected 1 or more")
        if self.workspace is not None and not self.tools:
            raise UsageError("a workspace is looked at with tools; ask for both")
        if self.sample is not None and self.only:
            raise UsageError("a sample is drawn of all runs, not of those of `only`")


AS_USUAL = How()


def several(given: str | Sequence[str], what: str) -> tuple[str, ...]:
    """Return one or several names as names, each once.

    Raises:
        UsageError: there is none.
    """
    names = tuple(dict.fromkeys([given] if isinstance(given, str) else given))
    if not names:
        raise UsageError(f"no {what} is named")
    return names


def asking(
    store: Store,
    settings: Settings,
    judges: Sequence[str],
    asked: Sequence[str],
    *,
    where: Where | None,
    how: How,
) -> Asking:
    """Return what is asked, by the names of judges and rubrics; a sample is drawn, and not kept.

    Raises:
        ConfigError: no such rubric, no judge, or one of unknown family.
        DataError: a sample of no run.
    """
    chosen = rubrics(asked)
    goals = None if how.goals is None else goals_file.load(Path(how.goals))
    drawn: dict[str, Container[str]] = dict(how.only)
    if how.sample is not None:
        runs = [str(run) for run in store.runs(where).id]
        for one in chosen:
            drawn[one.name] = frozenset(
                draw(runs, how.sample, seed=settings.seed, rubric=one.name)[0]
            )
    named = tuple(judge_of(name, settings.judges) for name in judges)
    if how.strict_families:
        _refuse_kin(store, named, where, settings)
    return Asking(
        rubrics=chosen,
        judges=named,
        where=where,
        repeats=how.repeats,
        options=Options(
            narration=how.narration, mode=how.mode, goals=goals, send_media=how.send_media
        ),
        drawn=drawn,
        tools=how.tools,
        workspace=None if how.workspace is None else Path(how.workspace),
        canaries=how.canaries,
    )


def _refuse_kin(
    store: Store, judges: Sequence[Judge], where: Where | None, settings: Settings
) -> None:
    """Check that no judge is of the family of an agent; a name that says none is no kin.

    Raises:
        ConfigError: one is.
    """
    families = settings.judges.families
    for agent in sorted({str(one) for one in store.runs(where).agent if one is not None}):
        kin = agent_family(agent, families)
        for judge in judges:
            if kin is not None and judge.family == kin:
                raise ConfigError(
                    f"judge {judge.name!r} is of the family of agent {agent!r} ({kin}); name "
                    "another judge, leave these runs out, or leave out --strict-families"
                )


def keep_sample(store: Store, settings: Settings, asked: Asking, sample: int) -> None:
    """Keep which runs were drawn, of which, so that estimates can speak of all of them."""
    runs = [str(run) for run in store.runs(asked.where).id]
    for one in asked.rubrics:
        chosen, probability = draw(runs, sample, seed=settings.seed, rubric=one.name)
        store.put_sample(one.name, runs, probability, chosen)


def access(
    settings: Settings,
    ledger: Ledger,
    names: Sequence[str],
    judges: Sequence[Judge],
    *,
    budget: Budget,
    models: Mapping[str, Model] | None,
    batch: bool = False,
) -> Access:
    """Return what calls go through; models are opened unless they are given.

    Raises:
        ConfigError: a key is missing (says which variable), or an SDK; or there are no batches.
    """
    table = settings.judges
    if models is None:
        models = _opened(settings, names, judges)
    return Access(
        models=models,
        patience=Patience(random.Random(settings.seed), most=table.concurrency),
        prices=Prices(table),
        ledger=ledger,
        # A name of its own, where it has none: canaries and runs are paid from one budget.
        budget=Budget(budget.name or secrets.token_hex(16), budget.limit_usd),
        # One provider bears so many; several bear them each.
        concurrency=table.concurrency * len({name.partition("/")[0] for name in models}),
        batches={name: open_batches(one) for name, one in models.items()} if batch else None,
    )


def _opened(settings: Settings, names: Sequence[str], judges: Sequence[Judge]) -> dict[str, Model]:
    """Return the models by their judges' names; every one that cannot be opened is told of."""
    values = keys()
    opened: dict[str, Model] = {}
    missing: list[str] = []
    for name, judge in zip(names, judges, strict=True):
        try:
            opened[judge.name] = open_model(
                name, settings.judges, keys=values, offline=settings.offline
            )
        except ConfigError as e:
            missing.append(str(e))
    if missing:
        raise ConfigError("; ".join(missing))
    return opened


def existing(store: Store) -> str | None:
    """Return where the ledger of a store lies; None where there is none."""
    path = beside(store.path)
    return path if Path(path).is_file() else None


def without_replies(store: Store, purged: Purged, ledger: Ledger) -> Purged:
    """Erase the replies about purged runs, too; return what was erased and what remains."""
    erased = ledger.erase(store.purged())
    left = sum(ledger.states().values())
    line = f"{ledger.path}: {left:,} questions to judges, their prices and states"
    return msgspec.structs.replace(purged, replies=erased, remains=(*purged.remains, line))
