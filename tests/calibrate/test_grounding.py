"""Grounding: the effect of scores in a store on what users do, from a file of signals."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from stepscope.api.verdict_import import Proxies, read_proxies
from stepscope.calibrate.grounding import GroundedScore, measure_grounding
from stepscope.cli.main import main
from stepscope.errors import TraceError, UsageError
from stepscope.model import Instant, Record, Stream, Verdict
from stepscope.safety.limits import Limits
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.factories import agent, run

N, USERS = 300, 60
RNG = np.random.default_rng(5)
HARD = RNG.uniform(0, 1, N)
QUALITY = np.clip(0.75 - 0.4 * HARD + RNG.normal(0, 0.12, N), 0, 1)
# One more point of quality lowers the share of second tries by .8; hard tasks raise it.
AGAIN = (RNG.random(N) < np.clip(0.6 + 0.2 * HARD - 0.8 * (QUALITY - 0.4), 0, 1)).astype(float)
BEFORE = (RNG.random(N) < 0.3).astype(float)
IDS = [f"r{at}" for at in range(N)]
SIGNALS = {
    "regenerated": dict(zip(IDS, AGAIN.tolist(), strict=True)),
    "earlier": dict(zip(IDS, BEFORE.tolist(), strict=True)),
}
START = 1_767_225_600_000_000_000  # 2026-01-01


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "runs.db")
    store.put(
        run(
            agent(f"a {at}"), agent(f"b {at}"), id=id_, name=f"chat/{at}/0", task=f"t{at}",
            trial="0", start=Instant(START, ""),
            tags={"user": f"u{at % USERS}", "hard": f"{HARD[at]:.4f}", "kind": "ab"[at % 2]}
            | ({"late": "1"} if at < 200 else {}),
        )
        for at, id_ in enumerate(IDS)
    )  # fmt: skip
    return store


def score(store: Store, judge: str = "openai/a", repeats: int = 1, version: str = "2") -> None:
    rng = np.random.default_rng(len(judge))
    store.append([
        Record(
            trajectory=id_, answer=Verdict("scores", value=float(np.clip(said, 0, 1)), step=step),
            version=version, family=judge.partition("/")[0], judge=judge, rubric="no_look",
            prompt="p" * 16, repeat=repeat,
        )
        for at, id_ in enumerate(IDS)
        for repeat in range(repeats)
        for off in [rng.normal(0, 0.06)]
        for step, said in enumerate((QUALITY[at] + off, QUALITY[at] + off))
    ])  # fmt: skip


def grounded(store: Store, **more: object) -> list[GroundedScore]:
    more = {"confounders": ["tag.hard"], "placebo": "earlier"} | more
    return measure_grounding(store, SIGNALS, **more)  # type: ignore[arg-type]


def estimate(one: Estimate | Unmeasured) -> Estimate:
    assert isinstance(one, Estimate)
    return one


def proxies(store: Store, text: str) -> Proxies:
    return read_proxies(store, Stream(io.BytesIO(text.encode()), "s.csv", Limits()), "earlier")


def test_the_planted_effect_is_found_and_the_naive_one_is_too_large(store: Store) -> None:
    score(store, repeats=2)
    (one,) = grounded(store)
    effect, naive = estimate(one.effect.estimate), estimate(one.naive.estimate)
    assert (one.judge, one.signal, one.step) == ("openai/a", "regenerated", 0.1)
    assert (effect.low or 0) <= -0.08 <= (effect.high or 0) < 0
    assert (effect.n, effect.n_tasks) == (N, USERS)
    assert naive.value < effect.value
    assert one.effect.reliability == pytest.approx(0.88, abs=0.06)
    assert one.naive.reliability is None
    assert one.placebo is not None
    assert one.placebo.p is not None
    assert one.placebo.p > 0.05
    said = str(one)
    assert "regenerated where the score by openai/a is 0.1 higher:\n  effect   -" in said
    assert "corrected for a reliability of 0." in said
    assert "placebo moves" not in said
    assert "is not known" not in said


def test_scores_given_once_are_not_corrected_and_that_is_said(store: Store) -> None:
    score(store)
    (one,) = grounded(store)
    assert one.effect.reliability is None
    assert "errors not taken out (no run scored twice)" in str(one)


def test_a_step_scored_again_is_no_second_scoring_of_the_run(store: Store) -> None:
    score(store)
    (before,) = grounded(store)
    store.append([
        Record(trajectory=id_, answer=Verdict("scores", value=0.0, step=1), version="2",
               family="openai", judge="openai/a", rubric="no_look", prompt="p" * 16, repeat=1)
        for id_ in IDS
    ])  # fmt: skip
    assert grounded(store) == [before]


def test_a_placebo_that_moves_tells_of_a_missing_confounder(store: Store) -> None:
    score(store)
    (one,) = grounded(store, placebo="regenerated", confounders=[])
    assert one.signal == "earlier"
    assert "the placebo moves too: a confounder is missing" in str(one)


def test_every_judge_is_a_dimension_and_holm_is_over_all(store: Store) -> None:
    score(store)
    (alone,) = grounded(store)
    score(store, judge="imported/b")
    both = grounded(store)
    assert [one.judge for one in both] == ["imported/b", "openai/a"]
    assert both[1].effect == alone.effect
    smallest = min(one.effect.p or 0 for one in both)
    assert min(one.p_adjusted or 0 for one in both) == pytest.approx(2 * smallest)
    assert ["what the judge saw is not known" in str(one) for one in both] == [True, False]


def test_the_name_of_a_judge_stays_on_its_line(store: Store) -> None:
    score(store, judge="imported/b\nc\x1b[31m")
    (one,) = grounded(store)
    assert str(one).startswith("regenerated where the score by imported/b")
    assert "\x1b" not in str(one)
    assert "\nc" not in str(one)


def test_an_effect_without_p_is_not_counted_by_holm(store: Store) -> None:
    score(store)
    some = SIGNALS | {"returned": dict.fromkeys(IDS, 1.0)}
    regenerated, returned = measure_grounding(store, some, placebo="earlier")
    assert isinstance(returned.effect.estimate, Unmeasured)
    assert returned.p_adjusted is None
    assert regenerated.p_adjusted == regenerated.effect.p


def test_scores_under_two_versions_are_not_mixed(store: Store) -> None:
    score(store)
    (before,) = grounded(store)
    store.append([
        Record(trajectory=id_, answer=Verdict("scores", value=0.0, step=step), version="3",
               family="openai", judge="openai/a", rubric="no_look", prompt="q" * 16)
        for id_ in IDS[:50] for step in (0, 1)
    ])  # fmt: skip
    assert grounded(store) == [before]


def test_runs_without_a_signal_score_or_confounder_are_left_out_and_counted(store: Store) -> None:
    score(store)
    some = {"regenerated": dict(list(SIGNALS["regenerated"].items())[:250])}
    (one,) = measure_grounding(store, some, confounders=["tag.late"])
    assert estimate(one.naive.estimate).n == 200
    assert estimate(one.naive.estimate).unmeasured == {"missing_input": 100}
    assert "100 left out" in str(one)


def test_categories_are_confounders_too(store: Store) -> None:
    score(store)
    (one,) = grounded(store, confounders=["tag.kind", "agent_version", "tag.hard"][::2])
    assert estimate(one.effect.estimate).n == N


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"confounders": ["outcome"]}, "--confounders outcome: it follows from quality"),
        ({"confounders": ["tag.nothing"]}, "--confounders tag.nothing: no run has it"),
        ({"confounders": ["nothing"]}, "'nothing' is not a field"),
        ({"placebo": "returned"}, "--placebo returned: no row has this signal"),
        ({"user": "usr"}, "no run has the tag 'usr'"),
    ],
)
def test_what_cannot_be_taken_out_is_refused(
    store: Store, more: dict[str, object], said: str
) -> None:
    score(store)
    with pytest.raises(UsageError, match=said):
        grounded(store, **more)


def test_without_scores_there_is_no_effect(store: Store) -> None:
    assert grounded(store) == []


def test_few_users_are_unmeasured(store: Store) -> None:
    score(store)
    (one,) = grounded(store, user="kind")
    assert isinstance(one.effect.estimate, Unmeasured)
    assert one.p_adjusted is None
    assert "insufficient_data: 2 users or tasks; 20 are needed" in str(one)


def test_wrong_rows_are_set_aside_with_their_reasons(store: Store) -> None:
    rows = [
        "run,signal,value,time",
        "r0,regenerated,1,2026-01-02T10:00",
        "chat/1/0,Continued unedited,true,",
        "r2,continued-unedited,0.5,",
        "r2,continued_unedited,0.5,",
        "r2,continued_unedited,0.4,",
        "nobody\x1b[31m,regenerated,1,",
        "r3,liked,1,",
        "r3,earlier,0,",
        "r3,regenerated,7,",
        "r3,regenerated,,",
        "r3,regenerated,nan,",
        "r4,regenerated,1,yesterday",
        "r4,regenerated,1,2025-12-31",
        "r4,regenerated",
    ]
    found = proxies(store, "\n".join(rows))
    assert found.signals == {
        "regenerated": {"r0": 1.0},
        "continued_unedited": {"r1": 1.0, "r2": 0.5},
        "earlier": {"r3": 0.0},
    }
    assert found.rows == 14
    assert found.quarantined == {
        "contradicts": 1, "unknown run": 1, "unknown signal": 1, "no number": 3, "no time": 1,
        "before the run": 1, "unreadable": 1,
    }  # fmt: skip
    assert str(found).startswith("14 rows, 9 set aside (1 before the run, 1 contradicts, ")
    assert "\n  row 6: an earlier row has another continued_unedited of this run\n" in str(found)
    assert "  row 7: no run called 'nobody" in str(found)
    assert "\x1b" not in str(found)
    assert "and 4 more" in str(found)


def test_json_lines_say_the_same_as_csv(store: Store) -> None:
    rows = [{"run": "r0", "signal": "returned", "value": True, "time": START}, {"run": "r1"}]
    found = proxies(store, "\n".join(map(json.dumps, rows)))
    assert found.signals == {"returned": {"r0": 1.0}}
    assert found.quarantined == {"unknown signal": 1}


@pytest.mark.parametrize(
    "text", ["", "run,signal,value\n", "run,signal,value\nnobody,returned,1\n"]
)
def test_a_file_without_one_usable_row_is_refused(store: Store, text: str) -> None:
    with pytest.raises(TraceError, match=r"s\.csv"):
        proxies(store, text)


def test_the_command_prints_effects_and_its_code_says_whether_there_are_any(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "signals.csv"
    lines = [
        f"{run},{name},{value:g}," for name, of in SIGNALS.items() for run, value in of.items()
    ]
    file.write_text("\n".join(["run,signal,value,time", *lines, "nobody,returned,1,"]))
    words = ["calibrate", "grounding", "--proxies", str(file), "--placebo", "earlier"]
    words += ["--confounders", "tag.hard, tag.kind", "--store", str(store.path)]
    assert main(words) == 4
    score(store)
    store.close()
    capsys.readouterr()
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("601 rows, 1 set aside (1 unknown run)\n  row 602: no run called")
    assert "\n  placebo  " in printed
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proxies"]["quarantined"] == {"unknown run": 1}
    assert found["effects"][0]["effect"]["estimate"]["n"] == N
