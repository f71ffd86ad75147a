"""The real Inspect logs hold for us what they hold for Inspect, where its environment is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bars.formats.inspect_content import FOLDERS, differences, theirs
from benchmarks.peers import ENVIRONMENTS, Absent, peer
from tests.formats.inspect.made import assistant, call, log, model, ran, sample, tool, user

ASK = assistant("look", "a", call("c1"))
ONE = sample(
    model([user("go", "u")], ASK, usage={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}),
    ran("c1", "etc", error={"type": "timeout", "message": "10 s"}),
    messages=[user("go", "u"), ASK, tool("c1", "etc", "t")],
    scores={"m": {"value": "C"}, "n": {"value": 0.5}},
    model_usage={"m": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}},
)
SAID: dict[str, Any] = {
    "name": "s/1",
    "messages": [
        {"role": "user", "text": "go", "calls": [], "answers": None, "error": None},
        {"role": "assistant", "text": "look", "calls": [["c1", "ls", {}]], "answers": None,
         "error": None},
        {"role": "tool", "text": "etc", "calls": [], "answers": "c1", "error": ["timeout", "10 s"]},
    ],
    "replies": [
        {"role": "assistant", "text": "look", "calls": [["c1", "ls", {}]], "answers": None,
         "error": None},
    ],
    "results": [["c1", "timeout"]],
    "scores": {"m": "C", "n": 0.5},
    "usage": [{"output_tokens": 1, "total_tokens": 4}],
    "error": False,
    "limit": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, []),
        ({"messages": SAID["messages"][::-1]}, ["message 1 is not there, or not in its place"]),
        ({"replies": []}, ["1 replies are others than the 0 of the events"]),
        ({"results": [["c1", None]]}, ["results of tools differ"]),
        ({"scores": {"m": "I"}}, ["scores {'m': 'C', 'n': 0.5}"]),
        ({"limit": "time"}, ["ended None"]),
    ],
)
def test_what_is_not_as_inspect_reads_it_is_told(
    change: dict[str, Any], wrong: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log(ONE)), encoding="utf-8")
    assert list(differences(path, [SAID | change])) == [f"s/1: {line}" for line in wrong]


@pytest.mark.shared_data
def test_the_real_logs_are_read_as_inspect_reads_them(shared: Path) -> None:
    if not (ENVIRONMENTS / "inspect-ai" / "built-from.txt").is_file():
        pytest.skip("shared_data beside Inspect, which is not built: python -m benchmarks.peers")
    found = peer("inspect-ai")
    assert not isinstance(found, Absent)
    paths = [path for folder in FOLDERS for path in sorted((shared / folder).glob("*.eval"))]
    told = theirs(found, paths)
    assert [list(differences(path, one)) for path, one in zip(paths, told, strict=True)] == (
        [[]] * len(paths)
    )
