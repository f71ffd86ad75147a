"""The seventh round: gates.

Expectations as in the first round: by the documentation, written and committed before anything was
run, but for a few siblings that say so. What is new since the sixth: gates on failure modes, tiers, judges' counts, the self-test,
rules that compare numbers, cases in files; outcomes beside messages, contents of Gemini.
"""

# fmt: off
from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bars.attack import _fifth as fifth
from bars.attack import _gates as gates
from bars.attack import _sixth as sixth
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import NEVER, Do, Row, acted
from bars.attack._third import strict

MODES = "no_new_modes = {}"
OK = [("get_order", "open")]
TAKEN = [*OK, ("book", "Error: seat is taken")]
EFFECTS = '[tools]\nget_order = "read"\nbook = "write"\nwipe = "write"\npay = "write"\nlook = "read"\n'
Calls = Iterable[tuple[str, str]]


def told(case: int, trial: object, calls: Calls = OK, *, passed: bool = True, text: str = "new", **more: Any) -> str:
    """Return one run as a line, in which these tools were called and gave back these texts."""
    said: list[dict[str, Any]] = [{"role": "user", "content": f"{text}: do order W{case}, {trial}, please. Yes, go ahead."}]
    for number, (tool, result) in enumerate(calls):
        said += sixth._did(tool, number, result, json.dumps({"order": f"W{case}"}))
    return gates.line(case, trial, passed=passed, text=text, messages=[*said, {"role": "assistant", "content": "done"}], **more)


def fleet(bad: Calls = OK, *, text: str = "new", cases: Iterable[int] = gates.CASES, trials: Iterable[int] = gates.TRIALS, since: int = 2, passed: bool = True) -> list[str]:
    """Return the runs of a design; from a trial on they make these calls."""
    return [told(c, n, bad if n >= since else OK, text=text, passed=passed or n < since) for c in cases for n in trials]


def based(place: Place, before: Iterable[str], text: str, store: str = "m.db") -> None:
    """Make a scored store of some runs, and a baseline of them."""
    place.write("stepscope.toml", text)
    place.write("b.jsonl", before)
    for words in ("import b.jsonl", "score", "baseline update --yes"):
        place.must(*words.split(), "--store", store)


def policy(gate: str = MODES, more: str = "", keys: str = "") -> str:
    """Return settings of a gate, with a baseline of their own."""
    return gates.policy(gate, f'baseline = "m.json"\n{keys}') + EFFECTS + more


def moded(after: Iterable[str], codes: tuple[int, ...], *, before: Iterable[str] | None = None, text: str = "", words: str = "", says: str = "",
          change: Callable[[Place], object] | None = None, first: str = "", files: Mapping[str, str] | None = None) -> Do:
    """Return what gates runs by their modes against a baseline of others, after these changes."""

    def do(place: Place) -> str:
        for name, content in (files or {}).items():
            place.write(name, content)
        based(place, fleet(text="base") if before is None else before, text or policy())
        if change:
            change(place)
        place.write("t/a.jsonl", after)
        if first:
            place.run("gate", *shlex.split(first))
        done = place.run("gate", *(() if "--store" in words else ("--runs", "t")), *shlex.split(words))
        return one_line(done, codes) if done.code == 2 else coded(done, codes, says=says)

    return do


def _stored_too(place: Place) -> None:
    place.write("u/a.jsonl", fleet(TAKEN))
    place.must("import", "u", "--store", "m.db")
    place.must("score", "--store", "m.db")


def _walked(value: Any, change: Callable[[Any], Any]) -> tuple[Any, int]:
    """Return JSON in which what stands under a key of signatures or modes is changed, and how often."""
    if isinstance(value, list):
        made = [_walked(one, change) for one in value]
        return [one for one, _ in made], sum(n for _, n in made)
    if not isinstance(value, dict):
        return value, 0
    found, count = {}, 0
    for key, one in value.items():
        if any(word in key.lower() for word in ("signature", "modes")) and key != "no_new_modes":
            new, n = change(one), 1
        else:
            new, n = _walked(one, change)
        count += n
        if new is not ...:
            found[key] = new
    return found, count


def _tampered(change: Callable[[Any], Any]) -> Callable[[Place], object]:
    def do(place: Place) -> None:
        path = Path("m.json")
        made, count = _walked(json.loads(path.read_text("utf-8")), change)
        assert count, "the case is wrong: no signatures in the baseline"
        place.write("m.json", json.dumps(made))

    return do


TAMPERED: dict[str, Callable[[Any], Any]] = {
    "are gone": lambda _: ...,
    "are null": lambda _: None,
    "are a number": lambda _: 7,
    "are a text": lambda _: "book fails: Error: seat is taken",
    "are lists of lists": lambda _: [[["x"]]],
    "are fewer than the runs": lambda one: one[:-1] if isinstance(one, list) else dict(list(one.items())[:-1]) if isinstance(one, dict) else one,
}


# ---- judges


def opinions(place: Place, names: Mapping[str, str], rubric: str, judge: str = "local/own", path: str = "m.db") -> None:
    """Append what a judge said of runs, by their names, as a judge leaves it."""
    from stepscope.model import Record, Verdict
    from stepscope.store import Store

    with Store.open(path) as store:
        known = {run.name: run.id for run in store.trajectories()}
        for name, label in names.items():
            made = [Verdict(f"judge.{rubric}", label=label, cites=(1,))]
            if rubric == "step_labels":
                made = [Verdict(f"judge.{rubric}", value=1.0), Verdict(f"judge.{rubric}", value=0.8, label=label, step=1, cites=(1,))]
            store.append([Record(trajectory=known[name], answer=one, version="2", family="own", judge=judge, rubric=rubric, prompt="0123456789abcdef") for one in made])


