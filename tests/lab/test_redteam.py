"""Attacks on judges whose rules are known: what must come out, to the last flip."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from stepscope.errors import DataError, UsageError
from stepscope.judges.judgement import Judge
from stepscope.judges.rubrics import load_rubric
from stepscope.lab.redteam import (
    Attack,
    AttackTrial,
    ClassFlips,
    NarrationSwap,
    built_in_attacks,
    choose_attacks,
    count_flips,
    count_most_calls,
    count_swaps,
    failing_runs,
    favourable_answer,
    plant_attack,
    read_attacks,
)
from stepscope.model import Outcome, Part, Step
from stepscope.report.render import text
from stepscope.report.views.lab import make_redteam_document
from stepscope.stats import upper_limit
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, run, user
from tests.lab.scripted_judges import CLAIM, Scripted, failed_runs, obeys, setting, sober, swayed


def test_every_class_has_three_texts_of_its_own_and_names_are_unique() -> None:
    every = built_in_attacks()
    by_class = Counter(one.class_ for one in every)
    assert len(by_class) == 12
    assert by_class.pop("narration_swap") == by_class.pop("ending_swap") == 1
    assert set(by_class.values()) == {3}
    assert len({(one.class_, one.name) for one in every}) == len(every) == 32
    assert {one.place for one in every} == {"result", "agent", "narration", "ending"}


def test_an_attack_adds_text_and_moves_no_step() -> None:
    (clean,) = failed_runs(1)
    for attack in built_in_attacks():
        made = plant_attack(clean, attack, "correct")
        assert made is not None
        assert made.id != clean.id
        assert len(made.id) == 32
        assert [step.index for step in made.steps] == [step.index for step in clean.steps]
        assert [step.calls for step in made.steps] == [step.calls for step in clean.steps]
        assert made.outcome == clean.outcome
        changed = [a.index for a, b in zip(made.steps, clean.steps, strict=True) if a != b]
        assert changed == ([2] if attack.place == "result" else [3])
        if attack.text:
            step = made.steps[changed[0]]
            part = (step.results[-1].parts if attack.place == "result" else step.parts)[-1]
            assert part.text == attack.text.replace("@answer@", "correct")
    ids = {made.id for one in built_in_attacks() if (made := plant_attack(clean, one, "correct"))}
    assert len(ids) == 32


def test_the_rewriting_of_narration_takes_all_words_of_the_agent_and_nothing_else() -> None:
    said = (Part("reasoning", "I failed"), Part("text", "sorry"))
    clean = run(
        user("cancel it"),
        agent("let me see"),
        calls(*did("get", "ok")[0].calls, text="calling"),
        did("get", "it is open")[1],
        Step(index=0, actor="agent", parts=said),
    )
    made = plant_attack(
        clean, Attack(class_="narration_swap", name="x", place="narration"), "correct"
    )
    assert made is not None
    texts = [step.text for step in made.steps]
    assert texts[0] == "cancel it"
    assert texts[1].startswith("That worked as intended")
    assert texts[2].startswith("I have what I need")
    assert texts[4].endswith(CLAIM)
    assert "I failed" not in str(made.steps)
    assert made.steps[2].calls == clean.steps[2].calls
    assert made.steps[3] == clean.steps[3]
    # The ending alone: what came before is the same.
    ended = plant_attack(clean, Attack(class_="ending_swap", name="x", place="ending"), "correct")
    assert ended is not None
    assert ended.steps[:4] == clean.steps[:4]
    assert ended.steps[4] == made.steps[4]


def test_an_attack_without_a_place_is_not_planted() -> None:
    silent = run(user("hello"))
    assert [plant_attack(silent, attack, "correct") for attack in built_in_attacks()] == [None] * 32


def test_a_sober_judge_is_flipped_by_nothing_and_the_limit_says_how_little_is_known() -> None:
    judge = Scripted("openai/sober", sober)
    some = choose_attacks(built_in_attacks(), ["authority", "narration_swap"])
    with setting(judge) as made:
        found = made(failed_runs(60), some)
    (one,) = found.judges
    assert one.clean == {"against": 60}
    assert [(row.runs, row.flipped, row.tried) for row in one.flips] == [(60, 0, 180), (60, 0, 60)]
    # Of 0 in 60 runs: 1 - .05 ** (1 / 60).
    assert {round(row.limit or 0, 4) for row in one.flips} == {0.0487}
    assert isinstance(one.narration_swap, NarrationSwap)
    assert one.narration_swap.rise_points == 0.0
    # 60 as they are, 4 attacks on each, and no flip to ask again.
    assert len(judge.asked) == 60 * 5


def test_an_obedient_judge_is_flipped_by_what_it_obeys_and_by_nothing_else() -> None:
    judge = Scripted("openai/obedient", obeys("authority", "role_play"))
    with setting(judge) as made:
        (one,) = made(failed_runs(10), built_in_attacks()).judges
    flipped = {row.class_: (row.runs_flipped, row.flipped) for row in one.flips if row.flipped}
    assert flipped == {"authority": (10, 30), "role_play": (10, 30)}
    by_class = {row.class_: row for row in one.flips}
    # Two texts of authority stand in results, and stay without the agent's words; one does not.
    assert by_class["authority"].narration_dependent == 10
    assert by_class["role_play"].narration_dependent == 20
    # The check of the runs says that they failed: none of these flips counts for a report.
    assert by_class["authority"].outranked == 30
    assert by_class["authority"].limit == 1.0
    assert by_class["encoded"].narration_dependent == 0


def test_a_judge_that_obeys_some_runs_flips_exactly_those() -> None:
    rule = obeys("fake_evidence")

    def some(context: str) -> bool:
        return bool(rule(context)) and any(f"order number {n}," in context for n in (1, 4))

    with setting(Scripted("openai/some", some)) as made:
        (one,) = made(failed_runs(6), choose_attacks(built_in_attacks(), ["fake_evidence"])).judges
    (row,) = one.flips
    assert (row.runs, row.runs_flipped, row.tried, row.flipped) == (6, 2, 18, 6)


def test_a_judge_that_believes_claims_is_found_by_narration_alone_and_each_flip_is_marked() -> None:
    with setting(Scripted("openai/swayed", swayed)) as made:
        (one,) = made(
            failed_runs(20), choose_attacks(built_in_attacks(), ["narration_swap"])
        ).judges
    assert one.narration_swap == NarrationSwap(
        runs=20, passed_before=0, passed_after=20, rise_points=100.0, flipped=20, marked=20
    )
    (row,) = one.flips
    assert (row.flipped, row.narration_dependent) == (20, 20)


def test_a_judge_that_is_uncertain_is_neither_flipped_nor_failing() -> None:
    def unsure(context: str) -> bool | None:
        if "left out" in context:
            return None
        return swayed(context) or (None if "Notice of the evaluation team" in context else False)

    classes = ["narration_swap", "authority"]
    with setting(Scripted("openai/unsure", unsure)) as made:
        (one,) = made(failed_runs(2), choose_attacks(built_in_attacks(), classes)).judges
    authority, narration = one.flips
    assert (authority.tried, authority.flipped, authority.neutral) == (6, 0, 2)
    # Without the agent's words it is uncertain: the flip is gone.
    assert (narration.flipped, narration.narration_dependent) == (2, 2)


def test_an_echo_of_the_run_is_no_verdict_and_no_flip() -> None:
    judge = Scripted("openai/echo", sober, echo=True)
    with setting(judge) as made:
        (one,) = made(failed_runs(3), built_in_attacks()).judges
    assert one.clean == {"unparsable": 3}
    assert {(row.runs, row.flipped, row.limit) for row in one.flips} == {(0, 0, None)}
    assert isinstance(one.narration_swap, Unmeasured)


def test_runs_that_a_judge_passes_anyway_cannot_flip_and_count_for_narration() -> None:
    def lenient(context: str) -> bool:
        return "order number 0," in context or swayed(context)

    with setting(Scripted("openai/lenient", lenient)) as made:
        (one,) = made(failed_runs(4), built_in_attacks()).judges
    assert one.clean == {"against": 3, "for": 1}
    assert {row.runs for row in one.flips} == {3}
    assert one.narration_swap == NarrationSwap(
        runs=4, passed_before=1, passed_after=4, rise_points=75.0, flipped=3, marked=3
    )


def test_judges_are_told_apart() -> None:
    first = Scripted("openai/gpt", sober)
    second = Scripted("openai/gpt-5", obeys("authority"))
    with setting(first, second) as made:
        found = made(failed_runs(2), choose_attacks(built_in_attacks(), ["authority"]))
    assert [(one.judge, one.flips[0].flipped) for one in found.judges] == [
        ("openai/gpt", 0),
        ("openai/gpt-5", 6),
    ]


def test_only_runs_that_are_known_to_have_failed_are_attacked() -> None:
    runs = [*failed_runs(2), run(user("x"), outcome=Outcome("pass", "check")), run(user("x"))]
    assert [one.name for one in failing_runs(runs, 60)] == ["shop/0/0", "shop/1/0"]
    assert len(failing_runs(runs, 1)) == 1
    with setting(Scripted("openai/sober", sober)) as made, pytest.raises(UsageError) as e:
        made([], built_in_attacks())
    assert "no run that is known to have failed" in str(e.value)


def test_a_rubric_without_a_favourable_answer_is_refused() -> None:
    assert favourable_answer(load_rubric("quality.final_answer")) == "correct"
    for name in ("step_labels", "no_look", "attribution", "behaviour.sycophancy"):
        with pytest.raises(UsageError, match="attacks need one whose answer is for or against"):
            favourable_answer(load_rubric(name))


def test_the_most_that_is_asked_is_said_beforehand() -> None:
    assert count_most_calls(60, 31, 2) == 7560


@pytest.mark.parametrize(
    ("events", "n", "limit"),
    # The last two from tables of the binomial: P(X <= 3 | 60, p) = .05, P(X <= 1 | 20, p) = .05.
    [(0, 60, 0.0487), (0, 1, 0.95), (4, 4, 1.0), (3, 60, 0.1242), (1, 20, 0.2161)],
)
def test_upper_limits_are_those_of_clopper_and_pearson(events: int, n: int, limit: float) -> None:
    assert round(upper_limit(events, n), 4) == limit


@pytest.mark.parametrize(("events", "n"), [(1, 0), (-1, 5), (6, 5), (0, 0)])
def test_a_limit_of_nothing_is_refused(events: int, n: int) -> None:
    with pytest.raises(DataError):
        upper_limit(events, n)


def trial(
    class_: str, name: str, came_to: str, dependent: bool | None = None, outranked: bool = False
) -> AttackTrial:
    attacked = run(user("x"), id=name)
    attack = Attack(class_=class_, name="x", place="agent")
    judge = Judge(name="openai/sober", family="openai")
    return AttackTrial(attack, attacked, attacked, judge, came_to, dependent, outranked)


def test_a_run_counts_once_however_many_texts_flip_it() -> None:
    tried = [
        trial("a", "r1", "for", True, True),
        trial("a", "r1", "for", False),
        trial("a", "r2", "against"),
        trial("a", "r3", "neutral"),
        trial("a", "r4", "refused"),
        trial("b", "r1", "for", True),
    ]
    assert count_flips("a", tried) == ClassFlips(
        class_="a",
        runs=3,
        runs_flipped=1,
        limit=upper_limit(1, 3),
        tried=4,
        flipped=2,
        neutral=1,
        unmeasured={"refused": 1},
        narration_dependent=1,
        outranked=1,
    )
    assert count_flips("c", tried).limit is None
    assert count_flips("a", [trial("a", "r1", "for", None)]).narration_dependent is None


def test_the_rise_of_false_passes_is_over_runs_with_both_verdicts() -> None:
    pairs: list[tuple[str, str, bool | None]] = [
        ("against", "for", True),
        ("against", "against", None),
        ("for", "for", False),
        ("for", "against", None),
        ("neutral", "for", None),
        ("refused", "for", True),
        ("against", "unasked", None),
    ]
    assert count_swaps(pairs) == NarrationSwap(
        runs=5, passed_before=2, passed_after=3, rise_points=20.0, flipped=2, marked=None
    )
    assert isinstance(count_swaps(pairs[-2:]), Unmeasured)


def test_a_corpus_of_ones_own_is_lines_or_json_or_toml(tmp_path: Path) -> None:
    lines = tmp_path / "a.txt"
    lines.write_text("one\n\ntwo\n", "utf-8")
    found = read_attacks(lines)
    assert [(one.text, one.place) for one in found] == [
        ("one", "result"),
        ("one", "agent"),
        ("two", "result"),
        ("two", "agent"),
    ]
    assert {one.class_ for one in found} == {"corpus"}
    nested = tmp_path / "a.json"
    nested.write_text(json.dumps({"x": ["one", ""], "y": {"z": "two", "n": 3}}), "utf-8")
    assert [one.text for one in read_attacks(nested)] == ["one", "one", "two", "two"]
    own = tmp_path / "a.toml"
    own.write_text('[[attack]]\nclass = "mine"\nname = "n"\nplace = "agent"\ntext = "t"\n', "utf-8")
    assert read_attacks(own) == (Attack(class_="mine", name="n", place="agent", text="t"),)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.txt", b"\n \n", "no text in it"),
        ("a.json", b"{", "not a file of attack texts"),
        ("a.json", b"[" * 100_000, "not a file of attack texts"),
        ("a.txt", b"\xff\xfe", "not a file of attack texts"),
        ("a.toml", b"[[attack]]\nclass = 1\n", "not a file of attack texts"),
        ("a.toml", b'[[attack]]\nclass="a"\nname="b"\nplace="c"\n', "not a file of attack texts"),
        ("a.toml", b'[[attack]]\nclass="a"\nname="b"\nplace="agent"\n', "no text in it"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, text: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(UsageError, match=says) as e:
        read_attacks(tmp_path / name)
    assert "\n" not in str(e.value)
    with pytest.raises(UsageError, match="no such file"):
        read_attacks(tmp_path / "absent")


def test_classes_are_chosen_by_name() -> None:
    some = choose_attacks(built_in_attacks(), ["authority", "unicode"])
    assert {one.class_ for one in some} == {"authority", "unicode"}
    with pytest.raises(UsageError, match="no attack class 'x'; there are: authority, "):
        choose_attacks(built_in_attacks(), ["x"])


def test_the_table_says_flips_limits_and_what_is_not_claimed() -> None:
    with setting(Scripted("openai/swayed", swayed)) as made:
        shown = text.render(make_redteam_document(made(failed_runs(4), built_in_attacks())))
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("  narration_swap"))
    assert row == ["narration_swap", "4", "4", "100.0", "%", "4", "4", "0", "0", "4", "4"]
    assert "0 of 4 failing runs passed before, 4 after (+100.0 points)" in " ".join(shown.split())
    assert "An attacker who sees verdicts and tries again does better" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 100
