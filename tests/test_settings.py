from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope import settings
from stepscope.errors import ConfigError
from stepscope.measures.facts import DeclaredConduct
from stepscope.model import PolicyRule, Precondition, ToolDef

SAMPLE = Path(__file__).resolve().parents[1] / "examples" / "stepscope.toml"


def written(folder: Path, text: str, name: str = "stepscope.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    found = settings.load_settings(tmp_path)
    assert (found.store, found.seed, found.offline) == ("stepscope.db", 0, False)


def test_every_table_is_read(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        """
        store = "runs.db"
        seed = 7
        offline = true
        [limits]
        depth = 64
        zip_ratio = 100
        [tools]
        bash = "write"
        [alternatives]
        search = ["search_onestop"]
        [claims]
        "storniert" = ["cancel_order"]
        [[policy]]
        name = "ask first"
        before = "book"
        require = "confirm"
        [[policy]]
        name = "never"
        forbid = "send"
        workflow = "airline"
        """,
    )
    found = settings.load_settings(folder)
    assert found.store == str(tmp_path / "runs.db")
    assert (found.seed, found.offline) == (7, True)
    assert (found.limits.depth, found.limits.zip_ratio, found.limits.steps) == (64, 100.0, 100_000)
    assert found.tools == {"bash": "write"}
    assert found.alternatives == {"search": ("search_onestop",)}
    assert found.declared == DeclaredConduct(
        effects={"bash": "write"},
        alternatives={"search": ("search_onestop",)},
        claims={"storniert": ("cancel_order",)},
        policy=(PolicyRule(name="ask first", before="book", require="confirm"),),
        workflows={"airline": (PolicyRule(name="never", forbid="send"),)},
    )


def test_pyproject_is_read_and_both_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "[tool.stepscope]\nseed = 3\n", "pyproject.toml")
    assert settings.load_settings(tmp_path).seed == 3
    written(tmp_path, "seed = 4\n")
    with pytest.raises(ConfigError, match=r"both hold settings; keep one"):
        settings.load_settings(tmp_path)


def test_preconditions_are_declared_for_all_workflows_or_one(tmp_path: Path) -> None:
    text = "[[precondition]]\ntool='a'\nafter='b'\nby='id'\n[[precondition]]\ntool='b'\nafter='c'\n"
    declared = settings.load_settings(written(tmp_path, text + "workflow='shop'")).declared
    assert declared.preconditions == {
        "": (Precondition(tool="a", after="b", by="id"),),
        "shop": (Precondition(tool="b", after="c"),),
    }


@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.name),
    ],
)
def test_what_is_no_file_is_refused_at_once_and_never_taken_for_no_settings(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / settings.FILE)
    with pytest.raises(ConfigError, match=r"stepscope\.toml: cannot be read"):
        settings.load_settings(tmp_path)
    assert settings.find_settings(tmp_path) == settings.FILE


