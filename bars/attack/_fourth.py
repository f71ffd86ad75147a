"""The fourth round: gates.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Mechanisms that the first three did not have: baselines of other settings, outcomes that come
later and from others, encodings and archives of other programs, the inputs of the action.
"""

# fmt: off
from __future__ import annotations

import json
import os
import re
import shlex
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack._cases import SECONDS, Area, Case, Done, Place, Severity, _text, coded

Do = Callable[[Place], str]
Row = tuple[str, str, Severity, Do]
NEVER = "3 or 4, never 0: what is missing or set aside counts at its worst"
BAD = {"a.jsonl": [*gates.PASSING, *gates.FAILING]}
RULE = '[[policy]]\nname = "{name}"\nforbid = "write"\nmax_calls = {calls}\n'


def placed(place: Place, files: Mapping[str, gates.Content], folder: str = "t") -> None:
    """Write files into a folder."""
    for name, content in files.items():
        place.write(f"{folder}/{name}", content)


def gated(words: str = "--runs t --undecided pass", codes: Iterable[int] = (3, 4), *, text: str = "",
          files: Mapping[str, gates.Content] | None = None, says: str = "",
          first: Iterable[str] = (), lacks: str = "") -> Do:
    """Return what gates these files in `t` by these words, after these other commands."""

    def do(place: Place) -> str:
        placed(place, BAD if files is None else files)
        place.write("full/a.jsonl", gates.runs())
        for command in first:
            place.must(*shlex.split(command))
        if text:
            place.write("stepscope.toml", text)
        return coded(place.run("gate", *shlex.split(words)), tuple(codes), says=says, lacks=lacks)

    return do


def policy(gate: str, more: str = "") -> str:
    """Return settings of one gate, with more tables behind it."""
    return gates.policy(gate) + more


def _zip(method: int = zipfile.ZIP_DEFLATED, *, before: bytes = b"", claims: int | None = None,
         comment: bytes = b"", extra: Mapping[str, str] | None = None) -> bytes:
    """Return the failing runs in a zip of this method; `claims` is what its heads say instead."""
    raw = BytesIO()
    with zipfile.ZipFile(raw, "w", method) as packed:
        packed.writestr("b.jsonl", gates.JOINED)
        packed.comment = comment
        for name, text in (extra or {}).items():
            packed.writestr(name, text)
    made = bytearray(raw.getvalue())
    if claims is not None:
        for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            made[made.index(mark) + at : made.index(mark) + at + 2] = struct.pack("<H", claims)
    return before + bytes(made)


HIDDEN: dict[str, tuple[str, gates.Content]] = {
    "as a sequence of RFC 7464": ("b.jsonl", "".join(f"\x1e{r}\n" for r in gates.FAILING)),
    "each line with a comma at its end": ("b.jsonl", [f"{r}," for r in gates.FAILING]),
    "as Python prints them": ("b.jsonl", [str(json.loads(r)) for r in gates.FAILING]),
    "in EBCDIC": ("b.jsonl", gates.JOINED.encode("cp037")),
    "in UTF-16 of the other order without a mark": ("b.jsonl", gates.JOINED.encode("utf-16-be")),
    "in UTF-7": ("b.jsonl", ("+AHs-" + gates.JOINED[1:]).encode("ascii")),
    "a mark of UTF-8 before each line": ("b.jsonl", ["\ufeff" + r for r in gates.FAILING]),
    "behind Ctrl-Z": ("a2.jsonl", "\n".join([gates.PASSING[0], "\x1a", *gates.FAILING])),
    "parted by form feeds": ("b.jsonl", "\f".join(gates.FAILING)),
    "parted by two line feeds of old systems": ("b.jsonl", "\x85".join(gates.FAILING)),
    "as a table with a head": ("b.csv", ["task_id,trial,workflow,reward",
                                         *(f"c{c},{n},w,0" for c in gates.CASES for n in (2, 3))]),
    "within a page": ("b.jsonl", ["<pre>", *gates.FAILING, "</pre>"]),
    "as quoted-printable": ("b.jsonl", gates.JOINED.replace("=", "=3D").replace('"', "=22")),
    "packed by bzip2 in a zip": ("b.zip", _zip(zipfile.ZIP_BZIP2)),
    "packed by LZMA in a zip": ("b.zip", _zip(zipfile.ZIP_LZMA)),
    "packed by a method nobody has": ("b.zip", _zip(claims=9)),
    "packed by a method that is not the one it says": ("b.zip", _zip(zipfile.ZIP_STORED, claims=8)),
    "in a zip behind a program": ("b.zip", _zip(before=b"#!/bin/sh\nexit 0\n" * 9)),
    "in a zip with another zip as its comment": ("b.zip", _zip(comment=_zip()[:60000])),
    "in a zip beside a folder of its name": ("b.zip", _zip(extra={"b.jsonl/": ""})),
    "in a file without an ending": ("b", gates.JOINED),
    "in a file called .jsonl.tmp": ("b.jsonl.tmp", gates.JOINED),
    "in a file called like the log of looks": ("looks.json", "[" + ",".join(gates.FAILING) + "]"),
    "in a file called failure_labels.json": ("failure_labels.json",
                                             "[" + ",".join(gates.FAILING) + "]"),
    "in a file called results.json": ("results.json", "[" + ",".join(gates.FAILING) + "]"),
    "under a head of our own format": ("b.jsonl", ['{"stepscope": 1}', *gates.FAILING]),
    "as rows of step scores": ("b.csv", ["run,step,score,workflow,task,trial",
                                         *(f"w/c{c}/{n},0,1.0,w,c{c},{n}" for c in gates.CASES
                                           for n in (2, 3))]),
}  # fmt: skip


