"""Small features of every step of the agent: what the fitted ranking of steps reads of a run.

They say where the step stands, who speaks, what the environment said before and after, and where
values come from and go to. One pass, linear in the steps; a long text is read at both ends. Words
are English. Refused: names of agents and tools, and any index of a step beyond the first three, so
that a weight means the same in the next workflow. How they were chosen, and which were refused:
docs/explanation/localise.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p
from typing import Final, Literal, NamedTuple

from stepscope.model import Step, Trajectory

# One row a step of the agent, in order.
Rows = list[tuple[float, ...]]
Family = Literal["calls", "search", "dialogue"]
FAMILIES: Final[tuple[Family, ...]] = ("calls", "search", "dialogue")

# A text is read at both ends: what it is about stands first, what it comes to stands last.
HEAD_CHARACTERS, TAIL_CHARACTERS = 600, 200
# Shorter words are in every text.
CONTENT_CHARACTERS = 4
# A message with fewer words ("TERMINATE") is a turn of the protocol.
FEWEST_WORDS = 3
# The length, in steps, at which the features of long runs are 0.
USUAL_STEPS = 10

_AGREE = frozenset(b"agree agreed agrees consensus satisfied conclude concluded everyone".split())
_CONFIRM = frozenset(
    b"confirms confirmed indeed accurate accurately correctly valid certainly definitely".split()
)
_CANNOT = frozenset(
    b"cannot cant unable couldnt didnt unavailable inaccessible impossible failed fails".split()
)
_FOUND = frozenset(
    b"found obtained retrieved identified located gathered collected extracted reviewed visited "
    b"accessed analyzed examined".split()
)
_CLOSES = frozenset(b"terminate terminating goodbye".split())
_ANSWERS = (b"final answer", b"the answer is", b"final result", b"final output")
_CODE = b"```"
# Upper-case letters become lower; what is neither letter nor digit separates words.
_LOWER: Final[bytes] = bytes(c + 32 if 65 <= c <= 90 else c for c in range(256))
_TO_WORDS: Final[bytes] = bytes(
    c if 48 <= c <= 57 or 97 <= c <= 122 or c >= 128 else 32 for c in _LOWER
)


class Saying(NamedTuple):
    """What one entry of a run says, as sets of words."""

    lower: bytes
    words: int  # how many, short ones too
    content: frozenset[bytes]  # longer words, and figures
    figures: frozenset[bytes]
    acts: bool  # writes code or calls a tool
    failed: bool


def family_of(trajectory: Trajectory) -> Family:
    """Return what kind of run it is: tools or a user, a planner who leads a search, a dialogue.

    A user who speaks to one agent in turn is no dialogue of agents, also where no tool was called.
    """
    acted = False
    for step in trajectory.steps:
        acted = acted or step.actor == "agent"
        if step.calls or (acted and step.actor == "user"):
            return "calls"
    led = any(step.kind in ("plan", "handoff") for step in trajectory.steps)
    return "search" if led else "dialogue"


def agent_steps(trajectory: Trajectory) -> list[int]:
    """Return the indexes of the agent's steps: what the rows of `step_features` are about."""
    return [step.index for step in trajectory.steps if step.actor == "agent"]


def step_features(trajectory: Trajectory) -> Rows:
    """Return one row for each step of the agent, in order; its columns are `NAMES`."""
    own = agent_steps(trajectory)
    if not own:
        return []
    steps = trajectory.steps
    sayings = [_read(step) for step in steps]
    closed = _is_closed(sayings[own[-1]])
    places, sources = _places(steps, own, closed), _sources(_request(trajectory), sayings, own)
    endings = _by_ending(steps, sayings, own, sources, closed)
    return [(*a, *b, *c) for a, b, c in zip(places, sources, endings, strict=True)]


def place_features(trajectory: Trajectory) -> Rows:
    """Return the rows of `step_features` cut to `PLACE_NAMES`, its first columns, at less cost."""
    own, steps = agent_steps(trajectory), trajectory.steps
    return _places(steps, own, _is_closed(_read(steps[own[-1]]))) if own else []


