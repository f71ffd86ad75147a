from __future__ import annotations

from pathlib import Path

import pytest

from bars.formats.formats_table import expectations, rows


@pytest.mark.shared_data
def test_every_file_of_the_real_data_gives_what_was_counted_by_hand(shared: Path) -> None:
    found = list(rows(shared))
    assert [(row.path, row.miss) for row in found if row.miss] == []
    assert len(found) == len(expectations())


def test_every_entry_of_the_table_has_counts_or_says_why_not() -> None:
    for path, entry in expectations().items():
        counted = {"format", "runs", "steps", "calls", "errors"} <= entry.keys()
        assert counted or entry.get("later") or entry.get("why"), path


def test_a_wrong_count_a_misread_and_a_forgotten_file_are_misses(tmp_path: Path) -> None:
    for path in expectations():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    session = '{"type": "user", "sessionId": "s", "message": {"role": "user", "content": "hi"}}'
    (tmp_path / "formats" / "claude_code" / "sample_session.jsonl").write_text(session)
    (tmp_path / "formats" / "otel_genai" / "gen-ai-input-messages.json").write_text(session)
    (tmp_path / "formats" / "atif" / "new.json").write_text("{}")
    missed = {row.path: row.miss for row in rows(tmp_path) if row.miss}
    assert missed["formats/claude_code/sample_session.jsonl"] == (
        "steps 1, expected 7; calls 0, expected 2"
    )
    assert missed["formats/otel_genai/gen-ai-input-messages.json"] == (
        "expected to be refused: a JSON Schema"
    )
    assert missed["formats/atif/new.json"] == "not in the table"
    assert "no known trace" in missed["taubench/airline/runs.json"]
    assert "formats/otel_genai/gen-ai-tool-definitions.json" not in missed
