"""Stores: damaged, foreign, with a life of their own, written by many, killed, full, erased.

A damaged store is an error that says what to do, never a report; what is no store of ours is
refused (2); a disk that is full is 5; half-written files do not stay; what was erased is gone
(docs/explanation/threat-model.md, docs/reference/exit-codes.md, docs/howto/purge.md).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from bars.attack._cases import Case, Place, Severity, coded, one_line
from bars.attack._gates import policy, runs

COMMAND = str(Path(sys.executable).with_name("stepscope"))
WORD = "zanzibar-quokka-17"


def prepare(place: Place) -> None:
    """Make a store of 48 scored runs, its settings and its baseline."""
    place.write("stepscope.toml", policy())
    place.write("base.jsonl", runs("base"))
    place.must("import", "base.jsonl")
    place.must("score")
    place.must("baseline", "update", "--yes")
    place.write("t/a.jsonl", runs(WORD))


def sql(path: str, *statements: str) -> None:
    """Change a store as somebody else would."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            db.execute(statement)


def checkpointed(path: str = "stepscope.db") -> Path:
    """Return the file of a store with all in it."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Path(path)


def _flip(at: float, width: int = 64) -> Callable[[], None]:
    def change() -> None:
        path = checkpointed()
        raw = bytearray(path.read_bytes())
        begin = int(len(raw) * at)
        raw[begin : begin + width] = os.urandom(width)
        path.write_bytes(raw)

    return change


def _cut(share: float) -> Callable[[], None]:
    def change() -> None:
        path = checkpointed()
        os.truncate(path, int(path.stat().st_size * share))

    return change


def _replaced(kind: str) -> Callable[[], None]:
    def change() -> None:
        path = checkpointed()
        path.rename("real.db")
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "text":
            path.write_text("SQLite format 3\0" + "x" * 5000, encoding="utf-8")
        else:
            path.symlink_to({"loop": "stepscope.db", "zeros": "/dev/zero", "null": "/dev/null",
                             "nowhere": "no/where.db"}[kind])  # fmt: skip

    return change


def _sql(*statements: str) -> Callable[[], None]:
    return lambda: sql("stepscope.db", *statements)


def _wal(raw: bytes) -> Callable[[], None]:
    def change() -> None:
        checkpointed()
        Path("stepscope.db-wal").write_bytes(raw)

    return change


# What was done to the file of the store, and the codes that are right for reading it.
BROKEN: dict[str, tuple[Callable[[], None], tuple[int, ...]]] = {
    "cut to nothing": (_cut(0), (2,)),
    "cut to half": (_cut(0.5), (2,)),
    "cut by a tenth": (_cut(0.9), (2,)),
    "cut amid its first page": (_cut(0.001), (2,)),
    "noise in its head": (_flip(0.0, 100), (2,)),
    # A page has room that nothing is in: damage there is no damage.
    "noise in its schema": (_flip(0.003, 2000), (0, 2)),
    "a folder in its place": (_replaced("folder"), (2,)),
    "a pipe in its place": (_replaced("pipe"), (2, 5)),
    "a text with its first words": (_replaced("text"), (2,)),
    "a link to itself": (_replaced("loop"), (2, 5)),
    "a link to a device without end": (_replaced("zeros"), (2, 5)),
    "a link to a device without a byte": (_replaced("null"), (2, 5)),
    "a link to nowhere": (_replaced("nowhere"), (2, 5)),
    "a journal of noise": (_wal(os.urandom(100_000)), (0, 2)),
    "a journal of another store": (_wal(b"7\x7f\x06\x82" + bytes(4000)), (0, 2)),
    "a trigger on what is read": (
        _sql("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"), (2,)),
    "a trigger on what is scored": (
        _sql("CREATE TRIGGER t AFTER INSERT ON records BEGIN UPDATE records SET value = 1; END"),
        (2,)),
    "a trigger on a table of keys": (
        _sql("CREATE TRIGGER t AFTER UPDATE ON keys BEGIN DELETE FROM keys; END"), (2,)),
    "a table that became a view": (
        _sql("ALTER TABLE records RENAME TO held", "CREATE VIEW records AS SELECT * FROM held"),
        (2,)),
    "a view beside the tables": (_sql("CREATE VIEW extra AS SELECT 1"), (2,)),
    "a table beside the tables": (_sql("CREATE TABLE extra (a)"), (2,)),
    "an index beside the tables": (_sql("CREATE INDEX extra ON runs (task)"), (2,)),
    "a virtual table": (_sql("CREATE VIRTUAL TABLE extra USING fts5(a)"), (2,)),
    "a column more": (_sql("ALTER TABLE runs ADD COLUMN extra TEXT"), (2,)),
    "a generated column": (
        _sql("ALTER TABLE runs ADD COLUMN extra TEXT GENERATED ALWAYS AS (upper(id)) VIRTUAL"),
        (2,)),
    "a column less": (_sql("ALTER TABLE runs RENAME COLUMN task TO tusk"), (2,)),
    "a table less": (_sql("DROP TABLE quarantine"), (2,)),
    "a version of minus one": (_sql("PRAGMA user_version = -1"), (2,)),
    "the largest version": (_sql("PRAGMA user_version = 2147483647"), (2,)),
    "version 0": (_sql("PRAGMA user_version = 0"), (2,)),
    "another program's number": (_sql("PRAGMA application_id = 252006674"), (2,)),
    "a default that calls a function": (
        _sql("UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'TEXT DEFAULT (hex(1))') "
             "WHERE name = 'runs'"), (2,)),
    "an outcome that is none": (_sql("UPDATE runs SET outcome = 99"), (2,)),
    "steps below 0": (_sql("UPDATE runs SET seq = -seq - 1 WHERE seq = 3"), (0, 2)),
    "runs without texts": (_sql("DELETE FROM traces"), (0, 2)),
    "a record of a measure that is none": (
        _sql("PRAGMA foreign_keys = OFF", "UPDATE records SET question = 99999 WHERE question = 1 AND run = 3 AND step = -1"), (2,)),
    "a number that is a text": (_sql("UPDATE records SET value = 'x' WHERE run = 5 AND state = 1"), (2,)),
    "an endless number": (_sql("UPDATE records SET value = 9e999 WHERE run = 5 AND state = 1"), (0, 2)),
}  # fmt: skip


def _broken(change: Callable[[], None], codes: tuple[int, ...]) -> Callable[[Place], str]:
    """Return what damages the store, then reads it by `report`: an error, or the same report."""

    def do(place: Place) -> str:
        whole = place.must("report", "--json").out
        try:
            change()
        except sqlite3.OperationalError as e:
            return f"the case is wrong: {e}"
        done = place.run("report", "--json")
        if done.code == 0 and 0 in codes:
            if done.out != whole:
                return "a report, and another one"
            return ""
        return coded(done, codes) or one_line(done, codes)

    return do


def _same_for(*words: str) -> Callable[[Place], str]:
    """Return what cuts the store and runs another command: a typed error, never a bug."""

    def do(place: Place) -> str:
        _cut(0.6)()
        return coded(place.run(*words), (2,))

    return do


NAMES = {
    "an address of SQLite": "file:x.db?mode=memory",
    "a question mark": "x.db?mode=ro",
    "a percent escape": "x%2e%2e%2fy.db",
    "a hash": "x#y.db",
    "a line feed": "x\ny.db",
    "a byte that is no UTF-8": "x\udcff.db",
    "a blank at its end": "x.db ",
    "a dash": "-x.db",
    "a very long word": "x" * 300 + ".db",
}


def _named(name: str) -> Callable[[Place], str]:
    """Return what makes a store of this name: just there and readable again, or refused."""

    def do(place: Place) -> str:
        done = place.run("import", "base.jsonl", f"--store={name}")
        if done.code in (2, 5):
            return one_line(done, (2, 5))
        if wrong := coded(done, (0,)):
            return wrong
        if not Path(name).exists():
            return f"no file of this name: {sorted(Path().iterdir())}"
        return coded(place.run("score", f"--store={name}"), (0,))

    return do


def _ledger_as_store(place: Place) -> str:
    from stepscope.ledger.ledger import Ledger

    Ledger("x.db.judges.db").close()
    return coded(place.run("report", "--store", "x.db.judges.db"), (2,))


def _started(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _many_importers(place: Place) -> str:
    started = [_started("import", "t", "--store", "n.db") for _ in range(3)]
    told = [process.communicate(timeout=20)[1] for process in started]
    if any(process.returncode for process in started):
        return f"codes {[process.returncode for process in started]}: {told}"
    found = json.loads(place.must("report", "--store", "n.db", "--json").out)
    return "" if found["whole"]["n_runs"] == 48 else "not 48 runs"


def _scorers(place: Place) -> str:
    place.must("import", "t", "--store", "n.db")
    shutil.copy(checkpointed("n.db"), "m.db")
    started = [_started("score", "--store", "n.db", "--workers", "1") for _ in range(2)]
    for process in started:
        process.communicate(timeout=20)
    place.must("score", "--store", "m.db")
    if any(process.returncode for process in started):
        return f"codes {[process.returncode for process in started]}"
    both = [place.must("report", "--store", name, "--json").out for name in ("n.db", "m.db")]
    return "" if both[0] == both[1] else "two scorers give another report than one"


def _purge_while_read(place: Place) -> str:
    """A reader that holds a snapshot does not let purged words survive in the journal."""
    with closing(sqlite3.connect("stepscope.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        process = _started("purge", "--where", "task = 'c1'", "--yes")
        time.sleep(3)
    # It waits for the reader, half a minute at most.
    process.communicate(timeout=9)
    left = b"base: do 1, 0" in b"".join(path.read_bytes() for path in Path().glob("stepscope.db*"))
    return "erased words are still there" if left else coded_by(process.returncode, (0,))


def coded_by(code: int, codes: tuple[int, ...]) -> str:
    """Return what is wrong with an exit code."""
    return "" if code in codes else f"code {code}"


def _killed(words: Iterable[str], look: Callable[[Place], str]) -> Callable[[Place], str]:
    """Return what kills a command at several moments, repeats it, and looks at what stays."""

    def do(place: Place) -> str:
        words_ = list(words)
        for delay in (0.15, 0.35, 0.6, 0.9):
            process = _started(*words_)
            time.sleep(delay)
            process.kill()
            process.communicate()
            if wrong := look(place):
                return f"after {delay} s: {wrong}"
        return ""

    return do


def _whole_export(place: Place) -> str:
    path = Path("out.jsonl")
    if path.exists():
        found = len(path.read_text("utf-8").splitlines())
        path.unlink()
        if found != 49:  # the first line says what the file is
            return f"{found - 1} runs of 48 under the final name"
    loose = [
        p for p in Path().rglob("*") if p.is_file() and "out" in p.name and p.stat().st_mode & 0o77
    ]
    return f"readable by others: {loose}" if loose else ""


def _whole_baseline(place: Place) -> str:
    json.loads(Path("base.json").read_text("utf-8"))
    return ""


def _store_reads(place: Place) -> str:
    return coded(place.run("report"), (0,))


def _imports_again(place: Place) -> str:
    if Path("n.db").exists():
        done = place.run("doctor", "--store", "n.db")
        if "fail  store" in done.said:
            return done.said
    return ""


def _limited(*words: str, target: str = "", kb: int = 64) -> Callable[[Place], str]:
    """Return what runs a command whose files may not grow: 5, one line, no half file."""

    def do(place: Place) -> str:
        checkpointed()
        before = {p for p in Path().rglob("*") if p.is_file()}
        done = place.spawn(*words, shell=f"ulimit -f {kb}; trap '' XFSZ;")
        if done.code == 0:
            return "the limit is too wide: the case is wrong"
        if wrong := one_line(done, (5,)):
            return wrong
        if target and Path(target).exists():
            return f"half of {target} stays: {Path(target).stat().st_size} bytes"
        left = [p for p in Path().rglob("*") if p.is_file() and p not in before
                and not p.name.endswith(("-wal", "-shm", ".db"))]  # fmt: skip
        return f"left behind: {left}" if left else coded(place.run("doctor"), (0, 2, 5))

    return do


def _on_full(*words: str) -> Callable[[Place], str]:
    return lambda place: one_line(place.spawn(*words, shell="exec >/dev/full;"), (5,))


def _erased(*more: str) -> Callable[[Place], str]:
    """Return what imports a word, erases it, and looks for it in every file of the store."""

    def do(place: Place) -> str:
        place.write("t/b.jsonl", f'{{"task_id": "c1", "messages": [{{"role": "{WORD}-broken')
        place.run("import", "t", "--store", "n.db", "--tag", "night=1")
        place.must("score", "--store", "n.db")
        for words in more:
            place.run(*words.split())
        place.must("purge", "--where", "tag.night = '1'", "--yes", "--store", "n.db")
        for path in Path().glob("n.db*"):
            if WORD.encode() in path.read_bytes():
                at = path.read_bytes().index(WORD.encode())
                return f"{path.name} holds {path.read_bytes()[at - 40 : at + 40]!r}"
        return ""

    return do


def _erased_twice(place: Place) -> str:
    first = place.must("purge", "--where", "task = 'c1'", "--yes")
    second = place.run("purge", "--where", "task = 'c1'", "--yes")
    shown = place.run("show", "w/c1/0")
    return coded(second, (0,)) or coded(shown, (2,)) or ("" if first.out else "it says nothing")


def _figures_stay(place: Place) -> str:
    before = json.loads(place.must("report", "--json").out)
    place.must("purge", "--where", "task != null", "--yes")
    after = json.loads(place.must("report", "--json").out)
    get = [place.run("report", "--get", name).out for name in ("outcome.pass", "steps.median")]
    keys = {key for key in before if before[key] != after.get(key)}
    return "" if all(get) and "figures" not in keys else f"other figures: {keys}"


def _asks_first(place: Place) -> str:
    done = place.spawn("purge", "--where", "task = 'c1'")
    return coded(done, (2,)) or coded(place.run("show", "w/c1/0"), (0,))


def _purge_nothing_said(place: Place) -> str:
    """Without --where and --older-than everything would go: it is refused, or needs a word."""
    done = place.run("purge", "--yes")
    return coded(done, (2,)) or coded(place.run("show", "w/c1/0"), (0,))


def _modes(place: Place) -> str:
    os.umask(0)
    place.must("import", "t", "--store", "n.db")
    place.must("export", "out.jsonl")
    place.must("export", "out.otlp.jsonl", "--format", "otlp")
    place.must("export", "parts", "--format", "atif")
    place.must("export", "v.jsonl", "--verdicts", "only")
    files = [
        *Path().glob("n.db*"),
        *Path().glob("out*"),
        *Path("parts").rglob("*"),
        Path("v.jsonl"),
    ]
    open_to = [str(p) for p in files if p.is_file() and p.stat().st_mode & 0o77]
    return f"others may read {open_to[:5]}" if open_to else ""


def _salvage(change: Callable[[], None], to: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        change()
        done = place.run("export", to, "--salvage")
        if to == "stepscope.db":
            return coded(done, (2,))
        if done.code == 0:
            return coded(place.run("doctor", "--store", to), (0,))
        return coded(done, (2, 5))

    return do


def _salvage_over(place: Place) -> str:
    place.write("kept.db", "mine")
    done = place.run("export", "kept.db", "--salvage")
    kept = Path("kept.db").read_text("utf-8") == "mine"
    return coded(done, (2,)) if kept else "a file of the user was overwritten"


def _export_over_link(place: Place) -> str:
    """A link planted where an export goes must not lead it into another file."""
    place.write("precious.txt", "mine")
    Path("out.jsonl").symlink_to("precious.txt")
    place.run("export", "out.jsonl")
    return "" if Path("precious.txt").read_text("utf-8") == "mine" else "the target was overwritten"


def _stopped(kind: int) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        process = _started("score", "--store", "stepscope.db", "--workers", "1")
        time.sleep(0.05)
        process.send_signal(kind)
        _, told = process.communicate(timeout=15)
        if process.returncode not in (0, 130, -kind) or b"Traceback" in told:
            return f"code {process.returncode}: {told[-300:]!r}"
        return coded(place.run("report"), (0,))

    return do


def cases() -> list[Case]:
    """Return the cases of this area."""
    found = [
        Case("stores", f"a store: {k}", f"code {codes}: one line, no other report", "high",
             _broken(change, codes))
        for k, (change, codes) in BROKEN.items()
    ]  # fmt: skip
    commands = ("score", "gate", "show w/c1/0", "export out.jsonl", "purge --where task=1 --yes",
                "agree", "baseline update --yes", "report --html r.html", "import t",
                "compare a b", "calibrate sigma")  # fmt: skip
    found += [
        Case("stores", f"a cut store, then {words}", "2, a typed error", "high",
             _same_for(*words.split()))
        for words in commands
    ]  # fmt: skip
    found += [
        Case("stores", f"a store whose name has {k}", "made under that very name, or refused",
             "medium", _named(name))
        for k, name in NAMES.items()
    ]  # fmt: skip
    others: list[tuple[str, str, Severity, Callable[[Place], str]]] = [
        ("a ledger given as a store", "2", "high", _ledger_as_store),
        ("three importers of one folder", "48 runs, all codes 0", "high", _many_importers),
        ("two scorers of one store", "the report of one", "high", _scorers),
        ("a purge while somebody reads", "0 once the reader has gone, and nothing is left", "high",
         _purge_while_read),
        ("an export that is killed", "whole or absent, closed to others", "high",
         _killed(["export", "out.jsonl"], _whole_export)),
        ("a baseline update that is killed", "whole", "high",
         _killed(["baseline", "update", "--yes"], _whole_baseline)),
        ("a purge that is killed", "a store that reads", "high",
         _killed(["purge", "--where", "task = 'c3'", "--yes"], _store_reads)),
        ("an import that is killed", "a store that is whole", "high",
         _killed(["import", "t", "--store", "n.db"], _imports_again)),
        ("files that may not grow: import", "5", "high",
         _limited("import", "t", "--store", "n.db")),
        ("files that may not grow: export", "5, no half file", "high",
         _limited("export", "out.jsonl", target="out.jsonl", kb=4)),
        ("files that may not grow: a page", "5, no half file", "high",
         _limited("report", "--html", "r.html", target="r.html", kb=300)),
        ("files that may not grow: files of a gate", "5, no half file", "high",
         _limited("gate", "--runs", "t", "--write", "w", target="w/gate.json", kb=1)),
        ("files that may not grow: a baseline", "5, no half file", "high",
         _limited("baseline", "update", "--yes", kb=1)),
        ("a full device: report", "5", "high", _on_full("report")),
        ("a full device: JSON of a gate", "5", "high", _on_full("gate", "--runs", "t", "--json")),
        ("a full device: export", "5", "high", _on_full("export", "-")),
        ("a full device: help", "5", "medium", _on_full("--help")),
        ("erased words and unread records", "in no file of the store", "high", _erased()),
        ("erased after an export and a salvage", "in no file of the store", "high",
         _erased("export x.jsonl --store n.db", "export n2.dbx --salvage --store n.db")),
        ("erased twice", "0, and show is 2", "medium", _erased_twice),
        ("figures after an erasure", "the same", "medium", _figures_stay),
        ("a purge where nobody can answer", "2, nothing gone", "high", _asks_first),
        ("a purge of nobody in particular", "2, nothing gone", "high", _purge_nothing_said),
        ("modes under umask 0", "0600 for store and exports", "high", _modes),
        ("salvage of a cut store", "a whole store, or a typed error", "high",
         _salvage(_cut(0.7), "new.db")),
        ("salvage of a store with a trigger", "a whole store, or a typed error", "high",
         _salvage(_sql("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END"),
                  "new.db")),
        ("salvage of noise", "2", "high", _salvage(_flip(0.0, 100), "new.db")),
        ("salvage onto itself", "2", "high", _salvage(lambda: None, "stepscope.db")),
        ("salvage onto a file of the user", "2, untouched", "high", _salvage_over),
        ("an export onto a planted link", "the target stays", "high", _export_over_link),
        ("SIGTERM amid a score", "130, and a whole store", "high", _stopped(signal.SIGTERM)),
        ("SIGHUP amid a score", "130, and a whole store", "high", _stopped(signal.SIGHUP)),
    ]  # fmt: skip
    return found + [Case("stores", name, text, level, do) for name, text, level, do in others]