@pytest.mark.parametrize("key", ["tools", "policy"])
def test_a_file_of_a_workflow_that_would_not_end_is_refused(tmp_path: Path, key: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe cannot be used: Not a file"):
        settings.load_settings(written(tmp_path, f"[workflow.w]\n{key} = 'pipe'"))


@pytest.mark.parametrize("text", ["[[tool.stepscope]]\nseed = 1\n", "[tool]\nstepscope = 1\n"])
def test_a_pyproject_whose_table_is_none_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a table"):
        settings.load_settings(written(tmp_path, text, "pyproject.toml"))


def test_a_pyproject_of_others_changes_nothing(tmp_path: Path) -> None:
    assert settings.load_settings(written(tmp_path, "[tool.ruff]\n", "pyproject.toml")).seed == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sed = 1", "unknown key 'sed'; did you mean 'seed'?"),
        ("[limits]\nline_byte = 1", "[limits]: unknown key 'line_byte'; did you mean 'line_bytes'"),
        ("[[policy]]\nname = 'a'\nforbids = 'x'", "[[policy]] number 1: unknown key 'forbids'"),
        ("zzz = 1", "unknown key 'zzz'; known: alternatives, claims, gate, judges, limits"),
        ("seed = 'a'", "Expected `int`, got `str` - at `$.seed`"),
        ("seed = true", "Expected `int`, got `bool` - at `$.seed`"),
        ("seed = -1", "seed is -1; expected 0 or more"),
        ("[limits]\ndepth = 0", "[limits]: depth is 0; expected more than 0"),
        ("[limits]\ndepth = 100000000000000000000", "depth is 1e+20; expected at most 10,000"),
        ("[limits]\ndepth = 10001", "depth is 10001; expected at most 10,000"),
        (f"[limits]\nsteps = {10**30}", "steps is 1e+30; expected at most"),
        ("[limits]\nzip_ratio = inf", "zip_ratio is inf; expected at most"),
        pytest.param(
            "seed = " + "[" * 2000 + "]" * 2000,
            "not TOML in UTF-8: maximum recursion depth",
            id="nested",
        ),
        ("[limits]\nzip_ratio = nan", "zip_ratio is nan; expected more than 0"),
        ("[tools]\nbash = 'maybe'", "Invalid enum value 'maybe' - at `$.tools[...]`"),
        ("[[policy]]\nforbid = 'x'", "missing required field `name` - at `$.policy[0]`"),
        ("[[policy]]\nname='a'\n[[policy]]\nname='a'", "two [[policy]] rules are called 'a'"),
        ("[[policy]]\nname=' '\nforbid='x'", "policy rule ' ' needs a name"),
        (
            "[[policy]]\nname='a'\nforbid='x'\nbefore='y'\nrequire='z'",
            "needs a name and `forbid`, or `before` together with `require`, not both",
        ),
        ("[[policy]]\nname='a'\nforbid='x'\nmax_calls=-1", "`max_calls` is 0 or more, of `forbid`"),
        (
            "[[policy]]\nname='a'\nbefore='x'\nrequire='y'\nmax_calls=1",
            "`max_calls` is 0 or more, of `forbid`",
        ),
        ("[weights.w]\n'*' = []", "a weight of '*' is 0; expected 1, 2 or 3"),
        (
            "[[precondition]]\ntool='a'\nafter='b'\n[[precondition]]\ntool='b'\nafter='a'\n"
            "workflow='shop'",
            "no order of calls keeps these [[precondition]] rules",
        ),
        ("[[precondition]]\ntool='a'\nbefore='b'", "[[precondition]] number 1: unknown key"),
        ("seed = 1\nseed = 2", "not TOML in UTF-8: Cannot overwrite a value"),
        ("limits = 3", "Expected `object`, got `int` - at `$.limits`"),
    ],
)
def test_a_wrong_setting_is_one_line_naming_the_file(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.load_settings(written(tmp_path, text))
    message = str(caught.value)
    assert says in message
    assert message.startswith(str(tmp_path / "stepscope.toml"))
    assert "\n" not in message


def test_the_sample_holds_with_and_without_its_comments(tmp_path: Path) -> None:
    text = SAMPLE.read_text(encoding="utf-8")
    assert settings.load_settings(written(tmp_path, text)).tools == {}
    keys = [line.removeprefix("# ") for line in text.split("\n") if " = " in line or "[[" in line]
    tables = [line for line in text.split("\n") if line.startswith("[")]
    expected = [
        "tools",
        "alternatives",
        "claims",
        "limits",
        "listen",
        "redaction",
        "gate",
        "judges",
    ]
    assert tables == [f"[{name}]" for name in expected]
    tables_in_comments = ("[[", "[weights", "[judges.")
    full = []
    for line in text.split("\n"):
        bare = line.removeprefix("# ").removeprefix("#")
        full.append(bare if bare in keys or bare.startswith(tables_in_comments) else line)
    found = settings.load_settings(written(tmp_path, "\n".join(full)))
    assert found.tools == {"get_user_details": "read", "book_reservation": "write"}
    assert len(found.policy) == 4
    assert found.judges.families == {"local/*": "qwen"}
    assert found.judges.model["local/tiny"].structure == "json_schema"
    assert found.weights == {"airline": {"*": (3, 2, 1, 1), "17": (1, 3, 1, 1)}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[weights.w]\n'*' = [1, 2.5]", "[weights.w]: a weight of '*' is 2.5; expected 1, 2 or 3"),
        ("[weights.w]\n'*' = [0]", "a weight of '*' is 0; expected 1, 2 or 3"),
        ("[weights.w]\n'*' = 3", "Expected `array`, got `int`"),
        ("[weights]\nw = [1, 2]", "Expected `object`, got `array`"),
    ],
)
def test_weights_are_lists_of_1_2_and_3(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.load_settings(written(tmp_path, text))
    assert says in str(caught.value)


def test_a_file_of_weights_is_by_run_or_task(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text('"*" = [1, 3]\n"airline/1/0" = [3, 3]\n', encoding="utf-8")
    assert settings.read_weights_file(path) == {"*": (1, 3), "airline/1/0": (3, 3)}
    path.write_text("a = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"w\.toml: .*expected NAME = \[1, 3, 2\]"):
        settings.read_weights_file(path)


def test_keys_are_named_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("MISTRAL_API_KEY", "")
    env = "export ANTHROPIC_API_KEY='sk-ant-secret'\nOTHER=1\n# GEMINI_API_KEY=x\nGOOGLE_API_KEY=\n"
    found = settings.find_keys(written(tmp_path, env, ".env"))
    assert found == {"ANTHROPIC_API_KEY": ".env", "OPENAI_API_KEY": "environment"}
    assert "secret" not in repr(found)


WORKFLOW = '[workflow.shop]\ntools = "tools.json"\npolicy = "rules.md"\n'
SCHEMA = '{"type": "object"}'


@pytest.mark.parametrize(
    "listed",
    [
        '[{"type": "function", "function": {"name": "pay", "parameters": %s}}]',
        '[{"name": "pay", "input_schema": %s}]',
        '{"tools": [{"name": "pay", "inputSchema": %s}]}',
        '{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "pay", "inputSchema": %s}]}}',
    ],
)
def test_tool_list_and_policy_of_a_workflow_are_read_beside_the_settings(
    tmp_path: Path, listed: str
) -> None:
    written(written(tmp_path, WORKFLOW), "\ufeffBe kind.\n", "rules.md")
    written(tmp_path, listed % SCHEMA, "tools.json")
    declared = settings.load_settings(tmp_path).declared
    assert declared.tools == {"shop": (ToolDef("pay", schema={"type": "object"}),)}
    assert declared.instructions == {"shop": "Be kind."}


@pytest.mark.parametrize(
    ("listed", "policy", "said"),
    [
        (None, "x", r"\[workflow.shop\]: .*tools.json cannot be used: No such file"),
        ("[", "x", r".*tools.json: .*; expected the tools as OpenAI, Anthropic"),
        (" " * (4 * 1024 * 1024 + 1), "x", ".*tools.json cannot be used: it has more than 4 MiB"),
        ("[" * 5000, "x", r".*tools.json: .*; expected the tools as OpenAI, Anthropic"),
        ("{}", "x", "no list of tools in it"),
        ("[]", "x", "no list of tools in it"),
        ('[{"name": "pay"}, 3]', "x", "tool 2 has no name of its own"),
        ('[{"name": "pay"}, {"name": "pay"}]', "x", "tool 2 has no name of its own, but 'pay'"),
        ('[{"name": "pay"}]', None, ".*rules.md cannot be used: No such file"),
        ('[{"name": "pay"}]', "  ", ".*rules.md cannot be used: it is empty"),
    ],
)
def test_a_tool_list_or_policy_that_cannot_be_read_says_what_is_wrong(
    tmp_path: Path, listed: str | None, policy: str | None, said: str
) -> None:
    written(tmp_path, WORKFLOW)
    for text, name in ((listed, "tools.json"), (policy, "rules.md")):
        if text is not None:
            written(tmp_path, text, name)
    with pytest.raises(ConfigError, match=said):
        settings.load_settings(tmp_path)
