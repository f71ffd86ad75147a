"""The runs as a map, and the sentence above it."""

from __future__ import annotations

import pytest

from stepscope.model import Outcome
from stepscope.report.build import build_report
from stepscope.report.document import Links, ServerLinks
from stepscope.report.render.pages import lay_out_map, make_overview_page
from stepscope.report.views.overview import list_breaks, state_result
from stepscope.report.views.runs import (
    MOST_CELLS,
    MapBlock,
    RunListRow,
    RunQuery,
    arrange_runs,
    draw_cell,
    select_runs,
    size_cells,
)
from stepscope.score import score_runs
from stepscope.store import Store
from tests.factories import FAILED, PASSED, agent, did, run, user
from tests.report.made_pages import HOSTILE, read_runs, seen
from tests.report.test_page_tables import row


def names(blocks: list[MapBlock]) -> list[tuple[str, list[tuple[str, list[list[str]]]]]]:
    return [
        (block.said, [(name, [[r.name for r in cell] for cell in cells])
                      for name, cells in block.columns])
        for block in blocks
    ]  # fmt: skip


def trials(task: str, outcomes: str, **more: object) -> list[RunListRow]:
    words = {"p": "pass", "f": "fail", "?": "unknown"}
    return [
        row(f"{task}/{at}", task=task, trial=str(at), outcome=words[one], **more)
        for at, one in enumerate(outcomes)
    ]


def test_a_column_is_a_task_and_a_cell_a_trial_sorted_by_how_often_it_passes() -> None:
    rows = [*trials("2", "ff"), *trials("10", "pf"), *trials("9", "pp"), *trials("1", "fp"),
            *trials("3", "??")]  # fmt: skip
    assert names(arrange_runs(rows)) == [
        ("Always pass", [("9", [["9/0"], ["9/1"]])]),
        ("Sometimes pass", [("1", [["1/0"], ["1/1"]]), ("10", [["10/0"], ["10/1"]])]),
        ("Never pass", [("2", [["2/0"], ["2/1"]])]),
        ("No outcome", [("3", [["3/0"], ["3/1"]])]),
    ]
    assert arrange_runs(rows[::-1]) == arrange_runs(rows)


def test_tasks_of_one_trial_pass_or_fail() -> None:
    rows = [*trials("1", "p"), *trials("2", "f")]
    assert [block.said for block in arrange_runs(rows)] == ["Pass", "Fail"]


def test_each_agent_and_each_version_has_its_own_blocks() -> None:
    rows = [*trials("1", "p", agent="a"), *trials("1", "f", agent="b")]
    assert [(b.agent, b.said) for b in arrange_runs(rows)] == [("w · a", "Pass"), ("w · b", "Fail")]
    rows = [*trials("1", "p", agent_version="1.0"), *trials("1", "f", agent_version="1.1")]
    assert [b.agent for b in arrange_runs(rows)] == ["w · a · 1.0", "w · a · 1.1"]
    assert [b.agent for b in arrange_runs(rows[:1])] == [""]


def test_runs_without_tasks_stand_in_the_order_of_time_and_those_without_times_last() -> None:
    rows = [row("a", task=""), row("b", task="", start_ns=9), row("c", task="", start_ns=3)]
    assert names(arrange_runs(rows)) == [
        ("In the order of time", [("", [["c"]]), ("", [["b"]]), ("", [["a"]])])
    ]
    assert names(arrange_runs(rows[:1])) == [("By name", [("", [["a"]])])]


def test_of_a_hundred_thousand_runs_a_cell_is_several_and_leads_to_their_list() -> None:
    rows = [
        row(f"{task}/{trial}", task=str(task), trial=str(trial),
            outcome="pass" if trial % 200 < task else "fail", agent=f"agent {task % 2}")
        for task in range(200)
        for trial in range(500)
    ]  # fmt: skip
    blocks = arrange_runs(rows)
    cells = [cell for block in blocks for _, column in block.columns for cell in column]
    assert len(cells) <= MOST_CELLS
    assert sum(map(len, cells)) == len(rows) == 100_000
    at = len(cells) // 2
    drawn = draw_cell(cells[at], at, ServerLinks(), {})
    assert drawn.href == f"/?cell={at}#runs"
    assert select_runs(rows, RunQuery(cell=str(at))) == cells[at]
    assert len(seen(lay_out_map(rows, ServerLinks())).all("a")) == len(cells)
    # In a file no cell leads anywhere, and none is a link.
    assert seen(lay_out_map(rows, Links())).all("a") == []


@pytest.mark.parametrize("cell", ["-1", "99999", "1.5", "x", "9" * 30])
def test_a_cell_that_is_none_has_no_runs(cell: str) -> None:
    assert select_runs(trials("1", "pf"), RunQuery(cell=cell)) == []


