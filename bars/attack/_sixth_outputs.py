"""The sixth round: outputs.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Outputs through links, what a condition and its opposite choose, groups that must add up,
what no order of rows may change, the published schemas, every command's JSON.
"""

# fmt: off
from __future__ import annotations

import importlib
import json
import random
import re
import shlex
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from bars.attack import _gates as gates
from bars.attack._cases import SECRET, SECRETS, Case, Place, coded, one_line
from bars.attack._fourth import BAD, Do, Row, placed
from bars.attack._fourth_outputs import clean, held
from bars.attack._third import strict
from bars.attack._third_world import n_runs

WORD = "quokka zanzibar nineteen"


# ---- outputs through links


def _led(words: str, link: str, target: str, *, made: str = "") -> Do:
    """Return what writes an output where a link leads to a file of ours: it stays as it is."""

    def do(place: Place) -> str:
        place.write(".env", "MY_KEY=abc\n")
        text = gates.policy() if "baseline" in words else ""
        place.write("stepscope.toml", text + 'store = "c.db"\n' if not text else 'store = "c.db"\n' + text)
        clean(place)
        if made:
            (place.folder / made).mkdir()
        Path(link).unlink(missing_ok=True)
        (place.folder / link).symlink_to(place.folder if link == "there" else place.folder / target)
        before, runs = Path(target).read_bytes(), n_runs(place, "c.db")
        done = place.run(*shlex.split(words))
        if target.endswith(".db"):
            if not Path(target).read_bytes().startswith(b"SQLite format 3") or n_runs(place, "c.db") != runs:
                return f"code {done.code}, and the store is another"
        elif Path(target).read_bytes() != before:
            return f"code {done.code}, and {target} is another"
        return one_line(done, (2, 5)) if done.code in (2, 5) else coded(done, (0, 3, 4))

    return do


LINKS = (
    ("report -o r.md", "r.md", "stepscope.toml", ""),
    ("report --html r.html", "r.html", ".env", ""),
    ("report --plots p", "p/vector.svg", "c.db", "p"),
    ("export x.jsonl --force", "x.jsonl", "stepscope.toml", ""),
    ("baseline update --yes", "base.json", ".env", ""),
    ("judge --judge openai/gpt-5 --propose-goals g.toml", "g.toml", ".env", ""),
    ("report --json -o there/c.db", "there", "c.db", ""),
)


# ---- what a condition and its opposite choose


def _some(place: Place) -> None:
    """Make a store of forty runs: tags and agents that half of them lack."""
    parts = {"a": ["--tag", "k=a", "--tag", "it's=1", "--agent", "x"], "b": ["--tag", "k=b", "--tag", "my key=it's"], "none": [], "caps": ["--tag", "k=A", "--agent", "X"]}
    for number, (name, words) in enumerate(parts.items()):
        rows = [gates.line(10 * number + c, 0, passed=c < 5, text=name) for c in range(10)]
        place.write(f"{name}.jsonl", rows)
        place.must("import", f"{name}.jsonl", "--store", "c.db", *words)
    place.must("score", "--store", "c.db")


def _chosen(place: Place, where: str) -> set[str]:
    """Return the names of the runs that a condition chooses."""
    done = place.must("export", "-", "--where", where, "--store", "c.db")
    return {one["name"] for one in map(json.loads, done.out.splitlines()) if "steps" in one}


def _opposites(*pairs: tuple[str, str]) -> Do:
    """Return what holds conditions against their opposites: each run is in one of the two."""

    def do(place: Place) -> str:
        _some(place)
        for one, other in pairs:
            first, second = _chosen(place, one), _chosen(place, other)
            if first & second or len(first | second) != 40 or not first or not second:
                return f"{one!r} chooses {len(first)}, {other!r} {len(second)}, both {len(first & second)}: not 40 in all"
        return ""

    return do


def _equals(*pairs: tuple[str, str]) -> Do:
    """Return what holds conditions against others that say the same: the same runs, and not none."""

    def do(place: Place) -> str:
        _some(place)
        for one, other in pairs:
            first, second = _chosen(place, one), _chosen(place, other)
            if first != second or not first:
                return f"{one!r} chooses {len(first)}, {other!r} {len(second)}"
        return ""

    return do


