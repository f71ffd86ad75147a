"""The fourth round: settings.

Expectations as in the first round: by the documentation, written and committed before anything was
run. The grammar of gates, where keys go, what counts as this machine, other folders' settings,
other spellings of TOML, measures that misbehave.
"""

# fmt: off
from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from bars.attack import _gates as gates
from bars.attack import _replies as replies
from bars.attack import _second as second
from bars.attack import _settings as settings
from bars.attack._cases import Case, Place, coded, one_line
from bars.attack._fourth import BAD, Do, Row, placed
from bars.attack._third import strict

JUDGE = '[judges.model."{name}"]\nfamily = "own"\nprice = {{ input = 1, output = 1 }}\n{more}\n'
ASK = "judge --judge {name} --rubric axes.termination"


def setting(text: str, codes: tuple[int, ...] = (2,), words: str = "score", says: str = "",
            files: Mapping[str, gates.Content] | None = None) -> Do:
    """Return what runs a command under these settings, and files beside them."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", text)
        for name, content in (files or {}).items():
            place.write(name, content)
        done = place.run(*shlex.split(words))
        return one_line(done, codes, says=says) if done.code == 2 else coded(done, codes, says=says)

    return do


def _gate(gate: str, codes: tuple[int, ...] = (2,), more: str = "", says: str = "") -> Do:
    """Return what gates failing runs by one gate, over a baseline that was made by it before."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy())
        place.write("old.jsonl", gates.runs("old"))
        for command in ("import old.jsonl", "score", "baseline update --yes"):
            place.must(*command.split(), "--store", "g.db")
        place.write("stepscope.toml", gates.policy(gate) + more)
        placed(place, BAD)
        done = place.run("gate", "--runs", "t", "--undecided", "pass")
        return one_line(done, codes, says=says) if done.code == 2 else coded(done, codes, says=says)

    return do


# What stands under [workflow.w.gates]; the runs fail in half of the trials.
GATES: dict[str, tuple[str, tuple[int, ...]]] = {
    "uncertain of rules on an axis": ("axes.termination = { max_rate = 0.1, uncertain = 'ignored' }", (2,)),
    "uncertain of a word nobody knows": ("outcome = { max_drop = 0.05, uncertain = 'best' }", (2,)),
    "recovered of a word nobody knows": ("no_errors = { max_per_run = 0, recovered = 'maybe' }", (2,)),
    "recovered that is true": ("no_errors = { max_per_run = 0, recovered = true }", (2,)),
    "file_on of a word nobody knows": ("outcome = { max_drop = 0.05, file_on = 'x' }", (2,)),
    "a rate a little above 1": ("outcome = { min_rate = 1.0000001 }", (2,)),
    "a rate next to nothing": ("outcome = { max_rate = 1e-320 }", (2, 3)),
    "a rate of 0": ("outcome = { max_rate = 0 }", (2, 3)),
    "a rate of negative zero": ("outcome = { max_rate = -0.0 }", (2, 3)),
    "a least rate of 1": ("outcome = { min_rate = 1 }", (3,)),
    "a ratio below 0": ("step_efficiency = { max_ratio_to_baseline_median = -1 }", (2,)),
    "a ratio that is true": ("step_efficiency = { max_ratio_to_baseline_median = true }", (2,)),
    "an axis as a table of tables": ("axes = { termination = { max_rate = 0.1 } }\noutcome = { max_drop = 0.05 }", (2, 3)),
    "an axis in quotation marks": ("'axes.termination' = { max_rate = 0.1 }\noutcome = { max_drop = 0.05 }", (2, 3)),
    "a gate by dotted keys": ("outcome.max_drop = 0.05", (3,)),
    "a gate by dotted keys and a table": ("outcome.max_drop = 0.05\noutcome = { severity = 'soft' }", (2,)),
    "a quantile nobody has": ("steps.p99 = { max_per_run = 5 }", (2,)),
    "a quantile with a rate": ("steps.p95 = { max_rate = 0.05 }", (2, 3, 4)),
    "a threshold that is a date": ("outcome = { max_drop = 2026-01-01 }", (2,)),
    "a threshold that is a list": ("outcome = { max_drop = [0.05] }", (2,)),
    "a threshold in hexadecimal": ("outcome = { max_drop = 0x1 }", (0, 2)),
    "a source that is a list": ("outcome = { max_drop = 0.05, source = ['rules'] }", (2,)),
    "a source of blanks": ("outcome = { max_drop = 0.05, source = ' ' }", (2, 4)),
    "a label off the menu": ("termination = { max_rate = 0.05, label = 'Limit' }", (2, 4)),
    "a severity that is empty": ("outcome = { max_drop = 0.05, severity = '' }", (2,)),
    "a name in capitals": ("OUTCOME = { max_drop = 0.05 }", (2,)),
    "a name with a blank": ("'outcome ' = { max_drop = 0.05 }", (2,)),
    "a name in another script": ("'\u043eutcome' = { max_drop = 0.05 }", (2,)),
    "a name of nothing": ("'' = { max_drop = 0.05 }", (2,)),
    "a judge's gate without a judge": ("no_detours = { max_rate = 0.05 }", (0, 2, 4)),
    "a rubric of judges from the rules": ("quality.final_answer = { max_rate = 0.05 }", (2, 4)),
    "a drop of a figure": ("steps.median = { max_drop = 0.05 }", (2, 3, 4)),
    "a ratio of an outcome": ("outcome = { max_ratio_to_baseline_median = 1.3 }", (2, 3, 4)),
    "proof where a count is": ("no_errors = { max_per_run = 0, rule = 'proof' }\noutcome = { max_drop = 0.05 }", (2, 3)),
    "regression without a baseline's threshold": ("outcome = { max_rate = 0.1, rule = 'regression' }", (2, 3)),
    "two hundred gates": ("\n".join(f"steps.p95.x{n} = 1" for n in range(200)), (2,)),
}  # fmt: skip


