# SPDX-License-Identifier: Apache-2.0
"""PutObject and DeleteObject."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping

from martlet.conf.options import is_true
from martlet.http.environ import UPDATE_FOOTERS, Environ
from martlet.http.headers import Headers, environ_key
from martlet.http.response import Response
from proxy.middleware.subrequest import Answered, ask_app, read_body
from proxy.s3.acl import container_acl_of_header
from proxy.s3.bodies import content_md5, framing, open_body
from proxy.s3.call import Call, empty
from proxy.s3.listing import is_delete_marker
from proxy.s3.object_headers import (
    CHECKSUM,
    quoted,
    stored_headers,
)
from proxy.s3.objects import version_query
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.checksums import PREFIX as CHECKSUM_PREFIX
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import CheckedBody, Framing, RefusedBody

_DEFAULT_TYPE = "binary/octet-stream"
_UNSUPPORTED_CONDITIONS = ("if-match", "if-modified-since", "if-unmodified-since")


def put_object(call: Call) -> Response:
    """PutObject."""
    check_key(call.key)
    container_acl_of_header(call)  # objects have the ACL of their bucket
    headers = stored_headers(call.headers)
    headers.setdefault("content-type", _DEFAULT_TYPE)
    headers |= write_condition(call)
    stored, checksum = store(call, call.bucket, call.key, headers)
    shown = {"ETag": quoted(stored["etag"].strip('"')), **checksum}
    if "x-object-version-id" in stored:
        shown["x-amz-version-id"] = stored["x-object-version-id"]
    return empty(200, shown)


def write_condition(call: Call) -> dict[str, str]:
    """The header for a write that is to happen only if there is no object.

    :raises S3Error: the request has another condition, which would not be atomic.
    """
    none_match = call.headers.get("if-none-match", "*").strip()
    if none_match != "*" or any(name in call.headers for name in _UNSUPPORTED_CONDITIONS):
        raise S3Error("NotImplemented", "The only condition of a write is If-None-Match: *.")
    return {"if-none-match": "*"} if "if-none-match" in call.headers else {}


def store(
    call: Call, bucket: str, key: str, headers: Mapping[str, str]
) -> tuple[Headers, dict[str, str]]:
    """PUT the body of the request as an object.

    :returns: the headers of the answer, and those about the checksum.
    :raises S3Error: nothing was stored.
    """
    form = framing(call)
    if form.length is None:
        raise S3Error("MissingContentLength")
    md5 = content_md5(call)
    body = open_body(call, form)
    environ = call.request("PUT", bucket, key, headers=headers)
    environ["CONTENT_LENGTH"] = str(form.length)
    environ["wsgi.input"] = body
    if md5 is not None:
        environ["HTTP_ETAG"] = md5
    _keep_checksum(environ, body, form)
    if form.length == 0:
        _check_empty(environ, body, form)
    status, stored, chunks = call.send(environ)
    answer = Answered(status, stored, read_body(chunks))
    if body.failure is not None:
        raise call.with_claim(body.failure)
    if not answer.is_success:
        error = call.refusal(answer, "PUT", bucket, key)
        if error.code == "BadDigest" and md5 is not None:
            error.fields["ExpectedDigest"] = md5
        raise error
    return stored, _shown_sum(body, form)


def _keep_checksum(environ: Environ, body: CheckedBody, form: Framing) -> None:
    """Store the checksum with the object; one in a trailer is known after the body."""
    if form.checksum is not None:
        environ[environ_key(CHECKSUM)] = f"{form.algorithm}={form.checksum}"
    elif form.has_trailer:

        def add(footers: MutableMapping[str, str]) -> None:
            footers[CHECKSUM] = f"{form.algorithm}={body.checksum}"

        environ[UPDATE_FOOTERS] = add


def _check_empty(environ: Environ, body: CheckedBody, form: Framing) -> None:
    """Check a body without bytes: a write of no bytes does not read it.

    :raises S3Error: it is not the one that was signed.
    """
    # Of a chunk, the key of the signature is not known yet. And the pipeline answers a conditional
    # write of no bytes without its ETag. In both cases let the write read to the end.
    if form.is_chunked or "HTTP_IF_NONE_MATCH" in environ:
        del environ["CONTENT_LENGTH"]
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
        return
    try:
        body.read(1)
    except RefusedBody as refused:
        raise refused.error from None


def _shown_sum(body: CheckedBody, form: Framing) -> dict[str, str]:
    if not form.algorithm or not body.checksum:
        return {}
    name = f"{CHECKSUM_PREFIX}{form.algorithm}"
    return {name: body.checksum, "x-amz-checksum-type": "FULL_OBJECT"}


def delete_object(call: Call) -> Response:
    """DeleteObject, also of one version."""
    check_key(call.key)
    headers = delete(call, call.key, version_query(call))
    return empty(204, headers)


def delete(call: Call, key: str, version: Mapping[str, str]) -> dict[str, str]:
    """Delete an object or the version that the query ``version`` selects.

    :returns: the headers about versions for the client.
    :raises S3Error: it was not deleted; it is no error if there is none.
    """
    query = {**version, "symlink": "get"} if version else {}
    if _has_parts(call, key, version):
        query["multipart-manifest"] = "delete"
    accept = {"accept": "application/json"}
    answer = call.ask("DELETE", call.bucket, key, query=query, headers=accept, allowed=(404, 400))
    if answer.status == 404:
        call.info(call.bucket)  # the bucket may be what is missing
    if answer.status == 400 and not _names_no_version(call, version):
        raise call.refusal(answer, "DELETE", call.bucket, key)
    if "multipart-manifest" in query and answer.status == 200:
        _check_parts(answer.body)
    given = answer.headers.get("x-object-version-id")
    is_version_gone = bool(version) and answer.headers.get("x-object-current-version-id") == "null"
    if is_version_gone or version.get("version-id") == "null":
        _make_newest_current(call, key)
    if version:
        return {"x-amz-version-id": version["version-id"]}
    return {"x-amz-version-id": given, "x-amz-delete-marker": "true"} if given else {}


def _has_parts(call: Call, key: str, version: Mapping[str, str]) -> bool:
    """Whether a DELETE must delete the segments of a large object too.

    It must not where the object becomes an old version. A client that may write and not read may
    delete, so its 403 does not count.
    """
    found = call.ask("HEAD", call.bucket, key, query=version, allowed=(400, 403, 404))
    if not version and call.is_enabled(call.bucket):
        return False
    if found.status == 403:
        head = call.request("HEAD", call.bucket, key, query=version, pre_authorized=True)
        found = ask_app(call.app, head)
    return is_true(found.headers.get("x-static-large-object"))


def _names_no_version(call: Call, version: Mapping[str, str]) -> bool:
    """Whether a version was named although the bucket never had any."""
    return bool(version) and not call.is_versioned(call.bucket)


def _check_parts(body: bytes) -> None:
    """:raises S3Error: a part was not deleted, so the object is still there."""
    try:
        failures = json.loads(body).get("Errors", [])
    except (ValueError, AttributeError):
        failures = []
    if failures:
        raise S3Error("ServiceUnavailable", "Not all parts of the object could be deleted.")


def _make_newest_current(call: Call, key: str) -> None:
    """Make the newest version current, after the current one was deleted.

    In Swift's API no version is current from then on; in S3 the newest that is left is. If that
    is a delete marker, the object stays deleted.
    """
    rows = call.listing(call.bucket, {"versions": "true", "prefix": key, "limit": "2"})
    for row in rows:
        if row["name"] != key or is_delete_marker(row) or row.get("version_id") == "null":
            return
        query = {"version-id": row["version_id"]}
        answer = call.ask("PUT", call.bucket, key, query=query, allowed=(404, 412))
        if answer.is_success:
            return
