from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli.main import main
from tests.backends.langfuse_server import PUBLIC, SECRET, Langfuse, agent
from tests.backends.scripted import served


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)
    for name in ("LANGFUSE_BASE_URL", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_project_is_pulled_scored_and_its_verdicts_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    langfuse = Langfuse(*agent("t1"))
    with served(langfuse) as server:
        monkeypatch.setenv("LANGFUSE_HOST", server.base)
        assert main(["import", "langfuse:", "--agent", "planner", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["new"], told["files"][0]["format"]) == (1, "langfuse")
        assert main(["import", "langfuse:", "--since", "last"]) == 0
        assert "1 run: 0 new, 1 known" in capsys.readouterr().out
        assert main(["score"]) == 0
        capsys.readouterr()
        assert main(["export", "--to", "langfuse:", "--verdicts", "only", "--json"]) == 0
        sent = json.loads(capsys.readouterr().out)
        assert sent["verdicts"] == len(langfuse.scores) > 0
        assert main(["export", "--to", "langfuse:"]) == 0
        assert "there already: 1 runs" in capsys.readouterr().out
    assert langfuse.requests == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["import", "langsmith:shop"], "LANGSMITH_API_KEY is not set"),
        (["import", "langsmith:"], "'langsmith:' names no project; expected langsmith:PROJECT"),
        (["import", "langfuse:", "phoenix:a"], "one command pulls from one backend"),
        (["import", "langfuse:", "--strict"], "--strict is for files"),
        (["import", "langfuse:", "--format", "otlp"], "--format is for files"),
        (["import", "langfuse:", "--since", "soon"], "--since: 'soon' is not a time"),
        (["import", "runs.json", "--since", "7d"], "--since is for backends"),
        (["import", "phoenix:a/b"], "its id, as the address"),
        (["export"], "name a file, or a backend with --to"),
        (["export", "a.json", "--to", "langfuse:"], "write to a file, or send to a backend"),
        (["export", "--to", "langfuse:", "--verdicts", "gen_ai"], "choose only or none"),
        (["export", "--to", "braintrust:x"], "'braintrust:x' names no backend"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.db").touch()
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert SECRET not in shown.out + shown.err


def test_no_host_comes_from_a_file_beside_the_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Langfuse()) as thief, served(Langfuse()) as server:
        monkeypatch.setenv("LANGFUSE_HOST", server.base)
        Path("stepscope.toml").write_text("seed = 1\n", encoding="utf-8")
        Path(".env").write_text(f"LANGFUSE_BASE_URL={thief.base}\n", encoding="utf-8")
        assert main(["import", "langfuse:"]) == 0
        assert thief.ledger == []
        assert server.ledger
    capsys.readouterr()
    Path("stepscope.toml").write_text(
        f'[backends.langfuse]\nhost = "{thief.base}"\n', encoding="utf-8"
    )
    assert main(["import", "langfuse:"]) == 2
    assert "unknown key 'backends'" in capsys.readouterr().err
