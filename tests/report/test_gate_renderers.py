"""Gates as text, JSON, Markdown and JUnit: what counts is one thing, and hostile text is inert."""

from __future__ import annotations

import itertools
import json
import re
from importlib import resources
from xml.etree import ElementTree

import msgspec
import pytest

from stepscope.gates.types import (
    CaseFailure,
    Cause,
    GateDecision,
    GateOutcome,
    GateReport,
    Severity,
    WorkflowDecision,
    exit_code,
)
from stepscope.report import types
from stepscope.report.render import data, markdown, text
from stepscope.report.views import gates
from tests.report.literal import HOSTILE, rate
from tests.report.schemas import make_gate_schema

NASTY = (
    f"\n::error::{HOSTILE} ##[add-mask]x @team Fixes #1 ```\n--> </code> ]]> "
    f"{'::warning:: ' * 40}{'z' * 500}"
)


def gate(
    outcome: GateOutcome = "pass",
    severity: Severity = "hard",
    cause: Cause | None = None,
    *,
    text: str = "",
    cases: int = 0,
) -> GateDecision:
    case = CaseFailure(case=f"7{text}", runs=(f"w/7/0{text}",), ids=("ab",), steps=(3,))
    case = msgspec.structs.replace(case, evidence=f"said{text}")
    return GateDecision(
        name=f"outcome{text}",
        measure="outcome",
        rule="proof",
        threshold="max_rate = 0.1",
        severity=severity,
        outcome=outcome,
        cause=cause,
        reason=f"4 of 20{text}",
        estimate=rate(0.2, 0.1, 0.4),
        p=0.01,
        p_adjusted=0.0004,
        failing=(case,) * cases,
        n_failing=cases,
    )


def report(*gates: GateDecision, text: str = "") -> GateReport:
    workflow = WorkflowDecision(
        workflow=f"airline{text}", n_runs=20, n_cases=5, vanished=(f"9{text}",), gates=gates
    )
    return GateReport(
        workflows=(workflow,),
        commit=None,
        policy_hash="0" * 16,
        look=1,
        alpha=0.05,
        alpha_look=0.025,
        tier=("rules",),
        seed=0,
    )


ANSWERS: list[tuple[GateOutcome, Cause | None]] = [
    ("pass", None),
    ("fail", None),
    ("undecided", "interval"),
    ("undecided", "no_runs"),
    ("not_run", "source_not_in_tier"),
]
SEVERITIES: tuple[Severity, ...] = ("hard", "soft")
GATES = [gate(outcome, severity, cause) for outcome, cause in ANSWERS for severity in SEVERITIES]


@pytest.mark.parametrize("fail_on", ["hard", "soft"])
@pytest.mark.parametrize("undecided", [None, "pass", "fail"])
def test_junit_fails_exactly_where_the_exit_code_does(fail_on: Severity, undecided: None) -> None:
    for pair in itertools.product(GATES, repeat=2):
        made = report(*pair)
        code = exit_code(made, fail_on=fail_on, undecided=undecided)
        root = ElementTree.fromstring(
            data.render_gate_junit(made, fail_on=fail_on, undecided=undecided)
        )
        failed, wrong = root.findall(".//failure"), root.findall(".//error")
        assert code == (3 if failed else 4 if wrong else 0), (pair, fail_on, undecided)
        suite = root.find("testsuite")
        assert suite is not None
        assert suite.get("failures") == str(len(failed))


@pytest.mark.parametrize(("cause", "word"), [("no_runs", "undecided"), (None, "pass")])
def test_no_heading_says_pass_where_a_soft_gate_could_not_be_measured(
    cause: Cause | None, word: str
) -> None:
    outcome: GateOutcome = "pass" if cause is None else "undecided"
    made = report(gate(), gate(outcome, "soft", cause))
    assert f"airline   {word}   20 runs" in text.render(
        gates.make_gate_document(made, code=0), log=True
    )
    heading = markdown.render_comments(made)["airline"].split("\n")[1]
    assert heading.endswith(f"Gates of <code>airline</code>: {word}")


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_and_nothing_hostile_reaches_the_terminal(width: int) -> None:
    made = report(gate("fail", text=NASTY, cases=9), text=NASTY)
    shown = text.render(gates.make_gate_document(made, code=3, remarks=[NASTY]), width, log=True)
    lines = shown.split("\n")
    assert max(len(line) for line in lines) <= width
    assert not any(line.lstrip().startswith("::") for line in lines)
    assert "##[" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "... 4 more cases" in shown


def test_a_comment_holds_nothing_that_markdown_html_or_the_forge_acts_on() -> None:
    made = report(gate("fail", text=NASTY, cases=2), text=NASTY)
    (text,) = markdown.render_comments(made, remarks=[NASTY]).values()
    head, body = text.split("\n", 1)
    assert re.fullmatch(r"<!-- stepscope:gate:[A-Za-z0-9._~%]+ -->", head)
    assert head.count("--") == 2
    inked = re.sub(r"&#\d+;", "", body)
    for active in ("@", "#1", "```", "<img", "[a]", "://", "\x1b", "::", "-->", "\u202e"):
        assert active not in inked
    assert set(re.findall(r"<[^>]*>", body)) == {"<code>", "</code>"}
    rows = [line for line in body.split("\n") if line.startswith("| ❌")]
    assert [line.count("|") for line in rows] == [8]


def test_each_workflow_has_a_marker_of_its_own_and_a_long_comment_is_cut_between_lines() -> None:
    one, two = report(gate()), report(gate(), text="/a")
    both = msgspec.structs.replace(one, workflows=one.workflows + two.workflows)
    heads = [text.split("\n")[0] for text in markdown.render_comments(both).values()]
    assert heads == ["<!-- stepscope:gate:airline -->", "<!-- stepscope:gate:airline%2Fa -->"]
    many = report(*(gate("fail", text="&<" * 40, cases=10) for _ in range(60)))
    (text,) = markdown.render_comments(many).values()
    assert len(text) < 65_536
    assert text.endswith("\n\nCut here: see the job's own log.\n")
    assert text.split("\n")[-4].endswith(" |")


def test_hostile_text_survives_json_and_junit_as_data() -> None:
    made = report(gate("fail", text=NASTY, cases=1), text=NASTY)
    text = data.render_gate_json(made, code=3)
    assert "##[" not in text
    document = msgspec.json.decode(text, type=types.GateDocument)
    assert (document.exit_code, document.outcome, document.report) == (3, "fail", made)
    xml = data.render_gate_junit(made)
    assert "##[" not in xml
    assert not any(line.lstrip().startswith("::") for line in xml.split("\n"))
    root = ElementTree.fromstring(xml)
    case = root.find(".//testcase")
    assert case is not None
    assert "@team Fixes #1" in str(case.get("name"))


def test_the_published_schema_is_the_structs_own() -> None:
    published = resources.files("stepscope.report").joinpath("gate.schema.json").read_bytes()
    assert published == make_gate_schema(), "see tests.report.schemas"
    assert json.loads(published)["$defs"]["GateDecision"]


def test_the_same_report_gives_the_same_bytes() -> None:
    made = report(gate("fail", cases=2))
    assert data.render_gate_json(made, code=3) == data.render_gate_json(made, code=3)
    assert "time" not in data.render_gate_json(made, code=3)
