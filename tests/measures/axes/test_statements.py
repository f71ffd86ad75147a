"""What a message says of rows, columns, states, firsts, counts and changes of an output."""

from __future__ import annotations

import pytest

from stepscope.measures.axes.evidence import evidence_of
from stepscope.measures.axes.layouts import changes_of, groups_of
from stepscope.measures.axes.outputs import find_misread_lines
from stepscope.measures.axes.results import RESULT_INTERPRETATION, RESULT_INTERPRETATION_NAME
from stepscope.measures.language import split_stated
from tests.factories import agent, did, run, user
from tests.measures.answers import label, whole

BOATS = """\
BOAT        STATE     BERTH   CREW   FUEL
Albatros    moored    B12     4      310
Curlew      at-sea    -       7      95
Dunlin      moored    A03     2      140
Eider       repair    C01     0      12"""
QUEUES = """\
+---------+--------+-------+------------+
| queue   | active | depth | consumer   |
+---------+--------+-------+------------+
| letters | true   |   412 | mira       |
| parcels | false  |    17 | quentin    |
| returns | true   |    88 | mira       |
+---------+--------+-------+------------+"""
FLIGHTS = """\
flight,gate,leaves,seats
KV 2201,D4,06:40,118
KV 2207,A9,11:15,64
KV 2213,D1,17:55,190"""
HERD = """\
{"cows": [{"tag": "Berta", "stall": "north", "litres": 21.5, "sick": false},
 {"tag": "Flora", "stall": "south", "litres": 30.2, "sick": false},
 {"tag": "Gerda", "stall": "south", "litres": 17.8, "sick": true}]}"""
LOG = """\
2031-05-02 04:00:01 INFO  pump: primed on channel 3
2031-05-02 04:00:09 WARN  valve: slow to open, waited 4s
2031-05-02 04:07:30 ERROR heater: no flame detected
2031-05-02 04:07:55 ERROR heater: no flame detected
2031-05-02 04:09:12 INFO  pump: stopped"""
STEPS = """\
fetch ........ ok (4.2s)
grind ........ ok (31.0s)
sieve ........ FAILED (1.1s)
label ........ skipped"""
PLAN = """\
  + dns_zone.harbour
  + dns_record.quay
  ~ firewall.outer
  - bucket.tides"""
DIFF = """\
@@ -3,4 +3,4 @@
-window_hours = 6
+window_hours = 2
-siren = on
+siren = off"""
SITES = """\
gate-east:
  camera: online
  firmware: 4.1.7
gate-west:
  camera: offline
  firmware: 4.0.2"""
LINT = """\
hull.py:12:1: E302 expected two blank lines
hull.py:40:5: F841 unused variable 'keel'
mast.py:7:80: E501 line too long"""

SHEDS = """\
SHED    BUILT        ROOF
Alder   1998-04-01   slate
Birch   2011-09-30   tin
Cedar   2004-01-15   slate"""
UNITS = """\
NAME   STATUS
lamp   Exited (1) 5 minutes ago
bell   Up 3 hours (unhealthy)
horn   Up 3 hours"""
DRAWINGS = """\
drawings
|-- [ 12K]  oak.svg
|-- [ 19K]  elm.svg
|-- [900K]  oak.png"""
SHOPS = """\
shop   bikes   cars
Hill     120    310
Dale     430     95"""
REMARKS = """\
UNIT    REMARK
lathe   please oil the left spindle before each long run
press   please check the belt for wear twice a month"""


