"""Gates: failing runs that are hidden, baselines that are damaged, designs and policies that lie.

Twelve cases, four trials each; the baseline passes all, and half of the runs fail now. Read
honestly that is code 3 (docs/howto/gate-in-ci.md). What is missing or set aside counts at its
worst, so code 0 is never right.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bars.attack._cases import Case, Place, Severity, coded

CASES, TRIALS = range(12), range(4)
DROP = "outcome = { max_drop = 0.05 }"
Content = str | bytes | Iterable[str]


def policy(gate: str = DROP, more: str = 'baseline = "base.json"') -> str:
    """Return settings of one workflow."""
    return f"[workflow.w]\n{more}\n[workflow.w.gates]\n{gate}\n"


def line(case: int, trial: object, *, passed: bool = True, text: str = "new", **more: Any) -> str:
    """Return one run as a line: a conversation with task, trial, workflow and reward."""
    said = [
        {"role": "user", "content": f"{text}: do {case}, {trial}"},
        {"role": "assistant", "content": "done"},
    ]
    record = {"task_id": f"c{case}", "trial": trial, "workflow": "w", "reward": float(passed)}
    return json.dumps({**record, "messages": said, **more})


def runs(text: str = "new", **more: Any) -> list[str]:
    """Return all the runs of the design, passing."""
    return [line(case, trial, text=text, **more) for case in CASES for trial in TRIALS]


def half(*, passed: bool, **more: Any) -> list[str]:
    """Return the runs of two trials of each case: those that pass, or those that fail."""
    chosen = TRIALS[:2] if passed else TRIALS[2:]
    return [line(case, n, passed=passed, **more) for case in CASES for n in chosen]


PASSING, FAILING = half(passed=True), half(passed=False)


def prepare(place: Place) -> None:
    """Make the settings, a store and its baseline."""
    place.write("stepscope.toml", policy())
    place.write("base.jsonl", runs("base"))
    place.must("import", "base.jsonl")
    place.must("score")
    place.must("baseline", "update", "--yes")


def zipped(members: Mapping[str, Iterable[str]], *, twice: str = "") -> bytes:
    """Return a zip of these members; the one named `twice` stands in it two times."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        for name, lines in members.items():
            packed.writestr(name, "\n".join(lines))
            if name == twice:
                import warnings

                with warnings.catch_warnings(action="ignore"):
                    packed.writestr(name, "\n".join(PASSING))
    return raw.getvalue()


def altered(**more: Any) -> list[str]:
    """Return the failing runs with these fields; those of the value `...` are taken away."""
    found = []
    for raw in FAILING:
        record = {**json.loads(raw), **more}
        found.append(json.dumps({k: v for k, v in record.items() if v is not ...}))
    return found


