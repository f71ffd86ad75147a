"""The seventh round: outputs.

Expectations as in the first round: by the documentation, written and committed before anything was
run. Failure modes in reports, JSON, pages, comments and conditions, cases that are promoted, the
self-test in every form, the map of runs, the link of `view` in a second browser.
"""

# fmt: off
from __future__ import annotations

import ast
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bars.attack import _gates as gates
from bars.attack import _outputs as outputs
from bars.attack import _seventh as seventh
from bars.attack import _sixth_outputs as sixth
from bars.attack._cases import SECRET, Broken, Case, Place, _text, coded, one_line
from bars.attack._client import Answer, Server, served
from bars.attack._fourth import Do, Row
from bars.attack._fourth_outputs import clean, held
from bars.attack._seventh import OK, TAKEN, fleet, told
from bars.attack._third import strict
from bars.attack._third_view import FORBIDDEN, _crawl, _each, sound
from bars.attack._third_world import n_runs

C = ("--store", "c.db")
LINES = outputs.LINES
EVIL = [*OK, ("book", f"Error: {LINES}")]
REFERS = [*OK, ("book", "Error: seat taken, ask @octocat, fixes octocat/hello#12, see www.evil.example and GH-7 ::error::x \u202e")]
DROPPED = [*OK, ("book", "Error: card was declined")]
Fleet = Callable[[], list[str]]


def two_modes(text: str = "new") -> list[str]:
    """Return runs of which some fail by one error, some pass with another, some have both or none."""
    made = []
    for c in gates.CASES:
        for n in gates.TRIALS:
            calls = [*(TAKEN if n == 3 else OK), *(DROPPED[1:] if n in (1, 3) and c % 2 else [])]
            made.append(told(c, n, calls, text=text, passed=n != 3))
    return made


def found(place: Place, *words: str) -> Any:
    """Return the failure modes of a report in JSON."""
    return strict(place.must("report", "--json", *C, *words).out)["modes"]


def count(place: Place, where: str) -> int:
    """Return how many runs a condition chooses; none where it says that there are none."""
    done = place.run("report", "--json", *C, "--where", where)
    return int(strict(done.out)["whole"]["n_runs"]) if done.code == 0 else 0 if done.code in (2, 4) and "no run" in done.said else -1


# ---- modes of a report


def _sane(rows: Fleet, tested: bool | None = None) -> Do:
    """Return what holds the modes of a fleet against what their names mean."""

    def do(place: Place) -> str:
        clean(place, rows())
        made = found(place)
        if "modes" not in made:
            return "" if made.get("reason") else f"{str(made)[:200]}"
        if not made["n_shown"] <= made["n_tested"] <= made["n_modes"] or not len(made["modes"]) <= min(25, made["n_modes"]):
            return f"{ {k: v for k, v in made.items() if k.startswith('n_')} }"
        if made["n_small"] > made["n_tested"] or made["small_by_chance"] > made["n_tested"] or made["n_lone"] > made["n_signatures"]:
            return f"{ {k: v for k, v in made.items() if k != 'modes'} }"
        for one in made["modes"]:
            worth, p, later = one["worth"], one["p"], one["p_adjusted"]
            if not len(one["assigned"]) <= one["failed"] <= one["runs"] or one["runs"] < 3 or one["tasks"] < 2 or sum(one["begins"]) > one["runs"] or not 0 <= one["expected"] <= one["runs"] + 1e-9:
                return f"counts of {one['name']!r}: {one}"
            if (p is not None and not 0 <= p <= 1) or (later is not None and (p is None or not p <= later <= 1)):
                return f"p of {one['name']!r}: {p}, {later}"
            if "value" in worth and not 0 <= worth["low"] <= worth["value"] <= worth["high"] <= 1:
                return f"worth of {one['name']!r}: {worth}"
            if len(one["code"]) != 6 or set(one["code"]) - set("0123456789abcdef") or one["name"] not in one["signatures"]:
                return f"code and name: {one['code']!r}, {one['name']!r}"
        if sum(len(one["assigned"]) for one in made["modes"]) > made["n_failed"]:
            return "more runs are counted under modes than failed"
        return "" if tested is None or bool(made["n_tested"]) == tested else f"{made['n_tested']} tested"

    return do


