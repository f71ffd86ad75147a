from __future__ import annotations

from pathlib import Path

import pytest

from stepscope import api, backends
from stepscope.backends.langsmith import _run_id
from stepscope.errors import UsageError
from tests.backends.langsmith_server import KEY, Langsmith, agent, run_id
from tests.backends.scripted import served
from tests.factories import agent as says
from tests.factories import did, run, user
from tests.formats.otlp.making import decode_request


def variables(base: str) -> dict[str, str]:
    return {"LANGSMITH_ENDPOINT": base, "LANGSMITH_API_KEY": KEY}


def test_traces_come_whole_page_by_page() -> None:
    with (
        served(Langsmith(*agent(1), *agent(2), page=3)) as server,
        api.open(":memory:") as notebook,
    ):
        added = backends.pull(notebook, "langsmith:shop", variables=variables(server.base))
        found = list(notebook.trajectories())
    assert (added.runs, added.new, added.quarantined) == (2, 2, 0)
    assert {run.source.run_id for run in found} == {run_id(1, 0), run_id(2, 0)}
    for whole in found:
        assert [call.name for step in whole.steps for call in step.calls] == ["find_order"]
        assert [r.status for step in whole.steps for r in step.results] == ["error"]
    # Two roots on one page, then four runs of each trace in two pages.
    assert server.times("POST", "/runs/query") == 1 + 2 * 2
    starts = {asked.json["start_time"] for asked in server.ledger if asked.body}
    assert starts == {"2020-01-01T00:00:00+00:00"}  # else the server lists the last days only


def test_pulling_again_changes_nothing_and_last_takes_late_runs_and_unfinished_traces() -> None:
    first, then = agent(1), agent(2)
    open_root = {**first[0], "end_time": None, "status": "pending"}
    langsmith = Langsmith(open_root, *first[1:3])
    with served(langsmith) as server, api.open(":memory:") as notebook:
        told = variables(server.base)
        backends.pull(notebook, "langsmith:shop", variables=told)
        again = backends.pull(notebook, "langsmith:shop", since="last", variables=told)
        assert (again.new, again.known, again.superseded) == (0, 1, 0)
        for late in then:  # a day later, so that the first trace is out of sight
            late["start_time"] = late["start_time"].replace("01-05", "01-06")
        langsmith.runs += then
        backends.pull(notebook, "langsmith:shop", since="last", variables=told)
        langsmith.runs = [*first, *then]
        backends.pull(notebook, "langsmith:shop", since="last", variables=told)
        last = backends.pull(notebook, "langsmith:shop", since="last", variables=told)
        spans = {run.source.run_id: len(run.spans) for run in notebook.trajectories()}
    assert spans == {run_id(1, 0): 4, run_id(2, 0): 4}
    assert (last.runs, last.new) == (1, 0)


def test_since_leaves_out_what_began_before() -> None:
    with served(Langsmith(*agent(1))) as server, api.open(":memory:") as notebook:
        told = variables(server.base)
        after = backends.pull(notebook, "langsmith:shop", since="2026-01-06", variables=told)
        before = backends.pull(notebook, "langsmith:shop", since="2026-01-05", variables=told)
    assert (after.runs, before.runs) == (0, 1)


def test_what_is_kept_back_is_counted_and_no_address_is_fetched() -> None:
    with served(lambda asked: pytest.fail("an address of a trace was called")) as trap:
        whole = agent(1)
        whole[3]["parent_run_id"] = run_id(1, 9)
        whole[1] |= {"inputs": None, "inputs_s3_urls": {"ROOT": {"presigned_url": trap.base}}}
        whole[2] |= {"s3_urls": {"attachment.a": {"presigned_url": trap.base}}}
        whole[3] |= {"feedback_stats": {"helpful": {"n": 1, "avg": 0.5}}}
        with served(Langsmith(*whole)) as server, api.open(":memory:") as notebook:
            added = backends.pull(notebook, "langsmith:shop", variables=variables(server.base))
        assert trap.ledger == []
    assert added.files[0].withheld == {
        "inputs kept in a file store, not fetched": 1,
        "runs with attachments, which are not fetched": 1,
        "runs with feedback, of which the sums are taken": 1,
        "spans referenced and not returned": 1,
    }


def test_no_such_project_is_said() -> None:
    with served(Langsmith()) as server, api.open(":memory:") as notebook:
        with pytest.raises(UsageError, match="has no project 'shopp'"):
            backends.pull(notebook, "langsmith:shopp", variables=variables(server.base))


def test_runs_and_verdicts_are_sent_once_however_often_they_are_sent(tmp_path: Path) -> None:
    langsmith = Langsmith()
    with served(langsmith) as server, api.open(tmp_path / "s.db") as notebook:
        notebook.store.put([run(user("cancel"), *did("find", "none"), says("no"), id="a" * 32)])
        notebook.score(measures=["termination", "redundant_calls"])
        told = variables(server.base)
        first = backends.send(notebook, "langsmith:shop", variables=told)
        ids = sorted(langsmith.feedback)
        backends.send(notebook, "langsmith:shop", variables=told, again=True)
        third = backends.send(notebook, "langsmith:shop", variables=told)
    assert first.verdicts == len(ids) > 0
    assert (third.runs, third.runs_there, third.verdicts_there) == (0, 1, first.verdicts)
    assert sorted(langsmith.feedback) == ids
    spans = decode_request(langsmith.requests[0], "application/x-protobuf")
    runs = {_run_id(span.span_id) for span in spans}
    assert {feedback["run_id"] for feedback in langsmith.feedback.values()} <= runs
    projects = [a.headers["langsmith-project"] for a in server.ledger if a.path.startswith("/otel")]
    assert projects == ["shop", "shop"]


def test_verdicts_on_pulled_runs_stand_on_their_own_ids() -> None:
    langsmith = Langsmith(*agent(1))
    with served(langsmith) as server, api.open(":memory:") as notebook:
        told = variables(server.base)
        backends.pull(notebook, "langsmith:shop", variables=told)
        notebook.score()
        sent = backends.send(notebook, "langsmith:shop", variables=told)
    assert (sent.runs, sent.runs_there, langsmith.requests) == (0, 1, [])
    about = {feedback["run_id"] for feedback in langsmith.feedback.values()}
    assert run_id(1, 0) in about
    assert about <= {run_id(1, place) for place in range(4)}
    assert all(feedback["key"].startswith("stepscope.") for feedback in langsmith.feedback.values())
