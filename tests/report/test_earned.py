"""Right for the wrong reason: only what had an effect, and "may" where nobody can tell."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.model import Facts, Step, Trajectory, Verdict
from stepscope.report.build import build_report, find_effects, has_effect
from stepscope.report.compare import compare_groups
from stepscope.report.render import markdown, text
from stepscope.report.rows import read_table
from stepscope.report.types import RunLine
from stepscope.report.views.overview import make_report_document
from stepscope.store import Store
from tests.factories import PASSED, agent, did, failed, run, user
from tests.report import made_panels
from tests.report.literal import profile, report

ARGUMENT, TOLD, ENDING = (
    f"axes.{name}" for name in ("argument_validity", "result_interpretation", "termination")
)
INVENTED = "pay: card 'c_1' was said nowhere before"
WRONG = "says 57.00 as refund, the result at 2 says 47.00"
UNDONE = "says 'I have cancelled W123456.', but no earlier call does this"
ASKED, BYE = user("pay it"), user("thank you")


def judged(*steps: Step, measure: str, at: int, reason: str) -> bool | None:
    fault = Verdict(measure, label="incorrect", step=at, reason=reason)
    return has_effect(run(*steps), fault, Facts(effects={"poke": "write"}))


@pytest.mark.parametrize(
    ("made", "reason", "effect"),
    [
        (did("pay", card="c_1"), INVENTED, True),
        (failed("pay", card="c_1"), INVENTED, False),  # refused: it changed nothing
        (did("get_card", card="c_1"), INVENTED.replace("pay", "get_card"), False),  # only read
        (did("ponder", card="c_1"), INVENTED.replace("pay", "ponder"), None),  # who knows
        (did("poke", card="c_1"), INVENTED.replace("pay", "poke"), True),  # declared to write
        # Done again with another value in place of the one at fault, and all else the same.
        ((*did("pay", card="c_1", sum=3), *did("pay", card="c_2", sum=3)), INVENTED, False),
        ((*did("pay", card="c_1", sum=3), *failed("pay", card="c_2", sum=3)), INVENTED, True),
        ((*did("pay", card="c_1", sum=3), *did("pay", card="c_2", sum=4)), INVENTED, True),
    ],
)
def test_a_faulty_call_had_an_effect_where_a_write_went_through_and_stayed(
    made: tuple[Step, ...], reason: str, *, effect: bool | None
) -> None:
    assert judged(ASKED, *made, BYE, measure=ARGUMENT, at=1, reason=reason) is effect


def test_a_call_without_a_result_may_have_had_an_effect() -> None:
    assert judged(ASKED, did("pay", card="c_1")[0], measure=ARGUMENT, at=1, reason=INVENTED) is None


SAID = agent("Your refund is 57.00.")


@pytest.mark.parametrize(
    ("later", "reason", "effect"),
    [
        ((BYE,), WRONG, True),
        ((BYE, agent("Goodbye, and sorry that it took long.")), WRONG, True),
        ((BYE, agent("Your refund is $47.")), WRONG, False),
        ((BYE, agent("Your refund is 147.00, not 47.50.")), WRONG, True),
        ((BYE, agent("Your refund is 1,047.")), WRONG.replace("47.00", "1047.00"), False),
        ((BYE, agent("Your refund is 1,047.")), WRONG, True),
        ((BYE, agent("I misread the refund.")), WRONG, False),
        ((BYE, agent("I misread the weather.")), WRONG, True),
        ((agent("Let me look."), agent("Bye.")), WRONG, None),  # nobody heard it
        ((BYE, *did("cancel_order", order="W123456")), UNDONE, False),  # done after all
        ((BYE, *did("cancel_order", order="W999999")), UNDONE, True),
        ((BYE, *failed("cancel_order", order="W123456")), UNDONE, True),
        ((BYE, *did("get_order", order="W123456")), UNDONE, True),
        ((BYE, agent("I misread it.")), "says 'a@b.c' of another customer, whose record", True),
    ],
)
def test_a_false_statement_had_an_effect_unless_it_was_put_right(
    later: tuple[Step, ...], reason: str, *, effect: bool | None
) -> None:
    assert judged(ASKED, SAID, *later, measure=TOLD, at=1, reason=reason) is effect


def test_of_a_bad_end_only_an_announcement_is_a_false_statement() -> None:
    def ends(reason: str) -> bool | None:
        return judged(ASKED, SAID, measure=ENDING, at=1, reason=reason)

    assert ends("announces and never does it: 'I will pay'") is True
    assert ends("says goodbye in answer to 'pay it'") is None


def test_a_breach_of_a_rule_by_reading_may_have_had_an_effect() -> None:
    steps = ASKED, *did("get_card", card="c_1")
    assert judged(*steps, measure="policy", at=1, reason="get_card is forbidden") is None
    refused = ASKED, *failed("pay", card="c_1")
    assert judged(*refused, measure="policy", at=1, reason="pay is forbidden") is False


def made_of(*steps: Step, name: str, at: int = 1) -> tuple[Trajectory, list[tuple[str, Verdict]]]:
    made = msgspec.structs.replace(
        run(*steps), id=name * 32, name=name, outcome=PASSED, task=name, agent=name
    )
    said = Verdict(ARGUMENT, label="incorrect", step=at, cites=(at,), reason=INVENTED)
    return made, [("rules", said), ("rules", msgspec.structs.replace(said, step=None))]


def made_store() -> Store:
    held, records = [], []
    for steps, name in (
        (failed("pay", card="c_1"), "a"),
        (did("pay", card="c_1"), "b"),
        (did("ponder", card="c_1"), "c"),
    ):
        one, answers = made_of(ASKED, *steps, BYE, name=name)
        held.append(one)
        passed = ("rules", Verdict("outcome", 1.0))
        records += [made_panels.said(by, one, answer) for by, answer in (*answers, passed)]
    return made_panels.store_of(held, records)


def test_a_comparison_has_the_same_wrong_reasons() -> None:
    with made_store() as store:
        found = compare_groups(store, "a", "b")
    assert (found.first.lucky, [line.name for line in found.second.lucky]) == ((), ["b"])


def test_a_refused_fault_is_in_the_profile_and_no_wrong_reason() -> None:
    with made_store() as store:
        found = build_report(store).whole
    assert [(line.name, line.sure) for line in found.lucky] == [("b", True), ("c", False)]
    assert found.notes["lucky"] == "1 of these runs had a fault that had no effect"
    assert [line.name for line in found.faulty[ARGUMENT]] == ["a", "b", "c"]


def test_what_others_say_of_a_fault_is_no_fault_of_the_rules() -> None:
    one, answers = made_of(ASKED, *did("pay", card="c_1"), BYE, name="a")
    made = [made_panels.said("rules", one, of) for _, of in (*answers, ("", Verdict("outcome", 1)))]
    other = made_panels.said("gpt/x", one, answers[0][1])
    with made_panels.store_of([one], [*made, other]) as store:
        assert find_effects(store, read_table(store, None)) == {store.keys()[0]: True}
    with made_panels.store_of([one], [made[1], made[2], other]) as store:
        assert find_effects(store, read_table(store, None)) == {}


def test_text_and_markdown_say_may_of_what_nobody_can_tell() -> None:
    def shown(*lines: RunLine, note: str = "") -> str:
        one = msgspec.structs.replace(profile(), lucky=lines, notes={"lucky": note})
        document = make_report_document(msgspec.structs.replace(report(), profiles=(one,)))
        assert "may be right" in markdown.render(document)
        return " ".join(text.render(document, 140).split())

    doubt = RunLine(id="cc", name="c", sure=False)
    assert "26 1 may be right for the wrong reason: c runs that fail" in shown(doubt)
    both = shown(
        doubt, RunLine(id="bb", name="b"), note="1 of these runs had a fault that had no effect"
    )
    assert "26 1 right for the wrong reason? b; may be right for the wrong reason: c;" in both
    assert "1 of these runs had a fault that had no effect" in both
