"""The nouns: what a run is, what it is measured against, and what is said about it.

Every type is frozen. They are msgspec structs, not dataclasses, because all of them also leave and
re-enter as JSON (our JSONL, the store), where a struct decodes at C speed and refuses a wrong type
(docs/design/model.md). A field that the trace lacks is None, never 0. What has no field of its own
stays in `extra`, so nothing that was read is dropped.
"""

from __future__ import annotations

from stepscope.model.answer import Answer, Record, Scale, Verdict
from stepscope.model.case import (
    Case,
    Facts,
    PolicyRule,
    Precondition,
    ReferenceCall,
    SubGoal,
    digest,
)
from stepscope.model.figures import Figures, figures
from stepscope.model.judging import (
    Endpoint,
    ImageType,
    Media,
    Model,
    Opener,
    Reply,
    Request,
    Stop,
    Structure,
)
from stepscope.model.plugins import Format, Measure, Quarantined, Stream
from stepscope.model.step import (
    Actor,
    Belief,
    Effect,
    Instant,
    Json,
    Part,
    PartKind,
    ResultStatus,
    Span,
    Step,
    StepKind,
    ToolCall,
    ToolDef,
    ToolResult,
    Usage,
)
from stepscope.model.trajectory import (
    SCORES,
    Exchange,
    Label,
    Outcome,
    Source,
    StepScore,
    Trajectory,
    Warn,
    call_key,
)

__all__ = [
    "SCORES",
    "Actor",
    "Answer",
    "Belief",
    "Case",
    "Effect",
    "Endpoint",
    "Exchange",
    "Facts",
    "Figures",
    "Format",
    "ImageType",
    "Instant",
    "Json",
    "Label",
    "Measure",
    "Media",
    "Model",
    "Opener",
    "Outcome",
    "Part",
    "PartKind",
    "PolicyRule",
    "Precondition",
    "Quarantined",
    "Record",
    "ReferenceCall",
    "Reply",
    "Request",
    "ResultStatus",
    "Scale",
    "Source",
    "Span",
    "Step",
    "StepKind",
    "StepScore",
    "Stop",
    "Stream",
    "Structure",
    "SubGoal",
    "ToolCall",
    "ToolDef",
    "ToolResult",
    "Trajectory",
    "Usage",
    "Verdict",
    "Warn",
    "call_key",
    "digest",
    "figures",
]
