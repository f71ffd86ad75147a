from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscope import registry
from stepscope.errors import ConfigError, TraceError, UsageError
from stepscope.formats import ours
from stepscope.formats.fields import rest
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.opening import read_opening
from stepscope.formats.records import split_records
from stepscope.model import (
    Format,
    Json,
    Part,
    Quarantined,
    Source,
    Step,
    Stream,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
)
from stepscope.safety.json import decode
from stepscope.testing import check_format
from stepscope.testing.format_check import RULES, FormatFault, sample_files

# A file of labels holds no runs, and what it says is attached to runs of other files.
NO_RUNS = {"agentrx_labels"}
INSTALLED = set(registry.names("formats"))
SAMPLES = {path.stem: path for path in sample_files() if path.stem in INSTALLED - NO_RUNS}

LINES = (
    '{"recorder": "acme", "run": "r-1", "ask": "go", "tools": [{"name": "f", "args": {"a": 1}, '
    '"out": "done"}], "tokens": 3}\n'
    '{"recorder": "acme", "run": "r-2", "ask": "stop", "tools": [{"name": "f", "args": {}}]}\n'
)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_built_in_format_keeps_what_formats_promise(name: str) -> None:
    checked = check_format(name, SAMPLES[name])
    assert (checked.format, checked.files, checked.rules) == (name, 1, len(RULES))
    assert checked.runs >= 1


def of_sample(name: str) -> list[Trajectory]:
    with SAMPLES[name].open("rb") as file:
        found = list(registry.format(name).read(Stream(file, name)))
    return [run for run in found if isinstance(run, Trajectory)]


def as_ours(path: Path) -> None:
    with path.open("wb") as file:
        ours.write_runs_parquet(of_sample("ours"), file)


def as_langsmith(path: Path) -> None:
    lines = SAMPLES["langsmith"].read_text(encoding="utf-8").splitlines()
    rows = [msgspec.json.decode(line) for line in lines]
    texts = [
        {
            k: msgspec.json.encode(v).decode() if isinstance(v, dict | list) else v
            for k, v in row.items()
        }
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(texts), path)


# Formats of which no sample is bundled, because nobody could read it: it is made here.
BINARY: dict[str, Callable[[Path], None]] = {
    "langsmith_parquet": as_langsmith,
    "ours_parquet": as_ours,
}


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_format_keeps_the_same_promises(name: str, tmp_path: Path) -> None:
    BINARY[name](tmp_path / "runs.parquet")
    assert check_format(name, tmp_path / "runs.parquet").runs >= 1


def test_every_built_in_format_has_a_sample() -> None:
    assert {*SAMPLES, *NO_RUNS, *BINARY} == INSTALLED


