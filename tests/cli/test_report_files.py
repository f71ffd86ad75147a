from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.errors import UsageError
from tests.factories import FAILED, PASSED, agent, did, failed, run, user


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    with stepscope.open(path) as notebook:
        notebook.store.put(
            run(
                user("buy"), *did("find"), *(did("pay") if at else failed("pay")), agent("done"),
                id=f"{at}" * 32, name=f"shop/{at}", task=str(at), outcome=PASSED if at else FAILED,
            )
            for at in range(3)
        )  # fmt: skip
        notebook.score(workers=1)
    return path


def test_a_page_is_written_and_said_and_nothing_else_is_printed(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "r.html"
    assert main(["report", "--store", str(store), "--html", str(page), "--embed", "1"]) == 0
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", f"wrote {page}\n")
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert f"--store {store}" in text


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (("-o", "r.html"), "<!doctype html>"),
        (("-o", "r.HTML", "--embed", "0"), "<!doctype html>"),
        (("-o", "r.json"), "{"),
        (("-o", "r.md"), "**<code>shop"),
        (("-o", "r.xml"), "<?xml"),
        (("-o", "r.txt"), "shop"),
        (("-o", "r.html", "--json"), "{"),
    ],
)
def test_the_ending_of_a_file_gives_the_form_where_no_option_does(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], begins: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--store", str(store), *options]) == 0
    assert (tmp_path / options[1]).read_text("utf-8").startswith(begins)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--embed", "3"), "--embed and --gates are about the page: say --html FILE as well"),
        (("--gates", "g"), "--embed and --gates are about the page: say --html FILE as well"),
        (("--html", "r.html", "--embed", "-3"), "--embed '-3': expected a number from 0, or all"),
        (("--html", "r.html", "--embed", "٣"), "expected a number from 0, or all"),
        (("--html", "r.html", "--gates", "absent.json"), "absent.json: No such file or directory"),
        (("--html", "no/folder/r.html"), "no/folder/r.html: No such file or directory"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    store: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--store", str(store), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "r.html").exists()


def test_charts_are_written_as_png_and_svg(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    folder = tmp_path / "plots"
    assert main(["report", "--store", str(store), "--plots", str(folder)]) == 0
    names = sorted(path.name for path in folder.iterdir())
    assert [name for name in names if name.startswith("vector")] == ["vector.png", "vector.svg"]
    assert (folder / "vector.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("link", ["vector.png", "vector.svg"])
def test_a_chart_goes_over_no_store_that_a_link_leads_to(
    store: Path, tmp_path: Path, link: str
) -> None:
    pytest.importorskip("vl_convert")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / link).symlink_to(store)
    assert main(["report", "--store", str(store), "--plots", str(tmp_path / "p")]) == 2
    assert store.read_bytes().startswith(b"SQLite format 3")


def test_a_report_in_a_notebook_gives_its_charts_and_its_page(store: Path, tmp_path: Path) -> None:
    with stepscope.open(store) as notebook:
        report = notebook.report()
        assert "vector" in report.charts()
        assert report.html(tmp_path / "r.html", embed="all") == tmp_path / "r.html"
        assert "<table>" in report._repr_html_()


def test_a_run_without_scores_has_no_curve_and_says_so(store: Path) -> None:
    with stepscope.open(store) as notebook:
        curve = notebook.curve("shop/1")
        assert repr(curve).startswith("<no curve: ")
        assert curve._repr_html_() is None
        with pytest.raises(UsageError, match="no curve"):
            curve.chart()
