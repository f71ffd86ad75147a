from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.errors import ConfigError, DataError, EnvironmentFault, UsageError
from stepscope.gates import looks
from stepscope.gates.baseline import (
    MISSING,
    UNREAD,
    _cells_text,
    diff_baselines,
    encode_baseline,
    load_baseline,
    make_baseline,
    said,
    write_baseline,
)
from stepscope.gates.looks import Looks
from stepscope.gates.sample import Absent, Cell, Sample, SampleRun
from tests.gates.rows import gates, report, rows, run, trials

POLICY = gates(outcome={"max_drop": 0.05}, axes__sequencing={"max_rate": 0.1})
RUNS = (
    run("2", outcome=1, efficiency__steps=9, axes__sequencing="correct"),
    run("10", outcome=0, efficiency__steps=12.5, axes__sequencing="?refused"),
    run("2", tag="b", outcome="?error", efficiency__steps=8, axes__sequencing="incorrect"),
)
FILE = """{
 "schema": 1,
 "workflow": "w",
 "commit": "abc",
 "agents": ["bot"],
 "measures": {"axes.sequencing": {"version": "6"}, "efficiency.steps": {"version": "1"}, \
"outcome": {"version": "1"}},
 "n_runs": 3,
 "n_cases": 2,
 "cases": {
  "2": {
   "runs": ["2ac1fbc3c8ad6f9b w/2/0", "4fe1bf8b3a2c4b55 w/2/2"],
   "cells": {
    "axes.sequencing": ["correct", "incorrect"],
    "efficiency.steps": [9, 8],
    "outcome": [1, {"unmeasured": "error"}]
   }
  },
  "10": {
   "runs": ["x w/10/1"],
   "cells": {
    "axes.sequencing": [{"unmeasured": "refused"}],
    "efficiency.steps": [12.5],
    "outcome": [0]
   }
  }
 }
}
"""


def made() -> Sample:
    return make_baseline(rows(*RUNS), POLICY, commit="abc")


def test_a_baseline_is_a_line_a_measure_and_case_in_the_order_of_people() -> None:
    found = encode_baseline(made()).decode()
    ids = [run.id for run in made().runs]
    expected = FILE.replace("2ac1fbc3c8ad6f9b", ids[0]).replace("4fe1bf8b3a2c4b55", ids[1])
    assert found == expected.replace('"x w', f'"{ids[2]} w')
    assert [len(id_) for id_ in ids] == [16, 16, 16]


