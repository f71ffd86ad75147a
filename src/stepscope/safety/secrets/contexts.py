"""Secrets that only their place gives away: headers, addresses, blocks, and names of keys.

What stands there must also look like a secret where the place alone would not do: prose says
"password: required" and "Bearer authentication". Placeholders of any kind are left alone.
Sources: RFC 9110 section 11.6, RFC 7617, RFC 6750 (headers); RFC 3986 section 3.2.1 (addresses);
RFC 7468 (PEM); the documents of Azure Storage and of AWS for their key pairs.
"""

from __future__ import annotations

import base64
import binascii
import re

from stepscope.safety.secrets.form import Form, Hit, form

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

CONTEXTS: tuple[Form, ...] = (
    form(
        "pem",
        "PRIVATE",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"\s*+(?:[A-Za-z-]{1,40}: [^\r\n]{0,200}+\s*+){0,8}"
        r"(?:[A-Za-z0-9+/=]{16,}+\s*+)++[A-Za-z0-9+/=]*+\s*+"
        r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        back=60,
    ),
    form("bearer", "earer", r"[Bb]earer[ :=]{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)", back=1,
         accepts=_mixed),
    form("bearer", "EARER", r"BEARER[ :=]{1,3}(?P<secret>[A-Za-z0-9._~+/-]{16,}+=*+)", back=1,
         accepts=_mixed),
    form("basic", "asic", r"[Bb]asic[ ]{1,2}(?P<secret>[A-Za-z0-9+/_-]{8,}+={0,2})", back=1,
         accepts=_pair),
    form(
        "authorization",
        "uthorization UTHORIZATION",
        r"(?:[Aa]uthorization|AUTHORIZATION)" + _SET_TO
        + r"(?:(?i:bearer|token|apikey|key|basic|negotiate|digest)[ ]{1,2})?"
        + _VALUE % 16,
        back=1,
        accepts=_mixed,
    ),
    form(
        "userinfo",
        "://",
        r"""://[^\s/?#@:"'<>\\]{0,200}:(?P<secret>[^\s/?#@"'<>\\\[\]]{1,400})@(?=[\w.\[-])""",
    ),
    form(
        "userinfo",
        "://",
        r"""://(?P<secret>[^\s/?#@:"'<>\\\[\]]{16,400})@(?=[\w.\[-])""",
        accepts=_mixed,
    ),
    form("azure", "ccountKey= haredAccessKey=",
         r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,}+={0,2})", back=1),
    form("azure", "sig=", r"(?<![A-Za-z0-9_])sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}+={0,2})"),
    form("key", "key Key KEY", "(?i:key)" + _MORE + _SET_TO + _VALUE % 12,
         before=_KEY_OF, accepts=_valued),
    form("key", "ecret ECRET", "(?i:ecret)" + _MORE + _SET_TO + _VALUE % 12,
         before=_SECRET_OF, accepts=_valued),
    form("key", "oken OKEN", "(?i:oken)" + _MORE + _SET_TO + _VALUE % 12,
         before=_TOKEN_OF, accepts=_valued),
    form("password", "assw ASSW", r"(?i:assw(?:or)?d)" + _SET_TO + _VALUE % 6,
         before="[Pp]$", accepts=_valued),
    form("password", "assphrase ASSPHRASE", r"(?i:assphrase)" + _SET_TO + _VALUE % 6,
         before="[Pp]$", accepts=_valued),
    form("password", "pwd PWD Pwd", r"(?i:pwd)" + _SET_TO + _VALUE % 6,
         before=r"(?<![A-Za-z])$", accepts=_valued),
)  # fmt: skip


def aws_pairs(text: str, hits: list[Hit]) -> list[Hit]:
    """Return the secret halves that stand near the access key ids that were found."""
    found = []
    for hit in hits:
        if hit.kind != "aws":
            continue
        for near in _AWS_SECRET.finditer(text, hit.end, hit.end + _AWS_NEAR):
            if _mixed(near[0]) and not _HEX.fullmatch(near[0]):
                found.append(Hit(near.start(), near.end(), "aws", near[0]))
    return found
