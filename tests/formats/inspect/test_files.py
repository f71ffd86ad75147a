"""An Inspect log gives the same runs as `.eval` and `.json`, whole, cut, packed or spread out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.errors import LimitError, TraceError
from stepscope.formats.files import ZSTD_METHOD
from stepscope.formats.finish import Ordinals
from stepscope.formats.inspect.read import FORMAT
from stepscope.formats.reading import Counts, read_files, split_file
from stepscope.formats.reading import read_chunk as read_portion
from stepscope.model import Quarantined, Stream, Trajectory
from stepscope.safety.limits import Limits
from tests.formats.inspect.made import (
    Record,
    assistant,
    call,
    header,
    log,
    member,
    model,
    packed,
    ran,
    sample,
    tool,
    user,
    zipped,
)
from tests.formats.reading import read, written

GO, ASK, DONE = user("go", "u"), assistant("look", "a", call("c1")), assistant("done", "b")
BYE = user("bye", "e")
POOL = [GO, ASK, tool("c1", "attachment://0", "t"), DONE, BYE]
FIRST = sample(
    model([GO], ASK),
    ran("c1", "etc"),
    model([GO, ASK, tool("c1", "etc", "t")], DONE),
    messages=[GO, ASK, tool("c1", "etc", "t"), DONE, BYE],
    metadata={"k": 1},
)
SECOND = sample(model([GO], DONE), id="other", epoch=2, uuid="V")
LOG = log(FIRST, SECOND)


def runs(value: Any, *, limits: Limits | None = None) -> list[Trajectory]:
    found = read(FORMAT, value, limits=limits)
    assert all(isinstance(item, Trajectory) for item in found), found
    return [item for item in found if isinstance(item, Trajectory)]


def shown(found: list[Trajectory | Quarantined]) -> list[str]:
    return [
        item.name if isinstance(item, Trajectory) else f"quarantined: {item.reason}"
        for item in found
    ]


IDS = [run.id for run in runs(LOG)]


def chunked(found: Record) -> list[tuple[str, Any]]:
    """The first sample of a log spread over a folder, as newer logs may have it."""
    one = dict(found["samples"][0])
    folder = member(one).removesuffix(".json")
    events = [dict(event) for event in one.pop("events")]
    events[0].update(input=[], input_refs=[[0, 1]])
    events[2].update(input=[], input_refs=[[0, 3]])
    metadata = one.pop("metadata")
    one.pop("messages")
    return [
        ("header.json", header(found)),
        (f"{folder}/sample.json", {**one, "message_refs": [[0, 5]]}),
        (f"{folder}/metadata.json", metadata),
        (f"{folder}/skeleton.json", {}),
        (f"{folder}/events/1.json", events[1:]),
        (f"{folder}/events/0.json", events[:1]),
        (f"{folder}/events/stats.json", {}),
        (f"{folder}/events/uuids.json", []),
        (f"{folder}/messages/0.json", POOL[:3]),
        (f"{folder}/messages/3.json", POOL[3:]),
        (f"{folder}/calls/0.json", []),
        (f"{folder}/attachments/0.json", ["etc"]),
    ]


FORMS: dict[str, bytes] = {
    "eval": packed(LOG),
    "eval stored": packed(LOG, method=zipfile.ZIP_STORED),
    "eval zstd": packed(LOG, method=ZSTD_METHOD),
    "eval not finished": packed(LOG, start=True),
    "json indented": json.dumps(LOG, indent=2).encode(),
    "json of one line": written(LOG) + b"\n",
    "json with its header behind": written({"samples": LOG["samples"], **header(LOG)}),
    "json with a mark": b"\xef\xbb\xbf" + written(LOG),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_log_has_the_same_runs_and_is_known_by_content(form: str) -> None:
    assert FORMAT.sniff(FORMS[form]) > 0.9 or "behind" in form
    found = runs(FORMS[form])
    assert [run.id for run in found] == IDS
    assert [run.workflow for run in found] == ["pack/guess", "pack/guess"]


def test_a_sample_spread_over_a_folder_is_put_together() -> None:
    (found,) = runs(zipped(chunked(LOG)))
    assert found.id == IDS[0]
    assert found.extra is not None
    assert found.extra["metadata"] == {"k": 1}


def test_an_archive_that_is_a_log_is_one_file_and_another_is_its_members(tmp_path: Path) -> None:
    eval_log, archive = tmp_path / "a.eval", tmp_path / "b.zip"
    eval_log.write_bytes(FORMS["eval zstd"])
    archive.write_bytes(zipped([("x.json", LOG), ("inner.eval", FORMS["eval"])]))
    told = []
    for reading in read_files([str(tmp_path)]):
        told += [(item.source.uri, item.id) for item in reading if isinstance(item, Trajectory)]
        told += [(reading.uri, reading.account.problem)] if reading.account.problem else []
    assert told == [
        (str(eval_log), IDS[0]),
        (str(eval_log), IDS[1]),
        (f"{archive}!x.json", IDS[0]),
        (f"{archive}!x.json", IDS[1]),
        (f"{archive}!inner.eval", "a zip within another file; unpack it first"),
    ]


def test_without_a_library_for_zstd_the_extra_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(FORMS["eval zstd"])
    code = (
        "import sys; sys.modules.update({'backports': None, 'compression': None});"
        "from stepscope.cli.main import main; sys.argv[1:] = ['import', 'a.eval']; sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (
        2,
        "error: a.eval: member 'header.json': packed by zstd; reading it needs a package: "
        "pip install 'stepscope[zstd]'\n",
    )


def test_a_log_that_was_cut_gives_what_is_whole() -> None:
    whole = FORMS["json of one line"]
    for end in range(whole.index(b'"samples"') + 20, len(whole), 97):
        found = read(FORMAT, whole[:end])
        names = [name for name in shown(found) if not name.startswith("quarantined")]
        assert names == ["guess/s/1", "guess/other/2"][: len(names)]
        kept = b"".join(item.raw for item in found if isinstance(item, Quarantined))
        assert len(names) == 2 or kept in whole[:end]
        assert len(names) + (len(kept) > 0) >= 1 or whole[:end].rstrip(b", ").endswith(b"[")


def test_an_archive_that_was_cut_is_refused_as_one() -> None:
    with pytest.raises(TraceError, match="a zip without its end"):
        runs(FORMS["eval"][:-30])


def test_a_broken_sample_is_quarantined_without_the_others() -> None:
    broken = packed(log(SECOND), (member(FIRST), b'{"id": "s", "epoch": 1, '), ("odd.txt", b"hi"))
    assert shown(read(FORMAT, broken)) == [
        "guess/other/2",
        "quarantined: not JSON: Expecting property name enclosed in double quotes (byte 24)",
        "quarantined: member 'odd.txt' is no part of an Inspect log",
    ]
    found = [item for item in read(FORMAT, broken) if isinstance(item, Quarantined)]
    assert [item.raw for item in found] == [b'{"id": "s", "epoch": 1, ', b"hi"]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTD_METHOD])
def test_a_damaged_member_is_quarantined_without_the_others(method: int) -> None:
    data = bytearray(packed(LOG, method=method))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = archive.getinfo(member(FIRST))
    start = entry.header_offset + 30 + len(entry.filename)
    data[start + entry.compress_size // 2] ^= 0xFF
    first, second = shown(read(FORMAT, bytes(data)))
    assert first.startswith("quarantined: member 'samples/s_epoch_1.json' is damaged")
    assert second == "guess/other/2"


def test_a_member_that_unpacks_to_more_than_it_says_is_damaged() -> None:
    data = bytearray(packed(LOG, method=ZSTD_METHOD))
    at = data.rindex(member(FIRST).encode()) - 46  # its entry in the directory at the end
    data[at + 24 : at + 28] = (10).to_bytes(4, "little")
    assert shown(read(FORMAT, bytes(data))) == [
        "quarantined: member 'samples/s_epoch_1.json' is damaged: unpacks to something else than "
        "it declares",
        "guess/other/2",
    ]


def test_a_sample_beyond_the_limit_is_quarantined_and_says_which() -> None:
    size = len(written(FIRST))
    for form in ("eval", "eval zstd", "json of one line"):
        found = read(FORMAT, FORMS[form], limits=Limits(line_bytes=size - 1))
        assert "raise limits.line_bytes" in shown(found)[0]
        assert shown(found)[1:] == ["guess/other/2"]
    with pytest.raises(LimitError, match=r"limits\.line_bytes"):
        runs(FORMS["json of one line"], limits=Limits(line_bytes=100))


def test_samples_that_were_not_logged_come_from_their_summaries() -> None:
    summary = {"id": "n", "epoch": 1, "input": "go", "scores": {"m": {"value": "C"}}, "uuid": "W",
               "completed": True}  # fmt: skip
    known = {"id": "s", "epoch": 1, "input": "go"}
    found = runs(packed(log(FIRST), ("summaries.json", [known, summary])))
    assert [run.name for run in found] == ["guess/s/1", "guess/n/1"]
    assert [step.text for step in found[1].steps] == ["go"]
    assert (found[1].outcome.status, found[1].termination) == ("pass", "completed")
    journal = ("_journal/summaries/1.json", [known, summary])
    assert len(runs(packed(log(FIRST), journal, start=True))) == 2


def test_a_key_twice_in_the_header_is_told() -> None:
    whole = log(FIRST)
    plain = packed(whole)
    twice = msgspec.json.encode(header(whole)).replace(b"{", b'{"zz": 1, "zz": 2, ', 1)
    with zipfile.ZipFile(io.BytesIO(plain)) as before, io.BytesIO() as raw:
        with zipfile.ZipFile(raw, "w") as after:
            for name in before.namelist():
                after.writestr(name, twice if name == "header.json" else before.read(name))
        told, run = read(FORMAT, raw.getvalue())
    assert isinstance(told, Quarantined)
    assert told.reason.startswith("the header of the log: 1 key(s) of an object came twice")
    assert isinstance(run, Trajectory)


def test_what_stands_between_samples_is_told() -> None:
    whole = FORMS["json of one line"].replace(b'}, {"id": "other"', b'} 7, {"id": "other"')
    assert shown(read(FORMAT, whole)) == [
        "guess/s/1",
        "quarantined: between samples; expected one comma",
        "guess/other/2",
    ]


def test_portions_give_what_the_whole_file_gives(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(FORMS["eval zstd"])
    for reading in read_files([str(path)]):
        split = split_file(reading)
        assert split is not None
        parts = [part for part in split if not isinstance(part, Quarantined)]
    found = [list(read_portion(part, Limits(), Ordinals(), Counts())) for part in parts]
    assert [[item.id for item in one if isinstance(item, Trajectory)] for one in found] == [
        [own] for own in IDS
    ]


@pytest.mark.parametrize("form", ["eval", "json"])
def test_memory_does_not_grow_with_the_log(form: str, tmp_path: Path) -> None:
    many = [{**FIRST, "id": n, "uuid": str(n), "note": "x" * 50_000} for n in range(200)]
    path = tmp_path / "many"
    path.write_bytes(packed(log(*many)) if form == "eval" else written(log(*many)))
    del many
    tracemalloc.start()
    with path.open("rb") as file:
        assert sum(1 for _ in FORMAT.read(Stream(file, str(path)))) == 200
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "value",
    [
        {"events": [{"event": "model"}], "description": "x", "expected": {}},
        {"eval": "a string", "status": "x"},
        {"eval": {"task": "t"}},
        [LOG],
        {"samples": []},
    ],
)
def test_what_is_like_a_log_is_none(value: Any) -> None:
    assert FORMAT.sniff(written(value)) == 0.0


def test_an_archive_without_a_header_is_no_log() -> None:
    with pytest.raises(TraceError, match=r"no Inspect log; it has neither header\.json nor"):
        runs(zipped([(member(FIRST), FIRST)]))
    assert FORMAT.sniff(zipped([("a.json", FIRST)])) == 0.0
    assert FORMAT.sniff(b"PK\x03\x04") == 0.0


@pytest.mark.parametrize("key", [r"\u0073amples", "".join(rf"\u{ord(c):04x}" for c in "samples")])
def test_the_key_of_the_samples_may_be_escaped(tmp_path: Path, key: str) -> None:
    plain = json.dumps(LOG)
    spelt = plain.replace('"samples": [', f'"{key}"  : [')
    assert spelt != plain
    found = []
    for name, text in (("a.json", plain), ("b.json", spelt)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        items = [item for reading in read_files([str(tmp_path / name)]) for item in reading]
        found.append([item.id for item in items if isinstance(item, Trajectory)])
    assert found[0] == found[1]
    assert len(found[0]) == 2
