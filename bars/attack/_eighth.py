"""The eighth round: gates.

Expectations as in the first round: by the documentation, written and committed before anything was
run; each says the page that it is taken from. What earlier rounds did not touch: gates that `init`
writes, cases that are promoted beside cases of one's own, filters on calls, labels that are misspelt,
people who say which runs are good, runs that are erased between two commands, the power of a pass.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bars.attack import _fifth as fifth
from bars.attack import _gates as gates
from bars.attack import _seventh as seventh
from bars.attack import _sixth as sixth
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import NEVER, Do, Row
from bars.attack._seventh import COUNT, OK, TAKEN, fleet, judged, moded, told
from bars.attack._third import strict

N = ("--store", "n.db")
WIPED = [*OK, ("wipe", "gone")]
HOSTILE_WORKFLOWS = ("../../pwned", "/tmp/pwned-by-stepscope", ".", "..", "a/b", "x" * 300, "a\nb", '"]\n[gate]\ntier = ["nobody"]\n#', "a b", "\u202ew", "w.gates", "-rf", "con:1", "caf\u00e9", "*", "~", "$HOME")


def typed(place: Place, words: str, codes: tuple[int, ...], says: str = "") -> str:
    """Run a command; return what is wrong with its code, and with its one line where it is an error."""
    done = place.run(*shlex.split(words))
    return one_line(done, codes, says) if done.code in (2, 5) else coded(done, codes, says=says)


def script(*steps: tuple[str, tuple[int, ...]] | tuple[str, tuple[int, ...], str] | Callable[[Place], object], files: Mapping[str, gates.Content] | None = None) -> Do:
    """Return what writes files, then runs commands and looks, one after the other: each ends as is said."""

    def do(place: Place) -> str:
        for name, content in (files or {}).items():
            place.write(name, content)
        for step in steps:
            if callable(step):
                found = step(place)
                if isinstance(found, str) and found:
                    return found
            elif wrong := typed(place, *step):
                return f"{step[0]}: {wrong}"
        return ""

    return do


# ---- what `init` writes

HALF = [*gates.PASSING, *gates.FAILING]


def _init(rows: Iterable[str], *steps: tuple[str, tuple[int, ...]] | tuple[str, tuple[int, ...], str] | Callable[[Place], object], init: str = "init --yes --store n.db", codes: tuple[int, ...] = (0,)) -> Do:
    """Return what lets `init` write the gates of a store, then goes on, without settings before."""

    def do(place: Place) -> str:
        for path in ("stepscope.toml", "base.json"):
            Path(path).unlink()
        place.write("n.jsonl", rows)
        place.write("t/a.jsonl", HALF)
        place.write("full/a.jsonl", gates.runs())
        place.must("import", "n.jsonl", *N)
        return typed(place, init, codes) or script(*steps)(place)

    return do


def _called(name: str) -> Do:
    """Return what lets `init` write gates of a workflow of this name: within the folder, of this workflow, at work."""

    def do(place: Place) -> str:
        for path in ("stepscope.toml", "base.json"):
            Path(path).unlink()
        place.write("n.jsonl", gates.runs(workflow=name))
        place.must("import", "n.jsonl", *N)
        before = {str(p) for p in place.folder.parent.rglob("*")} | {str(p) for p in Path("/tmp").glob("pwned*")}
        done = place.run("init", "--yes", *N)
        if wrong := one_line(done, (2,)) if done.code == 2 else coded(done, (0,)):
            return wrong
        now = {str(p) for p in place.folder.parent.rglob("*")} | {str(p) for p in Path("/tmp").glob("pwned*")}
        out = [p for p in now - before if not Path(p).resolve().is_relative_to(place.folder.resolve())]
        if out:
            return f"written outside of the folder: {out}"
        if done.code == 2:
            return ""
        made = tomllib.loads(Path("stepscope.toml").read_text("utf-8"))
        if set(made.get("gate", {}).get("tier", ["rules"])) != {"rules"} or set(made.get("workflow", {})) - {name}:
            return f"tables {made}"
        place.write("t/a.jsonl", [*gates.half(passed=True, workflow=name), *gates.half(passed=False, workflow=name)])
        return typed(place, "gate --runs t", (3,))

    return do


def _two_names(one: str, other: str) -> Do:
    """Return what lets `init` write gates of two workflows whose files might be one: each has a baseline of its own."""

    def do(place: Place) -> str:
        for path in ("stepscope.toml", "base.json"):
            Path(path).unlink()
        place.write("n.jsonl", [*gates.runs(workflow=one), *gates.runs("else", workflow=other)])
        place.must("import", "n.jsonl", *N)
        place.must("init", "--yes", *N)
        place.write("t/a.jsonl", [*gates.runs(workflow=one), *gates.half(passed=True, workflow=other), *gates.half(passed=False, workflow=other)])
        done = place.run("gate", "--runs", "t", "--json")
        if "baseline_other_workflow" in done.said:
            return "two workflows share a file of one baseline"
        return coded(done, (3,))

    return do


def _kept(*paths: str) -> Callable[[Place], str]:
    """Return what looks whether files are as they were when it was first asked."""
    was: dict[str, bytes] = {}

    def look(place: Place) -> str:
        if not was:
            was.update({path: Path(path).read_bytes() for path in paths})
            return ""
        changed = [path for path, raw in was.items() if Path(path).read_bytes() != raw]
        return f"{changed} changed" if changed else ""

    return look


def _held_init() -> Do:
    """What `init` refuses to overwrite stays, the baseline too."""
    look = _kept("stepscope.toml", "baselines/w.json")
    return _init(gates.runs(), look, ("import t --store n.db", (0,)), ("init --yes --store n.db", (2,)), look)


# ---- erased in between

RULED = '[[policy]]\nname = "r"\nforbid = "wipe"\n' + seventh.EFFECTS


def erased(before: str, *steps: str | tuple[str, gates.Content], rows: Iterable[str] | None = None, codes: tuple[int, ...] = (3, 4), then: str = "", words: str = "", opinion: str = "") -> Do:
    """Return what imports and scores runs, and erases and changes this and that, before the gate."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", before)
        place.write("b.jsonl", gates.runs("base"))
        place.write("n.jsonl", HALF if rows is None else rows)
        based = ("import b.jsonl", "score", "baseline update --yes") if "baseline" in before else ()
        for command in (*based, "import n.jsonl", "score"):
            place.must(*command.split(), *N)
        if opinion:
            seventh.opinions(place, {f"w/c{c}/{n}": "incorrect" for c in gates.CASES for n in (2, 3)} | {f"w/c{c}/{n}": "correct" for c in gates.CASES for n in (0, 1)}, opinion, path="n.db")
        for step in steps:
            if isinstance(step, tuple):
                place.write(*step)
            else:
                place.must(*shlex.split(step), *N)
        if then:
            place.write("stepscope.toml", then)
        return typed(place, f"gate --undecided pass --store n.db {words}", codes)

    return do


