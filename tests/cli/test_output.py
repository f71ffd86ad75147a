"""What commands print: JSON where asked, the same bytes for the same rows, one way to a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli.main import main

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("import RUNS --json", {"runs", "new", "known", "quarantined", "files"}),
        ("score --json", {"runs", "records", "skipped"}),
        ("report --json", {"whole", "profiles", "look_first", "provenance"}),
        ("report --get steps.median --json", {"value", "low", "high", "n", "unmeasured"}),
        ("report --get tokens.median --json", {"kind", "reason"}),
        ("show airline/11/2 --json", {"run", "records", "suspects"}),
        ("compare 0 1 --by trial --json", {"differences"}),
        ("export out.jsonl --json", {"path", "format", "runs"}),
        ("export out.jsonl --format otlp --json", {"path", "format", "runs", "spans", "verdicts"}),
        ("purge --where task='11' --yes --json", {"runs", "remains"}),
    ],
)
def test_json_is_one_document_on_standard_output(
    workspace: Path, capsys: pytest.CaptureFixture[str], line: str, keys: set[str]
) -> None:
    words = [str(RUNS) if word == "RUNS" else word for word in line.split()]
    code = main([*words, "--store", "good.db"])
    shown = capsys.readouterr()
    assert code == (4 if "tokens" in line else 0)
    assert shown.err == ""
    assert keys <= json.loads(shown.out).keys()


def test_the_same_rows_give_the_same_bytes(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--json", "--store", "good.db"]) == 0
    first = capsys.readouterr().out
    assert main(["import", str(RUNS), "--store", "again.db", "--agent", "gpt-4o"]) == 0
    assert main(["score", "--store", "again.db"]) == 0
    capsys.readouterr()
    assert main(["report", "--json", "--store", "again.db"]) == 0
    assert capsys.readouterr().out == first


def test_one_figure_comes_with_its_interval(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--get", "outcome.pass", "--store", "good.db"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("outcome.pass  40 %  ")
    assert line.endswith("  n 8 of 20 runs  unmeasured 0\n")


def test_a_report_goes_to_a_file_and_nothing_else_is_printed(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--markdown", "--out", "r.md", "--store", "good.db"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "wrote r.md\n")
    assert Path("r.md").read_text(encoding="utf-8").count("| outcome: pass |") == 1


def test_exported_runs_on_standard_output_are_runs_only(
    workspace: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    arguments = ["export", "-", "--where", "name = 'airline/11/2'", "--store", "good.db"]
    assert main(arguments) == 0
    shown = capfdbinary.readouterr()
    assert len(shown.out.rstrip(b"\n").split(b"\n")) <= 2
    assert shown.err == b"wrote 1 runs to - (ours)\n"


def test_settings_of_the_directory_hold(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = '[[policy]]\nname = "never book"\nforbid = "book_reservation"\n'
    Path("stepscope.toml").write_text(f'store = "good.db"\nseed = 7\n{rule}', encoding="utf-8")
    assert main(["report", "--get", "policy.violations"]) == 4
    assert main(["score"]) == 0
    capsys.readouterr()
    assert main(["report", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["provenance"]["seed"] == 7
    assert report["whole"]["figures"]["policy.violations"]["value"] > 0


def test_exported_verdicts_give_the_figures_of_their_store(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("export out --format parquet --verdicts only --store good.db".split()) == 0
    capsys.readouterr()
    shown = []
    for store in ("good.db", "out"):
        assert main(["report", "--json", "--by", "trial", "--store", store]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    ours, theirs = shown
    # What a fault did is in the steps, and these are not there.
    assert ours["whole"]["notes"]["lucky"] == "2 of these runs had a fault that had no effect"
    for one in (ours["whole"], *ours["profiles"]):
        assert one.pop("lucky") == []
        one["notes"].pop("lucky", "")
    for one in (theirs["whole"], *theirs["profiles"]):
        assert not any(line["sure"] for line in one.pop("lucky"))
    assert ours["whole"] == theirs["whole"]
    assert ours["profiles"] == theirs["profiles"]
    assert theirs["look_first"] == []


def test_one_axis_can_be_asked_for(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("report --get axes.argument_validity --store good.db".split()) == 0
    assert capsys.readouterr().out.startswith("axes.argument_validity  18 %  ")