def found(output: str, text: str) -> list[str]:
    made = run(user("look"), *did("bash", output), agent(text))
    return [x.reason for x in find_misread_lines(made, evidence_of(made))]


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        (BOATS, "The Dunlin is at sea.", "The Curlew is at sea, the Dunlin moored."),
        (BOATS, "The Eider lies at berth A03.", "The Dunlin lies at berth A03."),
        (QUEUES, "Mira works on the parcels.", "Mira works on letters and returns."),
        (QUEUES, "The parcels are read by mira.", "The parcels are read by quentin, not by mira."),
        (FLIGHTS, "KV 2207 leaves at 17:55.", "KV 2213 leaves at 17:55, six hours after KV 2207."),
        (HERD, "Flora stands in the north.", "Flora stands in the south, Berta in the north."),
        (SITES, "The camera of gate-east is offline.", "The camera of gate-west is offline."),
        (STEPS, "Grinding failed.", "Sieving failed, and labelling was skipped."),
        (PLAN, "firewall.outer will be removed.", "firewall.outer will be changed."),
        (UNITS, "The lamp is running.", "The horn is running, and so is the bell."),
        (UNITS, "The horn has exited.", "The bell is up."),
        (LINT, "mast.py has an unused variable.", "hull.py has an unused variable."),
    ],
)
def test_what_stands_in_one_row_is_not_told_of_another(output: str, wrong: str, right: str) -> None:
    assert found(output, wrong) != []
    assert found(output, right) == []


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        (
            BOATS,
            "The Albatros has 95 litres left.",
            "The Albatros has 310 litres, more than twice the Dunlin's 140.",
        ),
        (BOATS, "The Eider has 7 crew.", "The Eider has 0 crew."),
        (HERD, "Gerda gave 30.2 litres.", "Gerda gave 17.8 litres, 12.4 less than Flora's 30.2."),
        (
            SITES,
            "gate-west runs firmware 4.1.7.",
            "gate-west runs 4.0.2, older than 4.1.7 at the east.",
        ),
        (SHOPS, "Hill sold 430 bikes.", "Hill sold 120 bikes and 310 cars, which makes 430."),
        (STEPS, "Grinding took 4.2s.", "Grinding took 31.0s, fetching just 4.2."),
        (STEPS, "Grinding took more than two minutes.", "Grinding took more than half a minute."),
    ],
)
def test_a_number_is_told_of_the_row_that_has_it(output: str, wrong: str, right: str) -> None:
    assert found(output, wrong) != []
    assert found(output, right) == []


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        (BOATS, "The Dunlin has the most fuel.", "The Albatros has the most fuel."),
        (
            BOATS,
            "The Dunlin has the largest crew.",
            "Of the moored boats the Albatros has the largest crew.",
        ),
        (STEPS, "Fetching was the slowest step.", "Grinding was the slowest step."),
        (
            HERD,
            "Berta gave the fewest litres.",
            "Gerda gave the fewest litres, and Flora the most.",
        ),
        (
            BOATS,
            "The Dunlin has more fuel than the Albatros.",
            "The Dunlin has more fuel than the Curlew.",
        ),
        (SHEDS, "Birch is the oldest shed.", "Alder is the oldest shed, and Birch the newest."),
        (DRAWINGS, "oak.svg is the largest drawing.", "elm.svg is the largest vector drawing."),
        (HERD, "Berta gave more litres than Flora.", "Berta gave more litres than Gerda."),
    ],
)
def test_what_is_told_as_first_or_as_more_is_so_by_its_column(
    output: str, wrong: str, right: str
) -> None:
    assert found(output, wrong) != []
    assert found(output, right) == []


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        (BOATS, "Three boats are moored.", "Two boats are moored; the other two are not."),
        (BOATS, "All boats are moored.", "All boats but the Curlew and the Eider are moored."),
        (BOATS, "None of the boats is moored.", "None of the boats is sunk."),
        (QUEUES, "All queues are active.", "Not all queues are active."),
        (LOG, "Three errors were logged.", "Two errors were logged, one warning before them."),
        (LOG, "The run went through without errors.", "The pump ran without errors."),
        (STEPS, "All steps are ok.", "Nearly all steps are ok."),
        (STEPS, "Everything went through without any failures.", "There is one failure."),
    ],
)
def test_rows_are_counted_and_all_and_none_of_them_are_so(
    output: str, wrong: str, right: str
) -> None:
    assert found(output, wrong) != []
    assert found(output, right) == []


@pytest.mark.parametrize(
    ("output", "wrong", "right"),
    [
        (DIFF, "The window grew from 2 to 6 hours.", "The window shrank from 6 to 2 hours."),
        (DIFF, "The siren was turned on.", "The siren was turned off."),
        (
            "Comparing a and b\n  warm-up   900 ms -> 450 ms\n  weight    12 kg -> 19 kg",
            "The weight went down.",
            "The weight went up, while the warm-up got faster.",
        ),
    ],
)
def test_a_change_has_one_direction(output: str, wrong: str, right: str) -> None:
    assert found(output, wrong) != []
    assert found(output, right) == []


@pytest.mark.parametrize(
    "text",
    [
        "The Dunlin should be at sea by noon.",
        "If the Dunlin were at sea, the berth would be free.",
        "The Dunlin isn't at sea.",
        "Is the Dunlin at sea?",
        "I moved the Dunlin to C01.",
        "Unlike the Dunlin, the Curlew is at sea.",
        "The Curlew, at sea, has less fuel than the Dunlin.",
        "The Albatros has twice the crew of the Dunlin, 4.",
        "The Curlew and the Dunlin have 235 litres together.",
    ],
)
def test_what_is_supposed_denied_done_or_compared_is_no_statement(text: str) -> None:
    assert found(BOATS, text) == []


def test_a_text_in_a_cell_says_of_no_kind() -> None:
    assert found(REMARKS, "The lathe has a belt.") == []


def test_a_pronoun_goes_on_about_the_row_before() -> None:
    assert found(BOATS, "The Dunlin is fine. It is at sea.") != []
    assert found(BOATS, "The Curlew is fine. It is at sea.") == []
    assert found(BOATS, "Before noon I'd look at the Dunlin: it is at sea.") != []