def _keyed(name: str, base: str, environment: Mapping[str, str], more: str = "", codes: tuple[int, ...] = (2,),
           sent: bool | None = False, says: str = "") -> Do:
    """Return what asks a judge at an address, with keys in the environment: where do they go?"""

    def do(place: Place) -> str:
        from bars.attack._third_replies import Serving, impatient

        impatient()
        wire = Serving(lambda made: made.sendall(second.raw(second.RIGHT)))
        port = wire.base.rpartition(":")[2]
        text = JUDGE.format(name=name, more=more)
        if base:
            text += f'base_url = "{base.replace("PORT", port)}"\n'
        place.write("stepscope.toml", text)
        for key, value in environment.items():
            os.environ[key] = value.replace("PORT", port)
        # A host of .example is refused before anybody looks for it; --offline would say so first.
        done = place.run(*ASK.format(name=name).split(), *([] if ".example" in base else ["--offline"]))
        if WORD.encode() in b"".join(wire.requests):
            return "the key was sent"
        if sent is not None and bool(wire.asked) != sent:
            return f"asked {wire.asked} times, code {done.code}: {done.said[-200:]!r}"
        return coded(done, codes, says=says)

    return do


WORD = "quokka-key-17-zanzibar"


def _sent_key(dotenv: str, environment: Mapping[str, str], wanted: str) -> Do:
    """Return what looks which of two keys is sent to a judge on this machine."""

    def do(place: Place) -> str:
        wire = second.Turning(second.raw(second.RIGHT), second.raw(second.RIGHT))
        heads: list[bytes] = []
        answer = wire._answer

        def listen(made: object) -> None:
            heads.append(made.recv(65536, 2))  # type: ignore[attr-defined]  # MSG_PEEK
            answer(made)  # type: ignore[arg-type]

        wire._answer = listen  # type: ignore[method-assign]
        place.write("stepscope.toml", JUDGE.format(name="local/a", more='key = "MY_KEY"') + f'base_url = "{wire.base}/v1"\n')
        place.write(".env", dotenv)
        os.environ.update(environment)
        done = place.run(*ASK.format(name="local/a").split())
        raw = b"".join(heads)
        if wanted and wanted.encode() not in raw:
            return f"another key was sent: {raw[:300]!r}, code {done.code}: {done.err[-200:]!r}"
        if not wanted and raw:
            return "a call was sent"
        return "the key is shown" if WORD in done.said else coded(done, (0,) if wanted else (2,))

    return do


