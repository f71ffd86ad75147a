from __future__ import annotations

import re

import pytest

from stepscope.model import Record, ToolCall, Verdict
from stepscope.report.document import FileLinks, Page, ServerLinks
from stepscope.report.evidence import list_suspects
from stepscope.report.render import charts
from stepscope.report.rows import sort_findings
from stepscope.report.types import Curve
from stepscope.report.views.compare import align_calls
from stepscope.report.views.curve import make_curve_rows, view_curve
from stepscope.report.views.run import RunContent
from stepscope.report.views.run import make_run_page as run_page
from stepscope.report.views.steps import Strip, count_steps_per_column, fold_long_text, make_strip
from stepscope.report.views.verdicts import RunData, collect_verdicts, mark_steps, read_run
from stepscope.store import Store
from stepscope.store.records import score_records
from stepscope.values import Unmeasured
from tests.factories import FAILED, agent, calls, did, failed, result, run, system, user
from tests.report.literal import show_run
from tests.report.test_curves import FALLS, scores


def data(*steps: object, records: tuple[Verdict, ...] = (), curve: Curve | None = None) -> RunData:
    made = run(*steps, outcome=FAILED)  # type: ignore[arg-type]
    kept = tuple(Record(trajectory=made.id, answer=answer, version="1") for answer in records)
    found = sort_findings(kept)
    marked = list_suspects(made, None, kept)
    return RunData(
        trajectory=made,
        case=None,
        records=kept,
        curve=curve or Unmeasured("missing_input", "no step scores"),
        found=found,
        suspects=marked,
        marks=mark_steps(made, found, marked),
    )


def content(page: Page) -> RunContent:
    assert isinstance(page.content, RunContent)
    return page.content


def lanes(strip: Strip) -> dict[str, str]:
    return {lane.name: "".join(mark.sign or "." for mark in lane.marks) for lane in strip.lanes}


# -- The strip and the steps of a run.


def test_a_strip_has_a_column_a_step_and_a_lane_for_each_who_spoke() -> None:
    labels = (
        Verdict("step_labels", label="ERROR", step=1),
        Verdict("step_labels", label="REDUNDANT", step=3),
        Verdict("localise", 0.9, label="failed", step=1),
    )
    made = data(user("go"), *failed("pay"), *did("look"), records=labels)
    shown = lanes(make_strip(made, collect_verdicts(made), lambda step: None))
    assert shown == {"calls": ".✕.▪.", "look": ".?...", "rules": ".✕.○."}


def test_a_long_run_is_drawn_in_columns_with_the_gravest_thing_of_each() -> None:
    steps = [user("a") for _ in range(250)]
    labels = (
        Verdict("step_labels", label="REDUNDANT", step=30),
        Verdict("step_labels", label="ERROR", step=31),
        Verdict("step_labels", label="REDUNDANT", step=33),
    )
    made = data(*steps, records=labels)
    drawn = make_strip(made, collect_verdicts(made), lambda step: f"#{step}")
    assert (drawn.each, len(drawn.ticks)) == (3, 84)
    rules = next(lane for lane in drawn.lanes if lane.name == "rules")
    assert [(m.sign, m.href) for m in rules.marks[9:13]] == [
        ("", None), ("✕", "#31"), ("○", "#33"), ("", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "each"), [(0, 1), (1, 1), (100, 1), (101, 2), (200, 2), (201, 3), (100_000, 1000)]
)
def test_no_strip_has_more_columns_than_a_screen_shows_apart(count: int, each: int) -> None:
    assert count_steps_per_column(count) == each


@pytest.mark.parametrize(
    ("count", "ticks"),
    [
        (3, "0 1 2"),
        (21, "0 . 2 . 4 . 6 . 8 . 10 . 12 . 14 . 16 . 18 . 20"),
        (
            41,
            "0 . . . . 5 . . . . 10 . . . . 15 . . . . 20 . . . . 25 . . . . 30"
            " . . . . 35 . . . . 40",
        ),
    ],
)
def test_steps_are_numbered_where_there_is_room(count: int, ticks: str) -> None:
    made = data(*(user("a") for _ in range(count)))
    drawn = make_strip(made, collect_verdicts(made), lambda step: None)
    assert " ".join(tick or "." for tick in drawn.ticks) == ticks


