"""The nouns: what a run is, what it is measured against, and what is said about it.

Every type is frozen. They are msgspec structs, not dataclasses, because all of them also leave and
re-enter as JSON (our JSONL, the store), where a struct decodes at C speed and refuses a wrong type
(docs/design/model.md). A field that the trace lacks is None, never 0. What has no field of its own
stays in `extra`, so nothing that was read is dropped.
"""

from __future__ import annotations

from stepscope.model.labels import QUEUES as QUEUES
from stepscope.model.labels import Label as Label
from stepscope.model.labels import Queue as Queue
from stepscope.model.protocols import Endpoint as Endpoint
from stepscope.model.protocols import Format as Format
from stepscope.model.protocols import ImageType as ImageType
from stepscope.model.protocols import Measure as Measure
from stepscope.model.protocols import Media as Media
from stepscope.model.protocols import Model as Model
from stepscope.model.protocols import Opener as Opener
from stepscope.model.protocols import Quarantined as Quarantined
from stepscope.model.protocols import Reply as Reply
from stepscope.model.protocols import Request as Request
from stepscope.model.protocols import Stop as Stop
from stepscope.model.protocols import Stream as Stream
from stepscope.model.protocols import Structure as Structure
from stepscope.model.records import Answer as Answer
from stepscope.model.records import Record as Record
from stepscope.model.records import Scale as Scale
from stepscope.model.records import Verdict as Verdict
from stepscope.model.trajectory import SCORES as SCORES
from stepscope.model.trajectory import Actor as Actor
from stepscope.model.trajectory import Belief as Belief
from stepscope.model.trajectory import Case as Case
from stepscope.model.trajectory import Effect as Effect
from stepscope.model.trajectory import Exchange as Exchange
from stepscope.model.trajectory import Facts as Facts
from stepscope.model.trajectory import Figures as Figures
from stepscope.model.trajectory import Instant as Instant
from stepscope.model.trajectory import Json as Json
from stepscope.model.trajectory import Outcome as Outcome
from stepscope.model.trajectory import Part as Part
from stepscope.model.trajectory import PartKind as PartKind
from stepscope.model.trajectory import PolicyRule as PolicyRule
from stepscope.model.trajectory import Precondition as Precondition
from stepscope.model.trajectory import ReferenceCall as ReferenceCall
from stepscope.model.trajectory import ResultStatus as ResultStatus
from stepscope.model.trajectory import Source as Source
from stepscope.model.trajectory import Span as Span
from stepscope.model.trajectory import Step as Step
from stepscope.model.trajectory import StepKind as StepKind
from stepscope.model.trajectory import StepScore as StepScore
from stepscope.model.trajectory import SubGoal as SubGoal
from stepscope.model.trajectory import ToolCall as ToolCall
from stepscope.model.trajectory import ToolDef as ToolDef
from stepscope.model.trajectory import ToolResult as ToolResult
from stepscope.model.trajectory import TraceLabel as TraceLabel
from stepscope.model.trajectory import Trajectory as Trajectory
from stepscope.model.trajectory import Usage as Usage
from stepscope.model.trajectory import Warn as Warn
from stepscope.model.trajectory import call_key as call_key
from stepscope.model.trajectory import digest as digest
from stepscope.model.trajectory import figures as figures
