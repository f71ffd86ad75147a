"""The third round: replies of judges, over real HTTP and from programs.

Expectations as in the first round: by the documentation, written before anything was run.
"""

# fmt: off
from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bars.attack import _replies as replies
from bars.attack import _second as second
from bars.attack._cases import Area, Case, Place, Severity, coded, one_line
from bars.attack._third import ended, forked
from stepscope.models.retry import RetryLimits, RetryPolicy

Do = Callable[[Place], str]
Row = tuple[str, str, Severity, Do]


# ---- replies


class Serving(replies.Wire):
    """A server that writes what a function writes to each connection."""

    def __init__(self, write: Callable[[socket.socket], None]) -> None:
        """Serve so."""
        self._write = write
        super().__init__("", b"")

    def _answer(self, made: socket.socket) -> None:
        made.settimeout(15)
        with made, suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += made.recv(65536)
            head, _, rest = request.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            while length and len(rest) < int(length[1]):
                rest += made.recv(65536)
            self.asked += 1
            self.requests.append(head + rest)
            self._write(made)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"


def _endless(made: socket.socket) -> None:
    made.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    while True:
        made.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")


def _endless_head(made: socket.socket) -> None:
    made.sendall(HEAD)
    while True:
        made.sendall(b"x-more: " + b"a" * 4000 + b"\r\n")


