"""The log of looks: which runs of a commit were gated already, under which policy.

Running again until a gate passes is counted: every look that brings new runs counts, its runs are
pooled with those before, and look j may spend alpha/(j(j+1)). Gating the same runs again is the
same look. The log is a JSON file beside the baseline. Where it does not survive (a fresh CI
machine without cache), the number of the attempt must be given; a log that cannot be read is an
error, never a first look. `read_gate_history` reads baselines and logs for display: it decides and
writes nothing, and a file that cannot be read becomes a line that says why. Source of the
spending: calibration, section 1 (the sum over all looks is alpha).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import msgspec

from stepscope.errors import ConfigError, EnvironmentFault, StepscopeError
from stepscope.gates import baseline as baselines
from stepscope.gates.baseline import diff_baselines, replace_file
from stepscope.gates.sample import Sample
from stepscope.gates.settings import WorkflowPolicy
from stepscope.safety.limits import read_file
from stepscope.store.columns import Rows
from stepscope.store.where import Where

SCHEMA = 1
LOG_FILE = "looks.json"
# Commits that stay in the log; the oldest leave first.
MOST_COMMITS = 200


class LookLog(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All looks that are remembered: by `look_key`, the runs of all looks at one commit."""

    schema: int = SCHEMA
    entries: dict[str, Sample] = msgspec.field(default_factory=dict)


class Looks:
    """The log while a gate runs: read once, renewed by `decide`, written by `save`."""

    def __init__(self, log: LookLog | None = None, path: Path | None = None) -> None:
        """Hold a log; without a path nothing is ever written."""
        self.log = LookLog() if log is None else log
        self.path = path

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read the log at `path`; raises as `load_look_log` does."""
        return cls(load_look_log(path), Path(path))

    def save(self) -> None:
        """Write the log as a whole or not at all."""
        if self.path is not None:
            replace_file(self.path, msgspec.json.encode(self.log) + b"\n")


def look_key(commit: str, workflow: str, policy_hash: str) -> str:
    """Return what looks are counted under."""
    return f"{commit} {policy_hash} {workflow}"


def look_log_path(baseline: str | Path) -> Path:
    """Return where the log lies: in the folder of the baseline."""
    return Path(baseline).parent / LOG_FILE


def load_look_log(path: str | Path) -> LookLog:
    """Return the log in a file; an empty one where there is none.

    `ConfigError` where it is no log, for looks would be forgotten; `EnvironmentFault` if unread.
    """
    try:
        raw = read_file(path)
    except FileNotFoundError:
        return LookLog()
    except OSError as e:
        raise EnvironmentFault(f"{path}: the log of looks cannot be read ({e.strerror})") from e
    try:
        log = msgspec.json.decode(raw, type=LookLog)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise ConfigError(
            f"{path} is not a log of looks ({' '.join(str(e).split())}): restore it, or remove it "
            "and give with --attempt how often this commit was gated"
        ) from e
    if log.schema > SCHEMA:
        raise ConfigError(f"{path} was written by a newer stepscope: upgrade stepscope")
    for name, entry in log.entries.items():
        if any(len(cells) != len(entry.runs) for cells in entry.cells.values()) or entry.looks < 1:
            raise ConfigError(f"{path}: the entry {name!r} is torn; restore the file")
    return log


def pool_looks(entry: Sample | None, sample: Sample, labels: Mapping[str, int]) -> Sample:
    """Return the runs of all looks together, with how many looks there were.

    What was scored again takes the place of what was logged. Runs that were logged under another
    question (a measure of another version) are left out: they cannot be pooled, but their looks
    count. `labels` are people's, by judged column: more of them are another look at that column.
    """
    if entry is None:
        said = {name: (n, 1) for name, n in labels.items()}
        return msgspec.structs.replace(sample, looks=1, labels=said)
    now = {run.id for run in sample.runs}
    # A look without judges answers none of their questions, and no other one.
    both = entry.asked.keys() & sample.asked.keys()
    same = all(sample.asked[name] == entry.asked[name] for name in both)
    same = same and set(entry.cells) == set(sample.cells)
    new = not now <= {run.id for run in entry.runs}
    held = {name: entry.labels.get(name, (0, entry.looks)) for name in labels}
    said = {name: (n, held[name][1] + (new or n != held[name][0])) for name, n in labels.items()}
    kept = entry.take([at for at, run in enumerate(entry.runs) if run.id not in now and same])
    return msgspec.structs.replace(
        sample,
        looks=entry.looks + new,
        labels={**entry.labels, **said},
        runs=(*kept.runs, *sample.runs),
        asked={**entry.asked, **sample.asked} if same else sample.asked,
        cells={name: (*kept.cells.get(name, ()), *cells) for name, cells in sample.cells.items()},
    )


def replace_entry(log: LookLog, name: str, pooled: Sample) -> LookLog:
    """Return the log with one entry renewed; the oldest leave when there are too many."""
    entries = {other: held for other, held in log.entries.items() if other != name}
    entries[name] = msgspec.structs.replace(pooled, agents=())
    return LookLog(entries=dict(list(entries.items())[-MOST_COMMITS:]))


class PolicyLooks(msgspec.Struct, frozen=True, kw_only=True):
    """The looks at one commit under one policy."""

    commit: str  # what was under test
    looks: int  # how many looks brought new runs
    runs: int  # runs of all looks, pooled
    current: bool  # whether the policy is still the one that holds


class GateHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one workflow."""

    workflow: str  # its name
    file: str = ""  # the name of the baseline's file, without its folder; "" where none is named
    holds: str = ""  # what the baseline holds, in a line; "" where there is none to compare with
    # old -> new: what the chosen runs would change in it, one line each
    changes: tuple[str, ...] = ()
    # what could not be read or compared, and what to do, one line each
    problems: tuple[str, ...] = ()
    # a row a commit, in the order of the log: the last look last
    looked: tuple[PolicyLooks, ...] = ()