def _read(step: Step) -> Saying:
    texts = [part.text for part in step.parts if part.text]
    failed = step.error is not None
    for result in step.results:
        texts.append(result.text)
        failed = failed or result.status == "error"
    texts += [call.raw or str(call.arguments) for call in step.calls]
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    if len(text) > HEAD_CHARACTERS + TAIL_CHARACTERS:
        text = f"{text[:HEAD_CHARACTERS]}\n{text[-TAIL_CHARACTERS:]}"
    raw = text.encode("utf-8", "replace")
    lower = raw.translate(_LOWER)
    words = raw.translate(_TO_WORDS, b"'").split()
    # What sorts before a colon begins with a digit.
    content = frozenset([w for w in words if len(w) >= CONTENT_CHARACTERS or w < b":"])
    figures = frozenset([w for w in content if w < b":" and len(w) > 1 and w.isdigit()])
    return Saying(lower, len(words), content, figures, _CODE in lower or bool(step.calls), failed)


def _is_closed(ending: Saying) -> bool:
    """Tell whether a run says at its end that it is over; one that ran out of steps does not."""
    return not ending.content.isdisjoint(_CLOSES) or any(said in ending.lower for said in _ANSWERS)


PLACE_NAMES: Final = tuple(
    "place.first place.second place.third place.log_start place.share place.share_squared "
    "place.log_end place.own_first place.own_second place.own_third place.own_last "
    "place.own_second_last place.own_third_last place.work_first place.work_second "
    "place.work_third place.work_last place.work_second_last place.work_log place.work_share "
    "place.open_last place.open_share place.open_log_start place.long_log_start place.long_share "
    "place.works place.plans place.hands_over place.organises place.calls".split()
)


def _does_work(step: Step) -> bool:
    """Tell whether a step is a call, or a message that is more than a turn of the protocol."""
    said = step.kind == "message" and len(step.text.split(None, FEWEST_WORDS)) >= FEWEST_WORDS
    return said or step.kind == "call"


def _places(steps: Sequence[Step], own: list[int], closed: bool) -> Rows:
    """Where a step stands, from both ends, among all steps, the agent's, and those that work."""
    n = len(steps)
    work = [i for i in own if _does_work(steps[i])] or own
    turn, last = {i: at for at, i in enumerate(work)}, len(work) - 1
    opened = 0.0 if closed else 1.0
    length = log1p(n) - log1p(USUAL_STEPS)
    rows: Rows = []
    worked = 0
    for at, i in enumerate(own):
        kind, here, left = steps[i].kind, turn.get(i), len(own) - 1 - at
        worked += here is not None
        share, start = i / max(n - 1, 1), log1p(i)
        in_run = (i == 0, i == 1, i == 2, start, share, share * share, log1p(n - 1 - i))
        among_own = (at == 0, at == 1, at == 2, left == 0, left == 1, left == 2)
        among_work = (here == 0, here == 1, here == 2, here == last, here == last - 1)
        shares = (log1p(worked), worked / len(work))
        ending = (opened * (left == 0), opened * share, opened * start)
        kinds = (kind == "plan", kind == "handoff", kind == "other", kind == "call")
        of_long = (length * start, length * share)
        does = here is not None
        rows.append((*in_run, *among_own, *among_work, *shares, *ending, *of_long, does, *kinds))
    return rows


SOURCE_NAMES: Final = tuple(
    "source.new_share source.new_log source.new_figures source.figures_log source.final_share "
    "source.final_most source.final_figures source.request_share source.request_missing "
    "source.request_new".split()
)


