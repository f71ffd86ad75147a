"""Against a real MLflow server, filled by the real MLflow SDK and an OpenTelemetry exporter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stepscope import api, backends
from stepscope.backends.client import Client, read_access
from stepscope.backends.mlflow import find_experiment, read_trace_info, verdict_key
from stepscope.errors import UsageError
from stepscope.safety.limits import Limits
from tests.backends import environments, servers
from tests.backends.agent_spans import Which, record
from tests.factories import agent as says
from tests.factories import did, run, user

BIN = environments.ready("mlflow")
WORKER = Path(__file__).parent / "workers" / "mlflow_agent.py"
LATER = "a0" * 15 + "03"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(BIN is None, reason=environments.missing("mlflow")),
]


class Server:
    """A running server, and two ways to fill it."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.variables = {"MLFLOW_TRACKING_URI": base}
        self.client = Client(read_access("mlflow", self.variables), Limits())

    def sdk(self, experiment: str) -> str:
        """Record an agent with MLflow's own SDK; return the trace's id."""
        assert BIN is not None
        done = subprocess.run(
            [str(BIN / "python"), str(WORKER), self.base, experiment],
            env=environments.variables(GIT_PYTHON_REFRESH="quiet"),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def exporter(self, experiment: str, which: Which) -> None:
        """Send spans with OpenTelemetry's exporter."""
        named = find_experiment(self.client, experiment)
        if named is None:
            path = "/api/2.0/mlflow/experiments/create"
            named = self.client.post(path, {"name": experiment}).value["experiment_id"]
        record(f"{self.base}/v1/traces", {"x-mlflow-experiment-id": str(named)}, which)

    def verdicts(self, trace_id: str) -> list[str]:
        """Return the keys of our assessments on a trace."""
        info = read_trace_info(self.client, trace_id)
        assert info is not None
        return sorted(verdict_key(each) for each in info.get("assessments", []))


def what_the_sdk_recorded_comes_whole_and_only_once(server: Server) -> None:
    trace_id = server.sdk("shop")
    with api.open(":memory:") as notebook:
        added = backends.pull(notebook, "mlflow:shop", variables=server.variables)
        assert (added.runs, added.new, added.quarantined) == (1, 1, 0)
        assert added.files[0].withheld == {}
        (whole,) = notebook.trajectories()
        assert f"tr-{whole.source.run_id}" == trace_id
        assert [step.actor for step in whole.steps] == ["user", "agent", "environment", "agent"]
        (call,) = whole.steps[1].calls
        assert (call.id, call.name, call.arguments) == ("c1", "find_order", {"id": 17})
        assert [result.status for result in whole.steps[2].results] == ["error"]
        for since in (None, "last", "1h"):
            again = backends.pull(notebook, "mlflow:shop", since=since, variables=server.variables)
            assert (again.new, again.known, again.superseded) == (0, 1, 0)
        later = backends.pull(
            notebook, "mlflow:shop", since="2100-01-01", variables=server.variables
        )
        assert later.runs == 0
        with pytest.raises(UsageError, match="has no experiment 'shopp'"):
            backends.pull(notebook, "mlflow:shopp", variables=server.variables)


def late_spans_take_the_place_of_the_shorter_version(server: Server) -> None:
    server.exporter("late", "early")
    with api.open(":memory:") as notebook:
        early = backends.pull(notebook, "mlflow:late", variables=server.variables)
        assert early.new == 1
        server.exporter("late", "late")
        late = backends.pull(notebook, "mlflow:late", since="last", variables=server.variables)
        assert (late.runs, late.superseded) == (1, 1)
        (whole,) = notebook.trajectories()
        assert whole.source.run_id == LATER
        assert [span.name for span in whole.spans] == ["agent", "chat", "find_order", "chat"]


def runs_and_verdicts_are_sent_once_however_often_they_are_sent(
    server: Server, tmp_path: Path
) -> None:
    made = run(user("cancel"), *did("find", "none"), says("no"), id="b" * 32, name="made")
    trace_id = "tr-" + "b" * 32
    with api.open(tmp_path / "s.db") as notebook:
        notebook.store.put([made])
        notebook.score()
        first = backends.send(notebook, "mlflow:sent", variables=server.variables)
        assert (first.runs, first.spans, first.absent) == (1, 4, 0)
        told = server.verdicts(trace_id)
        assert len(set(told)) == len(told) == first.verdicts > 0
        again = backends.send(notebook, "mlflow:sent", again=True, variables=server.variables)
        assert (again.runs, again.verdicts) == (1, first.verdicts)
        assert server.verdicts(trace_id) == told
        third = backends.send(notebook, "mlflow:sent", variables=server.variables)
        assert (third.runs, third.verdicts, third.verdicts_there) == (0, 0, first.verdicts)
        back = backends.pull(notebook, "mlflow:sent", variables=server.variables)
        assert back.files[0].withheld == {"verdicts of ours, left there": first.verdicts}


def verdicts_on_pulled_runs_stand_on_their_own_spans(server: Server) -> None:
    trace_id = server.sdk("judged")
    with api.open(":memory:") as notebook:
        backends.pull(notebook, "mlflow:judged", variables=server.variables)
        notebook.score()
        sent = backends.send(notebook, "mlflow:judged", variables=server.variables)
        assert (sent.runs, sent.runs_there, sent.absent) == (0, 1, 0)
        assert len(server.verdicts(trace_id)) == sent.verdicts > 0
        (whole,) = notebook.trajectories()
        info = read_trace_info(server.client, trace_id)
        assert info is not None
        own = {span.id for span in whole.spans}
        assert {each["span_id"] for each in info["assessments"] if "span_id" in each} <= own
        back = backends.pull(notebook, "mlflow:judged", variables=server.variables)
        assert (back.new, back.known) == (0, 1)
        assert next(notebook.trajectories()).labels == ()


def test_against_a_real_mlflow(tmp_path: Path) -> None:
    """One test, so that one server is started however many processes the tests run in."""
    assert BIN is not None
    (folder := tmp_path / "server").mkdir()
    with servers.mlflow(BIN, folder) as base:
        server = Server(base)
        with server.client:
            what_the_sdk_recorded_comes_whole_and_only_once(server)
            late_spans_take_the_place_of_the_shorter_version(server)
            runs_and_verdicts_are_sent_once_however_often_they_are_sent(server, tmp_path)
            verdicts_on_pulled_runs_stand_on_their_own_spans(server)
