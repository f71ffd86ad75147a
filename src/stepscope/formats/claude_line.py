"""One line of a Claude Code session, typed as far as the format is known."""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import rest
from stepscope.model import Json

# Kinds of line that may become steps; every other is kept raw.
SPOKEN = frozenset({"user", "assistant"})
_LINE = frozenset(
    "type uuid parentUuid logicalParentUuid sessionId session_id timestamp isSidechain agentId "
    "isMeta isCompactSummary parent_tool_use_id message toolUseResult subtype content".split()
)
# The same on nearly every line: said once for the run, and by a step only where it differs.
CONSTANT = frozenset({"cwd", "gitBranch", "version", "userType", "slug", "entrypoint"})


class Line(msgspec.Struct, gc=False):
    """A line's keys; `raw` is the whole line."""

    raw: dict[str, Any]
    type: str
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    sessionId: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    isSidechain: bool | None = None
    agentId: str | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    parent_tool_use_id: str | None = None
    subtype: str | None = None
    message: dict[str, Any] | None = None
    toolUseResult: Any = None
    content: Any = None

    @property
    def session(self) -> str | None:
        """The session that the line says it is of."""
        return self.sessionId or self.session_id

    @property
    def parent(self) -> str | None:
        """The line before it in the conversation, across a compaction too."""
        return self.parentUuid or self.logicalParentUuid

    @property
    def side(self) -> bool:
        """The line is a subagent's."""
        return bool(self.isSidechain) or self.parent_tool_use_id is not None

    @property
    def is_compaction(self) -> bool:
        """The line stands where the conversation was compacted."""
        return bool(self.isCompactSummary) or (
            self.type == "system" and self.subtype == "compact_boundary"
        )

    @property
    def speaks(self) -> bool:
        """The line becomes a step."""
        if self.is_compaction:
            return True
        return self.type in SPOKEN and self.message is not None and not self.isMeta

    @property
    def message_id(self) -> str | None:
        """The id of the API message that the line is a part of."""
        own = (self.message or {}).get("id")
        return own if isinstance(own, str) else None

    @property
    def blocks(self) -> list[dict[str, Json]]:
        """The blocks of the line's message, none where its content is text."""
        content = (self.message or {}).get("content")
        listed = content if isinstance(content, list) else []
        return [block for block in listed if isinstance(block, dict)]

    def extra(self) -> dict[str, Json]:
        """What the line says that neither a step nor the run has a field for."""
        kept = {"parentUuid": self.parentUuid, "logicalParentUuid": self.logicalParentUuid}
        told = {key: value for key, value in kept.items() if value is not None}
        return told | (rest(self.raw, _LINE | CONSTANT) or {})


def line_of(value: Json) -> Line:
    """Return a decoded line.

    Raises:
        TraceError: it is no object with a `type`.
        msgspec.ValidationError: a known key is of another type.
    """
    if not isinstance(value, dict):
        raise TraceError(f"a session's line is an object; found {str(value)[:60]!r}")
    return msgspec.convert({**value, "raw": value}, Line)