def _told_as(form: str, name: str, codes: tuple[int, ...], spoil: Callable[[bytes], bytes] | None = None) -> Do:
    """Return what gates failing runs that were exported in a format of ours, perhaps spoilt then."""

    def do(place: Place) -> str:
        place.write("f.jsonl", gates.FAILING)
        place.must("import", "f.jsonl", "--store", "f.db")
        place.write("t/a.jsonl", gates.PASSING)
        place.must("export", f"t/{name}", "--format", form, "--store", "f.db")
        if spoil:
            path = Path("t", name)
            path.write_bytes(spoil(path.read_bytes()))
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


def _after(before: str, after: str, *, files: Mapping[str, gates.Content] | None = None,
           codes: tuple[int, ...] = (4,), rows: list[str] | None = None) -> Do:
    """Return what makes a baseline under some settings, and gates under others."""

    def do(place: Place) -> str:
        place.write("n/stepscope.toml", before)
        place.write("n.jsonl", rows or gates.runs("old"))
        place.write("n/tools.json", '[{"name": "look"}]')
        for command in ("import n.jsonl", "score", "baseline update --yes --config n"):
            # Rules are read from the settings in the working folder.
            place.write("stepscope.toml", before)
            place.must(*command.split(), "--store", "n.db")
        if not Path("n/base.json").exists():
            return "the case is wrong: no baseline beside its settings"
        place.write("n/stepscope.toml", after)
        place.write("stepscope.toml", after)
        placed(place, {"a.jsonl": gates.runs()} if files is None else files)
        done = place.run("gate", "--config", "n", "--runs", "t", "--undecided", "pass")
        return coded(done, codes)

    return do


def _unicode(was: Callable[[int], str], now: Callable[[int], str]) -> Do:
    """Return what has a baseline of cases under names, and failing runs under names that look so."""

    def rows(name: Callable[[int], str], text: str, trials: Iterable[int], *, passed: bool = True) -> list[str]:
        return [gates.line(c, n, passed=passed, text=text, task_id=name(c)) for c in gates.CASES for n in trials]

    def do(place: Place) -> str:
        place.write("n/stepscope.toml", gates.policy())
        place.write("n.jsonl", rows(was, "old", gates.TRIALS))
        for command in ("import n.jsonl", "score", "baseline update --yes --config n"):
            place.must(*command.split(), "--store", "n.db")
        place.write("t/a.jsonl", rows(was, "new", (0, 1)))
        place.write("t/b.jsonl", rows(now, "new", (2, 3), passed=False))
        return coded(place.run("gate", "--runs", "t", "--config", "n", "--undecided", "pass"), (3, 4))

    return do


