"""Makes Inspect logs by a real `eval()` without a model: replies are scripted, tools are real.

`python -m benchmarks.workers.inspect_make FOLDER SAMPLES` writes `zstd.eval` as Inspect packs it,
`deflate.eval` with the same members deflated, and `plain.json`. Each sample is an agent of 14 model
calls with two tools, results of 0.5 to 4 kB, tokens, and two scorers; some samples call a helper
agent, meet a tool error, or end at the message limit.
"""

from __future__ import annotations

import random
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval  # type: ignore[import-not-found]
from inspect_ai.agent import handoff, react  # type: ignore[import-not-found]
from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
from inspect_ai.log import read_eval_log, write_eval_log  # type: ignore[import-not-found]
from inspect_ai.model import (  # type: ignore[import-not-found]
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import Score, Target, accuracy, includes, scorer  # type: ignore[import-not-found]
from inspect_ai.solver import TaskState  # type: ignore[import-not-found]
from inspect_ai.tool import Tool, ToolInfo, tool  # type: ignore[import-not-found]

TURNS = 14
WORDS = (
    "flight booking passenger refund reservation gate airport luggage connection fare upgrade "
    "cancel policy agent minutes credit card certificate balance depart arrive segment cabin "
    "economy business route delay weather seat membership silver gold regular insurance total"
).split()
# One helper's turn, one tool error and one early end in so many samples each.
EVERY = 5


def prose(rng: random.Random, words: int) -> str:
    """Return text of about six bytes a word."""
    return " ".join(rng.choices(WORDS, k=words))


def lookup() -> Tool:
    """Return a tool that finds records."""

    async def execute(key: str, pages: list[int]) -> str:
        """Look records up.

        Args:
            key: what to look for
            pages: pages of the result to return
        """
        rng = random.Random(key)
        if key.startswith("missing"):
            raise FileNotFoundError(key)
        rows = [{"id": f"R{rng.randrange(10**6)}", "note": prose(rng, 12)} for _ in pages]
        return f"{len(rows)} records for {key}: {rows} {prose(rng, rng.randrange(60, 500))}"

    return execute


def change() -> Tool:
    """Return a tool that changes a record."""

    async def execute(record: str, field: str, value: str, notify: bool = True) -> str:
        """Change a field of a record.

        Args:
            record: which record
            field: which field
            value: the new value
            notify: whether to tell the passenger
        """
        return f"changed {field} of {record} to {value!r}; told: {notify}"

    return execute


def scripted(
    messages: list[ChatMessage], tools: list[ToolInfo], _choice: Any, _config: GenerateConfig
) -> ModelOutput:
    """Return the next reply: a function of the conversation alone."""
    helper = any("helper agent" in m.text for m in messages if isinstance(m, ChatMessageSystem))
    turn = sum(isinstance(m, ChatMessageAssistant) for m in messages)
    seed = next(m.text for m in messages if m.role == "user")[:24]
    rng = random.Random(f"{seed} {turn} {helper}")
    number = int(seed.split()[1])
    arguments: dict[str, Any]
    names = {t.name for t in tools}
    said = prose(rng, 40)
    if turn >= TURNS - 1 or (helper and isinstance(messages[-1], ChatMessageTool)):
        name, arguments = "submit", {"answer": f"done {number}"}
        if helper:
            return _with_usage(ModelOutput.from_content("mockllm/model", said), turn, rng)
    elif turn == 4 and number % EVERY == 0 and "transfer_to_helper" in names:
        name, arguments = "transfer_to_helper", {}
    elif turn == 6 and number % EVERY == 1:
        name, arguments = "lookup", {"key": f"missing {number}", "pages": [1]}
    elif turn % 3 == 2:
        name, arguments = "change", {"record": f"R{number}", "field": "cabin", "value": said[:30]}
    else:
        name, arguments = "lookup", {"key": f"key {number} {turn}", "pages": [1, 2, turn]}
    output = ModelOutput.for_tool_call("mockllm/model", name, arguments, content=said)
    return _with_usage(output, turn, rng)


def _with_usage(output: ModelOutput, turn: int, rng: random.Random) -> ModelOutput:
    fresh, read, out = 300 + rng.randrange(400), turn * 600, 20 + rng.randrange(80)
    output.usage = ModelUsage(
        input_tokens=fresh,
        input_tokens_cache_read=read,
        output_tokens=out,
        total_tokens=fresh + read + out,
        total_cost=(fresh * 3 + read * 0.3 + out * 15) / 1e6,
    )
    return output


def brief() -> Any:
    """Return a scorer of a second kind: whether the answer is short, as a number."""

    async def score(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        return Score(
            value=1 if len(text) < 40 else 0, answer=text, explanation=prose(random.Random(1), 30)
        )

    return score


def airline(samples: int) -> Task:
    """Return the benchmark's task."""
    finds, changes = tool(lookup)(), tool(change)()
    rng = random.Random(7)
    dataset = [
        Sample(
            id=f"case-{n:04d}",
            input=f"Passenger {n:05d} asks: {prose(rng, 80)}",
            target=f"done {n}",
            metadata={"difficulty": n % 3, "tags": ["refund", "cabin"], "note": prose(rng, 20)},
        )
        for n in range(samples)
    ]
    helper = react(
        name="helper",
        description="Looks things up.",
        prompt="You are a helper agent.",
        tools=[finds],
        submit=False,
    )
    policy = f"You are an airline agent. {prose(rng, 500)}"
    return Task(
        dataset=MemoryDataset(dataset, name="made-airline"),
        solver=react(prompt=policy, tools=[finds, changes, handoff(helper)]),
        scorer=[includes(), scorer(metrics=[accuracy()])(brief)()],
        name="airline",
        message_limit=60,
    )


def deflated(source: Path, target: Path) -> None:
    """Write the same members with the method that the standard library knows."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))


def main() -> None:
    """Run the evaluation and write the three files."""
    folder, samples = Path(sys.argv[1]), int(sys.argv[2])
    made = folder / "made"
    model = get_model("mockllm/model", custom_outputs=scripted)
    (log,) = eval(
        airline(samples),
        model=model,
        log_dir=str(made),
        log_format="eval",
        display="none",
        max_samples=20,
        fail_on_error=False,
    )
    source = Path(str(log.location).removeprefix("file://"))
    shutil.move(source, folder / "zstd.eval")
    deflated(folder / "zstd.eval", folder / "deflate.eval")
    write_eval_log(read_eval_log(str(folder / "zstd.eval")), str(folder / "plain.json"))
    shutil.rmtree(made)


if __name__ == "__main__":
    main()
