"""Numbers in rules of conduct compare as numbers; what is not known decides nothing."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.errors import ConfigError
from stepscope.measures.conduct import POLICY
from stepscope.model import Facts, Json, PolicyRule, Step, ToolCall
from stepscope.model.conditions import holds, parse_condition, read_number
from stepscope.values import Unmeasured
from tests.factories import calls, failed, result, run
from tests.measures.answers import cites, whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("100", 100.0), ("-3.5", -3.5), (" 1,203,500.25 ", 1203500.25), ("$833", 833.0),
        ("-$5", -5.0), ("$-5", -5.0), ("€ 12.50", 12.5), ("12,50", None), ("833 USD", 833.0),
        ("USD 833", 833.0), ("12%", 12.0), (".5", 0.5), (7, 7.0), (7.5, 7.5), (True, None),
        (None, None), ("", None), ("12 apples", None), ("1e5", None), ("1_000", None),
        ("٣", None), ("12-11", None), ([1], None), (10**400, None), ("9" * 5000, None),
        ("9" * 16, None), ("9" * 15, 999_999_999_999_999.0),
    ],
)  # fmt: skip
def test_a_text_is_a_number_where_a_person_would_read_one(text: Json, number: float | None) -> None:
    assert read_number(text) == number


VALUES: dict[str, Json] = {
    "amount": "1,200", "total": 1200.0, "kind": "cash", "order.total": 80, "flag": True,
    "card": "1234567890123456789", "other_card": "1234567890123456788",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amount > 100", True),
        ("amount > 1200", False),
        ("amount >= total", True),
        ("amount = total", True),
        ("amount != total", False),
        ("order.total < 100", True),
        ("100 > order.total", True),
        ("kind = 'cash'", True),
        ('kind == "card"', False),
        ("kind != 'card'", True),
        ("kind > 'a'", None),
        ("kind > 3", None),
        ("missing > 3", None),
        ("missing = 'x'", None),
        ("missing != 'x'", None),
        ("missing > 3 and amount < 1", False),
        ("missing > 3 or amount > 1", True),
        ("missing > 3 and amount > 1", None),
        ("amount < 1 and missing > 3 or kind = 'cash'", True),
        ("amount < 1 or kind = 'cash' and missing > 3", None),
        ("flag = 1", False),
        ("flag = 'true'", True),
        ("kind = 0", False),
        ("amount>-5", True),
        ("card = other_card", False),  # which one float stands for
    ],
)
def test_a_condition_holds_does_not_or_nobody_knows(text: str, expected: bool | None) -> None:
    assert holds(parse_condition(text, "rule"), VALUES.get) is expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "amount", "amount >", "> 3", "amount > 3 and", "amount > 3 kind = 'x'", "a ~ 'b'",
        "amount > 3 but b > 4", "(amount > 3)", "amount > 'x", "amount => 3", "and > 3 > or",
        "a > 1 or or b > 2", "amount > 3x", "a.b. > 3", "a > 3;", "x" * 2000, "a = 'b' or " * 200,
        "__import__('os').system('x') > 3", "a > 1 and and", "a and b",
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_condition(text, "rule 'r'")
    assert str(refused.value).startswith("rule 'r': ")
    assert "\n" not in str(refused.value)


BIG = PolicyRule(name="big", forbid="refund", when="amount > 100")
COVERED = PolicyRule(name="covered", forbid="refund", unless="amount <= order.total")


def looked(total: Json, order: str = "A", tool: str = "get_order") -> tuple[Step, ...]:
    text = msgspec.json.encode({"total": total}).decode()
    return (calls(ToolCall(tool, {"order_id": order}, id=tool + order)),
            result(text, call_id=tool + order))  # fmt: skip


def refunds(order: str = "A", **arguments: Json) -> tuple[Step, ...]:
    call = ToolCall("refund", {"order_id": order, **arguments}, id="r")
    return (calls(call), result("ok", call_id="r"))


def policy(rule: PolicyRule, *steps: Step) -> tuple[int, ...] | str:
    """The steps cited, or why nobody knows."""
    found = whole(POLICY, run(*steps), facts=Facts(policy=(rule,)))["policy"]
    return found.reason if isinstance(found, Unmeasured) else cites(found)


@pytest.mark.parametrize(
    ("rule", "steps", "cited"),
    [
        (BIG, refunds(amount=120), (0,)),
        (BIG, refunds(amount=99.99), ()),
        (BIG, refunds(amount="$1,000.00"), (0,)),
        (BIG, refunds(amount="99"), ()),
        (COVERED, (*looked(80), *refunds(amount=80)), ()),
        (COVERED, (*looked(80), *refunds(amount=80.01)), (2,)),
        (COVERED, (*looked("$80.00"), *refunds(amount=100)), (2,)),
        (COVERED, (*looked(500), *looked(80), *refunds(amount=100)), (4,)),
        (COVERED, (*looked(500, "B"), *looked(80), *refunds(amount=100)), (4,)),
        (COVERED, (*looked(80), *looked(500, "B"), *refunds(amount=100)), (4,)),
        (COVERED, (*looked(80, tool="list_orders"), *refunds(amount=100)), (2,)),
        (COVERED, (*looked({"amount": 1}), *refunds(order_total=3, amount=100)), None),
        (COVERED, refunds(amount=100), None),
        (COVERED, (*looked(500, "B"), *refunds(amount=100)), None),
        (COVERED, (*failed("get_order", order_id="A"), *refunds(amount=100)), None),
        (COVERED, (*refunds(amount=100), *looked(80)), None),
        (BIG, refunds(), None),
        (BIG, refunds(amount="lots"), None),
    ],
)
def test_amounts_compare_as_numbers_and_with_what_calls_before_gave_back(
    rule: PolicyRule, steps: tuple[Step, ...], cited: tuple[int, ...] | None
) -> None:
    found = policy(rule, *steps)
    assert found == cited if cited is not None else f"{rule.name} may be broken at" in str(found)


def test_a_breach_says_its_condition() -> None:
    facts = Facts(policy=(BIG,))
    answer = [x for x in POLICY(run(*refunds(amount=120)), None, facts) if x.step == 0]
    assert [x.reason for x in answer] == ["refund is forbidden when amount > 100"]


def test_a_condition_narrows_rules_of_order_and_of_rate_too() -> None:
    first = PolicyRule(name="ask", before="refund", require="approve", when="amount > 100")
    assert policy(first, *refunds(amount=120)) == (0,)
    assert policy(first, *refunds(amount=20)) == ()
    once = PolicyRule(name="once", forbid="refund", max_calls=1, when="amount > 100")
    small, big = refunds(amount=20), refunds(amount=120)
    assert policy(once, *small, *big, *small) == ()


def test_a_rule_whose_condition_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="policy rule 'x': 'amount' is no condition"):
        policy(PolicyRule(name="x", forbid="refund", when="amount"), *refunds())