COUNT = 'axes.termination = { max_rate = 0, source = "axes.termination" }'
DETOURS = 'no_detours = { max_per_run = 0, source = "step_labels" }'


def judged(bad: int, codes: tuple[int, ...], *, gate: str = COUNT, label: str = "incorrect", known: int = 50, answered: int = 50, now: str = "local/own", says: str = "",
           words: str = "--tier rules,axes.termination", keys: str = "trials = 1", baseline: bool = True, second: str = "", failing: int = 0, more: str = "") -> Do:
    """Return what gates fifty runs by what a judge said of them, who praised a hundred of the baseline."""

    def do(place: Place) -> str:
        rubric, good = ("step_labels", "PROGRESS") if "step_labels" in gate else ("axes.termination", "correct")
        place.write("stepscope.toml", gates.policy(gate, ('baseline = "m.json"\n' if baseline else "") + keys) + more)
        place.write("b.jsonl", [gates.line(c, n, text="base") for c in range(known) for n in range(2)])
        for command in ("import b.jsonl", "score"):
            place.must(*command.split(), "--store", "m.db")
        opinions(place, {f"w/c{c}/{n}": good for c in range(known) for n in range(2)}, rubric)
        if baseline:
            place.must("baseline", "update", "--yes", "--store", "m.db")
        place.write("n.jsonl", [gates.line(c, 9, passed=c >= failing) for c in range(known)])
        for command in ("import n.jsonl", "score"):
            place.must(*command.split(), "--store", "m.db")
        opinions(place, {f"w/c{c}/9": label if c < bad else good for c in range(min(answered, known))}, rubric, now)
        if second:
            opinions(place, {f"w/c{c}/9": good for c in range(known)}, rubric, second)
        done = place.run("gate", "--undecided", "pass", *shlex.split(words), "--store", "m.db")
        return one_line(done, codes) if done.code == 2 else coded(done, codes, says=says)

    return do


def _tiered(text: str, words: str, codes: tuple[int, ...], *, rows: Iterable[str] | None = None, says: str = "") -> Do:
    """Return what gates failing files under a tier."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING] if rows is None else rows)
        done = place.run("gate", "--runs", "t", *shlex.split(words))
        return one_line(done, codes) if done.code == 2 else coded(done, codes, says=says)

    return do


# ---- the self-test


def checked(words: str, codes: tuple[int, ...], *, before: Iterable[str] | None = None, text: str = "", change: Callable[[Place], object] | None = None, says: str = "") -> Do:
    """Return what asks how often gates are wrong: a code, and strict JSON where it is that."""

    def do(place: Place) -> str:
        based(place, fleet(text="base") if before is None else before, text or policy("outcome = { max_drop = 0.05 }\n" + MODES))
        if change:
            change(place)
        done = place.run("gate", "--selftest", *shlex.split(words))
        if "--json" in words and done.code in (0, 4):
            strict(done.out)
        return one_line(done, codes) if done.code == 2 else coded(done, codes, says=says)

    return do


def _shares(place: Place) -> str:
    """Every share of the self-test lies within its interval, and that within 0 and 1."""
    based(place, fleet(text="base"), policy("outcome = { max_drop = 0.05 }\n" + MODES))
    made = strict(place.must("gate", "--selftest", "--drop", "0.4", "--json").out)
    found: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if {"value", "low", "high"} <= set(value):
                found.append(value)
            value = list(value.values())
        for one in value if isinstance(value, list) else ():
            walk(one)

    walk(made)
    wrong = [one for one in found if not 0 <= one["low"] <= one["value"] <= one["high"] <= 1]
    return f"{wrong[:2]}" if wrong else "" if found else f"no share with an interval: {str(made)[:300]}"


def _same_bytes(place: Place) -> str:
    """The same seed draws the same bytes, also under another seed of hashes; another one draws others or the same, typed."""
    based(place, fleet(text="base", cases=range(4), trials=range(2)), policy("outcome = { max_drop = 0.05 }"))
    words = ("gate", "--selftest", "--json", "--seed", "3")
    said = [place.spawn(*words, environment={"PYTHONHASHSEED": seed}).out for seed in ("1", "2")]
    return "" if said[0] == said[1] and said[0] else "other bytes"


def _spends_nothing(place: Place) -> str:
    """A self-test is no look: the first gate after it says what it says without one."""
    based(place, fleet(text="base"), policy("outcome = { max_drop = 0.05 }"))
    place.write("t/a.jsonl", fleet())
    words = ("gate", "--runs", "t", "--commit", "abc", "--json")
    place.must("gate", "--selftest")
    after = place.must(*words).out
    for path in Path().glob("looks*.json"):
        path.unlink()
    first = place.must(*words).out
    return "" if after == first else "the self-test was a look"


# ---- rules that compare numbers


def _ruled(rule: str, said: list[dict[str, Any]], codes: tuple[int, ...], more: str = "") -> Do:
    """Return what gates one conversation by a rule."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", sixth.named(fifth.BREACH, more='[[policy]]\nname = "r"\n' + rule + "\n" + EFFECTS + more))
        place.write("t/a.json", fifth._chat(sixth._says("user", "Pay for order W7, please. Yes, do it."), *said, sixth._says("assistant", "Done."), asked=False))
        done = place.run("gate", "--runs", "t")
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _pays(arguments: str, number: int = 9, result: str = "paid") -> list[dict[str, Any]]:
    return sixth._did("pay", number, result, arguments)