@pytest.mark.parametrize(
    ("outcomes", "tone"),
    [("pp", "pass"), ("ppf", "pass"), ("pf", "mixed"), ("pff", "mixed"), ("pfff", "fail"),
     ("??", "unknown"), ("?f", "fail")],
)  # fmt: skip
def test_a_cell_of_several_runs_has_the_tint_of_the_share_that_passes(
    outcomes: str, tone: str
) -> None:
    assert draw_cell(trials("1", outcomes), 0, Links(), {}).tone == tone


def test_a_cell_says_its_run_and_its_mode_and_leads_to_it_or_to_its_row() -> None:
    (one,) = trials("1", "f")
    cell = draw_cell([one], 0, Links([one.id]), {one.id: "B"})
    assert (cell.tone, cell.letter, cell.said) == ("fail", "B", "1/0: fail, mode B, 1 step")
    assert cell.href == "#r-1/0"
    assert draw_cell([one], 0, Links(), {}).href == "#l-1/0"


def test_cells_are_as_wide_as_the_longest_line_of_an_agent_allows() -> None:
    def size(agents: int, tasks: int) -> int:
        rows = [one for agent in range(agents) for task in range(tasks)
                for one in trials(str(task), "p", agent=str(agent))]  # fmt: skip
        return size_cells(arrange_runs(rows))

    assert [size(1, 12), size(1, 30), size(1, 60), size(1, 200)] == [34, 25, 14, 6]
    assert size(9, 12) == 34


def test_few_runs_are_named_beside_their_cells() -> None:
    found = seen(lay_out_map(trials("1", "pf"), ServerLinks()))
    assert [e.text for e in found.all("a") if e.text] == ["1/0", "1/1"]


# -- The sentence.


def sentence(*outcomes: tuple[str, str]) -> str:
    """The first sentence over runs of tasks, each with the outcome of its trials."""
    with Store.open(":memory:") as store:
        store.put(
            run(
                user("buy"), *did("find"), agent("done"), id=f"{task}{at}".ljust(32, "f"),
                name=f"shop/{task}/{at}", task=task, trial=str(at), agent="bot",
                outcome={"p": PASSED, "f": FAILED}.get(one, Outcome()),
            )
            for task, said in outcomes
            for at, one in enumerate(said)
        )  # fmt: skip
        score_runs(store, workers=1)
        report, rows = build_report(store), read_runs(store)
    return "".join(text for text, _ in state_result(report, [rows], list_breaks(rows)))


def test_the_sentence_counts_what_passes_and_the_tasks_that_always_do() -> None:
    said = sentence(("1", "pp"), ("2", "pf"), ("3", "ff"))
    assert said.startswith("bot passes 3 of 6 shop runs (50 %")
    assert said.endswith(") and 1 of 3 tasks every time.")


def test_a_value_that_is_known_is_said_though_its_interval_is_not() -> None:
    assert (
        sentence(("1", "ppf")) == "bot passes 2 of 3 shop runs (67 %) and 0 of 1 task every time."
    )


def test_where_nothing_failed_the_sentence_says_how_much_may_fail_all_the_same() -> None:
    said = sentence(*((str(task), "p") for task in range(30)))
    assert said.startswith("bot passes 30 of 30 shop runs (100 %")
    assert "Nothing failed; at most 11 % fail, 95 %." in said


def test_where_nobody_says_how_runs_ended_the_sentence_says_that() -> None:
    assert sentence(("1", "??")) == "2 runs with 2 calls; no outcome is known."


def test_runs_without_an_outcome_are_counted_beside_the_others() -> None:
    assert "1 more run has no outcome" in sentence(("1", "pf"), ("2", "p?"))


def test_what_failing_runs_show_is_counted_beside_what_passing_ones_show() -> None:
    rows = [
        row("a", outcome="fail", reached=0.0, calls=0),
        row("b", outcome="fail", reached=0.5, failed_calls=1.0),
        row("c", outcome="fail", reached=1.0, faults=("sequencing",), failed_calls=2.0),
        row("d", outcome="pass", reached=1.0, failed_calls=1.0),
        row("e", outcome="unknown", reached=0.0),
    ]
    assert list_breaks(rows) == [
        ("meet a tool error", 2, 1, 1),
        ("have a proved fault of sequencing", 1, 0, 1),
        ("make no call at all", 1, 0, 1),
        ("miss a call that is expected", 1, 0, 1),
    ]


def test_a_page_of_one_hostile_run_is_a_page() -> None:
    with Store.open(":memory:") as store:
        store.put([run(user(HOSTILE), agent=HOSTILE, name=HOSTILE)])
        page = make_overview_page(build_report(store), read_runs(store), links=Links())
    assert seen(page.body).unbalanced == []
