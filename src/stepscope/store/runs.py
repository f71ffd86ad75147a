"""Put runs in, take runs out: the trace as JSON, and beside it the few columns that reports read.

Importing is idempotent: a known id changes nothing, except that a late outcome, label, score, tag,
agent or case is taken over. A session that has grown, or a trace whose late spans change its
steps, supersedes its shorter version; late spans that leave the steps as they were update the run.
A run is prepared anywhere, also in another process; a figure too large for a column stays in the
trace only. Media move into the blob folder, named by the sha256 of their bytes, at mode 0600. Data
that is not base64, or would not come back letter for letter, stays where it is; a store in memory
moves nothing.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stepscope import model
from stepscope.errors import EnvironmentFault, StoreError
from stepscope.model.records import RULES
from stepscope.model.trajectory import GIVEN, GIVEN_AS, outcome_of_label, outcome_rank
from stepscope.runtime.database import Connection
from stepscope.safety.limits import read_file
from stepscope.store import records
from stepscope.store.records import RowIds, insert_records, label_records
from stepscope.store.where import Where

# How a part's data looks in the encoded steps. Inside a text the quotes would be escaped.
DATA_KEY = b'"data":'


def change_parts(
    steps: tuple[model.Step, ...], change: Callable[[int, model.Part], model.Part]
) -> tuple[model.Step, ...]:
    """Return the steps with `change(place, part)` for every part, results' parts after a step's.

    Places count parts from 0, in that order.
    """
    places = count()

    def changed(parts: tuple[model.Part, ...]) -> tuple[model.Part, ...]:
        return tuple(change(next(places), part) for part in parts)

    def changed_step(step: model.Step) -> model.Step:
        parts = changed(step.parts)
        results = [msgspec.structs.replace(x, parts=changed(x.parts)) for x in step.results]
        return msgspec.structs.replace(step, parts=parts, results=tuple(results))

    return tuple(map(changed_step, steps))


def move_media_out(
    steps: tuple[model.Step, ...],
) -> tuple[tuple[model.Step, ...], dict[int, bytes]]:
    """Return the steps without their data, and the data by the place of its part."""
    blobs: dict[int, bytes] = {}

    def out(place: int, part: model.Part) -> model.Part:
        content = None if part.data is None else _decode_base64(part.data)
        if content is None:
            return part
        blobs[place] = content
        return msgspec.structs.replace(part, data=None)

    return change_parts(steps, out), blobs


def move_media_in(
    steps: tuple[model.Step, ...], names: Mapping[int, str], folder: Path
) -> tuple[model.Step, ...]:
    """Return the steps with their data read back from the blob folder."""

    def back(place: int, part: model.Part) -> model.Part:
        if place not in names:
            return part
        content = read_blob(folder, names[place])
        return msgspec.structs.replace(part, data=base64.b64encode(content).decode())

    return change_parts(steps, back)


def write_blob(folder: Path, content: bytes) -> str:
    """Write a blob that is not there yet, on disk and whole before it has its name; return that."""
    name = sha256(content).hexdigest()
    target, part = folder / name, folder / f"{name}.{os.getpid()}.part"
    try:
        if target.exists():
            return name
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise EnvironmentFault(f"{target}: a blob cannot be written ({e.strerror})") from e
    return name


def read_blob(folder: Path, name: str) -> bytes:
    """Return the bytes of a blob."""
    path = folder / name
    try:
        content = read_file(path)
    except OSError as e:
        raise StoreError(f"{path}: a blob of the store cannot be read ({e.strerror})") from e
    if sha256(content).hexdigest() != name:
        raise StoreError(f"{path}: a blob of the store has been changed; import its run again")
    return content


def _decode_base64(data: str) -> bytes | None:
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    return content if base64.b64encode(content).decode() == data else None


_MAX_INTEGER = 2**63 - 1  # SQLite's

encode_json = msgspec.json.Encoder().encode


class PreparedRun(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A run encoded for the store: its columns, by their names in the schema, then its texts."""

    id: str
    name: str
    workflow: str
    task: str | None
    trial: str | None
    agent: str | None
    agent_version: str | None
    outcome: str
    steps: int
    calls: int
    tokens: int | None
    cost_usd: float | None
    seconds: float | None
    format: str
    run_id: str | None
    uri: str
    start_ns: int | None
    head: bytes  # the trace as JSON without steps and case
    body: bytes  # its steps as JSON, media that go to blobs left out
    case: tuple[str, bytes] | None = None  # hash and JSON of what it is measured against
    tags: dict[str, str] = {}  # as in the trace
    labels: tuple[model.TraceLabel, ...] = ()  # as in the trace
    blobs: dict[int, bytes] = {}  # media that go beside the store, by the place of their part
    scores: tuple[model.StepScore, ...] = ()  # as in the trace

    @property
    def held_bytes(self) -> int:
        """How much memory the run holds, but for what is small."""
        return len(self.body) + sum([len(content) for content in self.blobs.values()])


