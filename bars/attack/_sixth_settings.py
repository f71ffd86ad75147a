"""The sixth round: settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. What schemas of tools forbid and in which shapes they come, alternatives, claims and needs,
forms of secrets made of the signs of JSON, the environment, programs in the working folder, noughts.
"""

# fmt: off
from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack._cases import Broken, Case, Place, coded, one_line
from bars.attack._fifth import _chat
from bars.attack._fourth import BAD, Do, Row, placed
from bars.attack._fourth_outputs import clean
from bars.attack._sixth import _did, _says, named
from bars.attack._third import strict

CHECKED = "[workflow.w]\ntools = \"x.json\"\n[workflow.w.gates]\ntool_schema = { max_per_run = 0 }\n"


# ---- schemas of tools


def _offered(tools: object, arguments: object, codes: tuple[int, ...], *, name: str = "x.json", text: str = CHECKED,
             words: str = "--runs t", raw: Callable[[str], bytes] | None = None, extra: Mapping[str, str] | None = None) -> Do:
    """Return what gates a call of `book` with these arguments by a list of tools."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        for other, content in (extra or {}).items():
            place.write(other, content)
        made = json.dumps(tools)
        place.write(name, raw(made) if raw else made)
        said = [_says("user", "Book it, please."), *_did("book", 1, "booked", json.dumps(arguments)), _says("assistant", "It is booked.")]
        place.write("t/a.json", _chat(*said, asked=False))
        done = place.run("gate", *shlex.split(words))
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _listed(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "book", "input_schema": schema}]


OBJECT: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SCHEMAS: dict[str, tuple[dict[str, Any], object, int]] = {
    "what is required is missing": (OBJECT, {}, 3),
    "a number that is a text": (OBJECT, {"n": "7"}, 3),
    "a whole number written as 7.0": (OBJECT, {"n": 7.0}, 0),
    "a type by a reference": ({"type": "object", "$defs": {"d": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/d"}}}, {"n": "x"}, 3),
    "an element of a list within an object": ({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "array", "items": {"enum": ["x", "y"]}}}}}}, {"a": {"b": ["x", "z"]}}, 3),
    "a key that is not allowed": ({**OBJECT, "additionalProperties": False}, {"n": 1, "m": 2}, 3),
    "none of several": ({"type": "object", "properties": {"n": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}}}, {"n": 3}, 3),
    "one of several": ({"type": "object", "properties": {"n": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}}}, {"n": None}, 0),
}  # fmt: skip
SHAPES: dict[str, tuple[object, tuple[int, ...]]] = {
    "of OpenAI": ([{"type": "function", "function": {"name": "book", "description": "b", "parameters": OBJECT}}], (3,)),
    "of OpenAI's Responses": ([{"type": "function", "name": "book", "parameters": OBJECT, "strict": True}], (3,)),
    "of MCP": ([{"name": "book", "description": "b", "inputSchema": OBJECT}], (3,)),
    "of MCP, under tools": ({"tools": [{"name": "book", "inputSchema": OBJECT}]}, (2, 3)),
    "of MCP, as the server answered": ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "book", "inputSchema": OBJECT}]}}, (2, 3)),
}  # fmt: skip


# ---- alternatives, claims, needs


def _spoken(gate: str, said: list[dict[str, Any]], more: str, codes: tuple[int, ...]) -> Do:
    """Return what gates one conversation by a gate, under more settings."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", named(gate, more=more))
        place.write("t/a.json", _chat(*said, asked=False))
        return coded(place.run("gate", "--runs", "t"), codes)

    return do


PAYS = [_says("user", "Pay bill 7, please."), *_did("pay_by_card", 1, "Error: card was declined", '{"bill": "B7", "card": "x"}'),
        *_did("transfer_money", 2, "done", '{"to": "landlord"}'), _says("assistant", "I did it another way.")]
BOTH = '[alternatives]\npay_by_card = ["transfer_money"]\n'
CLAIM = '[claims]\n"storniert" = ["cancel_order"]\n'
WISH = _says("user", "Storniere Bestellung W7, bitte. Ja, jetzt.")
DONE = _says("assistant", "Ihre Bestellung W7 ist storniert.")
CANCELS = _did("cancel_order", 1, "cancelled", '{"order": "W7"}')
FAILS = _did("cancel_order", 1, "Error: order W7 was not found", '{"order": "W7"}')


