"""The seventh round: settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Conditions of rules that make no sense, cases in TOML and in lines of JSON, cases that settings
name, tiers, sub-goals that wait for each other, plugins that call themselves as ours do.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from bars.attack import _gates as gates
from bars.attack import _seventh as seventh
from bars.attack import _sixth as sixth
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fifth import _chat
from bars.attack._fourth import Do, Row
from bars.attack._fourth_settings import _own

Files = Mapping[str, str | bytes]
RULE = '[[policy]]\nname = "r"\nforbid = "book"\n'


def given(files: Files, words: str, codes: tuple[int, ...], *, says: str = "", before: Callable[[], object] | None = None) -> Do:
    """Return what runs a command beside these files: a code, one line where it is an error."""

    def do(place: Place) -> str:
        for name, text in files.items():
            place.write(name, text)
        if before:
            before()
        done = place.run(*shlex.split(words))
        return one_line(done, codes, says) if done.code in (2, 5) else coded(done, codes, says=says)

    return do


# ---- conditions

BAD_CONDITIONS: dict[str, str] = {
    "that ends early": "amount >",
    "that begins late": "> 100",
    "of two operators": "amount > > 100",
    "of no operator": "amount 100",
    "of a field alone": "amount",
    "of a turned arrow": "amount => 100",
    "of Unicode's sign": "amount \u2265 100",
    "that ends in and": "amount > 100 and",
    "that begins with or": "or amount > 100",
    "of and, twice": "amount > 1 and and amount < 2",
    "of a text that is never closed": "method = 'cash",
    "of SQL behind it": "amount > 1; drop table runs",
    "of a remark": "amount > 1 -- all",
    "of a call": "len(amount) > 1",
    "of a sum": "amount + 1 > 100",
    "of a name of nothing": ".amount > 1",
    "of a name with two stops": "order..total > 1",
    "of a name that ends in a stop": "order. > 1",
    "of blanks": "   ",
    "of NUL": "amount > 1\\u0000",
    "of a chain": "1 < amount < 100",
    "of a list": "amount in (1, 2)",
    "of a number of two stops": "amount > 1.2.3",
    "of a number with a comma": "amount > 1,000",
}
# What is not said, or may be understood: typed, and at once.
ODD_CONDITIONS: dict[str, str] = {
    "of two equals signs": "amount == 100",
    "of brackets": "(amount > 100)",
    "of not": "not amount > 100",
    "of numbers alone": "1 > 0",
    "of an endless number": "amount > 1e999",
    "of 5,000 digits": "amount > " + "9" * 5000,
    "of 20,000 parts": " or ".join(["amount > 1"] * 20_000),
    "of 5,000 brackets": "(" * 5000 + "amount > 1" + ")" * 5000,
    "of a name of 100,000 signs": "a" * 100_000 + " > 1",
    "of a name in another script": "\u91d1\u984d > 1",
    "of 3,000 stops": ".".join("a" for _ in range(3000)) + " > 1",
    "of capital words": "amount > 1 AND amount < 2",
}


def _condition(text: str, key: str = "when") -> str:
    return RULE + f'{key} = "{text}"\n'


# ---- cases

TASK = '[[task]]\nworkflow = "w"\ntask = "a"\n'
HEAD = "version = 2\n"
GOAL = "[[task.goals]]\n"
BAD_CASES: dict[str, str] = {
    "of a key nobody knows": HEAD + TASK + 'colour = "red"\n',
    "of a table nobody knows": HEAD + "[other]\na = 1\n" + TASK,
    "of a version that is to come": "version = 99\n" + TASK,
    "of a version that is a text": 'version = "two"\n' + TASK,
    "without a task": HEAD + '[[task]]\nworkflow = "w"\nexpected = ["x"]\n',
    "of a task that is a list": HEAD + '[[task]]\nworkflow = "w"\ntask = ["a"]\n',
    "of one task twice": HEAD + TASK + TASK,
    "of expected calls that are numbers": HEAD + TASK + "expected = [7]\n",
    "of expected calls that are a text": HEAD + TASK + 'expected = "get_order"\n',
    "of an expected call without a name": HEAD + TASK + "expected = [{ arguments = { a = 1 } }]\n",
    "of an expected call with a key more": HEAD + TASK + 'expected = [{ name = "x", args = { a = 1 } }]\n',
    "of arguments that are a list": HEAD + TASK + 'expected = [{ name = "x", arguments = [1] }]\n',
    "of what must be told as a number": HEAD + TASK + "must_tell = [80]\n",
    "of what must be told as a text": HEAD + TASK + 'must_tell = "80"\n',
    "of forbidden tools that are a text": HEAD + TASK + 'forbidden = "delete"\n',
    "of forbidden tools that are numbers": HEAD + TASK + "forbidden = [1]\n",
    "of an order nobody knows": HEAD + TASK + 'order = "sorted"\n',
    "of weights of 4": HEAD + TASK + "weights = [4]\n",
    "of weights that are texts": HEAD + TASK + 'weights = ["1"]\n',
    "of tags that are a list": HEAD + TASK + 'tags = ["a"]\n',
    "of a goal without a sentence": HEAD + TASK + GOAL + 'tool = "x"\n',
    "of a goal that is found in no way": HEAD + TASK + GOAL + 'goal = "Does it."\n',
    "of a goal that is found in two ways": HEAD + TASK + GOAL + 'goal = "Does it."\ntool = "x"\nmessage = "last"\n',
    "of a goal that waits for itself": HEAD + TASK + GOAL + 'name = "g"\ngoal = "Does it."\ntool = "x"\nafter = ["g"]\n',
    "of goals that wait for each other": HEAD + TASK + GOAL + 'name = "g"\ngoal = "A."\ntool = "x"\nafter = ["h"]\n' + GOAL + 'name = "h"\ngoal = "B."\ntool = "y"\nafter = ["g"]\n',
    "of a goal that waits for nobody": HEAD + TASK + GOAL + 'goal = "Does it."\ntool = "x"\nafter = ["nobody"]\n',
    "of two goals of one name": HEAD + TASK + GOAL + 'name = "g"\ngoal = "A."\ntool = "x"\n' + GOAL + 'name = "g"\ngoal = "B."\ntool = "y"\n',
    "of a goal that is a draft": HEAD + TASK + GOAL + 'goal = "Does it."\ntool = "x"\nconfirmed = false\n',
    "of a message that is neither first nor last": HEAD + TASK + GOAL + 'goal = "Says it."\nmessage = "middle"\n',
    "of a rule that says nothing": HEAD + TASK + '[[task.policy]]\nname = "r"\n',
    "of a rule without a name": HEAD + TASK + '[[task.policy]]\nforbid = "x"\n',
    "of a rule of a condition that makes no sense": HEAD + TASK + '[[task.policy]]\nname = "r"\nforbid = "x"\nwhen = "amount >"\n',
    "of two rules of one name": HEAD + TASK + '[[task.policy]]\nname = "r"\nforbid = "x"\n[[task.policy]]\nname = "r"\nforbid = "y"\n',
    "of a tool list that is not there": HEAD + TASK + 'tools = "nowhere.json"\n',
    "of a tool list that is a folder": HEAD + TASK + 'tools = "."\n',
    "of a tool list that never ends": HEAD + TASK + 'tools = "/dev/zero"\n',
    "of no TOML": "version = 2\n[[task",
    "of noise": "\x00\x01\x02",
    "of a key twice": HEAD + TASK + 'request = "a"\nrequest = "b"\n',
    "of a task that is a table": HEAD + '[task]\nworkflow = "w"\ntask = "a"\n',
}
LINE = {"workflow": "w", "task": "a", "expected": ["x"]}
BAD_LINES: dict[str, str | bytes] = {
    "a list": "[1]\n",
    "a number": "7\n",
    "a key nobody knows": json.dumps({**LINE, "colour": 1}),
    "no task": json.dumps({"workflow": "w", "expected": ["x"]}),
    "a key twice": '{"workflow": "w", "task": "a", "task": "b", "expected": ["x"]}',
    "no number": '{"workflow": "w", "task": "a", "expected": [{"name": "x", "arguments": {"a": NaN}}]}',
    "one that is cut": json.dumps(LINE)[:-3],
    "5,000 brackets": '{"workflow": "w", "task": "a", "expected": ' + "[" * 5000 + "]" * 5000 + "}",
    "UTF-16": json.dumps(LINE).encode("utf-16"),
    "bytes that are no UTF-8": json.dumps(LINE).encode()[:-1] + b', "request": "\xff"}',
    "one task, twice": json.dumps(LINE) + "\n" + json.dumps(LINE),
    "a draft of a goal": json.dumps({**LINE, "goals": [{"goal": "A.", "tool": "x", "confirmed": False}]}),
}
GOOD_CASES: dict[str, tuple[str, str | bytes]] = {
    "with a mark of UTF-8": ("c.toml", b"\xef\xbb\xbf" + (HEAD + TASK).encode()),
    "in lines of Windows": ("c.toml", (HEAD + TASK).replace("\n", "\r\n")),
    "with blank lines between": ("c.jsonl", "\n" + json.dumps(LINE) + "\n\n" + json.dumps({**LINE, "task": "b"}) + "\n"),
    "with names in other scripts": ("c.toml", HEAD + '[[task]]\nworkflow = "\u4e88\u7d04"\ntask = "\u202e\\n"\nforbidden = ["\u200b"]\n'),
    "of 5,000 tasks": ("c.jsonl", "\n".join(json.dumps({**LINE, "task": f"t{n}"}) for n in range(5000))),
    "of 3,000 goals": ("c.jsonl", json.dumps({**LINE, "goals": [{"name": f"g{n}", "goal": "A.", "tool": f"x{n}", "after": [f"g{n - 1}"] if n else []} for n in range(3000)]})),
}


def _odd_place(kind: str) -> Callable[[], object]:
    """Return what puts something odd in the place of a file of cases."""

    def do() -> None:
        path = Path("c.toml")
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "zeros":
            path.symlink_to("/dev/zero")
        elif kind == "loop":
            path.symlink_to("c.toml")
        elif kind == "empty folder":
            path.mkdir()
        elif kind == "folder of other files":
            path.mkdir()
            (path / "README.md").write_text("# cases", "utf-8")

    return do


NAMED = '[workflow.w]\ncases = {}\n'
SETTINGS: dict[str, str] = {
    "a number": NAMED.format("5"),
    "a list": NAMED.format('["c.toml"]'),
    "true": NAMED.format("true"),
    "nothing": NAMED.format('""'),
    "a file that is not there": NAMED.format('"nowhere.toml"'),
    "this folder's store": NAMED.format('"stepscope.db"'),
    "a name with NUL": NAMED.format('"c\\u0000.toml"'),
    "/dev/zero": NAMED.format('"/dev/zero"'),
    "the settings": NAMED.format('"stepscope.toml"'),
    "a file of another kind": NAMED.format('"t.jsonl"'),
}
TIERS: dict[str, str] = {
    "a key nobody knows": "[gate]\ntiers = ['rules']\n",
    "a number": "[gate]\ntier = 1\n",
    "a list of numbers": "[gate]\ntier = [1]\n",
    "a list of lists": "[gate]\ntier = [['rules']]\n",
    "a list of tables": "[[gate]]\ntier = ['rules']\n",
    "true": "[gate]\ntier = true\n",
    "a workflow's number": "[workflow.w]\ntier = 3\n",
    "an empty word": "[gate]\ntier = ['']\n",
}


# ---- sub-goals, rules and cases at once


def _goals_too(place: Place) -> str:
    """A goals.toml is a file of cases, and a file of cases holds goals for judges: the same file, both ways."""
    text = HEAD + '[[task]]\nworkflow = "openai_messages"\ntask = "a"\n' + GOAL + 'name = "g"\ngoal = "Books it."\ntool = "book"\nconfirmed = true\n'
    place.write("goals.toml", text)
    done = place.run("import", "--cases", "goals.toml")
    return coded(done, (0,)) or coded(place.run("judge", "--judge", "openai/gpt-5", "--rubric", "no_look", "--goals", "goals.toml", "--dry-run"), (0, 2, 4))


def _elsewhere(place: Place) -> str:
    """Cases of settings in another folder are relative to those settings."""
    place.write("conf/stepscope.toml", gates.policy("policy = { max_per_run = 0 }", 'cases = "c.toml"') + seventh.EFFECTS)
    place.write("conf/c.toml", HEAD + '[[task]]\nworkflow = "w"\ntask = "c1"\nforbidden = ["wipe"]\n')
    place.write("t/a.json", seventh.WIPES)
    return coded(place.run("gate", "--runs", "t", "--config", "conf"), (3,))


def _drafts(place: Place) -> str:
    """Settings whose cases hold an error: every command that takes them says the same one line."""
    place.write("stepscope.toml", NAMED.format('"c.toml"'))
    place.write("c.toml", HEAD + TASK + 'colour = "red"\n')
    place.write("n.jsonl", gates.line(1, 1))
    for words in ("import n.jsonl --store n.db", "score"):
        if wrong := one_line(place.run(*words.split()), (2,), says=r"c\.toml"):
            return f"{words}: {wrong}"
    return ""


def _plugin(name: str, codes: tuple[int, ...] = (0, 2, 4)) -> Do:
    """Return what scores by a measure that is called so, and then reports and gates."""

    def do(place: Place) -> str:
        place.write("own.py", _own(f'return [Verdict({name!r}, 1.0, cites=(1,), reason="\\x1b[31m::error::")]', name))
        done = place.run("score", "--measure", "own.py:MEASURE")
        if wrong := one_line(done, codes) if done.code == 2 else coded(done, codes):
            return wrong
        for words in ("report --json", "report --where 'mode = null' --json", "report --markdown", "show openai_messages/t --json"):
            if wrong := coded(place.run(*shlex.split(words)), (0, 2, 4)):
                return f"{words}: {wrong}"
        return ""

    return do


def _numbers_of_rules(place: Place) -> str:
    """A rule that is added to the settings is answered by the next score, and taken away again is gone."""
    place.write("t.jsonl", _chat(sixth._says("user", "Pay for order W7, please."), *seventh._pays('{"amount": 120}'), asked=False))
    place.must("import", "t.jsonl", "--store", "n.db")
    rule = '[[policy]]\nname = "large"\nforbid = "pay"\nwhen = "amount > 100"\n'
    for text, breaches in ((rule, True), ("", False), (rule.replace("100", "500"), False), (rule, True)):
        place.write("stepscope.toml", text + seventh.EFFECTS)
        place.must("score", "--store", "n.db")
        said = place.must("show", "w/c1/0", "--store", "n.db").out
        if ("large" in said) != breaches:
            return f"{text[-14:]!r}: {'no breach' if breaches else 'a breach'} is shown"
    return ""


def _settings_rows() -> list[Row]:
    no, typed = "2: one line", "0 or 2: typed, at once"
    case = "2: one line that names the place"
    long = RULE + "when = 'amount > 1'\nunless = 'amount > 1'\n"
    whole = "0: it is read"
    imports = "import --cases c.toml"
    return [
        *((f"a condition {name}", no, "medium", given({"stepscope.toml": _condition(text)}, "score", (2,))) for name, text in BAD_CONDITIONS.items()),
        *((f"a condition {name}", typed, "high", given({"stepscope.toml": _condition(text)}, "score", (0, 2))) for name, text in ODD_CONDITIONS.items()),
        ("a condition that is a number", no, "medium", given({"stepscope.toml": RULE + "when = 5\n"}, "score", (2,))),
        ("a condition that is a list", no, "medium", given({"stepscope.toml": RULE + "when = ['amount > 1']\n"}, "score", (2,))),
        ("a condition of unless that ends early", no, "medium", given({"stepscope.toml": _condition("amount <=", "unless")}, "score", (2,))),
        ("a condition, and the same to spare", typed, "medium", given({"stepscope.toml": long}, "score", (0, 2))),
        ("a condition without a rule", no, "medium", given({"stepscope.toml": "[[policy]]\nname = 'r'\nwhen = 'amount > 1'\n"}, "score", (2,))),
        ("a condition that settings turn to and fro", "each score answers the rules as they are", "high", _numbers_of_rules),
        *((f"a file of cases {name}", case, "medium", given({"c.toml": text}, imports, (2,), says=r"c\.toml")) for name, text in BAD_CASES.items()),
        *((f"lines of cases: {name}", "2: one line that names the file", "medium", given({"c.jsonl": text}, "import --cases c.jsonl", (2,), says=r"c\.jsonl")) for name, text in BAD_LINES.items()),
        *((f"a file of cases {name}", whole, "medium", given({name_: text}, f"import --cases {name_}", (0,))) for name, (name_, text) in GOOD_CASES.items()),
        *((f"a file of cases that is a {kind}", "2, or 0 for a folder: one line, at once", "high", given({}, imports, (0, 2) if "folder" in kind else (2,), before=_odd_place(kind)))
          for kind in ("pipe", "zeros", "loop", "empty folder", "folder of other files")),
        ("a file of cases of nothing", "0 or 2: typed", "medium", given({"c.toml": ""}, imports, (0, 2))),
        ("a file of cases of 20 MB of a remark", "0 or 2, at once", "high", given({"c.toml": "# " + "x" * 20_000_000 + "\n" + HEAD + TASK}, imports, (0, 2))),
        ("a file of cases that is not there", "2", "medium", given({}, "import --cases nowhere.toml", (2,))),
        ("cases and verdicts at once", "2, or both are done", "medium", given({"c.toml": HEAD + TASK, "v.csv": "run,label\n"}, f"{imports} --verdicts v.csv --rubric axes.termination", (0, 2))),
        *((f"cases that settings name: {name}", no, "high", given({"stepscope.toml": text}, "score", (2,))) for name, text in SETTINGS.items()),
        ("cases that settings name, with an error", "2: one line that names the file", "medium", _drafts),
        ("cases beside settings of another folder", "3: they are relative to the settings", "high", _elsewhere),
        ("goals as cases, and cases as goals", "0: the file is the same", "medium", _goals_too),
        *((f"a tier of settings: {name}", no, "medium", given({"stepscope.toml": gates.policy().replace("[workflow.w]\n", text, 1) if "workflow" in text else text + gates.policy()}, "gate --runs t.jsonl", (2,)))
          for name, text in TIERS.items()),
        ("a tier of settings: an empty list", "2 or 4: never 0", "high", given({"stepscope.toml": "[gate]\ntier = []\n" + gates.policy("outcome = { min_rate = 0.1 }", "")}, "gate --runs t.jsonl", (2, 4))),
        ("a tier of settings: a word", "2, 3 or 4: never 0", "medium", given({"stepscope.toml": "[gate]\ntier = 'rules'\n" + gates.policy("outcome = { min_rate = 0.1 }", "")}, "gate --runs t.jsonl", (2, 3, 4))),
        *((f"a measure called {name}", "0 or 2: typed; reports and conditions on modes stay typed", "high", _plugin(name)) for name in ("modes", "no_new_modes", "mode", "policy", "step_labels.errors", "judge.axes.termination", "x" * 3000)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("settings", name, expected, severity, do, round=7) for name, expected, severity, do in _settings_rows()]
