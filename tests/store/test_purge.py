from __future__ import annotations

import base64
import sqlite3
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import EnvironmentFault, StoreError
from stepscope.model import Case, Instant, Part, Quarantined, Source, TraceLabel, Trajectory
from stepscope.score import score_runs
from stepscope.store import Store
from stepscope.store.where import parse_where, stored_before
from tests.factories import PASSED, did, run, user
from tests.factories import agent as said
from tests.store.made import record

SECRET = "the-secret-that-must-go"
PICTURE = base64.b64encode(b"pixels of the secret").decode()
OLD = Instant(1, "1970")


def private(id: str, *, agent: str | None = None, start: Instant | None = None) -> Trajectory:
    """A run whose secret stands in every place that holds text."""
    made = run(
        user(SECRET),
        *did("look", SECRET, where=SECRET),
        said(SECRET),
        id=id,
        name=id,
        case=Case(workflow="shop", task=id, request=SECRET),
        labels=(TraceLabel(kind="note", step=0, reason=SECRET),),
        extra={"x": SECRET},
        outcome=PASSED,
        agent=agent,
        start=start,
    )
    picture = msgspec.structs.replace(made.steps[0], parts=(Part("image", data=PICTURE),))
    source = Source(format="test", uri=f"{SECRET}.json")
    return msgspec.structs.replace(made, steps=(picture, *made.steps[1:]), source=source)


def bytes_of(folder: Path) -> bytes:
    return b"".join(f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file())


def test_after_a_purge_the_bytes_are_gone_and_the_numbers_are_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.put([private(f"r{at}") for at in range(20)])
        store.append([record("r1", measure="judge.axis", value=0.25)])
        score_runs(store)
        store.quarantine([Quarantined(reason="bad", offset=0, raw=SECRET.encode(), uri="q.json")])
        assert SECRET.encode() in bytes_of(tmp_path)
        assert b"pixels" in bytes_of(tmp_path)
        column = store.column("errors")
        count = len(list(store.records()))

        purged = store.purge()
        assert (purged.runs, purged.blobs, purged.quarantined) == (20, 1, 1)
        # Also while the store is open: neither in the file nor in its log.
        assert SECRET.encode() not in bytes_of(tmp_path)
        assert b"pixels" not in bytes_of(tmp_path)
        assert store._db.execute("PRAGMA freelist_count").fetchone() == (0,)  # space given back

        assert len(store.runs()) == 20
        assert store.column("errors").value.tolist() == column.value.tolist()
        assert len(list(store.records())) == count
        assert store.column("judge.axis").value[1] == 0.25
        assert list(store.trajectories()) == []
        with pytest.raises(StoreError, match="its texts were purged"):
            store.trajectory("r1")
        assert any(line.startswith("20 erased runs: id, name") for line in purged.remains)
        assert "what remains:" in str(purged)


def test_an_erased_run_stays_erased_and_is_not_scored_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.put([private("r1")])
        store.purge()
        assert store.put([private("r1")]).known == 1
        assert score_runs(store).runs == 0
        again = store.purge()
        assert again.runs == 0
        assert SECRET.encode() not in bytes_of(tmp_path)


def test_a_purge_by_filter_leaves_the_others_whole(tmp_path: Path) -> None:
    kept = private("kept", agent="b")
    with Store.open(tmp_path / "s.db") as store:
        store.put([private("gone", agent="a"), kept])
        purged = store.purge(parse_where("agent = 'a'"))
        assert (purged.runs, purged.blobs) == (1, 0)  # the other run shows the same picture
        assert store.with_media(store.trajectory("kept")) == kept
        assert [t.id for t in store.trajectories()] == ["kept"]
        assert store.purge(parse_where("agent = 'b'")).blobs == 1


def test_a_purge_by_age_takes_what_was_stored_long_ago(tmp_path: Path) -> None:
    broken = Quarantined(reason="bad", offset=0, raw=b"x", uri="q.json")
    with Store.open(tmp_path / "s.db") as store:
        store.put([private("old")])
        store.put([private("old trace", start=OLD)])
        store.quarantine([broken])
    with sqlite3.connect(tmp_path / "s.db") as db:
        db.execute("UPDATE runs SET imported_ns = 1 WHERE id = 'old'")
    with Store.open(tmp_path / "s.db") as store:
        purged = store.purge(stored_before("2000-01-01"))
        assert (purged.runs, purged.quarantined) == (1, 0)
        assert [t.id for t in store.trajectories()] == ["old trace"]
        assert store.purge(stored_before("2999-01-01")).quarantined == 1


def test_a_row_that_was_set_aside_goes_with_the_run_that_it_names(tmp_path: Path) -> None:
    rows = (b"r1,bad,ann,x", b'{"run": "a, b", "label": 7}', b'"a, b",bad', b"r11,bad", b"x r1 y")
    with Store.open(tmp_path / "s.db") as store:
        store.put([private(one, agent="gone") for one in ("r1", "a, b")] + [private("r11")])
        store.quarantine(
            [Quarantined(reason="no", offset=n, raw=raw, uri="v") for n, raw in enumerate(rows)]
        )
        assert store.purge(parse_where("agent = 'gone'")).quarantined == 3
        assert [one.raw for one in store.quarantined()] == [b"r11,bad", b"x r1 y"]


