# SPDX-License-Identifier: Apache-2.0
"""One object with more and more versions, through S3: the next PUT, HEAD, GET, and the listing."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from defusedxml import ElementTree
from load import percentile

from compare.apis import Target
from compare.client import Load, Outcome, Step, run
from compare.running import Running
from compare.signed import Refused, must

BUCKET = "versions"
SIZE_BYTES = 4096
REQUESTS = 100
LISTINGS = 5
PAGE = 1000
FILL_CLIENTS = 4
_ENABLE = (
    b'<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<Status>Enabled</Status></VersioningConfiguration>"
)


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
    must(target, "PUT", f"/{BUCKET}")
    must(target, "PUT", f"/{BUCKET}", "versioning=", _ENABLE)
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
        body = must(target, "GET", f"/{BUCKET}", urlencode(sorted(query.items()))).body
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
