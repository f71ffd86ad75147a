from __future__ import annotations

import base64
import shlex
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import StoreError, UsageError
from stepscope.model import (
    Case,
    Outcome,
    Part,
    Source,
    Span,
    Step,
    ToolCall,
    TraceLabel,
    Trajectory,
    Usage,
)
from stepscope.store import PutCounts, Store
from stepscope.values import Unmeasured
from tests.factories import FAILED, PASSED, agent, calls, did, goal, run, user

CASE = Case(workflow="shop", task="1", subgoals=(goal("buy", item="x"),))
NEEDLE = base64.b64encode(b"\x00picture\xff" * 9).decode()


def session(*steps: Step, id: str) -> Trajectory:
    made = run(*steps, id=id, name=id)
    return msgspec.structs.replace(made, source=Source(format="log", run_id="s1"))


def test_a_run_comes_back_as_it_went_in() -> None:
    full = run(
        user("nul \0, bidi \u202e, emoji \U0001f600"),
        *did("buy", "ok", item={"b": [1, 2.5, None, True], "a": ""}),
        case=CASE,
        outcome=PASSED,
        tags={"k\0": "v\0"},
        agent="",
        usage=Usage(input_total=2**63, output_total=1),
        extra={"deep": [{"x": None}]},
    )
    with Store.open(":memory:") as store:
        store.put([full])
        assert store.trajectory("r1") == full
        assert list(store.trajectories()) == [full]
        assert store.trajectory("r1").case == CASE


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    runs = [run(user("a"), id="a"), run(user("b"), id="b")]
    with Store.open(tmp_path / "s.db") as store:
        assert store.put(runs) == PutCounts(new=2, known=0, superseded=0)
        before = list(store.trajectories())
        assert store.put(runs) == PutCounts(new=0, known=2, superseded=0)
        assert list(store.trajectories()) == before


def test_what_comes_late_is_taken_over_and_what_is_missing_erases_nothing() -> None:
    early = run(user("a"), tags={"kept": "1", "set": "dev"}, labels=(TraceLabel(kind="note"),))
    late = run(
        user("a"),
        outcome=PASSED,
        agent="gpt",
        agent_version="2",
        tags={"set": "test"},
        labels=(TraceLabel(kind="failure", step=0), TraceLabel(kind="note")),
        case=CASE,
    )
    with Store.open(":memory:") as store:
        store.put([early])
        assert store.put([late]) == PutCounts(0, 1, 0)
        store.put([run(user("a"))])
        found = store.trajectory("r1")
        runs = store.runs()
    assert found.outcome == PASSED
    assert (found.agent, found.agent_version, found.case) == ("gpt", "2", CASE)
    assert found.tags == {"kept": "1", "set": "test"}
    assert [label.kind for label in found.labels] == ["note", "failure"]
    assert (runs.outcome[0], runs.agent[0], runs.agent_version[0]) == ("pass", "gpt", "2")


def test_labels_become_human_records_told_apart_by_person_and_repeat() -> None:
    labels = (
        TraceLabel(kind="decisive_step", step=1, agent="WebSurfer", reason="wrong page"),
        TraceLabel(kind="failure", step=1, category="tool misuse", annotator="ann"),
        TraceLabel(kind="failure", step=1, category="other", annotator="ann"),
        TraceLabel(kind="failure", step=1, category="tool misuse", annotator="bob"),
        TraceLabel(kind="failure", step=9, annotator="bob"),
    )
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("b"), labels=labels)])
        records = list(store.records())
    assert {r.family for r in records} == {"human"}
    answers = [(r.answer.measure, r.judge, r.repeat, r.answer.step) for r in records]
    assert answers == [
        ("human.decisive_step", "unknown", 0, 1),
        ("human.failure", "bob", 0, None),
        ("human.failure", "ann", 0, 1),
        ("human.failure", "ann", 1, 1),
        ("human.failure", "bob", 0, 1),
    ]
    assert isinstance(records[1].answer, Unmeasured)
    assert records[1].answer.kind == "invalid_evidence"
    assert records[0].answer.reason == "WebSurfer: wrong page"
    assert [getattr(r.answer, "label", None) for r in records[2:4]] == ["tool misuse", "other"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)])
