"""Settings: of the wrong type, size, shape or place; each a line that names the file, code 2.

A key that nobody knows is an error, patterns are searched in linear time, numbers have a range, and
no file of settings, however odd, is a crash, a hang or an answer (docs/reference/settings.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from bars.attack._cases import Case, Place, coded, one_line

JUDGE = '[judges.model."local/a"]\nbase_url = "http://127.0.0.1:1/v1"\n'
RULE = '[[policy]]\nname = "a"\nforbid = "book"\n'


def call(tool: str, **arguments: object) -> str:
    """Return a run with one call as a line."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    said = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]  # fmt: skip
    return json.dumps({"task_id": "t", "reward": 1.0, "messages": said})


def prepare(place: Place) -> None:
    """Make a store of one run that books."""
    place.write("t.jsonl", call("book", amount="a" * 41 + "!", note=""))
    place.must("import", "t.jsonl", "--store", "stepscope.db")


WRONG = {
    "a store that is a number": "store = 5",
    "a store that is a list": 'store = ["a.db"]',
    "a seed below 0": "seed = -1",
    "a seed that is a fraction": "seed = 0.5",
    "offline as a word": 'offline = "yes"',
    "offline as a number": "offline = 1",
    "a date": "seed = 2026-01-01",
    "an unknown key": "stor = 'a.db'",
    "an unknown table": "[limit]\ndepth = 3",
    "a table that is a list": "[[limits]]\ndepth = 3",
    "limits of 0": "[limits]\nline_bytes = 0",
    "limits below 0": "[limits]\nsteps = -1",
    "a limit that is true": "[limits]\nspans = true",
    "a limit of no number": "[limits]\nzip_ratio = nan",
    "an endless limit": "[limits]\nzip_ratio = inf",
    "a depth of a million": "[limits]\ndepth = 1000000",
    "a depth of 10^20": "[limits]\ndepth = 100000000000000000000",
    "an effect nobody knows": "[tools]\nbook = 'delete'",
    "an effect that is a list": "[tools]\nbook = ['write']",
    "alternatives that are a text": "[alternatives]\nbook = 'a'",
    "alternatives of numbers": "[alternatives]\nbook = [1]",
    "claims without a tool": '[claims]\n"done" = 7',
    "a claim of nothing": '[claims]\n"" = ["book"]',
    "a wait below 0": "[listen]\nquiet_seconds = -1",
    "a wait of no number": "[listen]\nidle_seconds = nan",
    "an endless wait": "[listen]\nidle_seconds = inf",
    "a secret of one letter": "[[redaction.secret]]\nkind = 'a'\nbegins = 'a'",
    "a secret of a kind in capitals": "[[redaction.secret]]\nkind = 'A B'\nbegins = 'abcd'",
    "a secret of characters that break out": "[[redaction.secret]]\nkind = 'a'\nbegins = 'abc'\n"
    "characters = '^]|.*'",
    "a secret of -1 characters": "[[redaction.secret]]\nkind = 'a'\nbegins = 'abc'\nleast = -1",
    "a rule without a name": "[[policy]]\nforbid = 'book'",
    "a rule of an empty name": "[[policy]]\nname = ''\nforbid = 'book'",
    "a rule that says nothing": "[[policy]]\nname = 'a'",
    "a rule of before alone": "[[policy]]\nname = 'a'\nbefore = 'book'",
    "a rule of require alone": "[[policy]]\nname = 'a'\nrequire = 'confirm'",
    "a rule of both kinds": "[[policy]]\nname = 'a'\nforbid = 'x'\nbefore = 'y'\nrequire = 'z'",
    "calls below 0": RULE + "max_calls = -1",
    "calls that are true": RULE + "max_calls = true",
    "calls and half a call": RULE + "max_calls = 1.5",
    "a pattern that looks ahead": RULE + "where = { amount = '(?=a)b' }",
    "a pattern that refers back": RULE + "where = { amount = '(a)\\1' }",
    "a pattern that is open": RULE + "where = { amount = '(' }",
    "a pattern that is a number": RULE + "where = { amount = 7 }",
    "a pattern that explodes": RULE + "where = { amount = '((a{1,100}){1,100}){1,100}' }",
    "a pattern of ten megabytes": RULE + f"where = {{ amount = '{'a' * 10_000_000}(' }}",
    "two rules of one name": RULE + RULE,
    "a condition without a tool": "[[precondition]]\nafter = 'a'",
    "a condition on itself": "[[precondition]]\ntool = 'a'\nafter = 'a'",
    "weights of 0": "[weights.w]\n'*' = [0]",
    "weights of 4": "[weights.w]\n'*' = [4]",
    "weights that are true": "[weights.w]\n'*' = [true]",
    "no weights": "[weights.w]\n'*' = []",
    "a budget below 0": "[judges]\nbudget_usd = -1",
    "a budget of no number": "[judges]\nbudget_usd = nan",
    "an endless budget": "[judges]\nbudget_usd = inf",
    "no calls at once": "[judges]\nconcurrency = 0",
    "calls at once that are true": "[judges]\nconcurrency = true",
    "a judge without a slash": "[judges.model.a]\nprice = { input = 0, output = 0 }",
    "a price below 0": JUDGE + "price = { input = -1, output = 0 }",
    "a price of no number": JUDGE + "price = { input = nan, output = 0 }",
    "a price that is a text": JUDGE + "price = { input = '0', output = 0 }",
    "an answer longer than the context": JUDGE + "context_tokens = 10\nmax_output_tokens = 10",
    "a temperature of 99": JUDGE + "temperature = 99",
    "other words through extra": JUDGE + "extra = { messages = [] }",
    "another model through extra": JUDGE + "extra = { model = 'dear' }",
    "more answers through extra": JUDGE + "extra = { n = 100 }",
    "a stream through extra": JUDGE + "extra = { stream = true }",
    "a structure nobody knows": JUDGE + "structure = 'xml'",
    "a table twice": "[tools]\na = 'read'\n[tools]\nb = 'read'",
    "a key twice": "seed = 1\nseed = 2",
    "2,000 tables within each other": "[" + ".".join("a" for _ in range(2000)) + "]\n",
    "lists 3,000 deep": "seed = " + "[" * 3000 + "]" * 3000,
    "inline tables 3,000 deep": "seed = " + "{a=" * 3000 + "1" + "}" * 3000,
    "a number of 5,000 digits": "seed = " + "9" * 5000,
    "a NUL": "seed = 1\0",
    "half a text": 'store = "a',
    "a lone surrogate": 'store = "\\ud800"',
    "gates of a workflow that are a list": "[workflow.w]\ngates = [1]",
    "trials that are true": "[workflow.w]\ntrials = true\n[workflow.w.gates]\n"
    "outcome = { min_rate = 1 }",
}

