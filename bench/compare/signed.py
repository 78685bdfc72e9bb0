# SPDX-License-Identifier: Apache-2.0
"""Single requests through S3, of the workloads that do more than the measured steps."""

from __future__ import annotations

import hashlib
import http.client
from typing import NamedTuple

from load import HOST

from compare.apis import Target

TIMEOUT_SECONDS = 600.0
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SIGNED_BYTES_MAX = 1 << 20


class Refused(Exception):
    """A peer does not do what a workload needs; the text is its answer."""


class Said(NamedTuple):
    """An answer."""

    headers: http.client.HTTPMessage
    body: bytes


def must(
    target: Target, method: str, path: str, query: str = "", body: bytes | memoryview = b""
) -> Said:
    """Send a signed request that must succeed. The hash of a long body is not a part of it.

    :raises Refused: it was answered with an error, or not at all.
    """
    url = f"{path}?{query}" if query else path
    is_long = len(body) > _SIGNED_BYTES_MAX
    sha256 = _UNSIGNED if is_long else hashlib.sha256(body).hexdigest()
    headers = target.access.headers(method, url, sha256)
    connection = http.client.HTTPConnection(HOST, target.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, url, body=body or None, headers=headers)
        answer = connection.getresponse()
        said = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Refused(f"{method} {url}: {error!r}") from error
    finally:
        connection.close()
    if answer.status // 100 != 2:
        raise Refused(f"{method} {url} answered {answer.status}: {said[:200]!r}")
    return Said(answer.headers, said)