def test_a_grown_session_supersedes_whatever_the_order(order: tuple[int, ...]) -> None:
    versions = [
        session(user("a"), id="v1"),
        session(user("a"), agent("b"), id="v2"),
        session(user("a"), agent("b"), user("c"), id="v3"),
    ]
    with Store.open(":memory:") as store:
        counts = [store.put([versions[at]]) for at in order]
        assert sum(c.superseded for c in counts) == 2
        assert list(store.runs().id) == ["v3"]
        assert [t.id for t in store.trajectories()] == ["v3"]
        assert store.trajectory("v1") == versions[0]


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        (("a", "c"), ("a", "b", "c"), "then"),  # a late span in the middle
        (("a", "b", "c"), ("a", "c"), "first"),  # the shorter version is read last
        (("a", "b"), ("a", "b"), "then"),  # the same spans, one of them went on
        (("a", "b"), ("a", "c"), "both"),  # near miss: neither has all of the other's
        ((), ("a",), "both"),  # near miss: no spans at all
    ],
)
def test_a_trace_with_late_spans_supersedes_its_shorter_version(
    first: tuple[str, ...], then: tuple[str, ...], left: str
) -> None:
    def trace(name: str, spans: tuple[str, ...]) -> Trajectory:
        steps = (user(name), *(agent(f"{name} {span}") for span in spans))
        held = tuple(Span(id=span) for span in spans)
        return msgspec.structs.replace(session(*steps, id=name), spans=held)

    with Store.open(":memory:") as store:
        counts = [store.put([trace("first", first)]), store.put([trace("then", then)])]
        expected = ["first", "then"] if left == "both" else [left]
        assert sorted(store.runs().id) == expected
        assert sum(count.superseded for count in counts) == 2 - len(expected)
        store.put([trace("first", first)])
        assert sorted(store.runs().id) == expected  # an old version read again changes nothing


def test_key_order_is_not_growth_and_a_changed_past_is_another_run() -> None:
    def call(**arguments: int) -> Step:
        return calls(ToolCall("f", dict(arguments)))

    with Store.open(":memory:") as store:
        store.put([session(call(a=1, b=2), id="old")])
        assert store.put([session(call(b=2, a=1), user("x"), id="grown")]).superseded == 1
        assert store.put([session(call(a=9), user("x"), id="other")]).superseded == 0
        stranger = run(call(a=1, b=2), user("x"), user("y"), id="stranger", name="stranger")
        assert store.put([stranger]).superseded == 0
        assert list(store.runs().id) == ["grown", "other", "stranger"]


def test_a_changed_outcome_is_scored_again() -> None:
    from stepscope.score import score_runs

    with Store.open(":memory:") as store:
        store.put([run(user("a"), outcome=PASSED, agent="x")])
        score_runs(store, measures=["outcome"])
        assert list(store.column("outcome").label) == ["pass"]
        store.put([run(user("a"), outcome=FAILED)])
        assert list(store.column("outcome").state) == [0]
        score_runs(store, measures=["outcome"])
        assert list(store.column("outcome").label) == ["fail"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("shop/1/0", "a" * 64),  # a name wins over the starts of others
        ("shop/1/00", "b" * 64),
        ("shop/2", "c" * 64),  # the start of one name
        ("bbbb", "b" * 64),  # the start of one id
        ("shop/2…", "c" * 64),  # as it stands where it was cut
        ("…", "no run called '…'"),
        ("end…", "e" * 64),  # a name that ends so
        ("c" * 12, "c" * 64),  # so long a start of an id is meant, whatever a name begins with
        ("shop/1", "'shop/1' is more than one run: shop/1/0, shop/1/00; say more"),
        (
            "c",
            "'c' is more than one run: 'cccccccccccc is mine', shop/2/7",
        ),  # an id, a name
        ("Shop/1/0", "no run called 'Shop/1/0': did you mean shop/1/0, shop/1/00"),
        ("shp/2", "no run called 'shp/2': did you mean shop/2/7"),
        ("2/7", "no run called '2/7': did you mean shop/2/7?"),  # a part of a name
        ("quite another", "no run called 'quite another': stepscope list prints the names"),
    ],
)
def test_a_run_is_found_by_any_start_that_only_one_has(text: str, found: str) -> None:
    names = {
        "a": "shop/1/0",
        "b": "shop/1/00",
        "c": "shop/2/7",
        "d": "c" * 12 + " is mine",
        "e": "end…",
    }
    names["f"] = "ending"
    with Store.open(":memory:") as store:
        store.put(run(user(key), id=key * 64, name=name) for key, name in names.items())
        if len(found) == 64:
            assert store.find(text) == found
        else:
            with pytest.raises(UsageError) as raised:
                store.find(text)
            assert found in str(raised.value)


@pytest.mark.parametrize(
    ("name", "handle"),
    [
        ("shop/1", "shop/1"),
        ("my shop/1", "'my shop/1'"),
        ("$(rm -rf ~)", "'$(rm -rf ~)'"),
        ("it's", """'it'"'"'s'"""),
        ("two\nlines", "a" * 12),  # would not be shown as it is
        ("\x1b[31mred", "a" * 12),
        ("a\u202eb", "a" * 12),
        ("--help", "a" * 12),  # would be read as an option
        ("twin", "a" * 12),  # is another's, too
        ("", "a" * 12),
        (" ", "a" * 12),
        ("sk-proj-" + "aB3" * 16, "a" * 12),  # is a secret
    ],
)
def test_what_names_a_run_can_be_pasted_and_finds_it(name: str, handle: str) -> None:
    with Store.open(":memory:") as store:
        others = [run(user("b"), id="b" * 64, name="twin"), run(user("c"), id="c" * 64, name="z")]
        store.put([run(user("a"), id="a" * 64, name=name), *others])
        assert store.handle("a" * 64, name) == handle
        (typed,) = shlex.split(handle)
        assert store.find(typed) == "a" * 64