DROP = gates.policy(more='baseline = "m.json"')
ALL = "purge --yes --where \"workflow = 'w'\""


# ---- filters on calls, in gates and baselines


def _filtered(where: str, codes: tuple[int, ...] = (3, 4), *, baseline: str = "") -> Do:
    """Return what gates a store in which half of the runs call a tool that fails, and fail, by a condition that leaves them out."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", seventh.policy(gates.DROP))
        place.write("b.jsonl", fleet(text="base"))
        for words in ("import b.jsonl", "score"):
            place.must(*words.split(), *N)
        done = place.run("baseline", "update", "--yes", *(["--where", baseline] if baseline else []), *N)
        if done.code:
            return one_line(done, (2, 4)) if done.code == 2 else coded(done, (4,))
        place.write("n.jsonl", fleet(TAKEN, passed=False))
        for words in ("import n.jsonl", "score"):
            place.must(*words.split(), *N)
        return typed(place, f"gate --undecided pass --where {shlex.quote(where)} --store n.db" if where else "gate --undecided pass --store n.db", codes)

    return do


# ---- cases of one's own, and promoted ones

FORBIDS = 'version = 2\n[[task]]\nworkflow = "w"\ntask = "c1"\nforbidden = ["wipe"]\n'
CASED = '[workflow.w]\ncases = "cases"\n[workflow.w.gates]\npolicy = { max_per_run = 0 }\n' + seventh.EFFECTS
WIPES = told(1, 0, WIPED, passed=False)


def promoted(*steps: tuple[str, tuple[int, ...]] | tuple[str, tuple[int, ...], str] | Callable[[Place], object], own: str = "cases/own.toml", text: str = FORBIDS, rows: Iterable[str] = (WIPES,)) -> Do:
    """Return what promotes a run that breaks the rule of its own case, then goes on: w/c1/0 is the run, t holds it."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", CASED)
        place.write(own, text)
        place.write("t/a.jsonl", rows)
        for words in ("import t", "score", "case promote w/c1/0 --out cases"):
            place.must(*words.split(), *N)
        return script(*steps)(place)

    return do


def _gone(name: str) -> Callable[[Place], object]:
    return lambda place: Path(name).unlink()


def _emptied(place: Place) -> None:
    shutil.rmtree("cases")
    Path("cases").mkdir()


# ---- labels and people


