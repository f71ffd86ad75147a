"""The fourth round: stores.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Round trips through every format, sessions that grow, what comes in beside the traces (tags,
outcomes, verdicts, scores) and goes again, stores under odd names, plugins that misbehave.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack import _stores as stores
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import Do, Row
from bars.attack._fourth_outputs import TYPED, worded
from bars.attack._third import ended, forked, strict
from bars.attack._third_world import n_runs

WORD = stores.WORD
FORMS = {"ours": "x.jsonl", "parquet": "x.parquet", "atif": "x", "otlp": "x.otlp.jsonl"}


def said_json(place: Place, *words: str) -> Any:
    """Return what a command says as JSON."""
    return strict(place.must(*words, "--json").out)


def words_left(word: str = WORD) -> str:
    """Return the file of a store that still has a word."""
    for path in Path().rglob("stepscope.db*"):
        if path.is_file() and word.encode() in path.read_bytes():
            return f"{path.name} has it"
    return ""


def _trip(form: str, *, same_store: bool) -> Do:
    """Return what exports in a format and imports again: each run once, the same outcomes."""

    def do(place: Place) -> str:
        place.must("export", FORMS[form], "--format", form)
        store = "stepscope.db" if same_store else "n.db"
        place.must("import", FORMS[form], "--store", store)
        if (found := n_runs(place, store)) != 48:
            return f"{found} runs, not 48"
        if same_store or form == "otlp":
            return ""
        place.must("score", "--store", store)
        figures = [place.run("report", "--get", "outcome.pass", "--json", "--store", s).out for s in ("stepscope.db", store)]
        return "" if figures[0] == figures[1] else f"another outcome.pass: {figures}"

    return do


def _twice_through(first: str, second: str) -> Do:
    """Return what goes through two formats, one after the other, and comes back by its ids."""

    def do(place: Place) -> str:
        place.must("export", "one" + FORMS[first], "--format", first)
        place.must("import", "one" + FORMS[first], "--store", "n.db")
        place.must("export", "two" + FORMS[second], "--format", second, "--store", "n.db")
        place.must("import", "two" + FORMS[second])
        found = n_runs(place, "stepscope.db")
        return "" if found == 48 else f"{found} runs, not 48"

    return do


def _ours(change: Callable[[list[str]], list[str] | str | bytes], runs: int, aside: bool, codes: tuple[int, ...] = (0,)) -> Do:
    """Return what imports our own export, changed: so many runs, and what is lost is told."""

    def do(place: Place) -> str:
        place.must("export", "x.jsonl")
        lines = Path("x.jsonl").read_text("utf-8").splitlines()
        place.write("y.jsonl", change(lines))
        done = place.run("import", "y.jsonl", "--store", "n.db")
        if wrong := coded(done, codes, says="[1-9][0-9]* set aside" if aside and 0 in codes else ""):
            return wrong
        if done.code:
            return ""
        found = n_runs(place, "n.db")
        return "" if found == runs else f"{found} runs, not {runs}"

    return do


def session(turns: int, *, word: str = "hello", run: str = "s-1", passed: bool = True) -> str:
    """Return a session of so many turns, by its recorder's id."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{word} {n}"} for n in range(turns)]
    return json.dumps({"run_id": run, "task_id": "t", "trial": 0, "workflow": "w", "reward": float(passed), "messages": said})


def _sessions(*told: str, runs: int, steps: int | None = None) -> Do:
    """Return what imports versions of a session, one after the other."""

    def do(place: Place) -> str:
        for number, one in enumerate(told):
            place.write(f"s{number}.jsonl", one)
            place.must("import", f"s{number}.jsonl", "--store", "n.db")
            place.must("score", "--store", "n.db")
        found = said_json(place, "report", "--store", "n.db")["whole"]
        if found["n_runs"] != runs:
            return f"{found['n_runs']} runs, not {runs}"
        return "" if steps in (None, found["n_steps"]) else f"{found['n_steps']} steps, not {steps}"

    return do


