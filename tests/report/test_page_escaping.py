from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

from stepscope.gates.looks import GateHistory, PolicyLooks
from stepscope.gates.types import CaseFailure, GateDecision, GateReport, WorkflowDecision
from stepscope.report.build import build_report
from stepscope.report.compare import compare_groups
from stepscope.report.document import Links, ServerLinks
from stepscope.report.render.html import render_report_html
from stepscope.report.render.pages import (
    CHART_SCRIPTS,
    Page,
    make_choice_page,
    make_gates_page,
    make_groups_page,
    make_overview_page,
    make_profile_page,
    make_run_choice_page,
    make_runs_page,
)
from stepscope.report.render.pages import embed_json as as_json
from stepscope.report.render.run_page import make_run_page
from stepscope.report.types import GateDocument
from stepscope.report.views.run import read_run
from stepscope.report.views.runs import RunQuery
from tests.report.made_pages import HOSTILE, Seen, file_of, hostile_store, read_runs, seen

# Every element that a page of ours is made of.
ELEMENTS = set(
    "a b blockquote body br button caption circle code dd del details dialog div dl dt em "
    "figcaption figure footer form h1 h2 h3 head header hr html i ins input kbd label li line link "
    "main meta nav ol option output p path pre rect script section select small span strong style "
    "summary svg table tbody td text th thead title tr u ul".split()
)
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def documents() -> tuple[GateDocument, ...]:
    bad = HOSTILE
    case = CaseFailure(case=bad, runs=(bad,), ids=("a" * 32,), steps=(2,), evidence=bad)
    gate = GateDecision(
        name=bad, measure=bad, rule="count", threshold=bad, outcome="fail", reason=bad,
        failing=(case,), notes=(bad,),
    )  # fmt: skip
    workflow = WorkflowDecision(
        workflow=bad, n_runs=1, n_cases=1, vanished=(bad,), new=(bad,), gates=(gate,)
    )
    report = GateReport(
        workflows=(workflow,), commit=bad, policy_hash="0" * 16, look=1, alpha=0.05,
        alpha_look=0.025, tier=("rules",), seed=0,
    )  # fmt: skip
    one = GateDocument(exit_code=3, outcome="fail", remarks=(bad,), report=report)
    return (one, one)


KEPT = GateHistory(
    workflow=HOSTILE, file=HOSTILE, holds=HOSTILE, changes=(HOSTILE,), problems=(HOSTILE,),
    looked=(PolicyLooks(commit=HOSTILE, looks=1, runs=1, current=True),),
)  # fmt: skip


@cache
def all_pages() -> dict[str, Page]:
    """Return every page over a store in which every text is hostile, on a server and in a file."""
    store = hostile_store()
    report, runs = build_report(store), read_runs(store)
    first, second = read_run(store, "a" * 32), read_run(store, "b" * 32)
    gates = documents()
    made: dict[str, Page] = {}
    file = Links(["a" * 32, "b" * 32], [("a" * 32, "b" * 32)], True)
    for links in (file, ServerLinks({"where": HOSTILE})):
        kind = type(links).__name__
        query = RunQuery(text=HOSTILE, agent=HOSTILE, sort=HOSTILE)
        made |= {
            f"{kind} overview": make_overview_page(
                report, runs, links=links, query=query, decided=gates[0].report
            ),
            f"{kind} runs": make_overview_page(report, runs, links=links),
            f"{kind} run": make_run_page(first, links=links, others=runs),
            f"{kind} clipped": make_run_page(first, links=links, clip=50),
            f"{kind} searched": make_run_page(first, links=links, window=range(2), find=HOSTILE),
            f"{kind} no run": make_run_choice_page(report, links=links),
            f"{kind} two runs": make_runs_page(first, second, links=links),
            f"{kind} two groups": make_groups_page(
                compare_groups(store, "fail", "pass", by="outcome")
            ),
            f"{kind} choice": make_choice_page(
                links=links, pairs=[(HOSTILE, "#a")], groups=[(HOSTILE, "#b")]
            ),
            f"{kind} profile": make_profile_page(report, links=links),
            f"{kind} gates": make_gates_page(gates, links=links, kept=[KEPT]),
        }
    return made


def check(document: Seen) -> None:
    """Nothing of a trace became an element, an attribute, an address or a hidden character."""
    assert not document.unbalanced
    assert {element.tag for element in document.elements} <= ELEMENTS
    for element in document.elements:
        for name, value in element.attributes.items():
            assert re.fullmatch("[a-zA-Z][a-zA-Z-]*", name), name
            assert not name.startswith("on")
            assert name != "style"
            assert not HIDDEN.search(value or "")
            if name in ("href", "src", "action"):
                assert value == "data:," or re.match("#|/(?!/)|\\?", value or ""), value
        if element.tag != "script":
            assert not HIDDEN.search(element.text)


@pytest.mark.parametrize("name", sorted(all_pages()))
def test_hostile_text_is_only_ever_text(name: str) -> None:
    text = all_pages()[name].body
    document = seen(text)
    check(document)
    assert all(
        script.attributes.get("type") == "application/json" for script in document.all("script")
    )
    for script in document.all("script"):
        json.loads(script.text)


def test_the_hostile_text_is_there_to_be_read() -> None:
    text = all_pages()["Links run"].body
    shown = "".join(element.text for element in seen(text).elements)
    assert "</script><script>alert(1)</script>" in shown
    assert "{{ 7*7 }}" in shown
    assert "\\u202e" in shown


def test_a_whole_file_of_hostile_runs_has_no_element_of_theirs(tmp_path: Path) -> None:
    document = seen(file_of(hostile_store(), tmp_path))
    check(document)
    own = [s for s in document.all("script") if "type" not in s.attributes]
    assert len(own) in (1, len(CHART_SCRIPTS) + 1)
    assert len(document.all("style")) == 1


def test_a_notebook_gets_no_element_of_a_run() -> None:
    document = seen(render_report_html(build_report(hostile_store())))
    assert not document.unbalanced
    assert {element.tag for element in document.elements} <= ELEMENTS | {"img"}
    for image in document.all("img"):
        assert (image.attributes["src"] or "").startswith("data:image/svg+xml;base64,")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("</script>", '"\\u003c/script\\u003e"'),
        ("<!--<script>", '"\\u003c!--\\u003cscript\\u003e"'),
        ("a&b\u2028\u2029", '"a\\u0026b\\u2028\\u2029"'),
        ({"<k>": "&"}, '{"\\u003ck\\u003e":"\\u0026"}'),
    ],
)
def test_json_in_a_page_can_end_no_element(value: object, written: str) -> None:
    assert as_json(value) == written
    assert json.loads(str(as_json(value))) == value
