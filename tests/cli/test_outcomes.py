"""`stepscope import --outcomes`: any run can be given an outcome, and who outranks whom."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from stepscope.cli.main import main
from stepscope.model import Outcome, Record, Source, Verdict
from stepscope.store import Store
from tests.factories import agent, run, user

C, R, P = "check", "reward", "ann"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of four runs: one with a reward of 0, three without an outcome, two of one name."""
    path = tmp_path / "s.db"
    rewarded = run(user("cancel it"), agent("no"), id="r0", name="shop/0/0", task="0")
    rewarded = msgspec.structs.replace(
        rewarded,
        outcome=Outcome("fail", "reward", 0.0, "reward 0"),
        source=Source(format="test", run_id="trace-0"),
    )
    bare = [
        run(user("x"), agent(f"y{n}"), id=f"r{n}", name=name, task=str(n))
        for n, name in ((1, "shop/1/0"), (2, "twin"), (3, "twin"))
    ]
    bare[0] = msgspec.structs.replace(bare[0], source=Source(format="test", run_id="trace-1"))
    with Store.open(path) as made:
        made.put([rewarded, *bare])
    return path


def give(store: Path, text: str, *more: str, name: str = "o.csv") -> int:
    file = store.parent / name
    file.write_text(text, encoding="utf-8")
    return main(["import", "--outcomes", str(file), *more, "--store", str(store)])


def outcome(store: Path, run_id: str) -> Outcome:
    with Store.open(store) as opened:
        return opened.trajectory(run_id).outcome


def test_a_run_is_found_by_its_name_id_or_its_recorders_id(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert give(store, "run,outcome,who\ntrace-1,pass,check\nr2,fail,ann\nshop/0/0,fail,ann\n") == 0
    assert "3 rows; 3 new verdicts, 0 known; 0 set aside" in capsys.readouterr().out
    assert outcome(store, "r1") == Outcome("pass", "check")
    assert outcome(store, "r2") == Outcome("fail", "label")


def test_json_lines_with_rewards_need_nobody_who_says_so(store: Path) -> None:
    rows = '{"run": "r1", "reward": 1}\n{"run": "r2", "reward": 0.5, "reason": "half"}\n'
    assert give(store, rows, name="o.jsonl") == 0
    assert outcome(store, "r1") == Outcome("pass", "reward", 1.0)
    assert outcome(store, "r2") == Outcome("fail", "reward", 0.5, "half")


@pytest.mark.parametrize("order", [(C, R, P), (P, R, C), (R, P, C)])
def test_a_check_outranks_a_reward_and_a_reward_a_person_in_any_order(
    store: Path, order: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = {C: "pass", R: "fail", P: "fail"}
    for who in order:
        assert give(store, f"run,outcome,who\nr1,{said[who]},{who}\n") == 0
    assert outcome(store, "r1").status == "pass"
    assert outcome(store, "r1").source == "check"
    out = capsys.readouterr().out
    assert "outcomes that contradict each other: 1 run" in out
    main(["score", "--store", str(store)])
    main(["show", "r1", "--store", str(store)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "PASS (check), but " in shown
    assert "fail says the reward" in shown
    assert "fail says ann (label)" in shown
    main(["report", "--store", str(store)])
    said_there = " ".join(capsys.readouterr().out.split())
    assert "the true outcome of 1 run (sources contradict each other: stepscope show)" in (
        said_there
    )


def test_the_reward_of_the_trace_stays_known_where_a_check_outranks_it(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert give(store, "run,outcome,who\ntrace-0,pass,check\n") == 0
    assert "shop/0/0: pass by its check; fail says trace (reward)" in capsys.readouterr().out
    assert outcome(store, "r0").status == "pass"


def test_a_person_does_not_overrule_the_reward_of_the_trace(store: Path) -> None:
    assert give(store, "run,outcome,who\nr0,pass,ann\n") == 0
    assert outcome(store, "r0").source == "reward"


def test_every_row_that_finds_no_run_is_counted_and_named(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = (
        "run,outcome,who\nnowhere,pass,ann\ntwin,pass,ann\nr1,perhaps,ann\nr1,pass,\n"
        "r1,pass,ann\nr1,fail,ann\nr2,pass\nr3,,ann\n"
    )
    assert give(store, rows) == 0
    out = capsys.readouterr().out
    assert "8 rows; 1 new verdicts, 0 known; 1 without a verdict; 6 set aside" in out
    assert "1 contradicts" in out
    assert "2 unknown run" in out
    assert "1 unreadable" in out
    assert "row 2: no run called 'nowhere' in the store" in out
    assert "row 3: several runs are called 'twin'" in out
    assert "row 8: 2 cells; the header has 3 columns" in out
    assert outcome(store, "r1").status == "pass"


def test_a_file_given_twice_and_a_trace_read_again_change_nothing(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "run,outcome,who\nr0,pass,check\n"
    assert give(store, text) == 0
    with Store.open(store) as opened:
        before = opened.trajectory("r0")
        opened.put(
            [
                msgspec.structs.replace(
                    before, outcome=Outcome("fail", "reward", 0.0, "reward 0"), labels=()
                )
            ]
        )
        assert opened.trajectory("r0") == before
    assert give(store, text) == 0
    assert "0 new verdicts, 1 known" in capsys.readouterr().out


def test_a_grown_session_keeps_the_outcome_that_it_was_given(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    source = Source(format="test", run_id="s")
    short = run(user("x"), agent("a"), id="short", name="n")
    long = run(user("x"), agent("a"), user("y"), agent("b"), id="long", name="n")
    with Store.open(store) as made:
        made.put([msgspec.structs.replace(short, source=source)])
    assert give(store, "run,outcome,who\ns,pass,check\n") == 0
    with Store.open(store) as made:
        made.put([msgspec.structs.replace(long, source=source)])
    assert outcome(store, "long") == Outcome("pass", "check")


def judged(store: Path) -> str:
    with Store.open(store) as opened:
        (found,) = opened.records(measure="judge.axes.termination")
        assert isinstance(found.answer, Verdict)
        return found.answer.reason


def test_what_a_judge_said_before_the_check_came_is_marked_outranked(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    praise = Verdict("judge.axes.termination", label="correct", reason="it ended well")
    with Store.open(store) as opened:
        opened.append(
            [
                Record(
                    trajectory="r1", answer=praise, version="1", family="openai",
                    judge="openai/a", rubric="axes.termination", prompt="p",
                )
            ]
        )  # fmt: skip
    assert give(store, "run,outcome,who\nr1,fail,reward\n") == 0
    assert "1 earlier verdict of judges is outranked by them" in capsys.readouterr().out
    assert judged(store) == "outranked: the run failed by its reward; it ended well"
    assert give(store, "run,outcome,who\nr1,pass,check\n") == 0
    assert judged(store) == "it ended well"


def test_verdicts_with_the_rubric_outcome_are_outcomes(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = store.parent / "v.csv"
    file.write_text("run,axis,label,rater\nr1,outcome,pass,ann\n", encoding="utf-8")
    assert main(["import", "--verdicts", str(file), "--json", "--store", str(store)]) == 0
    assert json.loads(capsys.readouterr().out)["rubrics"] == {"outcome": 1}
    assert outcome(store, "r1") == Outcome("pass", "label")


def test_outcomes_refuse_what_is_for_verdicts_in_one_line(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert give(store, "run,outcome\nr1,pass\n", "--rubric", "axes") == 2
    said = capsys.readouterr().err
    assert "--rubric is for verdicts" in said
    assert said.count("\n") == 1