def _gone(*commands: str, files: Mapping[str, gates.Content], where: str = "workflow = 'w'") -> Do:
    """Return what brings a word in beside the traces: after a purge no file of the store has it."""

    def do(place: Place) -> str:
        for name, content in files.items():
            place.write(name, content)
        for command in commands:
            done = place.run(*shlex.split(command))
            if done.code not in (0, 4):
                return f"the case is wrong: {command}: {done.code} {done.said[-200:]!r}"
        if not words_left():
            return "the case is wrong: the word was never in the store"
        place.must("purge", "--where", where, "--yes")
        return words_left()

    return do


def _tags(*words: str, codes: tuple[int, ...], query: str = "", runs: int = 48) -> Do:
    def do(place: Place) -> str:
        done = place.run("import", "t", "--store", "n.db", *words)
        if done.code or 0 not in codes:
            return one_line(done, codes) if done.code else coded(done, codes)
        if not query:
            return ""
        found = place.run("report", "--where", query, "--json", "--store", "n.db")
        count = strict(found.out)["whole"]["n_runs"] if found.code == 0 else 0
        return "" if count == runs else f"{count} runs where {query}, not {runs}; {found.err[-200:]}"

    return do


def _told(content: gates.Content, words: str, codes: tuple[int, ...] = (0,), says: str = "", name: str = "f.csv") -> Do:
    """Return what imports rows of others into the store: counted, told; twice changes nothing."""

    def do(place: Place) -> str:
        place.write(name, content)
        done = place.run("import", *shlex.split(words), name)
        wrong = one_line(done, codes) if done.code else coded(done, codes, says=says)
        if wrong or done.code:
            return wrong
        before = place.run("show", "w/c1/0", "--json").out
        again = place.run("import", *shlex.split(words), name)
        if again.code != done.code:
            return f"again: code {again.code}, {again.said[-200:]!r}"
        return "" if place.run("show", "w/c1/0", "--json").out == before else "a second time changes the run"

    return do


def _store_named(make: Callable[[Place], str], codes: tuple[int, ...] = (0,)) -> Do:
    """Return what works on a store under a name: import, score and report see 48 runs."""

    def do(place: Place) -> str:
        name = make(place)
        for words in ("import t", "score", "report --json"):
            done = place.run(*words.split(), "--store", name)
            if done.code:
                return one_line(done, codes)
        found = strict(done.out)["whole"]["n_runs"]
        return "" if found == 48 else f"{found} runs, not 48"

    return do


def _link(to: str) -> Callable[[Place], str]:
    def make(place: Place) -> str:
        (place.folder / "deep").mkdir()
        Path("link.db").symlink_to(place.folder / to)
        return "link.db"

    return make


def _plugin(text: str, codes: tuple[int, ...] = (0, 2)) -> Do:
    """Return what reads runs by a format of the user's own: its faults are told as its own."""

    def do(place: Place) -> str:
        place.write("p.py", text)
        done = place.run("import", "t", "--format", "p.py:FORMAT", "--store", "n.db")
        wrong = one_line(done, codes) if done.code else coded(done, codes)
        return wrong or coded(place.run("report", "--store", "n.db"), (0, 2, 4))

    return do


PLUGIN = """
from stepscope.formats import RecordFormat, finish_run, read_each
from stepscope.model import Part, Source, Step, Trajectory
def runs_of(found, ordinals):
    BODY
FORMAT = RecordFormat("own", lambda head: SNIFF, read_each(runs_of))
"""


def _own(body: str, sniff: str = "True") -> str:
    return PLUGIN.replace("BODY", body).replace("SNIFF", sniff)


def _refused_export(words: str, target: str, codes: tuple[int, ...] = (2, 5)) -> Do:
    """Return what writes over a file that is there: refused, and it stays."""

    def do(place: Place) -> str:
        place.write("mine.jsonl", "mine")
        before = Path(target).read_bytes()
        done = place.run(*shlex.split(words))
        if Path(target).read_bytes() != before:
            return f"code {done.code}, and {target} is another file"
        return one_line(done, codes)

    return do


