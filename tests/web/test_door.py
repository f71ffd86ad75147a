"""What the door does with whole requests: the token opens once, every answer has its headers."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import alter
from tests.web.conftest import TOKEN, Client, opened
from tests.web.validator import faults

# Every route, by an address that exists.
ADDRESSES = (
    "/static/vendor/vega.min.js",
    "/api/runs.csv",
    "/api/runs.json",
    "/api/figures.csv",
    "/api/report.json",
    "/api/run/airline%2F9%2F2",
)


def test_the_printed_address_opens_in_any_browser_and_leaves_the_token_behind(
    made: Path, stranger: Client
) -> None:
    client = stranger(made)
    first = client.get("/", params={"token": TOKEN})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert TOKEN not in first.headers["set-cookie"]
    assert client.get("/api/runs.json").status_code == 200
    # Back and reload in the same browser do no harm; a second browser has a cookie of its own.
    assert client.get("/", params={"token": TOKEN}).status_code == 303
    client.cookies.clear()
    assert client.get("/api/runs.json").status_code == 403
    again = client.get("/", params={"token": TOKEN})
    assert (again.status_code, "set-cookie" in again.headers) == (303, True)
    assert client.get("/api/runs.json").status_code == 200


def test_what_is_chosen_stays_when_the_token_goes(made: Path, stranger: Client) -> None:
    where = "outcome = 'fail' and name != '\r\nSet-Cookie: a=b'"
    answer = stranger(made).get("/", params={"token": TOKEN, "where": where, "by": "//evil"})
    location = httpx2.URL(answer.headers["location"])
    assert (location.host, location.path) == ("", "/")
    assert dict(location.params) == {"where": where, "by": "//evil"}


def test_asking_for_the_head_alone_gives_no_cookie(made: Path, stranger: Client) -> None:
    client = stranger(made)
    assert "set-cookie" not in client.head("/", params={"token": TOKEN}).headers
    assert "set-cookie" in client.get("/", params={"token": TOKEN}).headers


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()])
def test_a_wrong_token_opens_nothing(outside: httpx2.Client, token: str) -> None:
    client = outside
    answer = client.get("/", params={"token": token})
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


@pytest.mark.parametrize("address", ["/run", "/static/app.js", "/api/runs.json"])
def test_the_token_opens_nowhere_but_at_the_start(outside: httpx2.Client, address: str) -> None:
    assert outside.get(address, params={"token": TOKEN}).status_code == 403


@pytest.mark.parametrize("address", ["/", "/nowhere", "/static/app.css", *ADDRESSES[:5]])
def test_without_the_cookie_nothing_is_told_apart(outside: httpx2.Client, address: str) -> None:
    answer = outside.get(address)
    assert answer.status_code == 403
    assert answer.text == "open the address that stepscope view printed, token and all\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:PORT", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:1PORT"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:PORT"}, 403),
        ({"host": "127.0.0.1:1PORT"}, 403),
        ({"host": "localhost:PORT"}, 200),
        # What a proxy would say is believed of nobody.
        ({"host": "evil.example", "x-forwarded-host": "127.0.0.1:PORT"}, 403),
        ({"x-forwarded-host": "evil.example", "forwarded": "host=evil.example"}, 200),
    ],
)
@pytest.mark.parametrize("address", ["/api/runs.json", "/static/vendor/vega.min.js"])
def test_with_the_cookie_another_site_still_gets_nothing(
    inside: httpx2.Client, headers: dict[str, str], status: int, address: str
) -> None:
    here = str(inside.base_url.port)
    sent = {name: value.replace("PORT", here) for name, value in headers.items()}
    assert inside.get(address, headers=sent).status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_nothing_but_reading_is_allowed(inside: httpx2.Client, method: str) -> None:
    answer = inside.request(method, "/api/runs.json")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("address", ADDRESSES[:5])
def test_a_head_has_no_body(inside: httpx2.Client, address: str) -> None:
    answer = inside.head(address)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/nowhere", 404),
        ("/static/nothing.js", 404),
        ("/static/vendor/SHA256SUMS", 404),
        ("/static/%2e%2e/%2e%2e/pyproject.toml", 400),
        ("/static/%252e%252e/pyproject.toml", 400),
        ("/static/..%2f..%2fetc%2fpasswd", 400),
        ("/api/blob/" + "0" * 64, 404),
        ("/api/blob/etc", 404),
        ("/api/run/no-such-run", 400),
        ("/run/airline%2f9%2f2", 400),
        ("/api/runs.json?where=agent%20%3D", 400),
        ("/api/runs.json?since=whenever", 400),
        ("/api/runs.json?by=mood", 400),
        ("/run/x/raw?step=1e9", 400),
    ],
)
def test_what_is_not_there_is_told_in_a_line(
    inside: httpx2.Client, address: str, status: int
) -> None:
    answer = inside.get(httpx2.URL(str(inside.base_url), raw_path=address.encode()))
    assert answer.status_code == status
    assert "Traceback" not in answer.text


def test_a_bug_is_told_to_the_terminal_and_not_to_the_browser(
    store: Path, stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(store, "UPDATE traces SET steps = 'secret'")
    met: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: met.append(kind))
    answer = opened(stranger(store)).get("/run/9854ff4a")
    assert answer.status_code == 500
    assert answer.text.startswith("a bug in stepscope (DecodeError), not in your store")
    assert "secret" not in answer.text
    assert [kind.__name__ for kind in met] == ["DecodeError"]


def test_a_secret_in_the_name_of_another_trial_is_not_on_a_runs_page(
    store: Path, stranger: Client
) -> None:
    key = f"ghp_{'a1B2' * 9}"
    alter(store, f"UPDATE runs SET name = name || ' {key}' WHERE task = '11'")
    answer = opened(stranger(store)).get("/run/9854ff4a")
    assert answer.status_code == 200
    assert (key in answer.text, "airline/11/1 [secret" in answer.text) == (False, True)


def test_the_validator_sees_each_missing_guard() -> None:
    bare = httpx2.Response(200, headers={"server": "x", "set-cookie": "a=b; Domain=x"})
    assert len(faults(bare)) == 11
    loose = httpx2.Response(200, headers={"content-security-policy": "script-src 'unsafe-eval'"})
    assert any("unsafe-eval" in fault for fault in faults(loose))
    open_ = httpx2.Response(200, headers={"access-control-allow-origin": "*"})
    assert "access-control-allow-origin is there" in faults(open_)