# Who says what a trace itself says of its outcome.
TRACE = "trace"
# How a case looks that a file gave, encoded.
_GIVEN_CASE = f'"{GIVEN}":'.encode()
# How a label that gives an outcome looks in an encoded run.
_GIVEN = f'"{GIVEN_AS}":'.encode()
_N_COLUMNS = PreparedRun.__struct_fields__.index("head")
_AS_IN_TRACE = "id name workflow task trial agent agent_version tags labels scores".split()


def prepare_run(trajectory: model.Trajectory, *, move_media: bool) -> PreparedRun:
    """Return a run encoded for a store; `move_media` where it has a folder for blobs."""
    t = trajectory
    body = encode_json(t.steps)
    blobs: dict[int, bytes] = {}
    if move_media and DATA_KEY in body:
        kept, blobs = move_media_out(t.steps)
        body = encode_json(kept)
    figures = model.figures(t)
    start = t.start or next((step.start for step in t.steps if step.start is not None), None)
    return PreparedRun(
        **{name: getattr(t, name) for name in _AS_IN_TRACE},
        **figures._replace(tokens=_fits(figures.tokens))._asdict(),
        outcome=t.outcome.status,
        format=t.source.format,
        run_id=t.source.run_id,
        uri=t.source.uri,
        start_ns=_fits(None if start is None else start.ns),
        head=encode_json(msgspec.structs.replace(t, steps=(), case=None)),
        body=body,
        case=None if t.case is None else (t.case.hash, encode_json(t.case)),
        blobs=blobs,
    )


def _fits(number: int | None) -> int | None:
    return number if number is None or abs(number) <= _MAX_INTEGER else None


# What spans alone say of a run.
_SPAN_FIELDS = "spans tools termination usage cost_usd start end warnings extra".split()


def merge_late_spans(old: model.Trajectory, now: model.Trajectory) -> model.Trajectory | None:
    """Return the earlier reading with the spans of the later one; None where it has no more."""
    before, after = {span.id for span in old.spans}, {span.id for span in now.spans}
    if len(now.spans) <= len(old.spans) or not before <= after:
        return None
    return msgspec.structs.replace(old, **{name: getattr(now, name) for name in _SPAN_FIELDS})


# The columns of `PreparedRun` in its order, then what is known only here.
_INSERT = (
    "INSERT INTO runs (id, name, workflow, task, trial, agent, agent_version, outcome, steps,"
    " calls, tokens, cost_usd, seconds, format, run_id, uri, start_ns, imported_ns, case_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELETE_RULES = (
    "DELETE FROM records WHERE run = ? AND question IN (SELECT id FROM questions WHERE family = ?)"
)
_heads = msgspec.json.Decoder(model.Trajectory)
_steps = msgspec.json.Decoder(tuple[model.Step, ...])
_cases = msgspec.json.Decoder(model.Case)


# What became of an outcome that was given to a run.
OutcomeFate = Literal["new", "known", "contradicts", "purged"]