def _adds_up(*fields: str) -> Do:
    """Return what groups runs, half of which lack the field: each run is in one group."""

    def do(place: Place) -> str:
        _some(place)
        for field in fields:
            told = strict(place.must("report", "--json", "--by", field, "--store", "c.db").out)
            found = [one["n_runs"] for one in told["profiles"]]
            if sum(found) != told["whole"]["n_runs"]:
                return f"by {field}: {found} of {told['whole']['n_runs']}"
        return ""

    return do


def _since(words: Iterable[str]) -> Do:
    """Return what chooses by ages and dates at the ends of what there is: typed, strict."""

    def do(place: Place) -> str:
        clean(place, [gates.line(c, 0) for c in range(6)])
        for word in words:
            for command in ("report --json", "score", "export -", "agree --json", "compare a b --json"):
                done = place.run(*command.split(), "--since", word, "--store", "c.db")
                if wrong := held(done, (0, 2, 4), form="--json" if "--json" in command else ""):
                    return f"{command} --since {word}: {wrong}"
        return ""

    return do


def _boundary(place: Place) -> str:
    """A date is a day's beginning, and the run that began then is in; the day after it is out."""
    from bars.attack._fifth_stores import sample

    place.write("x.json", sample("langsmith.json"))
    place.must("import", "x.json", "--store", "c.db")
    place.must("score", "--store", "c.db")
    found = []
    for day in ("2026-11-22", "2026-11-23"):
        done = place.spawn("export", "-", "--since", day, "--store", "c.db", environment={"TZ": "UTC"})
        found.append(sum("steps" in json.loads(line) for line in done.out.splitlines()))
    return "" if found == [1, 0] else f"runs since that day, and since the day after it: {found}"


# ---- what no order may change


