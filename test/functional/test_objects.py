"""Objects through the API: bodies of every kind are read back unchanged."""

from __future__ import annotations

import hashlib
import http.client
import itertools
from collections.abc import Iterator

import pytest
from running_cluster import RunningCluster
from swift_api import Account, RawConnection

from cluster.ports import HOST
from ring.ring import load_rings

NAMES = [
    "plain",
    "a/b/c",
    "with space",
    "percent%41",
    "quote'\"",
    "ünïcödé-日本",
    "+&=?#;",
    "ends/",
]
MIB = 1024 * 1024
#: Of 1024: the others stay as they are.
PARTITIONS = 16


@pytest.mark.parametrize("name", NAMES)
def test_every_name_comes_back(account: Account, container: str, name: str) -> None:
    body = name.encode() * 100
    put = account.call("PUT", container, name, body=body)
    assert put.status == 201
    assert put.headers["etag"] == hashlib.md5(body).hexdigest()
    account.await_names([name], container)
    assert account.call("GET", container, name).body == body
    assert account.call("DELETE", container, name).status == 204
    assert account.call("GET", container, name).status == 404
    account.await_names([], container)


@pytest.mark.parametrize("size", [0, 1, 4096, 65536, MIB - 1, MIB, MIB + 1, 9 * MIB + 17])
def test_every_size_comes_back(account: Account, container: str, size: int) -> None:
    body = (hashlib.sha256(b"%d" % size).digest() * (size // 32 + 1))[:size]
    assert account.call("PUT", container, "o", body=body).status == 201
    answer = account.call("GET", container, "o")
    assert answer.body == body
    assert answer.headers["content-length"] == str(size)
    head = account.call("HEAD", container, "o")
    assert (head.status, head.headers["content-length"], head.body) == (200, str(size), b"")


def test_the_newest_of_two_puts_is_read(account: Account, container: str) -> None:
    for version in (b"first", b"second"):
        assert account.call("PUT", container, "o", body=version).status == 201
        assert account.call("GET", container, "o").body == version
    assert account.call("GET", container, format="json").json[0]["bytes"] == 6


def test_headers_come_back_and_post_replaces_them(account: Account, container: str) -> None:
    headers = {
        "Content-Type": "text/x-test; charset=utf-8",
        "X-Object-Meta-One": "1",
        "X-Object-Meta-Two": "zwei",
        "Content-Encoding": "identity",
        "Content-Disposition": "attachment",
    }
    assert account.call("PUT", container, "o", headers=headers, body=b"x").status == 201
    found = account.call("HEAD", container, "o").headers
    assert {name: found.get(name.lower()) for name in headers} == headers
    assert account.call("POST", container, "o", headers={"X-Object-Meta-Three": "3"}).status == 202
    found = account.call("HEAD", container, "o").headers
    assert found["x-object-meta-three"] == "3"
    assert "x-object-meta-one" not in found
    assert found["content-type"] == "text/x-test; charset=utf-8"
    assert account.call("GET", container, "o").body == b"x"


@pytest.mark.parametrize(
    ("span", "expected"),
    [("bytes=0-4", b"01234"), ("bytes=5-", b"56789"), ("bytes=-3", b"789"), ("bytes=8-99", b"89")],
)
def test_a_range(account: Account, container: str, span: str, expected: bytes) -> None:
    assert account.call("PUT", container, "o", body=b"0123456789").status == 201
    answer = account.call("GET", container, "o", headers={"Range": span})
    assert (answer.status, answer.body) == (206, expected)
    start = b"0123456789".index(expected)
    span_sent = f"bytes {start}-{start + len(expected) - 1}/10"
    assert answer.headers["content-range"] == span_sent


def test_several_ranges_come_as_parts(account: Account, container: str) -> None:
    assert account.call("PUT", container, "o", body=b"0123456789").status == 201
    answer = account.call("GET", container, "o", headers={"Range": "bytes=0-1,8-9"})
    assert answer.status == 206
    assert answer.headers["content-type"].startswith("multipart/byteranges")
    boundary = answer.headers["content-type"].partition("boundary=")[2].strip('"').encode()
    parts = [part.partition(b"\r\n\r\n")[2] for part in answer.body.split(b"--" + boundary)[1:-1]]
    assert [part.removesuffix(b"\r\n") for part in parts] == [b"01", b"89"]


def test_conditional_requests(account: Account, container: str) -> None:
    given = {"Content-Type": "a/b", "X-Object-Meta-A": "b"}
    assert account.call("PUT", container, "o", headers=given, body=b"x").status == 201
    found = account.call("HEAD", container, "o").headers
    etag, modified = found["etag"], found["last-modified"]
    for headers, status in (
        ({"If-Match": etag}, 200),
        ({"If-Match": "other"}, 412),
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": "other"}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Unmodified-Since": modified}, 200),
        ({"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:01 GMT"}, 412),
    ):
        answer = account.call("GET", container, "o", headers=headers)
        assert (answer.status, answer.headers["content-type"]) == (status, "a/b"), headers
        assert answer.headers["x-object-meta-a"] == "b"
    answer = account.call("GET", container, "o", headers={"Range": "bytes=1-"})
    assert (answer.status, answer.headers["x-object-meta-a"]) == (416, "b")
    again = account.call("PUT", container, "o", headers={"If-None-Match": "*"}, body=b"y")
    assert again.status == 412
    assert account.call("GET", container, "o").body == b"x"


