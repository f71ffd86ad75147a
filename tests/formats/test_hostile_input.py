"""Each kind of hostile input, as a file: what of it is read, what is set aside, what is told."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope import api, registry
from stepscope.errors import StepscopeError, TraceError
from stepscope.formats.reading import Account, FileReading, read_files
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.limits import MIB, Limits
from stepscope.settings import Settings
from stepscope.testing.format_check import sample_files

GOOD = b'{"task_id": 1, "trial": 0, "traj": [{"role": "user", "content": "hi"}]}'


def run(text: str, **more: Json) -> bytes:
    """One tau-bench run whose only message says what stands, raw, between two quotes."""
    message = b'{"role": "user", "content": "%b"}' % text.encode("utf-8", "surrogatepass")
    extra = b"".join(b', "%b": %b' % (k.encode(), v) for k, v in more.items())
    return b'{"task_id": 2, "trial": 0, "traj": [%b]%b}' % (message, extra)


@contextmanager
def opened(
    path: Path, name: str | None = "tau_bench", limits: Limits | None = None
) -> Iterator[FileReading]:
    """The reading of a file, as long as it is open."""
    all_of_it = read_files([str(path)], format_name=name, limits=limits or Limits())
    yield next(all_of_it)
    assert list(all_of_it) == []


def imported(
    path: Path, content: bytes, limits: Limits | None = None
) -> tuple[list[Trajectory], list[Quarantined], Account]:
    path.write_bytes(content)
    with opened(path, "tau_bench", limits) as reading:
        found = list(reading)
    runs = [item for item in found if isinstance(item, Trajectory)]
    return runs, [item for item in found if isinstance(item, Quarantined)], reading.account


def said(found: Trajectory) -> str:
    return found.steps[0].text


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.name)
def test_a_key_twice_is_told_wherever_it_stands(path: Path) -> None:
    text, form = path.read_text(encoding="utf-8"), registry.format(path.stem)
    for place in re.finditer(r"\{(\s*\})?", text):
        twice = '{"zz": 1, "zz": 2' + ("}" if place[1] else ", ")
        raw = (text[: place.start()] + twice + text[place.end() :]).encode()
        try:
            _ = [
                json.loads(part) for part in (raw.splitlines() if path.suffix[-1] == "l" else [raw])
            ]
        except json.JSONDecodeError:
            continue  # it stood within a text
        found = list(form.read(Stream(io.BytesIO(raw), path.name, Limits())))
        told = {w.code for one in found if isinstance(one, Trajectory) for w in one.warnings}
        set_aside = any(isinstance(one, Quarantined) for one in found)
        assert "duplicate_key" in told or set_aside, place.start()


@pytest.mark.parametrize(
    ("record", "code", "kept"),
    [
        (run("x", odd=b"NaN"), "non_finite", {"odd": "NaN"}),
        (run("x", odd=b"[-Infinity]"), "non_finite", {"odd": ["-Infinity"]}),
        (run("x", odd=b"1e400"), "huge_number", {"odd": "1e400"}),
        (run("x", odd=b"18446744073709551616"), "huge_number", {"odd": "18446744073709551616"}),
        (run("x", odd=b"9" * 5000), "huge_number", {"odd": "9" * 5000}),
        (run("x", odd=b'{"a": 1, "a": 2}'), "duplicate_key", {"odd": {"a": 2}}),
        (run("x", odd=rb'"\ud83d"'), "lone_surrogate", {"odd": r"\ud83d"}),
        (run("x", odd=rb'"a\u0000b"'), "nul", {"odd": r"a\u0000b"}),
    ],
)
def test_what_json_forbids_or_a_store_cannot_hold_is_kept_as_text_and_counted(
    tmp_path: Path, record: bytes, code: str, kept: Json
) -> None:
    runs, broken, account = imported(tmp_path / "f.jsonl", GOOD + b"\n" + record + b"\n")
    assert (len(runs), broken) == (2, [])
    assert account.repaired == {code: 1}
    assert [warning.code for warning in runs[1].warnings] == [code]
    assert runs[1].extra == kept


@pytest.mark.parametrize(
    "bad",
    [
        b'{"task_id": 3, "traj": [{"role": "user", "content": "\xff\xfe"}]}',
        b'{"task_id": 3, "traj": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        b"[" * 129 + b"]" * 129,
        b'{"task_id": 3, "traj": ' + b"[" * 200_000,
        b'{"task_id": 3, "traj": [{"role": "user", "content": "' + b"x" * 9_000 + b'"}]}',
        b'{"task_id": 3, "traj": [{"role": "user", "content": "a\x00b"}]}',
        b'{"task_id": 3, "traj": [],}',
    ],
    ids=["bytes", "half a character", "depth", "no end", "long", "a bare NUL", "comma"],
)
def test_a_bad_line_is_set_aside_alone_with_its_place(tmp_path: Path, bad: bytes) -> None:
    limits = Limits(line_bytes=8_000) if len(bad) < 100_000 else None
    content = GOOD + b"\n" + bad + b"\n" + GOOD + b"\n"
    runs, broken, account = imported(tmp_path / "f.jsonl", content, limits)
    assert [item.source.offset for item in runs] == [0, len(GOOD) + len(bad) + 2]
    assert [item.offset for item in broken] == [len(GOOD) + 1]
    assert (account.runs, account.quarantined) == (2, 1)
    assert "\n" not in broken[0].reason


def test_nesting_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    # The record is one container, the lists in it are the others.
    record = run("x", deep=b"[" * 127 + b"]" * 127)
    runs, broken, _ = imported(tmp_path / "f.jsonl", record)
    assert (len(runs), broken) == (1, [])


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\u0085", "\x7f", "\ufeff", "\u202e"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, sign: str) -> None:
    runs, broken, account = imported(tmp_path / "f.jsonl", run(f"a{sign}b") + b"\n" + GOOD + b"\n")
    assert (len(runs), broken, account.repaired) == (2, [], {})
    assert said(runs[0]) == f"a{sign}b"


def test_a_byte_order_mark_is_taken_away_once_and_told(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    runs, broken, account = imported(tmp_path / "f.jsonl", mark + GOOD + b"\n" + GOOD + b"\n")
    assert (len(runs), broken, account.repaired) == (2, [], {"bom": 1})
    assert runs[0].source.offset == len(mark)


def test_a_long_text_is_cut_with_a_mark_and_the_hash_of_the_whole(tmp_path: Path) -> None:
    runs, _, account = imported(tmp_path / "f.jsonl", run("x" * (MIB + 1)))
    text = said(runs[0])
    assert len(text) == MIB
    assert text.endswith("]")
    assert f"[truncated: {MIB + 1} bytes in all, sha256 " in text
    assert account.repaired == {"truncated": 1}


def test_odd_text_is_stored_and_comes_back_as_it_was_read(tmp_path: Path) -> None:
    odd = [r"\ud83d", r"a\u0000b", r"\u0007\u001b[2J", "\u202e"]
    path = tmp_path / "f.jsonl"
    path.write_bytes(
        b"\n".join(
            b'{"task_id": %d, "trial": 0, "traj": [{"role": "user", "content": "%b"}]}'
            % (at, text.encode())
            for at, text in enumerate(odd)
        )
    )
    with api.open(tmp_path / "runs.db", settings=Settings()) as notebook:
        assert notebook.add(path).runs == 4
        kept = {found.task: said(found) for found in notebook.trajectories()}
    assert kept == {"0": r"\ud83d", "1": r"a\u0000b", "2": "\x07\x1b[2J", "3": "\u202e"}


class Growing:
    """A file that somebody else writes to while it is read."""

    def __init__(self, path: Path, more: list[bytes]) -> None:
        self.path = path
        self.more = more

    def append(self) -> None:
        if self.more:
            with self.path.open("ab") as file:
                file.write(self.more.pop(0))


def test_a_file_that_grows_while_it_is_read_gives_whole_records_and_tells_of_the_rest(
    tmp_path: Path,
) -> None:
    path = tmp_path / "f.jsonl"
    line = run("x" * 300_000) + b"\n"
    path.write_bytes(line * 8)
    growing = Growing(path, [line, GOOD[:20]])
    found: list[Trajectory | Quarantined] = []
    with opened(path) as reading:
        for item in reading:
            growing.append()
            found.append(item)
    assert [type(item) for item in found] == [Trajectory] * 9 + [Quarantined]
    assert (reading.account.runs, reading.account.quarantined) == (9, 1)
    # What was written later is found when the file is read again.
    with path.open("ab") as file:
        file.write(GOOD[20:] + b"\n")
    with opened(path) as again:
        assert [type(item) for item in again] == [Trajectory] * 10


def test_a_file_that_shrinks_while_it_is_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    path.write_bytes((run("x" * 300_000) + b"\n") * 8)
    found: list[Trajectory | Quarantined] = []
    with opened(path) as reading:
        for item in reading:
            if not found:
                with path.open("r+b") as file:
                    file.truncate(path.stat().st_size // 2 + 1000)
            found.append(item)
    assert isinstance(found[-1], Quarantined)
    assert (reading.account.runs, reading.account.quarantined) == (len(found) - 1, 1)


def test_spans_and_attributes_beyond_the_limits_are_set_aside_or_cut_with_a_mark(
    tmp_path: Path,
) -> None:
    limits = Limits(spans=3, attributes=2, text_bytes=500)

    def span(trace: str, at: int, **about: str) -> Json:
        listed = [{"key": key, "value": {"stringValue": text}} for key, text in about.items()]
        return {"traceId": trace * 32, "spanId": f"{at:016x}", "name": "s", "attributes": listed}

    spans = [
        span("a", 1, x="1", y="2", z="3"),
        span("b", 2, x="t" * 600),
        *[span("c", at) for at in range(3, 7)],
    ]
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    with opened(path, None, limits) as reading:
        found = list(reading)
    runs = [item for item in found if isinstance(item, Trajectory)]
    assert [len(item.spans) for item in runs] == [1, 1]
    assert runs[0].spans[0].attributes == {"x": "1", "y": "2"}
    assert "attributes_cut" in {warning.code for warning in runs[0].warnings}
    assert "[truncated: 600 bytes" in runs[1].spans[0].attributes["x"]
    (broken,) = [item for item in found if isinstance(item, Quarantined)]
    assert "limits.spans" in broken.reason


@pytest.mark.parametrize("kind", ["tar", "zstd", "pickle", "yaml"])
def test_what_is_packed_in_another_way_is_named_and_never_unpacked(
    tmp_path: Path, kind: str
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../../escape"), None)
    content = {
        "tar": packed.getvalue(),
        "zstd": b"\x28\xb5\x2f\xfd" + bytes(20),
        "pickle": b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
        "yaml": b"a: &a [x, x]\nb: &b [*a, *a]\n",
    }[kind]
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="no known trace") as told:
        list(read_files([str(path)]))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", registry.names("formats"))
@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n", b"\xef\xbb\xbf", b"\x00" * 99, b"[]", b"{}", b"null", b'"x"', b"7", b"[[]]"],
)
def test_a_file_of_nothing_is_nothing_or_told_in_every_format(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    try:
        with opened(path, name) as reading:
            found = list(reading)
    except StepscopeError as e:
        assert "\n" not in str(e)  # noqa: PT017 - a refusal is as right as a reading
        return
    blank = not content.strip(b"\n\xef\xbb\xbf[]")
    assert found or blank
