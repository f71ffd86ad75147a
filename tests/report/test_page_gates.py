"""The page of gates: a history for each workflow, its baseline, and what to run where both lack."""

from __future__ import annotations

import msgspec

from stepscope.gates.looks import GateHistory, PolicyLooks
from stepscope.gates.types import GateDecision, GateOutcome, GateReport, WorkflowDecision
from stepscope.report.document import FileLinks, ServerLinks, Table
from stepscope.report.render.pages import render_body
from stepscope.report.types import GateDocument
from stepscope.report.views.gates import GatesContent, make_gates_page
from stepscope.values import Estimate

FELL = Estimate(value=0.2, low=0.1, high=0.3, method="permutation", n=40, n_tasks=10, level=0.9)
KEPT = GateHistory(
    workflow="refunds", file="refunds.json", holds="20 runs of 5 cases, commit abc, bot",
    changes=tuple(f"line {n}" for n in range(70)),
    looked=(PolicyLooks(commit="a" * 40, looks=2, runs=40, current=False),),
)  # fmt: skip


def decided(workflow: str, **outcomes: GateOutcome) -> WorkflowDecision:
    return WorkflowDecision(
        workflow=workflow,
        n_runs=40,
        n_cases=10,
        gates=tuple(
            GateDecision(
                name=name, measure=name, rule="regression", threshold="max_drop = 0.05",
                outcome=outcome, reason="because", estimate=FELL if outcome == "fail" else None,
            )
            for name, outcome in outcomes.items()
        ),
    )  # fmt: skip


def document(commit: str | None, *workflows: WorkflowDecision) -> GateDocument:
    said = GateReport(
        workflows=workflows, commit=commit, policy_hash="0" * 16, look=1, alpha=0.05,
        alpha_look=0.025, tier=("rules",), seed=0,
    )  # fmt: skip
    return GateDocument(exit_code=0, outcome="pass", report=said)


def content(
    *documents: GateDocument, kept: tuple[GateHistory, ...] = (), served: bool = False
) -> GatesContent:
    links = ServerLinks() if served else FileLinks()
    page = make_gates_page(documents, links=links, kept=kept)
    assert isinstance(page.content, GatesContent)
    return page.content


def cells(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_each_workflow_has_its_own_history_with_a_column_a_gate() -> None:
    found = content(
        document("c1", decided("refunds", outcome="pass"), decided("search", outcome="pass")),
        document(None, decided("refunds", outcome="fail", loops="pass")),
    )
    refunds, search = found.workflows
    assert refunds.history is not None
    assert [c.label for c in refunds.history.columns] == [
        "report", "commit", "all gates", "runs", "outcome", "loops",
    ]  # fmt: skip
    assert cells(refunds.history) == [
        ["2", "none said", "FAIL", "40", "FAIL", "pass"],
        ["1", "c1", "pass", "40", "pass", "no such gate"],
    ]
    assert refunds.history.rows[0].cells[4].note == ".200 [.100, .300]"
    assert (search.name, search.word, search.history) == ("search", "not decided", None)
    assert found.alone == ""


def test_one_report_alone_says_how_a_history_comes() -> None:
    assert content(document("c1", decided("refunds", outcome="pass"))).alone.startswith(
        "One report, so no history: name earlier ones as well"
    )


def test_a_baseline_is_shown_with_its_workflow_and_no_longer_than_can_be_read() -> None:
    (refunds,) = content(document("c1", decided("refunds", outcome="pass")), kept=(KEPT,)).workflows
    assert refunds.baseline is not None
    assert refunds.baseline.title == "Baseline refunds.json"
    assert (len(refunds.baseline.changes), refunds.baseline.more) == (60, 10)
    assert cells(refunds.baseline.looked) == [["a" * 12, "2", "40", "an earlier one"]]


def test_a_baseline_is_shown_before_any_gate_was_decided() -> None:
    found = content(kept=(KEPT,))
    assert [view.word for view in found.workflows] == ["not decided"]
    assert found.empty is not None
    assert found.empty.said.startswith("No gate was decided for this page: decide the gates")


def test_no_gates_say_what_to_run_here() -> None:
    filed, served = content().empty, content(served=True).empty
    assert filed is not None
    assert served is not None
    assert "declare [workflow.NAME.gates] in stepscope.toml" in filed.said
    assert filed.commands[1] == "stepscope report --html report.html --gates gate.json"
    assert served.commands[1] == "stepscope view --gates gate.json"


def test_problems_of_a_baseline_are_in_the_page() -> None:
    broken = msgspec.structs.replace(KEPT, changes=(), holds="", problems=("it is torn",))
    text = render_body(make_gates_page((), links=FileLinks(), kept=(broken,)))
    assert '<p class="warning">it is torn</p>' in text
    assert "would change" not in text
