from __future__ import annotations

from math import log

import pytest

from stepscope.measures.localise import LOCALISE
from stepscope.model import Case, Record, Step, SubGoal, Verdict
from stepscope.report.document import Links, ServerLinks
from stepscope.report.render.pages import make_runs_page
from stepscope.report.render.run_page import SIGNS, make_run_page
from stepscope.report.types import Curve
from stepscope.report.views.run import (
    RunData,
    align_calls,
    categorise_steps,
    chart_curve,
    choose_marks,
    count_steps_per_column,
    describe_curve,
    describe_curve_basis,
    find_parting,
    gather_run,
    list_verdicts,
    make_curve_rows,
    place_lanes,
    read_run,
    relate_calls,
    remark_on_steps,
)
from stepscope.store import Store
from stepscope.store.records import score_records
from stepscope.values import Unmeasured
from tests.factories import FAILED, agent, did, failed, result, run, system, user
from tests.report.literal import show_run
from tests.report.made_pages import Element, Seen, seen
from tests.report.test_curves import FALLS, scores


def data(
    *steps: object,
    records: tuple[Verdict, ...] = (),
    curve: Curve | None = None,
    version: str = "1",
) -> RunData:
    made = run(*steps, outcome=FAILED)  # type: ignore[arg-type]
    kept = tuple(Record(trajectory=made.id, answer=answer, version=version) for answer in records)
    return gather_run(made, None, kept, curve or Unmeasured("missing_input", "no step scores"))


def page(made: RunData, links: Links | None = None, window: range | None = None) -> Seen:
    return seen(make_run_page(made, links=links or Links(["r1"]), window=window).body)


def with_class(found: Seen, name: str) -> list[Element]:
    return [e for e in found.elements if name in (e.attributes.get("class") or "").split()]


def links_of(found: Seen, name: str) -> list[tuple[str, str | None]]:
    return [(e.text, e.attributes.get("href")) for e in with_class(found, name)]


def numbers(found: Seen) -> list[str]:
    return [str(e.text) for e in with_class(found, "no") if e.tag == "div"]


# -- The outline, the strip and the steps of a run.


def test_the_outline_has_a_line_a_step_and_the_strip_a_column() -> None:
    found = page(data(user("go"), *failed("pay"), *did("look"), agent("done"), user("ok")))
    assert [e.text for e in with_class(found, "t")] == [
        "go", "Pays; refused: no", "Refused: no", "Looks", "ok", "done", "ok",
    ]  # fmt: skip
    strip = [e.attributes["class"] for e in with_class(found, "k") if e.tag == "a"]
    assert strip == [f"k {x}" for x in (
        "user", "writes", "refused", "calls", "returns", "says", "user",
    )]  # fmt: skip


def test_a_call_stands_with_what_it_gave_and_each_step_has_its_address() -> None:
    found = page(data(user("go"), *failed("pay"), *did("look"), agent("done")))
    assert numbers(found)[:4] == ["0", "1\u20132", "3\u20134", "5"]
    ids = {e.attributes.get("id") for e in found.elements}
    assert {f"r-r1-s{at}" for at in range(6)} <= ids


def test_judges_and_people_have_a_lane_below_the_strip_and_rules_have_none() -> None:
    labels = (Verdict("step_labels", label="ERROR", step=1),)
    made = data(*(user("a") for _ in range(12)), records=labels)
    assert place_lanes(made, []) == {}
    judged = [Record(trajectory="r1", answer=Verdict("judge.step_labels", label="ERROR", step=3),
                     version="1", family="f", judge="m", prompt="p")]  # fmt: skip
    both = gather_run(made.trajectory, None, judged, made.curve)
    assert place_lanes(both, [7]) == {"f": {3: "error"}, "people": {7: "label"}}
    lane = with_class(page(both), "lane")[0]
    assert lane.tag == "div"
    assert SIGNS["error"] in [e.text for e in with_class(page(both), "c-error")]


def test_a_long_run_is_drawn_in_columns_with_the_gravest_thing_of_each() -> None:
    steps = [user("a") for _ in range(250)]
    labels = (
        Verdict("step_labels", label="REDUNDANT", step=30),
        Verdict("step_labels", label="ERROR", step=31),
        Verdict("step_labels", label="REDUNDANT", step=33),
    )
    made = data(*steps, records=labels)
    rules = categorise_steps(list_verdicts(made.records))["rules"]
    assert choose_marks(rules, 3) == {10: 31, 11: 33}
    assert len([e for e in with_class(page(made), "k") if e.tag == "a"]) == 125


