# SPDX-License-Identifier: Apache-2.0
"""DeleteObjects: many keys, or versions of keys, in one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from martlet.http.response import Response
from proxy.crew import for_each
from proxy.replicas.versions import NULL
from proxy.s3.bodies import read_document, require_sum
from proxy.s3.call import Call, xml
from proxy.s3.conditions import Condition
from proxy.s3.null_version import pipeline_version
from proxy.s3.object_writes import delete
from proxy.s3.objects import check_version
from proxy.s3.policies.guard import has_rules
from proxy.s3.wire.addressing import KEY_BYTES_MAX
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

_BODY_BYTES_MAX = 10 * 1024 * 1024


class _Doomed(NamedTuple):
    key: str
    version: str
    etag: str


def delete_objects(call: Call) -> Response:
    """DeleteObjects."""
    # A policy may allow to delete what the client may not see.
    is_denied = not call.may_see_bucket() and not has_rules(call.info(call.bucket))
    if not call.is_authenticated:
        raise S3Error("AccessDenied")
    per_key = 2 * KEY_BYTES_MAX
    most = min(per_key * call.options.max_multi_delete_objects + 4096, _BODY_BYTES_MAX)
    require_sum(call)
    body = read_document(call, most)
    if not body:
        raise S3Error("MissingRequestBodyError")
    root = parse_xml(body, "Delete")
    names = list(_names(root))
    if not names or len(names) > call.options.max_multi_delete_objects:
        raise S3Error("MalformedXML")
    is_quiet = (child_text(root, "Quiet") or "").lower() == "true"
    outcomes = _delete_all(call, names, is_denied)
    return xml(_result(names, outcomes, is_quiet))


def _names(root: Element) -> Iterator[_Doomed]:
    for element in children(root, "Object"):
        key = child_text(element, "Key")
        if not key:
            raise S3Error("UserKeyMustBeSpecified")
        for name in ("LastModifiedTime", "Size"):
            if child_text(element, name) is not None:
                raise S3Error("NotImplemented", f"Deletion by {name} is not implemented.")
        version, etag = child_text(element, "VersionId"), child_text(element, "ETag")
        yield _Doomed(key, version or "", etag or "")


def _delete_all(
    call: Call, names: list[_Doomed], is_denied: bool
) -> list[dict[str, str] | S3Error]:
    """The headers about versions for each name, or its error."""
    outcomes: list[dict[str, str] | S3Error] = [{} for _ in names]
    versions = [doomed.version for doomed in names]

    def find(number: int) -> None:
        versions[number] = pipeline_version(call, call.bucket, names[number].key, NULL)

    def delete_one(number: int) -> None:
        doomed, version = names[number], versions[number]
        if is_denied:
            raise S3Error("AccessDenied")
        if version:
            check_version(version)
        one = call.for_key(doomed.key, doomed.version)
        if one.access is not None and version in call.null_ids:
            one.access.know_null(call.bucket, doomed.key, version)
        query = {"version-id": version} if version else {}
        outcomes[number] = delete(one, doomed.key, query, Condition(if_match=doomed.etag))

    if not is_denied:
        # First all of these: the removal of what lies above a null version makes that current.
        nulls = [number for number, version in enumerate(versions) if version == NULL]
        _for_each(call, nulls, find, outcomes)
    left = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, S3Error)]
    _for_each(call, left, delete_one, outcomes)
    return outcomes


def _for_each(
    call: Call,
    numbers: list[int],
    work: Callable[[int], None],
    outcomes: list[dict[str, str] | S3Error],
) -> None:
    """Do ``work`` for each number in parallel; an error of the S3 API is the outcome of its own."""

    def try_one(number: int) -> None:
        try:
            work(number)
        except S3Error as error:
            outcomes[number] = error

    for_each(try_one, numbers, call.options.multi_delete_concurrency)


def _result(
    names: list[_Doomed], outcomes: list[dict[str, str] | S3Error], is_quiet: bool
) -> bytes:
    document = Document("DeleteResult")
    for doomed, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, S3Error):
            with document.inside("Error"):
                document.text("Key", doomed.key)
                if doomed.version:
                    document.text("VersionId", doomed.version)
                document.text("Code", outcome.code)
                document.text("Message", outcome.message)
        elif not is_quiet:
            with document.inside("Deleted"):
                document.text("Key", doomed.key)
                if doomed.version:
                    document.text("VersionId", doomed.version)
                if outcome.get("x-amz-delete-marker"):
                    document.text("DeleteMarker", True)
                    made = outcome["x-amz-version-id"]
                    document.text("DeleteMarkerVersionId", doomed.version or made)
    return document.finish()
