# SPDX-License-Identifier: Apache-2.0
"""Requests about versions of an object, in the form for the object servers (wire-object.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from martlet.http.environ import VERSION_REQUEST, Environ
from martlet.words.delete_markers import MARKER_ETAG, MARKER_TYPE, NULL_MARKER_ETAG

VERSION_ID = "X-Backend-Version-Id"
VERSION_MARKER = "X-Backend-Version-Marker"
VERSION_RESTORE = "X-Backend-Version-Restore"
VERSION_HIDE = "X-Backend-Version-Hide"

#: The version of an object that was written without versioning.
NULL = "null"
#: The same in a HEAD at the object servers, also if it is not current.
ANY_NULL_ID = "null-any"
#: Before the id of an upload: a version that was made of it, in a HEAD at the object servers.
MADE_OF_ID = "made-of:"
#: Of the proxy's answer to that: fewer devices than a write needs are known to have the version.
MADE_BY_FEW = "X-Backend-Made-By-Few"
#: Its value if most of the primaries did not answer: they may know that the version was removed.
UNKNOWN = "unknown"

_Row = tuple[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """The version that a request names, and the headers that carry it.

    :param path: PATH_INFO of the request that is meant. Other requests ignore it, such as
        sub-requests with another path.
    :param headers: for the object servers.
    :param owner_only: only the owner is allowed; the container's ACLs do not count.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    owner_only: bool = False


_NO_VERSION = VersionRequest("")


def version_request(environ: Environ) -> VersionRequest:
    """The `VersionRequest` of this request. Most requests get an empty one."""
    found: VersionRequest | None = environ.get(VERSION_REQUEST)
    if found is None or found.path != environ["PATH_INFO"]:
        return _NO_VERSION
    return found


def rows_of_put(row: Mapping[str, str], headers: Mapping[str, str]) -> list[_Row]:
    """The container's rows for a PUT, each as method and headers.

    :param row: the row of a PUT without versions.
    :param headers: the headers of the PUT.
    """
    if target := headers.get(VERSION_RESTORE):
        current = {"X-Size": "0", "X-Content-Type": "", "X-Etag": target, VERSION_ID: "current"}
        return [("PUT", {**row, **current})]
    version = headers.get(VERSION_ID)
    return [("PUT", {**row, VERSION_ID: version} if version else dict(row))]


def rows_of_delete(row: Mapping[str, str], headers: Mapping[str, str]) -> list[_Row]:
    """The same for a DELETE."""
    version = headers.get(VERSION_ID)
    if version is None:
        return [("DELETE", dict(row))]
    removal = {**row, VERSION_ID: version}
    if VERSION_MARKER in headers:
        etag = NULL_MARKER_ETAG if version == NULL else MARKER_ETAG
        marker = {"X-Size": "0", "X-Content-Type": MARKER_TYPE, "X-Etag": etag}
        return [("PUT", {**removal, **marker})]
    rows = [("DELETE", removal)]
    if VERSION_HIDE in headers:
        rows.append(("DELETE", {**row, VERSION_ID: "current", "X-Timestamp": version}))
    return rows
