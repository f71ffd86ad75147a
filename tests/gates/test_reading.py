from __future__ import annotations

import msgspec
import pytest

from stepscope.errors import ConfigError
from stepscope.gates.settings import WorkflowTable, check_tools, policies_hash, read_policy
from stepscope.model import PolicyRule
from tests.gates.rows import gates

EXAMPLE = {
    "no_redundant_calls": {"max_per_run": 1, "severity": "soft", "source": "rules"},
    "no_detours": {"max_per_run": 0, "severity": "hard", "source": "step_labels"},
    "no_errors": {"max_per_run": 0, "severity": "hard", "recovered": "allowed"},
    "step_efficiency": {"max_ratio_to_baseline_median": 1.3, "severity": "soft"},
    "recovery": {"min_rate": 1.0, "severity": "hard"},
    "outcome": {"max_drop": 0.05, "rule": "regression", "severity": "hard"},
    "axes": {"argument_validity": {"max_rate": 0.10, "rule": "proof", "severity": "hard"}},
}


def read(written: object, **more: object) -> object:
    table = msgspec.convert({"baseline": "b.json", "gates": written, **more}, WorkflowTable)
    return read_policy("w", table, where="stepscope.toml")


def test_the_policy_of_the_specification_is_read_as_it_says() -> None:
    found = gates(**EXAMPLE)
    said = [(g.name, g.quantity.measure, g.rule, g.about, g.bound, g.limit) for g in found.gates]
    assert said == [
        ("no_redundant_calls", "redundant_calls.count", "count", "rate", 0, 1),
        ("no_detours", "step_labels.detours", "count", "rate", 0, 0),
        ("no_errors", "errors", "count", "rate", 0, 0),
        ("step_efficiency", "efficiency.steps", "regression", "ratio", 1.3, None),
        ("recovery", "recovery.recovered", "count", "rate", 0, None),
        ("outcome", "outcome", "regression", "drop", 0.05, None),
        ("axes.argument_validity", "axes.argument_validity", "proof", "rate", 0.1, None),
    ]
    severities = ["soft", "hard", "hard", "soft", "hard", "hard", "hard"]
    assert [g.severity for g in found.gates] == severities
    assert {g.file_on for g in found.gates} == {"soft"}
    assert found.gates[5].threshold == "max_drop = 0.05"
    assert found.reads == (
        *("axes.argument_validity", "efficiency.steps", "errors", "judge.step_labels.detours"),
        *("outcome", "recovery.recovered", "redundant_calls.count"),
    )


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ({"outcom": {"max_drop": 0.1}}, "nothing is called 'outcom' to gate; did you mean 'outco"),
        ({"redundant_calls.cuont": {"max_per_run": 1}}, "did you mean 'redundant_calls.count'?"),
        ({"outcome": {"max_dorp": 0.1}}, "unknown key 'max_dorp'; did you mean 'max_drop'?"),
        ({"outcome": {"max_drop": 0.1, "severity": "sfot"}}, "Invalid enum value 'sfot'"),
        ({"outcome": {"max_drop": "0.1"}}, "Expected `float | null`, got `str`"),
        ({"outcome": {"max_drop": True}}, "Expected `float | null`, got `bool`"),
        ({"outcome": {"max_drop": float("nan")}}, "max_drop is nan; expected 0 to 1"),
        ({"outcome": {"max_drop": -0.1}}, "max_drop is -0.1; expected 0 to 1"),
        ({"outcome": {"min_rate": 0}}, "min_rate = 0 bounds nothing"),
        ({"outcome": {}}, "outcome has no threshold; give one of max_per_run"),
        ({"outcome": {"max_drop": 0.1, "min_rate": 0.5}}, "has min_rate and max_drop; give one"),
        ({"outcome": {"max_rate": 0.5}}, "max_rate would bound the good end of outcome; use min"),
        ({"redundant_calls": {"min_rate": 0.5}}, "min_rate would bound the good end of redund"),
        ({"outcome": {"max_per_run": 1}}, "max_per_run is for counts and figures; outcome is a sh"),
        ({"outcome": {"min_rate": 0.5, "rule": "regression"}}, "regression needs max_drop"),
        ({"steps.p95": {"max_ratio_to_baseline_median": 1.3}}, "for the median of counts"),
        ({"steps.median": {"max_rate": 0.1}}, "a quantile of efficiency.steps is gated by max_p"),
        ({"steps": {"max_rate": 0.1}}, "needs max_per_run as well: the run that is in breach"),
        (
            {"no_detours": {"max_per_run": 0}},
            "'rules' cannot decide 'no_detours'; name a source that can: sour",
        ),
        ({"match": {"min_rate": 0.5, "label": "mtach"}}, "no label 'mtach'; did you mean 'match'"),
        ({"outcome": {"min_rate": 0.5, "label": "x"}}, "outcome does not answer in labels"),
        ({"outcome": {"min_rate": 0.5, "recovered": "forbidden"}}, "a setting of no_errors only"),
        ({"outcome": 3}, "outcome is 3; expected a table, as { max_rate = 0.1 }"),
    ],
)
def test_a_wrong_gate_is_one_line_with_file_table_and_what_to_do(
    written: object, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(written)
    message = str(caught.value)
    assert says in message
    assert message.startswith("stepscope.toml, [workflow.w.gates]")
    assert "\n" not in message


def test_a_comparison_without_a_baseline_says_which_line_to_add() -> None:
    with pytest.raises(ConfigError, match=r'outcome compares .* add baseline = "baselines/w.json"'):
        read({"outcome": {"max_drop": 0.1}}, baseline=None)


def test_no_baseline_is_needed_where_nothing_compares() -> None:
    table = msgspec.convert({"gates": {"no_errors": {"max_per_run": 0}}}, WorkflowTable)
    assert read_policy("w", table, where="f").gates[0].compares is False


def test_a_dotted_name_and_a_nested_table_are_the_same_gate() -> None:
    dotted = gates(axes__sequencing={"max_rate": 0.1})
    nested = gates(axes={"sequencing": {"max_rate": 0.1}})
    assert dotted == nested


def test_severity_and_paths_leave_the_policy_the_same_a_threshold_does_not() -> None:
    first = gates(outcome={"max_drop": 0.1})
    assert gates(outcome={"max_drop": 0.1, "severity": "soft"}).hash == first.hash
    assert gates(outcome={"max_drop": 0.11}).hash != first.hash
    assert policies_hash([first]) != policies_hash([first, gates("v", outcome={"max_drop": 0.1})])


def test_a_quantile_is_a_rate_of_runs_beyond_it() -> None:
    found = gates(steps={"p95": {"max_per_run": 40}}).gates[0]
    assert (found.rule, found.limit, round(found.bound, 12)) == ("proof", 40, 0.05)


def test_a_rule_about_a_tool_that_nobody_has_names_the_nearest() -> None:
    rules = [
        PolicyRule(name="a", forbid="write"),
        PolicyRule(name="b", before="cancel_order", require="confirm"),
    ]
    check_tools(rules, {"cancel_order"}, where="stepscope.toml")
    with pytest.raises(ConfigError, match=r"'b' names the tool 'cancel_order'.*'cancel_orders'"):
        check_tools(rules, {"cancel_orders"}, where="stepscope.toml")
