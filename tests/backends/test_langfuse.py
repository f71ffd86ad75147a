from __future__ import annotations

from pathlib import Path

import pytest

from stepscope import api, backends
from stepscope.errors import ConfigError
from tests.backends.langfuse_server import PUBLIC, SECRET, Langfuse, agent, observation
from tests.backends.scripted import Answer, Asked, served
from tests.factories import agent as says
from tests.factories import did, run, user
from tests.formats.otlp.making import decode_request


def variables(base: str) -> dict[str, str]:
    return {
        "LANGFUSE_HOST": base,
        "LANGFUSE_PUBLIC_KEY": PUBLIC,
        "LANGFUSE_SECRET_KEY": SECRET,
    }


def test_traces_come_whole_page_by_page_with_scores_and_metadata() -> None:
    langfuse = Langfuse(*agent("t1"), *agent("t2"), page=3)
    langfuse.scores["s1"] = {
        "id": "s1",
        "name": "helpful",
        "value": 0.5,
        "dataType": "NUMERIC",
        "source": "ANNOTATION",
        "subject": {"kind": "observation", "id": "t1-2", "traceId": "t1"},
    }
    with served(langfuse) as server, api.open(":memory:") as notebook:
        added = backends.pull(notebook, "langfuse:", variables=variables(server.base))
        found = {run.name: run for run in notebook.trajectories()}
    assert (added.runs, added.new, added.quarantined) == (2, 2, 0)
    assert sorted(found) == ["t1", "t2"]
    assert [(s.actor, [c.name for c in s.calls]) for s in found["t1"].steps] == [
        ("user", []),
        ("agent", ["find_order"]),
        ("environment", []),
        ("agent", []),
    ]
    (result,) = found["t1"].steps[2].results
    assert (result.status, result.source) == ("error", "explicit")
    assert "x" * 300 in str(found["t1"].spans)  # metadata asked for by its key
    assert [label.step for label in found["t1"].labels] == [2]
    assert len(found["t2"].labels) == 0
    # The list in three pages of three, then for each trace the whole of it twice, in two pages.
    assert server.times("GET", "/api/public/v2/observations") == 3 + 2 * 2 * 2


def test_pulling_again_changes_nothing_and_last_takes_late_spans() -> None:
    whole = agent("t1")
    langfuse = Langfuse(*whole[:2], whole[3])
    with served(langfuse) as server, api.open(":memory:") as notebook:
        told = variables(server.base)
        backends.pull(notebook, "langfuse:", variables=told)
        again = backends.pull(notebook, "langfuse:", since="last", variables=told)
        assert (again.new, again.known, again.superseded) == (0, 1, 0)
        langfuse.observations += [whole[2], *agent("t2")]
        late = backends.pull(notebook, "langfuse:", since="last", variables=told)
        assert (late.new, late.superseded) == (2, 1)
        counts = {run.name: len(run.spans) for run in notebook.trajectories()}
    assert counts == {"t1": 4, "t2": 4}
    firsts = [
        asked.query["fromStartTime"] for asked in server.ledger if "fromStartTime" in asked.query
    ]
    assert firsts == [["2026-01-05T09:00:03+00:00"]] * 2  # an hour behind the newest


def test_what_is_kept_back_is_counted() -> None:
    orphan = observation("x", "t3", 5, type="TOOL", name="f", parentObservationId="gone")
    odd = observation("y", "t3", 6, metadata={"a,b": "x" * 300})
    with (
        served(Langfuse(orphan, {**odd, "traceId": "t3"})) as server,
        api.open(":memory:") as notebook,
    ):
        added = backends.pull(notebook, "langfuse:", variables=variables(server.base))
    assert added.files[0].withheld == {
        "metadata cut to 200 characters": 1,
        "spans referenced and not returned": 1,
        "observations without input and output": 1,
    }
    assert "withheld by the source: metadata cut to 200 characters 1" in str(added)


def test_a_pull_that_breaks_off_keeps_what_came_and_goes_on() -> None:
    langfuse = Langfuse(*[one for n in range(25) for one in agent(f"t{n:02}")])

    def breaks(asked: Asked) -> Answer:
        if asked.query.get("traceId") == ["t22"]:
            return Answer({"message": "out of order"}, 500)
        return langfuse(asked)

    with api.open(":memory:") as notebook:
        with served(breaks) as server, pytest.raises(Exception, match=r"500: .*out of order"):
            backends.pull(notebook, "langfuse:", variables=variables(server.base))
        assert notebook.count() == 20
        with served(langfuse) as server:
            added = backends.pull(
                notebook, "langfuse:", since="last", variables=variables(server.base)
            )
        assert notebook.count() == 25
    assert (added.new, added.known) == (5, 20)


def test_a_wrong_key_is_said_by_its_variable() -> None:
    with served(Langfuse()) as server, api.open(":memory:") as notebook:
        told = {**variables(server.base), "LANGFUSE_SECRET_KEY": "sk-lf-another-secret"}
        with pytest.raises(ConfigError, match=r"401: .*check LANGFUSE_PUBLIC_KEY and") as raised:
            backends.pull(notebook, "langfuse:", variables=told)
    assert "another" not in str(raised.value)


def test_runs_and_verdicts_are_sent_once_however_often_they_are_sent(tmp_path: Path) -> None:
    langfuse = Langfuse()
    with served(langfuse) as server, api.open(tmp_path / "s.db") as notebook:
        notebook.store.put([run(user("cancel"), *did("find", "none"), says("no"), id="a" * 32)])
        notebook.score(measures=["termination", "redundant_calls"])
        told = variables(server.base)
        first = backends.send(notebook, "langfuse:", variables=told)
        ids = sorted(langfuse.scores)
        again = backends.send(notebook, "langfuse:", variables=told, again=True)
        third = backends.send(notebook, "langfuse:", variables=told)
    assert (first.runs, first.spans) == (1, 4)
    assert first.verdicts == len(ids) > 0
    assert (again.runs, again.verdicts) == (1, first.verdicts)
    assert (third.runs, third.runs_there, third.verdicts_there) == (0, 1, first.verdicts)
    assert sorted(langfuse.scores) == ids
    spans = [decode_request(body, "application/json") for body in langfuse.requests]
    assert [s.span_id for s in spans[0]] == [s.span_id for s in spans[1]]
    subjects = {score["subject"]["traceId"] for score in langfuse.scores.values()}
    assert subjects == {spans[0][0].trace_id}


def test_verdicts_on_pulled_runs_stand_on_their_own_ids_and_do_not_come_back() -> None:
    langfuse = Langfuse(*agent("t1"))
    with served(langfuse) as server, api.open(":memory:") as notebook:
        told = variables(server.base)
        backends.pull(notebook, "langfuse:", variables=told)
        notebook.score()
        sent = backends.send(notebook, "langfuse:", variables=told)
        back = backends.pull(notebook, "langfuse:", variables=told)
        (kept,) = notebook.trajectories()
    assert (sent.runs, sent.runs_there, langfuse.requests) == (0, 1, [])
    places = {score["subject"]["id"] for score in langfuse.scores.values()}
    assert places <= {"t1", "t1-root", "t1-1", "t1-2", "t1-3"}
    assert "t1" in places
    assert back.files[0].withheld["verdicts of ours, left there"] == sent.verdicts
    assert kept.labels == ()
