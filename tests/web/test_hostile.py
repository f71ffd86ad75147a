"""U2: what an agent writes is text, whatever it is and in whatever field: nothing of it runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import urlencode

import msgspec
import pytest
from playwright.sync_api import Browser

import stepscope
from stepscope.report.render.html import write_html
from stepscope.safety.text import visible
from stepscope.settings import Settings
from tests.web import looking
from tests.web.hostile import OWN, hostile_run, shared_texts
from tests.web.watched import Watched, watching

# Texts in one run: its page lays out a window of 200 steps, two a text.
IN_A_RUN = 100


def usable(texts: Sequence[str]) -> list[str]:
    """Return the texts once each; half a character cannot come in through the door."""
    return [t for t in dict.fromkeys(texts) if t and not any("\ud800" <= c <= "\udfff" for c in t)]


def store_of(texts: list[str], folder: Path) -> looking.Made:
    chunks = [texts[at : at + IN_A_RUN] for at in range(0, len(texts), IN_A_RUN)]
    runs = [hostile_run(chunk, number) for number, chunk in enumerate(chunks)]
    with stepscope.open(folder / "runs.db", settings=Settings()) as notebook:
        notebook.store.put(runs)
        notebook.score(workers=1)
    return looking.Made(folder / "runs.db", folder / "gate.json")


def addresses(made: looking.Made) -> Iterator[str]:
    with stepscope.open(made.store, settings=Settings()) as notebook:
        runs = notebook.store.runs()
    ids = [str(id_) for id_ in runs.id]
    yield from ("/", "/?by=agent", "/run", "/compare", "/profile", "/calibration", "/gates")
    yield from (f"/run/{id_}" for id_ in ids)
    yield from (f"/compare?run={one}&with={other}" for one, other in pairwise(ids[:3]))
    if len(ids) > 1:
        yield "/compare?" + urlencode({"by": "agent", "a": runs.agent[0], "b": runs.agent[1]})
    for text in OWN[:40:3]:
        yield "/?" + urlencode({"where": text, "q": text, "agent": text})


def opened(page: Watched) -> None:
    """Unfold everything that is shown, point at its charts, press the keys."""
    page.page.evaluate(
        "() => document.querySelectorAll('.page:not([hidden]) details')"
        ".forEach((d) => d.open = true)"
    )
    page.settle()
    for plot in page.page.query_selector_all("figure[data-chart] .plot")[:3]:
        if plot.is_visible():
            plot.hover()
    for key in ("n", "o", "t"):
        page.page.keyboard.press(key)


def test_every_text_field_of_a_run_holds_a_hostile_text() -> None:
    fields = set(_fields(hostile_run(usable(OWN), 0)))
    filled = {(kind, name) for kind, name, held in fields if held}
    known = {(kind, name) for kind, name, _ in fields}
    # What we choose: the id, and the time of prices that no trace names.
    assert {f"{kind}.{name}" for kind, name in known - filled} == set()
    assert len(known) > 60


def _fields(value: Any) -> Iterator[tuple[str, str, bool]]:  # any part of a run
    """Yield every field that may hold text, with whether it does."""
    if isinstance(value, msgspec.Struct):
        hints = get_type_hints(type(value))
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if re.search(r"\bstr\b|Any", str(hints[name])) and "Literal" not in str(hints[name]):
                yield type(value).__name__, name, bool(held)
            yield from _fields(held)
    elif isinstance(value, tuple):
        for held in value:
            yield from _fields(held)


@pytest.mark.slow
def test_nothing_of_our_own_set_runs(browser: Browser, tmp_path: Path) -> None:
    made = store_of(usable(OWN), tmp_path)
    assert harm(browser, made) == {}


@pytest.mark.slow
@pytest.mark.shared_data
def test_nothing_of_the_shared_set_runs(browser: Browser, tmp_path: Path, shared: Path) -> None:
    texts = usable(list(shared_texts(shared / "injections")))
    assert len(texts) > 500
    assert harm(browser, store_of(texts, tmp_path)) == {}


def harm(browser: Browser, made: looking.Made) -> dict[str, list[str]]:
    """Open every page of the server, then the file, and return the faults by address."""
    found: dict[str, list[str]] = {}
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as page:
        page.go(f"/?token={looking.TOKEN}")
        for address in addresses(made):
            page.go(address)
            # Markup is made when a page is laid out; one run is used as people use it, too.
            if not address.startswith("/run/") or address.endswith("1"):
                opened(page)
            # A filter that makes no sense is no page, which the browser says on its console.
            found[address] = [f for f in page.faults() if "400 (Bad Request)" not in f]
            page.forget()
    file = made.store.with_suffix(".html")
    with stepscope.open(made.store, settings=Settings()) as notebook:
        write_html(notebook.store, notebook.report().value, file, embed="all")
    with watching(browser, file.as_uri()) as page:
        page.go("")
        for anchor in page.page.evaluate(
            "() => [...document.querySelectorAll('.page')].map((p) => p.id)"
        ):
            page.go(f"#{anchor}")
        opened(page)
        found["file"] = page.faults()
    return {address: faults for address, faults in found.items() if faults}


def test_a_hostile_text_is_read_as_it_was_written(browser: Browser, tmp_path: Path) -> None:
    texts = usable(OWN)
    made = store_of(texts, tmp_path)
    with looking.serving(made, gates=False) as origin, watching(browser, origin) as page:
        page.go(f"/?token={looking.TOKEN}")
        page.go(f"/run/{1:032x}?from=0")
        shown = page.page.evaluate("() => document.querySelector('.steps').textContent")
        assert [text for text in texts if visible(text) not in shown] == []
        record = page.page.goto(f"{origin}/run/{1:032x}/raw?step=0")
        assert record is not None
        assert json.loads(record.text())["parts"][0]["text"] == texts[0]
        assert page.faults() == []


def test_the_watch_sees_each_kind_of_harm(browser: Browser, tmp_path: Path) -> None:
    page_ = tmp_path / "bad.html"
    page_.write_text(
        "<!doctype html><title>bad</title><img src=x onerror=alert(1)>"
        "<script src='https://evil.example/x.js'></script><a href='javascript:alert(2)'>x</a>",
        encoding="utf-8",
    )
    with watching(browser, page_.as_uri()) as page:
        page.go("")
        page.page.wait_for_function("() => window.ran.length")
        said = " | ".join(page.faults())
    for harm_ in (
        "alert: 1",
        "request: https://evil.example",
        "IMG onerror",
        "javascript:alert(2)",
    ):
        assert harm_ in said
