"""Known forms of secrets leave through no sink, ids stay, and real traces lose nothing else.

`python -m bars.safety.secrets [ROUNDS]`. Secrets are made from random letters by the forms of
providers, each in every encoding of `bars.safety._secrets`, plain and inside of other text, and
pass through every sink: messages (errors, logs), JSON that is sent or filed, quarantine reasons,
`show`, `show --json` and the HTML file. Bars: recall 100 %; no id touched, made ones and those of
the real traces; at most one false positive a megabyte of tau-bench traces. Code 0: it holds; 3: it
does not; 4: the real traces are absent.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bars.safety._secrets import ENCODINGS, SHAPES, SURROUNDINGS, ids, samples, shows
from stepscope.api.notebook import Notebook
from stepscope.model import Part, Quarantined, Source, Step, ToolCall, ToolResult, Trajectory
from stepscope.report.build import build_report
from stepscope.report.render.html import write_html
from stepscope.report.views.run import read_run
from stepscope.report.views.show import describe_step
from stepscope.safety.redact import Redactor, redact_json, scrub_message
from stepscope.settings import Settings
from stepscope.store import Store

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TAUBENCH = DATA / "taubench"
# Folders whose ids are looked at; nothing in them is a secret.
TRACES = ("taubench", "agentrx-retail", "whowhen", "formats", "devai")
MEGABYTE = 1_000_000
_ID = re.compile(
    r"#W\d+|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b[0-9a-fA-F]{16,64}\b"
    r"|\b(?:call|toolu|chatcmpl|msg|resp|run|req|fc|rs|gen)[_-][A-Za-z0-9_-]{8,}"
)


class Score(NamedTuple):
    """What a sink let through, of how many."""

    offered: int
    shown: int


def recall(rounds: int, *, each: int = 1) -> dict[str, Score]:
    """Return by sink how many secrets were offered in all encodings, and how many it showed.

    Sinks of a store are slower: they get one text in `each`.
    """
    redactor = Redactor(b"bar")
    plain: dict[str, Callable[[str], str]] = {
        "messages": scrub_message,
        "sent JSON": lambda text: str(redact_json(redactor, {"messages": [{"content": text}]})),
    }
    found = {name: Score(0, 0) for name in plain}
    rng = random.Random(1)
    for _ in range(rounds):
        for secret, text in _texts(rng):
            for name, sink in plain.items():
                offered, shown = found[name]
                found[name] = Score(offered + 1, shown + shows(sink(text), secret))
    found.update(_shown(list(_texts(rng))[::each]))
    return found


def _texts(rng: random.Random) -> Iterator[tuple[str, str]]:
    for sample in samples(rng):
        for encode in ENCODINGS.values():
            around = rng.choice(SURROUNDINGS)
            yield sample.secret, around.format(encode(sample.text))
            yield sample.secret, encode(around.format(sample.text))


def _shown(texts: list[tuple[str, str]]) -> dict[str, Score]:
    """Return what the sinks of a store show of secrets in every field of a run's steps."""
    steps = []
    for at, (_, text) in enumerate(texts):
        call = ToolCall("use", {"value": text}, id=f"call_{at}", raw=text)
        result = ToolResult(call_id=f"call_{at}", parts=(Part("text", text),), error=text,
                            status="error", source="explicit")  # fmt: skip
        steps.append(Step(index=at, actor="agent", kind="call", parts=(Part("text", text),),
                          calls=(call,), results=(result,), extra={"said": text}))  # fmt: skip
    run = Trajectory(id="0" * 32, name="secrets", steps=tuple(steps), workflow="bar",
                     source=Source(format="bar"))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with Notebook(Store.open(place / "s.db"), Settings()) as notebook:
            notebook.store.put([run])
            bad = [Quarantined(reason=t, offset=n, raw=b"") for n, (_, t) in enumerate(texts)]
            notebook.store.quarantine(bad)
            notebook.score(workers=1)
            write_html(notebook.store, build_report(notebook.store), place / "r.html", embed="all")
            shown = read_run(notebook.store, "secrets")
            reasons = [aside.reason for aside in notebook.store.quarantined()]
            apart = {
                "show": [
                    "\n".join(describe_step(shown, at, width=100)) for at in range(len(texts))
                ],
                "quarantine": reasons,
            }
            whole = {
                "show --json": notebook.show_json("secrets"),
                "HTML": (place / "r.html").read_text("utf-8"),
            }
    secrets = [secret for secret, _ in texts]
    found = {
        name: Score(len(secrets), sum(map(shows, each, secrets))) for name, each in apart.items()
    }
    packed = [encode(secret) for secret in secrets for encode in ENCODINGS.values()]
    for name, text in whole.items():
        found[name] = Score(len(secrets), sum(one in text for one in packed))
    return found


def touched_ids(rounds: int) -> tuple[int, int]:
    """Return how many made ids were tried, and how many did not come out as they were."""
    redactor, rng = Redactor(b"bar"), random.Random(2)
    tried = wrong = 0
    for _ in range(rounds):
        for id_ in ids(rng):
            for around in SURROUNDINGS:
                text = around.format(id_)
                tried += 1
                wrong += redactor.redact(text) != text
    return tried, wrong


class Real(NamedTuple):
    """What became of real text: its size, its ids, those touched, all hits, and the CPU time."""

    characters: int
    ids: int
    touched: int
    hits: int
    seconds: float


def real(folder: Path) -> Real:
    """Return what redaction did to the texts of a folder."""
    redactor = Redactor(b"bar")
    characters = count = touched = hits = 0
    seconds = 0.0
    for path in sorted(p for p in folder.rglob("*.json*") if p.is_file()):
        text = path.read_bytes().decode("utf-8", "replace")
        for at in range(0, len(text), 1 << 20):
            piece = text[at : at + (1 << 20)]
            start = time.process_time()
            found = redactor.redact(piece)
            seconds += time.process_time() - start
            before = _ID.findall(piece)
            after = _ID.findall(found) if found != piece else before
            characters += len(piece)
            count += len(before)
            touched += len(before) - len(after)
            hits += sum(1 for _ in redactor.pieces(piece))
    return Real(characters, count, touched, hits, seconds)


def main() -> int:
    """Print the table; return 0 when everything holds."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    kinds = len({shape.kind for shape in SHAPES})
    print(f"{len(SHAPES) + 3} forms of {kinds + 2} kinds, {len(ENCODINGS)} encodings")
    holds = kinds >= 30
    print(f"{'sink':<14}{'offered':>10}{'shown':>8}")
    for name, score in recall(rounds).items():
        print(f"{name:<14}{score.offered:>10,}{score.shown:>8,}")
        holds &= score.shown == 0
    tried, wrong = touched_ids(rounds * 20)
    print(f"{'made ids':<14}{tried:>10,}{wrong:>8,}")
    holds &= wrong == 0
    if not TAUBENCH.exists():
        print(f"not measured: {TAUBENCH} is absent")
        return 4 if holds else 3
    print(f"{'traces':<16}{'MB':>7}{'ids':>9}{'touched':>9}{'false':>7}{'MB/s':>7}")
    for name in TRACES:
        found = real(DATA / name)
        size = found.characters / MEGABYTE
        print(f"{name:<16}{size:>7.1f}{found.ids:>9,}{found.touched:>9,}{found.hits:>7,}"
              f"{size / found.seconds:>7.1f}")  # fmt: skip
        holds &= found.touched == 0 and (name != "taubench" or found.hits <= size)
    print("holds" if holds else "MISSED")
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main())
