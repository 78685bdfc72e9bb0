# SPDX-License-Identifier: Apache-2.0
"""CopyObject, and the source of a copy: its name, version and conditions."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from martlet.http.headers import Headers
from martlet.http.response import Response
from martlet.words.names import BadNameError, check_text, wsgi_to_str
from martlet.words.part_numbers import PARTS
from proxy.middleware.backend_hints import etag_is_at
from proxy.middleware.subrequest import Answered, read_body
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.s3.acl import object_acl_of_header
from proxy.s3.call import Call, xml
from proxy.s3.conditions import check_done, condition_of
from proxy.s3.copied_checksum import CopiedChecksum, algorithm_of_parts
from proxy.s3.customer_keys import Place
from proxy.s3.lifecycle import expiration_of_new
from proxy.s3.lock_headers import lock_headers
from proxy.s3.null_version import pipeline_version
from proxy.s3.object_headers import (
    ETAG,
    REDIRECT,
    STORAGE_CLASS,
    TAGGING,
    class_header,
    quoted,
    redirect_header,
    row_class,
    s3_etag,
    stored_headers,
)
from proxy.s3.objects import check_version, conditions
from proxy.s3.rekeyed_copy import keys_of_copy, rewrite
from proxy.s3.tagging import tagging_of_copy
from proxy.s3.wire.acl import OBJECT_ACL
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.checksums import wanted_algorithm
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.part_checksums import type_of
from proxy.s3.wire.times import parse_http_date, xml_time
from proxy.s3.wire.xml_out import Document

_HEADER = "x-amz-copy-source"
_CONDITIONS = {
    "x-amz-copy-source-if-match": "if-match",
    "x-amz-copy-source-if-none-match": "if-none-match",
    "x-amz-copy-source-if-modified-since": "if-modified-since",
    "x-amz-copy-source-if-unmodified-since": "if-unmodified-since",
}
#: What is true of the source's bytes as they are stored, and not of the copy's.
_NOT_COPIED = {
    ETAG: "",
    UPLOAD_ID: "",
    PARTS: "",
    "X-Object-Sysmeta-Swift3-Etag": "",
    "X-Object-Sysmeta-Slo-Etag": "",
    "X-Object-Sysmeta-Slo-Size": "",
    "X-Object-Sysmeta-Container-Update-Override-Etag": "",
}


class Source(NamedTuple):
    """The source of a copy; text."""

    bucket: str
    key: str
    version: str

    @property
    def query(self) -> dict[str, str]:
        """The query of requests for it."""
        return {"version-id": self.version} if self.version else {}

    def headers(self, call: Call) -> dict[str, str]:
        """X-Copy-From, and the account if it is another one."""
        named = {"x-copy-from": quote(f"{self.bucket}/{self.key}")}
        account = call.account_of(self.bucket)
        if account != call.account_of(call.bucket):
            named["x-copy-from-account"] = account
        return named


def source_of(call: Call) -> Source:
    """The source of a copy.

    :raises S3Error: the header is malformed.
    """
    value = call.headers[_HEADER]
    path, _, query = value.partition("?")
    try:
        text = check_text(wsgi_to_str(unquote(path, encoding="latin-1"))).removeprefix("/")
        pairs = parse_qsl(query, keep_blank_values=True)
    except (BadNameError, ValueError):
        raise invalid_argument(_HEADER, value) from None
    bucket, _, key = text.partition("/")
    if not bucket or not key:
        reason = "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        raise invalid_argument(_HEADER, value, reason)
    if pairs and [name for name, _ in pairs] != ["versionId"]:
        raise invalid_argument(_HEADER, value, "Unsupported copy source parameter.")
    version = pairs[0][1] if pairs else ""
    if version:
        check_version(version)
    return Source(bucket, key, version)


def chosen_source(call: Call) -> Source:
    """The source of a copy, with the version as the pipeline knows it.

    :raises S3Error: as `source_of` and `pipeline_version`.
    """
    source = source_of(call)
    version = pipeline_version(call, source.bucket, source.key, source.version)
    return source._replace(version=version)


def find_source(call: Call, source: Source) -> Headers:
    """HEAD of the source, with the conditions on it.

    :raises S3Error: it is missing, or a condition does not hold.
    """
    wanted = conditions(call, _CONDITIONS)
    environ = call.request("HEAD", source.bucket, source.key, query=source.query, headers=wanted)
    etag_is_at(environ, ETAG)
    status, headers, chunks = call.send(environ)
    answer = Answered(status, headers, read_body(chunks))
    if status == 304:
        raise S3Error("PreconditionFailed")
    if status == 404 and source.version:
        raise S3Error("NoSuchVersion", fields={"Key": source.key, "VersionId": source.version})
    if not answer.is_success:
        raise call.refusal(answer, "HEAD", source.bucket, source.key)
    return headers


def copy_object(call: Call) -> Response:
    """CopyObject."""
    check_key(call.key)
    acl = object_acl_of_header(call)
    if "x-amz-copy-source-range" in call.headers:
        value = call.headers["x-amz-copy-source-range"]
        raise invalid_argument("x-amz-copy-source-range", value, "Illegal copy header")
    directive = call.headers.get("x-amz-metadata-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        raise invalid_argument("x-amz-metadata-directive", directive, "Unknown metadata directive.")
    source = chosen_source(call)
    found = find_source(call, source)
    keys = keys_of_copy(call, found)
    redirect = redirect_header(call.headers)
    changes = (
        directive == "REPLACE"
        or call.headers.get("x-amz-tagging-directive") == "REPLACE"
        or "x-amz-storage-class" in call.headers  # also the same one, as at Amazon
        or redirect
        or keys.differ
    )
    is_itself = (source.bucket, source.key, source.version) == (call.bucket, call.key, "")
    if is_itself and not changes:
        reason = (
            "This copy request is illegal because it is trying to copy an object to itself without "
            "changing the object's metadata, storage class, website redirect location or "
            "encryption attributes."
        )
        raise S3Error("InvalidRequest", reason)
    headers = {**source.headers(call), **_NOT_COPIED, **keys.headers(found)}
    headers |= condition_of(call).headers_for(call, call.key)
    headers |= {REDIRECT: "", **redirect}
    headers |= {STORAGE_CLASS: "", **class_header(call.headers)}
    headers |= row_class(headers)
    if directive == "REPLACE":
        headers |= {"x-fresh-metadata": "true", **stored_headers(call.headers)}
        headers.setdefault("content-type", "binary/octet-stream")
    elif "content-type" in found:
        headers["content-type"] = found["content-type"]
    wanted = wanted_algorithm(call.headers) or algorithm_of_parts(found)
    checksum = CopiedChecksum(found, wanted, is_hidden=keys.hides(found))
    headers |= checksum.headers()
    headers |= tagging_of_copy(call.headers, found) | {OBJECT_ACL: "", **acl}
    headers |= lock_headers(call)
    if keys.differ or checksum.is_new:
        at = Place(source.bucket, source.key, source.query)
        answer = rewrite(call, at, (call.bucket, call.key), headers, keys.copy, checksum)
    else:
        environ = call.request("PUT", call.bucket, call.key, query=source.query, headers=headers)
        status, given, chunks = call.send(environ)
        answer = Answered(status, given, read_body(chunks))
    check_done(answer, headers)
    if not answer.is_success:
        raise call.refusal(answer, "PUT", call.bucket, call.key)
    response = copy_result("CopyObjectResult", answer, source, checksum.stored)
    response.headers.update(keys.shown())
    size = int(found.get("content-length", "0"))
    response.headers.update(expiration_of_new(call, size, headers[TAGGING]))
    return response


def copy_result(root: str, answer: Answered, source: Source, checksum: str = "") -> Response:
    """The answer of a copy; ``checksum`` is the stored one."""
    modified = parse_http_date(answer.headers.get("last-modified", "")) or 0.0
    document = Document(root)
    document.text("LastModified", xml_time(modified))
    document.text("ETag", quoted(s3_etag(Headers({"etag": answer.headers["etag"]}))))
    if checksum:
        algorithm, _, value = checksum.partition("=")
        document.text(f"Checksum{algorithm.upper()}", value)
        if root == "CopyObjectResult":  # a part has no type of its own
            document.text("ChecksumType", type_of(value))
    shown = {}
    if "x-object-version-id" in answer.headers:
        shown["x-amz-version-id"] = answer.headers["x-object-version-id"]
    copied = source.version or answer.headers.get("x-copied-from-version-id", "")
    if copied:
        shown["x-amz-copy-source-version-id"] = copied
    return xml(document.finish(), shown)
