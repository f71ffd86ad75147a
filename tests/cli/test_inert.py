"""Whatever stands in a trace, each medium is inert: a log, a comment, a terminal, a JUnit file.

One hostile text is the name of everything that a trace names. No output may command a CI system,
mention, refer, link, hide a character or show the key in it.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from stepscope.api.notebook import Notebook
from stepscope.cli.main import main
from stepscope.model import ToolCall, Trajectory
from stepscope.report.document import Paragraph
from stepscope.report.render import markdown
from stepscope.settings import Settings
from stepscope.store import Store
from tests.factories import FAILED, PASSED, agent, calls, did, failed, result, run, user

SECRET = "sk-proj-" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
HOSTILE = (
    f"@octocat closes #7 GH-8 www.e.vil \u202e\u200b##[add-mask]x|`<b> [l](http://e.vil) {SECRET}"
)
LINES = f"{HOSTILE}\n::error::{HOSTILE}\n::stop-commands::x\n"


def made_runs(*outcomes: str, tasks: int = 3) -> list[Trajectory]:
    """Runs of two agents, with an outcome each; every name in them is hostile."""
    return [
        msgspec.structs.replace(
            run(
                user(LINES),
                *did(f"push {HOSTILE}", LINES, **{HOSTILE: HOSTILE}),
                *failed(f"pull {HOSTILE}", f"Error: {LINES}"),
                *failed(f"pull {HOSTILE}", f"Error: {LINES}"),
                calls(ToolCall("lost", {}), text=LINES),
                result(LINES, "error"),
                agent(LINES),
            ),
            id=f"run{task}{who}{trial}",
            task=f"{HOSTILE} {task}",
            trial=str(trial),
            workflow=HOSTILE,
            agent=f"{HOSTILE} {who}",
            tags={HOSTILE: HOSTILE, "team": HOSTILE},
            outcome=PASSED if outcome == "pass" else FAILED,
            name=f"{HOSTILE}/{task}/{who}{trial}",
        )
        for task in range(tasks)
        for who, outcome in zip("ab", outcomes, strict=True)
        for trial in range(2)
    ]


GATES = """
[workflow.NAME]
baseline = "base.json"
[workflow.NAME.gates]
outcome = { max_drop = 0.05 }
loops = { max_per_run = 0 }
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the runs scored, gates on their workflow, and a baseline of other runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    settings = GATES.replace("NAME", json.dumps(HOSTILE))
    Path("stepscope.toml").write_text(f'store = "s.db"\n{settings}', encoding="utf-8")
    with Notebook(Store.open("s.db"), Settings()) as notebook:
        notebook.store.put(made_runs("pass", "pass", tasks=4))
        notebook.score(workers=1)
    assert main(["baseline", "update", "--yes"]) == 0
    Path("s.db").unlink()
    with Notebook(Store.open("s.db"), Settings()) as notebook:
        notebook.store.put(made_runs("pass", "fail"))
        notebook.score(workers=1)
    return tmp_path


# What a forge would act on, in the text as it is rendered, outside of code.
REFERS = re.compile(r"@\w|#\d|\bgh-\d|://|\bwww\.|<!--", re.IGNORECASE)
CODE = re.compile(r"<code>[^<]*</code>")
COMMAND = re.compile(r"^\s*::\w|##\w*\[", re.MULTILINE)
WITHOUT_INK = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
FORMS = ["", "--json", "--markdown", "--junit"]


def check_inert(said: str, form: str) -> None:
    assert SECRET not in said
    assert SECRET[:20] not in said
    assert not COMMAND.search(said)
    assert not WITHOUT_INK.search(said)
    if form == "--json":
        assert json.loads(said)
    elif form == "--junit":
        found = [
            text for node in ElementTree.fromstring(said).iter() for text in node.attrib.values()
        ]
        assert not any(map(COMMAND.search, found))
    elif form == "--markdown":
        told = [line for line in said.splitlines() if not line.startswith("<!-- stepscope:gate:")]
        assert not REFERS.search(html.unescape(CODE.sub("", "\n".join(told))))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "command",
    ["report", "report --by agent", "report --by workflow", "report --by task", "compare A B",
     "show run0b0", "show run0b0 --around 4", "agree", "gate"],
)  # fmt: skip
def test_no_output_of_a_hostile_trace_does_anything(
    hostile: Path, capsys: pytest.CaptureFixture[str], command: str, form: str
) -> None:
    names = {"A": f"{HOSTILE} a", "B": f"{HOSTILE} b"}
    words = [names.get(word, word) for word in shlex.split(command)]
    capsys.readouterr()
    code = main([*words, form] if form else words)
    said = capsys.readouterr()
    if code == 2:
        assert "No such option" in said.err
    else:
        assert len(said.out) > 80
        check_inert(said.out, form)
    check_inert(said.err, "")


@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("command", ["report", "gate"])
def test_no_file_of_a_hostile_trace_does_anything(hostile: Path, command: str, form: str) -> None:
    assert main([command, form, "--out", "said"]) in (0, 3)
    check_inert(Path("said").read_text("utf-8"), form)


def test_the_job_summary_of_a_hostile_gate_names_nobody(
    hostile: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    capsys.readouterr()
    assert main(["gate"]) == 3
    first, *body, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch("::stop-commands::([0-9a-f]{32})", first)
    assert last == f"::{first.rpartition(':')[2]}::"
    check_inert("\n".join(body), "")
    check_inert(Path("summary.md").read_text("utf-8"), "--markdown")


@pytest.mark.parametrize("form", FORMS[:2])
@pytest.mark.parametrize(
    "command",
    ["baseline update --yes", "import d", "import --verdicts v.csv --rubric axes --human",
     "import --outcomes o.csv", "doctor d", "shape s.csv", "calibrate sigma s.csv"],
)  # fmt: skip
def test_what_people_name_is_as_inert_as_what_traces_name(
    hostile: Path, capsys: pytest.CaptureFixture[str], command: str, form: str
) -> None:
    folder = Path("d")
    folder.mkdir()
    said_by = '{"messages": [{"role": "user", "content": "x"}]}\n{]'
    (folder / f"{SECRET}.jsonl").write_text(said_by, encoding="utf-8")
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    label = f"run0b0,incorrect,{quoted},termination\n{quoted},incorrect,x,termination\n"
    Path("v.csv").write_text(f"run,label,judge,axis\n{label}", encoding="utf-8")
    Path("o.csv").write_text(f"run,outcome,who\nrun0b0,fail,{quoted}\n", encoding="utf-8")
    rows = [f"{quoted},{n},0.{n},{r},{quoted}" for n in range(1, 9) for r in range(3)]
    Path("s.csv").write_text("\n".join(["run,step,score,repeat,judge", *rows]), encoding="utf-8")
    capsys.readouterr()
    main([*command.split(), *([form] if form else [])])
    said = capsys.readouterr()
    assert len(said.out + said.err) > 40
    check_inert(said.out, form if said.out else "")
    check_inert(said.err, "")


def test_the_page_of_gates_hides_what_names_hold(hostile: Path) -> None:
    assert main(["report", "--html", "r.html"]) == 0
    assert SECRET[:20] not in Path("r.html").read_text("utf-8")


@pytest.mark.parametrize("name", ["@octocat", "https://e.vil", "[x](y)", "<img src=x>", "</p>"])
def test_a_paragraph_of_markdown_that_could_act_is_code(name: str) -> None:
    said = markdown.render(([Paragraph(text=f"judges: {name}")],))
    assert said.startswith("<code>judges")
    assert markdown.render(([Paragraph(text="judges: rules, p < .05 [.1, .2]")],))[:7] == "judges:"
