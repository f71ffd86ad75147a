"""What leaves by each way of the program holds no secret; what is exported is what was given."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

import stepscope
from bars.safety._secrets import ENCODINGS, samples
from bars.safety.secrets import real, recall
from stepscope.api.notebook import Notebook
from stepscope.backends.client import read_access
from stepscope.cli import terminal
from stepscope.cli.main import main
from stepscope.errors import ConfigError
from stepscope.formats.otlp.request import JSON, PROTOBUF
from stepscope.model import Quarantined, Record, ToolCall, Trajectory, Verdict
from stepscope.receive.server import ReceiverRefusal, answer_kept, answer_refused
from stepscope.report.rows import read_shown_run
from stepscope.settings import Redaction, Settings, load_settings
from stepscope.store import Store
from tests.factories import agent, calls, did, failed, result, run, user

SECRET = next(s.secret for s in samples(random.Random(11)) if s.kind == "github")
PLACEHOLDER = re.compile(r"\[secret:github:[0-9a-f]{4}\]")


def with_secret() -> Trajectory:
    asked = ToolCall("push", {"token": SECRET, "order": "#W2575533"}, id="call_1")
    return run(
        user(f"use {SECRET}"),
        calls(asked),
        result(f"Error: {SECRET} is no key", "error", call_id="call_1"),
        calls(asked),
        result(f"Error: {SECRET} is no key", "error", call_id="call_1"),
        agent("done"),
    )


def hides(text: str) -> bool:
    """Whether the secret was in a text, and is hidden there."""
    return SECRET not in text and PLACEHOLDER.search(text) is not None


def test_every_sink_of_a_store_hides_every_form() -> None:
    found = recall(1, each=13)
    assert {name for name, score in found.items() if score.shown == 0} == {
        "messages", "sent JSON", "show", "show --json", "HTML", "quarantine",
    }  # fmt: skip
    assert all(score.offered > 80 for score in found.values())


@pytest.mark.shared_data
def test_real_traces_lose_nothing(shared: Path) -> None:
    found = real(shared / "taubench" / "airline")
    assert found.characters > 1_000_000
    assert (found.hits, found.touched) == (0, 0)
    assert found.ids > 100


def test_the_beginning_of_a_secret_before_a_cut_is_hidden() -> None:
    long = "x" * 60 + f" {SECRET}"
    given = run(user("a"), *did("push", "Error: no"), *failed("push", long), agent("done"))
    reason = f"push failed: {long[:80]}…; then {SECRET[:9]} stays"
    told = Record(trajectory="r1", answer=Verdict("errors", 1.0, reason=reason), version="1")
    with Store.open(":memory:") as store:
        store.put([given])
        store.append([told])
        found = read_shown_run(store, given.name)[2][0].answer.reason
    assert SECRET[:12] not in found
    assert re.fullmatch(rf"push failed: x+ {PLACEHOLDER.pattern}…; then {SECRET[:9]} stays", found)


@pytest.mark.parametrize("words", range(20, 45, 3))
def test_no_beginning_of_a_secret_stays_where_a_reader_cut_an_error(
    words: int, tmp_path: Path
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = "Error: " + "word " * words + SECRET
    turns = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": said},
    ]
    (tmp_path / "k.json").write_text(json.dumps({"messages": turns, "reward": 0.0}))
    with stepscope.open(":memory:") as notebook:
        notebook.add(tmp_path / "k.json")
        notebook.score()
        found = notebook.report().json()
    assert SECRET[:12] not in found
    assert "fails, and is ignored: word" in found


def test_a_word_of_a_secret_that_a_measure_quotes_is_hidden() -> None:
    key = "3112992813:AAZoLZK9QKerJlVPxMJkaFkxY2xWB562geY"
    said = "tells 3112992813; 31129928 and secret stay"
    told = Record(trajectory="r1", answer=Verdict("errors", 1.0, reason=said), version="1")
    with Store.open(":memory:") as store:
        store.put([run(user(f"the secret is {key}"))])
        store.append([told])
        found = read_shown_run(store, "shop/1/0")[2][0].answer.reason
    assert re.fullmatch(r"tells \[secret:telegram:[0-9a-f]{4}\]; 31129928 and secret stay", found)


def test_one_line_of_a_secret_in_several_is_hidden() -> None:
    lines = ENCODINGS["base64 lines"](next(s.text for s in samples(random.Random(4))) * 4)
    first = lines.splitlines()[1]
    told = Record(trajectory="r1", answer=Verdict("errors", 1.0, reason=f"no {first}"), version="1")
    with Store.open(":memory:") as store:
        store.put([run(user(f"use {lines}"))])
        store.append([told])
        found = read_shown_run(store, "shop/1/0")[2][0].answer.reason
    assert re.fullmatch(r"no \[secret:openai:[0-9a-f]{4}\]", found)


def test_a_run_is_shown_without_secrets_and_cites_the_same_steps() -> None:
    given = with_secret()
    with Notebook(Store.open(":memory:"), Settings()) as notebook:
        notebook.store.put([given])
        notebook.score(workers=1)
        shown = [str(notebook.show(given.name)), str(notebook.show(given.name, around=1))]
        assert all(map(hides, [*shown, notebook.show_json(given.name)]))
        assert len(set(PLACEHOLDER.findall("".join(shown)))) == 1
        assert "#W2575533" in shown[1]
        view = notebook.report()
        assert all(map(hides, [view.json()]))
        found = view.value.look_first[0].suspects
    plain = Settings(redaction=Redaction(shown=False))
    with Notebook(Store.open(":memory:"), plain) as notebook:
        notebook.store.put([given])
        notebook.score(workers=1)
        assert SECRET in str(notebook.show(given.name, around=1))
        same = notebook.report().value.look_first[0].suspects
    assert [(s.kind, s.first, s.last) for s in found] == [(s.kind, s.first, s.last) for s in same]


def test_an_export_and_the_stored_run_are_what_was_given(tmp_path: Path) -> None:
    given = with_secret()
    with Notebook(Store.open(tmp_path / "s.db"), Settings()) as notebook:
        notebook.store.put([given])
        notebook.export(tmp_path / "out.jsonl")
        assert next(notebook.trajectories()).steps == given.steps
    assert (tmp_path / "out.jsonl").read_text("utf-8").count(SECRET) == 7


def test_placeholders_stay_the_same_for_the_life_of_a_store(tmp_path: Path) -> None:
    told = []
    for _ in range(2):
        with Notebook(Store.open(tmp_path / "s.db"), Settings()) as notebook:
            notebook.store.put([with_secret()])
            aside = Quarantined(reason=f"not {SECRET}", offset=3, raw=SECRET.encode())
            notebook.store.quarantine([aside])
            told.append(str(notebook.show("shop/1/0")))
            (kept_aside,) = notebook.store.quarantined()
            assert hides(kept_aside.reason)
            assert kept_aside.raw == SECRET.encode()
    assert told[0] == told[1]
    assert hides(told[0])


def test_errors_and_remarks_on_the_terminal_hide_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "x", "--store", f"{SECRET}.db"]) == 2
    terminal.print_note(f"wrote {SECRET}")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(map(hides, lines))


def test_answers_of_the_receiver_and_messages_of_backends_hide_them() -> None:
    answers = [
        answer
        for kind in (JSON, PROTOBUF)
        for answer in (
            answer_kept(kind, refused=1, reason=f"bad {SECRET}"),
            answer_refused(ReceiverRefusal(400, f"bad {SECRET}"), kind),
        )
    ]
    assert all(hides(bytes(answer.body).decode("latin-1")) for answer in answers)
    where = read_access("phoenix", {"PHOENIX_API_KEY": "a-word-of-theirs"})
    said = where.scrubbed(f"a-word-of-theirs and {SECRET}")
    assert hides(said)
    assert said.startswith("*** and")


def test_the_settings_add_forms_and_refuse_nonsense(tmp_path: Path) -> None:
    file = tmp_path / "stepscope.toml"
    own = '[redaction]\nshown = true\n[[redaction.secret]]\nkind = "acme"\nbegins = "acme-"\n'
    file.write_text(own, "utf-8")
    with Notebook(Store.open(":memory:"), load_settings(tmp_path)) as notebook:
        notebook.store.put([run(user("acme-" + "a1" * 10))])
        assert "[secret:acme:" in str(notebook.show("shop/1/0"))
    for wrong, said in (
        (own + 'ends = "x"\n', r"\[\[redaction.secret\]\] number 1: unknown key 'ends'"),
        (own + "least = 0\n", r"\[\[redaction.secret\]\] number 1: begins 'acme-' and least 0"),
        ("[redaction]\nshow = false\n", "unknown key 'show'; did you mean 'shown'"),
    ):
        file.write_text(wrong, "utf-8")
        with pytest.raises(ConfigError, match=said):
            load_settings(tmp_path)
