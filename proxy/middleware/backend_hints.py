# SPDX-License-Identifier: Apache-2.0
"""What a filter tells the object servers about objects that stand for something else.

Sent only where it matters, for nearly all objects are plain ones.
"""

from __future__ import annotations

from martlet.http.environ import Environ

_IGNORE_RANGE = "HTTP_X_BACKEND_IGNORE_RANGE_IF_METADATA_PRESENT"
_ETAG_IS_AT = "HTTP_X_BACKEND_ETAG_IS_AT"


def ignore_range_of(environ: Environ, name: str) -> None:
    """A Range is not about the bytes of an object that has the header ``name``: send them all."""
    if "HTTP_RANGE" in environ:
        _append(environ, _IGNORE_RANGE, name)


def etag_is_at(environ: Environ, name: str) -> None:
    """Conditions are about the value of the header ``name``, where an object has it."""
    if "HTTP_IF_MATCH" in environ or "HTTP_IF_NONE_MATCH" in environ:
        _append(environ, _ETAG_IS_AT, name)


def _append(environ: Environ, key: str, name: str) -> None:
    """Both are lists: another filter may have put something there, which goes before ours."""
    known = environ.get(key)
    environ[key] = f"{known},{name}" if known else name
