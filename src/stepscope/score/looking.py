"""The tools of judges that may look things up: each run its own, over one copy of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from stepscope.judges.options import Options
from stepscope.judges.tools import Toolbox, run_tools
from stepscope.judges.tools_files import with_files
from stepscope.model import Trajectory
from stepscope.safety.redact import Redactor


@dataclass(frozen=True, slots=True)
class Tools:
    """Makes the tools of a run.

    Attributes:
        of: the tools of a run.
        off: why tools that there could be are not there, by name.
    """

    of: Callable[[Trajectory, Options], Toolbox]
    off: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def looking(workspace: Path | None, redactor: Redactor) -> Iterator[Tools]:
    """Give what makes the tools of runs; the workspace is copied once, and dropped at the end.

    Args:
        workspace: folder whose files, tables and programs judges may look at; None for none.
        redactor: takes secrets out of what is found.

    Raises:
        UsageError: there is no such folder.
    """

    def of_run(trajectory: Trajectory, options: Options) -> Toolbox:
        case = trajectory.case
        return run_tools(trajectory, case, redactor=redactor, narration=options.narration)

    if workspace is None:
        yield Tools(of_run)
        return
    with with_files(Toolbox(tools={}, redactor=redactor), workspace) as files:
        yield Tools(
            lambda trajectory, options: of_run(trajectory, options).with_more(
                files.tools.values(), off=files.off, state=files.state
            ),
            files.off,
        )
