from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import EnvironmentFault, ModelError
from stepscope.judges.goals import Goal, Goals
from stepscope.judges.judgement import Judge, JudgingOptions
from stepscope.judges.rubrics import Rubric, load_rubric, load_rubric_set
from stepscope.judges.transcript import Narration
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import CallClients
from stepscope.ledger.ledger import Ledger
from stepscope.measures.facts import DeclaredConduct
from stepscope.model import Model, Record, Reply, Request, ToolDef, Trajectory, Usage, Verdict
from stepscope.score import score_runs
from stepscope.score.judges import JudgePlan, JudgingResult, dry_run, judge_runs
from stepscope.store import Store
from stepscope.store.where import Where, parse_where
from stepscope.values import Unmeasured
from tests.factories import FAILED, PASSED, agent, did, run, user
from tests.judges.asked import JUDGE, Answering, Prices, patience

AXES = load_rubric_set("axes")
TERMINATION = (load_rubric("axes.termination"),)
SAID = {
    "evidence": [],
    "cited_step_indices": [],
    "rationale": "the recording does not say",
    "label": "uncertain",
    "confidence": 0.5,
}


def said(number: int, request: Request) -> Reply:
    text = msgspec.json.encode(SAID).decode()
    usage = Usage(input_total=50, output_total=20)
    return Reply(text=text, stop="end", structure="json_schema", usage=usage, model="tiny")


def runs(count: int) -> Iterator[Trajectory]:
    for at in range(count):
        steps = (user("cancel my order please"), *did("cancel", "cancelled", id=f"A{at}"))
        outcome = FAILED if at % 2 else PASSED
        yield run(*steps, agent("done"), id=f"r{at}", name=f"shop/{at}/0", outcome=outcome)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        opened.put(runs(4))
        yield opened


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger(":memory:") as opened:
        yield opened


def access(
    ledger: Ledger,
    model: Model | None = None,
    *,
    budget: Budget = Budget(limit_usd=100.0),  # noqa: B008 (frozen)
    concurrency: int = 4,
) -> CallClients:
    models = {} if model is None else {"local/tiny": model}
    return CallClients(
        models, patience(), Prices(), ledger, budget, concurrency, grace_seconds=60.0
    )


def asking(
    store: Store,
    rubrics: Sequence[Rubric] = TERMINATION,
    *,
    where: Where | None = None,
    options: JudgingOptions = JudgingOptions(),  # noqa: B008 (frozen)
    drawn: Mapping[str, Container[str]] = {},
) -> JudgePlan:
    return JudgePlan(
        store, rubrics=tuple(rubrics), judges=(JUDGE,), where=where, options=options, drawn=drawn
    )


def test_every_rubric_is_asked_of_every_run_and_kept(store: Store, ledger: Ledger) -> None:
    model = Answering(said)
    found = judge_runs(asking(store, AXES), access(ledger, model))
    assert (found.runs, found.ran.judgements, found.ran.records) == (4, 20, 20)
    kept = list(store.records(measure="judge.axes.termination"))
    assert [record.trajectory for record in kept] == ["r0", "r1", "r2", "r3"]
    assert {record.family for record in kept} == {"qwen"}
    assert {record.judge for record in kept} == {"local/tiny"}
    assert {record.cost_usd for record in kept} == {0.125}


def test_what_was_said_is_not_asked_again(store: Store, ledger: Ledger) -> None:
    judge_runs(asking(store, AXES), access(ledger, Answering(said)))
    before = list(store.records())
    again = judge_runs(asking(store, AXES), access(ledger, None))
    assert (again.ran.bought, again.ran.from_ledger) == (0, 20)
    assert list(store.records()) == before


