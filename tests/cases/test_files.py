"""Files of cases: what they say holds for every run of a task; what makes no sense is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.cases.files import load_cases
from stepscope.errors import ConfigError
from stepscope.judges import load_goals
from stepscope.model import Case, Json, PolicyRule, ReferenceCall, SubGoal, Verdict
from stepscope.settings import Settings, load_settings
from tests.factories import agent, did, run, user

WHOLE = """
version = 2

[[task]]
workflow = "shop"
task = "1"
request = "Refund order A."
expected = ["get_order", { name = "refund", arguments = { id = "A" } }]
must_tell = ["80"]
forbidden = ["delete_order"]
order = "ordered"
tools = [{ name = "get_order" }, { name = "refund", description = "Give back." }]
weights = [1, 3]
constraint = "Never refund twice."
difficulty = "easy"
tags = { area = "refunds" }

[[task.policy]]
name = "within the total"
forbid = "refund"
unless = "amount <= order.total"

[[task.goals]]
name = "found"
goal = "Finds the order."
tool = "get_order"
arguments = { id = "A" }

[[task.goals]]
goal = "Refunds it."
tool = "refund"
after = ["found"]
confirmed = true
"""


def file(tmp_path: Path, text: str, name: str = "cases.toml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def row(**more: Json) -> str:
    return json.dumps({"workflow": "shop", "task": "1", **more})


def test_a_case_says_everything_that_a_run_is_measured_against(tmp_path: Path) -> None:
    (case,) = load_cases(file(tmp_path, WHOLE))
    assert (case.workflow, case.task, case.request) == ("shop", "1", "Refund order A.")
    assert case.reference == (
        ReferenceCall("get_order", any_arguments=True), ReferenceCall("refund", {"id": "A"}),
    )  # fmt: skip
    assert case.subgoals == (
        SubGoal("found", "get_order", {"id": "A"}, goal="Finds the order."),
        SubGoal("goal 2", "refund", {}, ("found",), "Refunds it."),
    )
    assert (case.outputs, case.order, case.weights) == (("80",), "ordered", (1.0, 3.0))
    assert [(rule.name, rule.forbid) for rule in case.policy] == [
        ("within the total", "refund"), ("never delete_order", "delete_order"),
    ]  # fmt: skip
    assert [tool.name for tool in case.tools] == ["get_order", "refund"]
    assert (case.constraint, case.difficulty, case.tags) == (
        "Never refund twice.", "easy", {"area": "refunds"},
    )  # fmt: skip


def test_without_goals_the_expected_writes_are_the_sub_goals(tmp_path: Path) -> None:
    expected = ["get_order", "refund_order", {"name": "cancel_order", "arguments": {"id": 1}}]
    (case,) = load_cases(file(tmp_path, row(expected=expected), "c.jsonl"))
    assert [(goal.tool, goal.arguments) for goal in case.subgoals] == [
        ("refund_order", {}), ("cancel_order", {"id": 1}),
    ]  # fmt: skip


def test_a_folder_holds_cases_of_both_kinds_and_the_workflow_may_be_said_outside(
    tmp_path: Path,
) -> None:
    file(tmp_path, '{"task": "2"}\n\n{"task": "3", "workflow": "bank"}\n', "cases/b.jsonl")
    file(tmp_path, '[[task]]\ntask = "1"\n', "cases/a.toml")
    file(tmp_path, "not a case", "cases/notes.md")
    found = load_cases(tmp_path / "cases", "shop")
    assert [(case.workflow, case.task) for case in found] == [
        ("shop", "1"), ("shop", "2"), ("bank", "3"),
    ]  # fmt: skip


def test_a_tool_list_may_be_a_file_beside_the_cases(tmp_path: Path) -> None:
    listed = [{"type": "function", "function": {"name": "refund", "parameters": {"a": 1}}}]
    file(tmp_path, json.dumps(listed), "tools.json")
    (case,) = load_cases(file(tmp_path, row(tools="tools.json"), "c.jsonl"))
    assert [(tool.name, tool.schema) for tool in case.tools] == [("refund", {"a": 1})]


def test_judges_read_the_goals_of_a_file_of_cases(tmp_path: Path) -> None:
    goals = load_goals(file(tmp_path, WHOLE)).tasks["shop", "1"]
    assert [(goal.goal, bool(goal.confirmed)) for goal in goals] == [
        ("Finds the order.", False), ("Refunds it.", True),
    ]  # fmt: skip


GOAL: dict[str, Json] = {"goal": "Finds it.", "tool": "get"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no case in it"),
        ("{}", "missing required field `task`"),
        ("3", "Expected `object`"),
        ("{", "case 1: not JSON"),
        ('{"task": "1", "task": "2"}', "case 1: "),
        (row(tasks=1), "unknown field `tasks`"),
        (row(task=1), "Expected `str`, got `int`"),
        (row(task=""), "without a workflow or task"),
        (row(workflow=""), "without a workflow or task"),
        (row(expected="get"), "Expected `array`"),
        (row(expected=[{"name": "a", "args": {}}]), "unknown field `args`"),
        (row(must_tell=[1]), "Expected `str`"),
        (row(order="sorted"), "Invalid enum value"),
        (row(weights=[1, 4]), "case shop/1: a weight is 4; expected 1, 2 or 3"),
        (row(policy=[{"name": "x"}]), "case shop/1: policy rule 'x' needs a name and `forbid`"),
        (row(policy=[{"name": "x", "forbid": "a", "wehn": "b"}]), "unknown field `wehn`"),
        (row(policy=[{"name": "x", "forbid": "a", "when": "b"}]), "'b' is no condition"),
        (row(policy=[{"name": "x", "forbid": "a", "where": {"b": "("}}]), "no regular expression"),
        (row(tools="absent.json"), "absent.json cannot be read"),
        (row(tools=[{"name": "a"}, {"name": "a"}]), "tool 2 has no name of its own"),
        (row(goals=[{"goal": ""}]), "has no sentence"),
        (row(goals=[{**GOAL, "steps": [1]}]), "has steps and tool"),
        (row(goals=[{**GOAL, "confirmed": False}]), "a goal is a draft"),
        (row(goals=[{**GOAL, "after": ["b"]}]), "which no goal is called"),
        (row(goals=[{"goal": "Finds it."}]), "nothing can reach 'goal 1'; add tool, message"),
        (row(goals=[{**GOAL, "name": "a"}] * 2), "two goals are called 'a'"),
        (row(policy=[{"name": "x", "forbid": tool} for tool in "ab"]), "two rules are called 'x'"),
        (
            row(
                goals=[{**GOAL, "name": "a", "after": ["b"]}, {**GOAL, "name": "b", "after": ["a"]}]
            ),
            "goals wait for each other",
        ),
        (row() + "\n" + row(), "case 2: a second case of shop/1"),
        ('{"workflow": "shop", "task": ' + "[" * 200 + "]" * 200 + "}", "case 1: "),
        ("\ud800", "case 1: "),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line_with_its_place(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ConfigError) as refused:
        load_cases(path)
    assert says in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[tsak]]", "unknown field `tsak`"),
        ("x = ", "not TOML"),
        ('[[task]]\ntask = "1"\n[[task]]\ntask = "1"', "two entries for"),
        ('version = 3\n[[task]]\ntask = "1"', "Invalid enum value 3"),
    ],
)
def test_a_file_of_toml_is_refused_likewise(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_cases(file(tmp_path, text), "shop")


def test_a_link_that_leads_out_of_a_folder_of_cases_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "a.jsonl").write_text(row(), "utf-8")
    (folder / "b.jsonl").symlink_to(folder / "a.jsonl")
    with pytest.raises(ConfigError, match="a second case"):
        load_cases(folder)
    (folder / "b.jsonl").unlink()
    (tmp_path / "c.jsonl").write_text(row(task="2"), "utf-8")
    (folder / "b.jsonl").symlink_to(tmp_path / "c.jsonl")
    with pytest.raises(ConfigError, match="leads out of the folder"):
        load_cases(folder)


def test_a_path_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for name in ("absent.toml", "absent.jsonl"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read"):
            load_cases(tmp_path / name)
    with pytest.raises(ConfigError, match="no case in it"):
        load_cases(tmp_path)


RECORDED = Case(workflow="shop", task="1", request="Help.", outputs=("90",))
REFUND = (user("Refund A."), *did("get_order", '{"total": 80}', id="A"), *did("refund", id="A"))


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    with stepscope.open(":memory:", settings=Settings()) as opened:
        opened.store.put(
            [
                run(*REFUND, agent("80 come back."), id="a", name="a", task="1", case=RECORDED),
                run(*REFUND, agent("Done."), id="b", name="b", task="1"),
                run(agent("x"), id="c", name="c", task="2"),
            ]
        )
        yield opened


def cases_of(notebook: Notebook) -> dict[str, Case | None]:
    return {one.name: one.case for one in notebook.trajectories()}


def verdicts(notebook: Notebook, measure: str) -> dict[str, float | None]:
    notebook.score()
    table = notebook.records().to_arrow().to_pylist()
    found = [x for x in table if x["measure"] == measure and x["step"] is None and x["current"]]
    return {x["trajectory"]: x["value"] for x in found}


def test_a_case_is_given_to_the_runs_of_its_task_and_measured(
    notebook: Notebook, tmp_path: Path
) -> None:
    assert verdicts(notebook, "subgoals")["b"] is None
    path = file(tmp_path, row(expected=["get_order", "refund"], must_tell=["80"]), "c.jsonl")
    added = notebook.add_cases(path)
    assert (added.cases, added.runs, added.changed, added.without_runs) == (1, 2, 2, ())
    assert verdicts(notebook, "subgoals") == {"a": 1.0, "b": 1.0, "c": None}
    assert verdicts(notebook, "subgoals.outputs") == {"a": 1.0, "b": 0.0, "c": None}
    assert verdicts(notebook, "match.in_order")["a"] == 1.0


def test_what_a_file_does_not_say_stays_as_the_trace_recorded_it(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.add_cases(file(tmp_path, row(must_tell=["80"]), "c.jsonl"))
    found = cases_of(notebook)["a"]
    assert found is not None
    assert (found.request, found.outputs) == ("Help.", ("80",))


def test_another_file_starts_from_the_trace_and_not_from_the_first(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.add_cases(file(tmp_path, row(must_tell=["80"], request="Refund."), "c.jsonl"))
    notebook.add_cases(file(tmp_path, row(difficulty="easy"), "c.jsonl"))
    found = cases_of(notebook)["a"]
    assert found is not None
    assert (found.request, found.outputs, found.difficulty) == ("Help.", ("90",), "easy")
    again = notebook.add_cases(file(tmp_path, row(difficulty="easy"), "c.jsonl"))
    assert (again.runs, again.changed) == (2, 0)


def test_a_trace_imported_again_takes_nothing_back(notebook: Notebook, tmp_path: Path) -> None:
    notebook.add_cases(file(tmp_path, row(must_tell=["80"]), "c.jsonl"))
    notebook.add([run(*REFUND, agent("80 come back."), id="a", name="a", task="1", case=RECORDED)])
    found = cases_of(notebook)["a"]
    assert found is not None
    assert found.outputs == ("80",)


def test_cases_without_a_run_are_named(notebook: Notebook, tmp_path: Path) -> None:
    rows = "\n".join(row(task=str(n)) for n in range(9))
    said = str(notebook.add_cases(file(tmp_path, rows, "c.jsonl")))
    assert said.endswith(
        "c.jsonl: 9 cases, given to 3 runs, 3 changed; without a run: shop/0, shop/3, shop/4, "
        "shop/5, shop/6 and 2 more"
    )


def test_tools_of_a_case_are_offered_where_the_trace_offers_none(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.add_cases(file(tmp_path, row(tools=[{"name": "get_order"}]), "c.jsonl"))
    notebook.score(measures=["axes.tool_selection"])
    said = {
        record.trajectory: record.answer.label
        for record in notebook.records()
        if isinstance(record.answer, Verdict) and record.answer.step is None
    }
    assert said["a"] == "incorrect"  # refund is not offered


def test_a_rule_of_a_case_is_measured(notebook: Notebook, tmp_path: Path) -> None:
    notebook.add_cases(file(tmp_path, row(forbidden=["refund"]), "c.jsonl"))
    assert verdicts(notebook, "policy") == {"a": 1.0, "b": 1.0, "c": None}


def test_cases_that_settings_name_are_given_at_every_import_and_score(tmp_path: Path) -> None:
    file(tmp_path, '{"task": "1", "request": "From a file."}\n', "cases/a.jsonl")
    file(tmp_path, '[workflow.shop]\ncases = "cases"\n', "stepscope.toml")
    settings = load_settings(tmp_path)
    with stepscope.open(":memory:", settings=settings) as notebook:
        notebook.add([run(agent("x"), task="1")])
        assert [one.case.request for one in notebook.trajectories() if one.case] == ["From a file."]
        file(tmp_path, '{"task": "1", "request": "Another."}\n', "cases/a.jsonl")
        notebook.score()
        assert [one.case.request for one in notebook.trajectories() if one.case] == ["Another."]


def test_a_case_with_only_a_task_changes_nothing_that_was_recorded() -> None:
    given = Case(workflow="shop", task="1").given_to(RECORDED)
    assert isinstance(given.given_to(None), Case)
    assert (given.request, given.outputs) == (RECORDED.request, RECORDED.outputs)
    rule = PolicyRule(name="x", forbid="y")
    assert Case(workflow="s", task="1", policy=(rule,)).given_to(given).policy == (rule,)
