"""What a label costs on the labelling page at 1,000,000 queued steps, and 100 labels by keyboard.

`python -m bars.labels.label_page [STEPS]`. A store of 10,000 runs of 100 steps of the agent each; a
queue of all of them for the rubric `step_labels`. Measured: the processor time of the server for an
answer (decode, store, next item, render), mean of 300 answers and the worst of them; the time to
draw and to open the queue is printed beside it. Then 100 labels with keys in Debian's chromium, on
the same server: all of them must arrive. Bar: mean <= 50 ms a label; 100 of 100. Code 0: both
hold; 3: one is missed; 4: there is no chromium.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import load_question
from stepscope.labels.session import GivenAnswer, LabelSession
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.web.label import LabelDesk, LabelTask, make_label_app
from stepscope.web.serve import make_server, open_socket, socket_url
from tests.factories import agent, run, user
from tests.web import looking

STEPS, EACH, ANSWERS, KEYS = 1_000_000, 100, 300, 100
MOST_SECONDS = 0.050
TOKEN = "the token of this bar"


def time_answers(path: Path, queue: int) -> list[float]:
    """Return the processor seconds of each answer, as the one address that writes spends them."""
    task = LabelTask(str(path), "step_labels", False, queue, "ann", True)
    desk = LabelDesk(task, Settings())
    begun = time.process_time()
    session: LabelSession = desk.open_session()
    desk.show(session)
    print(f"open the queue: {time.process_time() - begun:.2f} s")
    spent = []
    for _ in range(ANSWERS):
        asked = session.ask()
        assert asked is not None
        begun = time.process_time()
        given = GivenAnswer(
            do="answer", place=asked.place, step=asked.step, key="1", policy=session.question.policy
        )
        desk.act(session, given)
        desk.show(session)
        spent.append(time.process_time() - begun)
    session.store.close()
    return spent


def press_keys(path: Path, queue: int) -> int:
    """Return how many of 100 labels arrive that are given with keys in a real browser."""
    task = LabelTask(str(path), "step_labels", False, queue, "bob", True)
    listening = open_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = make_label_app(task, token=TOKEN, port=port, settings=Settings())
    running = make_server(app)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        with looking.chromium() as browser:
            page = browser.new_page()
            page.goto(f"{socket_url(listening)}/?token={TOKEN}", timeout=120_000)
            begun = time.monotonic()
            for at in range(KEYS):
                page.keyboard.press("1234"[at % 4])
                page.wait_for_function(
                    "(n) => document.querySelector('.progress b').innerText.startsWith(`${n} of`)",
                    arg=at + 1,
                )
            print(f"{KEYS} labels by keyboard: {time.monotonic() - begun:.1f} s on the wall")
    finally:
        running.should_exit = True
        thread.join()
        listening.close()
    with Store.open(path) as store:
        return sum(label.annotator == "bob" for label in store.labels())


def main(arguments: list[str]) -> int:
    """Measure, print, compare with the bars."""
    steps = int(arguments[0]) if arguments else STEPS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        with Store.open(path) as store:
            store.put(
                run(
                    user("please do it"),
                    *[agent(f"step {at} {step}") for step in range(EACH)],
                    id=f"r{at}",
                    name=f"n{at}",
                )
                for at in range(steps // EACH)
            )
            begun = time.process_time()
            queue = draw_queue(store, load_question("step_labels"), queue="uniform", n=steps)
        print(f"draw {steps:,} steps: {time.process_time() - begun:.1f} s")
        spent = time_answers(path, queue)
        mean = sum(spent) / len(spent)
        print(f"an answer: mean {1000 * mean:.1f} ms, worst {1000 * max(spent):.1f} ms (bar 50 ms)")
        if looking.chromium_path() is None:
            print("no chromium here: keys not pressed")
            return 4
        arrived = press_keys(path, queue)
        print(f"labels that arrived: {arrived} of {KEYS}")
    return 0 if mean <= MOST_SECONDS and arrived == KEYS else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