JOINED = "\n".join(FAILING)
# How failing runs are kept from being read as failing ones: the files under `t`.
HIDDEN: dict[str, dict[str, Content]] = {
    "in UTF-16": {"a.jsonl": PASSING, "b.jsonl": JOINED.encode("utf-16")},
    "in UTF-32 without a mark": {"a.jsonl": PASSING, "b.jsonl": JOINED.encode("utf-32-le")},
    "behind a mark of UTF-8, twice": {
        "a.jsonl": PASSING,
        "b.jsonl": b"\xef\xbb\xbf\xef\xbb\xbf" + JOINED.encode(),
    },
    "as one JSON array that is never closed": {
        "a.jsonl": PASSING,
        "b.json": "[" + ",".join(FAILING),
    },
    "as an array with a comma at its end": {
        "a.jsonl": PASSING,
        "b.json": "[" + ",".join(FAILING) + ",]",
    },
    "lines ended by carriage returns alone": {
        "a.jsonl": PASSING,
        "b.jsonl": JOINED.replace("\n", "\r"),
    },
    "parted by NUL bytes": {"a.jsonl": PASSING, "b.jsonl": JOINED.replace("\n", "\0")},
    "parted by U+2028": {"a.jsonl": PASSING, "b.jsonl": JOINED.replace("\n", "\u2028")},
    "behind forty thousand blank lines": {
        "a.jsonl": [*PASSING, *([""] * 40000), *FAILING],
    },
    "behind two megabytes of blanks in a line": {"a.jsonl": [*PASSING, " " * 2_000_000 + JOINED]},
    "in a comment of JavaScript": {"a.jsonl": [*PASSING, *("// " + r for r in FAILING)]},
    "as JSON texts within JSON": {"a.jsonl": [*PASSING, *(json.dumps(r) for r in FAILING)]},
    "each in an array of its own": {"a.jsonl": PASSING, "b.jsonl": [f"[{r}]" for r in FAILING]},
    "with the trials of passing runs": {
        "a.jsonl": [
            *PASSING,
            *(line(c, n, passed=False, text="other") for c in CASES for n in TRIALS[:2]),
        ]
    },
    "with the ids of passing runs": {
        "a.jsonl": [
            *(line(c, n, run_id=f"r{c}") for c in CASES for n in TRIALS[:2]),
            *(line(c, n, run_id=f"r{c}", passed=False) for c in CASES for n in TRIALS[2:]),
        ]
    },
    "with the words of passing runs": {
        "a.jsonl": [
            *PASSING,
            *(
                line(c, n, passed=False, messages=json.loads(line(c, n - 2))["messages"])
                for c in CASES
                for n in TRIALS[2:]
            ),
        ]
    },
    "among six more passing trials of each case": {
        "a.jsonl": [*PASSING, *FAILING, *(line(c, n) for c in CASES for n in range(4, 10))]
    },
    "cases with a blank at their end": {"a.jsonl": [*PASSING, *(r.replace('", "trial', ' ", "trial')
                                                     for r in FAILING)]},
    "cases in letters that look alike": {
        "a.jsonl": [*PASSING, *(r.replace('"c', '"\u0441') for r in FAILING)]
    },
    "cases in capital letters": {
        "a.jsonl": [*PASSING, *(r.replace('"c', '"C') for r in FAILING)]
    },
    "cases with a character without ink": {
        "a.jsonl": [*PASSING, *(r.replace('"c', '"c\u200b') for r in FAILING)]
    },
    "a case that is an object": {"a.jsonl": [*PASSING, *altered(task_id={"c": 1})]},
    "a case that is a list": {"a.jsonl": [*PASSING, *altered(task_id=["c1"])]},
    "a case that is true": {"a.jsonl": [*PASSING, *altered(task_id=True)]},
    "without a case": {"a.jsonl": [*PASSING, *altered(task_id=...)]},
    "without a workflow": {"a.jsonl": [*PASSING, *altered(workflow=...)]},
    "a workflow in a capital letter": {"a.jsonl": [*PASSING, *altered(workflow="W")]},
    "a workflow with a blank before it": {"a.jsonl": [*PASSING, *altered(workflow=" w")]},
    "a workflow that is a list": {"a.jsonl": [*PASSING, *altered(workflow=["w"])]},
    "a reward that is false": {"a.jsonl": [*PASSING, *altered(reward=False)]},
    "a reward that is null": {"a.jsonl": [*PASSING, *altered(reward=None)]},
    "a reward that is a list": {"a.jsonl": [*PASSING, *altered(reward=[])]},
    "a reward that is an object": {"a.jsonl": [*PASSING, *altered(reward={"value": 0})]},
    "a reward written as a text": {"a.jsonl": [*PASSING, *altered(reward="0.0")]},
    "a reward that is no number": {"a.jsonl": [*PASSING, *altered(reward=float("nan"))]},
    "a reward of minus infinity": {"a.jsonl": [*PASSING, *altered(reward=float("-inf"))]},
    "a reward below 0": {"a.jsonl": [*PASSING, *altered(reward=-1)]},
    "a reward next to 0": {"a.jsonl": [*PASSING, *altered(reward=5e-324)]},
    "without a reward": {"a.jsonl": [*PASSING, *altered(reward=...)]},
    "without messages": {"a.jsonl": [*PASSING, *altered(messages=[])]},
    "messages that are null": {"a.jsonl": [*PASSING, *altered(messages=None)]},
    "messages of a role nobody knows": {
        "a.jsonl": [*PASSING, *altered(messages=[{"role": "ghost", "content": "x"}])]
    },
    "messages that are numbers": {"a.jsonl": [*PASSING, *altered(messages=[1, 2])]},
    "in a zip under a name that leads out": {
        "a.jsonl": PASSING,
        "b.zip": zipped({"../b.jsonl": FAILING}),
    },
    "in a zip of two members of one name": {
        "a.zip": zipped({"x.jsonl": [*PASSING, *FAILING]}, twice="x.jsonl")
    },
    "in a zip within a zip": {
        "a.jsonl": PASSING,
        "b.zip": zipped({"c.zip": [zipped({"d.jsonl": FAILING}).decode("latin-1")]}),
    },
    "in a zip that is cut": {"a.jsonl": PASSING, "b.zip": zipped({"d.jsonl": FAILING})[:-30]},
    "in a file whose name begins with a dot": {"a.jsonl": PASSING, ".b.jsonl": FAILING},
    "in a file called README.md": {"a.jsonl": PASSING, "README.md": FAILING},
    "beside settings that ask for one trial": {
        "a.jsonl": PASSING,
        "stepscope.toml": policy(more='trials = 2\nbaseline = "base.json"'),
    },
    "beside a baseline of their own": {"a.jsonl": PASSING, "base.json": "{}"},
}  # fmt: skip


