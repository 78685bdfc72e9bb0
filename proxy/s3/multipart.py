# SPDX-License-Identifier: Apache-2.0
"""Multipart uploads: create, upload a part, copy a part, complete, abort.

A completed upload is a static large object whose segments are the parts. So Swift's API shows it
as a large object, and uploads that OpenStack Swift's s3api completed are read here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from martlet.http.environ import SLO_MANIFEST_HOOK, Environ
from martlet.http.headers import Headers
from martlet.http.response import Response
from martlet.words.part_numbers import PARTS, text_of_numbers
from proxy.middleware.large_objects.row_etag import OVERRIDE_ETAG
from proxy.middleware.subrequest import Answered, read_body
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.replicas.locks import LOCK_HOLD, LOCK_MODE, LOCK_UNTIL
from proxy.s3.acl import acl_of_parts, object_acl_of_header
from proxy.s3.bodies import read_document
from proxy.s3.bucket import SEGMENTS, delete_parts
from proxy.s3.call import Call, empty, xml
from proxy.s3.conditions import check_done, condition_of
from proxy.s3.copied_checksum import CopiedChecksum
from proxy.s3.copy_object import chosen_source, copy_result, find_source
from proxy.s3.customer_keys import SEALED, Place, Sealing, key_of_part, sealing_of
from proxy.s3.encryption import shown_encryption
from proxy.s3.lifecycle import expiration, expiration_of_new
from proxy.s3.lock_headers import lock_headers
from proxy.s3.object_headers import (
    CHECKSUM,
    CHECKSUM_KIND,
    ETAG,
    REDIRECT,
    STORAGE_CLASS,
    SYSMETA,
    TAGGING,
    quoted,
    row_class,
    stored_headers,
)
from proxy.s3.object_lock import lock_of_object, lock_parts
from proxy.s3.object_writes import store
from proxy.s3.objects import facts_of
from proxy.s3.one_version import OneVersion, Repeated
from proxy.s3.rekeyed_copy import keys_of_copy, rewrite
from proxy.s3.tagging import tagging_header
from proxy.s3.unused_parts import drop_unlisted_parts
from proxy.s3.upload_checksums import WholeChecksum
from proxy.s3.uploads import (
    QUORUM_SECONDS,
    Upload,
    by_quorum,
    completed_etag,
    find_upload,
    id_of_made,
    is_made_by_few,
    made_by_few,
    made_of,
    new_upload_id,
    part_number,
    parts_of,
)
from proxy.s3.wire.acl import OBJECT_ACL
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.part_checksums import kind_of_upload, type_of
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

_BODY_BYTES_MAX = 2 * 1024 * 1024
_HAS_TYPE, _TYPE = f"{SYSMETA}Has-Content-Type", f"{SYSMETA}Content-Type"
#: Before the name of a header of the lock that the object and its parts get.
_LOCK = f"{SYSMETA}Lock-"
_BEGUN_TYPE = "application/directory"
_KEPT = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
)
_ETAG = re.compile(r"[0-9a-f]{32}", re.ASCII)
_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_TOO_SMALL = "Too small"
_POLICY = "X-Storage-Policy"


def create_upload(call: Call) -> Response:
    """CreateMultipartUpload."""
    check_key(call.key)
    sealing = sealing_of(call)
    acl = object_acl_of_header(call)
    headers = stored_headers(call.headers) | tagging_header(call.headers) | acl
    kind = kind_of_upload(call.headers)
    if kind is not None:
        headers[CHECKSUM_KIND] = str(kind)
    headers |= {_LOCK + name: value for name, value in lock_headers(call).items()}
    content_type = headers.pop("content-type", "")
    headers[_HAS_TYPE] = "yes" if content_type else "no"
    if content_type:
        headers[_TYPE] = content_type
    headers["content-type"] = _BEGUN_TYPE
    if sealing is not None:
        headers |= sealing.headers
    bucket = call.require_bucket()
    upload = Upload(call.bucket, call.key, new_upload_id(), bucket)
    _make_container(call, bucket)
    call.ask("PUT", upload.container, upload.name, headers=headers)
    document = Document("InitiateMultipartUploadResult")
    document.text("Bucket", call.bucket)
    document.text("Key", call.key)
    document.text("UploadId", upload.upload_id)
    shown = shown_encryption(sealing)
    if kind is not None:
        shown |= {"x-amz-checksum-algorithm": kind.algorithm.upper()}
        shown |= {"x-amz-checksum-type": kind.type}
    return xml(document.finish(), shown)


def _make_container(call: Call, bucket: Mapping[str, str]) -> None:
    """Make the container of parts, with the policy and the ACLs of the bucket."""
    container = f"{call.bucket}{SEGMENTS}"
    try:
        call.info(container)
    except S3Error as error:
        if error.code != "NoSuchBucket":
            raise
        kept = acl_of_parts(bucket)
        if bucket.get(_POLICY):
            kept[_POLICY] = bucket[_POLICY]
        call.ask("PUT", container, headers=kept)


def upload_part(call: Call) -> Response:
    """UploadPart."""
    number = part_number(call)
    upload = find_upload(call)
    kind = upload.checksum_kind
    algorithm = "" if kind is None else kind.algorithm
    key = key_of_part(call, upload.headers)
    sealing = Sealing(key) if key else None
    place = upload.container, upload.part(number)
    stored, checksum, _ = store(call, *place, {}, algorithm, sealing)
    shown = {"ETag": quoted(stored["etag"].strip('"')), **checksum, **shown_encryption(sealing)}
    if "last-modified" in stored:
        shown["Last-Modified"] = stored["last-modified"]
    return empty(200, shown)


def copy_part(call: Call) -> Response:
    """UploadPartCopy, of an object or a range of it."""
    number = part_number(call)
    upload = find_upload(call)
    source = chosen_source(call)
    found = find_source(call, source)
    key, keys = key_of_part(call, upload.headers), keys_of_copy(call, found)
    headers = {**source.headers(call), "x-fresh-metadata": "true"}
    # What is true of the source as it is stored is not true of the part.
    for name in (ETAG, UPLOAD_ID, PARTS, "X-Object-Sysmeta-Slo-Etag", "X-Object-Sysmeta-Slo-Size",
                 OVERRIDE_ETAG, OBJECT_ACL):  # fmt: skip
        headers[name] = ""
    stated = call.headers.get("x-amz-copy-source-range")
    if stated is not None:
        headers["range"] = _checked_range(stated, int(found.get("content-length", "0")))
    kind = upload.checksum_kind
    checksum = CopiedChecksum(
        Headers() if stated else found,  # a range has none
        kind.algorithm if kind else None,
        is_hidden=keys._replace(copy=key).hides(found),
    )
    headers |= checksum.headers()
    place = upload.container, upload.part(number)
    if key is None and keys.source is None and not checksum.is_new:
        answer = call.ask("PUT", *place, query=source.query, headers=headers)
    else:
        at = Place(source.bucket, source.key, source.query)
        answer = rewrite(call, at, place, headers, key, checksum)
        if not answer.is_success:
            raise call.refusal(answer, "PUT", *place)
    check_done(answer, headers)
    response = copy_result("CopyPartResult", answer, source, checksum.stored)
    response.headers.update(keys.shown())
    return response


def _checked_range(text: str, size: int) -> str:
    name = "x-amz-copy-source-range"
    match = _RANGE.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        reason = (
            f"The {name} value must be of the form bytes=first-last where first and last are the "
            "zero-based offsets of the first and last bytes to copy"
        )
        raise invalid_argument(name, text, reason)
    if int(match[2]) >= size:
        reason = f"Range specified is not valid for source object of size: {size}"
        raise invalid_argument(name, text, reason)
    return text


def complete_upload(call: Call) -> Response:
    """CompleteMultipartUpload. It may be repeated with the same parts, after a lost answer."""
    condition = condition_of(call)
    upload = find_upload(call, may_be_completed=True)
    checks = WholeChecksum(call, upload)
    body = read_document(call, _BODY_BYTES_MAX, ignores_checksum=True)
    if not body:
        raise S3Error("InvalidRequest", "You must specify at least one part")
    parts = _wanted_parts(call, body, checks)
    etag = _etag_of([md5 for _, md5 in parts])
    if upload.is_completed:
        return _completed_before(call, _acknowledged(call, upload, etag), etag)
    headers = {**_headers_of_object(upload, etag), **condition.headers_for(call, call.key)}
    numbers = text_of_numbers(number for number, _ in parts)
    if numbers:
        headers[PARTS] = numbers
    headers |= _lock_of(call, upload)
    try:
        answer = _put_manifest(call, upload, parts, headers, checks)
    except Repeated as repeated:
        call.ask("DELETE", upload.container, upload.name, allowed=(404, 409))
        return _completed_before(call, repeated.made, etag)
    closed = call.ask("DELETE", upload.container, upload.name, allowed=(404, 409))
    if closed.is_success:  # else another completion has done it, which may list other parts
        drop_unlisted_parts(call, upload, {number for number, _ in parts})
    version = answer.headers.get("x-object-version-id")
    shown = {} if upload.headers.get(SEALED) else shown_encryption(None)
    shown |= expiration_of_new(call, checks.size, headers.get(TAGGING))
    if version:
        shown["x-amz-version-id"] = version
    return _completed(call, etag, shown, checks.stored)


def _acknowledged(call: Call, upload: Upload, etag: str) -> Upload:
    """A completed upload whose object a quorum has.

    :raises S3Error: it was completed with other parts, or too few devices have the object.
    """
    made: Headers | None = upload.headers
    if completed_etag(upload) == etag:
        made = by_quorum(call, upload, upload.headers, QUORUM_SECONDS)
    if made is None or made.get(ETAG) != etag:
        raise S3Error("NoSuchUpload", fields={"UploadId": upload.upload_id})
    if is_made_by_few(made):
        raise made_by_few()
    return upload._replace(headers=made)


def _completed_before(call: Call, made: Upload, etag: str) -> Response:
    """The answer to a completion that was sent again, from the object that there is."""
    shown = expiration(call, lambda: facts_of(call, made.headers))
    version = id_of_made(call, made)
    if version:
        shown["x-amz-version-id"] = version
    return _completed(call, etag, shown, str(made.headers.get(CHECKSUM, "")))


def _wanted_parts(call: Call, body: bytes, checks: WholeChecksum) -> list[tuple[int, str]]:
    """The numbers and MD5s of the parts, as the client lists them.

    :raises S3Error: the list is malformed.
    """
    upload_id = call.params["uploadId"]
    parts: list[tuple[int, str]] = []
    for element in children(parse_xml(body, "CompleteMultipartUpload"), "Part"):
        number, etag = child_text(element, "PartNumber") or "", child_text(element, "ETag")
        if not (number.isascii() and number.isdigit() and len(number) < 10) or etag is None:
            raise S3Error("MalformedXML")
        if parts and int(number) <= parts[-1][0]:
            raise S3Error("InvalidPartOrder", fields={"UploadId": upload_id})
        md5 = etag.strip().strip('"').lower()
        if not _ETAG.fullmatch(md5):
            raise _invalid_part(upload_id, number, etag)
        parts.append((int(number), md5))
        checks.expect(int(number), element)
    if not parts:
        raise S3Error("MalformedXML")
    if len(parts) > call.options.max_upload_part_num:
        reason = f"An upload may have {call.options.max_upload_part_num} parts."
        raise invalid_argument("Part", str(len(parts)), reason)
    return parts


def _invalid_part(upload_id: str, number: str, etag: str) -> S3Error:
    fields = {"UploadId": upload_id, "PartNumber": number, "ETag": etag}
    return S3Error("InvalidPart", fields=fields)


def _etag_of(md5s: list[str]) -> str:
    """The ETag of an object of parts: the MD5 of their MD5s, and their count."""
    joined = b"".join(bytes.fromhex(md5) for md5 in md5s)
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(md5s)}"


def _headers_of_object(upload: Upload, etag: str) -> dict[str, str]:
    """The headers of the object, from those that began the upload."""
    begun = upload.headers
    headers = {name: begun[name] for name in _KEPT if name in begun}
    headers |= {n: v for n, v in begun.items() if n.lower().startswith("x-object-meta-")}
    kept = (TAGGING, REDIRECT, SEALED, OBJECT_ACL, STORAGE_CLASS)
    headers |= {name: begun[name] for name in kept if begun.get(name)}
    content_type = begun.get(_TYPE) if begun.get(_HAS_TYPE) == "yes" else None
    headers["content-type"] = content_type or "binary/octet-stream"
    headers["accept"] = "application/json"
    headers[UPLOAD_ID] = upload.upload_id
    headers[ETAG] = etag
    # slo puts its own before it.
    headers[OVERRIDE_ETAG] = row_class(headers).get(OVERRIDE_ETAG, "") + f"; s3_etag={etag}"
    return headers


def _lock_of(call: Call, upload: Upload) -> dict[str, str]:
    """The headers of the lock of the object and its parts."""
    begun = {
        name: upload.headers[_LOCK + name]
        for name in (LOCK_MODE, LOCK_UNTIL, LOCK_HOLD)
        if upload.headers.get(_LOCK + name)
    }
    return lock_of_object(call, begun)


def _put_manifest(
    call: Call,
    upload: Upload,
    parts: list[tuple[int, str]],
    headers: Mapping[str, str],
    checks: WholeChecksum,
) -> Answered:
    """Store the manifest.

    :raises S3Error: a part is missing, another one, or too small; or it cannot be stored.
    :raises Repeated: where the bucket has or had versions, a second one would share the parts.
    """
    one = OneVersion(call, upload, headers)
    while True:
        environ, answer = _send_manifest(call, upload, parts, headers, checks, one)
        if not one.shall_repeat(environ, answer.status):
            break
    check_done(answer, headers)
    if answer.is_success:
        return answer
    if checks.failure is not None:
        raise checks.failure
    if answer.status == 400:
        raise _refused_parts(upload, answer, {str(number): md5 for number, md5 in parts})
    raise call.refusal(answer, "PUT", call.bucket, call.key)


def _send_manifest(
    call: Call,
    upload: Upload,
    parts: list[tuple[int, str]],
    headers: Mapping[str, str],
    checks: WholeChecksum,
    one: OneVersion,
) -> tuple[Environ, Answered]:
    """The request that stores the manifest, and its answer.

    :raises S3Error: a part is too small, say.
    :raises Repeated: see `_put_manifest`.
    """
    manifest = [
        {"path": f"/{upload.container}/{upload.part(number)}", "etag": md5} for number, md5 in parts
    ]
    environ = call.request(
        "PUT",
        call.bucket,
        call.key,
        query={"multipart-manifest": "put"},
        headers=headers,
        body=json.dumps(manifest).encode("ascii"),
    )
    least = call.options.min_segment_size
    lock = {name: headers[name] for name in (LOCK_MODE, LOCK_UNTIL, LOCK_HOLD) if name in headers}

    def check(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
        small = [(str(e["name"]), _TOO_SMALL) for e in entries[:-1] if e["bytes"] < least]
        problems = small or checks.take(environ, entries)
        if not problems:
            one.prepare(environ)
        if not problems and lock:
            lock_parts(call, [(upload.container, upload.part(n)) for n, _ in parts], lock)
        return problems

    environ[SLO_MANIFEST_HOOK] = check
    status, answer_headers, chunks = call.send(environ)
    return environ, Answered(status, answer_headers, read_body(chunks))


def _refused_parts(upload: Upload, answer: Answered, md5s: Mapping[str, str]) -> S3Error:
    """The S3 error for the problems that slo found; ``md5s`` are those of the parts."""
    try:
        problems = [(str(name), str(reason)) for name, reason in json.loads(answer.body)["Errors"]]
    except (ValueError, KeyError, TypeError):
        return S3Error("InvalidRequest", answer.body[:500].decode("utf-8", "replace"))
    for name, reason in problems:
        if reason.startswith(_TOO_SMALL):
            return S3Error("EntityTooSmall")
        if reason.startswith(("Etag Mismatch", "404")):
            number = name.rpartition("/")[2]
            return _invalid_part(upload.upload_id, number, md5s.get(number, ""))
    return S3Error("InvalidRequest", "; ".join(": ".join(problem) for problem in problems[:5]))


def _completed(call: Call, etag: str, headers: Mapping[str, str], checksum: str) -> Response:
    scheme, host = call.environ["wsgi.url_scheme"], call.environ.get("HTTP_HOST", "")
    document = Document("CompleteMultipartUploadResult")
    document.text("Location", f"{scheme}://{host}{call.resource}")
    document.text("Bucket", call.bucket)
    document.text("Key", call.key)
    document.text("ETag", quoted(etag))
    algorithm, _, value = checksum.partition("=")
    if value:
        document.text(f"Checksum{algorithm.upper()}", value)
        document.text("ChecksumType", type_of(value))
    return xml(document.finish(), headers)


def abort_upload(call: Call) -> Response:
    """AbortMultipartUpload. An interrupted one can be repeated: the upload goes after its parts.

    An upload whose completion was interrupted keeps its parts if the object is there.
    """
    upload = find_upload(call)
    if made_of(call, upload) is not None:
        if call.ask("DELETE", upload.container, upload.name, allowed=(404, 409)).is_success:
            drop_unlisted_parts(call, upload, ())  # the expirer spares those that are in use
        raise S3Error("NoSuchUpload", fields={"UploadId": upload.upload_id})
    delete_parts(call, upload.container, [str(row["name"]) for _, row in parts_of(call, upload)])
    call.ask("DELETE", upload.container, upload.name, allowed=(404,))
    return empty(204)
