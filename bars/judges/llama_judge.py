"""Bar: a real llama.cpp server over a tiny random model judges the bundled runs, five axes each.

100 judgements end to end: planned, asked over the openai SDK, every reply kept, believed, stored.
The process is killed by SIGKILL amid them, and another goes on. Held when every finished reply fits
the schema that was sent, its tokens are recorded, no reply is bought twice, and what was in flight
at the kill is all that is paid again, and listed. What a random model says is mostly not believed,
and the reasons are counted. Wants `make test-servers`.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec

import stepscope
from stepscope.judges.rubrics import answer_schema, load_rubric
from stepscope.model import Reply, Verdict
from stepscope.models.dialect import find_schema_fault
from stepscope.score.judges import JudgingResult
from stepscope.settings import Settings
from tests.llama import environment, server
from tests.llama.judged import JUDGE, RUNS, replies, settings

JUDGEMENTS = 100
# Replies after which the first process is killed, and its calls in flight.
KILL_AFTER = 30
IN_FLIGHT = 2
# Five axes in one beginning take more than a third of this; the runs are cut to what is left.
CONTEXT_TOKENS = 17_500


def judge(path: Path, told: Settings) -> JudgingResult:
    """Judge what is not judged yet."""
    with stepscope.open(path, settings=told) as notebook:
        notebook.add(RUNS)
        return notebook.judge("axes", judges=JUDGE)


def received(path: Path) -> int:
    """Return how many replies the ledger of a store holds."""
    ledger = Path(f"{path}.judges.db")
    if not ledger.exists():
        return 0
    db = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)
    try:
        return int(db.execute("SELECT count(*) FROM replies").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # it is being made
    finally:
        db.close()


def killed(work: Callable[[], object], path: Path) -> int:
    """Work in a process that is killed after some replies; return how many it had kept."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    while received(path) < KILL_AFTER and os.waitpid(child, os.WNOHANG)[0] == 0:
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return received(path)


def finished(kept: list[Reply]) -> list[Reply]:
    """Return the replies that were not cut off."""
    return [reply for reply in kept if reply.stop == "end"]


def valid(reply: Reply) -> bool:
    """Whether a reply is JSON that fits the schema of an axis."""
    try:
        value = msgspec.json.decode(reply.text)
    except msgspec.DecodeError:
        return False
    return find_schema_fault(value, answer_schema(load_rubric("axes.termination"))) is None


def main() -> int:
    """Print what became of the judgements; return 3 when a promise is broken."""
    python = environment.python()
    if python is None:
        print(environment.MISSING)
        return 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server.serving(python, folder, slots=IN_FLIGHT) as base:
            return measured(folder / "runs.db", settings(base, context_tokens=CONTEXT_TOKENS))


def measured(path: Path, told: Settings) -> int:
    """Judge with a kill between; print what came of it."""
    start = time.monotonic()
    before = killed(lambda: judge(path, told), path)
    found = judge(path, told)
    seconds = time.monotonic() - start
    with stepscope.open(path, settings=told) as notebook:
        kept = replies(notebook.ledger)
        unknown = notebook.ledger.unknown()
        answers = [record.answer for record in notebook.store.records()]
        again = notebook.judge("axes", judges=JUDGE)
    done = finished(kept)
    fitting = sum(valid(reply) for reply in done)
    told_tokens = sum(reply.usage is not None for reply in kept)
    verdicts = sum(isinstance(answer, Verdict) for answer in answers)
    reasons = Counter(
        answer.reason.partition(":")[0] for answer in answers if not isinstance(answer, Verdict)
    )
    print(f"{len(answers)} judgements in {seconds:.0f} s, killed after {before} replies")
    print(f"replies kept: {len(kept)}, finished {len(done)}, of these fitting {fitting}")
    print(
        f"tokens told: {told_tokens}; read in the second run {found.ran.input_tokens:,}, "
        f"of these cached {found.ran.cached_tokens:,}"
    )
    print(f"verdicts: {verdicts}; not believed: {dict(reasons.most_common())}")
    print(f"unknown outcome at the kill, paid again: {len(unknown)} (in flight: {IN_FLIGHT})")
    print(f"bought by a third run: {again.ran.bought}")
    held = (
        len(answers) == JUDGEMENTS
        and fitting == len(done)
        and told_tokens == len(kept)
        and len(unknown) <= IN_FLIGHT
        and before >= KILL_AFTER
        and found.ran.bought + before == len(kept)
        and again.ran.bought == 0
    )
    return 0 if held else 3


if __name__ == "__main__":
    sys.exit(main())
