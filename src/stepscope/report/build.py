"""Rows in, one `Report` out: the only place where figures of a report are made.

Only columns are read; single runs are opened for the few that someone should look at first. It
refuses to mix versions of a measure, and it never folds the vector into one number.
"""

from __future__ import annotations

import msgspec
import numpy as np

from stepscope.errors import UsageError
from stepscope.report import step_agents
from stepscope.report.curve_types import Shapes
from stepscope.report.fleet_shapes import LABELS_ARE_NO_SCORES, shapes
from stepscope.report.flips import rank_flips
from stepscope.report.joint import disagreement, tables
from stepscope.report.keys import NOT_SCORED
from stepscope.report.look_first import look_first as choose
from stepscope.report.panels import panels
from stepscope.report.panels_shares import Group
from stepscope.report.panels_types import Panels
from stepscope.report.rows import Table, fields_of, groups, read
from stepscope.report.types import LookFirst, Profile, Provenance, Report
from stepscope.report.vector import vector
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.store.where import since as starting
from stepscope.values import Unmeasured

LOOK_FIRST = 10


def build(
    rows: Rows,
    *,
    where: Where | None = None,
    since: str | None = None,
    by: str | None = None,
    seed: int = 0,
    look_first: int | None = LOOK_FIRST,
) -> Report:
    """Return the report over the runs that `where` and `since` choose.

    Args:
        rows: a store, or anything else with its columns (then no run is opened).
        where: a condition on runs; all when left out.
        since: only runs that started then or later.
        by: the field that makes the groups; the agents of each workflow when left out.
        seed: where random draws start.
        look_first: how many runs to open and name suspects for; None opens every run.

    Raises:
        StoreError: versions of a measure are mixed.
        UsageError: nothing is chosen, or `by` is no field.
    """
    table = read_chosen(rows, where=where, since=since, by=by)
    return build_from(
        rows, table, where=where, since=since, by=by, seed=seed, look_first=look_first
    )


def read_chosen(rows: Rows, *, where: Where | None, since: str | None, by: str | None) -> Table:
    """Return the rows that a report over these runs is made of.

    Raises:
        StoreError: versions of a measure are mixed.
        UsageError: nothing is chosen, or `by` is no field.
    """
    # Who acted at a step is in no column: the table is split when its runs are opened.
    fields = () if by == step_agents.BY else fields_of(by)
    table = read(rows, both(where, since), fields)
    if not len(table):
        chosen = "is chosen" if where is not None or since is not None else "is in the store"
        raise UsageError(f"no run {chosen}; read some with stepscope import PATHS")
    return table


def build_from(
    rows: Rows,
    table: Table,
    *,
    where: Where | None,
    since: str | None,
    by: str | None,
    seed: int,
    look_first: int | None,
) -> Report:
    """Return the report over rows that `read_chosen` has read with the same choice."""
    opened = tuple(choose(rows, table, look_first)) if isinstance(rows, Store) else ()
    within = by == step_agents.BY
    split = step_agents.by_step_agent(rows, table) if within else table
    parts = list(groups(split, (step_agents.BY,) if within else fields_of(by)))
    whole = profile(table, {}, seed=seed)
    profiles = [profile(part, group, seed=seed) for group, part in parts] if parts[1:] else []
    if within:
        profiles = [step_agents.of_one(profile(part, group, seed=seed)) for group, part in parts]
    if not profiles:
        group, _ = parts[0]
        profiles = [_named(whole, group)]
    found = panels(
        rows,
        table,
        _places(table, profiles, [] if within else [part for _, part in parts]),
        where=both(where, since),
        seed=seed,
    )
    return Report(
        whole=whole,
        profiles=tuple(profiles),
        rank_flips=step_agents.NO_RIVALS
        if within
        else rank_flips([(p.title, t) for p, (_, t) in zip(profiles, parts, strict=True)], seed),
        look_first=opened,
        not_claimed=tuple(_not_claimed(rows, table, whole)),
        next=tuple(_next(table, opened)),
        provenance=Provenance(
            where=None if where is None else where.text,
            since=since,
            by=by,
            seed=seed,
            judges=("rules", *_judges(found)),
            measures=table.versions(),
        ),
        panels=msgspec.UNSET if found is None else found,
    )


def _places(table: Table, profiles: list[Profile], parts: list[Table]) -> list[Group]:
    """Return where the runs of each group stand; judges of runs know nothing of step agents."""
    if len(parts) < 2:
        return [Group(title=profiles[0].title if parts else "", places=np.arange(len(table)))]
    place = {key: at for at, key in enumerate(table.runs.key.tolist())}
    return [
        Group(title=one.title, places=np.array([place[key] for key in part.runs.key.tolist()]))
        for one, part in zip(profiles, parts, strict=True)
    ]


def _judges(found: Panels | None) -> tuple[str, ...]:
    return () if found is None else found.judges


def profile(table: Table, group: dict[str, str | None], *, seed: int = 0) -> Profile:
    """Return the vector of one group of runs, with outcome against path, and their shapes."""
    figures, notes, trials = vector(table)
    disagree = disagreement(table)
    return Profile(
        group=group,
        n_runs=len(table),
        n_tasks=table.n_tasks,
        n_steps=int(table.runs.steps.sum()),
        n_calls=int(table.runs.calls.sum()),
        trials=trials,
        figures=figures,
        notes=notes,
        earned=tuple(tables(table)),
        lucky=disagree.lucky,
        unlucky=disagree.unlucky,
        disagreement=disagree.share,
        too_loose=disagree.too_loose,
        shapes=shapes(table.shapes, table.clusters, seed),
    )


def _named(whole: Profile, group: dict[str, str | None]) -> Profile:
    """Return the vector over all runs under the one group that they make."""
    values: dict[str, str | None] = {field: value for field, value in group.items() if value}
    return Profile(
        **{f: getattr(whole, f) for f in Profile.__struct_fields__ if f != "group"}, group=values
    )


def both(where: Where | None, since: str | None) -> Where | None:
    """Return the condition that `where` and `since` make together."""
    if since is None:
        return where
    return starting(since) if where is None else where & starting(since)


def _not_claimed(rows: Rows, table: Table, whole: Profile) -> list[str]:
    people = any(name.startswith("human.") for name in rows.measures())
    why = "people's labels are not compared here" if people else "no labels here"
    said = [f"suspect-step accuracy ({why})"]
    if "errors.recovered" in whole.notes:
        said.append("recovery from injected errors (none here)")
    if not (isinstance(whole.shapes, Shapes) and whole.shapes.shares):
        said.append(f"shapes ({_no_shapes(whole.shapes)})")
    unscored = table.lost("outcome").get(NOT_SCORED, 0)
    if unscored:
        said.append(f"anything about {unscored:,} runs never scored")
    return said


def _no_shapes(found: Shapes | Unmeasured) -> str:
    if isinstance(found, Unmeasured):
        return "no step scores here"
    if not found.labels and found.no_shares is LABELS_ARE_NO_SCORES:
        return f"no step scores here; the labels of rules decide none of {found.n_runs:,} runs"
    return found.no_shares.reason if found.no_shares is not None else "no shares"


def _next(table: Table, opened: tuple[LookFirst, ...]) -> list[str]:
    commands = ["stepscope score"] if table.lost("outcome").get(NOT_SCORED, 0) else []
    if opened:
        first = opened[0]
        around = f" --step {first.suspects[0].first}" if first.suspects else ""
        commands.append(first.command + around)
    return [*commands, "stepscope report --json"]
