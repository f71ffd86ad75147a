"""Gates from end to end: choose the policies, read and score runs, decide, keep the log of looks.

Only recorded runs are gated: an agent that must be run first is refused, never taken for a pass.
Nothing is decided here; `gates.decide` is the only place where that happens.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepscope import registry
from stepscope.api.notebook import Notebook, open
from stepscope.api.views import DocumentView
from stepscope.errors import TraceError, UsageError, suggest_name
from stepscope.formats.reading import Account
from stepscope.gates import baseline as baselines
from stepscope.gates import looks
from stepscope.gates import settings as gate_settings
from stepscope.gates.decide import decide_gates
from stepscope.gates.sample import Sample
from stepscope.gates.selftest import GateSelftest, selftest_gates
from stepscope.gates.settings import WorkflowPolicy
from stepscope.gates.types import GateAnswer, GateDecision, GateReport, Severity, exit_code
from stepscope.model import PolicyRule, digest
from stepscope.model.signatures import is_signed
from stepscope.report.document import Document
from stepscope.report.render import data, markdown, text
from stepscope.report.views import gates
from stepscope.safety.redact import scrub_value
from stepscope.score.importing import Added
from stepscope.score.measures import score_runs
from stepscope.settings import Settings
from stepscope.store.where import Where, parse_where

Undecided = Literal["pass", "fail"]
# The measures that read rules of conduct: only for them must the rules' tools be known.
CONDUCT = "policy"


class _TimeOver(Exception):
    """Reading or scoring was stopped at the deadline; what was not asked is out of time."""


class GateView:
    """A gate report with what counts as failing: prints itself, knows its exit code."""

    def __init__(
        self,
        report: GateReport,
        *,
        remarks: Sequence[str] = (),
        fail_on: Severity = "hard",
        undecided: Undecided | None = None,
    ) -> None:
        self.report, self.remarks = scrub_value((report, tuple(remarks)))
        self.fail_on = fail_on
        self.undecided = undecided

    @property
    def exit_code(self) -> int:
        """0 pass, 3 a gate failed, 4 undecided or unmeasured."""
        return exit_code(self.report, undecided=self.undecided, fail_on=self.fail_on)

    def text(self, width: int = 100) -> str:
        """Return the table for a terminal."""
        made = gates.make_gate_document(self.report, code=self.exit_code, remarks=self.remarks)
        return text.render(made, width, log=True)

    def json(self) -> str:
        """Return the report as JSON."""
        return data.render_gate_json(self.report, code=self.exit_code, remarks=self.remarks)

    def markdown(self) -> str:
        """Return every workflow's comment, one after the other."""
        return markdown.render_gate_markdown(self.report, code=self.exit_code, remarks=self.remarks)

    def comments(self) -> dict[str, str]:
        """Return one comment a workflow, each beginning with its marker."""
        return markdown.render_comments(self.report, remarks=self.remarks)

    def junit(self) -> str:
        """Return the report as JUnit XML: errors and failures exactly where the exit code says."""
        return data.render_gate_junit(
            self.report, remarks=self.remarks, fail_on=self.fail_on, undecided=self.undecided
        )

    def __repr__(self) -> str:
        return self.text()


class SelftestView(DocumentView[tuple[GateSelftest, ...]]):
    """How often the gates of workflows are wrong, one `GateSelftest` each."""

    def document(self) -> Document:
        """Return what is printed."""
        return gates.make_selftest_document(self.value)


