"""The server of one labelling session: its page, more of a run, and the one address that writes.

It stands alone: no page of the report is served beside it, so that an annotator stays blind. It is
guarded like the pages, on loopback only; what it is sent is one small JSON object. An answer is on
disk before it is acknowledged. The store is opened for writing in the one thread that asks it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import NamedTuple, TypeVar, cast

import msgspec
import numpy as np
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stepscope.errors import EnvironmentFault, StepscopeError, UsageError
from stepscope.labels.questions import load_question
from stepscope.labels.session import AskedItem, GivenAnswer, LabelSession
from stepscope.model import Record, Verdict
from stepscope.model.records import NOT_MODELS
from stepscope.report.render import label_page, pages
from stepscope.report.rows import read_shown_run
from stepscope.safety.offline import accepted_hosts
from stepscope.safety.redact import scrub_message
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.web import app as web
from stepscope.web.guard import LOOPBACK, WebGuard, WebPolicy

T = TypeVar("T")
SCRIPTS = ("/static/app.js", "/static/label.js")
# Bytes of what the page sends; a note has a thousand characters.
_MOST_SENT = 16 * 1024


class LabelTask(NamedTuple):
    """What one start of the server labels."""

    store: str  # path
    rubric: str  # as `load_question` takes it
    steps: bool
    queue: int
    annotator: str
    blind: bool


class LabelDesk:
    """The session of a task, and what it shows; every call runs in one thread."""

    def __init__(self, task: LabelTask, settings: Settings) -> None:
        self.task = task
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "stepscope-labels")
        self._session: LabelSession | None = None

    async def run(self, work: Callable[[LabelSession], T]) -> T:
        """Return what some work on the session gives."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(self.open_session()))

    async def close(self) -> None:
        """Close the store."""

        def shut() -> None:
            if self._session is not None:
                self._session.store.close()

        await asyncio.get_running_loop().run_in_executor(self._thread, shut)
        self._thread.shutdown(wait=False)

    def open_session(self) -> LabelSession:
        """Return the session, opening the store when it is first asked."""
        if self._session is None:
            task, redaction = self.task, self._settings.redaction
            store = Store.open(task.store)
            store.redact(redaction.forms, shown=redaction.shown)
            question = load_question(task.rubric, steps=task.steps)
            self._session = LabelSession(
                store, question, task.queue, task.annotator, blind=task.blind
            )
        return self._session

    def act(self, session: LabelSession, given: GivenAnswer) -> None:
        """Do what an annotator does; `UsageError` says why nothing was saved."""
        # The file of one's own rubric may be another one by now.
        if load_question(self.task.rubric, steps=self.task.steps) != session.question:
            raise UsageError(
                "the rubric has changed since this queue was drawn: nothing was saved; start "
                "stepscope label again"
            )
        if given.do == "answer":
            session.answer(given)
        elif given.do == "skip":
            session.skip(given.place)
        elif not session.undo():
            raise UsageError("there is no answer to take back")

    def show(self, session: LabelSession, wide: int = 0) -> Markup:
        """Return what is asked now, or the end."""
        asked = session.ask()
        if asked is None:
            runs = session.store.runs()
            names = dict(zip(runs.id.tolist(), runs.name.tolist(), strict=True))
            return label_page.lay_out_end(session, names)
        run, _, records = read_shown_run(session.store, asked.run)
        verdicts = [] if session.blind else list(list_verdicts(session, asked, records))
        verdicts = [*list_answers(session, asked), *verdicts]
        return label_page.lay_out_label(session, asked, run, wide=wide, verdicts=verdicts)


def list_verdicts(
    session: LabelSession, asked: AskedItem, records: Sequence[Record]
) -> Iterator[str]:
    """Yield what judges said of an item, a line each."""
    for record in records:
        answer = record.answer
        if answer.measure != session.question.measure or record.family in NOT_MODELS:
            continue
        if isinstance(answer, Verdict) and answer.step in (None, asked.step):
            value = "" if answer.value is None else f" {answer.value:.2f}"
            yield f"{record.judge}: {answer.label or ''}{value}. {answer.reason}"


def list_answers(session: LabelSession, asked: AskedItem) -> Iterator[str]:
    """Yield the answers that differ, a line each, in an order that does not tell whose they are."""
    names = {(one.label, one.value): one.said for one in session.question.answers}
    given = session.differing.get(asked.place, [])
    shuffled = np.random.default_rng([session.queue, asked.place]).permutation(len(given))
    for at, one in enumerate((given[place] for place in shuffled), 1):
        said = names.get((one.label, one.value), one.label or "Cannot be decided")
        why = f"Reason: {one.reason}" if one.reason else "No reason given."
        yield f"Answer {at}: {said}. {why}"


def get_desk(request: Request) -> LabelDesk:
    """Return the one session of the server."""
    return cast(LabelDesk, request.app.state.desk)


async def first_page(request: Request) -> Response:
    """Lead to the page: the printed address has the token of the start."""
    return RedirectResponse("/label")


async def question_page(request: Request) -> Response:
    """Return the page with what is asked now."""
    desk = get_desk(request)
    body = pages.lay_out("label_page", await desk.run(desk.show))
    page = pages.Page(name="label", title="Label", body=body)
    head = web.lay_out_head(page, [("/label", page.title, True)])
    foot = pages.lay_out("foot", about=desk.task.store, specs={}, addresses=SCRIPTS, page=page.name)
    return HTMLResponse(head + page.body + foot)


async def more_steps(request: Request) -> Response:
    """Return what is asked now with more of its run around it: `?wide=1`, or 2."""
    desk = get_desk(request)
    wide = web.parse_whole_number(request.query_params, "wide") or 0
    wide = min(wide, len(label_page.BEFORE) - 1)
    return JSONResponse({"html": await desk.run(lambda session: desk.show(session, wide))})


async def save_answer(request: Request) -> Response:
    """Store an answer, take one back or put an item off; return what is asked next."""
    desk = get_desk(request)
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise UsageError("expected JSON")
    sent = await request.body()
    if len(sent) > _MOST_SENT:
        raise UsageError(f"an answer of {len(sent)} bytes; expected up to {_MOST_SENT}")
    try:
        given = msgspec.json.decode(sent, type=GivenAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"no answer that can be read: {e}") from e

    def work(session: LabelSession) -> Markup:
        desk.act(session, given)
        return desk.show(session)

    return JSONResponse({"html": await desk.run(work)})


async def _show_error(request: Request, error: Exception) -> Response:
    status = 503 if isinstance(error, EnvironmentFault) else 409
    return JSONResponse({"error": scrub_message(str(error))}, status)


def make_label_app(task: LabelTask, *, token: str, port: int, settings: Settings) -> WebGuard:
    """Return the application for one task, behind its guard; it serves loopback alone."""
    desk = LabelDesk(task, settings)

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        yield
        await desk.close()

    app = Starlette(
        routes=[
            Route("/", first_page),
            Route("/label", question_page),
            Route("/label/more", more_steps),
            Route("/api/label", save_answer, methods=["POST"]),
            Route("/favicon.ico", web.favicon),
            Route("/static/{name:path}", web.static_asset),
        ],
        lifespan=living,
        exception_handlers={StepscopeError: _show_error, Exception: web.show_bug},
    )
    app.state.desk = desk
    app.state.files = dict(web.files_below(files("stepscope.report.render") / "static", ""))
    policy = WebPolicy(
        hosts=accepted_hosts(LOOPBACK, port),
        cookie=f"stepscope-label-{port}",
        session=secrets.token_urlsafe(32),
        allow_write=True,
    )
    return WebGuard(app, policy, token)
