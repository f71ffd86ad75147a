"""The second round: siblings of what the first found, and places where it did not look.

Expectations as in the first: by the documentation, written before they were run.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import socket
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _replies as replies
from bars.attack._cases import SECRET, Area, Case, Place, coded, one_line

Do = Callable[[Place], str]


def _odd(kind: str, name: str) -> None:
    """Put something in a place that is no file, or one that cannot be read."""
    path = Path(name)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(os.urandom(5000))


def _with_odd(
    kind: str, name: str, words: str, codes: tuple[int, ...] = (2, 5), text: str = ""
) -> Do:
    def do(place: Place) -> str:
        place.write("t/a.jsonl", gates.runs())
        if text:
            place.write("stepscope.toml", text)
        _odd(kind, name)
        return coded(place.run(*shlex.split(words)), codes)

    return do


def _gated(
    files: Mapping[str, gates.Content], words: str, codes: tuple[int, ...], text: str = ""
) -> Do:
    def do(place: Place) -> str:
        for name, content in files.items():
            place.write(f"t/{name}", content)
        if text:
            place.write("stepscope.toml", text)
        return coded(place.run("gate", "--undecided", "pass", *shlex.split(words)), codes)

    return do


def _two_workflows(place: Place) -> str:
    """A case of one workflow is declared; the other has lost half of its trials."""
    more = gates.policy().replace("workflow.w", "workflow.v").replace("base.json", "v.json")
    place.write("stepscope.toml", gates.policy() + more)
    other = [r.replace('"w"', '"v"').replace('d": "c', 'd": "e') for r in gates.runs("base")]
    place.write("v.jsonl", other)
    place.must("import", "v.jsonl")
    place.must("score")
    place.must("baseline", "update", "--yes", "--workflow", "v")
    place.write("t/a.jsonl", [*gates.runs(), *other[::2]])
    return coded(
        place.run("gate", "--runs", "t", "--cases", "c1", "--undecided", "pass"), (2, 3, 4)
    )


def _linked_twice(place: Place) -> str:
    place.write("t/a.jsonl", gates.PASSING)
    Path("t/b.jsonl").symlink_to("a.jsonl")
    os.link("t/a.jsonl", "t/c.jsonl")
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))


def _ours_changed(change: Callable[[dict[str, object]], None]) -> Do:
    """Return what gates our own format, half of its failing records changed."""

    def do(place: Place) -> str:
        place.write("x/a.jsonl", [*gates.PASSING, *gates.FAILING])
        place.must("import", "x", "--store", "x.db")
        place.must("export", "ours.jsonl", "--store", "x.db")
        made = []
        for raw in Path("ours.jsonl").read_text("utf-8").splitlines():
            run = json.loads(raw)
            if run.get("outcome", {}).get("status") == "fail":
                change(run)
            made.append(json.dumps(run))
        place.write("t/a.jsonl", made)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))

    return do


def _written_over(place: Place) -> str:
    """The file of failing runs is written over by passing ones and imported again."""
    place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
    place.must("import", "t")
    place.write("t/a.jsonl", gates.PASSING)
    place.must("import", "t")
    place.must("score")
    return coded(place.run("gate", "--undecided", "pass"), (3, 4))


def _gate_cases() -> list[tuple[str, str, Do]]:
    doubled = [gates.line(c, n, text="again") for c in gates.CASES for n in gates.TRIALS[2:]]
    other = [gates.line(c, n, agent="b", model="b", text="b") for c in gates.CASES for n in (0, 1)]
    half = {"a.jsonl": gates.PASSING}
    whole = {"a.jsonl": gates.runs()}
    failing = {"a.jsonl": [*gates.PASSING, *gates.FAILING]}
    few = gates.policy(more='trials = 1000\nbaseline = "base.json"')
    never = "3 or 4, never 0"
    return [
        *((f"a log of looks that is a {kind}", "2, 4 or 5, at once",
           _with_odd(kind, "looks.json", "gate --runs t --commit a", (2, 4, 5)))
          for kind in ("pipe", "zeros", "folder", "noise")),
        ("a declared case of another workflow", "2, 3 or 4", _two_workflows),
        ("a case declared in capital letters", "2", _gated(half, "--runs t --cases C0", (2,))),
        ("1,000 trials declared", "3 or 4, at once", _gated(whole, "--runs t", (3, 4), few)),
        ("1,001 trials declared", "2", _gated(whole, "--runs t", (2,), few.replace("1000", "1001"))),
        ("one file under three names", never, _linked_twice),
        ("files by a pattern", "3", _gated(failing, "--runs 't/*.jsonl'", (3,))),
        ("a pattern that fits nothing", "2 or 4", _gated(failing, "--runs 't/*.nothing'", (2, 4))),
        ("passing runs of the same trials beside failing ones", never,
         _gated({"a.jsonl": [*gates.PASSING, *gates.FAILING, *doubled]}, "--runs t", (3, 4))),
        ("passing runs of another agent in place of failing ones", never,
         _gated({"a.jsonl": [*gates.PASSING, *other]}, "--runs t", (3, 4))),
        ("limits that set all runs aside", never,
         _gated(whole, "--runs t", (3, 4), gates.policy() + "[limits]\nsteps = 1\n")),
        ("limits that cut every text", never,
         _gated(failing, "--runs t", (3, 4), gates.policy() + "[limits]\ntext_bytes = 1\n")),
        ("failing runs written over by passing ones", never, _written_over),
        ("our format: an outcome nobody knows", never,
         _ours_changed(lambda run: run.update(outcome={"status": "passed", "source": "check"}))),
        ("our format: an outcome that is a text", never,
         _ours_changed(lambda run: run.update(outcome="pass"))),
        ("our format: a step that is a number", never, _ours_changed(lambda run: run.update(steps=[7]))),
        ("our format: the trial of a passing run", never,
         _ours_changed(lambda run: run.update(trial="0"))),
    ]  # fmt: skip


def _key_where_evidence_is_cut(place: Place) -> str:
    """Wherever a quotation is cut, no long beginning of a key is left."""
    rows = []
    for at in range(0, 400, 5):
        said = "x" * (at % 7) + "word " * (at // 5) + SECRET
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        rows.append(json.dumps({"task_id": f"t{at}", "reward": 0.0, "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": f"Error: {said}"},
            {"role": "assistant", "content": said}]}))  # fmt: skip
    place.write("k.jsonl", rows)
    place.must("import", "k.jsonl", "--store", "k.db")
    place.must("score", "--store", "k.db")
    for words in ("report --look-first 80", "report --json --look-first 80",
                  "report --html k.html", "show openai_messages/t100", "doctor k.jsonl"):  # fmt: skip
        said = place.run(*words.split(), *(() if "doctor" in words else ("--store", "k.db"))).said
        said += Path("k.html").read_text("utf-8") if "html" in words else ""
        if SECRET[:18] in said:
            at = said.index(SECRET[:18])
            return f"{words}: {said[at - 60 : at + 40]!r}"
    return ""


def _valid_lines(*words: str) -> Do:
    """Return what holds each line that a command prints to be JSON."""

    def do(place: Place) -> str:
        done = place.run(*words)
        # Only a line feed ends a line: U+2028 and others are text.
        for line in done.out.removesuffix("\n").split("\n"):
            json.loads(line)
        return coded(done, (0,)) or ("" if done.out else "it says nothing")

    return do


def _in_actions(*words: str) -> Do:
    """Return what runs a command as a CI system does, and holds its log against commands."""

    def do(place: Place) -> str:
        outputs._scores("report")(place)
        os.environ["GITHUB_ACTIONS"] = "true"
        done = place.run(*words)
        lines = done.out.splitlines()
        if lines and lines[0].startswith("::stop-commands::"):
            lines = lines[1:-1]
        return outputs.inert("\n".join(lines)) or outputs.inert(done.err)

    return do


def _output_cases() -> list[tuple[str, str, Do]]:
    inert = "inert: nothing unseen, no command, no reference, no secret"
    sigma = outputs._scores("calibrate", "sigma", "scores.csv", form="--json")
    return [
        ("a key where evidence is cut", "no 18 characters of it", _key_where_evidence_is_cut),
        ("an export of hostile runs to standard output", "a JSON object a line",
         _valid_lines("export", "-")),
        ("an OTLP export of hostile runs", "a JSON object a line",
         _valid_lines("export", "-", "--format", "otlp")),
        ("noise of hostile judges in JSON", f"{inert}; JSON", sigma),
        ("a fit of the ranking over hostile runs", inert, outputs._said("calibrate", "localise")),
        ("groups by a hostile tag", inert, outputs._said("report", "--by", f"tag.{outputs.HOSTILE}")),
        ("two groups by a tag", inert, outputs._said("compare", "x", "y", "--by", "tag.k")),
        ("a queue in JSON", f"{inert}; JSON",
         outputs._verdicts("agree", "--queue", "9", form="--json")),
        ("agreement in JSON", f"{inert}; JSON", outputs._verdicts("agree", form="--json")),
        ("a report after hostile verdicts", inert, outputs._verdicts("report", form="--markdown")),
        ("doctor in JSON over a hostile name", f"{inert}; JSON",
         outputs._file_named(os.fsencode(outputs.NAME)[:250], "doctor", "d", form="--json")),
        ("import in JSON over a hostile name", f"{inert}; JSON",
         outputs._file_named(os.fsencode(outputs.NAME)[:250], "import", "d", form="--json")),
        ("a gate in a CI system", inert, _in_actions("gate")),
        ("a report in a CI system", inert, _in_actions("report")),
        ("a run in a CI system", inert, _in_actions("show", "run0b0")),
        ("curves in a CI system", inert, _in_actions("shape", "scores.csv")),
        ("noise in a CI system", inert, _in_actions("calibrate", "sigma", "scores.csv")),
    ]  # fmt: skip


def _beside(name: str, kind: str, codes: tuple[int, ...]) -> Do:
    """Return what puts something odd beside a store, and reads the store."""

    def do(place: Place) -> str:
        with closing(sqlite3.connect("stepscope.db")) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for rest in Path().glob("stepscope.db-*"):
            rest.unlink()
        _odd(kind, f"stepscope.db{name}")
        done = place.run("report")
        return coded(done, codes) or (one_line(done, codes) if done.code else "")

    return do


def _blobs_lead_out(place: Place) -> str:
    """The folder of blobs is a link: what is purged lies not where the link leads."""
    place.write("mine/precious", "mine")
    for name in ("stepscope.db.blobs", "stepscope.blobs", "stepscope.db-blobs"):
        Path(name).symlink_to("mine")
    place.run("purge", "--where", "task != null", "--yes")
    return "" if Path("mine/precious").exists() else "a file of the user was erased"


def _store_cases() -> list[tuple[str, str, Do]]:
    at_once = "2 or 5, at once"
    return [
        *((f"{words.split()[0]} of a {kind}: {words}", at_once, _with_odd(kind, "odd", words, (2, 5)))
          for kind in ("pipe", "zeros")
          for words in ("import --verdicts odd --rubric axes", "import --outcomes odd", "shape odd",
                        "calibrate sigma odd", "baseline update --yes --config odd")),
        ("a journal that is a folder", "2 or 5, one line", _beside("-wal", "folder", (2, 5))),
        ("a shared memory that is a folder", "2 or 5, one line", _beside("-shm", "folder", (0, 2, 5))),
        ("a ranking that is a pipe", "0, 2 or 5, at once", _beside(".localise.json", "pipe", (0, 2, 5))),
        ("a ranking that is noise", "0 or 2", _beside(".localise.json", "noise", (0, 2))),
        ("a ranking that never ends", "0, 2 or 5", _beside(".localise.json", "zeros", (0, 2, 5))),
        ("a folder of blobs that leads out", "what is there stays", _blobs_lead_out),
    ]  # fmt: skip


def _setting(text: str) -> Do:
    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        return one_line(place.run("score"), (2,), says="stepscope.toml")

    return do


JUDGE = '[judges.model."local/a"]\nfamily = "a"\nprice = { input = 1, output = 1 }\nbase_url = '


def _address(base: str) -> Do:
    def do(place: Place) -> str:
        place.write("stepscope.toml", JUDGE + outputs.toml(base))
        return one_line(place.run("judge", "--judge", "local/a"), (2,))

    return do


def _settings_cases() -> list[tuple[str, str, Do]]:
    judge = JUDGE + '"http://127.0.0.1:1/v1"\n'
    words = ("judge --judge local/a --rubric ./odd.md", "judge --judge local/a --goals odd.md",
             "report --html r.html --gates odd.md", "report --gates odd.md --html r.html",
             "shape odd.csv --weights odd.md")  # fmt: skip
    return [
        *((f"a {kind}: {one}", "2 or 5, at once", _with_odd(kind, "odd.md", one, (2, 5), judge))
          for kind in ("pipe", "zeros") for one in words[:3]),
        ("weights of curves that are a pipe", "2 or 5, at once",
         _with_odd("pipe", "odd.md", words[4], (2, 5))),
        *((f"another's settings that are a {kind}", "0, 2 or 5, at once",
           _with_odd(kind, "pyproject.toml", "score", (0, 2, 5))) for kind in ("pipe", "folder")),
        *((f"a judge at {base!r}", "2, one line", _address(base))
          for base in ("http://127.0.0.1\t/v1", "http://127.0.0.1/v1\n", "http://a\u2028b/v1",
                       "http://127.0.0.1\\@evil.example/v1", "http://evil.example#@127.0.0.1",
                       "http://%31%32%37.0.0.1:x/v1", "HTTP://user@127.0.0.1/v1", "http://\u202e/v1")),
        ("a rule whose name is a line break", "2", _setting("[[policy]]\nname = '''\n'''\nforbid = 'x'")),
        ("a rule that requires and forbids", "2",
         _setting("[[policy]]\nname = 'a'\nforbid = 'x'\nrequire = 'confirm'")),
        ("weights of a hundred thousand, one of them 5", "2",
         _setting("[weights.w]\n'*' = [" + "1," * 100_000 + "5]")),
    ]  # fmt: skip


class Turning(replies.Wire):
    """A server whose first answer is another than those that follow."""

    def __init__(self, first: bytes, then: bytes) -> None:
        """Send `first` once, `then` from then on."""
        self._first, self._then = first, then
        super().__init__("", b"")

    def _answer(self, made: socket.socket) -> None:
        self._raw = self._first if not self.asked else self._then
        super()._answer(made)


def raw(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    """Return an answer as it stands on the wire."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n{more}\r\n".encode() + body


