# SPDX-License-Identifier: Apache-2.0
"""Metadata of an account or container: each value with the timestamp of the write that set it.

Stored as JSON ``{"X-Container-Meta-Color": ["blue", "1795223541.91251"], ...}``. A removal sets the
value to the empty string, so that it has a timestamp, too, and wins over older writes. Only the
latest removals are kept. If a write is older than a discarded removal and arrives after it, the
write is accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable

from martlet.conf.constraints import ConstraintError, Constraints
from martlet.http.headers import RequestHeaders
from martlet.words.names import BadNameError, str_to_wsgi, wsgi_to_str

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: The number of latest removals that are kept. A client may remove any number of names that never
#: existed, and each answer reads all stored names.
REMOVED_MAX = 200

#: name -> (value, internal timestamp)
Metadata = dict[str, tuple[str, str]]


def parse_metadata(text: str) -> Metadata:
    """Parse the metadata column of a database."""
    return {k: (v, stamp) for k, (v, stamp) in json.loads(text).items()} if text else {}


def merge_metadata(stored: Metadata, updates: Metadata) -> Metadata | None:
    """Merge newer updates into ``stored``; None if there are none.

    Of two values with the same timestamp the greater wins, so that all replicas agree.
    """
    merged = dict(stored)
    for name, (value, stamp) in updates.items():
        if name not in merged or (stamp, value) > merged[name][::-1]:
            merged[name] = value, stamp
    removed = [name for name, (value, _) in merged.items() if value == ""]
    if len(removed) > REMOVED_MAX:
        removed.sort(key=lambda name: (merged[name][1], name))
        for name in removed[:-REMOVED_MAX]:
            del merged[name]
    return merged if merged != stored else None


def dump_metadata(metadata: Metadata) -> str:
    """The text for the metadata column."""
    return json.dumps(metadata)


def check_total(metadata: Metadata, target: str, limits: Constraints) -> None:
    """Check the user metadata of one account or container against the limits of count and size.

    :raises ConstraintError: (400) over a limit.
    """
    values = {name: value for name, (value, _) in metadata.items()}
    limits.check_metadata_total(f"x-{target}-meta-", values)


def metadata_of_request(
    headers: RequestHeaders, target: str, saved: Collection[str], stamp: str
) -> Metadata:
    """The metadata that a request sets: of ``target``, user and system, and headers in ``saved``.

    ``X-Remove-<name>`` with any value sets the name to the empty string.

    :raises ConstraintError: (400) a value is not UTF-8.
    """
    updates: Metadata = {}
    prefixes = (f"x-{target}-meta-", f"x-{target}-sysmeta-")
    for header, raw in headers.items():
        name, value = header, raw
        if header.startswith("X-Remove-"):
            name, value = "X-" + header[len("X-Remove-") :], ""
        lowered = name.lower()
        has_prefix = lowered.startswith(prefixes) and lowered not in prefixes
        if not has_prefix and lowered not in saved:
            continue
        try:
            updates[wsgi_to_str(name)] = wsgi_to_str(value), stamp
        except BadNameError:
            raise ConstraintError("Metadata must be valid UTF-8") from None
    return updates


def shown_metadata(metadata: Metadata) -> Iterable[tuple[str, str]]:
    """The (name, WSGI value) pairs for a response: every value that has not been removed.

    Control characters, which other servers may have stored, become spaces: in a header they would
    make the answer invalid.
    """
    for name, (value, _) in metadata.items():
        if value != "":
            yield str_to_wsgi(name), str_to_wsgi(_CONTROL.sub(" ", value))
