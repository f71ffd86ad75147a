"""The tables of runs on a page, and charts, templates, scripts as such."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from stepscope.report.document import Links, ServerLinks
from stepscope.report.render import charts
from stepscope.report.render.pages import lay_out_runs
from stepscope.report.views.runs import RunListRow, RunQuery, select_runs, tabulate_runs
from tests.report.made_pages import seen

RENDER = Path(str(files("stepscope.report.render")))


def row(name: str, **fields: object) -> RunListRow:
    given: dict[str, object] = {
        "id": name, "name": name, "workflow": "w", "agent": "a", "task": name, "trial": "0",
        "outcome": "pass", "steps": 1, "calls": 1,
    }  # fmt: skip
    return RunListRow(**(given | fields))  # type: ignore[arg-type]


# -- The table of runs.


def test_runs_are_chosen_and_ordered_and_what_is_not_measured_comes_last() -> None:
    rows = [
        row("Shop/1", reached=0.5), row("shop/2"), row("bar/1", reached=0.9, outcome="fail"),
    ]  # fmt: skip
    assert [r.name for r in select_runs(rows, RunQuery(text="SHOP"))] == ["Shop/1", "shop/2"]
    assert [r.name for r in select_runs(rows, RunQuery(outcome="fail"))] == ["bar/1"]
    by = RunQuery(sort="reached", descending=True)
    assert [r.name for r in select_runs(rows, by)] == ["bar/1", "Shop/1", "shop/2"]
    assert [r.name for r in select_runs(rows, RunQuery(sort="reached"))] == [
        "Shop/1",
        "bar/1",
        "shop/2",
    ]
    assert [r.name for r in select_runs(rows, RunQuery(sort="no such"))] == [r.name for r in rows]


def test_a_server_shows_a_hundred_runs_and_the_way_to_the_others() -> None:
    rows = [row(f"r{at:03}") for at in range(250)]
    query = RunQuery(page=1, sort="run", text="r")
    found = seen(lay_out_runs(rows, query, ServerLinks()))
    names = [e.text for e in found.all("a") if (e.attributes["href"] or "").startswith("/run/")]
    assert names == [f"r{at:03}" for at in range(100, 200)]
    assert [e.text for e in found.all("output")] == ["101-200 of 250 runs"]
    ways = {e.attributes["rel"]: e.attributes["href"] for e in found.all("a")
            if "rel" in e.attributes}  # fmt: skip
    assert ways == {"prev": "/?q=r&sort=run#runs", "next": "/?q=r&sort=run&page=2#runs"}
    columns = tabulate_runs(rows[:1], rows, ServerLinks(), query).columns
    heads = {column.label: (column.order, column.href) for column in columns}
    assert heads["run"] == ("ascending", "/?q=r&sort=run&desc=1#runs")
    assert heads["steps"] == ("", "/?q=r&sort=steps&desc=1#runs")


def test_a_page_past_the_last_is_the_last() -> None:
    rows = [row(f"r{at}") for at in range(101)]
    found = seen(lay_out_runs(rows, RunQuery(page=9), ServerLinks()))
    assert [e.text for e in found.all("output")] == ["101-101 of 101 runs"]
    assert [e.attributes["rel"] for e in found.all("a") if "rel" in e.attributes] == ["prev"]


def test_a_file_shows_all_runs_and_leaves_the_order_to_the_browser() -> None:
    rows, links = [row(f"r{at}") for at in range(250)], Links(["r1"])
    assert len(seen(lay_out_runs(rows, RunQuery(), links)).all("tr")) == 251
    found = tabulate_runs(rows, rows, links)
    assert {column.href for column in found.columns} == {None}
    assert [r.cells[0].href for r in found.rows[:3]] == [None, "#r-r1", None]
    assert [r.cells[0].note for r in found.rows[:2]] == ["steps are not in this file", ""]
    assert [r.anchor for r in found.rows[:2]] == ["l-r0", ""]


def test_a_file_lists_no_more_runs_than_it_says_and_counts_the_others() -> None:
    rows = [row(f"r{at}") for at in range(2003)]
    found = seen(lay_out_runs(rows, RunQuery(), Links()))
    assert len(found.all("tr")) == 2001
    assert "3 more runs are not in this file's list" in found.all("p")[-1].text


def test_columns_that_nothing_was_measured_for_are_left_out() -> None:
    bare = tabulate_runs([row("a")], [row("a")], Links())
    assert [c.label for c in bare.columns] == [
        "run", "outcome", "agent", "task", "steps", "calls",
    ]  # fmt: skip
    rows = [row("a", cost_usd=0.5, faults=())]
    full = tabulate_runs(rows, rows, Links())
    assert [c.label for c in full.columns][-2:] == ["axes at fault", "cost"]


# -- Charts, templates and scripts as such.


@pytest.mark.parametrize("name", sorted(charts.CHARTS))
def test_a_specification_fetches_nothing_and_takes_its_rows_from_the_page(name: str) -> None:
    text = str(charts.make_spec(name))
    assert "'url'" not in text
    assert "'rows'" in text
    assert "datasets" not in text


def test_a_chart_in_a_notebook_carries_its_rows() -> None:
    made = charts.make_chart("axes", [{"label": "a", "group": "g", "value": 0.5, "low": 0.4}])
    assert made.to_dict()["datasets"]["rows"][0]["value"] == 0.5


FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "setTimeout(\"", "fetch(", "XMLHttpRequest", "http://", "https://", "srcdoc",
)  # fmt: skip


@pytest.mark.parametrize("word", FORBIDDEN)
def test_the_script_of_the_pages_makes_no_html_and_fetches_nothing(word: str) -> None:
    assert word not in (RENDER / "static" / "app.js").read_text("utf-8")


@pytest.mark.parametrize("path", sorted(p.name for p in (RENDER / "templates").glob("*.html")))
def test_no_template_marks_text_as_safe_or_styles_in_place(path: str) -> None:
    text = (RENDER / "templates" / path).read_text("utf-8")
    assert not re.search(r"\|\s*safe|autoescape\s+false|<[^>]*\sstyle=|<[^>]*\son[a-z]+=", text)
    assert "http" not in text.replace("http-equiv", "")
