"""What the browser tests look at: a store of two agents, scored and gated, served on loopback.

The runs are the bundled ones, two of them with made-up step scores so that a curve is drawn, beside
the same runs with the regression of `examples/gate/regress.py`.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import stepscope
from stepscope.api import gating
from stepscope.gates import baseline
from stepscope.settings import load_settings
from stepscope.store.where import parse_where

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "examples" / "airline" / "runs.json"
GATE = ROOT / "examples" / "gate"
TOKEN = "opens the server of these tests"
# Every page by an address; RUN, PASSED and FAILED are filled in.
PAGES = {
    "overview": "/",
    "run": "/run/RUN",
    "compare-runs": "/compare?run=FAILED&with=PASSED",
    "compare-groups": "/compare?by=agent&a=gpt-4o&b=gpt-4o-v2",
    "profile": "/profile",
    "label": "/label",
    "calibration": "/calibration",
    "gates": "/gates",
}


# A run, its number of steps, and the step at which its made-up scores fall.
SCORED = (("airline/9/2", 62, 44), ("airline/11/0", 36, 99))


def scores() -> Iterator[str]:
    """Yield a CSV file of made-up step scores: high, and low from the break on."""
    yield "run,step,score,latency_s\n"
    for run, steps, broken in SCORED:
        for step in range(2, steps, 2):
            wave = (step * 7 % 11) / 100
            score = 0.86 + wave if step < broken else 0.22 + 2 * wave
            yield f"{run},{step},{score:.2f},{1 + (step * 5 % 7) + 6 * (step >= broken):.1f}\n"


class Made(NamedTuple):
    """A scored store of two agents, and what the gates said of the second."""

    store: Path
    gates: Path

    def address(self, template: str) -> str:
        """Return an address with the ids of its runs."""
        with stepscope.open(self.store, settings=load_settings(self.store.parent)) as notebook:
            known = {"RUN": "airline/9/2", "FAILED": "airline/11/2", "PASSED": "airline/11/0"}
            for word, name in known.items():
                if word in template:
                    found = notebook.store.runs(
                        parse_where(f"name = '{name}' and agent = 'gpt-4o'")
                    )
                    template = template.replace(word, str(found.id[0]))
        return template


def make(folder: Path) -> Made:
    """Make the store, with its settings and the report of its gates, in a folder."""
    settings = folder / "stepscope.toml"
    shutil.copy(GATE / "stepscope.toml", settings)
    regress = runpy.run_path(str(GATE / "regress.py"))
    worse = folder / "worse.json"
    runs = json.loads(RUNS.read_bytes())
    worse.write_text(json.dumps([regress["worse"](run) for run in runs]), encoding="utf-8")
    with stepscope.open(folder / "runs.db", settings=load_settings(folder)) as notebook:
        notebook.add(RUNS, agent="gpt-4o")
        made_up = folder / "scores.csv"
        made_up.write_text("".join(scores()), encoding="utf-8")
        notebook.add(made_up)
        notebook.add(worse, agent="gpt-4o-v2")
        notebook.score(workers=1)
        (policy,) = gating.choose_policies(notebook.settings)
        new = baseline.make_baseline(notebook.store, policy, where=parse_where("agent = 'gpt-4o'"))
        assert policy.baseline is not None
        baseline.write_baseline(new, policy.baseline)
        asked = gating.GateOptions(where=parse_where("agent = 'gpt-4o-v2'"))
        view = gating.GateView(gating.gate_store(notebook, [policy], asked))
    gates = folder / "gate.json"
    gates.write_text(view.json(), encoding="utf-8")
    return Made(folder / "runs.db", gates)


@contextmanager
def serving(made: Made, *, gates: bool = True) -> Iterator[str]:
    """Serve a store on loopback as `stepscope view` does; give the origin."""
    from stepscope.web.app import make_web_app
    from stepscope.web.serve import make_server, open_socket, socket_url

    listening = open_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    settings = load_settings(made.store.parent)
    said = [made.gates] if gates else []
    running = make_server(
        make_web_app(made.store, token=TOKEN, port=port, gates=said, settings=settings)
    )
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield socket_url(listening)
    finally:
        running.should_exit = True
        thread.join()
        listening.close()


def chromium_path() -> str | None:
    """Return where chromium is, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium(*options: str) -> Iterator[Browser]:
    """Start Debian's chromium, without its sandbox where the user is root.

    Raises:
        FileNotFoundError: there is no chromium on this machine.
    """
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        raise FileNotFoundError("chromium is not on the PATH (Debian: apt-get install chromium)")
    own = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=[*own, *options])
        yield browser
        browser.close()
