"""What a trace lacks is told, and what needs it is unmeasured: never a fault from absence."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY
from stepscope.measures.axes.choice import SEQUENCING, TOOL_SELECTION
from stepscope.measures.axes.results import RESULT_INTERPRETATION
from stepscope.measures.completeness import COMPLETENESS, gaps_of, hidden_state
from stepscope.measures.conduct import POLICY
from stepscope.measures.facts import supply_context
from stepscope.model import (
    SCORES,
    Facts,
    Measure,
    PolicyRule,
    Precondition,
    Source,
    Step,
    ToolCall,
    ToolDef,
    ToolResult,
    Trajectory,
)
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, result, run, system, user
from tests.measures.answers import label, whole

POLICY_TEXT = system("Be kind.")
ASK = user("Cancel order W1 please")
LIST = (ToolDef("cancel_order", schema={"type": "object"}), ToolDef("get_order"))
CANCEL = ToolCall("cancel_order", {"order_id": "W1"})
UNANSWERED = calls(CANCEL)
BLANK = Step(index=0, actor="environment", kind="result", results=(ToolResult(),))


def gaps(*steps: Step, tools: tuple[ToolDef, ...] | None = LIST) -> list[str]:
    return [str(gap) for gap in gaps_of(run(*steps, tools=tools))]


def cut(text: str) -> Step:
    step = result(text)
    shortened = tuple(msgspec.structs.replace(r, truncated=True) for r in step.results)
    return msgspec.structs.replace(step, results=shortened)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((POLICY_TEXT, ASK, *did("get_order", id="W1")), []),
        ((POLICY_TEXT, ASK, agent("Hello")), []),
        ((POLICY_TEXT, *did("get_order", id="W1")), ["task not recorded"]),
        ((ASK, *did("get_order", id="W1")), ["policy text not recorded"]),
        ((POLICY_TEXT, user("[REDACTED]"), ASK), ["task redacted in 1 of 2"]),
        ((POLICY_TEXT, ASK, *did("get_order"), *did("get_order", id="W1")), []),
        (
            (POLICY_TEXT, ASK, calls(ToolCall("get_order")), result("open")),
            ["arguments not recorded"],
        ),
        ((POLICY_TEXT, ASK, *did("get_order", id="__REDACTED__")), ["arguments redacted"]),
        ((POLICY_TEXT, ASK, UNANSWERED, agent("Done")), ["results not recorded"]),
        ((POLICY_TEXT, ASK, UNANSWERED, BLANK, agent("Done")), ["results not recorded"]),
        # a tool that gives nothing back, one among others
        ((POLICY_TEXT, ASK, UNANSWERED, BLANK, *did("get_order", id="W1")), []),
        # the run ended there: no answer was due
        ((POLICY_TEXT, ASK, *did("get_order", id="W1"), UNANSWERED), []),
        (
            (POLICY_TEXT, ASK, *did("get_order", id="W1"), calls(ToolCall("submit")), agent("x")),
            [],
        ),
        (
            (POLICY_TEXT, ASK, *did("get_order", id="W1"), UNANSWERED, cut("{")),
            ["results cut in 1 of 2"],
        ),
        (
            (POLICY_TEXT, ASK, *did("get_order", "a [12 lines truncated] b", id="W1")),
            ["results cut"],
        ),
    ],
)
def test_what_a_trace_lacks_is_named(steps: tuple[Step, ...], found: list[str]) -> None:
    assert gaps(*steps) == found


def test_a_run_with_calls_and_without_a_tool_list_lacks_it() -> None:
    assert gaps(POLICY_TEXT, ASK, *did("get_order", id="W1"), tools=None) == [
        "tool list not recorded"
    ]
    assert gaps(POLICY_TEXT, ASK, agent("Hello"), tools=None) == []


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("<redacted>", "redacted"),
        ("[Scrubbed due to 'password']", "redacted"),
        ("<fully masked due to failed mask function>", "redacted"),
        ("****", "redacted"),
        ("<truncated due to size exceeding limit>", "cut"),
        ("begin <response clipped> end", "cut"),
        ("begin (12 lines elided) end", "cut"),
        ("begin [TRUNCATED] end", "cut"),
        ("The item was redacted from the list", None),
        ("You asked (twice) for it", None),
        ("def truncated(x): return x", None),
        ("**", None),
    ],
)
def test_a_placeholder_is_told_from_words(text: str, state: str | None) -> None:
    assert hidden_state(text) == state


@pytest.mark.parametrize(
    ("measure", "steps", "reason"),
    [
        (RESULT_INTERPRETATION, (ASK, UNANSWERED, agent("Fine.")), "results not recorded"),
        (RESULT_INTERPRETATION, (ASK, UNANSWERED, BLANK, agent("Fine.")), "results not recorded"),
        (
            RESULT_INTERPRETATION,
            (ASK, *did("get_order", "[REDACTED]", id="W1"), agent("It costs $12.")),
            "results redacted",
        ),
        (
            ARGUMENT_VALIDITY,
            (ASK, calls(ToolCall("get_order")), result("open")),
            "arguments not recorded",
        ),
    ],
)
def test_a_verdict_whose_input_is_not_there_is_missing_input(
    measure: Measure, steps: tuple[Step, ...], reason: str
) -> None:
    (answer,) = measure(run(*steps), None, None)
    assert answer == Unmeasured("missing_input", reason, measure.name)


def test_a_run_without_calls_has_nothing_to_judge_and_lacks_no_results() -> None:
    found = whole(RESULT_INTERPRETATION, run(ASK, agent("Fine.")))
    assert label(found["axes.result_interpretation"]) == "not_applicable"
    assert label(whole(COMPLETENESS, run(ASK))["completeness.results"]) == "not_applicable"


TOLD = agent("Order W1 costs $512.77.")
INVENTED = did("cancel_order", order_id="W99812")


@pytest.mark.parametrize(
    ("measure", "answer", "behind", "proved"),
    [
        (RESULT_INTERPRETATION, result("W1 is open"), (TOLD,), True),
        (RESULT_INTERPRETATION, cut("W1 is o"), (TOLD,), False),
        (RESULT_INTERPRETATION, result("W1 [REDACTED]"), (TOLD,), False),
        (ARGUMENT_VALIDITY, result("W1 is open"), INVENTED, True),
        (ARGUMENT_VALIDITY, cut("W1 is o"), INVENTED, False),
        (ARGUMENT_VALIDITY, result("W1 <response clipped>"), INVENTED, False),
    ],
)
def test_a_value_that_a_gap_may_hold_is_no_fault(
    measure: Measure, answer: Step, behind: tuple[Step, ...], proved: bool
) -> None:
    steps = (ASK, *did("get_order", "W1 is open", id="W1"), UNANSWERED, answer, *behind)
    found = whole(measure, run(*steps))[measure.name]
    assert label(found) == ("incorrect" if proved else "uncertain")
    assert proved or "results" in found.reason


def test_a_gap_behind_a_step_excuses_nothing_at_it() -> None:
    told = (*did("get_order", "W1", id="W1"), TOLD, user("Cancel it"))
    steps = (ASK, *told, UNANSWERED, cut("W1"), agent("Bye"))
    found = whole(RESULT_INTERPRETATION, run(*steps))["axes.result_interpretation"]
    assert label(found) == "incorrect"


def test_results_that_no_agent_of_several_has_are_missing() -> None:
    both = [msgspec.structs.replace(UNANSWERED, agent=name) for name in ("planner", "worker")]
    assert gaps(POLICY_TEXT, ASK, *both, agent("Done")) == ["results not recorded"]


SAID = (user("Hi"), agent("Shall I cancel order W1?"), user("[REDACTED]"))


@pytest.mark.parametrize(("answer", "faults"), [("[REDACTED]", None), ("no, do not", 1)])
def test_consent_that_may_have_been_redacted_is_unmeasured_not_missing(
    answer: str, faults: int | None
) -> None:
    hidden = did("get_order", "[REDACTED]", id="W1")  # results are not the user's words
    steps = (*hidden, *SAID[:2], user(answer), *did("cancel_order", order_id="W1"))
    rule = PolicyRule(name="ask", before="write", require="confirm")
    facts = Facts(policy=(rule,), effects={"cancel_order": "write"})
    broken = whole(POLICY, run(*steps), facts=facts)["policy"]
    assert getattr(broken, "value", None) == faults
    order = whole(SEQUENCING, run(*steps), facts=facts)["axes.sequencing"]
    assert label(order) == ("incorrect" if faults else "uncertain")


def test_a_write_is_not_unasked_where_the_users_words_are_hidden() -> None:
    facts = Facts(effects={"send_gift": "write"})
    steps = [(*SAID[:2], user(x), *did("send_gift", to="W1")) for x in ("What?", "[REDACTED]")]
    found = [whole(TOOL_SELECTION, run(*s), facts=facts)["axes.tool_selection"] for s in steps]
    assert [label(answer) for answer in found] == ["incorrect", "uncertain"]


def test_what_was_never_answered_may_have_kept_a_habit_but_no_declared_rule() -> None:
    rule = Precondition(tool="cancel_order", after="get_order")
    mined = msgspec.structs.replace(rule, support=40, kept=1.0)
    facts, said = Facts(preconditions=(mined,)), Facts(preconditions=(rule,))
    unknown = calls(ToolCall("get_order", {"id": "W1"}, id="a"))
    failed = (*did("other"), *did("cancel_order", order_id="W1"))
    early = whole(SEQUENCING, run(ASK, *failed), facts=facts)["axes.sequencing"]
    assert label(early) == "incorrect"
    open_ = run(ASK, unknown, *did("cancel_order", order_id="W1"), agent("Done"))
    assert label(whole(SEQUENCING, open_, facts=facts)["axes.sequencing"]) == "uncertain"
    assert label(whole(SEQUENCING, open_, facts=said)["axes.sequencing"]) == "incorrect"
    none = run(ASK, unknown, calls(ToolCall("cancel_order", {"id": "W1"})))
    assert label(whole(SEQUENCING, none, facts=said)["axes.sequencing"]) == "uncertain"


GIVEN = Facts(tools=LIST, instructions="Fees are 25 dollars. Ask for confirmation.")


def supplied(*steps: Step, tools: tuple[ToolDef, ...] | None = None) -> Trajectory:
    return supply_context(run(*steps, tools=tools), GIVEN)


def test_a_run_that_has_its_own_list_and_policy_keeps_them() -> None:
    own = (ToolDef("search"),)
    kept = supplied(POLICY_TEXT, ASK, tools=own)
    assert (kept.tools, kept.instructions) == (own, None)
    given = supplied(ASK)
    assert (given.tools, given.instructions) == (LIST, GIVEN.instructions)
    plain = run(ASK)
    assert supply_context(plain, Facts()) is plain
    assert supply_context(plain, None) is plain


def test_checks_see_the_list_and_the_policy_of_the_settings() -> None:
    call = did("transfer", amount=3)
    found = whole(TOOL_SELECTION, supplied(ASK, *call))["axes.tool_selection"]
    assert found.reason == "transfer is not among the 2 tools that were offered"
    told = (ASK, *did("get_order", "W1 is open", id="W1"), agent("The fee is $25."))
    assert label(whole(RESULT_INTERPRETATION, run(*told))["axes.result_interpretation"]) == (
        "incorrect"
    )
    assert label(whole(RESULT_INTERPRETATION, supplied(*told))["axes.result_interpretation"]) == (
        "uncertain"
    )
    assert [gap.input for gap in gaps_of(supplied(*told))] == []


def test_facts_without_list_and_policy_keep_their_hash() -> None:
    assert Facts(n_runs=3).hash_of(()) == ""
    assert Facts().hash_of(("policy",)) == Facts(n_runs=3).hash_of(("policy",))
    hashes = {f.hash_of(()) for f in (Facts(), GIVEN, Facts(tools=LIST), Facts(instructions="a"))}
    assert len(hashes) == 4


def test_of_a_run_of_scores_alone_nothing_is_lacking() -> None:
    alone = msgspec.structs.replace(run(agent("")), source=Source(format=SCORES))
    assert {label(answer) for answer in whole(COMPLETENESS, alone).values()} == {"not_applicable"}
