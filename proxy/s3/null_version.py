# SPDX-License-Identifier: Apache-2.0
"""The null version of a key, which has the id null in S3 whatever lies above it.

In the pipeline it has that id only while it is current; later it has the id of its time. So the id
of a request is translated once, before anything else is asked about the version. All that follows
names one and the same version, also while others are written, and also at a replica that has missed
a write. The id of the time is null again in the headers of the answer.
"""

from __future__ import annotations

from martlet.http.environ import ANY_NULL
from martlet.http.headers import Headers
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import Answered, ask_app, read_body
from proxy.replicas.versions import NULL, VERSION_ID, VERSION_MARKER
from proxy.s3.call import Call
from proxy.s3.wire.errors import S3Error

_SHOWN = ("x-amz-version-id", "x-amz-copy-source-version-id")


def pipeline_version(call: Call, bucket: str, key: str, version: str) -> str:
    """The id by which the pipeline knows a version.

    :returns: null stays for the null version that is current, and if there is none.
    :raises S3Error: the client is unknown, or too few servers answer.
    """
    if version != NULL:
        return version
    found = _head(call, bucket, key, {"version-id": NULL})
    if not _is_there(found):
        return NULL
    newest = _head(call, bucket, key, {})
    if newest.is_success and VERSION_ID not in newest.headers:  # there are no other versions
        return NULL
    # If nothing is current, what lay above was removed, and the null version may get its id now.
    if _is_there(newest) and newest.headers[VERSION_ID] == NULL:
        return NULL
    name = "x-backend-data-timestamp" if found.is_success else "x-backend-timestamp"
    named = Timestamp(found.headers[name]).internal
    call.null_ids.add(named)
    if call.access is not None:
        call.access.know_null(bucket, key, named)
    return named


def name_null(call: Call, shown: Headers) -> None:
    """Give the null version the id null in the headers of the answer."""
    for name in _SHOWN:
        if shown.get(name) in call.null_ids:
            shown[name] = NULL


def _is_there(found: Answered) -> bool:
    """Whether an answer is about a version, which may be a delete marker."""
    return found.is_success or (found.status == 404 and VERSION_MARKER in found.headers)


def _head(call: Call, bucket: str, key: str, version: dict[str, str]) -> Answered:
    """HEAD of a version, or of what is current, at all replicas.

    A client that may not read may delete, so its 403 does not count.

    :raises S3Error: the client is unknown, or too few servers answer.
    """
    for pre_authorized in (False, True):
        environ = call.request(
            "HEAD",
            bucket,
            key,
            query={**version, "symlink": "get"},
            headers={"x-newest": "true", "x-backend-open-expired": "true"},
            pre_authorized=pre_authorized,
        )
        environ[ANY_NULL] = True
        if pre_authorized:
            found = ask_app(call.app, environ)
        else:
            status, headers, chunks = call.send(environ)
            found = Answered(status, headers, read_body(chunks))
        if found.status != 403:
            break
    if found.status == 401 or found.status >= 500:
        raise call.refusal(found, "HEAD", bucket, key)
    if found.status == 400 and version:
        text = "Object servers of a former release do not know the id null of an old version."
        raise S3Error("ServiceUnavailable", text)
    if found.status == 403:
        raise S3Error("AccessDenied")
    return found
