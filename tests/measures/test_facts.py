"""Facts are fitted from passing runs, and carry what was declared."""

from __future__ import annotations

from stepscope.measures.facts import DeclaredConduct, fit_facts
from stepscope.model import Figures, PolicyRule

ASK = PolicyRule(name="ask", before="write", require="confirm")
NO_REFUND = PolicyRule(name="no refund", forbid="refund")


def test_medians_come_from_passing_runs_only() -> None:
    rows = [
        ("pass", Figures(10, 2, 100)),
        ("pass", Figures(20, 4)),
        ("pass", Figures(60, 5)),
        ("fail", Figures(2, 0, 7)),
        ("unknown", Figures(2, 0, 7)),
    ]
    facts = fit_facts("shop", rows)
    assert facts.medians == {"steps": 20.0, "calls": 4.0, "tokens": 100.0}
    assert (facts.n_runs, facts.n_passing) == (5, 3)


def test_a_figure_of_zero_is_known() -> None:
    assert fit_facts("shop", [("pass", Figures(3, 0, 0))]).medians["tokens"] == 0.0


def test_no_passing_run_leaves_no_median() -> None:
    assert fit_facts("shop", [("fail", Figures(3, 1))]).medians == {}


def test_rules_of_another_workflow_do_not_apply() -> None:
    declared = DeclaredConduct(
        effects={"poke": "write"}, policy=(ASK,), workflows={"shop": (NO_REFUND,)}
    )
    assert fit_facts("shop", [], declared=declared).policy == (ASK, NO_REFUND)
    assert fit_facts("bank", [], declared=declared).policy == (ASK,)
    assert fit_facts("bank", [], declared=declared).effects == {"poke": "write"}


def test_the_order_of_runs_does_not_change_the_facts() -> None:
    rows = [("pass", Figures(1, 1)), ("fail", Figures(5, 1)), ("pass", Figures(4, 2))]
    assert fit_facts("w", rows) == fit_facts("w", rows[::-1])