class PutCounts(NamedTuple):
    """Runs that were new, runs that were known, versions of a session that were superseded.

    `refused` counts step scores that contradict what is known of their run, now in quarantine.
    """

    new: int
    known: int
    superseded: int
    refused: int = 0


def write_runs(
    db: Connection, names: RowIds, batch: list[PreparedRun], blobs: Path | None
) -> PutCounts:
    """Write one batch, its media into the folder `blobs`; call inside a transaction."""
    new = known = superseded = refused = 0
    now = time.time_ns()
    for run in batch:
        if run.format == model.SCORES and (
            records.find_named_run(db, run.name) is not None or records.is_ambiguous(db, run.name)
        ):
            refused += _scores_of_others(db, names, run, now)
            known += 1
            continue
        found = db.execute(
            "SELECT runs.seq, traces.head FROM runs LEFT JOIN traces ON traces.run = runs.seq"
            " WHERE id = ?",
            (run.id,),
        ).fetchone()
        if found is None:
            superseded += _insert(db, names, run, blobs, now)
            new += 1
            continue
        known += 1
        # Purged runs have no head and stay erased.
        if found[1] is not None and found[1] != run.head:
            _update_known(db, names, found[0], found[1], run)
        elif found[1] is not None:
            _set_case(db, names, found[0], run)
        if run.scores:
            refused += _attach(db, names, (found[0], run.id, run.steps), run, now)
    return PutCounts(new, known, superseded, refused)


def _insert(db: Connection, names: RowIds, run: PreparedRun, blobs: Path | None, now: int) -> int:
    """Insert a new run; return how many versions of its session were superseded."""
    media: dict[int, str] = {}
    if blobs is not None:
        media = {place: write_blob(blobs, content) for place, content in run.blobs.items()}
    if run.case is not None:
        records.fix_case_weights(db, run.workflow, run.task or run.name, run.case[1])
    case_id = 0 if run.case is None else names.case(db, *run.case)
    seq = db.execute(_INSERT, (*msgspec.structs.astuple(run)[:_N_COLUMNS], now, case_id)).lastrowid
    assert seq is not None
    db.execute("INSERT INTO traces (run, head, steps) VALUES (?, ?, ?)", (seq, run.head, run.body))
    _set_tags(db, seq, run.tags)
    db.executemany(
        "INSERT INTO media (run, place, sha256) VALUES (?, ?, ?)",
        [(seq, place, name) for place, name in media.items()],
    )
    if run.labels:
        insert_records(db, names, label_records(run.id, run.labels, run.steps))
    if run.scores:
        insert_records(db, names, records.score_records(run.id, run.scores))
    elif moved := records.move_earlier_scores(db, seq, run.name, run.steps):
        _keep_scores(db, seq, run.head, moved)
    return _supersede(db, seq, run) if run.run_id is not None else 0


def _scores_of_others(db: Connection, names: RowIds, run: PreparedRun, now: int) -> int:
    """Give scores to the run of their name; return how many cannot be given to one."""
    its = records.find_named_run(db, run.name)
    if its is not None:
        return _attach(db, names, its, run, now)
    why = "more than one run has this name; give the run's id"
    refused = [(score, why) for score in run.scores]
    return records.quarantine_scores(db, refused, name=run.name, uri=run.uri, now=now)


def _attach(
    db: Connection, names: RowIds, its: tuple[int, str, int], run: PreparedRun, now: int
) -> int:
    """Give the scores of a run to the run of row, id and steps `its`; return how many cannot be."""
    if run.case is not None:
        workflow, task = db.execute(
            "SELECT workflow, coalesce(task, name) FROM runs WHERE seq = ?", (its[0],)
        ).fetchone()
        records.fix_case_weights(db, workflow, task, run.case[1])
    fresh, refused = records.attach_scores(db, names, its, run.scores)
    head = db.execute("SELECT head FROM traces WHERE run = ?", (its[0],)).fetchone()
    if fresh and head is not None:
        _keep_scores(db, its[0], head[0], fresh)
    return records.quarantine_scores(db, refused, name=run.name, uri=run.uri, now=now)


