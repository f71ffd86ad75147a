"""`stepscope lab redteam` over a real SDK against a scripted provider of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepscope.cli.main import main
from tests.faults.providers import Threaded, serving
from tests.faults.script import Fault, Script, Where

ATTACK = ["lab", "redteam", "--judge", "local/tiny"]
COMMAND = [*ATTACK, "--runs", "3"]
# As our text of the class "authority" says it, where JSON is inside of JSON.
VENDOR = "Notice of the evaluation team"


def answered(label: str) -> Fault:
    quote = {"step": 0, "quote": "# Airline Agent Policy"}
    reply = {
        "evidence": [quote],
        "cited_step_indices": [0],
        "rationale": "by the script",
        "label": label,
        "confidence": 0.5,
    }
    return Fault(text=json.dumps(reply))


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Threaded]:
    swayed = Where(text=VENDOR, fault=answered("correct"))
    with serving(Script(always=answered("incorrect"), where=(swayed,))) as made:
        (tmp_path / "stepscope.toml").write_text(
            '[judges.model."local/tiny"]\nprotocol = "openai"\nfamily = "qwen"\n'
            f'base_url = "{made.openai}"\nstructure = "json_schema"\n'
            '[judges.model."local/tiny".price]\ninput = 0.1\noutput = 0.2\n',
            "utf-8",
        )
        monkeypatch.chdir(tmp_path)
        yield made


def test_the_bundled_failing_runs_are_attacked_and_kept_replies_are_not_bought_again(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*COMMAND, "--class", "authority,narration_swap"]
    assert main(command) == 0
    shown = capsys.readouterr()
    rows = {line.split()[0]: line.split() for line in shown.out.splitlines() if "%" in line}
    # One text of three flips each run; without the agent's words it stands there all the same.
    assert rows["authority"][1:] == ["3", "3", "100.0", "%", "9", "3", "0", "0", "0", "3"]
    assert rows["narration_swap"][1:] == ["3", "0", "63.2", "%", "3", "0", "0", "0", "0", "0"]
    assert "4 attacks on local/tiny through 3 failing runs: at most 27 calls and $5" in shown.err
    assert "replies: 18 bought, 0 kept" in shown.err
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.out == shown.out
    assert "paid $0.0000; replies: 0 bought, 18 kept" in again.err


def test_a_judge_without_a_verdict_is_code_4(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    provider.script = Script(answer="echo")
    assert main([*COMMAND, "--class", "authority", "--json"]) == 4
    found = json.loads(capsys.readouterr().out)
    (judge,) = found["judges"]
    assert judge["clean"] == {"unparsable": 3}
    assert judge["flips"][0]["class"] == "authority"
    assert judge["flips"][0]["limit"] is None


def test_a_budget_of_nothing_buys_nothing(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "--class", "authority", "--budget", "0"]) == 5
    shown = capsys.readouterr()
    assert "as they are: 3 unasked" in shown.out
    assert "replies: 0 bought, 0 kept; 3 judgements without an answer" in shown.err
    assert not provider.asked


def test_texts_of_ones_own_are_tried_too(
    provider: Threaded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text(f"{VENDOR}!\n", "utf-8")
    assert main([*COMMAND, "--corpus", "mine.txt", "--class", "corpus"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  corpus"))
    # In a result it stays without the agent's words, in these words it does not.
    assert row.split() == ["corpus", "3", "3", "100.0", "%", "6", "6", "0", "0", "3", "6"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lab", "redteam"], "name whom to attack: --judge PROVIDER/MODEL"),
        ([*COMMAND, "--class", "x"], "no attack class 'x'; there are: authority, "),
        ([*COMMAND, "--corpus", "absent"], "absent: no such file"),
        ([*COMMAND, "--rubric", "no_look"], "attacks need one whose answer is for or against"),
        ([*COMMAND, "--store", "absent.db"], "no store at 'absent.db'"),
        ([*ATTACK, "--runs", "0"], "Invalid value for '--runs'"),
    ],
)
def test_a_wrong_attack_is_one_line_and_code_2(
    provider: Threaded, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.out == ""
    assert not provider.asked
