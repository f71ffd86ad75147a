from __future__ import annotations

import pytest

from stepscope.backends.client import BackendName, parse_target, read_access
from stepscope.errors import ConfigError, UsageError

LANGFUSE = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-secret"}
LANGSMITH = {"LANGSMITH_API_KEY": "lsv2_secret"}


@pytest.mark.parametrize(
    ("backend", "variables", "base", "headers"),
    [
        ("phoenix", {}, "http://localhost:6006", {}),
        ("phoenix", {"PHOENIX_HOST": "0.0.0.0"}, "http://localhost:6006", {}),
        ("phoenix", {"PHOENIX_HOST": "px", "PHOENIX_PORT": "80"}, "http://px:80", {}),
        (
            "phoenix",
            {"PHOENIX_COLLECTOR_ENDPOINT": "https://px.example/v1/traces", "PHOENIX_HOST": "no"},
            "https://px.example",
            {},
        ),
        (
            "phoenix",
            {"PHOENIX_API_KEY": "px-secret"},
            "http://localhost:6006",
            {"authorization": "Bearer px-secret"},
        ),
        (
            "phoenix",
            {"PHOENIX_CLIENT_HEADERS": "api_key=px%20secret, x-a=b"},
            "http://localhost:6006",
            {"api_key": "px secret", "x-a": "b"},
        ),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://ml:5000/"}, "http://ml:5000", {}),
        (
            "mlflow",
            {"MLFLOW_TRACKING_URI": "http://ml", "MLFLOW_TRACKING_TOKEN": "token-secret"},
            "http://ml",
            {"authorization": "Bearer token-secret"},
        ),
        (
            "mlflow",
            {
                "MLFLOW_TRACKING_URI": "http://ml",
                "MLFLOW_TRACKING_USERNAME": "ann",
                "MLFLOW_TRACKING_PASSWORD": "secret",
            },
            "http://ml",
            {"authorization": "Basic YW5uOnNlY3JldA=="},
        ),
        (
            "langfuse",
            LANGFUSE,
            "https://cloud.langfuse.com",
            {"authorization": "Basic cGstbGYtMTpzay1sZi1zZWNyZXQ="},
        ),
        (
            "langfuse",
            {**LANGFUSE, "LANGFUSE_HOST": "http://lf:3000"},
            "http://lf:3000",
            {"authorization": "Basic cGstbGYtMTpzay1sZi1zZWNyZXQ="},
        ),
        (
            "langsmith",
            {**LANGSMITH, "LANGSMITH_WORKSPACE_ID": "w1"},
            "https://api.smith.langchain.com",
            {"x-api-key": "lsv2_secret", "x-tenant-id": "w1"},
        ),
        (
            "langsmith",
            {"LANGCHAIN_API_KEY": "old-secret", "LANGCHAIN_ENDPOINT": "https://ls.example"},
            "https://ls.example",
            {"x-api-key": "old-secret"},
        ),
    ],
)
def test_hosts_and_keys_are_what_the_sdks_variables_say(
    backend: BackendName, variables: dict[str, str], base: str, headers: dict[str, str]
) -> None:
    found = read_access(backend, variables)
    assert (found.base, dict(found.headers)) == (base, headers)
    assert "secret" not in repr(found)
    assert "secret" not in found.scrubbed(f"refused: {headers}") or "x-a" in headers


@pytest.mark.parametrize(
    ("backend", "variables", "said"),
    [
        ("langsmith", {}, "LANGSMITH_API_KEY is not set"),
        ("langfuse", {}, "LANGFUSE_PUBLIC_KEY is not set"),
        ("langfuse", {"LANGFUSE_PUBLIC_KEY": "pk"}, "LANGFUSE_SECRET_KEY is not set"),
        ("mlflow", {}, "MLFLOW_TRACKING_URI is not set; expected the address"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "./mlruns"}, "MLFLOW_TRACKING_URI is './mlruns'"),
        ("langsmith", {"LANGSMITH_API_KEY": "pass\nx: y"}, "LANGSMITH_API_KEY cannot be sent"),
        ("phoenix", {"PHOENIX_API_KEY": "pass\u00e9"}, "PHOENIX_API_KEY cannot be sent"),
        ("phoenix", {"PHOENIX_ENDPOINT": "ftp://px"}, "PHOENIX_ENDPOINT is 'ftp://px'"),
        ("phoenix", {"PHOENIX_ENDPOINT": "http://u:pass@px"}, "PHOENIX_ENDPOINT is 'px'"),
        ("phoenix", {"PHOENIX_ENDPOINT": "http://px:x"}, "PHOENIX_ENDPOINT is no address"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://m/\nx"}, r"is 'http://m/\nx'"),
        ("phoenix", {"PHOENIX_ENDPOINT": "http://p\tx"}, r"is 'http://p\tx'"),
        ("phoenix", {"PHOENIX_ENDPOINT": "http://p/\u00e9"}, "expected an address"),
    ],
)
def test_what_is_missing_is_said_by_the_name_of_its_variable(
    backend: BackendName, variables: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        read_access(backend, variables)
    assert said in str(raised.value)
    assert "pass" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("phoenix:default", ("phoenix", "default")),
        ("mlflow: my runs ", ("mlflow", "my runs")),
        ("langfuse:", ("langfuse", "")),
        ("langsmith:a:b", ("langsmith", "a:b")),
    ],
)
def test_a_place_is_a_backend_and_a_name(text: str, found: tuple[str, str]) -> None:
    assert parse_target(text) == found


@pytest.mark.parametrize("text", ["phoenix:", "mlflow:  ", "langsmith:", "braintrust:x", "phoenix"])
def test_no_backend_or_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        parse_target(text)
