"""Plan what a judge with tools is asked: as without tools, and the tools of each run beside it.

Rubrics that see one step alone are asked without tools: what a tool finds would be another step.
Workspaces are folders that the user names; their copies are held until the end, up to a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from stepscope.errors import UsageError
from stepscope.judges.agentic import LIMITS, Limits, agentic, reserved
from stepscope.judges.judgement import Judge, Judgement
from stepscope.judges.planning import Options, plan
from stepscope.judges.rubric import Rubric
from stepscope.judges.tools import Toolbox, run_tools
from stepscope.judges.tools_files import NAMES, with_files
from stepscope.model import Case, Trajectory
from stepscope.safety.redact import Redactor
from stepscope.values import Unmeasured

# Of all copies that are held at once.
MOST_BYTES = 2 * 1024 * 1024 * 1024


class Workspaces:
    """Where the runs worked, by the name of the run; "" names the folder of all others."""

    def __init__(self, folders: Mapping[str, Path], *, most_bytes: int = MOST_BYTES) -> None:
        """Name the folders.

        Raises:
            UsageError: there is no such folder.
        """
        for folder in folders.values():
            if not folder.is_dir():
                raise UsageError(f"{folder}: no such folder; a workspace is what the agent left")
        self._folders = dict(folders)
        self._left = most_bytes
        self._open = ExitStack()
        self._boxes: dict[tuple[str, str], Toolbox] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def added(self, toolbox: Toolbox, run: Trajectory) -> Toolbox:
        """Return a toolbox with the tools over a run's workspace, where it has one."""
        folder = self._folders.get(run.name, self._folders.get(""))
        if folder is None:
            return toolbox
        place = (run.id, toolbox.state)
        if place not in self._boxes:
            self._boxes[place] = self._with(toolbox, folder)
        return self._boxes[place]

    def _with(self, toolbox: Toolbox, folder: Path) -> Toolbox:
        if self._left <= 0:
            why = "the copies of earlier workspaces take all the room that there is"
            return toolbox.with_more((), off=dict.fromkeys(NAMES, why), state="no room")
        self._left -= sum(path.lstat().st_size for path in folder.rglob("*"))
        return self._open.enter_context(with_files(toolbox, folder))


def plan_with_tools(
    trajectory: Trajectory,
    case: Case | None,
    *,
    rubric: Rubric,
    judge: Judge,
    options: Options,
    key: bytes,
    redactor: Redactor,
    workspaces: Workspaces,
    limits: Limits = LIMITS,
) -> Iterator[Judgement | Unmeasured]:
    """Yield what `plan` yields, each judgement with the tools of its run where the rubric has any.

    Args:
        trajectory: the run.
        case: what it is measured against; the tool `read_case` tells of it.
        rubric: what is asked.
        judge: who is asked.
        options: how.
        key: of the store, for the fence.
        redactor: takes secrets out of what is sent.
        workspaces: open while the judgements are judged.
        limits: how far a judge may look.

    Raises:
        ConfigError: as `plan` does.
    """
    alone = rubric.kind == "score" or options.mode == "isolated"
    asked = judge if alone else reserved(judge, limits)
    planned = plan(
        trajectory,
        case,
        rubric=rubric,
        judge=asked,
        options=options,
        key=key,
        redactor=redactor,
    )
    for item in planned:
        if alone or isinstance(item, Unmeasured):
            yield item
            continue
        box = run_tools(
            trajectory,
            case,
            redactor=redactor,
            narration=options.narration,
            check=_checked(trajectory) if rubric.kind == "attribution" else "",
        )
        box = workspaces.added(box, trajectory)
        yield agentic(item, box, judge=judge, key=key, limits=limits)


def _checked(trajectory: Trajectory) -> str:
    """Return what the run's own check says, where there was one."""
    outcome = trajectory.outcome
    if outcome.source not in {"check", "reward"}:
        return ""
    reward = "" if outcome.reward is None else f", reward {outcome.reward:g}"
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.status}{reward}{reason}"
