"""A gzip file is what it holds, within the limits of archives."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from stepscope.errors import TraceError
from stepscope.formats.reading import Account, read_files
from stepscope.safety.limits import Limits
from tests.formats.test_reading import OURS, accounts, refusal, tau

RUNS = tau().encode()


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def read(path: Path, limits: Limits) -> list[Account]:
    found = []
    for reading in read_files([str(path)], limits=limits):
        list(reading)
        found.append(reading.account)
    return found


def test_a_gzip_file_is_read_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "runs", gzip.compress(RUNS))
    assert accounts([path]) == [Account(uri=str(path), format="tau_bench", runs=1, steps=2)]


def test_members_that_follow_each_other_are_one_file(tmp_path: Path) -> None:
    first, second = OURS.split(b"\n", 1)
    path = write(tmp_path / "x.gz", gzip.compress(first + b"\n") + gzip.compress(second))
    assert [one.runs for one in accounts([path])] == [1]


def test_a_gzip_member_of_a_zip_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("runs.json.gz", gzip.compress(RUNS))
    assert [one.runs for one in accounts([tmp_path / "a.zip"])] == [1]


@pytest.mark.parametrize("inside", ["zip", "tar", "gzip"])
def test_an_archive_within_gzip_is_told_and_never_unpacked(tmp_path: Path, inside: str) -> None:
    held = io.BytesIO()
    if inside == "zip":
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr("runs.json", RUNS)
    elif inside == "tar":
        with tarfile.open(fileobj=held, mode="w") as packed:
            packed.addfile(tarfile.TarInfo("../../escape"), None)
    content = gzip.compress(RUNS) if inside == "gzip" else held.getvalue()
    path = write(tmp_path / "x.gz", gzip.compress(content))
    assert refusal(path) == f"{path}: an archive within gzip; unpack it first"


def test_a_damaged_gzip_file_is_told_and_a_folder_goes_on(tmp_path: Path) -> None:
    packed = gzip.compress(RUNS)
    cut = write(tmp_path / "cut.gz", packed[:-12])
    write(tmp_path / "good.gz", packed)
    assert "cannot be read" in refusal(cut)
    first, second = accounts([tmp_path])
    assert (first.failed, first.skipped, second.runs) == (True, None, 1)


def test_no_more_is_unpacked_than_the_limits_allow(tmp_path: Path) -> None:
    spaces = gzip.compress(b"[" + b" " * 900_000 + RUNS[1:])
    path = write(tmp_path / "x.gz", spaces)
    assert [one.runs for one in read(path, Limits())] == [1]
    with pytest.raises(TraceError, match="unpacks to over 20 times its size"):
        read(path, Limits(zip_ratio_floor_bytes=1000, zip_ratio=20))
    with pytest.raises(TraceError, match="zip_total_bytes"):
        read(path, Limits(zip_total_bytes=1000))
