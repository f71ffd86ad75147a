"""Where a judge is asked, and that no key goes where it does not belong."""

from __future__ import annotations

import pytest

from stepscope.errors import ConfigError
from stepscope.model import Endpoint
from stepscope.models.configured import JudgesTable, JudgeTable, ProviderKeys
from stepscope.models.opening import resolve_endpoint

KEY = "sk-scripted-0123456789abcdefghij"


def place(name: str, keys: dict[str, str] | None = None, **told: str) -> Endpoint:
    """Return the endpoint of a judge with these settings and variables."""
    return resolve_endpoint(name, JudgesTable(model={name: JudgeTable(**told)}), keys=keys or {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "variable", "base", "structure"),
    [
        ("openai/gpt-5", "OPENAI_API_KEY", "https://api.openai.com/v1", None),
        ("anthropic/claude-opus-4", "ANTHROPIC_API_KEY", "https://api.anthropic.com", None),
        ("openrouter/a/b", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", None),
        ("mistral/mistral-large", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", None),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY", "https://api.deepseek.com", "forced_tool"),
    ],
)
def test_a_known_provider_needs_its_key_and_nothing_else(
    name: str, variable: str, base: str, structure: str | None
) -> None:
    found = resolve_endpoint(name, JudgesTable(), keys={variable: KEY})
    assert (found.base_url, found.key, found.own) == (base, KEY, True)
    assert found.structure == structure
    assert found.model == name.partition("/")[2]
    with pytest.raises(ConfigError, match=f"{variable} is not set"):
        resolve_endpoint(name, JudgesTable(), keys={})


def test_either_variable_of_google_will_do() -> None:
    for variable in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        assert (
            resolve_endpoint("google/gemini-2.5-pro", JudgesTable(), keys={variable: KEY}).key
            == KEY
        )


def test_an_unknown_provider_says_which_setting_to_write() -> None:
    with pytest.raises(ConfigError, match=r'\[judges\.model\."acme/one"\] base_url'):
        place("acme/one")


@pytest.mark.parametrize("name", ["gpt-5", "/gpt-5", "openai/", ""])
def test_a_name_is_a_provider_and_a_model(name: str) -> None:
    with pytest.raises(ConfigError, match="PROVIDER/MODEL"):
        resolve_endpoint(name, JudgesTable(), keys={})


def test_a_server_on_this_machine_needs_no_key() -> None:
    found = place("local/tiny", {"OPENAI_API_KEY": KEY}, base_url="http://127.0.0.1:8080/v1/")
    assert (found.base_url, found.key, found.own) == ("http://127.0.0.1:8080/v1", "", False)


@pytest.mark.parametrize(
    "base",
    [
        "https://evil.example/v1",
        "https://api.openai.com.evil.example/v1",
        "https://evilapi.openai.com/v1",
        "http://api.openai.com/v1",  # anybody on the way reads it
        "http://127.0.0.1:8080/v1",
    ],
)
def test_a_provider_s_key_goes_to_that_provider_alone(base: str) -> None:
    keys = {"OPENAI_API_KEY": KEY, "OPENAI_API_KEY_HOST": "evil.example"}
    assert place("openai/gpt-5", keys, base_url=base).key == ""
    with pytest.raises(ConfigError, match="another variable") as raised:
        place("openai/gpt-5", keys, base_url=base, key="OPENAI_API_KEY")
    assert KEY not in str(raised.value)


def test_a_region_of_the_provider_is_the_provider() -> None:
    keys = {"OPENAI_API_KEY": KEY}
    assert place("openai/gpt-5", keys, base_url="https://eu.api.openai.com/v1").key == KEY


@pytest.mark.parametrize("variable", ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"])
def test_what_opens_something_else_is_never_sent(variable: str) -> None:
    keys = {variable: KEY, f"{variable}_HOST": "gpu.example"}
    with pytest.raises(ConfigError, match="opens no model"):
        place("acme/one", keys, base_url="https://gpu.example/v1", key=variable)


def test_a_key_of_one_s_own_goes_to_the_host_that_the_variable_beside_it_names() -> None:
    told = {"base_url": "https://gpu.example:8443/v1", "key": "ACME_KEY"}
    for host in ("gpu.example", "gpu.example:8443"):
        assert place("acme/one", {"ACME_KEY": KEY, "ACME_KEY_HOST": host}, **told).key == KEY
    for keys in ({"ACME_KEY": KEY}, {"ACME_KEY": KEY, "ACME_KEY_HOST": "other.example"}):
        with pytest.raises(ConfigError, match=r"ACME_KEY_HOST=gpu\.example"):
            place("acme/one", keys, **told)
    with pytest.raises(ConfigError, match="ACME_KEY is not set"):
        place("acme/one", {"ACME_KEY_HOST": "gpu.example"}, **told)


def test_a_second_key_of_a_known_provider_needs_no_host() -> None:
    assert place("openai/gpt-5", {"TEAM_B": KEY}, key="TEAM_B").key == KEY


@pytest.mark.parametrize("key", ["sk-\u00e4\u00f6\u00fc", "sk-a\nb"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_told(key: str) -> None:
    with pytest.raises(ConfigError, match="printable ASCII") as raised:
        place("openai/gpt-5", {"OPENAI_API_KEY": key})
    assert key not in str(raised.value)


@pytest.mark.parametrize(
    "base",
    [
        "ftp://a.example",
        "https://",
        "a.example",
        "https://user:secret-word@a.example",
        "https://a.example?key=secret-word",
        "https://a.example:port",
        "https://a b.example",
        "https://a\u2028b.example",
        "https://a.example/v1\x7f",
        "https://a.example/v1\r\nx: y",
    ],
)
def test_an_address_is_plain_http(base: str) -> None:
    with pytest.raises(ConfigError, match="base_url is"):
        place("acme/one", base_url=base)


def test_offline_refuses_all_but_this_machine() -> None:
    table = JudgesTable(model={"local/tiny": JudgeTable(base_url="http://localhost:1/v1")})
    assert resolve_endpoint("local/tiny", table, keys={}, offline=True).key == ""
    with pytest.raises(ConfigError, match="leave out --offline"):
        resolve_endpoint("openai/gpt-5", table, keys={"OPENAI_API_KEY": KEY}, offline=True)


def test_a_key_is_part_of_no_repr() -> None:
    keys = ProviderKeys({"OPENAI_API_KEY": KEY}, {})
    found = resolve_endpoint("openai/gpt-5", JudgesTable(), keys=keys)
    assert KEY not in f"{found} {found!r} {keys} {keys!r}"
    assert repr(keys) == "<1 variables>"


def test_the_environment_goes_before_the_file_and_its_keys_keep_their_hosts() -> None:
    environment = {"A_KEY": "of-environment"}
    file = {
        "A_KEY": "of-file",
        "A_KEY_HOST": "evil.example",
        "B_KEY": "b",
        "B_KEY_HOST": "b.example",
    }
    assert dict(ProviderKeys(environment, file)) == {
        "A_KEY": "of-environment",
        "B_KEY": "b",
        "B_KEY_HOST": "b.example",
    }