def _keep_scores(db: Connection, seq: int, head: bytes, fresh: Sequence[model.StepScore]) -> None:
    """Add scores to a run's own trace, so that an export has them."""
    run = _heads.decode(head)
    whole = msgspec.structs.replace(run, scores=(*run.scores, *fresh))
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (encode_json(whole), seq))


def _set_tags(db: Connection, seq: int, tags: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT INTO tags (run, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (run, key) DO UPDATE SET value = excluded.value",
        [(seq, key, value) for key, value in tags.items()],
    )


def _set_case(db: Connection, names: RowIds, seq: int, run: PreparedRun) -> None:
    if run.case is None:
        return
    records.fix_case_weights(db, run.workflow, run.task or run.name, run.case[1])
    case_id = names.case(db, *run.case)
    # What a file of cases gave is not taken back by the trace.
    query = (
        "UPDATE runs SET case_id = ?1 WHERE seq = ?2 AND case_id <> ?1 AND NOT EXISTS"
        " (SELECT 1 FROM cases WHERE cases.id = runs.case_id AND instr(body, ?3) > 0)"
    )
    db.execute(query, (case_id, seq, _GIVEN_CASE))


def give_case(db: Connection, names: RowIds, case: model.Case) -> tuple[int, int]:
    """Give a case to the runs of its task; return how many there are, and how many had another."""
    rows = db.execute(
        "SELECT runs.seq, cases.body FROM runs JOIN cases ON cases.id = runs.case_id"
        " WHERE workflow = ? AND task = ? AND purged_ns IS NULL",
        (case.workflow, case.task),
    ).fetchall()
    if rows:
        records.fix_case_weights(db, case.workflow, case.task, encode_json(case))
    changed = 0
    for seq, body in rows:
        given = case.given_to(None if body is None else _cases.decode(body))
        case_id = names.case(db, given.hash, encode_json(given))
        query = "UPDATE runs SET case_id = ?1 WHERE seq = ?2 AND case_id <> ?1"
        changed += db.execute(query, (case_id, seq)).rowcount
    return len(rows), changed


def _update_known(db: Connection, names: RowIds, seq: int, head: bytes, run: PreparedRun) -> None:
    """Take over what a later import knows about a run; what it does not know stays as it is."""
    old, now = _heads.decode(head), _heads.decode(run.head)
    fresh = tuple(label for label in now.labels if label not in old.labels)
    grown = merge_late_spans(old, now)
    outcome = now.outcome if now.outcome != model.Outcome() else old.outcome
    if outcome_rank(outcome) < outcome_rank(old.outcome):
        # Somebody gave the run a weightier one, or the trace itself did.
        recorded = _recorded_outcome(msgspec.structs.replace(old, outcome=outcome))
        fresh += () if recorded is None else (recorded,)
        outcome = old.outcome
    named = now.workflow not in ("", now.source.format)
    renamed = (named or old.id.startswith(old.name)) and not now.id.startswith(now.name)
    merged = msgspec.structs.replace(
        old if grown is None else grown,
        name=now.name if renamed else old.name,
        workflow=now.workflow if named else old.workflow,
        task=now.task if now.task is not None else old.task,
        trial=now.trial if now.trial is not None else old.trial,
        outcome=outcome,
        agent=now.agent if now.agent is not None else old.agent,
        agent_version=now.agent_version or old.agent_version,
        tags={**old.tags, **now.tags},
        labels=old.labels + fresh,
    )
    _set_case(db, names, seq, run)
    if merged == old:
        return
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (encode_json(merged), seq))
    cells = (merged.outcome.status, merged.agent, merged.agent_version, merged.name)
    db.execute(
        "UPDATE runs SET outcome = ?, agent = ?, agent_version = ?, name = ?, workflow = ?,"
        " task = ?, trial = ? WHERE seq = ?",
        (*cells, merged.workflow, merged.task, merged.trial, seq),
    )
    _set_tags(db, seq, merged.tags)
    if fresh:
        insert_records(db, names, label_records(run.id, merged.labels, run.steps))
    if grown is not None:
        db.execute(
            "UPDATE runs SET tokens = ?, cost_usd = ?, seconds = ?, start_ns = ? WHERE seq = ?",
            (run.tokens, run.cost_usd, run.seconds, run.start_ns, seq),
        )
    if merged.outcome != old.outcome or grown is not None:
        # Outcome and spans are in no record's key; what was computed from the old ones is wrong.
        db.execute(_DELETE_RULES, (seq, RULES))


