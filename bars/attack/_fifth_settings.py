"""The fifth round: settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Keys of tables that earlier rounds left alone, projects' own files, the variables of backends,
what `--offline` holds back, files of ours that are huge and empty.
"""

# fmt: off
from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

from bars.attack import _gates as gates
from bars.attack import _replies as replies
from bars.attack import _settings as settings
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import BAD, Do, Row, placed
from bars.attack._fourth_settings import ASK, JUDGE, setting

PRICE = '[judges.model."local/a"]\nfamily = "own"\nbase_url = "http://127.0.0.1:1/v1"\nprice = {{ {} }}\n'
DRY = "judge --judge local/a --rubric axes.termination --dry-run"
FAR = "http://10.255.255.1:6006"
BACKENDS: dict[str, tuple[str, dict[str, str]]] = {
    "phoenix:x": ("PHOENIX_COLLECTOR_ENDPOINT", {}),
    "mlflow:x": ("MLFLOW_TRACKING_URI", {}),
    "langfuse:": ("LANGFUSE_HOST", {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1"}),
    "langsmith:x": ("LANGSMITH_ENDPOINT", {"LANGSMITH_API_KEY": "lsv2_1"}),
}  # fmt: skip


def _backend(name: str, address: str, words: str, codes: tuple[int, ...] = (2, 5), *, text: str = "", says: str = "") -> Do:
    """Return what pulls from a backend, or sends to it, at such an address: typed, one line, in time."""

    def do(place: Place) -> str:
        variable, keys = BACKENDS[name]
        os.environ.update({variable: address, **keys})
        os.environ.pop("LANGFUSE_BASE_URL", None)
        if text:
            place.write("stepscope.toml", text)
        return one_line(place.run(*shlex.split(words)), codes, says)

    return do


def _no_head_of_its_own(variable: str, name: str) -> Do:
    """Return what puts a line break into a key: no head of its own reaches a server."""

    def do(place: Place) -> str:
        wire = replies.plain(b"{}")
        address, keys = BACKENDS[name]
        os.environ.update({address: wire.base, **keys, variable: "abc\r\nx-evil: 1"})
        heads: list[bytes] = []
        kept = wire._answer

        def answer(made: socket.socket) -> None:
            heads.append(made.recv(65536, socket.MSG_PEEK))
            kept(made)

        wire._answer = answer  # type: ignore[method-assign]
        done = place.run("import", name)
        evil = [raw for raw in heads if b"\nx-evil" in raw.lower()]
        return f"a head of its own: {evil[0][:200]!r}" if evil else coded(done, (0, 2, 4, 5))

    return do


def _project(raw: bytes, codes: tuple[int, ...], more: Mapping[str, str] | None = None, says: str = "") -> Do:
    """Return what gates failing runs under a project's own file."""

    def do(place: Place) -> str:
        place.write("pyproject.toml", raw)
        for name, content in (more or {}).items():
            place.write(name, content)
        placed(place, BAD)
        done = place.run("gate", "--runs", "t", "--undecided", "pass")
        return one_line(done, codes, says) if done.code == 2 else coded(done, codes)

    return do


def _huge(name: str, words: str, text: str = "", codes: tuple[int, ...] = (2, 4, 5)) -> Do:
    """Return what finds 300 MB of nothing in the place of a file of ours: typed, in time."""

    def do(place: Place) -> str:
        if text:
            place.write("stepscope.toml", text)
        with Path(name).open("wb") as file:
            file.truncate(300_000_000)
        return coded(place.run(*shlex.split(words)), codes)

    return do


def _environment(words: str, codes: tuple[int, ...], says: str = "", text: str = "", **values: str) -> Do:
    """Return what runs a command with these variables."""

    def do(place: Place) -> str:
        if text:
            place.write("stepscope.toml", text)
        os.environ.update(values)
        done = place.run(*shlex.split(words))
        return one_line(done, codes, says) if done.code in (2, 5) else coded(done, codes, says=says)

    return do


def _own_store(place: Place) -> str:
    """Settings of another folder name a store: what is asked of it is typed, and no store is lost."""
    place.write("c/stepscope.toml", 'store = "own.db"\n' + gates.policy(more=""))
    before = Path("stepscope.db").read_bytes()[:100]
    done = place.run("gate", "--config", "c")
    if Path("stepscope.db").read_bytes()[:100] != before:
        return "another store was written to"
    return coded(done, (2, 3, 4))


def _two_kinds(place: Place) -> str:
    """Two forms of secrets of one kind, one within the other: both are hidden."""
    form = '[[redaction.secret]]\nkind = "{}"\nbegins = "{}"\ncharacters = "A-Za-z0-9_"\nleast = 8\n'
    text = form.format("acme", "acme_") + form.format("acme", "acme_live_") + form.format("other", "zeta_")
    place.write("stepscope.toml", text)
    place.write("n.jsonl", settings.call("book acme_live_Quokka77Zanzibar", note="zeta_Wombat99Zanzibar"))
    done = place.run("import", "n.jsonl")
    if done.code == 2:
        return one_line(done, (2,))
    said = place.run("show", "openai_messages/t").said + place.run("report", "--markdown").said + place.run("doctor", "n.jsonl").said
    return "a secret of the user's own form is shown" if "Zanzibar" in said else ""


def _rule_later(place: Place) -> str:
    """A rule that comes after the first score: the next score asks again, and a breach is shown."""
    place.must("score")
    place.write("stepscope.toml", '[[policy]]\nname = "never book"\nforbid = "book"\n')
    done = place.run("score")
    shown = place.run("show", "openai_messages/t", "--json")
    return coded(done, (0,)) or ("" if "never book" in shown.out else "the breach is not shown")


def _settings_rows() -> list[Row]:
    refused = "2: one line"
    away = "2 or 5 at once: no connection but to this machine"
    typed = "2, 4 or 5, one line, in time"
    broken = "2 or 5, one line"
    rule = '[[policy]]\nname = "r"\nforbid = "book"\n'
    need = "[[precondition]]\ntool = 'book'\n"
    project = gates.policy("outcome = { min_rate = 0.99 }", "").replace("[workflow", "[tool.stepscope.workflow")
    plain = gates.policy("outcome = { min_rate = 0.99 }", "")
    return [
        *((f"a price with {name}", f"{refused}; no budget is held by it", "high", setting(PRICE.format(f"input = 1, output = 1, {more}"), (2,), DRY)) for name, more in {
            "a share of batches below 0": "batch = -0.5", "a share of batches that is true": "batch = true",
            "a cache below 0": "cache_read = -1", "a key nobody knows": "cached = 0.0"}.items()),
        ("two patterns of families that disagree", "typed: 0 or 2", "medium",
         setting('[judges.families]\n"local/*" = "a"\n"*/x" = "b"\n' + JUDGE.format(name="local/x", more='base_url = "http://127.0.0.1:1/v1"').replace('family = "own"\n', ""), (0, 2), ASK.format(name="local/x") + " --dry-run")),
        *((f"settings: {name}", refused, "medium", setting(text, (2,), "score", says="stepscope.toml")) for name, text in {
            "secrets that are shown by a word": "[redaction]\nshown = 'false'", "secrets that are shown by a number": "[redaction]\nshown = 0",
            "no attribute": "[limits]\nattributes = 0", "a trace of no byte": "[limits]\ntrace_bytes = 0", "claims of numbers": "[claims]\n'done' = [1]",
            "a need without its tool's need": need, "an agent that is a number": "[workflow.w]\nagent = 5",
            "a key of a workflow that is misspelt": "[workflow.w]\nbaselin = 'b.json'",
            "a rule of a key that is misspelt": rule + "max_call = 1"}.items()),
        ("limits of 2^63", "0 or 2", "medium", setting("[limits]\nline_bytes = 9223372036854775808\ndepth = 128\n", (0, 2))),
        ("a seed of 2^64", "0, 2 or 4", "medium", setting("seed = 18446744073709551616\n", (0, 2, 4), "report --json")),
        ("a rule that comes later", "0; what depends on it is scored again, and the breach is shown", "high", _rule_later),
        ("two forms of secrets, one within the other", "hidden both", "high", _two_kinds),
        ("a project's file in lines of Windows", "3", "high", _project(project.replace("\n", "\r\n").encode(), (3,))),
        ("a project's file with a mark of UTF-8", "3, or 2: never 0", "high", _project(b"\xef\xbb\xbf" + project.encode(), (2, 3))),
        ("an empty table of ours in a project's file, beside settings", "2: having both is an error", "medium",
         _project(b"[tool.stepscope]\n", (2,), {"stepscope.toml": plain}, says="pyproject|both")),
        ("a project's file that is no TOML, beside settings", "3, or 2: never 0", "high", _project(b"[tool\n", (2, 3), {"stepscope.toml": plain})),
        *((f"pulled from {name} while offline", away, "high", _backend(name, FAR, f"import {name} --offline")) for name in BACKENDS),
        ("sent to a backend while settings say offline", away, "high", _backend("phoenix:x", FAR, "export --to phoenix:x", text="offline = true\n")),
        *((f"a backend at {address!r}", broken, "high", _backend(name, address, f"import {name}")) for name, address in (
            ("phoenix:x", "file:///etc/passwd"), ("mlflow:x", "sqlite:///stepscope.db"), ("langsmith:x", "http://127.0.0.1:1/\r\nx: y"))),
        ("a line break in a key of Phoenix", "no request has it", "high", _no_head_of_its_own("PHOENIX_API_KEY", "phoenix:x")),
        ("a line break in a key of LangSmith", "no request has it", "high", _no_head_of_its_own("LANGSMITH_API_KEY", "langsmith:x")),
        ("a secret of 31 signs for a receiver", f"{refused}: 32 or more", "high", _environment("import --listen 0.0.0.0:0", (2,), STEPSCOPE_LISTEN_TOKEN="a" * 31)),
        ("every error in full", "2, one line: it is no bug", "high", _environment("report --where 'agnt = 1'", (2,), STEPSCOPE_DEBUG="1")),
        ("a store of settings elsewhere", "2 to 4; the store here stays", "high", _own_store),
        ("settings of 300 MB of nothing", typed, "high", _huge("stepscope.toml", "score", codes=(2, 5))),
        ("a baseline of 300 MB of nothing", typed, "high", _huge("base.json", "gate --runs t.jsonl", gates.policy())),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("settings", name, expected, severity, do, round=5) for name, expected, severity, do in _settings_rows()]
