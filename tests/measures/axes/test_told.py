"""Dates, addresses, names and lines of an output come from what was said, or are faults."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY, ARGUMENT_VALIDITY_NAME
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.measures.axes.told import find_absent_names, find_told_nowhere
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


@pytest.mark.parametrize(
    ("heard", "text", "known"),
    [
        ("write to ann.b at mail dot example.", "We write to ann.b@mail.example.", True),
        ("my mail: ann_c (at) mail.example", "We write to **ann_c@mail.example**.", True),
        ("I look at mail dot example", "We write to ann.b@mail.example.", False),
        ("which mail?", "We write to m***li@mail.example.", True),
        ("which mail?", "We write to **ann.b@mail.example**.", False),
    ],
)
def test_an_address_may_be_spelt_or_hidden(heard: str, text: str, known: bool) -> None:
    found = told(text, heard=heard)
    assert (label(found) == "incorrect") is not known, found.reason


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


@pytest.mark.parametrize(
    ("words", "counted_on"),
    [
        ("Reading the notes of the previous step.", True),
        ("Let me see whether the previous step left notes.", False),
        ("Reading the notes.", False),
    ],
)
def test_who_reads_what_was_given_counts_on_it(words: str, counted_on: bool) -> None:
    said = f"{words}\n```sh\ncat notes/step_three.txt\n```"
    none = "exitcode: 1\nCode output: cat: notes/step_three.txt: No such file or directory"
    shell = Step(index=0, actor="environment", parts=agent(none).parts)
    made = run(user("look"), agent(said), shell, agent("There is none."))
    assert [x.step for x in find_absent_names(made)] == [1] * counted_on


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


@pytest.mark.parametrize(
    ("text", "known"),
    [
        # Other shapes than the results', by form alone or by what they are called.
        ("Please keep RF-482913 at hand.", False),
        ("We filed it as 65550-6.", False),
        ("Ticket 88213 is yours.", False),
        ("The confirmation code is QX7LP.", False),
        ("It weighs 65550 grams.", True),
        ("The Boeing 737-800 leaves at 10:15.", True),
        ("Call the code QX7LP an example, for example QX7LP.", False),
        ("#W0000000 shows the form.", True),
        ("Ship it to Boise, ID 83702.", False),
        ("Ship it to Dayton, OH 91365.", True),
    ],
)
def test_a_name_of_any_shape_has_an_origin(text: str, known: bool) -> None:
    assert (label(told(text)) == "incorrect") is not known


def test_words_beside_a_call_and_before_every_result_are_told_too() -> None:
    early = agent("Write to desk@shop.example.")
    made = run(user("hello"), early, user("ok"), *did("get", ORDER), agent("Fine."))
    assert labels(RESULT_INTERPRETATION, made) == {1: "incorrect"}


@pytest.mark.parametrize(
    ("summary", "known"),
    [
        ("The customer wants it back. Contact: mia.lee@mail.example.", False),
        ("The customer wants it back. Contact: mia.li@mail.example.", True),
        ("Send it to 432 Larkspur Avenue, please.", False),
        ("Send it to 638 Elm Street, please.", True),
        ("It was bought on July 19th for a friend.", False),
        ("print('mia.lee@mail.example'); # say it", True),
        ("12345 + 6", True),
    ],
)
def test_what_words_in_arguments_tell_has_an_origin(summary: str, known: bool) -> None:
    made = run(system("Be kind."), user("my chair broke"), *did("get", ORDER),
               *did("transfer_to_human_agents", "ok", summary=summary))  # fmt: skip
    found = labels(ARGUMENT_VALIDITY, made)
    assert found == ({} if known else {4: "incorrect"})
    mail = did("create_note", "ok", text=summary)
    assert labels(ARGUMENT_VALIDITY, run(system("Be kind."), user("hi"), *mail)) == {}


def test_a_birthday_is_no_day_to_count_from() -> None:
    dob = '{"dob": "1990-07-12", "created_at": "2024-05-14"}'
    for text, expected in (
        ("It is settled by July 11.", {3: "incorrect"}),
        ("Your birthday is July 12.", {}),
        ("It is settled by May 15.", {}),
    ):
        made = run(user("when?"), *did("get", dob), agent(text), user("ok"))
        assert labels(RESULT_INTERPRETATION, made) == expected


CHECKS = "checked: 240\nvalid: 31\ninvalid: 209"
STAT = "3 files changed, 14 insertions(+), 92 deletions(-)"
REACH = "sources: 58\nreachable: 13\nunreachable: 45"
TESTS = "7 failed, 31 passed in 2.11s"
TABLE = "tree   nests  leaves\noaks   3      11\nelms   20     31"


@pytest.mark.parametrize(
    ("output", "text", "right"),
    [
        (CHECKS, "209 of the 240 entries are valid.", False),
        (CHECKS, "31 of the 240 entries are valid.", True),
        (CHECKS, "A quarter of 240 entries is valid.", True),
        (STAT, "It removes 14 lines.", False),
        (STAT, "It removes 92 lines and adds 14.", True),
        (STAT, "On balance it removes 78 lines.", True),
        (REACH, "45 of the 58 can be reached.", False),
        (REACH, "13 of the 58 can be reached.", True),
        (TESTS, "7 tests passed.", False),
        (TESTS, "31 tests passed, 7 failed.", True),
        ("a.py | 12 ++++\nb.py | 3 ---", "In b.py 12 lines changed.", False),
        (TABLE, "The oaks have 20 leaves, the elms 3.", False),
        (TABLE, "The oaks have 3 nests and 11 leaves, the elms 20.", True),
        ("oak: felled in 1931\nelm: felled in 1968", "The oak is of 1968.", False),
        ("oak: felled in 1931\nelm: felled in 1968", "The elm is of 1968.", True),
        ('{"first_oak": 1931, "last_oak": 1968}', "So the first oak is of 1968.", False),
        ('{"first_oak": 1931, "last_oak": 1968}', "The oaks are of 1931 and 1968.", True),
        ("oak 91%\nelm 46%", "It is the oak that is ill, it is only at 46%.", False),
        ("oak 91%\nelm 46%", "It is the elm that is ill, which is at 46%.", True),
        ("oak 91%\nelm 46%", "The oak is fine. It says so on page 46.", True),
        ("oak=62 elm=5 ash=9", "There are nine elms.", False),
        ("oak=62 elm=5 ash=9", "There are nine ashes and five elms.", True),
        ("Height avg 12.4m max 87.1m", "Its average height is 87.1 m.", False),
        ("Height avg 12.4m max 87.1m", "The maximum is 87.1 m.", True),
        ("oak 1: pages 61-88\noak 2: pages 89-130", "Oak 2 starts on page 61.", False),
        ("oak 1: pages 61-88\noak 2: pages 89-130", "Oak 2 starts on page 89.", True),
        ("oak: 1345 km\nelm: 872 km", "With 1345 km, the elm is longer.", False),
        ("oak: 1345 km\nelm: 872 km", "With 1345 km, the oak is longer.", True),
        ("oak: 24.90\nelm: 19.50", "The oak is cheaper, isn't it? It only asks 19.50.", False),
    ],
)
def test_a_number_of_an_output_goes_with_the_words_beside_it(
    output: str, text: str, right: bool
) -> None:
    made = run(user("look"), *did("bash", output), agent(text))
    assert (
        label(whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME]) == "incorrect"
    ) is (not right)


@pytest.mark.parametrize(
    ("text", "made_up"),
    [
        ("It follows the pattern of `text_utils.py`.", True),
        ("As in `text_utils()` of this project, the text is returned.", True),
        ("The numbers are in text_utils.csv, which the script has written.", True),
        ("The numbers are in notes.md, which the script has written.", False),
        ("Next I create text_utils.py, which has it all.", False),
        ("Is there a text_utils.py? Let me look for text_utils.py, which has it.", False),
        ("```\ntext_utils() is in text_utils.py\n```", False),
        ("`print()` is what it follows.", False),
        ("| file | change |\n|---|---|\n| parser.cfg | new default |", True),
        ("Touched:\n- tests/test_parser.py (new)", True),
        ("Touched:\n- notes.md (new)", False),
        ("Compare with the attachment `parser.pdf`, page 4.", True),
        ("Save it as `parser.pdf`, page 4.", False),
    ],
)
def test_a_file_told_as_given_stands_somewhere(text: str, made_up: bool) -> None:
    made = run(user("go on"), *did("bash", "notes.md"), agent(text))
    assert labels(RESULT_INTERPRETATION, made) == ({3: "incorrect"} if made_up else {})


@pytest.mark.parametrize(
    "refusal",
    [
        "head: cannot open 'table_reader.csv' for reading: No such file or directory",
        "AttributeError: module 'functions' has no attribute 'table_reader'",
        "Error: Cannot find module './table_reader.js'",
        "ERROR: file or directory not found: tests/table_reader.py",
        "could not open table_reader.py",
    ],
)
def test_a_refusal_in_any_words_shows_that_a_name_exists_nowhere(refusal: str) -> None:
    step = failed("bash", refusal, command="python table_reader.py")
    assert labels(ARGUMENT_VALIDITY, run(user("read it"), *step)) == {1: "incorrect"}


@pytest.mark.parametrize(
    ("command", "refused", "counted_on"),
    [
        ("python -m sum_kit", "/usr/bin/python: No module named sum_kit", True),
        ("python -c 'import sum_kit'", "ModuleNotFoundError: No module named 'sum_kit'", True),
        ("bash run_sums.sh", "bash: run_sums.sh: No such file or directory", True),
        ("python sum_kit/main.py", "error: 'sum_kit/main.py' does not exist, not run", True),
        # A package that is not installed is one that others know.
        ("python -c 'import numpy'", "ModuleNotFoundError: No module named 'numpy'", False),
        # A word in capitals is no file, and what is refused may be something else.
        ("python STOPHERE", "error: 'STOPHERE' is not an option", False),
        ("python sum_kit.py", "error: 'other_kit.py' is not there", False),
        ("python sum_kit.py", "sum_kit.py: 4 sums", False),
    ],
)
def test_a_line_that_denies_a_name_proves_that_there_is_none(
    command: str, refused: str, counted_on: bool
) -> None:
    made = run(user("add them"), *did("bash", refused, command=command))
    assert [x.step for x in find_absent_names(made)] == [1] * counted_on


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("The entry point uses `sum_kit`, as before.", False),
        ("The page is described in guide/sum_kit.rst.", False),
        ("The entry point uses `count_kit`, as before.", True),
        ("The entry point uses `sums`, as before.", True),
        ("I'll add `sum_kit` next.", True),
        ("Is it in `sum_kit`?", True),
    ],
)
def test_a_name_of_code_between_signs_stands_somewhere(text: str, known: bool) -> None:
    made = run(user("add them"), *did("bash", "count_kit.py", command="ls"), agent(text))
    assert [x.step for x in find_told_nowhere(made)] == [3] * (not known)


@pytest.mark.parametrize(
    ("output", "said", "right"),
    [
        ("Sun Mar  9 05:58:12 2025  scrub done", "It ended on 9 March 2025.", True),
        ("Sun Mar  9 05:58:12 2025  scrub done", "It ended on 20 March 2025.", False),
        ("Create Date : 2024:08:17 20:14:03", "It was taken on 17 August 2024.", True),
        ("Create Date : 2024:08:17 20:14:03", "It was taken on 28 August 2024.", False),
        ("Last-Modified: Mon, 06 Oct 2025 07:00:01 GMT", "It was changed on 6 October.", True),
        ("x1 coef -0.0187 p 0.2634", "It does not matter, p is about 0.26.", True),
        ("x1 coef -0.0187 p 0.2634", "It does not matter, p is about 0.31.", False),
        (
            "aisle,title,copies,out\nA,Night,4,4\nB,Night,3,3\nC,Salt,2,1\nD,Salt,2,2",
            "Just 1 of the copies of Salt is in.",
            True,
        ),
    ],
)
def test_dates_of_logs_rounded_numbers_and_counts_of_lines_have_a_source(
    output: str, said: str, right: bool
) -> None:
    made = run(user("look"), *did("bash", output), agent(said))
    assert (labels(RESULT_INTERPRETATION, made) == {}) is right
