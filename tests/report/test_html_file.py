from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

import pytest

from bars.report.html_size import sizes
from stepscope.errors import StoreError
from stepscope.formats.reading import read_files
from stepscope.model import Trajectory
from stepscope.report.build import build_report
from stepscope.report.render.html import write_html
from stepscope.score import score_runs
from stepscope.store import ParquetRows, Store
from stepscope.store.where import parse_where
from tests.factories import FAILED, PASSED, agent, did, failed, run, user
from tests.report.made_pages import Seen, file_of, seen

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"


def runs() -> list[Trajectory]:
    """Two tasks of two trials: the first fails once, the second always passes."""
    made = []
    for task in ("1", "2"):
        for trial, outcome in (("0", FAILED if task == "1" else PASSED), ("1", PASSED)):
            last = failed("pay", "Error: no money", amount=3) if outcome is FAILED else did("pay")
            made.append(
                run(
                    user("buy"), *did("find"), *last, agent("done"),
                    id=f"{task}{trial}".ljust(32, "f"), name=f"shop/{task}/{trial}", task=task,
                    trial=trial, outcome=outcome, agent=f"agent{trial}",
                )
            )  # fmt: skip
    return made


def store_of(made: list[Trajectory]) -> Store:
    store = Store.open(":memory:")
    store.put(made)
    score_runs(store, workers=1)
    return store


def sections(document: Seen) -> list[str]:
    return [
        e.attributes["id"] or "" for e in document.all("section") if "data-page" in e.attributes
    ]


def test_a_file_holds_every_page_once(small: str) -> None:
    found = sections(seen(small))
    assert found[:6] == ["overview", "run", "compare", "profile", "gates", "groups-compared"]
    assert sorted(found[6:10]) == [
        "r-10ffffffffffffff", "r-11ffffffffffffff", "r-20ffffffffffffff", "r-21ffffffffffffff",
    ]  # fmt: skip
    assert found[10:] == ["c-10ffffffffffffff-11ffffffffffffff"]


