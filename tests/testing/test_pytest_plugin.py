"""The plugin as a user's project loads it: a pytest of its own, in its own process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
POLICY = """
[workflow.airline]
baseline = "base.json"
[workflow.airline.gates]
outcome = { max_drop = 0.05 }
loops = { max_per_run = 9 }
[[policy]]
name = "confirm before booking"
before = "book_reservation"
require = "confirm"
"""
CASES = """
import pytest

@pytest.mark.stepscope(cases="runs.json"{more})
def test_path(trajectory):
    {body}
"""
GATE = """
def test_gate(stepscope_gate):
    stepscope_gate("airline", {given}).check({how})
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:xdist -p no:cacheprovider\n")
    (pytester.path / "runs.json").write_bytes(RUNS.read_bytes())
    (pytester.path / "stepscope.toml").write_text(POLICY, encoding="utf-8")
    return pytester


def run_cases(
    project: pytest.Pytester, body: str, more: str = "", *options: str
) -> pytest.RunResult:
    project.makepyfile(CASES.format(body=body, more=more))
    return project.runpytest_subprocess("-v", *options)


@pytest.mark.parametrize(
    ("more", "options", "n"),
    [
        (", trials=2", (), 10),
        (", trials=2, agent='recorded'", ("--stepscope-repeat", "3"), 15),
    ],
)
def test_each_case_and_trial_is_a_test(
    project: pytest.Pytester, more: str, options: tuple[str, ...], n: int
) -> None:
    result = run_cases(project, "assert trajectory.run.steps", more, *options)
    result.assert_outcomes(passed=n)
    result.stdout.fnmatch_lines(["*test_path?11-0? PASSED*"])


def test_a_trial_that_was_never_recorded_is_no_pass(project: pytest.Pytester) -> None:
    result = run_cases(project, "pass", ", trials=5")
    result.assert_outcomes(passed=20, errors=5)
    result.stdout.fnmatch_lines(["*case 11: 4 of 5 trials were recorded*"])


@pytest.mark.parametrize(("more", "repeat"), [(", trials=10**12", "1"), ("", "1000000000000")])
def test_no_more_trials_are_asked_for_than_a_gate_takes(
    project: pytest.Pytester, more: str, repeat: str
) -> None:
    result = run_cases(project, "pass", more, "--stepscope-repeat", repeat)
    assert result.ret not in (0, pytest.ExitCode.INTERNAL_ERROR)
    assert "expected 1 to 1000" in result.stdout.str() + result.stderr.str()


