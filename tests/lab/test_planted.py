"""The generator of planted faults: pure, and always at a step of the agent."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from itertools import combinations, product

import pytest

from bars.planted._plant_places import HELD_OUT, good_part, texts
from bars.planted._planted_kinds import KINDS, TEMPLATES, near_miss, plant
from bars.planted._planted_page import PAGE, refreshed_page
from bars.planted.planted import (
    Base,
    KindFigures,
    Result,
    judge_bars,
    main,
    plant_kind,
    print_means,
)
from stepscope.cli.setup import find_bundled
from stepscope.errors import UsageError
from stepscope.formats.reading import read_files
from stepscope.model import Facts, Trajectory


@pytest.fixture(scope="module")
def runs() -> list[Trajectory]:
    found = [one for r in read_files([str(find_bundled("airline", "runs.json"))]) for one in r]
    return [one for one in found if isinstance(one, Trajectory) and one.outcome.status == "pass"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_is_planted_is_the_same_every_time_and_changes_the_agents_step(
    runs: list[Trajectory], template: int
) -> None:
    planted_kinds = set()
    for kind in KINDS:
        for make in (plant, near_miss):
            for run in runs:
                planted = make(run, kind, template, 3)
                if planted is None:
                    continue
                assert planted == make(run, kind, template, 3)
                assert planted.trajectory.steps[planted.step].actor == "agent"
                assert planted.trajectory.steps != good_part(run).steps
                assert planted.trajectory.outcome.status == "unknown"
                planted_kinds.add((kind, planted.fault))
    assert len(planted_kinds) > len(KINDS)


def test_a_kind_that_does_not_exist_is_named(runs: list[Trajectory]) -> None:
    with pytest.raises(UsageError, match="no planted fault 'no such'; there are: claim_after"):
        plant(runs[0], "no such", 0, 0)


def test_the_page_prints_the_figures_of_the_file_and_no_others() -> None:
    proofs = json.loads(files("stepscope.measures").joinpath("proofs.json").read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    assert refreshed_page(proofs) == page
    assert page.count("<!-- end -->") == 4
    assert {f"axes.{one['axis']}" for one in proofs["kinds"].values()} <= set(proofs["axes"])


def test_templates_held_out_have_phrasings_of_their_own_and_fill_them_in(
    runs: list[Trajectory],
) -> None:
    names = (
        "planted_texts.toml",
        "held_out_texts.toml",
        "sealed_texts.toml",
        "last_texts.toml",
    )
    phrasings = [
        {p for kind in texts(file).values() for own in kind.values() for p in own} for file in names
    ]
    for a, b in combinations(phrasings, 2):
        assert len(a & b) == 0
    assert _fewest("held_out_texts.toml") >= 5
    assert _fewest("sealed_texts.toml") >= 6
    assert _fewest("last_texts.toml") >= 6
    for kind, template in product(KINDS, (2, 3, HELD_OUT)):
        for make in (plant, near_miss):
            for planted in (make(run, kind, template, 0) for run in runs):
                steps = () if planted is None else planted.trajectory.steps
                assert not any(re.search(r"(?<![`{])\{[a-zA-Z]+\}", step.text) for step in steps)


def _fewest(file: str) -> int:
    """The fewest phrasings of a name; of a status it takes few, and outputs are no phrasings."""
    kinds = (own for kind, own in texts(file).items() if kind not in ("status", "outputs"))
    return min(len(phrasings) for own in kinds for phrasings in own.values())


@pytest.mark.parametrize("fault", [True, False])
def test_each_case_of_an_output_is_planted_once_behind_the_output_it_tells_of(fault: bool) -> None:
    found = [one for r in read_files([str(find_bundled("claude_code"))]) for one in r]
    bases = [Base("claude_code", one, Facts()) for one in found if isinstance(one, Trajectory)]
    said, outputs = [], set()
    for _, planted in plant_kind(
        bases, "misread_output", HELD_OUT, fault=fault, seeds=1, each=None
    ):
        steps = planted.trajectory.steps
        said.append(steps[planted.step].text)
        outputs.add(steps[planted.step - 1].results[0].text)
    assert len(said) == len(set(said)) >= 60
    assert len(outputs) >= 24
    assert all(4 <= output.strip("\n").count("\n") < 40 for output in outputs)
    few = plant_kind(bases, "misread_output", HELD_OUT, fault=fault, seeds=1, each=7)
    assert [one.trajectory.steps[one.step].text for _, one in few] == said[:7]


@pytest.mark.parametrize("chosen", ["--show", "--kinds"])
def test_a_kind_of_the_held_out_template_is_shown_to_nobody_by_chance(
    chosen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([chosen, "misread_field"])
    assert "held out; say --" in capsys.readouterr().err


def test_totals_and_bars_of_the_held_out_template_name_no_kind(
    runs: list[Trajectory], capsys: pytest.CaptureFixture[str]
) -> None:
    planted = next(p for p in (plant(r, "misread_field", HELD_OUT, 0) for r in runs) if p)
    proved, missed = (Result(planted, hit, False, planted.step, None) for hit in (True, False))
    found = [
        KindFigures("misread_field", planted.axis, [proved, missed], []),
        KindFigures("invented_email", planted.axis, [missed], []),
    ]
    recall, first = print_means(found)
    assert (recall, first) == (0.25, 1.0)
    assert judge_bars(found, recall, first, 0, is_named=False) == 3
    printed = capsys.readouterr().out
    assert "kind that is proved least: 0.00" in printed
    assert not any(kind in printed for kind in KINDS)
    judge_bars(found, recall, first, 0, is_named=True)
    assert "MISSED invented_email: 0.00" in capsys.readouterr().out
