"""`stepscope shape` and `calibrate sigma`: what they print, and their one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli.main import main
from tests.report.test_curves import FALLS, HOLDS

HEAD = "run,step,score\n"


def rows(name: str, values: tuple[float, ...]) -> str:
    return "".join(f"{name},{i},{value}\n" for i, value in enumerate(values))


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scores.csv"
    path.write_text(HEAD + rows("falls", FALLS) + rows("holds", HOLDS), encoding="utf-8")
    return path


def test_a_line_a_curve_and_the_fleet_below(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shape", "scores.csv", "--sigma", "0.05"]) == 0
    out = capsys.readouterr().out.split("\n")
    assert out[0].split() == ["run", "shape", "P", "mean", "break", "(90", "%)", "scores"]
    assert out[1].split() == ["falls", "early", "collapse", "99.9", "%", "0.60", "4", "▇█▇▇▄▄▄▄▄▄"]
    assert out[2].split()[:2] == ["holds", "healthy"]
    assert "Shapes of 2 curves: share, 95 % interval" in out
    assert max(map(len, out)) <= 100


def test_a_step_that_is_left_out_is_drawn_as_one_that_is_blank(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out: list[str] = []
    for gone in ("", "falls,3,\n"):
        of = rows("falls", FALLS).replace(f"falls,3,{FALLS[3]}\n", gone)
        scores.write_text(HEAD + of + rows("holds", HOLDS), encoding="utf-8")
        assert main(["shape", "scores.csv", "--sigma", "0.05"]) == 0
        out.append(capsys.readouterr().out)
    assert out[0] == out[1]
    assert "▇█▇·▄▄▄▄▄▄" in out[0]


def test_json_has_every_curve_and_the_fleet(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shape", "scores.csv", "--sigma", "0.05", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [(run["run"], run["shape"]) for run in said["runs"]] == [
        ("falls", "early_collapse"), ("holds", "healthy"),
    ]  # fmt: skip
    assert said["fleet"]["n_runs"] == 2


def test_json_of_no_curve_is_json(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores.write_text(HEAD, encoding="utf-8")
    assert main(["shape", "scores.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


def test_curves_that_are_not_printed_are_counted(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["shape", "scores.csv", "--runs", "1"]) == 0
    out = capsys.readouterr().out
    assert "... 1 more: --runs 2 prints all, --json has all" in out
    assert "Shapes of 2 curves" in out


def test_weights_are_a_list_or_a_file(scores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shape", "scores.csv", "--weights", "1,1,1,1,3,1,1,1,1,1"]) == 0
    assert "gate-failed:4" in capsys.readouterr().out
    (scores.parent / "w.toml").write_text("falls = [1,1,1,1,1,1,1,1,1,1]", encoding="utf-8")
    assert main(["shape", "scores.csv", "--weights", "w.toml"]) == 0
    shown = capsys.readouterr()
    assert "gate-failed" not in shown.out
    assert "not weighed: 1 curves, of whose length" in shown.err
    assert main(["shape", "scores.csv", "--weights", "1,1,3"]) == 0
    assert "not weighed: 2 curves, of whose length" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (HEAD + "a,0,good\n", (), "scores.csv, row 2: score is 'good'; expected a number from 0"),
        (HEAD + "a,0,.5\na,0,.6\n", (), "scores.csv, row 3: run 'a', step 0 is scored in row 2"),
        ("run,step\na,0\n", (), "scores.csv, row 1: no column score; the header has 'run, step'"),
        (HEAD, ("--sigma", "0"), "sigma is 0.0; expected more than 0 and at most 1"),
        (HEAD, ("--sigma", "x"), "Invalid value for '--sigma'"),
        (HEAD, ("--weights", "1,x"), "--weights '1,x': no such file, and no list of weights"),
        (HEAD + "a,0,.5\n", ("--weights", "2.5"), "run 'a': weight of step 0 is 2.5; expected 1,"),
        (HEAD, ("--quantum", "2"), "quantum is 2.0; expected"),
        (HEAD, ("--store", "none.db"), "no store at 'none.db'"),
        ("", (), "scores.csv, row 1: no column run, step, score"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    scores: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: tuple[str, ...],
    says: str,
) -> None:
    scores.write_text(text, encoding="utf-8")
    assert main(["shape", "scores.csv", *options]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"error: {says}"), said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_a_file_that_cannot_be_read_is_one_line(
    scores: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert main(["shape", path]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}: cannot be read: ")


def test_measured_noise_is_printed_kept_and_used(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repeated = "run,step,score,repeat\n" + "".join(
        f"r{i},0,{0.5 + 0.04 * (r - 1):.2f},{r}\n" for i in range(15) for r in range(3)
    )
    Path("repeated.csv").write_text(repeated, encoding="utf-8")
    assert main(["calibrate", "sigma", "repeated.csv", "--store", "s.db"]) == 0
    out = capsys.readouterr().out
    assert "(no judge named)" in out
    assert "0.040  0.032–0.053" in out
    assert main(["shape", "scores.csv", "--store", "s.db"]) == 0
    assert (
        "noise: 0.040, 0.032–0.053 from repeated scorings; runs are classified with the upper limit"
        in " ".join(capsys.readouterr().out.split())
    )
    assert main(["import", "scores.csv", "--store", "s.db"]) == 0
    assert main(["show", "falls", "--store", "s.db"]) == 0
    assert "noise 0.053, upper limit, measured from repeated scorings" in capsys.readouterr().out


def test_noise_that_cannot_be_measured_is_code_4(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "sigma", "scores.csv", "--store", "s.db"]) == 4
    assert "insufficient_data: no step was scored twice" in capsys.readouterr().out


def test_a_report_over_imported_scores_names_shape_and_step(
    scores: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "".join(rows(f"r{i}", HOLDS) for i in range(6)) + rows("falls", FALLS)
    scores.write_text(text, encoding="utf-8")
    assert main(["import", "scores.csv", "--store", "s.db"]) == 0
    assert main(["score", "--store", "s.db", "--workers", "1"]) == 0
    capsys.readouterr()
    assert main(["report", "--store", "s.db"]) == 0
    out = capsys.readouterr().out
    assert "Shapes                share, 95 % interval" in out
    assert "the scores fall from 0.86 to 0.44 at step 4: early collapse" in out