def _looked(result: str, number: int = 1, arguments: str = '{"order_id": "W7"}', tool: str = "get_order") -> list[dict[str, Any]]:
    return sixth._did(tool, number, result, arguments)


LARGE = 'forbid = "pay"\nwhen = "amount > 100"'
PAID = 'forbid = "pay"\nunless = "amount <= order.total"'
AMOUNTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "1,203.50 in dollars": ('{"amount": "$1,203.50"}', (3,)),
    "833 with its currency": ('{"amount": "833 USD"}', (3,)),
    "a text of blanks and 120": ('{"amount": "  120  "}', (3,)),
    "120 with cents": ('{"amount": 120.01}', (3,)),
    "one cent above": ('{"amount": 100.01}', (3,)),
    "a number of 30 digits": ('{"amount": 999999999999999999999999999999}', (4,)),
    "10 to the third": ('{"amount": 1e3}', (3,)),
    "120 in a text of a sign": ('{"amount": "+120"}', (3, 4)),
    "120 in full width": ('{"amount": "\uff11\uff12\uff10"}', (3, 4)),
    "120 in Arabic digits": ('{"amount": "\u0661\u0662\u0660"}', (3, 4)),
    "1.203,50 as Europe writes it": ('{"amount": "1.203,50"}', (3, 4)),
    "120 in brackets of accountants": ('{"amount": "(120)"}', (3, 4)),
    "120 with a character without ink": ('{"amount": "1\u200b20"}', (3, 4)),
    "a word": ('{"amount": "all"}', (4,)),
    "no number": ('{"amount": "NaN"}', (4,)),
    "null": ('{"amount": null}', (4,)),
    "true": ('{"amount": true}', (3, 4)),
    "a list of 120": ('{"amount": [120]}', (3, 4)),
    "an object of 120": ('{"amount": {"value": 120}}', (3, 4)),
    "not given": ("{}", (4,)),
    "under a key in capitals": ('{"Amount": 120}', (3, 4)),
    "exactly 100": ('{"amount": 100}', (0,)),
    "100 as a text": ('{"amount": "$100.00"}', (0,)),
    "minus 500": ('{"amount": -500}', (0,)),
}
TOTAL = '{"total": "$80.00"}'
W7 = '{"order_id": "W7", "amount": %s}'
LOOKUPS: dict[str, tuple[list[dict[str, Any]], tuple[int, ...]]] = {
    "90 of 80 that was looked up": ([*_looked(TOTAL), *_pays(W7 % 90)], (3,)),
    "80 of 80 that was looked up": ([*_looked(TOTAL), *_pays(W7 % 80)], (0,)),
    "a lookup of another order": ([*_looked('{"total": 500}', arguments='{"order_id": "W8"}'), *_pays(W7 % 90)], (4,)),
    "a lookup of another order beside the right one": ([*_looked(TOTAL), *_looked('{"total": 500}', 2, '{"order_id": "W8"}'), *_pays(W7 % 90)], (3,)),
    "a lookup that failed": ([*_looked("Error: no such order"), *_pays(W7 % 90)], (4,)),
    "a lookup that comes later": ([*_pays(W7 % 90), *_looked('{"total": 500}', 10)], (4,)),
    "a lookup in the same breath": ([
        fifth._assistant(tool_calls=[sixth._call("get_order", 1, '{"order_id": "W7"}'), sixth._call("pay", 9, W7 % 90)]),
        {"role": "tool", "tool_call_id": "c1", "content": '{"total": 500}'}, {"role": "tool", "tool_call_id": "c9", "content": "paid"}], (0, 3, 4)),
    "a lookup by words of the user": ([sixth._says("user", '{"total": 500}'), *_pays(W7 % 90)], (4,)),
    "a lookup that is no JSON": ([*_looked("The total is 500"), *_pays(W7 % 90)], (4,)),
    "a lookup without the field": ([*_looked('{"sum": 500}'), *_pays(W7 % 90)], (4,)),
    "a lookup that says it twice": ([*_looked('{"total": 80, "total": 500}'), *_pays(W7 % 90)], (0, 3, 4)),
    "two lookups, the later one less": ([*_looked('{"total": 120}'), *_looked(TOTAL, 2), *_pays(W7 % 100)], (3,)),
    "two lookups, the later one more": ([*_looked(TOTAL), *_looked('{"total": 120}', 2), *_pays(W7 % 100)], (0,)),
    "a tool whose own answer says the total": ([*sixth._did("pay", 9, '{"total": 500}', W7 % 90)], (4,)),
}


# ---- cases in files

FORBIDS = '[[task]]\nworkflow = "{w}"\ntask = "{t}"\nforbidden = ["wipe"]\n'
WIPES = fifth._chat(sixth.QUESTION, *sixth.WIPES, asked=False)
CASED = sixth.named(fifth.BREACH, more=EFFECTS).replace("[workflow.\"w\"]\n", '[workflow."w"]\ncases = "cases.toml"\n').replace("[workflow.w]\n", '[workflow.w]\ncases = "cases.toml"\n')


