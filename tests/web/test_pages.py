"""Every page in a real browser: quiet, within its width, and open to everyone, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, TimeoutError, ViewportSize

import stepscope
from docs import picture
from stepscope.report.render.data import read_gate_reports
from stepscope.report.render.html import write_html
from stepscope.settings import Settings
from stepscope.store import Store
from tests.web import looking
from tests.web.watched import Watched, watching

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
ADDRESSES = {
    **looking.PAGES,
    "runs": "/run",
    "compare": "/compare",
    "filtered": "/?where=outcome+%3D+'fail'&by=outcome&q=9&sort=steps&desc=1",
    "window": "/run/RUN?from=20",
    "missing": "/nowhere",
    "wrong": "/?where=mood",
}
NARROW = ViewportSize(width=360, height=740)
WIDE = ViewportSize(width=1280, height=860)
# What is hidden is not part of the page; in the dark only colours are others.
SERIOUS = """async (rules) => (await axe.run({exclude: [".page[hidden]"]}, {
  resultTypes: ["violations"], ...(rules && {runOnly: rules})})).violations
  .filter((found) => ["serious", "critical"].includes(found.impact))
  .map((found) => `${found.id}: ${found.nodes.slice(0, 3).map((n) => n.html.slice(0, 120))}`)"""


@pytest.fixture(scope="module")
def page(browser: Browser, shown: looking.Made) -> Iterator[Watched]:
    with looking.serving(shown) as origin, watching(browser, origin) as found:
        found.go(f"/?token={looking.TOKEN}")
        yield found


@pytest.fixture(scope="module")
def file(
    browser: Browser, shown: looking.Made, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """The same store as one HTML file, opened without a server."""
    target = tmp_path_factory.mktemp("file") / "report.html"
    with stepscope.open(shown.store, settings=Settings()) as notebook:
        gates = read_gate_reports([shown.gates])
        write_html(notebook.store, notebook.report().value, target, embed=3, gates=gates)
    with watching(browser, target.as_uri()) as found:
        found.go("")
        yield found


def look(page: Watched, address: str, *, axe: bool = True) -> list[str]:
    """Open an address wide and narrow, light and dark; return everything that is wrong with it."""
    found: list[str] = []
    page.forget()
    page.page.set_viewport_size(WIDE)
    page.page.emulate_media(color_scheme="light")
    page.go(address)
    found += page.faults()
    found += [f"light {said}" for said in serious(page, None)] if axe else []
    page.page.emulate_media(color_scheme="dark")
    page.settle()
    found += [f"dark {said}" for said in serious(page, ["color-contrast"])] if axe else []
    page.page.set_viewport_size(NARROW)
    page.settle()
    with suppress(TimeoutError):
        page.page.wait_for_function("() => document.documentElement.scrollWidth <= 360")
    width = page.page.evaluate("() => document.documentElement.scrollWidth")
    found += [f"{width} px wide in 360"] if width > 360 else []
    named = page.page.evaluate(
        "() => [...document.querySelectorAll('td')].map(x => x.dataset.label)"
    )
    found += ["a card is named by its axis"] if "0255075100" in named else []
    return found


def serious(page: Watched, rules: list[str] | None) -> list[str]:
    """Return what axe-core finds serious or critical, by all its rules or by these."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in tests/web")
    if page.page.evaluate("() => !window.axe"):
        page.page.evaluate(AXE.read_text(encoding="utf-8"))
    return list(page.page.evaluate(SERIOUS, rules))


@pytest.mark.parametrize("name", ADDRESSES)
def test_every_page_is_quiet_fits_and_is_open_to_everyone(
    page: Watched, shown: looking.Made, name: str
) -> None:
    found = look(page, shown.address(ADDRESSES[name]))
    # The browser itself says on the console that an answer was no page.
    expected = [f for f in found if "Failed to load resource" in f]
    assert [f for f in found if f not in expected] == []
    assert bool(expected) == (name in ("missing", "wrong"))


@pytest.mark.parametrize(
    ("anchor", "axe"),
    [
        ("", True),
        ("#run", False),
        ("#compare", False),
        ("#profile", False),
        ("#gates", False),
        ("RUN", True),
        ("PAIR", True),
    ],
)
def test_every_page_of_the_file_is_quiet_and_fits(file: Watched, anchor: str, axe: bool) -> None:
    if anchor in ("RUN", "PAIR"):
        start = "r-" if anchor == "RUN" else "c-"
        found = file.page.evaluate(f"() => document.querySelector('.page[id^={start}]').id")
        anchor = f"#{found}"
    # The templates are those of the server: axe sees here what only the file lays out.
    assert look(file, anchor, axe=axe) == []


def test_an_empty_store_says_what_to_run(browser: Browser, tmp_path: Path) -> None:
    Store.open(tmp_path / "runs.db").close()
    made = looking.Made(tmp_path / "runs.db", tmp_path / "gate.json")
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as page:
        page.go(f"/?token={looking.TOKEN}")
        assert "Nothing to see yet" in page.page.inner_text("main")
        assert "stepscope import" in page.page.inner_text("main")
        assert page.faults() == []


def test_a_new_store_says_that_nothing_is_scored(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.add(looking.RUNS)
    made = looking.Made(path, tmp_path / "gate.json")
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as page:
        page.go(f"/?token={looking.TOKEN}")
        assert "stepscope score" in page.page.inner_text("main")
        for address in ("/run", "/compare", "/profile", "/calibration", "/gates"):
            page.go(address)
        assert page.faults() == []


def test_the_picture_of_a_report_keeps_its_columns(browser: Browser) -> None:
    """A browser that folds spaces shows a table as words."""
    page = browser.new_page()
    page.goto(picture.PICTURE.as_uri())
    texts = "[...document.querySelectorAll('text')]"
    widths = page.evaluate(f"{texts}.map((t) => [t.textContent, t.getComputedTextLength()])")
    page.close()
    letter = {round(width / len(line), 1) for line, width in widths if line.isascii()}
    assert len(letter) == 1
    assert any("   " in line for line, _ in widths)
