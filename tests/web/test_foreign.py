"""U1: a page of another site in the same browser, cookie and all, gets nothing and does nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.web import looking
from tests.web.conftest import REBOUND

# Attempts of a page at another port of this machine: to the browser the same site, so that even a
# SameSite=Strict cookie goes along. Each tells what it got.
ATTEMPTS = {
    "fetch": "fetch(TARGET).then((a) => 'read ' + a.status)",
    "fetch with cookies": "fetch(TARGET, {credentials: 'include'}).then((a) => 'read ' + a.status)",
    "no-cors": "fetch(TARGET, {mode: 'no-cors', credentials: 'include'})"
    ".then((a) => a.type === 'opaque' ? 'opaque' : 'read')",
    "post": "fetch(TARGET, {method: 'POST', mode: 'no-cors', body: 'x', credentials: 'include'})"
    ".then((a) => a.type === 'opaque' ? 'opaque' : 'read')",
    "xhr": "new Promise((r) => { const x = new XMLHttpRequest(); x.open('GET', TARGET);"
    " x.withCredentials = true; x.onload = () => r('read'); x.onerror = () => r('refused');"
    " x.send(); })",
    "script": "new Promise((r) => { const e = document.createElement('script'); e.src = STATIC;"
    " e.onload = () => r('ran'); e.onerror = () => r('refused'); document.head.append(e); })",
    "image": "new Promise((r) => { const e = new Image(); e.src = TARGET;"
    " e.onload = () => r('seen'); e.onerror = () => r('refused'); })",
    "events": "new Promise((r) => { const e = new EventSource(EVENTS, {withCredentials: true});"
    " e.onmessage = () => r('heard'); e.addEventListener('store', () => r('heard'));"
    " e.onerror = () => { e.close(); r('refused'); }; })",
    "socket": "new Promise((r) => { const e = new WebSocket(EVENTS.replace('http', 'ws'));"
    " e.onopen = () => r('open'); e.onerror = () => r('refused'); })",
    "beacon": "Promise.resolve(navigator.sendBeacon(TARGET, 'x') ? 'refused' : 'refused')",
}


class Evil(BaseHTTPRequestHandler):
    """Serves a page that does what its address says."""

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        body = query.get("html", ["<title>evil</title>"])[0].encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def evil() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def served(shown: looking.Made) -> Iterator[str]:
    with looking.serving(shown) as origin:
        yield origin


@pytest.fixture(scope="module")
def context(browser: Browser, served: str) -> Iterator[BrowserContext]:
    """A browser whose user has the pages open."""
    found = browser.new_context()
    page = found.new_page()
    page.goto(f"{served}/?token={looking.TOKEN}")
    assert page.url == f"{served}/"
    yield found
    found.close()


@pytest.fixture(params=["127.0.0.1", "localhost"])
def page(context: BrowserContext, evil: int, request: pytest.FixtureRequest) -> Iterator[Page]:
    found = context.new_page()
    found.goto(f"http://{request.param}:{evil}/")
    yield found
    found.close()


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_another_site_reads_nothing(page: Page, served: str, attempt: str) -> None:
    statuses: list[int] = []
    page.on("response", lambda r: statuses.append(r.status) if r.url.startswith(served) else None)
    code = ATTEMPTS[attempt]
    for word, address in (
        ("TARGET", "/api/runs.json"),
        ("STATIC", "/static/vendor/vega.min.js"),
        ("EVENTS", "/api/events"),
    ):
        code = code.replace(word, repr(served + address))
    got = page.evaluate(f"() => ({code}).catch(() => 'refused')")
    assert got in ("refused", "opaque")
    page.wait_for_timeout(50)
    assert all(status in (403, 405) for status in statuses), statuses


def test_another_site_neither_frames_nor_leads_to_a_page(
    page: Page, served: str, context: BrowserContext
) -> None:
    page.evaluate(
        "(a) => { const e = document.createElement('iframe'); e.src = a;"
        " document.body.append(e); }",
        f"{served}/",
    )
    page.wait_for_timeout(300)
    assert all("stepscope" not in frame.content() for frame in page.frames[1:])
    with context.expect_page() as caught:
        page.evaluate("(a) => { window.open(a); }", f"{served}/")
    caught.value.wait_for_load_state()
    assert "another site led here" in caught.value.inner_text("body")
    caught.value.close()
    page.evaluate("(a) => { location.href = a; }", f"{served}/api/runs.json")
    page.wait_for_url(f"{served}/**")
    assert "another site led here" in page.inner_text("body")


def test_a_form_of_another_site_is_refused(page: Page, served: str) -> None:
    page.evaluate(
        "(a) => { document.body.innerHTML = `<form method=post action='${a}'></form>`;"
        " document.forms[0].submit(); }",
        f"{served}/api/labels",
    )
    page.wait_for_url(f"{served}/**")
    assert "another site" in page.inner_text("body")


def test_a_name_rebound_to_this_machine_is_not_ours(context: BrowserContext, served: str) -> None:
    page = context.new_page()
    for address in ("/", "/api/runs.json"):
        answer = page.goto(served.replace("127.0.0.1", REBOUND) + address)
        assert answer is not None
        assert (answer.status, "Host is not this server's" in answer.text()) == (403, True)
    page.close()
