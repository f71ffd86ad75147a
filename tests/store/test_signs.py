"""Signatures of stored runs: which records have one, and the filter `mode`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from stepscope.errors import UsageError
from stepscope.model import Case, Record, Step, ToolCall, ToolResult, Verdict
from stepscope.model.signatures import signature_code
from stepscope.score import score_runs
from stepscope.store import ParquetRows, Rows, Store
from stepscope.store.columns import ANSWERED, NO_RECORD, cell_state
from stepscope.store.store import Current
from stepscope.store.where import parse_where
from stepscope.values import Unmeasured
from tests.factories import FAILED, PASSED, agent, calls, did, failed, result, run, user

FAILS = "pay fails: id * is closed"
SLOW = "a call fails: timed out after * s"
CASE = Case(workflow="shop", task="1")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        opened.put(
            [
                run(user("a"), *failed("pay", "Error: id 7 is closed", id="7"), agent("No."),
                    id="a", name="a", outcome=FAILED),
                run(user("b"), *failed("pay", "Error: id 8 is closed", id="8"), *did("pay", id="9"),
                    agent("Yes."), id="b", name="b", outcome=PASSED),
                # Bad luck that a retry mends has no label: it has its signature without a tool.
                run(user("c"), *failed("pay", "timed out after 30 s", id="7"), agent("No."),
                    id="c", name="c", outcome=FAILED),
                run(user("d"), agent("Hello."), id="d", name="d", outcome=PASSED),
            ]
        )  # fmt: skip
        score_runs(opened, workers=1)
        yield opened


@pytest.fixture(scope="module")
def exported(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("signs")
    store.to_parquet(folder)
    return ParquetRows(folder)


def held(rows: Rows) -> set[tuple[str, int, str]]:
    runs = rows.runs()
    found = rows.signs(runs)
    return {
        (runs.id[at], step, found.texts[number])
        for at, step, number in zip(
            found.at.tolist(), found.step.tolist(), found.number.tolist(), strict=True
        )
    }


def test_an_error_is_signed_once_with_its_tool(store: Store) -> None:
    assert held(store) >= {("a", 1, FAILS), ("b", 1, FAILS), ("c", 2, SLOW)}
    assert not {text for _, _, text in held(store)} & {"a call fails: id * is closed"}
    assert not [of for of, _, _ in held(store) if of == "d"]


def test_one_reason_has_as_many_signatures_as_it_names_faults() -> None:
    with Store.open(":memory:") as store:
        store.put(run(user(n), agent("x"), id=n, name=n) for n in "ab")
        said = Verdict("subgoals", 0.0, reason="0 of 2; missed pay, ship")
        store.append([Record(trajectory=n, answer=said, version="1") for n in "ab"])
        missed = {f"expected call missing: {name}" for name in ("pay", "ship")}
        assert held(store) == {(of, -1, text) for of in "ab" for text in missed}


def test_columns_that_are_read_already_are_taken_as_they_are(store: Store, exported: Rows) -> None:
    for rows in (store, exported):
        runs = rows.runs()
        read = {name: rows.column(name, runs) for name in (*rows.measures(), "never")}
        assert rows.signs(runs, read).state.tolist() == rows.signs(runs).state.tolist()
        crashed = np.full(len(runs), cell_state("error"), np.int8)
        read["errors"] = replace(read["errors"], state=crashed)
        assert set(rows.signs(runs, read).state.tolist()) == {cell_state("error")}


def test_an_export_has_the_signatures_of_the_store(store: Store, exported: Rows) -> None:
    assert held(exported) == held(store)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (f"mode = '{FAILS}'", "ab"),
        (f"mode = '{signature_code(FAILS)}'", "ab"),
        (f"mode != '{FAILS}'", "cd"),
        (f"not mode = '{FAILS}'", "cd"),
        ("mode like 'pay fails%'", "ab"),
        ("mode not like 'pay fails%'", "cd"),
        (f"mode in ('{SLOW}', 'none')", "c"),
        (f"mode not in ('{SLOW}', 'none')", "abd"),
        ("mode = null", "d"),
        ("mode != null", "abc"),
        (f"outcome = 'fail' and mode = '{FAILS}'", "a"),
        (f"(mode = '{SLOW}' or mode = null) and calls = 0", "d"),
        ("mode = 'no such'", ""),
    ],
)
def test_a_filter_chooses_by_mode(store: Store, exported: Rows, text: str, ids: str) -> None:
    for rows in (store, exported):
        assert "".join(sorted(rows.runs(parse_where(text)).id)) == ids


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode < 'x'", "character 6: '<'; expected one of = != ~ like in"),
        ("mode", "character 5: 'the end'; expected one of = != ~ like in"),
        ("mode not = 'x'", "character 10: '='; expected one of = != ~ like in"),
        ("mode like null", "character 11: 'null'; null is allowed only after = and !="),
    ],
)
def test_a_mode_is_compared_as_a_text(text: str, said: str) -> None:
    with pytest.raises(UsageError, match="where, ") as raised:
        parse_where(text)
    assert said in str(raised.value)


def test_a_filter_sees_what_was_written_since() -> None:
    where = parse_where("mode like 'tells%'")
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("x"), id="a", name="a")])
        assert len(store.runs(where)) == 0
        said = Verdict("axes.termination", label="incorrect", step=1, reason="tells 5, and no more")
        store.append([Record(trajectory="a", answer=said, version="1")])
        assert store.runs(where).id.tolist() == ["a"]


def test_answers_that_are_not_current_and_those_of_judges_have_no_signature(tmp_path: Path) -> None:
    def said(version: str, word: str, **fields: str) -> list[Record]:
        return [
            Record(
                trajectory="a",
                answer=Verdict("axes.termination", None, "incorrect", step, reason=f"tells {word}"),
                version=version,
                **fields,  # type: ignore[arg-type]
            )
            for step in (None, 1)
        ]

    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("x"), id="a", name="a")])
        judge = said("1", "judged", family="openai", judge="a/b")
        store.append([*said("1", "old"), *said("2", "new"), *judge])
        store.put_facts([], [Current("axes.termination", "shop", "2", "")])
        assert held(store) == {("a", 1, "tells new")}
        store.to_parquet(tmp_path)
        assert held(ParquetRows(tmp_path)) == held(store)


def test_what_is_current_is_told_by_workflow() -> None:
    with Store.open(":memory:") as store:
        shop = run(user("a"), agent("x"), id="a", name="a")
        air = msgspec.structs.replace(shop, id="b", name="b", workflow="air")
        store.put([shop, air])
        for version in "12":
            said = f"tells v{version}"
            answer = Verdict("axes.termination", None, "incorrect", 1, reason=said)
            store.append([Record(trajectory=x, answer=answer, version=version) for x in "ab"])
        current = [
            Current("axes.termination", name, v, "") for name, v in (("shop", "2"), ("air", "1"))
        ]
        store.put_facts([], current)
        assert len(held(store)) == 2
        store.put_facts([], [Current("axes.termination", "air", "3", "")])
        assert {of for of, _, _ in held(store)} == {"a"}


def test_an_export_signs_what_the_store_signs_and_nothing_else(tmp_path: Path) -> None:
    def says(
        measure: str, reason: str, step: int | None = None, label: str = "incorrect",
        version: str = "2", run: str = "a", **fields: str,
    ) -> Record:  # fmt: skip
        answer = Verdict(measure, 1.0, label, step, reason=reason)
        return Record(trajectory=run, answer=answer, version=version, **fields)  # type: ignore[arg-type]

    ended, order = "axes.termination", "axes.sequencing"
    crashed = Record(trajectory="b", answer=Unmeasured("error", "bug", "step_labels"), version="2")
    lost = Unmeasured("missing_input", "tells nothing", "errors", 2)
    with Store.open(tmp_path / "runs.db") as store:
        ones = [run(user("a"), agent("x"), id=id_, name=id_, case=CASE) for id_ in "abc"]
        store.put(ones)
        store.append(
            [
                says("loops", "4 calls go round: old", version="1"),
                says("loops", "3 calls go round: pay"),
                says(ended, "1", facts="f"), says(ended, "tells 5 sums", 1, facts="f"),
                says(ended, "tells right", 2, "correct", facts="f"),
                says(ended, "tells of a version", 3, version="1", facts="f"),
                says(ended, "tells of facts", 4, facts="g"),
                says(ended, "tells a judge", 5, facts="f", family="openai", judge="a/b"),
                says(order, "1", case=CASE.hash), says(order, "pays first", 1, case=CASE.hash),
                says(order, "pays another case", 2, case="another"),
                says("policy", "1"), says("policy", "pay at 1", 1, "no refunds"),
                says("policy", "", 2, "erased"),
                says("errors", "1"), says("errors", "timed out", 3),
                Record(trajectory="a", answer=lost, version="2"),
                says("step_labels", "", version="1"), says("step_labels", "1 ERROR"),
                says("step_labels", "pay failed: no", 1),
                crashed, says("loops", "5 calls go round: see", run="b"),
                says("step_labels", "1 ERROR", run="c"),
                says("loops", "6 calls go round: buy", run="c"),
            ]
        )  # fmt: skip
        names = ("loops", order, "policy", "errors", "step_labels")
        facts = [*((name, "") for name in names), (ended, "f")]
        store.put_facts([], [Current(name, "shop", "2", hashed) for name, hashed in facts])
        store.purge(parse_where("id = 'b'"))
        store.to_parquet(tmp_path / "p")
        exported = ParquetRows(tmp_path / "p")
        assert sorted(text for of, _, text in held(store) if of == "a") == [
            "a call fails: timed out", "breaks the rule 'no refunds'",
            "calls go round in a circle: pay", "pay fails: no", "pays first", "tells * sums",
        ]  # fmt: skip
        assert held(exported) == held(store)
        assert states(exported) == states(store)
        assert states(store) == {"a": ANSWERED, "b": cell_state("error"), "c": ANSWERED}
        for rows in (store, exported):
            of_c = rows.signs(rows.runs(parse_where("id = 'c'")))
            assert (of_c.at.tolist(), of_c.state.tolist()) == ([0], [ANSWERED])


def states(rows: Rows) -> dict[str, int]:
    runs = rows.runs()
    return dict(zip(runs.id.tolist(), rows.signs(runs).state.tolist(), strict=True))


BLIND = cell_state("missing_input")


EMPTY = Step(index=0, actor="environment", kind="result", results=(ToolResult(None),))


@pytest.mark.parametrize(
    ("id_", "steps", "state"),
    [
        ("recorded", did("get", "open", id="7"), ANSWERED),
        ("nothing", (calls(ToolCall("get", {"id": "7"})),), BLIND),
        ("empty", (calls(ToolCall("get", {"id": "7"})), EMPTY), BLIND),
        ("redacted", (calls(ToolCall("get", {"id": "7"})), result("[REDACTED]", "unknown")), BLIND),
        # A status says whether it is an error, whatever the text was.
        ("status", did("get", "[REDACTED]", id="7"), ANSWERED),
        ("status of an error", failed("get", "[REDACTED]", id="7"), ANSWERED),
        ("no calls", (), ANSWERED),
    ],
)
def test_a_run_without_results_is_not_seen(
    tmp_path: Path, id_: str, steps: tuple[Step, ...], state: int
) -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), *steps, agent("x"), user("b"), agent("y"), id=id_, name=id_)])
        assert states(store) == {id_: NO_RECORD}
        score_runs(store, workers=1)
        assert states(store) == {id_: state}
        store.to_parquet(tmp_path)
        assert states(ParquetRows(tmp_path)) == {id_: state}


def test_a_run_on_which_a_rule_crashed_is_not_seen() -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), *did("get", "open"), agent("x"), id="a", name="a")])
        seen = Verdict("step_labels", 0.0, reason="0 ERROR")
        store.append([Record(trajectory="a", answer=seen, version="1")])
        assert states(store) == {"a": ANSWERED}
        crashed = Unmeasured("error", "KeyError: 'id'", "loops")
        store.append([Record(trajectory="a", answer=crashed, version="1")])
        assert states(store) == {"a": cell_state("error")}


def test_a_purged_run_is_not_seen(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        for id_ in "ab":
            broken = failed("pay", "Error: no")
            store.put([run(user("a"), *broken, agent("x"), id=id_, name=id_)])
        score_runs(store, workers=1)
        store.purge(parse_where("name = 'a'"))
        assert states(store) == {"a": BLIND, "b": ANSWERED}
        store.to_parquet(tmp_path / "p")
        assert states(ParquetRows(tmp_path / "p")) == states(store)


def test_a_purged_run_has_no_signature(tmp_path: Path) -> None:
    with Store.open(tmp_path / "runs.db") as store:
        store.put([run(user("a"), *failed("pay", "Error: no"), agent("x"), id="a", name="a")])
        score_runs(store, workers=1)
        assert held(store)
        store.purge(parse_where("mode like 'pay fails%'"))
        assert held(store) == set()
        assert store.purged() == ["a"]


def test_an_error_is_signed_once_in_every_workflow() -> None:
    with Store.open(":memory:") as store:
        for name in ("air", "shop"):
            broken = run(*failed("pay", "Error: id 7 is closed"), agent("No."), id=name, name=name)
            store.put([msgspec.structs.replace(broken, workflow=name)])
            failure = "pay failed: id 7 is closed"
            answers = [
                Verdict("step_labels", 1.0, reason="1 ERROR"),
                Verdict("step_labels", None, "incorrect", 0, reason=failure),
                Verdict("errors", 1.0),
                Verdict("errors", None, "incorrect", 1, cites=(0,), reason="id 7 is closed"),
            ]
            store.append(
                [
                    Record(trajectory=name, answer=x, version="1", facts=f"of {name}")
                    for x in answers
                ]
            )
            store.put_facts(
                [], [Current(x, name, "1", f"of {name}") for x in ("step_labels", "errors")]
            )
        assert held(store) == {("air", 0, FAILS), ("shop", 0, FAILS)}


def test_no_runs_have_no_signatures(store: Store, exported: Rows) -> None:
    for rows in (store, exported):
        assert len(rows.signs(rows.runs(parse_where("name = 'z'"))).at) == 0


@pytest.mark.parametrize("scored", [False, True])
def test_who_has_scored_is_not_told_to_score(scored: bool) -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("x"), id="a", name="a")])
        if scored:
            score_runs(store, workers=1)
        said = store.explain_no_match(parse_where("mode = 'x'"))
        assert "no failure mode is known" in said
        assert said.endswith("stepscope score") is not scored
