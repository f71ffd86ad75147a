"""Ratings that others made, read as a user would: two raters of 366 requirements, and labels.

Expected figures were worked out from the four counts of the table (268 neither, 69 both, 17 and 12
one alone), by the textbook formulas, outside this package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

import stepscope
from bars.measures._labelled_runs import examples_of
from bars.planted.planted import find_proofs, score_by_rules
from stepscope.api import Notebook
from stepscope.measures.step_features import agent_steps
from stepscope.report.suspects import list_suspects
from stepscope.settings import Settings
from stepscope.values import Estimate
from tests.factories import agent, run

pytestmark = pytest.mark.shared_data
HUMAN, AGENT = "human_as_a_judge", "agent_as_a_judge/gray_box"


def judged(shared: Path, judge: str) -> Iterator[dict[str, object]]:
    for path in sorted((shared / "devai/judgment/MetaGPT" / judge).glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8"))["requirements"]:
            yield {
                "task": path.stem,
                "requirement": one["requirement_id"],
                "satisfied": one["satisfied"],
            }


def written(rows: list[dict[str, object]], path: Path) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


@pytest.fixture
def devai(shared: Path, tmp_path: Path) -> Iterator[Notebook]:
    """A store of one run a task, one step a requirement, and what both raters said of each."""
    people, judge = list(judged(shared, HUMAN)), list(judged(shared, AGENT))
    steps: dict[str, int] = {}
    for row in (*people, *judge):
        steps[str(row["task"])] = max(
            steps.get(str(row["task"]), 0), int(str(row["requirement"])) + 1
        )
    with stepscope.open(":memory:", settings=Settings()) as notebook:
        notebook.store.put(
            run(*[agent(f"requirement {n}") for n in range(count)], id=name, name=name, task=name)
            for name, count in steps.items()
        )
        columns = {"run": "task", "step": "requirement", "label": "satisfied"}
        for rows, rater, human in ((people, "people", True), (judge, "agent-as-a-judge", False)):
            found = notebook.add_verdicts(
                written(rows, tmp_path / f"{rater}.jsonl"),
                columns=columns,
                labels={"true": "met", "false": "unmet"},
                rubric="requirements",
                rater=rater,
                human=human,
            )
            assert (found.new, found.quarantined) == (366, {})
        yield notebook


def test_two_raters_of_development_tasks_agree_as_far_as_their_counts_say(
    devai: Notebook,
) -> None:
    found = devai.agreement("requirements")["requirements"]
    pair = found.pair("agent-as-a-judge", "people")
    expected = {
        "raw": 0.9207650,
        "kappa": 0.7750795,
        "fleiss": 0.7750199,
        "alpha": 0.7753272,
        "gwet": 0.8776886,
        "pabak": 0.8415300,
    }
    values = {name: figure.value for name in expected if isinstance(figure := pair[name], Estimate)}
    assert values == pytest.approx(expected, abs=1e-6)
    assert (found.unit, found.items, found.runs) == ("steps", 366, 55)
    assert pair.prevalence == pytest.approx(0.5437158, abs=1e-6)
    assert pair.bias == pytest.approx(0.0136612, abs=1e-6)
    assert found.decision.outcome == "pass"


def test_the_29_requirements_that_both_saw_differently_are_the_queue(devai: Notebook) -> None:
    disputes = devai.disputes()
    assert len(disputes) == 29
    assert {one.use for one in disputes} == {"tuning"}


def test_failure_labels_that_count_from_1_find_their_steps(shared: Path, tmp_path: Path) -> None:
    labelled = json.loads(
        (shared / "agentrx-retail/failure_labels.json").read_text(encoding="utf-8")
    )
    rows = [
        {"run": f"retail/{one['trajectory_id']}/0", **failure}
        for one in labelled
        for failure in one["failures"]
    ]
    with stepscope.open(":memory:", settings=Settings()) as notebook:
        notebook.add(shared / "agentrx-retail" / "runs.json")
        names = set(notebook.store.runs().name.tolist())
        for row in rows:
            task = str(row["run"]).split("/")[1]
            row["run"] = next((n for n in names if n.split("/")[1] == task), row["run"])
        found = notebook.add_verdicts(
            written(rows, tmp_path / "labels.jsonl"),
            columns={
                "step": "step_number-1",
                "label": "failed_agent",
                "reason": "step_reason",
            },
            labels={"Assistant": "agent", "User": "user"},
            rubric="attribution.whose",
            rater="AgentRx",
            human=True,
        )
        assert (found.rows, found.new, found.quarantined) == (18, 17, {"unknown run": 1})
        records = list(notebook.store.records(measure="judge.attribution.whose"))
        assert sum(r.answer.label == "agent" for r in records) == 10  # type: ignore[union-attr]
        assert {r.family for r in records} == {"human"}


def test_a_judge_of_development_tasks_stands_beside_people_with_the_published_figures(
    devai: Notebook,
) -> None:
    found = devai.calibrate_judge("requirements")["agent-as-a-judge"]
    values = {name: one.value for name, one in found.figures.items() if isinstance(one, Estimate)}
    assert (values["accuracy"], values["kappa"]) == pytest.approx((0.9207650, 0.7750795), abs=1e-6)
    assert (found.n, found.runs, found.people) == (366, 55, ("people",))
    assert found.confusion == ((69, 12), (17, 268))
    assert (values["recall.met"], values["recall.unmet"]) == pytest.approx((69 / 81, 268 / 285))
    assert found.decision.outcome == "pass"


def test_suspects_beside_public_labels_are_right_as_often_as_the_bar_counts(shared: Path) -> None:
    """Of the list that is printed: `bars.measures` reads runs and labels in a way of its own."""
    ranks, counts = [], np.zeros((2, 2), np.int64)
    for name in ("whowhen-algorithm", "whowhen-handcrafted"):
        for made, named in examples_of(shared)[name]:
            records = score_by_rules(made, None)
            shown = list_suspects(made, made.case, records).suspects
            proved = {proof.step for proof in find_proofs(records)}
            for step in agent_steps(made) if {*named} & {*agent_steps(made)} else ():
                counts[int(step not in named), int(step not in proved)] += 1
            order = [one.first for one in shown]
            ranks += [order.index(step) for step in sorted(named) if step in order][:1]
    with stepscope.open(":memory:", settings=Settings()) as notebook:
        for folder in ("algorithm-generated", "hand-crafted"):
            notebook.add(shared / "whowhen" / folder)
        notebook.score()
        judges = notebook.calibrate_judge()
    found, rules = judges["localise"], judges["rules"]
    assert found.n == len(ranks) == 89
    for name, most in (("first", 1), ("among_three", 3), ("among_five", 5)):
        figure = found.figures[name]
        assert isinstance(figure, Estimate)
        assert round(figure.value * figure.n) == sum(rank < most for rank in ranks)
    assert (rules.n, rules.runs) == (counts.sum(), 89)
    assert rules.confusion == tuple(map(tuple, counts.tolist()))
    assert counts[:, 0].sum() > 0
    for name, total in (("precision", counts[:, 0].sum()), ("recall.named", counts[0].sum())):
        figure = rules.figures[name]
        assert isinstance(figure, Estimate)
        assert (figure.value, figure.n) == (counts[0, 0] / total, total)