def test_a_window_of_a_long_run_is_laid_out_and_its_neighbours_are_addresses() -> None:
    made = data(*(user(str(at)) for at in range(1000)))
    page = content(run_page(made, links=ServerLinks(), window=range(400, 600)))
    assert [step.step.index for step in page.steps] == list(range(400, 600))
    assert (page.before, page.after) == ("/run/r1?from=200", "/run/r1?from=600")
    whole = content(run_page(made, links=ServerLinks(), window=range(900, 1100)))
    assert [step.step.index for step in whole.steps] == list(range(900, 1000))
    assert whole.after is None


def test_a_citation_leads_into_the_window_or_to_the_page_that_holds_the_step() -> None:
    label = Verdict("axes.termination", label="incorrect", cites=(410, 5))
    made = data(*(user(str(at)) for at in range(1000)), records=(label,))
    shown = content(run_page(made, links=ServerLinks(), window=range(400, 600)))
    hrefs = [shown.to(step) for step in shown.said.rows[0].cites]
    assert hrefs == ["#r-r1-s410", "/run/r1?step=5#r-r1-s5"]
    filed = content(run_page(made, links=FileLinks(["r1"]), window=range(400, 600)))
    assert [filed.to(step) for step in filed.said.rows[0].cites] == ["#r-r1-s410", None]


def test_a_step_tells_who_speaks_of_it_and_each_remark_leads_to_its_verdict() -> None:
    labels = (
        Verdict("axes.termination", label="incorrect", step=1, cites=(0,), reason="stops"),
        Verdict("step_labels", label="ERROR", step=1),
    )
    shown = content(
        run_page(data(user("go"), agent("done"), records=labels), links=FileLinks(["r1"]))
    )
    chips = {chip.text: (chip.category, chip.href) for chip in shown.steps[1].chips}
    anchors = {row.measure: f"#{row.anchor}" for row in shown.said.rows}
    assert chips == {
        "termination: incorrect": ("fault", anchors["termination"]),
        "step_labels: ERROR": ("error", anchors["step_labels"]),
    }
    assert [chip.text for chip in shown.steps[0].chips] == ["cited by termination"]
    assert shown.steps[1].category == "error"


def test_a_verdict_that_cites_most_of_a_run_is_no_remark_on_a_step() -> None:
    wide = Verdict("recovery", 3.0, cites=tuple(range(13)), reason="all")
    narrow = Verdict("loops", 3.0, cites=tuple(range(12)), reason="round and round")
    bare = Verdict("efficiency", 3.0, cites=(3,))
    made = data(*(user("a") for _ in range(13)), records=(wide, narrow, bare))
    assert [chip.text for chip in collect_verdicts(made).at(3)] == ["cited by loops"]


@pytest.mark.parametrize(
    ("step", "folded"),
    [
        (system("be good"), True),
        (result("fine"), True),
        (result("no", "error"), False),
        (user("hello"), False),
        (agent("hello"), False),
        (calls(ToolCall("look", {})), False),
    ],
)
def test_what_is_uneventful_is_folded(step: object, folded: bool) -> None:
    assert content(run_page(data(step), links=FileLinks(["r1"]))).steps[0].folded is folded


def test_a_long_text_is_folded_and_what_a_file_leaves_out_is_counted() -> None:
    text = "word " * 1000
    open_ = fold_long_text(text, "text", None)
    assert open_.shown + open_.folded == text
    assert 450 < len(open_.shown) <= 900
    cut = fold_long_text(text, "text", 2000)
    assert cut.shown + cut.folded == text[:2000]
    assert cut.left == 3000
    short = fold_long_text("a" * 1300, "text", 1300)
    assert (len(short.shown), short.folded, short.left) == (1300, "", 0)


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
    assert view_curve(bare, 6, "r-1", lambda step: None).chart.spec == "curve_cost"
    assert view_curve(curve(), 6, "r-1", lambda step: None).chart.spec == "curve_break"


