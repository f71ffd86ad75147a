"""What should change no answer (length, order) is told from what does, pair by pair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from stepscope.calibrate.bias import JudgeBias, decide_bias, find_bias, shift_limits
from stepscope.calibrate.drift import measure_drift
from stepscope.judges.judgement import Judge, Judgement, JudgingOptions, record_prompt
from stepscope.judges.plan import pad_texts, plan_judgements
from stepscope.judges.rubrics import load_rubric
from stepscope.model import Answer, Record, Verdict
from stepscope.model.records import BIAS_REPEAT, CHANGES, Change
from stepscope.safety.redact import Redactor
from stepscope.store.judged import read_judge_answers
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import AXIS, said, store
from tests.factories import agent, run, user

JUDGE = "openai/a"


def answer(bad: bool | None) -> Answer:
    if bad is None:
        return Unmeasured("refused", "no", f"judge.{AXIS}")
    return Verdict(f"judge.{AXIS}", label="incorrect" if bad else "correct")


def pairs(
    usual: Sequence[bool | None], changed: Sequence[bool | None], *, change: Change = "longer",
    judge: str = JUDGE, version: str = "1", repeat: int = 0,
) -> list[Record]:  # fmt: skip
    """Return answers about runs 0, 1, ..., as usual and changed; the second by `judge`."""
    bought = BIAS_REPEAT + CHANGES.index(change) + repeat
    return [
        one
        for n, (a, b) in enumerate(zip(usual, changed, strict=True))
        for one in (
            said(JUDGE, n, answer(a)),
            said(judge, n, answer(b), version=version, repeat=bought, prompt="q" * 16),
        )
    ]


def bias(records: Sequence[Record], runs: int = 120) -> tuple[JudgeBias, ...]:
    with store(runs) as made:
        made.append(records)
        return find_bias(made)


def some(n: int, of: int = 100) -> list[bool | None]:
    return [at < n for at in range(of)]


def test_a_judge_that_turns_against_longer_runs_leans() -> None:
    (found,) = bias(pairs(some(20), some(35)))
    assert found.decision.outcome == "fail"
    assert found.decision.reason == "it moves answers against the agent"
    assert (found.pairs, found.runs, found.against, found.favour) == (100, 100, 15, 0)
    assert isinstance(found.shift, Estimate)
    assert found.shift.value == pytest.approx(0.15)
    (other,) = bias(pairs(some(35), some(20), change="examples reversed"))
    assert other.decision.reason == "it moves answers in the agent's favour"
    assert (other.change, other.against, other.favour) == ("examples reversed", 0, 15)


def test_the_same_answers_show_that_a_judge_does_not_lean() -> None:
    (found,) = bias(pairs(some(20), some(20)))
    assert (found.decision.outcome, found.against, found.favour) == ("pass", 0, 0)
    # With few pairs that is not shown, and the line says how many would.
    (few,) = bias(pairs(some(4, 30), some(4, 30)))
    assert few.decision.outcome == "undecided"


def test_answers_that_turn_both_ways_are_noise() -> None:
    turned = [*[False] * 10, *[True] * 10, *[False] * 80]
    (found,) = bias(pairs(some(10), turned))
    assert (found.against, found.favour, found.decision.outcome) == (10, 10, "undecided")
    # 2.93^2 * (SD / .05)^2 with SD^2 = 20/99: 694 pairs.
    assert found.pairs_needed == 694
    assert found.decision.reason == "about 694 pairs would decide"


def test_below_twenty_runs_nothing_is_tested() -> None:
    (found,) = bias(pairs(some(0, 19), some(19, 19)))
    assert found.decision.outcome == "undecided"
    assert found.decision.reason == "19 of 20 runs, 19 of 2 tasks"
    (found,) = bias(pairs(some(0, 20), some(20, 20)))
    assert found.decision.outcome == "fail"


@pytest.mark.parametrize(
    "other", [{"judge": f"{JUDGE}@2026"}, {"version": "2"}, {"repeat": 3}], ids=str
)
def test_another_snapshot_version_or_asking_makes_no_pair(other: dict[str, object]) -> None:
    found = bias(pairs(some(0), some(100), **other))  # type: ignore[arg-type]
    assert all(one.pairs == 0 and one.decision.outcome == "undecided" for one in found)


def test_a_pair_with_one_answer_is_lost_and_counted() -> None:
    (found,) = bias(pairs(some(0, 30), [None] * 5 + some(0, 25)))
    assert (found.pairs, found.lost) == (25, 5)
    assert str(found).endswith("0 in its favour, 5 lost")
    (found,) = bias(pairs([None] * 5 + some(0, 25), [None] * 5 + some(0, 25)))
    assert (found.pairs, found.lost) == (25, 0)


def test_trials_of_a_task_count_as_one() -> None:
    with store(100) as made:
        made.put(
            run(agent("a"), id=f"r{n}", name=f"shop/{n}/1", task=str(n // 20)) for n in range(100)
        )
        made.append(pairs(some(0), some(20)))
        (found,) = find_bias(made)
    assert isinstance(found.shift, Estimate)
    assert (found.pairs, found.shift.n_tasks, found.decision.outcome) == (100, 5, "undecided")
    assert bias(pairs(some(0), some(20)))[0].decision.outcome == "fail"


def test_more_tests_ask_for_more() -> None:
    shifts = np.r_[np.ones(7), np.zeros(33)]
    outcomes = [decide_bias(shifts, 40, n)[0].outcome for n in (1, 40)]
    assert outcomes == ["fail", "undecided"]


def test_the_limits_are_those_of_bonett_and_price_with_a_task_each_way() -> None:
    # 1.6524 * sqrt((2 + 2/3) / 102.667) / sqrt(102.667): t of 202 degrees, 2/3 a task for two.
    value, low, high = shift_limits(np.zeros(100), 0.9)
    assert value == 0.0
    assert high == -low == pytest.approx(0.02628, abs=1e-4)


def test_a_judge_of_which_no_answer_turns_is_cleared_by_sixty_tasks() -> None:
    assert decide_bias(np.zeros(20), 80)[1] == 240
    assert decide_bias(np.zeros(60), 60)[0].outcome == "pass"
    assert decide_bias(np.zeros(50), 50)[0].outcome == "undecided"


def test_answers_without_the_agents_words_are_told_and_not_tested() -> None:
    hidden = [said(JUDGE, n, answer(True), version="1+narration-off") for n in range(40)]
    plain = [said(JUDGE, n, answer(False)) for n in range(40)]
    (found,) = bias([*plain, *hidden])
    assert (found.change, found.against, found.decision.outcome) == (
        "+narration-off", 40, "undecided",
    )  # fmt: skip
    assert "narration-off: shown, not tested" in str(found)


def test_answers_that_speak_for_and_against_nobody_make_no_pair() -> None:
    records = [
        said(JUDGE, n, Verdict("judge.attribution", label="plan"), repeat=repeat)
        for n in range(30)
        for repeat in (0, BIAS_REPEAT)
    ]
    (found,) = bias(records)
    assert (found.pairs, found.lost, found.decision.outcome) == (0, 0, "undecided")


def test_changed_questions_replace_no_answer_and_are_no_drift() -> None:
    with store(40) as made:
        made.append(pairs(some(0, 40), some(40, 40)))
        (one,) = read_judge_answers(made, made.runs())
        answers = [of.verdict.answer for of in one.runs.values() if of.verdict is not None]
        assert {x.label for x in answers if isinstance(x, Verdict)} == {"correct"}
        assert measure_drift(made) == ()


def test_padding_repeats_what_the_agent_wrote_and_nothing_else() -> None:
    whole = run(user("please"), agent("done"), agent(""))
    padded = pad_texts(whole)
    texts = [[part.text for part in step.parts] for step in padded.steps]
    assert texts[0] == ["please"]
    assert texts[1] == ["done\n\ndone"]
    assert [step.calls for step in padded.steps] == [step.calls for step in whole.steps]
    silent = run(user("please"))
    assert pad_texts(silent) == silent


def planned(change: Change) -> Judgement | Unmeasured:
    (found,) = plan_judgements(
        run(user("please"), agent("done")), rubric=load_rubric(AXIS),
        judge=Judge(name=JUDGE, family="openai"), options=JudgingOptions(change=change), key=b"k",
        redactor=Redactor(b"k"),
    )  # fmt: skip
    return found


def test_each_change_changes_one_thing_and_the_hash_of_the_prompt() -> None:
    found = {change: planned(change) for change in ("", *CHANGES)}
    prompts = {one.prompt for one in found.values() if isinstance(one, Judgement)}
    assert len(prompts) == 4
    asked = {
        change: one.asks[0].request for change, one in found.items() if isinstance(one, Judgement)
    }
    usual = asked[""]
    assert asked["longer"].context.count("¦ done") == 2
    assert asked["longer"].system == usual.system
    for change in CHANGES[1:]:
        assert asked[change].context == usual.context
        told = [one.system + one.question for one in (usual, asked[change])]
        assert told[0] != told[1]
        assert sorted("".join(told[0].split())) != []
        assert len(told[0]) == len(told[1])
    labels = load_rubric(AXIS).answers
    reversed_ = asked["answers reversed"].schema["properties"]["label"]["enum"]
    assert tuple(reversed_) == labels[::-1]
    assert usual.schema == asked["examples reversed"].schema
    assert record_prompt(load_rubric(AXIS), JudgingOptions()) == found[""].prompt  # type: ignore[union-attr]


def test_a_run_in_which_the_agent_writes_nothing_is_not_padded() -> None:
    (found,) = plan_judgements(
        run(user("please"), agent("")), rubric=load_rubric(AXIS),
        judge=Judge(name=JUDGE, family="openai"), options=JudgingOptions(change="longer"),
        key=b"k", redactor=Redactor(b"k"),
    )  # fmt: skip
    assert isinstance(found, Unmeasured)
    assert found.reason == "the agent writes nothing to pad"
