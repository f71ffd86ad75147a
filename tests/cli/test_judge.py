"""`stepscope judge` and `demo --judge` against a provider that speaks both protocols."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.cli.main import main
from stepscope.model import Record, Verdict
from stepscope.store import Store
from tests.factories import agent, run, user
from tests.faults.providers import Threaded, serving
from tests.faults.script import Script
from tests.judges.pictures import encoded, looked, picture, png

A, B = "local/claude-a", "local/gpt-b"
JUDGES = ["--judge", A, "--judge", B]
FEW = ["--store", "good.db", "--where", "task = '11'"]
SETTINGS = """
[judges.model."local/claude-a"]
protocol = "anthropic"
base_url = "{base}"
family = "anthropic"
price = {{ input = 3, output = 15, cache_read = 0.3, batch = 0.5 }}

[judges.model."local/gpt-b"]
base_url = "{base}/v1"
family = "openai"
price = {{ input = 1.25, output = 10, batch = 0.5 }}

[judges.model."local/unpriced"]
base_url = "{base}/v1"
family = "qwen"
"""
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")


@pytest.fixture
def provider(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Threaded]:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with serving(Script(answer="quoting")) as serves:
        settings = SETTINGS.format(base=serves.base)
        (workspace / "stepscope.toml").write_text(settings, encoding="utf-8")
        yield serves


def test_a_panel_of_two_families_judges_and_the_report_shows_it(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--store", "good.db", "--where", "task in ('5', '9', '11')"]
    asked = ["--rubric", "axes.termination", "--rubric", "axes.sequencing", *chosen]
    assert main(["judge", *JUDGES, *asked]) == 0
    said = capsys.readouterr()
    assert "12 runs, 48 judgements, 48 answers stored; replies: 48 new from judges" in said.out
    assert "12 runs, 48 calls to buy; likely $" in said.err
    assert main(["report", *chosen]) == 0
    shown = capsys.readouterr().out
    assert "At fault, by judge" in shown
    assert "claude-a x gpt-b" in shown
    assert "self_family" in shown


def test_what_was_answered_is_not_asked_again(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", *JUDGES, *FEW, "--rubric", "axes.termination"]) == 0
    asked = len(provider.asked)
    assert asked == 8
    assert main(["judge", *JUDGES, *FEW, "--rubric", "axes.termination"]) == 0
    assert len(provider.asked) == asked
    assert "replies: 0 new from judges, 8 from the ledger" in capsys.readouterr().out


def test_a_dry_run_tells_prices_and_sends_nothing(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", *JUDGES, *FEW, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "4 runs, 40 calls to buy; likely $" in shown
    assert "nothing was sent" in shown
    assert main(["judge", *JUDGES, *FEW, "--dry-run", "--json"]) == 0
    (expected,) = json.loads(capsys.readouterr().out)
    assert sum(row["calls"] for row in expected["rows"]) == 40
    assert provider.asked == []


def test_what_another_version_answered_is_not_bought_again_unless_told(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open("good.db") as store:
        chosen = [one for one in store.trajectories() if one.task == "11"]
        answer = Verdict("judge.axes.termination", label="correct")
        store.append([
            Record(trajectory=one.id, answer=answer, version="0.1", family="anthropic",
                   judge=f"{A}@2026", rubric="axes.termination", prompt="p")
            for one in chosen[:3]
        ])  # fmt: skip
    asked = ["judge", "--judge", A, *FEW, "--rubric", "axes.termination"]
    assert main([*asked, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "1 calls to buy" in shown
    assert "3 questions answered under another version of their rubric are not asked" in shown
    assert "(--again asks them, likely $0.0" in shown
    assert main(asked) == 0
    assert len(provider.asked) == 1
    assert "not asked: 3 answered_under_another_version" in capsys.readouterr().out
    # What most runs were judged by is reported, the others are counted.
    assert main(["report", *FEW]) == 0
    assert "answers of version" in capsys.readouterr().out
    assert main([*asked, "--again"]) == 0
    assert len(provider.asked) == 4
    assert main(["report", *FEW, "--rubric-version", "9"]) == 2
    assert "no judge answered under rubric version '9'; there are 0.1, 2" in capsys.readouterr().err


def test_a_prompt_is_shown_as_it_is_sent(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["judge", "--judge", B, "--store", "good.db", "--rubric", "axes.termination"]
    assert main([*asked, "--show-prompt", "airline/11/0"]) == 0
    shown = capsys.readouterr().out
    assert provider.asked == []
    assert main([*asked, "--show-prompt", "airline/11/0", "--json"]) == 0
    (request,) = json.loads(capsys.readouterr().out)
    assert main([*asked, "airline/11/0"]) == 0
    (sent,) = provider.asked
    texts = [message["content"] for message in sent.json()["messages"]]
    for part in ("system", "context", "question"):
        told = request["request"][part]
        assert told in shown
        assert any(told in str(text) for text in texts)
    assert main([*asked, "--show-prompt", "nothing/0"]) == 2
    capsys.readouterr()
    # No file of goals was given.
    asked[-1] = "no_look"
    assert main([*asked, "--show-prompt", "airline/11/0"]) == 2
    assert "nothing would be sent about 'airline/11/0'; stepscope" in capsys.readouterr().err


def test_a_dry_run_says_what_is_missing(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "--judge", "openai/gpt-5", "--judge", A, *FEW, "--dry-run"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("missing: ")]
    assert "OPENAI_API_KEY is not set" in line
    assert main(["judge", "--judge", A, *FEW, "--dry-run"]) == 0
    assert "missing" not in capsys.readouterr().out
    assert main(["judge", "--judge", "local/unpriced", *FEW, "--dry-run"]) == 0
    assert "missing: the price of judge 'local/unpriced' is unknown" in capsys.readouterr().out


def test_a_secret_in_an_address_is_not_told_as_missing(
    provider: Threaded, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "sk-proj-aB3dE5fG7hJ9kL2mN4pQ6rS8"
    table = SETTINGS.format(base=f"http://10.0.0.1/v1?key={secret}")
    (workspace / "stepscope.toml").write_text(table, encoding="utf-8")
    assert main(["judge", "--judge", A, *FEW, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "missing: " in shown.out
    assert secret not in shown.out + shown.err


def test_judging_ends_with_what_was_found_and_where_to_look(
    provider: Threaded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["judge", "--judge", A, *FEW, "--rubric", "axes.termination"]) == 0
    said = capsys.readouterr()
    with Store.open("good.db") as store:
        records = list(store.records(measure="judge.axes.termination"))
    wrong = sum(isinstance(r.answer, Verdict) and r.answer.label == "incorrect" for r in records)
    assert f"{A}, axes.termination: faults in {wrong} of 4 runs" in said.out
    found = wrong > 0
    assert ("Next: stepscope show airline/11/" in said.out) is found
    assert ("Next: stepscope report --store good.db" in said.out) is not found


def test_a_name_that_forges_a_line_or_holds_a_secret_is_told_as_one_line_without_it(
    provider: Threaded, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    secret = "sk-proj-aB3dE5fG7hJ9kL2mN4pQ6rS8"
    with Store.open("made.db") as store:
        store.put([run(user("hi"), agent("ok"), name=f"a\nNext: rm\n{secret}")])
        answer = Verdict("judge.axes.termination", label="incorrect", cites=(1,))
        store.append([Record(trajectory="r1", answer=answer, version="2", family="x", judge=A)])
    asked = ["--store", "made.db", "--rubric", "axes.termination", "--budget", "0"]
    assert main(["judge", "--judge", A, *asked]) == 5
    said = capsys.readouterr().out
    assert f"{A}, axes.termination: faults in 1 of 1 runs, as in a\\nNext: rm" in said
    assert "\nNext: rm" not in said
    assert "\nNext: stepscope report" in said
    assert secret not in said


def test_without_keys_it_says_which_and_what_the_rules_found(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    real = ["--judge", "anthropic/claude-sonnet-4-5", "--judge", "openai/gpt-5"]
    assert main(["judge", *real, *FEW]) == 2
    said = capsys.readouterr()
    assert "Findings of the rules, without a model:" in said.out
    assert "argument validity" in said.out
    last = said.err.splitlines()[-1]
    assert last.startswith("error: nothing was sent: ")
    for key in KEYS:
        assert f"{key} is not set" in last


def test_a_budget_of_nothing_sends_nothing_and_is_code_5(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", *JUDGES, *FEW, "--budget", "0"]) == 5
    assert "40 budget" in capsys.readouterr().out
    assert provider.asked == []
    termination = ["--rubric", "axes.termination"]
    assert main(["judge", "--judge", A, *FEW, *termination]) == 0
    asked = len(provider.asked)
    again = ["judge", "--again", "--judge", B, *termination, "--store", "good.db", "--budget", "0"]
    assert main(again) == 5
    assert len(provider.asked) == asked


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--judge", "local/unpriced"], "the price of judge 'local/unpriced' is unknown"),
        (["--judge", "local/nobody-knows"], "the family of judge 'local/nobody-knows' is unknown"),
        (["--judge", A, "--rubric", "axis"], "no rubric called 'axis'"),
        (["--judge", A, "--rubric", "mine.md"], "mine.md"),
        (["--judge", A, "--workspace", "folder"], "a workspace is looked at with tools"),
        (["--judge", B, "--strict-families"], "is of the family of agent 'gpt-4o' (openai)"),
        (["--judge", A, "--rubric", "axes", "--mode", "isolated"], "in isolation"),
        ([], "name a judge"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_code_2(
    more: list[str], said: str, provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", *FEW, *more]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last
    assert provider.asked == []


def test_both_narrations_are_asked_and_what_flips_is_flagged(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "--judge", A, *FEW, "--narration", "both"]) == 0
    with Store.open("good.db") as store:
        records = list(store.records(measure="judge.axes.termination"))
    # Its evidence is what the agent says: without that it is not asked, and turns nothing.
    assert {record.version for record in records} == {"2", "2+narration-off"}
    absent = [record.answer for record in records if record.version == "2+narration-off"]
    assert len(absent) == 4
    assert all(answer.reason.startswith("narration_off: ") for answer in absent)
    capsys.readouterr()
    assert main(["report", *FEW]) == 0
    flagged = [
        line for line in capsys.readouterr().out.split("\n") if "narration_dependent" in line
    ]
    assert flagged
    for axis in ("axes.termination", "axes.result_interpretation"):
        assert not any(axis in line for line in flagged)


def test_a_judge_that_misses_canaries_has_its_answers_set_aside(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    canaries = ["--rubric", "axes.result_interpretation", "--canaries"]
    assert main(["judge", "--judge", A, *FEW, *canaries]) == 0
    shown = capsys.readouterr().out
    assert "paid for canaries besides: $0." in shown
    assert "canaries of axes.result_interpretation: its answers are set aside" in shown
    with Store.open("good.db") as store:
        records = list(store.records(measure="judge.axes.result_interpretation"))
    assert len(records) == 4
    assert all(record.answer.reason.startswith("canary_missed: ") for record in records)


def test_judges_with_tools_are_asked_look_by_look(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", "--judge", A, *FEW, "--rubric", "axes.termination", "--tools"]) == 0
    with Store.open("good.db") as store:
        assert "judge.axes.termination.looks" in store.measures()


def test_a_sample_is_drawn_and_remembered(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    sampled = ["--store", "good.db", "--rubric", "axes.termination", "--sample", "5"]
    assert main(["judge", "--judge", A, *sampled]) == 0
    assert len(provider.asked) == 5
    with Store.open("good.db") as store:
        assert list(store.drawn("axes.termination").values()) == [0.25] * 5
        assert len(store.sampled("axes.termination")) == 20


def test_images_are_sent_when_they_are_asked_for_and_the_price_says_so(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    held = looked(picture(png(fill=b"a red lamp")), picture(png(fill=b"a map"), "image/svg+xml"))
    with Store.open("pictures.db") as store:
        store.put([run(user("Is the red lamp on?"), held, agent("The red lamp is on."))])
    chosen = [*JUDGES, "--store", "pictures.db", "--rubric", "axes.termination"]
    worst = []
    for media in ([], ["--send-media"]):
        assert main(["judge", *chosen, *media, "--dry-run", "--json"]) == 0
        (expected,) = json.loads(capsys.readouterr().out)
        worst.append([row["worst_usd"] for row in expected["rows"]])
        counts = [(row["images"], row["images_left_out"]) for row in expected["rows"]]
        assert counts == ([(1, 1)] * 2 if media else [(0, 0)] * 2)
    # 48,169 tokens and a little more, at 3 and at 1.25 USD for a million.
    more = [after - before for before, after in zip(*worst, strict=True)]
    assert 0.1445 < more[0] < 0.153
    assert 0.0602 < more[1] < 0.064
    assert main(["judge", *chosen]) == 0
    assert "images" not in capsys.readouterr().err
    assert main(["judge", *chosen, "--send-media"]) == 0
    assert "2 calls to buy with 2 images, 2 left out; likely $" in capsys.readouterr().err
    data = encoded(png(fill=b"a red lamp")).encode()
    assert [data in asked.body for asked in provider.asked] == [False, False, True, True]
    with Store.open("pictures.db") as store:
        assert len({record.prompt for record in store.records()}) == 2


def test_batches_cost_half_and_are_kept(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["judge", *JUDGES, *FEW, "--rubric", "axes.termination"]
    assert main([*asked, "--batch"]) == 0
    assert "8 answers stored; replies: 8 new from judges" in capsys.readouterr().out
    assert main(asked) == 0
    assert "replies: 0 new from judges, 8 from the ledger" in capsys.readouterr().out


def test_goals_are_proposed_refused_until_confirmed_and_then_scored(
    provider: Threaded, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", *FEW, "--propose-goals", "goals.toml"]) == 0
    assert "set confirmed = true" in capsys.readouterr().out
    assert main(["judge", *FEW, "--propose-goals", "goals.toml"]) == 2
    goals = workspace / "goals.toml"
    scored = ["judge", "--judge", A, *FEW, "--rubric", "no_look", "--goals", "goals.toml"]
    assert main(scored) == 4
    assert provider.asked == []
    text = goals.read_text(encoding="utf-8")
    goals.write_text(text.replace("confirmed = false", "confirmed = true"), encoding="utf-8")
    assert main(scored) == 0
    assert provider.asked
    with Store.open("good.db") as store:
        scores = [one for one in store.records(measure="scores") if one.rubric == "no_look"]
    scored_steps = [one for one in scores if isinstance(one.answer, Verdict)]
    assert len(scored_steps) == len(provider.asked)
    # What a goal covers and the agent did not do has its reason.
    others = [one.answer.reason for one in scores if not isinstance(one.answer, Verdict)]
    assert all("is not the agent's" in reason for reason in others)


def test_judging_again_asks_about_the_same_runs_and_says_what_turned(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    termination = ["--rubric", "axes.termination"]
    assert main(["judge", "--again", "--judge", B, *termination, "--store", "good.db"]) == 2
    assert "nothing to judge again: no judge answered by axes.term" in capsys.readouterr().err
    assert main(["judge", "--judge", A, *FEW, *termination]) == 0
    assert len(provider.asked) == 4
    capsys.readouterr()
    assert main(["judge", "--again", "--judge", B, *termination, "--store", "good.db"]) == 0
    assert len(provider.asked) == 8
    shown = capsys.readouterr().out
    assert "axes.termination: local/gpt-b, before local/claude-a" in shown
    assert "runs changed" in shown or "insufficient_data" in shown
    # Without a judge those who answered are asked; in the very same words nothing is bought.
    assert main(["judge", "--again", *termination, "--store", "good.db"]) == 0
    assert len(provider.asked) == 8
    assert "replies: 0 new from judges, 8 from the ledger" in capsys.readouterr().out


@pytest.mark.parametrize("named", [["--judge", B], ["--judge", A], []])
def test_the_price_of_judging_again_is_of_the_calls_that_it_makes(
    named: list[str], provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    rubrics = ["--rubric", "axes.termination", "--rubric", "axes.sequencing"]
    again = ["judge", "--again", *rubrics, *named, "--store", "good.db", "--repeat", "2"]
    assert main([*again, "--dry-run"]) == 2
    assert "nothing to judge again: no judge answered by axes.term" in capsys.readouterr().err
    assert main(["judge", "--judge", A, *FEW, *rubrics[:2]]) == 0
    before = len(provider.asked)
    capsys.readouterr()
    assert main([*again, "--dry-run", "--json"]) == 0
    rows = [row for one in json.loads(capsys.readouterr().out) for row in one["rows"]]
    assert len(provider.asked) == before == 4
    assert {row["judge"] for row in rows} == {named[1] if named else A}
    assert main(again) == 0
    bought = len(provider.asked) - before
    assert sum(row["calls"] - row["bought"] for row in rows) == bought == (8 if B in named else 4)


def test_the_demo_is_judged_by_models_that_are_named(
    provider: Threaded, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--judge", A, "--budget", "100"]) == 0
    shown = capsys.readouterr().out
    assert "At fault, by judge" in shown
    assert main(["demo", "--judge", "openai/gpt-5", "--store", "other-demo.db"]) == 2
    said = capsys.readouterr()
    assert "Failure profile" in said.out
    assert "OPENAI_API_KEY is not set" in said.err