def selftest_policies(
    policies: Sequence[WorkflowPolicy],
    *,
    drop: float = gate_settings.DROP,  # the worsening that is put in, a share
    replications: int = gate_settings.REPLICATIONS,  # invocations drawn
    seed: int = 0,
    enough: Callable[[], bool] = lambda: False,  # asked now and then; ends it with what there is
) -> SelftestView:
    """Return how often the gates of policies are wrong on runs like those of their baselines."""
    held = baselines.load_baselines(policies)
    asked = partial(selftest_gates, drop=drop, replications=replications, seed=seed, enough=enough)
    found = tuple([asked(one, held[one.workflow]) for one in policies])
    return SelftestView(scrub_value(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """What is asked of one invocation."""

    where: Where | None = None  # which runs are under test
    commit: str | None = None  # what is under test; without it reruns are not seen
    attempt: int = 1  # how often this commit was gated at least, this time included
    log: Path | None = None  # of looks, kept where the commit is known; None keeps none
    seed: int | None = None  # where permutations start; that of the settings when left out
    enough: Callable[[], bool] | None = None  # asked now and then; yes ends it


_DEFAULTS = GateOptions()


def gate_store(
    notebook: Notebook, policies: Sequence[WorkflowPolicy], request: GateOptions = _DEFAULTS
) -> GateReport:
    """Decide the gates of a store's runs; with a commit, the log of looks is kept.

    What the imports of these runs could not read counts at its worst; older imports do not matter.
    Answers of rules that are not those of today's settings and measures are given again.

    Raises:
        ConfigError: the log of looks is torn, or a rule of conduct names a tool nobody knows.
        StoreError: the records of a measure are of two versions.
        UsageError: there is nothing to gate.
    """
    store, workflows = notebook.store, [one.workflow for one in policies]
    notebook.give_declared_cases()
    with suppress(_TimeOver):
        if any(map(store.facts, workflows)):
            score_runs(
                store,
                measures=needed_measures(policies),
                where=request.where,
                workflows=workflows,
                declared=notebook.settings.declared,
                progress=_Reading((), request.enough or (lambda: False)).step,
            )
    held = baselines.load_baselines(policies)
    return _decided(notebook, policies, request, held, _set_aside(notebook, request, held))


def _decided(
    notebook: Notebook,
    policies: Sequence[WorkflowPolicy],
    request: GateOptions,
    held: Mapping[str, Sample | GateAnswer],
    set_aside: int,
    *,
    apart: bool = False,
) -> GateReport:
    settings = notebook.settings
    if any(CONDUCT in policy.reads for policy in policies):
        names = {policy.workflow for policy in policies} | {""}
        own = [rule for rule in settings.policy if rule.workflow in names]
        rules: dict[str, Sequence[PolicyRule]] = {"settings": own}
        known = set(settings.tools)
        for run in notebook.trajectories():
            known.update(tool.name for tool in run.tools or ())
            known.update(call.name for step in run.steps for call in step.calls)
            if run.case is not None and run.workflow in names:
                rules[f"case {run.workflow}/{run.task}"] = run.case.policy
        for where, some in rules.items():
            gate_settings.check_tools(some, known, where=where)
    log = None if request.commit is None else request.log
    seen = None if log is None else looks.Looks.open(log)
    report = decide_gates(
        notebook.store,
        policies,
        baselines=held,
        where=request.where,
        commit=request.commit,
        attempt=request.attempt,
        looks=seen,
        seed=settings.seed if request.seed is None else request.seed,
        enough=request.enough,
        set_aside=set_aside,
        apart=apart,
    )
    if seen is not None:
        seen.save()
    return report


def _set_aside(
    notebook: Notebook, request: GateOptions, held: Mapping[str, Sample | GateAnswer]
) -> int:
    """Return how many records the imports of the runs under test could not read.

    Where only runs of the baselines are there, later imports brought the same runs again; those
    that they did not bring are counted as well.
    """
    known = [b.runs for b in held.values() if isinstance(b, Sample)]
    own = {run.id for runs in known for run in runs}
    runs = notebook.store.runs(request.where)
    ids = {id_ for id_, name in zip(runs.id, runs.workflow, strict=True) if name in held}
    new = {id_ for id_ in ids if id_[: baselines.ID_DIGITS] not in own}
    bodies = notebook.store.accounts_with(new or ids, later=not new)
    found = [msgspec.convert(body, Account) for body in bodies]
    brought = sum(account.runs for account in found)
    short = max(0, len(ids) - brought) if brought and not new else 0
    return max(short, sum(account.unread for account in found))


def gate_files(
    paths: Sequence[str],
    settings: Settings,
    policies: Sequence[WorkflowPolicy],
    request: GateOptions = _DEFAULTS,
) -> tuple[GateReport, list[str]]:
    """Read runs into a store of their own, score what the gates read, and decide; see `gate_store`.

    A file that was named and cannot be read, or holds nothing, counts as one record, unless no run
    was read at all.

    Returns:
        The report, and what was read and is no run, one line each.

    Raises:
        TraceError: no run was read, and a file that was named is no trace.
    """
    reading = _Reading(paths, request.enough or (lambda: False))
    with (
        tempfile.TemporaryDirectory(prefix="stepscope-gate-") as folder,
        open(Path(folder) / "runs.db", settings=settings) as notebook,
    ):
        try:
            reading.fill(notebook)
            notebook.score(measures=needed_measures(policies), progress=reading.step)
        except _TimeOver:
            # Every gate that is asked from here on is out of time, which is what the report says.
            pass
        held = baselines.load_baselines(policies)
        report = _decided(notebook, policies, request, held, reading.set_aside, apart=True)
    return report, reading.remarks()


class _Reading:
    """The paths under test while they are read: what came of each, and which were refused."""

    def __init__(self, paths: Sequence[str], over: Callable[[], bool]) -> None:
        self.paths, self.over = paths, over
        self.added: list[Added] = []
        self.refused: list[TraceError] = []
        self.barren = 0  # files that were named, of a known format, and hold nothing

    def step(self, done: int, total: int) -> None:
        if self.over():
            raise _TimeOver

    def fill(self, notebook: Notebook) -> None:
        for path in self.paths:
            try:
                added = notebook.add(path, progress=self.step)
                self.added.append(added)
                held = any(a.runs or a.scores or a.unread for a in added.files)
                self.barren += Path(path).is_file() and not held
            except TraceError as e:
                if path != "-" and not os.path.lexists(path):
                    raise
                self.refused.append(e)
        if self.refused and not len(notebook.store.runs()):
            raise self.refused[0]

    @property
    def set_aside(self) -> int:
        """Records and named files that could not be read."""
        unread = [account.unread for added in self.added for account in added.files]
        return sum(unread) + len(self.refused) + self.barren

    def remarks(self) -> list[str]:
        said = [str(e) for e in self.refused]
        if len(self.added) + len(self.refused) < len(self.paths):
            said.append("the time was over before all runs were read")
        if self.set_aside:
            said.append(f"{self.set_aside:,} records could not be read, each at its worst")
        if skipped := sum(added.skipped for added in self.added):
            said.append(f"{skipped:,} files hold no runs")
        repaired: Counter[str] = sum((Counter(added.repaired) for added in self.added), Counter())
        if repaired:
            found = ", ".join(f"{n:,} {code}" for code, n in sorted(repaired.items()))
            said.append(f"read after a repair: {found}")
        return said


def choose_policies(
    settings: Settings,  # where they are declared
    workflows: Iterable[str] = (),  # names; empty for all
    *,
    baseline: str | None = None,  # a file to compare with instead of the one that the settings name
    trials: int | None = None,  # how often each case must have been run, not as the settings say
    cases: Iterable[str] = (),  # that must have been run, not those of the baseline
    tier: str | Sequence[str] | None = None,  # whose gates are run, not as the settings say
) -> tuple[WorkflowPolicy, ...]:
    """Return the policies to gate, all with gates or those named; UsageError without any."""
    gated = {policy.workflow: policy for policy in settings.policies if policy.gates}
    names = tuple(dict.fromkeys(workflows)) or tuple(gated)
    if not gated:
        raise UsageError(
            "no gate is declared; add [workflow.NAME.gates] to stepscope.toml, or let "
            "stepscope init write gates for the runs of the store"
        )
    if absent := [name for name in names if name not in gated]:
        near = suggest_name(absent[0], gated)
        raise UsageError(f"no gates are declared for workflow {absent[0]!r}; {near}")
    policies = tuple(gated[name] for name in names)
    for policy in policies:
        if policy.agent != gate_settings.RECORDED:
            raise UsageError(
                f"workflow {policy.workflow!r}: agent = {policy.agent!r} would have to be run; "
                f'this release gates recorded runs only, so say agent = "{gate_settings.RECORDED}"'
            )
    told = {"baseline": baseline, "trials": trials, "cases": tuple(dict.fromkeys(cases))}
    changed: dict[str, Any] = {name: value for name, value in told.items() if value}
    if tier is not None:
        listed = tier.split(",") if isinstance(tier, str) else tier
        changed["tier"] = tuple(dict.fromkeys(filter(None, map(str.strip, listed))))
        gate_settings.refuse_tier(changed["tier"], settings.policies, "--tier")
    for name in ("baseline", "cases"):
        if name in changed and len(policies) > 1:
            raise UsageError(f"--{name} is one workflow's; choose it with --workflow")
    return tuple(msgspec.structs.replace(policy, **changed) for policy in policies)


def find_look_log(settings: Settings) -> Path | None:
    """Return where the log of looks lies: beside the first baseline that the settings name."""
    named = (policy.baseline for policy in settings.policies if policy.baseline is not None)
    return next((looks.look_log_path(path) for path in named), None)


def needed_measures(policies: Iterable[WorkflowPolicy]) -> tuple[str, ...]:
    """Return the installed measures that the gates read, sorted."""
    known = registry.names("measures")
    found = set()
    for name in {name for policy in policies for name in policy.reads}:
        words = name.split(".")
        wholes = [".".join(words[:length]) for length in range(len(words), 0, -1)]
        found.update([whole for whole in wholes if whole in known][:1])
        found.update(filter(is_signed, known) if name == gate_settings.MODES else ())
    return tuple(sorted(found))


# Gates that any workflow may have, as settings write them; runs say which of them can decide.
DRAFT: dict[str, str] = {
    "outcome": "{ max_drop = 0.05 }",
    "policy": "{ max_per_run = 0 }",
    "no_new_modes": '{ severity = "soft" }',
    "step_efficiency": '{ max_ratio_to_baseline_median = 1.3, severity = "soft" }',
    "cost_usd": '{ max_ratio_to_baseline_median = 1.3, severity = "soft" }',
}
# Workflows that gates are written for, those of the most runs: a person reads them all.
MOST_WORKFLOWS = 20
# A file's name may have no other characters of a workflow's, and no more of them.
_FILE_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class GateDraft(msgspec.Struct, frozen=True):
    """Gates for one workflow, and what its runs say of them."""

    workflow: str
    path: str  # of the baseline, relative to the settings
    baseline: Sample
    version: str  # whose runs the baseline is made of, where there are several
    gates: tuple[GateDecision, ...]  # those that decide on these runs, with their power
    left_out: tuple[GateDecision, ...]  # those that cannot, with the reason


def draft_gates(notebook: Notebook, folder: Path) -> list[GateDraft]:
    """Return gates decided on a store's runs; a baseline that stands in `folder` stays."""
    runs = notebook.store.runs()
    versions = Counter(zip(runs.workflow, runs.agent, runs.agent_version, strict=True))
    named = sorted({key[0] for key in versions if scrub_value(key[0]) == key[0] != ""})
    most: dict[str, tuple[str | None, ...]] = {}
    for key in sorted(versions, key=lambda key: (-versions[key], *map(str, key))):
        if key[0] in named and len(most) < MOST_WORKFLOWS:
            most.setdefault(key[0], key)
    if not most:
        return []
    fields = ("workflow", "agent", "agent_version")
    texts = (" and ".join(map(_equal, fields, key)) for key in most.values())
    where = parse_where(" or ".join(f"({text})" for text in texts))
    written = tomllib.loads("\n".join(f"{name} = {said}" for name, said in DRAFT.items()))
    policies, held = list[WorkflowPolicy](), dict[str, Sample | GateAnswer]()
    for name in most:
        stem = _FILE_NAME.sub("-", name)[:60].strip("-") or "runs"
        stem += "" if stem == name else f"-{digest(name)[:6]}"
        table = gate_settings.WorkflowTable(
            baseline=str(folder / "baselines" / f"{stem}.json"), gates=written
        )
        policy = gate_settings.read_policy(name, table, where="drafted gates")
        there = baselines.load_baseline(policy.baseline, name)
        if not isinstance(there, Sample):
            there = baselines.make_baseline(notebook.store, policy, where=where)
        held[name] = there
        policies.append(policy)
    first = decide_gates(notebook.store, policies, baselines=held, where=where).workflows
    decided = {one.workflow: one.gates for one in first}
    able = {name: {g.name for g in gates if g.outcome == "pass"} for name, gates in decided.items()}
    # What is left out spends no part of the error rate, so that the others see more.
    kept = [
        msgspec.structs.replace(one, gates=tuple(g for g in one.gates if g.name in able[name]))
        for one in policies
        if able[name := one.workflow]
    ]
    last = decide_gates(notebook.store, kept, baselines=held, where=where).workflows if kept else ()
    powers = {one.workflow: one.gates for one in last}
    several = {x: key[1:] for x, key in most.items() if sum(x == one[0] for one in versions) > 1}
    drafts = []
    for one in policies:
        if isinstance(sample := held[one.workflow], Sample):
            name, path = one.workflow, str(Path(str(one.baseline)).relative_to(folder))
            version = " ".join(filter(None, several.get(name, ())))
            left = tuple(g for g in decided[name] if g.outcome != "pass")
            drafts.append(GateDraft(name, path, sample, version, powers.get(name, ()), left))
    return drafts


def _equal(field: str, value: str | None) -> str:
    return f"{field} = " + ("null" if value is None else "'" + value.replace("'", "''") + "'")
