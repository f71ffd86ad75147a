"""The eighth round: settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Options that contradict each other or have nothing to do, numbers beyond every machine, widths
and languages of terminals, settings that are there already, folders of cases beside promoted ones.
"""

# fmt: off
from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _seventh as seventh
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._eighth import script, typed
from bars.attack._fourth import Do, Row
from bars.attack._seventh import OK, TAKEN, told
from bars.attack._seventh_settings import Files, given

CASE = 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nforbidden = ["wipe"]\n'
CSV = "run,label,judge\nopenai_messages/t,correct,ann\n"
FILES: Files = {"c.toml": CASE, "v.csv": CSV, "o.csv": "run,outcome,who\nopenai_messages/t,fail,check\n", "n.jsonl": gates.line(1, 0),
                "stepscope.toml": gates.policy("outcome = { min_rate = 0.9 }", "")}

# Options of one command that have nothing to do there, or contradict each other: never in silence.
IMPORTS = ("--set-aside --tag k=v", "--set-aside --agent a", "--set-aside --cases c.toml", "--set-aside --strict", "--set-aside --verdicts v.csv --rubric axes.termination", "n.jsonl --human", "n.jsonl --map run=a", "n.jsonl --labels a=b",
           "n.jsonl --rubric axes.termination", "n.jsonl --rater ann", "n.jsonl --since 7d", "n.jsonl --quiet 3", "n.jsonl --keep-all", "--cases c.toml --tag k=v", "--cases c.toml --agent a", "--cases c.toml --strict",
           "--outcomes o.csv --verdicts v.csv --rubric axes.termination", "--outcomes o.csv --tag k=v", "--verdicts v.csv --rubric axes.termination --agent a", "--outcomes o.csv --cases c.toml", "--listen 127.0.0.1:1 127.0.0.1:2", "--listen 127.0.0.1:0 --cases c.toml --set-aside")
OTHERS = ("report --embed 3", "report --gates g.json", "report --get outcome.pass --junit", "report --get outcome.pass --html r.html", "report --get outcome.pass --by task", "report n.jsonl --store folder", "agree --csv", "agree --modes --queue 3", "agree --queue 3 --json --csv",
          "gate --drop 0.3", "gate --markdown --junit", "gate --markdown --json", "mcp --skill --json", "mcp --skill --gates g.json", "export x.jsonl --to phoenix:x", "export x.jsonl --verdicts gen_ai", "export x --format atif --verdicts only", "export --salvage", "export o.db --salvage --where \"task = 't'\"", "purge --yes", "purge --older-than 3d --where", "compare a", "list --by", "diff openai_messages/t")
HUGE = ("list --limit 99999999999999999999", "list --limit 9223372036854775807", "report --look-first 99999999999999999999", "report --seed 99999999999999999999", "report --html r.html --embed 99999999999999999999", "case promote openai_messages/t --step 99999999999999999999", "import n.jsonl --trial 99999999999999999999",
        "import n.jsonl --workers 99999999999999999999", "score --workers 99999999999999999999", "agree --queue 99999999999999999999", "agree --min 1e400", "agree --min nan", "gate --attempt 99999999999999999999 --runs n.jsonl", "gate --max-minutes nan --runs n.jsonl", "gate --max-minutes 1e308 --runs n.jsonl", "gate --seed 99999999999999999999 --runs n.jsonl",
        "gate --selftest --drop 1e-300", "show openai_messages/t --step 99999999999999999999", "judge --sample 99999999999999999999 --judge openai/gpt-5 --dry-run", "judge --budget nan --judge openai/gpt-5 --dry-run", "judge --budget inf --judge openai/gpt-5 --dry-run", "judge --budget -0.0 --judge openai/gpt-5 --dry-run",
        "list --where \"steps > 99999999999999999999\"", "list --where \"steps > 1e400\"", "list --where \"calls = 0.5\"", "list --where \"steps > -9223372036854775809\"", "list --since 99999999999d", "list --since 0d", "list --since -1d", "list --since \uff17d", "list --since 2026-02-30", "list --since 1e3d", "list --since last", "report n.jsonl --since 99999h")
