# SPDX-License-Identifier: Apache-2.0
"""Object lock: the configuration of a bucket, retention and legal hold of versions.

The object servers keep the lock of each version and enforce it. The parts of a multipart upload are
objects of their own, so each part gets the lock of the object.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element

from martlet.conf.options import is_true
from martlet.http.environ import LOCKS_AT_LEAST
from martlet.http.headers import Headers
from martlet.http.response import Response
from martlet.words.timestamp import Timestamp
from proxy.crew import run_crew
from proxy.middleware.subrequest import close_body
from proxy.replicas.locks import (
    ENABLED_SYSMETA,
    LOCK_HOLD,
    LOCK_MODE,
    LOCK_UNTIL,
    lock_by_rule,
    retention_headers,
)
from proxy.replicas.versions import NULL
from proxy.s3.bodies import read_document, require_sum
from proxy.s3.bucket import SEGMENTS
from proxy.s3.call import Call, empty, xml
from proxy.s3.lock_headers import bypass_header, require_lockable
from proxy.s3.object_writes import parts_of_manifest
from proxy.s3.objects import head_version
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.locks import (
    Retention,
    configuration_document,
    hold_document,
    hold_of_xml,
    retention_document,
    retention_of_xml,
    stored_configuration,
)
from proxy.s3.wire.xml_in import parse_xml

_DOCUMENT_BYTES_MAX = 10240
_PARTS_AT_ONCE = 8
_PATIENCE = 3600.0
#: Before a part is locked again, seconds: the clocks of two proxies may differ.
_PAUSES = (0.05, 0.2, 0.8)
_NO_LOCK = "NoSuchObjectLockConfiguration"
_NOT_VERSIONED = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"


def get_configuration(call: Call) -> Response:
    """GetObjectLockConfiguration."""
    stored = call.require_bucket().get(ENABLED_SYSMETA)
    if not stored:
        fields = {"BucketName": call.bucket}
        raise S3Error("ObjectLockConfigurationNotFoundError", fields=fields)
    return xml(configuration_document(stored))


def put_configuration(call: Call) -> Response:
    """PutObjectLockConfiguration. A bucket with versioning gets object lock, for good."""
    bucket = call.require_bucket()
    stored = stored_configuration(_document(call, "ObjectLockConfiguration"))
    if not bucket.get(ENABLED_SYSMETA) and not is_true(bucket.get("x-versions-enabled")):
        raise S3Error("InvalidBucketState", _NOT_VERSIONED)
    call.ask("POST", call.bucket, headers={ENABLED_SYSMETA: stored})
    return empty(200)


def get_retention(call: Call) -> Response:
    """GetObjectRetention."""
    stored = _stored(call)
    if LOCK_MODE not in stored:
        raise S3Error(_NO_LOCK)
    found = Retention(stored[LOCK_MODE], float(stored[LOCK_UNTIL]))
    return xml(retention_document(found))


def put_retention(call: Call) -> Response:
    """PutObjectRetention. An empty document ends one of governance, with a bypass."""
    retention = retention_of_xml(_document(call, "Retention"), time.time())
    change = {LOCK_MODE: "NONE"} if retention is None else retention_headers(*retention)
    stored = _stored(call)
    bypass = bypass_header(call)
    _change(call, stored, change | bypass, weakens=retention is None or bool(bypass))
    return empty(200)


def get_legal_hold(call: Call) -> Response:
    """GetObjectLegalHold."""
    stored = _stored(call)
    if LOCK_HOLD not in stored:
        raise S3Error(_NO_LOCK)
    return xml(hold_document(stored[LOCK_HOLD].upper()))


def put_legal_hold(call: Call) -> Response:
    """PutObjectLegalHold."""
    hold = hold_of_xml(_document(call, "LegalHold"))
    _change(call, _stored(call), {LOCK_HOLD: hold.lower()}, weakens=hold == "OFF")
    return empty(200)


def lock_of_object(call: Call, given: Mapping[str, str]) -> dict[str, str]:
    """The headers of the lock that a completed upload and its parts get.

    :param given: those that the upload was begun with.
    """
    sysmeta = call.info(call.bucket)["sysmeta"]
    by_rule = {} if LOCK_MODE in given else lock_by_rule(sysmeta, time.time())
    return {**by_rule, **given}


def lock_parts(
    call: Call,
    parts: Iterable[tuple[str, str]],
    lock: Mapping[str, str],
    *,
    weakens: bool = False,
) -> None:
    """Lock the parts of a large object: their containers and names.

    Other versions may have the same parts, and another request may lock them at this moment. So a
    part that has a lock which protects as well and as long is locked.

    :param weakens: the lock may be weaker than the one that the parts have.
    :raises S3Error: one of them could not be locked.
    """
    left = iter(list(parts))
    failures: list[S3Error] = []

    def lock_next() -> bool:
        container, name = next(left, ("", ""))
        if not container or failures:
            return False
        try:
            if weakens:
                call.ask("POST", container, name, headers=lock)
            else:
                _lock_part(call, container, name, lock)
        except S3Error as error:
            failures.append(error)
        return True

    for _ in run_crew(lock_next, _PARTS_AT_ONCE, _PATIENCE):
        pass
    if failures:
        raise failures[0]


def _lock_part(call: Call, container: str, name: str, lock: Mapping[str, str]) -> None:
    """Lock one part; again, with a later timestamp, if a weaker lock came with a later one.

    :raises S3Error: it could not be locked.
    """
    for pause in (*_PAUSES, None):
        environ = call.request("POST", container, name, headers=lock)
        environ[LOCKS_AT_LEAST] = True
        allowed = () if pause is None else (409,)
        status, _, chunks = call.send_or_refuse(environ, container, name, allowed)
        close_body(chunks)
        if pause is None or status != 409:
            return
        time.sleep(pause)


def _document(call: Call, root: str) -> Element:
    """:raises S3Error: the body has no checksum, or is no such document."""
    require_sum(call)
    return parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), root)


def _stored(call: Call) -> Headers:
    """:raises S3Error: the bucket has no object lock, or there is no such version."""
    check_key(call.key)
    require_lockable(call)
    return head_version(call)


def _change(call: Call, stored: Headers, change: Mapping[str, str], *, weakens: bool) -> None:
    """Change the lock of a version, and of its parts.

    If this is interrupted, no part has a weaker lock than the object.
    """
    # At a replica that missed a write, null is another version; its lock would keep it there.
    version = {"version-id": stored.get("x-object-version-id", NULL)}
    if version["version-id"] == NULL:
        version = {"version-id": Timestamp(stored["x-backend-data-timestamp"]).internal}
    parts: list[tuple[str, str]] = []
    if is_true(stored.get("x-static-large-object")):
        named = parts_of_manifest(call, call.key, version)
        parts = [part for part in named if part[0] == f"{call.bucket}{SEGMENTS}"]
    if not weakens:
        lock_parts(call, parts, change)
    call.ask("POST", call.bucket, call.key, query=version, headers=change)
    if weakens:
        lock_parts(call, parts, change, weakens=True)
