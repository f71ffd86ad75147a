from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stepscope.cli.main import main


def envelope(*own: str) -> list[str]:
    """Return a command that takes a second, with options of one's own instead of these."""
    given = {"--n": "10", "--sigma": "0.05", "--classifier": "v1,v3"}
    given |= {"--generator": "article", "--trials": "200"}
    kept = [word for pair in given.items() if pair[0] not in own for word in pair]
    return ["lab", "envelope", *kept, *own]


FAST = envelope()


def test_an_envelope_is_a_table_that_says_how_far_it_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(FAST) == 0
    shown = capsys.readouterr().out
    assert "200 simulated runs per cell, a fifth of each shape" in shown
    assert "classifiers are given the true sigma; seed 0" in " ".join(shown.split())
    (row,) = (line.split() for line in shown.split("\n") if line.strip().startswith("10  0.05"))
    # V1 finds C, D and the healthy base of five, V3 nearly all.
    assert [round(float(figure), 1) for figure in row[2:]] == [0.6, 0.9, 0.5, 0.9]
    # Two times sqrt(.6 * .4 / 200), of V1.
    assert "known to 0.069 or better (two standard errors" in " ".join(shown.split())
    assert max(map(len, shown.split("\n"))) <= 100


def test_the_default_says_what_its_probabilities_are_worth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(envelope("--classifier", "default", "--told", "0.5")) == 0
    shown = capsys.readouterr().out
    assert "are given 0.5 times the true sigma" in " ".join(shown.split())
    assert "named right: every run is given its most probable shape" in shown
    lines = [line.split() for line in shown.split("\n") if line.strip().startswith("10  0.05")]
    assert [len(line) for line in lines] == [4, 12]
    # Accuracy and macro-F1, then label, right, calibration, fit, break found, within one, coverage.
    assert float(lines[0][2]) > 0.9
    assert float(lines[1][7]) > 0.9
    assert lines[1][10] in {"healthy", "early", "late", "steady", "recovery"}


def test_the_same_seed_prints_the_same_json_and_another_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for seed in ("1", "1", "2"):
        assert main([*FAST, "--json", "--seed", seed]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    row = json.loads(printed[0])["rows"][0]
    assert (row["classifier"], row["n"], row["sigma"], row["trials"]) == ("v1", 10, 0.05, 200)
    assert row["accuracy"]["type"] == "figure"
    assert row["calibration_error"]["type"] == "unmeasured"


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_an_envelope_is_drawn(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert")
    file = tmp_path / f"envelope.{ending}"
    assert main([*FAST, "--plot", str(file)]) == 0
    assert f"wrote {file}" in capsys.readouterr().err
    drawn = file.read_bytes()
    assert drawn.startswith(b"\x89PNG" if ending == "png" else b"<svg")
    if ending == "svg":
        assert all(word in drawn for word in (b"10 steps", b"article, gaussian", b"v3"))


def test_without_the_extra_the_command_that_installs_it_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main([*FAST, "--plot", "envelope.svg"]) == 2
    shown = capsys.readouterr()
    assert shown.err == (
        "error: a picture needs vl-convert-python: pip install 'stepscope[plots]'\n"
    )
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--n", "ten"], "--n 'ten': expected a whole number"),
        (["--n", "3"], "n is 3; expected 4 to 200 steps"),
        (["--n", ","], "at least one n"),
        (["--sigma", "0,05"], "sigma is 0.0; expected above 0"),
        (["--sigma", "x"], "--sigma 'x': expected a number"),
        (["--classifier", "v9"], "no classifier 'v9'; one of v1, v2, v3, default"),
        (["--generator", "wlak"], "no generator 'wlak'; one of article"),
        (["--noise", "pink"], "no noise 'pink'; one of gaussian"),
        (["--told", "half"], "--told 'half': expected a number"),
        (["--plot", "envelope.pdf"], "envelope.pdf: a picture ends in .png or .svg"),
        (["--trials", "5"], "Invalid value for '--trials'"),
    ],
)
def test_a_wrong_envelope_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(envelope(*arguments)) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