def _chooses(place: Place) -> str:
    """A mode's code, its sentence and each of its signatures choose its runs, in every command that chooses."""
    clean(place, two_modes())
    modes = found(place)["modes"]
    if not modes:
        return "the case is wrong: no modes"
    for one in modes:
        for word in (one["code"], one["name"]):
            if (n := count(place, f"mode = '{word.replace(chr(39), chr(39) * 2)}'")) != one["runs"]:
                return f"mode = {word!r}: {n} runs, not {one['runs']}"
        for word in one["signatures"]:
            if not 0 < count(place, f"mode = '{word.replace(chr(39), chr(39) * 2)}'") <= one["runs"]:
                return f"its signature {word!r} chooses nothing, or more than its runs"
    code, runs = modes[0]["code"], modes[0]["runs"]
    lines = place.must("export", "-", "--where", f"mode = '{code}'", *C).out.split("\n")
    if (n := sum("steps" in json.loads(line) for line in lines if line)) != runs:
        return f"export: {n} runs, not {runs}"
    for words in ("score", "agree --json", "judge --judge openai/gpt-5 --dry-run", "compare 0 3 --by trial --json", "report --html r.html"):
        if wrong := coded(place.run(*shlex.split(words), "--where", f"mode = '{code}'", *C), (0, 2, 4)):
            return f"{words}: {wrong}"
    return ""


def _parts(*pairs: tuple[str, str]) -> Do:
    """Return what counts by conditions and their opposites: each run is in one of the two."""

    def do(place: Place) -> str:
        clean(place, two_modes())
        codes = [one["code"] for one in found(place)["modes"]]
        for one, other in pairs:
            numbers = [count(place, text.replace("CODE", codes[0]).replace("LAST", codes[-1])) for text in (one, other)]
            if sum(numbers) != 48 or min(numbers) < 0:
                return f"{one!r} and {other!r}: {numbers}"
        return ""

    return do


def _union(place: Place) -> str:
    """A list of modes chooses the runs of each of them, and a pattern those that it fits."""
    clean(place, two_modes())
    codes = [one["code"] for one in found(place)["modes"]]
    if len(codes) < 2:
        return f"the case is wrong: modes {codes}"
    one, other = codes[0], codes[-1]
    a, b = count(place, f"mode in ('{one}', '{other}')"), count(place, f"mode = '{one}' or mode = '{other}'")
    c, d = count(place, "mode like 'book fails%'"), count(place, "mode like '%declined%'")
    return "" if a == b > 0 and c > 0 and d > 0 else f"{a} and {b}; {c}, {d}"


def _wrong_where(*texts: str, codes: tuple[int, ...] = (2,)) -> Do:
    """Return what asks by conditions that make no sense: one line each."""

    def do(place: Place) -> str:
        clean(place, two_modes())
        for text in texts:
            done = place.run("report", "--where", text, *C)
            if wrong := held(done, codes):
                return f"{text[:60]!r}: {wrong}"
        return ""

    return do


def _unscored(place: Place) -> str:
    """Before anything is scored a mode is unknown: typed, and it says what to do."""
    place.write("c.jsonl", two_modes())
    place.must("import", "c.jsonl", *C)
    for text in ("mode = 'a90143'", "mode = null", "mode != null"):
        done = place.run("report", "--where", text, *C)
        if wrong := held(done, (0, 2, 4)):
            return f"{text}: {wrong}"
    done = place.run("report", "--where", "mode = 'a90143'", *C)
    return "" if done.code == 0 or "score" in done.said else f"it does not say to score: {done.said[-200:]!r}"


def _erased(place: Place) -> str:
    """Runs that are erased are unmeasured for modes, and counted as such; erasing by a mode erases its runs alone."""
    clean(place, two_modes())
    before = found(place)
    code, runs = before["modes"][0]["code"], before["modes"][0]["runs"]
    done = place.must("purge", "--where", f"mode = '{code}'", "--yes", "--json", *C)
    if str(runs) not in done.said:
        return f"not {runs} runs: {done.said[:300]!r}"
    after = found(place)
    lost = sum(after["unmeasured"].values())
    return "" if lost == runs else f"{lost} runs are unmeasured, not {runs}"


