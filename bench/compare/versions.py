# SPDX-License-Identifier: Apache-2.0
"""One object with more and more versions, through S3: the next PUT, HEAD, GET, and the listing."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from defusedxml import ElementTree
from load import HOST, percentile

from compare.apis import Target
from compare.client import Load, Outcome, Step, run
from compare.running import Running

BUCKET = "versions"
SIZE_BYTES = 4096
REQUESTS = 100
LISTINGS = 5
PAGE = 1000
FILL_CLIENTS = 4
TIMEOUT_SECONDS = 120.0
_ENABLE = (
    b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Status>Enabled</Status></VersioningConfiguration>"
)


class Refused(Exception):
    """A peer does not do what this workload needs; the text is its answer."""


@dataclass(frozen=True)
class VersionSample:
    """One operation on an object that has ``versions`` versions, by one client alone."""

    peer: str
    operation: str
    versions: int
    median_ms: float
    cpu_ms: float


def measure_versions(
    peer: str, running: Running, target: Target, counts: Sequence[int]
) -> list[VersionSample]:
    """Measure an object for each number of versions, from few to many.

    :raises Refused: the peer answers otherwise than S3 says.
    """
    _must(target, "PUT", f"/{BUCKET}", "", b"")
    _must(target, "PUT", f"/{BUCKET}", "versioning=", _ENABLE)
    samples = []
    for count in sorted(counts):
        name = f"{count}-versions"
        path = f"{BUCKET}/{name}"
        put = target.put(path, SIZE_BYTES)
        _send(running, target, [put] * count, FILL_CLIENTS)
        samples.append(_listing(running, target, peer, name, count))
        for operation, step in (
            ("HEAD", target.head(path)),
            ("GET", target.get(path, SIZE_BYTES)),
            ("PUT", put),
        ):
            outcome = _send(running, target, [step] * REQUESTS, 1)
            median = percentile(outcome.latencies_ms, 0.5)
            cpu_ms = outcome.server_cpu_ms / REQUESTS
            samples.append(VersionSample(peer, operation, count, median, cpu_ms))
    return samples


def _send(running: Running, target: Target, steps: list[Step], clients: int) -> Outcome:
    os.sync()
    outcome = run(Load(target.port, target.access, steps), clients, 1, running.cpu_ms)
    if outcome.failures:
        raise Refused(outcome.failures[0])
    return outcome


def _listing(running: Running, target: Target, peer: str, name: str, count: int) -> VersionSample:
    """List all versions, page by page; compare their number."""
    before, seconds = running.cpu_ms(), []
    for _ in range(LISTINGS):
        begin = time.monotonic()
        found = _count_versions(target, name)
        seconds.append(time.monotonic() - begin)
        if found != count:
            raise Refused(f"{found} versions are listed, {count} were written")
    cpu_ms = (running.cpu_ms() - before) / LISTINGS
    median = sorted(seconds)[len(seconds) // 2] * 1000
    return VersionSample(peer, "list of all", count, median, cpu_ms)


def _count_versions(target: Target, name: str) -> int:
    found, markers = 0, {"key-marker": "", "version-id-marker": ""}
    while True:
        query = {"max-keys": str(PAGE), "prefix": name, "versions": ""}
        query |= {marker: value for marker, value in markers.items() if value}
        body = _must(target, "GET", f"/{BUCKET}", urlencode(sorted(query.items())), b"")
        entries, markers, is_last = read_page(body)
        found += entries
        if is_last:
            return found


def read_page(body: bytes) -> tuple[int, dict[str, str], bool]:
    """The number of versions in a page, the markers of the next one, and whether it is the last."""
    texts: dict[str, str] = {}
    entries = 0
    for element in ElementTree.fromstring(body):
        tag = element.tag.rpartition("}")[2]
        if tag == "Version":
            entries += 1
        else:
            texts[tag] = element.text or ""
    markers = {
        "key-marker": texts.get("NextKeyMarker", ""),
        "version-id-marker": texts.get("NextVersionIdMarker", ""),
    }
    is_last = texts.get("IsTruncated") != "true"
    if not is_last and not any(markers.values()):
        raise Refused("a page that is not the last names no marker")
    return entries, markers, is_last


def _must(target: Target, method: str, path: str, query: str, body: bytes) -> bytes:
    """Send a signed request that must be answered with 200; return the body."""
    url = f"{path}?{query}" if query else path
    headers = target.access.headers(method, url, hashlib.sha256(body).hexdigest())
    connection = http.client.HTTPConnection(HOST, target.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request(method, url, body=body or None, headers=headers)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise Refused(f"{method} {url} answered {answer.status}: {said[:200]!r}")
    return said
