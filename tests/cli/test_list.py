"""`stepscope list`: which runs are there, by filter, order and number."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.model import Instant
from stepscope.settings import Settings
from tests.factories import FAILED, PASSED, agent, did, failed, run, user

HOSTILE = "a; touch pwned \x1b[2J"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of three scored runs, one of another agent with a hostile name, which is no text."""
    monkeypatch.chdir(tmp_path)
    made = [
        run(
            user("buy"), *(did("pay") if at == 2 else failed("pay")), agent("done"), *more,
            id=f"{at}" * 32, name=name, task=str(at), outcome=PASSED if at == 2 else FAILED,
        )
        for at, name, more in (
            (2, "shop/2", ()), (11, "shop/11", (user("?"),)), (3, HOSTILE, (user("?"), user("!"))),
        )
    ]  # fmt: skip
    made[2] = msgspec.structs.replace(made[2], agent="b\x1b[31m", tags={"night": "\x1b]0;x\x07"})
    with stepscope.open(tmp_path / "stepscope.db", settings=Settings()) as notebook:
        notebook.store.put(made)
        notebook.score(workers=1)
    return tmp_path


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    assert main(["list", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("\n".join(lines(capsys, *arguments, "--json")))
    return found


def test_runs_are_in_the_order_of_the_numbers_in_their_names(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [line.split()[0] for line in lines(capsys)[:4]]
    assert names == ["run", "3" * 12, "shop/2", "shop/11"]


def test_every_name_can_be_pasted_behind_show(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in lines(capsys, "--columns", "run")[1:4]:
        (typed,) = shlex.split(line.strip())
        assert main(["show", typed]) == 0


def test_nothing_hostile_is_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(lines(capsys, "--columns", "run,agent,tag.night"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "pwned" not in text


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--where", "outcome = 'fail'"), [HOSTILE, "shop/11"]),
        (("--sort", "-steps"), [HOSTILE, "shop/11", "shop/2"]),
        (("--sort", "steps"), ["shop/2", "shop/11", HOSTILE]),
        (("--sort", "-run"), ["shop/11", "shop/2", HOSTILE]),
        (("--sort", "tag.night"), [HOSTILE, "shop/2", "shop/11"]),  # what has none comes last
        (("--sort", "-tag.night"), [HOSTILE, "shop/2", "shop/11"]),
        (("--sort", "errors", "--limit", "1"), ["shop/2"]),  # a measure
        (("--limit", "0"), [HOSTILE, "shop/2", "shop/11"]),
        (("--where", "task = 'none'"), []),
    ],
)
def test_runs_are_chosen_ordered_and_cut(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], names: list[str]
) -> None:
    assert [one["name"] for one in read_json(capsys, *arguments)["runs"]] == names


def test_how_many_match_is_said_whatever_is_shown(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(capsys)[-1] == "3 runs match."
    assert lines(capsys, "--limit", "2")[-1] == "3 runs match, 2 shown; --limit 0 shows all."
    assert lines(capsys, "--where", "task = '2'")[-1] == "1 run matches."
    assert lines(capsys, "--where", "task = 'x'")[-1] == "0 runs match."
    found = read_json(capsys, "--limit", "2")
    assert (found["matching"], found["shown"], len(found["runs"])) == (3, 2, 2)


def test_groups_are_named_counted_and_cut_each(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines(capsys, "--by", "outcome", "--limit", "1", "--columns", "run")
    assert [line for line in found if line.startswith("outcome")] == [
        "outcome: fail   2 runs, 1 shown",
        "outcome: pass   1 run",
    ]
    assert [one["outcome"] for one in read_json(capsys, "--by", "outcome")["runs"]] == [
        "fail",
        "fail",
        "pass",
    ]


def test_what_is_not_measured_is_absent_never_0(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_json(capsys, "--columns", "run,cost,tag.night,recovery", "--sort", "run")["runs"]
    assert [one["cost_usd"] for one in found] == [None] * 3
    assert [one["tag.night"] is None for one in found] == [False, True, True]
    shop = next(one for one in found if one["name"] == "shop/2")
    assert shop["recovery"] is None  # no error, so nothing to recover from
    assert shop["agent_version"] is None
    assert lines(capsys, "--columns", "run,cost", "--where", "task = '2'")[1].split() == [
        "shop/2",
        "-",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--columns", "run,stepz"), "no column 'stepz'; expected one of run, outcome"),
        (("--columns", "run,redundant"), "or a measure, as redundant_calls"),
        (("--columns", ""), "no column ''"),
        (("--columns", "tag."), "no column 'tag.'"),
        (("--sort", "size"), "no column 'size'"),
        (("--by", "size"), "--by 'size' is not a field"),
        (("--where", "size = 1"), "expected a field"),
        (("--limit", "-1"), "Invalid value for '--limit'"),
    ],
)
def test_what_is_no_column_field_or_number_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["list", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_store_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    stepscope.open(tmp_path / "stepscope.db", settings=Settings()).close()
    assert main(["list"]) == 2
    assert "read some with stepscope import PATHS" in capsys.readouterr().err


def test_unscored_runs_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with stepscope.open(tmp_path / "stepscope.db", settings=Settings()) as notebook:
        notebook.store.put([run(user("a"), name="shop/1")])
    assert lines(capsys)[0].split() == ["run", "outcome", "steps", "calls"]
    assert lines(capsys)[-1] == "1 run matches."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "error: no run is named: give a name"),
        ("shop/1x", "error: no run called 'shop/1x': did you mean shop/11"),
        ("shop", "error: 'shop' is more than one run: shop/11, shop/2; say more"),
    ],
)
def test_a_name_that_is_none_is_answered_with_those_that_are_near(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    assert main(["show", text]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_the_start_of_a_name_is_enough_and_so_is_one_that_was_cut(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("shop/1", "shop/1…", "2222"):
        assert main(["show", text]) == 0
    assert "shop/11" in capsys.readouterr().out


def test_a_run_that_was_not_scored_has_no_axes_and_keeps_its_time_to_the_nanosecond(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = run(user("buy"), *did("pay"), id="f" * 32, name="late", task="9", outcome=PASSED)
    step = msgspec.structs.replace(late.steps[0], start=Instant(1_700_000_000_123_456_789, ""))
    late = msgspec.structs.replace(late, steps=(step, *late.steps[1:]))
    with stepscope.open(here / "stepscope.db", settings=Settings()) as notebook:
        notebook.store.put([late])
    found = {one["name"]: one for one in read_json(capsys, "--columns", "run,axes,started")["runs"]}
    assert (found["late"]["faults"], found["shop/2"]["faults"]) == (None, [])
    assert found["late"]["start_ns"] == 1_700_000_000_123_456_789