def _of_the_run(place: Place) -> str:
    """A signature is a function of one run: another fleet around it, and the same outcome or not, leave its code."""
    clean(place, two_modes())
    whole = {one["name"]: one["code"] for one in found(place)["modes"]}
    place.write("d.jsonl", [row.replace('"reward": 0.0', '"reward": 1.0') for row in two_modes()[:30]])
    place.must("import", "d.jsonl", "--store", "d.db")
    place.must("score", "--store", "d.db")
    part = {one["name"]: one["code"] for one in strict(place.must("report", "--json", "--store", "d.db").out)["modes"]["modes"]}
    shared = set(whole) & set(part)
    return "" if shared and all(whole[n] == part[n] for n in shared) else f"{whole} and {part}"


def _same_modes(place: Place) -> str:
    """Order of import, workers and hash seed change no byte of the modes."""
    rows = two_modes()
    clean(place, rows)
    first = json.dumps(found(place))
    place.write("e.jsonl", rows[::-1])
    place.must("import", "e.jsonl", "--store", "e.db", "--workers", "2")
    place.must("score", "--store", "e.db", "--workers", "2")
    for seed in ("1", "77"):
        done = place.spawn("report", "--json", "--store", "e.db", environment={"PYTHONHASHSEED": seed})
        if json.dumps(strict(done.out)["modes"]) != first:
            return f"other modes under the hash seed {seed}"
    return ""


def _hostile(*commands: str, calls: seventh.Calls = EVIL) -> Do:
    """Return what shows modes whose sentences are hostile: inert in every form, and no secret."""

    def do(place: Place) -> str:
        clean(place, fleet(calls, passed=False))
        for words in commands:
            form = next((w for w in ("--json", "--markdown", "--junit") if w in words), "")
            if wrong := held(place.run(*shlex.split(words), *C), (0, 4), form=form):
                return f"{words}: {wrong}"
        return ""

    return do


def page_of(path: str = "r.html") -> str:
    """Return what in a page in one file would run, lead out, show a secret or cannot be seen."""
    text = Path(path).read_text("utf-8")
    page = outputs._Page()
    page.feed(text)
    if page.wrong:
        return str(page.wrong[:3])
    if "<script>alert(1)" in text or "<img src=x" in text or SECRET[:16] in text:
        return "markup of a trace, or a secret"
    seen = outputs.hidden("".join(page.texts).replace("\r", ""))
    if seen:
        return f"characters that cannot be seen: {seen}"
    return "" if text.rstrip().endswith("</html>") else "cut"


def _paged(rows: Fleet, *words: str) -> Do:
    """Return what writes the pages of runs into one file."""

    def do(place: Place) -> str:
        clean(place, rows())
        done = place.run("report", "--html", "r.html", "--embed", "all", *words, *C)
        return coded(done, (0,)) or page_of()

    return do


def _gated_modes(place: Place) -> str:
    """A gate that fails by a mode of hostile words is inert in every form and file."""
    seventh.based(place, fleet(text="base"), seventh.policy())
    place.write("t/a.jsonl", fleet(REFERS, passed=False))
    os.environ["GITHUB_STEP_SUMMARY"] = str(place.folder / "summary.md")
    for form in ("", "--json", "--markdown", "--junit", "--write w"):
        done = place.run("gate", "--runs", "t", *form.split())
        if wrong := held(done, (3,), form=form if form.startswith("--j") or form == "--markdown" else ""):
            return f"{form}: {wrong}"
    del os.environ["GITHUB_STEP_SUMMARY"]
    files = [path for path in Path("w").rglob("*") if path.is_file()] + [Path("summary.md")]
    for path in files:
        form = {".json": "--json", ".xml": "--junit", ".md": "--markdown"}.get(path.suffix, "")
        if wrong := outputs.inert(path.read_text("utf-8"), form):
            return f"{path}: {wrong}"
    return "" if len(files) > 3 else f"files {files}"


def _gates_page(place: Place) -> str:
    """What a gate and a self-test wrote of hostile modes, on a page: the gate's is shown, the other one refused or shown."""
    seventh.based(place, fleet(text="base"), seventh.policy())
    place.write("t/a.jsonl", fleet(EVIL, passed=False))
    place.run("gate", "--runs", "t", "--json", "-o", "g.json")
    place.run("gate", "--selftest", "--json", "-o", "f.json")
    clean(place, fleet(EVIL))
    for name in ("g.json", "f.json"):
        done = place.run("report", "--html", "r.html", "--gates", name, *C)
        if wrong := held(done, (0,) if name == "g.json" else (0, 2)):
            return f"{name}: {wrong}"
        if done.code == 0 and (wrong := page_of()):
            return f"{name}: {wrong}"
    return ""


