"""`stepscope baseline update`: write the runs that later ones are compared with."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stepscope.cli.gate import settings_at
from stepscope.cli.gate_options import Commit, Config, Workflows
from stepscope.cli.options import Json, Offline, StorePath, WhereText
from stepscope.errors import UsageError


def update(
    *,
    workflow: Workflows = None,
    where: WhereText = None,
    commit: Commit = None,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    config: Config = None,
    store: StorePath = None,
    offline: Offline = False,
    as_json: Json = False,
) -> None:
    """Make the chosen runs the baseline of their workflow.

    Prints what changes, asks, and writes each file whole or not at all. Runs whose records are of
    mixed versions are refused.

    Example: stepscope baseline update --workflow refunds --where "agent_version = 'v7'"
    """
    import msgspec

    from stepscope.api import gating
    from stepscope.cli import ci, terminal
    from stepscope.cli.stores import existing, parsed
    from stepscope.gates import baseline

    settings = settings_at(config)
    policies = gating.chosen(settings, workflow or ())
    for policy in policies:
        if policy.baseline is None:
            raise UsageError(
                f"[workflow.{policy.workflow}] names no baseline; add "
                f'baseline = "baselines/{policy.workflow}.json"'
            )
    with existing(store, settings) as notebook:
        made = [
            (policy, *gating.update(notebook, policy, where=parsed(where), commit=commit))
            for policy in policies
        ]
    if as_json:
        terminal.out_json([msgspec.to_builtins(diff) for _, _, diff in made])
    else:
        terminal.out(ci.guarded("\n\n".join(str(diff) for _, _, diff in made)))
    if not (yes or _agreed([str(policy.baseline) for policy in policies])):
        raise UsageError("nothing was written; say --yes to write the baseline")
    for policy, new, _ in made:
        assert policy.baseline is not None
        baseline.write(new, policy.baseline)
        terminal.note(f"wrote {policy.baseline}")


def _agreed(paths: list[str]) -> bool:
    if not sys.stdin.isatty():
        return False
    return typer.confirm(f"Write {', '.join(paths)}?", err=True)
