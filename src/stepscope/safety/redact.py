"""Redaction: placeholders where secrets stand, in any text that is sent, logged, shown or filed.

A secret is known by the provider's prefix, by its place (headers, addresses, names of keys), also
inside JSON escapes, percent escapes and base64. Redacts too much rather than too little. A form of
secrets is a literal mark, looked for first, and a pattern that is tried there; users describe their
own by prefix, characters and length, not as regular expressions, so that none can take for ever.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets as randomness
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import msgspec

from stepscope.errors import ConfigError

T = TypeVar("T")

# Characters before a pattern that are looked at.
_BEFORE = 24


class SecretMatch(NamedTuple):
    """A secret: where it stands in a text, of which kind it is, and the secret itself, decoded."""

    start: int
    end: int
    kind: str
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPattern:
    """A format of secrets."""

    kind: str  # the word in the placeholder
    marks: tuple[str, ...]  # literals, one of which is in every secret of this format
    # the secret, or its group `secret`, where other text must stand around it
    pattern: re.Pattern[str]
    back: int = 0  # characters before a mark at which the pattern may begin
    # what the text before the pattern must end with; None for anything
    before: re.Pattern[str] | None = None
    # a further condition on the secret; None for every one
    accepts: Callable[[str], bool] | None = None

    def hits(self, text: str, mark: str) -> Iterator[SecretMatch]:
        """Yield the secrets of a text that have this mark, in order."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        past = 0
        at = text.find(mark)
        while at >= 0:
            starts = range(max(at - self.back, past), at + 1)
            found = next((hit for one in starts if (hit := self.pattern.match(text, one))), None)
            if found is not None:
                secret, before = found[group], text[max(found.start() - _BEFORE, 0) : found.start()]
                fits = self.before is None or self.before.search(before) is not None
                if fits and (self.accepts is None or self.accepts(secret)):
                    yield SecretMatch(found.start(group), found.end(group), self.kind, secret)
                past = found.end()
            at = text.find(mark, max(past, at + 1))


def make_pattern(
    kind: str,
    marks: str,
    pattern: str,
    back: int = 0,
    *,
    before: str | None = None,
    accepts: Callable[[str], bool] | None = None,
) -> SecretPattern:
    """Return a form; `marks` are separated by spaces."""
    return SecretPattern(
        kind=kind,
        marks=tuple(marks.split()),
        pattern=re.compile(pattern, re.ASCII),
        back=back,
        before=None if before is None else re.compile(before, re.ASCII),
        accepts=accepts,
    )


def patterns_by_mark(
    forms: Iterable[SecretPattern],
) -> tuple[tuple[str, tuple[SecretPattern, ...]], ...]:
    """Return every mark once, with the forms that have it."""
    found: dict[str, tuple[SecretPattern, ...]] = {}
    for one in forms:
        for mark in one.marks:
            found[mark] = (*found.get(mark, ()), one)
    return tuple(found.items())


# Different characters that a secret has at least: "xxxxxxxx" and "********" are none.
_DISTINCT = 5
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+=_-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_-])")
# Characters after an access key id in which its secret is looked for.
_AWS_NEAR = 200
_HEX = re.compile("[0-9a-fA-F]+")


def _mixed(text: str) -> bool:
    """Whether a text has what words have not: a digit with letters, or capitals inside."""
    letters = any(c.isalpha() for c in text)
    digits = any(c.isdigit() for c in text)
    inside = any(c.isupper() for c in text[1:]) and any(c.islower() for c in text)
    return len(set(text)) >= _DISTINCT and ((letters and digits) or inside)


def _valued(text: str) -> bool:
    """Whether what a name is set to is a value, and not a word or a piece of a program."""
    return len(set(text)) >= _DISTINCT and any(c.isdigit() for c in text) and not text.isdigit()


def _pair(text: str) -> bool:
    """Whether base64 says `user:password`."""
    try:
        said = base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    return ":" in said and said.isprintable()


