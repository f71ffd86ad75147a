"""What SWE-agent and mini-swe-agent say of a whole run: tokens, cost, task, model.

Both count in `model_stats`. Where no call of a model was counted (a person's demonstration, a
replay), its zeros measure nothing. Refuses a figure of another type than a number.
Format: SWE-agent `sweagent/agent/models.py`; mini-swe-agent `trajectory_format` 1.1.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import text_at
from stepscope.model import Json, Usage
from stepscope.safety.door import decode
from stepscope.safety.limits import Limits


class Stats(msgspec.Struct, gc=False):
    """`model_stats`, as far as it is read; the whole stays in the run's `extra`."""

    instance_cost: float | None = None
    tokens_sent: int | None = None
    tokens_received: int | None = None
    api_calls: int | None = None

    @property
    def usage(self) -> Usage | None:
        """The tokens of the run, None where none were counted."""
        sent, received = self.tokens_sent or 0, self.tokens_received or 0
        if min(sent, received) < 0 or not sent + received:
            return None
        return Usage(input_total=self.tokens_sent, output_total=self.tokens_received)

    @property
    def cost_usd(self) -> float | None:
        """The cost of the run in USD, None where no call of a model was counted."""
        return None if self.api_calls == 0 and not self.instance_cost else self.instance_cost


def settings_of(value: Json, limits: Limits) -> dict[str, Json]:
    """Return the settings of a run, an object or the text of one; none where it is neither."""
    if isinstance(value, str):
        try:
            value = decode(value.encode(), limits=limits).value
        except TraceError:
            return {}
    return value if isinstance(value, dict) else {}


def task_of(settings: dict[str, Json]) -> str | None:
    """Return the id of the problem that the settings name."""
    problem = settings.get("problem_statement")
    return text_at(problem, "id") if isinstance(problem, dict) else None


def model_of(settings: dict[str, Json]) -> str | None:
    """Return the model that the settings name, where they name one."""
    agent = settings.get("agent")
    model = agent.get("model") if isinstance(agent, dict) else None
    return text_at(model, "name") if isinstance(model, dict) else None