def _hidden(files: Mapping[str, Content], *more: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        for name, content in files.items():
            place.write(f"t/{name}", content)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass", *more), (3, 4))

    return do


def _stored(files: Mapping[str, Content]) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        for name, content in files.items():
            place.write(f"t/{name}", content)
        place.run("import", "t")
        place.must("score")
        return coded(place.run("gate", "--undecided", "pass"), (3, 4))

    return do


# The file of the baseline, damaged: what it becomes of what it was.
BASELINES: dict[str, Callable[[str], Content]] = {
    "empty": lambda text: "",
    "null": lambda text: "null",
    "a list": lambda text: f"[{text}]",
    "cut at half": lambda text: text[: len(text) // 2],
    "text behind its end": lambda text: text + "{}",
    "two documents": lambda text: text + text,
    "nested 5,000 deep": lambda text: "[" * 5000,
    "bytes that are no UTF-8": lambda text: text.encode() + b"\xff",
    "in UTF-16": lambda text: text.encode("utf-16"),
    "an answer that is no number": lambda text: text.replace("[1, 1, 1, 1]", "[1, 1, 1, NaN]", 1),
    "an answer of 10^400": lambda text: text.replace("[1, 1, 1, 1]", f"[1, 1, 1, 1{'0' * 400}]"),
    "fewer answers than runs": lambda text: text.replace("[1, 1, 1, 1]", "[1]", 1),
    "more answers than runs": lambda text: text.replace("[1, 1, 1, 1]", "[1, 1, 1, 1, 1]", 1),
    "a count that is not its runs": lambda text: text.replace('"n_runs": 48', '"n_runs": 4'),
    "no cases": lambda text: json.dumps({**json.loads(text), "cases": {}}),
    "a schema of the future": lambda text: text.replace('"schema": 1', '"schema": 99'),
    "a schema that is a text": lambda text: text.replace('"schema": 1', '"schema": "1"'),
    "another version of the measure": lambda text: text.replace(
        '"outcome": {"version": "1"}', '"outcome": {"version": "0"}'
    ),
    "without the measure": lambda text: text.replace('"outcome"', '"termination"'),
    "of another workflow": lambda text: text.replace('"workflow": "w"', '"workflow": "v"'),
}


def _damaged(change: Callable[[str], Content]) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        text = (place.folder / "base.json").read_text("utf-8")
        changed = change(text)
        if changed == text:
            return "the case changes nothing: it is wrong"
        place.write("base.json", changed)
        place.write("t/a.jsonl", [*PASSING, *FAILING])
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (4,))

    return do


def _baseline_at(kind: str) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        path = place.folder / "base.json"
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to({"loop": "base.json", "zeros": "/dev/zero"}[kind])
        place.write("t/a.jsonl", runs())
        return coded(place.run("gate", "--runs", "t"), (2, 4, 5))

    return do


# Policies: what stands under [workflow.w.gates], and the codes that are right on failing runs.
POLICIES: dict[str, tuple[str, tuple[int, ...]]] = {
    "a drop of no number": ("outcome = { max_drop = nan }", (2,)),
    "an endless drop": ("outcome = { max_drop = inf }", (2,)),
    "a drop below 0": ("outcome = { max_drop = -0.5 }", (2,)),
    "a drop of 2": ("outcome = { max_drop = 2.0 }", (2,)),
    "a drop written as a text": ('outcome = { max_drop = "0.05" }', (2,)),
    "a drop that is true": ("outcome = { max_drop = true }", (2,)),
    "a rate of -1": ("outcome = { min_rate = -1 }", (2,)),
    "a rate of 7": ("termination = { max_rate = 7, label = 'limit' }", (2,)),
    "no threshold": ("outcome = {}", (2,)),
    "two thresholds that fight": ("outcome = { max_rate = 0.1, min_rate = 0.9 }", (2, 3, 4)),
    "a severity nobody knows": ("outcome = { max_drop = 0.05, severity = 'Soft' }", (2,)),
    "a rule nobody knows": ("outcome = { max_drop = 0.05, rule = 'none' }", (2,)),
    "a source of nobody": ("outcome = { max_drop = 0.05, source = 'nobody' }", (2, 4)),
    "a misspelt measure": ("outcom = { max_drop = 0.05 }", (2,)),
    "a misspelt key": ("outcome = { max_dropp = 0.05 }", (2,)),
    "a label that no run has": ("outcome = { max_rate = 0.05, label = 'nothing' }", (2, 3, 4)),
    "no gate": ("", (2, 4)),
    # No worsening is seen, so it is no regression.
    "a ratio of 0": ("step_efficiency = { max_ratio_to_baseline_median = 0 }", (0, 2, 3)),
    "a ratio of no number": ("step_efficiency = { max_ratio_to_baseline_median = nan }", (2,)),
    "half a run": ("no_errors = { max_per_run = 0.5 }\noutcome = { max_drop = 0.05 }", (2, 3)),
    "a count below 0": ("no_errors = { max_per_run = -1 }", (2, 3)),
    "a count of 10^30": (f"no_errors = {{ max_per_run = 1{'0' * 30} }}\n{DROP}", (2, 3)),
}


def _policy(gate: str, codes: tuple[int, ...]) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        place.write("stepscope.toml", policy(gate))
        place.write("t/a.jsonl", [*PASSING, *FAILING])
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


# Words behind `gate`, over failing runs in `t` and passing ones in `p`.
WORDS: dict[str, tuple[str, tuple[int, ...]]] = {
    "a case that nobody has": ("--runs p --cases zzz", (2, 3, 4)),
    "an empty case": ("--runs p --cases ''", (2, 3, 4)),
    "only the trials that pass": ("--runs t --where \"trial < '2'\"", (3, 4)),
    "only the runs that pass": ("--runs t --where \"outcome = 'pass'\"", (3, 4)),
    "no run at all": ("--runs t --where \"task = 'zzz'\"", (4,)),
    "the passing half, named twice": ("--runs p --runs p", (3, 4)),
    "the passing half under two names": ("--runs p --runs ./p/../p", (3, 4)),
    "five trials where there are four": ("--runs full --trials 5", (3, 4)),
    "a million trials": ("--runs full --trials 1000000", (2, 3, 4)),
    "no minutes": ("--runs t --max-minutes 0", (4,)),
    "a workflow that nobody has": ("--runs t --workflow zzz", (2,)),
    "a folder that is not there": ("--runs nowhere", (2,)),
    "an empty folder": ("--runs void", (2, 4)),
    "a device without an end": ("--runs /dev/zero", (2, 3, 4)),
    "a device without a byte": ("--runs /dev/null", (2, 3, 4)),
    "a commit that is a path": ("--runs t --commit ../../evil", (2, 3)),
    "a try of 10^30": (f"--runs t --attempt 1{'0' * 30}", (2, 3, 4)),
    "minutes of no number": ("--runs t --max-minutes nan", (2, 3, 4)),
    "another file as the baseline": ("--runs t --baseline stepscope.toml", (2, 4)),
    "a baseline that is a folder": ("--runs t --baseline void", (2, 4)),
    "settings that are a folder without any": ("--runs t --config void", (2,)),
    "an output that cannot be written": ("--runs t -o void", (2, 5)),
    "an output on a full device": ("--runs t -o /dev/full", (2, 5)),
    "a folder of outputs that is a file": ("--runs t --write base.json", (2, 5)),
}


def _words(words: str, codes: tuple[int, ...]) -> Callable[[Place], str]:
    def do(place: Place) -> str:
        import shlex

        place.write("t/a.jsonl", [*PASSING, *FAILING])
        place.write("p/a.jsonl", PASSING)
        place.write("full/a.jsonl", runs())
        (place.folder / "void").mkdir()
        outside = set(place.folder.parent.iterdir())
        wrong = coded(place.run("gate", *shlex.split(words)), codes)
        more = set(place.folder.parent.iterdir()) - outside
        return wrong or (f"files outside of the folder: {more}" if more else "")

    return do


def _failing_name(place: Place) -> str:
    (place.folder / "t").mkdir()
    place.write("t/a.jsonl", PASSING)
    with Path(os.fsdecode(os.fsencode(place.folder) + b"/t/\xff\n.jsonl")).open("wb") as file:
        file.write(JOINED.encode())
    return coded(place.run("gate", "--runs", "t"), (3,))


def _deep_folder(place: Place) -> str:
    place.write("t/a.jsonl", PASSING)
    place.write("t/" + "d/" * 60 + "b.jsonl", FAILING)
    return coded(place.run("gate", "--runs", "t"), (3,))


def _link_out(place: Place) -> str:
    place.write("t/a.jsonl", PASSING)
    place.write("elsewhere/b.jsonl", FAILING)
    (place.folder / "t/b.jsonl").symlink_to(place.folder / "elsewhere/b.jsonl")
    return coded(place.run("gate", "--runs", "t"), (3,))


def _pipe_among(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    os.mkfifo(place.folder / "t/b.jsonl")
    return coded(place.run("gate", "--runs", "t"), (3,))


def _ids_of_baseline(place: Place) -> str:
    """Export the baseline's runs, make half of them fail under their old ids, import them."""
    place.must("export", "old.jsonl")
    changed = []
    for at, raw in enumerate((place.folder / "old.jsonl").read_text("utf-8").splitlines()):
        run = json.loads(raw)
        if at % 2 and "outcome" in run:
            run["outcome"] = {**run["outcome"], "status": "fail"}
        changed.append(json.dumps(run))
    place.write("t/a.jsonl", changed)
    return coded(place.run("gate", "--runs", "t"), (3, 4))


def _ids_of_baseline_stored(place: Place) -> str:
    wrong = _ids_of_baseline(place)
    place.run("import", "t")
    place.must("score")
    return wrong or coded(place.run("gate"), (3, 4))


def _purged(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    place.must("import", "t")
    place.must("score")
    place.must("purge", "--where", "outcome = 'fail'", "--yes")
    return coded(place.run("gate"), (3, 4))


def _unscored(place: Place) -> str:
    place.write("t/a.jsonl", PASSING)
    place.must("import", "t")
    place.must("score")
    place.write("u/a.jsonl", FAILING)
    place.must("import", "u")
    return coded(place.run("gate", "--undecided", "pass"), (3, 4))


def _outcomes_doubled(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    place.must("import", "t")
    told = ["run,outcome,who"]
    told += [f"w/c{c}/{n},{word},check" for c in CASES for n in (2, 3) for word in ("fail", "pass")]
    place.write("o.csv", told)
    done = place.run("import", "--outcomes", "o.csv")
    place.must("score")
    wrong = coded(place.run("gate", "--undecided", "pass"), (3, 4))
    return wrong and f"{wrong}; import --outcomes said {done.code} {done.said[-200:]!r}"


def _outcomes_of_nobody(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    place.must("import", "t")
    told = ["run,outcome,who"]
    told += [f"w/c{c}/{n},pass," for c in CASES for n in (2, 3)]
    place.write("o.csv", told)
    place.run("import", "--outcomes", "o.csv")
    place.must("score")
    return coded(place.run("gate", "--undecided", "pass"), (3, 4))


def _same_code_in_every_form(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    for form in ("", "--json", "--markdown", "--junit"):
        done = place.run("gate", "--runs", "t", *([form] if form else []))
        if wrong := coded(done, (3,)):
            return f"{form}: {wrong}"
    failures = ElementTree.fromstring(done.out).iter("failure")
    return "" if list(failures) else "JUnit has no failure"


def _summary_is_a_folder(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder)
    return coded(place.run("gate", "--runs", "t"), (2, 3, 5))


def _summary_is_full(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *FAILING])
    os.environ["GITHUB_STEP_SUMMARY"] = "/dev/full"
    return coded(place.run("gate", "--runs", "t"), (3, 5))


def _soft_but_missing(place: Place) -> str:
    place.write("stepscope.toml", policy("outcome = { max_drop = 0.05, severity = 'soft' }"))
    (place.folder / "base.json").unlink()
    place.write("t/a.jsonl", runs())
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (4,))


def _two_workflows(place: Place) -> str:
    """The second workflow has no runs at all: it was not measured."""
    more = policy().replace("workflow.w", "workflow.v").replace("base.json", "none.json")
    place.write("stepscope.toml", policy() + more)
    place.write("t/a.jsonl", runs())
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (4,))


def _failing_in_json_says_code(place: Place) -> str:
    place.write("t/a.jsonl", [*PASSING, *(r[:-3] for r in FAILING)])
    done = place.run("gate", "--runs", "t", "--json")
    told = json.loads(done.out)
    if told["exit_code"] != done.code or done.code != 3:
        return f"exit_code {told['exit_code']}, code {done.code}"
    absent = told["report"]["workflows"][0]["absent"]
    return "" if "24" in absent else f"absent: {absent!r}"


def _honest(place: Place) -> str:
    place.write("t/a.jsonl", runs())
    return coded(place.run("gate", "--runs", "t"), (0,))


OTHERS: list[tuple[str, str, Severity, Callable[[Place], str]]] = [
    ("in a file whose name is no UTF-8", "code 3", "high", _failing_name),
    ("in sixty folders within each other", "code 3", "high", _deep_folder),
    ("behind a link that leads out", "code 3: missing", "high", _link_out),
    ("a pipe among the traces", "code 3, at once", "high", _pipe_among),
    ("failing runs under the baseline's ids", "never 0", "high", _ids_of_baseline),
    ("the same from a store", "never 0", "high", _ids_of_baseline_stored),
    ("failing runs that were purged", "never 0: outcomes stay", "high", _purged),
    ("failing runs that were not scored", "never 0", "high", _unscored),
    ("an outcomes file that says both", "never 0", "high", _outcomes_doubled),
    ("an outcomes file that names nobody", "never 0", "high", _outcomes_of_nobody),
    ("the code is one in every form", "3, and a failure in JUnit", "high",
     _same_code_in_every_form),
    ("a job summary that is a folder", "2, 3 or 5", "high", _summary_is_a_folder),
    ("a job summary on a full disk", "3 or 5", "high", _summary_is_full),
    ("a soft gate without its baseline", "code 4", "high", _soft_but_missing),
    ("two workflows, one without runs", "code 4", "high", _two_workflows),
    ("JSON says code and what is absent", "3, 24 trials", "medium", _failing_in_json_says_code),
    ("whole runs that pass", "code 0", "medium", _honest),
]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this area."""
    never = "3 or 4, never 0: what is missing or set aside counts at its worst"
    found = [
        Case("gates", f"failing runs {k}", never, "high", _hidden(v)) for k, v in HIDDEN.items()
    ]
    stored = ("in UTF-16", "with the ids of passing runs", "without a case", "in a zip that is cut",
              "with the trials of passing runs", "in a comment of JavaScript")  # fmt: skip
    found += [
        Case("gates", f"failing runs {k}, from a store", never, "high", _stored(HIDDEN[k]))
        for k in stored
    ]
    found += [
        Case("gates", f"a baseline: {k}", "4, whatever --undecided says", "high", _damaged(v))
        for k, v in BASELINES.items()
    ]
    found += [
        Case("gates", f"a baseline that is a {k}", "2, 4 or 5, at once", "high", _baseline_at(k))
        for k in ("folder", "pipe", "loop", "zeros")
    ]
    found += [
        Case("gates", f"a policy: {k}", f"code {codes}", "high", _policy(v, codes))
        for k, (v, codes) in POLICIES.items()
    ]
    found += [
        Case("gates", f"words: {k}", f"code {codes}", "high", _words(v, codes))
        for k, (v, codes) in WORDS.items()
    ]
    found += [Case("gates", name, text, severity, do) for name, text, severity, do in OTHERS]
    return found