_SET_TO = r"""["'`\]]{0,2}[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}["'`]?"""
_VALUE = r"""(?P<secret>[^\s"'`\\,;&<>{}()\[\]$*]{%d,}+)"""
# "API_KEY_2" is a key; "api_key_id" and "key_name" are not.
_MORE = r"(?![_-]?(?i:id|name|type|file|path|url))(?:[_-][A-Za-z0-9]{1,12}){0,2}"
_KEY_OF = r"(?i:api|secret|access|private|account|auth|signing|master|service)[_-]?$|[A-Z0-9]_$"
_SECRET_OF = r"(?i:client|api|app|consumer|webhook|shared)[_-]?[Ss]$|[A-Z0-9]_S$"
_TOKEN_OF = r"(?i:api|access|auth|bot|refresh|bearer|session|security)[_-]?[Tt]$|[A-Z0-9]_T$"
# Of what is set to a value its kind, marks and name, the least of the value, and what is before it.
_NAMED_VALUES = (
    ("key", "key Key KEY", "(?i:key)" + _MORE, 12, _KEY_OF),
    ("key", "ecret ECRET", "(?i:ecret)" + _MORE, 12, _SECRET_OF),
    ("key", "oken OKEN", "(?i:oken)" + _MORE, 12, _TOKEN_OF),
    ("password", "assw ASSW", "(?i:assw(?:or)?d)", 6, "[Pp]$"),
    ("password", "assphrase ASSPHRASE", "(?i:assphrase)", 6, "[Pp]$"),
    ("password", "pwd PWD Pwd", "(?i:pwd)", 6, "(?<![A-Za-z])$"),
)
_BEARER = "[ :=]{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)"
_BASIC = "(?P<secret>[A-Za-z0-9+/_-]{8,}+={0,2})"
_AZURE = "(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2})"

CONTEXT_SECRETS: tuple[SecretPattern, ...] = (
    make_pattern(
        "pem",
        "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"\s*+(?:[A-Za-z-]{1,40}: [^\r\n]{0,200}+\s*+){0,8}"
        r"(?:[A-Za-z0-9+/=]{16,}+\s*+)++[A-Za-z0-9+/=]*+\s*+"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        back=60,
    ),
    make_pattern("bearer", "earer", "[Bb]earer" + _BEARER, 1, accepts=_mixed),
    make_pattern("bearer", "EARER", "BEARER" + _BEARER, 1, accepts=_mixed),
    make_pattern("basic", "asic", "[Bb]asic[ ]{1,2}" + _BASIC, 1, accepts=_pair),
    make_pattern(
        "authorization",
        "uthorization UTHORIZATION",
        r"(?:[Aa]uthorization|AUTHORIZATION)"
        + _SET_TO
        + r"(?:(?i:bearer|token|apikey|key|basic|negotiate|digest)[ ]{1,2})?"
        + _VALUE % 16,
        back=1,
        accepts=_mixed,
    ),
    make_pattern(
        "userinfo",
        "://",
        r"""://[^\s/?#@:"'<>\\]{0,200}:(?P<secret>[^\s/?#@"'<>\\\[\]]{1,400})@(?=[\w.\[-])""",
    ),
    make_pattern(
        "userinfo",
        "://",
        r"""://(?P<secret>[^\s/?#@:"'<>\\\[\]]{16,400})@(?=[\w.\[-])""",
        accepts=_mixed,
    ),
    make_pattern("azure", "ccountKey= haredAccessKey=", _AZURE, 1),
    make_pattern("azure", "sig=", r"(?<![A-Za-z0-9_])sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}+={0,2})"),
    *(
        make_pattern(kind, marks, name + _SET_TO + _VALUE % least, before=before, accepts=_valued)
        for kind, marks, name, least, before in _NAMED_VALUES
    ),
)


def aws_pairs(text: str, hits: list[SecretMatch]) -> list[SecretMatch]:
    """Return the secret halves that stand near the access key ids that were found."""
    found = []
    for hit in hits:
        if hit.kind != "aws":
            continue
        found += [
            SecretMatch(*near.span(), "aws", near[0])
            for near in _AWS_SECRET.finditer(text, hit.end, hit.end + _AWS_NEAR)
            if _mixed(near[0]) and not _HEX.fullmatch(near[0])
        ]
    return found


