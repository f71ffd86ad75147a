"""Trace formats: files in, runs out; nothing read is dropped.

A format of your own is a `RecordFormat` where its records are read each by itself, else a
`FileFormat`; its entry point is `module:FORMAT`. The built-in formats are `NAME` in capitals, as
their entry points name them. Importing this loads no format.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.formats.atif import write as write_atif  # noqa: F401
    from stepscope.formats.fields import parse_call as parse_call
    from stepscope.formats.fields import parse_time as parse_time
    from stepscope.formats.fields import rest as rest
    from stepscope.formats.finish import Ordinals as Ordinals
    from stepscope.formats.finish import finish_run as finish_run
    from stepscope.formats.format import DecodedRecord as DecodedRecord
    from stepscope.formats.format import FileFormat as FileFormat
    from stepscope.formats.format import RecordFormat as RecordFormat
    from stepscope.formats.format import decode_records as decode_records
    from stepscope.formats.format import read_each as read_each
    from stepscope.formats.opening import Opening as Opening
    from stepscope.formats.otlp.write import iter_requests as iter_requests
    from stepscope.formats.otlp.write import write as write_otlp  # noqa: F401
    from stepscope.formats.reading import Account as Account
    from stepscope.formats.reading import FileReading as FileReading
    from stepscope.formats.reading import read_files as read_files

# Where each name is at home; one that is called otherwise there says how.
_HOMES = {
    "AGENTRX_LABELS": "agentrx:FORMAT",
    "ANTHROPIC_MESSAGES": "chat.anthropic:FORMAT",
    "Account": "reading",
    "CHAT_HISTORY": "chat.histories:FORMAT",
    "DecodedRecord": "format",
    "FileFormat": "format",
    "FileReading": "reading",
    "GEMINI_CONTENTS": "google_adk.contents:FORMAT",
    "GOOGLE_ADK": "google_adk.read:FORMAT",
    "GRAPH_TRAJECTORY": "chat.graph_trajectory:FORMAT",
    "INSPECT_AI": "inspect.read:FORMAT",
    "LANGCHAIN_MESSAGES": "chat.langchain:FORMAT",
    "LANGFUSE": "langfuse_files:FORMAT",
    "LANGSMITH": "langsmith_files:FORMAT",
    "LANGSMITH_PARQUET": "langsmith_files:PARQUET_FORMAT",
    "MLFLOW": "mlflow_files:FORMAT",
    "OPENAI_AGENTS": "openai_agents_files:FORMAT",
    "OPENAI_MESSAGES": "chat.openai:FORMAT",
    "OPENAI_RESPONSES": "chat.responses:FORMAT",
    "OPENHANDS": "openhands.read:FORMAT",
    "OTLP": "otlp.request:FORMAT",
    "OURS_PARQUET": "ours:PARQUET_FORMAT",
    "Opening": "opening",
    "Ordinals": "finish",
    "RecordFormat": "format",
    "SPANS": "spans.lists:FORMAT",
    "STEP_SCORES": "scores.runs:FORMAT",
    "decode_records": "format",
    "finish_run": "finish",
    "iter_requests": "otlp.write",
    "parse_call": "fields",
    "parse_time": "fields",
    "read_each": "format",
    "read_files": "reading",
    "rest": "fields",
    "write_atif": "atif:write",
    "write_otlp": "otlp.write:write",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    # A format of one module needs no row: WHOWHEN is `whowhen:FORMAT`.
    home, _, own = _HOMES.get(name, f"{name.lower()}:FORMAT").partition(":")
    if name in _HOMES or name.isupper():
        try:
            return getattr(import_module(f"{__name__}.{home}"), own or name)
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{home}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