def _salvaged(place: Place) -> str:
    """What is salvaged of a healthy store is the store: the same runs and figures."""
    place.must("export", "new.db", "--salvage")
    figures = [place.run("report", "--json", "--store", s).out for s in ("stepscope.db", "new.db")]
    return "" if figures[0] == figures[1] else "another report"


def _purged_again(place: Place) -> str:
    """An erased trace comes again: known or new, each run is there once and can be counted."""
    place.must("import", "t")
    place.must("score")
    before = n_runs(place, "stepscope.db")
    place.must("purge", "--where", "workflow = 'w'", "--yes")
    place.must("import", "t")
    place.must("score")
    found = n_runs(place, "stepscope.db")
    return "" if found == before else f"{found} runs, {before} before"


def _exported_erased(place: Place) -> str:
    """No export of erased runs has their words."""
    place.must("import", "t")
    place.must("score")
    place.must("purge", "--where", "workflow = 'w'", "--yes")
    for form, name in FORMS.items():
        done = place.run("export", name, "--format", form)
        if wrong := coded(done, (0, 2, 4)):
            return f"{form}: {wrong}"
        for path in (Path(name), *Path(name).rglob("*")):
            if path.is_file() and WORD.encode() in path.read_bytes():
                return f"{path} has it"
    return ""


def _baseline_after_purge(place: Place) -> str:
    """Erased runs keep their numbers: gates of them answer as before."""
    place.must("import", "t")
    place.must("score")
    before = place.run("gate", "--json")
    place.must("purge", "--where", "workflow = 'w'", "--yes")
    after = place.run("gate", "--json")
    return "" if before.code == after.code == 0 else f"codes {before.code}, {after.code}"


def _at_once(*commands: str, runs: int) -> Do:
    """Return what runs commands at once on one new store; in the end it has so many runs."""

    def do(place: Place) -> str:
        place.write("u/a.jsonl", gates.runs("more"))
        place.write("o.csv", ["run,outcome,who", *(f"w/c{c}/0,pass,check" for c in gates.CASES)])
        place.write("s.csv", ["run,step,score", *(f"w/c{c}/{n},1,0.5" for c in gates.CASES for n in gates.TRIALS)])
        codes = {words: ended(pid, 12) for words, pid in [(w, forked(*shlex.split(w))) for w in commands]}
        if set(codes.values()) - {0, 4}:
            return f"codes {codes}"
        found = n_runs(place, "stepscope.db")
        return "" if found == runs else f"{found} runs, not {runs}"

    return do


def _scores_move(place: Place) -> str:
    """Scores come before the trace of their run: they move to it, and there is one run."""
    place.write("s.csv", ["run,step,score", "w/c0/0,0,0.9", "w/c0/0,1,0.2"])
    place.must("import", "s.csv", "--store", "n.db")
    place.must("import", "t", "--store", "n.db")
    found = n_runs(place, "n.db")
    shown = place.run("show", "w/c0/0", "--store", "n.db")
    return coded(shown, (0,)) or ("" if found == 48 else f"{found} runs, not 48")


def _weights_fixed(place: Place) -> str:
    """Weights that come after the scores are refused: 2, and the words of the page."""
    place.write("s.csv", ["run,step,score,workflow,task", "a,0,0.9,w,1", "a,1,0.4,w,1"])
    place.must("import", "s.csv", "--store", "n.db")
    place.write("stepscope.toml", gates.policy() + "[weights.w]\n'*' = [1, 3]\n")
    return one_line(place.run("import", "s.csv", "--store", "n.db"), (2,))