def _said_later(*files: tuple[str, list[str]], reward: bool = True, codes: tuple[int, ...] = (3, 4),
                words: str = "--outcomes") -> Do:
    """Return what imports failing runs, and then files of outcomes: run, outcome, who."""

    def do(place: Place) -> str:
        # By the recorder's ids: the baseline in the same store has runs of these names.
        made = [json.loads(gates.line(c, n, passed=False, run_id=f"r{c}-{n}")) for c in gates.CASES for n in (2, 3)]
        rows = [json.dumps({k: v for k, v in one.items() if reward or k != "reward"}) for one in made]
        place.write("t/a.jsonl", [*gates.PASSING, *rows])
        place.must("import", "t")
        for number, (head, told) in enumerate(files):
            lines = [row.format(run=f"r{c}-{n}") for c in gates.CASES for n in (2, 3) for row in told]
            place.write(f"o{number}.csv", [head, *lines])
            place.run("import", *shlex.split(words), f"o{number}.csv")
        place.must("score")
        return coded(place.run("gate", "--undecided", "pass"), codes)

    return do


def _baseline_then(words: str, codes: tuple[int, ...], first: Iterable[str] = ()) -> Do:
    """Return what makes the baseline anew by these words, and gates failing runs."""

    def do(place: Place) -> str:
        for command in first:
            place.run(*shlex.split(command))
        done = place.run("baseline", "update", "--yes", *shlex.split(words))
        if done.code not in (0, 2, 4):
            return f"baseline update: {done.code}"
        placed(place, BAD)
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), codes)

    return do


def _twice(place: Place) -> str:
    """The same runs at one commit are one look: the same code, the same words."""
    placed(place, BAD)
    said = [place.run("gate", "--runs", "t", "--commit", "abc") for _ in range(3)]
    if {done.code for done in said} != {3}:
        return f"codes {[done.code for done in said]}"
    return "" if len({done.out for done in said}) == 1 else "other words at the second look"


def _rerun(*between: str, second: str = "") -> Do:
    """Return what looks at failing runs, does something, and looks at passing ones of the commit."""

    def do(place: Place) -> str:
        placed(place, BAD)
        place.write("u/a.jsonl", gates.runs("again"))
        words = ("--commit", "abc", "--undecided", "pass")
        wrong = coded(place.run("gate", "--runs", "t", *words), (3,))
        for command in between:
            place.run(*shlex.split(command))
        return wrong or coded(place.run("gate", "--runs", "u", *words, *shlex.split(second)), (2, 3, 4))

    return do


def _junit_counts(place: Place) -> str:
    """What JUnit says of a gate that failed and one that was not measured adds up."""
    placed(place, BAD)
    place.write("stepscope.toml", gates.policy(f"{gates.DROP}\ntokens.median = {{ max_per_run = 5 }}"))
    done = place.run("gate", "--runs", "t", "--junit")
    root = ElementTree.fromstring(done.out)
    bad = sum(1 for one in root.iter() if one.tag in ("failure", "error"))
    told = sum(int(s.get(k, "0")) for s in root.iter("testsuite") for k in ("failures", "errors"))
    wrong = coded(done, (3, 4))
    return wrong or ("" if bad == told >= 2 else f"{bad} failures and errors stand there, {told} are said")


def _in_all_files(place: Place) -> str:
    """Every file of `--write`, and the job summary, tell the failure and the missing trials."""
    placed(place, {"a.jsonl": gates.PASSING})
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "summary.md")
    done = place.run("gate", "--runs", "t", "--write", "w")
    texts = [p for p in (*Path("w").rglob("*"), Path("summary.md")) if p.is_file()]
    lacking = [p.name for p in texts if not re.search(r"24\D{0,20}missing", p.read_text("utf-8"))]
    if len(texts) < 4:
        return f"only {[p.name for p in texts]}"
    return coded(done, (3,)) or (f"24 missing trials are not told in {lacking}" if lacking else "")


def _long_runs(limits: str, codes: tuple[int, ...]) -> Do:
    """Return what compares lengths: half of the runs have become forty times as long."""
    said = [{"role": r, "content": f"{r} {n}"} for n in range(40) for r in ("user", "assistant")]
    rows = [*gates.PASSING, *(gates.line(c, n, messages=[{"role": "user", "content": f"{c} {n}"}, *said])
                              for c in gates.CASES for n in (2, 3))]
    text = "step_efficiency = { max_ratio_to_baseline_median = 1.3 }"
    return _after(gates.policy(text), gates.policy(text) + limits, files={"a.jsonl": rows}, codes=codes)


