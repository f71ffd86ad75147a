"""Two runs side by side: where they diverge for good, how far apart they are, beside their like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from stepscope.api import RunDiffView
from stepscope.cli.main import main
from stepscope.errors import UsageError
from stepscope.model import Step, Trajectory
from stepscope.report.views.compare import RunDiff, diff_runs, find_lasting, measure_distance
from stepscope.report.views.run import align_calls
from stepscope.store import Store
from stepscope.values import Unmeasured
from tests.factories import did, run, user


def made(tools: str, id: str = "a", /, *, task: str | None = "1", **fields: object) -> Trajectory:
    """Return a run that calls these tools, one a letter; a capital has another result."""
    steps: list[Step] = [user("go")]
    for tool in tools:
        steps += did("think" if tool == "t" else tool.lower(), "other" if tool.isupper() else "ok")
    one = run(*steps, id=id * 32, name=f"shop/{id}", task=task)
    return msgspec.structs.replace(one, **fields)


def compared(*runs: Trajectory) -> RunDiff:
    with Store.open(":memory:") as store:
        store.put(runs)
        return diff_runs(store, runs[0].id, runs[1].id)


@pytest.mark.parametrize(
    ("first", "second", "lasting"),
    [
        ("abcd", "abcd", None),
        ("abxcd", "abycd", None),  # two same calls in a row: together again
        ("abxc", "abyc", ("x", None)),  # one alone is no return
        ("abxcdz", "abycdw", ("z", None)),  # together again, and apart for good
        ("abcdz", "abcd", ("z", None)),  # one goes on
        ("abcd", "abcdz", (None, "z")),
        ("xyz", "abc", ("x", None)),
        ("abC", "abc", ("c", "c")),  # another result parts them as well
        ("abtcd", "abcd", None),  # thoughts do not count
        ("abxctd", "abycd", None),  # nor between two same calls
        ("abt", "ab", None),  # nor at the end
        ("", "", None),
        ("", "a", (None, "a")),
    ],
)
def test_runs_part_for_good_where_they_are_not_together_again(
    first: str, second: str, lasting: tuple[str | None, str | None] | None
) -> None:
    pairs = list(align_calls(made(first), made(second, "b")))
    at = find_lasting(pairs)
    assert lasting == (None if at is None else tuple(p and p.call.name for p in pairs[at]))


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("abcd", "abcd", 0.0),
        ("abcd", "abcD", 0.0),  # what comes back is not the agent's doing
        ("abcd", "abxx", 0.5),
        ("abcd", "ab", 1 - 4 / 6),
        ("ab", "cd", 1.0),
        ("abt", "tab", 0.0),  # thoughts aside
        ("ab", "ba", 0.5),  # order counts
    ],
)
def test_the_distance_is_the_share_of_calls_without_their_like(
    first: str, second: str, apart: float
) -> None:
    assert measure_distance(list(align_calls(made(first), made(second, "b")))) == pytest.approx(
        apart
    )


def test_runs_without_calls_have_no_distance() -> None:
    for tools in ("", "t"):
        assert isinstance(
            measure_distance(list(align_calls(made(tools), made("", "b")))), Unmeasured
        )


def test_beside_a_difference_stand_those_within_each_version() -> None:
    old, new = {"agent": "x", "agent_version": "1"}, {"agent": "x", "agent_version": "2"}
    found = compared(
        made("abcd", "1", **old), made("abxx", "2", **new),
        made("abcd", "3", **old), made("abcx", "4", **old),  # pairs of old: 0, 1/4, 1/4
        made("abxx", "5", **new),  # a pair of new: 0
        made("zzzz", "6", agent="y"), made("zzzz", "7", task="2", **old),  # not of these
    )  # fmt: skip
    assert found.distance == 0.5
    assert not isinstance(found.same_version, Unmeasured)
    assert found.same_version.distances == (0.0, 0.0, 0.25, 0.25)
    assert (found.same_version.runs, found.same_version.parted) == (5, 2)
    assert "None of these 4 pairs differs as much as the two runs." in RunDiffView(found).text()


def test_two_trials_of_one_version_are_not_their_own_comparison() -> None:
    found = compared(made("abcd", "1"), made("abxx", "2"), made("abyy", "3"))
    assert not isinstance(found.same_version, Unmeasured)
    assert found.same_version.distances == (0.5, 0.5)
    text = " ".join(RunDiffView(found).text().split())
    assert "2 of 2 differ at least as much as the two runs" in text


@pytest.mark.parametrize(
    ("runs", "kind", "why"),
    [
        (
            (made("ab", "1"), made("ac", "2")),
            "insufficient_data",
            "no other trials of this task: nothing to compare with",
        ),
        (  # the one other trial is of a third version
            (made("ab", "1"), made("ac", "2"), made("ad", "3", agent="y")),
            "insufficient_data",
            "no other trials of this task: nothing to compare with",
        ),
        ((made("ab", "1"), made("ac", "2", task="2")), "not_applicable", "of different tasks"),
        ((made("ab", "1", task=None), made("ac", "2", task=None)), "missing_input", "no task"),
        (
            (made("ab", "1"), made("ac", "2", workflow="other")),
            "not_applicable",
            "of different tasks",
        ),
    ],
)
def test_without_such_pairs_it_is_unmeasured_and_says_why(
    runs: Sequence[Trajectory], kind: str, why: str
) -> None:
    found = compared(*runs)
    assert isinstance(found.same_version, Unmeasured)
    assert found.same_version.kind == kind
    assert why in found.same_version.reason
    assert f"unmeasured, {kind}: " in " ".join(RunDiffView(found).text().split())


def test_a_task_with_quotes_in_its_name_is_a_task() -> None:
    named = {"task": "it's 'so'", "workflow": "a'b"}
    found = compared(made("ab", "1", **named), made("ac", "2", **named), made("ab", "3", **named))
    assert not isinstance(found.same_version, Unmeasured)


def test_a_run_is_not_compared_with_itself() -> None:
    with Store.open(":memory:") as store:
        store.put([made("ab", "1")])
        with pytest.raises(UsageError, match="are the same run; name two"):
            diff_runs(store, "shop/1", "1" * 12)


def test_long_stretches_of_the_same_calls_are_one_line_and_json_has_each() -> None:
    found = compared(made("abcdefx", "1"), made("abcdefy", "2"))
    lines = RunDiffView(found).text().splitlines()
    calls = [line.split()[-3:] for line in lines if line.startswith("=")]
    assert calls == [["6", "identical", "calls"]]
    assert [line[0] for line in lines[4:7]] == ["=", "<", ">"]
    assert [one["relation"] for one in json.loads(RunDiffView(found).json())["calls"]] == [
        *["same"] * 6,
        "left",
        "right",
    ]


def test_arguments_that_differ_are_named_with_both_values() -> None:
    one = run(user("go"), *did("pay", to="a", amount=3), id="1" * 32, name="x", task="1")
    other = run(user("go"), *did("pay", to="a", amount=4), id="2" * 32, name="y", task="1")
    assert compared(one, other).calls[0].said == "pay: amount 3 | 4"


def test_nothing_hostile_is_printed_and_names_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("stepscope.db") as store:
        key = "sk-proj-" + "aB3" * 16
        tool = did("pay\x1b[2J", f"::error::{key}", to="\u202ex")
        store.put(
            run(user("go"), *tool, *did("b" * at), id=f"{at}" * 32, name=name, task="1")
            for at, name in ((1, "my run"), (2, "\x1b]0;x\x07"))
        )
    assert main(["diff", "my run", "2" * 12]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(
        "'my run' (first; no agent named): unknown, 5 steps, 2 calls\n" + "2" * 12
    )
    for bad in ("\x1b", "\x07", "\u202e", key, "\n::"):
        assert bad not in shown
    assert main(["diff", "my run", "2" * 12, "--json"]) == 0
    assert "\x1b" not in (printed := capsys.readouterr().out)
    assert key not in printed
    assert json.loads(printed)["same_version"]["kind"] == "insufficient_data"
