"""Every route of the server answers, with every guard; what it says comes from the store."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx2
import pytest

from stepscope.web import app
from tests.web import looking
from tests.web.conftest import client

# Route, an address of it, and what stands in the answer.
ANSWERS = (
    ("/", "/", "One column per task"),
    ("/", "/?by=agent&where=outcome+%3D+'fail'", "outcome = &#39;fail&#39;"),
    ("/", "/?page=9999999&sort=nothing&q=%00", "No runs match"),
    ("/run", "/run", "these are to be looked at first"),
    ("/run/{run}", "/run/RUN", "airline/9/2"),
    ("/run/{run}", "/run/RUN?step=44", "same error"),
    ("/run/{run}", "/run/RUN?step=9999", "airline/9/2"),
    ("/run/{run}", "/run/RUN?from=9999", "airline/9/2"),
    ("/compare", "/compare", "Runs of one task that ended differently"),
    ("/compare", "/compare?run=FAILED&with=PASSED", "They part at step"),
    ("/compare", "/compare?run=FAILED", "Runs of one task that ended differently"),
    ("/compare", "/compare?a=gpt-4o&b=gpt-4o-v2", "gpt-4o-v2"),
    ("/compare", "/compare?by=trial&a=0&b=1", "1 minus 0"),
    ("/profile", "/profile", "at fault"),
    ("/label", "/label", "stepscope label --annotator NAME"),
    ("/calibration", "/calibration", "Can the judges be trusted?"),
    ("/gates", "/gates", "Baseline airline.json"),
    ("/static/{name:path}", "/static/app.js", "use strict"),
    ("/static/{name:path}", "/static/vendor/LICENSES.txt", "Mike Bostock"),
    ("/favicon.ico", "/favicon.ico", ""),
    ("/run/{run}/raw", "/run/RUN/raw?step=44", "book_reservation"),
    ("/api/events", "", ""),
    ("/api/runs.csv", "/api/runs.csv", "airline/9/2"),
    ("/api/runs.json", "/api/runs.json?where=steps+%3E+60", "airline/9/2"),
    ("/api/figures.csv", "/api/figures.csv?by=trial", "outcome.pass"),
    ("/api/report.json", "/api/report.json", '"look_first"'),
    ("/api/run/{run}", "/api/run/RUN", '"suspects"'),
    ("/api/blob/{sha256}", "", ""),
)


@pytest.fixture(scope="module")
def looks(shown: looking.Made) -> Iterator[httpx2.Client]:
    with looking.serving(shown) as origin, client(origin) as found:
        assert found.get("/", params={"token": looking.TOKEN}).status_code == 303
        yield found


def test_every_route_has_an_address_here() -> None:
    known = {route.path for route in (*app.PAGE_ROUTES, *app.FILE_ROUTES)}
    assert {path for path, _, _ in ANSWERS} == known


@pytest.mark.parametrize(("route", "address", "said"), [a for a in ANSWERS if a[1]])
def test_every_route_answers(
    looks: httpx2.Client, shown: looking.Made, route: str, address: str, said: str
) -> None:
    answer = looks.get(shown.address(address))
    assert answer.status_code in (200, 204)
    assert said in answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "address",
    ["/", "/run/RUN", "/compare?run=FAILED&with=PASSED", "/profile", "/calibration", "/gates"],
)
def test_a_page_holds_no_script_style_or_address_of_elsewhere(
    looks: httpx2.Client, shown: looking.Made, address: str
) -> None:
    text = looks.get(shown.address(address)).text
    for script in re.findall(r"<script[^>]*>", text):
        assert 'type="application/json"' in script or 'src="/static/' in script
    assert "<style" not in text
    assert " style=" not in text
    assert re.findall(r"(?:href|src|action)=\"(?!/[^/]|/\"|#|data:,\")[^\"]*", text) == []


def test_a_script_that_has_not_changed_is_not_sent_again(looks: httpx2.Client) -> None:
    first = looks.get("/static/vendor/vega.min.js")
    again = looks.get(
        "/static/vendor/vega.min.js", headers={"if-none-match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    other = looks.get("/static/vendor/vega.min.js", headers={"if-none-match": '"0"'})
    assert other.status_code == 200


def test_what_is_chosen_is_in_every_address_of_the_page(looks: httpx2.Client) -> None:
    text = looks.get("/", params={"where": "agent = 'gpt-4o'", "by": "trial"}).text
    leads = [
        a for a in re.findall(r"href=\"([^\"#]+)", text) if a.startswith(("/run/", "/?", "/c"))
    ]
    assert len(leads) > 20
    assert [a for a in leads if "where=agent" not in a or "by=trial" not in a] == []


def test_after_a_wrong_filter_every_address_leads_out(looks: httpx2.Client) -> None:
    answer = looks.get("/", params={"where": "mood = 'good'"})
    assert answer.status_code == 400
    assert "mood" in answer.text
    assert "where=" not in answer.text
