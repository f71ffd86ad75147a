"""The trail of a rubric: facts of one run, for every pair of versions, and no average of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.api.rubrics import read_history
from stepscope.calibrate.history import RubricHistory
from stepscope.errors import UsageError
from stepscope.judges.rubrics import RUBRICS_FOLDER
from stepscope.model import Verdict
from stepscope.store import Store
from tests.calibrate.made import said, store

AXIS = "axes.argument_validity"
CLAUDE, GPT = "anthropic/b", "openai/a"
# The trail of the article's worked run.
TRAIL = {
    "1": (("incorrect", 0.95, (15, 19)), ("correct", 0.97, (4, 6))),
    "2": (("incorrect", 0.60, (6, 15)), ("correct", 0.96, (4, 6, 8))),
    "3": (("correct", 0.98, (4, 6, 8, 15, 20)), ("correct", 0.96, (4, 6, 8, 15, 20))),
}


def worked(runs: int = 1) -> Store:
    made = store(runs, steps=26)
    made.append([
        said(
            judge, n, Verdict(f"judge.{AXIS}", label=label, confidence=sure, cites=cites),
            version=version, prompt=version * 16,
        )
        for version, answers in TRAIL.items()
        for judge, (label, sure, cites) in zip((CLAUDE, GPT), answers, strict=True)
        for n in range(runs)
    ])  # fmt: skip
    return made


def trail(runs: int = 1, texts: tuple[str, ...] = ()) -> RubricHistory:
    with worked(runs) as made:
        return read_history(made, AXIS, texts)


def test_every_pair_of_versions_is_shown_and_not_the_last_alone() -> None:
    pairs = [(one.judge, one.before, one.after) for one in trail().pairs]
    assert pairs == [
        (judge, *both) for judge in (CLAUDE, GPT) for both in (("1", "2"), ("1", "3"), ("2", "3"))
    ]


def test_of_one_run_the_facts_are_shown_and_no_average() -> None:
    found = trail()
    assert all(one.change is None for one in found.pairs)
    (fact,) = found.pairs[0].facts
    assert (fact.before.confidence, fact.after.confidence) == (0.95, 0.60)
    assert (fact.before.cites, fact.after.cites) == ((15, 19), (6, 15))
    assert fact.overlap == pytest.approx(1 / 3)
    lines = str(found).splitlines()
    assert lines[2] == (
        "  shop/0/0: incorrect 0.95 citing 15, 19 -> incorrect 0.60 citing 6, 15; overlap 0.33"
    )
    assert not [line for line in lines if "kept" in line]


def test_from_two_runs_on_shares_stand_before_the_facts() -> None:
    found = trail(runs=2)
    change = found.pairs[1].change
    assert change is not None
    assert (change.n, getattr(change.kept, "value", None)) == (2, 0.0)
    assert "  kept 0 %" in str(found)


def test_judges_agree_from_the_third_version_on() -> None:
    rows = [(one.version, one.same, one.of) for one in trail().agreement]
    assert rows == [("1", 0, 1), ("2", 0, 1), ("3", 1, 1)]
    assert "anthropic/b and openai/a, version 3: the same label in 1 of 1" in str(trail())


def test_the_diff_is_of_what_a_judge_is_told_and_missing_texts_are_named(tmp_path: Path) -> None:
    text = (RUBRICS_FOLDER / f"{AXIS}.md").read_text("utf-8")
    assert 'version = "2"' in text
    own = text.replace(f'name = "{AXIS}"', 'name = "mine.arguments"')
    first, second = tmp_path / "1.md", tmp_path / "2.md"
    first.write_text(own.replace('version = "2"', 'version = "1"'), encoding="utf-8")
    second.write_text(own.replace('question = "', 'question = "Look twice. '), encoding="utf-8")
    with store(1) as made:
        found = read_history(made, str(second), (str(first),))
        assert found.versions == ("1", "2")
        added = [x for x in found.diffs["1 -> 2"].splitlines() if x.startswith("+")]
        assert sum("Look twice." in line for line in added) == 1
        assert found.missing == ()
        with pytest.raises(UsageError, match=r"it is rubric 'mine.arguments', not 'axes.argument"):
            read_history(made, AXIS, (str(first),))
    missing = trail().missing
    assert missing == ("1", "3")
    assert "no text of version 1, 3 is at hand: give its file with --text" in str(trail())


def test_answers_to_fixed_runs_that_were_asked_about_again_are_no_first_answers() -> None:
    with store(1) as made:
        again = Verdict(f"judge.{AXIS}", label="incorrect")
        made.append([said(CLAUDE, 0, again, version=v, repeat=1000) for v in ("1", "2")])
        assert read_history(made, AXIS).pairs == ()
        made.append([
            said(f"{CLAUDE}@2027", 0, Verdict(f"judge.{AXIS}", label="correct"), version=v)
            for v in ("1", "2")
        ])  # fmt: skip
        (pair,) = read_history(made, AXIS).pairs
    assert (pair.facts[0].before.label, pair.facts[0].after.label) == ("correct", "correct")


def test_a_marked_version_has_the_text_of_its_version() -> None:
    with store(1) as made:
        made.append(
            [said(CLAUDE, 0, Verdict(f"judge.{AXIS}", label="correct"), version="2+unlocked")]
        )
        found = read_history(made, AXIS)
    assert (found.versions, found.missing) == (("2", "2+unlocked"), ())


def test_two_prompts_under_one_version_are_two() -> None:
    with store(1) as made:
        made.append([
            said(CLAUDE, 0, Verdict(f"judge.{AXIS}", label=label), version="1", prompt=prompt * 16)
            for label, prompt in (("correct", "a"), ("incorrect", "b"))
        ])  # fmt: skip
        (pair,) = read_history(made, AXIS).pairs
    assert (pair.before, pair.after) == ("1 (aaaaaa)", "1 (bbbbbb)")
