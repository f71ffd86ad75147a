"""Table `[judges]`: what makes no sense is refused, with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope import settings
from stepscope.errors import ConfigError
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable


def loaded(folder: Path, text: str) -> JudgesTable:
    """Return the judges of a settings file."""
    (folder / "stepscope.toml").write_text(text, encoding="utf-8")
    return settings.load_settings(folder).judges


def test_every_key_of_the_table_is_read(tmp_path: Path) -> None:
    text = """
        [judges]
        budget_usd = 0
        concurrency = 200
        [judges.families]
        "local/*" = "qwen"
        [judges.model."local/tiny"]
        protocol = "openai"
        base_url = "http://127.0.0.1:8080/v1"
        key = "ACME_KEY"
        family = "qwen"
        structure = "json_object_schema"
        context_tokens = 8192
        max_output_tokens = 512
        temperature = 0.0
        seed = 7
        price = { input = 0, output = 0.5, cache_read = 0, cache_write = 1.25, batch = 0.5 }
        extra = { top_p = 0.9 }
    """
    assert loaded(tmp_path, text) == JudgesTable(
        budget_usd=0,
        concurrency=200,
        families={"local/*": "qwen"},
        model={
            "local/tiny": JudgeTable(
                protocol="openai",
                base_url="http://127.0.0.1:8080/v1",
                key="ACME_KEY",
                family="qwen",
                structure="json_object_schema",
                context_tokens=8192,
                max_output_tokens=512,
                temperature=0.0,
                seed=7,
                price=PriceTable(input=0, output=0.5, cache_read=0, cache_write=1.25, batch=0.5),
                extra={"top_p": 0.9},
            )
        },
    )


def test_without_the_table_five_dollars_may_be_spent(tmp_path: Path) -> None:
    assert loaded(tmp_path, "seed = 1") == JudgesTable(budget_usd=5.0, concurrency=32)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[judges]\nbudget = 1", "did you mean 'budget_usd'"),
        ("[judges]\nbudget_usd = -1", "budget_usd is -1"),
        ("[judges]\nbudget_usd = inf", "budget_usd is inf"),
        ("[judges]\nbudget_usd = nan", "budget_usd is nan"),
        ("[judges]\nconcurrency = 0", "concurrency is 0"),
        ('[judges.families]\n"a/b" = " "', "'a/b' has no family"),
        ('[judges.model."a"]', "PROVIDER/MODEL"),
        ('[judges.model."a/b"]\nurl = "x"', "model.\"a/b\"]: unknown key 'url'"),
        ('[judges.model."a/b"]\nstructure = "json"', "Invalid enum value 'json'"),
        ('[judges.model."a/b"]\ncontext_tokens = 0', "context_tokens is 0"),
        ('[judges.model."a/b"]\ncontext_tokens = 4096', "which includes them, is 4096"),
        ('[judges.model."a/b"]\ntemperature = 2.5', "temperature is 2.5"),
        ('[judges.model."a/b"]\nprice = { input = 1 }', "missing required field `output`"),
        ('[judges.model."a/b"]\nprice = { input = 1, output = -1 }', "output is -1"),
        ('[judges.model."a/b"]\nprice = { input = 1, output = 1, batch = 2 }', "batch is 2"),
        ('[judges.model."a/b"]\nprice = { inputs = 1 }', "did you mean 'input'"),
        ('[judges.model."a/b"]\nextra = { n = 4 }', "extra.n would change"),
        ('[judges.model."a/b"]\nextra = { service_tier = "priority" }', "extra.service_tier"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, text)
    assert said in str(raised.value)
    assert "stepscope.toml" in str(raised.value)


def test_keys_are_read_from_the_environment_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# OPENAI_API_KEY=old\nexport OPENAI_API_KEY='of-file'\nMISTRAL_API_KEY=\"m\"\nEMPTY=\n"
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("MISTRAL_API_KEY", "of-environment")
    found = settings.read_keys(tmp_path)
    assert (found["OPENAI_API_KEY"], found["MISTRAL_API_KEY"]) == ("of-file", "of-environment")
    assert "EMPTY" not in found