def test_a_baseline_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "b.json"
    write_baseline(made(), path)
    assert load_baseline(path, "w") == made()
    assert [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_hostile_names_of_cases_come_back_as_they_were(tmp_path: Path) -> None:
    hostile = ['a, b"', "::error::x\n", "\u202e@team", "runs", "", "Fixes #1 ```"]
    named = make_baseline(
        rows(*(run(case, outcome=1, efficiency__steps=1) for case in hostile)), POLICY
    )
    write_baseline(named, tmp_path / "b.json")
    found = load_baseline(tmp_path / "b.json", "w")
    assert isinstance(found, Sample)
    assert set(found.cases) == set(hostile)
    none = load_baseline(tmp_path / "none.json", "w")
    said = "\n".join((*diff_baselines(none, named), *diff_baselines(found, made())))
    assert "\u202e" not in said
    assert not any(line.startswith("::error::") for line in said.split("\n"))


def test_a_key_in_the_name_of_a_case_is_hidden_alike_everywhere(tmp_path: Path) -> None:
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
    named = make_baseline(rows(run(f"c {secret}", outcome=1, efficiency__steps=1)), POLICY)
    again = make_baseline(rows(run(f"c {secret}", outcome=0, efficiency__steps=1)), POLICY)
    assert named.cases == again.cases
    write_baseline(named, tmp_path / "b.json")
    assert secret[:20] not in (tmp_path / "b.json").read_text(encoding="utf-8")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    with pytest.raises(EnvironmentFault, match="cannot be written"):
        write_baseline(made(), tmp_path / "file" / "b.json")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        write_baseline(made(), folder)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_nothing_makes_no_baseline() -> None:
    with pytest.raises(DataError, match="no baseline: no run of 'w': nothing was read"):
        make_baseline(rows(), POLICY)
    with pytest.raises(DataError, match="'outcome' compares 'outcome', for which no run has a rec"):
        make_baseline(rows(run("a", efficiency__steps=1)), POLICY)


TORN = (
    ('"n_runs": 3', '"n_runs": 4', "3 runs of 2 cases"),
    ('"n_cases": 2', '"n_cases": 1', "not 3"),
    ("[9, 8]", "[9]", "1 of efficiency.steps, 2 runs"),
    ("[9, 8]", "[9, null]", "Expected"),
    ('"outcome": [0]', '"other": [0]', "other measures than the file's head"),
    ('"commit": "abc",', '"commit": "abc", "extra": 1,', "unknown field `extra`"),
    ('"commit": "abc",', '"commit": "abc", "commit": "abd",', "a duplicate key"),
)


@pytest.mark.parametrize(("was", "is_", "says"), TORN)
def test_a_baseline_that_was_edited_wrongly_is_refused(
    was: str, is_: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "b.json").write_text(FILE.replace(was, is_), encoding="utf-8")
    found = load_baseline(tmp_path / "b.json", "w")
    assert not isinstance(found, Sample)
    assert found.cause == "baseline_corrupt"
    assert says in found.reason


def test_a_diff_says_what_changes_in_people_s_words() -> None:
    now = make_baseline(
        rows(
            run("2", outcome=0, efficiency__steps=9, axes__sequencing="correct"),
            run("3", outcome=1, efficiency__steps=10, axes__sequencing="correct"),
        ),
        POLICY,
        commit="def",
    )
    assert diff_baselines(made(), now) == (
        "workflow w",
        "runs: 3 runs of 2 cases -> 2 runs of 2 cases",
        "commit: abc -> def",
        "axes.sequencing: 1 correct, 1 incorrect, 1 refused -> 2 correct",
        "  case 2: 1 correct, 1 incorrect -> 1 correct",
        "efficiency.steps: mean 9.833 over 3 runs -> mean 9.5 over 2 runs",
        "  case 2: mean 8.5 over 2 runs -> mean 9 over 1 run",
        "outcome: mean 0.5 over 2 runs, 1 error -> mean 0.5 over 2 runs",
        "  case 2: mean 1 over 1 run, 1 error -> mean 0 over 1 run",
        "cases gone: 10",
        "cases new: 3",
    )
    assert diff_baselines(made(), made()) == ("workflow w", "nothing changes")


def test_the_log_of_looks_lives_beside_the_baseline_and_comes_back(tmp_path: Path) -> None:
    path = looks.look_log_path(tmp_path / "baselines" / "b.json")
    assert path == tmp_path / "baselines" / "looks.json"
    asked, before = gates(outcome={"max_drop": 0.05}), rows(*trials("b", [4] * 9))
    for number in (1, 2):
        log = Looks.open(path)
        now = rows(*trials(str(number), [4] * 9))
        assert report(now, asked, before, commit="abc", looks=log).look == number
        log.save()
    (entry,) = Looks.open(path).log.entries.values()
    assert (entry.looks, len(entry.runs), len(entry.cells["outcome"])) == (2, 72, 72)


TORN_LOGS = (
    b"",
    b"[]",
    b'{"entries": {"k": {"looks": 0, "asked": {}, "runs": [], "cells": {}}}}',
    b'{"entries": {"k": {"looks": 1, "asked": {}, "runs": [], "cells": {"m": [1]}}}}',
    b'{"schema": 2}',
    b'{"k": [1, "x", null]}',
    b'{"a":' * 100_000,
)


@pytest.mark.parametrize("raw", TORN_LOGS)
def test_a_log_that_cannot_be_read_is_never_a_first_look(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "looks.json").write_bytes(raw)
    with pytest.raises(ConfigError):
        Looks.open(tmp_path / "looks.json")


def test_a_name_with_nul_is_a_file_that_cannot_be_read() -> None:
    with pytest.raises(EnvironmentFault, match="NUL"):
        load_baseline("a\0.json", "w")


def test_a_log_in_memory_is_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Looks().save()
    assert list(tmp_path.iterdir()) == []


def test_looks_under_another_version_count_and_are_not_pooled() -> None:
    log, asked = Looks(), gates(outcome={"max_drop": 0.05})
    before = rows(*trials("b", [4] * 9))
    report(rows(*trials("1", [4] * 9)), asked, before, commit="abc", looks=log)
    name, entry = next(iter(log.log.entries.items()))
    older = {"outcome": msgspec.structs.replace(entry.asked["outcome"], version="0")}
    aged = msgspec.structs.replace(entry, asked=older)
    log.log = looks.replace_entry(log.log, name, aged)
    found = report(rows(*trials("2", [4] * 9)), asked, before, commit="abc", looks=log)
    assert (found.look, found.workflows[0].n_runs) == (2, 36)


def test_what_is_absent_is_counted_by_its_kind() -> None:
    absent = [SampleRun("", MISSING, "a"), SampleRun("", MISSING, "b"), SampleRun("", UNREAD, "a")]
    assert said(absent) == "at their worst: 2 missing trials, 1 unread record"
    assert said([]) == ""


def test_cells_are_said_in_few_words() -> None:
    cells: list[Cell] = [1.0, 0.0, "uncertain", Absent("missing_input")]
    assert _cells_text(cells) == "mean 0.5 over 2 runs, 1 missing_input, 1 uncertain"
