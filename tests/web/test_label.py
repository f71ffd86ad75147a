"""The labelling page in a real browser, and the one address that writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import load_question
from stepscope.model import Label, Record, Verdict
from stepscope.settings import Settings, load_settings
from stepscope.store import Store
from stepscope.web.label import LabelTask, make_label_app
from stepscope.web.serve import make_server, open_socket, socket_url
from tests.factories import agent, did, run, user
from tests.labels.made import answer, session
from tests.web.hostile import OWN
from tests.web.test_pages import NARROW, WIDE, serious
from tests.web.watched import Watched

TOKEN = "the token of the labelling test"
AXIS = "axes.termination"


def make(path: Path, *, runs: int = 12) -> Path:
    """Make a store of runs with a user, two calls and an answer, each with a judge's verdict."""
    with Store.open(path) as store:
        store.put(
            run(
                user(f"please buy {at}"), *did("buy", "bought it"), agent("done"),
                *did("send", '{"to": "' + "x" * 400 + '"}'), agent(OWN[at % len(OWN)]),
                id=f"r{at:02}", name=f"n{at:02}",
            )
            for at in range(runs)
        )  # fmt: skip
        store.append(
            [
                Record(
                    trajectory=f"r{at:02}",
                    answer=Verdict(f"judge.{AXIS}", label="incorrect", confidence=0.9, reason="no"),
                    version="2", family="openai", judge="openai/m", rubric=AXIS,
                )
                for at in range(runs)
            ]
        )  # fmt: skip
    return path