@pytest.mark.parametrize(
    ("count", "each"), [(0, 1), (1, 1), (150, 1), (151, 2), (300, 2), (301, 3), (100_000, 667)]
)
def test_no_strip_has_more_columns_than_a_screen_shows_apart(count: int, each: int) -> None:
    assert count_steps_per_column(count) == each


@pytest.mark.parametrize(("count", "spread"), [(25, 1), (26, 2), (50, 2), (51, 5)])
def test_steps_are_numbered_where_there_is_room(count: int, spread: int) -> None:
    found = page(data(*(user("a") for _ in range(count))))
    ticks = [e.text for e in found.all("u")]
    assert ticks == [str(at) if at % spread == 0 else "" for at in range(count)]


def test_a_window_of_a_long_run_is_laid_out_and_its_neighbours_are_addresses() -> None:
    made = data(*(user(str(at)) for at in range(1000)))
    shown = page(made, ServerLinks(), range(400, 600))
    assert numbers(shown) == list(map(str, range(400, 600)))
    (steps,) = with_class(shown, "steps")
    assert steps.attributes["data-before"] == "/run/r1?from=200"
    assert steps.attributes["data-after"] == "/run/r1?from=600"
    last = page(made, ServerLinks(), range(900, 1100))
    assert numbers(last) == list(map(str, range(900, 1000)))
    assert with_class(last, "steps")[0].attributes["data-after"] == ""


def test_a_search_through_a_long_run_names_the_steps_of_all_windows() -> None:
    made = data(*(user(f"a {at}") for at in range(1000)))
    body = make_run_page(made, links=ServerLinks(), window=range(200), find="A 99").body
    found = seen(body)
    assert [e.text for e in with_class(found, "i")] == ["99", *map(str, range(990, 1000))]
    assert "11 steps with 'A 99'" in [e.text for e in found.all("p")]
    nothing = seen(make_run_page(made, links=ServerLinks(), window=range(9), find="zebra").body)
    assert with_class(nothing, "i") == []
    # Of a run that is all there, the browser searches.
    short = page(data(user("go")), ServerLinks())
    assert (
        "action"
        not in next(e for e in short.all("form") if e.attributes.get("role") == "search").attributes
    )


def test_the_suspects_and_what_remains_sum_to_a_hundred_percent() -> None:
    steps = [user("go"), *(step for _ in range(8) for step in did("look")), agent("done")]
    ranked = [
        Verdict("localise", log(share), label="place", step=step, reason="x")
        for step, share in zip((1, 3, 5, 7, 9, 11), (0.4, 0.2, 0.1, 0.1, 0.1, 0.1), strict=True)
    ]
    nobody = Verdict("localise.nobody", 0.1, label="calls")
    found = page(data(*steps, records=(*ranked, nobody), version=LOCALISE.version))
    said = [e.text for e in with_class(found, "chance")][:6]
    assert sum(int(text.removesuffix(" %")) for text in said) == 100
    assert [e.text for e in with_class(found, "where")][4:6] == ["", ""]


def test_a_citation_leads_into_the_window_or_to_the_page_that_holds_the_step() -> None:
    label = Verdict("axes.termination", label="incorrect", cites=(410, 5))
    made = data(*(user(str(at)) for at in range(1000)), records=(label,))
    shown = page(made, ServerLinks(), range(400, 600))
    assert links_of(shown, "cite") == [("410", "#r-r1-s410"), ("5", "/run/r1?step=5#r-r1-s5")]
    filed = page(made, Links(["r1"]), range(400, 600))
    assert links_of(filed, "cite") == [("410", "#r-r1-s410"), ("5", None)]


def test_a_step_tells_who_speaks_of_it_and_each_remark_leads_to_its_verdict() -> None:
    labels = (
        Verdict("axes.termination", label="incorrect", step=1, cites=(0,), reason="stops"),
        Verdict("step_labels", label="ERROR", step=1),
    )
    shown = page(data(user("go"), agent("done"), records=labels))
    rows = [e.attributes["id"] for e in shown.all("tr") if "id" in e.attributes]
    chips = [
        (e.text, e.attributes["class"], e.attributes["href"]) for e in with_class(shown, "chip")
    ]
    assert rows == ["r-r1-v0", "r-r1-v1"]
    assert chips == [
        ("cited by termination", "chip", "#r-r1-v0"),
        ("termination: incorrect", "chip c-fault", "#r-r1-v0"),
        ("step_labels: ERROR", "chip c-error", "#r-r1-v1"),
    ]
    assert [e.attributes["class"] for e in with_class(shown, "step")] == [
        "step user said", "step says said",
    ]  # fmt: skip


