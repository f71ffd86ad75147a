"""The sixth round: replies of judges.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Scores of single steps, what a judge may not be sent, batches of a provider, panels of which one
is down, runs that nobody can be asked about, budgets that a repair would exceed, ledgers of others.
"""

# fmt: off
from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bars.attack import _replies as replies
from bars.attack import _second as second
from bars.attack._cases import Case, Place, coded
from bars.attack._fifth_replies import PROGRAM, _rubric_is, chat, kept_steps, texts
from bars.attack._fifth_stores import sample
from bars.attack._fourth import Do, Row
from bars.attack._fourth_replies import JUDGE, Queue, answer, body, settled
from bars.attack._fourth_stores import words_left
from bars.attack._third import ended, forked, strict
from bars.attack._third_replies import Serving, impatient
from bars.attack._third_world import n_runs

WORD = "quokka-zanzibar"
GOALS = '[[run]]\nname = "openai_messages/t"\n[[run.goals]]\ngoal = "Says whether the order is there."\nsteps = [1]\nconfirmed = true\n'


# ---- scores of single steps


def _step_scores() -> list[float | None]:
    """Return the scores of the judge that are kept as verdicts."""
    from stepscope.model import Verdict
    from stepscope.store import Store

    with Store.open("stepscope.db") as store:
        return [r.answer.value for r in store.records() if r.rubric == "no_look" and isinstance(r.answer, Verdict) and r.answer.step == 1]


