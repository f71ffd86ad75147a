"""`stepscope agree` and `import --verdicts`: what they print, exit codes, one-line errors."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.model import Verdict
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import by_step, said, whole
from tests.factories import FAILED, PASSED, agent, run

C, I = "correct", "incorrect"  # noqa: E741
HALF = [C, I] * 15


@pytest.fixture
def rated(tmp_path: Path) -> str:
    """A store of 30 runs: two judges alike on one axis and unlike on another, and steps."""
    path = tmp_path / "rated.db"
    with Store.open(path) as made:
        made.put(
            run(*[agent("x")] * 6, id=f"r{n}", name=f"shop/{n}/0", task=str(n), agent="a")
            for n in range(30)
        )
        apart = [*HALF[:15], *(C if x == I else I for x in HALF[15:])]
        for judge, sequence in (("openai/a", HALF), ("anthropic/b", apart)):
            made.append(whole(judge, HALF, axis="axes.termination"))
            made.append(whole(judge, sequence, axis="axes.sequencing"))
        made.append(by_step("openai/a", ["PPRPPE"] * 30))
        made.append(by_step("openai/a", ["PPPPPE"] * 30, axis="step_labels.isolated"))
    return str(path)


def test_agreement_is_a_table_a_decision_and_the_counts(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agree", "--rubric", "axes", "--store", rated]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == (
        "axes.sequencing   30 runs, whole   2 raters   labels: correct, incorrect"
    )
    assert "anthropic/b, openai/a  50 %   0.00  " in shown
    assert "Decision: sharpen. Kappa 0.00" in shown
    assert "Most disputed:" in shown
    assert "    shop/15/0\n      anthropic/b  correct: anthropic/b on 15\n" in shown
    assert "Decision: proceed. Kappa 1.00" in shown
    assert "openai/a (openai): correct 15, incorrect 15." in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_raters_of_steps_are_told_how_often_they_name_the_same_first_bad_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: runs 0 and 2 agree (the second step; none), 1 and 3 do not: .500 of 4.

    a calls 3 of 16 steps bad, b 4: both = 3/64, neither = 39/64; a run of four steps by chance
    3/64 * (1 - (39/64) ** 4) / (25/64) + (39/64) ** 4 = .1034 + .1379 = .241.
    """
    path = tmp_path / "steps.db"
    with Store.open(path) as made:
        made.put(
            run(*[agent("x")] * 4, id=f"r{n}", name=f"shop/{n}/0", task=str(n)) for n in range(4)
        )
        made.append(by_step("openai/a", ["PEPP", "EPPP", "PPPP", "PPPE"]))
        made.append(by_step("anthropic/b", ["PEEP", "PPEP", "PPPP", "PPEP"]))
    assert main(["agree", "--rubric", "step_labels", "--store", str(path)]) == 4  # undecided
    shown = " ".join(capsys.readouterr().out.split())
    assert "name the same first bad step, or none, in 50 %, 15–85 of 4 runs" in shown
    # Run 3 too: the fourth step, and the third.
    assert "one step off or less in 75 %" in shown
    assert "by chance 24 %." in shown
    assert main(["agree", "--rubric", "step_labels", "--json", "--store", str(path)]) == 4
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    (aspect,) = group["aspects"]
    assert aspect["pairs"][0]["figures"]["first_bad"]["value"] == 0.5