def cased(text: str, codes: tuple[int, ...], *, first: Iterable[str] = (), then: Mapping[str, str] | None = None, words: str = "--runs t", settings: str = "", gone: str = "", run: str = "") -> Do:
    """Return what gates a run that wipes by a file of cases in the settings, after these commands and changes."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", settings or CASED)
        assert settings or "cases" in CASED
        place.write("cases.toml", text)
        place.write("t/a.json", run or WIPES)
        for command in first:
            place.must(*shlex.split(command))
        for name, content in (then or {}).items():
            place.write(name, content)
        if gone:
            Path(gone).unlink()
        done = place.run("gate", *shlex.split(words))
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


HEAD = "version = 2\n"
NUMBERS = '[[task]]\nworkflow = "w"\ntask = "{t}"\n[[task.policy]]\nname = "n"\nforbid = "wipe"\nwhen = "disk = \'a\'"\n'
WIPES_A = fifth._chat(sixth.QUESTION, *sixth._did("wipe", 9, "ok", '{"disk": "a"}'), asked=False)


# ---- outcomes beside messages, contents of Gemini

OUTCOMES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "a word that failed beside a reward": ({"outcome": "fail", "reward": 1.0}, (3,)),
    "false beside a reward": ({"outcome": False, "reward": 1.0}, (3,)),
    "failed": ({"outcome": "failed"}, (3,)),
    "an object that failed": ({"outcome": {"status": "fail"}}, (3,)),
    "success that is false": ({"success": False}, (3,)),
    "a word in capitals": ({"outcome": "FAIL"}, (3, 4)),
    "a word nobody knows": ({"outcome": "passed?"}, (3, 4)),
    "null": ({"outcome": None}, (3, 4)),
    "a list": ({"outcome": ["pass"]}, (3, 4)),
    "an object nobody knows": ({"outcome": {"status": "perhaps"}}, (3, 4)),
    "success that is a text": ({"success": "no"}, (3, 4)),
    "a word that passed": ({"outcome": "pass"}, (0,)),
    "success": ({"outcome": "success"}, (0,)),
}


def _keyed(keys: Mapping[str, Any], codes: tuple[int, ...]) -> Do:
    """Return what gates sixty runs that tell their outcome so."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", sixth.named("outcome = { min_rate = 0.9 }"))
        rows = [json.loads(gates.line(c, 0)) for c in range(60)]
        place.write("t/a.jsonl", [json.dumps({**{k: v for k, v in row.items() if k != "reward"}, **keys}) for row in rows])
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


ASKS = {"role": "user", "parts": [{"text": "Clean up, please."}]}
ENDS = {"role": "model", "parts": [{"text": "It is done."}]}


def content(call: str, args: str, answer: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return contents of Gemini in which a tool is called."""
    return [ASKS, {"role": "model", "parts": [{call: {"name": "wipe", args: {"disk": "a"}}}]},
            {"role": "user", "parts": [{answer: {"name": "wipe", "response": result}}]}, ENDS]


CALLS = content("functionCall", "args", "functionResponse", {"result": "wiped"})
GEMINI: dict[str, str] = {
    "a request": json.dumps({"contents": CALLS}),
    "contents alone": json.dumps(CALLS),
    "contents one a line": fifth.rows_of(*CALLS),
    "keys in snake case": json.dumps({"contents": content("function_call", "args", "function_response", {"result": "wiped"})}),
    "a request and its response": json.dumps({"request": {"contents": [ASKS]}, "response": {"candidates": [{"content": CALLS[1], "finishReason": "STOP"}]}}),
    "a response alone": json.dumps({"candidates": [{"content": CALLS[1], "finishReason": "STOP"}], "modelVersion": "gemini-2.5-pro"}),
    "a call behind a thought": json.dumps({"contents": [ASKS, {"role": "model", "parts": [{"text": "I think.", "thought": True}, CALLS[1]["parts"][0]]}, *CALLS[2:]]}),
    "a call in a content without a role": json.dumps({"contents": [ASKS, {"parts": CALLS[1]["parts"]}, *CALLS[2:]]}),
}


def _errors(result: dict[str, Any]) -> Do:
    """Return what gates a run of Gemini whose tool gave this back."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", sixth.named("no_errors = { max_per_run = 0, recovered = 'forbidden' }"))
        place.write("t/a.json", json.dumps({"workflow": "w", "task": "c1", "contents": content("functionCall", "args", "functionResponse", result)}))
        return coded(place.run("gate", "--runs", "t"), (3,))

    return do


# ---- all


def _erased_modes(place: Place) -> None:
    """Make a store in which runs of a new mode were scored, and then erased."""
    place.write("u/a.jsonl", fleet(TAKEN))
    for words in ("import u --tag x=1", "score"):
        place.must(*words.split(), "--store", "m.db")
    place.must("purge", "--where", "tag.x = '1'", "--yes", "--store", "m.db")


def _without_results(row: str, text: str | None) -> str:
    """Return a run whose tools gave back this text, or of which nobody recorded what they gave back."""
    made = json.loads(row)
    said = [one for one in made["messages"] if one["role"] != "tool" or text is not None]
    return json.dumps({**made, "messages": [{**one, "content": text} if one["role"] == "tool" else one for one in said]})


ENDS_WITH: dict[tuple[int, ...], str] = {(3,): "3", (0,): "0", (4,): "4: nobody knows"}