def _local(address: str, codes: tuple[int, ...], asked: bool | None) -> Do:
    """Return what asks a judge at an address that is, or is not, this machine, under --offline."""

    def do(place: Place) -> str:
        from bars.attack._third_replies import impatient

        impatient()
        wire = replies.plain(second.RIGHT)
        port = wire.base.rpartition(":")[2]
        text = JUDGE.format(name="local/a", more=f'base_url = "{address.replace("PORT", port)}"')
        place.write("stepscope.toml", "offline = true\n" + text)
        done = place.run(*ASK.format(name="local/a").split())
        if asked is not None and bool(wire.asked) != asked:
            return f"asked {wire.asked}, code {done.code}: {done.err[-200:]!r}"
        return coded(done, codes)

    return do


def _elsewhere(words: str, codes: tuple[int, ...], text: str = gates.policy(more='baseline = "b.json"')) -> Do:
    """Return what has settings in another folder: files in them are relative to it."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", "")
        place.write("c/stepscope.toml", text)
        place.write("old.jsonl", gates.runs("old"))
        for command in ("import old.jsonl --store g.db", "score --store g.db", "baseline update --yes --config c --store g.db"):
            place.must(*command.split())
        if not Path("c/b.json").exists():
            return "the baseline is not beside its settings"
        placed(place, BAD)
        place.write("d/x", "")
        return coded(place.run(*shlex.split(words)), codes)

    return do


def _measure(text: str, codes: tuple[int, ...] = (0, 2, 4)) -> Do:
    """Return what scores by a measure of the user's own: what it breaks is its own answer."""

    def do(place: Place) -> str:
        place.write("m.py", text)
        done = place.run("score", "--measure", "m.py:MEASURE", "--workers", "1")
        wrong = one_line(done, codes) if done.code else coded(done, codes)
        if wrong or done.code:
            return wrong
        shown = place.run("report", "--json")
        if shown.code == 0:
            strict(shown.out)
        return coded(shown, (0, 2, 4))

    return do


MEASURE = """
from stepscope.model import Scale, Verdict
from stepscope.values import Unmeasured
class Own:
    name = NAME
    version = "1"
    scale = Scale(low=0, high=1)
    learns = ()
    def __call__(self, trajectory, case, facts):
        BODY
MEASURE = Own()
"""


def _own(body: str, name: str = "own") -> str:
    return MEASURE.replace("BODY", body).replace("NAME", repr(name))


def _measure_gated(place: Place) -> str:
    """A measure of the user's own that takes the name of the outcome turns no gate green."""
    place.write("stepscope.toml", gates.policy())
    place.write("m.py", _own("return [Verdict('outcome', 1.0, 'pass')]", "outcome"))
    place.write("old.jsonl", gates.runs("old"))
    for command in ("import old.jsonl", "score", "baseline update --yes"):
        place.must(*command.split(), "--store", "g.db")
    placed(place, BAD)
    place.must("import", "t", "--store", "g.db")
    place.must("score", "--store", "g.db")
    place.run("score", "--measure", "m.py:MEASURE", "--store", "g.db")
    return coded(place.run("gate", "--undecided", "pass", "--store", "g.db"), (2, 3, 4))


def _init(before: Callable[[], object], codes: tuple[int, ...], kept: str = "") -> Do:
    """Return what writes settings where something is: without --force it stays."""

    def do(place: Place) -> str:
        before()
        was = Path(kept).read_text("utf-8") if kept and Path(kept).exists() else None
        done = place.run("init", "--yes")
        now = Path(kept).read_text("utf-8") if kept and Path(kept).exists() else None
        if was != now:
            return f"code {done.code}, and {kept} was written"
        return one_line(done, codes) if done.code else coded(done, codes)

    return do


def _names(store: str) -> list[str]:
    from stepscope.store import Store

    with Store.open(store) as opened:
        return [run.id for run in opened.trajectories()]


def _linked(to: str, text: str) -> None:
    """Put a link in the place of the settings."""
    if text:
        Path(to).write_text(text, encoding="utf-8")
    Path("stepscope.toml").unlink(missing_ok=True)
    Path("stepscope.toml").symlink_to(to)


def _changed_facts(place: Place) -> str:
    """A changed policy file has `score` ask again, and the older answers are no longer current."""
    text = '[workflow.w]\ntools = "tools.json"\n'
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "seen"}, {"role": "assistant", "content": "done"}]
    place.write("stepscope.toml", text)
    place.write("tools.json", '[{"name": "look"}]')
    place.write("w.jsonl", json.dumps({"task_id": "1", "workflow": "w", "messages": said}))
    place.must("import", "w.jsonl", "--store", "w.db")
    place.must("score", "--store", "w.db")
    (name,) = _names("w.db")
    first = place.run("show", name, "--store", "w.db")
    place.write("tools.json", '[{"name": "other"}]')
    done = place.must("score", "--store", "w.db")
    again = place.run("show", name, "--store", "w.db")
    if first.out == again.out:
        return f"the same answer: {again.out[:200]!r}; score said {done.out[-200:]!r}"
    return ""