def _packed(raw: bytes, name: bytes) -> Callable[[socket.socket], None]:
    def write(made: socket.socket) -> None:
        made.sendall(HEAD + b"content-encoding: " + name + b"\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw)

    return write


def _bytes(raw: bytes) -> Callable[[socket.socket], None]:
    return lambda made: made.sendall(raw)


def impatient() -> None:
    """Let pauses between tries be short: what holds of eight tries holds of eight quick ones."""
    kept = RetryPolicy.__init__.__kwdefaults__
    assert kept is not None
    kept["limits"] = RetryLimits(base_seconds=0.01, cap_seconds=0.05)


def _written(write: Callable[[socket.socket], None], verdict: bool | None, *, most: int = 9) -> Do:
    """Return what judges over such a server: a verdict, or 4; in time, no bug."""

    def do(place: Place) -> str:
        impatient()
        found = replies.judged(place, Serving(write))
        if found.usd < 0 or found.asked > most:
            return f"{found.usd} USD, asked {found.asked}"
        if verdict is not None and bool(found.verdicts) != verdict:
            return f"{found.verdicts} verdicts, code {found.code}: {found.said[-200:]!r}"
        if verdict and found.asked_again:
            return "a reply that came was bought again"
        return "" if found.code in (0, 4, 5) else f"code {found.code}: {found.said[-200:]!r}"

    return do


def _says(text: str, verdict: bool | None) -> Do:
    return replies._body(replies.completion(text), verdict=verdict)


def _answer(**changes: object) -> str:
    return json.dumps({**replies.ANSWER, **changes})


def _key_echoed(place: Place) -> str:
    """A provider that repeats the key in its refusal: a plain word is a key, too."""
    word = "quokka-plain-word"

    def write(made: socket.socket) -> None:
        body = json.dumps({"error": {"message": f"bad key Bearer {word} / {word}", "type": word}}).encode()
        made.sendall(b"HTTP/1.1 401 No " + word.encode() + b"\r\ncontent-type: application/json\r\n"
                     b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)  # fmt: skip

    wire = Serving(write)
    os.environ["GPU_BOX_KEY"] = word
    text = replies.SETTINGS.format(base=wire.base).replace("structure", 'key = "GPU_BOX_KEY"\nstructure', 1)
    place.write("stepscope.toml", text)
    done = place.run("judge", "--judge", "local/a", "--rubric", "axes.termination")
    if not wire.requests or word.encode() not in wire.requests[0]:
        return "the case is wrong: the key was not sent"
    return "the key is shown" if word in done.said else coded(done, (2, 4, 5))


def _store_lost(place: Place) -> str:
    """The store is lost, the ledger is there: nothing is bought again."""
    wire = replies.plain(second.RIGHT)
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    words = ("judge", "--judge", "local/a", "--rubric", "axes.termination")
    place.must(*words)
    asked = wire.asked
    for path in Path().glob("stepscope.db*"):
        if "judges" not in path.name:
            path.unlink()
    place.must("import", "t.jsonl")
    place.must("score")
    place.must(*words)
    return f"bought again: {wire.asked - asked}" if wire.asked > asked else ""


def _retold(place: Place) -> str:
    """The trace comes again with its keys in another order, under another name: one question."""
    wire = replies.plain(second.RIGHT)
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    words = ("judge", "--judge", "local/a", "--rubric", "axes.termination")
    place.must(*words)
    asked = wire.asked
    run = json.loads(Path("t.jsonl").read_text("utf-8"))
    place.write("again.jsonl", json.dumps(dict(reversed(run.items())), indent=None) + "\n\n")
    place.must("import", "again.jsonl")
    place.must("score")
    place.must(*words)
    return f"bought again: {wire.asked - asked}" if wire.asked > asked else ""


def _slow(seconds: float) -> Callable[[socket.socket], None]:
    def write(made: socket.socket) -> None:
        time.sleep(seconds)
        made.sendall(second.raw(second.RIGHT))

    return write


def _killed_in_flight(place: Place) -> str:
    """Killed while a call is out: it is listed, and asked once more."""
    wire = Serving(_slow(1.5))
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    words = ("judge", "--judge", "local/a", "--rubric", "axes.termination")
    pid = forked(*words)
    while not wire.asked:
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    ended(pid)
    done = place.run(*words)
    if wire.asked != 2:
        return f"asked {wire.asked}"
    return coded(done, (0,), says="unknown outcome")


def _two_judge(place: Place) -> str:
    wire = Serving(_slow(0.6))
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    words = ("judge", "--judge", "local/a", "--rubric", "axes.termination")
    codes = [ended(pid) for pid in [forked(*words) for _ in range(4)]]
    if wire.asked != 1:
        return f"asked {wire.asked} times, codes {codes}"
    return "" if set(codes) == {0} else f"codes {codes}"


def _shared_budget(place: Place) -> str:
    """Four processes share a budget that holds the worst case of a few calls: never more is asked."""
    wire = Serving(_slow(0.3))
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    words = ("judge", "--judge", "local/a", "--rubric", "axes", "--budget", "0.03", "--budget-name", "a/../b\n")
    codes = [ended(pid, 15) for pid in [forked(*words) for _ in range(4)]]
    if set(codes) - {0, 2, 4, 5}:
        return f"codes {codes}"
    spent = replies._usd() if Path("stepscope.db.judges.db").exists() else 0
    return "" if wire.asked <= 5 and spent <= 0.03e9 else f"asked {wire.asked}, spent {spent}"


def _worded(words: str, codes: tuple[int, ...], asked: int | None = 0) -> Do:
    """Return what judges by odd words: typed, in time, and nobody is asked more than this."""

    def do(place: Place) -> str:
        wire = replies.plain(second.RIGHT)
        place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
        done = place.run(*shlex.split(words))
        if asked is not None and wire.asked > asked:
            return f"asked {wire.asked}"
        if done.code == 5:  # what the budget did not hold is told where the rest is
            return coded(done, codes, says="without an answer, .*: 1 budget|^error: ")
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _stopped_twice(place: Place) -> str:
    """A second Ctrl-C leaves at once, also where a provider never answers."""
    wire = Serving(_slow(14))
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    pid = forked("judge", "--judge", "local/a", "--rubric", "axes.termination")
    while not wire.asked:
        time.sleep(0.02)
    os.kill(pid, signal.SIGINT)
    time.sleep(0.5)
    os.kill(pid, signal.SIGINT)
    code = ended(pid, 6)
    return "" if code in (130, -2) else f"code {code}"


MODULE = """
import json
from stepscope.model import Reply, Usage
class Judge:
    name = "own/j"
    async def complete(self, request):
        BODY
    ANSWER = ANSWERS
JUDGE = Judge()
"""
RETURNS = "return Reply(text={text}, stop={stop}, structure='json_schema', usage={usage})"
PROGRAMS: dict[str, tuple[str, tuple[int, ...]]] = {
    "raises an error": ("raise RuntimeError('no \\x1b[2J\\u202e ::error::x')", (4,)),
    "raises a key error without words": ("raise KeyError", (4,)),
    "answers nothing": ("return None", (2, 4)),
    "answers a text": ("return 'correct'", (2, 4)),
    "answers a text of a number": (RETURNS.format(text="7", stop="'end'", usage="None"), (0, 2, 4)),
    "answers half a character": (RETURNS.format(text="'\\ud800'", stop="'end'", usage="None"), (0, 2, 4)),
    "answers tokens of no number": (
        RETURNS.format(text="json.dumps(self.ANSWER)", stop="'end'",
                       usage="Usage(input_total=float('nan'), output_total=-5)"), (0, 2, 4)),
    "ends for a reason nobody knows": (
        RETURNS.format(text="json.dumps(self.ANSWER)", stop="'boredom'", usage="None"), (0, 2, 4)),
    "prints to the terminal": ("print('\\x1b[2J'); raise ValueError('x' * 1_000_000)", (4,)),
    "recurses for ever": ("return await self.complete(request)", (2, 4)),
    "changes its request": ("request.context = 'x'; return None", (2, 4)),
}  # fmt: skip


def _program(body: str, codes: tuple[int, ...]) -> Do:
    """Return what lets a judge that is a program do this: a failure of one call, not of ours."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", '[judges.model."own/j"]\nfamily = "own"\nprice = { input = 0, output = 0 }\n')
        place.write("j.py", MODULE.replace("BODY", body).replace("ANSWERS", repr(replies.ANSWER)))
        return coded(place.run("judge", "--judge", "j.py:JUDGE", "--rubric", "axes.termination"), codes)

    return do


def _program_file(text: str, name: str = "JUDGE") -> Do:
    def do(place: Place) -> str:
        place.write("stepscope.toml", '[judges.model."own/j"]\nfamily = "own"\nprice = { input = 0, output = 0 }\n')
        place.write("j.py", text)
        return one_line(place.run("judge", "--judge", f"j.py:{name}", "--rubric", "axes.termination"), (2,))

    return do


def _erased_reply(place: Place) -> str:
    """What a judge said of a run that is erased is in no file."""
    word = "quokka zanzibar seventeen"
    wire = replies.plain(json.dumps(replies.completion(_answer(rationale=word))).encode())
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    place.must("judge", "--judge", "local/a", "--rubric", "axes.termination")
    place.must("purge", "--where", "task = 't'", "--yes")
    for path in Path().glob("stepscope.db*"):
        if path.is_file() and word.encode() in path.read_bytes():
            return f"{path.name} has it"
    asked = wire.asked
    place.run("judge", "--judge", "local/a", "--rubric", "axes.termination")
    return "an erased run was asked about" if wire.asked > asked else ""


def _outranked(place: Place) -> str:
    """A judge that praises a run whose check failed: the report counts no pass of it."""
    praise = _answer(label="correct", cited_step_indices=[1], rationale="It ended where it should.",
                     evidence=[{"step": 1, "quote": "I cannot find order #W1 in the list."}])  # fmt: skip
    wire = replies.plain(json.dumps(replies.completion(praise)).encode())
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base))
    place.must("judge", "--judge", "local/a", "--rubric", "quality.final_answer")
    with_praise = place.run("show", replies._ids()[0]).said + place.run("report").said
    return "" if "outranked" in with_praise else f"not outranked: {with_praise[-300:]!r}"


def _reply_rows() -> list[Row]:
    right = second.RIGHT
    in_time = "0, 4 or 5 in time, no verdict"
    bomb = gzip.compress(b" " * 300_000_000)
    twice = zlib.compress(gzip.compress(right))
    sized = b"content-length: %d\r\n" % len(right)
    doubled = right.replace(b'"choices":', b'"choices": [], "choices":')
    copied = "Cancel order #W1. I cannot find order #W1 in the list."
    judge = "judge --judge local/a --rubric axes.termination"
    return [
        ("a body without an end", in_time, "high", _written(_endless, False)),
        ("heads without an end", in_time, "high", _written(_endless_head, False)),
        ("a body of 300 MB in gzip", in_time, "high", _written(_packed(bomb, b"gzip"), False)),
        ("a body packed twice", "0 or 4", "high", _written(_packed(twice, b"gzip, deflate"), None)),
        ("a body in deflate", "0 or 4", "high", _written(_packed(zlib.compress(right), b"deflate"), None)),
        *((f"on the wire: {name}", "a verdict bought once, or 4", "high", _written(_bytes(raw), verdict))
          for name, raw, verdict in (
              ("early hints before", b"HTTP/1.1 103 Early\r\nlink: <x>\r\n\r\n" + HEAD + sized + b"\r\n" + right, None),
              ("100 before", b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + sized + b"\r\n" + right, True),
              ("HTTP/1.0 without a length", b"HTTP/1.0 200 OK\r\n\r\n" + right, None),
              ("two lengths", HEAD + sized + b"content-length: 5\r\n\r\n" + right, None),
              ("a length below 0", HEAD + b"content-length: -5\r\n\r\n" + right, None),
              ("a length that is too long", HEAD + b"content-length: 99999\r\n\r\n" + right, None),
              ("a length that is too short", HEAD + b"content-length: 50\r\n\r\n" + right, False),
              ("chunks of 16^16", HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n" + right, None),
              ("a line that is no status", b"OK\r\n\r\n" + right, False),
              ("a status of 999", b"HTTP/1.1 999 Odd\r\n" + sized + b"\r\n" + right, None),
              ("a head of a line break", HEAD + b"x: a\r\n b\r\n" + sized + b"\r\n" + right, None),
              ("a reply of SSH", b"SSH-2.0-OpenSSH_9.6\r\n", False),
              ("an answer of TLS", b"\x15\x03\x01\x00\x02\x02\x46", False))),
        *((f"the envelope {name}", "a verdict bought once, or no verdict", "high", replies._body(raw, verdict=verdict, kept=False))
          for name, raw, verdict in (
              ("has a mark of UTF-8", b"\xef\xbb\xbf" + right, None), ("has its choices twice", doubled, None),
              ("has a number that is none", right.replace(b"900", b"NaN"), None), ("has a remark", b"// x\n" + right, None),
              ("ends in NUL", right + b"\0", None), ("is within blanks of a megabyte", b" " * 1_000_000 + right, None))),
        *((f"a reply {name}", "a verdict" if verdict else "no verdict" if verdict is False else "typed", "high", _says(text, verdict))
          for name, text, verdict in (
              ("whose key is twice by an escape", _answer()[:-1] + ', "\\u006cabel": "correct"}', False),
              ("whose keys are escapes", _answer().replace('"label"', '"\\u006cabel"'), True),
              ("of a label with NUL", _answer(label="uncertain\0"), False), ("of a label without ink", _answer(label="uncertain\u200b"), False),
              ("of a label with a blank", _answer(label=" uncertain"), False), ("of a label in capitals", _answer(label="Uncertain"), False),
              ("of confidence that is true", _answer(confidence=True), False), ("of confidence below 0", _answer(confidence=-1e-9), False),
              ("of confidence of negative zero", _answer(confidence=-0.0), None), ("of confidence 1e-400", _answer().replace("0.5", "1e-400"), None),
              ("of a citation 1.0", _answer(cited_step_indices=[1.0]), False), ("of a citation that is true", _answer(cited_step_indices=[True]), False),
              ("of a citation below 0", _answer(cited_step_indices=[-1]), False), ("of citations that are a number", _answer(cited_step_indices=1), False),
              ("of evidence that is an object", _answer(evidence={"step": 1, "quote": "order"}), False),
              ("of evidence without a step", _answer(evidence=[{"quote": "order"}]), False),
              ("of a quotation over two steps", _answer(label="incorrect", cited_step_indices=[0], evidence=[{"step": 0, "quote": copied}]), False),
              ("of a quotation of another step", _answer(label="incorrect", cited_step_indices=[0], evidence=[{"step": 0, "quote": "I cannot find order #W1"}]), False),
              ("of a quotation of seven signs", _answer(label="incorrect", cited_step_indices=[1], evidence=[{"step": 1, "quote": "I canno"}]), False),
              ("whose reason stands in the run", _answer(rationale="I cannot find order #W1 in the list."), True),
              ("in a fence of Markdown", "```json\n" + _answer() + "\n```", False), ("after its thoughts", "<think>x</think>" + _answer(), False),
              ("in single quotation marks", _answer().replace('"', "'"), False), ("with a comma at its end", _answer()[:-1] + ",}", False))),
        ("a provider that repeats the key", "2, 4 or 5; the key is not shown", "high", _key_echoed),
        ("a store that is lost, and its ledger that is not", "nothing is bought again", "high", _store_lost),
        ("a trace that is told again in another order", "nothing is bought again", "high", _retold),
        ("a kill while a call is out", "listed as of unknown outcome, asked once more", "high", _killed_in_flight),
        ("four who judge at once", "one call, all codes 0", "high", _two_judge),
        ("four who share a budget of an odd name", "never above it", "high", _shared_budget),
        ("a second Ctrl-C while nobody answers", "130 at once", "high", _stopped_twice),
        *((f"words: {words}", f"code {codes}, asked {asked} at most", "high", _worded(words, codes, asked))
          for words, codes, asked in (
              (f"{judge} --budget 0", (5,), 0), (f"{judge} --budget 1e-300", (5,), 0), (f"{judge} --budget nan", (2, 5), 0),
              (f"{judge} --budget inf", (0, 2), 1), (f"{judge} --repeat 1000000000 --dry-run", (0, 2), 0),
              (f"{judge} --repeat 1{'0' * 30} --dry-run", (0, 2), 0), (f"{judge} --sample 1000000000000 --dry-run", (0, 2), 0),
              (f"{judge} --batch", (2,), 0), (f"{judge} --judge local/a", (0, 2), 1), (f"{judge} --rubric axes.termination", (0, 2), 1),
              (f"{judge} nobody", (2, 4), 0), ("judge --again --rubric axes", (2, 4), 0), (f"{judge} --workspace /proc --tools --dry-run", (0, 2, 5), 0),
              (f"{judge} --workspace nowhere --tools", (2, 5), 0), ("judge --judge '' --rubric axes", (2,), 0),
              (f"{judge} --mode isolated --narration both --dry-run", (0, 2), 0),
              ("judge --judge local/a --propose-goals stepscope.db", (2,), 0))),
        *((f"a program as a judge {name}", f"code {codes}: a failure of the call", "high", _program(body, codes))
          for name, (body, codes) in PROGRAMS.items()),
        *((f"a program as a judge: {name}", "2, one line", "high", _program_file(text, attribute))
          for name, text, attribute in (
              ("no Python", "def (", "JUDGE"), ("raises when it is read", "raise RuntimeError('x\\n::error::y')", "JUDGE"),
              ("has no such name", "x = 1", "JUDGE"), ("a name that is a path", "JUDGE = 1", "__class__.x"),
              ("a number", "JUDGE = 7", "JUDGE"), ("without a name", "class J: pass\nJUDGE = J()", "JUDGE"),
              ("ends the process", "import sys; sys.exit(0)", "JUDGE"),
              ("a name that is a number", "class J:\n    name = 7\n    async def complete(self, r): ...\nJUDGE = J()", "JUDGE"))),
        ("a reply about a run that is erased", "in no file; not asked about", "high", _erased_reply),
        ("praise of a run whose check failed", "outranked", "high", _outranked),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    tables: dict[Area, list[Row]] = {"replies": _reply_rows()}
    return [
        Case(area, name, expected, severity, do, round=3)
        for area, rows in tables.items()
        for name, expected, severity, do in rows
    ]
