from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepscope.errors import EnvironmentFault, StoreError
from stepscope.model import Case, Instant, Record, TraceLabel
from stepscope.score import score_runs
from stepscope.store import ParquetRows, Rows, Store
from stepscope.store.columns import Runs
from stepscope.store.where import Where, parse_where, started_since
from stepscope.values import Unmeasured
from tests.factories import FAILED, PASSED, agent, did, failed, goal, run, user
from tests.store.made import record

CASE = Case(workflow="shop", task="1", subgoals=(goal("buy"),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet")


@pytest.fixture(scope="module")
def store(folder: Path) -> Store:
    store = Store.open(":memory:")
    store.put(
        [
            run(user("a"), *did("buy"), id="a", name="c", case=CASE, outcome=PASSED),
            run(
                *failed("buy"),
                id="b",
                name="b",
                outcome=FAILED,
                tags={"set": "dev"},
                start=Instant(1_700_000_000_000_000_000, ""),
            ),
            run(
                agent("x"), id="c", name="a", agent="gpt", labels=(TraceLabel(kind="note", step=0),)
            ),
        ]
    )
    score_runs(store)
    store.append(
        [
            record("a", measure="axes.x", value=None, label="good", judge="j"),
            record("a", measure="axes.x", value=0.5, judge="j", repeat=1),
            Record(trajectory="b", answer=Unmeasured("refused", "no", "axes"), version="1"),
            record("c", measure="axes.x", version="0", judge="k"),
            # Two runs by version 1, one by version 2: the one of most runs counts.
            *(record(id_, measure="scores", step=0, judge="j") for id_ in ("a", "b")),
            record("a", measure="scores", step=0, judge="j", version="2", value=0.75),
            # Asked without the narration: another question, and no score of the run.
            record("b", measure="scores", step=0, judge="j", version="2+narration-off", value=0.25),
            # Nobody could score them: no runs that it was judged by.
            *(
                record(
                    id_, measure="scores", step=0, judge="j", version="3", value=None, label="so"
                )
                for id_ in ("c", "a", "b")
            ),
        ]
    )
    store.to_parquet(folder)
    return store


def same(a: Rows, b: Rows, where: Where | None) -> None:
    left, right = a.runs(where), b.runs(where)
    for field in Runs.__dataclass_fields__:
        if field != "key":
            np.testing.assert_array_equal(getattr(left, field), getattr(right, field), field)
    for key in ("set", "nothing"):
        assert a.tag(key, left).tolist() == b.tag(key, right).tolist()
    assert a.measures() == b.measures()
    for measure in (*a.measures(), "axes", "axes.y", "never"):
        one, two = a.column(measure, left), b.column(measure, right)
        assert np.array_equal(one.value, two.value, equal_nan=True), measure
        assert one.label.tolist() == two.label.tolist()
        assert one.state.tolist() == two.state.tolist(), measure
        assert one.versions == two.versions
        one_by_step, two_by_step = (r.step_values(measure, r.runs(where)) for r in (a, b))
        for field in ("at", "step", "repeat", "value", "scorer"):
            np.testing.assert_array_equal(getattr(one_by_step, field), getattr(two_by_step, field))
        assert one_by_step.scorers == two_by_step.scorers
        assert a.cited(measure, a.runs(where)) == b.cited(measure, b.runs(where))
    assert list(a.records(where)) == list(b.records(where))


@pytest.mark.parametrize(
    "where",
    [
        None,
        parse_where("outcome = 'fail'"),
        parse_where("tag.set != 'dev' and agent = null"),
        parse_where("name = 'nobody'"),
        started_since("2000-01-01"),
    ],
)
def test_parquet_gives_the_same_rows_as_the_store(
    store: Store, folder: Path, where: Where | None
) -> None:
    same(store, ParquetRows(folder), where)


def test_scores_are_of_the_version_that_most_runs_were_judged_by(store: Store) -> None:
    found = store.step_values("scores", store.runs())
    assert found.value.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("id_", "value"), [("a", 0.75), ("b", 1.0), ("c", np.nan)])
def test_that_version_counts_by_which_most_of_the_chosen_runs_have_a_score(
    store: Store, folder: Path, id_: str, value: float
) -> None:
    for rows in (store, ParquetRows(folder)):
        found = rows.step_values("scores", rows.runs(parse_where(f"id = '{id_}'")))
        np.testing.assert_array_equal(found.value, [value])


def test_a_column_of_all_runs_needs_no_runs(store: Store, folder: Path) -> None:
    assert ParquetRows(folder).column("outcome").label.tolist() == [None, "fail", "pass"]
    assert store.column("outcome").label.tolist() == [None, "fail", "pass"]


def test_records_of_one_run_or_one_measure(store: Store, folder: Path) -> None:
    rows = ParquetRows(folder)
    for asked in ({"trajectory": "b"}, {"measure": "axes.x"}, {"measure": "never"}):
        assert list(rows.records(**asked)) == list(store.records(**asked))  # type: ignore[arg-type]


def test_an_export_of_chosen_runs_holds_those_alone(store: Store, tmp_path: Path) -> None:
    where = parse_where("outcome = 'pass'")
    store.to_parquet(tmp_path / "some", where)
    rows = ParquetRows(tmp_path / "some")
    assert rows.runs().id.tolist() == ["a"]
    assert list(rows.records()) == list(store.records(where))


def test_an_export_of_nothing_is_readable(store: Store, tmp_path: Path) -> None:
    store.to_parquet(tmp_path, parse_where("name = 'nobody'"))
    rows = ParquetRows(tmp_path)
    assert (len(rows.runs()), rows.measures(), list(rows.records())) == (0, (), [])
    assert len(rows.column("outcome")) == 0


def test_no_row_group_holds_two_measures(folder: Path, store: Store) -> None:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(folder / "records.parquet")
    groups = [
        set(file.read_row_group(at, columns=["measure"]).column("measure").to_pylist())
        for at in range(file.num_row_groups)
    ]
    assert all(len(group) == 1 for group in groups)
    assert set.union(*groups) == set(store.measures())


def test_a_table_of_records_says_why_something_is_absent(store: Store) -> None:
    table = store.to_arrow(parse_where("id = 'b'"))
    rows = {row["measure"]: row for row in table.to_pylist() if row["step"] is None}
    assert rows["axes"]["unmeasured"] == "refused"
    assert rows["outcome"]["label"] == "fail"
    assert rows["outcome"]["unmeasured"] is None
    assert len(store.to_arrow(parse_where("id = 'x'"))) == 0


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no export of records"):
        ParquetRows(tmp_path)
    for name in ("runs.parquet", "records.parquet"):
        (tmp_path / name).write_bytes(b"PAR1 not really")
    with pytest.raises(StoreError, match="no export of records"):
        ParquetRows(tmp_path)


def test_a_folder_that_cannot_be_made_is_the_environments_fault(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(EnvironmentFault, match="cannot be written here"):
        store.to_parquet(tmp_path / "file")
    assert store.put([]).new == 0  # and the store is not left in a transaction


def test_a_tag_is_a_column_and_absent_where_a_run_has_none(store: Store, folder: Path) -> None:
    for rows in (store, ParquetRows(folder)):
        assert rows.tag("set", rows.runs()).tolist() == [None, "dev", None]