def read_gate_history(
    rows: Rows, policies: Sequence[WorkflowPolicy], *, where: Where | None = None
) -> tuple[GateHistory, ...]:
    """Return what is kept of every workflow with gates, and how the chosen runs differ from it."""
    named = next((one.baseline for one in policies if one.baseline is not None), None)
    log, torn = LookLog(), tuple[str, ...]()
    try:
        log = log if named is None else load_look_log(look_log_path(named))
    except StepscopeError as e:
        torn = (str(e),)
    gated = [policy for policy in policies if policy.gates]
    kept = [(_compared(rows, one, where, torn), _policy_looks(log, one)) for one in gated]
    return tuple([msgspec.structs.replace(one, looked=looks) for one, looks in kept])


def _compared(
    rows: Rows, policy: WorkflowPolicy, where: Where | None, problems: tuple[str, ...]
) -> GateHistory:
    file = "" if policy.baseline is None else Path(policy.baseline).name
    made = GateHistory(workflow=policy.workflow, file=file, problems=problems)
    try:
        old = baselines.load_baseline(policy.baseline, policy.workflow)
        if not isinstance(old, Sample):
            return msgspec.structs.replace(made, problems=(*problems, old.reason))
        size = f"{len(old.runs):,} runs of {len(old.cases):,} cases"
        made = msgspec.structs.replace(
            made, holds=f"{size}, commit {old.commit or 'none said'}, {', '.join(old.agents)}"
        )
        new = baselines.make_baseline(rows, policy, where=where)
    except StepscopeError as e:
        return msgspec.structs.replace(made, problems=(*problems, str(e)))
    # Nobody said which commit the chosen runs are of.
    new = msgspec.structs.replace(new, commit=old.commit)
    return msgspec.structs.replace(made, changes=diff_baselines(old, new)[1:])


def _policy_looks(log: LookLog, policy: WorkflowPolicy) -> tuple[PolicyLooks, ...]:
    found = []
    for name, entry in log.entries.items():
        # Commit and workflow may hold spaces; between them stands the hash of a policy, 16 digits.
        commit, _, said = name.removesuffix(f" {policy.workflow}").rpartition(" ")
        if look_key(commit, policy.workflow, said) == name and len(said) == len(policy.hash):
            current = said == policy.hash
            found.append(
                PolicyLooks(commit=commit, looks=entry.looks, runs=len(entry.runs), current=current)
            )
    return tuple(found)
