"""On the wire, the score of an exchange shows no other step of its run.

`python -m bars.judges.no_look_wire [RUNS]`. Every step of the agent in real airline and retail
runs, 60 unless given, with what its calls brought, is scored by the No-Look rubric through the real
OpenAI SDK, against a server on this machine that keeps what it was sent. Of every body received,
decoded, the 24-grams of characters are compared with those of all other steps: what was said,
thought, called and returned. Those that the exchange itself has, or the instructions, are not
counted. The same for step labels in isolation. Bar: 0 shared. Beside it the same count for a rubric
that is shown the whole run, which must be more than 0, or nothing was compared. Code 0: it holds;
3: it does not; 4: the runs are absent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from stepscope.formats.reading import read_files
from stepscope.judges.goals import Goal, Goals
from stepscope.judges.judgement import Judgement, JudgingOptions, configured_judge
from stepscope.judges.plan import plan_judgements
from stepscope.judges.rubrics import load_rubric
from stepscope.judges.transcript import MARK, normalise_text
from stepscope.model import Request, Step, Trajectory
from stepscope.models.configured import JudgesTable, JudgeTable
from stepscope.models.opening import close_models, open_model
from stepscope.safety.redact import Redactor

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = ("taubench/airline/runs.json", "agentrx-retail")
RUNS = 60
GRAM = 24
NAME = "local/bar"
KEY = b"bar"
GOAL = "What this step sets out to do is done."


class Count(NamedTuple):
    """Requests received, of how many steps, and how many of them shared something."""

    requests: int
    grams: int
    shared: int


class _Server(ThreadingHTTPServer):
    """Keeps every body that it is sent, and answers that it has a score."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.bodies: list[bytes] = []


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if isinstance(self.server, _Server):
            self.server.bodies.append(body)
        message = {"role": "assistant", "content": '{"rationale": "so", "score": 0.5}'}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        said = json.dumps({
            "id": "x", "object": "chat.completion", "created": 0, "model": "bar",
            "choices": [choice],
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[_Server]:
    """Serve until the block ends."""
    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def planned(run: Trajectory, name: str, table: JudgesTable) -> list[tuple[int | None, Request]]:
    """Return the requests of a rubric about a run, each with the step that it is about."""
    acted = [step.index for step in run.steps if step.actor == "agent"]
    every = tuple(Goal(goal=GOAL, steps=(step,), confirmed=True) for step in acted)
    goals = Goals("bar", {run.name: every}, {})
    alone = name == "step_labels"
    options = JudgingOptions(goals=goals, mode="isolated" if alone else "contextual")
    found: list[tuple[int | None, Request]] = []
    redactor = Redactor(KEY)
    for made in plan_judgements(
        run,
        rubric=load_rubric(name),
        judge=configured_judge(NAME, table),
        options=options,
        key=KEY,
        redactor=redactor,
    ):
        if not isinstance(made, Judgement):
            continue
        for number, ask in enumerate(made.asks):
            windows = made.belief.windows  # type: ignore[attr-defined]
            step = windows[0].first if name == "no_look" else windows[number].first
            found.append((None if name.startswith("axes") else step, ask.request))
    return found


async def sent(server: _Server, requests: Sequence[Request]) -> list[str]:
    """Send requests, one after the other, and return the texts of the bodies that arrived."""
    table = _table(server)
    model = open_model(NAME, table, keys={})
    server.bodies.clear()
    async with close_models([model]):
        for request in requests:
            await model.complete(request)
    # The marks before lines are ours: with them away a line is what the step said.
    return [
        "\n".join(_texts(json.loads(body))).replace(f"\n{MARK} ", "\n") for body in server.bodies
    ]


def _table(server: _Server) -> JudgesTable:
    base = f"http://127.0.0.1:{server.server_address[1]}/v1"
    one = JudgeTable(protocol="openai", base_url=base, family="bar", structure="json_schema")
    return JudgesTable(model={NAME: one})


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (key, *_texts(item))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def said_by(step: Step) -> str:
    """Return all that a step says, thinks, calls and returns, as it would be sent."""
    texts = [part.text or "" for part in step.parts]
    for call in step.calls:
        texts += (call.name, json.dumps(call.arguments, ensure_ascii=False), call.raw or "")
        texts.append(json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")))
    texts += [result.text for result in step.results]
    return normalise_text("\n".join(("", *texts, "")))


def grams(text: str) -> set[str]:
    """Return the runs of 24 characters of a text."""
    return {text[at : at + GRAM] for at in range(len(text) - GRAM + 1)}


def count(server: _Server, run: Trajectory, name: str) -> Count:
    """Return what the requests about a run share with steps that they are not about."""
    table = _table(server)
    asked = planned(run, name, table)
    bodies = asyncio.run(sent(server, [request for _, request in asked]))
    assert len(bodies) == len(asked)
    steps = [grams(said_by(step)) for step in run.steps]
    everything = set[str]().union(*steps)
    # A step of the agent and what its calls brought are one: an exchange.
    exchanges = {at: {at} for at in range(len(steps))}
    for exchange in run.exchanges:
        if exchange.result_step is not None:
            exchanges[exchange.step].add(exchange.result_step)
    total = shared = 0
    for (step, request), body in zip(asked, bodies, strict=True):
        own = set[str]()
        if step is not None:
            own = own.union(*(steps[at] for at in exchanges[step]))
        shown = grams(body) - own - grams(request.system) - grams(request.question)
        total += len(shown)
        shared += len(shown & everything)
    return Count(len(asked), total, shared)


def measured(runs: Sequence[Trajectory], names: Sequence[str]) -> dict[str, Count]:
    """Return the counts of all runs, by rubric."""
    found = {name: Count(0, 0, 0) for name in names}
    with serving() as server:
        for run in runs:
            for name in names:
                one = count(server, run, name)
                found[name] = Count(*(a + b for a, b in zip(found[name], one, strict=True)))
    return found


def real(most: int) -> list[Trajectory]:
    """Return some runs of each set, none where they are absent."""
    found: list[Trajectory] = []
    for name in SETS:
        if (DATA / name).exists():
            runs = [
                run
                for reading in read_files([str(DATA / name)])
                for run in reading
                if isinstance(run, Trajectory)
            ]
            found += runs[:: max(1, len(runs) // max(1, most // len(SETS)))][: most // len(SETS)]
    return found


def main() -> int:
    """Print the counts; return 0 when nothing is shared."""
    runs = real(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
    if not runs:
        print(f"not measured: {DATA} is absent")
        return 4
    found = measured(runs, ("no_look", "step_labels", "axes.termination"))
    print(f"{len(runs)} runs, {sum(len(run.steps) for run in runs):,} steps")
    print(f"{'rubric':<32}{'requests':>9}{'24-grams':>12}{'shared':>9}")
    words = {
        "step_labels": "step_labels, isolated",
        "axes.termination": "axes.termination (whole run)",
    }
    for name, one in found.items():
        print(f"{words.get(name, name):<32}{one.requests:>9,}{one.grams:>12,}{one.shared:>9,}")
    alone = found["no_look"].shared + found["step_labels"].shared
    return 0 if alone == 0 and found["axes.termination"].shared > 0 else 3


if __name__ == "__main__":
    sys.exit(main())
