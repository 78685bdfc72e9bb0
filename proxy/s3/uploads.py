# SPDX-License-Identifier: Apache-2.0
"""Multipart uploads that are under way: where their parts are, and what began them.

The layout is that of OpenStack Swift's s3api. The container ``<bucket>+segments`` has an empty
object ``<key>/<upload id>`` for each upload, with the metadata of the later object, and one
``<key>/<upload id>/<number>`` for each part.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from martlet.http.environ import MADE_BY_QUORUM, MADE_OF
from martlet.http.headers import Headers
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import Answered, close_body
from proxy.replicas.versions import MADE_BY_FEW, NULL, VERSION_ID
from proxy.s3.bucket import SEGMENTS
from proxy.s3.call import Call
from proxy.s3.object_headers import CHECKSUM_KIND, ETAG
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.part_checksums import Kind

#: How long a completion that is sent again waits for a quorum, seconds.
QUORUM_SECONDS = 2.0
#: The pause before the first of the further questions for a quorum, seconds; then it doubles.
_PAUSE = 0.1
_ID = re.compile(r"[A-Za-z0-9_.~=-]{1,128}", re.ASCII)


class Upload(NamedTuple):
    """An upload; text.

    :param headers: of the object that began it, or of the object that it became.
    """

    bucket: str
    key: str
    upload_id: str
    headers: Headers
    is_completed: bool = False

    @property
    def container(self) -> str:
        """The container of the parts."""
        return f"{self.bucket}{SEGMENTS}"

    @property
    def name(self) -> str:
        """The object that began it, in that container."""
        return f"{self.key}/{self.upload_id}"

    @property
    def checksum_kind(self) -> Kind | None:
        """The checksum that the object will have; None without one."""
        return Kind.parse(self.headers.get(CHECKSUM_KIND))

    def part(self, number: int) -> str:
        """The object of a part."""
        return f"{self.name}/{number}"


def new_upload_id() -> str:
    """An id that was never used."""
    return secrets.token_urlsafe(36)


def find_upload(call: Call, *, may_be_completed: bool = False) -> Upload:
    """The upload that the parameter uploadId names.

    :param may_be_completed: an object that was made of it is found as well; see `by_quorum`.
    :raises S3Error: NoSuchUpload, or an error about the bucket or the client's rights.
    """
    upload_id = call.params.get("uploadId", "")
    missing = S3Error("NoSuchUpload", fields={"UploadId": upload_id})
    # With a number as the id, the object that began it would be a part of another upload.
    if not _ID.fullmatch(upload_id) or upload_id.isdecimal():
        call.require_bucket()
        raise missing
    upload = Upload(call.bucket, call.key, upload_id, Headers())
    begun = call.ask("HEAD", upload.container, upload.name, allowed=(404,))
    if begun.is_success:
        return upload._replace(headers=begun.headers)
    call.info(call.bucket)
    if not may_be_completed:
        raise missing
    made = made_of(call, upload, pre_authorized=False, needs_quorum=True)
    if made is None:
        raise missing
    return upload._replace(headers=made, is_completed=True)


def made_of(
    call: Call,
    upload: Upload,
    removed: str = "",
    *,
    pre_authorized: bool = True,
    needs_quorum: bool = False,
) -> Headers | None:
    """The headers of the object that was made of an upload; None if there is none.

    It may be an old version. A completion that was sent twice may have made several.

    :param removed: the id of a version that does not count: a replica may have missed its removal.
    :param needs_quorum: the version is to be acknowledged. If fewer devices have it than a write
        needs, the headers say so.
    :raises S3Error: it is not known whether there is one, or the client may not know.
    """
    head = call.request(
        "HEAD",
        upload.bucket,
        upload.key,
        query={"symlink": "get"},
        pre_authorized=pre_authorized,
    )
    known = removed if removed in ("", NULL) else Timestamp(removed).internal
    head[MADE_OF] = upload.upload_id, known, False
    if needs_quorum:
        head[MADE_BY_QUORUM] = True
    status, headers, chunks = call.send(head)
    close_body(chunks)
    if status == 404:
        return None
    if status // 100 != 2:
        raise call.refusal(Answered(status, headers, b""), "HEAD", upload.bucket, upload.key)
    return headers


def is_made_by_few(made: Headers) -> bool:
    """Whether fewer devices have the version than a write needs, after a question for a quorum."""
    return MADE_BY_FEW in made


def by_quorum(call: Call, upload: Upload, made: Headers, seconds: float) -> Headers | None:
    """The version once a quorum has it; the last answer if none has it in that time.

    Another request may be about to write it, or replicators bring it to the devices that lack it.
    """
    until = time.monotonic() + seconds
    pause = _PAUSE
    found: Headers | None = made
    while found is not None and is_made_by_few(found) and time.monotonic() + pause < until:
        time.sleep(pause)
        pause *= 2
        try:
            found = made_of(call, upload, needs_quorum=True)
        except S3Error:
            continue
    return found


def made_by_few() -> S3Error:
    """The error for a completion whose version may only be acknowledged later."""
    return S3Error("ServiceUnavailable", "Too few storage servers have the object. Try again.")


def id_of_made(call: Call, made: Upload) -> str:
    """The id of the version that was made of an upload; empty in a bucket without versions.

    object_versioning names none while it cannot look the bucket up. The object servers do.
    """
    known = made.headers.get("x-object-version-id") or made.headers.get(VERSION_ID)
    if known:
        return str(known)
    try:
        return NULL if call.is_versioned(made.bucket) else ""
    except S3Error:
        return ""  # the object is there


def completed_etag(upload: Upload) -> str:
    """The ETag with which the upload was completed."""
    return str(upload.headers.get(ETAG, ""))


def part_number(call: Call) -> int:
    """The parameter partNumber of an upload.

    :raises S3Error: it is not a number in the allowed range.
    """
    text = call.params.get("partNumber", "")
    most = call.options.max_upload_part_num
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number or not 1 <= int(text) <= most:
        reason = f"Part number must be an integer between 1 and {most}, inclusive"
        raise invalid_argument("partNumber", text, reason)
    return int(text)


def parts_of(call: Call, upload: Upload) -> list[tuple[int, dict[str, Any]]]:
    """The parts with their rows in the container, by number."""
    found = []
    for row in rows_of(call, upload.container, f"{upload.name}/"):
        number = str(row["name"]).rpartition("/")[2]
        if row["name"] == f"{upload.name}/{number}" and number.isascii() and number.isdigit():
            found.append((int(number), row))
    return sorted(found, key=lambda part: part[0])


def rows_of(call: Call, container: str, prefix: str, marker: str = "") -> Iterator[dict[str, Any]]:
    """The rows of a container of parts, page by page; none if there is no such container."""
    while True:
        query = {"prefix": prefix} if prefix else {}
        if marker:
            query["marker"] = marker
        try:
            rows = call.listing(container, query)
        except S3Error as error:
            if error.code != "NoSuchBucket":
                raise
            return
        yield from rows
        if not rows:
            return
        marker = str(rows[-1]["name"])
