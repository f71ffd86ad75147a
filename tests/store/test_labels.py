"""Labels: durable, one of each annotator and item, and the human verdicts that follow from them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from stepscope import api
from stepscope.errors import DataError, StoreError, UsageError
from stepscope.model import Label, Record, Source, Verdict
from stepscope.runtime.database import backup_path
from stepscope.store import ParquetRows, Store
from stepscope.store.labels import LABEL_TABLES
from stepscope.store.samples import HeldItem, QueuedItem
from stepscope.store.where import parse_where
from stepscope.values import Unmeasured
from tests.factories import agent, run, user
from tests.store.made import record

AXIS = "judge.axes.termination"


def label(trajectory: str = "r1", **fields: Any) -> Label:
    given = {"measure": AXIS, "annotator": "ann", "label": "correct", **fields}
    return Label(trajectory=trajectory, **given)


FULL = label(
    step=1,
    queue="active",
    probability=0.25,
    policy="abc",
    blind=True,
    position=3,
    seconds=4.5,
    expanded=("before", "raw"),
    given_at=1_700_000_000_000_000_000,
    cites=(0, 1),
    confidence=0.75,
    reason="it ends there",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as store:
        store.put(run(user("hi"), agent("yes"), id=f"r{at}", name=f"n{at}") for at in range(4))
        yield store


def test_a_label_comes_back_whole_and_is_a_human_verdict(path: Path, store: Store) -> None:
    assert store.append_labels([FULL]) == ["new"]
    with Store.open(path) as other:
        assert list(other.labels()) == [FULL]
        (found,) = other.records(measure=AXIS)
    answer = Verdict(AXIS, None, "correct", 1, (0, 1), "it ends there", 0.75)
    assert found == Record(
        trajectory="r1",
        answer=answer,
        version="1",
        family="human",
        judge="ann",
        rubric="axes.termination",
    )


def test_the_same_label_again_is_known_and_another_one_contradicts_it(store: Store) -> None:
    assert store.append_labels([label(), label(), label(label="incorrect")]) == [
        "new", "known", "contradicts",
    ]  # fmt: skip
    # Another annotator, step, reading or measure is another item.
    others: list[dict[str, Any]] = [
        {"annotator": "bob"},
        {"step": 0},
        {"repeat": 1},
        {"measure": "judge.quality.plan"},
    ]
    assert store.append_labels(label(label="incorrect", **one) for one in others) == ["new"] * 4
    assert [one.label for one in store.labels(measure=AXIS)] == ["correct"] + ["incorrect"] * 3


def test_a_label_under_another_policy_replaces_the_label_and_its_verdict(store: Store) -> None:
    store.append_labels([label(policy="one")])
    assert store.append_labels([label(policy="two", label="incorrect")]) == ["replaced"]
    assert [(one.policy, one.label) for one in store.labels()] == [("two", "incorrect")]
    assert [one.answer.label for one in store.records(measure=AXIS)] == ["incorrect"]  # type: ignore[union-attr]


def test_what_is_taken_back_is_gone_with_its_verdict_and_can_be_said_anew(store: Store) -> None:
    store.append_labels([label(), label("r2")])
    assert store.withdraw_label(label(label=None, decided=False))
    assert not store.withdraw_label(label())
    assert [one.trajectory for one in store.labels()] == ["r2"]
    assert [one.trajectory for one in store.records(measure=AXIS)] == ["r2"]
    assert store.append_labels([label(label="incorrect")]) == ["new"]


def test_a_norming_round_gives_no_verdict(store: Store) -> None:
    assert store.append_labels([label(round=1, queue="norming"), label("r2")]) == ["new", "new"]
    assert [one.trajectory for one in store.labels()] == ["r1", "r2"]
    assert [one.trajectory for one in store.records(measure=AXIS)] == ["r2"]


def test_a_score_that_cannot_be_given_is_unmeasured_not_zero(store: Store) -> None:
    given = label(measure="scores", label=None, value=None, step=1, decided=False)
    store.append_labels([given])
    assert list(store.labels()) == [given]
    (found,) = store.records(measure="scores")
    assert isinstance(found.answer, Unmeasured)
    assert (found.answer.kind, found.answer.step) == ("missing_input", 1)


@pytest.mark.parametrize(
    "fields", [{"annotator": ""}, {"label": None}, {"probability": 0.0}, {"probability": 1.5}]
)
def test_a_label_that_says_nothing_cannot_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="label"):
        label(**fields)


def test_labels_about_an_unknown_run_store_nothing_at_all(store: Store) -> None:
    with pytest.raises(StoreError, match="'r9', which is not in the store"):
        store.append_labels([label(), label("r9")])
    assert list(store.labels()) == []


def test_an_annotator_is_nobody_whose_verdicts_were_imported_as_a_machines(store: Store) -> None:
    imported = record("r1", measure=AXIS, value=None, label="correct", judge="ann")
    store.append([Record(**{**as_fields(imported), "family": "imported"})])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'ann' has imported verdicts of judge"):
        store.append_labels([label("r2")])
    assert store.append_labels([label("r2", annotator="bob")]) == ["new"]


def as_fields(one: Record) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def test_only_a_known_probability_of_a_random_queue_is_random() -> None:
    random = {"uniform": True, "active": True, "file": True, "look_first": False, "norming": False}
    for queue, expected in random.items():
        assert label(queue=queue, probability=0.5).is_random is expected
        assert not label(queue=queue).is_random


def test_a_file_of_people_is_a_queue_of_labels_with_unknown_probability(
    path: Path, store: Store, tmp_path: Path
) -> None:
    text = "run,label,annotator\nn0,correct,ann\nn1,uncertain,ann\n"
    (tmp_path / "l.csv").write_text(text, encoding="utf-8")
    more = "run,label,annotator,queue,probability,seconds\nn2,correct,bob,uniform,0.25,3\n"
    more += "n3,correct,bob,guessed,0.25,3\nn3,correct,bob,uniform,2,3\n"
    (tmp_path / "m.csv").write_text(more, encoding="utf-8")
    with api.open(path) as notebook:
        asked = {"rubric": "axes.termination", "human": True}
        assert notebook.add_verdicts(tmp_path / "l.csv", **asked).new == 2  # type: ignore[arg-type]
        assert notebook.add_verdicts(tmp_path / "l.csv", **asked).known == 2  # type: ignore[arg-type]
        found = notebook.add_verdicts(tmp_path / "m.csv", **asked)  # type: ignore[arg-type]
    assert found.quarantined == {"no queue": 1, "no number": 1}
    assert [(one.queue, one.probability, one.decided) for one in store.labels()] == [
        ("file", None, True), ("file", None, False), ("uniform", 0.25, True),
    ]  # fmt: skip
    assert len(list(store.records(measure=AXIS))) == 3


def test_a_store_of_version_4_takes_over_what_people_said_in_files(
    path: Path, store: Store
) -> None:
    kept = {"measure": AXIS, "value": None, "judge": "ann", "family": "human"}
    store.append(
        [
            record("r0", label="correct", **kept),  # type: ignore[arg-type]
            record(
                "r1", measure="human.failure", value=None, label="x", judge="ann", family="human"
            ),
            record("r1", measure="scores", value=0.5, step=1, judge="ann", family="human"),
            record("r1", measure=AXIS, value=None, label="correct", judge="m", family="imported"),
        ]
    )
    store.close()
    with closing(sqlite3.connect(path)) as db, db:
        for table in ("labels", "queued", "queues"):
            db.execute(f"DROP TABLE {table}")
        db.execute("PRAGMA user_version = 4")
    with Store.open(path) as opened:
        assert list(opened.labels()) == [
            Label(trajectory="r0", measure=AXIS, annotator="ann", label="correct"),
            Label(trajectory="r1", measure="scores", annotator="ann", value=0.5, step=1),
        ]
        assert opened.append_labels([label("r0")]) == ["known"]
        assert list(opened.damage()) == []
    assert backup_path(str(path), 4).exists()
    assert LABEL_TABLES.count("CREATE TABLE") == 3


def test_purging_a_run_erases_reasons_and_keeps_its_labels(store: Store) -> None:
    store.append_labels([FULL, label("r2", reason="kept")])
    found = store.purge(parse_where("name = 'n1'"))
    assert any("1 labels of people" in line for line in found.remains)
    assert [one.reason for one in store.labels()] == ["", "kept"]
    assert b"it ends there" not in Path(store.path).read_bytes()


def test_labels_of_a_run_that_grew_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    with Store.open(tmp_path / "grown.db") as store:
        source = Source(format="ours", run_id="s")
        short = structs.replace(run(user("hi"), agent("a"), id="short"), source=source)
        long = structs.replace(run(user("hi"), agent("a"), agent("b"), id="long"), source=source)
        store.put([short])
        store.append_labels([label("short")])
        store.put([long])
        assert list(store.labels()) == []
        assert [one.trajectory for one in store.labels(superseded=True)] == ["short"]


def test_salvage_keeps_labels_and_queues(path: Path, store: Store, tmp_path: Path) -> None:
    store.append_labels([FULL, label("r2")])
    store.close()
    found = Store.salvage(path, tmp_path / "new.db")
    assert found.rows["labels"] == 2
    with Store.open(tmp_path / "new.db") as new:
        assert [one.trajectory for one in new.labels()] == ["r1", "r2"]


def test_an_export_to_parquet_holds_labels_and_is_filtered_by_annotator(
    store: Store, tmp_path: Path
) -> None:
    store.append_labels([FULL, label("r2", annotator="bob"), label("r1", annotator="bob")])
    store.to_parquet(tmp_path / "out")
    rows = ParquetRows(tmp_path / "out")
    assert list(rows.labels()) == list(store.labels())
    for held in (store, rows):
        for text, names in {
            "annotator = 'ann'": ["n1"],
            "annotator in ('ann', 'bob')": ["n1", "n2"],
            "annotator != 'ann'": ["n0", "n2", "n3"],
            "annotator = null": ["n0", "n3"],
            "annotator != null and name = 'n2'": ["n2"],
        }.items():
            assert held.runs(parse_where(text)).name.tolist() == names, text
    (tmp_path / "out" / "labels.parquet").unlink()
    assert list(ParquetRows(tmp_path / "out").labels()) == []


def test_an_item_that_is_not_shared_is_asked_of_one_annotator(path: Path, store: Store) -> None:
    keys = store.runs().key.tolist()
    items = [QueuedItem(key, None, 0.5, at == 0) for at, key in enumerate(keys[:3])]
    queue = store.put_queue(b"{}", items)
    assert store.queues() == {queue: b"{}"}
    with Store.open(path) as other:
        held = [store.hold_item(queue, place, "ann") for place in (0, 1)]
        assert held == [HeldItem("r0", None, 0.5, ""), HeldItem("r1", None, 0.5, "")]
        # The shared one, another's, and a free one.
        found = [other.hold_item(queue, place, "bob") for place in (0, 1, 2)]
        assert [one and one.run for one in found] == ["r0", None, "r2"]
        assert store.hold_item(queue, 1, "ann") == held[1]
        assert other.queue_items(queue).holders == {1: "ann", 2: "bob"}
    with pytest.raises(StoreError, match="has no item 3"):
        store.hold_item(queue, 3, "ann")


def test_an_item_of_an_erased_run_says_so(store: Store) -> None:
    (key,) = store.runs(parse_where("name = 'n1'")).key.tolist()
    queue = store.put_queue(b"{}", [QueuedItem(key, 1, None, False)])
    store.purge(parse_where("name = 'n1'"))
    assert store.hold_item(queue, 0, "ann") == HeldItem("r1", 1, None, "purged")


def test_a_secret_in_a_reason_is_hidden(path: Path, store: Store) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4e5F6g7H8i9J0" * 4 + "AA"
    store.append_labels([label(reason=f"it prints {secret} at the end")])
    (found,) = store.labels()
    assert found.reason.startswith("it prints ")
    assert found.reason.endswith(" at the end")
    (record,) = store.records(measure=AXIS)
    assert isinstance(record.answer, Verdict)
    assert record.answer.reason == found.reason
    store.close()
    assert secret.encode() not in path.read_bytes()


def test_labels_that_belong_together_are_stored_whole_or_not_at_all(store: Store) -> None:
    store.append_labels([label()])
    with pytest.raises(UsageError, match="another answer of this item is stored"):
        store.append_labels([label("r2"), label(label="incorrect")], whole=True)
    assert [one.trajectory for one in store.labels()] == ["r1"]
    assert store.append_labels([label("r2"), label()], whole=True) == ["new", "known"]
