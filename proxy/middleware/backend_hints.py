# SPDX-License-Identifier: Apache-2.0
"""Headers with which a filter tells object servers about objects that stand for others.

They are sent only where they have an effect: nearly all objects are plain ones.
"""

from __future__ import annotations

from martlet.http.environ import Environ

_IGNORE_RANGE = "HTTP_X_BACKEND_IGNORE_RANGE_IF_METADATA_PRESENT"
_ETAG_IS_AT = "HTTP_X_BACKEND_ETAG_IS_AT"


def ignore_range_of(environ: Environ, name: str) -> None:
    """Ignore Range for an object that has the header ``name``: the server sends all its bytes."""
    if "HTTP_RANGE" in environ:
        _append(environ, _IGNORE_RANGE, name)


def etag_is_at(environ: Environ, name: str) -> None:
    """Compare conditions with the value of the header ``name``, if the object has that header."""
    if "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ:
        _append(environ, _ETAG_IS_AT, name)


def _append(environ: Environ, key: str, name: str) -> None:
    """Append to a header that is a list; entries of other filters take precedence."""
    known = environ.get(key)
    environ[key] = f"{known},{name}" if known else name