def test_advice_behind_a_statement_takes_nothing_from_it() -> None:
    assert found(BOATS, "The Dunlin is at sea, so we should wait for it.") != []
    assert split_stated("It is full, so we should clean it.")[0].strip(" ,") == "It is full"
    assert split_stated("If it is full, we clean it.")[0].strip(" ,") == ""


def test_what_is_told_of_an_earlier_output_may_have_changed() -> None:
    made = run(
        user("look"), *did("bash", BOATS), *did("bash", "ok\nok"), agent("The Dunlin is at sea.")
    )
    assert list(find_misread_lines(made, evidence_of(made))) == []


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        (BOATS, ["BOAT", "STATE", "BERTH", "CREW", "FUEL"]),
        (QUEUES, ["queue", "active", "depth", "consumer"]),
        (FLIGHTS, ["flight", "gate", "leaves", "seats"]),
        (HERD, ["tag", "stall", "litres", "sick"]),
        (SITES, ["name", "camera", "firmware"]),
        (STEPS, ["name", "state", "time", "message"]),
    ],
)
def test_an_output_of_any_layout_has_rows_with_columns(output: str, columns: list[str]) -> None:
    assert groups_of(output)[0].columns == columns


def test_a_page_and_data_have_no_rows() -> None:
    assert groups_of("word " * 80 + "\nshort: 1\nlong: 2") == ()
    assert groups_of("\n".join(f"a{n}: {n}" for n in range(100))) == ()
    assert groups_of("Error: no such table\nsecond: 2") == ()


def test_objects_within_many_others_are_read_to_a_depth_and_no_further() -> None:
    deep = '{"a":' * 900 + "1" + "}" * 900
    assert sum(len(x.rows) for x in groups_of(deep)) == 0
    assert found(f"{deep}\n", "It is 2.") == []


def test_a_diff_and_an_arrow_show_what_was_and_what_is() -> None:
    assert changes_of(DIFF)[0] == ("window_hours", "6", "2")
    assert changes_of("zone: a -> b\nsize: 3") == (("zone", "a", "b"),)
    assert changes_of("-only = gone\n+other = new") == ()


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        ("kind,price\nlamp,184.00,179.80\nchair,9.25,3.00", "Lamps went for 179.80.", False),
        ("loss 0.4471\nacc 0.880\n", "The accuracy is 0.88.", False),
        ("adult 18.50\nchild 11.25\n", "Two adults and a child pay 48.25.", False),
        ("fare 8.40, 60 cents more than before\nseat 3\n", "It was 7.80 before.", False),
        ("adult 18.50\nchild 11.25\n", "A group pays 913.77.", True),
    ],
)
def test_an_amount_that_an_output_prints_or_makes_is_no_invention(
    output: str, text: str, wrong: bool
) -> None:
    made = run(user("look"), *did("bash", output), agent(text))
    said = label(whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME])
    assert (said == "incorrect") is wrong


@pytest.mark.parametrize(
    ("output", "text", "wrong"),
    [
        (
            "last-modified: Mon, 06 Oct 2031 17:20:44 GMT\nage: 5\n",
            "It is of 6 October 2031.",
            False,
        ),
        ("day,level\n2031-03-05,182.10\n", "On 2031-03-05 it was high.", False),
        ("day,level\n2031-03-05,182.10\n", "On 2031-07-19 it was high.", True),
    ],
)
def test_a_day_that_an_output_prints_in_its_own_form_is_no_invention(
    output: str, text: str, wrong: bool
) -> None:
    made = run(user("look"), *did("bash", output), agent(text))
    said = label(whole(RESULT_INTERPRETATION, made)[RESULT_INTERPRETATION_NAME])
    assert (said == "incorrect") is wrong


@pytest.mark.parametrize(
    ("output", "text"),
    [
        # A number of what is counted otherwise, a count of lines, an index, money.
        (
            "shelf_id  items  weight\n7102      4      12.5\n7103      2      80.0",
            "There are two shelves.",
        ),
        ("Score  Judge\n4      Ada\n2      Bea\n5      Cid", "Cid is the kindest of the three."),
        ("day=1 rain=14\nday=2 rain=6\nday=4 rain=9", "Day 4 had about 9 mm of rain."),
        (
            "item  pieces  price\nlamp  12      871.00\nhook  3       4.00",
            "Twelve pieces of lamp cost $871.",
        ),
        ("Trains: 1402\nStops: 17", "A train takes an hour and two minutes."),
    ],
)
def test_a_number_that_may_count_something_else_is_no_misreading(output: str, text: str) -> None:
    assert found(output, text) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("mail has 7 failed.", True),
        ("Whoever is on call has 7 colleagues to phone about a failed delivery of mail.", False),
        ("This summer 40 applications for mail jobs seem quite a modest harvest to me.", False),
    ],
)
def test_in_a_paraphrase_of_many_words_a_number_counts_what_nobody_knows(
    text: str, wrong: bool
) -> None:
    assert (found("queue  depth  failed\nmail   12     3\nscan   40     7", text) != []) is wrong
