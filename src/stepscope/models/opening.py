"""Open a model by its name: providers, endpoints, keys and model families.

A name is `PROVIDER/MODEL`, or `FILE.py:NAME` for a model of one's own. Where it is and what opens
it comes from the operator's settings and variables alone; refuses to send a key to a host that it
is not for. The family says who trained a model: judges of one family are wrong together.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from urllib.parse import SplitResult, urlsplit

import msgspec

from stepscope import registry
from stepscope.errors import ConfigError, ModelError
from stepscope.model import Endpoint, Model, Reply, Request, Structure
from stepscope.models.configured import HOST_VARIABLE, JudgesTable, JudgeTable
from stepscope.registry import PluginFault
from stepscope.safety.offline import is_loopback
from stepscope.safety.redact import scrub_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider of models."""

    protocol: str = "openai"  # how it is spoken to
    base_url: str  # where it is
    keys: tuple[str, ...]  # variables that may hold its key, in the order they are looked for
    # hosts that its key may be sent to; one with a dot before it stands for all below
    hosts: tuple[str, ...]
    # how structured output is asked for, where that is known; None finds out
    structure: Structure | None = None
    batch: float = 1.0  # share of the price that a batch costs

    def owns(self, address: SplitResult) -> bool:
        """Whether an address is this provider's, and nobody between reads what is sent."""
        host = address.hostname or ""
        return address.scheme == "https" and any(
            host == own or (own.startswith(".") and host.endswith(own)) for own in self.hosts
        )


PROVIDERS: dict[str, Provider] = {
    "anthropic": Provider(
        protocol="anthropic",
        base_url="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY",),
        hosts=("api.anthropic.com",),
        batch=0.5,
    ),
    "deepseek": Provider(
        base_url="https://api.deepseek.com",
        keys=("DEEPSEEK_API_KEY",),
        hosts=("api.deepseek.com",),
        structure="forced_tool",  # its json_object takes no schema
    ),
    "google": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        hosts=("generativelanguage.googleapis.com",),
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",), hosts=("api.mistral.ai",)
    ),
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        hosts=("api.openai.com", ".api.openai.com"),
        batch=0.5,
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        hosts=("openrouter.ai",),
    ),
}
# Variables that hold what opens something else; no judge is ever given one.
FOREIGN = frozenset("GITHUB_TOKEN GH_TOKEN GITLAB_TOKEN HF_TOKEN AWS_SECRET_ACCESS_KEY".split())


def judge_table(name: str, table: JudgesTable) -> JudgeTable:
    """Return what the settings say of a judge; `ConfigError` where the name is no judge's."""
    provider, slash, model = name.partition("/")
    if not provider or not slash or not model:
        expected = "expected PROVIDER/MODEL, as openai/gpt-5, or FILE.py:NAME"
        raise ConfigError(f"judge {name!r}: {expected}")
    return table.model.get(name, JudgeTable())


def own_provider(name: str, table: JudgesTable) -> Provider | None:
    """Return the provider whose own address a judge is asked at; None for another's."""
    judge = judge_table(name, table)
    provider = PROVIDERS.get(name.partition("/")[0])
    if provider is None or (judge.base_url and not provider.owns(_address(name, judge.base_url))):
        return None
    return provider


def resolve_endpoint(
    name: str, table: JudgesTable, *, keys: Mapping[str, str], offline: bool = False
) -> Endpoint:
    """Return where a judge is, with its key for there; `ConfigError` where one is not known."""
    judge = judge_table(name, table)
    provider = PROVIDERS.get(name.partition("/")[0])
    base = judge.base_url or (provider.base_url if provider else "")
    if not base:
        raise ConfigError(
            f"judge {name!r}: its provider is unknown; give its address, such as "
            f'[judges.model."{name}"] base_url = "http://127.0.0.1:8080/v1"'
        )
    address = _address(name, base)
    if offline and not is_loopback(address.hostname):
        raise ConfigError(f"judge {name!r} is at {address.hostname}; leave out --offline")
    own = provider is not None and provider.owns(address)
    key = _endpoint_key(name, judge, address, provider if own else None, keys)
    structure = judge.structure or (provider.structure if own and provider else None)
    return Endpoint(name=name, base_url=base.rstrip("/"), key=key, own=own, structure=structure)