def test_a_chunked_upload(account: Account, container: str) -> None:
    chunks = [b"a" * 10, b"b" * 70_000, b"c" * (2 * MIB)]

    def pieces() -> Iterator[bytes]:
        yield from chunks

    assert account.call("PUT", container, "o", body=pieces()).status == 201
    answer = account.call("GET", container, "o")
    assert answer.body == b"".join(chunks)


def test_100_continue_comes_before_the_body(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    with RawConnection(cluster.port) as connection:
        connection.send(
            f"PUT {account.url(container, 'o')} HTTP/1.1\r\nHost: martlet\r\n"
            f"X-Auth-Token: {account.token}\r\nContent-Length: 4\r\n"
            f"Expect: 100-continue\r\n\r\n".encode()
        )
        assert connection.interim_status() == 100
        connection.send(b"body")
        assert connection.answer().status == 201
    assert account.call("GET", container, "o").body == b"body"


def test_no_100_continue_for_what_is_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    with RawConnection(cluster.port) as connection:
        connection.send(
            f"PUT {account.url(container, 'o')} HTTP/1.1\r\nHost: martlet\r\n"
            f"X-Auth-Token: none\r\nContent-Length: 4\r\n"
            f"Expect: 100-continue\r\n\r\n".encode()
        )
        assert connection.interim_status() == 401


def test_copy_both_ways(account: Account, container: str) -> None:
    headers = {"X-Object-Meta-Kept": "yes", "Content-Type": "text/x-test"}
    body = b"copied" * 100_000
    assert account.call("PUT", container, "from", headers=headers, body=body).status == 201
    destination = {"Destination": f"{container}/by-copy", "X-Object-Meta-New": "1"}
    assert account.call("COPY", container, "from", headers=destination).status == 201
    source = {"X-Copy-From": f"/{container}/from", "Content-Length": "0"}
    assert account.call("PUT", container, "by-put", headers=source).status == 201
    for name in ("by-copy", "by-put"):
        answer = account.call("GET", container, name)
        assert answer.body == body
        assert answer.headers["x-object-meta-kept"] == "yes"
        assert answer.headers["content-type"] == "text/x-test"
    assert account.call("HEAD", container, "by-copy").headers["x-object-meta-new"] == "1"
    missing = {"Destination": f"{container}/x"}
    assert account.call("COPY", container, "absent", headers=missing).status == 404


def test_what_is_not_there_is_404(account: Account, container: str) -> None:
    assert account.call("GET", container, "absent").status == 404
    assert account.call("DELETE", container, "absent").status == 404
    assert account.call("POST", container, "absent").status == 404
    assert account.call("PUT", "no-such-container", "o", body=b"x").status == 404
    assert account.call("GET", "no-such-container").status == 404


def test_a_container_with_objects_is_not_deleted(account: Account, container: str) -> None:
    assert account.call("PUT", container, "o", body=b"x").status == 201
    assert account.call("DELETE", container).status == 409
    assert account.call("DELETE", container, "o").status == 204
    assert account.call("DELETE", container).status == 204
    assert account.call("HEAD", container).status == 404


def test_info_shows_the_limits(cluster: RunningCluster, account: Account) -> None:
    info = account.send("GET", "/info").json
    assert info["swift"]["max_object_name_length"] == 1024
    assert info["swift"]["policies"][0]["name"] == "Policy-0"
    assert "tempauth" in info


def test_healthcheck_and_transaction_id(cluster: RunningCluster) -> None:
    connection = http.client.HTTPConnection(HOST, cluster.port, timeout=60)
    connection.request("GET", "/healthcheck")
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"OK")
    connection.request("GET", "/v1/AUTH_test")
    response = connection.getresponse()
    response.read()
    assert response.status == 401
    assert (response.getheader("X-Trans-Id") or "").startswith("tx")
    connection.close()


def test_many_small_objects_take_few_inodes(cluster: RunningCluster, account: Account) -> None:
    """Objects of few partitions, on three replicas: far fewer files than one per replica."""
    devices = cluster.home / "devices"
    ring = load_rings(cluster.home / "etc").object_ring(0)
    owner = account.path.rpartition("/")[2]
    candidates = (f"{number}" for number in itertools.count())
    few = (name for name in candidates if ring.get_part(owner, "inodes", name) < PARTITIONS)
    names = list(itertools.islice(few, 25 * PARTITIONS))

    def inodes() -> int:
        return sum(1 for _ in devices.glob("*/bundles*/**/*"))

    assert account.call("PUT", "inodes").status == 201
    before = inodes()
    for name in names:
        assert account.call("PUT", "inodes", name, body=b"x" * 4096).status == 201
    assert (inodes() - before) / (len(names) * 3) < 0.25
