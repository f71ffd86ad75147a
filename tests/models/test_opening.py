"""Models by name: the installed protocols, and a model of one's own from a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepscope import registry
from stepscope.errors import ConfigError, ModelError
from stepscope.judges.judgement import configured_judge
from stepscope.models.configured import JudgesTable, JudgeTable
from stepscope.models.opening import close_models, open_model
from tests.models.scripted import REQUEST

OWN = """
from stepscope.model import Reply

class Coin:
    name = "acme/coin"
    closed = 0
    async def complete(self, request):
        return Reply(text="{}", stop="end", structure="prompt_only")
    async def close(self):
        Coin.closed += 1

COIN = Coin()

def opener(endpoint):
    return COIN
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own_models.py"
    path.write_text(OWN, encoding="utf-8")
    return str(path)


def test_the_installed_protocols_are_entry_points() -> None:
    assert registry.names("models") == ("anthropic", "openai")


def test_a_model_of_one_s_own_is_named_by_its_file(own: str) -> None:
    table = JudgesTable(families={"acme/*": "acme"})
    name = f"{own}:COIN"
    model = open_model(name, table, keys={})

    async def used() -> str:
        async with close_models([model]):
            return (await model.complete(REQUEST)).text

    assert asyncio.run(used()) == "{}"
    judge = configured_judge(name, table)
    assert (judge.name, judge.family) == ("acme/coin", "acme")
    assert getattr(registry.model(name), "closed") == 1  # noqa: B009 - no protocol has it


def test_what_opens_models_is_no_model(own: str) -> None:
    with pytest.raises(ConfigError, match="name a model itself"):
        open_model(f"{own}:opener", JudgesTable(), keys={})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("MODEL = 7", "name a model itself"),
        ("class Named:\n    name = 7\nMODEL = Named()", "name a model itself"),
        ("raise RuntimeError('x')", "fails to load"),
        ("raise SystemExit(0)", "fails to load"),
    ],
)
def test_a_file_that_holds_no_model_is_the_files_fault(
    text: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "odd.py").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        open_model(f"{tmp_path}/odd.py:MODEL", JudgesTable(), keys={})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise KeyError", "acme/odd: KeyError"),
        ("raise RuntimeError('no\\n::error::x')", "RuntimeError: no ::error::x"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("return await self.complete(request)", "RecursionError"),
        ("return None", "ValidationError"),
        ("return Reply(text=7, stop='end', structure='prompt_only')", "ValidationError"),
        ("return Reply(text='x', stop='boredom', structure='prompt_only')", "ValidationError"),
        ("return Reply(text='\\ud800', stop='end', structure='prompt_only')", "UnicodeEncodeError"),
    ],
)
def test_whatever_a_model_of_one_s_own_does_is_the_failure_of_one_call(
    body: str, says: str, tmp_path: Path
) -> None:
    text = OWN.replace("acme/coin", "acme/odd").replace(
        'return Reply(text="{}", stop="end", structure="prompt_only")', body
    )
    (tmp_path / "odd.py").write_text(text, encoding="utf-8")
    model = open_model(f"{tmp_path}/odd.py:COIN", JudgesTable(), keys={})
    with pytest.raises(ModelError, match=says) as found:
        asyncio.run(model.complete(REQUEST))
    assert not found.value.again


def test_what_a_model_of_one_s_own_says_of_its_failure_stays(tmp_path: Path) -> None:
    for raised, again in (
        ("ConnectionResetError('gone')", True),
        ("ModelError('busy', again=True, after=3.0)", True),
    ):
        body = f"from stepscope.errors import ModelError; raise {raised}"
        text = OWN.replace('return Reply(text="{}", stop="end", structure="prompt_only")', body)
        path = tmp_path / f"odd{len(raised)}.py"
        path.write_text(text, encoding="utf-8")
        model = open_model(f"{path}:COIN", JudgesTable(), keys={})
        with pytest.raises(ModelError) as found:
            asyncio.run(model.complete(REQUEST))
        assert found.value.again == again


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="no file"):
        open_model("nowhere.py:MODEL", JudgesTable(), keys={})


def test_an_unknown_protocol_names_those_installed() -> None:
    table = JudgesTable(model={"acme/one": JudgeTable(protocol="acme")})
    with pytest.raises(ConfigError, match=r"no model called 'acme'; installed: anthropic, openai"):
        open_model("acme/one", table, keys={})


def test_a_judge_has_the_parameters_of_its_table() -> None:
    told = JudgeTable(
        family="qwen",
        context_tokens=8192,
        max_output_tokens=512,
        temperature=0.0,
        seed=7,
        extra={"top_p": 0.9},
    )
    judge = configured_judge("local/tiny", JudgesTable(model={"local/tiny": told}))
    assert judge.family == "qwen"
    assert (judge.context_tokens, judge.max_output_tokens) == (8192, 512)
    assert (judge.temperature, judge.seed, judge.extra) == (0.0, 7, {"top_p": 0.9})


def test_a_judge_without_a_known_family_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'"local/tiny" = "NAME"'):
        configured_judge("local/tiny", JudgesTable())


@pytest.mark.parametrize("variable", ["OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"])
def test_headers_of_the_environment_do_not_go_to_another_host(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "authorization: Bearer of-another-host")
    protocol = variable.partition("_")[0].lower()
    told = JudgeTable(protocol=protocol, base_url="http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=f"{variable} do not belong"):
        open_model("local/tiny", JudgesTable(model={"local/tiny": told}), keys={})
