"""The pytest plugin: recorded runs as tests, and gates as assertions; needs no key.

Loaded in every pytest session by its entry point, so it imports nothing else until a test asks.
An agent that would have to be run is refused in words: only recorded runs are tested so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepscope.model import Quarantined, Trajectory
    from stepscope.settings import Settings
    from stepscope.testing.fixtures import GateCheck, RecordedRun

MARK = "stepscope"
_KNOWN = ("cases", "agent", "trials")
_MOST = 1000  # as for gates
# Paths -> what was read of them: many tests of a session share recordings.
_READ = pytest.StashKey[dict[tuple[str, ...], "list[Trajectory | Quarantined]"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--stepscope-repeat` and `--stepscope-tier`."""
    group = parser.getgroup("stepscope")
    told = "Whose gates `stepscope_gate` runs where a test names none: rules,step_labels."
    group.addoption("--stepscope-tier", default=None, metavar="SOURCES", help=told)
    told = "Trials of each case, whatever @pytest.mark.stepscope says."
    group.addoption("--stepscope-repeat", type=int, default=None, metavar="N", help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "stepscope(cases, agent='recorded', trials=None): one test for each case and trial of the "
        "recorded runs, with the fixture `trajectory`",
    )
    repeat = config.getoption("--stepscope-repeat")
    if repeat is not None and not 1 <= repeat <= _MOST:
        raise pytest.UsageError(f"--stepscope-repeat is {repeat}; expected 1 to {_MOST}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test a case and trial."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None or "trajectory" not in metafunc.fixturenames:
        return
    from stepscope.errors import StepscopeError
    from stepscope.safety.text import visible_line
    from stepscope.testing.fixtures import list_tests, read_recordings

    config = metafunc.config
    try:
        trials = _trials(mark, config)
        settings = _settings(config)
        cases = mark.kwargs["cases"]
        several = [cases] if isinstance(cases, str | Path) else list(cases)
        paths = tuple(str(config.rootpath / path) for path in several)
        held = config.stash.setdefault(_READ, {})
        if paths not in held:
            held[paths] = read_recordings(paths, settings.limits)
        made = list_tests(held[paths], trials, settings.declared)
    except StepscopeError as e:
        where = metafunc.definition.nodeid
        raise pytest.Collector.CollectError(f"{where}: {visible_line(str(e))}") from e
    metafunc.parametrize(
        "trajectory", [one for _, one in made], ids=[name for name, _ in made], indirect=True
    )


@pytest.fixture
def trajectory(request: pytest.FixtureRequest) -> RecordedRun:
    """One recorded run of the marker's cases."""
    run: RecordedRun | str | None = getattr(request, "param", None)
    if run is None:
        pytest.fail("`trajectory` needs @pytest.mark.stepscope(cases=...)", pytrace=False)
    if isinstance(run, str):
        pytest.fail(run, pytrace=False)
    return run


@pytest.fixture
def stepscope_gate(pytestconfig: pytest.Config) -> Callable[..., GateCheck]:
    """Decide the gates of a workflow: `stepscope_gate("refunds").check(undecided="skip")`."""

    def gate(
        workflow: str,
        *,
        runs: str | Path | Sequence[str | Path] | None = None,
        baseline: str | Path | None = None,
        tier: str | Sequence[str] | None = None,
    ) -> GateCheck:
        __tracebackhide__ = True
        from stepscope.testing.fixtures import decide_workflow

        config = _settings(pytestconfig)
        tier = pytestconfig.getoption("--stepscope-tier") if tier is None else tier
        root = pytestconfig.rootpath
        return decide_workflow(config, workflow, runs=runs, baseline=baseline, tier=tier, root=root)

    return gate


def _trials(mark: pytest.Mark, config: pytest.Config) -> int | None:
    from stepscope.errors import UsageError
    from stepscope.testing.fixtures import RECORDED

    given: dict[str, Any] = dict(mark.kwargs)  # Any: whatever the test's author wrote
    unknown = sorted(set(given) - set(_KNOWN))
    if mark.args or unknown or "cases" not in given:
        said = f"unknown {unknown[0]!r}" if unknown else "cases=... is missing"
        raise UsageError(f"@pytest.mark.stepscope: {said}; it takes {', '.join(_KNOWN)} by name")
    agent = given.get("agent", RECORDED)
    if agent != RECORDED:
        raise UsageError(
            f"@pytest.mark.stepscope: agent = {agent!r} would have to be run, which comes with "
            f"replay in a later release; until then agent = {RECORDED!r} tests recorded runs"
        )
    trials = given.get("trials")
    if trials is not None and (not isinstance(trials, int) or not 1 <= trials <= _MOST):
        raise UsageError(f"@pytest.mark.stepscope: trials is {trials!r}; expected 1 to {_MOST}")
    repeat: int | None = config.getoption("--stepscope-repeat")
    return trials if repeat is None else repeat


def _settings(config: pytest.Config) -> Settings:
    from stepscope.settings import load_settings

    return load_settings(config.rootpath)
