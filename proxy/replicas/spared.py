# SPDX-License-Identifier: Apache-2.0
"""A DELETE that spares large objects: it is refused if segments must be deleted first.

S3 deletes the parts of an object with it. To know whether there are any, s3api would need a request
of its own before each DELETE. Here a question to one replica is enough.
"""

from __future__ import annotations

from martlet.conf.options import is_true
from martlet.http.response import HTTPException, http_error
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.nodes import NodeQueue
from proxy.replicas.versions import NULL, VERSION_ID, VERSION_MARKER
from proxy.wire_headers import WireHeaders

#: The header of a large object, and of the refusal.
LARGE = "X-Static-Large-Object"
_ASKED = ("X-Timestamp", "X-Trans-Id", "X-Backend-Storage-Policy-Index")


def refuse_large(
    core: Core, delete: BackendRequest, nodes: NodeQueue, headers: dict[str, str]
) -> None:
    """Refuse a DELETE that would remove a large object. A version that stays is not removed.

    :param nodes: of the object, for a read.
    :param headers: of the DELETE.
    :raises HTTPException: (409) the object is large; (503) no replica knows.
    """
    if VERSION_MARKER in headers and headers[VERSION_ID] != NULL:
        return  # what is current becomes an old version
    search = Search(core, delete._replace(method="HEAD"), nodes)
    asked = {name: headers[name] for name in _ASKED if name in headers}
    source = search.find(WireHeaders(asked))
    if source is None:
        if search.failure().status != 404:
            raise http_error(503)
        return
    found = source.response.headers
    source.response.close()
    is_kept = found.get(VERSION_ID.lower(), NULL) != NULL
    if is_true(found.get(LARGE.lower())) and not is_kept:
        raise spared_error()


def spared_error() -> HTTPException:
    """The refusal, also of a filter that does not know whether the object is large."""
    return http_error(409, "The object may have segments.", {LARGE: "true"})