_JSON = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'\\/bfnrt]))")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})")
# Characters of base64 that can hold the shortest secret worth looking for.
_SHORTEST_BASE64 = 20
_BASE64 = re.compile(
    # On after a line break only where the line has a length that encoders break at. The group
    # is not possessive: Python 3.11.2 loses its last round. Nothing after it can fail.
    r"[A-Za-z0-9+/_-]++(?:(?<=[A-Za-z0-9+/_-]{40})\r?\n[ \t]*+[A-Za-z0-9+/_-]++)*={0,2}",
    re.ASCII,
)
_LONG_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}+", re.ASCII)
# What is no text at all holds no secret; nearly everything that is not base64 decodes to that.
_READABLE = re.compile(r"[\t\n\r -~]{12}")
_BREAKS = str.maketrans("-_", "+/", "=\r\n\t ")
# Ids: hexadecimal digits and hyphens cannot be base64 of a secret.
_ENCODED_SIGNS = re.compile(r"[0-9a-fA-F-]+|[a-z_/-]+|[A-Z_/-]+|[0-9+/_-]+", re.ASCII)

Decode = Callable[[re.Match[str]], str]


def json_view(text: str) -> tuple[str, list[int]] | None:
    """Return a text without JSON escapes, where each character began, and the end; or None."""
    return _view(text, _JSON, _unescaped) if "\\" in text else None


def percent_view(text: str) -> tuple[str, list[int]] | None:
    """Return the same without percent escapes."""
    return _view(text, _PERCENT, lambda found: chr(int(found[1], 16))) if "%" in text else None


# Characters without ink: text that holds one reads as if it were not there.
_INKLESS = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)


def joined_view(text: str) -> tuple[str, list[int]] | None:
    """Return a text without characters that have no ink, and where each of the others stood."""
    return None if text.isascii() else _view(text, _INKLESS, lambda _: "")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _LETTERS.get(found[3], found[3])


def _view(text: str, pattern: re.Pattern[str], decode: Decode) -> tuple[str, list[int]] | None:
    pieces: list[str] = []
    starts: list[int] = []
    at = 0
    for found in pattern.finditer(text):
        said = decode(found)
        pieces += (text[at : found.start()], said)
        starts += range(at, found.start() + len(said))
        at = found.end()
    if not pieces:
        return None
    pieces.append(text[at:])
    starts += range(at, len(text) + 1)
    return "".join(pieces), starts


def _decoded(packed: str) -> str:
    whole = len(packed) & ~3
    rest = packed[whole:]
    # Two or three characters more hold one or two bytes more; one character holds none.
    tail = rest + "=" * (-len(rest) % 4) if len(rest) > 1 else ""
    return binascii.a2b_base64(packed[:whole] + tail).decode("latin-1")


# Nothing of a word before, so that `task-...` is no `sk-...`.
_B = r"(?<![A-Za-z0-9])"
# Nothing of a run either: what follows has several parts, and must not begin in the middle of one.
_R = r"(?<![A-Za-z0-9_-])"
_A = "[A-Za-z0-9]"
_W = "[A-Za-z0-9_-]"
_H = "[0-9a-f]"

