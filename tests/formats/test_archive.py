"""Members of a zip are read in memory; one built to hurt is refused before it is unpacked."""

from __future__ import annotations

import contextlib
import io
import json
import random
import struct
import zipfile
from pathlib import Path

import pytest

from stepscope.errors import LimitError, TraceError
from stepscope.formats.files import DAMAGE_ERRORS, OpenedFile, open_members
from stepscope.formats.reading import read_files
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import MIB, Limits

TAU = json.dumps([{"task_id": 1, "reward": 0.0, "traj": [], "trial": 0, "info": None}])


def zipped(*members: tuple[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def read(path: Path, data: bytes, limits: Limits | None = None) -> dict[str, str]:
    """Name of each member -> its line of accounting."""
    path.write_bytes(data)
    lines = {}
    for reading in read_files([str(path)], limits=limits or Limits()):
        assert all(isinstance(item, (Trajectory, Quarantined)) for item in reading)
        name = reading.uri.removeprefix(f"{path}!")
        lines[name] = reading.account.line().removeprefix(f"{reading.uri}: ")
    return lines


def refusal(path: Path, data: bytes, limits: Limits | None = None) -> str:
    with pytest.raises(TraceError) as refused:
        read(path, data, limits)
    assert "\n" not in str(refused.value)
    return str(refused.value).removeprefix(f"{path}: ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.zip"


def test_members_are_read_by_content_and_accounted_each(path: Path) -> None:
    data = zipped(("x/", ""), ("x/run.txt", TAU), ("README", "hello"), ("inner.zip", zipped()))
    assert read(path, data) == {
        "x/run.txt": "tau_bench, 1 run, 0 steps, 0 calls",
        "README": "no known trace; it looks like text beginning 'hello'",
        "inner.zip": "a zip within another file; unpack it first",
    }
    assert read(path, zipped()) == {}


@pytest.mark.parametrize(
    "name", ["../run", "a/../../run", "/etc/run", "..\\run", "C:\\run", "c:run", "\\\\host\\run"]
)
def test_a_member_whose_name_leads_out_of_the_archive_is_not_read(path: Path, name: str) -> None:
    lines = read(path, zipped((name, TAU), ("fine..json", TAU)))
    assert list(lines.values()) == [
        "a name that leads out of the archive; not read",
        "tau_bench, 1 run, 0 steps, 0 calls",
    ]
    assert {entry.name for entry in path.parent.iterdir()} == {"a.zip"}


def test_members_packed_or_locked_in_another_way_are_told(path: Path) -> None:
    assert list(read(path, zipped(("a", TAU), method=zipfile.ZIP_LZMA)).values()) == [
        "packed by zip method 14; store, deflate and zstd are read"
    ]
    locked = bytearray(zipped(("a", TAU)))
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    assert read(path, bytes(locked)) == {"a": "encrypted; not read"}


def test_two_members_of_one_name_refuse_the_archive(path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped(("a", TAU), ("a", "other"))
    assert refusal(path, data) == "1 names twice, first 'a'"


def test_a_bomb_is_refused_at_once(path: Path) -> None:
    data = zipped(("bomb", b"0" * (48 * MIB)))
    # What is packed is not looked at: it is broken.
    data = data[:100] + bytes(1_000) + data[1_100:]
    assert "times its size; limits.zip_ratio is 200" in refusal(path, data)
    assert "limits.zip_total_bytes is 1048576" in refusal(path, data, Limits(zip_total_bytes=MIB))


def test_a_small_archive_is_not_judged_by_ratio(path: Path) -> None:
    data = zipped(("a", b" " * (9 * MIB) + TAU.encode()))
    assert list(read(path, data).values()) == ["no known trace; it looks like an empty file"]
    assert "limits.zip_ratio" in refusal(path, data, Limits(zip_ratio_floor_bytes=MIB))


def test_more_members_than_the_limit_are_refused_before_they_are_listed(path: Path) -> None:
    data = zipped(*((str(i), b"") for i in range(11)))
    assert refusal(path, data, Limits(zip_members=10)) == (
        "11 members or more; limits.zip_members is 10"
    )
    assert len(read(path, data, Limits(zip_members=11))) == 11


def test_members_are_counted_in_an_archive_of_the_64_bit_kind(path: Path) -> None:
    data = zipped(*((str(i), TAU) for i in range(11)))
    directory, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    size = end - directory
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 11, 11, size, directory)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    last = struct.pack(
        "<4sHHHHIIH", b"PK\x05\x06", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0
    )
    large = data[:end] + end64 + locator + last
    assert len(read(path, large, Limits(zip_members=11))) == 11
    assert "limits.zip_members is 10" in refusal(path, large, Limits(zip_members=10))


def patched(data: bytes, signature: bytes, offset: int, value: int) -> bytes:
    """The archive with a 32-bit field of its last header of that kind changed."""
    at = data.rindex(signature) + offset
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


@pytest.mark.parametrize("size", [1, 10, 1000, 2**31])
def test_a_member_that_lies_about_its_size_is_told_and_never_read_in_silence(
    path: Path, size: int
) -> None:
    data = patched(zipped(("a", TAU * 20)), b"PK\x01\x02", 24, size)
    try:
        (line,) = read(path, data).values()
    except LimitError:
        assert size == 2**31
    else:
        assert "Bad CRC-32" in line or "looks like" in line


def test_members_that_share_bytes_refuse_the_archive(path: Path) -> None:
    data = zipped(("a", TAU), ("b", TAU))
    assert "member 'a' overlaps the next" in refusal(path, patched(data, b"PK\x01\x02", 42, 0))
    second = data.index(b"PK\x03\x04", 4)
    nudged = patched(data, b"PK\x01\x02", 42, second - 1)
    assert "member 'a' overlaps the next" in refusal(path, nudged)
    longer = data.replace(b"PK\x01\x02", b"PK\x01\x03", 1)
    assert "member 'b' overlaps the next" in refusal(path, patched(data, b"PK\x01\x02", 20, 10**6))
    assert "cannot be read" in refusal(path, longer)


def test_a_quoted_overlap_refuses_the_archive(path: Path) -> None:
    """The first member's data is the second member's header and data, stored."""
    inner = zipped(("b", TAU), method=zipfile.ZIP_STORED)
    header = inner[: inner.index(b"PK\x01\x02")]
    outer = zipped(("a", header), method=zipfile.ZIP_STORED)
    body, rest = outer[: outer.index(b"PK\x01\x02")], outer[outer.index(b"PK\x01\x02") :]
    first, end = rest[: rest.index(b"PK\x05\x06")], rest[rest.index(b"PK\x05\x06") :]
    second = inner[inner.index(b"PK\x01\x02") : inner.index(b"PK\x05\x06")]
    second = second[:42] + struct.pack("<I", len(body) - len(header)) + second[46:]
    directory = first + second
    end = end[:8] + struct.pack("<HHII", 2, 2, len(directory), len(body)) + end[20:]
    with zipfile.ZipFile(io.BytesIO(body + directory + end)) as archive:
        assert archive.namelist() == ["a", "b"]
    assert refusal(path, body + directory + end) == "member 'a' overlaps the next"


def test_an_archive_cut_or_damaged_anywhere_is_never_read_in_silence(path: Path) -> None:
    data = zipped(("a", TAU), ("b", TAU))
    for end in range(4, len(data), 3):
        assert refusal(path, data[:end])
    for at in range(4, len(data), 3):
        damaged = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        path.write_bytes(damaged)
        try:
            for reading in read_files([str(path)]):
                list(reading)
                assert reading.account.line()
        except TraceError as e:
            assert "\n" not in str(e)  # noqa: PT017 - either outcome is right


def test_a_damaged_member_does_not_hide_the_next(path: Path) -> None:
    data = zipped(("a", TAU * 50), ("b", TAU))
    at = data.index(b"a", 30) + 12  # the name stands behind 30 bytes, of which some are the clock
    lines = read(path, data[:at] + b"\xff\xff\xff" + data[at + 3 :])
    assert "cannot be read" in lines["a"] or "damaged" in lines["a"] or "Error" in lines["a"]
    assert lines["b"] == "tau_bench, 1 run, 0 steps, 0 calls"


def test_members_that_begin_before_the_archive_or_have_no_name_are_told(path: Path) -> None:
    data = bytearray(zipped(("run.json", TAU)))
    data[-6:-2] = (int.from_bytes(data[-6:-2], "little") + 90).to_bytes(4, "little")
    assert read(path, bytes(data)) == {"run.json": "begins before its archive does; not read"}
    named = bytearray(zipped(("r\u00fcn", TAU)))
    named[32] = 0xFF  # in the name before the member only, said to be UTF-8
    (line,) = read(path, bytes(named)).values()
    assert line.startswith("cannot be read: 'utf-8' codec")


def test_an_archive_with_any_bytes_wrong_is_read_or_refused() -> None:
    whole = zipped(("run.json", TAU), ("x/", ""), ("other.json", TAU * 20))
    rng = random.Random(5)
    read_whole = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        with contextlib.suppress(TraceError, *DAMAGE_ERRORS):
            for member in open_members(io.BytesIO(data), "f", Limits()):
                if isinstance(member, OpenedFile):
                    member.file.read()
            read_whole += 1
    assert 0 < read_whole < 1500