def draft_of(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    steps = [Step(index=0, actor="user", parts=(Part("text", value["ask"]),))]
    for tool in value["tools"]:
        call = ToolCall(
            tool["name"], tool["args"], extra=rest(tool, frozenset({"name", "args", "out"}))
        )
        results: tuple[ToolResult, ...] = ()
        if "out" in tool:
            results = (ToolResult(name=tool["name"], parts=(Part("text", tool["out"]),)),)
        steps.append(
            Step(index=len(steps), actor="agent", kind="call", calls=(call,), results=results)
        )
    tokens = value.get("tokens")
    return Trajectory(
        id="",
        name=value["run"],
        steps=tuple(steps),
        source=Source(format="acme", uri=stream.uri, offset=offset, run_id=value["run"]),
        usage=None if tokens is None else Usage(input_total=tokens),
        extra=rest(value, frozenset({"run", "ask", "tools", "tokens"})),
    )


Draft = Callable[[dict[str, Json], Stream, int], Trajectory]


@dataclass(frozen=True)
class Acme:
    """A format that keeps every promise; what is replaced breaks one."""

    draft: Draft = draft_of
    sure: float = 0.95
    refuse: Callable[[Quarantined], Iterator[Any]] = field(default=lambda bad: iter([bad]))
    end: Callable[[Trajectory, Ordinals], Any] = finish_run
    caught: tuple[type[Exception], ...] = (
        TraceError, KeyError, TypeError, AttributeError, msgspec.ValidationError,
    )  # fmt: skip
    name: str = "acme"

    def sniff(self, head: bytes) -> float:
        return self.sure if read_opening(head).first("recorder", "ask") else 0.0

    def read(self, stream: Stream) -> Iterator[Any]:
        ordinals = Ordinals()
        for record in split_records(stream):
            if isinstance(record, Quarantined):
                yield from self.refuse(record)
                continue
            try:
                value = decode(record.raw, limits=stream.limits).value
                draft = self.draft(value, stream, record.offset)
                msgspec.convert(msgspec.to_builtins(draft), Trajectory)
                found = self.end(draft, ordinals)
            except self.caught as e:
                reason = f"no run of acme: {e!r}"
                yield from self.refuse(
                    Quarantined(reason=reason, offset=record.offset, raw=record.raw, uri=stream.uri)
                )
                continue
            yield found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "runs.log"
    path.write_text(LINES, encoding="utf-8")
    return path


def test_a_format_that_keeps_every_promise_is_told_so_in_one_line(log: Path) -> None:
    assert str(check_format(Acme(), log)) == f"acme: {len(RULES)} rules hold on 1 files with 2 runs"


class Greedy(Acme):
    def sniff(self, head: bytes) -> float:
        return 0.9


class Whole(Acme):
    def read(self, stream: Stream) -> Iterator[Any]:
        yield from list(super().read(stream))


class Printed(Acme):
    def sniff(self, head: bytes) -> float:
        return 0.95 if head.startswith(b'{"recorder"') else float("nan")


COUNT = itertools.count()


def changed(**fields: Any) -> Draft:
    return lambda *given: msgspec.structs.replace(draft_of(*given), **fields)


def stepped(**fields: Any) -> Draft:
    def draft(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
        run = draft_of(value, stream, offset)
        steps = tuple([msgspec.structs.replace(step, **fields) for step in run.steps])
        return msgspec.structs.replace(run, steps=steps)

    return draft


def believed(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    run = draft_of(value, stream, offset)
    results = (ToolResult(name="f", status="ok"),)
    return msgspec.structs.replace(
        run, steps=(*run.steps[:-1], msgspec.structs.replace(run.steps[-1], results=results))
    )


def in_words(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    run = draft_of(value, stream, offset)
    said = Step(index=len(run.steps), actor="agent", parts=(Part("text", str(value["tools"])),))
    return msgspec.structs.replace(run, steps=(*run.steps, said))


def unkept(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    return msgspec.structs.replace(draft_of(value, stream, offset), extra=None)


def zero(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    used = Usage(input_total=value.get("tokens") or 0)
    return msgspec.structs.replace(draft_of(value, stream, offset), usage=used)


def placed(value: dict[str, Json], stream: Stream, offset: int) -> Trajectory:
    run = draft_of(value, stream, offset)
    source = msgspec.structs.replace(run.source, run_id=stream.uri)
    return msgspec.structs.replace(run, source=source)


def unwarned(run: Trajectory, ordinals: Ordinals) -> Trajectory:
    return msgspec.structs.replace(finish_run(run, ordinals), warnings=())


def numbered(run: Trajectory, ordinals: Ordinals) -> Trajectory:
    return msgspec.structs.replace(finish_run(run, ordinals), id=f"run-{next(COUNT)}")


def named(run: Trajectory, ordinals: Ordinals) -> Trajectory:
    return msgspec.structs.replace(finish_run(run, ordinals), id=run.name)


def alone(run: Trajectory, ordinals: Ordinals) -> Trajectory:
    nameless = msgspec.structs.replace(run, name="", source=Source(format="acme"))
    return finish_run(msgspec.structs.replace(nameless, steps=run.steps[:0]), Ordinals())


def forgotten(bad: Quarantined) -> Iterator[Any]:
    return iter([])


def wordy(bad: Quarantined) -> Iterator[Any]:
    yield msgspec.structs.replace(bad, reason="it is\nbroken")


def astray(bad: Quarantined) -> Iterator[Any]:
    yield msgspec.structs.replace(bad, offset=10**9)


BROKEN: list[tuple[str, Format, str]] = [
    ("knows_its_own", Acme(sure=0.3), "sniff gives 0.3 for its own file; expected 0.5 to 1"),
    ("leaves_others_alone", Greedy(), "for a file of atif; look at keys that it lacks"),
    ("hostile_bytes_are_told", Printed(), "sniff gives nan; expected 0 to 1"),
    ("reads_its_own", Acme(draft=changed(name=7)), "the record at byte 0 is quarantined: no run"),
    ("yields_typed", Acme(end=lambda run, _: "a run"), "str comes out; yield Trajectory"),
    ("yields_typed", Acme(draft=changed(source=Source(format=""))), "has no source.format"),
    ("same_every_time", Acme(end=numbered), "use no clock, no random number, no set order"),
    ("name_is_nothing", Acme(draft=placed), "under another name run 'r-1' has another id"),
    ("key_order_is_nothing", Acme(draft=in_words), "run 'r-1' has another id"),
    ("ids_are_content", Acme(end=named), "has the id 'r-1'; finish_run gives"),
    ("ids_are_content", Acme(end=alone), "is that of several runs; share one Ordinals"),
    ("steps_are_numbered", Acme(draft=stepped(index=1)), "has steps [1, 1]; count from 0"),
    ("calls_and_results_are_told", Acme(end=unwarned), "call None has no result"),
    ("beliefs_have_sources", Acme(draft=believed), "of status 'ok' has the source 'none'"),
    ("counts_are_counts", Acme(draft=changed(usage=Usage())), "a Usage without any count"),
    (
        "counts_are_counts",
        Acme(draft=stepped(usage=Usage(input_total=1, cache_read=5))),
        "step 0 has 1 input tokens and 5 cached ones; add",
    ),
    ("counts_are_counts", Acme(draft=changed(cost_usd=-1.0)), "the run: a cost of -1.0"),
    ("absence_is_none", Acme(draft=zero), "says nothing of tokens; leave it None"),
    ("absence_is_none", Acme(draft=changed(cost_usd=0.0)), "a cost of 0.0, and the file says none"),
    ("comes_back_from_ours", Acme(draft=changed(extra={"a": (1,)})), "cannot be kept"),
    ("unknown_keys_are_kept", Acme(draft=unkept), "an unknown key of the record is lost"),
    ("bad_records_are_counted", Acme(refuse=forgotten), "a record that is none disappears"),
    ("cut_files_are_told", Acme(refuse=forgotten), "nothing comes out, not even a quarantined"),
    ("hostile_bytes_are_told", Acme(refuse=wordy), "whose reason is not one line"),
    ("hostile_bytes_are_told", Acme(refuse=astray), "at byte 1000000000 of "),
    ("hostile_values_are_told", Acme(caught=(TraceError,)), "raise TraceError, or yield"),
    ("lines_are_streamed", Whole(), "bytes are read before the first run; read by line"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "form", "told"), BROKEN)
def test_a_broken_promise_is_told_with_its_rule_and_its_place(
    rule: str, form: Format, told: str, log: Path
) -> None:
    with pytest.raises(FormatFault) as failed:
        check_format(form, log)
    mine = [line for line in str(failed.value).split("\n") if f": {rule}: " in line]
    assert any(told in line for line in mine), str(failed.value)
    assert all(line.startswith(f"acme, {log}: ") for line in mine)


def test_every_rule_is_broken_by_something() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _, _ in BROKEN}


def test_every_rule_says_what_it_is() -> None:
    assert all(rule.__doc__ and rule.__doc__.count("\n") == 0 for rule in RULES)


def test_a_format_that_is_as_sure_as_another_of_the_same_file_is_told_so() -> None:
    class Twin:
        name = "twin"

        def sniff(self, head: bytes) -> float:
            return registry.format("atif").sniff(head)

        def read(self, stream: Stream) -> Iterator[Trajectory | Quarantined]:
            return registry.format("atif").read(stream)

    with pytest.raises(FormatFault, match=r"atif is as sure of the file: 1\.0 against 1\.0"):
        check_format(Twin(), SAMPLES["atif"])


def test_a_check_needs_a_file_and_a_format_that_there_is(log: Path) -> None:
    with pytest.raises(UsageError, match="needs a file that the format reads"):
        check_format("atif")
    with pytest.raises(ConfigError, match="no format called 'atic'"):
        check_format("atic", log)
