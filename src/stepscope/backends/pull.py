"""Pull runs from a backend into the store; what is there already stays as it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

import msgspec

from stepscope.api.notebook import Notebook, ignore_progress
from stepscope.backends.client import BackendAccess, BackendName, Client, parse_target, read_access
from stepscope.backends.types import PulledItem, PullNotes, PullQuery
from stepscope.formats.reading import Counts
from stepscope.model import Quarantined
from stepscope.score.importing import Added, ImportItem, Progress, RunDefaults, store_items
from stepscope.store import Store
from stepscope.store.runs import prepare_run
from stepscope.store.where import parse_moment

Fetch = Callable[[PullQuery], Iterator[PulledItem]]
LAST = "last"


def pull(
    notebook: Notebook,
    place: str,
    *,
    since: str | None = None,
    agent: str | None = None,
    agent_version: str | None = None,
    tags: Mapping[str, str] | None = None,
    workflow: str | None = None,
    progress: Progress | None = None,
    variables: Mapping[str, str] | None = None,
) -> Added:
    """Read the traces of a project or an experiment, as `phoenix:my-project`, into the store.

    Pulling again changes nothing; a trace that got late spans takes the place of its earlier
    version. When the backend gives up half way, what came is kept, and pulling again goes on.
    What a trace does not name, `agent` and the others say; `progress` is called with the runs read
    so far, and 0.

    Args:
        since: a date or an age: only traces that began since then. Or `last`: what came in since
            the previous pull into this store, all where there was none. All when left out.
        variables: where hosts and keys are; the environment when left out.

    Raises:
        UsageError: no such backend, project or time.
        ConfigError: a key is missing or refused; the variable is named.
        EnvironmentFault: the backend cannot be reached, or gives up.
    """
    backend, project = parse_target(place)
    to = read_access(backend, os.environ if variables is None else variables)
    uri = source_uri(backend, project, to)
    accounts = notebook.store.accounts() if since == LAST else ()
    mark = next((one.get("mark") for one in accounts if one.get("uri") == uri), None)
    since_ns = None if since in {None, LAST} else parse_moment("--since", since or "")
    limits = notebook.settings.limits
    filling = RunDefaults(agent, agent_version, dict(tags or {}), workflow)
    notebook.store.fix_weights(notebook.settings.weights)
    told = PullNotes()
    with Client(to, limits) as client:
        asked = PullQuery(client, project, uri, since_ns, mark, limits, told)
        match backend:
            case "langfuse":
                from stepscope.backends.langfuse import fetch_langfuse as fetch
            case "langsmith":
                from stepscope.backends.langsmith import fetch_langsmith as fetch
            case "mlflow":
                from stepscope.backends.mlflow import fetch_mlflow as fetch
            case "phoenix":
                from stepscope.backends.phoenix import fetch_phoenix as fetch
        items = _items(fetch(asked), asked, backend, notebook.store, filling)
        added = store_items(notebook.store, items, progress or ignore_progress)
    notebook.store.keep_account(uri, {**msgspec.to_builtins(added.files[-1]), "mark": told.mark})
    return added


def source_uri(backend: BackendName, project: str, to: BackendAccess) -> str:
    """Return what runs say of where they are from: the place, and the host that it is at."""
    return f"{backend}:{project} at {to.host}"


def _items(
    found: Iterator[PulledItem],
    asked: PullQuery,
    backend: BackendName,
    store: Store,
    filling: RunDefaults,
) -> Iterator[ImportItem]:
    """Yield what is stored of each run, and at the end the account."""
    counts = Counts()
    for item in found:
        counts.add(item)
        if isinstance(item, Quarantined):
            yield item
        else:
            yield prepare_run(filling.of(item), move_media=store.blobs is not None)
    account = counts.account(asked.uri, backend)
    yield msgspec.structs.replace(account, withheld=dict(sorted(asked.told.withheld.items())))
