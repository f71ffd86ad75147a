"""Where a backend is and what opens it: the variables that its own SDK reads, nothing else.

Only the environment says this, never a settings file: a pull request can change a file, and with
it the host that a key is sent to. A key is never part of an error, a log line or a `repr`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from stepscope.backends.target import BackendName
from stepscope.errors import ConfigError
from stepscope.safety import redact

_LANGFUSE = "https://cloud.langfuse.com"
_LANGSMITH = "https://api.smith.langchain.com"
_PHOENIX_PORT = "6006"
# Shorter texts are no secrets, and cutting them out of messages would make those unreadable.
_SECRET_CHARACTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A host, and the headers that open it.

    Attributes:
        base: address, without a slash at its end.
        host_variable: the variable that says so, for messages.
        key_variable: the variable that holds the key, for messages.
        headers: sent with every request to this host, and to no other.
        secrets: what no message may hold.
    """

    base: str
    host_variable: str
    key_variable: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def host(self) -> str:
        """Host and port, for messages."""
        return urlsplit(self.base).netloc

    def scrubbed(self, text: str) -> str:
        """Return a text without the secrets: these, and whatever else looks like one."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return redact.scrubbed(text)


def access(backend: BackendName, variables: Mapping[str, str]) -> Access:
    """Return where a backend is and what opens it.

    Args:
        backend: which.
        variables: the environment.

    Raises:
        ConfigError: a key or a host is missing, or is no address; the variable is named.
    """
    found = _READERS[backend](variables)
    for name, value in found.headers.items():
        if not (name + value).isascii() or not (name + value).isprintable():
            raise ConfigError(
                f"{found.key_variable} cannot be sent: a key holds printable ASCII characters only"
            )
    return found


def _phoenix(variables: Mapping[str, str]) -> Access:
    names = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT")
    host_variable = next((name for name in names if variables.get(name)), "")
    base = variables.get(host_variable, "")
    if not base:
        host_variable, host = "PHOENIX_HOST", variables.get("PHOENIX_HOST", "")
        if host in {"", "0.0.0.0", "::"}:  # what a server listens on is no place to call
            host = "localhost"
        port = variables.get("PHOENIX_PORT") or _PHOENIX_PORT
        base = host if "://" in host else f"http://{host}:{port}"
    headers = _told(variables.get("PHOENIX_CLIENT_HEADERS", ""))
    key = variables.get("PHOENIX_API_KEY", "")
    if key:
        headers["authorization"] = f"Bearer {key}"
    return Access(
        base=_base(base, host_variable).removesuffix("/v1/traces"),
        host_variable=host_variable,
        key_variable="PHOENIX_API_KEY",
        headers=headers,
        secrets=_secrets(key, *headers.values()),
    )


def _told(text: str) -> dict[str, str]:
    """Return headers as the variable of the SDK holds them: `a=b,c=d`, percent-encoded."""
    found = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            found[unquote(name.strip()).lower()] = unquote(value.strip())
    return found


def _mlflow(variables: Mapping[str, str]) -> Access:
    base = variables.get("MLFLOW_TRACKING_URI", "")
    if not base.startswith(("http://", "https://")):
        raise ConfigError(
            f"MLFLOW_TRACKING_URI is {_shown(base)}; expected the address of a tracking server as "
            "http://localhost:5000 (`mlflow server` serves a file store or a database)"
        )
    user, password = (variables.get(f"MLFLOW_TRACKING_{n}", "") for n in ("USERNAME", "PASSWORD"))
    token = variables.get("MLFLOW_TRACKING_TOKEN", "")
    headers = {}
    if user or password:
        headers["authorization"] = _basic(user, password)
    elif token:
        headers["authorization"] = f"Bearer {token}"
    return Access(
        base=_base(base, "MLFLOW_TRACKING_URI"),
        host_variable="MLFLOW_TRACKING_URI",
        key_variable="MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD,",
        headers=headers,
        secrets=_secrets(password, token, *headers.values()),
    )


def _langfuse(variables: Mapping[str, str]) -> Access:
    public = _needed("LANGFUSE_PUBLIC_KEY", variables)
    secret = _needed("LANGFUSE_SECRET_KEY", variables)
    host_variable = "LANGFUSE_BASE_URL"
    if not variables.get(host_variable):
        host_variable = "LANGFUSE_HOST"
    return Access(
        base=_base(variables.get(host_variable) or _LANGFUSE, host_variable),
        host_variable=host_variable,
        key_variable="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY",
        headers={"authorization": (basic := _basic(public, secret))},
        secrets=_secrets(secret, basic),
    )


def _langsmith(variables: Mapping[str, str]) -> Access:
    key = variables.get("LANGSMITH_API_KEY") or variables.get("LANGCHAIN_API_KEY")
    if not key:
        key = _needed("LANGSMITH_API_KEY", variables)
    old = variables.get("LANGCHAIN_ENDPOINT")
    host_variable = "LANGSMITH_ENDPOINT"
    workspace = variables.get("LANGSMITH_WORKSPACE_ID")
    return Access(
        base=_base(variables.get(host_variable) or old or _LANGSMITH, host_variable),
        host_variable=host_variable,
        key_variable="LANGSMITH_API_KEY",
        headers={"x-api-key": key, **({"x-tenant-id": workspace} if workspace else {})},
        secrets=_secrets(key),
    )


def _needed(name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set; set it to the key that opens the backend")
    return value


def _base(text: str, variable: str) -> str:
    """Return an address without the slash at its end.

    Raises:
        ConfigError: it is none, or holds a user name, a query or a fragment.
    """
    try:
        parts = urlsplit(text.strip())
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as e:
        raise ConfigError(f"{variable} is no address ({e})") from e
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise ConfigError(
            f"{variable} is {_shown(text)}; expected an address as https://host:port, without "
            "user, query or fragment"
        )
    return text.strip().rstrip("/")


def _shown(text: str) -> str:
    """Return a value as a message may show it: without what stands before an `@`."""
    return repr(text.rpartition("@")[2][:60]) if text else "not set"


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _secrets(*texts: str) -> tuple[str, ...]:
    """Return what to cut out of messages, the longest first: with and without its scheme."""
    bare = [text.removeprefix("Bearer ").removeprefix("Basic ") for text in texts]
    return tuple(sorted({t for t in bare if len(t) >= _SECRET_CHARACTERS}, key=len, reverse=True))


_READERS: dict[BackendName, Callable[[Mapping[str, str]], Access]] = {
    "langfuse": _langfuse,
    "langsmith": _langsmith,
    "mlflow": _mlflow,
    "phoenix": _phoenix,
}