# Of each form its kind, its marks, its pattern, and how far before a mark it may begin.
_PROVIDER_FORMS: tuple[tuple[str, str, str] | tuple[str, str, str, int], ...] = (
    # Models.
    ("anthropic", "sk-ant-", rf"{_B}sk-ant-{_W}{{20,}}+"),
    ("openrouter", "sk-or-", rf"{_B}sk-or-{_W}{{20,}}+"),
    ("langfuse", "sk-lf-", rf"{_B}sk-lf-{_W}{{20,}}+"),
    ("openai", "sk-", rf"{_B}sk-(?:(?:proj|svcacct|admin|None)-{_W}{{20,}}+|{_A}{{20,}}+)"),
    ("langsmith", "lsv2_", rf"{_B}lsv2_(?:pt|sk)_{_W}{{20,}}+"),
    ("huggingface", "hf_ api_org_", rf"{_B}(?:hf|api_org)_{_A}{{30,}}+"),
    ("groq", "gsk_", rf"{_B}gsk_{_A}{{40,}}+"),
    ("xai", "xai-", rf"{_B}xai-{_A}{{40,}}+"),
    ("replicate", "r8_", rf"{_B}r8_{_A}{{35,}}+"),
    ("perplexity", "pplx-", rf"{_B}pplx-{_A}{{40,}}+"),
    ("cerebras", "csk-", rf"{_B}csk-{_A}{{40,}}+"),
    ("nvidia", "nvapi-", rf"{_B}nvapi-{_W}{{40,}}+"),
    ("tavily", "tvly-", rf"{_B}tvly-{_W}{{20,}}+"),
    ("pinecone", "pcsk_", rf"{_B}pcsk_[A-Za-z0-9_]{{30,}}+"),
    ("e2b", "e2b_", rf"{_B}e2b_{_H}{{40,}}+"),
    # Clouds.
    ("aws", "AKIA ASIA ABIA", rf"{_B}(?:AKIA|ASIA|ABIA)[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    ("google", "AIza", rf"{_B}AIza{_W}{{35,}}+"),
    ("google", "ya29.", rf"{_B}ya29\.{_W}{{20,}}+(?:\.{_W}++)*+"),
    ("google", "GOCSPX-", rf"{_B}GOCSPX-{_W}{{20,}}+"),
    ("azure", "8Q~ 7Q~ 9Q~", r"(?<![\w~.-])[\w~.-]{3}[0-9]Q~[\w~.-]{31,40}+", 3),
    ("digitalocean", "dop_v1_ doo_v1_ dor_v1_", rf"{_B}do[opr]_v1_{_H}{{60,}}+"),
    ("databricks", "dapi", rf"{_B}dapi{_H}{{32}}(?![A-Za-z0-9])(?:-[0-9])?"),
    ("cloudflare", "v1.0-", rf"{_R}v1\.0-{_H}{{24}}-{_H}{{100,}}+"),
    ("vault", "hvs. hvb.", rf"{_B}hv[sb]\.{_W}{{24,}}+"),
    ("terraform", ".atlasv1.", rf"{_R}{_A}{{14}}\.atlasv1\.{_W}{{60,}}+", 14),
    ("pulumi", "pul-", rf"{_B}pul-{_H}{{40,}}+"),
    ("doppler", "dp.", rf"{_B}dp\.(?:pt|st|ct|sa|scim|audit)\.{_W}{{40,}}+"),
    ("flyio", "FlyV1", rf"{_B}FlyV1[ _]fm[0-9]_[A-Za-z0-9+/=_,-]{{40,}}+"),
    # Code and packages.
    ("github", "github_pat_", rf"{_B}github_pat_[A-Za-z0-9_]{{40,}}+"),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_B}gh[pousr]_{_W}{{36,}}+"),
    (
        "gitlab",
        "glpat- gldt- glrt- glcbt- glptt- glsoat- glagent- gloas- glft-",
        rf"{_B}gl(?:pat|dt|rt|cbt|ptt|soat|agent|oas|ft)-{_W}{{20,}}+(?:\.{_W}++)*+",
    ),
    ("npm", "npm_", rf"{_B}npm_{_A}{{36,}}+"),
    ("pypi", "pypi-", rf"{_B}pypi-AgE{_W}{{50,}}+"),
    ("docker", "dckr_pat_ dckr_oat_", rf"{_B}dckr_[po]at_{_W}{{20,}}+"),
    ("rubygems", "rubygems_", rf"{_B}rubygems_{_H}{{40,}}+"),
    ("crates", "cio", rf"{_B}cio{_A}{{32}}(?![A-Za-z0-9])"),
    # Messages and payments.
    ("slack", "xox", rf"{_B}xox[a-z](?:\.xox[a-z])?-{_W}{{10,}}+"),
    ("slack", "xapp-", rf"{_B}xapp-[0-9]-{_W}{{20,}}+"),
    (
        "slack",
        "hooks.slack.com/",
        rf"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/{_W}++(?:/{_W}++)++)",
    ),
    ("discord", "/api/webhooks/", rf"/api/webhooks/[0-9]{{15,22}}/(?P<secret>{_W}{{50,}}+)"),
    (
        "discord",
        "MT Mj Mz ND NT Nj Nz OD OT",
        rf"{_R}[MNO][A-Za-z0-9]{_W}{{21,26}}\.{_W}{{6}}\.{_W}{{27,}}+",
    ),
    ("telegram", ":AA", rf"(?<![0-9A-Za-z])[0-9]{{8,10}}:AA{_W}{{33}}(?!{_W})", 10),
    ("stripe", "k_live_ k_test_", rf"{_B}[sr]k_(?:live|test)_{_A}{{16,}}+", 1),
    ("stripe", "whsec_", rf"{_B}whsec_[A-Za-z0-9+/=]{{32,}}+"),
    ("twilio", "SK", rf"{_B}SK{_H}{{32}}(?![A-Za-z0-9])"),
    ("sendgrid", "SG.", rf"{_B}SG\.{_W}{{16,}}+\.{_W}{{32,}}+"),
    ("mailgun", "key-", rf"{_R}key-{_H}{{32}}(?![A-Za-z0-9])"),
    ("mailchimp", "-us", rf"{_R}{_H}{{32}}-us[0-9]{{1,2}}(?![A-Za-z0-9])", 32),
    ("brevo", "xkeysib-", rf"{_B}xkeysib-{_H}{{64}}-{_A}{{16,}}+"),
    ("resend", "re_", rf"{_R}re_{_A}{{8}}_{_A}{{24}}(?![A-Za-z0-9])"),
    ("square", "sq0csp- sq0atp-", rf"{_B}sq0(?:csp|atp)-{_W}{{22,}}+"),
    ("shopify", "shpat_ shpca_ shppa_ shpss_", rf"{_B}shp(?:at|ca|pa|ss)_{_H}{{32,}}+"),
    # Work and watching.
    ("notion", "ntn_", rf"{_B}ntn_{_A}{{40,}}+"),
    ("linear", "lin_api_", rf"{_B}lin_api_{_A}{{32,}}+"),
    ("figma", "figd_ figo_", rf"{_B}fig[do]_{_W}{{36,}}+"),
    ("airtable", "pat", rf"{_R}pat{_A}{{14}}\.{_H}{{64}}(?![A-Za-z0-9])"),
    ("atlassian", "ATATT3 ATCTT3", rf"{_B}AT[AC]TT3{_W}{{60,}}+(?:={_H}{{8}})?"),
    ("grafana", "glsa_ glc_", rf"{_B}(?:glsa_{_A}{{32}}_{_H}{{8}}|glc_[A-Za-z0-9+/=]{{32,}}+)"),
    ("newrelic", "NRAK-", rf"{_B}NRAK-{_A}{{27,}}+"),
    ("sentry", "sntrys_ sntryu_", rf"{_B}sntry[su]_[A-Za-z0-9+/=_]{{40,}}+"),
    ("postman", "PMAK-", rf"{_B}PMAK-{_H}{{24}}-{_H}{{34}}"),
    ("supabase", "sbp_ sb_secret_", rf"{_B}(?:sbp_{_H}{{40,}}+|sb_secret_{_W}{{20,}}+)"),
    ("age", "AGE-SECRET-KEY-1", rf"{_B}AGE-SECRET-KEY-1[0-9A-Z]{{50,}}+"),
    # Of nobody in particular: three parts of base64, of which the first two are JSON.
    ("jwt", "eyJ", rf"{_R}eyJ{_W}{{8,}}+\.eyJ{_W}{{8,}}+\.{_W}*+"),
)
PROVIDER_SECRETS = tuple(make_pattern(*form) for form in _PROVIDER_FORMS)