TERMINALS: dict[str, Mapping[str, str]] = {
    "of one sign": {"COLUMNS": "1"}, "of none": {"COLUMNS": "0"}, "of a word": {"COLUMNS": "wide"}, "below 0": {"COLUMNS": "-5"}, "of a million signs": {"COLUMNS": "1000000"}, "in C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "in ASCII": {"PYTHONIOENCODING": "ascii:strict"}, "in Latin-1": {"PYTHONIOENCODING": "latin-1:strict", "LC_ALL": "C"}, "without a home": {"HOME": "", "TMPDIR": "/nowhere"}, "that is dumb": {"TERM": "dumb", "COLUMNS": "20"},
}


def _seen(environment: Mapping[str, str]) -> Do:
    """Return what runs commands over names of other scripts in such a terminal: typed, no traceback, no escape."""

    def do(place: Place) -> str:
        place.write("n.jsonl", [told(c, n, TAKEN, passed=n < 2, task_id="\u6ce8\u6587 caf\u00e9", text="\u6ce8\u6587", agent="\U0001f600") for c in range(2) for n in range(3)])
        place.must("import", "n.jsonl", "--store", "n.db")
        place.must("score", "--store", "n.db")
        for words in ("list --by agent", "report", "nobody"):
            done = place.spawn(*shlex.split(words), *(() if words == "nobody" else ("--store", "n.db")), environment=environment)
            if done.code not in (0, 2) or "\x1b" in done.said or "Error" in done.err.replace("error: ", ""):
                return f"{words}: code {done.code}, {done.err[-200:]!r}"
        return ""

    return do


def _untouched(words: str, codes: tuple[int, ...] = (2,)) -> Do:
    """Return what runs a command whose options contradict: one line, and the store has what it had."""

    def do(place: Place) -> str:
        for name, text in FILES.items():
            place.write(name, text)
        Path("folder").mkdir()
        before = place.must("export", "-").out
        if wrong := typed(place, words, codes):
            return wrong
        if 2 not in codes or codes != (2,):
            return ""
        return "" if place.must("export", "-").out == before else "refused, and the store is changed"

    return do


def _settings_there(name: str, text: str, *steps: tuple[str, tuple[int, ...]] | Callable[[Place], object]) -> Do:
    return script(*steps, files={name: text, "b.jsonl": gates.runs("base"), "t/a.jsonl": [*gates.PASSING, *gates.FAILING]})


def _kept(name: str, text: str) -> Callable[[Place], str]:
    return lambda place: "" if Path(name).read_text("utf-8") == text else f"{name} is changed"


def _folder_of_cases(files: Mapping[str, str], codes: tuple[int, ...], says: str = "") -> Do:
    """Return what gates a run that wipes by a folder of cases in the settings."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", '[workflow.w]\ncases = "cases"\n[workflow.w.gates]\npolicy = { max_per_run = 0 }\n' + seventh.EFFECTS)
        for name, text in files.items():
            place.write(f"cases/{name}", text)
        place.write("t/a.jsonl", [told(1, 0, [*OK, ("wipe", "gone")])])
        return typed(place, "gate --runs t", codes, says)

    return do


def _contradicting(text: str, codes: tuple[int, ...], words: str = "gate --runs t", *, rows: list[str] | None = None, says: str = "") -> Do:
    """Return what gates failing runs by settings of which one part contradicts another."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        place.write("t/a.jsonl", rows or [*gates.PASSING, *gates.FAILING])
        return typed(place, words, codes, says)

    return do


def _project(place: Place) -> str:
    """Where pyproject.toml has settings, `init` does not make a second file of them that breaks every command."""
    place.write("pyproject.toml", "[tool.stepscope]\nseed = 3\n")
    done = place.run("init", "--yes")
    wrong = one_line(done, (2,)) if done.code == 2 else coded(done, (0,))
    return wrong or coded(place.run("list"), (0,))


def _led_baseline(place: Place) -> None:
    Path("baselines").mkdir()
    Path("baselines/w.json").symlink_to("../mine.txt")