def give_outcome(db: Connection, names: RowIds, seq: int, label: model.TraceLabel) -> OutcomeFate:
    """Give a run an outcome that somebody names; a weightier one that it has stays.

    What is said and does not count stays with the run, as a label.
    """
    row = db.execute("SELECT head, steps FROM traces WHERE run = ?", (seq,)).fetchone()
    if row is None:
        return "purged"
    old = _heads.decode(row[0])
    for said in old.labels:
        if outcome_of_label(said) is not None and said.annotator == label.annotator:
            return "known" if said.category == label.category else "contradicts"
    merged = _settle_outcome(old, label)
    _write_outcome(db, seq, merged)
    insert_records(db, names, label_records(old.id, merged.labels, len(_steps.decode(row[1]))))
    return "new"


def _settle_outcome(run: model.Trajectory, label: model.TraceLabel) -> model.Trajectory:
    """Return a run with one more outcome: the weightier one counts, the earlier of two equals."""
    given = outcome_of_label(label)
    assert given is not None
    labels = run.labels if label in run.labels else (*run.labels, label)
    if outcome_rank(given) <= outcome_rank(run.outcome):
        return msgspec.structs.replace(run, labels=labels)
    recorded = _recorded_outcome(run)
    if recorded is not None and recorded not in labels:
        labels = (*labels, recorded)
    return msgspec.structs.replace(run, labels=labels, outcome=given)


def _recorded_outcome(run: model.Trajectory) -> model.TraceLabel | None:
    """Return what the trace itself says of its outcome, as a label; None where it says nothing."""
    said = run.outcome
    if outcome_rank(said) == 0 or any(outcome_of_label(label) == said for label in run.labels):
        return None
    extra: dict[str, object] = {GIVEN_AS: said.source}
    if said.reward is not None:
        extra["reward"] = said.reward
    return model.TraceLabel(
        kind="outcome", category=said.status, reason=said.reason, annotator=TRACE, extra=extra
    )


def _write_outcome(db: Connection, seq: int, run: model.Trajectory) -> None:
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (encode_json(run), seq))
    db.execute("UPDATE runs SET outcome = ? WHERE seq = ?", (run.outcome.status, seq))
    db.execute(_DELETE_RULES, (seq, RULES))


def _supersede(db: Connection, seq: int, run: PreparedRun) -> int:
    """Mark which versions of a session are shorter ones of another; return how many."""
    others = db.execute(
        "SELECT runs.seq, traces.steps FROM runs JOIN traces ON traces.run = runs.seq"
        " WHERE run_id = ? AND format = ? AND superseded_by IS NULL AND runs.seq <> ?",
        (run.run_id, run.format, seq),
    ).fetchall()
    marked = 0
    for other, steps in others:
        shrunk = _is_grown(run.body, steps)
        grown = not shrunk and (_is_grown(steps, run.body) or _has_more_spans(db, other, run.head))
        if grown is False:
            _replace_version(db, seq, other)
            return marked + 1
        if grown:
            _replace_version(db, other, seq)
            marked += 1
    return marked


def _has_more_spans(db: Connection, other: int, head: bytes) -> bool | None:
    """Tell whether a trace has all the spans of an earlier version of it: late spans come anywhere.

    False where the earlier one has more; None where they are no versions of each other. Of two with
    the same spans the later one is what became of them.
    """
    row = db.execute("SELECT head FROM traces WHERE run = ?", (other,)).fetchone()
    before = {span.id for span in _heads.decode(row[0]).spans}
    now = {span.id for span in _heads.decode(head).spans}
    if not before or not now:
        return None
    return True if before <= now else False if now < before else None


