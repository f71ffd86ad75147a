"""Rows of other people's verdicts: CSV with a header, JSON lines or a JSON array, Parquet.

A row is a table of cells by column; what they mean is said by whoever imports them. A row that
cannot be read is quarantined alone, with its number (CSV, Parquet; the header is row 1) or the byte
that it begins at (JSON). Refused as a whole: bytes that are no UTF-8, a column named twice.

Labels that other tools export are told by their fields and get our columns: LangSmith feedback,
Langfuse scores (API and blob export), Phoenix annotations (API and data frame), MLflow assessments
(alone or in traces), tasks of Label Studio, validation sets of Inspect Scout. Sources: the
feedback data format of LangSmith; the score object and the blob storage fields of Langfuse;
SpanAnnotation of Phoenix; mlflow.entities.Assessment; the task format of Label Studio; "IDs and
Targets" of Scout.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import files
from stepscope.formats.fields import entries_at, object_at
from stepscope.formats.format import decode_records, quarantine_record
from stepscope.formats.records import CHUNK_ROWS, is_json, read_csv, read_text_blocks
from stepscope.model import Json, Quarantined, Stream
from stepscope.safety.text import unescape_formula, visible_line

# A score of Langfuse, as its API and its blob export call the fields.
_LANGFUSE: dict[str, tuple[str, ...]] = {
    "run": ("traceId", "trace_id"),
    "span": ("observationId", "observation_id"),
    "axis": ("name",),
    "label": ("stringValue", "string_value"),
    "value": ("value",),
    "reason": ("comment",),
    "judge": ("authorUserId", "author_user_id"),
    "kind": ("source",),
    "given_at": ("timestamp", "createdAt"),
}
# Of each tool the fields that tell its labels, and where these hold what our columns do. `kind`
# says whether a person labelled, `span` what of the run it is about.
EXPORTS: tuple[tuple[frozenset[str], dict[str, tuple[str, ...]]], ...] = (
    (
        frozenset({"feedback_source", "key"}),
        {
            "run": ("trace_id", "run_id"),
            "span": ("run_id",),
            "axis": ("key",),
            "label": ("value",),
            "value": ("score",),
            "reason": ("comment",),
            "judge": ("feedback_source.user_name", "feedback_source.user_id"),
            "kind": ("feedback_source.type",),
            "given_at": ("created_at",),
        },
    ),
    (frozenset({"dataType", "name"}), _LANGFUSE),
    (frozenset({"data_type", "name"}), _LANGFUSE),
    (
        frozenset({"annotator_kind"}),
        {
            "run": ("trace_id",),
            "span": ("span_id", "context.span_id"),
            "axis": ("annotation_name", "name"),
            "label": ("result.label", "label"),
            "value": ("result.score", "score"),
            "reason": ("result.explanation", "explanation"),
            "judge": ("user_id", "identifier"),
            "kind": ("annotator_kind",),
            "given_at": ("created_at",),
        },
    ),
    (
        frozenset({"assessment_name"}),
        {
            "run": ("trace_id",),
            "span": ("span_id",),
            "axis": ("assessment_name",),
            "value": ("feedback.value", "expectation.value"),
            "reason": ("rationale",),
            "judge": ("source.source_id",),
            "kind": ("source.source_type",),
            "given_at": ("create_time",),
        },
    ),
)
# What tools call labels that no person gave.
MACHINES = frozenset("LLM CODE LLM_JUDGE AI_JUDGE EVAL API MODEL AUTO_EVAL".split())
# Columns of a validation set that begin so have the name of what is labelled behind it.
_TARGETS = ("target_", "label_")
DELIMITERS = ",;\t"
_HEAD = 4096


class VerdictFileRow(NamedTuple):
    """A row: where it stands, its cells by column, its text, and whether all rows have these."""

    place: int
    cells: Mapping[str, Json]
    raw: bytes
    tabular: bool


def read_verdict_rows(stream: Stream) -> Iterator[VerdictFileRow | Quarantined]:
    """Yield the rows of a file.

    `TraceError` where it is no text or names a column twice, `ConfigError` for Parquet without
    pyarrow.
    """
    head = stream.file.read(_HEAD)
    if head.startswith(files.PARQUET_MAGIC) and stream.file.seekable():
        stream.file.seek(0)
        with files.open_parquet(stream) as file:
            files.check_parquet_sizes(file, stream)
            batches = files.read_batches(file, stream, CHUNK_ROWS)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, cells in enumerate(rows, 2):
                raw = msgspec.json.encode(cells, enc_hook=str)
                yield VerdictFileRow(number, cells, raw, tabular=True)
        return
    whole = Stream(files.rewind(stream.file, head), stream.uri, stream.limits)
    if not is_json(head):
        yield from _read_csv_rows(whole)
        return
    for record in decode_records(whole):
        if isinstance(record, Quarantined):
            yield record
        elif isinstance(record.value, dict):
            yield VerdictFileRow(record.offset, record.value, record.raw, tabular=False)
        else:
            yield quarantine_record(record, "a row is no JSON object of columns")


def _read_csv_rows(stream: Stream) -> Iterator[VerdictFileRow | Quarantined]:
    blocks = read_text_blocks(stream)
    first, _, rest = next(blocks, "").partition("\n")
    mark = max(DELIMITERS, key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceError(f"{stream.uri}, row 1: column {twice[0]!r} is named twice; rename one")
    reader = read_csv(chain([rest], blocks), mark)
    number = 1
    try:
        for row in reader:
            number += 1
            if not row:
                continue
            raw = mark.join(row).encode()
            if len(row) == len(names):
                cells = dict(zip(names, map(unescape_formula, row), strict=True))
                yield VerdictFileRow(number, cells, raw, tabular=True)
            else:
                reason = f"row {number}: {len(row)} cells; the header has {len(names)} columns"
                yield Quarantined(reason=reason, offset=number, raw=raw, uri=stream.uri)
    except csv.Error as e:
        where = visible_line(stream.uri)
        raise TraceError(f"{where}, row {number + 1} or later: {e}") from e


def read_label_exports(cells: Mapping[str, Json]) -> list[dict[str, Json]] | None:
    """Return the labels in a row that another tool exported, in our columns; None for other rows.

    A label that is a number or a truth value is a value, and a text for what rubrics call it.
    """
    data, held = cells.get("data"), cells.get("assessments")
    if isinstance(data, list) and set(cells) <= {"data", "meta", "next_cursor"}:
        pages = [read_label_exports(one) for one in data if isinstance(one, dict)]
        return [row for page in pages for row in page or ()]
    if isinstance(cells.get("info"), dict) and held is None:
        held = find_cell(cells, "info.assessments")
    if isinstance(held, list):
        trace = find_cell(cells, "trace_id") or find_cell(cells, "info.trace_id")
        named = [{"trace_id": trace, **one} for one in held if isinstance(one, dict)]
        return [row for one in named for row in read_label_exports(one) or ()]
    if isinstance(cells.get("annotations"), list) and isinstance(data, dict):
        return list(_read_label_studio(data, cells["annotations"]))
    for keys, columns in EXPORTS:
        if keys <= cells.keys():
            found = {name: _first_cell(cells, paths) for name, paths in columns.items()}
            if found.get("span") == found.get("run"):
                found["span"] = None
            return [_as_label(found)]
    if "id" in cells and "label" not in cells:
        return list(_read_targets(cells)) or None
    return None


def find_cell(cells: Mapping[str, Json], path: str) -> Json:
    """Return what a row holds under a column, or under a path into nested objects."""
    if path in cells:
        return cells[path]
    found: Json = dict(cells)
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _first_cell(cells: Mapping[str, Json], paths: Iterable[str]) -> Json:
    found = (find_cell(cells, path) for path in paths)
    return next((one for one in found if one is not None and one != ""), None)


def _as_label(row: dict[str, Json]) -> dict[str, Json]:
    value = row.get("value")
    if isinstance(value, list | dict):
        value = None
    if row.get("label") in (None, "") and value not in (None, ""):
        whole = isinstance(value, float) and value.is_integer()
        row["label"] = int(value) if whole else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        row.pop("value", None)
    return row


def _read_targets(cells: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """Yield the targets of a case of a validation set, one of each name."""
    targets = cells.get("labels", cells.get("target"))
    named = dict(targets) if isinstance(targets, dict) else {}
    if "target" in cells and not named:
        yield _as_label({"run": cells["id"], "value": targets})
    for name, target in cells.items():
        begins = next((one for one in _TARGETS if name.startswith(one)), None)
        if begins is not None:
            named[name.removeprefix(begins)] = target
    for name, target in named.items():
        yield _as_label({"run": cells["id"], "axis": name, "value": target})


def _read_label_studio(data: dict[str, Json], annotations: Json) -> Iterator[dict[str, Json]]:
    """Yield what annotators chose, rated or counted in a task; drawn regions are no labels."""
    runs = ("run", "run_id", "trajectory", "trace_id", "id")
    about = {"run": _first_cell(data, runs), "step": data.get("step")}
    for one in annotations if isinstance(annotations, list) else ():
        if not isinstance(one, dict) or one.get("was_cancelled"):
            continue
        paths = ("completed_by.email", "completed_by.id", "completed_by")
        given = {"judge": _first_cell(one, paths), "kind": "HUMAN"}
        given |= {"seconds": one.get("lead_time"), "given_at": one.get("created_at")}
        for result in entries_at(one, "result"):
            if not (value := object_at(result, "value")):
                continue
            chosen = value.get("choices") or [value.get("rating", value.get("number"))]
            for choice in chosen if isinstance(chosen, list) else ():
                if choice is not None:
                    row = {"axis": result.get("from_name"), "value": choice, **about, **given}
                    yield _as_label(row)
