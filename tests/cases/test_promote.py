"""A failing run becomes a case: what comes before its broken step, and a test that fails today."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import stepscope
from stepscope.cases.files import load_cases, promote_run
from stepscope.cli.main import main
from stepscope.errors import ConfigError, UsageError
from stepscope.model import Case, Outcome, PolicyRule, ReferenceCall, Step, SubGoal, Trajectory
from tests.factories import agent, did, failed, run, system, user

STEPS: tuple[Step, ...] = (
    system("Be kind."), user("Refund A."), *did("get_order", '{"total": 80}', id="A"),
    *failed("refund", "Error: too much", id="A", amount=120), agent("I could not."),
)  # fmt: skip
CASE = Case(
    workflow="shop", task="1", request="Refund.", outputs=("80",),
    subgoals=(SubGoal("refund", "refund", {"id": "A"}),),
    reference=(
        ReferenceCall("get_order", any_arguments=True), ReferenceCall("refund", {"id": "A"}),
    ),
    policy=(PolicyRule(name="p", forbid="delete", when="amount > 3"),),
)  # fmt: skip
FAILED = Outcome("fail", "reward", 0.0)


def failing(*steps: Step, name: str = "shop/1/0", case: Case | None = CASE) -> Trajectory:
    return run(*(steps or STEPS), name=name, outcome=FAILED, case=case)


def test_the_messages_end_before_the_exchange_that_broke() -> None:
    for step in (4, 5):  # the call, or what it gave back
        files = promote_run(failing(), step, "why")
        case = json.loads(files["shop_1_0.json"])
        assert [one["role"] for one in case["messages"]] == ["system", "user", "assistant", "tool"]
        assert case["messages"][3]["tool_call_id"] == case["messages"][2]["tool_calls"][0]["id"]
        assert [one["role"] for one in case["recorded"]] == ["assistant", "tool"]
        assert case["broken"] == [["refund", {"id": "A", "amount": 120}]]


def test_the_file_of_cases_is_read_back_as_the_case_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(promote_run(failing(), 4, "why")["shop_1_0.toml"], "utf-8")
    (back,) = load_cases(tmp_path / "c.toml")
    assert (back.workflow, back.task, back.request, back.outputs) == (
        "shop", "1", "Refund.", ("80",),
    )  # fmt: skip
    assert back.reference == CASE.reference
    assert [(one.tool, one.arguments) for one in back.subgoals] == [("refund", {"id": "A"})]
    assert [(one.name, one.when) for one in back.policy] == [("p", "amount > 3")]
    assert back.tags == {"run": "shop/1/0", "broken_step": "4", "why": "why"}


def test_promoted_cases_of_one_task_give_way_to_a_later_one_and_to_one_that_a_person_wrote(
    tmp_path: Path,
) -> None:
    for trial in (1, 0):
        files = promote_run(failing(name=f"shop/1/{trial}"), 4, "why")
        (tmp_path / f"shop_1_{trial}.toml").write_text(files[f"shop_1_{trial}.toml"], "utf-8")
    assert [one.tags["run"] for one in load_cases(tmp_path)] == ["shop/1/1"]
    own = 'version = 2\n[[task]]\nworkflow = "shop"\ntask = "1"\nexpected = ["refund"]\n'
    for name in ("a.toml", "z.toml"):  # read before them, or after
        (tmp_path / name).write_text(own, "utf-8")
        (found,) = load_cases(tmp_path)
        assert (found.tags, found.reference) == ({}, (ReferenceCall("refund", any_arguments=True),))
        if name == "a.toml":
            (tmp_path / name).unlink()
    (tmp_path / "more.toml").write_text(own, "utf-8")
    with pytest.raises(ConfigError, match=r"z\.toml: a second case of shop/1"):
        load_cases(tmp_path)


def test_a_run_without_a_case_gives_its_request() -> None:
    files = promote_run(failing(case=None), 4, "")
    table = tomllib.loads(files["shop_1_0.toml"])["task"][0]
    assert (table["request"], table["task"]) == ("Refund A.", "1")


@pytest.mark.parametrize(
    ("step", "says"), [(9, "has 7 steps"), (-1, "has 7 steps"), (1, "none of the agent's")]
)
def test_a_step_that_is_none_of_the_agents_is_refused(step: int, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        promote_run(failing(), step, "")


def test_nothing_before_the_first_step_can_be_done_again() -> None:
    with pytest.raises(UsageError, match="or the first"):
        promote_run(failing(agent("x"), agent("y")), 0, "")


pytest_plugins = ["pytester"]
HOSTILE = [
    "../../etc/passwd",
    'a"""\nimport os',
    "x\x00\u202e",
    "",
    "a b",
    "A/B",
    "\u2028",
    "é" * 500,
    "{name}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_folder_or_into_the_python_file(name: str) -> None:
    files = promote_run(failing(agent("a"), agent('{step}"""\nboom('), name=name), 1, name)
    for path, text in files.items():
        assert Path(path).name == path
        assert path.isascii()
        if path.endswith(".py"):
            compile(text, path, "exec")
            assert "boom" not in text
            assert "passwd" not in text.replace("etc_passwd", "")
        elif path.endswith(".toml"):
            tomllib.loads(text.encode("utf-8", "backslashreplace").decode())
        else:
            json.loads(text)


