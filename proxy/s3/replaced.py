# SPDX-License-Identifier: Apache-2.0
"""Metadata of an object that change without a new object: its tags and its ACL.

A POST replaces all metadata. So the others are sent again, on the condition that the object is
still the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from martlet.http.headers import Headers
from proxy.headers import IF_TIMESTAMP
from proxy.s3.call import Call
from proxy.s3.object_headers import STORED
from proxy.s3.objects import head_version
from proxy.s3.wire.errors import S3Error

_VERSION = "x-object-version-id"
#: What a POST replaces beside metadata.
_REPLACED = frozenset({*STORED, "x-delete-at"})
_REPLACED_PREFIXES = ("x-object-meta-", "x-object-transient-sysmeta-")


def replace_metadata(call: Call, changes: Mapping[str, str]) -> dict[str, str]:
    """Change headers of the object, which must be the current version.

    :returns: the headers about its version for the client.
    :raises S3Error: it is not the current version, or it has changed meanwhile.
    """
    stored = head_version(call)
    headers = {
        name: value
        for name, value in stored.items()
        if name.lower() in _REPLACED or name.lower().startswith(_REPLACED_PREFIXES)
    }
    changed = {name.lower() for name in changes}
    headers = {name: value for name, value in headers.items() if name.lower() not in changed}
    headers |= changes
    current = stored if call.params.get("versionId") is None else _current(call, stored)
    since = current.get("x-backend-data-timestamp")
    if since is not None:
        headers[IF_TIMESTAMP] = since
    answer = call.ask("POST", call.bucket, call.key, headers=headers, allowed=(412,))
    if answer.status == 412:
        raise S3Error("OperationAborted")
    return version_of(stored)


def _current(call: Call, stored: Headers) -> Headers:
    """The headers of the current version, which tell since when it is current.

    :raises S3Error: it is not the version with the headers ``stored``.
    """
    found = call.ask("HEAD", call.bucket, call.key, headers={"x-newest": "true"}, allowed=(404,))
    # Several versions have had the id null.
    named = [(h.get(_VERSION, "null"), h.get("x-timestamp")) for h in (stored, found.headers)]
    if found.status == 404 or named[0] != named[1]:
        text = "Only the tags and the ACL of the current version can be changed."
        raise S3Error("NotImplemented", text)
    return found.headers


def version_of(stored: Headers) -> dict[str, str]:
    """The headers about a version for the client."""
    version = stored.get(_VERSION)
    return {"x-amz-version-id": version} if version else {}