def test_a_record_that_cannot_be_read_is_no_pass(project: pytest.Pytester) -> None:
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    del runs[0]["traj"]
    (project.path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    result = run_cases(project, "pass")
    result.assert_outcomes(passed=19, errors=1)
    result.stdout.fnmatch_lines(["*1 records could not be read*"])


PATHS = {
    "known": ("assert trajectory.match(['get_user_details'], mode='in_order')", 13),
    "booked": ("assert trajectory.match(['get_user_details', 'book_reservation'])", 5),
    "nobody": ("assert trajectory.match([('get_user_details', {'user_id': 'nobody'})])", 0),
    "asked": ("assert not trajectory.violations('confirm before booking')", 18),
    "no_rule": ("trajectory.violations('no such rule')", 0),
    "empty": ("trajectory.match([])", 0),
    "mixed": ("trajectory.match(['a', ('b', {})])", 20),
    "sideways": ("trajectory.match(['a'], mode='sideways')", 0),
    "refund": ("assert trajectory.match(['refund'])", 0),
}
SAYS = [
    "*no rule of conduct 'no such rule' is declared; known: 'confirm before booking'*",
    "*match needs names of tools*",
    "*match mode 'sideways'*",
    "*no match in_order: called *wanted refund; missed refund*",
]


def test_a_path_is_matched_and_its_violations_are_found(project: pytest.Pytester) -> None:
    marked = "@pytest.mark.stepscope(cases='runs.json')\ndef test_{}(trajectory): {}\n"
    tests = [marked.format(name, body) for name, (body, _) in PATHS.items()]
    project.makepyfile("import pytest\n" + "".join(tests))
    result = project.runpytest_subprocess("-v")
    shown = result.stdout.str()
    passed = {name: len(re.findall(rf"test_{name}\[.*PASSED", shown)) for name in PATHS}
    assert passed == {name: n for name, (_, n) in PATHS.items()}
    for says in SAYS:
        result.stdout.fnmatch_lines([says])


MARKS = [
    ("cases='runs.json', agent='my_agent:run'", "*agent = 'my_agent:run'*later release*"),
    ("cases='nowhere'", "*nowhere*"),
    ("cases='folder'", "*folder*"),
    ("trials=2", "*cases=... is missing*"),
    ("cases='runs.json', trial=2", "*unknown 'trial'*"),
    ("cases='runs.json', trials=0", "*trials is 0*"),
]


def test_a_marker_that_tests_nothing_is_an_error_not_an_empty_pass(
    project: pytest.Pytester,
) -> None:
    (project.path / "folder").mkdir()
    text = "import pytest\n@pytest.mark.stepscope({})\ndef test_path(trajectory): pass\n"
    for at, (mark, _) in enumerate(MARKS):
        (project.path / f"test_{at}.py").write_text(text.format(mark), encoding="utf-8")
    result = project.runpytest_subprocess()
    result.assert_outcomes(errors=len(MARKS))
    for _, says in MARKS:
        result.stdout.fnmatch_lines([says])
    assert "Traceback" not in result.stdout.str()


def test_the_fixture_without_its_marker_says_what_it_needs(project: pytest.Pytester) -> None:
    project.makepyfile("def test_path(trajectory): pass\n")
    result = project.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*needs @pytest.mark.stepscope(cases=...)*"])


def test_a_hostile_case_reaches_neither_terminal_nor_log(project: pytest.Pytester) -> None:
    runs = json.loads(RUNS.read_text(encoding="utf-8"))[:1]
    runs[0]["task_id"] = "\n::error::x\x1b[2J"
    (project.path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    result = run_cases(project, "assert False")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    assert "\x1b[2J" not in shown
    assert not any(line.startswith("::") for line in shown.split("\n"))


def test_a_project_that_never_asks_loads_nothing_of_stepscope(project: pytest.Pytester) -> None:
    project.makepyfile(
        "import sys\ndef test_nothing():\n"
        "    assert 'stepscope.model' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


def gate(project: pytest.Pytester, given: str, how: str = "") -> pytest.RunResult:
    project.makepyfile(GATE.format(given=given, how=how))
    return project.runpytest_subprocess("-rs")


LOOPS_ONLY = "[workflow.airline.gates]\nloops = { max_per_run = %s }\n"
RATE = "[workflow.airline.gates]\noutcome = { min_rate = 0.4, rule = 'proof' }\n"


def test_a_gate_passes_and_fails_a_test(project: pytest.Pytester) -> None:
    settings = project.path / "stepscope.toml"
    settings.write_text(LOOPS_ONLY % 9, encoding="utf-8")
    gate(project, "runs='runs.json'").assert_outcomes(passed=1)
    settings.write_text(LOOPS_ONLY % 6, encoding="utf-8")
    result = gate(project, "runs='runs.json'", "undecided='skip'")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*case 9: airline/9/2, steps 48*"])


def test_an_undecided_gate_skips_or_fails_and_never_passes(project: pytest.Pytester) -> None:
    (project.path / "stepscope.toml").write_text(RATE, encoding="utf-8")
    given = "runs='runs.json'"
    ways = [
        GATE.format(given=given, how=how) for how in ("undecided='skip'", "undecided='fail'", "")
    ]
    tests = [way.replace("test_gate", f"test_gate_{at}") for at, way in enumerate(ways)]
    project.makepyfile("".join(tests))
    project.runpytest_subprocess().assert_outcomes(skipped=1, failed=2)


DEEP = LOOPS_ONLY % 9 + "no_detours = { max_per_run = 0, source = 'step_labels' }\n"


@pytest.mark.parametrize(
    ("given", "options", "passed", "says"),
    [
        ("", (), 1, "*1 passed*"),
        (
            "",
            ("--stepscope-tier", "rules,step_labels"),
            0,
            "*stepscope judge --rubric step_labels*",
        ),
        (", tier=['rules', 'step_labels']", (), 0, "*stepscope judge --rubric step_labels*"),
        (", tier='rules'", ("--stepscope-tier", "rules,step_labels"), 1, "*1 passed*"),
        ("", ("--stepscope-tier", "rule"), 0, "*no gate has the source 'rule'; did you mean*"),
    ],
)
def test_a_tier_is_an_option_that_a_test_may_outrank(
    project: pytest.Pytester, given: str, options: tuple[str, ...], passed: int, says: str
) -> None:
    (project.path / "stepscope.toml").write_text(DEEP, encoding="utf-8")
    project.makepyfile(GATE.format(given=f"runs='runs.json'{given}", how=""))
    result = project.runpytest_subprocess(*options)
    result.assert_outcomes(passed=passed, failed=1 - passed)
    result.stdout.fnmatch_lines([says])


UNMEASURED = [
    ("runs='runs.json'", "*there is no file*"),
    ("runs='runs.json', baseline='stepscope.toml'", "*is not a baseline*"),
    ("runs='nowhere'", "*nowhere*"),
    ("", "*no store at*"),
]


def test_a_gate_that_could_not_be_measured_fails_even_where_undecided_skips(
    project: pytest.Pytester,
) -> None:
    gates = [GATE.format(given=given, how="undecided='skip'") for given, _ in UNMEASURED]
    tests = [one.replace("test_gate", f"test_gate_{at}") for at, one in enumerate(gates)]
    project.makepyfile("".join(tests))
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=len(UNMEASURED))
    for _, says in UNMEASURED:
        result.stdout.fnmatch_lines([says])
