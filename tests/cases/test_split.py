"""The held-out part of a corpus: frozen by hash, and refused once it was edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from stepscope.cases.files import load_cases
from stepscope.cases.split import (
    Split,
    check_corpus,
    draw_split,
    freeze,
    load_split,
    refuse_edited,
    split_path,
)
from stepscope.cli.main import main
from stepscope.errors import ConfigError, UsageError
from stepscope.model import Case


def corpus(folder: Path, n: int = 40, more: Mapping[str, str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "cases.jsonl"
    rows = [
        {
            "workflow": "shop",
            "task": f"t{at}",
            "request": (more or {}).get(f"t{at}", f"Refund order {at}."),
            "difficulty": "hard" if at % 4 == 0 else "easy",
            "tags": {"type": "refund" if at % 2 else "cancel"},
        }
        for at in range(n)
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return path


def frozen(path: Path) -> Split:
    split = draw_split(load_cases(path), share=0.2, by=["type", "difficulty"])
    freeze(split, path)
    return split


def edit(path: Path, task: str) -> None:
    text = path.read_text(encoding="utf-8")
    number = task.removeprefix("t")
    assert f"Refund order {number}." in text
    path.write_text(text.replace(f"Refund order {number}.", "Refund."), encoding="utf-8")


def test_a_fifth_of_each_stratum_is_held_out(tmp_path: Path) -> None:
    cases = load_cases(corpus(tmp_path))
    split = draw_split(cases, share=0.2, by=["type", "difficulty"])
    held = [one for one in cases if (one.workflow, one.task) in split.tasks("held_out")]
    strata = [(one.tags["type"], one.difficulty) for one in held]
    # 20 refunds, 10 hard and 10 easy cancels: 4, 2 and 2.
    assert (
        sorted(strata)
        == [("cancel", "easy")] * 2 + [("cancel", "hard")] * 2 + [("refund", "easy")] * 4
    )


def test_the_draw_depends_on_the_seed_and_not_on_the_order_of_cases(tmp_path: Path) -> None:
    cases = load_cases(corpus(tmp_path))
    split = draw_split(cases, share=0.2)
    assert draw_split(cases[::-1], share=0.2) == split
    assert draw_split(cases, share=0.2, seed=1).tasks("held_out") != split.tasks("held_out")


@pytest.mark.parametrize("share", [0.0, 1.0, 0.001, float("nan")])
def test_a_share_that_holds_out_none_or_all_is_refused(share: float) -> None:
    cases = [Case(workflow="w", task=str(at)) for at in range(10)]
    with pytest.raises(UsageError, match="expected 1 to 9"):
        draw_split(cases, share=share)


def test_a_stratum_that_no_case_has_is_refused() -> None:
    cases = [Case(workflow="w", task=str(at)) for at in range(10)]
    with pytest.raises(UsageError, match="--by kind: no case has it"):
        draw_split(cases, share=0.2, by=["kind"])


@pytest.mark.parametrize("whole", [True, False], ids=["folder", "file"])
def test_an_edited_held_out_case_is_refused_wherever_cases_are_read(
    tmp_path: Path, whole: bool
) -> None:
    path = corpus(tmp_path / "cases")
    place = path.parent if whole else path
    task = min(frozen(place).tasks("held_out"))[1]
    assert len(load_cases(place)) == 40
    edit(path, task)
    with pytest.raises(ConfigError, match=f"held-out case shop/{task} was edited .*git checkout"):
        load_cases(place)
    assert main(["case", "check", str(place)]) == 2


def test_a_file_of_a_frozen_folder_is_compared_for_the_cases_in_it(tmp_path: Path) -> None:
    path = corpus(tmp_path / "cases")
    task = min(frozen(path.parent).tasks("held_out"))[1]
    other = path.with_name("more.jsonl")
    other.write_text('{"workflow": "shop", "task": "new"}\n', encoding="utf-8")
    assert len(load_cases(other)) == 1
    edit(path, task)
    with pytest.raises(ConfigError, match="was edited"):
        load_cases(path)


def test_another_case_may_be_edited_and_new_ones_may_come(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    split = frozen(path)
    edit(path, min(split.tasks("development"))[1])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"workflow": "shop", "task": "later"}\n')
    found = check_corpus(path, load_cases(path))
    assert (found.cases, found.later, found.split) == (41, 1, split)


def test_a_lost_held_out_case_is_refused(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    held = frozen(path).tasks("held_out")
    cases = {(one.workflow, one.task): one for one in load_cases(path)}
    del cases[min(held)]
    with pytest.raises(ConfigError, match="is gone"):
        refuse_edited(path, cases)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"part": "development"', '"part": "held_out"', "was edited by hand: its content"),
        ('"share": 0.2', '"share": 0.3', "was edited by hand: its content"),
        ('"schema": 1', '"schema": 9', "newer stepscope"),
        ('"seed": 0', '"sede": 0', "is no split .*git checkout"),
        ("{", "", "is no split .*git checkout"),
    ],
)
def test_a_split_that_was_edited_by_hand_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = corpus(tmp_path)
    frozen(path)
    place = split_path(path)
    place.write_text(place.read_text("utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_split(path)


def test_a_split_whose_lines_were_laid_out_anew_is_the_same(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    split = frozen(path)
    place = split_path(path)
    place.write_text(json.dumps(json.loads(place.read_text("utf-8"))), encoding="utf-8")
    assert load_split(path) == split


def test_a_frozen_corpus_is_not_split_again(tmp_path: Path) -> None:
    path = corpus(tmp_path)
    split = frozen(path)
    with pytest.raises(UsageError, match="this corpus is frozen"):
        freeze(split, path)
    # A link to a split that is not mounted now, say.
    split_path(path).unlink()
    split_path(path).symlink_to(tmp_path / "away.json")
    with pytest.raises(UsageError, match="this corpus is frozen"):
        freeze(split, path)


def test_the_same_request_in_both_parts_is_a_leak(tmp_path: Path) -> None:
    split = draw_split(load_cases(corpus(tmp_path)), share=0.2)
    held, other = min(split.tasks("held_out"))[1], min(split.tasks("development"))[1]
    path = corpus(tmp_path, more={held: "Refund me.", other: "refund  ME."})
    freeze(draw_split(load_cases(path), share=0.2), path)
    warnings = check_corpus(path, load_cases(path)).warnings
    assert f"held-out case shop/{held} has the request of shop/{other}: it is no new task" in (
        warnings
    )
    # Near miss: the same request twice in one part is none.
    twice = sorted(split.tasks("development"))[:2]
    path = corpus(tmp_path, more={task: "Refund me." for _, task in twice})
    split_path(path).unlink()
    freeze(draw_split(load_cases(path), share=0.2), path)
    assert not [one for one in check_corpus(path, load_cases(path)).warnings if "new task" in one]


def test_check_says_what_a_small_corpus_cannot_do(tmp_path: Path) -> None:
    path = corpus(tmp_path, 10)
    warnings = check_corpus(path, load_cases(path)).warnings
    assert warnings == (
        "shop has 10 cases; below 30 most differences stay unseen",
        "10 cases with fewer than 4 or more than 10 sub-goals, as shop/t0: no shape of effort",
    )


def test_split_shows_without_freezing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = corpus(tmp_path)
    assert main(["case", "split", str(path), "--by", "type,difficulty"]) == 0
    assert capsys.readouterr().out.startswith("8 of 40 cases held out (20 %, by type, difficulty)")
    assert not split_path(path).exists()
    assert main(["case", "split", str(path), "--freeze"]) == 0
    assert main(["case", "split", str(path)]) == 2
    assert "is frozen" in capsys.readouterr().err