def _labelled(gate: str, codes: tuple[int, ...], text: str = "") -> Do:
    """Return what gates runs that all fail by a label: what nobody ever says is no pass."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(gate, "") + text)
        place.write("t/a.jsonl", [gates.line(c, n, passed=False) for c in range(40) for n in range(4)])
        return typed(place, "gate --runs t --undecided pass", codes)

    return do


def people(votes: Mapping[str, str], bad: int, codes: tuple[int, ...], *, judge_on_good: str = "correct", says: str = "", how: str = "--human") -> Do:
    """Return what gates fifty runs by a judge's count, where raters said of a hundred other runs what they found."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(COUNT, "trials = 1"))
        place.write("b.jsonl", [gates.line(c, n, text="base") for c in range(50, 100) for n in range(2)])
        place.write("n.jsonl", [gates.line(c, 9) for c in range(50)])
        for words in ("import b.jsonl n.jsonl", "score"):
            place.must(*words.split(), "--store", "m.db")
        known = [f"w/c{c}/{n}" for c in range(50, 100) for n in range(2)]
        seventh.opinions(place, {name: judge_on_good for name in known} | {f"w/c{c}/9": "incorrect" if c < bad else "correct" for c in range(50)}, "axes.termination")
        for rater, label in votes.items():
            place.write("v.csv", ["run,label", *(f"{name},{label}" for name in known)])
            place.must("import", "--verdicts", "v.csv", "--rubric", "axes.termination", "--rater", rater, *how.split(), "--store", "m.db")
        return typed(place, "gate --tier axes.termination --undecided pass --store m.db", codes, says)

    return do


def _imposter(rater: str, how: str = "") -> Do:
    """Return what imports verdicts that praise runs in which the rules proved a fault, in the name of somebody else: a gate of the rules fails all the same."""

    def do(place: Place) -> str:
        twice = [*OK, ("book", "Error: seat is taken"), ("book", "Error: seat is taken"), ("book", "Error: seat is taken")]
        place.write("stepscope.toml", sixth.named("no_redundant_calls = { max_per_run = 0 }\nno_errors = { max_per_run = 0, recovered = 'forbidden' }", more=seventh.EFFECTS))
        place.write("n.jsonl", fleet(twice, since=0))
        for words in ("import n.jsonl", "score"):
            place.must(*words.split(), *N)
        names = [f"w/c{c}/{n}" for c in gates.CASES for n in gates.TRIALS]
        for rubric, cells in (("axes.argument_validity", "correct"), ("step_labels", "PROGRESS")):
            place.write("v.csv", ["run,label,step", *(f"{name},{cells},{'1' if rubric == 'step_labels' else ''}" for name in names)])
            done = place.run("import", "--verdicts", "v.csv", "--rubric", rubric, "--rater", rater, *how.split(), *N)
            if wrong := one_line(done, (2,)) if done.code == 2 else coded(done, (0,)):
                return wrong
        return typed(place, "gate --undecided pass --store n.db", (3,))

    return do


# ---- the self-test


def _selftest(words: str, codes: tuple[int, ...], *, change: Callable[[Any], object] | None = None, gate: str = "outcome = { max_drop = 0.05 }", before: Iterable[str] | None = None) -> Do:
    """Return what asks how often gates are wrong, of a baseline that is changed so."""

    def do(place: Place) -> str:
        seventh.based(place, fleet(text="base") if before is None else before, seventh.policy(gate))
        if change:
            made = json.loads(Path("m.json").read_text("utf-8"))
            change(made)
            place.write("m.json", json.dumps(made))
        done = place.run("gate", "--selftest", *shlex.split(words))
        if "--json" in words and done.code in (0, 4):
            strict(done.out)
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _cells(name: str, value: object) -> Callable[[Any], object]:
    def change(made: Any) -> None:
        for case in made["cases"].values():
            case["cells"][name] = [value] * len(case["runs"])

    return change


def _drops(place: Place) -> str:
    """Shares that are none are refused in Python, too, by an error of one line."""
    import stepscope as ss
    from stepscope.errors import StepscopeError
    from stepscope.settings import load_settings

    seventh.based(place, fleet(text="base"), seventh.policy(gates.DROP))
    with ss.open("m.db", settings=load_settings()) as store:
        for workflow, drop in (("w", -0.1), ("w", 2.0), ("w", float("nan")), ("w", float("inf")), ("nobody", 0.1), ("", 0.1)):
            try:
                store.gate_selftest(workflow, drop=drop)
            except StepscopeError as e:
                if "\n" in str(e) or not str(e):
                    return f"{workflow!r}, {drop}: {e!r}"
            else:
                return f"{workflow!r}, {drop}: no error"
    return ""


# ---- what a pass can see


