from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.judging_prompts import Prompt, planned, repeated, write


def test_everybody_is_asked_the_same_and_every_call_of_ours_is_another_purchase(
    tmp_path: Path,
) -> None:
    once = planned()
    assert len(once) == 100
    asked = repeated(once, 250)
    assert len({judgement.asks[0].key for judgement in asked}) == 250
    write(tmp_path / "prompts.jsonl", once)
    lines = (tmp_path / "prompts.jsonl").read_bytes().splitlines()
    prompts = [msgspec.json.decode(line, type=Prompt) for line in lines]
    request = asked[137].asks[0].request
    assert prompts[37].user == f"{request.context}\n\n{request.question}"
    assert prompts[37].schema == request.schema