@contextmanager
def labelling(
    store: Path, rubric: str = "outcome", *, who: str = "ann", queue: int = 0, blind: bool = True,
    overlap: int = 0, settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> Iterator[str]:  # fmt: skip
    """Serve a session as `stepscope label` does; give the origin."""
    with Store.open(store) as opened:
        question = load_question(rubric)
        number = queue or draw_queue(opened, question, queue="uniform", n=12, overlap=overlap)
    listening = open_socket("127.0.0.1", 0)
    task = LabelTask(str(store), rubric, False, number, who, blind)
    port = listening.getsockname()[1]
    running = make_server(make_label_app(task, token=TOKEN, port=port, settings=settings))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield socket_url(listening)
    finally:
        running.should_exit = True
        thread.join()
        listening.close()


@contextmanager
def annotating(browser: Browser, origin: str) -> Iterator[Watched]:
    """Open the page; at the end nothing may have gone wrong in it."""
    context = browser.new_context(viewport=WIDE)
    context.add_init_script("window.ran = [];")
    try:
        watched = Watched(context.new_page(), origin)
        watched.go(f"/?token={TOKEN}")
        yield watched
        assert watched.faults() == []
    finally:
        context.close()


def progress(page: Page, said: str) -> None:
    expect(page.locator(".progress b")).to_have_text(said)


def labels(store: Path) -> list[Label]:
    with Store.open(store) as opened:
        return list(opened.labels())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make(tmp_path / "runs.db")


def test_a_queue_is_labelled_by_keyboard_to_its_end(browser: Browser, store: Path) -> None:
    with labelling(store) as origin, annotating(browser, origin) as watched:
        page = watched.page
        for at in range(12):
            progress(page, f"{at} of 12")
            page.keyboard.press("?" if at == 3 else "12"[at % 2])
        expect(page.locator("h1")).to_have_text("Nothing is left to label in this queue.")
        expect(page.locator(".so-far")).to_contain_text("5 of 11 items speak against the agent")
        expect(page.locator(".so-far details")).to_contain_text("more labels needed to accept one")
        found = labels(store)
        assert [one.label for one in found][:4] == ["pass", "fail", "pass", "uncertain"]
        assert all(one.blind and one.seconds is not None for one in found)
        page.keyboard.press("u")
        progress(page, "11 of 12")
        assert len(labels(store)) == 11


def test_what_was_answered_survives_a_reload_and_a_new_start(browser: Browser, store: Path) -> None:
    with labelling(store) as origin, annotating(browser, origin) as watched:
        watched.page.keyboard.press("1")
        progress(watched.page, "1 of 12")
        asked = watched.page.locator(".labelling").get_attribute("data-place")
        watched.go("/label")
        progress(watched.page, "1 of 12")
        assert watched.page.locator(".labelling").get_attribute("data-place") == asked
    with labelling(store, queue=1) as origin, annotating(browser, origin) as watched:
        progress(watched.page, "1 of 12")
        assert watched.page.locator(".labelling").get_attribute("data-place") == asked


def test_one_key_shows_more_and_the_label_says_what_was_opened(
    browser: Browser, store: Path
) -> None:
    with labelling(store, "step_labels") as origin, annotating(browser, origin) as watched:
        page = watched.page
        before = page.locator(".exchange > li").count()
        page.keyboard.press("m")
        expect(page.locator(".labelling")).to_have_attribute("data-opened", "before")
        assert page.locator(".exchange > li").count() > before
        page.keyboard.press("m")
        expect(page.locator(".exchange details:not([open])")).to_have_count(0)
        page.locator("#note").fill("1 looks odd")  # digits in a note answer nothing
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        progress(page, "1 of 12")
    (found,) = labels(store)
    assert (found.expanded, found.reason) == (("before", "texts"), "1 looks odd")
    assert found.label == "REDUNDANT"


def test_nothing_that_was_said_of_a_run_is_shown_to_who_is_blind(
    browser: Browser, store: Path
) -> None:
    with labelling(store, AXIS) as origin, annotating(browser, origin) as watched:
        assert "openai/m" not in watched.page.content()
        for address in ("/", "/run/r00", "/profile", "/api/run/r00"):
            assert "openai/m" not in watched.page.request.get(origin + address).text()
    with labelling(store, AXIS, blind=False) as origin, annotating(browser, origin) as watched:
        expect(watched.page.locator(".side")).to_have_text("openai/m: incorrect. no")
        watched.page.keyboard.press("2")
        progress(watched.page, "1 of 12")
    assert [one.blind for one in labels(store)] == [False]


def test_two_annotators_see_where_they_differ_when_both_are_done(
    browser: Browser, store: Path
) -> None:
    with labelling(store, overlap=12) as first, labelling(store, who="bob", queue=1) as second:
        with annotating(browser, first) as ann, annotating(browser, second) as bob:
            for at in range(12):
                progress(ann.page, f"{at} of 12")
                ann.page.keyboard.press("1")
            expect(ann.page.locator(".so-far")).to_contain_text("when two annotators have answered")
            for at in range(12):
                progress(bob.page, f"{at} of 12")
                bob.page.keyboard.press("2" if at == 5 else "1")
            expect(bob.page.locator("h2").first).to_have_text(
                "ann answered the same 12 items: 11 alike."
            )
            assert bob.page.locator("tbody tr").count() == 1
            ann.go("/label")
            expect(ann.page.locator("tbody td").nth(2)).to_have_text("fail")


def test_an_answer_that_was_not_saved_is_said_and_the_question_stays(
    browser: Browser, store: Path
) -> None:
    with labelling(store) as origin, annotating(browser, origin) as watched:
        page = watched.page
        asked = page.locator(".labelling").get_attribute("data-place")
        page.route("**/api/label", lambda route: route.abort())
        page.keyboard.press("1")
        expect(page.locator(".saved")).to_contain_text("no answer: reload the page")
        assert page.locator(".labelling").get_attribute("data-place") == asked
        assert labels(store) == []
        page.unroute("**/api/label")
        page.keyboard.press("1")
        progress(page, "1 of 12")
        watched.forget()  # the browser tells of the request that was cut


def test_the_page_is_quiet_and_fits_light_and_dark(browser: Browser, store: Path) -> None:
    with labelling(store, "step_labels") as origin, annotating(browser, origin) as watched:
        page = watched.page
        assert serious(watched, None) == []
        page.emulate_media(color_scheme="dark")
        assert serious(watched, ["color-contrast"]) == []
        page.set_viewport_size(NARROW)
        page.wait_for_function("() => document.documentElement.scrollWidth <= 360")


@pytest.fixture
def client(store: Path) -> Iterator[httpx2.Client]:
    """A client that has opened the printed address of a session."""
    with labelling(store) as origin, httpx2.Client(base_url=origin, timeout=60) as made:
        assert made.get("/", params={"token": TOKEN}).status_code == 303
        made.headers["Origin"] = origin
        yield made


def action(client: httpx2.Client, **fields: Any) -> dict[str, Any]:
    """Return an answer to what is asked now."""
    page = client.get("/label").text
    told = {
        name: page.partition(f'data-{name}="')[2].partition('"')[0] for name in ("place", "policy")
    }
    body = {"do": "answer", "key": "1", "place": int(told["place"]), "step": None}
    return {**body, "policy": told["policy"], **fields}


def test_an_answer_is_stored_when_it_is_acknowledged(client: httpx2.Client, store: Path) -> None:
    sent = action(client, seconds=2.5)
    assert client.post("/api/label", json=sent).status_code == 200
    (found,) = labels(store)
    assert (found.label, found.seconds) == ("pass", 2.5)
    # Sent again after an answer that got lost, and sent otherwise.
    assert client.post("/api/label", json=sent).status_code == 200
    assert client.post("/api/label", json={**sent, "key": "2"}).status_code == 409
    assert labels(store) == [found]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"headers": {"Origin": "http://evil.example"}}, 403, "another site"),
        ({"headers": {"Content-Type": "text/plain"}}, 409, "expected JSON"),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 409, "no answer"),
        ({"json": {"policy": "old"}}, 409, "the rubric has changed"),
        ({"json": {"key": "9"}}, 409, "expected one of 1, 2 or ?"),
        ({"json": {"place": 4_000}}, 409, "not asked now"),
        ({"json": {"seconds": "NaN"}}, 409, "no answer that can be read"),
        ({"json": {"note": "x" * 20_000}}, 409, "expected up to"),
        ({"json": {"do": "undo"}}, 409, "no answer to take back"),
    ],
    ids=lambda one: str(one)[:30],
)
def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    client: httpx2.Client, store: Path, change: dict[str, Any], status: int, said: str
) -> None:
    sent = action(client, **change.pop("json", {}))
    asked: dict[str, Any] = {"json": sent} if "content" not in change else {}
    if change.get("headers") == {"Content-Type": "text/plain"}:
        asked = {"content": b"{}"}
    answer = client.post("/api/label", **asked, **change)
    assert (answer.status_code, said in answer.text) == (status, True), answer.text
    assert labels(store) == []