def test_a_verdict_that_cites_most_of_a_run_is_no_remark_on_a_step() -> None:
    wide = Verdict("recovery", 3.0, cites=tuple(range(13)), reason="all")
    narrow = Verdict("loops", 3.0, cites=tuple(range(12)), reason="round and round")
    bare = Verdict("efficiency", 3.0, cites=(3,))
    made = data(*(user("a") for _ in range(13)), records=(wide, narrow, bare))
    assert list(remark_on_steps(list_verdicts(made.records))[3]) == ["cited by loops"]


@pytest.mark.parametrize(
    ("step", "folded"),
    [
        (system("be good " * 20), True),
        (result('{"a": 1}'), True),
        (result("fine"), False),
        (result("no", "error"), False),
        (user("hello"), False),
        (agent("hello"), False),
    ],
)
def test_what_is_long_is_folded_and_an_error_never(step: object, folded: bool) -> None:
    found = page(data(step))
    assert bool(with_class(found, "fold") or with_class(found, "rest")) is folded


def test_an_expected_call_is_shown_by_what_differs_and_once() -> None:
    wanted = {"bags": 0, "seat": "1A", "meal": "fish"}
    made = run(
        user("go"), *failed("book", "Error: no", **(wanted | {"bags": 2})),
        *failed("book", "Error: no", **(wanted | {"bags": 2})), outcome=FAILED,
    )  # fmt: skip
    goal = SubGoal(name="g", tool="book", arguments=wanted)
    case = Case(workflow="w", task="t", subgoals=(goal,))
    missed = Verdict("subgoals", 0.0, label="none")
    records = [Record(trajectory=made.id, answer=missed, version="1")]
    found = page(gather_run(made, case, records, Unmeasured("missing_input", "none")))
    assert [e.text for e in with_class(found, "was")] == ["2"]
    assert [e.text for e in with_class(found, "want")] == ["0"]
    assert "the other 2" in [e.text for e in found.all("td")]


# -- The curve.


def curve(**fields: object) -> Curve:
    given: dict[str, object] = {
        "steps": (1, 3, 4), "scores": (0.9, None, 0.2), "source": "imported", "sigma": 0.15,
        "shape": "late_drift", "posterior": {"late_drift": 0.9, "recovery": 0.1},
        "break_probability": (0.1, 0.2, 0.6), "break_step": 4, "break_first": 3, "break_last": 4,
        "watch": (1,),
    }  # fmt: skip
    return Curve(**(given | fields))  # type: ignore[arg-type]


def test_a_curve_has_a_row_for_every_step_and_no_score_where_nobody_scored() -> None:
    rows = make_curve_rows(curve(), 6)
    assert [r["step"] for r in rows] == [0, 1, 2, 3, 4, 5]
    assert [r.get("score") for r in rows] == [None, 0.9, None, None, 0.2, None]
    assert [r["kind"] for r in rows] == ["score", "watch", "score", "score", "break", "score"]
    assert [r.get("in_break") for r in rows] == [None, None, None, True, True, None]
    assert [r.get("break_probability") for r in rows] == [None, 0.1, None, 0.2, 0.6, None]
    assert rows[4]["high"] == pytest.approx(0.35)
    assert rows[1]["high"] == 1.0
    assert (rows[0]["from"], rows[5]["to"]) == (-0.5, 5.5)


def test_a_curve_too_long_to_draw_keeps_the_lowest_score_and_sums_of_each_stretch() -> None:
    scores = [0.9] * 1200
    scores[701] = 0.1
    long = curve(
        steps=tuple(range(1200)), scores=tuple(scores), break_probability=(), break_step=None,
        break_first=None, break_last=None, watch=(), latency_s=(1.5,) * 1200,
    )  # fmt: skip
    rows = make_curve_rows(long, 1200)
    assert len(rows) == 600
    assert [(r["step"], r["score"]) for r in rows[349:352]] == [(698, 0.9), (701, 0.1), (702, 0.9)]
    assert {r["latency_s"] for r in rows} == {3.0}


