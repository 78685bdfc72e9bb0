"""Names on the wire: account, container and object names as text, as bytes and as WSGI strings.

A name is any UTF-8 text without NUL. WSGI (PEP 3333) passes its bytes as a ``str`` in which each
character is one byte. So every value from ``environ`` is converted with ``wsgi_to_str`` before use,
and every header value that is sent with ``str_to_wsgi``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

# Control characters would end a header or a request line early.
_UNSAFE_IN_REQUEST_LINE = re.compile(rb"[^A-Za-z0-9/_.~\-]")


class BadNameError(ValueError):
    """The name is not UTF-8, or contains a NUL; the message may be sent to the client."""


def wsgi_to_str(value: str) -> str:
    """The text of a WSGI string.

    :raises BadNameError: the bytes are not UTF-8.
    """
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise BadNameError("The name is not valid UTF-8.") from None


def str_to_wsgi(value: str) -> str:
    """The WSGI string of a text."""
    return value if value.isascii() else value.encode("utf-8").decode("latin-1")


def check_text(value: str) -> str:
    """Return ``value`` if it is a legal name.

    :raises BadNameError: it contains a NUL or half of a surrogate pair.
    """
    if "\x00" in value:
        raise BadNameError("The name contains a NUL character.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise BadNameError("The name is not valid UTF-8.") from None
    return value


def quote_path(path: str, safe: str = "/") -> str:
    """Percent-encode a text path for a request line."""
    raw = path.encode("utf-8", "surrogateescape")
    if safe == "/" and not _UNSAFE_IN_REQUEST_LINE.search(raw):
        return path
    return quote(raw, safe=safe)


def split_path(
    path: str, minsegs: int = 1, maxsegs: int | None = None, rest_with_last: bool = False
) -> list[str | None]:
    """Split ``/a/c/o`` into its segments, padded with None up to ``maxsegs``.

    With ``rest_with_last`` the last segment takes the rest of the path with its slashes, as object
    names contain slashes. Other segments must not be empty. A trailing slash after fewer than
    ``maxsegs`` segments is ignored.

    :raises ValueError: the path has too few, too many or empty segments.
    """
    most = minsegs if maxsegs is None else maxsegs
    if rest_with_last and minsegs <= most:
        whole = _whole_path(path, most)
        if whole is not None:
            return [*whole]
    return _segments(path, minsegs, most, rest_with_last)


@lru_cache(64)  # each filter of a pipeline splits the same path
def _whole_path(path: str, count: int) -> list[str] | None:
    """The segments of a path that has ``count`` or more, none of them empty."""
    if path[:1] != "/":
        return None
    segments = path[1:].split("/", count - 1)
    return segments if len(segments) == count and "" not in segments else None


def _segments(path: str, minsegs: int, maxsegs: int, rest_with_last: bool) -> list[str | None]:
    if minsegs > maxsegs:
        raise ValueError(f"minsegs {minsegs} > maxsegs {maxsegs}")
    if not path.startswith("/"):
        raise ValueError(f"Invalid path: {quote(path)}")
    parts: list[str | None]
    if rest_with_last:
        parts = list(path[1:].split("/", maxsegs - 1))
    else:
        parts = list(path[1:].split("/", maxsegs))
        if len(parts) > maxsegs:
            if parts[-1]:
                raise ValueError(f"Invalid path: {quote(path)}")
            parts.pop()
    if len(parts) > minsegs and not parts[-1]:
        parts[-1] = None
    required = parts[:minsegs]
    if len(required) < minsegs or not all(required) or "" in parts:
        raise ValueError(f"Invalid path: {quote(path)}")
    return [*parts, *[None] * (maxsegs - len(parts))]
