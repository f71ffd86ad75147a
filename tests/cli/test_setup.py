"""demo, init and doctor: what a newcomer meets first."""

from __future__ import annotations

import json
import platform
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import stepscope
from stepscope.cli import setup
from stepscope.cli.main import main
from stepscope.cli.setup import find_bundled
from stepscope.settings import KEY_VARIABLES, Settings, load_settings
from stepscope.store import Store
from tests.factories import did, run

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_examples_are_real_runs_with_their_licences() -> None:
    for folder in ("airline", "atif", "claude_code"):
        notice = find_bundled(folder, "NOTICE").read_text(encoding="utf-8")
        assert "Source: https://github.com/" in notice
        assert re.search(r"Commit: [0-9a-f]{40}", notice)
        assert "Licen" in find_bundled(folder, "LICENSE").read_text(encoding="utf-8")
    runs = json.loads(find_bundled("airline", "runs.json").read_bytes())
    named = {(run["task_id"], run["trial"]) for run in runs}
    assert named == {(task, trial) for task in (5, 9, 11, 15, 20) for trial in range(4)}


@pytest.mark.shared_data
def test_bundled_records_are_those_of_the_source_byte_for_byte(shared: Path) -> None:
    whole = (shared / "taubench" / "airline" / "runs.json").read_text(encoding="utf-8")
    text = find_bundled("airline", "runs.json").read_text(encoding="utf-8")
    records = text.removeprefix("[\n").removesuffix("\n]\n").split(',\n  {\n    "task_id"')
    assert len(records) == 20
    assert all(record in whole for record in records)


