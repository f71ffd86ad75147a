"""SIGKILL between the key and the answer of the labelling page: no acknowledged label is lost.

`python -m bars.labels.label_kills [KILLS]`, 200 unless given, seed 0. A server of `stepscope label`
on one store is asked by a client that answers without pause; it is killed after a random number of
answers, at a random moment of the next one, and started again. One press in six takes back. After
each kill the labels in the store must be those that were acknowledged, in their order; the one in
flight at the kill may be there or not. Bar: 0 acknowledged labels lost, 0 doubled, 0 human verdicts
without a label. Code 0: it holds; 3: it is missed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx2

from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import load_question
from stepscope.store import Store
from tests.factories import agent, run, user

KILLS, RUNS = 200, 6_000
MEASURE = "judge.outcome"


def start(store: Path) -> tuple[subprocess.Popen[str], httpx2.Client]:
    """Start the server as the command line does; return it and a client inside."""
    command = ["label", "--store", str(store), "--annotator", "ann", "--no-open", "--json"]
    run_main = "import sys; from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    server = subprocess.Popen(
        [sys.executable, "-c", run_main, *command], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    text = ""
    while not text.rstrip().endswith("}"):
        line = server.stdout.readline()
        if not line:
            raise RuntimeError("stepscope label ended before it served")
        text += line
    url = json.loads(text)["url"]
    origin, _, token = url.partition("/?token=")
    client = httpx2.Client(base_url=origin, timeout=60, headers={"Origin": origin})
    client.get("/", params={"token": token})
    return server, client


def read(html: str) -> tuple[int, str]:
    """Return the place and the policy that a page asks about."""
    place, policy = (
        html.partition(f'data-{x}="')[2].partition('"')[0] for x in ("place", "policy")
    )
    return int(place), policy


def label_until_killed(
    store: Path, kept: list[int], rng: random.Random
) -> tuple[list[int], tuple[str, int] | None]:
    """Label until the kill; return the places acknowledged so far, and what was in flight."""
    server, client = start(store)
    place, policy = read(client.get("/label").text)
    answers = rng.randrange(1, 8)
    flying: tuple[str, int] | None = None
    try:
        for at in range(answers + 1):
            do = "undo" if kept and rng.random() < 1 / 6 else "answer"
            flying = do, place
            body = {"do": do, "key": "1", "place": place, "step": None, "policy": policy}
            if at == answers:
                wait = rng.random() * 0.03
                killer = threading.Timer(wait, os.kill, (server.pid, signal.SIGKILL))
                killer.start()
            reply = client.post("/api/label", json=body)
            if reply.status_code != 200:
                raise RuntimeError(reply.text)
            if do == "undo":
                kept.pop()
            else:
                kept.append(place)
            flying = None
            place, policy = read(reply.json()["html"])
        while server.poll() is None:
            time.sleep(0.005)
    except httpx2.TransportError:
        pass
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
        client.close()
    return kept, flying


def stored_places(store: Path) -> tuple[list[int], int]:
    """Return the places of the labels in the store, in order, and how many verdicts there are."""
    with Store.open(store) as opened:
        items = opened.queue_items(1)
        runs = opened.runs()
        key_of = dict(zip(runs.id.tolist(), runs.key.tolist(), strict=True))
        place_of = {key: at for at, key in enumerate(items.run.tolist())}
        labels = list(opened.labels(measure=MEASURE))
        verdicts = {record.trajectory for record in opened.records(measure=MEASURE)}
        assert verdicts == {label.trajectory for label in labels}, "verdicts differ from labels"
        assert not list(opened.damage()), "the store is damaged"
    return [place_of[key_of[label.trajectory]] for label in labels], len(verdicts)


def main(arguments: list[str]) -> int:
    """Kill and start again; print what was lost."""
    kills = int(arguments[0]) if arguments else KILLS
    rng = random.Random(0)
    lost = doubled = landed = 0
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        with Store.open(store) as opened:
            opened.put(
                run(user("hi"), agent(str(at)), id=f"r{at}", name=f"n{at}") for at in range(RUNS)
            )
        with Store.open(store) as opened:
            draw_queue(opened, load_question("outcome"), queue="uniform", n=RUNS)
        kept: list[int] = []
        for number in range(kills):
            kept, flying = label_until_killed(store, kept, rng)
            found, _ = stored_places(store)
            if flying is not None and found != kept:
                do, place = flying
                if do == "answer" and found == [*kept, place]:
                    kept, landed = found, landed + 1
                elif do == "undo" and found == kept[:-1]:
                    kept, landed = found, landed + 1
            lost += sum(place not in found for place in kept)
            doubled += len(found) - len(set(found))
            if found != kept:
                print(f"kill {number}: stored {found[-5:]}, acknowledged {kept[-5:]}")
                kept = found
    print(
        f"{kills} kills, {len(kept)} labels at the end; {landed} were stored but not acknowledged"
    )
    print(f"acknowledged labels lost: {lost} (bar 0); doubled: {doubled} (bar 0)")
    return 0 if lost == doubled == 0 else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
