"""Shapes of a file without a store: every curve, the same in any order, and counted at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope as ss
from stepscope.api import score_files
from stepscope.api.score_files import RunShape
from stepscope.calibrate import noise
from stepscope.errors import StoreError, TraceError, UsageError
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.report.test_curves import FALLS, HOLDS, NOISE

HEAD = "run,step,score\n"


def rows(name: str, values: tuple[float | None, ...], *more: str) -> str:
    tail = "".join("," + cell for cell in more)
    cells = ("" if value is None else f"{value}" for value in values)
    return "".join(f"{name},{i},{cell}{tail}\n" for i, cell in enumerate(cells))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "s.csv"


def told(place: Path, text: str, **more: object) -> dict[str, RunShape]:
    place.write_text(text, encoding="utf-8")
    with ss.shapes(place, **more) as found:  # type: ignore[arg-type]
        return {f"{run.run} {run.judge}".strip(): run for run in found}


def test_every_run_has_its_shape_and_break(place: Path) -> None:
    found = told(place, HEAD + rows("a", FALLS) + rows("b", HOLDS), sigma=0.06)
    assert [(run.shape, run.break_step) for run in found.values()] == [
        ("early_collapse", 4), ("healthy", None),
    ]  # fmt: skip
    assert found["a"].scores == FALLS


def test_rows_left_out_are_rows_left_blank(place: Path) -> None:
    values, out = (*HOLDS[:2], *FALLS[2:]), (2, 3, 7)
    blank = tuple([None if i in out else value for i, value in enumerate(values)])
    whole = HEAD + rows("a", blank)
    left = "".join(line for line in whole.splitlines(keepends=True) if not line.endswith(",\n"))
    assert left.count("\n") == whole.count("\n") - 3
    one, two = told(place, left, sigma=0.06)["a"], told(place, whole, sigma=0.06)["a"]
    fields = ("shape", "posterior", "break_step", "break_first", "break_last", "mean")
    assert [getattr(one, name) for name in fields] == [getattr(two, name) for name in fields]
    # weights of all steps find theirs, and the mean of a run with a step left out is not known
    given = {"a": (1,) * 4 + (3,) + (1,) * 5}
    weighed = [told(place, text, sigma=0.06, weights=given)["a"] for text in (left, whole)]
    assert [(run.gate_failed, run.weighted) for run in weighed] == [((4,), None)] * 2


def test_a_coarse_grid_of_scores_is_said(place: Path) -> None:
    text = HEAD + "".join(rows(f"r{i}", (1, 0.75, 0.75, 0.5, 0.25, 0.25)) for i in range(5))
    place.write_text(text, encoding="utf-8")
    for quantum, said in (
        (None, "0.05, given; 0.072 of rounding added: few values occur"),
        (0.25, "0.05, given"),
    ):
        with ss.shapes(place, sigma=0.05, quantum=quantum) as found:
            list(found)
            assert found.fleet().sigma == said


def test_the_noise_of_one_scoring_is_divided_by_the_root_of_the_repeats(place: Path) -> None:
    values = zip(FALLS, range(10), strict=True)
    text = "run,step,repeat,score\n" + "".join(
        f"a,{i},{again},{value}\n" for value, i in values for again in range(4)
    )
    assert told(place, text, sigma=0.08)["a"].sigma == pytest.approx(0.04)


def test_a_step_beyond_the_limit_is_an_error_with_its_row(place: Path) -> None:
    with pytest.raises(TraceError, match=r"row 2: run 'a' has over 100,000 steps"):
        told(place, HEAD + "a,0,0.9\na,2000000000,0.8\n")


def test_the_order_of_runs_and_of_rows_changes_nothing(place: Path) -> None:
    text = HEAD + rows("a", FALLS) + rows("b", HOLDS) + rows("c", FALLS[2:])
    lines = text.split("\n")[1:-1]
    shuffled = "\n".join([HEAD.strip(), *lines[::3], *lines[1::3], *lines[2::3]]) + "\n"
    assert told(place, text) == told(place, shuffled)


def test_batches_are_joined_without_a_seam(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + "".join(rows(f"r{i}", (FALLS, HOLDS)[i % 2]) for i in range(9))
    whole = told(place, text)
    monkeypatch.setattr(score_files, "BATCH_CURVES", 2)
    monkeypatch.setattr("stepscope.formats.scores.runs.SMALL_ROWS", 1)
    monkeypatch.setattr("stepscope.formats.records.LINE_BLOCK_BYTES", 64)
    parts = told(place, text)
    assert list(parts) == list(whole)
    for name, run in parts.items():
        assert (run.scores, run.shape, run.break_step) == (
            whole[name].scores, whole[name].shape, whole[name].break_step,
        )  # fmt: skip
        assert run.posterior == pytest.approx(whole[name].posterior)


def test_repeats_are_averaged_and_judges_kept_apart(place: Path) -> None:
    head = "run,step,score,judge,repeat\n"
    text = head + rows("a", (0.4, 0.5), "x", "0") + rows("a", (0.6, 0.5), "x", "1")
    found = told(place, text + rows("a", (0.9, None), "y", "0"))
    assert {name: run.scores for name, run in found.items()} == {
        "a x": (0.5, 0.5), "a y": (0.9, None),
    }  # fmt: skip


def test_a_wrong_row_is_an_error_that_names_file_and_row(place: Path) -> None:
    with pytest.raises(TraceError, match=r"s\.csv, row 4: score is 'oops'"):
        told(place, HEAD + rows("a", (0.4, 0.5)) + "a,2,oops\n")


def test_latency_moves_the_break_and_names_what_to_watch(place: Path) -> None:
    head = "run,step,score,latency\n"
    text = "".join(f"a,{i},{s},{9 if i == 6 else 1}\n" for i, s in enumerate(HOLDS))
    found = told(place, head + text, sigma=0.06)["a"]
    assert (found.watch, found.break_from) == ((6,), ("scores", "latency"))


@pytest.mark.parametrize(
    ("weights", "failed"),
    [({"*": [1, 1, 1, 1, 3, 1, 1, 1, 1, 1]}, (4,)), ({"a": [1] * 10}, ()), ({"b": [3] * 10}, ())],
)
def test_weights_are_by_run_or_for_all(
    place: Path, weights: dict[str, list[float]], failed: tuple[int, ...]
) -> None:
    found = told(place, HEAD + rows("a", FALLS), sigma=0.06, weights=weights)
    assert found["a"].gate_failed == failed


def test_weights_of_a_named_run_must_fit_its_steps(place: Path) -> None:
    with pytest.raises(UsageError, match="2 weights for 'a', whose run 'a' has 10 scored steps"):
        told(place, HEAD + rows("a", FALLS), weights={"a": [1, 3]})


def test_the_fleet_counts_what_was_read(place: Path) -> None:
    text = HEAD + "".join(rows(f"r{i}", HOLDS) for i in range(8)) + rows("short", (0.5, 0.5))
    place.write_text(text + rows("odd", (0.9, 0.4) * 5), encoding="utf-8")
    with ss.shapes(place, sigma=0.06) as found:
        runs = list(found)
        fleet = found.fleet()
    assert len(runs) == 10
    assert (fleet.n_runs, fleet.labels, fleet.unmodelled) == (9, {"healthy": 8}, 1)
    assert fleet.unmeasured == {"insufficient_data": 1}
    assert fleet.shares["healthy"].value > 0.9
    assert fleet.sigma == "0.06, given"


def test_runs_of_one_task_are_one_cluster(place: Path) -> None:
    head = "run,step,score,task\n"
    text = "".join(rows(f"r{i}", HOLDS, f"t{i % 4}") for i in range(12))
    place.write_text(head + text, encoding="utf-8")
    with ss.shapes(place, sigma=0.06) as found:
        assert len(list(found)) == 12
        healthy = found.fleet().shares["healthy"]
    assert (healthy.n, healthy.n_tasks) == (12, 4)


def test_a_curve_that_no_shape_fits_has_no_break(place: Path) -> None:
    found = told(place, HEAD + rows("a", (0.9, 0.4) * 5), sigma=0.06)["a"]
    assert (found.unmodelled, found.break_step, found.break_first) == (True, None, None)


def test_measured_noise_is_taken_from_the_store_beside_the_file(place: Path) -> None:
    text = HEAD + rows("a", FALLS)
    assert told(place, text)["a"].sigma is None
    with Store.open(place.with_name("stepscope.db")) as store:
        store.put_noise(NOISE)
    assert told(place, text)["a"].sigma == 0.06
    assert told(place, text, sigma=0.1)["a"].sigma == 0.1


@pytest.mark.parametrize("sigma", [0, -0.1, float("nan"), 2, float("inf")])
def test_a_sigma_that_is_no_noise_is_refused(place: Path, sigma: float) -> None:
    with pytest.raises(UsageError, match="expected more than 0 and at most 1"):
        told(place, HEAD + rows("a", FALLS), sigma=sigma)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (rows("a", (0.5,)), "insufficient_data"),
        (rows("a", (0.5, 0.5, 0.5)), "insufficient_data"),
        (rows("a", (None,) * 6), "insufficient_data"),
    ],
)
def test_too_little_is_a_typed_answer(place: Path, text: str, kind: str) -> None:
    shape = told(place, HEAD + text)["a"].shape
    assert isinstance(shape, Unmeasured)
    assert shape.kind == kind


def test_no_rows_are_no_curves(place: Path) -> None:
    place.write_text(HEAD, encoding="utf-8")
    with ss.shapes(place) as found:
        assert list(found) == []
        assert found.fleet().n_runs == 0


REPEATED = "run,step,score,repeat,judge\n" + "".join(
    f"r{i},{i % 3},{0.5 + 0.03 * (r - 1):.2f},{r},{judge}\n"
    for i in range(10)
    for judge in ("a", "b")
    for r in range(3 if judge == "a" else 1)
)


def test_noise_of_a_file_and_of_a_store_is_the_same(place: Path) -> None:
    place.write_text(REPEATED, encoding="utf-8")
    with ss.open(":memory:", settings=Settings()) as store:
        of_file = store.calibrate_sigma(place)
        store.add(place)
        of_store = store.calibrate_sigma()
        kept = store.store.noise()
    assert of_file == of_store
    a, b = of_store
    assert isinstance(a.sigma, Estimate)
    assert (a.judge, a.sigma.n, a.sigma.n_tasks) == ("a", 30, 10)
    assert a.sigma.value == pytest.approx(0.03)
    assert isinstance(b.sigma, Unmeasured)
    assert b.sigma.kind == "insufficient_data"
    assert kept == {"a": a.sigma}


def test_repeats_that_agree_need_a_quantum(place: Path) -> None:
    text = "run,step,score,repeat\n" + "".join(
        f"a,{i},.5,{r}\n" for i in range(5) for r in range(2)
    )
    place.write_text(text, encoding="utf-8")
    with ss.open(":memory:", settings=Settings()) as store:
        (alone,) = store.calibrate_sigma(place)
        (coarse,) = store.calibrate_sigma(place, quantum=0.1)
    assert isinstance(alone.sigma, Unmeasured)
    assert isinstance(coarse.sigma, Estimate)
    assert coarse.sigma.value == pytest.approx(0.1 / 12**0.5)


def test_what_is_not_measured_is_not_kept() -> None:
    with Store.open(":memory:") as store:
        absent = noise.JudgeNoise(judge="x", sigma=Unmeasured("undefined", "all agree"))
        assert noise.store_noise(store, [absent]) == 0
        assert store.noise() == {}


def test_weights_of_the_settings_are_fixed_before_scores_come_in(place: Path) -> None:
    place.write_text("run,step,score,workflow\na,0,.5,w\na,1,.9,w\n", encoding="utf-8")
    first = Settings(weights={"w": {"*": (1.0, 3.0)}})
    with ss.open("s.db", settings=first) as store:
        store.add(place)
        assert store.store.weights() == {("w", "*"): (1.0, 3.0)}
    with ss.open("s.db", settings=Settings(weights={"w": {"*": (3.0, 3.0)}})) as store:
        for change in (lambda: store.add(place), store.score):
            with pytest.raises(StoreError, match="put them back, or import runs and scores into"):
                change()
    with ss.open("s.db", settings=first) as store:
        store.score()


def test_a_notebook_gives_the_shapes_of_its_runs(place: Path) -> None:
    text = "".join(rows(f"r{i}", HOLDS) for i in range(6))
    place.write_text(HEAD + text, encoding="utf-8")
    with ss.open(":memory:", settings=Settings()) as store:
        store.add(place)
        store.score(workers=1)
        found = store.shapes(where="name != 'r0'")
        assert not isinstance(found, Unmeasured)
        assert found.n_runs == 5
        assert store.report().shapes == store.shapes()
