"""The fourth round: replies of judges.

Expectations as in the first round: by the documentation, written and committed before anything was
run. What is asked again and what is not, by which words; evidence at the edge of what counts;
what other commands do to replies that were bought.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from bars.attack import _replies as replies
from bars.attack import _second as second
from bars.attack._cases import SECRET, Case, Place, coded, one_line
from bars.attack._fourth import Do, Row
from bars.attack._third import ended, strict
from bars.attack._third_replies import Serving, impatient

JUDGE = "judge --judge local/a --rubric axes.termination"
# An axis that is asked without narration, too.
ORDERED = "judge --judge local/a --rubric axes.sequencing"
ORDER = "I cannot find order #W1 in the list."


def answer(label: str = "uncertain", quote: str | None = None, **changes: Any) -> str:
    """Return an answer, with evidence at step 1 where there is a quotation."""
    found = {**replies.ANSWER, "label": label, "rationale": "As far as it can be told."}
    if quote is not None:
        found |= {"evidence": [{"step": 1, "quote": quote}], "cited_step_indices": [1]}
    return json.dumps({**found, **changes})


def body(text: object) -> bytes:
    """Return what a server sends that says this."""
    return json.dumps(replies.completion(text)).encode()


class Queue(Serving):
    """A server that gives one answer after the other, the last for ever."""

    def __init__(self, *answers: bytes) -> None:
        """Give these bodies, or whole answers where they begin as one."""
        self._left = list(answers)
        super().__init__(self._next)

    def _next(self, made: socket.socket) -> None:
        one = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        made.sendall(one if one.startswith(b"HTTP/") else second.raw(one))


def settled(place: Place, wire: replies.Wire, more: str = "") -> None:
    """Write settings of judges at a wire."""
    place.write("stepscope.toml", replies.SETTINGS.format(base=wire.base) + more)


def _says(text: str, verdict: bool | None, asked: int | None = None) -> Do:
    """Return what judges over such an answer: a verdict or none, asked so often, none bought again."""

    def do(place: Place) -> str:
        impatient()
        found = replies.judged(place, replies.plain(body(text)))
        wrong = replies._held(found, verdict=verdict)
        if not wrong and asked is not None and found.asked != asked:
            return f"asked {found.asked} times, not {asked}"
        return wrong

    return do


def _bent(verdict: bool | None, change: Callable[[dict[str, Any]], object], asked: int | None = None) -> Do:
    """Return what judges over a completion that is bent in its envelope."""

    def do(place: Place) -> str:
        impatient()
        made = replies.completion()
        change(made)
        found = replies.judged(place, replies.plain(json.dumps(made).encode()))
        wrong = replies._held(found, verdict=verdict)
        return wrong or (f"asked {found.asked} times, not {asked}" if asked not in (None, found.asked) else "")

    return do


def _repaired(place: Place) -> str:
    """What does not fit is asked once more, and is not shown to the judge again."""
    wire = Queue(body('{"label": "zanzibar-quokka"}'), body(answer()))
    found = replies.judged(place, wire)
    if found.asked != 2 or found.verdicts != 1 or found.asked_again:
        return f"asked {found.asked} + {found.asked_again}, {found.verdicts} verdicts: {found.said[-200:]!r}"
    return "the first reply was shown again" if b"zanzibar" in wire.requests[1] else ""


def _sequence(answers: Iterable[bytes], *, verdicts: bool | None, asked: int | None = None, again: int = 0) -> Do:
    """Return what judges over answers that follow each other."""

    def do(place: Place) -> str:
        impatient()
        found = replies.judged(place, Queue(*answers))
        if found.asked_again > again:
            return f"asked {found.asked}, again {found.asked_again}"
        if asked is not None and found.asked != asked:
            return f"asked {found.asked}, not {asked}: {found.said[-200:]!r}"
        if verdicts is not None and bool(found.verdicts) != verdicts:
            return f"{found.verdicts} verdicts, code {found.code}: {found.said[-200:]!r}"
        return "" if found.code in (0, 4, 5) and found.usd >= 0 else f"code {found.code}"

    return do


def _commands(*steps: tuple[str, int | tuple[int, ...]], text: str = answer(), more: str = "", runs: int = 1,
              codes: tuple[int, ...] = (0,), files: dict[str, str] | None = None) -> Do:
    """Return what runs commands, each of which may buy so many replies and no more."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(body(text))
        settled(place, wire, more)
        for name, content in (files or {}).items():
            place.write(name, content)
        for number in range(1, runs):
            said = [{"role": "user", "content": f"Cancel order #W{number}, please."}, {"role": "assistant", "content": f"No {number}."}]
            place.write(f"more{number}.jsonl", json.dumps({"task_id": f"t{number}", "reward": 0.0, "messages": said}))
            place.must("import", f"more{number}.jsonl")
        place.must("score")
        for words, bought in steps:
            before = wire.asked
            done = place.run(*shlex.split(words))
            allowed = (bought,) if isinstance(bought, int) else bought
            if wire.asked - before not in allowed:
                return f"{words!r} asked {wire.asked - before}, not {bought}; code {done.code} {done.said[-200:]!r}"
            if done.code not in (*codes, 0):
                return f"{words!r}: {coded(done, codes)}"
        return ""

    return do


