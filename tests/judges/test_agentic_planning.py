"""What judges with tools are asked: which rubrics have tools, of which run, over which folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepscope.errors import ModelError, UsageError
from stepscope.judges.agentic_planning import Workspaces, plan_with_tools
from stepscope.judges.budget import Budget
from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.ledger import Ledger
from stepscope.judges.planning import Mode, Options, plan
from stepscope.judges.rubrics import rubric
from stepscope.judges.running import run as judged
from stepscope.judges.running_tally import Ran
from stepscope.judges.tools import Call, run_tools
from stepscope.model import Json, Outcome, Record, Reply, Request, Trajectory, Verdict
from stepscope.safety.redact import Redactor
from tests.factories import agent, did, run, user
from tests.judges.asked import Answering, Prices, patience

KEY, REDACTOR = b"key", Redactor(b"test")
JUDGE = Judge(name="local/tiny", family="qwen", tools=True)
RUN = run(
    user("cancel #W1"),
    *did("cancel_order", "cancelled", id="#W1"),
    agent("done"),
    outcome=Outcome("fail", "reward", 0.0, "another order was meant"),
)


def planned(name: str, folders: dict[str, Path], mode: Mode = "contextual") -> Judgement:
    with Workspaces(folders) as workspaces:
        return planned_in(workspaces, name, mode)


def planned_in(workspaces: Workspaces, name: str, mode: Mode = "contextual") -> Judgement:
    (made,) = plan_with_tools(
        RUN,
        None,
        rubric=rubric(name),
        judge=JUDGE,
        options=Options(mode=mode),
        key=KEY,
        redactor=REDACTOR,
        workspaces=workspaces,
    )
    assert isinstance(made, Judgement)
    return made


def menu(made: Judgement) -> list[str]:
    properties = made.asks[0].request.schema["properties"]
    return list(properties["action"]["enum"]) if "action" in properties else []


def call(path: str) -> Call:
    return Call(action="read_file", path=path)


IN_PROCESS = ["list_steps", "read_step", "search_trace"]
FILES = ["list_files", "read_file", "grep", "query", "run"]


def test_whole_views_have_tools_and_steps_alone_have_none(tmp_path: Path) -> None:
    for name in ("axes.termination", "step_labels", "behaviour.sycophancy", "quality.plan"):
        assert menu(planned(name, {})) == [*IN_PROCESS, "answer"]
    assert menu(planned("axes.termination", {"": tmp_path})) == [*IN_PROCESS, *FILES, "answer"]
    assert menu(planned("step_labels", {"": tmp_path}, "isolated")) == []


def test_what_sees_one_step_is_asked_exactly_as_without_tools() -> None:
    asked = []
    for judge in (JUDGE, Judge(name="local/tiny", family="qwen")):
        with Workspaces({}) as workspaces:
            made = plan_with_tools(
                RUN,
                None,
                rubric=rubric("step_labels"),
                judge=judge,
                options=Options(mode="isolated"),
                key=KEY,
                redactor=REDACTOR,
                workspaces=workspaces,
            )
            asked.append([one.asks for one in made if isinstance(one, Judgement)])
    plain = plan(
        RUN,
        None,
        rubric=rubric("step_labels"),
        judge=JUDGE,
        options=Options(mode="isolated"),
        key=KEY,
        redactor=REDACTOR,
    )
    assert asked[0] == asked[1] == [one.asks for one in plain if isinstance(one, Judgement)]


def test_the_check_is_told_where_the_failure_is_known_anyway_and_nowhere_else() -> None:
    assert "state_check" in menu(planned("attribution", {}))
    assert "state_check" not in menu(planned("axes.termination", {}))


def test_a_run_has_the_folder_that_is_named_for_it(tmp_path: Path) -> None:
    for name, text in (("mine", "mine"), ("others", "others")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text, "utf-8")
    box = run_tools(RUN, redactor=REDACTOR)
    with Workspaces({RUN.name: tmp_path / "mine", "": tmp_path / "others"}) as workspaces:
        mine = workspaces.added(box, RUN)
        assert mine.tools["read_file"].use(call("file")) == "mine"
        assert workspaces.added(box, RUN) is mine
        other: Trajectory = run(user("x"), id="r2", name="shop/2/0")
        assert workspaces.added(box, other).tools["read_file"].use(call("file")) == "others"
    with Workspaces({"shop/9/9": tmp_path / "mine"}) as workspaces:
        assert list(workspaces.added(box, RUN).tools) == IN_PROCESS


def test_copies_beyond_the_room_are_not_made_and_the_judge_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    box = run_tools(RUN, redactor=REDACTOR)
    other: Trajectory = run(user("x"), id="r2", name="shop/2/0")
    with Workspaces({"": tmp_path}, most_bytes=50) as workspaces:
        assert "run" in workspaces.added(box, RUN).tools
        second = workspaces.added(box, other)
    assert list(second.tools) == IN_PROCESS
    assert second.off["run"] == ("the copies of earlier workspaces take all the room that there is")


def test_a_folder_that_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: no such folder"):
        Workspaces({"": tmp_path / "absent"})


def test_a_judge_with_tools_is_resumed_from_the_ledger_look_by_look(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "order.json").write_text('{"id": "#W2", "state": "cancelled"}', "utf-8")
    looks = [look("grep", text="#W2"), look("read_step", step=2), look("answer", answer=ANSWER)]

    def ask(stop_at: int) -> tuple[int, Ran, list[Record]]:
        def said(number: int, request: Request) -> Reply | ModelError:
            turn = request.question.count("\nasked:\n")
            if turn == stop_at:
                return ModelError("the endpoint is gone", again=False)
            return Reply(text=json.dumps(looks[turn]), stop="end", structure="json_schema")

        model, records = Answering(said), list[Record]()
        with Workspaces({"": tmp_path / "ws"}) as workspaces:
            ran = asyncio.run(
                judged(
                    [planned_in(workspaces, "axes.termination")],
                    models={"local/tiny": model},
                    patience=patience(),
                    ledger=ledger,
                    prices=Prices(),
                    budget=Budget(limit_usd=None),
                    keep=records.extend,
                )
            )
        return len(model.asked), ran, records

    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        done = [ask(stop_at) for stop_at in (2, 9, 9)]
    bought = [(asked, ran.bought, ran.from_ledger) for asked, ran, _ in done]
    kept = [[record.answer.measure for record in records] for _, _, records in done]
    records = done[-1][2]
    # Two looks and a failure; then the rest alone; then nothing at all.
    assert bought == [(3, 2, 0), (1, 1, 2), (0, 0, 3)]
    measures = ["judge.axes.termination", "judge.axes.termination.looks"]
    assert kept == [[], measures, measures]
    assert records[0].answer == Verdict(
        "judge.axes.termination",
        label="incorrect",
        cites=(2, 3),
        reason="another order was cancelled",
        confidence=0.75,
    )


def look(action: str, **fields: Json) -> dict[str, Json]:
    empty: dict[str, Json] = {
        "why": "",
        "step": None,
        "start": None,
        "text": "",
        "path": "",
        "command": [],
    }
    return {**empty, "answer": None, "action": action, **fields}


ANSWER = {
    "evidence": [{"step": 2, "quote": "cancelled"}],
    "cited_step_indices": [2, 3],
    "rationale": "another order was cancelled",
    "label": "incorrect",
    "confidence": 0.75,
}
