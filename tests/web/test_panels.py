"""What judges say, in a real browser: drawn, quiet and within its width, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from stepscope.store import Store
from tests.report.made_panels import ONE, TWO, axes, behaved, labelled, runs
from tests.web import looking
from tests.web.test_pages import look
from tests.web.watched import Watched, watching

HELD = runs(6, ("gpt-4.1", "o4-mini"))


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder: Path = tmp_path_factory.mktemp("judged")
    with Store.open(folder / "runs.db") as store:
        store.put(HELD)
        store.append(axes(ONE, HELD, "xx..x..?x..."))
        store.append(axes(TWO, HELD, "x...x..hx.x."))
        store.append(axes("rules", HELD, "x???..??.???"))
        store.append(labelled(TWO, HELD[0], "PEPRPD"))
        store.append(behaved(ONE, HELD[0], "...x.x"))
    made = looking.Made(folder / "runs.db", folder / "gate.json")
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as found:
        found.go(f"/?token={looking.TOKEN}")
        yield found


@pytest.mark.parametrize("address", ["/profile", f"/run/{HELD[0].id}"])
@pytest.mark.parametrize("axe", [False, True])
def test_the_pages_of_judged_runs_are_quiet_fit_and_are_open_to_everyone(
    page: Watched, address: str, axe: bool
) -> None:
    assert look(page, address, axe=axe) == []


def test_judges_stand_beside_each_other_for_each_group_of_runs(page: Watched) -> None:
    page.page.set_viewport_size({"width": 1280, "height": 860})
    page.go("/profile")
    table = page.page.locator("table.multiples")
    assert table.locator("th .name").count() == 2
    row = table.locator("tr", has_text="Tool selection").first
    assert "claude-sonnet-4-5" in row.inner_text()
    assert row.locator("circle.hd").count() == 4


def test_a_chip_of_a_judge_leads_to_its_verdict(page: Watched) -> None:
    page.page.set_viewport_size({"width": 1280, "height": 860})
    page.go(f"/run/{HELD[0].id}")
    chip = page.page.locator(".chip", has_text="step labels: ERROR (openai/gpt-5)").first
    target = chip.get_attribute("href")
    assert target is not None
    row = page.page.locator(target)
    assert "openai/gpt-5" in (row.text_content() or "")