def test_the_quarantine_of_a_purged_runs_file_goes_with_it() -> None:
    broken = Quarantined(reason="bad", offset=0, raw=b"x", uri=f"{SECRET}.json")
    other = Quarantined(reason="bad", offset=0, raw=b"x", uri="other.json")
    with Store.open(":memory:") as store:
        store.put([private("r1", agent="a")])
        store.quarantine([broken, other])
        assert store.purge(parse_where("agent = 'a'")).quarantined == 1
        assert list(store.quarantined()) == [other]


def test_shorter_versions_of_a_purged_session_go_with_it(tmp_path: Path) -> None:
    def version(*texts: str) -> Trajectory:
        made = run(*(user(t) for t in texts), id=f"v{len(texts)}", agent=f"a{len(texts)}")
        return msgspec.structs.replace(made, source=Source(format="log", run_id="s"))

    with Store.open(tmp_path / "s.db") as store:
        store.put([version(SECRET), version(SECRET, "b"), version(SECRET, "b", "c")])
        assert store.purge(parse_where("agent = 'a3'")).runs == 3
        assert SECRET.encode() not in bytes_of(tmp_path)


def test_a_case_that_another_run_needs_is_kept() -> None:
    shared = Case(workflow="shop", task="1", request="both need it")
    with Store.open(":memory:") as store:
        store.put([run(user("a"), id="a", agent="a", case=shared)])
        store.put([run(user("b"), id="b", agent="b", case=shared)])
        store.purge(parse_where("agent = 'a'"))
        assert store.trajectory("b").case == shared
        store.purge(parse_where("agent = 'b'"))
        store.put([run(user("c"), id="c", case=shared)])
        assert store.trajectory("c").case == shared


def test_a_reader_that_keeps_old_pages_is_named_and_a_second_purge_ends_it(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        store.put([private("r1")])
        reader = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()
        store._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(EnvironmentFault, match=r"purge again|wait for it"):
            store.purge()
        reader.execute("ROLLBACK")
        reader.close()
        store.purge()
        assert SECRET.encode() not in bytes_of(tmp_path)


def test_the_journal_of_a_receiver_is_named_among_what_remains(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.db") as store:
        assert not any("journal" in line for line in store.purge().remains)
        (tmp_path / "s.db.journal").touch()
        assert any("s.db.journal" in line for line in store.purge().remains)


def test_what_is_no_blob_of_ours_stays_wherever_the_folder_leads(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("mine", encoding="utf-8")
    with Store.open(tmp_path / "s.db") as store:
        assert store.blobs is not None
        store.blobs.symlink_to("mine")
        (store.blobs / ("0" * 64)).write_bytes(b"of a run that is gone")
        assert store.purge().blobs == 1
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["precious"]


@pytest.mark.parametrize("where", ["text ~ '{0}'", "not error", "tool = 'look'", "mode = null"])
def test_what_looks_into_runs_says_nothing_of_records_that_never_were_one(where: str) -> None:
    broken = Quarantined(reason="bad", offset=0, raw=b"x", uri="other.json")
    with Store.open(":memory:") as store:
        store.put([private("r1")])
        score_runs(store)
        store.quarantine([broken])
        found = store.purge(parse_where(where.format(SECRET)))
        assert (found.runs, found.quarantined) == (1, 0)
        assert store.purge(parse_where("not text ~ 'nothing of it'")).quarantined == 0


def test_why_records_were_set_aside_goes_with_them_and_their_number_stays(tmp_path: Path) -> None:
    cut = {"format": "test", "quarantined": 0, "problem": f"ends in {SECRET!r}"}
    told = {"format": "test", "quarantined": 1, "set_aside": {f"it is {SECRET!r}": 1}}
    with Store.open(tmp_path / "s.db") as store:
        store.put([private("r1", agent="a")])
        # The file of the run, one of verdicts of which a row names the run, and another.
        store.keep_accounts([(f"{SECRET}.json", {"uri": f"{SECRET}.json", **cut})], 1)
        for uri, raw in (("said.csv", b"r1,bad"), ("other.json", b"x")):
            store.quarantine([Quarantined(reason="bad", offset=0, raw=raw, uri=uri)])
            store.keep_accounts([(uri, {"uri": uri, **told})], 1)
        store.purge(parse_where("agent = 'a'"))
        kept = {one["uri"]: one for one in store.accounts()}
    found = kept[f"{SECRET}.json"]
    assert (found["quarantined"], found["problem"]) == (0, "erased")
    assert (kept["said.csv"]["quarantined"], kept["said.csv"]["set_aside"]) == (1, {"erased": 1})
    assert kept["other.json"]["set_aside"] == told["set_aside"]


def test_a_store_of_erased_runs_has_runs() -> None:
    with Store.open(":memory:") as store:
        assert store.explain_no_match(None).startswith("the store has no runs")
        store.put([private("r1")])
        store.purge()
        said = "every run that was chosen is erased (1 run)"
        for where in (None, parse_where("id = 'r1'")):
            assert store.explain_no_match(where) == said
        assert store.explain_no_match(parse_where("id = 'r2'")).startswith("no run matches id")
