"""Which tool, and whether any: condemned only by what was declared, said or seen to fail."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.choice import TOOL_SELECTION, TOOL_SELECTION_NAME
from stepscope.model import Case, Facts, PolicyRule, Step, ToolCall, ToolDef, Verdict
from tests.factories import agent, calls, did, failed, goal, result, run, user
from tests.measures.answers import label, labels, whole

TOOLS = (ToolDef("get"), ToolDef("pay", agent="cashier"))
WRITES = Facts(effects={"cancel_order": "write", "send_voucher": "write", "set_address": "write"})


def answer(*steps: object, facts: Facts | None = None, **fields: object) -> Verdict:
    made = run(*steps, **fields)  # type: ignore[arg-type]
    found = whole(TOOL_SELECTION, made, made.case, facts)[TOOL_SELECTION_NAME]
    assert isinstance(found, Verdict)
    return found


def test_a_tool_that_was_not_offered_is_incorrect() -> None:
    found = answer(*did("get"), *did("grab"), tools=TOOLS)
    assert (found.label, found.cites) == ("incorrect", (2,))
    assert found.reason == "grab is not among the 2 tools that were offered"


def test_where_no_tools_are_declared_none_is_undeclared() -> None:
    assert answer(*did("grab")).label == "uncertain"
    assert answer(*did("grab"), tools=()).label == "uncertain"


def test_a_providers_own_tool_need_not_be_declared() -> None:
    search = ToolCall("web_search", {}, kind="server")
    assert answer(calls(search), result("x"), tools=TOOLS).label == "uncertain"


def test_a_forbidden_tool_is_incorrect_and_order_rules_are_not_ours() -> None:
    forbidden = Facts(policy=(PolicyRule(name="no refunds", forbid="refund"),))
    found = answer(*did("refund"), facts=forbidden)
    assert (found.label, found.cites) == ("incorrect", (0,))
    assert found.reason == "policy 'no refunds': refund is forbidden"
    order = Facts(policy=(PolicyRule(name="ask", before="refund", require="confirm"),))
    assert answer(*did("refund"), facts=order).label == "uncertain"
    rate = Facts(policy=(PolicyRule(name="one", forbid="refund", max_calls=1),))
    assert answer(*did("refund", n=1), *did("refund", n=2), facts=rate).label == "uncertain"


def test_the_same_call_failing_the_same_way_again_is_incorrect() -> None:
    found = answer(
        *failed("get", "Error: gone", id=1), *did("get", id=2), *failed("get", "Error: gone", id=1)
    )
    assert (found.label, found.cites) == ("incorrect", (1, 4))


@pytest.mark.parametrize(
    "between",
    [
        (*failed("get", "Error: gone", id=1), *failed("get", "Error: other", id=1)),
        (
            *failed("get", "Error: gone", id=1),
            *did("set_id", id=1),
            *failed("get", "Error: gone", id=1),
        ),
        (*failed("get", "Error: timed out", id=1), *failed("get", "Error: timed out", id=1)),
        (*failed("get", "Error: gone", id=1), *failed("get", "Error: gone", id=2)),
        (*failed("get", "Error: gone", id=1), *did("get", id=1)),
    ],
    ids=["another error", "a write between", "transient", "other arguments", "then it worked"],
)
def test_a_retry_with_a_chance_is_not_condemned(between: tuple[object, ...]) -> None:
    assert answer(*between).label == "uncertain"


TALK = (user("hello, I am Mia"), agent("How can I help?"))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((*TALK, user("my flight is late"), *did("send_voucher")), "incorrect"),
        ((*TALK, user("please give me something"), *did("send_voucher")), "uncertain"),
        ((*TALK, user("is there a voucher?"), *did("send_voucher")), "uncertain"),
        (
            (
                *TALK,
                user("it is late"),
                agent("Shall I pay back?"),
                user("yes"),
                *did("send_voucher"),
            ),
            "uncertain",
        ),
        ((user("my flight is late"), *did("send_voucher")), "uncertain"),
        ((*TALK, user("stop W12"), *did("cancel_order")), "uncertain"),
        ((*TALK, user("look at my order"), *did("cancel_order")), "incorrect"),
        ((*TALK, user("my order?"), *did("cancel_order"), user("cancel it")), "incorrect"),
        ((*TALK, user("make it my address"), *did("set_address")), "uncertain"),
    ],
)
def test_a_write_needs_a_word_of_the_user(steps: tuple[object, ...], expected: str) -> None:
    assert answer(*steps, facts=WRITES).label == expected


def test_a_write_guessed_from_its_name_makes_it_uncertain_and_cited() -> None:
    found = answer(*TALK, user("my flight is late"), *did("send_voucher"))
    assert (found.label, found.cites) == ("uncertain", (3,))
    assert "declare what it does" in found.reason


def test_a_case_that_was_fulfilled_proves_nothing() -> None:
    case = Case(workflow="shop", task="1", subgoals=(goal("cancel_order", id=1),))
    found = answer(user("cancel it"), *did("cancel_order", id=1), case=case)
    assert found.label == "uncertain"
    assert found.reason.endswith("not judged: whether others served better")


def test_each_step_at_fault_has_its_answer() -> None:
    made = run(*did("grab"), *did("get"), *did("grab"), tools=TOOLS)
    assert labels(TOOL_SELECTION, made) == {0: "incorrect", 4: "incorrect"}


def test_no_calls_is_not_applicable() -> None:
    assert label(whole(TOOL_SELECTION, run(user("hi")))[TOOL_SELECTION_NAME]) == "not_applicable"


CANCEL = did("cancel_order", id="W1")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((*CANCEL, *CANCEL), "incorrect"),
        ((*CANCEL, agent("Done."), user("Thanks a lot"), *CANCEL), "incorrect"),
        ((*CANCEL, user("Please cancel it again, it is still there."), *CANCEL), "uncertain"),
        ((*CANCEL, agent("Done."), user("Okay. When is it gone?"), *CANCEL), "incorrect"),
        ((*CANCEL, agent("Shall I once more?"), user("Okay."), *CANCEL), "uncertain"),
        ((*failed("cancel_order", id="W1"), *CANCEL), "uncertain"),
        ((*CANCEL, *did("cancel_order", id="W2")), "uncertain"),
        ((*did("get_order"), *did("get_order")), "uncertain"),
        ((*did("append_line", text="a"), *did("append_line", text="a")), "uncertain"),
        ((*did("bash", command="make"), *did("bash", command="make")), "uncertain"),
    ],
)
def test_a_write_done_twice_without_a_new_request_is_incorrect(
    steps: tuple[Step, ...], expected: str
) -> None:
    found = answer(user("cancel my order"), *steps)
    assert found.label == expected, found.reason


def test_an_answer_without_a_word_of_what_was_asked_is_no_success() -> None:
    lost = did("cancel_order", "connection lost during the handshake", id="W1234")
    told = did("cancel_order", '{"id": "W1234", "status": "cancelled"}', id="W1234")
    assert answer(user("Cancel W1234"), *lost, *told).label == "uncertain"
    assert answer(user("Cancel W1234"), *told, *told).label == "incorrect"
    assert answer(user("Cancel W1234"), *lost, *lost).label == "incorrect"


def test_two_copies_that_were_asked_for_are_no_fault() -> None:
    sent = did("send_card", to="mia")
    assert answer(user("Send her the card twice"), *sent, *sent).label == "uncertain"


def test_a_command_fails_the_same_way_whatever_is_said_beside_it() -> None:
    def tried(command: str, why: str, message: str) -> tuple[Step, ...]:
        return failed("Bash", f"Exit code 1\n{message}", command=command, description=why)

    first = tried("make check", "Run the checks", "No rule to make target 'check'")
    again = tried("make check", "Once more", "No rule to make target 'check'")
    assert answer(*first, *again).label == "incorrect"
    assert answer(*first, *tried("make check", "x", "Disk full")).label == "uncertain"
    assert answer(*first, *tried("make test", "x", "No rule")).label == "uncertain"
    fixed = did("Write", file_path="Makefile", content="check:")
    assert answer(*first, *fixed, *again).label == "uncertain"


def test_code_in_messages_that_fails_again_unchanged_is_incorrect() -> None:
    code = agent("Let me run it.\n```python\nprint(x)\n```")
    crash = Step(index=0, actor="environment", parts=agent("NameError: x").parts, error="NameError")
    assert answer(code, crash, code, crash).label == "incorrect"
    other = agent("```python\nx = 1\nprint(x)\n```")
    found = whole(TOOL_SELECTION, run(code, crash, other, crash))
    assert label(found[TOOL_SELECTION_NAME]) == "not_applicable"
