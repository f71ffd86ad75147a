"""A gate report as JSON: the same rows, policy and baseline give the same bytes.

`gate.schema.json` beside the code is generated from the structs, never written by hand:
`python -c "from stepscope.report.gate_json import schema; print(schema().decode(), end='')"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from stepscope.errors import UsageError
from stepscope.gates.types import GateOutcome, GateReport

OUTCOMES: dict[int, GateOutcome] = {0: "pass", 3: "fail", 4: "undecided"}


class GateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `stepscope gate --json` prints.

    Attributes:
        exit_code: 0 pass, 3 a gate failed, 4 undecided or unmeasured.
        outcome: what the exit code says: pass, fail, or undecided.
        remarks: what was read and could not be used, one line each.
        report: every decision.
    """

    exit_code: int
    outcome: GateOutcome
    remarks: tuple[str, ...] = ()
    report: GateReport


def render(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> str:
    """Return the report as JSON, keys sorted, two spaces a level; ends in a line break."""
    document = GateDocument(
        exit_code=code, outcome=OUTCOMES[code], remarks=tuple(remarks), report=report
    )
    # Printed in a log, `##[` would begin a command of GitHub Actions.
    return _pretty(document).replace("##[", "#\\u0023[")


def gate_documents(files: Sequence[Path]) -> tuple[GateDocument, ...]:
    """Return what `stepscope gate --json` wrote, in the order of the files.

    Raises:
        UsageError: a file cannot be read, or is no gate report.
    """
    documents = []
    for file in files:
        try:
            documents.append(msgspec.json.decode(file.read_bytes(), type=GateDocument))
        except OSError as e:
            raise UsageError(f"{file}: {e.strerror}; expected a file of stepscope gate") from e
        except msgspec.DecodeError as e:
            raise UsageError(
                f"{file}: not what stepscope gate --json writes ({e}); write it again"
            ) from e
    return tuple(documents)


def schema() -> bytes:
    """Return the JSON schema (2020-12)."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return _pretty(found | msgspec.json.schema(GateDocument)).encode()


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic")).decode() + "\n"