_KIND = re.compile("[a-z][a-z0-9_]{0,30}")
_CHARACTERS = re.compile("(?:A-Z|a-z|a-f|A-F|0-9|[_.+/=~-])+")
# Letters that a description fixes at least: less would hide half of every text.
_LEAST = 8
_BEGINS = 3
_MOST = 1_000


class OwnSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form of secrets, as written in TOML (`[[redaction.secret]]`)."""

    kind: str  # the word in the placeholder: small letters, digits, underscores.
    begins: str  # what every such secret begins with, 3 characters or more.
    # what follows it: any of `A-Z`, `a-z`, `0-9` and the signs `_ . + / = ~ -`.
    characters: str = "A-Za-z0-9_-"
    least: int = 16  # how many of them at least.

    def form(self, where: str) -> SecretPattern:
        """Return what finds it; ConfigError where it is no kind, or describes too little."""
        if not _KIND.fullmatch(self.kind):
            raise ConfigError(f"{where}: kind is {self.kind!r}; expected small letters and digits")
        if not _CHARACTERS.fullmatch(self.characters):
            expected = "expected A-Z, a-z, 0-9 and any of _ . + / = ~ -"
            raise ConfigError(f"{where}: characters is {self.characters!r}; {expected}")
        fixed = len(self.begins)
        if fixed < _BEGINS or self.least < 1 or fixed + self.least < _LEAST:
            expected = f"expected {_BEGINS} or more characters, and {_LEAST} or more in all"
            told = f"begins {self.begins!r} and least {self.least}"
            raise ConfigError(f"{where}: {told}; {expected}")
        if self.least > _MOST:
            raise ConfigError(f"{where}: least is {self.least}; expected at most {_MOST}")
        inside = self.characters.replace("-", r"\-")
        for span in ("A-Z", "a-z", "a-f", "A-F", "0-9"):
            inside = inside.replace(span.replace("-", r"\-"), span)
        pattern = rf"(?<![A-Za-z0-9]){re.escape(self.begins)}[{inside}]{{{self.least},}}+"
        found = re.compile(pattern, re.ASCII)
        return SecretPattern(kind=self.kind, marks=(self.begins,), pattern=found)


# Anything that JSON can say. `Any` is the trace's own freedom, not ours.
Json = Any

# Encodings around each other that are looked through.
DEPTH = 3
# A provider's secret stands in a run of such characters, of at least so many.
_LONG = re.compile(r"[A-Za-z0-9+/_=%.:-]{18,}+", re.ASCII)
# One of them is in every secret that its place gives away.
_GATES = ("=", ":", "earer", "EARER", "asic", "-----")
# What a JSON value has to be called, to be looked at with its name, and its shortest text.
_NAME = re.compile("key|secret|token|passw|passphrase|pwd|authorization", re.IGNORECASE)
_SHORTEST = 8
_BY_PROVIDER = patterns_by_mark(PROVIDER_SECRETS)


class Redactor:
    """Finds secrets, and names them under one key."""

    def __init__(self, key: bytes, forms: Iterable[SecretPattern] = ()) -> None:
        self._key = key
        self.look_for(forms)

    def look_for(self, forms: Iterable[SecretPattern]) -> None:
        """Look for the known forms and from now on for these, which are the user's own."""
        own = tuple(forms)
        self._own = patterns_by_mark(own)
        self._elsewhere = patterns_by_mark((*own, *CONTEXT_SECRETS))

    def redact(self, text: str) -> str:
        """Return a text with a placeholder for every secret in it."""
        hits = _merge_matches(self.hits(text))
        pieces: list[str] = []
        at = 0
        for hit in hits:
            pieces += (text[at : hit.start], self.placeholder(hit.kind, hit.secret))
            at = hit.end
        return "".join([*pieces, text[at:]]) if hits else text

    def pieces(self, text: str) -> Iterator[tuple[str, str]]:
        """Yield what `redact` takes out, as it stands in the text, with what it puts there."""
        for hit in _merge_matches(self.hits(text)):
            yield text[hit.start : hit.end], self.placeholder(hit.kind, hit.secret)

    def placeholder(self, kind: str, secret: str) -> str:
        """Return what stands for a secret."""
        return f"[secret:{kind}:{hmac.new(self._key, secret.encode(), sha256).hexdigest()[:4]}]"

    def hits(self, text: str, depth: int = DEPTH) -> list[SecretMatch]:
        """Return the secrets of a text, those of a provider's own form first; they may overlap."""
        found: list[SecretMatch] = []
        runs = _LONG.findall(text)
        if runs:
            joined = "\n".join(runs)
            for mark, forms in _BY_PROVIDER:
                if mark in joined:
                    for one in forms:
                        found += one.hits(text, mark)
            found += aws_pairs(text, found)
        marked = self._own if not any(gate in text for gate in _GATES) else self._elsewhere
        for mark, forms in marked:
            if mark in text:
                for one in forms:
                    found += one.hits(text, mark)
        if depth:
            for view in (json_view(text), percent_view(text), joined_view(text)):
                if view is not None:
                    decoded, starts = view
                    for hit in self.hits(decoded, depth - 1):
                        found.append(hit._replace(start=starts[hit.start], end=starts[hit.end]))
            found += self._encoded_hits(text, depth - 1)
        return found

    def _encoded_hits(self, text: str, depth: int) -> Iterator[SecretMatch]:
        """Yield the pieces of a text that are base64 of something with a secret, in order.

        Where one begins is not always plain (a slash before it is of its alphabet), so it is
        decoded from each of the first four characters on.
        """
        past = 0
        while long := _LONG_BASE64.search(text, past):
            whole = _BASE64.match(text, long.start())
            past = max(long.end() if whole is None else whole.end(), long.end())
            packed = text[long.start() : past].translate(_BREAKS)
            if len(packed) < _SHORTEST_BASE64 or _ENCODED_SIGNS.fullmatch(packed):
                continue
            said = (_decoded(packed[skip:]) for skip in range(4))
            inside = (self.hits(one, depth) for one in said if _READABLE.search(one))
            first = next((hits[0] for hits in inside if hits), None)
            if first is not None:
                yield first._replace(start=long.start(), end=past)