RIGHT = json.dumps(replies.completion()).encode()
CHUNKED = (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
           + b"".join(b"%x;ext=1\r\n%b\r\n" % (len(RIGHT[at : at + 7]), RIGHT[at : at + 7])
                      for at in range(0, len(RIGHT), 7))
           + b"0\r\nx-trailer: y\r\n\r\n")  # fmt: skip


def _recovers(first: bytes) -> Do:
    """Return what answers badly once, then well: a verdict in the end."""

    def do(place: Place) -> str:
        found = replies.judged(place, Turning(first, raw(RIGHT)))
        return replies._held(found, verdict=True)

    return do


def _wired(wire: bytes, verdict: bool | None, most: int = 2) -> Do:
    def do(place: Place) -> str:
        found = replies.judged(place, Turning(wire, wire))
        return replies._held(found, verdict=verdict, kept=bool(verdict))

    return do


def _large(size: int) -> bytes:
    return json.dumps(replies.completion(json.dumps(replies.ANSWER) + " " * size)).encode()


def _ledger(kind: str) -> Do:
    """Return what puts something odd in the ledger's place: a typed error, and nobody is asked."""

    def do(place: Place) -> str:
        wire = replies.plain(RIGHT)
        place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
        words = ["judge", "--judge", "local/a", "--rubric", "axes.termination"]
        name = "stepscope.db.judges.db"
        if kind in ("trigger", "cut"):
            place.must(*words)
            with closing(sqlite3.connect(name)) as db, db:
                (table,) = db.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                ).fetchone()
                if kind == "trigger":
                    db.execute(f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT 1; END")
            if kind == "cut":
                with closing(sqlite3.connect(name)) as db:
                    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                os.truncate(name, Path(name).stat().st_size // 2)
        else:
            _odd(kind, name)
        asked = wire.asked
        done = place.run(*words, "--repeat", "2")
        return one_line(done, (2, 5)) or (
            f"asked {wire.asked - asked}" if wire.asked > asked else ""
        )

    return do


def _reply_cases() -> list[tuple[str, str, Do]]:
    kept = "a verdict, and nothing bought again"
    twice = replies.message(content=[{"type": "text", "text": json.dumps(replies.ANSWER)}] * 2)
    error = b'{"error": {"message": "down", "type": "server_error"}}'
    huge = RIGHT.replace(b'"prompt_tokens": 900', b'"prompt_tokens": 1' + b"0" * 400)
    packed = gzip.compress(RIGHT)
    return [
        *((f"then the right one: {name}", kept, _recovers(first)) for name, first in {
            "500": raw(error, "500 Down"), "429": raw(error, "429 Slow", "retry-after: 0\r\n"),
            "an error under 200": raw(error), "half a body": raw(RIGHT)[:-90],
            "nothing": b"", "a page": raw(b"<html>", "502 Bad"), "no JSON": raw(b"{"),
            "a key twice": raw(json.dumps(replies.completion(
                '{"label": "correct", "label": "uncertain"}')).encode())}.items()),
        ("chunks with extensions and a trailer", kept, _wired(CHUNKED, True)),
        ("gzip", kept, _wired(raw(packed, more="content-encoding: gzip\r\n"), True)),
        ("tokens of 400 digits", kept, _wired(raw(huge), True)),
        ("3.9 MiB", kept, _wired(raw(_large(4_000_000)), True)),
        ("Anthropic: two texts", "kept; no verdict of two answers", lambda place: replies._held(
            replies.judged(place, replies.plain(json.dumps(twice).encode()), judge="local/b"),
            verdict=False)),
        *((f"a ledger: {kind}", "2 or 5, nobody is asked", _ledger(kind))
          for kind in ("pipe", "folder", "noise", "zeros", "trigger", "cut")),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this round, of all areas."""
    tables: dict[Area, list[tuple[str, str, Do]]] = {
        "gates": _gate_cases(), "outputs": _output_cases(), "stores": _store_cases(),
        "settings": _settings_cases(), "replies": _reply_cases(),
    }  # fmt: skip
    return [
        Case(area, name, expected, "high", do, round=2)
        for area, table in tables.items()
        for name, expected, do in table
    ]