def test_only_panels_with_something_in_them_are_drawn() -> None:
    bare = curve(break_probability=(), latency_s=(None, None, None), cost_usd=(0.1, None, None))
    assert chart_curve(bare, 6, "r-1", lambda step: None).spec == "curve_cost"
    broken = chart_curve(curve(), 6, "r-1", lambda step: None)
    assert broken.spec == "curve_break"
    at = [column.label for column in broken.table.columns].index("probability of the break")
    assert all(row.cells[at].text.endswith(" %") for row in broken.table.rows)


def test_a_curve_says_what_it_concludes_and_what_that_rests_on() -> None:
    found = curve(gate_failed=(4,), low_level=True)
    assert tuple(describe_curve(found)) == (
        "Shape: late drift (late drift 90 %, recovery 10 %).",
        "Broke at step 4, with 90 % at steps 3-4.",
        "Watch step 1: time or cost rise while the score holds.",
        "Below the gate at step 4.",
        "Low throughout, whatever the shape.",
    )
    assert describe_curve_basis(found) == (
        "From imported step scores; noise 0.15: unknown, averaged over a range."
    )
    assert chart_curve(found, 6, "r-1", lambda step: None).title == "Score curve"


def test_a_step_shows_the_score_that_it_was_given() -> None:
    made = data(*(user(str(at)) for at in range(5)), curve=curve())
    spans = [e.text for e in page(made).all("span")]
    assert [text for text in spans if text.startswith("score ")] == ["score 0.90", "score 0.20"]


def test_the_page_of_a_run_begins_as_show_does_where_its_scores_fell() -> None:
    made = run(*(agent(str(at)) for at in range(10)), outcome=FAILED)
    with Store.open(":memory:") as store:
        store.put([made])
        store.append(list(score_records(made.id, scores(*FALLS))))
        laid_out = page(read_run(store, made.id), ServerLinks())
        shown = show_run(store, made.id)
    assert with_class(laid_out, "where")[0].text == "4"
    assert with_class(laid_out, "why")[0].text in shown
    assert [e.attributes["id"] for e in laid_out.all("li") if "data-marked" in e.attributes] == [
        "r-r1-s4"
    ]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("unresolved", "Shape unresolved: late drift 90 %, recovery 10 %."),
        (Unmeasured("insufficient_data", "3 scores"), "No shape: 3 scores."),
    ],
)
def test_a_curve_without_a_shape_says_why(shape: object, words: str) -> None:
    assert next(describe_curve(curve(shape=shape))) == words


# -- Two runs side by side.


def test_calls_are_aligned_by_what_they_ask() -> None:
    first = run(user("go"), *did("find", "one", id=1), *did("pay", "ok", amount=3), *did("end"))
    second = run(
        user("go"),
        *did("find", "two", id=1),
        *did("look"),
        *did("pay", "ok", amount=4),
        *did("end"),
    )
    pairs = [
        (relate_calls(left, right), left and left.step, right and right.step)
        for left, right in align_calls(first, second)
    ]
    assert pairs == [("result", 1, 1), ("right", None, 3), ("arguments", 3, 5), ("same", 5, 7)]


@pytest.mark.parametrize(
    ("second", "tool"),
    [
        ([*did("think", text="b"), *did("pay", amount=4)], "pay"),
        ([*did("check", text="b"), *did("pay", amount=4)], "check"),
        ([*did("think", text="b"), *did("pay", amount=3)], None),
    ],
)
def test_two_runs_part_at_the_first_call_that_differs_whatever_they_thought(
    second: list[Step], tool: str | None
) -> None:
    first = run(user("go"), *did("think", text="a"), *did("pay", amount=3))
    pairs = list(align_calls(first, run(user("go"), *second)))
    at = find_parting(pairs)
    second_side = None if at is None else pairs[at][1]
    assert (second_side and second_side.call.name) == tool


def test_calls_with_other_arguments_say_which() -> None:
    first, second = data(*did("pay", to="a", amount=3)), data(*did("pay", to="a", amount=4))
    shown = seen(make_runs_page(first, second, links=Links()).body)
    (differs,) = with_class(shown, "differs")
    at = shown.elements.index(differs)
    assert [(e.tag, e.text) for e in shown.elements[at + 2 : at + 5]] == [
        ("span", "amount"), ("del", "3"), ("ins", "4"),
    ]  # fmt: skip
