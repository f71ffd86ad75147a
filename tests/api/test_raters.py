"""What judges said in this process is compared as it was judged: panels, rules, both modes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.judges.judgement import JudgeMode, JudgingOptions
from stepscope.model import Json, Reply, Request, Usage
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.settings import Settings
from stepscope.values import Estimate
from tests.judges.asked import Answering
from tests.score.test_judging import runs

CHEAP = PriceTable(input=1.0, output=1.0)
URL = "http://127.0.0.1:9/v1"
TABLE = JudgesTable(
    model={
        "local/one": JudgeTable(family="qwen", base_url=URL, price=CHEAP),
        "local/two": JudgeTable(family="llama", base_url=URL, price=CHEAP),
    }
)
_STEPS = re.compile(r"steps (\d+) to (\d+)|step (\d+)")


def replied(value: Json) -> Reply:
    text = msgspec.json.encode(value).decode()
    usage = Usage(input_total=50, output_total=20)
    return Reply(text=text, stop="end", structure="json_schema", usage=usage)


def axis(label: Callable[[Request], str]) -> Answering:
    """A judge of axes whose label depends on the request."""
    return Answering(
        lambda number, request: replied({
            "evidence": [], "cited_step_indices": [], "rationale": "the run does not say",
            "label": label(request), "confidence": 0.5,
        })
    )  # fmt: skip


def labelling(label: Callable[[int], str]) -> Answering:
    """A judge of steps whose label depends on the step."""

    def answer(number: int, request: Request) -> Reply:
        first, last, only = _STEPS.findall(request.question)[-1]
        steps = [int(only)] if only else range(int(first), int(last) + 1)
        return replied({
            "steps": [
                {"step": step, "explanation": "so it is", "label": label(step), "score": 0.5,
                 "addresses": None}
                for step in steps
            ]
        })  # fmt: skip

    return Answering(answer)


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    with stepscope.open(":memory:", settings=Settings(judges=TABLE)) as opened:
        opened.store.put(runs(6))
        yield opened


def test_a_panel_is_compared_on_every_axis_with_the_rules_beside_it(notebook: Notebook) -> None:
    notebook.score(workers=1)
    models = {
        "local/one": axis(lambda request: "uncertain"),
        "local/two": axis(
            lambda request: "not_applicable" if "A1" in request.context else "uncertain"
        ),
    }
    notebook.judge("axes", judges=list(models), models=models, budget_usd=5.0)
    found = notebook.agreement("axes")
    assert [aspect.name.partition(".")[2] for aspect in found.value[0].aspects] == [
        "argument_validity",
        "result_interpretation",
        "sequencing",
        "termination",
        "tool_selection",
    ]
    pair = found["termination"].pair("local/one", "local/two")
    assert isinstance(pair["raw"], Estimate)
    assert pair["raw"].value == pytest.approx(5 / 6)
    assert [rater.family for rater in found["termination"].raters] == ["llama", "qwen", "rules"]
    disputes = notebook.disputes("axes.termination")
    assert ("shop/1/0", None) in {(one.name, one.step) for one in disputes}


def test_one_judge_in_both_modes_is_compared_step_by_step(notebook: Notebook) -> None:
    both: tuple[tuple[JudgeMode, Answering], ...] = (
        ("contextual", labelling(lambda step: "REDUNDANT" if step == 1 else "PROGRESS")),
        ("isolated", labelling(lambda step: "PROGRESS")),
    )
    for mode, model in both:
        notebook.judge(
            "step_labels",
            judges="local/one",
            models={"local/one": model},
            how=JudgingOptions(mode=mode),
            budget_usd=5.0,
        )
    (modes,) = notebook.modes().value
    assert (modes.judge, modes.n, modes.runs) == ("local/one", 24, 6)
    assert modes.table == {"PROGRESS": {"PROGRESS": 18}, "REDUNDANT": {"PROGRESS": 6}}
    # The isolated answers stand beside the contextual ones; they have not replaced them.
    # Two steps of four are the agent's: the others rate nothing.
    (rater,) = notebook.agreement("step_labels")["step_labels"].raters
    assert rater.labels == {"PROGRESS": 6, "REDUNDANT": 6}
    assert rater.left_out == {"on steps of users, systems or tools": 12}