def _selftests(place: Place) -> str:
    """A self-test of a workflow, cases and agents with hostile names is inert in every form."""
    rows = [told(c, n, text="base", workflow=outputs.HOSTILE, agent=LINES, task_id=f"c{c} {LINES}") for c in gates.CASES for n in gates.TRIALS]
    seventh.based(place, rows, seventh.policy("outcome = { max_drop = 0.05 }\nno_new_modes = {}").replace("workflow.w", f"workflow.{outputs.toml(outputs.HOSTILE)}"))
    for form in ("", "--json", "--markdown", "--junit"):
        done = place.run("gate", "--selftest", "--max-minutes", "0.02", *form.split())
        if done.code == 2:
            wrong = one_line(done, (2,))
        else:
            wrong = held(done, (0, 4), form=form)
        if wrong:
            return f"{form}: {wrong}"
    return ""


def _folder(place: Place) -> str:
    """A folder of verdicts has the same modes as its store, or says why it has none; conditions on them are typed."""
    clean(place, two_modes())
    before = found(place)
    place.must("export", "v", "--verdicts", "only", "--format", "parquet", *C)
    after = strict(place.must("report", "--json", "--store", "v").out)["modes"]
    if after != before and "reason" not in after:
        return f"{str(before)[:200]} became {str(after)[:200]}"
    done = place.run("report", "--json", "--store", "v", "--where", f"mode = '{before['modes'][0]['code']}'")
    if done.code == 0 and strict(done.out)["whole"]["n_runs"] != before["modes"][0]["runs"]:
        return f"{strict(done.out)['whole']['n_runs']} runs, not {before['modes'][0]['runs']}"
    return held(done, (0, 2, 4), form="--json")


# ---- cases that are promoted


def promoted(row: str, check: Callable[[Place, Path], str], words: str = "--out cases", codes: tuple[int, ...] = (0,), before: Callable[[], object] | None = None) -> Do:
    """Return what promotes the only run of a store: a code, inert words, and what a check says of the files."""

    def do(place: Place) -> str:
        clean(place, [row])
        if before:
            before()
        (run,) = [one["id"] for one in map(json.loads, filter(None, place.must("export", "-", *C).out.split("\n"))) if "steps" in one]
        done = place.run("case", "promote", run, *shlex.split(words), *C)
        wrong = held(done, codes, form="--json" if "--json" in words else "")
        if Path("pwned").exists() or (place.folder.parent / "pwned").exists():
            raise Broken("a name was run as a program")
        return wrong or (check(place, Path("cases")) if done.code == 0 else "")

    return do


def _three(place: Place, folder: Path) -> str:
    """Three files, within the folder: cases that are read, JSON, and Python that compiles and names nothing else."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    kinds = sorted(path.suffix for path in files)
    if len(files) != 3 or (kinds != [".json", ".py", ".toml"] and kinds != [".json", ".jsonl", ".py"]):
        return f"files {[path.name for path in files]}"
    for path in files:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            strict(text)
        elif path.suffix == ".py":
            ast.parse(text)
    return coded(place.run("import", "--cases", str(folder), *C), (0,))


def _plays(place: Place, folder: Path) -> str:
    """The test of a promoted case is expected to fail while nothing is changed, and runs no name."""
    if wrong := _three(place, folder):
        return wrong
    made = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)], capture_output=True, check=False, timeout=19,
                          env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")})
    said = _text(made.stdout + made.stderr)
    if Path("pwned").exists():
        raise Broken("a name was run as a program")
    return "" if made.returncode == 0 and "xfailed" in said else f"code {made.returncode}: {said[-300:]!r}"


def _again(place: Place, folder: Path) -> str:
    """A second promotion overwrites nothing without --force."""
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    for path in kept:
        path.write_bytes(b"# mine\n")
    (run,) = [one["id"] for one in map(json.loads, filter(None, place.must("export", "-", *C).out.split("\n"))) if "steps" in one]
    done = place.run("case", "promote", run, "--out", "cases", *C)
    if any(path.read_bytes() != b"# mine\n" for path in kept):
        return f"code {done.code}, and files of the user are overwritten"
    forced = place.run("case", "promote", run, "--out", "cases", "--force", *C)
    return one_line(done, (2,)) or coded(forced, (0,)) or ("" if all(path.read_bytes() == was for path, was in kept.items()) else "other files by --force")


def _collide(place: Place) -> str:
    """Two runs whose names become one file name: the first one's files stay."""
    clean(place, [told(1, 0, TAKEN, passed=False, workflow="w_a", task_id="b"), told(2, 0, TAKEN, passed=False, workflow="w", task_id="a_b")])
    runs = sorted(one["id"] for one in map(json.loads, filter(None, place.must("export", "-", *C).out.split("\n"))) if "steps" in one)
    place.must("case", "promote", runs[0], "--out", "cases", *C)
    kept = {path: path.read_bytes() for path in Path("cases").iterdir()}
    done = place.run("case", "promote", runs[1], "--out", "cases", *C)
    if any(path.read_bytes() != was for path, was in kept.items() if path.suffix != ".toml"):
        return f"code {done.code}, and files of the first are overwritten"
    return one_line(done, (2,)) if done.code else coded(done, (0,))