def _seen(gate: str, codes: tuple[int, ...], *, cases: int, trials: int = 1, base: Callable[[int], bool] = lambda n: True, now: Callable[[int], bool] = lambda n: True, words: str = "--undecided pass", says: str = "", keys: str = "") -> Do:
    """Return what gates a few runs against a baseline of as many."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy(gate, f'baseline = "m.json"\n{keys}'))
        place.write("b.jsonl", [gates.line(c, n, passed=base(n), text="base") for c in range(cases) for n in range(trials)])
        for command in ("import b.jsonl", "score", "baseline update --yes"):
            place.must(*command.split(), *N)
        place.write("t/a.jsonl", [gates.line(c, n, passed=now(n)) for c in range(cases) for n in range(trials)])
        return typed(place, f"gate --runs t {words}", codes, says)

    return do


# ---- pytest

VIOLATIONS = 'import pytest\n\n@pytest.mark.stepscope(cases="t", agent="recorded", trials=1)\ndef test_runs(trajectory):\n    assert not trajectory.violations("never wip")\n'
MATCHES = 'import pytest\n\n@pytest.mark.stepscope(cases="t", agent="recorded", trials=1)\ndef test_runs(trajectory):\n    assert trajectory.match({words})\n'
ABSENT = 'import pytest\n\n@pytest.mark.stepscope(cases="{where}", agent="recorded", trials={trials})\ndef test_runs(trajectory):\n    assert trajectory.run\n'


def _pytest(text: str, rows: Iterable[str], codes: tuple[int, ...], words: str = "") -> Do:
    """Return what runs tests over these traces by the plugin; code 1 or an error of pytest's, never a pass."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", '[[policy]]\nname = "never wipe"\nforbid = "wipe"\n' + seventh.EFFECTS)
        place.write("t/a.jsonl", rows)
        place.write("test_agent.py", text)
        made = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shlex.split(words), "test_agent.py"], capture_output=True, check=False, timeout=18,
                              env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")})
        said = (made.stdout + made.stderr).decode("utf-8", "replace")
        if "INTERNALERROR" in said or "bug in stepscope" in said:
            return f"code {made.returncode}: {said[-300:]!r}"
        return "" if made.returncode in codes else f"code {made.returncode}: {said[-300:]!r}"

    return do


def _rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[Place], object]:
    def do(place: Place) -> None:
        made = json.loads(Path("m.json").read_text("utf-8"))
        change(made)
        place.write("m.json", json.dumps(made))

    return do


def _agree_on(key: str) -> Callable[[dict[str, Any]], object]:
    """Return what gives each run of a baseline the same name."""

    def change(made: dict[str, Any]) -> None:
        for case in made["cases"].values():
            case[key] = [case[key][0]] * len(case[key])

    return change


def _half_the_cases(made: dict[str, Any]) -> None:
    for name in sorted(made["cases"])[6:]:
        del made["cases"][name]


def _both_stores(place: Place) -> str:
    """A baseline of one store, failing runs in the other: the store that is named is gated."""
    place.write("n.jsonl", HALF)
    place.must("import", "n.jsonl", *N)
    place.must("score", *N)
    first = typed(place, "gate --undecided pass --store n.db", (3,))
    shutil.copy("n.db", "o.db")
    place.must("import", "base.jsonl", "--store", "o.db")
    return first or typed(place, "gate --undecided pass --store o.db", (3, 4))


