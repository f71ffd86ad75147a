from __future__ import annotations

import random
import re
import time

import pytest

from bars.safety._secrets import ENCODINGS, SHAPES, SURROUNDINGS, ids, samples, shows
from stepscope.errors import ConfigError
from stepscope.safety.redact import (
    CONTEXT_SECRETS,
    PROVIDER_SECRETS,
    OwnSecret,
    Redactor,
    hide_patterns,
    redact_json,
    scrub_message,
)

REDACTOR = Redactor(b"key")


def made(kind: str, at: int = 0) -> str:
    """Return a made secret of a kind."""
    return [s.secret for s in samples(random.Random(7)) if s.kind == kind][at]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_form_is_found_in_every_encoding_and_surrounding(encoding: str) -> None:
    encode = ENCODINGS[encoding]
    for sample in samples(random.Random(3)):
        for around in SURROUNDINGS:
            for text in (around.format(encode(sample.text)), encode(around.format(sample.text))):
                assert shows(text, sample.secret)
                found = REDACTOR.redact(text)
                assert not shows(found, sample.secret), (sample.kind, found)
                assert f"[secret:{sample.kind}:" in found


def test_there_are_samples_of_thirty_kinds() -> None:
    assert len({shape.kind for shape in SHAPES}) >= 30


def test_ids_are_never_touched() -> None:
    rng = random.Random(5)
    for _ in range(30):
        for id_ in ids(rng):
            for around in (*SURROUNDINGS, '"tool_call_id": "{}"', "token_id={}", "id: {}"):
                text = around.format(id_)
                assert REDACTOR.redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "password: required, at least eight characters",
        "Authorization: Bearer authentication-mechanism",
        "Basic information about your reservation",
        "the api_key=os.environ and API_KEY=${API_KEY}",
        "max_tokens: 1024, total_tokens=123456789012345678",
        "api_key_id: 1234567890abcdef12",
        "write to a@b.example or see https://example.org/a:b@c?d=e:f@g",
        "a task-force of risk-averse people; ask-" + "a1" * 20,
        "It begins with -----BEGIN PRIVATE KEY----- and goes on in words",
        "src/stepscope/formats/inspect_messages.py::test_something_Long_With_Names_2024",
        "password: ********",
        "API_KEY=xxxxxxxxxxxx1111",
        "Total: 10 % off, 50%25 and 100%ABC",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert REDACTOR.redact(text) == text


@pytest.mark.parametrize("before", ["a/", "ab/", "abc/", "abcd/"])
def test_base64_is_found_wherever_it_begins_in_a_run(before: str) -> None:
    secret = made("groq")
    found = REDACTOR.redact(f"https://h.example/{before}{ENCODINGS['base64'](secret)}")
    assert re.findall(r"\[secret:(\w+):", found) == ["groq"]


def test_one_secret_has_one_placeholder_in_every_encoding() -> None:
    secret = made("github")
    told = {re.findall(r"\[secret:github:[0-9a-f]{4}\]", REDACTOR.redact(e(secret)))[0]
            for e in ENCODINGS.values()}  # fmt: skip
    assert len(told) == 1
    other = Redactor(b"another key").redact(secret)
    assert other not in told
    assert REDACTOR.redact(made("github", 1)) not in told


def test_a_secret_and_its_name_are_one_hit_of_the_provider() -> None:
    found = REDACTOR.redact(f"OPENAI_API_KEY={made('openai', 1)} rest")
    assert re.fullmatch(r"OPENAI_API_KEY=\[secret:openai:[0-9a-f]{4}\] rest", found)


def test_what_was_redacted_is_not_redacted_again() -> None:
    for sample in samples(random.Random(9)):
        once = REDACTOR.redact(sample.text)
        assert REDACTOR.redact(once) == REDACTOR.redact(once)
        assert REDACTOR.redact(once) == once


def test_json_keeps_its_shape_and_what_holds_no_secret_is_the_same_object() -> None:
    secret, word = made("anthropic"), "a9-x8" * 2
    value = {"id": "#W2575533", "n": [1, None, True, {"said": f"use {secret}"}], "password": word}
    clean = redact_json(REDACTOR, value)
    placeholder = REDACTOR.placeholder("anthropic", secret)
    hidden = REDACTOR.placeholder("password", word)
    assert clean == {
        "id": "#W2575533",
        "n": [1, None, True, {"said": f"use {placeholder}"}],
        "password": hidden,
    }
    untouched = {"a": ["b", {"c": "a longer text without any"}], "total_tokens": "123456789012"}
    assert redact_json(REDACTOR, untouched) is untouched


def test_two_keys_that_are_secrets_stay_two() -> None:
    secret = made("groq")
    clean = redact_json(REDACTOR, {secret: 1, f"x={secret}": 2, f"[secret:groq:{'0' * 4}]": 3})
    assert sorted(clean.values()) == [1, 2, 3]
    assert secret not in str(clean)


def test_secrets_of_the_users_own_are_found() -> None:
    own = OwnSecret(kind="acme", begins="acme-", characters="A-Za-z0-9-", least=4)
    redactor = Redactor(b"key", [own.form("here")])
    found = redactor.redact("use acme-a-b1 now, not acme-x")
    assert re.fullmatch(r"use \[secret:acme:[0-9a-f]{4}\] now, not acme-x", found)
    hide_patterns([own.form("here")])
    try:
        assert re.fullmatch(r"no \[secret:acme:[0-9a-f]{4}\]", scrub_message("no acme-a-b1"))
    finally:
        hide_patterns([])
    assert scrub_message("no acme-a-b1") == "no acme-a-b1"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "Acme!"}, "here: kind is 'Acme!'"),
        ({"begins": "a"}, "expected 3 or more characters"),
        ({"begins": "abc", "least": 2}, "8 or more in all"),
        ({"characters": "(a+)+"}, r"here: characters is '\(a\+\)\+'"),
    ],
)
def test_a_form_that_says_too_little_is_refused(wrong: dict[str, object], said: str) -> None:
    given = {"kind": "acme", "begins": "acme-", **wrong}
    with pytest.raises(ConfigError, match=said):
        OwnSecret(**given).form("here")  # type: ignore[arg-type]


HARD = (
    "A1b", "%2541", "\\u002d", "://a:", "A" * 60 + "\n", "eyJaaaaaaaaaa.", "api_key=", '"\\n',
    "-----BEGIN PRIVATE KEY-----" + "A" * 20 + " ", "AKIA" + "A" * 16 + " ", "Basic YTpi ",
    "MTMTMTMTMTMTMTMTMTMTMTMT.", "password: ", "Bearer ",
)  # fmt: skip


def seconds(text: str) -> float:
    start = time.process_time()
    REDACTOR.redact(text)
    return time.process_time() - start


@pytest.mark.parametrize("ending", ["", "=", ".", '="'])
def test_the_time_is_linear_in_hostile_text(ending: str) -> None:
    marks = {mark for form in (*PROVIDER_SECRETS, *CONTEXT_SECRETS) for mark in form.marks}
    for seed in (mark + ending for mark in {*marks, *HARD}):
        text = (seed * 20_000)[:20_000]
        # A square of this length would be 400 million; a microsecond a character is .02 s.
        assert seconds(text) < 0.6, seed
