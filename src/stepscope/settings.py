"""Settings: `stepscope.toml` in the working directory, or `[tool.stepscope]` in `pyproject.toml`.

A key that nobody knows is an error, never ignored: a typing error in a policy would otherwise pass
as a clean run. Keys of providers are read from the environment and from `.env`; what opens a judge
model gets their values, everybody else their names. The sample with comments is
`examples/stepscope.toml`.
"""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepscope.errors import ConfigError, TraceError, suggest_name
from stepscope.gates import settings as settings_gates
from stepscope.gates.settings import WorkflowPolicy
from stepscope.measures.facts import DeclaredConduct, refuse_contradictions
from stepscope.model import PolicyRule, Precondition
from stepscope.models import configured
from stepscope.models.configured import ProviderKeys
from stepscope.models.opening import PROVIDERS
from stepscope.safety.json import decode
from stepscope.safety.limits import MIB, Limits, read_file
from stepscope.safety.redact import OwnSecret, SecretPattern
from stepscope.shape.weights import SCALE

# Nested deeper than this, nothing is read on any machine; and what a limit may be at most.
MOST_DEPTH = 10_000
MOST_LIMIT = 2**62

# Nobody writes more of tools or a policy.
_FILE_BYTES = 4 * MIB

FILE = "stepscope.toml"
STORE = "stepscope.db"

_PROVIDER_KEYS = [key for provider in PROVIDERS.values() for key in provider.keys]
KEY_VARIABLES = tuple(sorted({"GITHUB_TOKEN", *_PROVIDER_KEYS}))


