"""No request but the page's own reaches a route: the rules of the door, one by one."""

from __future__ import annotations

import pytest

from stepscope.errors import UsageError
from stepscope.safety.offline import accepted_hosts
from stepscope.web.guard import WebPolicy, check_address
from stepscope.web.serve import open_socket, socket_url

HOST = "127.0.0.1:8765"
POLICY = WebPolicy(
    hosts=accepted_hosts("127.0.0.1", 8765), cookie="stepscope-8765", session="s3cret"
)
WRITING = WebPolicy(hosts=POLICY.hosts, cookie=POLICY.cookie, session="s3cret", allow_write=True)


def asked(
    *headers: tuple[str, str],
    method: str = "GET",
    target: str = "/",
    host: str | None = HOST,
    policy: WebPolicy = POLICY,
) -> int:
    """Return the status of the refusal; 200 where the request may go on to the cookie."""
    given = [*([("host", host)] if host is not None else []), *headers]
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in given]
    refused = policy.refusal(method=method, target=target.encode("latin-1"), headers=raw)
    return 200 if refused is None else refused.status_code


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8765", 200),
        ("localhost:8765", 200),
        ("LOCALHOST:8765", 200),
        (None, 403),
        ("", 403),
        ("127.0.0.1", 403),
        ("localhost", 403),
        ("127.0.0.1:8766", 403),
        ("127.0.0.1:08765", 403),
        ("127.0.0.1:8765.", 403),
        ("127.0.0.1.:8765", 403),
        ("127.1:8765", 403),
        ("2130706433:8765", 403),
        ("0.0.0.0:8765", 403),
        ("[::1]:8765", 403),
        ("evil.example:8765", 403),
        ("evil.example", 403),
        ("127.0.0.1.nip.io:8765", 403),
        ("127.0.0.1:8765@evil.example", 403),
        ("127.0.0.1:8765, evil.example", 403),
        ("localhost:8765\x00", 403),
    ],
)
def test_the_host_is_exactly_ours_with_the_port(host: str | None, status: int) -> None:
    assert asked(host=host) == status


def test_two_hosts_are_none() -> None:
    assert asked(("host", HOST)) == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8765", 200),
        ("http://localhost:8765", 200),
        ("https://127.0.0.1:8765", 403),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1:8766", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:8765.evil.example", 403),
        ("HTTP://127.0.0.1:8765", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
    ],
)
def test_the_origin_is_ours_where_there_is_one(origin: str, status: int) -> None:
    assert asked(("origin", origin)) == status
    assert asked(("origin", origin), target="/api/events") == status


def test_one_foreign_origin_among_two_is_foreign() -> None:
    assert asked(("origin", f"http://{HOST}"), ("origin", "http://evil.example")) == 403


@pytest.mark.parametrize(
    ("site", "status"),
    [
        ("same-origin", 200),
        ("none", 200),
        ("same-site", 403),  # another port of this machine
        ("cross-site", 403),
        ("", 403),
        ("anything", 403),
    ],
)
@pytest.mark.parametrize("target", ["/", "/api/events", "/static/app.js", "/run/abc"])
def test_no_other_site_leads_here_not_even_for_a_read(site: str, status: int, target: str) -> None:
    assert asked(("sec-fetch-site", site), target=target) == status


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 200),
        ("/run/0123abcdef", 200),
        ("/static/vendor/vega.min.js", 200),
        ("/?where=outcome%20%3D%20%27fail%27", 200),
        ("/run/..", 400),
        ("/run/../../etc/passwd", 400),
        ("/static/%2e%2e/%2e%2e/etc/passwd", 400),
        ("/static/..%2f..%2fetc%2fpasswd", 400),
        ("/static/%252e%252e%252fetc%252fpasswd", 400),
        ("/static/..%5c..%5cwindows", 400),
        ("/static/..\\..\\windows", 400),
        ("/static//etc/passwd", 400),
        ("//evil.example/", 400),
        ("/run/a%00b", 400),
        ("/run/a%2fb", 400),
        ("/run/%61", 400),
        ("/run/a;b", 400),
        ("/run/\xe2\x80\xae", 400),
        ("/.git/config", 400),
        ("/run/", 400),
        ("http://127.0.0.1:8765/", 400),
        ("http://evil.example/", 400),
        ("*", 400),
        ("", 400),
    ],
)
def test_an_address_is_taken_as_it_is_and_never_decoded(target: str, status: int) -> None:
    assert asked(target=target) == status