def _scored(said: object, *, verdict: bool) -> Do:
    """Return what scores one step by one sub-goal: a verdict or none, and none is bought again."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(body(said if isinstance(said, str) else json.dumps(said)))
        settled(place, wire)
        place.write("g.toml", GOALS)
        words = ("judge", "--judge", "local/a", "--rubric", "no_look", "--goals", "g.toml")
        done = place.run(*words)
        asked = wire.asked
        place.run(*words)
        if wire.asked != asked or asked not in (1, 2):
            return f"asked {asked} + {wire.asked - asked}"
        found = _step_scores()
        if bool(found) != verdict:
            return f"verdicts {found}, code {done.code}"
        return coded(done, (0, 4))

    return do


# ---- what a judge may not be sent


def _sent(run: str, words: str, *, has: bool, first: Iterable[str] = (), answers: Iterable[bytes] = (), name: str = "n.jsonl", most: int | None = None) -> Do:
    """Return what judges a run with a word in it: what is sent has the word, or has it nowhere."""

    def do(place: Place) -> str:
        impatient()
        wire = Queue(*answers, body(answer()))
        settled(place, wire)
        place.write(name, run)
        for command in (f"import {name} --store n.db", *first, "score --store n.db"):
            place.must(*shlex.split(command))
        place.run(*shlex.split(words), "--store", "n.db")
        said = texts(wire)
        if not said:
            return "the case is wrong: nobody was asked"
        if most is not None:
            found = [len(set(re.findall(rf"{WORD}-\d", one))) for one in said]
            return "" if 0 < max(found) <= most else f"steps that one request has: {found}"
        return "" if any(WORD in one for one in said) == has else f"the word was {'not ' if has else ''}sent"

    return do


def _turns(*said: tuple[str, object]) -> str:
    return chat(*({"role": role, "content": text} for role, text in said))


def _thinking() -> str:
    return json.dumps({"model": "claude", "max_tokens": 9, "messages": [
        {"role": "user", "content": "Cancel it."}, {"role": "assistant", "content": [{"type": "thinking", "thinking": f"I think of {WORD}.", "signature": ""}, {"type": "text", "text": "Done."}]}]})


def _reasoned() -> str:
    return json.dumps([{"request": {"input": "Cancel it."}, "response": {"object": "response", "id": "r1", "model": "gpt-5", "output": [
        {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": f"I think of {WORD}."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}]}}])


def _argued() -> str:
    call = {"id": "c1", "type": "function", "function": {"name": "cancel", "arguments": json.dumps({"why": WORD})}}
    return chat({"role": "user", "content": "Cancel it."}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "ok"},
                {"role": "assistant", "content": "Done."})


def _referred() -> str:
    made = json.loads(sample("tau2.json"))
    looks = {"action_id": "b", "requestor": "assistant", "name": "get_order_details", "arguments": {"order_id": WORD}}
    made["tasks"][0]["evaluation_criteria"]["actions"].append(looks)
    made["simulations"][0]["reward_info"]["reward"] = 0.0
    return json.dumps(made)


# ---- batches


class Batches(Serving):
    """A provider of batches, by OpenAI's protocol, that answers each question with the same words."""

    def __init__(self, *, status: str = "completed", stalls: bool = False, spoil: Callable[[list[str]], str] | None = None) -> None:
        """Answer so; `stalls` makes a batch and never says so."""
        self.made: list[dict[str, Any]] = []
        self.singles = 0
        self._lines: list[dict[str, Any]] = []
        self._status, self._stalls = status, stalls
        self._spoil = spoil or "\n".join
        super().__init__(self._serves)

    def _batch(self, number: int, status: str | None = None) -> dict[str, Any]:
        done = (status or self._status) == "completed"
        count = {"total": len(self._lines), "completed": len(self._lines) if done else 0, "failed": 0}
        return {"id": f"batch_{number}", "object": "batch", "endpoint": "/v1/chat/completions", "errors": None, "input_file_id": "file-in", "completion_window": "24h",
                "status": status or self._status, "output_file_id": "file-out" if done else None, "error_file_id": None, "created_at": int(time.time()), "request_counts": count,
                "metadata": self.made[number].get("metadata"), "expires_at": int(time.time()) + 86400}

    def _serves(self, made: socket.socket) -> None:
        request = self.requests[-1]
        first, _, _ = request.partition(b"\r\n")
        method, path = first.decode("latin-1").split(" ")[:2]
        path = path.partition("?")[0]
        found: Any = {}
        if method == "POST" and path.endswith("/files"):
            self._lines = [json.loads(line) for line in re.findall(rb'(?m)^\{"custom_id".*\}\r?$|^\{.*"custom_id".*\}\r?$', request)]
            found = {"id": "file-in", "object": "file", "bytes": len(request), "created_at": 1, "filename": "b.jsonl", "purpose": "batch", "status": "processed"}
        elif method == "POST" and path.endswith("/batches"):
            self.made.append(json.loads(request[request.rindex(b"\r\n") + 2 :] if b"\r\n{" in request else request[request.index(b"{") :]))
            if self._stalls:
                time.sleep(12)
                return
            found = self._batch(len(self.made) - 1, "in_progress" if self._status != "completed" else "validating")
        elif path.endswith("/batches"):
            data = [self._batch(n) for n in range(len(self.made))]
            found = {"object": "list", "data": data, "has_more": False, "first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        elif "/batches/" in path:
            found = self._batch(0)
        elif path.endswith("/content"):
            lines = [json.dumps({"id": f"r{n}", "custom_id": one["custom_id"], "error": None, "response": {"status_code": 200, "request_id": "x", "body": replies.completion(answer())}})
                     for n, one in enumerate(self._lines)]
            made.sendall(second.raw(self._spoil(lines).encode()))
            return
        elif path.endswith("/chat/completions"):
            self.singles += 1
            found = replies.completion(answer())
        made.sendall(second.raw(json.dumps(found).encode()))


BATCH = "[judges.model.\"local/a\"]\nbase_url = \"{}/v1\"\nfamily = \"a\"\nstructure = \"json_schema\"\nprice = {{ input = 1, output = 10, batch = 0.5 }}\n"


def _started(*words: str) -> int:
    """Start a command in a fork that heeds signals as the command does, silently."""
    pid = os.fork()
    if pid == 0:
        from stepscope.cli.main import main
        from stepscope.runtime.signals import interrupt_on_stops

        interrupt_on_stops()
        code = 99
        with suppress(BaseException):
            code = main(list(words))
        os._exit(code)
    return pid


def _until(pid: int, wire: Batches, seconds: float, *, batch: bool = False) -> int | None:
    """Return the code of a command, or None where it is at work after so many seconds, or a batch is made."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (batch and wire.made):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def _batched(kill: int | None = None, then: str = "", most: int = 1, **how: Any) -> Do:
    """Return what judges by a batch, is stopped perhaps, and goes on: so many batches, no single question, one verdict at most."""

    def do(place: Place) -> str:
        impatient()
        wire = Batches(**how)
        place.write("stepscope.toml", BATCH.format(wire.base))
        words = [*JUDGE.split(), "--batch"]
        pid = _started(*words)
        code = _until(pid, wire, 4.0, batch=kill is not None)
        if code is None:
            time.sleep(0.2)
            with suppress(ProcessLookupError):
                os.kill(pid, kill or signal.SIGTERM)
            code = ended(pid, 8)
        if not wire.made:
            return f"the case is wrong: no batch was made; code {code}"
        wire._stalls = False
        if then:
            done = place.run(*shlex.split(then))
            if wrong := coded(done, (0, 4)):
                return f"{then}: {wrong}"
        else:
            again = _started(*words)
            if (other := _until(again, wire, 2.5)) is None:
                with suppress(ProcessLookupError):
                    os.kill(again, signal.SIGTERM)
                other = ended(again, 8)
            if other not in (0, 4, 5, 130):
                return f"the second: code {other}"
        if len(wire.made) > most or wire.singles:
            return f"{len(wire.made)} batches, {wire.singles} single questions; codes {code}"
        if code not in (0, 4, 130, -9):
            return f"code {code}"
        found = sum(map(len, kept_steps("axes.termination").values()))
        return "" if found <= 1 else f"{found} verdicts"

    return do


# ---- panels, sets of runs, budgets


class Two(Serving):
    """Two judges on one server: one of them can be down."""

    def __init__(self) -> None:
        """Serve both; `down` says which paths are not answered."""
        self.down, self.paths = "/messages", [""]
        super().__init__(self._serves)

    def _serves(self, made: socket.socket) -> None:
        path = self.requests[-1].split(b" ", 2)[1].decode("latin-1")
        self.paths.append(path)
        if self.down and path.endswith(self.down):
            made.sendall(second.raw(b'{"error": {"message": "down"}}', "500 Internal Server Error"))
            return
        said = replies.message(content=[{"type": "text", "text": answer()}]) if path.endswith("/messages") else replies.completion(answer())
        made.sendall(second.raw(json.dumps(said).encode()))


def _one_is_down(place: Place) -> str:
    """Of two judges one is down: the other's verdict is kept, and only what is missing is asked later."""
    impatient()
    wire = Two()
    settled(place, wire)
    words = [*JUDGE.split(), "--judge", "local/b"]
    first = place.run(*words)
    asked = sum(path.endswith("/chat/completions") for path in wire.paths)
    wire.down = ""
    second_ = place.run(*words)
    if wrong := coded(first, (0, 4)) or coded(second_, (0,)):
        return wrong
    chats = sum(path.endswith("/chat/completions") for path in wire.paths)
    return "" if asked == 1 and chats == 1 else f"the one that was up was asked {asked}, then {chats - asked} times"


def _steps(*steps: tuple[str | Callable[[Place, replies.Wire], object], tuple[int, ...] | None], said: str = "", more: str = "", runs: int = 1, codes: tuple[int, ...] = (0, 4)) -> Do:
    """Return what runs commands, each of which may buy so many replies."""

    def do(place: Place) -> str:
        impatient()
        wire = Two()
        wire.down = ""
        settled(place, wire, more)
        for number in range(1, runs):
            place.write(f"m{number}.jsonl", chat({"role": "user", "content": f"Cancel {number}."}, {"role": "assistant", "content": "No."}, task_id=f"m{number}"))
            place.must("import", f"m{number}.jsonl")
        place.must("score")
        for step, allowed in steps:
            before = wire.asked
            if callable(step):
                step(place, wire)
                continue
            done = place.run(*shlex.split(step))
            if "--json" in step and done.code == 0:
                strict(done.out)
            if allowed is not None and wire.asked - before not in allowed:
                return f"{step!r} bought {wire.asked - before}, not {allowed}; code {done.code} {done.said[-200:]!r}"
            if done.code not in codes:
                return f"{step!r}: {coded(done, codes)}"
        return ""

    return do


def _no_canaries(place: Place) -> str:
    """Runs with known answers are no runs of the user: in no export, list, agreement or report."""
    impatient()
    settled(place, replies.plain(body(answer())))
    before = place.must("export", "-").out
    place.run(*JUDGE.split(), "--canaries")
    if place.must("export", "-").out != before:
        return "other runs in an export"
    told = place.run("agree", "--json")
    if n_runs(place, "stepscope.db") != 1:
        return f"{n_runs(place, 'stepscope.db')} runs in the report"
    lines = [json.loads(line) for line in place.must("export", "-", "--verdicts", "only").out.splitlines()]
    found = {one["trajectory"] for one in lines if "trajectory" in one}
    return coded(told, (0, 4)) or ("" if len(found) == 1 else f"verdicts about {len(found)} runs")


def _worst(place: Place) -> float:
    """Return what one question costs at worst, as a budget that is too small is told."""
    done = place.run(*JUDGE.split(), "--budget", "0.000001")
    found = re.search(r"at worst \$([\d.]+)", done.said)
    assert found, done.said
    return float(found[1])


def _repair_within(place: Place) -> str:
    """A budget that holds one worst case: a reply that does not fit is not asked anew beyond it."""
    impatient()
    wire = replies.plain(body('{"label": "zanzibar"}'))
    settled(place, wire)
    budget = _worst(place) + 0.0002
    asked = wire.asked
    done = place.run(*JUDGE.split(), "--budget", f"{budget:.5f}", "--budget-name", "z")
    if asked or wire.asked > 1:
        return f"asked {asked} + {wire.asked} by a budget of one; code {done.code}"
    return coded(done, (0, 4, 5))


def _ledger_is(change: Callable[[sqlite3.Connection], object]) -> Do:
    """Return what finds another ledger beside the store: typed; nothing is sent, or nothing twice."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(body(answer()))
        settled(place, wire)
        place.must(*JUDGE.split())
        with closing(sqlite3.connect("stepscope.db.judges.db")) as db, db:
            change(db)
        done = place.run(*JUDGE.split())
        return f"asked {wire.asked} times" if wire.asked != 1 else coded(done, (0, 2, 5))

    return do


def _drop_largest(db: sqlite3.Connection) -> None:
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
    largest = max(names, key=lambda name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])
    db.execute(f'DROP TABLE "{largest}"')


# ---- runs that nobody can be asked about


def _about(make: Callable[[Place], object], asked: tuple[int, ...], words: str = JUDGE, *, more: str = "", codes: tuple[int, ...] = (0, 2, 4)) -> Do:
    """Return what judges an odd run: so many questions, every command after it is typed, and none is asked anew."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(body(answer()))
        settled(place, wire, more)
        make(place)
        done = place.run(*shlex.split(words), "--store", "n.db")
        if wire.asked not in asked:
            return f"asked {wire.asked}, not {asked}; code {done.code} {done.said[-200:]!r}"
        if wrong := coded(done, codes):
            return wrong
        before = wire.asked
        for command in (words, "report --json", "agree --json", "report --html r.html"):
            if wrong := coded(place.run(*shlex.split(command), "--store", "n.db"), (0, 2, 4)):
                return f"{command}: {wrong}"
        return f"asked anew: {before}, then {wire.asked - before}" if wire.asked != before else ""

    return do


def _imported(text: str, name: str = "o.jsonl", *then: str) -> Callable[[Place], object]:
    def make(place: Place) -> None:
        place.write(name, text)
        for words in (f"import {name}", *then, "score"):
            place.must(*shlex.split(words), "--store", "n.db")

    return make


def _long_run() -> str:
    return chat(*({"role": ("user", "assistant")[n % 2], "content": f"turn {n} " + "so it goes " * 40} for n in range(400)))


# ---- programs, files, what other commands do


def _program(does: str, *, look: Callable[[Place], str]) -> Do:
    """Return what lets a judge that is a program do something to its process: what is kept stands where it should."""

    def do(place: Place) -> str:
        impatient()
        place.write("stepscope.toml", '[judges.model."own/j"]\nfamily = "own"\nprice = { input = 0, output = 0 }\n')
        reply = f"return Reply(text={answer()!r}, stop='end', structure='json_schema', usage=Usage(input_total=1, output_total=1))"
        place.write("j.py", PROGRAM.replace("BODY", f"{does}\n        {reply}").replace("import asyncio, json, time", "import asyncio, json, os, time"))
        (place.folder / "elsewhere").mkdir()
        done = place.run("judge", "--judge", "j.py:JUDGE", "--rubric", "axes.termination")
        os.chdir(place.folder)
        return coded(done, (0,)) or look(place)

    return do


def _kept_here(place: Place) -> str:
    from stepscope.model import Verdict
    from stepscope.store import Store

    with Store.open("stepscope.db") as store:
        found = [r for r in store.records() if r.judge == "own/j" and isinstance(r.answer, Verdict)]
    more = [path.name for path in Path("elsewhere").iterdir()]
    return "" if found and not more else f"{len(found)} verdicts here, {more} elsewhere"


def _mode_of_ledger(place: Place) -> str:
    path = Path("stepscope.db.judges.db")
    return "" if not path.stat().st_mode & 0o77 else f"mode {path.stat().st_mode & 0o777:o}"


def _erased_while_judged(place: Place) -> str:
    """A reply that comes when its run is erased: its words stay in no file of the store."""
    impatient()

    def write(made: socket.socket) -> None:
        time.sleep(1.5)
        made.sendall(second.raw(body(answer(rationale=f"I saw {WORD} in it, and no more."))))

    wire = Serving(write)
    settled(place, wire)
    pid = forked(*JUDGE.split())
    end = time.monotonic() + 6
    while not wire.asked and time.monotonic() < end:
        time.sleep(0.02)
    done = place.run("purge", "--where", "name like '%'", "--yes")
    code = ended(pid, 9)
    if wrong := coded(done, (0, 2, 5)):
        return wrong
    if code not in (0, 2, 4, 5):
        return f"judge ended with {code}"
    if done.code == 0 and (left := words_left(WORD)):
        again = place.run("purge", "--where", "name like '%'", "--yes")
        return f"{left}; after a second purge ({again.code}): {words_left(WORD) or 'gone'}" if words_left(WORD) else ""
    return ""


def _attack_stopped(place: Place) -> str:
    """Attacks that are stopped and begun again: no reply that came is bought a second time."""
    impatient()
    seen: list[bytes] = []

    def write(made: socket.socket) -> None:
        time.sleep(0.15)
        seen.append(wire.requests[-1].partition(b"{")[2])
        made.sendall(second.raw(body(answer("incorrect", "I cannot find order #W1"))))

    wire = Serving(write)
    settled(place, wire, "[judges]\nconcurrency = 1\n")
    words = ["lab", "redteam", "--judge", "local/a", "--store", "stepscope.db", "--class", "authority,encoded", "--budget", "5"]
    pid = _started(*words)
    end = time.monotonic() + 6
    while len(seen) < 3 and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(pid, signal.SIGTERM)
    code = ended(pid, 9)
    done = place.run(*words)
    twice = len(seen) - len(set(seen))
    return f"{twice} of {len(seen)} questions were bought twice; codes {code}, {done.code}" if twice > 0 else coded(done, (0, 4))


def _flag_over_settings(place: Place) -> str:
    """A budget of the command line is the budget, a nought too, whatever the settings say."""
    impatient()
    wire = replies.plain(body(answer()))
    settled(place, wire, "[judges]\nbudget_usd = 5.0\n")
    none, asked = place.run(*JUDGE.split(), "--budget", "0"), wire.asked
    if asked or none.code != 5:
        return f"a budget of 0 asked {asked}, code {none.code}"
    settled(place, wire, "[judges]\nbudget_usd = 0.0\n")
    some = place.run(*JUDGE.split(), "--budget", "5")
    return coded(some, (0,)) or ("" if wire.asked == 1 else f"a budget of 5 asked {wire.asked}")


def _reply_rows() -> list[Row]:
    fine: dict[str, Any] = {"rationale": "As far as it can be told.", "score": 0.5}
    text = json.dumps(fine)
    kept = "none bought again"
    off = "what the agent says and thinks is not sent"
    batch = "one batch, no single question, one verdict at most"
    look = [body(replies._turn("read_case", why="what was asked?")), body(replies._turn("answer", answer=json.loads(answer())))]
    stays = "typed; the reply is not bought again"
    left = "judge --judge local/a --rubric axes.tool_selection --narration off"
    isolated = "judge --judge local/a --rubric step_labels --mode isolated"
    parts = _turns(("user", f"{WORD}-0"), ("assistant", f"{WORD}-1"), ("user", f"{WORD}-2"), ("assistant", f"{WORD}-3"))
    goals = GOALS.replace("openai_messages/t", "openai_messages/n").replace("steps = [1]", "steps = [3]")
    rubric = "judge --judge local/a --rubric ./own.md"
    return [
        ("a score of a step", f"a verdict; {kept}", "medium", _scored(fine, verdict=True)),
        *((f"a score of a step {name}", f"no verdict; {kept}", "high", _scored(said, verdict=False)) for name, said in {
            "that is a text": {**fine, "score": "0.5"}, "that is true": {**fine, "score": True}, "a little beyond 1": {**fine, "score": 1.0000001},
            "that is no number": text.replace("0.5", "NaN"), "with a label beside it": {**fine, "label": "full"},
            "said twice": text[:-1] + ', "score": 1.0}'}.items()),
        ("narration off: what the agent says", off, "high", _sent(_turns(("user", "Cancel it."), ("assistant", f"Done, {WORD}.")), left, has=False)),
        ("narration off: what the agent thinks", off, "high", _sent(_thinking(), left, has=False)),
        ("narration off: a summary of what it reasoned", off, "high", _sent(_reasoned(), left, has=False)),
        ("narration off: what stands in arguments", "sent: texts in arguments are calls, and stay", "medium", _sent(_argued(), left, has=True)),
        ("labels of steps alone", "no request has two steps", "high", _sent(parts, isolated, has=True, most=1)),
        ("scores of steps alone", "no request has two steps", "high", _looked_alone(parts, goals)),
        ("what the agent should have done, for a judge with tools", "not sent: the task, its rules and goals", "high", _sent(_referred(), f"{JUDGE} --tools", has=False, answers=look, name="n.json")),
        ("a batch that is answered", batch, "high", _batched()),
        ("a batch whose results are told twice, and of nobody", batch, "high", _batched(spoil=lambda lines: "\n".join([*lines, lines[0], lines[0].replace('"custom_id": "', '"custom_id": "x')]))),
        ("a batch whose results are cut", "two batches a command: what has no answer is asked once more; no verdict", "high", _batched(most=4, spoil=lambda lines: "\n".join(lines)[:-40])),
        ("a batch that is at work, and judge without batches", "no single question while a batch holds it", "high", _batched(signal.SIGTERM, JUDGE, status="in_progress")),
        ("a batch that was made when judge was killed", "found again by its word: one batch", "high", _batched(signal.SIGKILL, stalls=True, status="in_progress")),
        ("two judges, one of them down", "0 or 4, then only what is missing is asked", "high", _one_is_down),
        ("a rejudging by another judge, twice", "1, then none", "high", _steps((JUDGE, (1,)), ("judge --again --judge local/b --rubric axes.termination --json", (1,)), ("judge --again --judge local/b --rubric axes.termination --json", (0,)))),
        ("a rejudging of one of three runs", "1: only what was judged before", "high", _steps((f"{JUDGE} openai_messages/t", (1,)), ("judge --again --judge local/b --rubric axes.termination", (1,)), runs=3)),
        ("a rejudging by a budget of nought", "none: 5", "high", _steps((JUDGE, (1,)), ("judge --again --judge local/b --rubric axes.termination --budget 0", (0,)), codes=(0, 5))),
        ("a rejudging three times", "two or three more, then none", "high", _steps((JUDGE, (1,)), ("judge --again --judge local/a --rubric axes.termination --repeat 3", (2, 3)), ("judge --again --judge local/a --rubric axes.termination --repeat 3", (0,)))),
        ("canaries, and what is exported after them", "no run and no verdict of theirs", "high", _no_canaries),
        ("a repair beyond the budget", "one question: a budget is never exceeded", "high", _repair_within),
        ("budgets of the command line over those of the settings", "none, 5; then one", "high", _flag_over_settings),
        ("a ledger of a later version", stays, "high", _ledger_is(lambda db: db.execute("PRAGMA user_version = 999"))),
        ("a ledger without its largest table", "2 or 5, or typed; nothing is sent without being kept", "high", _ledger_is(_drop_largest)),
        ("a run of scores alone", "typed; none anew", "high", _about(_imported("run,step,score\na,0,0.5\na,1,0.4\n", "s.csv"), (0, 1))),
        ("an erased run", "nobody is asked", "high", _about(_imported(chat({"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}), "o.jsonl", "purge --where \"name like '%'\" --yes"), (0,))),
        ("a run without a step of the agent", "typed; none anew", "high", _about(_imported(chat({"role": "user", "content": "Is anybody there?"})), (0, 1))),
        ("a run of 400 long steps for a small judge", "too_long, or cut visibly; none anew", "high",
         _about(_imported(_long_run()), (0, 1), "judge --judge local/c --rubric axes.termination", more='[judges.model."local/c"]\nbase_url = "http://127.0.0.1:1/v1"\nfamily = "c"\nprice = { input = 1, output = 1 }\ncontext_tokens = 6000\n')),
        ("a rubric file that is gone after the answers", "typed", "medium", _steps((_rubric_is("1", ""), None), (rubric, None), (lambda place, wire: Path("own.md").unlink(), None), ("report --json", (0,)), ("agree --json", (0,)), ("show openai_messages/t --json", (0,)))),
        ("a program as a judge goes to another folder", "its verdict is kept here", "high", _program("os.chdir('elsewhere')", look=_kept_here)),
        ("a program as a judge opens its files to all", "the ledger is of mode 0600", "medium", _program("os.umask(0)", look=_mode_of_ledger)),
        ("a reply that comes when its run is erased", "a purge erases it, at the latest the next one", "medium", _erased_while_judged),
        ("attacks that are stopped and begun again", "no question twice", "high", _attack_stopped),
    ]  # fmt: skip


def _looked_alone(run: str, goals: str) -> Do:
    """Return what scores two steps of a run by a goal: no request has words of another step."""

    def do(place: Place) -> str:
        place.write("g.toml", goals)
        return _sent(run, "judge --judge local/a --rubric no_look --goals g.toml", has=True, most=1)(place)

    return do


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("replies", name, expected, severity, do, round=6) for name, expected, severity, do in _reply_rows()]
