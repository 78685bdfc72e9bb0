# SPDX-License-Identifier: Apache-2.0
"""PutObject and DeleteObject."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import NamedTuple

from martlet.conf.options import is_true
from martlet.http.environ import SPARES_LARGE, SPARES_VERSIONS, UPDATE_FOOTERS, Environ
from martlet.http.headers import Headers, environ_key
from martlet.http.response import Response
from proxy.middleware.subrequest import Answered, ask_app, close_body, read_body
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.replicas.locks import LOCK_BYPASS, LOCK_MODE
from proxy.replicas.spared import LARGE
from proxy.replicas.versions import NULL
from proxy.s3.acl import object_acl_of_header
from proxy.s3.bodies import content_md5, framing, open_body
from proxy.s3.call import Call, empty
from proxy.s3.conditions import Condition, check_done, condition_of
from proxy.s3.customer_keys import Sealing, sealing_of
from proxy.s3.encryption import encrypts, shown_encryption
from proxy.s3.lifecycle import expiration_of_new
from proxy.s3.listing import is_delete_marker
from proxy.s3.lock_headers import bypass_header, lock_headers, refuse_locked
from proxy.s3.null_version import pipeline_version
from proxy.s3.object_headers import (
    CHECKSUM,
    TAGGING,
    quoted,
    row_class,
    stored_headers,
)
from proxy.s3.objects import version_query
from proxy.s3.tagging import tagging_header
from proxy.s3.unused_parts import NO_PARTS, Parts, drop_parts, own_parts
from proxy.s3.uploads import Upload
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.checksums import DEFAULT_ALGORITHM
from proxy.s3.wire.checksums import PREFIX as CHECKSUM_PREFIX
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import CheckedBody, Framing, RefusedBody

_DEFAULT_TYPE = "binary/octet-stream"


def put_object(call: Call) -> Response:
    """PutObject."""
    check_key(call.key)
    acl = object_acl_of_header(call)
    headers = stored_headers(call.headers) | tagging_header(call.headers) | acl
    headers.setdefault("content-type", _DEFAULT_TYPE)
    headers |= condition_of(call).headers_for(call, call.key) | lock_headers(call, has_body=True)
    headers |= row_class(headers)
    sealing = sealing_of(call)
    stored, checksum, size = store(call, call.bucket, call.key, headers, sealing=sealing)
    shown = {"ETag": quoted(stored["etag"].strip('"')), **checksum, **shown_encryption(sealing)}
    shown |= expiration_of_new(call, size, headers.get(TAGGING))
    if "x-object-version-id" in stored:
        shown["x-amz-version-id"] = stored["x-object-version-id"]
    return empty(200, shown)


class Stored(NamedTuple):
    """The object that `store` wrote.

    :param headers: of the answer.
    :param checksum: the headers about the checksum.
    :param size: of the body in bytes.
    """

    headers: Headers
    checksum: dict[str, str]
    size: int


def store(
    call: Call,
    bucket: str,
    key: str,
    headers: Mapping[str, str],
    algorithm: str = "",
    sealing: Sealing | None = None,
) -> Stored:
    """PUT the body of the request as an object.

    :param algorithm: of the checksum that it must have; computed if the client states none.
    :param sealing: the encryption with the client's key.
    :raises S3Error: nothing was stored.
    """
    form = framing(call)
    if form.length is None and not call.is_form:
        raise S3Error("MissingContentLength")
    # A checksum tells something of the body, so an encrypted one gets none that is not asked for.
    is_encrypted = sealing is not None or encrypts()
    form = _with_checksum(form, algorithm, "" if is_encrypted else DEFAULT_ALGORITHM)
    md5 = content_md5(call)
    body = open_body(call, form)
    sent = {**headers, **sealing.headers} if sealing else headers
    environ = call.request("PUT", bucket, key, headers=sent)
    _announce(environ, form.length)
    environ["wsgi.input"] = sealing.body(body, form.length, md5) if sealing else body
    if md5 is not None and not (sealing and form.length):
        environ["HTTP_ETAG"] = md5
    _keep_checksum(environ, body, form)
    if form.length == 0:
        _check_empty(environ, body, form)
    status, stored, chunks = call.send(environ)
    answer = Answered(status, stored, read_body(chunks))
    if body.failure is not None:
        raise call.with_claim(body.failure)
    check_done(answer, headers)
    if not answer.is_success:
        error = call.refusal(answer, "PUT", bucket, key)
        if error.code == "BadDigest" and md5 is not None:
            error.fields["ExpectedDigest"] = md5
        raise error
    return Stored(stored, _shown_sum(body, form), body.size)


def _announce(environ: Environ, length: int | None) -> None:
    """Set the length of the body of a write; None if it is not known."""
    environ.pop("CONTENT_LENGTH", None)
    if length is None:
        environ["HTTP_TRANSFER_ENCODING"] = "chunked"
    else:
        environ["CONTENT_LENGTH"] = str(length)


def _with_checksum(form: Framing, algorithm: str, default: str) -> Framing:
    """The form with the checksum that is stored.

    :param algorithm: of the upload; empty: any.
    :param default: if neither the upload nor the client names one; empty: none.
    :raises S3Error: the body has a checksum of another algorithm.
    """
    if form.algorithm is None:
        return form._replace(algorithm=algorithm or default or None)
    if algorithm not in ("", form.algorithm):
        text = "Checksum Type mismatch occurred, expected checksum Type: "
        text += f"{algorithm}, actual checksum Type: {form.algorithm}"
        raise S3Error("InvalidRequest", text)
    return form


def _keep_checksum(environ: Environ, body: CheckedBody, form: Framing) -> None:
    """Store the checksum with the object; one in a trailer is known after the body."""
    if form.checksum is not None:
        environ[environ_key(CHECKSUM)] = f"{form.algorithm}={form.checksum}"
    elif form.algorithm is not None:

        def add(footers: MutableMapping[str, str]) -> None:
            footers[CHECKSUM] = f"{form.algorithm}={body.checksum}"

        environ[UPDATE_FOOTERS] = add


def _check_empty(environ: Environ, body: CheckedBody, form: Framing) -> None:
    """Check a body without bytes: a write of no bytes does not read it.

    :raises S3Error: it is not the one that was signed.
    """
    # Of a chunk, the key of the signature is not known yet. And the pipeline answers a conditional
    # write of no bytes without its ETag. In both cases let the write read to the end.
    is_conditional = {"HTTP_IF_NONE_MATCH", "HTTP_X_BACKEND_IF_TIMESTAMP"} & environ.keys()
    if form.is_chunked or is_conditional:
        _announce(environ, None)
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
    headers = delete(call, call.key, version_query(call), condition_of(call))
    return empty(204, headers)


def delete(
    call: Call, key: str, version: Mapping[str, str], condition: Condition
) -> dict[str, str]:
    """Delete an object or the version that the query ``version`` selects.

    :returns: the headers about versions for the client.
    :raises S3Error: it was not deleted; without a condition, it is no error if there is none.
    """
    if not version:
        call.leave_null_marker(key)
    if condition != Condition():
        return _delete_conditionally(call, key, version, condition)
    headers = {"accept": "application/json", **bypass_header(call)}
    answer = None if version else _delete_without_parts(call, key, headers)
    is_report = False
    if answer is None:
        answer, is_report = _delete_with_parts(call, key, version, headers)
    if answer.status == 404 and (named := _null_since(call, key, version)):
        return delete(call, key, named, condition)
    if answer.status == 400 and not _names_no_version(call, version):
        raise call.refusal(answer, "DELETE", call.bucket, key)
    given = answer.headers.get("x-object-version-id")
    if is_report and not version and call.is_suspended(call.bucket):
        given = "null"  # the answer is a report, which does not say so
    current = answer.headers.get("x-object-current-version-id")  # a report does not say it
    if version and current in (None, "null") and call.is_versioned(call.bucket):
        _make_newest_current(call, key, version["version-id"], has_id=current is None)
    if version:
        was_marker = answer.headers.get("x-backend-version-marker")
        marker = {"x-amz-delete-marker": "true"} if was_marker else {}
        return {"x-amz-version-id": version["version-id"], **marker}
    return {"x-amz-version-id": given, "x-amz-delete-marker": "true"} if given else {}


def _delete_with_parts(
    call: Call, key: str, version: Mapping[str, str], headers: Mapping[str, str]
) -> tuple[Answered, bool]:
    """DELETE of an object that may have parts.

    :returns: the answer, of any success, 400 or 404, and whether it is a report of slo.
    :raises S3Error: it was not deleted, or not all of its segments.
    """
    query = {**version, "symlink": "get"} if version else {}
    doomed = _find_parts(call, key, version, headers)
    if doomed.are_of_slo:
        query["multipart-manifest"] = "delete"
    if version.get("version-id") == NULL:
        call.base[SPARES_VERSIONS] = True
    allowed = (404, 400)
    answer = call.ask("DELETE", call.bucket, key, query=query, headers=headers, allowed=allowed)
    if doomed.are_of_slo and answer.status == 200:
        _check_parts(answer.body)
    if answer.is_success:
        drop_parts(call, doomed)
    return answer, doomed.are_of_slo


def _null_since(call: Call, key: str, version: Mapping[str, str]) -> dict[str, str]:
    """The query for the null version if it is not current any more; empty if there is none.

    Something may have been written over it since the request was translated, or it has got an id.

    :raises S3Error: the bucket is what is missing.
    """
    call.info(call.bucket)
    if version.get("version-id") != NULL:
        return {}
    named = pipeline_version(call, call.bucket, key, NULL)
    return {} if named == NULL else {"version-id": named}


def _delete_conditionally(
    call: Call, key: str, version: Mapping[str, str], condition: Condition
) -> dict[str, str]:
    """Delete the object if it is the one meant; the parts of a large object go after it."""
    if version:  # a version never changes
        condition.check(call.ask("HEAD", call.bucket, key, query=version).headers)
        return delete(call, key, version, Condition())
    headers = condition.headers_for(call, key)
    if "if-none-match" in headers:  # there is nothing to delete
        return {}
    doomed = _find_parts(call, key, {}, {})
    parts = parts_of_manifest(call, key) if doomed.are_of_slo else []
    answer = call.ask("DELETE", call.bucket, key, headers=headers, allowed=(202, 404, 409, 412))
    check_done(answer, headers)
    if answer.status == 404 and call.info(call.bucket):
        raise S3Error("NoSuchKey", fields={"Key": key})
    if answer.is_success:
        drop_parts(call, doomed)
    for container, name in parts:
        call.ask("DELETE", container, name, allowed=(404,))
    given = answer.headers.get("x-object-version-id")
    return {"x-amz-version-id": given, "x-amz-delete-marker": "true"} if given else {}


def parts_of_manifest(
    call: Call, key: str, version: Mapping[str, str] = MappingProxyType({})
) -> list[tuple[str, str]]:
    """The containers and names of the parts of a large object, none for another object.

    :param version: the query that selects a version.
    """
    found = call.ask("HEAD", call.bucket, key, query=version).headers
    if not is_true(found.get("x-static-large-object")):
        return []
    query = {**version, "multipart-manifest": "get"}
    manifest = call.ask("GET", call.bucket, key, query=query).body
    paths = [str(part["name"]).removeprefix("/") for part in json.loads(manifest)]
    return [(container, name) for container, _, name in (p.partition("/") for p in paths)]


def _delete_without_parts(call: Call, key: str, headers: Mapping[str, str]) -> Answered | None:
    """DELETE of an object unless it may have parts, which must be deleted first; None if it may.

    :raises S3Error: it was not deleted.
    """
    environ = call.request("DELETE", call.bucket, key, headers=headers)
    environ[SPARES_LARGE] = True
    status, answered, chunks = call.send(environ)
    answer = Answered(status, answered, read_body(chunks))
    if status == 409 and is_true(answered.get(LARGE)):
        return None
    if not answer.is_success and status != 404:
        raise call.refusal(answer, "DELETE", call.bucket, key)
    return answer


def _find_parts(
    call: Call, key: str, version: Mapping[str, str], headers: Mapping[str, str]
) -> Parts:
    """The parts that go with the object of a DELETE, before it is sent.

    There are none where the object becomes an old version. A client that may write and not read may
    delete, so its 403 does not count.

    :param headers: of the DELETE.
    :raises S3Error: the version is locked, so its parts are not tried; or they cannot be read.
    """
    query = {**version, "symlink": "get"}
    found = call.ask("HEAD", call.bucket, key, query=query, allowed=(400, 403, 404))
    if not version and call.is_enabled(call.bucket):
        return NO_PARTS
    if found.status == 403:
        head = call.request("HEAD", call.bucket, key, query=query, pre_authorized=True)
        found = ask_app(call.app, head)
    if not version and _has_id(found.headers):
        return NO_PARTS
    refuse_locked(found.headers, LOCK_BYPASS in headers)
    if not is_true(found.headers.get("x-static-large-object")):
        return NO_PARTS
    upload_id = found.headers.get(UPLOAD_ID)
    if not upload_id:
        return Parts(are_of_slo=True)
    if call.info(call.bucket)["sysmeta"].get("versions-mode") == "history":
        return NO_PARTS  # a copy of the manifest is kept
    query["multipart-manifest"] = "get"
    get = call.request("GET", call.bucket, key, query=query, pre_authorized=True)
    status, got, chunks = call.send(get)
    if got.get(UPLOAD_ID) != upload_id:
        close_body(chunks)  # unread: it may be large
        if status == 404:
            return NO_PARTS  # another DELETE has them
        if status // 100 == 2:  # it was replaced meanwhile
            return _find_parts(call, key, version, headers)
        raise S3Error("ServiceUnavailable", "The parts of the object cannot be read now.")
    upload = Upload(call.bucket, key, upload_id, Headers())
    return Parts(
        upload,
        own_parts(upload, read_body(chunks)),
        headers,
        version.get("version-id", NULL),
        # The expirer does not bypass locks.
        is_locked=LOCK_MODE in found.headers,
    )


def _has_id(found: Headers) -> bool:
    """Whether an object, by its headers, is a version with an id.

    Where versioning is suspended, a DELETE without the id leaves that version in place.
    """
    return found.get("x-object-version-id", "null") != "null"


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


def _make_newest_current(call: Call, key: str, deleted: str, *, has_id: bool) -> None:
    """Make the newest version current, after one was deleted that may have been current.

    In Swift's API no version is current from then on; in S3 the newest that is left is. If that
    is a delete marker, the object stays deleted.

    :param has_id: a version with an id may be current. Else only the null version may.
    """
    # The client may delete; it need not have the right to list or to write.
    query = {"format": "json", "versions": "true", "prefix": key, "limit": "2"}
    request = call.request("GET", call.bucket, "", query=query, pre_authorized=True)
    listed = ask_app(call.app, request)
    if not listed.is_success:
        raise call.refusal(listed, "GET", call.bucket, "")
    for row in json.loads(listed.body):
        if row["name"] != key or is_delete_marker(row):
            return
        version = row["version_id"]
        may_be_current = has_id or version == "null"
        if row["is_latest"] and version != deleted and may_be_current:  # listings may lag behind
            return
        query = {"version-id": version}
        put = call.request("PUT", call.bucket, key, query=query, pre_authorized=True)
        answer = ask_app(call.app, put)
        if answer.is_success:
            return
        if answer.status not in (400, 404, 412):  # it was removed meanwhile, or is a marker
            raise call.refusal(answer, "PUT", call.bucket, key)