@pytest.mark.parametrize(
    ("method", "policy", "target", "status"),
    [
        ("GET", POLICY, "/", 200),
        ("HEAD", POLICY, "/", 200),
        ("POST", POLICY, "/api/labels", 405),
        ("PUT", POLICY, "/api/labels", 405),
        ("DELETE", POLICY, "/run/abc", 405),
        ("OPTIONS", POLICY, "/api/labels", 405),
        ("CONNECT", POLICY, "/", 405),
        ("TRACE", WRITING, "/api/labels", 405),
        ("get", POLICY, "/", 405),
        ("POST", WRITING, "/run/abc", 405),
        ("POST", WRITING, "/api/labels", 200),
    ],
)
def test_the_server_only_reads_unless_told_otherwise(
    method: str, policy: WebPolicy, target: str, status: int
) -> None:
    headers = [("origin", f"http://{HOST}"), ("content-length", "2")] if method == "POST" else []
    assert asked(*headers, method=method, target=target, policy=policy) == status


def test_a_write_says_its_origin_although_a_read_need_not() -> None:
    body = ("content-length", "2")
    assert asked(body, method="POST", target="/api/labels", policy=WRITING) == 403
    assert asked(method="GET", target="/api/labels", policy=WRITING) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 411),
        ([("content-length", "-1")], 411),
        ([("content-length", "1e3")], 411),
        ([("content-length", "2"), ("content-length", "3")], 411),
        ([("content-length", "2"), ("transfer-encoding", "chunked")], 411),
        ([("transfer-encoding", "chunked")], 411),
        ([("content-length", str(1024 * 1024))], 200),
        ([("content-length", str(1024 * 1024 + 1))], 413),
    ],
)
def test_the_length_of_what_is_written_is_known_and_limited(
    headers: list[tuple[str, str]], status: int
) -> None:
    origin = ("origin", f"http://{HOST}")
    target = "/api/labels"
    assert asked(origin, *headers, method="POST", target=target, policy=WRITING) == status


@pytest.mark.parametrize(
    ("headers", "target", "status"),
    [
        ([("content-length", "0")], "/", 200),
        ([("content-length", "1")], "/", 413),
        ([("transfer-encoding", "chunked")], "/", 413),
        ([("x", "y" * 16_000)], "/", 200),
        ([("x", "y" * 16_384)], "/", 431),
        ([("x", "y")] * 9_000, "/", 431),
        ([], "/?where=" + "a" * 8_000, 200),
        ([], "/?where=" + "a" * 8_192, 414),
    ],
)
def test_what_is_too_long_is_refused_before_it_is_read(
    headers: list[tuple[str, str]], target: str, status: int
) -> None:
    assert asked(*headers, target=target) == status


@pytest.mark.parametrize(
    ("cookie", "inside"),
    [
        ("stepscope-8765=s3cret", True),
        ("other=1; stepscope-8765=s3cret", True),
        ("stepscope-8765=S3cret", False),
        ("stepscope-8765=s3cre", False),
        ("stepscope-8765=s3crett", False),
        ("stepscope-8765=", False),
        ("stepscope-8766=s3cret", False),
        ("s3cret", False),
        ("stepscope-8765=s3cr\xe9t", False),
        ("", False),
    ],
)
def test_only_the_cookie_of_this_start_comes_in(cookie: str, inside: bool) -> None:
    assert POLICY.admits([(b"cookie", cookie.encode("latin-1"))]) is inside


def test_without_a_cookie_nobody_comes_in() -> None:
    assert POLICY.admits([]) is False


@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        ("127.0.0.1", 8000, {"127.0.0.1:8000", "localhost:8000"}),
        ("localhost", 8000, {"localhost:8000"}),
        ("::1", 8000, {"[::1]:8000", "localhost:8000"}),
        ("10.0.0.5", 8000, {"10.0.0.5:8000"}),
        ("127.0.0.1", 80, {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"}),
    ],
)
def test_what_a_browser_calls_this_server(host: str, port: int, expected: set[str]) -> None:
    assert accepted_hosts(host, port) == expected


@pytest.mark.parametrize(
    ("host", "token", "said"),
    [
        ("10.0.0.5", None, "not loopback"),
        ("10.0.0.5", "x" * 31, "32 or more characters"),
        ("0.0.0.0", "x" * 32, "every address at once"),
        ("::", "x" * 32, "every address at once"),
        ("example.org", "x" * 32, "expected an address"),
    ],
)
def test_others_are_not_served_without_a_secret(host: str, token: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_address(host, token)


@pytest.mark.parametrize(
    ("host", "token", "address"),
    [
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.2", None, "127.0.0.2"),
        ("::1", None, "::1"),
        ("0:0:0:0:0:0:0:1", None, "::1"),
        ("localhost", None, "127.0.0.1"),
        ("10.0.0.5", "x" * 32, "10.0.0.5"),
    ],
)
def test_this_machine_needs_no_secret_of_the_users_own(
    host: str, token: str | None, address: str
) -> None:
    assert check_address(host, token) == address


def test_a_listening_socket_has_an_address_for_a_browser() -> None:
    with open_socket("127.0.0.1", None) as found:
        assert socket_url(found).rpartition(":")[0] == "http://127.0.0.1"