def _led(place: Place) -> str:
    """Links in the place of the files of a promotion: what they lead to stays."""
    clean(place, [told(1, 0, TAKEN, passed=False)])
    (run,) = [one["id"] for one in map(json.loads, filter(None, place.must("export", "-", *C).out.split("\n"))) if "steps" in one]
    place.must("case", "promote", run, "--out", "first", *C)
    names = [path.name for path in Path("first").iterdir()]
    Path("cases").mkdir()
    place.write("mine.txt", "mine")
    for name in names:
        Path("cases", name).symlink_to("../mine.txt")
    for force in ([], ["--force"]):
        done = place.run("case", "promote", run, "--out", "cases", *force, *C)
        if Path("mine.txt").read_text("utf-8") != "mine":
            return f"code {done.code}, and what the link leads to is overwritten"
        if wrong := coded(done, (0, 2, 5)):
            return wrong
    return ""


def _hostile_task(name: str) -> str:
    return told(1, 0, EVIL, passed=False, task_id=name, workflow=f"w {name}"[:300])


# ---- the link, in another browser


def _comes(server: Server, path: str, **heads: str) -> Answer:
    return server.ask(path, heads={"Cookie": "", **{k.replace("_", "-"): v for k, v in heads.items()}})


def _way_in(answer: Answer, server: Server) -> str:
    """Return what is wrong with an answer to the token: it leads on without it, with a cookie for this page alone."""
    cookie = answer.head("set-cookie")
    if answer.status not in (302, 303, 307) or not cookie:
        return f"status {answer.status}, cookie {cookie[:20]!r}"
    if server.token in answer.head("location") or server.token in answer.text:
        return "it leads on with the token"
    lacks = [word for word in ("httponly", "samesite=strict") if word not in cookie.lower()]
    return f"a cookie without {lacks}" if lacks else ""


def _browsers(number: int) -> Do:
    """Return what opens the address in so many browsers: each comes in, and the first one stays."""

    def do(place: Place) -> str:
        with served() as server:
            for n in range(number):
                answer = _comes(server, f"/?token={server.token}")
                if wrong := _way_in(answer, server):
                    return f"browser {n + 2}: {wrong}"
                if wrong := sound(server.ask("/", heads={"Cookie": answer.head("set-cookie").partition(";")[0]})):
                    return f"browser {n + 2}: {wrong}"
            return sound(server.ask("/"))

    return do


def _strange(make: Callable[[Server], Iterable[tuple[str, str, dict[str, str], bytes]]]) -> Do:
    """Return what asks with the token as no browser of this machine does: refused, and no cookie."""

    def do(place: Place) -> str:
        with served() as server:
            for path, method, heads, body in make(server):
                answer = server.ask(path, method, {"Cookie": "", **heads}, body)
                if answer.head("set-cookie") or answer.status not in (*FORBIDDEN, 0):
                    return f"{method} {path[:70]!r} {heads}: status {answer.status}, cookie {bool(answer.head('set-cookie'))}"
            return sound(server.ask("/"))

    return do


def _tokens(server: Server) -> list[tuple[str, str, dict[str, str], bytes]]:
    t = server.token
    wrong = ("", t[:-1], t + "x", t.swapcase(), t * 2, t[:1], "%00", t + "%00", "*", "None", "true", "%2e", t[::-1])
    return [(f"/?token={one}", "GET", {}, b"") for one in wrong if one != t]


