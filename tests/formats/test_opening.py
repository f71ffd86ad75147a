"""What the first bytes of a file are taken for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.errors import TraceError
from stepscope.formats.opening import HEAD_BYTES, is_first_cut, outline_first, read_opening
from stepscope.formats.reading import read_files
from stepscope.model import Json, Trajectory
from tests.formats import test_whowhen as whowhen
from tests.formats.chat.test_openai import CHAT
from tests.formats.test_mini_swe_agent import RUN as MINI

LONG = "a" * HEAD_BYTES


@pytest.mark.parametrize(
    ("head", "shape", "records"),
    [
        (b'[{"a": 1}, {"b": 2,}, {"c": 3}]', "array", ({"a": 1}, {"c": 3})),
        (b'[{"a": 1,,}, {"b": 2}, {"c": "cut he', "array", ({"b": 2},)),
        (b'[{"a": 1}, {"b": 2}, {"c": 3}]', "array", ({"a": 1}, {"b": 2}, {"c": 3})),
        (b"[{,}]", "none", ()),
    ],
)
def test_one_broken_record_does_not_hide_the_others(
    head: bytes, shape: str, records: tuple[object, ...]
) -> None:
    found = read_opening(head)
    assert (found.shape, found.records) == (shape, records)


def formats_of(path: Path) -> list[str]:
    return [
        item.source.format
        for reading in read_files([str(path)])
        for item in reading
        if isinstance(item, Trajectory)
    ]


MESSAGE = {"role": "user", "name": "A", "content": "a" * 4000}
BIG: dict[str, Json] = {**whowhen.GENERATED, "history": [MESSAGE] * 99}


@pytest.mark.parametrize("last", ["history", "question", "mistake_step"])
@pytest.mark.parametrize("shape", ["object", "indented", "array", "lines"])
def test_neither_the_order_of_keys_nor_the_size_of_a_record_changes_its_format(
    tmp_path: Path, last: str, shape: str
) -> None:
    ordered = {
        key: BIG[key] for key in sorted(BIG, key=lambda key: (key == last, key != "history"))
    }
    text = json.dumps([ordered] if shape == "array" else ordered)
    if shape == "indented":
        text = json.dumps(ordered, indent=1)
    path = tmp_path / "run"
    path.write_text(text + "\n" * (shape == "lines"), encoding="utf-8")
    assert formats_of(path) == ["whowhen"]


def test_a_key_behind_a_long_list_tells_of_the_more_special_format(tmp_path: Path) -> None:
    padded = [{"role": "system", "content": LONG}, *MINI["messages"]]
    behind = {key: value for key, value in MINI.items() if key != "messages"}
    path = tmp_path / "run"
    path.write_text(json.dumps({"messages": padded, **behind}), encoding="utf-8")
    assert formats_of(path) == ["mini_swe_agent"]


def test_a_record_that_ends_within_the_head_is_not_read_on() -> None:
    line = json.dumps(CHAT).encode() + b"\n"
    assert not is_first_cut(line * (1 + HEAD_BYTES // len(line)))
    assert not is_first_cut(b'{"a": 1}')
    assert is_first_cut(b'{"a": "' + b"x" * HEAD_BYTES)


@pytest.mark.parametrize("text", [b"", b"[", b'{"a": ', b"[1, 2]", b"{}", b"[" * 3000, b"\xff{"])
def test_of_what_holds_no_whole_record_there_is_no_outline(text: bytes) -> None:
    assert outline_first(text) is None


def test_an_outline_keeps_every_key_and_cuts_long_lists_texts_and_depths() -> None:
    deep: Json = 1
    for _ in range(100):
        deep = [deep]
    found = outline_first(json.dumps([{"a": [1] * 999, "deep": deep, "b": LONG}]).encode())
    assert found is not None
    (record,) = json.loads(found)
    assert (list(record), len(record["a"]), len(record["b"])) == (["a", "deep", "b"], 100, 2000)


def test_a_large_file_of_no_format_is_told_as_a_small_one(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(json.dumps({"spam": [LONG, LONG], "eggs": 1}), encoding="utf-8")
    with pytest.raises(TraceError, match="a JSON object with keys spam"):
        formats_of(path)
