"""Dates, addresses, names and lines of an output come from what was said, or are faults."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY, ARGUMENT_VALIDITY_NAME
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.model import Answer, Measure, Step
from tests.factories import Turn, agent, did, failed, run, system, user
from tests.measures.answers import cites, label, labels, whole

ORDER = (
    '{"order_id": "#W2378156", "created_at": "2024-05-14T16:03:16", "flight": "HAT284", '
    '"email": "mia.li@mail.example", "address": {"address1": "638 Elm Street", "zip": "91365"}}'
)
CODES = '[{"code": "M05KNL"}, {"payment_id": "gift_card_6941833"}]'


def told(text: str, *, heard: str = "what of it?") -> Answer:
    made = run(user(heard), *did("get", ORDER), *did("list", CODES), agent(text), user("thanks"))
    return whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("It was made on 2024-05-14.", True),
        ("It was made on May 14, 2024.", True),
        ("It was made on the 14th of May.", True),
        ("It was made on 05/14/2024.", True),
        ("It arrives the day after, on May 15.", True),
        ("It was made on 2024-07-19.", False),
        ("It was made on July 19th.", False),
        ("It was made on 07/19/2024.", False),
        ("It arrives on July 19th, in some weeks.", True),
        ("Dates are written such as 2020-12-31.", True),
        ("It is no date: 2024-13-45.", True),
        ("We write to mia.li@mail.example.", True),
        ("We write to mia.lee@mail.example.", False),
        ("Your mail looks like name@mail.example.", True),
        ("You live at 638 Elm Street.", True),
        ("You live at 432 Larkspur Avenue.", False),
        ("It is flight HAT284.", True),
        ("It is flight HAT708.", False),
        ("It is reservation M05KNX.", False),
        ("You paid with gift_card_2108374.", False),
        ("You paid with gift_card_6941833.", True),
        # No result has names of this form.
        ("It is an RTX4090X2.", True),
    ],
)
def test_what_is_told_has_an_origin(text: str, known: bool) -> None:
    found = told(text)
    assert (label(found) == "incorrect") is not known, found.reason
    if not known:
        assert cites(found) == (4, 5)


def test_what_the_user_said_may_be_told_again() -> None:
    assert label(told("Not to 432 Larkspur Avenue.", heard="432 Larkspur Avenue?")) != "incorrect"
    assert label(told("On July 6th.", heard="my flight is on the 6th")) != "incorrect"


WC = "12 a.txt\n 7 b.txt\n19 total"
GREP = "app.log:3\nworker.log:41"
HITS = "query A: 46 hits\nquery B: 9 hits"


@pytest.mark.parametrize(
    ("output", "text", "right"),
    [
        (WC, "a.txt has 7 lines.", False),
        (WC, "a.txt has 12 lines, b.txt 7.", True),
        (WC, "a.txt has not 7 lines.", True),
        (WC, "a.txt has 5 lines.", True),
        (GREP, "app.log holds 41 errors, so we look there.", False),
        (GREP, "worker.log holds 41 errors, app.log only 3.", True),
        (GREP, "Of 41 errors none is in app.log.", False),
        (HITS, "Query B is the better one with 46 hits.", False),
        (HITS, "Query A is the better one with 46 hits.", True),
        ("41\n3", "app.log holds 41 errors.", True),
        ("{'a': 1}\n{'b': 2}", "a is 2", True),
    ],
)
def test_a_line_of_an_output_is_told_with_its_own_number(
    output: str, text: str, right: bool
) -> None:
    made = run(user("look"), *did("bash", output), agent(text))
    found = whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]
    assert (label(found) == "incorrect") is not right
    if not right:
        assert cites(found) == (2, 3)


def test_an_output_is_read_in_runs_without_calls_too() -> None:
    shell = Step(index=0, actor="environment", parts=agent(f"Code output: {HITS}").parts)
    made = run(user("look"), agent("I run it."), shell, agent("Query B has 46 hits."))
    assert labels(RESULT_INTERPRETATION, made) == {3: "incorrect"}


NO_FILE = "python: can't open file 'table_reader.py': [Errno 2] No such file or directory"


@pytest.mark.parametrize(
    ("before", "step", "counted_on"),
    [
        ((), failed("bash", NO_FILE, command="python table_reader.py"), True),
        ((), failed("bash", "cat: table_reader.py: No such file or directory",
                    command="cat table_reader.py"), False),
        (did("bash", command="echo > table_reader.py"),
         failed("bash", NO_FILE, command="python table_reader.py"), False),
        (did("bash", "table_reader.py  notes.md", command="ls"),
         failed("bash", NO_FILE, command="python table_reader.py"), False),
        ((), failed("bash", "ImportError: cannot import name 'table_reader' from 'functions'",
                    command="python -c 'from functions import table_reader'"), True),
    ],
)  # fmt: skip
def test_a_file_that_exists_nowhere_is_a_name_from_nowhere(
    before: tuple[Step, ...], step: Turn, counted_on: bool
) -> None:
    made = run(user("read it"), *before, *step)
    answers: Measure = ARGUMENT_VALIDITY
    assert (len(before) + 1 in labels(answers, made)) is counted_on


def test_who_tells_of_a_file_as_given_counts_on_it_and_who_looks_for_it_does_not() -> None:
    absent = Step(index=0, actor="environment", parts=agent(
        "cat: format_helpers.py: No such file or directory").parts)  # fmt: skip
    code = "\n```sh\ncat format_helpers.py\n```"
    for text, expected in (
        ("There is format_helpers.py for this.", {1: "incorrect"}),
        ("Let me check whether there is format_helpers.py.", {}),
    ):
        made = run(user("read it"), agent(text + code), absent)
        assert labels(ARGUMENT_VALIDITY, made) == expected
    assert label(whole(ARGUMENT_VALIDITY, run(user("hi")))[ARGUMENT_VALIDITY_NAME]) == (
        "not_applicable"
    )


@pytest.mark.parametrize(
    ("words", "passed", "state"),
    [
        ("my flight is on 2024-05-23, one day later please", "2024-05-24", "uncertain"),
        ("my flight is on 2024-05-23, one day later please", "2024-05-30", "incorrect"),
        ("my flight is on 2024-05-23, a week later please", "2024-05-30", "uncertain"),
        ("my flight is on the 6th, tomorrow", "2024-05-06", "uncertain"),
        ("tomorrow", "2024-05-06", "uncertain"),
        ("on 2024-05-23", "2024-06-09", "incorrect"),
    ],
)
def test_a_date_is_counted_no_further_than_the_words_say(
    words: str, passed: str, state: str
) -> None:
    made = run(system("Be kind."), user(words), *did("search", date=passed))
    assert label(whole(ARGUMENT_VALIDITY, made)[ARGUMENT_VALIDITY_NAME]) == state
