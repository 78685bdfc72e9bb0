# SPDX-License-Identifier: Apache-2.0
"""Multipart uploads through S3: how long their completion takes, and what it costs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from defusedxml import ElementTree

from compare.apis import Target
from compare.client import body_of
from compare.running import Running
from compare.signed import Refused, must

BUCKET = "uploads"


@dataclass(frozen=True)
class Parts:
    """The parts of an upload."""

    count: int
    size_bytes: int


@dataclass(frozen=True)
class CompletionSample:
    """One completion, by one client alone."""

    peer: str
    parts: int
    size_bytes: int
    took_ms: float
    cpu_ms: float


def measure_completion(
    peer: str, running: Running, target: Target, parts: Parts, number: int
) -> CompletionSample:
    """Upload the parts, and measure their completion. Then the object is deleted.

    :param number: of the round.
    :raises Refused: the peer answers otherwise than S3 says.
    """
    if not number:
        must(target, "PUT", f"/{BUCKET}")
    path = f"/{BUCKET}/upload-{number}"
    upload = f"uploadId={_begin(target, path)}"
    body = body_of(parts.size_bytes)
    wanted = []
    for part in range(1, parts.count + 1):
        said = must(target, "PUT", path, f"partNumber={part}&{upload}", body)
        etag = said.headers["ETag"]
        wanted.append(f"<Part><PartNumber>{part}</PartNumber><ETag>{etag}</ETag></Part>")
    text = f"<CompleteMultipartUpload>{''.join(wanted)}</CompleteMultipartUpload>"
    os.sync()
    cpu, begin = running.cpu_ms(), time.monotonic()
    said = must(target, "POST", path, upload, text.encode())
    took_ms = (time.monotonic() - begin) * 1000
    cpu_ms = running.cpu_ms() - cpu
    if b"<CompleteMultipartUploadResult" not in said.body:  # 200 may come before an error
        raise Refused(f"the completion answered {said.body[:200]!r}")
    length = int(must(target, "HEAD", path).headers["Content-Length"])
    if length != parts.count * parts.size_bytes:
        raise Refused(f"the object has {length} bytes")
    must(target, "DELETE", path)
    return CompletionSample(peer, parts.count, parts.size_bytes, took_ms, cpu_ms)


def _begin(target: Target, path: str) -> str:
    """Begin an upload; return its id."""
    said = must(target, "POST", path, "uploads=")
    for element in ElementTree.fromstring(said.body):
        if element.tag.rpartition("}")[2] == "UploadId":
            return str(element.text)
    raise Refused(f"an upload without an id: {said.body[:200]!r}")