def _sources(request: frozenset[bytes], sayings: Sequence[Saying], own: list[int]) -> Rows:
    """Which words and figures a step brings in, and which end in the answer."""
    said: set[bytes] = set()
    new: list[frozenset[bytes]] = []
    for saying in sayings:
        new.append(saying.content.difference(said))
        said |= saying.content
    telling = [i for i in own if sayings[i].words >= FEWEST_WORDS] or own
    final = sayings[telling[-1]].content - request
    ends = {i: len(new[i] & final) if i != telling[-1] else 0 for i in own}
    most = max(ends.values()) or -1
    rows: Rows = []
    for at, i in enumerate(own):
        here = sayings[i]
        asked = len(request & here.content) / len(request) if request else 0.0
        brings = (len(new[i]) / max(len(here.content), 1), log1p(len(new[i])))
        figures = (log1p(len(new[i] & here.figures)), log1p(len(here.figures)))
        told = log1p(len(new[i] & final & here.figures)) if ends[i] else 0.0
        answers = (ends[i] / max(len(final), 1), ends[i] == most, told)
        missing = 1.0 - asked if request and at == 0 else 0.0
        rows.append((*brings, *figures, *answers, asked, missing, log1p(len(new[i] & request))))
    return rows


def _request(trajectory: Trajectory) -> frozenset[bytes]:
    """Return the words of what was asked for: the case's, else the user's first message."""
    text = (trajectory.case.request if trajectory.case is not None else None) or next(
        (step.text for step in trajectory.steps if step.actor == "user"), ""
    )
    words = text.encode("utf-8", "replace").translate(_TO_WORDS, b"'").split()
    return frozenset([w for w in words if len(w) >= CONTENT_CHARACTERS or w.isdigit()])


OPEN_NAMES: Final = tuple(
    "open.next_error open.last_error open.code_last open.code open.cannot open.ignored".split()
)
CLOSED_NAMES: Final = tuple(
    "closed.final_share closed.final_most closed.new_figures closed.claim_unseen closed.code_last "
    "closed.first_error closed.next_error closed.agree closed.next_idle".split()
)
_NOT_OPEN, _NOT_CLOSED = (0.0,) * len(OPEN_NAMES), (0.0,) * len(CLOSED_NAMES)
NAMES: Final[tuple[str, ...]] = (*PLACE_NAMES, *SOURCE_NAMES, *OPEN_NAMES, *CLOSED_NAMES)
_FINAL_COLUMNS: Final = slice(4, 6)  # of `SOURCE_NAMES`: final_share and final_most
_FIGURES_COLUMN: Final = 2


def _by_ending(
    steps: Sequence[Step], sayings: Sequence[Saying], own: list[int], sources: Rows, closed: bool
) -> Rows:
    """What the environment said around a step, and what was claimed, apart by how runs end.

    A run that ran out of steps broke where it still failed; one that answered, where the answer
    came from.
    """
    n = len(steps)
    told = [step.actor == "environment" for step in steps]
    failures = [i for i, saying in enumerate(sayings) if saying.failed]
    first, last = (failures[0], failures[-1]) if failures else (-1, n)
    code_last = next((i for i in reversed(own) if _CODE in sayings[i].lower), -1)
    rows: Rows = []
    for at, (i, source) in enumerate(zip(own, sources, strict=True)):
        here = sayings[i]
        answered = i + 1 < n and told[i + 1]
        failed = answered and sayings[i + 1].failed
        if not closed:
            ignored = i > 0 and told[i - 1] and sayings[i - 1].failed and not here.acts
            code, cannot = _CODE in here.lower, not here.content.isdisjoint(_CANNOT)
            opened = (failed, answered and i + 1 == last, i == code_last, code, cannot, ignored)
            rows.append((*opened, *_NOT_CLOSED))
            continue
        seen = i > 1 and told[i - 1] and sayings[i - 2].acts
        finds = not (here.content.isdisjoint(_FOUND) and here.content.isdisjoint(_CONFIRM))
        unseen = at > 0 and not seen and not here.acts and finds
        errors = (answered and i + 1 == first, failed)
        agrees = not here.content.isdisjoint(_AGREE)
        idle = answered and not here.acts and not failed
        claims = (*source[_FINAL_COLUMNS], source[_FIGURES_COLUMN], unseen)
        rows.append((*_NOT_OPEN, *claims, i == code_last, *errors, agrees, idle))
    return rows