class RuleTable(PolicyRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of conduct as written in TOML; `workflow` narrows it to the runs of one workflow."""

    workflow: str = ""


class PreconditionTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A precondition as written in TOML: no call of `tool` before `after` has succeeded.

    `by` names an argument that both must have in common; `workflow` narrows it to one workflow.
    """

    tool: str
    after: str
    by: str | None = None
    workflow: str = ""


class ListenTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run that is received ends, as written in TOML, table `[listen]`."""

    # seconds without a span after its root has ended; recorders hold spans back for five.
    quiet_seconds: float = 6.0
    idle_seconds: float = 600.0  # seconds without a span, whatever came of it.


class Redaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is hidden besides the known forms of secrets, table `[redaction]`."""

    # whether secrets are hidden in what is shown of runs, too; what is logged, sent or filed never
    # has them.
    shown: bool = True
    secret: tuple[OwnSecret, ...] = ()  # forms of the user's own.

    @property
    def forms(self) -> tuple[SecretPattern, ...]:
        """What finds the user's own; `ConfigError` where settings made by hand make no sense."""
        return _own_forms(self.secret, "settings")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the user has set; every field has a default."""

    store: str = STORE  # path of the store, relative to the file that says so
    seed: int = 0  # where every random draw starts
    offline: bool = False  # refuse every connection that is not loopback
    limits: Limits = Limits()  # how large a trace may be
    listen: ListenTable = ListenTable()  # when a run that is received ends
    redaction: Redaction = Redaction()  # what is hidden besides the known forms of secrets
    # tool -> whether it changes the world; the others are inferred from their names
    tools: dict[str, Literal["read", "write"]] = msgspec.field(default_factory=dict)
    # tool -> tools that serve the same purpose
    alternatives: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    # what an agent says of an act that is done -> tools any of which makes it true
    claims: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    policy: tuple[RuleTable, ...] = ()  # rules of conduct
    precondition: tuple[PreconditionTable, ...] = ()  # which tool needs which other first
    gate: settings_gates.GateDefaults = settings_gates.GateDefaults()  # of every workflow's gates
    # workflow -> its baseline and its gates
    workflow: dict[str, settings_gates.WorkflowTable] = msgspec.field(default_factory=dict)
    # the models that judge, and what they may cost
    judges: configured.JudgesTable = configured.JudgesTable()
    # workflow -> task, or "*" for every task -> a weight of 1, 2 or 3 for each step that is scored;
    # fixed before the first score comes in
    weights: dict[str, dict[str, tuple[float, ...]]] = msgspec.field(default_factory=dict)

    @property
    def policies(self) -> tuple[WorkflowPolicy, ...]:
        """What each workflow promises; `ConfigError` where settings made by hand make no sense."""
        return _policies(self, "settings")

    @property
    def declared(self) -> DeclaredConduct:
        """What measures are told of these settings."""
        return DeclaredConduct(
            effects=dict(self.tools),
            alternatives=self.alternatives,
            claims=self.claims,
            policy=_rules(self.policy, ""),
            workflows={
                name: _rules(self.policy, name)
                for name in sorted({rule.workflow for rule in self.policy} - {""})
            },
            preconditions=_preconditions(self.precondition),
            tools={k: w.tools for k, w in self.workflow.items() if not isinstance(w.tools, str)},
            instructions={name: one.policy for name, one in self.workflow.items()},
        )


def load_settings(directory: str | Path = ".") -> Settings:
    """Return the settings that hold in `directory`; the defaults where there is no file.

    `ConfigError` where the file is not TOML, a key is unknown, a value is of the wrong type, or
    both files hold settings.
    """
    folder = Path(directory)
    own, other = folder / FILE, folder / "pyproject.toml"
    table = _project_table(other)
    if own.exists() or own.is_symlink():
        if table is not None:
            raise ConfigError(f"{own} and [tool.stepscope] of {other} both hold settings; keep one")
        return _settings(_toml(own), str(own), folder)
    return Settings() if table is None else _settings(table, f"{other} [tool.stepscope]", folder)


def find_settings(directory: str | Path = ".") -> str | None:
    """Return where the settings of `directory` stand; None where the defaults hold."""
    folder = Path(directory)
    if (folder / FILE).exists() or (folder / FILE).is_symlink():
        return FILE
    held = _project_table(folder / "pyproject.toml")
    return None if held is None else "[tool.stepscope] of pyproject.toml"


def find_keys(directory: str | Path = ".") -> dict[str, Literal["environment", ".env"]]:
    """Return which known key variables are set, and where, never their values; see `read_keys`."""
    in_file = _dotenv(Path(directory) / ".env")
    return {
        name: "environment" if os.environ.get(name) else ".env"
        for name in KEY_VARIABLES
        if os.environ.get(name) or name in in_file
    }


def read_keys(directory: str | Path = ".") -> ProviderKeys:
    """Return the variables of environment and `.env`; `ConfigError` where that cannot be read."""
    return ProviderKeys(os.environ, _dotenv(Path(directory) / ".env"))


def _project_table(path: Path) -> dict[str, Any] | None:
    tool = _toml(path).get("tool") if path.is_file() else None
    return tool.get("stepscope") if isinstance(tool, dict) else None


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path).decode("utf-8-sig"))
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: not TOML in UTF-8: {' '.join(str(e).split())}") from e


def _settings(table: dict[str, Any], where: str, folder: Path) -> Settings:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: expected a table, found {table!r:.80}")
    _refuse_unknown(table, Settings, where)
    for key, known in (
        ("limits", Limits),
        ("listen", ListenTable),
        ("redaction", Redaction),
        ("gate", settings_gates.GateDefaults),
    ):
        _refuse_unknown(table.get(key), known, f"{where}, [{key}]")
    redaction = table.get("redaction")
    own = redaction.get("secret") if isinstance(redaction, dict) else None
    for key, form, rows in (
        ("redaction.secret", OwnSecret, own),
        ("policy", RuleTable, table.get("policy")),
        ("precondition", PreconditionTable, table.get("precondition")),
    ):
        for number, row in enumerate(rows if isinstance(rows, list) else (), 1):
            _refuse_unknown(row, form, f"{where}, [[{key}]] number {number}")
    judges = table.get("judges")
    _refuse_unknown(judges, configured.JudgesTable, f"{where}, [judges]")
    models = judges.get("model") if isinstance(judges, dict) else None
    for name, one in models.items() if isinstance(models, dict) else ():
        place = f'{where}, [judges.model."{name}"]'
        _refuse_unknown(one, configured.JudgeTable, place)
        price = one.get("price") if isinstance(one, dict) else None
        _refuse_unknown(price, configured.PriceTable, f"{place}, price")
    workflows = table.get("workflow")
    for name, one in workflows.items() if isinstance(workflows, dict) else ():
        _refuse_unknown(one, settings_gates.WorkflowTable, f"{where}, [workflow.{name}]")
    try:
        settings = msgspec.convert(table, Settings)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {' '.join(str(e).split())}") from e
    _refuse_senseless(settings, where)
    if settings.store != ":memory:":
        settings = msgspec.structs.replace(settings, store=str(folder / settings.store))
    placed = {
        name: _place_files(one, folder, f"{where}, [workflow.{name}]")
        for name, one in settings.workflow.items()
    }
    settings = msgspec.structs.replace(settings, workflow=placed)
    _policies(settings, where)
    return settings


def read_weights_file(path: Path) -> dict[str, tuple[float, ...]]:
    """Return the weights of steps, 1 to 3, of runs, tasks or "*"; `ConfigError` for other files."""
    try:
        found = msgspec.convert(_toml(path), dict[str, tuple[float, ...]])
    except msgspec.ValidationError as e:
        raise ConfigError(f"{path}: {' '.join(str(e).split())}; expected NAME = [1, 3, 2]") from e
    _refuse_weights(found, str(path))
    return found


def _refuse_weights(weights: Mapping[str, tuple[float, ...]], where: str) -> None:
    for name, of_steps in weights.items():
        wrong = [f"{weight:g}" for weight in of_steps or (0.0,) if weight not in SCALE]
        if wrong:
            raise ConfigError(f"{where}: a weight of {name!r} is {wrong[0]}; expected 1, 2 or 3")


def _place_files(
    held: settings_gates.WorkflowTable, folder: Path, where: str
) -> settings_gates.WorkflowTable:
    """Return a workflow with its tool list and policy, and a baseline to open from anywhere."""
    tools, policy, baseline = held.tools, held.policy, held.baseline
    baseline = None if baseline is None else str(folder / baseline)
    cases = None if held.cases is None else str(folder / held.cases)
    if isinstance(tools, str):
        from stepscope.formats.fields import read_tools

        path = folder / tools
        try:
            tools = read_tools(decode(_read_text(path, where).encode(), limits=Limits())[0])
        except TraceError as e:
            expected = "expected the tools as OpenAI, Anthropic or MCP list them"
            raise ConfigError(f"{where}: {path}: {e}; {expected}") from e
    if policy:
        policy = _read_text(folder / policy, where)
    return msgspec.structs.replace(held, tools=tools, policy=policy, baseline=baseline, cases=cases)


def _read_text(path: Path, where: str) -> str:
    try:
        raw = read_file(path, _FILE_BYTES + 1)
        if len(raw) > _FILE_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {_FILE_BYTES // MIB} MiB")
        text, why = raw.decode("utf-8-sig").strip(), "it is empty"
    except (OSError, ValueError) as e:
        text, why = "", getattr(e, "strerror", None) or "it is not UTF-8"
    if not text:
        raise ConfigError(f"{where}: {path} cannot be used: {why}; name a text file that is there")
    return text


def _policies(settings: Settings, where: str) -> tuple[WorkflowPolicy, ...]:
    return settings_gates.read_policies(settings.workflow, settings.gate, where=where)


def _refuse_unknown(table: object, known: type[msgspec.Struct], where: str) -> None:
    if not isinstance(table, dict):
        return
    names = [field.name for field in msgspec.structs.fields(known)]
    for key in table:
        if key not in names:
            near = [name for name in names if name.startswith(key)]
            hint = f"did you mean {near[0]!r}?" if near else suggest_name(key, names)
            raise ConfigError(f"{where}: unknown key {key!r}; {hint}")


def _refuse_senseless(settings: Settings, where: str) -> None:
    if settings.seed < 0:
        raise ConfigError(f"{where}: seed is {settings.seed}; expected 0 or more")
    for field in msgspec.structs.fields(Limits):
        value = getattr(settings.limits, field.name)
        if not value > 0:
            raise ConfigError(f"{where}, [limits]: {field.name} is {value}; expected more than 0")
        most = MOST_DEPTH if field.name == "depth" else MOST_LIMIT
        if value > most:
            raise ConfigError(
                f"{where}, [limits]: {field.name} is {value:g}; expected at most {most:,}"
            )
    for name, seconds in msgspec.structs.asdict(settings.listen).items():
        if not 0 <= seconds < float("inf"):
            raise ConfigError(f"{where}, [listen]: {name} is {seconds}; expected 0 or more")
    for said, tools in settings.claims.items():
        if not said.strip() or not tools:
            raise ConfigError(
                f"{where}, [claims]: {said!r} is {list(tools)}; expected words = one tool or more"
            )
    _own_forms(settings.redaction.secret, where)
    configured.check_judges_table(settings.judges, where)
    _refuse_bad_rules(settings.policy, where)
    for workflow, tasks in settings.weights.items():
        _refuse_weights(tasks, f"{where}, [weights.{workflow}]")
    needs = _preconditions(settings.precondition)
    for workflow in needs:
        refuse_contradictions((*needs.get("", ()), *needs[workflow]), where)


def _refuse_bad_rules(rules: tuple[RuleTable, ...], where: str) -> None:
    if not rules:
        return
    from stepscope.measures.conduct import check_rule

    names = [rule.name for rule in rules]
    for rule in rules:
        if names.count(rule.name) > 1:
            raise ConfigError(f"{where}: two [[policy]] rules are called {rule.name!r}; rename one")
        try:
            check_rule(rule)
        except ConfigError as e:
            raise ConfigError(f"{where}: {e}") from e


def _own_forms(own: tuple[OwnSecret, ...], where: str) -> tuple[SecretPattern, ...]:
    return tuple(
        secret.form(f"{where}, [[redaction.secret]] number {number}")
        for number, secret in enumerate(own, 1)
    )


def _preconditions(needs: tuple[PreconditionTable, ...]) -> dict[str, tuple[Precondition, ...]]:
    return {
        name: tuple(
            Precondition(tool=n.tool, after=n.after, by=n.by) for n in needs if n.workflow == name
        )
        for name in sorted({n.workflow for n in needs})
    }


def _rules(rules: tuple[RuleTable, ...], workflow: str) -> tuple[PolicyRule, ...]:
    fields = [field.name for field in msgspec.structs.fields(PolicyRule)]
    return tuple(
        PolicyRule(**{name: getattr(rule, name) for name in fields})
        for rule in rules
        if rule.workflow == workflow
    )


def _dotenv(path: Path) -> dict[str, str]:
    """Return the variables of a file that are set: `NAME=value`, quoted or not."""
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as e:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text ({type(e).__name__})") from e
    found = {}
    for line in lines:
        name, _, value = line.strip().removeprefix("export ").partition("=")
        value = value.strip().strip("'\"")
        if value and not name.startswith("#"):
            found[name.strip()] = value
    return found