def _endpoint_key(
    name: str,
    judge: JudgeTable,
    address: SplitResult,
    provider: Provider | None,
    keys: Mapping[str, str],
) -> str:
    """Return the key that may be sent to an address; "" where none is needed."""
    variable = judge.key
    if not variable and provider is not None:
        variable = next((one for one in provider.keys if keys.get(one)), provider.keys[0])
    if not variable:
        return ""
    host = address.hostname or ""
    # None of a key of the user's own.
    of_provider = next((one for one in PROVIDERS.values() if variable in one.keys), None)
    if variable in FOREIGN:
        raise ConfigError(f"judge {name!r}: {variable} opens no model; name another variable")
    if of_provider is not None and not of_provider.owns(address):
        raise ConfigError(
            f"judge {name!r} is at {host}, and {variable} is sent to "
            f"https://{of_provider.hosts[0]} only; name another variable as key"
        )
    told = keys.get(variable + HOST_VARIABLE, "").lower()
    trusted = of_provider is not None or provider is not None or is_loopback(host)
    if not trusted and told not in {host, address.netloc.lower()}:
        raise ConfigError(
            f"judge {name!r}: {variable} may not be sent to {host}; set "
            f"{variable}{HOST_VARIABLE}={host} beside it if that is where it belongs"
        )
    value = keys.get(variable, "")
    if not value:
        unset = f"{variable} is not set; set it in the environment or in .env"
        raise ConfigError(f"judge {name!r} needs a key: {unset}")
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"{variable} cannot be sent: a key is printable ASCII")
    return value


def _address(name: str, base: str) -> SplitResult:
    try:
        parts = urlsplit(base)
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as e:
        raise ConfigError(f"judge {name!r}: base_url is no address ({e})") from e
    plain = not (parts.query or parts.fragment or re.search(r"[^!-~]|//[^/]*@", base))
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise ConfigError(
            f"judge {name!r}: base_url is {base.rpartition('@')[2][:80]!r}; expected "
            "https://host/path, without user, query or fragment"
        )
    return parts


# Names of models as their makers and those who serve them write them, in lower case.
_FAMILIES: tuple[tuple[str, str], ...] = (
    ("ai21", r"jamba|jurassic"),
    ("allenai", r"olmo|tulu|molmo"),
    ("amazon", r"nova-(?:pro|lite|micro|premier)|titan-text"),
    ("anthropic", r"claude"),
    ("baidu", r"ernie"),
    ("bytedance", r"doubao|seed-(?:oss|1)"),
    ("cohere", r"(?:^|/)command(?:-(?:r|a|light|nightly|xlarge)|$)|(?:^|[/-])aya-|c4ai-"),
    ("deepseek", r"deepseek"),
    ("google", r"gemini|gemma|palm-[0-9]|learnlm"),
    ("ibm", r"granite"),
    ("meta", r"llama"),
    ("microsoft", r"(?:^|[/-])phi-?[0-9]|(?:^|/)mai-"),
    ("minimax", r"minimax|abab"),
    ("mistral", r"mistral|mixtral|ministral|codestral|devstral|magistral|pixtral"),
    ("moonshot", r"kimi|moonshot"),
    ("nvidia", r"nemotron"),
    ("openai", r"gpt-?[0-9]|gpt-oss|chatgpt|(?:^|[/:])o[1-9](?:$|[-:@])|davinci"),
    ("qwen", r"qwen|qwq|qvq"),
    ("reka", r"(?:^|/)reka"),
    ("tencent", r"hunyuan"),
    ("xai", r"grok"),
    ("yi", r"(?:^|/)yi-"),
    ("zhipu", r"(?:^|[/-])glm|chatglm"),
)


# Providers that serve nothing but what they trained themselves.
_MAKERS = frozenset({"ai21", "anthropic", "cohere", "deepseek", "mistral", "openai", "xai"})