def _settings_rows() -> list[Row]:
    refused = "2: an option that has nothing to do, or contradicts another, is an error and never ignored (docs/reference/exit-codes.md: wrong option; docs/reference/settings.md)"
    either = "0, 2 or 4, one line where it is an error (docs/reference/exit-codes.md)"
    huge = "0, 2, 4 or 5, one line, at once (docs/reference/exit-codes.md)"
    reads = "typed, whatever the terminal (docs/howto/runs.md)"
    own = "3: what you wrote counts (docs/howto/cases.md)"
    names = "2: an error that names the place (docs/howto/cases.md)"
    fails = "2, 3 or 4, never 0 (docs/explanation/gates.md)"
    rate = "outcome = { min_rate = 0.9 }"
    promoted = json.dumps([{"role": "user", "content": "x"}])
    return [
        *((f"import {words}", refused, "medium", _untouched(f"import {words}")) for words in IMPORTS),
        *((words, either, "low", _untouched(words, (0, 2, 4))) for words in OTHERS),
        *((f"a number beyond: {words}", huge, "medium", _untouched(words, (0, 2, 4, 5))) for words in HUGE),
        *((f"a terminal {name}", reads, "medium", _seen(environment)) for name, environment in TERMINALS.items()),
        *((f"an option that is given twice: {words}", "2: it would heed the last alone (a sibling of a tier that is said twice)", "high", _untouched(words)) for words in
          ("purge --yes --where \"task = 'nobody'\" --where \"task = 't'\"", "gate --runs n.jsonl --undecided fail --undecided pass", "gate --runs n.jsonl --fail-on soft --fail-on hard", "report --where \"task = 'x'\" --where \"task = 't'\"", "gate --runs n.jsonl --baseline a --baseline b", "import n.jsonl --agent a --agent b", "judge --budget 0 --budget 5 --judge openai/gpt-5 --dry-run", "case promote openai_messages/t --out a -o b", "export x.jsonl --store a.db --store stepscope.db")),
        # settings that are there
        ("init beside settings of a project", "2, or settings that load (docs/reference/settings.md: having both is an error)", "medium", _project),
        ("init beside settings", "2, and they stay (stepscope init --help)", "medium", _settings_there("stepscope.toml", "seed = 3\n", ("init --yes", (2,)), _kept("stepscope.toml", "seed = 3\n"))),
        ("init beside settings that are broken", "2, and they stay", "medium", _settings_there("stepscope.toml", "seed = [", ("init --yes", (2,)), _kept("stepscope.toml", "seed = ["))),
        ("init beside a baseline of somebody else", "0 or 2: typed", "medium", _settings_there("baselines/w.json", "mine", ("import b.jsonl --store n.db", (0,)), ("init --yes --store n.db", (0, 2)))),
        ("init where baselines is a file", "0, 2 or 5, and no half of settings", "medium", _settings_there("baselines", "mine", ("import b.jsonl --store n.db", (0,)), ("init --yes --store n.db", (0, 2, 5)), _kept("baselines", "mine"), ("list --store n.db", (0,)))),
        ("init where settings lead elsewhere", "2 or 5; what a link leads to stays", "high", _settings_there("mine.txt", "mine", ("import b.jsonl --store n.db", (0,)), lambda p: Path("stepscope.toml").symlink_to("mine.txt"), ("init --yes --force --store n.db", (0, 2, 5)), _kept("mine.txt", "mine"))),
        ("init where a baseline leads elsewhere", "0, 2 or 5; what a link leads to stays", "high", _settings_there("mine.txt", "mine", ("import b.jsonl --store n.db", (0,)), _led_baseline, ("init --yes --store n.db", (0, 2, 5)), _kept("mine.txt", "mine"))),
        # folders of cases
        ("a folder of cases with a promoted one alone, by hand", "0, 2, 3 or 4: typed", "low", _folder_of_cases({"w_c1_0.toml": CASE, "w_c1_0.json": promoted, "test_w_c1_0.py": "x = 1\n"}, (3,))),
        ("a folder of cases, one of them in a folder within", "2, 3 or 4: a folder means its files; nothing is green that you forbade (docs/howto/cases.md)", "medium", _folder_of_cases({"sub/a.toml": CASE, "b.toml": CASE.replace("c1", "c2")}, (2, 3, 4))),
        ("a folder of cases whose ending is in capitals", "2, 3 or 4", "medium", _folder_of_cases({"A.TOML": CASE}, (2, 3, 4))),
        ("a folder of cases with a hidden file", "2, 3 or 4", "low", _folder_of_cases({".a.toml": CASE}, (2, 3, 4))),
        ("a folder of cases with a copy of an editor", "3 or 2: two cases of one task are an error, a copy is no .toml (docs/howto/cases.md)", "medium", _folder_of_cases({"a.toml": CASE, "a.toml~": CASE.replace("wipe", "pay")}, (3,))),
        ("a folder of cases with two of one task", names, "high", _folder_of_cases({"a.toml": CASE, "b.toml": CASE.replace("wipe", "pay")}, (2,), r"b\.toml|a\.toml")),
        ("a folder of cases that forges a promotion", "2 or 3: a case that you wrote goes before promoted ones (docs/howto/cases.md)", "high", _folder_of_cases({"a.toml": CASE, "b.toml": "# Made by stepscope case promote\n" + CASE.replace('forbidden = ["wipe"]', 'tags = { promoted = "1" }')}, (2, 3))),
        ("a folder of cases, the same task in other letters", "3: another task (docs/howto/cases.md)", "medium", _folder_of_cases({"a.toml": CASE, "b.toml": CASE.replace('"c1"', '"C1"')}, (3,))),
        ("a case whose expected call is forbidden", "0, 2 or 3: typed", "low", _folder_of_cases({"a.toml": CASE + 'expected = ["wipe"]\n'}, (2, 3))),
        ("a case with forbidden twice the same", own, "low", _folder_of_cases({"a.toml": CASE.replace('["wipe"]', '["wipe", "wipe"]')}, (2, 3))),
        ("a case that forbids a tool in capitals", "0, 2 or 4: another tool", "low", _folder_of_cases({"a.toml": CASE.replace("wipe", "WIPE")}, (0, 2, 4))),
        ("a case that forbids a tool with a blank", "0, 2, 3 or 4: typed", "low", _folder_of_cases({"a.toml": CASE.replace("wipe", "wipe ")}, (0, 2, 3, 4))),
        ("a case whose task is a number", names, "medium", _folder_of_cases({"a.toml": CASE.replace('"c1"', "1")}, (2, 3))),
        ("a case without a workflow, in the settings of one", own, "medium", _folder_of_cases({"a.toml": CASE.replace('workflow = "w"\n', "")}, (3,))),
        ("a case of another workflow, in the settings of one", "2 or 4, or 0 where it is named: not this workflow's", "medium", _folder_of_cases({"a.toml": CASE.replace('"w"', '"v"')}, (0, 2, 4))),
        # what contradicts
        ("a tier of the settings that no gate reads", "2 (docs/explanation/gates.md: a tier that no gate reads is an error)", "high", _contradicting('[gate]\ntier = ["step_labels"]\n' + gates.policy(rate, ""), (2, 4))),
        ("a tier of one workflow that no gate reads", "2 or 4, never 0 (docs/explanation/gates.md)", "high", _contradicting(gates.policy(rate, 'tier = ["step_labels"]'), (2, 4))),
        ("an empty tier of one workflow", "2 or 4, never 0 (docs/explanation/gates.md)", "high", _contradicting(gates.policy(rate, "tier = []"), (2, 4))),
        ("an empty tier on the command line", "2, 3 or 4 (docs/explanation/gates.md)", "high", _contradicting(gates.policy(rate, ""), (2, 3, 4), "gate --runs t --tier ''")),
        ("a gate without a threshold", "2 (docs/explanation/gates.md)", "high", _contradicting(gates.policy("outcome = {}", ""), (2,))),
        ("a gate of two thresholds", fails, "high", _contradicting(gates.policy("outcome = { min_rate = 0.9, max_rate = 0.9 }", ""), (2, 3))),
        ("a gate of a rate and its opposite", fails, "high", _contradicting(gates.policy("outcome = { min_rate = 0.0 }", ""), (0, 2, 3, 4))),
        ("a gate that allows every share", "0, 2 or 4: typed", "low", _contradicting(gates.policy("outcome = { max_rate = 1.0 }", ""), (0, 2, 4))),
        ("a gate of a share above 1", "2 (docs/explanation/gates.md)", "high", _contradicting(gates.policy("outcome = { max_rate = 50 }", ""), (2,))),
        ("a gate of a drop below 0", "2, or 3", "high", _contradicting(gates.policy("outcome = { max_drop = -0.05 }"), (2, 3, 4))),
        ("a gate of a ratio of 0", "2", "medium", _contradicting(gates.policy("step_efficiency = { max_ratio_to_baseline_median = 0 }"), (2, 3, 4))),
        ("a gate and the same by its figure's name", fails, "high", _contradicting(gates.policy("outcome = { min_rate = 0.9 }\noutcome.pass = { min_rate = 0.0 }", ""), (2, 3))),
        ("a gate that is soft, twice said", "2: a key twice (docs/reference/settings.md)", "medium", _contradicting(gates.policy('outcome = { min_rate = 0.9, severity = "hard", severity = "soft" }', ""), (2,))),
        ("a severity in capitals", "2", "high", _contradicting(gates.policy('outcome = { min_rate = 0.9, severity = "SOFT" }', ""), (2,))),
        ("a severity of none", "2", "high", _contradicting(gates.policy('outcome = { min_rate = 0.9, severity = "none" }', ""), (2,))),
        ("trials of the settings that are 0", "2", "high", _contradicting(gates.policy(rate, "trials = 0"), (2,))),
        ("trials of the settings as a text", "2", "medium", _contradicting(gates.policy(rate, 'trials = "1"'), (2,))),
        ("a workflow that only the settings have", fails, "high", _contradicting(gates.policy(rate, "").replace("workflow.w", "workflow.W"), (2, 3, 4))),
        ("gates of a workflow, and files of another", fails, "high", _contradicting(gates.policy(rate, "").replace("workflow.w", "workflow.v"), (2, 3, 4))),
        ("a gate on a measure of one's own that nobody installed", "2: an unknown name is an error (docs/explanation/gates.md)", "medium", _contradicting(gates.policy("apologies = { max_per_run = 0 }", ""), (2,))),
        ("a soft gate alone that fails", "0: it is shown; or 4 (docs/explanation/gates.md)", "low", _contradicting(gates.policy('outcome = { min_rate = 0.9, severity = "soft" }', ""), (0,))),
        ("uncertain of rules", "2: setting it is then an error (docs/explanation/gates.md)", "medium", _contradicting(gates.policy('axes.termination = { max_rate = 0.1, uncertain = "ignored" }', ""), (2,))),
        ("a source that is nobody's", "2 (docs/explanation/gates.md)", "high", _contradicting(gates.policy('outcome = { min_rate = 0.9, source = "nobody" }', ""), (2, 4))),
        ("a source in capitals", "2, or 3", "high", _contradicting(gates.policy('outcome = { min_rate = 0.9, source = "RULES" }', ""), (2, 3, 4))),
        ("a recovered error that is forbidden, in capitals", "2", "medium", _contradicting(gates.policy('no_errors = { max_per_run = 0, recovered = "FORBIDDEN" }', ""), (2,))),
        ("a name of a rule that two rules have", "2", "medium", _contradicting(gates.policy(rate, "") + '[[policy]]\nname = "r"\nforbid = "a"\n[[policy]]\nname = "r"\nforbid = "b"\n[tools]\na = "read"\nb = "read"\n', (2, 3))),
        ("a rule of a workflow that nobody has", "2 or 3 (docs/howto/gate-in-ci.md)", "medium", _contradicting(gates.policy(rate, "") + '[[policy]]\nname = "r"\nforbid = "a"\nworkflow = "nobody"\n[tools]\na = "read"\n', (2, 3))),
        ("hostile names in settings that are wrong", "2: one line, inert", "high", script(lambda p: p.write("stepscope.toml", f"[workflow.{outputs.toml(outputs.HOSTILE)}.gates]\n{outputs.toml(outputs.HOSTILE)} = {{}}\n"), lambda p: (lambda done: one_line(done, (2,)) or outputs.both(done))(p.run("gate", "--runs", "t.jsonl")))),
        ("settings and files given at once", "2, one line", "low", given(FILES, "gate --config c.toml --runs n.jsonl", (2,))),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("settings", name, expected, severity, do, round=8) for name, expected, severity, do in _settings_rows()]
