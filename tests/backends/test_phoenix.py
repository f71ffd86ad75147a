"""Against a real Phoenix server, filled by the real OpenTelemetry SDK and exporter."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepscope import api, backends
from stepscope.api import Notebook
from stepscope.backends.client import Client, QueryValue, Rejected, read_access
from stepscope.errors import UsageError
from stepscope.model import Trajectory
from stepscope.safety.limits import Limits
from tests.backends import environments, servers
from tests.backends.agent_spans import Which, record
from tests.factories import agent as says
from tests.factories import did, run, user

BIN = environments.ready("arize-phoenix")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(BIN is None, reason=environments.missing("arize-phoenix")),
]
FIRST, THEN, LATER = ("a0" * 15 + end for end in ("01", "02", "03"))


class Server:
    """A running server, what its project holds, and a way to fill it."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.variables = {"PHOENIX_COLLECTOR_ENDPOINT": base}
        self.client = Client(read_access("phoenix", self.variables), Limits())

    def fill(self, project: str, which: Which, spans: int) -> None:
        """Send spans, and wait until the project holds so many."""
        record(f"{self.base}/v1/traces", {"x-project-name": project}, which)
        self.wait(project, spans)

    def wait(self, project: str, spans: int) -> None:
        """Wait until the project holds so many spans: they are taken in behind the answer."""
        end = time.monotonic() + 60
        while self.count(project, "spans") < spans:
            assert time.monotonic() < end
            time.sleep(0.1)

    def count(self, project: str, what: str, **query: str) -> int:
        path = f"/v1/projects/{project}/{what}"
        try:
            return len(self.client.get(path, {"limit": 1000, **query}).value["data"])
        except Rejected as e:
            if e.status != 404:
                raise
            return 0

    def annotations(
        self, project: str, spans: set[str], traces: set[str]
    ) -> list[dict[str, object]]:
        """Return every annotation of these spans and traces."""
        found: list[dict[str, object]] = []
        for what, key, ids in (
            ("span_annotations", "span_ids", spans),
            ("trace_annotations", "trace_ids", traces),
        ):
            query: dict[str, QueryValue] = {key: sorted(ids), "limit": 1000}
            found += self.client.get(f"/v1/projects/{project}/{what}", query).value["data"]
        return found


def pulled(notebook: Notebook) -> dict[str, Trajectory]:
    return {run.name: run for run in notebook.trajectories()}


def what_an_exporter_sent_comes_whole_and_only_once(server: Server) -> None:
    server.fill("shop", "both", 8)
    with api.open(":memory:") as notebook:
        added = backends.pull(notebook, "phoenix:shop", variables=server.variables)
        assert (added.runs, added.new, added.quarantined) == (2, 2, 0)
        assert added.files[0].withheld == {"spans without resource, scope, kind and links": 8}
        found = pulled(notebook)
        assert sorted(found) == [FIRST, THEN]
        for whole in found.values():
            assert [step.actor for step in whole.steps] == ["user", "agent", "environment", "agent"]
            (call,) = whole.steps[1].calls
            assert (call.id, call.name, call.arguments) == ("c1", "find_order", {"id": 17})
            assert [result.status for result in whole.steps[2].results] == ["error"]
            assert whole.steps[3].text == "There is no order 17."
            assert whole.usage is None or whole.usage.input_total == 24
            tool = next(span for span in whole.spans if span.name == "find_order")
            assert tool.attributes["tool.parameters"] == '{"id":17,"tags":["a"]}'
            assert [event["name"] for event in tool.events] == ["exception"]
        for since in (None, "last", "2025-12-29"):
            again = backends.pull(notebook, "phoenix:shop", since=since, variables=server.variables)
            assert (again.new, again.superseded) == (0, 0)
        assert again.known == 2
        later = backends.pull(
            notebook, "phoenix:shop", since="2026-01-01", variables=server.variables
        )
        assert later.runs == 0
        with pytest.raises(UsageError, match="has no project 'shopp'"):
            backends.pull(notebook, "phoenix:shopp", variables=server.variables)


