"""Where a judge is and what opens it, from the operator's settings and variables alone.

A key is bound to a host: the key of a known provider goes to that provider, a key of the user's own
to the host that the variable beside it names. So a changed settings file can send no key elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from stepscope.errors import ConfigError
from stepscope.judges.models.configured import JudgesTable, JudgeTable
from stepscope.judges.models.keys import HOST
from stepscope.judges.models.providers import FOREIGN, PROVIDERS, Provider, owner
from stepscope.model import Endpoint
from stepscope.safety.offline import is_loopback


def judge_table(name: str, table: JudgesTable) -> JudgeTable:
    """Return what the settings say of a judge.

    Raises:
        ConfigError: the name is no judge's.
    """
    provider, slash, model = name.partition("/")
    if not provider or not slash or not model:
        raise ConfigError(
            f"judge {name!r}: expected PROVIDER/MODEL, as openai/gpt-5, or FILE.py:NAME"
        )
    return table.model.get(name, JudgeTable())


def own_provider(name: str, table: JudgesTable) -> Provider | None:
    """Return the provider whose own address a judge is asked at; None for another's."""
    judge = judge_table(name, table)
    provider = PROVIDERS.get(name.partition("/")[0])
    if provider is None or (judge.base_url and not _owns(provider, _address(name, judge.base_url))):
        return None
    return provider


def protocol(name: str, table: JudgesTable) -> str:
    """Return how a judge is spoken to."""
    provider = PROVIDERS.get(name.partition("/")[0])
    return judge_table(name, table).protocol or (provider.protocol if provider else "openai")


def endpoint(
    name: str, table: JudgesTable, *, keys: Mapping[str, str], offline: bool = False
) -> Endpoint:
    """Return where a judge is, with its key.

    Raises:
        ConfigError: it has no address, its key is missing, or the key is not for this address.
    """
    judge = judge_table(name, table)
    provider = PROVIDERS.get(name.partition("/")[0])
    base = judge.base_url or (provider.base_url if provider else "")
    if not base:
        raise ConfigError(
            f'judge {name!r}: its provider is unknown; say where it is, as [judges.model."{name}"] '
            'base_url = "http://127.0.0.1:8080/v1"'
        )
    address = _address(name, base)
    if offline and not is_loopback(address.hostname):
        raise ConfigError(f"judge {name!r} is at {address.hostname}; leave out --offline")
    own = provider is not None and _owns(provider, address)
    return Endpoint(
        name=name,
        base_url=base.rstrip("/"),
        key=_key(name, judge, address, provider if own else None, keys),
        own=own,
        structure=judge.structure or (provider.structure if own and provider else None),
    )


def _key(
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
    _refuse_elsewhere(name, variable, address, provider, keys)
    value = keys.get(variable, "")
    if not value:
        raise ConfigError(
            f"judge {name!r} needs a key: {variable} is not set; set it in the environment or in "
            ".env"
        )
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"{variable} cannot be sent: a key is printable ASCII")
    return value


def _refuse_elsewhere(
    name: str,
    variable: str,
    address: SplitResult,
    provider: Provider | None,
    keys: Mapping[str, str],
) -> None:
    """Check that a key is for the host it would be sent to."""
    host = address.hostname or ""
    of_provider = owner(variable)
    if variable in FOREIGN:
        raise ConfigError(f"judge {name!r}: {variable} opens no model; name another variable")
    if of_provider is not None and not _owns(of_provider, address):
        raise ConfigError(
            f"judge {name!r} is at {host}, and {variable} is sent to "
            f"https://{of_provider.hosts[0]} only; name another variable as key"
        )
    if of_provider is not None or provider is not None or is_loopback(host):
        return
    bound = keys.get(variable + HOST, "")
    if bound.lower() not in {host, address.netloc.lower()}:
        raise ConfigError(
            f"judge {name!r}: {variable} may not be sent to {host}; set "
            f"{variable}{HOST}={host} beside it if that is where it belongs"
        )


def _owns(provider: Provider, address: SplitResult) -> bool:
    return address.scheme == "https" and provider.owns(address.hostname or "")


def _address(name: str, base: str) -> SplitResult:
    try:
        parts = urlsplit(base)
        parts.port  # noqa: B018 - a port that is none raises here
    except ValueError as e:
        raise ConfigError(f"judge {name!r}: base_url is no address ({e})") from e
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise ConfigError(
            f"judge {name!r}: base_url is {base.rpartition('@')[2][:80]!r}; expected "
            "https://host/path, without user, query or fragment"
        )
    return parts