def _own_limits(text: str, files: Mapping[str, gates.Content]) -> Do:
    """Return what gates failing runs under limits that set them aside or cut them."""

    def do(place: Place) -> str:
        place.write("stepscope.toml", gates.policy())
        place.write("old.jsonl", gates.runs("old"))
        for command in ("import old.jsonl", "score", "baseline update --yes"):
            place.must(*command.split(), "--store", "g.db")
        place.write("stepscope.toml", gates.policy() + text)
        placed(place, {"a.jsonl": gates.PASSING, **files})
        return coded(place.run("gate", "--runs", "t", "--undecided", "pass"), (3, 4))

    return do


TOML: dict[str, tuple[str, tuple[int, ...]]] = {
    "a key in capitals": ("Seed = 0", (2,)),
    "a key twice, once in quotation marks": ('seed = 0\n"seed" = 1', (2,)),
    "a table that is opened again": ("[limits]\ndepth = 50\n[redaction]\nshown = true\n[limits]\nsteps = 50", (2,)),
    "an inline table that is extended": ("limits = { depth = 50 }\n[limits.more]\nx = 1", (2,)),
    "dotted keys and their table": ("limits.depth = 50\n[limits]\nsteps = 50", (2,)),
    "carriage returns alone": ("seed = 0\rseed = 1", (2,)),
    "a tab within a key": ("se\ted = 0", (2,)),
    "a seed with underscores": ("seed = 1_000", (0,)),
    "a seed with a plus": ("seed = +7", (0,)),
    "a seed of negative zero": ("seed = -0", (0, 2)),
    "a limit in octal": ("[limits]\ndepth = 0o100", (0,)),
    "a limit of local time": ("[limits]\ndepth = 07:32:00", (2,)),
    "a text over lines": ('store = """step\\\n  scope.db"""', (0,)),
    "a remark with a control": ("seed = 0 # \x01", (2,)),
    "a text with a control": ('store = "a\x1fb"', (2,)),
    "an escape of half a character": ('store = "\\ud800"', (2,)),
    "a form of secrets that the placeholder begins with": ('[[redaction.secret]]\nkind = "x"\nbegins = "[secret:"', (0, 2)),
    "a form of secrets of a kind that is ours": ('[[redaction.secret]]\nkind = "github"\nbegins = "abc_"', (0, 2)),
    "a form of secrets of 10^18 signs": ('[[redaction.secret]]\nkind = "x"\nbegins = "abc_"\nleast = 1000000000000000000', (0, 2)),
    "a form of secrets in another script": ('[[redaction.secret]]\nkind = "x"\nbegins = "\u0430\u0431\u0432_"', (0, 2)),
    "a form of secrets with a range turned round": ('[[redaction.secret]]\nkind = "x"\nbegins = "abc_"\ncharacters = "z-a"', (2,)),
    "a form of secrets of no sign": ('[[redaction.secret]]\nkind = "x"\nbegins = "abc_"\ncharacters = ""', (2,)),
    "a store that is a device": ('store = "/dev/null"', (2, 5)),
    "a store that is this folder": ('store = "."', (2, 5)),
    "a store that is empty": ('store = ""', (2,)),
    "a store that is the settings": ('store = "stepscope.toml"', (2,)),
    "a store of NUL": ('store = "a\\u0000b"', (2,)),
    "a rule of calls of 2^70": ('[[policy]]\nname = "x"\nforbid = "book"\nmax_calls = 1180591620717411303424', (0, 2)),
    "a rule on every tool, with a case of its own": ('[[policy]]\nname = "x"\nforbid = "WRITE"', (0, 2)),
    "a rule that waits for itself": ('[[policy]]\nname = "x"\nbefore = "book"\nrequire = "book"', (0, 2)),
    "a precondition by an argument of nobody": ('[[precondition]]\ntool = "book"\nafter = "look"\nby = "nothing"', (0,)),
    "a precondition on itself": ('[[precondition]]\ntool = "book"\nafter = "book"', (0, 2)),
    "weights of a task that is empty": ("[weights.w]\n'' = [1, 2]", (0, 2)),
    "families by a pattern of brackets": ('[judges.families]\n"[a-" = "x"', (0, 2)),
    "10^9 calls at once": ("[judges]\nconcurrency = 1000000000", (0, 2)),
    "half a call at once": ("[judges]\nconcurrency = 0.5", (2,)),
}  # fmt: skip
MODELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "a context of 1": ("context_tokens = 1", (2, 4)), "a context below 0": ("context_tokens = -1", (2,)),
    "an answer of 0": ("max_output_tokens = 0", (2,)), "an answer of 10^12": ("max_output_tokens = 1000000000000", (2, 4, 5)),
    "a temperature of no number": ("temperature = nan", (2,)), "a seed of 2^80": ("seed = 1208925819614629174706176", (0, 2)),
    "a seed below 0": ("seed = -7", (0, 2)), "extra of a date": ("extra = { a = 2026-01-01 }", (0, 2, 4)),
    "extra of no number": ("extra = { a = nan }", (0, 2, 4)), "extra of its schema": ("extra = { response_format = 'x' }", (2,)),
    "extra of its messages": ("extra = { messages = [] }", (2,)), "a protocol of nobody": ("protocol = 'smtp'", (2,)),
    "a family of nothing": ("family = ''", (2,)), "a key of a name with a blank": ("key = 'A B'", (2,)),
}  # fmt: skip


