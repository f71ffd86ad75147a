"""Secrets that nobody has: made from random letters by the forms of providers, and their encodings.

Nothing here looks like a secret until it is made, so that nothing of the kind is ever committed.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

LETTERS = string.ascii_letters + string.digits
WORD = LETTERS + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
SIGNS = LETTERS + "+/"


class Sample(NamedTuple):
    """A made secret: its kind, the text around it, and the part of it that must not be seen."""

    kind: str
    text: str
    secret: str


class Shape(NamedTuple):
    """How a secret is made: pieces of plain text and (alphabet, count), within a text around it."""

    kind: str
    pieces: tuple[str | tuple[str, int], ...]
    around: str = "{}"


def _shape(kind: str, *pieces: str | tuple[str, int], around: str = "{}") -> Shape:
    return Shape(kind, pieces, around)


SHAPES = (
    _shape("openai", "sk-", (LETTERS, 48)),
    _shape("openai", "sk-proj-", (WORD, 156)),
    _shape("openai", "sk-svcacct-", (WORD, 120)),
    _shape("anthropic", "sk-ant-api03-", (WORD, 93), "AA"),
    _shape("openrouter", "sk-or-v1-", (HEX, 64)),
    _shape("langfuse", "sk-lf-", (HEX, 8), "-", (HEX, 4), "-", (HEX, 4), "-", (HEX, 12)),
    _shape("langsmith", "lsv2_pt_", (HEX, 32), "_", (HEX, 10)),
    _shape("huggingface", "hf_", (LETTERS, 34)),
    _shape("groq", "gsk_", (LETTERS, 52)),
    _shape("xai", "xai-", (LETTERS, 80)),
    _shape("replicate", "r8_", (LETTERS, 37)),
    _shape("perplexity", "pplx-", (LETTERS, 48)),
    _shape("nvidia", "nvapi-", (WORD, 64)),
    _shape("aws", "AKIA", (UPPER, 16)),
    _shape("google", "AIza", (WORD, 35)),
    _shape("google", "ya29.", (WORD, 120)),
    _shape("google", "GOCSPX-", (WORD, 28)),
    _shape("azure", (SIGNS, 86), "==", around="EndpointSuffix=core;AccountKey={};Name=x"),
    _shape("azure", (LETTERS, 43), "%3D", around="https://x.blob.example/c?sv=2024&sig={}"),
    _shape("digitalocean", "dop_v1_", (HEX, 64)),
    _shape("databricks", "dapi", (HEX, 32)),
    _shape("vault", "hvs.", (WORD, 90)),
    _shape("github", "ghp_", (LETTERS, 36)),
    _shape("github", "gho_", (LETTERS, 36)),
    _shape("github", "ghs_", (LETTERS, 36)),
    _shape("github", "github_pat_", (LETTERS, 22), "_", (LETTERS, 59)),
    _shape("gitlab", "glpat-", (WORD, 20)),
    _shape("npm", "npm_", (LETTERS, 36)),
    _shape("pypi", "pypi-AgEIcHlwaS5vcmc", (WORD, 150)),
    _shape("docker", "dckr_pat_", (WORD, 27)),
    _shape("slack", "xoxb-", ("123456789", 12), "-", ("123456789", 12), "-", (LETTERS, 24)),
    _shape("slack", "xoxp-", ("123456789", 12), "-", (HEX, 32)),
    _shape("discord", "MT", (LETTERS, 24), ".", (WORD, 6), ".", (WORD, 38)),
    _shape("telegram", ("123456789", 10), ":AA", (WORD, 33)),
    _shape("stripe", "sk_live_", (LETTERS, 24)),
    _shape("stripe", "rk_live_", (LETTERS, 99)),
    _shape("twilio", "SK", (HEX, 32)),
    _shape("sendgrid", "SG.", (WORD, 22), ".", (WORD, 43)),
    _shape("mailgun", "key-", (HEX, 32)),
    _shape("shopify", "shpat_", (HEX, 32)),
    _shape("linear", "lin_api_", (LETTERS, 40)),
    _shape("atlassian", "ATATT3xFfGF0", (WORD, 171), "=", ("0123456789ABCDEF", 8)),
    _shape("jwt", "eyJ", (WORD, 33), ".eyJ", (WORD, 80), ".", (WORD, 43)),
    _shape("key", (LETTERS, 20), "1a", (LETTERS, 18), around="COHERE_API_KEY={}"),
    _shape("key", (LETTERS, 14), "2b", (LETTERS, 16), around='{{"mistral_api_key": "{}"}}'),
    _shape("key", (HEX, 28), "3c4d", around="TWILIO_AUTH_TOKEN = {}"),
    _shape("key", (SIGNS, 38), "5e", around="aws_secret_access_key = {}"),
    _shape("bearer", (LETTERS, 30), "7a", around="Authorization: Bearer {}"),
    _shape("userinfo", (LETTERS, 12), around="postgres://admin:{}@db.example:5432/x"),
    _shape("password", (LETTERS, 10), "4z", around="password: {}"),
)

BEGIN, END = "-----BEGIN RSA ", "-----END RSA "


def samples(rng: random.Random) -> Iterator[Sample]:
    """Yield a secret of every shape."""
    for shape in SHAPES:
        pieces = [p if isinstance(p, str) else _drawn(rng, *p) for p in shape.pieces]
        secret = "".join(pieces)
        yield Sample(shape.kind, shape.around.format(secret), secret)
    pair = _drawn(rng, LETTERS, 8) + ":" + _drawn(rng, LETTERS, 12)
    basic = base64.b64encode(pair.encode()).decode()
    yield Sample("basic", f"authorization: Basic {basic}", basic)
    id_ = "AKIA" + _drawn(rng, UPPER, 16)
    hidden = "a7B" + _drawn(rng, LETTERS, 37)
    yield Sample("aws", f"{id_}, {hidden}", hidden)
    lines = "\n".join(_drawn(rng, SIGNS, 64) for _ in range(12))
    whole = f"{BEGIN}PRIVATE KEY-----\n{lines}\n{_drawn(rng, SIGNS, 20)}==\n{END}PRIVATE KEY-----"
    yield Sample("pem", whole, lines.splitlines()[5])


def _drawn(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choices(alphabet, k=count))


def _wrapped(text: str) -> str:
    packed = base64.b64encode(text.encode()).decode()
    return "\n".join(packed[at : at + 76] for at in range(0, len(packed), 76))


# What a text looks like in each encoding; the second word tells what is everything escaped.
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "JSON": lambda text: json.dumps({"said": text}),
    "JSON in JSON": lambda text: json.dumps({"said": json.dumps({"said": text})}),
    "JSON \\u": lambda text: "".join(f"\\u{ord(c):04x}" for c in text),
    "URL": lambda text: "q=" + quote(text, safe=""),
    "URL %": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 URL": lambda text: base64.urlsafe_b64encode(f"={text} ÿ?".encode()).decode(),
    "base64 lines": lambda text: _wrapped(f"k={text}\n"),
    "base64 JSON": lambda text: base64.b64encode(json.dumps({"said": text}).encode()).decode(),
}
SURROUNDINGS = ("{}", "I used {} and it failed.", '{{"a": "{}"}}', "x={}\n", "({})", "ключ {}。")


# Letters of a secret in a row that show it.
SHOWN = 10
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
_PLACEHOLDER = re.compile(r"\[secret:\w+:\w+\]")


def shows(text: str, secret: str) -> bool:
    """Whether a piece of the secret can be read in a text, or in what it says when decoded."""
    left = _PLACEHOLDER.sub(" ", text)
    unescaped = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), left)
    runs = re.findall(r"[A-Za-z0-9+/_-]{16,}", left.replace("\n", ""))
    said = [left, unescaped, unescaped.replace("\\", ""), unquote(left), *map(_unpacked, runs)]
    pieces = {secret[at : at + SHOWN] for at in range(max(len(secret) - SHOWN, 1))}
    return any(piece in one for piece in pieces for one in said)


def _unpacked(run: str) -> str:
    plain = run.translate(str.maketrans("-_", "+/"))
    return " ".join(
        base64.b64decode(plain[skip:][: (len(plain) - skip) & ~3]).decode("latin-1")
        for skip in range(4)
    )


def ids(rng: random.Random) -> Iterator[str]:
    """Yield ids of the kinds that citations and traces hold, none of them a secret."""
    lower = string.ascii_lowercase + string.digits
    yield from ("#W2575533", "W2575533", "sara_doe_496", "airline/11/2", "item_1008292230")
    yield from ("2024-05-15T15:00:00", "HAT170", "mia.li@example.com", "pk-lf-" + _uuid(rng))
    yield _uuid(rng)
    yield _uuid(rng).upper()
    for prefix, alphabet, count in (
        ("", HEX, 16),
        ("", HEX, 32),
        ("", HEX, 40),
        ("", HEX, 64),
        ("", LETTERS, 24),
        ("call_", LETTERS, 24),
        ("toolu_", LETTERS, 24),
        ("toolu_01", LETTERS, 22),
        ("chatcmpl-", LETTERS, 29),
        ("chatcmpl-tool-", HEX, 32),
        ("msg_01", LETTERS, 22),
        ("resp_", HEX, 48),
        ("run-", HEX, 32),
        ("req_", LETTERS, 24),
        ("fc_", HEX, 48),
        ("rs_", HEX, 48),
        ("gen-1700000000-", LETTERS, 20),
        ("batch_", HEX, 32),
        ("file-", LETTERS, 24),
        ("sha256:", HEX, 64),
        ("task-", lower, 28),
        ("pk_live_", LETTERS, 24),
        ("certificate_", "0123456789", 7),
        ("payment_", "0123456789", 7),
    ):
        yield prefix + _drawn(rng, alphabet, count)


def _uuid(rng: random.Random) -> str:
    return "-".join(_drawn(rng, HEX, count) for count in (8, 4, 4, 4, 12))