def late_spans_take_the_place_of_the_shorter_version(server: Server) -> None:
    server.fill("late", "early", 3)
    with api.open(":memory:") as notebook:
        early = backends.pull(notebook, "phoenix:late", variables=server.variables)
        assert (early.new, len(pulled(notebook)[LATER].spans)) == (1, 3)
        server.fill("late", "late", 4)
        late = backends.pull(notebook, "phoenix:late", since="last", variables=server.variables)
        assert (late.runs, late.superseded) == (1, 1)
        (whole,) = notebook.trajectories()
        assert [span.name for span in whole.spans] == ["agent", "chat", "find_order", "chat"]
        nothing = backends.pull(notebook, "phoenix:late", since="last", variables=server.variables)
        assert nothing.runs == 0


def runs_and_verdicts_are_sent_once_however_often_they_are_sent(
    server: Server, tmp_path: Path
) -> None:
    made = run(user("cancel"), *did("find", "none"), says("no"), id="b" * 32, name="made")
    with api.open(tmp_path / "s.db") as notebook:
        notebook.store.put([made])
        notebook.score()
        first = backends.send(notebook, "phoenix:sent", variables=server.variables)
        assert (first.runs, first.spans, first.absent) == (1, 4, 0)
        server.wait("sent", first.spans)
        spans = server.client.get("/v1/projects/sent/spans", {"limit": 1000}).value["data"]
        ids = {span["context"]["span_id"] for span in spans}
        traces = {span["context"]["trace_id"] for span in spans}
        told = server.annotations("sent", ids, traces)
        assert (len(ids), len(traces), len(told)) == (4, 1, first.verdicts)
        again = backends.send(notebook, "phoenix:sent", again=True, variables=server.variables)
        assert (again.runs, again.verdicts) == (1, first.verdicts)
        third = backends.send(notebook, "phoenix:sent", variables=server.variables)
        assert (third.runs, third.verdicts, third.verdicts_there) == (0, 0, first.verdicts)
        time.sleep(2)  # what was sent again is taken in behind the answer
        assert server.count("sent", "spans") == 4
        assert len(server.annotations("sent", ids, traces)) == first.verdicts
        back = backends.pull(notebook, "phoenix:sent", variables=server.variables)
        assert (back.new, back.known) == (0, 1)  # it carries the run's id
    names = {str(each["name"]) for each in told}
    assert {"redundant_calls", "errors"} <= {name.split(".")[0] for name in names}


def verdicts_on_pulled_runs_stand_on_their_own_spans(server: Server) -> None:
    with api.open(":memory:") as notebook:
        backends.pull(notebook, "phoenix:shop", variables=server.variables)
        notebook.score()
        sent = backends.send(notebook, "phoenix:shop", variables=server.variables)
        own = {span.id for whole in notebook.trajectories() for span in whole.spans}
        told = server.annotations("shop", own, {FIRST, THEN})
        assert (sent.runs, sent.runs_there, sent.absent) == (0, 2, 0)
        assert len(told) == sent.verdicts > 0
        back = backends.pull(notebook, "phoenix:shop", variables=server.variables)
        assert (back.new, back.known) == (0, 2)


def verdicts_without_their_spans_are_counted_not_lost_in_silence(server: Server) -> None:
    stranger = run(user("hello"), *did("find", "none"), id="c" * 32, name="stranger")
    with api.open(":memory:") as notebook:
        notebook.store.put([stranger])
        notebook.score(measures=["redundant_calls"])
        sent = backends.send(notebook, "phoenix:sent", what="verdicts", variables=server.variables)
    assert sent.verdicts == 0
    assert sent.absent > 0


def test_against_a_real_phoenix(tmp_path: Path) -> None:
    """One test, so that one server is started however many processes the tests run in."""
    assert BIN is not None
    (folder := tmp_path / "server").mkdir()
    with servers.phoenix(BIN, folder) as base:
        server = Server(base)
        with server.client:
            what_an_exporter_sent_comes_whole_and_only_once(server)
            late_spans_take_the_place_of_the_shorter_version(server)
            runs_and_verdicts_are_sent_once_however_often_they_are_sent(server, tmp_path)
            verdicts_on_pulled_runs_stand_on_their_own_spans(server)
            verdicts_without_their_spans_are_counted_not_lost_in_silence(server)