def test_a_curve_says_what_it_concludes_and_what_that_rests_on() -> None:
    found = view_curve(
        curve(gate_failed=(4,), low_level=True),
        6, "r-1", lambda step: f"#{step}",
    )  # fmt: skip
    assert found.said == (
        "Shape: late drift (late drift .900, recovery .100).",
        "Broke at step 4, with 90 % at steps 3-4.",
        "Watch step 1: time or cost rise while the score holds.",
        "Below the gate at step 4.",
        "Low throughout, whatever the shape.",
    )
    assert found.rests_on == (
        "From imported step scores; noise .150: unknown, averaged over a range."
    )
    assert found.chart.title == "Score curve"


LABELLED: dict[str, object] = {"source": "step_labels", "sigma": 0.25, "sigma_source": "assumed"}


def test_a_curve_of_labels_never_says_that_steps_were_scored() -> None:
    found = view_curve(curve(**LABELLED), 6, "r-1", lambda step: f"#{step}")
    assert found.said[1] == (
        "By the labels of rules, taken as scores, it broke at step 4, with 90 % at steps 3-4."
    )
    assert found.rests_on == (
        "From labels that rules gave to steps, taken as scores; noise .250: assumed, not measured."
    )
    assert (found.chart.spec, found.chart.title) == (
        "labels_break", "Labels of the rules, taken as scores",
    )  # fmt: skip
    assert [c.label for c in found.chart.table.columns][:2] == ["step", "label as score"]
    assert found.chart.table.caption == "Labels by step, taken as scores"
    kinds = [r["kind"] for r in make_curve_rows(curve(**LABELLED), 6)]
    assert kinds == ["label", "watch", "label", "label", "break", "label"]


@pytest.mark.parametrize(("source", "shown"), [("imported", ".900"), ("step_labels", "")])
def test_a_step_shows_the_score_that_it_was_given_and_no_label_for_one(
    source: str, shown: str
) -> None:
    made = data(*(user(str(at)) for at in range(5)), curve=curve(source=source))
    steps = content(run_page(made, links=ServerLinks())).steps
    assert [step.score for step in steps] == ["", shown, "", "", ".200" if shown else ""]


def test_the_page_of_a_run_begins_as_show_does_where_its_scores_fell() -> None:
    made = run(*(agent(str(at)) for at in range(10)), outcome=FAILED)
    with Store.open(":memory:") as store:
        store.put([made])
        store.append(list(score_records(made.id, scores(*FALLS))))
        page = content(run_page(read_run(store, made.id), links=ServerLinks()))
        shown = show_run(store, made.id)
    assert [(s.where, s.kind) for s in page.suspects[:1]] == [("4", "break")]
    assert page.suspects[0].evidence in shown
    assert [(s.step.index, *s.mark) for s in page.steps if s.mark.sign] == [(4, "!", "scores fall")]


def legend(name: str) -> list[str]:
    return re.findall(r"'domain': \['(\w+)', 'break'", str(charts.make_spec(name)))


def test_the_chart_of_labels_calls_them_labels() -> None:
    assert set(legend("curve_break")) == {"score"}
    assert set(legend("labels_break")) == {"label"}
    titles = [view["title"]["text"] for view in charts.make_spec("labels_break")["vconcat"]]
    assert titles == [
        "probability that the run broke here, by these labels",
        "labels as scores, their noise assumed",
    ]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("unresolved", "Shape unresolved: late drift .900, recovery .100."),
        (Unmeasured("insufficient_data", "3 scores"), "No shape: 3 scores."),
    ],
)
def test_a_curve_without_a_shape_says_why(shape: object, words: str) -> None:
    assert view_curve(curve(shape=shape), 6, "r", lambda step: None).said[0] == words


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
        (p.how, p.left and p.left.step, p.right and p.right.step)
        for p in align_calls(first, second, FileLinks())
    ]
    assert pairs == [("result", 1, 1), ("right", None, 3), ("arguments", 3, 5), ("same", 5, 7)]


def test_calls_with_other_arguments_say_which() -> None:
    first, second = run(*did("pay", to="a", amount=3)), run(*did("pay", to="a", amount=4))
    (pair,) = align_calls(first, second, FileLinks())
    assert [(d.path, d.was, d.now) for d in pair.differs] == [("amount", "3", "4")]