def _needs(argument: str, value: object, codes: tuple[int, ...]) -> Do:
    """Return what gates a cancellation of W7 after a look at something, by a need for the same order."""
    said = [_says("user", "Cancel order W7 and look at W8. Yes, do it now."), *_did("look", 1, "W7, W8: open", json.dumps({argument: value})), *_did("cancel", 2, "ok", '{"order": "W7"}'),
            _says("assistant", "W7 is cancelled.")]
    rule = '[[precondition]]\ntool = "cancel"\nafter = "look"\nby = "order"\n[tools]\ncancel = "write"\nlook = "read"\n'
    return _spoken("axes.sequencing = { max_rate = 0 }", said, rule, codes)


# ---- forms of secrets, the environment, the working folder


def _form(begins: str, characters: str = "A-Za-z0-9_", least: int = 1) -> Do:
    """Return what shows runs under a form of secrets that is made of the signs of a format: each stays whole."""

    def do(place: Place) -> str:
        text = f"[[redaction.secret]]\nkind = 'own'\nbegins = {json.dumps(begins)}\ncharacters = '{characters}'\nleast = {least}\n"
        place.write("stepscope.toml", text + gates.policy("outcome = { min_rate = 1.0 }", ""))
        placed(place, BAD)
        first = place.run("import", "t", "--store", "c.db")
        if first.code == 2:
            return one_line(first, (2,))
        place.must("score", "--store", "c.db")
        for words in ("show w/c1/2 --json", "report --json", "report --json --by name", "gate --runs t --json", "gate --runs t --junit", "report --junit", "report --html r.html --embed all", "agree --json"):
            done = place.run(*words.split(), *([] if words.startswith("gate") else ["--store", "c.db"]))
            if wrong := coded(done, (0, 2, 3, 4)):
                return f"{words}: {wrong}"
            if "--json" in words and done.out.strip():
                strict(done.out)
            if "--junit" in words and done.out.strip():
                ElementTree.fromstring(done.out)
        page = Path("r.html").read_text("utf-8") if Path("r.html").exists() else "<html></html>"
        return "" if "<html" in page and page.rstrip().endswith("</html>") else "the page is broken"

    return do


def _under(words: tuple[str, ...], same: bool = True, **environment: str) -> Do:
    """Return what runs commands in another environment: the same bytes, or at least typed."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy("outcome = { min_rate = 0.9 }", ""))
        placed(place, BAD)
        clean(place, [gates.line(c, 0) for c in range(6)])
        for one in words:
            command = [*shlex.split(one), *([] if one.startswith("gate") else ["--store", "c.db"])]
            done = place.spawn(*command, environment=environment)
            if wrong := coded(done, (0, 3, 4)):
                return f"{one}: {wrong}"
            if same and done.out != place.run(*command).out:
                return f"{one}: other bytes: {done.out[:80]!r}"
            if "\x1b" in done.out:
                return f"{one}: escape sequences"
        return ""

    return do


EVIL = "open('pwned', 'a').write(__name__)\nraise SystemExit('pwned')\n"


def _evil_folder(*commands: str, names: tuple[str, ...]) -> Do:
    """Return what runs commands in a folder that holds programs of well-known names: none is run."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy("outcome = { min_rate = 0.9 }", ""))
        placed(place, {f"{n}.jsonl": [gates.line(c, n, text=f"t{n}") for c in gates.CASES] for n in range(4)})
        for name in names:
            place.write(name, EVIL)
        for words in commands:
            done = place.spawn(*shlex.split(words))
            if Path("pwned").exists():
                raise Broken(f"{words}: a program of the folder was run: {Path('pwned').read_text('utf-8')}")
            if wrong := coded(done, (0, 3, 4)):
                return f"{words}: {wrong}"
        return ""

    return do


def _noughts(place: Place) -> str:
    """A nought on the command line is a nought, whatever the settings say."""
    place.write("stepscope.toml", "seed = 5\n")
    clean(place)
    told = strict(place.must("report", "--json", "--seed", "0", "--look-first", "0", "--store", "c.db").out)
    if told["provenance"]["seed"] != 0 or told["look_first"]:
        return f"seed {told['provenance']['seed']}, {len(told['look_first'])} to look at first"
    told = strict(place.must("report", "--json", "--store", "c.db").out)
    return "" if told["provenance"]["seed"] == 5 else f"seed {told['provenance']['seed']}, not that of the settings"