def test_runs_are_found_by_name_id_or_a_unique_start() -> None:
    made = [
        run(user("a"), id="abc111", name="shop/1/0"),
        run(user("b"), id="abc222", name="twin"),
        run(user("c"), id="def333", name="twin"),
        run(user("d"), id="twin", name="other"),
    ]
    with Store.open(":memory:") as store:
        store.put(made)
        assert store.find("shop/1/0") == "abc111"
        assert store.find("de") == "def333"
        assert store.find("twin") == "twin"  # an id wins over a name
        with pytest.raises(UsageError, match="more than one run: shop/1/0, abc222; say more"):
            store.find("abc")
        for unknown in ("zz", "%", "shop/1/0 ", "shop_1"):
            with pytest.raises(UsageError, match="no run called"):
                store.find(unknown)
        with pytest.raises(UsageError, match="no run is named"):
            store.find("")
        with pytest.raises(StoreError, match="no run 'zz'"):
            store.trajectory("zz")


def test_light_columns_hold_what_a_run_cost_and_leave_out_what_sqlite_cannot_hold() -> None:
    costly = msgspec.structs.replace(
        agent("b"), usage=Usage(input_total=5, output_total=2), cost_usd=0.5
    )
    endless = Usage(input_total=2**63, output_total=2)
    with Store.open(":memory:") as store:
        store.put([run(costly, *did("y"), id="a"), run(costly, usage=endless, id="b")])
        assert [found for _, _, found in store.figures()] == [
            (3, 1, 7, 0.5, None),
            (1, 0, None, 0.5, None),
        ]


def test_media_lie_beside_the_store_and_come_back(tmp_path: Path) -> None:
    picture = Part("image", media_type="image/png", data=NEEDLE)
    broken = Part("file", data="no base64!", extra={"data": "not media"})
    step = msgspec.structs.replace(
        user("see"), parts=(Part("text", 'a "data": b'), picture, broken)
    )
    made = run(*did("look"), step)
    with Store.open(tmp_path / "s.db") as store:
        store.put([made, msgspec.structs.replace(made, id="r2", name="again")])
        stored = store.trajectory("r1")
        assert [p.data for p in stored.steps[2].parts] == [None, None, "no base64!"]
        assert store.with_media(stored) == made
        blobs = tmp_path / "s.db.blobs"
        files = list(blobs.iterdir())
        assert [f.read_bytes() for f in files] == [b"\x00picture\xff" * 9]
        assert [f.stat().st_mode & 0o777 for f in (blobs, *files)] == [0o700, 0o600]
        assert NEEDLE.encode() not in (tmp_path / "s.db").read_bytes()
        files[0].write_bytes(b"changed")
        with pytest.raises(StoreError, match="has been changed"):
            store.with_media(stored)
        files[0].unlink()
        with pytest.raises(StoreError, match="cannot be read"):
            store.with_media(stored)


def test_in_memory_media_stay_in_the_run() -> None:
    made = run(msgspec.structs.replace(user("see"), parts=(Part("image", data=NEEDLE),)))
    with Store.open(":memory:") as store:
        store.put([made])
        assert store.with_media(store.trajectory("r1")) == made == store.trajectory("r1")


def test_runs_come_by_name_not_by_time_of_import() -> None:
    with Store.open(":memory:") as store:
        store.put(run(user(n), id=n, name=n, outcome=Outcome()) for n in ("c", "a", "b"))
        assert list(store.runs().name) == ["a", "b", "c"]
        assert [t.name for t in store.trajectories()] == ["a", "b", "c"]


def test_runs_of_one_name_come_by_id_and_signs_in_the_order_that_sqlite_has() -> None:
    names = ["same", "same", "\U0001d4b3", "\uff3a", "\u00e9", "z", "Z", "a\0b", "a", 'q"\\']
    with Store.open(":memory:") as store:
        ids = [f"{9 - at:x}" for at in range(len(names))]
        store.put(run(user(n), id=id, name=n) for id, n in zip(ids, names, strict=True))
        runs = store.runs()
        assert runs.key.tolist() == store.keys()
        assert list(zip(runs.name, runs.id, strict=True)) == sorted(zip(names, ids, strict=True))
        assert [store.find(id) for id in runs.id] == list(runs.id)