def test_two_names_that_look_alike_have_files_of_their_own() -> None:
    names = [min(promote_run(failing(name=name), 4, "")) for name in ("a b", "a/b", "A/B", "a_b")]
    assert len({*names}) >= 3


def test_secrets_do_not_enter_the_files() -> None:
    key = "sk-proj-" + "aB3" * 16
    told = promote_run(failing(user(f"My key is {key} ."), agent("x"), agent("y")), 1, f"a {key}")
    assert not any(key in text for text in told.values())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with stepscope.open("stepscope.db") as notebook:
        notebook.store.put(
            [failing(), run(agent("x"), id="p", name="good", outcome=Outcome("pass"))]
        )
        notebook.score()
    return tmp_path


def test_the_command_promotes_the_first_suspect_and_writes_three_files(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["case", "promote", "shop/1/0"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote cases/shop_1_0.toml", "wrote cases/shop_1_0.json", "wrote cases/test_shop_1_0.py",
    ]  # fmt: skip
    assert (
        json.loads((store / "cases/shop_1_0.json").read_text("utf-8"))["broken"][0][0] == "refund"
    )
    assert (main(["import", "--cases", "cases"]), main(["score"])) == (0, 0)
    assert main(["case", "promote", "shop/1/0"]) == 2
    assert "cases/shop_1_0.toml already exists; --force overwrites it" in capsys.readouterr().err
    assert main(["case", "promote", "shop/1/0", "--step", "6", "--force", "--json"]) == 0
    assert json.loads((store / "cases/shop_1_0.json").read_text("utf-8"))["broken"] == []


def test_a_link_where_a_file_goes_is_replaced_and_not_followed(store: Path) -> None:
    (store / "cases").mkdir()
    (store / "mine").write_text("mine", "utf-8")
    for name in ("shop_1_0.toml", "shop_1_0.json", "test_shop_1_0.py"):
        (store / "cases" / name).symlink_to(store / "mine")
    assert main(["case", "promote", "shop/1/0"]) == 2
    assert main(["case", "promote", "shop/1/0", "--force"]) == 0
    assert (store / "mine").read_text("utf-8") == "mine"
    assert not any(one.is_symlink() for one in (store / "cases").iterdir())


@pytest.mark.parametrize(
    ("options", "says"), [(["good"], "passed; name the step"), (["nobody"], "nobody")]
)
def test_a_run_that_passed_or_is_not_there_is_one_line(
    store: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["case", "promote", *options]) == 2
    assert says in capsys.readouterr().err


def test_the_test_fails_as_recorded_and_passes_once_the_agent_does_better(
    store: Path, pytester: pytest.Pytester
) -> None:
    place = ["--store", str(store / "stepscope.db"), "--out", str(pytester.path)]
    assert main(["case", "promote", "shop/1/0", *place]) == 0
    test = pytester.path / "test_shop_1_0.py"
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(xfailed=1)
    text = test.read_text("utf-8")
    calls = text.replace("@pytest.mark.xfail(", "@pytest.mark.skipif(False, reason='')\n#(")
    test.write_text(calls, "utf-8")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(failed=1)
    better = calls.replace(
        'return CASE["recorded"]', "return [{'role': 'assistant', 'content': 'x'}]"
    )
    test.write_text(better, "utf-8")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