def _store_and_files(place: Place) -> str:
    """The store holds passing runs of the commit; the files that are named are what is gated."""
    place.must("import", "full")
    place.must("score")
    placed(place, BAD)
    return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3,))


def _grown(place: Place) -> str:
    """Sessions that grew: a passing beginning, and the failing whole, under one recorder's id."""
    def told(more: list[dict[str, str]], *, passed: bool) -> list[str]:
        found = []
        for c in gates.CASES:
            for n in gates.TRIALS:
                raw = json.loads(gates.line(c, n, passed=passed or n < 2, run_id=f"r{c}-{n}"))
                raw["messages"] += more
                found.append(json.dumps(raw))
        return found

    place.write("t/a.jsonl", told([{"role": "user", "content": "no"}], passed=False))
    place.write("t/b.jsonl", told([], passed=True))
    place.must("import", "t/a.jsonl")
    place.must("import", "t/b.jsonl")
    place.must("score")
    return coded(place.run("gate", "--undecided", "pass"), (3, 4))


# ---- the action of a forge: its script, run as a runner runs it


def acted(place: Place, code: int | tuple[int, ...], outcome: str = "", *, temp: str = "tmp", **inputs: str) -> str:
    """Return what is wrong with the action's step: its code, and what it outputs."""
    root = Path(__file__).parents[2]
    text = (root / "action.yml").read_text("utf-8").partition("- name: Decide the gates")[2]
    script = textwrap.dedent(text.partition("run: |\n")[2])
    folder = place.folder / temp
    folder.mkdir(exist_ok=True)
    given = {"config": ".", "runs": "", "workflow": "", "baseline": "", "trials": "", "cases": "",
             "fail_on": "hard", "undecided": "", "max_minutes": "10", "commit": "", "attempt": ""} | inputs
    environment = {**os.environ, **{f"IN_{k.upper()}": v for k, v in given.items()}}
    environment |= {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "out"),
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    began = time.monotonic()
    made = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
                          env=environment, capture_output=True, check=False, timeout=SECONDS)
    done = Done(made.returncode, _text(made.stdout), _text(made.stderr))
    place._checked(("action",), done, time.monotonic() - began)
    codes = (code,) if isinstance(code, int) else code
    if wrong := coded(done, codes):
        return wrong
    told = (folder / "out").read_text("utf-8")
    found = dict(re.findall(r"(?ms)^([\w-]+)<<(?P<end>[0-9a-f]{32})\n(?:.*?)\n(?P=end)$", told))
    values = {m[1]: m[3] for m in re.finditer(r"(?ms)^([\w-]+)<<([0-9a-f]{32})\n(.*?)\n\2$", told)}
    words = {0: "pass", 3: "fail", 4: "undecided"}
    if values.get("exit-code") != str(done.code) or len(found) != 3:
        return f"outputs {values}"
    wanted = outcome or words.get(done.code, "error")
    return "" if values["outcome"] == wanted else f"outcome {values['outcome']!r}, not {wanted!r}"


def _action(code: int | tuple[int, ...], *, temp: str = "tmp", **inputs: str) -> Do:
    def do(place: Place) -> str:
        placed(place, BAD)
        placed(place, BAD, "two words")
        placed(place, {"a.jsonl": gates.runs()}, "full")
        placed(place, {"a.jsonl": gates.runs()}, "--undecided=pass")
        return acted(place, code, temp=temp, **inputs)

    return do