def _replace_version(db: Connection, short: int, long: int) -> None:
    """Let a longer version take the place of a shorter one, and its step scores."""
    db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (long, short))
    head = "SELECT head FROM traces WHERE run = ?"
    if moved := records.move_scores(db, short, long):
        _keep_scores(db, long, db.execute(head, (long,)).fetchone()[0], moved)
    before = db.execute(head, (short,)).fetchone()
    if before is not None and _GIVEN in before[0]:
        merged = _heads.decode(db.execute(head, (long,)).fetchone()[0])
        for label in _heads.decode(before[0]).labels:
            if outcome_of_label(label) is not None and label.annotator != TRACE:
                merged = _settle_outcome(merged, label)
        _write_outcome(db, long, merged)


def _is_grown(short: bytes, long: bytes) -> bool:
    """Tell whether `long` is `short` with steps added; key order is not meaning."""
    if len(long) <= len(short):
        return False
    if long.startswith(short[:-1] + b","):
        return True
    before, after = _steps.decode(short), _steps.decode(long)
    return len(after) > len(before) and after[: len(before)] == before


def select_keys(db: Connection, where: Where | None) -> list[int]:
    """Return the runs that `where` chooses, superseded and purged ones left out, by name."""
    chosen = Where("1") if where is None else where
    query = "SELECT seq FROM runs WHERE superseded_by IS NULL AND purged_ns IS NULL AND ("
    rows = db.execute(query + chosen.sql + ") ORDER BY name, id", chosen.parameters)
    return [row[0] for row in rows]


class StoredRun(NamedTuple):
    """A run read back: its row, the row of its case, and the run itself with its case."""

    key: int
    case_id: int
    trajectory: model.Trajectory


def read_runs_by_row(db: Connection, chosen: Sequence[int]) -> Iterator[StoredRun]:
    """Yield runs by row, in the order asked for; one purged meanwhile is left out."""
    cases: dict[int, model.Case | None] = {0: None}
    for key in chosen:
        row = db.execute(
            "SELECT head, traces.steps, case_id FROM traces JOIN runs ON runs.seq = traces.run"
            " WHERE traces.run = ?",
            (key,),
        ).fetchone()
        if row is None:
            continue
        head, steps, case_id = row
        if case_id not in cases:
            body = db.execute("SELECT body FROM cases WHERE id = ?", (case_id,)).fetchone()[0]
            cases[case_id] = None if body is None else _cases.decode(body)
        trajectory = msgspec.structs.replace(
            _heads.decode(head), steps=_steps.decode(steps), case=cases[case_id]
        )
        yield StoredRun(key, case_id, trajectory)


def offer_texts(db: Connection) -> None:
    """Let SQL call what a filter asks of traces, by the row of a run.

    `calls_of` is a JSON array of the tool and the error of each call, `mentions` whether a message,
    a call, its arguments or its result holds a text, in upper or lower case alike.
    """

    def calls_of(run: int) -> str:
        made = [
            (one.call.name, one.result.error or one.result.text)
            if one.result is not None and one.failed
            else (one.call.name, None)
            for stored in read_runs_by_row(db, [run])
            for one in stored.trajectory.exchanges
        ]
        return encode_json(made).decode()

    def mentions(run: int, said: str) -> bool:
        wanted = said.casefold()
        return any(
            wanted in text.casefold()
            for stored in read_runs_by_row(db, [run])
            for step in stored.trajectory.steps
            for text in _texts_of_step(step)
        )

    db.create_function("calls_of", 1, calls_of)
    db.create_function("mentions", 2, mentions)