def _weighed(score: str, *, fails: bool) -> Do:
    """Return what scores a step of weight 3: below .6 it fails the run, and `show` says so."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", '[weights.w]\n"*" = [1, 3, 1]\n')
        place.write("s.csv", ["run,step,score,workflow,task", "a,0,0.9,w,1", f"a,1,{score},w,1", "a,2,0.9,w,1"])
        place.must("import", "s.csv", "--store", "c.db")
        place.must("score", "--store", "c.db")
        done = place.must("show", "a", "--store", "c.db")
        return "" if ("gate failed at 1" in done.out) == fails else f"{score}: {done.out[-400:]!r}"

    return do


def _settings_rows() -> list[Row]:
    broken, fine = "3: it breaks the schema", "0: it fits the schema"
    recovered = "no_errors = { max_per_run = 0, recovered = 'allowed' }"
    read = "axes.result_interpretation = { max_rate = 0 }"
    whole = "strict JSON, XML and a whole page, or 2"
    same = "the same bytes, no escape sequence"
    none = "no program of the working folder is run"
    modules = ("json.py", "msgspec.py", "numpy.py", "sitecustomize.py", "usercustomize.py", "stepscope.py", "rich.py", "sqlite3.py", "typing.py", "encodings.py", "__init__.py", "conftest.py")
    outs = ("gate --runs t",)
    other = CHECKED.replace('"x.json"', '"c/x.json"')
    return [
        *((f"a call that breaks a schema: {name}" if code else f"a call that fits a schema: {name}", broken if code else fine, "high" if code else "medium", _offered(_listed(schema), arguments, (code,)))
          for name, (schema, arguments, code) in SCHEMAS.items()),
        *((f"a list of tools {name}", "3: the call breaks its schema" if codes == (3,) else "3, or 2: never green", "high", _offered(tools, {}, codes)) for name, (tools, codes) in SHAPES.items()),
        ("a list of tools in UTF-16", "2, or 3: never green", "high", _offered(_listed(OBJECT), {}, (2, 3), raw=lambda text: text.encode("utf-16"))),
        ("a list of tools beside settings of another folder", "3: it is relative to the settings", "high",
         _offered(_listed(OBJECT), {}, (3,), name="c/x.json", words="--runs t --config c", text="", extra={"c/stepscope.toml": CHECKED})),
        ("a list of tools that the settings do not have beside them", "2: there is no such file", "medium", _offered(_listed(OBJECT), {}, (2,), words="--runs t --config c", text="", extra={"c/stepscope.toml": other})),
        ("an error, and another tool that succeeds", "3: nobody said that it serves the same purpose", "high", _spoken(recovered, PAYS, "", (3,))),
        ("an error, and an alternative that succeeds", "0: recovered", "medium", _spoken(recovered, PAYS, BOTH, (0,))),
        ("a claim in words of one's own, and no call", "3: said after none of its tools has succeeded", "high", _spoken(read, [WISH, DONE], CLAIM, (3,))),
        ("a claim in words of one's own after a call that failed", "3", "high", _spoken(read, [WISH, *FAILS, DONE], CLAIM, (3,))),
        ("a claim in words of one's own after its call", "0, or 4: nothing is proved", "medium", _spoken(read, [WISH, *CANCELS, DONE], CLAIM, (0, 4))),
        ("a need for the same order, and it was", "0, or 4: nothing is proved", "medium", _needs("order", "W7", (0, 4))),
        ("a need for the same order, and it was another", "3: out of order", "high", _needs("order", "W8", (3,))),
        ("a form of secrets that begins a value of JSON", whole, "high", _form('": "')),
        ("a form of secrets that ends a text of JSON", whole, "high", _form('","')),
        ("a form of secrets that is a mark of a page", whole, "high", _form("<scr", "a-z", 3)),
        ("colours that are forced", same, "medium", _under(outs, FORCE_COLOR="1", CLICOLOR_FORCE="1", COLORTERM="truecolor", TERM="xterm-256color", TTY_COMPATIBLE="1")),
        ("warnings that are errors", "0, 3 or 4: no bug", "medium", _under(("report --html r.html",), same=False, PYTHONWARNINGS="error")),
        ("no assertions", same, "high", _under(outs, PYTHONOPTIMIZE="2")),
        ("programs of well-known names in the folder", none, "high", _evil_folder("gate --runs t", names=modules)),
        ("programs of well-known names in the folder, three workers", none, "high", _evil_folder("import t --workers 3", names=modules)),
        ("noughts on the command line", "seed 0, and none to look at first", "medium", _noughts),
        ("a step of weight 3 at .60", "it does not fail: below .6 fails", "medium", _weighed("0.6", fails=False)),
        ("a step of weight 3 at .599", "it fails the run", "medium", _weighed("0.599", fails=True)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("settings", name, expected, severity, do, round=6) for name, expected, severity, do in _settings_rows()]
