"""What of an answer of a rule other runs share, and what is this run's alone."""

from __future__ import annotations

import pytest

from stepscope import registry
from stepscope.model import Case, Facts, Precondition, Trajectory, Verdict
from stepscope.model.signatures import (
    generalise,
    is_signed,
    reads_outcome,
    sign_run,
    sign_step,
    signature_code,
)
from tests.factories import FAILED, agent, did, failed, goal, run, user


@pytest.mark.parametrize(
    ("said", "shared"),
    [
        ("Error: flight HAT030 not available on date 2024-05-13",
         "flight * not available on date *"),
        ("total price is 1,203.50, but paid 833", "total price is *, but paid *"),
        ("payment method gift_card_5094406 not found", "payment method * not found"),
        ("mail bob@example.org, see https://x.org/a?b=1 (and 2 more)", "mail *, see *"),
        ("/home/a/b.py:10: no such file", "*: no such file"),
        ("ValueError: could not convert 'a b': \"c d\"", "ValueError: could not convert *: *"),
        ("adds 1 + 2 + 3 = 6 and leaves out 4; and another fault", "adds * = * and leaves out *"),
        ("the user's message at 33 does not agree", "the user's message at * does not agree"),
        # Near misses: what says of which kind an error is stays.
        ("HTTP 503: down", "HTTP 503: down"),
        ("HTTP 404: down", "HTTP 404: down"),
        ("[Errno 2] no such file", "[Errno 2] no such file"),
        ("exit code 137", "exit code 137"),
        ("input and/or output is missing", "input and/or output is missing"),
        ("not enough seats", "not enough seats"),
    ],
)  # fmt: skip
def test_values_are_stars_and_the_kind_of_error_stays(said: str, shared: str) -> None:
    assert generalise(said) == shared


@pytest.mark.parametrize(
    "said",
    ["'" * 10_000, "1" * 10_000, "a1 " * 5_000, "(" * 10_000, "x" * 10_000, "http://" * 2_000, ""],
)
def test_a_hostile_text_is_short_at_once(said: str) -> None:
    assert len(generalise(said)) <= 140


@pytest.mark.parametrize(
    ("measure", "words", "signature"),
    [
        ("step_labels", "book_v2 failed: Error: id 7 not found", "book_v2 fails: id * not found"),
        ("step_labels", "repeats 10", "asks again what it was told"),
        ("errors", "timed out after 30 s", "a call fails: timed out after * s"),
        ("errors", "HTTP 429: wait 30 s", "a call fails: HTTP 429: wait * s"),
        ("policy", "at most 3 calls", "breaks the rule 'at most 3 calls'"),
        ("axes.sequencing", "pay2 without consent: message 3 does not agree",
         "pay2 without consent: message * does not agree"),
        # Near miss: `policy` says the same.
        ("axes.tool_selection", "policy 'confirm first': pay: no", ""),
    ],
)  # fmt: skip
def test_what_a_rule_says_of_a_step_has_a_signature(
    measure: str, words: str, signature: str
) -> None:
    assert sign_step(measure, words) == signature


@pytest.mark.parametrize(
    ("measure", "reason", "signatures"),
    [
        ("subgoals", "0 of 1; missed pay", (("expected call missing: pay", -1),)),
        # The same whether a check passed or not.
        ("subgoals", "0 of 1; reached another way, as the passed check says: pay",
         (("expected call missing: pay", -1),)),
        ("subgoals", "1 of 1", ()),
        ("subgoals.other_writes", "nothing asked for pay at 4, send at 9",
         (("unexpected write: pay", 4), ("unexpected write: send", 9))),
        ("subgoals.outputs", "never told the user 12",
         (("never says what the case asks for", -1),)),
        ("subgoals.outputs", "", ()),
        ("loops", "4 calls go round: get, find",
         (("calls go round in a circle: get, find", -1),)),
        ("loops", "2 calls go round: get", ()),
    ],
)  # fmt: skip
def test_what_a_rule_says_of_a_run_has_a_signature(
    measure: str, reason: str, signatures: tuple[tuple[str, int], ...]
) -> None:
    assert sign_run(measure, reason) == signatures


def answers(name: str, made: Trajectory, case: Case | None, facts: Facts | None = None) -> set[str]:
    """The signatures that a measure's real answers have."""
    found = set()
    for answer in registry.measure(name)(made, case, facts):
        if isinstance(answer, Verdict) and is_signed(answer.measure):
            if answer.step is not None:
                found.add(sign_step(answer.measure, answer.reason))
            elif not answer.measure.startswith("axes."):
                of_run = sign_run(answer.measure, answer.reason)
                found |= {text for text, _ in of_run}
    return found - {""}


PAID = (user("order 7 please"), *did("pay", "ok", order="7", amount=5), agent("Done."))


def test_a_write_that_differs_from_the_expected_one_says_what_the_outcome_is_judged_by() -> None:
    case = Case(workflow="shop", task="1", subgoals=(goal("pay", order="7", amount=9),))
    found = answers("axes.argument_validity", run(*PAID, outcome=FAILED), case)
    assert found == {"not as expected: amount of pay"}
    assert all(map(reads_outcome, found))
    assert answers("subgoals", run(*PAID, outcome=FAILED), case) == {
        "expected call missing: pay", "unexpected write: pay",
    }  # fmt: skip


def test_an_order_learned_from_passing_runs_says_what_the_outcome_is_judged_by() -> None:
    rule = Precondition(tool="pay", after="find", by=None, support=40, kept=1.0)
    facts = Facts(workflow="shop", preconditions=(rule,))
    found = answers("axes.sequencing", run(*PAID), None, facts)
    assert found == {"unlike passing runs: pay before find had succeeded"}
    assert all(map(reads_outcome, found))


def test_a_failed_call_has_the_signature_of_its_tool() -> None:
    made = run(user("order 7"), *failed("pay", "Error: 7 is closed", order="7"), agent("Sorry."))
    found = answers("step_labels", made, None)
    assert found == {"pay fails: * is closed"}
    assert not any(map(reads_outcome, found))


def test_the_code_of_a_signature_is_six_hex_digits_of_its_own() -> None:
    one, other = signature_code("pay fails: a"), signature_code("pay fails: b")
    assert one != other
    assert len(one) == len(other) == 6
    assert int(one, 16) >= 0