def list_tools(db: Connection, where: Where | None) -> set[str]:
    """Return the tools that runs call, for a filter that names one; else none."""
    asked = where is not None and any(field == "tool" for field, _ in where.values)
    return {
        call.name
        for stored in read_runs_by_row(db, select_keys(db, None) if asked else [])
        for step in stored.trajectory.steps
        for call in step.calls
    }


def _texts_of_step(step: model.Step) -> Iterator[str]:
    yield from (part.text for part in step.parts if part.text)
    for call in step.calls:
        yield call.name
        yield from texts_in(call.arguments)
        yield call.raw or encode_json(call.arguments).decode()
    for result in step.results:
        yield from (result.text, result.error or "")
        yield from texts_in(result.structured)
    yield step.error or ""


def texts_in(value: model.Json) -> Iterator[str]:
    """Yield every text of a JSON value, also the keys of its objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts_in(key)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def read_run_by_id(db: Connection, id_: str) -> StoredRun:
    """Return the run of an id."""
    row = db.execute("SELECT seq, purged_ns FROM runs WHERE id = ?", (id_,)).fetchone()
    if row is None:
        raise StoreError(f"no run {id_!r} in the store")
    for found in read_runs_by_row(db, [row[0]]):
        return found
    raise StoreError(f"run {id_!r}: its texts were purged; only its numbers remain")


# Of an id, what names a run: nobody types more, and no other run begins so.
HANDLE_DIGITS = 12
# Names that a mistyped one is compared with: more would take seconds.
_COMPARED_NAMES = 20_000
_LIVE = "superseded_by IS NULL"
COUNT_NAMED = "SELECT count(*) FROM runs WHERE " + _LIVE + " AND name = ? AND id <> ?"
# What grew out of a run is what counts of its session.
AMONG = (
    "runs.seq IN (WITH RECURSIVE versions (seq, later) AS ("
    " SELECT seq, superseded_by FROM runs AS r"
    " WHERE r.id IN (SELECT value FROM json_each(?)) OR r.name IN (SELECT value FROM json_each(?))"
    " UNION SELECT r.seq, r.superseded_by FROM runs AS r JOIN versions ON r.seq = versions.later)"
    " SELECT seq FROM versions)"
)


def find_named(db: Connection, text: str) -> list[tuple[str, str]]:
    """Return the runs that `text` may mean, by id and name: the first way in which any is so."""
    start = text.removesuffix("…") or text  # a name that was cut where it stood begins so
    of_id, of_name = ("substr(" + field + ", 1, :n) = :start" for field in ("id", "name"))
    live = _LIVE + " AND "
    ways = ["id = :text", live + "name = :text", of_id + " OR (" + live + of_name + ")"]
    if len(start) >= HANDLE_DIGITS:  # a name that begins as an id does is no accident
        ways.insert(2, of_id)
    for way in ways:
        query = "SELECT id, name FROM runs WHERE " + way + " ORDER BY name, id LIMIT 100"
        if found := db.execute(query, {"text": text, "start": start, "n": len(start)}).fetchall():
            return found
    return []


def list_named(db: Connection, begins: str) -> list[tuple[str, str]]:
    """Return the first runs whose names begin so, by id and name."""
    query = "SELECT id, name FROM runs WHERE " + _LIVE + " AND substr(name, 1, ?) = ?"
    return db.execute(query + " ORDER BY name LIMIT 50", (len(begins), begins)).fetchall()


def find_near(db: Connection, text: str) -> list[tuple[str, str]]:
    """Return the runs whose names are like `text` or have it in them, at most three, by id."""
    from difflib import get_close_matches

    query = "SELECT id, name FROM runs WHERE " + _LIVE + " ORDER BY name DESC, id DESC LIMIT ?"
    named = {name.casefold(): (id_, name) for id_, name in db.execute(query, (_COMPARED_NAMES,))}
    wanted = text.casefold()
    parts = [name for name in sorted(named) if wanted in name][:3]
    near = dict.fromkeys([*parts, *get_close_matches(wanted, named, 3, 0.6)])
    return [named[name] for name in near][:3]
