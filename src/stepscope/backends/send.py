"""Send runs as OTLP, and verdicts as evaluations on their spans, to a tracing backend.

Everything has an id that is the same whenever it is sent, so that sending twice changes nothing. A
run that was pulled from the very place is there already: only its verdicts are sent. Spans go
first, all of them: a backend may take a while to show a span that it has accepted. `SentLog`, a
file beside the store, says what was sent where, once the backend has taken the whole part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Literal, Protocol

import msgspec

from stepscope.api.exporting import read_scored_runs
from stepscope.api.notebook import Notebook, ignore_progress
from stepscope.backends.client import BackendName, Client, parse_target, read_access
from stepscope.backends.pull import source_uri
from stepscope.backends.types import Evaluation, list_evaluations, separate_trace
from stepscope.errors import UsageError
from stepscope.formats.otlp import write
from stepscope.model import Record, Trajectory
from stepscope.score.importing import Progress
from stepscope.store.store import SentLog
from stepscope.store.where import Where, combine_filters


def content_digest(bodies: Iterable[bytes]) -> str:
    """Return what tells one content from another."""
    content = sha256()
    for body in bodies:
        content.update(len(body).to_bytes(8, "big") + body)
    return content.hexdigest()


What = Literal["both", "runs", "verdicts"]


class Sender(Protocol):
    """One backend that takes spans and evaluations."""

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP as JSON."""

    def verdicts(self, found: Sequence[Evaluation], *, fresh: bool) -> int:
        """Send a run's verdicts, just after its spans if `fresh`; return how many lack a span."""


class Sent(msgspec.Struct, kw_only=True):
    """What was sent."""

    target: str  # where to
    runs: int = 0  # runs whose spans were sent
    spans: int = 0  # how many those are
    verdicts: int = 0  # verdicts that were sent
    runs_there: int = 0  # runs whose spans were there: sent before, or pulled from there
    verdicts_there: int = 0  # verdicts that were sent before, and are the same
    unmeasured: int = 0  # answers without a value or a label, which no backend has a place for
    absent: int = 0  # verdicts about spans that the backend does not have

    def __str__(self) -> str:
        said = f"sent {self.runs:,} runs as {self.spans:,} spans and {self.verdicts:,} verdicts"
        parts = [f"{said} to {self.target}"]
        if self.runs_there or self.verdicts_there:
            there = f"{self.runs_there:,} runs, {self.verdicts_there:,} verdicts"
            parts.append(f"there already: {there}")
        if self.unmeasured:
            parts.append(f"{self.unmeasured:,} unmeasured answers have no place there")
        if self.absent:
            parts.append(f"{self.absent:,} verdicts are about spans that are not there")
        return "; ".join(parts)


def send(
    notebook: Notebook,
    place: str,
    *,
    what: What = "both",
    where: str | None = None,
    since: str | None = None,
    again: bool = False,
    progress: Progress | None = None,
    variables: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Sent:
    """Send the chosen runs, their verdicts, or both, to a place as `phoenix:my-project`.

    When the backend gives up half way, sending again goes on where it stopped.

    Args:
        again: also what was sent before.
        progress: called with how many runs are done, and of how many.
        variables: where hosts and keys are; the environment when left out.
        sleep: waits so many seconds.

    Raises:
        UsageError: nothing is chosen, or no such backend or place.
        ConfigError: a key is missing or refused; the variable is named.
        EnvironmentFault: the backend cannot be reached, or gives up.
    """
    backend, project = parse_target(place)
    to = read_access(backend, os.environ if variables is None else variables)
    runs = combine_filters(where, since)
    total = len(notebook.store.keys(runs))
    if total == 0:
        raise UsageError(f"nothing to send: {notebook.store.explain_no_match(runs)}")
    uri = source_uri(backend, project, to)
    sent = Sent(target=uri)
    told = progress or ignore_progress
    passes = 2 if what == "both" else 1
    with (
        Client(to, notebook.settings.limits, sleep=sleep) as client,
        SentLog(str(notebook.store.path), uri) as ledger,
    ):
        sender, done = _sender(backend, client, project, sleep), 0
        if what != "verdicts":
            for run, _ in _runs(notebook, runs):
                _send_spans(run, sender, ledger, sent, there=run.source.uri == uri, again=again)
                done += 1
                told(done, passes * total)
        if what != "runs":
            fresh = sent.runs > 0
            for run, records in _runs(notebook, runs):
                found = list_evaluations(run, records, backend)
                sent.unmeasured += len(records) - len(found)
                _send_verdicts(run, found, sender, ledger, sent, fresh=fresh, again=again)
                done += 1
                told(done, passes * total)
    return sent


def _runs(notebook: Notebook, where: Where | None) -> Iterator[tuple[Trajectory, Sequence[Record]]]:
    """Yield runs with their records, in the same order and under the same ids each time."""
    given = set[str]()
    for run, records in read_scored_runs(notebook.store, where):
        yield separate_trace(run, given), records


def _send_spans(
    run: Trajectory, sender: Sender, ledger: SentLog, sent: Sent, *, there: bool, again: bool
) -> None:
    # A run without times has spans that begin when they are first sent; told apart without them.
    content = content_digest([r.body for r in write.iter_requests([(run, ())], verdicts="none")])
    if there or (not again and ledger.holds(run.id, "spans", content)):
        sent.runs_there += 1
        return
    for request in write.iter_requests([(run, ())], verdicts="none", placed_at=time.time_ns()):
        sender.spans(request.body)
        sent.spans += request.spans
    ledger.keep(run.id, "spans", content)
    sent.runs += 1


def _send_verdicts(
    run: Trajectory,
    found: Sequence[Evaluation],
    sender: Sender,
    ledger: SentLog,
    sent: Sent,
    *,
    fresh: bool,
    again: bool,
) -> None:
    content = content_digest(msgspec.json.encode(each) for each in found)
    if not again and ledger.holds(run.id, "verdicts", content):
        sent.verdicts_there += len(found)
        return
    absent = sender.verdicts(found, fresh=fresh) if found else 0
    sent.absent += absent
    sent.verdicts += len(found) - absent
    if not absent:
        ledger.keep(run.id, "verdicts", content)


def _sender(name: BackendName, client: Client, place: str, wait: Callable[[float], None]) -> Sender:
    """Return what sends to a backend; the others' modules are not loaded."""
    if name in {"langsmith", "phoenix"} and not place.isascii():
        raise UsageError(f"{place!r}: runs are sent to projects with ASCII names only")
    match name:
        case "langfuse":
            from stepscope.backends.langfuse import LangfuseSender

            return LangfuseSender(client)
        case "langsmith":
            from stepscope.backends.langsmith import LangsmithSender

            return LangsmithSender(client, place)
        case "mlflow":
            from stepscope.backends.mlflow import MlflowSender

            return MlflowSender(client, place)
        case "phoenix":
            from stepscope.backends.phoenix import PhoenixSender

            return PhoenixSender(client, place, wait)