def _turned_round(place: Place) -> str:
    """A comparison turned round has the same differences with the other sign, and the same p."""
    clean(place, [gates.line(c, n, passed=(n < 2 or c % 3 == 0), agent="ab"[n // 2]) for c in gates.CASES for n in gates.TRIALS])
    one, two = (place.must("compare", *names, "--json", "--store", "c.db").out for names in ("ab", "ba"))
    def values(said: str) -> list[float]:
        text = json.dumps(strict(said))
        return sorted(round(abs(float(v)), 9) for v in re.findall(r'"(?:value|difference)": (-?[\d.e-]+)', text))

    return "" if values(one) == values(two) and values(one) else f"{values(one)} and {values(two)}"


def _shuffled_rows(place: Place) -> str:
    """The order of rows of verdicts changes nothing of what raters agree on."""
    labels = ("correct", "incorrect", "uncertain")
    rows = [f"w/c{c}/{n},{labels[(c * k + n) % 3]},{who}" for c in gates.CASES for n in (0, 1) for k, who in ((1, "ann"), (2, "bob"), (5, "cat"))]
    said = []
    for seed, store in enumerate(("c.db", "d.db")):
        clean(place, store=store)
        random.Random(seed).shuffle(rows)
        place.write(f"v{seed}.csv", ["run,label,judge", *rows])
        place.must("import", "--verdicts", f"v{seed}.csv", "--rubric", "axes.termination", "--human", "--store", store)
        said.append(place.run("agree", "--json", "--store", store).out)
    return "" if said[0] == said[1] and said[0] else "other figures"


def _scored_otherwise(*commands: str) -> Do:
    """Return what scores a store in another way: the report has the same bytes."""

    def do(place: Place) -> str:
        rows = gates.runs("same")
        clean(place, rows)
        place.write("e.jsonl", rows)
        place.must("import", "e.jsonl", "--store", "e.db")
        for command in commands:
            place.must(*shlex.split(command), "--store", "e.db")
        one, two = (place.must("report", "--json", "--store", store).out for store in ("c.db", "e.db"))
        return "" if one == two else "another report"

    return do


SCORES = [f"r{r},{s},{0.9 - 0.1 * (r % 5) * (s > 3):.2f},{j}" for r in range(12) for s in range(8) for j in ("ann", "bob")]


def _curves(change: Callable[[list[str]], list[str]]) -> Do:
    """Return what changes the order of rows within a file of scores: the same shapes."""

    def do(place: Place) -> str:
        said = []
        for rows in (SCORES, change(list(SCORES))):
            place.write("s.csv", ["run,step,score,judge", *rows])
            said.append(sorted(map(json.dumps, _listed(strict(place.must("shape", "s.csv", "--sigma", "0.05", "--json").out)))))
        return "" if said[0] == said[1] else "other shapes"

    return do


def _listed(told: Any) -> list[Any]:
    """Return the first list of objects within JSON: the curves."""
    if isinstance(told, list):
        return told
    for value in told.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return value
    return [told]


def _long_curve(place: Place) -> str:
    """One run of 5,000 scored steps, and 3,000 runs of one: in time."""
    place.write("l.csv", ["run,step,score", *(f"a,{n},0.{n % 10}" for n in range(5000)), *(f"b{n},0,0.5" for n in range(3000))])
    return held(place.run("shape", "l.csv", "--json"), (0, 2, 4), form="--json")


# ---- schemas


def _validates(words: str, before: Callable[[Place], object], name: str = "report.schema.json") -> Do:
    """Return what holds JSON against the schema that is published with it."""

    def do(place: Place) -> str:
        jsonschema = importlib.import_module("jsonschema")
        before(place)
        done = place.run(*shlex.split(words))
        if done.code not in (0, 3, 4):
            return coded(done, (0, 3, 4))
        found = next(Path(str(files("stepscope"))).rglob(name))
        errors = list(jsonschema.Draft202012Validator(json.loads(found.read_text("utf-8"))).iter_errors(strict(done.out)))
        return f"{len(errors)} errors: {[*errors[0].absolute_path]} {errors[0].message[:200]}" if errors else ""

    return do


def _judged_store(place: Place) -> None:
    from stepscope.model import Record, Verdict
    from stepscope.store import Store
    from stepscope.values import Unmeasured

    clean(place)
    with Store.open("c.db") as store:
        runs = sorted(run.id for run in store.trajectories())
        for at, judge in enumerate(("local/a", "local/b")):
            name = "judge.axes.termination"
            store.append([Record(trajectory=run, version="1", family=judge, judge=judge, rubric="axes.termination", prompt="0123456789abcdef",
                                 answer=Verdict(name, label=("correct", "incorrect")[(n + at) % 3 == 0], cites=(1,)) if n % 5 else Unmeasured("refused", "it declined", name))
                          for n, run in enumerate(runs)])


def _scores_alone(place: Place) -> None:
    place.write("s.csv", ["run,step,score,judge", *SCORES])
    place.must("import", "s.csv", "--store", "c.db")
    place.must("score", "--store", "c.db")


def _erased(place: Place) -> None:
    clean(place)
    place.must("purge", "--where", "name like '%'", "--yes", "--store", "c.db")


def _failing(place: Place) -> None:
    placed(place, BAD)
    place.write("stepscope.toml", gates.policy("outcome = { min_rate = 0.9 }\nloops = { max_per_run = 0 }\ncost_usd.p95 = { max_per_run = 1 }", ""))


# ---- rankings, exports, secrets, every command


def _rankings(*texts: str) -> Do:
    """Return what finds odd rankings beside a store: typed, strict."""

    def do(place: Place) -> str:
        clean(place, [gates.line(c, 0, passed=False) for c in range(6)])
        for text in texts:
            place.write("c.db.localise.json", text)
            for words in ("report --json", "show w/c1/0 --json", "calibrate localise"):
                if wrong := held(place.run(*words.split(), "--store", "c.db"), (0, 2, 4), form="--json" if "--json" in words else ""):
                    return f"{text[:40]!r}, {words}: {wrong}"
        return ""

    return do


def _fitted(place: Place) -> str:
    """Forty failed runs with steps that people named, oddly: a fit or none, and strict reports after it."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"turn {n}"} for n in range(8)]
    clean(place, [gates.line(c, 0, passed=False, messages=[*said, {"role": "user", "content": f"{c}"}]) for c in range(40)])
    rows = [f"w/c{c}/0,{(1, 3, 0, 99, -1, 8)[c % 6]},plan,ann" for c in range(40)] + [f"w/c{c}/0,5,plan,bob" for c in range(10)]
    place.write("v.csv", ["run,step,label,judge", *rows])
    done = place.run("import", "--verdicts", "v.csv", "--rubric", "attribution", "--human", "--store", "c.db")
    if wrong := held(done, (0, 2)):
        return wrong
    for words in ("calibrate localise", "report --json", "show w/c1/0 --json", "purge --where \"task = 'c1'\" --yes", "calibrate localise --json", "report --json"):
        if wrong := held(place.run(*shlex.split(words), "--store", "c.db"), (0, 4), form="--json" if "--json" in words else ""):
            return f"{words}: {wrong}"
    return ""


def _mixed(place: Place) -> str:
    """Every format with every word for verdicts: written, or one line and no file."""
    clean(place)
    for form in ("ours", "atif", "parquet", "otlp"):
        for word in ("none", "only", "gen_ai", "openinference"):
            name = f"{form}-{word}"
            done = place.run("export", name, "--format", form, "--verdicts", word, "--store", "c.db")
            if wrong := one_line(done, (2,)) if done.code else coded(done, (0,)):
                return f"{name}: {wrong}"
            if bool(done.code) == Path(name).exists():
                return f"{name}: code {done.code}, and the file {'is' if Path(name).exists() else 'is not'} there"
    return ""


def _secret(before: Callable[[Place], object], *commands: str, looks_at: str = "") -> Do:
    """Return what runs commands that are told a secret: none shows it, nor do the files that they write."""

    def do(place: Place) -> str:
        before(place)
        for words in commands:
            done = place.run(*shlex.split(words))
            if done.code not in (0, 2, 3, 4):
                return f"{words}: {coded(done, (0, 2, 3, 4))}"
            if any(part in done.said for part in SECRETS):
                return f"{words[:40]} shows it: {done.said[-200:]!r}"
        shown = [str(path) for path in Path().glob(looks_at or "none") if path.is_file() and any(part in path.read_text("utf-8", "replace") for part in SECRETS)]
        return f"in {shown}" if shown else ""

    return do


def _bad(place: Place) -> None:
    placed(place, BAD)
    place.write("stepscope.toml", gates.policy("outcome = { min_rate = 0.9 }", ""))


def _tool_is_secret(place: Place) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": f"send_{SECRET}", "arguments": "{}"}}
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
    clean(place, [gates.line(1, 1, messages=said)])


JSON = ("import c.jsonl", "score", "report", "report --by tag.k", "compare a b", "agree", "agree --queue 3", "agree --modes", "doctor c.jsonl",
        "show w/c1/0", "show w/c1/0 --step 1", "show w/c1/0 --steps 0:2", "calibrate sigma s.csv", "calibrate sigma", "calibrate localise", "shape s.csv",
        "export x.jsonl", "export v --verdicts only --format parquet", "purge --older-than 3d --yes", "baseline update --yes", "gate", "report --get steps.median",
        "judge --judge openai/gpt-5 --dry-run", "judge --judge openai/gpt-5", "judge --again", "lab envelope --n 5 --sigma 0.1 --trials 100 --classifier v1 --generator walk",
        "import --verdicts v.csv --rubric axes.termination --rater ann", "import --outcomes o.csv")  # fmt: skip


def _all_json(place: Place) -> str:
    """Every command's `--json` is strict JSON, or a line of it each, whatever its code."""
    place.write("stepscope.toml", gates.policy())
    clean(place, [gates.line(c, n) for c in range(3) for n in range(2)])
    place.write("s.csv", ["run,step,repeat,score,judge", *(f"r{r},{s},{n},0.{5 + n},ann" for r in range(3) for s in range(3) for n in range(3))])
    place.write("v.csv", ["run,label", "w/c1/0,correct"])
    place.write("o.csv", ["run,outcome,who", "w/c1/0,fail,check"])
    for words in JSON:
        store = [] if words.startswith(("lab", "doctor c")) else ["--store", "c.db"]
        done = place.run(*words.split(), *store, "--json")
        if wrong := coded(done, (0, 2, 3, 4)):
            return f"{words}: {wrong}"
        if done.code == 2:
            if done.out.strip():
                strict(done.out)
            continue
        try:
            strict(done.out)
        except ValueError:
            try:
                for line in done.out.splitlines():
                    strict(line)
            except ValueError as e:
                return f"{words}: no JSON: {e} {done.out[:120]!r}"
    return ""


def _other_version(place: Place) -> str:
    """What a gate of the first schema wrote is shown, or refused in one line."""
    _failing(place)
    done = place.run("gate", "--runs", "t", "--json")
    clean(place)
    for number in (1, 3, 0, -1):
        place.write("g.json", re.sub(r'"schema": ?2', f'"schema": {number}', done.out, count=1))
        found = place.run("report", "--html", "r.html", "--gates", "g.json", "--store", "c.db")
        if wrong := one_line(found, (2,)) if found.code else coded(found, (0,)):
            return f"schema {number}: {wrong}"
    return ""


def _in_full(place: Place) -> str:
    """A step that is asked for is shown in full: its first and its last word."""
    text = f"first-{WORD} " + "so it goes " * 2000 + f"last-{WORD}"
    clean(place, [gates.line(1, 1, messages=[{"role": "user", "content": "go"}, {"role": "assistant", "content": text}])])
    done = place.run("show", "w/c1/1", "--step", "1", "--store", "c.db")
    said = " ".join(done.out.split())
    return coded(done, (0,)) or ("" if f"first-{WORD}" in said and f"last-{WORD}" in said else "not in full")


def _folder_of_atif(place: Place) -> str:
    """Runs of hostile names as a folder of ATIF: every file within it, and each run comes back."""
    names = ("../../evil", "/tmp/evil-a6", "a/b/c", "..", ".", "", "CON", "a" * 400, "x\0y", "x\ny", "a/b/c", "A/B/C", "x.json", "\u202etxt", "-rf")
    clean(place, [gates.line(n, 0, task_id=name, text=f"t{n}") for n, name in enumerate(names)])
    before = {path for path in place.folder.parent.rglob("*") if "work/out" not in str(path)}
    done = place.run("export", "out", "--format", "atif", "--store", "c.db")
    if wrong := coded(done, (0,)):
        return wrong
    more = {path for path in place.folder.parent.rglob("*") if "work/out" not in str(path)} - before
    more = {path for path in more if not path.name.startswith("c.db")}
    if more or Path("/tmp/evil-a6").exists():
        return f"files outside: {more}"
    place.must("import", "out", "--store", "n.db")
    found = n_runs(place, "n.db")
    return "" if found == len(names) else f"{found} runs come back, not {len(names)}"


def _demo(place: Place) -> str:
    """The demo in a folder with settings, a store and a folder of its name: strict JSON, ours stay."""
    place.write("stepscope.toml", gates.policy())
    clean(place)
    done = place.run("demo", "--json")
    if wrong := coded(done, (0, 2)):
        return wrong
    if done.code == 0:
        strict(done.out)
    return "" if n_runs(place, "c.db") == 48 else "the store is another"


def _output_rows() -> list[Row]:
    stays = "2 or 5, or it is written beside: what the link leads to stays"
    one = "each run is in one of the two: a comparison with an absent field is false"
    same = "the same runs"
    typed = "0, 2 or 4, strict JSON"
    valid = "it fits the schema that is published with it"
    hides = "no output has it"
    return [
        *((f"a link in the place of an output: {words.split(' --n')[0]}", stays, "high", _led(words, link, target, made=made)) for words, link, target, made in LINKS),
        ("a tag that some lack, and its opposite", one, "medium", _opposites(("tag.k = 'a'", "tag.k != 'a'"), ("tag.k = null", "tag.k != null"), ("agent = null", "agent != null"))),
        ("a tag that some lack, and not", one, "medium", _opposites(("tag.k = 'a'", "not tag.k = 'a'"), ("tag.k in ('a', 'b')", "not tag.k in ('a', 'b')"), ("tag.k < 'b'", "not tag.k < 'b'"))),
        ("a pattern on a tag that some lack, and not", one, "medium", _opposites(("tag.k like 'b%'", "not tag.k like 'b%'"), ("not agent = 'x'", "agent = 'x'"), ("not not tag.k = 'b'", "not tag.k = 'b'"))),
        ("brackets and their absence", f"{same}: and binds tighter than or", "medium",
         _equals(("tag.k = 'a' or tag.k = 'b' and outcome = 'fail'", "tag.k = 'a' or (tag.k = 'b' and outcome = 'fail')"), ("not tag.k = 'a' and outcome = 'fail'", "(not tag.k = 'a') and outcome = 'fail'"),
                 ("not (tag.k = 'a' or outcome = 'fail')", "not tag.k = 'a' and not outcome = 'fail'"), ("not (tag.k = 'b' and outcome = 'pass')", "not tag.k = 'b' or not outcome = 'pass'"))),
        ("operators and their synonyms", same, "medium",
         _equals(("tag.k <> 'a'", "tag.k != 'a'"), ("tag.k == 'a'", "tag.k = 'a'"), ("steps >= 2", "steps > 1"), ("not steps < 2", "steps >= 2"), ("outcome in ('pass')", "outcome = 'pass'"), ("tag.k = 'a'", "tag.'k' = 'a'"))),
        ("quotation marks within values and keys", same, "medium", _equals(("tag.'it''s' = '1'", "tag.k = 'a'"), ("tag.'my key' = 'it''s'", "tag.k = 'b'"), ("tag.'my key' like '%''s'", "tag.k = 'b'"))),
        ("groups by what half of the runs lack", "each run is in one group", "medium", _adds_up("tag.k", "agent", "tag.my key", "outcome", "agent_version", "trial")),
        ("ages and dates at the ends of time", typed, "high", _since(("0d", "99999999d", "999999999999999999999h", "0001-01-01", "9999-12-31", "1969-12-31", "0h"))),
        ("a day, and the day after it", "the run that began on it, and none", "medium", _boundary),
        ("a comparison turned round", "the same differences", "medium", _turned_round),
        ("rows of verdicts in another order", "the same bytes of agree --json", "medium", _shuffled_rows),
        ("a store that was scored in halves", "the same bytes of a report", "medium", _scored_otherwise("score --where \"outcome = 'fail'\"", "score --where \"task < 'c3'\" --workers 1", "score --workers 2")),
        ("a store that was scored measure by measure", "the same bytes of a report", "medium", _scored_otherwise("score --measure outcome", "score --measure termination", "score --measure axes.termination", "score")),
        ("a store of which a run was erased and scored again", "0, whatever the order", "medium", _scored_twice),
        ("rows of two judges, one after the other", "the same shapes", "medium", _curves(lambda rows: sorted(rows, key=lambda row: row.rsplit(",", 1)[1]))),
        ("a curve of 5,000 steps beside 3,000 of one", "typed, in time", "high", _long_curve),
        ("a report of judged runs, and the schema", valid, "medium", _validates("report --json --store c.db", _judged_store)),
        ("a report of scores alone, and the schema", valid, "medium", _validates("report --json --store c.db", _scores_alone)),
        ("a gate of many ends, and the schema", valid, "medium", _validates("gate --runs t --json", _failing, "gate.schema.json")),
        ("rankings of another shape beside a store", typed, "high", _rankings("{}", "[]", "null", '{"schema": 99}', '{"version": 1, "weights": {}}', '{"weights": NaN}')),
        ("a ranking fitted to steps of nobody", typed, "high", _fitted),
        ("every format with every word for verdicts", "written, or one line and no file", "medium", _mixed),
        ("a secret as the commit of a gate", hides, "high", _secret(_bad, f"gate --runs t --commit {SECRET}",
                                                                   f"gate --runs t --commit {SECRET} --json", f"gate --runs t --commit {SECRET} --markdown", f"gate --runs t --commit {SECRET} --write w", looks_at="w/**/*")),
        ("a secret as a case and a workflow that nobody has", hides, "high", _secret(_bad,
                                                                                    f"gate --runs t --cases {SECRET}", f"gate --runs t --workflow {SECRET}", f"judge {SECRET} --judge openai/gpt-5", f"show {SECRET} --store t/a.jsonl")),
        ("a secret as the name of a tool, before init", "what it prints hides it", "high", _secret(_tool_is_secret, "init --yes --force --store c.db", "init --yes --force --json --store c.db")),
        ("every command's JSON", "strict JSON, or a line of it each", "medium", _all_json),
        ("gates of other schemas, for a page", "shown, or one line", "high", _other_version),
        ("a step of 20,000 signs that is asked for", "in full, by the help of --step", "medium", _in_full),
        ("a folder of ATIF of hostile names", "every file within it, and each run comes back", "high", _folder_of_atif),
        ("the demo among stores and settings", "strict JSON; ours stay", "high", _demo),
    ]  # fmt: skip


def _scored_twice(place: Place) -> str:
    """Scores, an erasure, scores, an import of the same, scores: figures stay, and nothing is a bug."""
    clean(place)
    before = strict(place.must("report", "--json", "--store", "c.db").out)["whole"]["figures"]["outcome.pass"]
    for words in ("purge --where \"task = 'c1'\" --yes", "score", "import c.jsonl", "score", "score --measure outcome"):
        if wrong := coded(place.run(*shlex.split(words), "--store", "c.db"), (0,)):
            return f"{words}: {wrong}"
    after = strict(place.must("report", "--json", "--store", "c.db").out)["whole"]["figures"]["outcome.pass"]
    return "" if before == after else f"{before} became {after}"


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("outputs", name, expected, severity, do, round=6) for name, expected, severity, do in _output_rows()]