def _gate_rows() -> list[Row]:
    worst = NEVER + " (docs/howto/gate-in-ci.md)"
    inside = "0 or 2; nothing outside of the folder, gates that fail on failing runs (SECURITY.md, docs/tutorial/gate.md)"
    own = "3: the case that you wrote goes before promoted ones, which have its expectations (docs/howto/cases.md)"
    fresh = "3 or 4: answers of erased runs under other settings count as not scored (CHANGELOG.md)"
    policy = 'policy = { max_per_run = 0 }'
    other = FORBIDS.replace('forbidden = ["wipe"]', '[[task.policy]]\nname = "r"\nforbid = "wipe"\nworkflow = "other"')
    mixed = fleet(WIPED, since=0)
    return [
        # init
        ("init, and runs of which half fail", "3 (docs/tutorial/gate.md)", "high", _init(gates.runs("base"), ("gate --runs t", (3,)))),
        ("init, and the runs that it saw", "0 (docs/tutorial/gate.md)", "medium", _init(gates.runs("base"), ("gate --store n.db", (0,)))),
        ("init, and runs of which half are missing", worst, "high", _init(gates.runs("base"), ("import t --store o.db", (0,)), lambda p: p.write("t/a.jsonl", gates.PASSING), ("gate --runs t --undecided pass", (3, 4)))),
        ("init of runs that all fail, and a gate", "0, 2 or 4; no bug: a gate that cannot decide is left out (docs/tutorial/gate.md)", "medium", _init([gates.line(c, n, passed=False) for c in gates.CASES for n in gates.TRIALS], ("gate --runs full", (0, 2, 4)))),
        ("init of one run, and a gate on a failing one", "2 or 4, or 0 for soft gates alone, typed (docs/tutorial/gate.md)", "medium", _init([gates.line(1, 0)], ("gate --runs t", (0, 2, 3, 4)))),
        ("init of runs without outcomes", "0: gates that cannot decide are left out with the reason (docs/tutorial/gate.md)", "medium",
         _init([json.dumps({k: v for k, v in json.loads(one).items() if k != "reward"}) for one in gates.runs()], lambda p: "" if "outcome = {" not in "\n".join(x for x in Path("stepscope.toml").read_text("utf-8").splitlines() if not x.startswith("#")) else "a gate on outcomes that nobody knows")),
        ("init of an empty store", "0 or 2, one line (stepscope init --help)", "low", script(lambda p: Path("stepscope.toml").unlink(), ("init --yes --store nowhere.db", (0, 2)))),
        ("init twice, the store has become worse", "2: settings stay without --force, and so does the baseline (stepscope init --help)", "high", _held_init()),
        ("init by force beside rules of conduct", "0 or 2: typed (stepscope init --help)", "low", _init(gates.runs(), ("init --yes --force --store n.db", (0, 2)), ("gate --runs t", (3,)))),
        *((f"init of a workflow called {name[:24]!r}", inside, "high", _called(name)) for name in HOSTILE_WORKFLOWS),
        ("init of workflows a/b and a_b", "3: each workflow has a baseline of its own (docs/explanation/gates.md)", "high", _two_names("a/b", "a_b")),
        ("init of workflows a and A", "3: each workflow has a baseline of its own (docs/explanation/gates.md)", "high", _two_names("a", "A")),
        ("init of workflows of one long beginning", "3: each workflow has a baseline of its own (docs/explanation/gates.md)", "high", _two_names("x" * 240 + "a", "x" * 240 + "b")),
        # what is erased
        ("runs that are erased after the score", "3: outcomes are kept (docs/howto/purge.md)", "high", erased(DROP, ALL, codes=(3,))),
        ("failing runs that are erased before a rule is new", fresh, "high", erased(DROP, ALL, rows=mixed, then=DROP.replace(gates.DROP, policy) + RULED)),
        ("runs that are erased, and a gate on what broke a rule", "3: breaches that were found are kept (docs/howto/purge.md)", "high", erased(seventh.policy(policy, '[[policy]]\nname = "r"\nforbid = "wipe"\n'), ALL, rows=mixed, codes=(3,))),
        ("runs that are erased before their first score", worst, "high", script(("import t --store n.db", (0,)), (f"{ALL} --store n.db", (0,)), ("score --store n.db", (0, 2, 4)), ("gate --undecided pass --store n.db", (3, 4)), files={"t/a.jsonl": [told(c, n, WIPED) for c in gates.CASES for n in gates.TRIALS], "stepscope.toml": seventh.policy(policy, '[[policy]]\nname = "r"\nforbid = "wipe"\n').replace('baseline = "m.json"\n', "")})),
        ("failing runs erased, then the trace once more, passing", "3 or 4: an outcome that was read stays (docs/howto/import.md)", "high", erased(DROP, ALL, ("n.jsonl", HALF), "import n.jsonl", codes=(3,))),
        ("the baseline's runs are erased", "3: the file is the baseline (docs/explanation/gates.md)", "high", erased(DROP, "purge --yes --where \"text ~ 'base'\"", codes=(3,))),
        ("erased runs of which a judge said that they are faulty", "3: verdicts are kept (docs/howto/purge.md)", "high", erased(gates.policy('axes.termination = { max_rate = 0.1, source = "axes.termination" }', ""), ALL, codes=(3,), opinion="axes.termination", words="--tier axes.termination")),
        # filters on calls
        *((f"failing runs left out by {where!r}", worst, "high", _filtered(where, (2, 3, 4))) for where in
          ("not error", "not (tool = 'book' and error)", "outcome = 'pass'", "not text ~ 'taken'", "tool != 'book'", "axis.termination = null", "calls < 2", "not (error ~ 'SEAT')", "tool = 'get_order' and not error and not tool = 'book'")),
        ("a baseline by a condition on calls that no run meets", "2 or 4: no run (docs/reference/where.md)", "high", _filtered("", (3, 4), baseline="tool = 'nobody' and error")),
        ("a baseline by a condition on calls of half of its cases", "3: what has no baseline enters no comparison, the rest fails (docs/explanation/gates.md)", "high", _filtered("", (3,), baseline="task in ('c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7') and tool = 'get_order'")),
        # cases
        ("a promoted case beside its own", own, "high", promoted(("gate --runs t", (3,)))),
        ("a promoted case, its own is gone", own, "high", promoted(_gone("cases/own.toml"), ("gate --runs t", (3,)))),
        ("a promoted case whose name comes later than its own", own, "high", promoted(("gate --runs t", (3,)), own="cases/zz.toml")),
        ("a promoted case, and its own from a line of JSON", own, "high", promoted(("gate --runs t", (3,)), own="cases/own.jsonl", text=json.dumps({"workflow": "w", "task": "c1", "forbidden": ["wipe"]}))),
        ("a promoted case, imported by hand after its own", own, "high", promoted(("import --cases cases --store n.db", (0,)), ("score --store n.db", (0,)), ("gate --undecided pass --store n.db", (3,)))),
        ("two trials promoted, then the gate", own, "high", promoted(("case promote w/c1/1 --out cases --store n.db", (0,)), ("gate --runs t", (3,)), rows=[WIPES, told(1, 1, WIPED, passed=False)])),
        ("a case that no longer forbids, promoted before", "0 or 4: the file that you wrote goes first (docs/howto/cases.md)", "medium", promoted(lambda p: p.write("cases/own.toml", FORBIDS.replace("wipe", "pay")), ("gate --runs t", (0, 2, 4)))),
        ("a case whose rule names another workflow", "2 or 3: a rule that can never be broken is no rule (docs/howto/cases.md: a meaningless rule is an error)", "high", script(("gate --runs t", (2, 3)), files={"stepscope.toml": CASED, "cases/a.toml": other, "t/a.jsonl": [WIPES]})),
        ("a case whose own rule misspells its tool", "2: such a rule would never be broken (docs/howto/gate-in-ci.md)", "high", script(("gate --runs t", (2,)), files={"stepscope.toml": CASED, "cases/a.toml": FORBIDS.replace('forbidden = ["wipe"]', '[[task.policy]]\nname = "r"\nforbid = "wipee"'), "t/a.jsonl": [WIPES]})),
        ("a folder of cases that is emptied", "2, 3 or 4: it has no file of cases (docs/howto/cases.md)", "high", promoted(_emptied, ("gate --runs t", (2, 3, 4)))),
    ]  # fmt: skip


