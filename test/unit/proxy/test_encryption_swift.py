"""What OpenStack Swift's encryption wrote is read here, and the other way round."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster, Reply
from fake_devices import Stored
from swift_encryption import (
    BODY,
    GOLDEN,
    METADATA,
    Case,
    cases,
    our_filters,
    swift_filters,
)

from proxy.middleware.encryption.meta import split_value

ETAG = hashlib.md5(BODY).hexdigest()
CASES = pytest.mark.parametrize("case", list(cases()), ids=str)
STORED = {
    (entry["name"], entry["version"], entry["secret_id"]): entry
    for entry in json.loads(GOLDEN.read_text())
}


def container_of(case: Case) -> str:
    return case.path.rsplit("/", case.name.count("/") + 1)[0]


def with_filters(cluster: FakeCluster, filters: Any, case: Case) -> FakeCluster:
    filtered = FakeCluster(cluster.devices, filters(cluster.app, case.version, case.secret_id))
    assert filtered.call("PUT", container_of(case)).status in (201, 202)
    return filtered


def assert_readable(cluster: FakeCluster, case: Case) -> None:
    """All of the object, in all the ways in which it can be read."""
    for method in ("GET", "HEAD"):
        reply = cluster.call(method, case.path)
        assert (reply.status, reply.body) == (200, BODY if method == "GET" else b"")
        assert reply.headers["etag"].strip('"') == ETAG
        for name, value in METADATA.items():
            assert reply.headers[name.lower()] == value
        assert not [name for name in reply.headers if "sysmeta-crypto" in name]
    for first, last in ((0, 0), (17, 40), (250, 262)):
        reply = cluster.call("GET", case.path, headers={"Range": f"bytes={first}-{last}"})
        assert (reply.status, reply.body) == (206, BODY[first : last + 1])
    reply = cluster.call("GET", case.path, headers={"Range": "bytes=1-20,33-64,-5"})
    assert reply.status == 206
    assert parts_of(reply) == [BODY[1:21], BODY[33:65], BODY[-5:]]
    listing = json.loads(cluster.call("GET", container_of(case)).body)
    assert [entry["hash"] for entry in listing] == [ETAG]


def parts_of(reply: Reply) -> list[bytes]:
    boundary = reply.headers["content-type"].partition("boundary=")[2].strip('"').encode()
    assert reply.body.rstrip().endswith(b"--%b--" % boundary)
    sections = reply.body.split(b"--" + boundary)[1:-1]
    return [section.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for section in sections]


@CASES
@pytest.mark.parametrize("length", ["known", "chunked"])
def test_swift_reads_what_we_write(cluster: FakeCluster, case: Case, length: str) -> None:
    headers = METADATA | ({"Transfer-Encoding": "chunked"} if length == "chunked" else {})
    ours = with_filters(cluster, our_filters, case)
    reply = ours.call("PUT", case.path, BODY, headers)
    assert (reply.status, reply.headers["etag"]) == (201, ETAG)
    for device in cluster.devices[:3]:
        assert BODY[:16] not in device.stored[case.path.removeprefix("/v1")].body
        assert "x-object-meta-color" not in device.last("PUT").headers
    assert_readable(with_filters(cluster, swift_filters, case), case)
    assert_readable(ours, case)


@CASES
def test_we_read_what_swift_writes(cluster: FakeCluster, case: Case) -> None:
    theirs = with_filters(cluster, swift_filters, case)
    assert theirs.call("PUT", case.path, BODY, METADATA).status == 201
    assert_readable(with_filters(cluster, our_filters, case), case)


@CASES
def test_we_read_what_swift_wrote(cluster: FakeCluster, case: Case) -> None:
    ours = with_filters(cluster, our_filters, case)
    entry = STORED[case.name, case.version, case.secret_id]
    for device in cluster.devices:
        name = case.path.removeprefix("/v1")
        stored = Stored("1700000000.00000", entry["headers"], b64decode(entry["body"]))
        device.stored[name] = stored
    assert_readable(ours, case)


@CASES
def test_metadata_is_written_byte_for_byte_as_swift_does(
    make_cluster: MakeCluster, case: Case
) -> None:
    """Same names, same forms: only what is random differs."""
    cluster = make_cluster(devices=3)
    ours = with_filters(cluster, our_filters, case)
    assert ours.call("PUT", case.path, BODY, METADATA).status == 201
    written = cluster.devices[0].stored[case.path.removeprefix("/v1")].headers
    golden = STORED[case.name, case.version, case.secret_id]["headers"]
    assert sorted(written) == sorted(golden)
    mac = "x-object-sysmeta-crypto-etag-mac"
    assert written[mac] == golden[mac]
    user_meta = "x-object-transient-sysmeta-crypto-meta"
    assert written[user_meta] == golden[user_meta]
    for name, value in golden.items():
        if "swift_meta=" in value:
            ours_meta, theirs = split_value(written[name])[1], split_value(value)[1]
            assert ours_meta is not None
            assert theirs is not None
            assert ours_meta.key_id == theirs.key_id
            assert value.endswith(f"; swift_meta={theirs.dump()}")
            assert len(written[name]) >= len(value) - 12  # percent signs of random bytes