def test_a_store_that_lost_its_records_gets_them_back_unpaid(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "runs.db"
    with Store.open(path) as store:
        store.put(runs(2))
        judge_runs(asking(store), access(ledger, Answering(said)))
        before = list(store.records())
        lost = sqlite3.connect(path)
        lost.execute("DELETE FROM records")
        lost.commit()
        lost.close()
        found = judge_runs(asking(store), access(ledger, None))
        assert (found.ran.bought, found.ran.records) == (0, 2)
        assert list(store.records()) == before


def test_axes_of_one_run_share_one_beginning_and_stand_together(
    store: Store, ledger: Ledger
) -> None:
    model = Answering(said)
    judge_runs(asking(store, AXES), access(ledger, model, concurrency=1))
    contexts = [request.context for request in model.asked]
    assert len(set(contexts)) == 4
    for at in range(0, 20, 5):
        assert len(set(contexts[at : at + 5])) == 1
    assert len({request.system for request in model.asked}) == 1


def test_repeats_differ_by_repeat_alone(store: Store, ledger: Ledger) -> None:
    judge_runs(asking(store, options=JudgingOptions(repeats=3)), access(ledger, Answering(said)))
    kept = [record for record in store.records() if record.trajectory == "r0"]
    assert [record.repeat for record in kept] == [0, 1, 2]
    assert len({record.prompt for record in kept}) == 1


def test_attribution_is_asked_of_failed_runs_alone(store: Store, ledger: Ledger) -> None:
    model = Answering(said)
    found = judge_runs(asking(store, [load_rubric("attribution")]), access(ledger, model))
    assert found.unasked == {"not_applicable": 2}
    assert {request.question[:4] for request in model.asked} == {"The "}
    asked = {record.trajectory: record.answer for record in store.records()}
    for passed in ("r0", "r2"):
        answer = asked[passed]
        assert isinstance(answer, Unmeasured)
        assert answer.kind == "not_applicable"


def test_why_nobody_was_asked_gives_way_to_an_answer(store: Store, ledger: Ledger) -> None:
    short = Judge(name="local/tiny", family="qwen", context_tokens=100, max_output_tokens=50)
    narrow = JudgePlan(store, rubrics=TERMINATION, judges=(short,))
    found = judge_runs(narrow, access(ledger, Answering(said)))
    assert (found.unasked, found.ran.bought) == ({"too_long": 4}, 0)
    answers = [record.answer for record in store.records()]
    assert [answer.kind for answer in answers if isinstance(answer, Unmeasured)] == [
        "missing_input"
    ] * 4
    judge_runs(asking(store), access(ledger, Answering(said)))
    answers = [record.answer for record in store.records()]
    assert [answer.label for answer in answers if isinstance(answer, Verdict)] == ["uncertain"] * 4
    assert len(answers) == 4


def test_a_run_without_goals_is_counted_and_is_no_scored_run(store: Store, ledger: Ledger) -> None:
    confirmed = Goal(goal="The order is cancelled.", steps=(2,), confirmed=True)
    goals = Goals("goals.toml", {"shop/0/0": (confirmed,)}, {})

    def score(number: int, request: Request) -> Reply:
        text = '{"rationale": "it says so", "score": 0.9}'
        return msgspec.structs.replace(said(number, request), text=text)

    options = JudgingOptions(goals=goals)
    asked = asking(store, [load_rubric("no_look")], options=options)
    found = judge_runs(asked, access(ledger, Answering(score)))
    assert found.unasked == {"no_goals": 3}
    (kept,) = store.records(measure="scores")
    # Told by its result, an exchange is scored at its call.
    assert (kept.trajectory, kept.answer.step) == ("r0", 1)


def test_narration_off_is_another_version(store: Store, ledger: Ledger) -> None:
    modes: tuple[Narration, ...] = ("on", "off")
    for narration in modes:
        options = JudgingOptions(narration=narration)
        judge_runs(asking(store, options=options), access(ledger, Answering(said)))
    kept = [record for record in store.records() if record.trajectory == "r0"]
    assert [record.version for record in kept] == ["2", "2+narration-off"]
    assert len({record.prompt for record in kept}) == 2


def test_an_axis_whose_evidence_is_narration_is_not_asked_without_it(
    store: Store, ledger: Ledger
) -> None:
    options = JudgingOptions(narration="off")
    model = Answering(said)
    found = judge_runs(asking(store, AXES, options=options), access(ledger, model))
    assert found.unasked == {"narration_off": 8}
    asked = {request.question.split("By the rubric ")[-1].split(":")[0] for request in model.asked}
    assert asked == {"axes.tool_selection", "axes.argument_validity", "axes.sequencing"}
    absent = [record.answer for record in store.records(measure="judge.axes.termination")]
    assert len(absent) == 4
    assert all(isinstance(answer, Unmeasured) for answer in absent)


def test_an_axis_asked_alone_after_its_set_is_not_bought_again(
    store: Store, ledger: Ledger
) -> None:
    first = judge_runs(asking(store, AXES), access(ledger, Answering(said)))
    records = sorted(map(str, store.records()))
    alone = judge_runs(asking(store, AXES[1:2]), access(ledger, Answering(said)))
    assert (first.ran.bought, alone.ran.bought, alone.ran.from_ledger) == (20, 0, 4)
    assert sorted(map(str, store.records())) == records


def test_a_sample_asks_of_the_runs_that_were_drawn(store: Store, ledger: Ledger) -> None:
    drawn = {"axes.termination": {"r1", "r3"}}
    judge_runs(asking(store, AXES[-1:], drawn=drawn), access(ledger, Answering(said)))
    assert {record.trajectory for record in store.records()} == {"r1", "r3"}


def test_purged_runs_are_left_out_and_counted(store: Store, ledger: Ledger) -> None:
    store.purge(parse_where("name = 'shop/1/0'"))
    found = judge_runs(asking(store), access(ledger, Answering(said)))
    assert (found.runs, found.purged) == (3, 1)
    assert "1 runs left out: their texts are erased" in str(found)


def test_it_works_within_a_running_loop(store: Store, ledger: Ledger) -> None:
    async def notebook() -> JudgingResult:
        return judge_runs(asking(store), access(ledger, Answering(said)))

    assert asyncio.run(notebook()).ran.records == 4


class Full(Store):
    """A store on a disk that is full."""

    def append(self, batch: Sequence[Record]) -> int:
        if batch:
            raise EnvironmentFault("the disk is full")
        return 0


def test_a_store_that_fails_ends_the_run_with_its_error(ledger: Ledger) -> None:
    with Full.open(":memory:") as store:
        store.put(runs(4))
        with pytest.raises(EnvironmentFault, match="the disk is full"):
            judge_runs(asking(store, AXES), access(ledger, Answering(said)))
    assert ledger.states() == {"received": 20}


def test_a_dry_run_says_what_would_be_bought_and_sends_nothing(
    store: Store, ledger: Ledger
) -> None:
    first = asking(store, where=parse_where("name = 'shop/0/0'"))
    judge_runs(first, access(ledger, Answering(said)))
    found = dry_run(asking(store), prices=Prices(), ledger=ledger, budget_usd=5.0)
    (row,) = found.rows
    assert (row.judge, row.rubric) == ("local/tiny", "axes.termination")
    assert (row.judgements, row.calls, row.bought) == (4, 4, 1)
    assert (row.worst_usd, row.likely_usd) == (0.75, 0.375)
    assert (found.calls, found.worst_usd, found.budget_usd) == (3, 0.75, 5.0)
    assert "3 calls to buy; likely $0.3750, at worst $0.7500; budget $5.00" in str(found)
    unknown = dry_run(asking(store), prices=Prices(None, None), ledger=None, budget_usd=None)
    assert (unknown.worst_usd, unknown.calls) == (None, 4)
    assert "likely unknown" in str(unknown)


def test_the_price_of_labels_is_that_of_the_agents_steps(store: Store) -> None:
    """Of four steps two are the agent's: 40 tokens and 50 for each of these, 25 of a behaviour."""
    rubrics = (load_rubric("step_labels"), load_rubric("behaviour.sycophancy"))
    rows = dry_run(asking(store, rubrics), prices=Prices(), ledger=None, budget_usd=None).rows
    assert [row.output_tokens for row in rows] == [4 * (40 + 2 * 50), 4 * (60 + 2 * 25)]


def _stopped(path: Path, interrupts: int, number: str = "SIGINT") -> list[str]:
    told = subprocess.run(
        [sys.executable, "-m", "tests.score.interrupted", str(path), str(interrupts), number],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.stderr == ""
    return told.stdout.splitlines()


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_stop_keeps_what_was_sent_and_the_next_run_goes_on(tmp_path: Path, number: str) -> None:
    path = tmp_path / "runs.db"
    assert _stopped(path, 1, number) == [
        "stopping",
        "stopped: True, everything sent kept: True",
        "stopped; received replies are kept: run the same command again to resume",
    ]
    with Store.open(path) as store, Ledger(f"{path}.judges.db") as ledger:
        kept = sum(ledger.states().get(state, 0) for state in ("received", "verdict"))
        found = judge_runs(asking(store, AXES), access(ledger, Answering(said)))
        assert (found.ran.from_ledger, found.ran.bought) == (kept, 100 - kept)
        assert found.ran.unknown == ()
        assert len(list(store.records())) == 100


def test_ctrl_c_twice_leaves_at_once_and_lists_what_was_sent(tmp_path: Path) -> None:
    assert _stopped(tmp_path / "runs.db", 2) == ["stopping", "aborted, 4 of unknown outcome"]


def test_calls_of_unknown_outcome_are_listed_one_by_one(store: Store, ledger: Ledger) -> None:
    broken = ModelError("the connection broke", again=False)
    model = Answering(lambda number, request: broken)
    told = str(judge_runs(asking(store, AXES), access(ledger, model)))
    assert "20 calls of unknown outcome, perhaps paid twice, counted as $5.0000" in told
    line = "  r0 local/tiny, sending 1, $0.2500: the connection broke, or the answer was none"
    assert told.count(line) == 5


def test_calls_that_asking_about_canaries_finds_are_told_too(store: Store, ledger: Ledger) -> None:
    died = "INSERT INTO unknown (key, trajectory, judge, attempt, worst, budget, why, run, at_ns)"
    ledger._db.execute(died + " VALUES ('k', 'r9', 'local/tiny', 1, 5, 'b', 'killed', 'gone', 0)")
    asked = asking(store, AXES, options=JudgingOptions(canaries=True))
    found = judge_runs(asked, access(ledger, Answering(said)))
    assert [one.subject for one in found.ran.unknown] == ["r9"]


def test_the_handler_of_ctrl_c_is_put_back(store: Store, ledger: Ledger) -> None:
    before = signal.getsignal(signal.SIGINT)
    judge_runs(asking(store), access(ledger, Answering(said)))
    assert signal.getsignal(signal.SIGINT) is before


# The stop is delivered to another thread: it interrupts nothing that the main thread waits for,
# as one that comes just before the main thread begins to wait.
_STOPPED_ELSEWHERE = """
import signal, threading, time
from stepscope.score.judges import CallerThread

caller = CallerThread()
signal.signal(signal.SIGINT, lambda number, frame: caller.end())

def stop():
    time.sleep(0.3)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=stop, daemon=True).start()
caller.serve()
print("heard")
"""


def test_a_stop_that_interrupts_nothing_is_heard() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STOPPED_ELSEWHERE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout == "heard\n", ended.stderr


def test_judges_read_the_tool_list_and_policy_of_the_settings(store: Store, ledger: Ledger) -> None:
    policy = {"shop": "Refund within 30 days."}
    listed = DeclaredConduct(tools={"shop": (ToolDef("refund_all"),)}, instructions=policy)
    score_runs(store, declared=listed)
    heard: list[str] = []

    def answer(number: int, request: Request) -> Reply:
        heard.append(request.context)
        return said(number, request)

    judge_runs(asking(store), access(ledger, Answering(answer)))
    assert len(heard) == 4
    assert all("refund_all" in text and "Refund within 30 days." in text for text in heard)