def _places(server: Server) -> list[tuple[str, str, dict[str, str], bytes]]:
    t = server.token
    return [(path, "GET", {}, b"") for path in (f"/run/run0b0?token={t}", f"/api/report.json?token={t}", f"/static/x?token={t}", f"//?token={t}", f"/%2f?token={t}", f"/?Token={t}", f"/#token={t}")]


def _sites(server: Server) -> list[tuple[str, str, dict[str, str], bytes]]:
    path = f"/?token={server.token}"
    return [(path, "GET", heads, b"") for heads in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://e.vil"}, {"Origin": "null"}, {"Host": "e.vil"},
                                                    {"Host": f"localhost.e.vil:{server.port}"}, {"Origin": f"http://127.0.0.1:{server.port + 1}"})]


def _methods(server: Server) -> list[tuple[str, str, dict[str, str], bytes]]:
    path = f"/?token={server.token}"
    return [(path, method, {"Content-Length": "1"} if method == "POST" else {}, b"x" if method == "POST" else b"") for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get")]


def _later(place: Place) -> str:
    """Token and cookie end with their server: another one on the same port takes neither."""
    first = Server()
    first.open()
    token, cookie, port = first.token, first.cookie, first.port
    first.stop()
    second = Server("--port", str(port))
    second.open()
    try:
        answers = [second.ask(f"/?token={token}", heads={"Cookie": ""}), second.ask("/", heads={"Cookie": cookie})]
    finally:
        second.stop()
    codes = [answer.status for answer in answers]
    return "" if all(code in FORBIDDEN for code in codes) and not answers[0].head("set-cookie") else f"statuses {codes}"


def _viewed(rows: Fleet, *paths: str) -> Do:
    """Return what looks at pages of a store: each is sound, and so is every page that they lead to."""

    def do(place: Place) -> str:
        clean(place, rows())
        code = found(place)
        codes = code["modes"][0]["code"] if code.get("modes") else "a90143"
        with served("--store", "c.db") as server:
            chosen = [path.replace("CODE", codes) for path in paths]
            return _each(chosen, (200, 400, 404))(server) or _crawl(server)

    return do


# ---- runs of all kinds on a page


def plain(**more: Any) -> list[str]:
    """Return the runs of a design whose records have these fields; those of the value `...` are taken away."""
    rows = [{**json.loads(row), **more} for row in two_modes()]
    return [json.dumps({k: v for k, v in row.items() if v is not ...}) for row in rows]


def _many() -> list[str]:
    return [gates.line(c, n, passed=(c + n) % 3 > 0, text=f"t{c}") for c in range(525) for n in range(4)]


def _junit(place: Place) -> str:
    """JUnit of a report with hostile modes is XML, also by task."""
    clean(place, fleet(EVIL, passed=False))
    for words in ("report --junit", "report --junit --by task"):
        done = place.run(*words.split(), *C)
        if wrong := held(done, (0,), form="--junit"):
            return wrong
        ElementTree.fromstring(done.out)
    return ""


def _after(rows: Fleet, do: Do) -> Do:
    """Return what makes a store of some runs, and then does something."""

    def run(place: Place) -> str:
        clean(place, rows())
        return do(place)

    return run


def _validated(rows: Fleet) -> Do:
    return sixth._validates("report --json --store c.db", lambda place: clean(place, rows()))


ROWS: Mapping[str, Fleet] = {
    "of runs without tasks": lambda: plain(task_id=..., trial=...),
    "of runs without outcomes": lambda: plain(reward=...),
    "of one run": lambda: two_modes()[3:4],
    "of hostile tasks": lambda: [told(c, n, EVIL if n > 1 else OK, passed=n < 2, task_id=f"{c} {LINES}", agent=f"{n} {LINES}", agent_version=LINES) for c in range(6) for n in range(4)],
    "of forty agents": lambda: [told(c, n, TAKEN if n else OK, passed=not n, agent=f"a{c}-{n}", agent_version=str(c)) for c in range(10) for n in range(4)],
    "of a task of 300 trials": lambda: [told(1, n, TAKEN if n % 2 else OK, passed=not n % 2) for n in range(300)],
    "of a refused call of a megabyte": lambda: fleet([*OK, ("book", "Error: " + "no seat " * 120_000)], cases=range(3)),
}


def _output_rows() -> list[Row]:
    sane = "counts, p values and shares that their definitions allow"
    inert = "inert, no secret, strict where it is JSON"
    one = "each run is in one of the two"
    wrong = "2: =, !=, like and in only; one line"
    whole = "a page that is whole and inert"
    files = "three files within the folder: cases that are read, JSON, Python that compiles; nothing is run"
    refused = "refused, and no cookie"
    evil = ('"""\nimport os; os.system("touch pwned")\n"""', "'); open('pwned', 'w'); ('", "../../pwned", "a\nb", "\\", "{__import__('os').system('touch pwned')}", "x" * 500, "\u202e\x1b[31m")
    return [
        ("modes of two errors", sane, "medium", _sane(two_modes, tested=True)),
        ("modes where all runs fail", sane, "medium", _sane(lambda: fleet(TAKEN, passed=False, since=0), tested=False)),
        ("modes where all runs pass", sane, "medium", _sane(lambda: fleet(TAKEN), tested=False)),
        ("modes of one trial a task", f"{sane}; none can be tested", "medium", _sane(lambda: [told(c, 0, TAKEN if c % 2 else OK, passed=not c % 2) for c in range(40)], tested=False)),
        ("modes of 300 errors", sane, "medium", _sane(lambda: fleet([(f"do_{chr(97 + n // 26)}{chr(97 + n % 26)}", f"Error: no {chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(150)], passed=False))),
        ("modes of runs without tasks", "typed", "medium", _sane(lambda: plain(task_id=..., trial=...))),
        ("modes of runs without outcomes", sane, "medium", _sane(lambda: plain(reward=...), tested=False)),
        ("modes, and the schema", "it fits the schema that is published with it", "medium", _validated(two_modes)),
        ("hostile modes, and the schema", "it fits the schema that is published with it", "medium", _validated(lambda: fleet(EVIL, passed=False))),
        ("modes that choose runs", "the runs that the report counts, by code, sentence and signature", "medium", _chooses),
        ("a mode and its opposite", one, "medium", _parts(("mode = 'CODE'", "mode != 'CODE'"), ("mode = null", "mode != null"), ("mode = 'LAST'", "not mode = 'LAST'"))),
        ("modes by a list and a pattern, and their opposites", one, "medium", _parts(("mode in ('CODE', 'LAST')", "not mode in ('CODE', 'LAST')"), ("mode like 'book%'", "not mode like 'book%'"))),
        ("modes by a list and by or", "the same runs", "medium", _union),
        ("conditions on modes that make no sense", wrong, "medium", _wrong_where("mode < 'a'", "mode >= 'a'", "mode > null", "mode", "mode = ", "mode like", "mode in ()", "mode in 'a'", "mode between 'a' and 'b'", "mode.x = 'a'", "'a' = mode")),
        ("conditions on modes of odd words", "0, 2 or 4; inert", "high", _wrong_where(f"mode = '{LINES}'", "mode = ''", "mode = 'A90143'", "mode like '%'", f"mode like '{'%_' * 300}'", "mode != ''", f"mode in ({', '.join(repr(str(n)) for n in range(900))})",
                                                                                        "mode = 'x' and mode = null", "mode = '\x00'", codes=(0, 2, 4))),
        ("modes as groups", "0 or 2: typed", "medium", _after(two_modes, lambda place: held(place.run("report", "--by", "mode", *C), (0, 2)))),
        ("modes before the score", "typed, and it says to score", "medium", _unscored),
        ("modes of erased runs", "unmeasured, and counted", "medium", _erased),
        ("modes in another fleet", "the same codes", "medium", _of_the_run),
        ("modes under other orders, workers and seeds of hashes", "the same bytes", "medium", _same_modes),
        ("modes of a folder of verdicts", "the same, or why not", "medium", _folder),
        ("hostile modes in a report", inert, "high", _hostile("report", "report --json", "report --markdown", "report --by task", "report --by agent --markdown")),
        ("hostile modes as JUnit", "XML, inert", "high", _junit),
        ("hostile modes beside runs that are shown, compared, gated", inert, "high", _hostile("show w/c1/2", "show w/c1/2 --json", "compare 0 2 --by trial", "compare 0 2 --by trial --markdown", "doctor --json", "agree")),
        ("a secret in what tools refuse", inert, "high", _hostile("report", "report --json", "report --markdown", "report --where 'mode != null' --json", calls=[*OK, ("book", f"Error: key {SECRET} is refused")])),
        ("a secret as a tool that fails", inert, "high", _hostile("report", "report --json", "report --markdown", calls=[*OK, (f"use_{SECRET}", "Error: refused")])),
        ("hostile modes on a page", whole, "high", _paged(lambda: fleet(EVIL, passed=False))),
        *((f"a page {name}", whole, "high", _paged(rows)) for name, rows in ROWS.items()),
        ("a page of 2,100 runs", whole, "high", _after(_many, lambda place: coded(place.run("report", "--html", "r.html", *C), (0,)) or page_of())),
        ("a gate that fails by a hostile mode", "inert in text, JSON, Markdown, JUnit, files and summary", "high", _gated_modes),
        ("what gates and self-tests wrote, on a page", "shown, or one line", "high", _gates_page),
        ("a self-test of hostile names", inert, "high", _selftests),
        ("a failing run, promoted", files, "medium", promoted(told(1, 0, TAKEN, passed=False), _three)),
        ("a failing run, promoted and tested", "expected to fail: xfailed, code 0", "medium", promoted(told(1, 0, TAKEN, passed=False), _plays)),
        ("a failing run, promoted in JSON", files, "medium", promoted(told(1, 0, TAKEN, passed=False), _three, "--out cases --json")),
        ("a failing run, promoted twice", "2: nothing is overwritten; --force does", "high", promoted(told(1, 0, TAKEN, passed=False), _again)),
        ("two runs of nearly one name, promoted", "2, or a file of its own", "high", _collide),
        ("links in the place of what is promoted", "what they lead to stays", "high", _led),
        *((f"a run called {name[:24]!r}, promoted", files, "high", promoted(_hostile_task(name), _three)) for name in evil),
        ("a run called like a program, promoted and tested", files, "high", promoted(_hostile_task(evil[0]), _plays)),
        ("a passing run, promoted", "0 or 2: typed", "medium", promoted(told(1, 0), _three, codes=(0, 2))),
        ("a run of words alone, promoted", "0 or 2: typed", "medium", promoted(gates.line(1, 0, passed=False), _three, codes=(0, 2))),
        ("a run promoted at a step that is not there", "2", "medium", promoted(told(1, 0, TAKEN, passed=False), _three, "--out cases --step 900", codes=(2,))),
        ("a run promoted at its first step", "0 or 2: typed", "medium", promoted(told(1, 0, TAKEN, passed=False), _three, "--out cases --step 0", codes=(0, 2))),
        ("a run promoted into a file", "2 or 5", "medium", promoted(told(1, 0, TAKEN, passed=False), _three, codes=(2, 5), before=lambda: Path("cases").write_text("mine", "utf-8"))),
        ("a run promoted to a place that nobody has", "2 or 5", "medium", promoted(told(1, 0, TAKEN, passed=False), _three, "--out /proc/x", codes=(2, 5))),
        ("the link in a second browser", "it comes in; the first one stays", "medium", _browsers(1)),
        ("the link in forty browsers", "each comes in", "medium", _browsers(40)),
        ("links that are nearly right", refused, "high", _strange(_tokens)),
        ("the link's token at other addresses", refused, "high", _strange(_places)),
        ("the link from other sites and hosts", refused, "high", _strange(_sites)),
        ("the link by other methods", refused, "high", _strange(_methods)),
        ("the link of an earlier start", refused, "high", _later),
        ("the pages of hostile modes, served", "sound", "high", _viewed(lambda: fleet(EVIL, passed=False), "/?where=mode+%3D+'CODE'", "/?where=mode+%3D+null", "/?where=mode+like+'%25'", "/?by=mode", "/api/report.json", "/profile", "/gates")),
        ("the pages of runs without tasks, served", "sound", "high", _viewed(lambda: plain(task_id=..., trial=...), "/", "/api/runs.csv", "/compare")),
        ("runs of many outcomes, counted", "48", "low", _after(two_modes, lambda place: "" if n_runs(place, "c.db") == 48 else "other")),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("outputs", name, expected, severity, do, round=7) for name, expected, severity, do in _output_rows()]
