"""The page of gates: a history for each workflow, its baseline, and what to run where both lack."""

from __future__ import annotations

import msgspec

from stepscope.gates.looks import GateHistory, PolicyLooks
from stepscope.gates.types import GateDecision, GateOutcome, GateReport, WorkflowDecision
from stepscope.report.document import Links, ServerLinks, Table
from stepscope.report.render.pages import make_gates_page
from stepscope.report.types import GateDocument
from stepscope.report.views.gates import format_gate, tabulate_history, tabulate_looks
from stepscope.values import Estimate
from tests.report.made_pages import Seen, seen

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


def page(
    *documents: GateDocument, kept: tuple[GateHistory, ...] = (), served: bool = False
) -> Seen:
    links = ServerLinks() if served else Links()
    return seen(make_gates_page(documents, links=links, kept=kept).body)


def texts(found: Seen, tag: str) -> list[str]:
    return [element.text.strip() for element in found.all(tag)]


def cells(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_a_drop_is_in_points_and_a_rate_in_percent() -> None:
    (drop,) = decided("refunds", outcome="fail").gates
    assert format_gate(drop) == ("20 points", "10–30")
    assert format_gate(msgspec.structs.replace(drop, rule="proof")) == ("20 %", "10–30")


def test_each_workflow_has_its_own_history_with_a_column_a_gate() -> None:
    given = (
        document("c1", decided("refunds", outcome="pass"), decided("search", outcome="pass")),
        document(None, decided("refunds", outcome="fail", loops="pass")),
    )
    history = tabulate_history(given, "refunds", 0)
    assert history is not None
    assert [c.label for c in history.columns] == [
        "report", "commit", "all gates", "runs", "outcome", "loops",
    ]  # fmt: skip
    assert cells(history) == [
        ["2", "none said", "FAIL", "40", "FAIL", "pass"],
        ["1", "c1", "pass", "40", "pass", "no such gate"],
    ]
    assert history.rows[0].cells[4].note == "20 points, 10–30"
    assert tabulate_history(given, "search", 1) is None
    found = page(*given)
    assert texts(found, "h2") == ["refunds", "search"]
    badges = [e.text for e in found.all("span") if "pill" in (e.attributes.get("class") or "")]
    assert badges == ["FAIL", "not decided"]
    assert texts(found, "h3") == ["History"]
    assert not [said for said in texts(found, "p") if said.startswith("One report")]


def test_one_report_alone_says_how_a_history_comes() -> None:
    assert texts(page(document("c1", decided("refunds", outcome="pass"))), "p")[-1].startswith(
        "One report, so no history: name earlier ones as well"
    )


def test_a_baseline_is_shown_with_its_workflow_and_no_longer_than_can_be_read() -> None:
    found = page(document("c1", decided("refunds", outcome="pass")), kept=(KEPT,))
    assert texts(found, "h3") == ["Baseline refunds.json"]
    assert texts(found, "pre")[0].splitlines() == [f"line {n}" for n in range(60)]
    assert "and 10 more lines: stepscope baseline update --workflow refunds" in texts(found, "p")
    assert cells(tabulate_looks(KEPT, 0)) == [["a" * 12, "2", "40", "an earlier one"]]


def test_a_baseline_is_shown_before_any_gate_was_decided() -> None:
    found = page(kept=(KEPT,))
    assert "not decided" in texts(found, "span")
    assert texts(found, "h1") == ["No gate was decided."]
    assert any(
        said.startswith("No gate was decided for this page: decide") for said in texts(found, "p")
    )


def test_no_gates_say_what_to_run_here() -> None:
    filed, served = page(), page(served=True)
    assert any("declare [workflow.NAME.gates] in stepscope.toml" in p for p in texts(filed, "p"))
    assert texts(filed, "code")[1] == "stepscope report --html report.html --gates gate.json"
    assert texts(served, "code")[1] == "stepscope view --gates gate.json"


def test_problems_of_a_baseline_are_in_the_page() -> None:
    broken = msgspec.structs.replace(KEPT, changes=(), holds="", problems=("it is torn",))
    text = make_gates_page((), links=Links(), kept=(broken,)).body
    assert '<p class="warning">it is torn</p>' in text
    assert "would change" not in text