def _interrupted(place: Place) -> str:
    """An import that is stopped goes on by the same command: 4,800 runs, each once."""
    import signal
    import time

    for number in range(40):
        place.write(f"many/{number:02}.jsonl", [gates.line(c, f"{number}-{n}", text=f"t{number}") for c in gates.CASES for n in range(10)])
    pid = forked("import", "many", "--store", "n.db", "--workers", "1")
    end = time.monotonic() + 3
    while not Path("n.db").exists() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.15)
    os.kill(pid, signal.SIGINT)
    ended(pid)
    place.must("import", "many", "--store", "n.db")
    found = n_runs(place, "n.db")
    return "" if found == 4800 else f"{found} runs, not 4800"


def _old_copy(place: Place) -> str:
    """A store that was copied before, and a newer ledger and ranking beside it: it reports."""
    stores.checkpointed()
    shutil.copy("stepscope.db", "old.db")
    place.must("import", "t")
    place.must("score")
    stores.checkpointed()
    for rest in Path().glob("stepscope.db-*"):
        rest.unlink()
    shutil.copy("old.db", "stepscope.db")
    place.must("import", "t")
    place.must("score")
    found = n_runs(place, "stepscope.db")
    return "" if found == 96 else f"{found} runs, not 96"


def _store_rows() -> list[Row]:
    head = "run,outcome,who,reason"
    rated = "run,label,judge"
    axis = "--verdicts --rubric axes.termination"
    people = "--rubric axes.termination --human --verdicts"
    once = "each run once"
    aside = "0, and 1 set aside is told"
    word_rows = [f"run,label,judge,reason\nw/c1/0,incorrect,ann,{WORD}"]
    listen = "import --listen 127.0.0.1:0 "
    return [
        *((f"{form} and back into a new store", f"{once}, outcomes as they were", "high", _trip(form, same_store=False)) for form in FORMS),
        *((f"{form} and back into its own store", f"known already: {once}", "high", _trip(form, same_store=True)) for form in FORMS),
        *((f"{a}, then {b}, and back", f"known by their ids: {once}", "high", _twice_through(a, b))
          for a, b in (("ours", "atif"), ("atif", "parquet"), ("parquet", "otlp"), ("atif", "atif"))),
        ("an export, concatenated with itself", "48 runs: files may be concatenated", "high", _ours(lambda x: [*x, *x], 48, False)),
        ("an export with lines of Windows", "48 runs", "high", _ours(lambda x: "\r\n".join(x), 48, False)),
        ("an export with blank lines", "48 runs", "high", _ours(lambda x: "\n\n".join(x), 48, False)),
        ("an export of which a line has NaN", "47, and 1 is quarantined", "high",
         _ours(lambda x: [*x[:-1], x[-1].replace('"reward":1.0', '"reward":NaN')], 47, True)),
        ("an export of which a line has a key twice", "47, and 1 is quarantined", "high",
         _ours(lambda x: [*x[:-1], '{"id":"x",' + x[-1][1:]], 47, True)),
        ("an export of which a line has a field nobody knows", "47, and 1 is quarantined", "high",
         _ours(lambda x: [*x[:-1], '{"odd":1,' + x[-1][1:]], 47, True)),
        ("an export of which a line is cut", "47, and 1 is quarantined", "high", _ours(lambda x: [*x[:-1], x[-1][:-40]], 47, True)),
        ("an export of which a line says another id", "48 or less, typed", "high",
         _ours(lambda x: [*x[:-1], x[-1].replace('"id":"', '"id":"ffff', 1)], 48, False, (0, 2))),
        ("a session that grows", "1 run, the longer", "high", _sessions(session(2), session(5), runs=1, steps=5)),
        ("a session that grows twice", "1 run, the longest", "high", _sessions(session(2), session(4), session(7), runs=1, steps=7)),
        ("a session whose beginning comes later", "1 run, the longer", "high", _sessions(session(5), session(2), runs=1, steps=5)),
        ("a session of another beginning", "2 runs: no later version", "high", _sessions(session(2), session(5, word="other"), runs=2)),
        ("a session that comes again with another outcome", "1 run: it is updated", "high",
         _sessions(session(4), session(4, passed=False), runs=1, steps=4)),
        ("two sessions of one recorder's id in a file", "1 run, the longer", "high", _sessions(session(2) + "\n" + session(5), runs=1, steps=5)),
        ("an erased session that had grown", "no file of the store has the earlier words", "high",
         _gone("import s0.jsonl", "score", "import s1.jsonl", "score", files={"s0.jsonl": session(2, word=WORD), "s1.jsonl": session(5, word=WORD)})),
        ("erased reasons of outcomes", "what people wrote is erased", "high",
         _gone("import --outcomes o.csv", "score", files={"o.csv": [head, f"w/c1/0,fail,check,{WORD}", f"w/c2/0,pass,ann,{WORD} it is"]})),
        ("erased reasons of verdicts", "what people wrote is erased", "high",
         _gone(f"import {people} v.csv", files={"v.csv": word_rows})),
        ("erased reasons of verdicts of a model", "what models wrote is erased", "high", _gone(f"import {axis.split()[1]} axes.termination --rater gpt --verdicts v.csv",
                                                                                              files={"v.csv": word_rows})),
        ("erased remarks on scores", "what people wrote is erased", "high",
         _gone("import s.csv", "score", files={"s.csv": ["run,step,score,reason,remark", f"w/c1/0,0,0.5,{WORD},{WORD} too", f"w/c1/0,1,0.4,{WORD},x"]})),
        ("erased rows that were set aside", "quarantined records are erased", "high",
         _gone(f"import {people} v.csv", files={"v.csv": ["run,label,judge,reason", f"w/c1/0,nonsense,ann,{WORD}", "w/c2/0,correct,ann,x"]})),
        ("erased outcomes that were set aside", "quarantined records are erased", "high",
         _gone("import --outcomes o.csv", files={"o.csv": [head, "w/c1/0,fail,check,x", f"w/c1/0,perhaps,check,{WORD}"]})),
        ("erased scores that were set aside", "quarantined records are erased", "high",
         _gone("import s.csv", files={"s.csv": ["run,step,score,reason", "w/c1/0,0,0.5,x", f"w/c1/0,0,7,{WORD}"]})),
        ("an erased trace that comes again", once, "high", _purged_again),
        ("an export of erased runs", "no words of them", "high", _exported_erased),
        ("a gate of erased runs", "0 as before: the numbers stay", "high", _baseline_after_purge),
        ("tags of one key, twice", "48 runs under the one or the other", "medium", _tags("--tag", "k=a", "--tag", "k=b", codes=(0, 2))),
        ("a tag without a sign", "2", "medium", _tags("--tag", "k", codes=(2,))),
        ("a tag without a key", "2", "medium", _tags("--tag", "=v", codes=(2,))),
        ("a tag with two signs", "48 runs where k = 'a=b'", "medium", _tags("--tag", "k=a=b", codes=(0,), query="tag.k = 'a=b'")),
        ("a tag of a key with blanks", "48 runs", "medium", _tags("--tag", "my key=v", codes=(0,), query="tag.'my key' = 'v'")),
        ("a tag of a key with a quotation mark", "48 runs", "medium", _tags("--tag", "it's=v", codes=(0,), query="tag.'it''s' = 'v'")),
        ("a tag of a key with a full stop", "48 runs", "medium", _tags("--tag", "a.b=v", codes=(0,), query="tag.'a.b' = 'v'")),
        ("a tag of half a character", "0 or 2", "high", _tags("--tag", "k=\udcff", codes=(0, 2))),
        ("a tag of nothing", "48 runs where it is there", "low", _tags("--tag", "k=", codes=(0, 2), query="tag.k = ''")),
        ("outcomes with a mark and lines of Windows", "0, one run", "medium", _told("\ufeff" + "\r\n".join([head, "w/c1/0,fail,check,x"]), "--outcomes", says="1")),
        ("outcomes as lines of JSON", "0", "medium", _told(json.dumps({"run": "w/c1/0", "outcome": "fail", "who": "check"}), "--outcomes", name="f.jsonl")),
        ("outcomes of one run twice, alike", "0", "medium", _told([head, "w/c1/0,fail,check,x", "w/c1/0,fail,check,x"], "--outcomes")),
        ("outcomes of nobody", "0 or 2, and 1 is named", "medium", _told([head, "nobody,fail,check,x"], "--outcomes", (0, 2, 4), says="nobody")),
        ("outcomes of a word nobody knows", aside, "medium", _told([head, "w/c1/0,perhaps,check,x", "w/c2/0,fail,check,x"], "--outcomes", says="perhaps|aside|quarantined")),
        ("outcomes without the column who", "2, or each row aside", "medium", _told(["run,outcome", "w/c1/0,fail"], "--outcomes", (0, 2))),
        ("outcomes of a head alone", "0 or 2", "medium", _told([head], "--outcomes", (0, 2))),
        ("verdicts of a label off the menu", aside, "medium", _told([rated, "w/c1/0,splendid,ann", "w/c2/0,correct,ann"], people, says="1 quarantined")),
        ("verdicts at a step that is not there", aside, "medium", _told(["run,step,label,judge", "w/c1/0,99,correct,ann", "w/c2/0,,correct,ann"], people, (0,), says="[12] quarantined")),
        ("verdicts at the step before the first", aside, "medium",
         _told(["run,n,label,judge", "w/c1/0,0,correct,ann", "w/c2/0,,correct,ann"], f"--map step=n-1 {people}", says="[12] quarantined")),
        ("verdicts of a rater who turns", "the second is set aside", "high", _told([rated, "w/c1/0,correct,ann", "w/c1/0,incorrect,ann"], people, says="1 quarantined")),
        ("verdicts by a map onto a column that is not there", "2", "medium", _told([rated, "w/c1/0,correct,ann"], f"--map label=nothing {people}", (2,))),
        ("verdicts by a map of a field nobody knows", "2", "medium", _told([rated, "w/c1/0,correct,ann"], f"--map lable=label {people}", (2,))),
        ("verdicts under a rubric nobody has", "2, or it is told", "medium", _told([rated, "w/c1/0,correct,ann"], "--rubric axes.nothing --human --verdicts", (0, 2), says="no rubric")),
        ("verdicts without a rubric", "2, or it is told", "medium", _told([rated, "w/c1/0,correct,ann"], "--human --verdicts", (0, 2), says="no rubric")),
        ("verdicts that translate a word twice", "0 or 2", "medium", _told([rated, "w/c1/0,yes,ann"], f"--labels yes=correct,yes=incorrect {people}", (0, 2))),
        ("verdicts that call themselves the rules", "0 or 2: the rules' own stay", "high", _told([rated, "w/c1/0,correct,rules"], people, (0, 2))),
        ("verdicts of a value beyond 1", aside, "medium", _told(["run,label,value,judge", "w/c1/0,correct,1.5,ann", "w/c2/0,correct,0.5,ann"], people, says="1 quarantined")),
        ("verdicts and outcomes at once", "2", "medium", worded("import --verdicts a.csv --outcomes b.csv", (2,), files={"a.csv": rated, "b.csv": head})),
        ("a map without verdicts", "2, or not heeded", "low", worded("import t --map run=x --store n.db", (0, 2))),
        ("standard input twice", "0 or 2", "low", worded("import - - --store n.db", (0, 2))),
        ("last without a backend", "2", "medium", worded("import t --since last --store n.db", (2,))),
        ("a backend without a project", "2", "medium", worded("import phoenix: --store n.db", (2,))),
        ("a format nobody has", "2", "medium", worded("import t --format nobody --store n.db", (2,))),
        ("files of another format by its name", "0 with all set aside, or 2", "high", worded("import t --format otlp --store n.db", (0, 2))),
        ("no worker", "2", "low", worded("import t --workers 0 --store n.db", (2,))),
        *((f"listen {words}", "2, one line", "medium", worded(f"import --listen {words} --store n.db", (2,)))
          for words in ("127.0.0.1:99999", "127.0.0.1:x", "':4318 x'", "127.0.0.1:1 127.0.0.1:2", "e.vil:4318", "127.0.0.1:4318 --outcomes t/a.jsonl")),
        *((f"listen with {words}", "2, one line", "medium", worded(f"{listen}--store n.db {words}", (2,)))
          for words in ("--quiet nan", "--quiet -1", "--idle x", "--since 7d", "--strict --workers x")),
        ("a store by a link", "48 runs", "high", _store_named(_link("real.db"))),
        ("a store by a link into another folder", "48 runs", "high", _store_named(_link("deep/real.db"))),
        ("a store by a way up", "48 runs", "medium", _store_named(lambda p: "t/../n.db")),
        ("a store that is empty words", "2 or 5", "medium", _store_named(lambda p: "", (2, 5))),
        ("a store in memory, by its word", "2, or 48 runs", "medium", _store_named(lambda p: ":memory:", (2, 5))),
        ("a store in a folder that is not there", "0, 2 or 5", "medium", _store_named(lambda p: "no/such/n.db", (2, 5))),
        ("a store under a name of home", "48 runs, or 2", "medium", _store_named(lambda p: "~n.db", (2, 5))),
        ("a store in the folder of its traces", "48 runs", "high", _store_named(lambda p: "t/n.db")),
        ("what is salvaged of a healthy store", "the same report", "high", _salvaged),
        ("an export over a file of the user", "2, and it stays", "high", _refused_export("export mine.jsonl", "mine.jsonl")),
        ("an export over the baseline, by force", "2, or an export: typed", "medium", worded("export base.json --force", (0, 2))),
        ("an export over the ledger of a store, by force", "2, and it stays", "high", _refused_export("export stepscope.db --force", "stepscope.db")),
        ("a salvage over the store that is read", "2, and it stays", "high", _refused_export("export stepscope.db --salvage --force", "stepscope.db")),
        ("an export over the settings, by force", "2, and they stay", "high", _refused_export("export stepscope.toml --force", "stepscope.toml")),
        ("a salvage in a format", "0 or 2", "low", worded("export new.db --salvage --format otlp", (0, 2))),
        ("an import and a score at once", "48 runs three times", "high", _at_once("import u", "score", "import t", runs=144)),
        ("outcomes and scores at once", "48 runs", "high", _at_once("import --outcomes o.csv", "import s.csv", "score", runs=48)),
        ("the same outcomes three times at once", "48 runs", "high", _at_once(*["import --outcomes o.csv"] * 3, runs=48)),
        ("scores before their trace", "48 runs: they move", "high", _scores_move),
        ("weights after scores", "2: put them back", "high", _weights_fixed),
        ("an import that is stopped, and the same again", "4,800 runs, each once", "high", _interrupted),
        ("an older copy of a store", "96 runs", "high", _old_copy),
        ("a plugin that raises", TYPED, "high", _plugin(_own("raise RuntimeError('no ' * 9)"))),
        ("a plugin that ends the process", TYPED, "high", _plugin(_own("raise SystemExit(0)"), (0, 2, 5))),
        ("a plugin that yields what is no run", TYPED, "high", _plugin(_own("yield {'id': 1}"))),
        ("a plugin that yields one id for all", "one run, or told", "high",
         _plugin(_own("yield Trajectory(id='x', name='x', steps=(), source=Source(format='own'))"))),
        ("a plugin whose look raises", TYPED, "high", _plugin(_own("yield None", "1 / 0"))),
        ("a plugin that recurses for ever", TYPED, "high", _plugin(_own("yield from runs_of(found, ordinals)"))),
        ("a plugin that is no Python", "2", "high", _plugin("FORMAT = (", (2,))),
        ("a plugin without the name", "2", "high", _plugin("X = 1", (2,))),
        ("a plugin that is a number", "2", "high", _plugin("FORMAT = 7", (2,))),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("stores", name, expected, severity, do, round=4) for name, expected, severity, do in _store_rows()]