def test_every_address_of_a_file_is_an_element_of_it(tmp_path: Path) -> None:
    document = seen(file_of(store_of(runs()), tmp_path, embed=1))
    ids = [e.attributes["id"] for e in document.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    links = {e.attributes["href"] or "" for e in document.all("a") if e.attributes.get("href")}
    assert {link for link in links if link.removeprefix("#") not in ids} == set()


def test_a_comparison_opens_where_its_runs_part_and_at_its_words_where_they_do_not(
    tmp_path: Path,
) -> None:
    made = runs()
    alike = [
        run(user("buy"), *did("find"), id=f"9{at}".ljust(32, "f"), name=f"shop/9/{at}", task="9",
            trial=str(at), outcome=(FAILED, PASSED)[at])
        for at in range(2)
    ]  # fmt: skip
    document = seen(file_of(store_of([*made, *alike]), tmp_path))
    to = {e.attributes["href"] for e in document.all("a") if "data-compare" in e.attributes}
    parting, same = "c-10ffffffffffffff-11ffffffffffffff-d", "c-90ffffffffffffff-91ffffffffffffff-d"
    assert {f"#{parting}", f"#{same}"} <= to
    held = {e.attributes.get("id"): e for e in document.elements}
    assert "how-arguments" in str(held[parting].attributes["class"])
    assert held[same].text == "No call differs."


def test_the_policy_allows_what_is_in_the_file_by_its_hash_and_nothing_else(small: str) -> None:
    document = seen(small)
    policy = next(
        e.attributes["content"] or ""
        for e in document.all("meta")
        if e.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    scripts = [e.text for e in document.all("script") if "type" not in e.attributes]
    styles = [e.text for e in document.all("style")]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": policy.split("script-src ")[1].split(";")[0],
        "style-src": " ".join(_digest(text) for text in styles),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert len(scripts) == 4
    assert {_digest(text) for text in scripts} <= set(rules["script-src"].split())
    assert len(styles) == 1


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_what_draws_charts_is_in_a_file_only_where_there_is_a_chart(bundled: str) -> None:
    assert [len(e.text) < 40_000 for e in seen(bundled).all("script")] == [True]


def test_the_policy_comes_before_everything_it_must_hold_for(small: str) -> None:
    tags = [e.tag for e in seen(small).elements]
    assert tags[:4] == ["html", "head", "meta", "meta"]


def test_nothing_in_a_file_is_fetched(small: str) -> None:
    document = seen(small)
    assert not document.all("img")
    assert not [e for e in document.elements if "src" in e.attributes]
    assert not re.findall(r"@import|url\(", document.all("style")[0].text)


def test_the_same_rows_give_the_same_bytes(small: str, tmp_path: Path) -> None:
    assert file_of(store_of(runs()), tmp_path) == small


@pytest.mark.parametrize(("embed", "held"), [(0, 0), (1, 1), (3, 3), (25, 4), ("all", 4)])
def test_so_many_runs_are_embedded(tmp_path: Path, embed: int, held: int) -> None:
    found = sections(seen(file_of(store_of(runs()), tmp_path, embed=embed)))
    assert sum(id.startswith("r-") for id in found) == held


def test_the_failing_run_is_embedded_first(tmp_path: Path) -> None:
    assert "r-10ffffffffffffff" in sections(seen(file_of(store_of(runs()), tmp_path, embed=1)))


def test_a_purged_run_is_counted_and_not_opened(tmp_path: Path) -> None:
    store = store_of(runs())
    store.purge(parse_where("task = '1' and trial = '0'"))
    text = file_of(store, tmp_path)
    found = sections(seen(text))
    assert sum(id.startswith("r-") for id in found) == 3
    assert "shop/1/0" in text


def test_runs_that_are_not_chosen_are_not_in_the_file(tmp_path: Path) -> None:
    store = store_of(runs())
    where = parse_where("task = '1'")
    path = tmp_path / "r.html"
    write_html(store, build_report(store, where=where), path, where=where)
    text = path.read_text("utf-8")
    assert "shop/2" not in text
    assert '<span class="chosen">Only runs where task = &#39;1&#39;</span>' in text


def test_a_pass_that_words_its_calls_otherwise_is_not_called_unearned(bundled: str) -> None:
    # airline/5/1 says more of its flights than the reference does.
    assert "airline/5/1" in bundled
    # Nor are airline/20/1 and 20/3, whose one bad call was refused.
    assert "right for the wrong reason" not in bundled
    assert "2 of these runs had a fault that had no effect." in bundled


def test_a_page_says_what_a_chance_is_and_leads_to_the_worst_run_of_a_row(bundled: str) -> None:
    assert "The share is how likely the run went wrong at that step" in bundled
    rows = bundled.split('class="multiples')[1].split("</table>")[0]
    assert 'href="#r-' in rows
    assert "\u2265 3 of 17" in rows


def test_a_pass_that_was_not_earned_is_named_beside_the_counts(tmp_path: Path) -> None:
    proved = (user("cancel W1234567"), *did("cancel", order_id="#W7654321"), agent("done"))
    made = [*runs(), run(*proved, id="c" * 32, name="shop/3/0", task="3", outcome=PASSED)]
    document = seen(file_of(store_of(made), tmp_path))
    link = next(e for e in document.all("a") if "Right for the wrong reason?" in e.text)
    assert link.text == "Right for the wrong reason? shop/3/0"
    assert (link.attributes["href"] or "").startswith("#r-")


def test_a_long_run_is_a_window_around_its_first_suspect(tmp_path: Path) -> None:
    calm = [step for _ in range(300) for step in did("look", "nothing")]
    made = run(user("go"), *calm, *failed("pay", "Error: no money"), *calm, outcome=FAILED)
    document = seen(file_of(store_of([made]), tmp_path))
    ids = [e.attributes["id"] or "" for e in document.elements if "id" in e.attributes]
    steps = [one for one in ids if one.startswith("r-r1-s")]
    assert len(steps) == 200
    assert "r-r1-s601" in steps
    assert "r-r1-s0" not in steps


def test_exported_verdicts_give_pages_without_runs(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    store = store_of(runs())
    store.to_parquet(tmp_path / "verdicts")
    rows = ParquetRows(tmp_path / "verdicts")
    write_html(rows, build_report(rows), tmp_path / "r.html")
    found = sections(seen((tmp_path / "r.html").read_text("utf-8")))
    assert found == ["overview", "run", "compare", "profile", "gates", "groups-compared"]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of the bundled runs, as text."""
    store = Store.open(":memory:")
    for reading in read_files([str(EXAMPLES)]):
        store.put(made for made in reading if isinstance(made, Trajectory))
    score_runs(store, workers=1)
    return file_of(store, tmp_path_factory.mktemp("bundled"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of two tasks of two trials, as text."""
    return file_of(store_of(runs()), tmp_path_factory.mktemp("small"))


def test_the_worst_bundled_run_is_two_clicks_from_the_start(bundled: str) -> None:
    document = seen(bundled)
    first = next(e for e in document.all("a") if e.text == "airline/9/2")
    target = (first.attributes["href"] or "").removeprefix("#")
    step = next(e for e in document.all("li") if e.attributes.get("id") == target)
    assert {"calls", "hot"} <= set((step.attributes["class"] or "").split())
    assert target.endswith("-s20")


def test_the_bundled_runs_make_a_file_that_a_mail_takes() -> None:
    runs, size, embedded, _ = sizes(EXAMPLES, 1)
    assert (runs, embedded) == (20, 20)
    assert size < 3_000_000


class Torn(Store):
    """A store whose runs cannot be read to the end."""

    def noise(self) -> NoReturn:
        raise StoreError("the store broke off")


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    torn = Torn.open(":memory:")
    torn.put(runs())
    with pytest.raises(StoreError, match="broke off"):
        write_html(torn, build_report(store_of(runs())), tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_file_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "r.html").write_text("before")
    torn = Torn.open(":memory:")
    torn.put(runs())
    with pytest.raises(StoreError, match="broke off"):
        write_html(torn, build_report(store_of(runs())), tmp_path / "r.html")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("r.html", "before")]


def test_a_link_stays_a_link_to_the_renewed_file(tmp_path: Path) -> None:
    (tmp_path / "kept.html").write_text("before")
    (tmp_path / "r.html").symlink_to("kept.html")
    file_of(store_of(runs()), tmp_path)
    assert (tmp_path / "r.html").is_symlink()
    assert (tmp_path / "kept.html").read_text("utf-8").startswith("<!doctype html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.html", "r.html"]


def test_a_place_that_takes_no_file_is_named_as_it_was_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        file_of(store_of(runs()), tmp_path / "nowhere")
    assert raised.value.filename == str(tmp_path / "nowhere" / "r.html")