def model_family(judge: str, overrides: Mapping[str, str]) -> str:
    """Return the family of a judge, as "anthropic" for "openrouter/anthropic/claude-opus-4".

    Of `overrides` (judge, or pattern with `*`, -> family) the exact name goes first, then the
    longest pattern that fits. `ConfigError` where the name fits no family, or several.

    >>> model_family("openai/gpt-5", {}), model_family("local/tiny", {"local/*": "qwen"})
    ('openai', 'qwen')
    """
    if judge in overrides:
        return overrides[judge]
    fitting = [pattern for pattern in overrides if fnmatchcase(judge, pattern)]
    if fitting:
        return overrides[max(fitting, key=len)]
    provider, _, model = judge.lower().partition("/")
    found = [name for name, pattern in _PATTERNS if pattern.search(model)]
    if len(found) == 1:
        return found[0]
    if not found and provider in _MAKERS:
        return provider
    problem = f"fits several: {', '.join(found)}" if found else "is unknown"
    raise ConfigError(
        f"the family of judge {judge!r} {problem}; write who trained it, as "
        f'[judges.families] "{judge}" = "NAME"'
    )


_PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in _FAMILIES)


def agent_family(agent: str, overrides: Mapping[str, str] | None = None) -> str | None:
    """Return the family of the model that an agent is named by; None where its name tells none."""
    try:
        return model_family(f"agent/{agent}", overrides or {})
    except ConfigError:
        return None


OWN_MODEL_MARK = ".py:"


def open_model(
    name: str, table: JudgesTable, *, keys: Mapping[str, str], offline: bool = False
) -> Model:
    """Return the model of a judge; nothing is sent yet.

    `ConfigError` where there is no such model, its SDK or its key is missing, or the key is not for
    its host.
    """
    if OWN_MODEL_MARK in name:
        return load_own_model(name)
    opener = registry.model(_protocol(name, table))
    if not callable(opener):
        wanted = "not what opens one: a function of an Endpoint"
        raise ConfigError(f"judge {name!r}: its protocol names a model, {wanted}")
    opened = opener(resolve_endpoint(name, table, keys=keys, offline=offline))
    from stepscope.models.http import SdkModel

    return opened if isinstance(opened, SdkModel) else OwnModel(opened)


def _protocol(name: str, table: JudgesTable) -> str:
    """Return how a judge is spoken to."""
    provider = PROVIDERS.get(name.partition("/")[0])
    return judge_table(name, table).protocol or (provider.protocol if provider else "openai")


def needed_sdk(name: str, table: JudgesTable) -> str:
    """Return the SDK that is needed to ask a judge and is not installed, "" if none is."""
    protocol = _protocol(name, table)
    known = {one.protocol for one in PROVIDERS.values()}
    return protocol if protocol in known and find_spec(protocol) is None else ""


@asynccontextmanager
async def close_models(models: Iterable[Model]) -> AsyncIterator[None]:
    """Close the connections of models at the end, on the event loop that used them."""
    held = tuple(models)
    try:
        yield
    finally:
        for model in held:
            close = getattr(model, "close", None)
            if close is not None:
                await close()


class OwnModel:
    """A model of one's own: whatever it does is a reply, or the failure of one call."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name

    async def complete(self, request: Request) -> Reply:
        """Ask once; only what the network did may pass, all else becomes a `ModelError`."""
        try:
            with registry.guarded(ModelError):
                reply = await self._model.complete(request)
                return msgspec.json.decode(msgspec.json.encode(reply), type=Reply)
        except PluginFault as e:
            network = isinstance(e.__cause__, OSError)
            raise ModelError(f"{self.name}: {scrub_message(str(e))}", again=network) from e

    async def close(self) -> None:
        """Close its connections, if it has any."""
        if (close := getattr(self._model, "close", None)) is not None:
            await close()


def load_own_model(name: str) -> Model:
    """Return the model that FILE.py:NAME or an entry point holds; `ConfigError` for an opener."""
    found = registry.model(name)
    if callable(found) or not isinstance(getattr(found, "name", 0), str):
        raise ConfigError(f"{name!r}: name a model itself: something with `name` and `complete`")
    return OwnModel(found)