def _judged_rows() -> list[Row]:
    refused = "2: docs/explanation/gates.md, options of runs and of a verdict are refused"
    worst = NEVER + " (docs/howto/gate-in-ci.md)"
    power = "4: if even the worst runs could not have failed it is undecided, and --undecided is of `interval` alone (docs/explanation/gates.md)"
    labels = "2 or 4: a label that nobody can say is no promise (docs/explanation/gates.md: never passes unmeasured)"
    soft = 'axes.termination = { max_rate = 0, source = "axes.termination", severity = "soft" }'
    ignored = 'axes.termination = { max_rate = 0.1, source = "axes.termination", uncertain = "ignored" }'
    return [
        # labels
        *((f"a gate with a label that is misspelt: {gate[:40]}", labels, "high", _labelled(gate, (2, 3, 4))) for gate in
          ('outcome = { max_rate = 0.1, label = "fali" }', 'termination = { max_rate = 0.05, label = "limt" }', 'termination.premature = { max_rate = 0.05, label = "x" }', 'outcome = { max_rate = 0.1, label = "Fail" }', 'outcome = { max_rate = 0.1, label = "fail " }')),
        ("a judge's gate with a label that is misspelt", labels, "high", script(("gate --runs t", (2,), "did you mean"), files={"t/a.jsonl": HALF, "stepscope.toml": gates.policy('axes.termination = { max_rate = 0.1, source = "axes.termination", label = "incorect" }', "")})),
        ("a judge's gate with the label of the fault", "3: all of fifty (docs/explanation/gates.md)", "high", judged(50, (2, 3), gate='axes.termination = { max_rate = 0.1, source = "axes.termination", label = "incorrect" }', keys="trials = 1", baseline=False)),
        # judges and people
        ("a judge's count where one person found nothing in a hundred", "3: ten of fifty are more than chance brings (docs/explanation/gates.md)", "high", people({"ann": "correct"}, 10, (3,))),
        ("a judge's count where one person found nothing, and the judge one fault", "0: 0 of 100 allow 1 of 50 (docs/explanation/gates.md)", "medium", people({"ann": "correct"}, 1, (0,))),
        ("a judge's count where two people contradict each other", "4: no run is known to be good, judge_not_calibrated (docs/explanation/gates.md)", "high", people({"ann": "correct", "bob": "incorrect"}, 10, (3, 4))),
        ("a judge's count where people found a fault in all", "4: no run is known to be good (docs/explanation/gates.md)", "high", people({"ann": "incorrect"}, 10, (3, 4))),
        ("a judge's count where people were not sure", "4: they did not find nothing (docs/explanation/gates.md)", "high", people({"ann": "uncertain"}, 10, (3, 4))),
        ("a judge's count where another judge praised a hundred", "4: a judge is no person (docs/explanation/gates.md)", "high", people({"gpt": "correct"}, 10, (2, 3, 4), how="")),
        ("a judge's count where the judge blames what people found good", "0 or 4, and the line says of which good runs (docs/explanation/gates.md)", "medium", people({"ann": "correct"}, 10, (0, 4), judge_on_good="incorrect", says="good")),
        *((f"verdicts of a rater called {rater!r} {how}".strip(), "3: imported verdicts are a judge's or a person's, never the rules' (docs/howto/agree.md)", "high", _imposter(rater, how)) for rater, how in (("rules", ""), ("rules", "--human"), ("evidence", ""), ("", ""), ("local/own", ""))),
        ("a soft judge's gate that fails", "0: it is shown (docs/explanation/gates.md)", "medium", judged(50, (0, 4), gate=soft)),
        ("a soft judge's gate that counts", "3: --fail-on soft (docs/explanation/gates.md)", "high", judged(50, (3,), gate=soft, words="--tier rules,axes.termination --fail-on soft")),
        ("a judge who is uncertain of all, ignored", "4: no answer is left (docs/explanation/gates.md)", "high", judged(50, (4,), gate=ignored, label="uncertain")),
        ("a judge who is uncertain of ten, ignored", "0 (docs/explanation/gates.md)", "low", judged(10, (0, 4), gate=ignored, label="uncertain")),
        ("a judge who finds a fault in all, the uncertain ignored", "3 (docs/explanation/gates.md)", "high", judged(50, (3,), gate=ignored)),
        ("a tier that is said twice", "2, 3 or 4, never 0: the rules fail, or are not run (docs/explanation/gates.md)", "high", judged(0, (2, 3, 4), words="--tier rules --tier axes.termination", gate=COUNT + '\noutcome = { min_rate = 0.9 }', failing=50)),
        ("a tier of the rules twice", "3 (docs/explanation/gates.md)", "high", judged(0, (2, 3), words="--tier rules,rules", gate=COUNT + '\noutcome = { min_rate = 0.9 }', failing=50)),
        ("a tier that is a judge's name, a gate of its rubric", "2 to 4, never 0: an error where no gate reads it (docs/explanation/gates.md)", "high", judged(50, (2, 3, 4), words="--tier local/own")),
        ("a tier of a set, a gate of its rubric", "2 to 4, never 0: an error where no gate reads it (docs/explanation/gates.md)", "high", judged(50, (2, 3, 4), words="--tier axes")),
        ("a gate of a set of rubrics", "2 to 4, never 0 (docs/explanation/gates.md)", "high", judged(50, (2, 3, 4), words="--tier axes", gate='axes.termination = { max_rate = 0, source = "axes" }')),
        ("a gate of another rubric than the one that was asked", "2 or 4: no_verdicts (docs/explanation/gates.md)", "high", judged(50, (2, 4), words="--tier quality.plan", gate='quality.plan = { max_rate = 0.1, source = "quality.plan" }', baseline=False)),
        # the self-test
        *((f"a self-test with {words}", refused, "low", _selftest(words, (2,))) for words in
          ("--runs t", "--store m.db", "--where \"outcome = 'fail'\"", "--commit abc", "--attempt 2", "--fail-on soft", "--undecided pass", "--write w", "-o x.xml")),
        *((f"a self-test with {words}", "0, 2 or 4: typed (docs/explanation/gates.md)", "low", _selftest(words, (0, 2, 4))) for words in ("--drop 0 --json", "--drop 1 --json", "--trials 1", "--cases c0", "--tier nobody", "--max-minutes 0")),
        ("a self-test of a baseline of nulls", "4, or 2: nothing is measured (docs/explanation/gates.md)", "high", _selftest("", (2, 4), change=_cells("outcome", None))),
        ("a self-test of a baseline of halves", "0, 2 or 4: typed", "medium", _selftest("--json", (0, 2, 4), change=_cells("outcome", 0.5))),
        ("a self-test of a baseline of another version", "0, 2 or 4: it draws from the baseline, whose version is the gate's to know (docs/explanation/gates.md)", "medium", _selftest("", (0, 2, 4), change=lambda made: made["measures"]["outcome"].update(version="0"))),
        ("a self-test of 40 modes that may take 3 s", "0 or 4, in time (stepscope gate --help: stop after this time)", "high", _selftest("--max-minutes 0.05", (0, 4), gate="no_new_modes = {}", before=fleet([(f"book{n}", f"Error: no {chr(97 + n % 26) * 4}") for n in range(40)], text="base", since=0))),
        ("a self-test in Python of shares that are none", "an error of one line each (docs/explanation/gates.md)", "medium", _drops),
        # power
        ("five cases of one trial, none of them fails", power, "high", _seen(gates.DROP, (4,), cases=5, says="too_few_cases")),
        ("twelve cases, a drop of all allowed", "2: it bounds nothing, by its message when settings are loaded (docs/explanation/gates.md: never passes)", "high", script(("gate --runs t", (2,), "bounds nothing"), files={"t/a.jsonl": HALF, "stepscope.toml": gates.policy("outcome = { max_drop = 1.0 }")})),
        ("a baseline in which half pass, a drop of nine tenths allowed", power, "high", _seen("outcome = { max_drop = 0.9 }", (4,), cases=12, trials=4, base=lambda n: n < 2, now=lambda n: False)),
        ("a baseline in which nobody passes", power, "high", _seen(gates.DROP, (4,), cases=12, trials=4, base=lambda n: False, now=lambda n: False)),
        ("a ratio of medians of two cases", power, "high", _seen("step_efficiency = { max_ratio_to_baseline_median = 1.3 }", (4,), cases=2)),
        ("a pass with its power", "0, and it says what would be detected (docs/explanation/gates.md)", "medium", _seen(gates.DROP, (0,), cases=12, trials=4, says="would be\\s+detected")),
        ("twelve cases of one trial in which all fail", "3 (docs/explanation/gates.md)", "high", _seen(gates.DROP, (3,), cases=12, now=lambda n: False)),
        ("trials of the settings over those of the baseline, all fail", "3 (docs/howto/gate-in-ci.md)", "high", _seen(gates.DROP, (3,), cases=12, trials=4, keys="trials = 1", now=lambda n: False)),
        ("four trials on the command line, one in the settings, one was run", worst, "high", _seen(gates.DROP, (3, 4), cases=12, keys="trials = 1", words="--undecided pass --trials 4")),
        # baselines
        ("a baseline whose runs have one name", worst + "; or 2", "high", moded(HALF, (2, 3, 4), before=gates.runs("base"), text=seventh.policy(gates.DROP), words="--undecided pass", change=_rewritten(_agree_on("runs")))),
        ("a baseline that lost half of its cases", "2 to 4: a wrongly edited file (docs/explanation/gates.md: baseline_corrupt)", "high", moded(gates.runs(), (2, 4), before=gates.runs("base"), text=seventh.policy(gates.DROP), words="--undecided pass", change=_rewritten(_half_the_cases))),
        ("a baseline whose declared rules are changed", "4: baseline_other_version (docs/explanation/gates.md)", "high", moded(fleet(TAKEN), (4,), change=lambda p: p.write("stepscope.toml", seventh.policy() + '[[policy]]\nname = "r"\nforbid = "book"\nmax_calls = 9\n'))),
        ("a baseline whose effects of tools are changed", "3 or 4, never 0 (docs/explanation/gates.md: other declared rules)", "high", moded(fleet(TAKEN), (3, 4), change=lambda p: p.write("stepscope.toml", seventh.policy().replace('book = "write"', 'book = "read"')))),
        ("a baseline that counts more runs than it has", "4: baseline_corrupt (docs/explanation/gates.md)", "medium", moded(gates.runs(), (2, 4), before=gates.runs("base"), text=seventh.policy(gates.DROP), words="--undecided pass", change=_rewritten(lambda made: made.update(n_cases=99)))),
        ("a baseline of one store, runs of another", "3, then 3 or 4 (docs/explanation/gates.md)", "high", _both_stores),
        # pytest
        ("pytest: violations of a rule that is misspelt", "1: a rule with a misspelt name would never be broken (docs/howto/gate-in-ci.md)", "high", _pytest(VIOLATIONS, [WIPES], (1,))),
        ("pytest: a match in a mode that nobody knows", "1", "high", _pytest(MATCHES.format(words='["get_order"], mode="no_order"'), [told(1, 0)], (1,))),
        ("pytest: a match of a number", "1", "high", _pytest(MATCHES.format(words="[7]"), [told(1, 0)], (1,))),
        ("pytest: a match of a text", "1", "high", _pytest(MATCHES.format(words='"get_order"'), [told(1, 0)], (0, 1))),
        ("pytest: traces that are not there", "1 or an error, never 0 (docs/howto/gate-in-ci.md)", "high", _pytest(ABSENT.format(where="nowhere", trials=1), [told(1, 0)], (1, 2, 3, 4, 5))),
        ("pytest: no trial at all", "an error, never 0 (docs/howto/gate-in-ci.md)", "high", _pytest(ABSENT.format(where="t", trials=0), [told(1, 0)], (1, 2, 3, 4, 5))),
        ("pytest: more trials by the command line than were recorded", "1: a trial that was never recorded fails (docs/howto/gate-in-ci.md)", "high", _pytest(ABSENT.format(where="t", trials=1), [told(1, 0)], (1,), "--stepscope-repeat 3")),
        ("pytest: a million million trials by the command line", "an error, at once: a gate takes a thousand (a sibling of processes without end)", "high", _pytest(ABSENT.format(where="t", trials=1), [told(1, 0)], (1, 2, 3, 4, 5), "--stepscope-repeat 1000000000000")),
        ("pytest: a million million trials by the marker", "an error, at once (a sibling of processes without end)", "high", _pytest(ABSENT.format(where="t", trials=10**12), [told(1, 0)], (1, 2, 3, 4, 5))),
        ("a case that forbids a tool that nobody has", "2: the same rule, said shorter (docs/howto/cases.md; a sibling of a case whose rule misspells its tool)", "high", script(("gate --runs t", (2,)), files={"stepscope.toml": CASED, "cases/a.toml": FORBIDS.replace("wipe", "wipee"), "t/a.jsonl": [WIPES]})),
        ("a failing run in a mode that is new, and its baseline beside it in the store", "3: baseline runs in the same store are not under test (docs/explanation/gates.md)", "high", moded(fleet(TAKEN), (3,), words="--store m.db", change=seventh._stored_too)),
        ("a rule whose argument was cut at a limit", "3 or 4: what cannot be read is unmeasured (CHANGELOG.md)", "high", script(("import t --store n.db", (0,)), lambda p: p.write("stepscope.toml", sixth.named(fifth.BREACH, more='[[policy]]\nname = "r"\nforbid = "pay"\nwhen = "amount > 100"\n' + seventh.EFFECTS)), ("score --store n.db", (0,)), ("gate --undecided pass --store n.db", (3, 4)),
         files={"stepscope.toml": "[limits]\ntext_bytes = 40\n", "t/a.json": fifth._chat(sixth._says("user", "Pay."), *sixth._did("pay", 1, "paid", json.dumps({"note": "x" * 200, "amount": 900})), sixth._says("assistant", "Done."), asked=False)})),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("gates", name, expected, severity, do, round=8) for name, expected, severity, do in (*_gate_rows(), *_judged_rows())]
