from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from stepscope import api
from stepscope.api.notebook import Notebook
from stepscope.errors import ConfigError, UsageError
from stepscope.judges.judgement import JudgingOptions
from stepscope.model import Case, Record, Reply, Request, Usage, Verdict
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.settings import Settings
from stepscope.values import Estimate, Unmeasured
from tests.factories import goal, run, user
from tests.judges.asked import Answering
from tests.score.test_judging import runs, said

TABLE = JudgesTable(
    model={
        "local/tiny": JudgeTable(
            family="qwen",
            base_url="http://127.0.0.1:9/v1",
            price=PriceTable(input=1_000.0, output=1_000.0),
        )
    }
)
NAME = "local/tiny"


def opened(path: Path) -> Notebook:
    notebook = api.open(path, settings=Settings(judges=TABLE))
    notebook.store.put(runs(4))
    return notebook


def test_a_notebook_judges_and_its_ledger_lies_beside_the_store(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as notebook:
        models = {NAME: Answering(said)}
        found = notebook.judge(judges=NAME, models=models, budget_usd=5_000.0)
        assert found.ran.records == 20
        # 70 tokens at a thousand dollars a million.
        assert found.ran.usd == pytest.approx(1.4)
        assert len(list(notebook.records())) == 20
    assert (tmp_path / "runs.db.judges.db").is_file()


def test_the_budget_of_the_settings_holds(tmp_path: Path) -> None:
    model = Answering(said)
    with opened(tmp_path / "runs.db") as notebook:
        found = notebook.judge(judges=NAME, models={NAME: model}).ran
        assert (model.asked, found.failed) == ([], {"budget": 20})


def test_what_it_would_cost_needs_no_key_and_makes_no_ledger(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as notebook:
        found = notebook.judge_cost(["axes.termination", "axes.sequencing"], judges=NAME)
    assert (found.calls, found.budget_usd) == (8, 5.0)
    assert not (tmp_path / "runs.db.judges.db").exists()


def test_a_sample_is_drawn_once_and_kept(tmp_path: Path) -> None:
    model = Answering(said)
    with opened(tmp_path / "runs.db") as notebook:
        for sample in (2, 3):
            notebook.judge(
                "axes.termination",
                judges=NAME,
                models={NAME: model},
                how=JudgingOptions(sample=sample),
                budget_usd=5_000.0,
            )
        # The larger sample holds the smaller one.
        assert len(model.asked) == 3
        assert set(notebook.store.drawn("axes.termination").values()) == {0.75}
        judged = {record.trajectory for record in notebook.records()}
        assert set(notebook.store.drawn("axes.termination")) == judged


def test_goals_are_drafted_for_the_task_that_they_are_looked_up_by(tmp_path: Path) -> None:
    case = Case(workflow="elsewhere", task="9", subgoals=(goal("get_order"),))
    with opened(tmp_path / "runs.db") as notebook:
        notebook.store.put([run(user("where is it?"), id="g", name="g", task="2", case=case)])
        draft = notebook.propose_goals()
    assert 'workflow = "shop"\ntask = "2"\n' in draft.text
    assert (draft.tasks, draft.without_subgoals) == (1, 4)


def test_findings_count_verdicts_and_say_the_mode(tmp_path: Path) -> None:
    measure = "judge.axes.termination"
    one = Record(
        trajectory="r0",
        answer=Verdict(measure, label="incorrect", cites=(3,)),
        version="2",
        family="qwen",
        judge=NAME,
        rubric="axes.termination",
    )
    absent = replace(one, trajectory="r1", answer=Unmeasured("unparsable", "off_menu", measure))
    off = replace(one, version="2+narration-off", answer=Verdict(measure, label="correct"))
    with opened(tmp_path / "runs.db") as notebook:
        notebook.store.append([one, absent, off])
        assert list(map(str, notebook.judge_findings("axes.termination"))) == [
            "local/tiny, axes.termination: faults in 1 of 1 runs, as in shop/0/0 at step 3",
            "local/tiny, axes.termination narration-off: faults in 0 of 1 runs",
        ]


def scored(run: str, value: float, step: int) -> Record:
    answer = Verdict("scores", value, step=step, cites=(step,))
    return Record(
        trajectory=run, answer=answer, version="2", family="qwen", judge=NAME, rubric="no_look"
    )


def test_a_score_in_the_lowest_band_is_a_finding(tmp_path: Path) -> None:
    held = [scored("r0", 0.9, 1), scored("r0", 0.2, 3), scored("r1", 0.3, 1)]
    with opened(tmp_path / "runs.db") as notebook:
        notebook.store.append(held)
        (found,) = notebook.judge_findings("no_look")
    assert str(found) == ("local/tiny, no_look: faults in 1 of 2 runs, as in shop/0/0 at step 3")


def labelled(number: int, request: Request) -> Reply:
    """Say PROGRESS of every step that is asked about."""
    listed = request.question.rpartition("order: ")[2].rstrip(".").split(", ")
    entry = {"quote": "", "explanation": "so", "label": "PROGRESS", "score": 0.5, "addresses": None}
    text = json.dumps({"steps": [{"step": int(step), **entry} for step in listed]})
    usage = Usage(input_total=50, output_total=20)
    return Reply(text=text, stop="end", structure="json_schema", usage=usage, model="tiny")


def test_rejudging_says_which_of_the_steps_turned(tmp_path: Path) -> None:
    old = [
        Record(
            trajectory=f"r{at}",
            answer=Verdict("judge.step_labels", 0.5, label, step, (step,)),
            version="1",
            family="qwen",
            judge=NAME,
            rubric="step_labels",
            prompt="of version 1",
        )
        for at in range(4)
        for step, label in ((1, "PROGRESS"), (2, "PROGRESS"), (3, "ERROR" if at else "PROGRESS"))
    ]
    with api.open(tmp_path / "runs.db", settings=Settings(judges=TABLE)) as notebook:
        notebook.store.put(replace(one, task=one.id) for one in runs(4))
        notebook.store.append(old)
        model = Answering(labelled)
        done = notebook.rejudge("step_labels", models={NAME: model}, budget_usd=5_000.0)
    (turned,) = done.turned
    assert isinstance(turned.changed, Estimate)
    # Steps 1 and 3 are the agent's: nothing is said of step 2 today.
    assert (turned.changed.value, turned.changed.n) == (3 / 8, 8)
    assert "of 8 steps changed\n  shop/1/0 step 3: ERROR -> PROGRESS\n" in str(turned)


def test_a_prompt_is_shown_though_another_version_of_its_rubric_was_answered(
    tmp_path: Path,
) -> None:
    answer = Verdict("judge.axes.termination", label="correct")
    old = Record(trajectory="r0", answer=answer, version="1", family="qwen", judge=NAME)
    with opened(tmp_path / "runs.db") as notebook:
        notebook.store.append([old])
        (shown,) = notebook.judge_requests("axes.termination", judges=NAME, run="shop/0/0")
    assert shown.rubric == "axes.termination"


def test_purging_a_run_erases_its_replies(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as notebook:
        notebook.judge(judges=NAME, models={NAME: Answering(said)}, budget_usd=5_000.0)
        purged = notebook.purge(where="name = 'shop/1/0'")
        assert purged.replies == 5
        assert "5 replies of judges" in str(purged)
        assert purged.remains[-1].endswith("20 questions to judges, their prices and states")
        assert len(list(notebook.ledger.replies())) == 15


def test_nobody_and_nothing_and_no_times_make_no_sense(tmp_path: Path) -> None:
    with opened(tmp_path / "runs.db") as notebook:
        with pytest.raises(UsageError, match="no judge is named"):
            notebook.judge(judges=[])
        with pytest.raises(UsageError, match="no rubric is named"):
            notebook.judge([], judges=NAME)
        with pytest.raises(UsageError, match="repeats is 0; expected 1 or more"):
            notebook.judge(judges=NAME, how=JudgingOptions(repeats=0))
        with pytest.raises(ConfigError, match="family"):
            notebook.judge(judges="nobody/knows-this")