def _ends_with(words: str, codes: tuple[int, ...], asked: int | None = 0, says: str = "", more: str = "", text: str = answer()) -> Do:
    """Return what runs one command of judges: its code, what it says, and how many are asked."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(body(text))
        settled(place, wire, more)
        done = place.run(*shlex.split(words))
        if asked is not None and wire.asked != asked:
            return f"asked {wire.asked}, not {asked}; code {done.code} {done.said[-200:]!r}"
        if done.code == 0 and "--json" in words:
            strict(done.out)
        return one_line(done, codes, says) if done.code == 2 else coded(done, codes, says=says)

    return do


def _spent(answers: bytes, bought: int) -> Do:
    """Return what judges by a budget that holds one worst case: how many such replies does it buy?"""

    def do(place: Place) -> str:
        wire = replies.plain(answers)
        settled(place, wire)
        for repeat in ("1", "9"):
            place.run(*JUDGE.split(), "--repeat", repeat, "--budget", "0.1", "--budget-name", "z")
        return "" if wire.asked == bought else f"asked {wire.asked}, not {bought}"

    return do


def _stopped(kind: int) -> Do:
    """Return what stops a command while a reply is on its way: it is waited for, kept, not bought again."""

    def do(place: Place) -> str:
        def late(made: socket.socket) -> None:
            time.sleep(1.2)
            made.sendall(second.raw(body(answer())))

        wire = Serving(late)
        settled(place, wire)
        pid = os.fork()
        if pid == 0:
            from stepscope.cli.main import main
            from stepscope.runtime.signals import interrupt_on_stops

            interrupt_on_stops()
            os._exit(main(JUDGE.split()))
        while not wire.asked:
            time.sleep(0.02)
        os.kill(pid, kind)
        code = ended(pid, 9)
        if code != 130:
            return f"code {code}"
        done = place.run(*JUDGE.split())
        return f"bought again: {wire.asked}" if wire.asked != 1 else coded(done, (0,))

    return do


def _copied(place: Place) -> str:
    """Store and ledger that are copied under another name: nothing is bought again."""
    import sqlite3

    wire = replies.plain(body(answer()))
    settled(place, wire)
    place.must(*JUDGE.split())
    for name in ("stepscope.db", "stepscope.db.judges.db"):
        with closing(sqlite3.connect(name)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(name, name.replace("stepscope.db", "copy.db", 1))
    place.must(*JUDGE.split(), "--store", "copy.db")
    return f"bought again: {wire.asked}" if wire.asked != 1 else ""


def _salvaged(place: Place) -> str:
    """A store that is salvaged over, its ledger beside it: nothing is bought again."""
    wire = replies.plain(body(answer()))
    settled(place, wire)
    place.must(*JUDGE.split())
    place.must("export", "new.db", "--salvage")
    for path in Path().glob("stepscope.db*"):
        if "judges" not in path.name:
            path.unlink()
    shutil.move("new.db", "stepscope.db")
    place.must(*JUDGE.split())
    return f"bought again: {wire.asked}" if wire.asked != 1 else ""


def _outcome_later(place: Place) -> str:
    """Praise of a run without an outcome; then a check fails it: the praise is outranked."""
    said = [{"role": "user", "content": "Cancel order #W1."}, {"role": "assistant", "content": ORDER}]
    place.write("n.jsonl", json.dumps({"task_id": "n", "messages": said}))
    place.must("import", "n.jsonl", "--store", "n.db")
    place.must("score", "--store", "n.db")
    wire = replies.plain(body(answer("correct", ORDER, rationale="It ended where it should.")))
    settled(place, wire)
    place.must("judge", "--judge", "local/a", "--rubric", "quality.final_answer", "--store", "n.db")
    (name,) = {run["name"] for run in _shown(place, "n.db")}
    place.write("o.csv", ["run,outcome,who", f"{name},fail,check"])
    place.must("import", "--outcomes", "o.csv", "--store", "n.db")
    place.must("score", "--store", "n.db")
    told = place.run("show", name, "--store", "n.db", "--json").said
    return "" if "outranked" in told else f"not outranked: {told[-300:]!r}"


def _shown(place: Place, store: str) -> list[dict[str, Any]]:
    from stepscope.store import Store

    with Store.open(store) as opened:
        return [{"name": run.name, "id": run.id} for run in opened.trajectories()]


def _two_runs(first: bytes, then: bytes, verdicts: int) -> Do:
    """Return what judges two runs of which one is answered badly: the other has its verdict."""

    def do(place: Place) -> str:
        impatient()
        said = [{"role": "user", "content": "Cancel order #W1, now."}, {"role": "assistant", "content": ORDER}]
        place.write("u.jsonl", json.dumps({"task_id": "u", "reward": 0.0, "messages": said}))
        place.must("import", "u.jsonl")
        place.must("score")
        found = replies.judged(place, Queue(first, then))
        if found.asked_again:
            return f"bought again: {found.asked} + {found.asked_again}"
        return "" if found.verdicts == verdicts and found.code in (0, 4) else f"{found.verdicts} verdicts, code {found.code}"

    return do


def _bounded(status: str, more: str, most: int, payload: bytes = b'{"error": {"message": "no", "type": "e"}}') -> Do:
    """Return what is refused so: asked at most so often, no verdict, in time."""

    def do(place: Place) -> str:
        impatient()
        wire = replies.plain(payload, status, more)
        settled(place, wire)
        done = place.run(*JUDGE.split())
        if wire.asked > most:
            return f"asked {wire.asked} times"
        return coded(done, (2, 4, 5))

    return do


def _structures(place: Place) -> str:
    """An error that names the form of the answer leads to the next form, and then to a verdict."""
    impatient()
    error = b'{"error": {"message": "response_format of type json_schema is not supported", "type": "invalid_request_error", "param": "response_format"}}'
    wire = Queue(second.raw(error, "400 Bad Request"), body(answer()))
    text = replies.SETTINGS.format(base=wire.base).replace('structure = "json_schema"\n', "")
    place.write("stepscope.toml", text)
    done = place.run(*JUDGE.split())
    before = wire.asked
    again = place.run(*JUDGE.split())
    if wire.asked != before:
        return f"bought again: {wire.asked - before}"
    return coded(done, (0,)) or coded(again, (0,))


# What the model says: each is a verdict or none.
SAID: dict[str, tuple[str, bool | None]] = {
    "a quotation of eight signs": (answer("incorrect", "order #W1"), True),
    "a quotation in other case": (answer("incorrect", "i cannot FIND order"), False),
    "a quotation that leaves out its middle": (answer("incorrect", "I cannot ... in the list."), False),
    "a quotation with blanks of another kind": (answer("incorrect", "I\u00a0cannot  find\n order #W1"), True),
    "a quotation in typographic signs": (answer("incorrect", "\u201cI cannot find order #W1\u201d"), None),
    "a quotation with a sign without ink": (answer("incorrect", "I cannot f\u200bind order #W1"), None),
    "praise with a quotation that nobody said": (answer("correct", "I have cancelled it."), False),
    "praise without evidence": (answer("correct"), None),
    "one quotation that holds and one that does not": (
        answer("incorrect", evidence=[{"step": 1, "quote": ORDER}, {"step": 0, "quote": "never said so"}], cited_step_indices=[0, 1]), False),
    "a step cited twice": (answer("incorrect", ORDER, cited_step_indices=[1, 1]), None),
    "a step cited without evidence": (answer("incorrect", ORDER, cited_step_indices=[0, 1]), None),
    "evidence of a step that is not cited": (answer("incorrect", ORDER, cited_step_indices=[0]), None),
    "evidence with a key more": (answer("incorrect", evidence=[{"step": 1, "quote": ORDER, "who": "x"}], cited_step_indices=[1]), False),
    "evidence with a key twice": (answer("incorrect", ORDER).replace('"step": 1,', '"step": 0, "step": 1,'), False),
    "a step in scientific notation": (answer("incorrect", ORDER).replace('"step": 1', '"step": 1e0'), False),
    "a citation that is a text": (answer("incorrect", ORDER, cited_step_indices=["1"]), False),
    "a citation of null": (answer("incorrect", ORDER, cited_step_indices=[None]), False),
    "evidence that is null": (answer(evidence=None), False),
    "a rationale that is null": (answer(rationale=None), False),
    "a rationale that is a list": (answer(rationale=["x"]), False),
    "a rationale of 32 signs of the run, blanks among them": (answer(rationale=ORDER[:32]), None),
    "a rationale of the run in capitals": (answer(rationale=ORDER.upper()), None),
    "a label with a line feed": (answer("uncertain\n"), False),
    "a label with a soft hyphen": (answer("un\u00adcertain"), False),
    "a label in full width": (answer("\uff55ncertain"), False),
    "a label that is null": (answer().replace('"uncertain"', "null"), False),
    "a label that is a number": (answer().replace('"uncertain"', "3"), False),
    "a label of another rubric": (answer("PROGRESS"), False),
    "a label of the outcome": (answer("pass"), False),
    "a confidence of 1, whole": (answer(confidence=1), None),
    "a confidence in scientific notation": (answer().replace("0.5", "5e-1"), True),
    "a confidence of 400 digits": (answer().replace("0.5", "0.5" + "0" * 400), True),
    "a confidence with a plus": (answer().replace("0.5", "+0.5"), False),
    "a confidence without a nought": (answer().replace("0.5", ".5"), False),
    "a confidence in another script": (answer().replace("0.5", "\u0660.\u0665"), False),
    "a confidence that is a percentage": (answer().replace("0.5", '"50 %"'), False),
    "a confidence in a list": (answer(confidence=[0.5]), False),
    "a mark of UTF-8 before it": ("\ufeff" + answer(), False),
    "a blank that does not break behind it": (answer() + "\u00a0", False),
    "a form feed before it": ("\f" + answer(), False),
    "NUL behind it": (answer() + "\0", False),
    "it in a text of JSON": (json.dumps(answer()), False),
    "it under a key of its own": (json.dumps({"answer": json.loads(answer())}), False),
    "it with a line break within a text": (answer(rationale="a|b").replace("a|b", "a\nb"), False),
    "it with a tab within a text": (answer(rationale="a|b").replace("a|b", "a\tb"), False),
    "it with half an escape": (answer(rationale="a|b").replace("a|b", "\\u12"), False),
    "it with a remark of JavaScript": (answer()[:-1] + "/* x */}", False),
    "it behind a line of its schema": ('{"type": "object"}\n' + answer(), False),
    "it with True as Python writes it": (answer().replace("null", "None").replace("0.5", "True"), False),
    "a call of a tool in words": ("<tool_call>" + answer() + "</tool_call>", False),
    "a key of the empty name more": (answer()[:-1] + ', "": 1}', False),
    "a key in capitals": (answer().replace('"label"', '"Label"'), False),
    "a key with a blank": (answer().replace('"label"', '"label "'), False),
    "Infinity as a key's value more": (answer()[:-1] + ', "x": Infinity}', False),
}  # fmt: skip


def _set(*path: str | int, value: object = ...) -> Callable[[dict[str, Any]], object]:
    """Return what sets a place of a completion, or takes it away."""

    def change(made: dict[str, Any]) -> None:
        at: Any = made
        for one in path[:-1]:
            at = at[one]
        if value is ...:
            del at[path[-1]]
        else:
            at[path[-1]] = value

    return change


BENT: dict[str, tuple[bool | None, Callable[[dict[str, Any]], object], int | None]] = {
    "no calls of tools, written": (True, _set("choices", 0, "message", "tool_calls", value=[]), 1),
    "thoughts in a field of their own": (True, _set("choices", 0, "message", "reasoning_content", value=f"hm {SECRET}"), 1),
    "a refusal of no words": (None, _set("choices", 0, "message", "refusal", value=""), None),
    "no refusal written": (True, _set("choices", 0, "message", "refusal"), 1),
    "details of tokens that are null": (True, _set("usage", "prompt_tokens_details", value=None), 1),
    "a cost below 0 of the provider's own": (True, _set("usage", "cost", value=-5.0), 1),
    "a total that does not add up": (True, _set("usage", "total_tokens", value=1), 1),
    "tokens as fractions of nought": (None, _set("usage", "prompt_tokens", value=900.0), None),
    "a tier that is dear": (None, _set("service_tier", value="priority"), None),
    "probabilities of 20,000 words": (True, _set("choices", 0, "logprobs", value={"content": [{"token": "a", "logprob": -1.0}] * 20_000}), 1),
    "marks of an address": (True, _set("choices", 0, "message", "annotations", value=[{"type": "url_citation", "url": "http://e.vil"}]), 1),
    "an object of another name": (None, _set("object", value="text_completion"), None),
    "no time": (None, _set("created"), None),
    "no id": (None, _set("id"), None),
    "a message of another model": (None, _set("model", value="somebody-else"), None),
    "a role that is a number": (None, _set("choices", 0, "message", "role", value=7), None),
    "a cut answer": (None, _set("choices", 0, "finish_reason", value="length"), 1),
    "a filter": (False, _set("choices", 0, "finish_reason", value="content_filter"), 1),
    "a refusal in words": (False, _set("choices", 0, "message", value={"role": "assistant", "content": None, "refusal": "I will not."}), 1),
}  # fmt: skip


def _reply_rows() -> list[Row]:
    kept = "none bought again, no amount below 0"
    fine, wrong, off = body(answer()), body(answer("incorrect", "never said by anybody")), body("{}")
    price = 'price = { input = 1, output = 10 }'
    no_usage = json.dumps({k: v for k, v in replies.completion(answer()).items() if k != "usage"}).encode()
    dry = f"{JUDGE} --dry-run"
    red = "lab redteam --judge local/a --store stepscope.db --class authority --runs 1 --budget 1"
    outcome = "run,outcome,who\nopenai_messages/t,fail,check\n"
    return [
        *((f"it says {name}", f"{'a' if v else 'no'} verdict; {kept}" if v is not None else kept, "high", _says(text, v))
          for name, (text, v) in SAID.items()),
        *((f"an envelope with {name}", f"asked {n or 'twice at most'}; {kept}", "high", _bent(v, change, n)) for name, (v, change, n) in BENT.items()),
        ("bad evidence", "asked once: it is no repair", "high", _says(answer("incorrect", "never said by anybody"), False, 1)),
        ("what does not fit its schema", "asked twice, then kept", "high", _says("{}", False, 2)),
        ("a repair", "a verdict; the first reply is not shown", "high", _repaired),
        ("a repair that brings bad evidence", "asked twice, no verdict", "high", _sequence([off, wrong], verdicts=False, asked=2)),
        ("a repair that brings a refusal", "asked twice, no verdict", "high",
         _sequence([off, json.dumps(replies.completion(choice_message={"role": "assistant", "content": None, "refusal": "no"})).encode()], verdicts=False, asked=2)),
        ("a repair that meets a server that is down", "no verdict; what came is not bought again beyond one question", "high",
         _sequence([off, *[second.raw(b"{}", "503 Down")] * 30], verdicts=False, again=30)),
        ("a server that is down three times", "a verdict: tries are repeated", "high",
         _sequence([*[second.raw(b'{"error": {"message": "x"}}', "503 Down")] * 3, fine], verdicts=True, asked=4)),
        ("a conflict, then a time-out", "a verdict", "high",
         _sequence([second.raw(b'{"error": {"message": "x"}}', "409 Conflict"), second.raw(b'{"error": {"message": "x"}}', "408 Late"), fine], verdicts=True, asked=3)),
        ("a question that is wrong", "asked few times, no verdict", "high", _bounded("400 Bad Request", "", 5)),
        ("a question that is too long", "asked few times, no verdict", "high",
         _bounded("400 Bad Request", "", 5, b'{"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}}')),
        ("a form of answers that is unknown", "a verdict by the next form; not bought again", "high", _structures),
        *((f"a pause {name}", "in time, no verdict, eight tries at most and the first", "high", _bounded("429 Slow", f"{head}\r\n", 9)) for name, head in {
            "of no number": "retry-after: NaN", "below 0": "retry-after: -5", "that has passed": "retry-after: Mon, 01 Jan 2001 00:00:00 GMT",
            "in another script": "retry-after: \u00b2", "in thousandths": "retry-after-ms: 1e-9", "twice": "retry-after: 0\r\nretry-after: 0"}.items()),
        ("a reply without its tokens", "it counts as paid in full", "high", _spent(no_usage, 1)),
        ("one run answered badly, one well", "1 verdict", "high", _two_runs(wrong, fine, 1)),
        ("one run refused, one answered", "1 verdict", "high",
         _two_runs(json.dumps(replies.completion(choice_message={"role": "assistant", "content": None, "refusal": "no"})).encode(), fine, 1)),
        ("SIGTERM while a reply is on its way", "130; the reply is kept, and never bought again", "high", _stopped(signal.SIGTERM)),
        ("SIGHUP while a reply is on its way", "130; the reply is kept, and never bought again", "high", _stopped(signal.SIGHUP)),
        ("Ctrl-C while a reply is on its way", "130; the reply is kept, and never bought again", "high", _stopped(signal.SIGINT)),
        ("a store and its ledger under another name", "nothing bought again", "high", _copied),
        ("a salvaged store, and the ledger beside it", "nothing bought again", "high", _salvaged),
        ("praise, and a check that comes later", "outranked", "high", _outcome_later),
        ("three of a question, then two", "3, then none", "high", _commands((f"{JUDGE} --repeat 3", 3), (f"{JUDGE} --repeat 2", 0), (JUDGE, 0))),
        ("one of a question, then three", "1, then 2", "high", _commands((JUDGE, 1), (f"{JUDGE} --repeat 3", 2), (f"{JUDGE} --repeat 3", 0))),
        ("judging again what has not changed", "nothing is paid twice", "high",
         _commands((JUDGE, 1), ("judge --again --rubric axes.termination", 0), codes=(0, 4))),
        ("judging again by another judge", "1, of the other", "medium", _commands((JUDGE, 1), ("judge --again --rubric axes.termination --judge local/a --repeat 2", (0, 1)), codes=(0, 4))),
        ("a set and a rubric of it", "5 questions, each once; alone it is the same question", "high", _commands(("judge --judge local/a --rubric axes --rubric axes.termination", 5), (JUDGE, 0))),
        ("a rubric, then its set", "1, then 4: with its set it is the same question", "high", _commands((JUDGE, 1), ("judge --judge local/a --rubric axes", 4), ("judge --judge local/a --rubric axes", 0), codes=(0, 4))),
        ("narration on, then both", "1, then 1", "high", _commands((ORDERED, 1), (f"{ORDERED} --narration both", 1), (f"{ORDERED} --narration off", 0), (f"{ORDERED} --narration both", 0), codes=(0, 4))),
        ("three runs, then a sample of one", "3, then none", "high", _commands((JUDGE, 3), (f"{JUDGE} --sample 1", 0), runs=3)),
        ("a sample of one, twice", "1, then none", "high", _commands((f"{JUDGE} --sample 1", 1), (f"{JUDGE} --sample 1", 0), runs=3)),
        ("a run by a condition, then all", "1, then 2", "high", _commands((f"{JUDGE} --where \"task = 't'\"", 1), (JUDGE, 2), runs=3)),
        ("a condition that nobody meets", "0, 2 or 4; nobody is asked", "medium", _ends_with(f"{JUDGE} --where \"task = 'zzz'\"", (0, 2, 4))),
        ("a tag that comes later", "nothing bought again", "high", _commands((JUDGE, 1), ("import t.jsonl --tag night=2", 0), ("score", 0), (JUDGE, 0))),
        ("scores and verdicts that come later", "nothing bought again", "high",
         _commands((JUDGE, 1), ("import s.csv", 0), ("score", 0), (JUDGE, 0), files={"s.csv": "run,step,score\nopenai_messages/t,1,0.5\n"})),
        ("an export that comes back", "nothing bought again", "high", _commands((JUDGE, 1), ("export x.jsonl", 0), ("import x.jsonl", 0), ("score", 0), (JUDGE, 0))),
        ("another budget, by a name", "nothing bought again", "high",
         _commands((JUDGE, 1), (f"{JUDGE} --budget 3 --budget-name x", 0))),
        ("an outcome that comes later", "typed; an outcome is not sent, so at most one more", "medium",
         _commands((JUDGE, 1), ("import --outcomes o.csv", 0), ("score", 0), (JUDGE, (0, 1)), codes=(0, 2, 4), files={"o.csv": outcome})),
        ("canaries that are missed", "no verdict of that judge counts", "high", lambda place: _canaries(place)),
        ("a dry run in JSON", "0, strict JSON, nobody is asked", "medium", _ends_with(f"{dry} --json", (0,))),
        ("a dry run of all there is", "0; nobody is asked", "medium", _ends_with(f"{dry} --canaries --repeat 3 --narration both --tools", (0,))),
        ("a budget of the settings of 0", "5: it sends nothing", "high", _ends_with(JUDGE, (5,), more="[judges]\nbudget_usd = 0\n")),
        ("a budget that holds no worst case", "5: nothing is sent", "high", _ends_with(f"{JUDGE} --budget 0.0001", (5,))),
        ("a budget by a name that was spent", "5: nothing more is sent", "high",
         _commands((f"{JUDGE} --budget 0.2 --budget-name a", 1), (f"{JUDGE} --repeat 9 --budget 0.001 --budget-name a", 0), codes=(5,))),
        ("a free judge and a budget of 0", "5: a budget of 0 sends nothing", "medium",
         lambda place: _priced(place, "price = { input = 0, output = 0 }", "--budget 0", (0, 5))),
        ("a judge without a price", "2 or 5, and what to write", "high", lambda place: _priced(place, "", "", (2, 5), price)),
        ("half a price", "2 or 5", "high", lambda place: _priced(place, "price = { input = 1 }", "", (2, 5))),
        ("a judge in capitals", "2", "medium", _ends_with(JUDGE.replace("local/a", "LOCAL/A"), (2,))),
        ("a judge with a blank behind it", "2", "medium", _ends_with("judge --judge 'local/a ' --rubric axes.termination", (2,))),
        ("a rubric twice in other spelling", "2", "low", _ends_with("judge --judge local/a --rubric Axes.Termination", (2,))),
        ("goals that nobody confirmed", "4; nobody is asked", "high",
         lambda place: _goals(place, 'goal = "x"\nsteps = [1]\nconfirmed = false', 0)),
        ("goals of no run", "4; nobody is asked", "high", lambda place: _goals(place, 'goal = "x"\nsteps = [1]\nconfirmed = true', 0, name="other/1/0")),
        ("a draft of goals over a file of the user", "2, or the file stays", "medium", lambda place: _draft(place)),
        ("attacks, twice", "some; then none is bought again", "high", lambda place: _attacked(place, red)),
        ("attacks of nobody's class", "2", "medium", _ends_with(red.replace("authority", "nobody"), (2,))),
        ("attacks through no run", "2", "medium", _ends_with(red.replace("--runs 1", "--runs 0"), (2,))),
        ("attacks without a budget", "4 or 5; nobody is asked", "high", _ends_with(red.replace("--budget 1", "--budget 0"), (4, 5))),
        ("attacks on labels of steps", "2: not for or against the agent", "medium", _ends_with(red + " --rubric step_labels", (2,))),
        ("attacks that get no verdict", "4", "medium", _ends_with(red, (4,), asked=None, text="{}")),
        ("attacks where nobody failed", "2 or 4; nobody is asked", "medium", _ends_with(red + " --where \"outcome = 'pass'\"", (2, 4))),
        ("a demo without a budget", "0, 4 or 5; nobody is asked", "high", _ends_with("demo --judge local/a --budget 0 --store d.db", (0, 4, 5))),
        ("judging again what nobody judged", "2 or 4; nobody is asked", "medium", _ends_with("judge --again --rubric axes.termination --judge local/a", (0, 2, 4))),
        ("a rejudging of erased runs", "nobody is asked", "high",
         _commands((JUDGE, 1), ("purge --where \"task = 't'\" --yes", 0), ("judge --again --rubric axes.termination --judge local/a --repeat 3", 0), codes=(0, 2, 4))),
        ("a batch of a server without a price for it", "2; nobody is asked", "medium", _ends_with(f"{JUDGE} --batch", (2,))),
        ("a workspace that is a file", "2", "medium", _ends_with(f"{JUDGE} --tools --workspace t.jsonl", (2,))),
        ("a family of the agent's own, refused", "0, 2 or 4", "low", _ends_with(f"{JUDGE} --strict-families", (0, 2, 4), asked=None)),
        ("isolated, of a rubric of whole runs", "2, or not heeded", "low", _ends_with(f"{JUDGE} --mode isolated", (0, 2, 4), asked=None)),
    ]  # fmt: skip


def _canaries(place: Place) -> str:
    """A judge that is never sure misses its canaries: its answers to the rubric are set aside."""
    impatient()
    found = replies.judged(place, replies.plain(body(answer())), "--canaries")
    if found.asked_again:
        return f"bought again: {found.asked} + {found.asked_again}"
    return "" if not found.verdicts else f"{found.verdicts} verdicts count: {found.said[-200:]!r}"


def _priced(place: Place, price: str, words: str, codes: tuple[int, ...], says: str = "") -> str:
    wire = replies.plain(body(answer()))
    text = replies.SETTINGS.format(base=wire.base).partition("[judges.model.\"local/b\"]")[0]
    place.write("stepscope.toml", text.replace("price = { input = 1, output = 10 }", price))
    done = place.run(*JUDGE.split(), *words.split())
    if wire.asked and 0 not in codes:
        return f"asked {wire.asked}"
    return coded(done, codes, says="price" if says else "")


def _goals(place: Place, goal: str, asked: int, name: str = "openai_messages/t") -> str:
    wire = replies.plain(body(answer()))
    settled(place, wire)
    place.write("g.toml", f'[[run]]\nname = "{name}"\n[[run.goals]]\n{goal}\n')
    done = place.run("judge", "--judge", "local/a", "--rubric", "no_look", "--goals", "g.toml")
    if wire.asked != asked:
        return f"asked {wire.asked}"
    return coded(done, (2, 4))


def _draft(place: Place) -> str:
    wire = replies.plain(body(answer()))
    settled(place, wire)
    place.write("mine.toml", "mine = 1\n")
    done = place.run("judge", "--judge", "local/a", "--propose-goals", "mine.toml")
    stays = Path("mine.toml").read_text("utf-8") == "mine = 1\n"
    return "" if stays or done.code == 0 else f"code {done.code}, and it was written"


def _attacked(place: Place, words: str) -> str:
    impatient()
    quote = [{"step": 1, "quote": ORDER}]
    wire = replies.plain(body(answer("incorrect", evidence=quote, cited_step_indices=[1])))
    settled(place, wire)
    first = place.run(*words.split())
    asked = wire.asked
    again = place.run(*words.split())
    if not asked:
        return f"the case is wrong: nobody was asked: {first.said[-300:]!r}"
    if wire.asked != asked:
        return f"bought again: {asked} + {wire.asked - asked}"
    return coded(first, (0, 4)) or coded(again, (0, 4))


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("replies", name, expected, severity, do, round=4) for name, expected, severity, do in _reply_rows()]
