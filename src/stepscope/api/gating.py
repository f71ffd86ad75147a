"""Gates from end to end: choose the policies, read and score runs, decide, keep the log of looks.

Only recorded runs are gated: an agent that must be run first is refused, never taken for a pass.
Nothing is decided here; `gates.decide` is the only place where that happens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from stepscope import registry
from stepscope.api.adding import Added
from stepscope.api.notebook import Notebook, open
from stepscope.errors import UsageError
from stepscope.gates import baseline as baselines
from stepscope.gates import difference, looks
from stepscope.gates.decide import decide
from stepscope.gates.exit import exit_code
from stepscope.gates.policy import RECORDED, WorkflowPolicy
from stepscope.gates.quantities import hint
from stepscope.gates.reading import check_tools
from stepscope.gates.types import GateReport, Severity
from stepscope.report import gate_json, gate_junit, gate_markdown, gate_text
from stepscope.settings import Settings
from stepscope.store.where import Where

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
        self.report = report
        self.remarks = tuple(remarks)
        self.fail_on = fail_on
        self.undecided = undecided

    @property
    def exit_code(self) -> int:
        """0 pass, 3 a gate failed, 4 undecided or unmeasured."""
        return exit_code(self.report, undecided=self.undecided, fail_on=self.fail_on)

    def text(self, width: int = 100) -> str:
        """Return the table for a terminal."""
        return gate_text.render(self.report, code=self.exit_code, remarks=self.remarks, width=width)

    def json(self) -> str:
        """Return the report as JSON."""
        return gate_json.render(self.report, code=self.exit_code, remarks=self.remarks)

    def markdown(self) -> str:
        """Return every workflow's comment, one after the other."""
        return gate_markdown.render(self.report, code=self.exit_code, remarks=self.remarks)

    def comments(self) -> dict[str, str]:
        """Return one comment a workflow, each beginning with its marker."""
        return gate_markdown.comments(self.report, remarks=self.remarks)

    def junit(self) -> str:
        """Return the report as JUnit XML: errors and failures exactly where the exit code says."""
        return gate_junit.render(
            self.report, remarks=self.remarks, fail_on=self.fail_on, undecided=self.undecided
        )

    def __repr__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of one invocation.

    Attributes:
        where: which runs are under test.
        commit: what is under test; without it reruns are not seen.
        attempt: how often this commit was gated at least, this time included.
        log: the file of the log of looks, kept where the commit is known; None keeps none.
        seed: where permutations that are drawn start; that of the settings when left out.
        enough: asked now and then; once it says yes, what is left is out of time.
    """

    where: Where | None = None
    commit: str | None = None
    attempt: int = 1
    log: Path | None = None
    seed: int | None = None
    enough: Callable[[], bool] | None = None


_ASKED = Request()


def gate(
    notebook: Notebook, policies: Sequence[WorkflowPolicy], request: Request = _ASKED
) -> GateReport:
    """Decide the gates of a store's runs; with a commit, the log of looks is kept.

    Args:
        notebook: the store, scored before, and the settings.
        policies: as `chosen` gives them.
        request: what is asked.

    Raises:
        ConfigError: the log of looks is torn, or a rule of conduct names a tool nobody knows.
        StoreError: the records of a measure are of two versions.
        UsageError: there is nothing to gate.
    """
    settings = notebook.settings
    if any(CONDUCT in policy.reads for policy in policies) and settings.policy:
        names = {policy.workflow for policy in policies} | {""}
        rules = [rule for rule in settings.policy if rule.workflow in names]
        check_tools(rules, _tools(notebook), where="settings")
    log = None if request.commit is None else request.log
    held = looks.Looks() if log is None else looks.Looks.open(log)
    report = decide(
        notebook.store,
        policies,
        baselines=baselines.load_all(policies),
        where=request.where,
        commit=request.commit,
        attempt=request.attempt,
        looks=held,
        seed=settings.seed if request.seed is None else request.seed,
        enough=request.enough,
    )
    held.save()
    return report


def gate_files(
    paths: Sequence[str],
    settings: Settings,
    policies: Sequence[WorkflowPolicy],
    request: Request = _ASKED,
) -> tuple[GateReport, Added | None]:
    """Read runs into a store of their own, score what the gates read, and decide; see `gate`.

    Returns:
        The report, and the account of the files; None where the time was over before their end.
    """
    over = request.enough or (lambda: False)

    def step(done: int, total: int) -> None:
        if over():
            raise _TimeOver

    added: Added | None = None
    with (
        tempfile.TemporaryDirectory(prefix="stepscope-gate-") as folder,
        open(Path(folder) / "runs.db", settings=settings) as notebook,
    ):
        try:
            added = notebook.add(list(paths), progress=step)
            notebook.score(measures=needed(policies), progress=step)
        except _TimeOver:
            # Every gate that is asked from here on is out of time, which is what the report says.
            pass
        report = gate(notebook, policies, request)
    return report, added


def update(
    notebook: Notebook,
    policy: WorkflowPolicy,
    *,
    where: Where | None = None,
    commit: str | None = None,
) -> tuple[baselines.Baseline, difference.BaselineDiff]:
    """Return the baseline that the chosen runs make, and what it changes; nothing is written.

    Raises:
        DataError: no run, or runs that were never scored.
        StoreError: the records of a measure are of two versions.
    """
    new = baselines.make(notebook.store, policy, where=where, commit=commit)
    return new, difference.diff(baselines.load(policy.baseline, policy.workflow), new)


def chosen(
    settings: Settings, workflows: Iterable[str] = (), *, baseline: str | None = None
) -> tuple[WorkflowPolicy, ...]:
    """Return the policies to gate: all with gates, or those named.

    Args:
        settings: where they are declared.
        workflows: names; empty for all.
        baseline: a file to compare with instead of the one that the settings name.

    Raises:
        UsageError: a workflow without gates is named, none has any, one baseline for several, or
            an agent that must be run first.
    """
    gated = {policy.workflow: policy for policy in settings.policies if policy.gates}
    names = tuple(dict.fromkeys(workflows)) or tuple(gated)
    if not gated:
        raise UsageError(
            "no gate is declared; add [workflow.NAME.gates] to stepscope.toml, as in "
            "examples/gate/stepscope.toml"
        )
    for name in names:
        if name not in gated:
            raise UsageError(f"no gates are declared for workflow {name!r}; {hint(name, gated)}")
    policies = tuple(gated[name] for name in names)
    for policy in policies:
        if policy.agent != RECORDED:
            raise UsageError(
                f"workflow {policy.workflow!r}: agent = {policy.agent!r} would have to be run; "
                f'this release gates recorded runs only, so say agent = "{RECORDED}"'
            )
    if baseline is None:
        return policies
    if len(policies) > 1:
        raise UsageError(f"--baseline {baseline!r} is one workflow's; choose it with --workflow")
    return (msgspec.structs.replace(policies[0], baseline=baseline),)


def remarks(added: Added | None) -> list[str]:
    """Return what was read and is in no gate, one line each; nothing is dropped in silence."""
    if added is None:
        return ["the time was over before all runs were read"]
    said = []
    if added.quarantined:
        said.append(f"{added.quarantined:,} records could not be read and are in no gate")
    if added.skipped:
        said.append(f"{added.skipped:,} files hold no runs")
    if added.repaired:
        found = ", ".join(f"{n:,} {code}" for code, n in sorted(added.repaired.items()))
        said.append(f"read after a repair: {found}")
    return said


def log_of(settings: Settings) -> Path | None:
    """Return where the log of looks lies: beside the first baseline that the settings name."""
    named = (policy.baseline for policy in settings.policies if policy.baseline is not None)
    return next((looks.beside(path) for path in named), None)


def needed(policies: Iterable[WorkflowPolicy]) -> tuple[str, ...]:
    """Return the installed measures that the gates read, sorted."""
    known = registry.names("measures")
    found = set()
    for name in {name for policy in policies for name in policy.reads}:
        words = name.split(".")
        wholes = [".".join(words[:length]) for length in range(len(words), 0, -1)]
        found.update([whole for whole in wholes if whole in known][:1])
    return tuple(sorted(found))


def _tools(notebook: Notebook) -> set[str]:
    known = set(notebook.settings.tools)
    for run in notebook.trajectories():
        known.update(tool.name for tool in run.tools or ())
        known.update(call.name for step in run.steps for call in step.calls)
    return known
