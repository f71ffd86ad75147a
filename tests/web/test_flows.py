"""What people do with the pages, in a real browser: from the worst run to its step, and back."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Download, Page, expect

import stepscope
from stepscope.settings import Settings
from stepscope.store import Store
from tests.factories import agent, run, user
from tests.web import looking
from tests.web.watched import Watched, watching


@pytest.fixture(scope="module")
def served(shown: looking.Made) -> Iterator[str]:
    with looking.serving(shown) as origin:
        yield origin


@pytest.fixture(scope="module")
def watch(browser: Browser, served: str) -> Iterator[Watched]:
    with watching(browser, served) as found:
        found.go(f"/?token={looking.TOKEN}")
        yield found
        assert [f for f in found.faults() if not f.startswith("file: ")] == []


@pytest.fixture
def page(watch: Watched) -> Page:
    watch.go("/")
    return watch.page


def in_view(page: Page, selector: str) -> bool:
    page.wait_for_selector(selector, state="attached")
    return bool(
        page.evaluate(
            "(s) => { const box = document.querySelector(s).getBoundingClientRect();"
            " return box.top >= 0 && box.top < innerHeight; }",
            selector,
        )
    )


def test_the_token_leaves_the_address_bar(page: Page, served: str) -> None:
    assert page.url == f"{served}/"


def test_from_the_first_page_to_the_broken_step_is_one_click(page: Page) -> None:
    first = page.locator(".look .top a").first
    first.click()
    step = page.url.partition("#")[2]
    assert "-s" in step
    page.wait_for_function("(id) => document.activeElement?.id === id", arg=step)
    assert in_view(page, f"#{step}")


def test_a_citation_leads_to_its_step_and_back_to_where_one_read(
    watch: Watched, shown: looking.Made
) -> None:
    watch.go(shown.address("/run/RUN"))
    page = watch.page
    page.evaluate("() => { document.querySelector('details.verdicts').open = true; }")
    cite = page.locator(".verdicts td a.cite").first
    cite.scroll_into_view_if_needed()
    target = cite.get_attribute("href") or ""
    before = page.evaluate("() => scrollY")
    cite.click()
    assert page.url.endswith(target)
    assert in_view(page, target)
    page.go_back()
    page.wait_for_function("(y) => Math.abs(scrollY - y) < 40", arg=before)


def test_what_is_said_of_a_step_leads_to_the_verdict(watch: Watched, shown: looking.Made) -> None:
    watch.go(shown.address("/run/RUN"))
    watch.page.locator(".step details.checked", has=watch.page.locator("a.chip")).first.locator(
        "summary"
    ).first.click()
    chip = watch.page.locator(".step a.chip").first
    target = chip.get_attribute("href") or ""
    chip.click()
    assert in_view(watch.page, target)


def test_keys_walk_the_steps_and_the_marked_ones(watch: Watched, shown: looking.Made) -> None:
    watch.go(shown.address("/run/RUN?from=0"))
    page = watch.page
    for key, wanted in (("j", 0), ("j", 1), ("k", 0)):
        page.keyboard.press(key)
        assert page.evaluate("() => document.activeElement.id").endswith(f"-s{wanted}")
        # The cursor is in the address, the outline and the strip as well.
        assert page.url.endswith(f"-s{wanted}")
        for place in (".outline", ".strip"):
            here = page.locator(f"{place} [aria-current]").get_attribute("href") or ""
            assert here.endswith(f"-s{wanted}")
    page.keyboard.press("n")
    marked = page.evaluate("() => document.activeElement.hasAttribute('data-marked')")
    assert marked
    page.keyboard.press("?")
    expect(page.locator("dialog#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#help")).to_be_hidden()


def test_everything_is_reached_by_the_tab_key(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.closest('main') !== null")


def test_two_runs_are_laid_side_by_side_from_the_run(watch: Watched, shown: looking.Made) -> None:
    watch.go(shown.address("/run/FAILED"))
    page = watch.page
    page.keyboard.press("c")
    expect(page.locator("h1")).to_contain_text("They part at step")
    assert page.locator(".aligned .how-same").count() > 0
    assert page.locator(".aligned .pair:not(.how-same)").count() > 0
    # It is opened where the runs part, with both names and outcomes in view.
    assert in_view(page, page.url[page.url.index("#") :])
    assert in_view(page, ".versus .pill")
    page.locator(".versus a").first.click()
    expect(page.locator("h1")).to_contain_text("airline/11/")


def test_a_link_to_a_step_shows_the_name_and_the_outcome_of_its_run(
    watch: Watched, shown: looking.Made
) -> None:
    address = shown.address("/run/RUN")
    watch.go(f"{address}?step=44#r-{address.rpartition('/')[2][:16]}-s44")
    page = watch.page
    page.wait_for_function("() => document.activeElement.id.endsWith('-s44')")
    tops = page.evaluate(
        "() => [...document.querySelectorAll('.slim, .step.here')].map((e) =>"
        " e.getBoundingClientRect()).map((box) => [box.top, box.bottom])"
    )
    (name, _), (step, _) = tops
    assert 0 <= name < step
    assert step >= tops[0][1]
    expect(page.locator(".slim")).to_contain_text("airline/9/2")


def test_a_search_finds_what_is_folded_in_a_step(watch: Watched, shown: looking.Made) -> None:
    watch.go(shown.address("/run/RUN"))
    page = watch.page
    page.keyboard.press("/")
    page.keyboard.type("certificate_9984806")
    rows = page.locator(".outline a:visible")
    count = rows.count()
    assert 0 < count < page.locator(".outline a").count()
    page.locator(".outline input").fill("no such words")
    expect(rows).to_have_count(0)


def test_the_map_is_one_stop_of_the_tab_key_and_arrows_move_on_it(page: Page) -> None:
    assert page.locator(".map a.cell[tabindex='0']").count() == 1
    page.locator(".map a.cell").first.focus()
    said = page.locator(".map .read").inner_text()
    assert "pass" in said
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.locator(".map .read").inner_text() != said
    assert page.locator(".map a.cell[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/run/*")


def test_a_filter_is_in_the_address_and_goes_along(page: Page) -> None:
    page.locator("details.choice summary").click()
    page.fill("[name=where]", "agent = 'gpt-4o' and outcome = 'fail'")
    page.get_by_role("button", name="Show").click()
    assert "where=agent" in page.url
    expect(page.locator("#runs tbody tr")).to_have_count(12)
    page.get_by_role("link", name="Profile").click()
    assert "where=agent" in page.url
    page.go_back()
    page.locator("form.filter [name=q]").fill("airline/9")
    page.get_by_role("button", name="Filter").click()
    assert "where=agent" in page.url
    expect(page.locator("#runs tbody tr")).to_have_count(4)
    page.reload()
    expect(page.locator("#runs tbody tr")).to_have_count(4)


def test_runs_are_ordered_by_a_click_on_a_column(page: Page) -> None:
    page.locator("#runs th a", has_text="steps").click()
    assert "sort=steps" in page.url
    steps = [int(t) for t in page.locator("#runs tbody td:nth-child(5)").all_inner_texts()]
    assert steps == sorted(steps, reverse=True)
    page.locator("#runs th a", has_text="steps").click()
    steps = [int(t) for t in page.locator("#runs tbody td:nth-child(5)").all_inner_texts()]
    assert steps == sorted(steps)


def test_a_table_is_taken_away_as_csv(page: Page) -> None:
    table = page.locator(".table", has=page.locator("#runs"))
    with page.expect_download() as caught:
        table.locator(".csv").click()
    found: Download = caught.value
    text = Path(found.path()).read_text(encoding="utf-8-sig")
    rows = list(csv.reader(io.StringIO(text)))
    assert len(rows) == 41
    assert rows[0][:2] == ["run", "outcome"]


def test_the_theme_is_kept(watch: Watched) -> None:
    page = watch.page
    for wanted in ("light", "dark"):
        page.keyboard.press("t")
        assert page.evaluate("() => document.documentElement.dataset.theme") == wanted
    page.reload()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("t")
    page.reload()
    assert page.evaluate("() => document.documentElement.dataset.theme ?? null") is None


# Counts the events that a page hears: the first one is what it compares the others with.
HEARD = """
window.heard = 0;
window.EventSource = class extends EventSource {
  constructor(...given) { super(...given); this.addEventListener("store", () => heard++); }
};
"""


def test_an_open_page_says_that_a_score_is_running(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.add(looking.RUNS)
        made = looking.Made(path, tmp_path / "gate.json")
        with looking.serving(made, gates=False) as origin, watching(browser, origin) as watch:
            watch.page.add_init_script(HEARD)
            watch.go(f"/?token={looking.TOKEN}")
            watch.page.wait_for_function("() => window.heard")
            notebook.score(workers=1)
            expect(watch.page.locator(".live")).to_contain_text("20 of 20 runs scored")
            watch.page.locator(".live button").click()
            expect(watch.page.locator(".look li").first).to_be_visible()
            assert watch.faults() == []


def test_a_long_run_is_read_window_by_window(browser: Browser, tmp_path: Path) -> None:
    steps = [each for at in range(1_000) for each in (user(f"ask {at}"), agent(f"say {at}"))]
    long = msgspec.structs.replace(run(*steps), id="a" * 32)
    with Store.open(tmp_path / "runs.db") as store:
        store.put([long])
    made = looking.Made(tmp_path / "runs.db", tmp_path / "gate.json")
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as watch:
        watch.go(f"/?token={looking.TOKEN}")
        watch.go(f"/run/{long.id}")
        page = watch.page
        assert page.locator(".step").count() == 200
        page.get_by_role("link", name="later steps").click()
        expect(page.locator(".step > .no").first).to_have_text("200")
        # Past the last step of a window, the key leads to the next one.
        page.locator(".step").last.focus()
        page.keyboard.press("j")
        expect(page.locator(".step > .no").first).to_have_text("400")
        watch.go(f"/run/{long.id}?step=1999")
        expect(page.locator(".step > .no").last).to_have_text("1999")
        assert watch.faults() == []