def _merge_matches(hits: list[SecretMatch]) -> list[SecretMatch]:
    """Return hits that do not overlap: of those that do the whole, named by the one found first."""
    kept: list[tuple[int, SecretMatch]] = []
    for order, hit in sorted(enumerate(hits), key=lambda item: (item[1].start, -item[1].end)):
        if kept and hit.start < kept[-1][1].end:
            first, before = kept[-1]
            named = hit if order < first else before
            whole = SecretMatch(before.start, max(before.end, hit.end), named.kind, named.secret)
            kept[-1] = (min(first, order), whole)
        else:
            kept.append((order, hit))
    return [hit for _, hit in kept]


def redact_json(redactor: Redactor, value: Json) -> Json:
    """Return a JSON value in which no text holds a secret; what holds none comes back as it is.

    Keys are texts too, and what a key names is looked at with its name: `{"password": "..."}`. The
    shape stays, so that what cites places in it goes on to do so.
    """
    # Most values hold nothing: those are looked through, and not made anew.
    agenda: list[tuple[str, Json]] = [("", value)]
    keys: set[str] = set()
    clean: set[tuple[str, str]] = set()
    while agenda:
        name, item = agenda.pop()
        if isinstance(item, list | tuple):
            agenda += [(name, member) for member in item]
        elif isinstance(item, dict):
            if any(redactor.redact(key) != key for key in item.keys() - keys):
                return _redacted(redactor, value, "")
            keys |= item.keys()
            agenda += item.items()
        elif isinstance(item, str) and (name, item) not in clean:
            if _redacted_text(redactor, item, name) != item:
                return _redacted(redactor, value, "")
            clean.add((name, item))
    return value