def test_nobody_without_the_cookie_or_an_origin_writes(client: httpx2.Client, store: Path) -> None:
    sent = action(client)
    with httpx2.Client(base_url=str(client.base_url), timeout=60) as stranger:
        head = {"Origin": str(client.base_url).rstrip("/")}
        assert stranger.post("/api/label", json=sent, headers=head).status_code == 403
    del client.headers["Origin"]
    assert client.post("/api/label", json=sent).status_code == 403
    assert client.put("/api/label", json=sent).status_code == 403
    assert client.post("/label", json=sent).status_code == 405
    assert labels(store) == []


def test_a_rubric_file_that_changes_under_the_queue_takes_no_answer(tmp_path: Path) -> None:
    from tests.labels.test_session import own_rubric

    own = tmp_path / "tone.md"
    own.write_text(own_rubric(), encoding="utf-8")
    store = make(tmp_path / "runs.db")
    with labelling(store, str(own)) as origin, httpx2.Client(base_url=origin, timeout=60) as made:
        made.get("/", params={"token": TOKEN})
        made.headers["Origin"] = origin
        sent = action(made)
        assert made.post("/api/label", json=sent).status_code == 200
        own.write_text(own_rubric().replace("Judge the tone.", "Judge it."), encoding="utf-8")
        answer = made.post("/api/label", json=action(made))
        assert answer.status_code == 409
        assert "the rubric has changed since this queue was drawn" in answer.json()["error"]
    assert len(labels(store)) == 1


def test_the_users_own_forms_of_secrets_are_hidden_on_the_page_and_in_notes(store: Path) -> None:
    own = '[redaction]\n[[redaction.secret]]\nkind = "acme"\nbegins = "xxxx"\nleast = 20\n'
    (store.parent / "stepscope.toml").write_text(own, encoding="utf-8")
    settings, secret = load_settings(store.parent), "x" * 40
    for hidden in (True, False):
        told: dict[str, Any] = {"settings": settings} if hidden else {}
        with (
            labelling(store, **told) as origin,
            httpx2.Client(base_url=origin, timeout=60) as made,
        ):
            made.get("/", params={"token": TOKEN})
            made.headers["Origin"] = origin
            assert (secret in made.get("/label").text) is not hidden
            sent = action(made, note=f"it says {secret}")
            assert made.post("/api/label", json=sent).status_code == 200
        assert (secret in labels(store)[-1].reason) is not hidden


def test_an_adjudicator_sees_both_answers_and_no_name(browser: Browser, store: Path) -> None:
    with Store.open(store) as opened:
        first = session(opened, "annabel", n=12, overlap=12)
        second = session(opened, "bobby", queue=first.queue)
        for at in range(12):
            answer(first, "1", note=OWN[at % len(OWN)])
            answer(second, "2" if at % 2 else "1", note="the refund is missing")
        queue = draw_queue(opened, first.question, queue="adjudication", n=60)
    with labelling(store, who="eve", queue=queue) as origin, annotating(browser, origin) as watched:
        page = watched.page
        progress(page, "0 of 6")
        expect(page.locator(".progress")).to_contain_text("answers shown without names")
        lines = page.locator(".side").all_inner_texts()
        assert sorted(line[:9] for line in lines) == ["Answer 1:", "Answer 2:"]
        fail = "No: something is missing or wrong. Reason: the refund is missing"
        assert any(fail in line for line in lines)
        assert any("Yes: all of it is done. " in line for line in lines)
        text = page.content() + page.request.get(origin + "/label/more?wide=1").text()
        assert ("annabel" in text, "bobby" in text) == (False, False)
        assert serious(watched, None) == []
        page.set_viewport_size(NARROW)
        page.wait_for_function("() => document.documentElement.scrollWidth <= 360")
        page.keyboard.press("2")
        progress(page, "1 of 6")
        page.keyboard.press("u")
        progress(page, "0 of 6")
        for at in range(6):
            progress(page, f"{at} of 6")
            page.keyboard.press("2")
        expect(page.locator("h1")).to_have_text("Nothing is left to label in this queue.")
        expect(page.locator(".so-far")).to_contain_text("each takes the place of the answers that")
    found = [one for one in labels(store) if one.annotator == "eve"]
    assert [(one.queue, one.label, one.blind) for one in found] == [
        ("adjudication", "fail", False)
    ] * 6
    assert {one.probability for one in found} == {1.0}