def _model(more: str, codes: tuple[int, ...]) -> Do:
    def do(place: Place) -> str:
        from bars.attack._third_replies import impatient

        impatient()
        wire = replies.plain(second.RIGHT)
        text = JUDGE.format(name="local/a", more=f'base_url = "{wire.base}/v1"\n{more}')
        place.write("stepscope.toml", text.replace('family = "own"\n', "") if "family" in more else text)
        done = place.run(*ASK.format(name="local/a").split())
        if done.code == 2 and wire.asked:
            return "refused, and asked"
        return one_line(done, codes) if done.code == 2 else coded(done, codes)

    return do


def _settings_rows() -> list[Row]:
    here = "http://127.0.0.1:PORT/v1"
    sdk = "nothing is led there: 5, refused by --offline; nobody is asked"
    judge = 'key = "MY_KEY"'
    outside = "http://gpu.example/v1"
    link = gates.policy(more='baseline = "../base.json"')
    limit = "3 or 4, never 0: what is set aside or cut counts"
    return [
        *((f"a gate with {name}", f"one of {codes}, never another", "high", _gate(gate, codes)) for name, (gate, codes) in GATES.items()),
        ("a gate that is nearly a word", "2, and names the nearest", "low", _gate("outcom = { max_drop = 0.05 }", (2,), says="outcome")),
        *((f"TOML: {name}", f"one of {codes}, one line", "medium", setting(text, codes)) for name, (text, codes) in TOML.items()),
        *((f"a judge with {name}", f"one of {codes}; nobody is asked where it is 2", "medium", _model(more, codes))
          for name, (more, codes) in MODELS.items()),
        ("OPENAI_BASE_URL leads the key elsewhere", sdk, "high",
         _keyed("openai/gpt-5", "", {"OPENAI_API_KEY": WORD, "OPENAI_BASE_URL": here}, codes=(2, 4, 5))),
        ("ANTHROPIC_BASE_URL leads the key elsewhere", sdk, "high",
         _keyed("anthropic/claude-sonnet-4-5", "", {"ANTHROPIC_API_KEY": WORD, "ANTHROPIC_BASE_URL": here[:-3]}, codes=(2, 4, 5))),
        ("a proxy leads the key elsewhere", sdk, "high",
         _keyed("openai/gpt-5", "", {"OPENAI_API_KEY": WORD, "HTTPS_PROXY": "http://127.0.0.1:PORT", "ALL_PROXY": "http://127.0.0.1:PORT"}, codes=(2, 4, 5))),
        ("base_url leads a provider's key elsewhere", "the key is not sent: it goes to the hosts of its provider", "high",
         _keyed("openai/gpt-5", here, {"OPENAI_API_KEY": WORD}, codes=(0, 2, 4, 5), sent=None)),
        ("a provider's key named for another judge", "2: a key goes to the hosts of its provider", "high",
         _keyed("local/a", here, {"OPENAI_API_KEY": WORD}, 'key = "OPENAI_API_KEY"', codes=(2,))),
        ("a key without its host", "2, and names MY_KEY_HOST", "high", _keyed("local/a", outside, {"MY_KEY": WORD}, judge, (2,), says="MY_KEY_HOST")),
        ("a key bound to a host that ends so", "2", "high", _keyed("local/a", outside, {"MY_KEY": WORD, "MY_KEY_HOST": "example"}, judge)),
        ("a key bound to a star", "2", "high", _keyed("local/a", outside, {"MY_KEY": WORD, "MY_KEY_HOST": "*"}, judge)),
        ("a key bound to two hosts", "2", "high", _keyed("local/a", outside, {"MY_KEY": WORD, "MY_KEY_HOST": "gpu.example,e.vil"}, judge)),
        ("a key that is not set", "2, and names it", "medium", _keyed("local/a", outside, {"MY_KEY_HOST": "gpu.example"}, judge, (2,), says="MY_KEY")),
        ("a key that is empty", "2, and names it", "medium", _keyed("local/a", outside, {"MY_KEY": "", "MY_KEY_HOST": "gpu.example"}, judge, (2,), says="MY_KEY")),
        ("a key with a line break", "2: no head of its own", "high", _keyed("local/a", here, {"MY_KEY": "a\r\nx-evil: 1"}, judge, (2,))),
        ("a key in another script", "2, or a failure of a call", "high", _keyed("local/a", here, {"MY_KEY": "\u0430\u0431"}, judge, (2, 4))),
        ("a key of the environment and one of .env", "the environment's is sent", "medium",
         _sent_key(f"MY_KEY={WORD}-old\n", {"MY_KEY": f"{WORD}-new"}, f"{WORD}-new")),
        ("a key of .env alone", "it is sent", "medium", _sent_key(f"# mine\n\nMY_KEY={WORD}-env\n", {}, f"{WORD}-env")),
        ("an address in hexadecimal", "asked, or refused: it is this machine", "medium", _local("http://0x7f000001:PORT/v1", (0, 2, 4, 5), None)),
        ("this machine's second address", "asked: loopback", "medium", _local("http://127.0.0.2:PORT/v1", (0, 4, 5), None)),
        ("an address of a network, offline", "5: refused by --offline", "medium", _local("http://10.0.0.1:PORT/v1", (2, 4, 5), False)),
        ("a name that begins as this machine", "refused by --offline", "high", _local("http://127.0.0.1.e.vil:PORT/v1", (2, 4, 5), False)),
        ("an address that has all zeros", "asked, or refused", "medium", _local("http://0.0.0.0:PORT/v1", (0, 2, 4, 5), None)),
        ("a link to the network within IPv6", "refused by --offline", "high", _local("http://[::ffff:10.0.0.1]:PORT/v1", (2, 4, 5), False)),
        ("settings of another folder", "3", "high", _elsewhere("gate --config c --runs t", (3,))),
        ("settings of another folder, by their file", "3", "high", _elsewhere("gate --config c/stepscope.toml --runs t", (3,))),
        ("settings of another folder, by a way up", "3", "high", _elsewhere("gate --config d/../c --runs t", (3,))),
        ("settings of a folder without any", "2", "medium", _elsewhere("gate --config d --runs t", (2,))),
        ("a baseline by the word, from another folder", "3 or 4", "high", _elsewhere("gate --config c --baseline c/b.json --runs t", (3,))),
        ("a baseline in the folder above", "0, 2 or 4; typed", "medium", setting(link, (2, 4), "gate --runs t.jsonl")),
        *((f"failing runs under {name}", limit, "high", _own_limits(text, {"b.jsonl": gates.FAILING})) for name, text in {
            "a limit of lines of 120 bytes": "[limits]\nline_bytes = 120\n", "a limit of depth 2": "[limits]\ndepth = 2\n",
            "a limit of one step": "[limits]\nsteps = 1\n", "a limit of texts of one byte": "[limits]\ntext_bytes = 1\n"}.items()),
        ("failing runs in a zip of no member", limit, "high",
         _own_limits("[limits]\nzip_members = 1\n", {"b.zip": gates.zipped({"x.jsonl": gates.FAILING, "y.jsonl": []})})),
        ("failing runs in a zip of few bytes", limit, "high",
         _own_limits("[limits]\nzip_total_bytes = 100\n", {"b.zip": gates.zipped({"x.jsonl": gates.FAILING})})),
        ("failing runs in a zip of a small ratio", limit, "high",
         _own_limits("[limits]\nzip_ratio = 1.0\nzip_ratio_floor_bytes = 1\n", {"b.zip": gates.zipped({"x.jsonl": gates.FAILING})})),
        ("a tool list that changes", "another answer after score", "high", _changed_facts),
        ("settings that are a link to nowhere, then init", "2, or written: never elsewhere", "high",
         _init(lambda: _linked("../outside.toml", ""), (0, 2), "../outside.toml")),
        ("settings that are a link, then init", "2, and they stay", "high", _init(lambda: _linked("mine.toml", "seed = 1\n"), (2,), "mine.toml")),
        ("pyproject with our table, then init", "2: both would be an error", "medium",
         _init(lambda: Path("pyproject.toml").write_text("[tool.stepscope]\nseed = 1\n", encoding="utf-8"), (0, 2), "pyproject.toml")),
        ("a measure that raises", "0: Unmeasured, error", "high", _measure(_own("raise RuntimeError('no')"), (0, 4))),
        ("a measure that recurses for ever", "0: Unmeasured, error", "high", _measure(_own("return self(trajectory, case, facts)"), (0, 4))),
        ("a measure that answers no number", "0: never a pass, strict JSON", "high", _measure(_own("return [Verdict('own', float('nan'))]"))),
        ("a measure that answers beyond its scale", "typed", "high", _measure(_own("return [Verdict('own', 7.0)]"))),
        ("a measure that answers a text", "typed", "high", _measure(_own("return 'all good'"))),
        ("a measure that answers nothing", "typed", "high", _measure(_own("return None"))),
        ("a measure that answers under another's name", "typed", "high", _measure(_own("return [Verdict('outcome', 1.0, 'pass')]"))),
        ("a measure that cites a step of 10^9", "typed", "high", _measure(_own("return [Verdict('own', 0.5, cites=(10**9,))]"))),
        ("a measure that ends the process", "typed", "high", _measure(_own("raise SystemExit(0)"), (0, 2, 4, 5))),
        ("a measure that says Ctrl-C", "typed, or 130", "high", _measure(_own("raise KeyboardInterrupt"), (0, 2, 4, 5, 130))),
        ("a measure that takes the name of the outcome", "2 or 3, never 0", "high", _measure_gated),
        ("a measure whose name is a path", "typed", "high", _measure(_own("return []", "../../x\n::error::y"))),
        ("a measure file without the name", "2", "medium", _measure("X = 1", (2,))),
        ("a measure that is a number", "2", "medium", _measure("MEASURE = 7", (2,))),
        ("weights of an odd task by words", "0 or 2", "low", setting("[weights.w]\n'*' = [1]\n'17' = [1, 2, 3, 3, 3, 3, 3, 3, 3]", (0, 2))),
        ("tools as a pattern", "0: no tool has such a name", "low", setting("[tools]\n'get_*' = 'read'", (0, 2))),
        ("a tool list of another shape", "2, or 0 with nothing checked", "medium",
         setting('[workflow.w]\ntools = "x.json"', (0, 2), files={"x.json": '{"tools": {"a": 1}}'})),
        ("a tool list of a tool twice", "0 or 2", "medium", setting('[workflow.w]\ntools = "x.json"', (0, 2), files={"x.json": '[{"name": "a"}, {"name": "a"}]'})),
        ("a tool list with a key twice", "2: refused in our own files, or told", "medium",
         setting('[workflow.w]\ntools = "x.json"', (0, 2), files={"x.json": '[{"name": "a", "name": "b"}]'})),
        ("a policy file of 30 MB", "0 or 2, in time", "high", setting('[workflow.w]\npolicy = "p.md"', (0, 2), files={"p.md": "x y " * 7_500_000})),
        ("a policy file with NUL", "0 or 2", "medium", setting('[workflow.w]\npolicy = "p.md"', (0, 2), files={"p.md": b"a\0b"})),
        ("a judge named by its file alone", "2", "medium", setting("", (2,), ASK.format(name="j.py"), files={"j.py": "MODEL = 1"})),
        ("a run of settings in the middle of a judge's name", "2", "low", setting(settings.JUDGE, (2,), ASK.format(name="local/a/../b"))),
    ]  # fmt: skip


def cases() -> list[Case]:
    """Return the cases of this module."""
    return [Case("settings", name, expected, severity, do, round=4) for name, expected, severity, do in _settings_rows()]