def _action_rows() -> list[Row]:
    told = "the code of gate, and outputs that say it"
    return [
        ("the action: failing runs", f"3; {told}", "high", _action(3, runs="t")),
        ("the action: whole runs", f"0; {told}", "medium", _action(0, runs="full")),
        ("the action: two paths, one fails", f"3; {told}", "high", _action(3, runs="full\nt\n")),
        ("the action: a path of two words", f"3; {told}", "high", _action(3, runs="two words")),
        ("the action: paths in lines of Windows", "2 or 3, never 0", "high",
         _action((2, 3), runs="t\r\nfull\r\n")),
        ("the action: a path that looks like an option", "0: it is a folder of whole runs", "medium",
         _action(0, runs="--undecided=pass")),
        ("the action: a run that is an option", "2 to 4, never 0", "high",
         _action((2, 3, 4), runs="--undecided=pass\nt")),
        ("the action: a config that is an option", "2", "high", _action(2, config="--help", runs="t")),
        ("the action: undecided of two words", "2 or 3", "high", _action((2, 3), undecided="pass --trials=1", runs="t")),
        ("the action: a commit that closes the command", "2 or 3", "high",
         _action((2, 3), commit="'; exit 0; '", runs="t")),
        ("the action: a commit of a substitution", "2 or 3", "high", _action((2, 3), commit="$(exit 0)`exit`", runs="t")),
        ("the action: no minutes written", "2: an error", "medium", _action(2, max_minutes="", runs="t")),
        ("the action: trials that are no number", "2", "medium", _action(2, trials="four", runs="full")),
        ("the action: a case nobody has", "2: a mistake", "medium", _action(2, cases="zzz", runs="full")),
        ("the action: cases by an indented line", "2: a blank is part of a name", "high",
         _action((2, 3), cases="  c1", runs="t")),
        ("the action: a folder of two lines", f"3; {told}", "medium", _action(3, runs="t", temp="a\nb")),
        ("the action: fail-on of a word nobody knows", "2", "high", _action(2, fail_on="Hard", runs="t")),
        ("the action: no baseline", "4 and undecided", "high", _action(4, baseline="none.json", runs="t")),
        ("the action: an attempt of 0", "2", "medium", _action(2, attempt="0", runs="t")),
    ]  # fmt: skip


