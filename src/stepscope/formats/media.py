"""Images, audio and files in messages: parts with type, size and hash; a link is never followed."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256

from stepscope.model import Json, Part, PartKind


def data_part(
    kind: PartKind, media_type: str | None, data: str, *, extra: dict[str, Json] | None = None
) -> Part:
    """Return a part holding base64 `data`; size in bytes and hash are of what it decodes to.

    Text that is no base64 is kept as it is, without size and hash.
    """
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Part(kind, media_type=media_type, data=data, extra=extra)
    return Part(
        kind,
        media_type=media_type,
        size=len(content),
        sha256=sha256(content).hexdigest(),
        data=data,
        extra=extra,
    )


def url_part(kind: PartKind, url: str, *, extra: dict[str, Json] | None = None) -> Part:
    """Return a part for a URL: a `data:` URL is taken apart, any other is only kept.

    >>> url_part("image", "data:image/png;base64,aGk=").size
    2
    """
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return data_part(kind, head[5:-7] or None, data, extra=extra)
    return Part(kind, uri=url, extra=extra)
