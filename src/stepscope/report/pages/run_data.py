"""One run with everything that its page says, read once: a server keeps it while steps are paged.

Opening a run costs its length; laying out a window of its steps does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model import Case, Record, Trajectory
from stepscope.report.curve_suspects import with_curve
from stepscope.report.curve_types import Curve
from stepscope.report.curves import curve_of
from stepscope.report.findings import Findings, findings
from stepscope.report.run_text import Mark, step_marks
from stepscope.report.show import read
from stepscope.report.suspects import suspects
from stepscope.report.types import Suspect
from stepscope.store import Store
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run, what it is measured against, what was said of it, and where to look.

    Attributes:
        found: the rules' records, sorted.
        suspects: where it may have broken, most telling first.
        marks: by step, the sign and the remark of the rules.
    """

    trajectory: Trajectory
    case: Case | None
    records: tuple[Record, ...]
    curve: Curve | Unmeasured
    found: Findings
    suspects: tuple[Suspect, ...]
    marks: dict[int, Mark]


def read_run(store: Store, run: str) -> RunData:
    """Return a run of the store by id, unique start of an id, or name.

    Raises:
        StoreError: its texts were purged.
        UsageError: no such run, or several.
    """
    trajectory, case, records = read(store, run)
    found = findings(records)
    drawn = curve_of(trajectory, records, noise=store.noise(), weights=store.weights())
    marked = with_curve(drawn, suspects(trajectory, case, records))
    return RunData(
        trajectory=trajectory,
        case=case,
        records=tuple(records),
        curve=drawn,
        found=found,
        suspects=marked,
        marks=step_marks(trajectory, found, marked),
    )