def test_the_demo_needs_no_key_and_its_next_commands_work(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "outcome: pass" in shown.out
    assert "Look first" in shown.out
    assert Path(".stepscope/demo.db").exists()
    # The browser shows what was printed: the same runs, no others.
    view = "stepscope view --store .stepscope/demo.db --where \"workflow = 'airline'\"\n"
    assert view in shown.out
    # One run of another kind is in no figure; what is proved of it is said all the same.
    said = "\nNot counted above, but worth a look: claude_code/test-session-id, step 6:\n  says"
    assert f"{said} 'Done!" in shown.out
    commands = re.findall(r"^  stepscope ((?:show|compare) .*)$", shown.out, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert main(shlex.split(command)) == 0
    assert "price" in capsys.readouterr().out


@pytest.mark.parametrize("on_path", [False, True])
def test_the_demo_says_how_to_call_a_command_that_is_not_on_the_path(
    on_path: bool,
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = here / "bin"
    place.mkdir()
    if on_path:
        (place / "stepscope").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(place))
    assert main(["demo"]) == 0
    assert bool(re.search(r"^  \. .*/bin/activate$", capsys.readouterr().out, re.M)) != on_path


def test_the_demo_twice_is_the_same(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    first = capsys.readouterr().out
    assert main(["demo", "--json"]) == 0
    assert capsys.readouterr().out == first
    assert json.loads(first)["whole"]["n_runs"] == 20


def test_the_demo_goes_elsewhere_where_nothing_can_be_written(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("elsewhere")))
    Path(".stepscope").write_text("in the way", encoding="utf-8")
    assert main(["demo"]) == 0
    place = re.findall(r"--store (\S+)", capsys.readouterr().out, re.MULTILINE)[0]
    assert Path(place).exists()
    assert not Path(place).is_relative_to(here)


def test_init_writes_what_the_runs_suggest_and_overwrites_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(RUNS)]) == 0
    assert main(["init", "--yes"]) == 0
    text = Path("stepscope.toml").read_text(encoding="utf-8")
    assert 'book_reservation = "write"  # inferred from its name' in text
    assert "# transfer_to_human_agents = " in text
    assert "get_user_details = " not in text
    assert load_settings(".").tools["book_reservation"] == "write"
    capsys.readouterr()
    assert main(["init", "--yes"]) == 2
    assert capsys.readouterr().err == (
        "error: stepscope.toml already exists; --force overwrites it\n"
    )
    assert main(["init", "--yes", "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tools"]["cancel_reservation"] == "write"


def test_init_makes_no_second_file_of_settings(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Path("pyproject.toml")
    project.write_text("[tool.stepscope]\nseed = 1\n", encoding="utf-8")
    for force in ([], ["--force"]):
        assert main(["init", "--yes", *force]) == 2
        assert "[tool.stepscope] of pyproject.toml holds settings" in capsys.readouterr().err
    project.write_text("[tool.other]\n", encoding="utf-8")
    assert main(["init", "--yes"]) == 0


def test_a_secret_in_a_tools_name_is_neither_printed_nor_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "sk-proj-" + "aB3dE5gH" * 5
    with Store.open("s.db") as store:
        store.put([run(*did(f"send_{secret}"), *did("send_mail"), id="r1", name="n1")])
    assert main(["init", "--yes", "--store", "s.db"]) == 0
    assert main(["init", "--yes", "--force", "--json", "--store", "s.db"]) == 0
    shown = capsys.readouterr()
    text = Path("stepscope.toml").read_text(encoding="utf-8")
    assert secret not in shown.out + shown.err + text
    assert 'send_mail = "write"' in text
    assert "send_[secret:" in text
    assert "send_[secret:" in shown.out
    Path("stepscope.toml").write_text(f'"{secret}" = 1\n', encoding="utf-8")
    assert main(["doctor"]) == 2
    shown = capsys.readouterr()
    assert "[secret:" in shown.out
    assert secret not in shown.out


def test_init_without_runs_writes_the_sample(here: Path) -> None:
    assert main(["init"]) == 0
    assert Path("stepscope.toml").read_bytes() == find_bundled("stepscope.toml").read_bytes()
    assert load_settings(".") == Settings()


@pytest.mark.parametrize(
    "tool",
    [
        "a.b",
        "create x",
        'say"it',
        "new\nline",
        "back\\slash",
        "\u202e",
        "é",
        "\x7f",
        "\u200b\u2028",
        "\U000e0041",
        "\u115f",
        "\ud800",
        "",
    ],
)
def test_a_tool_of_any_name_gives_a_file_that_can_be_read(tool: str) -> None:
    read = tomllib.loads(f"{setup.toml_key(tool)} = 1")
    assert read == {tool.replace("\ud800", "\ufffd"): 1}
    assert setup.toml_key(tool).isprintable()


def states(text: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(text)}


def test_doctor_names_keys_and_never_shows_them(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    Path(".env").write_text("ANTHROPIC_API_KEY=sk-ant-secret\n", encoding="utf-8")
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "ANTHROPIC_API_KEY (.env), OPENAI_API_KEY (environment)" in shown
    assert "secret" not in shown
    assert not Path("stepscope.db").exists()


def test_doctor_fails_on_what_must_be_mended(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.toml").write_text("sed = 1", encoding="utf-8")
    Path("text.db").write_text("no store " * 500, encoding="utf-8")
    assert main(["doctor", "--store", "text.db", "--json"]) == 2
    found = states(capsys.readouterr().out)
    assert (found["settings"], found["store"], found["python"]) == ("fail", "fail", "ok")


def test_doctor_in_a_folder_that_is_gone_is_no_bug(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here.rmdir()
    assert main(["doctor"]) == 5
    assert capsys.readouterr().err == (
        "error: the working directory no longer exists; change into another\n"
    )


def test_doctor_opens_a_good_store(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stepscope.open("good.db", settings=Settings()).close()
    assert main(["doctor", "--store", "good.db"]) == 0
    assert "ok    store      good.db: 0 runs, whole, durable" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("system", "state", "said"),
    [("Linux", "ok", "what CI tests"), ("Darwin", "ok", "untested"), ("Windows", "warn", "WSL")],
)
def test_doctor_says_what_is_known_of_the_platform(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    state: str,
    said: str,
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    main(["doctor"])
    (line,) = (ln for ln in capsys.readouterr().out.splitlines() if " platform " in ln)
    assert line.startswith(state)
    assert said in line


TALK = """[{"role": "user", "content": "Cancel W1"},
 {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "cancel"%s}}]},
 {"role": "tool", "tool_call_id": "1", "content": "%s"},
 {"role": "assistant", "content": "Done."}]"""


def test_doctor_names_what_a_file_lacks_and_what_would_record_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a\x1b[31m.json").write_text(TALK % ("", "[REDACTED]"), encoding="utf-8")
    assert main(["doctor", "a\x1b[31m.json"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 6
    assert "\x1b" not in "".join(lines)
    found = {line.split(": ")[2].partition(" (")[0]: line for line in lines if line}
    assert found["task"].endswith("recorded in 1 of 1 runs: task")
    assert found["tool list"].endswith("; recorded by `tools` of the request")
    assert found["policy text"].endswith("; recorded by a system message")
    assert (
        "in none of 1 runs with calls: arguments (without them, argument validity is not checked)"
        in found["arguments"]
    )
    assert (
        "in none of 1 runs with calls (1 redacted): results (without them, result interpretation"
        in found["results"]
    )
    assert not Path("stepscope.db").exists()


def test_doctor_gives_types_as_json_and_refuses_what_is_no_trace(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.json").write_text(TALK % (', "arguments": "{}"', "gone"), encoding="utf-8")
    assert main(["doctor", "a.json", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["input"], row["runs"], row["lost"]) for row in rows] == [
        ("task", 1, {}),
        ("policy", 1, {"not_recorded": 1}),
        ("tools", 1, {"not_recorded": 1}),
        ("arguments", 1, {}),
        ("results", 1, {}),
    ]
    assert {row["format"] for row in rows} == {"openai_messages"}
    assert main(["doctor", "missing.json"]) == 2
    Path("text.txt").write_text("no trace", encoding="utf-8")
    assert main(["doctor", "text.txt"]) == 2