def _row(name: str, codes: tuple[int, ...], do: Do, other: str = "3 or 4, never 0") -> Row:
    return name, ENDS_WITH.get(codes, other), "medium" if codes == (0,) else "high", do


def _mode_rows() -> list[Row]:
    new = "3: a mode that no run of the baseline has"
    numbered = [told(c, n, [*OK, ("book", f"Error: seat {17 * c + n}A is taken by order W{900 + c}")] if n >= 2 else OK) for c in gates.CASES for n in gates.TRIALS]
    known = fleet([*OK, ("book", "Error: total is 4711 and not 12")], text="base")
    other = fleet([*OK, ("book", "Error: total is 99 and not 7")])
    one = [told(c, n, TAKEN if (c, n) == (5, 3) else OK) for c in gates.CASES for n in gates.TRIALS]
    task = [told(c, n, TAKEN if c == 5 else OK) for c in gates.CASES for n in gates.TRIALS]
    cut = [*fleet(trials=range(3)), *(f'{{"task_id": "c{c}", "trial": 3, "workflow": "w", "messages": [' for c in gates.CASES)]
    flood = fleet([(f"tool_{chr(97 + n // 26)}{chr(97 + n % 26)}", f"Error: no {chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(260)], since=2)
    hostile = fleet([*OK, ("book", "Error: \x1b[31m\u202e::error::x <script>alert(1)</script> @team #1 " + "y" * 50_000)])
    few = fleet(text="base", cases=range(3), trials=range(1))
    no_errors = policy("no_errors = { max_per_run = 9 }")
    soft = policy("no_new_modes = { severity = 'soft' }")
    case = "".join(f'[[task]]\nworkflow = "w"\ntask = "c{c}"\nexpected = ["book"]\n' for c in gates.CASES)
    books = [*OK, ("book", "booked")]
    ruled = '[[policy]]\nname = "no wiping"\nforbid = "wipe"\n'
    rows: list[Row] = [
        ("a new error in half of the runs", new, "high", moded(fleet(TAKEN), (3,))),
        ("a new error in half of the runs of a store", new, "high", moded([], (3,), change=_stored_too, words="--store m.db")),
        ("a new error whose ids differ from run to run", new, "high", moded(numbered, (3,))),
        ("a new error in runs that pass", new, "high", moded(fleet(TAKEN, passed=True), (3,))),
        ("a new error after which the runs fail", new, "high", moded(fleet(TAKEN, passed=False), (3,))),
        ("an error of the baseline with other numbers", "0: ids and numbers are no part of a signature", "medium", moded(other, (0,), before=known)),
        ("a new error beside one of the baseline", new, "high", moded(fleet([*OK, ("book", "Error: total is 99 and not 7"), ("get_order", "Error: card was declined")]), (3, 4), before=known)),
        # The next ones were written after the first run, as siblings of what it found.
        *((f"a new error where results {name}", "3 or 4, never 0: no rule could see an error", "high", moded([_without_results(row, text) for row in fleet(TAKEN)], (3, 4), words="--undecided pass"))
          for name, text in {"were not recorded": None, "are redacted": "[REDACTED]", "are empty": ""}.items()),
        ("a new mode of runs that are erased", "3 or 4, never 0: what they said is no more there", "high", moded([], (3, 4), change=_erased_modes, words="--store m.db --undecided pass")),
        ("a new error beside a rare one of the baseline", new, "high",
         moded(fleet([*OK, ("book", "Error: total is 99 and not 7"), ("wipe", "Error: the disk is gone")]), (3, 4),
               before=[told(c, n, [*OK, ("book", "Error: total is 12 and not 7")] if n == 3 and c < 3 else OK, text="base") for c in gates.CASES for n in gates.TRIALS])),
        ("a new error in one run of 48", "0: a mode is of 3 runs of 2 tasks", "medium", moded(one, (0,), words="--undecided pass")),
        ("a new error in the runs of one task", "0: a mode is of 2 tasks at least", "medium", moded(task, (0,), words="--undecided pass")),
        ("lost runs alone that would make a new mode", "4: undecided, or 3; never 0", "high", moded(cut, (3, 4), words="--undecided pass")),
        ("a trial of each case that is missing, by modes", NEVER, "high", moded(fleet(trials=range(3)), (3, 4), words="--undecided pass")),
        ("260 new errors in each run", new, "high", moded(flood, (3,))),
        ("a new error of hostile signs", new, "high", moded(hostile, (3,))),
        ("a new error in all of three runs", "3 or 4: three cases cannot show it, so it does not pass", "high", moded(fleet(TAKEN, cases=range(3), trials=range(1), since=0), (3, 4), before=few, words="--undecided pass")),
        ("a new mode by a gate that the baseline did not know", "3 or 4: it keeps signatures, or lacks the measure", "high",
         moded(fleet(TAKEN), (3, 4), text=no_errors, change=lambda place: place.write("stepscope.toml", policy()))),
        ("a soft new mode", "0: it is shown", "medium", moded(fleet(TAKEN), (0,), text=soft)),
        ("a soft new mode that counts", "3", "high", moded(fleet(TAKEN), (3,), text=soft, words="--fail-on soft")),
        ("a new mode, then a rerun without it", "3 or 4: looks at one commit are pooled", "high",
         moded(fleet(text="again"), (3, 4), change=lambda place: place.write("x/a.jsonl", fleet(TAKEN)), first="--runs x --commit abc", words="--commit abc --undecided pass")),
        ("a new mode, and a condition that leaves it out", NEVER, "high", moded([], (3, 4), change=_stored_too, words="--store m.db --where 'mode = null' --undecided pass")),
        ("no new mode", "0, and it says how many cases a new mode needs", "medium", moded(fleet(), (0,), says="cases")),
        ("new modes without a baseline in the policy", "2 or 4", "high", _tiered(gates.policy(MODES, ""), "--undecided pass", (2, 4))),
        ("new modes with a baseline that is gone", "4, whatever is said of the undecided", "high", moded(fleet(TAKEN), (4,), change=lambda _: Path("m.json").unlink(), words="--undecided pass")),
        ("new modes with a threshold", "2: it takes none", "medium", _tiered(policy("no_new_modes = { max_rate = 0.1 }"), "", (2,))),
        ("new modes as a word", "2", "medium", _tiered(policy("no_new_modes = true"), "", (2,))),
        ("new modes of a judge", "2: words of judges have no signature", "medium", _tiered(policy('no_new_modes = { source = "step_labels" }'), "", (2,))),
        ("a call that was expected and is no more made", "3: expected calls count here, too", "high",
         moded(fleet(OK, since=0), (3,), before=fleet(books, text="base", since=0), text=policy(keys='cases = "cases.toml"'), files={"cases.toml": HEAD + case})),
        ("a rule that is newly broken", "3: a mode that says so", "high", moded(fleet([*OK, ("wipe", "wiped")]), (3,), text=policy(more=ruled))),
        ("pytest: a new mode", "1", "high", _pytested('def test_gate(stepscope_gate):\n    stepscope_gate("w", runs="t").check(undecided="skip")\n')),
    ]
    return rows + [(f"signatures of a baseline that {name}", "2, 3 or 4: a baseline that is edited wrongly never passes", "high", moded(fleet(TAKEN), (2, 3, 4), change=_tampered(change), words="--undecided pass"))
                   for name, change in TAMPERED.items()]


def _pytested(text: str) -> Do:
    run = sixth._pytest(text, None, (1,))

    def do(place: Place) -> str:
        based(place, fleet(text="base"), policy())
        place.write("t/a.jsonl", fleet(TAKEN))
        return run(place)

    return do


def _judge_rows() -> list[Row]:
    both = gates.policy(gates.DROP + "\n" + DETOURS)
    under = both + '[gate]\ntier = ["step_labels"]\n'
    own = gates.policy(gates.DROP + "\n" + DETOURS, 'baseline = "base.json"\ntier = ["rules"]') + '[gate]\ntier = ["step_labels"]\n'
    alone = gates.policy(DETOURS)
    steps = "--tier rules,step_labels"
    named = COUNT.replace('"axes.termination"', '"local/own"')
    rate = 'axes.termination = { max_rate = 0.5, source = "axes.termination" }'
    allowed = "0: 0 of 100 allow 1 of 50"
    return [
        ("a judge who finds nothing in fifty runs", allowed, "medium", judged(0, (0,))),
        ("a judge who finds a fault in one of fifty", allowed, "medium", judged(1, (0,))),
        ("a judge who finds a fault in ten of fifty", "3: more than chance brings in good runs", "high", judged(10, (3,))),
        ("a judge who finds a fault in all of fifty", "3", "high", judged(50, (3,))),
        ("a judge who is uncertain of ten of fifty", "3 or 4: uncertain counts as bad where the gate would pass", "high", judged(10, (3, 4), label="uncertain")),
        ("a judge who answered half of the fifty", "3 or 4: the others are not measured", "high", judged(0, (3, 4), answered=25)),
        ("a judge who answered none of the fifty", "4: no_verdicts", "high", judged(0, (4,), answered=0)),
        ("another judge than the baseline's", "2 to 4, never 0: nobody measured how often it errs", "high", judged(0, (2, 3, 4), now="local/other")),
        ("two judges of one rubric, one praises all", "2 to 4, never 0: one must be named", "high", judged(25, (2, 3, 4), second="local/mild")),
        ("a judge's count without a baseline", "4: judge_not_calibrated", "high", judged(0, (4,), baseline=False)),
        ("a judge's count by its name", "3", "high", judged(10, (3,), gate=named, words="--tier rules,local/own")),
        ("a judge's count on forty good runs", "0, and the line says that it is compared with the baseline", "medium", judged(0, (0,), known=20, says="baseline")),
        ("a judge's rate beside failing runs of the rules", "0: nobody asked the rules", "medium", judged(0, (0,), gate=rate, words="--tier axes.termination", failing=25)),
        ("a judge's gate, and a rule's gate that fails", "3", "high", judged(0, (3,), gate=COUNT + "\noutcome = { min_rate = 0.9 }", failing=30)),
        ("a judge who finds detours in ten of fifty", "3", "high", judged(10, (3,), gate=DETOURS, label="DETOUR", words=steps)),
        ("a judge who finds no detour", "0", "medium", judged(0, (0,), gate=DETOURS, label="DETOUR", words=steps)),
        ("a judge's detours, and no tier", "0 or 4: listed and not run, holding nothing up; nothing else decides", "medium", judged(50, (0, 2, 4), gate=DETOURS, label="DETOUR", words="")),
        ("a judge's gate that is not run", "3: of the rules; it is listed", "high", _tiered(both, "", (3,), says="not run|source_not_in_tier")),
        ("a judge's gate over files", "3 or 4: the rules fail, and it has no verdicts", "high", _tiered(both, steps + " --undecided pass", (3, 4))),
        ("a judge's gate over whole files", "4: no_verdicts, whatever is said of the undecided", "high", _tiered(both, steps + " --undecided pass", (4,), rows=gates.runs())),
        ("a tier of judges alone over failing files", "4: no verdicts; the rules are not run", "high", _tiered(both, "--tier step_labels --undecided pass", (4,))),
        ("a judge's gate alone, and the tier of the rules", "2 or 4: a tier that no gate reads", "high", _tiered(alone, "--undecided pass", (2, 4))),
        ("a tier of nobody", "2", "medium", _tiered(both, "--tier nobody", (2,))),
        ("a tier of nobody beside the rules", "2", "high", _tiered(both, "--tier rules,nobody", (2, 3))),
        ("an empty tier", "2", "high", _tiered(both, "--tier ''", (2,))),
        ("a tier of commas", "2", "high", _tiered(both, "--tier ,,", (2,))),
        ("a tier of the rules in capitals", "2, or 3: never 0", "high", _tiered(both, "--tier RULES", (2, 3))),
        ("a tier with blanks", "2, or 3", "high", _tiered(both, "--tier ' rules , step_labels '", (2, 3, 4))),
        ("a tier of the settings without the rules", "4: the rules are not run, and judges said nothing", "high", _tiered(under, "--undecided pass", (4,))),
        ("a workflow's tier over that of all", "3: the workflow's outranks it", "high", _tiered(own, "", (3,))),
        ("a tier of the command line over the settings", "3", "high", _tiered(under, "--tier rules", (3,))),
        ("pytest: a tier without verdicts", "1: never skipped", "high",
         sixth._pytest('def test_gate(stepscope_gate):\n    stepscope_gate("w", runs="t", tier="rules,outcome").check(undecided="skip")\n', gates.runs(), (1,))),
        ("the action: a tier that is a command", "2, and nothing is made", "high", _acts("x; touch pwned")),
        ("the action: a tier that looks like an option", "2", "high", _acts("--selftest")),
        ("the action: a tier of two lines", "2", "high", _acts("rules\n--undecided=pass")),
    ]


def _acts(tier: str) -> Do:
    def do(place: Place) -> str:
        place.write("t/a.jsonl", [*gates.PASSING, *gates.FAILING])
        wrong = acted(place, (2,), runs="t", tier=tier)
        return "a command of it was run" if Path("pwned").exists() else wrong

    return do


def _self_rows() -> list[Row]:
    many = fleet(text="base", cases=range(100), trials=range(4))
    five = policy("outcome = { max_drop = 0.05 }\nno_new_modes = {}\nno_errors = { max_per_run = 0 }\nstep_efficiency = { max_ratio_to_baseline_median = 1.3 }\naxes.termination = { max_rate = 0.1 }")
    judge = policy("outcome = { max_drop = 0.05 }\n" + DETOURS)
    typed = "2: a share is from 0 to 1, and it is one line"
    return [
        ("a self-test", "0", "medium", checked("", (0,))),
        ("a self-test: shares within their intervals", "0 <= low <= value <= high <= 1", "medium", _shares),
        ("a self-test under another seed of hashes", "the same bytes", "medium", _same_bytes),
        ("a self-test before the first look", "it spends nothing", "high", _spends_nothing),
        ("a self-test of five gates and 400 runs that may take 6 s", "0, and it stops there", "high", checked("--json --max-minutes 0.1", (0,), before=many, text=five)),
        ("a self-test of one run", "0 or 4", "high", checked("--json", (0, 4), before=[told(1, 0, text="base")])),
        ("a self-test of runs that all fail", "0 or 4", "high", checked("--json", (0, 4), before=fleet(text="base", passed=False, since=0))),
        ("a self-test of a judge's gate outside of the tier", "0: it is not run", "medium", checked("--json", (0,), text=judge)),
        ("a self-test without its baseline", "4, or 2: never 0", "high", checked("", (2, 4), change=lambda _: Path("m.json").unlink())),
        ("a self-test of a torn baseline", "4, or 2: never 0", "high", checked("", (2, 4), change=lambda _: Path("m.json").write_text(Path("m.json").read_text("utf-8")[:200], "utf-8"))),
        *((f"a self-test with a drop of {drop!r}", typed, "medium", checked(f"--drop {shlex.quote(drop)}", (2,))) for drop in ("2", "-0.1", "nan", "x", "")),
        ("a drop without a self-test", "2: it is of --selftest", "low", _tiered(gates.policy(), "--drop 0.2", (2, 3))),
        ("a self-test as JUnit", "2, or XML", "medium", checked("--junit", (0, 2, 4))),
        ("a self-test of a workflow that nobody has", "2", "medium", checked("--workflow nobody", (2,))),
    ]


def _rest_rows() -> list[Row]:
    here, there = FORBIDS.format(w="w", t="c1"), FORBIDS.format(w="w", t="c2")
    stored = "--store n.db --undecided pass"
    taken = ("import t --store n.db", "score --store n.db")
    plain = sixth.named(fifth.BREACH, more=EFFECTS)
    other = '[[policy]]\nname = "r"\nforbid = "look"\n'
    broken = "3: the task's own rule is broken"
    rows: list[Row] = [
        *(_row(f"a rule above 100: {name}", codes, _ruled(LARGE, _pays(text), codes))
          for name, (text, codes) in AMOUNTS.items()),
        *(_row(f"a rule on what was looked up: {name}", codes, _ruled(PAID, said, codes), "0, 3 or 4: typed")
          for name, (said, codes) in LOOKUPS.items()),
        ("a rule of and and or: and binds closer", "3", "high", _ruled('forbid = "pay"\nwhen = "amount > 1000 and method = \'card\' or amount > 50 and method = \'cash\'"', _pays('{"amount": 60, "method": "cash"}'), (3,))),
        ("a rule of and and or: neither side", "0", "medium", _ruled('forbid = "pay"\nwhen = "amount > 1000 and method = \'card\' or amount > 50 and method = \'cash\'"', _pays('{"amount": 60, "method": "card"}'), (0,))),
        ("a rule on a number that differs", "0: 120 and $120.00 are equal", "medium", _ruled('forbid = "pay"\nwhen = "amount != 120"', _pays('{"amount": "$120.00"}'), (0,))),
        ("a rule on a field within an argument", "3", "high", _ruled('forbid = "pay"\nwhen = "payment.amount > 100"', _pays('{"payment": {"amount": "120"}}'), (3,))),
        ("a rule of a number of calls above an amount", "3: two above it, one allowed", "high", _ruled('forbid = "pay"\nwhen = "amount > 100"\nmax_calls = 1', [*_pays('{"amount": 120}', 8), *_pays('{"amount": 130}')], (3,))),
        ("a rule of a number of calls, one of them below", "0: one above it, one allowed", "medium", _ruled('forbid = "pay"\nwhen = "amount > 100"\nmax_calls = 1', [*_pays('{"amount": 12}', 8), *_pays('{"amount": 130}')], (0,))),
        ("a consent that large amounts need", "3: nobody consented", "high", _consented("120", (3,))),
        ("a consent that small amounts do not need", "0", "medium", _consented("20", (0,))),
        ("a case that forbids a tool", broken, "high", cased(HEAD + here, (3,))),
        ("a case that forbids it in another task", "0, or 4: no rule speaks of this task", "medium", cased(HEAD + there, (0, 4))),
        ("a case with a number, of this task", broken, "high", cased(HEAD + NUMBERS.format(t="c1"), (3,), run=WIPES_A)),
        ("a case with a number, of another task", "0, or 4", "medium", cased(HEAD + NUMBERS.format(t="c2"), (0, 4), run=WIPES_A)),
        ("a case that was not there at the score", broken, "high", cased(HEAD + here, (3, 4), first=taken, settings=plain, then={"stepscope.toml": CASED}, words=stored)),
        ("a case that comes alone, after the score", broken, "high", cased(HEAD + here, (3, 4), first=(*taken, "import --cases cases.toml --store n.db"), settings=plain, words=stored)),
        ("a case, and its trace once more", "3 or 4: an import of the trace takes nothing back", "high",
         cased(HEAD + here, (3, 4), first=("import t --store n.db --cases cases.toml", "score --store n.db", "import t --store n.db", "score --store n.db"), settings=plain, words=stored)),
        ("a case that is another at the gate", broken, "high", cased(HEAD + there, (3, 4), first=taken, then={"cases.toml": HEAD + here}, words=stored)),
        ("a file of cases that is torn at the gate", "2", "high", cased(HEAD + here, (2,), first=taken, then={"cases.toml": HEAD + here[:20]}, words=stored)),
        ("a file of cases that is gone at the gate", "2", "high", cased(HEAD + here, (2,), first=taken, gone="cases.toml", words=stored)),
        ("a file of cases that is gone, over files", "2", "high", cased(HEAD + here, (2,), gone="cases.toml")),
        ("a case of a workflow in capitals", "0, 2 or 4: it is of another workflow, and is named", "medium", cased(HEAD + FORBIDS.format(w="W", t="c1"), (0, 2, 4))),
        ("a rule of the settings beside a case's", "3", "high", cased(HEAD + here, (3,), settings=CASED + other)),
        *(_row(f"runs that tell {name}", codes, _keyed(keys, codes), "3 or 4: nobody passed") for name, (keys, codes) in OUTCOMES.items()),
        *((f"a rule against it: Gemini, {name}", "3", "high", fifth._forbidden("gemini_contents", text)) for name, text in GEMINI.items()),
        ("an error by Gemini's key", "3: the tool says that it failed", "high", _errors({"error": "no such disk"})),
        ("an error by a text of Gemini's tool", "3", "high", _errors({"result": "Error: no such disk"})),
    ]
    return rows


def _consented(amount: str, codes: tuple[int, ...]) -> Do:
    def do(place: Place) -> str:
        rule = '[[policy]]\nname = "r"\nbefore = "pay"\nrequire = "confirm"\nwhen = "amount > 50"\n'
        place.write("stepscope.toml", sixth.named(fifth.BREACH, more=rule + EFFECTS))
        place.write("t/a.json", fifth._chat(sixth._says("user", "What do I owe?"), *_pays(json.dumps({"amount": int(amount)})), asked=False))
        return coded(place.run("gate", "--runs", "t"), codes)

    return do


def cases() -> list[Case]:
    """Return the cases of this module."""
    rows = [*_mode_rows(), *_judge_rows(), *_self_rows(), *_rest_rows()]
    return [Case("gates", name, expected, severity, do, round=7) for name, expected, severity, do in rows]