# Values that nobody may send a key to, or that open something else.
ADDRESSES = ("file:///etc/passwd", "ftp://a.example/v1", "http://user:pw@127.0.0.1/v1",
             "javascript:alert(1)", "http://127.0.0.1:99999/v1", "http://[::1/v1", "http:///v1",
             "http://a b/v1", "http://127.0.0.1/v1\r\nx: y", "//127.0.0.1/v1", "127.0.0.1")  # fmt: skip

RIGHT = {
    "nothing": "",
    "remarks alone": "# a\n" * 10,
    "lines of Windows": "seed = 1\r\noffline = false\r\n",
    "a hundred thousand tools": "[tools]\n" + "".join(f"t{n} = 'read'\n" for n in range(100_000)),
    "five megabytes of remarks": "#" + "a" * 5_000_000 + "\n",
    "a tool with a name in another script": '[tools]\n"予約\\u200b" = "write"\n',
    "a rule on an argument that no call has": RULE + "where = { nothing = 'a' }",
}


def _refused(text: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        done = place.run("score")
        return one_line(done, (2,), says="stepscope.toml")

    return do


def _refused_by_judge(address: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", JUDGE.replace("http://127.0.0.1:1/v1", json.dumps(address)[1:-1])
                    + "family = 'x'\nprice = { input = 1, output = 1 }\n")  # fmt: skip
        return one_line(place.run("judge", "--judge", "local/a"), (2,))

    return do


def _taken(text: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        return coded(place.run("score"), (0,))

    return do


def _at(kind: str) -> Callable[[Place], str]:
    """Return what puts something odd in the place of the settings."""

    def do(place: Place) -> str:
        path = Path("stepscope.toml")
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to({"loop": "stepscope.toml", "zeros": "/dev/zero",
                             "nowhere": "nowhere.toml"}[kind])  # fmt: skip
        return one_line(place.run("score"), (2, 5))

    return do


def _bytes(raw: bytes, codes: tuple[int, ...]) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", raw)
        return one_line(place.run("score"), codes)

    return do


def _file_of_workflow(key: str, value: str) -> Callable[[Place], str]:
    """Return what names an odd file as tool list or policy."""

    def do(place: Place) -> str:
        os.mkfifo("pipe")
        Path("empty").write_bytes(b"")
        Path("deep.json").write_text("[" * 5000, encoding="utf-8")
        Path("twice.json").write_text('[{"name": "a", "name": "b"}]', encoding="utf-8")
        Path("noise").write_bytes(bytes(range(256)))
        place.write("stepscope.toml", f"[workflow.w]\n{key} = {json.dumps(value)}\n")
        return one_line(place.run("score"), (2, 5))

    return do


def _linear(pattern: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", RULE + f"where = {{ amount = {json.dumps(pattern)} }}\n")
        return coded(place.run("score"), (0, 2))

    return do


def _environment(
    words: tuple[str, ...], codes: tuple[int, ...], **values: str
) -> Callable[[Place], str]:
    return lambda place: coded(place.spawn(*words, environment=values), codes)


def _dotenv(kind: str) -> Callable[[Place], str]:
    """Return what puts something odd in the place of `.env`."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", JUDGE.replace("local/a", "gpu/a") +
                    "key = 'GPU_KEY'\nfamily = 'x'\nprice = { input = 0, output = 0 }\n")  # fmt: skip
        path = Path(".env")
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "zeros":
            path.symlink_to("/dev/zero")
        else:
            raw = {"noise": bytes(range(256)) * 9, "a key with a line": b'GPU_KEY="a\nb"\n',
                   "an endless line": b"GPU_KEY=" + b"a" * 2_000_000}[kind]  # fmt: skip
            path.write_bytes(raw)
        return coded(place.run("judge", "--judge", "gpu/a", "--dry-run"), (0, 2))

    return do


def _hostile_policy(place: Place) -> str:
    """A rule about a tool named as a pattern or SQL is compared as a text."""
    place.write("stepscope.toml", "[[policy]]\nname = \"a' OR 1=1 --\"\nforbid = '.*'\n")
    place.must("score")
    return coded(place.run("report", "--json"), (0,))


def _both_files(place: Place) -> str:
    place.write("stepscope.toml", "seed = 1")
    place.write("pyproject.toml", "[tool.stepscope]\nseed = 2")
    return one_line(place.run("score"), (2,))


def cases() -> list[Case]:
    """Return the cases of this area."""
    found = [
        Case("settings", f"settings: {k}"[:90], "2, one line that names the file", "medium",
             _refused(text))
        for k, text in WRONG.items()
    ]  # fmt: skip
    found += [
        Case("settings", f"a judge at {address!r}", "2, one line", "medium",
             _refused_by_judge(address))
        for address in ADDRESSES
    ]  # fmt: skip
    found += [
        Case("settings", f"settings of {k}", "0", "medium", _taken(v)) for k, v in RIGHT.items()
    ]
    found += [
        Case("settings", f"settings that are a {kind}", "2 or 5, at once", "high", _at(kind))
        for kind in ("folder", "pipe", "loop", "zeros", "nowhere")
    ]
    found += [
        Case("settings", f"settings in {k}", f"code {codes}", "medium", _bytes(raw, codes))
        for k, raw, codes in (
            ("UTF-16", "seed = 1".encode("utf-16"), (2,)),
            ("UTF-8 with a mark", b"\xef\xbb\xbfseed = 1", (0, 2)),
            ("bytes that are none", b"\xff\xfe\xfd", (2,)),
            ("SQLite", b"SQLite format 3\0" + bytes(90), (2,)),
        )
    ]
    found += [
        Case("settings", f"a file of a workflow: {key} = {value}", "2 or 5, one line", "high",
             _file_of_workflow(key, value))
        for key, value in (("tools", "pipe"), ("tools", "/dev/zero"), ("tools", "."),
                           ("tools", "deep.json"), ("tools", "noise"), ("tools", "empty"),
                           ("policy", "pipe"), ("policy", "/dev/zero"), ("policy", "noise"),
                           ("policy", "nowhere"))
    ]  # fmt: skip
    found += [
        Case("settings", f"the pattern {pattern}", "ends at once", "high", _linear(pattern))
        for pattern in ("(a+)+$", "(a|a)*b", "(?:a*)*c", "(.*)*x", "a{0,1000}a{0,1000}!!",
                        "(((a?){30}){30})a", "(?i)(A+)+Z", "[a-z]+[a-z]+[a-z]+[a-z]+[a-z]+0")
    ]  # fmt: skip
    found += [
        Case("settings", f".env: {kind}", "0 or 2, at once, not a bug", "high", _dotenv(kind))
        for kind in ("folder", "pipe", "zeros", "noise", "a key with a line", "an endless line")
    ]
    report = ("report",)
    variables: list[tuple[str, tuple[str, ...], tuple[int, ...], dict[str, str]]] = [
        ("no columns", report, (0, 4), {"COLUMNS": "0"}),
        ("columns below 0", report, (0, 4), {"COLUMNS": "-5"}),
        ("10^9 columns", report, (0, 4), {"COLUMNS": "1000000000"}),
        ("columns of letters", report, (0, 4), {"COLUMNS": "abc"}),
        ("an encoding of letters alone", report, (0, 4), {"PYTHONIOENCODING": "ascii"}),
        ("the plainest locale", report, (0, 4), {"LC_ALL": "C", "PYTHONUTF8": "0"}),
        ("no home", report, (0, 4), {"HOME": ""}),
        ("a place for temporary files that is not there", report, (0, 4, 5), {"TMPDIR": "/no"}),
        ("an odd time zone", report, (0, 4), {"TZ": "Mars/Phobos"}),
        ("an unknown terminal", report, (0, 4), {"TERM": "\x1b[31m", "FORCE_COLOR": "1"}),
        ("a proxy that is no address", report, (0, 4), {"HTTP_PROXY": "::::", "ALL_PROXY": "x"}),
        ("threads below 0", ("score",), (0,), {"OMP_NUM_THREADS": "-1"}),
    ]
    found += [
        Case("settings", f"the environment: {k}", f"code {codes}", "high",
             _environment(words, codes, **values))
        for k, words, codes, values in variables
    ]  # fmt: skip
    found += [
        Case("settings", "a rule that looks like SQL and a pattern", "compared as a text",
             "medium", _hostile_policy),
        Case("settings", "settings in both files", "2", "medium", _both_files),
    ]  # fmt: skip
    return found