def _gate_rows() -> list[Row]:
    ann, check, reward = "{run},pass,ann", "{run},pass,check", "{run},pass,reward"
    head = "run,outcome,who"
    tokens = "tokens.p95 = { max_per_run = 100 }"
    source = "source = 'local/a'"
    return [
        *((f"failing runs {name}", NEVER, "high",
           gated(files={"a.jsonl": gates.PASSING, file: content})) for name, (file, content) in HIDDEN.items()),
        ("failing runs as we export them", "3", "high", _told_as("ours", "b.jsonl", (3,))),
        ("failing runs as we export them to Parquet", "3", "high", _told_as("parquet", "b.parquet", (3,))),
        ("failing runs as ATIF", "3: it comes back whole", "high", _told_as("atif", "b", (3,))),
        ("failing runs as OTLP", f"{NEVER}: tasks are not written", "high", _told_as("otlp", "b.jsonl", (3, 4))),
        ("failing runs in Parquet that is cut", NEVER, "high",
         _told_as("parquet", "b.parquet", (3, 4), lambda raw: raw[:-9])),
        ("failing runs in Parquet with noise in its middle", NEVER, "high",
         _told_as("parquet", "b.parquet", (3, 4), lambda raw: raw[:400] + b"\0" * 99 + raw[499:])),
        ("failing runs of ours without their head", NEVER, "high",
         _told_as("ours", "b.jsonl", (3, 4), lambda raw: raw.partition(b"\n")[2])),
        ("failing runs of ours under a head of another version", NEVER, "high",
         _told_as("ours", "b.jsonl", (3, 4), lambda raw: re.sub(rb"\d+", b"99", raw.partition(b"\n")[0]) + b"\n" + raw.partition(b"\n")[2])),
        ("failing runs of ours, twice in a file", "3: known by their ids", "high",
         _told_as("ours", "b.jsonl", (3, 4), lambda raw: raw + raw)),
        ("failing runs of ours with a field nobody knows", NEVER, "high",
         _told_as("ours", "b.jsonl", (3, 4), lambda raw: raw.replace(b'{"id"', b'{"odd":1,"id"'))),
        ("a baseline of another rule", "4: other declared rules", "high",
         _after(policy("policy = { max_drop = 0.05 }", RULE.format(name="a", calls=1)),
                policy("policy = { max_drop = 0.05 }", RULE.format(name="b", calls=2)))),
        ("a baseline without the rule", "4: other declared rules", "high",
         _after(policy("policy = { max_drop = 0.05 }", RULE.format(name="a", calls=1)),
                policy("policy = { max_drop = 0.05 }", RULE.format(name="a", calls=1) + RULE.format(name="b", calls=2)))),
        ("a baseline of other rules, and failing runs", NEVER, "high",
         _after(policy(gates.DROP, RULE.format(name="a", calls=1)), policy(gates.DROP), files=BAD, codes=(3, 4))),
        ("a baseline of other effects of tools", "4: effects are declared, too", "high",
         _after(policy("axes.tool_selection = { max_drop = 0.05 }", '[tools]\nlook = "read"\n'),
                policy("axes.tool_selection = { max_drop = 0.05 }", '[tools]\nlook = "write"\n'))),
        ("a baseline before the gate was written", "4 where it lacks the measure, else 0", "high",
         _after(policy("termination = { max_drop = 0.05 }"), policy("outcome = { max_drop = 0.05 }\ntermination = { max_drop = 0.05 }"),
                codes=(0, 4))),
        ("lengths that grew", "3", "high", _long_runs("", (3,))),
        ("lengths that grew beyond the limit of steps", f"{NEVER}: longer than any", "high",
         _long_runs("[limits]\nsteps = 20\n", (3, 4))),
        ("lengths that grew beyond the limit of a line", f"{NEVER}: longer than any", "high",
         _long_runs("[limits]\nline_bytes = 900\n", (3, 4))),
        ("cases that are composed and decomposed", NEVER, "high",
         _unicode(lambda c: f"\u00e9{c}", lambda c: f"e\u0301{c}")),
        ("cases with a blank that does not break", NEVER, "high",
         _unicode(lambda c: f"c {c}", lambda c: f"c\u00a0{c}")),
        ("cases with a tab and with its escape", NEVER, "high", _unicode(lambda c: f"c\t{c}", lambda c: f"c\\t{c}")),
        ("cases of slashes that shift", NEVER, "high", _unicode(lambda c: f"a/{c}", lambda c: f"a/{c}/")),
        ("cases of 5,000 signs that differ in the last", NEVER, "high",
         _unicode(lambda c: "x" * 5000 + str(c), lambda c: "x" * 5000 + str(c) + "'")),
        ("cases that a key hides", NEVER, "high",
         _unicode(lambda c: f"password=aB3dE5fG7{c:02}", lambda c: f"password=aB3dE5fG7{c + 50:02}")),
        ("a person says that failing runs passed", "3: a reward outranks a person", "high", _said_later((head, [ann]), codes=(3,))),
        ("a second reward says that failing runs passed", "3: the earlier stays", "high", _said_later((head, [reward]), codes=(3,))),
        ("people and a check that disagree, the check later", "3", "high",
         _said_later((head, [ann]), (head, ["{run},fail,check"]), reward=False, codes=(3,))),
        ("people and a check that disagree, the check first", "3", "high",
         _said_later((head, ["{run},fail,check"]), (head, [ann]), reward=False, codes=(3,))),
        ("two checks that disagree, in two files", "3: the earlier stays", "high",
         _said_later((head, ["{run},fail,check"]), (head, [check]), reward=False, codes=(3,))),
        ("two people who disagree, in two files", "3: the earlier stays", "high",
         _said_later((head, ["{run},fail,ann"]), (head, ["{run},pass,bob"]), reward=False, codes=(3,))),
        ("verdicts of people under the rubric outcome", "3: as outcomes do", "high",
         _said_later(("run,label,judge", [ann]), codes=(3,), words="--rubric outcome --human --verdicts")),
        ("verdicts of a judge under the rubric outcome", NEVER, "high",
         _said_later(("run,label,judge", ["{run},pass,gpt"]), codes=(3, 4), words="--rubric outcome --verdicts")),
        ("outcomes of runs that were never recorded", NEVER, "high",
         _said_later((head, ["x{run},pass,check"]), reward=False)),
        ("outcomes by a beginning of ids", NEVER, "high", _said_later((head, ["0,pass,check", "a,pass,check"]), reward=False)),
        ("outcomes of a reward of 0.5", NEVER, "high", _said_later(("run,reward,who", ["{run},0.5,check"]), reward=False)),
        ("grown sessions, the whole first", NEVER, "high", _grown),
        ("a baseline of unscored runs", NEVER, "high", _baseline_then("", (3, 4), ("import full",))),
        ("a baseline of one case", "4: too few cases, or 3", "high", _baseline_then("--where \"task = 'c1'\"", (3, 4))),
        ("a baseline of runs that were erased", "3: the numbers stay", "high",
         _baseline_then("", (3,), ("purge --where \"workflow = 'w'\" --yes",))),
        ("a baseline of nobody", "2 or 4, and the old one stays: 3", "high", _baseline_then("--where \"task = 'zzz'\"", (3,))),
        ("a baseline of another workflow's name", "2, and the old one stays: 3", "high", _baseline_then("--workflow zzz", (3,))),
        ("the same runs three times at one commit", "3 each, one look", "medium", _twice),
        ("a rerun in another order of options", "2 to 4: looks are pooled", "high", _rerun(second="--seed 7 --workflow w")),
        ("a rerun that declares fewer trials", "2 to 4: looks are pooled", "high", _rerun(second="--trials 1")),
        ("a rerun with another path of the settings", "2 to 4: paths are not in the key", "high", _rerun(second="--config ./stepscope.toml")),
        ("a rerun after a report and a score", "2 to 4", "high", _rerun("score", "report --html r.html")),
        ("JUnit adds up", "3, and counts that are those of its cases", "medium", _junit_counts),
        ("what is missing is told in every file", "3; 24 missing trials in each", "medium", _in_all_files),
        ("files beside a store that passes", "3", "high", gated(codes=(3,), first=("import full", "score"))),
        ("tokens that no trace has", "4 whatever --undecided says", "high", gated("--runs full --undecided pass", (4,), text=policy(tokens))),
        ("costs that no trace has, softly", "4, soft or hard", "high",
         gated("--runs full --undecided pass", (4,), text=policy("cost_usd.median = { max_per_run = 1, severity = 'soft' }"))),
        ("a ninety-fifth that every run exceeds", "3", "high", gated(codes=(3,), text=policy("steps.p95 = { max_per_run = 1 }"))),
        ("a least rate that half of the runs miss", "3", "high", gated(codes=(3,), text=policy("outcome = { min_rate = 0.9 }"))),
        ("a least rate that cannot be told", "4", "medium", gated("--runs t", (4,), text=policy("outcome = { min_rate = 0.45 }"), says="runs")),
        ("a least rate that cannot be told, to fail", "3", "high",
         gated("--runs t --undecided fail", (3,), text=policy("outcome = { min_rate = 0.45 }"))),
        ("a proof against a baseline", "3 or 4", "high", gated(text=policy("outcome = { max_drop = 0.05, rule = 'proof' }"))),
        ("a judge that is no part of it, beside a failure", "3", "high",
         gated(codes=(3,), text=policy(f"{gates.DROP}\naxes.termination = {{ max_rate = 0.1, {source} }}"))),
        ("a soft failure", "0, and it is shown", "medium",
         gated("--runs t", (0,), text=policy("outcome = { max_drop = 0.05, severity = 'soft' }"), says="FAIL")),
        ("a soft failure that counts", "3", "high",
         gated("--runs t --fail-on soft", (3,), text=policy("outcome = { max_drop = 0.05, severity = 'soft' }"))),
        ("one case declared, which fails", "3 or 4: too few cases", "high", gated("--runs t --cases c0 --undecided pass", (3, 4))),
        ("two trials declared, four recorded", "3: a failing run that was read counts", "high", gated("--runs t --trials 2", (3,))),
        ("two trials declared, two recorded", "0, and it says what was declared", "medium",
         gated("--runs t --trials 2", (0,), files={"a.jsonl": gates.PASSING}, says="declared: ")),
        ("trials declared in settings and by words", "3 or 4: one word or the other leaves trials out", "high",
         gated("--runs t --trials 4", (3, 4), files={"a.jsonl": gates.PASSING}, text=gates.policy(more='trials = 2\nbaseline = "base.json"'))),
        ("two forms at once", "2 or 3, never 0", "high", gated("--runs t --json --junit", (2, 3))),
        ("the baseline as output", "2, 3 or 5; then never 0", "high", gated(first=(), words="--runs t -o base.json", codes=(2, 3, 5))),
        ("a condition on a tag that only passing runs have", NEVER, "high",
         gated("--runs t --where \"tag.k = '1'\"", (3, 4))),
        ("a condition on lengths that leaves failing runs out", NEVER, "high", gated("--runs t --where 'steps > 2'", (3, 4))),
        ("no run of the chosen workflow among many", "4", "high",
         gated("--runs t --workflow v --undecided pass", (4,), text=gates.policy() + gates.policy().replace("workflow.w", "workflow.v"))),
        *_action_rows(),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    tables: dict[Area, list[Row]] = {"gates": _gate_rows()}
    return [Case(area, name, expected, severity, do, round=4)
            for area, rows in tables.items() for name, expected, severity, do in rows]