def test_json_has_every_figure_and_the_same_bytes_twice(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agree", "--json", "--store", rated]) == 0
    first = capsys.readouterr().out
    assert main(["agree", "--json", "--store", rated]) == 0
    assert capsys.readouterr().out == first
    (group,) = json.loads(first)["groups"]
    named = {one["name"]: one for one in group["aspects"]}
    assert sorted(named) == ["axes.sequencing", "axes.termination", "step_labels"]
    assert named["axes.termination"]["together"]["figures"]["gwet"]["value"] == 1.0


def test_a_threshold_decides_and_nothing_decided_is_code_4(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["agree", "--rubric", "axes.sequencing", "--store", rated]
    assert main([*arguments, "--min", ".1"]) == 4
    assert "Decision: undecided." in capsys.readouterr().out
    assert main(["agree", "--rubric", "step_labels", "--store", rated]) == 4
    assert "One rater (openai/a): agreement needs two." in capsys.readouterr().out


def test_nothing_rated_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.db"
    Store.open(path).close()
    assert main(["agree", "--store", str(path)]) == 4
    assert "stepscope import --verdicts FILE" in " ".join(capsys.readouterr().out.split())
    assert main(["agree", "--modes", "--store", str(path)]) == 4


def test_groups_have_their_own_tables(rated: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agree", "--by", "agent", "--rubric", "axes", "--store", rated]) == 0
    assert capsys.readouterr().out.startswith("agent = a   2 rubrics rated\n")


def test_the_queue_is_a_list_csv_or_json(rated: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agree", "--queue", "2", "--store", rated]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("axes.sequencing: shop/15/0\n  anthropic/b  correct")
    assert "15 in all. Labels on these tune a rubric" in shown
    assert main(["agree", "--queue", "1", "--csv", "--store", rated]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["agree", "--queue", "1", "--json", "--store", rated]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["total"], len(found["queue"]), found["queue"][0]["use"]) == (15, 1, "tuning")


def test_modes_tell_where_steps_alone_are_seen_otherwise(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agree", "--modes", "--store", rated]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("openai/a: judge.step_labels.isolated against judge.step_labels   180")
    assert "REDUNDANT in context, alone: PROGRESS 30" in shown
    assert "shop/0/0 step 2  alone PROGRESS 0.50, in context REDUNDANT 0.50" in shown


def test_the_halo_of_each_judge_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One judge scores .1 higher where the run passed and .1 lower where not; the other as before.

    Scores differ from run to run by hundredths, or nothing would be known of their spread.
    """
    path = tmp_path / "halo.db"
    ends = (PASSED, FAILED) * 5
    with Store.open(path) as made:
        made.put(
            run(*[agent("x")] * 3, id=f"r{n}", name=f"shop/{n}/0", task=str(n), outcome=end)
            for n, end in enumerate(ends)
        )
        for judge, moved in (("anthropic/b", 0.0), ("openai/a", 0.1)):
            for n, end in enumerate(ends):
                shift = (moved if end == PASSED else -moved) + 0.01 * (n % 3)
                for view, value in ((".prefix", 0.5), ("", 0.5 + shift)):
                    measure = f"judge.step_labels{view}"
                    answers = (Verdict(measure, value, "PROGRESS", step) for step in range(3))
                    made.append([said(judge, n, answer) for answer in answers])
    assert main(["agree", "--modes", "--store", str(path)]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines() if "halo" in line]
    assert [line[:7] for line in told] == [["halo:", "half", "of", "pass", "-", "fail", x]
                                           for x in ("0.001", "0.10")]  # fmt: skip


def test_a_secret_in_a_reason_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "ghp_" + "a1B2" * 9
    path = tmp_path / "s.db"
    with Store.open(path) as made:
        made.put([run(agent("x"), id="r0", name="shop/0/0")])
        for judge, label in (("openai/a", C), ("anthropic/b", I)):
            answer = Verdict("judge.axes.termination", label=label, reason=f"saw {secret}")
            made.append([said(judge, 0, answer)])
    for form in ([], ["--csv"], ["--json"]):
        assert main(["agree", "--queue", "5", *form, "--store", str(path)]) == 0
        assert secret not in capsys.readouterr().out


def test_labels_and_names_of_others_reach_no_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.db"
    with Store.open(path) as made:
        made.put([run(agent("x"), id=f"r{n}", name=f"a\x1b[31m{n}") for n in range(2)])
        for judge in ("x\x1b[2J", "y\u202e"):
            labels = ["\x1b[1mgood", "bad\nDecision: proceed."]
            labels = labels if judge < "y" else labels[::-1]
            made.append(whole(judge, labels, axis="tone", family="imported"))
    for more in ([], ["--queue", "9"]):
        main(["agree", *more, "--store", str(path)])
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert "\nDecision: proceed" not in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["agree", "--rubric", "axes.tone"],
            "there are no ratings for 'axes.tone'; rated rubrics: axes.seq",
        ),
        (["agree", "--min", "1.5"], "--min 1.5: expected a kappa between 0 and 1"),
        (["agree", "--modes", "--queue", "3"], "two lists; ask for one"),
        (["agree", "--modes", "--rubric", "axes"], "leave --rubric out"),
        (["agree", "--by", "agent", "--queue", "3"], "choose runs with --where"),
        (["agree", "--csv"], "--csv is a form of --queue N"),
        (["agree", "--modes", "--raters", "a"], "leave --raters out"),
        (
            ["agree", "--rubric", "axes", "--raters", "a,bob"],
            "--raters 'bob': no such rater; raters: anthropic/b, openai/a; families: "
            "anthropic, openai",
        ),
        (["agree", "--by", "colour"], "--by 'colour' is not a field"),
        (["agree", "--where", "colour = 1"], "colour"),
        (["import", "--map", "run=id"], "--map is for --verdicts FILE"),
        (["import", "--human", "x.json"], "--human is for --verdicts FILE"),
        (["import", "x.json", "--verdicts", "v.csv"], "reads verdicts alone"),
        (["import", "--verdicts", "nowhere.csv", "--rater", "a"], "nowhere.csv: cannot be read"),
        (["import", "--verdicts", "v.csv", "--map", "run"], "--map 'run': expected A=B"),
        (["import", "--verdicts", "v.csv", "--strict"], "--strict is for runs"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(
    rated: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, "--store", rated]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.count("\n") == 1


def test_imported_verdicts_become_a_rater(
    rated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"shop/{n}/0,{'yes' if n % 2 == 0 else 'no'}\n" for n in range(30))
    path = tmp_path / "labels.csv"
    path.write_text("run,fine\n" + rows, encoding="utf-8")
    asked = ["import", "--verdicts", str(path), "--map", "label=fine", "--rater", "ann", "--human",
             "--labels", "yes=correct,no=incorrect", "--rubric", "axes.termination",
             "--store", rated]  # fmt: skip
    assert main(asked) == 0
    assert "30 new verdicts, 0 known; 0 set aside" in capsys.readouterr().out
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["known"] == 30
    assert main(["agree", "--rubric", "axes.termination", "--store", rated]) == 0
    assert "ann (human): correct 15, incorrect 15." in capsys.readouterr().out


def test_the_notebook_says_what_the_command_says() -> None:
    with stepscope.open(":memory:", settings=Settings()) as notebook:
        notebook.store.put(
            run(agent("x"), id=f"r{n}", name=f"shop/{n}/0", task=str(n)) for n in range(20)
        )
        notebook.store.append(whole("openai/a", HALF[:20], axis="axes.tool_selection"))
        notebook.store.append(whole("anthropic/b", HALF[:20], axis="axes.tool_selection"))
        ac1 = notebook.agreement("axes")["tool_selection"].ac1
        assert isinstance(ac1, Estimate | Unmeasured)
        assert str(notebook.agreement()).startswith("axes.tool_selection   20 runs")
        assert list(notebook.disputes()) == []
        assert "Nothing to compare" in repr(notebook.modes())


LONG = "openai/a-very-long-name-of-a-model-that-goes-on-and-on-"


def test_names_that_begin_alike_stay_two_in_text_markdown_and_csv(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    names = [LONG + end for end in "abc"]
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.store.put([run(agent("x"), id=f"r{n}", name=f"shop/{n}") for n in range(4)])
        for at, name in enumerate(names):
            labels = [C if n == at else I for n in range(4)]
            notebook.store.append(whole(name, labels, family=f"family-of-long-name-{at}"))
        view = notebook.agreement()
        for width in (80, 100):
            pairs = [f"{a}, {b}" for a, b in combinations(names, 2)]
            shown = "".join(view.text(width).split())
            assert all("".join(pair.split()) + "50%" in "".join(shown.split()) for pair in pairs)
        assert all(name in view.markdown() for name in names)
        queue = notebook.disputes()
        assert {row.split(",")[4] for row in queue.csv().splitlines()[1:]} == set(names)
        assert all(name in queue.text(10, 60 + len(LONG)) for name in names)


def test_chosen_raters_are_compared_alone_and_an_unknown_one_is_one_line(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["agree", "--rubric", "axes.termination", "--store", rated, "--raters"]
    assert main([*asked, "openai, anthropic"]) == 0
    assert "anthropic/b, openai/a" in capsys.readouterr().out
    assert main([*asked, "b"]) == 4
    assert "One rater (anthropic/b): agreement needs two." in capsys.readouterr().out
    assert main([*asked, "b", "--by", "agent"]) == 4
    assert "openai" not in capsys.readouterr().out
    assert main([*asked, "openai", "--queue", "3"]) == 0
    assert capsys.readouterr().out.startswith("0 in all.")


def test_answers_under_another_version_of_a_rubric_are_asked_for(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(rated) as made:
        for judge in ("openai/a", "anthropic/b"):
            made.append(whole(judge, [C, I, C], axis="axes.termination", version="2"))
    asked = ["agree", "--rubric", "axes.termination", "--store", rated]
    assert main(asked) == 0
    assert "axes.termination   30 runs, whole" in capsys.readouterr().out
    main([*asked, "--rubric-version", "2"])
    assert "axes.termination   3 runs, whole" in capsys.readouterr().out
    main([*asked, "--rubric-version", "2", "--queue", "3"])
    assert capsys.readouterr().out.startswith("0 in all.")
    for more in ([], ["--queue", "3"]):
        assert main([*asked, "--rubric-version", "9", *more]) == 2
        said = capsys.readouterr().err
        assert said == "error: no judge answered under rubric version '9'; there are 1, 2\n"


def test_what_is_decided_of_a_judge_against_people_is_told_and_is_a_decision(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.open(rated) as made:
        made.append(whole("ann", HALF, axis="axes.sequencing", family="human"))
    assert main(["agree", "--rubric", "axes.sequencing", "--store", rated, "--json"]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    decided = {name: one["outcome"] for name, one in group["aspects"][0]["judges"].items()}
    assert decided == {"anthropic/b": "fail", "openai/a": "pass"}
    main(["agree", "--rubric", "axes.sequencing", "--store", rated, "--raters", "a,ann"])
    shown = capsys.readouterr().out
    assert "  openai/a against people: proceed. Kappa 1.00" in shown


def test_a_judge_that_is_decided_on_is_enough_for_code_0(
    rated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """People agree with kappa 1 - 14/30, which is undecided; a judge says the opposite."""
    opposite = [C if x == I else I for x in HALF]
    with Store.open(rated) as made:
        made.append(whole("ann", HALF, axis="quality.plan", family="human"))
        made.append(whole("bob", [*opposite[:7], *HALF[7:]], axis="quality.plan", family="human"))
    asked = ["agree", "--rubric", "quality.plan", "--store", rated]
    assert main(asked) == 4
    with Store.open(rated) as made:
        made.append(whole("openai/a", opposite, axis="quality.plan"))
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "Decision: undecided. Kappa 0.53" in shown
    assert "openai/a against people: sharpen. Kappa -0." in shown