def hide_in(redactor: Redactor | None, value: T) -> T:
    """Return a value of our types without secrets; itself where none is, or no `redactor`."""
    if redactor is None:
        return value
    told = msgspec.json.encode(value).decode()
    return value if redactor.redact(told) == told else _hidden_in(redactor, value)


def _hidden_in(redactor: Redactor, value: Any) -> Any:  # Any: whatever a report is made of
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, tuple | list):
        return type(value)([_hidden_in(redactor, item) for item in value])
    if isinstance(value, dict):
        return {redactor.redact(k): _hidden_in(redactor, item) for k, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        hidden = {name: _hidden_in(redactor, item) for name, item in fields.items()}
        return msgspec.structs.replace(value, **hidden)
    return value


def _redacted_text(redactor: Redactor, text: str, name: str) -> str:
    if not _NAME.search(name):
        return redactor.redact(text) if len(text) >= _SHORTEST else text
    lead = f"{name}="
    found = redactor.redact(lead + text)
    # What was found may reach into the name: then the value is looked at alone.
    return found[len(lead) :] if found.startswith(lead) else redactor.redact(text)


def _redacted(redactor: Redactor, value: Json, name: str) -> Json:
    if isinstance(value, str):
        return _redacted_text(redactor, value, name)
    if isinstance(value, list | tuple):
        made = [_redacted(redactor, item, name) for item in value]
        return value if all(a is b for a, b in zip(made, value, strict=True)) else made
    if isinstance(value, dict):
        pairs: dict[str, Json] = {}
        for key, item in value.items():
            free = redactor.redact(key)
            while free in pairs:
                free += "'"
            pairs[free] = _redacted(redactor, item, key)
        return value if all(pairs.get(key) is item for key, item in value.items()) else pairs
    return value


# What the words of this process are redacted with: a key that lives as long as it.
_own_words = cache(lambda: Redactor(randomness.token_bytes(32)))


def hide_patterns(forms: Iterable[SecretPattern]) -> None:
    """Hide these forms of the settings, too, in what `scrub_message` returns from now on."""
    _own_words().look_for(forms)


def scrub_message(text: str) -> str:
    """Return a message, a log line or an error of this process without secrets."""
    return _own_words().redact(text)


def scrub_value(value: T) -> T:
    """Return a value of our types that this process is to show, without secrets."""
    return hide_in(_own_words(), value)
