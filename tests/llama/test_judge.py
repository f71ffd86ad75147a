"""A real llama.cpp server as a judge, from a notebook to the records."""

from __future__ import annotations

import msgspec
import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.judges.judgement import JudgingOptions
from stepscope.judges.rubrics import answer_schema, load_rubric
from stepscope.model import Structure, Verdict
from stepscope.models.dialect import find_schema_fault
from stepscope.score.judges import JudgingResult
from stepscope.settings import Settings
from tests.llama import environment
from tests.llama.judged import JUDGE, RUNS, replies, settings

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(environment.python() is None, reason=environment.MISSING),
]
RUBRIC = "axes.termination"


def judged(told: Settings, *, runs: int, repeats: int = 1) -> tuple[JudgingResult, Notebook]:
    """Judge the shortest bundled runs on one axis."""
    opened = stepscope.open(":memory:", settings=told)
    opened.add(RUNS)
    shortest = sorted(opened.store.trajectories(), key=lambda one: (len(one.steps), one.id))
    chosen = frozenset(one.id for one in shortest[:runs])
    how = JudgingOptions(repeats=repeats, only={RUBRIC: chosen})
    return opened.judge(RUBRIC, judges=JUDGE, how=how), opened


def test_every_reply_of_a_real_server_fits_the_schema_and_says_its_tokens(llama: str) -> None:
    found, opened = judged(settings(llama), runs=2, repeats=2)
    with opened:
        ran = found.ran
        assert (ran.judgements, ran.failed, ran.ignored_schema) == (4, {}, {})
        schema = answer_schema(load_rubric(RUBRIC))
        kept = replies(opened.ledger)
        texts = [msgspec.json.decode(reply.text) for reply in kept]
        assert [find_schema_fault(text, schema) for text in texts] == [None] * len(kept)
        assert {reply.structure for reply in kept} == {"json_schema"}
        assert all(reply.usage and reply.usage.output_total for reply in kept)
        # The second asking of a run finds the first one's prompt cached.
        assert ran.cached_tokens > ran.input_tokens / 3
        again = opened.judge(
            RUBRIC, judges=JUDGE, how=JudgingOptions(repeats=2, only={RUBRIC: frozenset()})
        )
        assert again.ran.bought == 0


@pytest.mark.parametrize(
    ("protocol", "structure"),
    [("openai", "forced_tool"), ("anthropic", "json_schema"), ("anthropic", "forced_tool")],
)
def test_a_way_that_the_server_takes_and_ignores_is_told_and_gives_no_verdict(
    llama: str, protocol: str, structure: Structure
) -> None:
    base = llama if protocol == "openai" else llama.removesuffix("/v1")
    found, opened = judged(settings(base, protocol=protocol, structure=structure), runs=1)
    with opened:
        assert found.ran.ignored_schema[JUDGE] > 0
        assert "ignored the schema" in str(found)
        answers = [record.answer for record in opened.store.records()]
        assert not any(isinstance(answer, Verdict) for answer in answers)
