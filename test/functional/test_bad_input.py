"""Bad input gets a clear 4xx, and afterwards the same server serves the next request.

Every test here runs between two checks: the processes of the cluster are the same as before, and a
stored object is still read back intact.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running_cluster import RunningCluster
from swift_api import Account, Answer, RawConnection

CONTENT = b"0123456789" * 100
LONG_NAME_BYTES_MAX = 1024


@pytest.fixture(autouse=True)
def same_server_serves_the_next_request(
    cluster: RunningCluster, account: Account, container: str
) -> Iterator[None]:
    processes = cluster.all_pids()
    assert account.call("PUT", container, "kept", body=CONTENT).status == 201
    yield
    assert cluster.all_pids() == processes
    for _ in range(4):  # new connections, to any worker
        account.close()
        assert account.call("GET", container, "kept").body == CONTENT


def is_clear_refusal(answer: Answer, *statuses: int) -> bool:
    """Whether the status is one of these, and the body is a sentence without a traceback."""
    assert answer.status in statuses, answer
    assert 0 < len(answer.body) < 1000, answer
    assert b"Traceback" not in answer.body
    return True


def raw_request(
    cluster: RunningCluster, account: Account, line: bytes, headers: bytes, body: bytes = b""
) -> RawConnection:
    connection = RawConnection(cluster.port)
    token = f"Host: martlet\r\nX-Auth-Token: {account.token}\r\n".encode()
    connection.send(line + b" HTTP/1.1\r\n" + token + headers + b"\r\n" + body)
    return connection


# --- names ---


def test_an_object_name_of_1024_bytes_is_the_longest(account: Account, container: str) -> None:
    longest = "é" * (LONG_NAME_BYTES_MAX // 2)
    assert account.call("PUT", container, longest, body=b"x").status == 201
    assert account.call("GET", container, longest).body == b"x"
    assert is_clear_refusal(account.call("PUT", container, longest + "x", body=b"x"), 400)


@pytest.mark.parametrize("method", ["PUT", "GET", "HEAD", "POST", "DELETE"])
def test_a_longer_object_name_is_refused_by_every_method(
    account: Account, container: str, method: str
) -> None:
    name = "x" * (LONG_NAME_BYTES_MAX + 1)
    status = account.call(method, container, name, body=b"" if method == "PUT" else None).status
    assert status in ((400,) if method == "PUT" else (400, 404))


def test_a_container_name_of_256_bytes_is_the_longest(account: Account) -> None:
    assert account.call("PUT", "c" * 256).status == 201
    assert is_clear_refusal(account.call("PUT", "c" * 257), 400)
    assert account.call("DELETE", "c" * 256).status == 204


@pytest.mark.parametrize("name", ["%FF", "a%C3", "%ED%A0%80", "%C0%AF"])
def test_a_name_that_is_not_utf8_is_refused(account: Account, container: str, name: str) -> None:
    for path in (f"{account.path}/{container}/{name}", f"{account.path}/{name}"):
        assert is_clear_refusal(account.send("PUT", path, body=b"x"), 412)


def test_a_name_with_nul_is_refused(account: Account, container: str) -> None:
    for path in (f"{account.path}/{container}/a%00b", f"{account.path}/a%00b"):
        assert is_clear_refusal(account.send("PUT", path, body=b"x"), 412)


def test_raw_bytes_in_the_path_are_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    path = f"{account.path}/{container}/".encode()
    with raw_request(cluster, account, b"PUT " + path + b"\xff\xfe", b"Content-Length: 0\r\n") as c:
        assert c.answer().status in (400, 412)


@pytest.mark.parametrize(
    "path", ["/v1//c/o", "/v1/AUTH_test//o", "/v1/", "/v1", "/", "//", "/v7/AUTH_test/c/o"]
)
def test_a_slash_where_none_may_be_finds_nothing(account: Account, path: str) -> None:
    assert account.send("PUT", path, body=b"x").status in (400, 401, 403, 404, 412)


def test_a_copy_to_a_name_without_container_is_refused(account: Account, container: str) -> None:
    answer = account.call("COPY", container, "kept", headers={"Destination": "no-object"})
    assert is_clear_refusal(answer, 412)
    answer = account.call("PUT", container, "new", headers={"X-Copy-From": "no-object"}, body=b"")
    assert is_clear_refusal(answer, 412)


# --- bodies ---


def test_a_body_shorter_than_its_length_stores_nothing(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'short')}".encode()
    with raw_request(cluster, account, line, b"Content-Length: 1000\r\n", b"x" * 999):
        pass  # closes the connection
    assert account.call("GET", container, "short").status == 404
    account.await_names(["kept"], container)


def test_a_body_shorter_than_its_length_leaves_the_old_object(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'kept')}".encode()
    with raw_request(cluster, account, line, b"Content-Length: 1000\r\n", b"x" * 10):
        pass
    assert account.call("GET", container, "kept").body == CONTENT


def test_what_follows_a_body_is_no_part_of_it(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'long')}".encode()
    surplus = b"this is not a request\r\n\r\n"
    with raw_request(cluster, account, line, b"Content-Length: 4\r\n", b"four" + surplus) as c:
        assert c.answer().status == 201
        assert is_clear_refusal(c.answer(), 400)
    assert account.call("GET", container, "long").body == b"four"


@pytest.mark.parametrize("length", [b"-1", b"abc", b"1e3", b"0x10", b"", b"9" * 40, b"5, 6"])
def test_a_malformed_length_is_refused(
    cluster: RunningCluster, account: Account, container: str, length: bytes
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    header = b"Content-Length: " + length + b"\r\n"
    with raw_request(cluster, account, line, header) as connection:
        assert is_clear_refusal(connection.answer(), 400, 411, 413)
    assert account.call("HEAD", container, "bad").status == 404


def test_two_lengths_are_refused(cluster: RunningCluster, account: Account, container: str) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    headers = b"Content-Length: 4\r\nContent-Length: 5\r\n"
    with raw_request(cluster, account, line, headers, b"12345") as connection:
        assert is_clear_refusal(connection.answer(), 400)


def test_a_put_without_length_is_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    with raw_request(cluster, account, line, b"") as connection:
        assert is_clear_refusal(connection.answer(), 411)


def test_a_body_over_the_largest_size_is_refused_unread(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    largest = account.send("GET", "/info").json["swift"]["max_file_size"]
    line = f"PUT {account.url(container, 'bad')}".encode()
    with raw_request(cluster, account, line, b"Content-Length: %d\r\n" % (largest + 1)) as c:
        assert is_clear_refusal(c.answer(), 413)


@pytest.mark.parametrize(
    "body", [b"zz\r\nhello\r\n0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"\r\n"]
)
def test_a_malformed_chunk_is_refused(
    cluster: RunningCluster, account: Account, container: str, body: bytes
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    with raw_request(cluster, account, line, b"Transfer-Encoding: chunked\r\n", body) as c:
        assert is_clear_refusal(c.answer(), 400, 499)
    assert account.call("HEAD", container, "bad").status == 404


def test_chunks_that_end_early_store_nothing(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    headers = b"Transfer-Encoding: chunked\r\n"
    with raw_request(cluster, account, line, headers, b"5\r\nhello\r\n"):
        pass
    assert account.call("GET", container, "bad").status == 404
    account.await_names(["kept"], container)


def test_an_unknown_transfer_encoding_is_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    with raw_request(cluster, account, line, b"Transfer-Encoding: bogus\r\n") as connection:
        assert is_clear_refusal(connection.answer(), 400, 501)


# --- ETag, ranges, dates, queries ---


def test_a_wrong_etag_stores_nothing(account: Account, container: str) -> None:
    answer = account.call("PUT", container, "new", headers={"ETag": "0" * 32}, body=b"x")
    assert is_clear_refusal(answer, 422)
    assert account.call("GET", container, "new").status == 404
    answer = account.call("PUT", container, "kept", headers={"ETag": "0" * 32}, body=b"x")
    assert is_clear_refusal(answer, 422)


@pytest.mark.parametrize("span", ["bytes=1000-", "bytes=5000-6000", "bytes=-0"])
def test_an_unsatisfiable_range_is_416(account: Account, container: str, span: str) -> None:
    answer = account.call("GET", container, "kept", headers={"Range": span})
    assert is_clear_refusal(answer, 416)
    assert answer.headers["content-range"] == "bytes */1000"


@pytest.mark.parametrize(
    "span", ["bytes", "bytes=", "bytes=a-b", "bytes=5-2", "0-4", "lines=0-4", "bytes=--1", "\xff"]
)
def test_a_malformed_range_is_ignored_as_rfc_9110_has_it(
    account: Account, container: str, span: str
) -> None:
    answer = account.call("GET", container, "kept", headers={"Range": span})
    assert answer.status == 200
    assert answer.body == CONTENT


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Delete-At": "1"},
        {"X-Delete-At": "never"},
        {"X-Delete-After": "-1"},
        {"X-Delete-After": "x"},
    ],
)
def test_a_bad_expiry_is_refused(account: Account, container: str, headers: dict[str, str]) -> None:
    answer = account.call("PUT", container, "new", headers=headers, body=b"x")
    assert is_clear_refusal(answer, 400)
    assert account.call("HEAD", container, "new").status == 404


@pytest.mark.parametrize(
    "query", ["limit=99999999", "marker=%FF", "prefix=%C0", "delimiter=%FF", "end_marker=%80"]
)
def test_a_bad_listing_query_is_refused(account: Account, container: str, query: str) -> None:
    assert is_clear_refusal(account.send("GET", f"{account.url(container)}?{query}"), 400, 412)


# --- headers ---


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Object-Meta-" + "n" * 129: "v"},
        {"X-Object-Meta-N": "v" * 257},
        {f"X-Object-Meta-{number}": "v" for number in range(91)},
        {f"X-Object-Meta-{number:02}": "v" * 250 for number in range(17)},
        {"X-Object-Meta-": "empty name"},
    ],
    ids=["name", "value", "count", "overall", "no name"],
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_metadata_over_the_limits_is_refused(
    account: Account, container: str, method: str, headers: dict[str, str]
) -> None:
    body = b"x" if method == "PUT" else None
    answer = account.call(method, container, "kept", headers=headers, body=body)
    assert is_clear_refusal(answer, 400)


def test_metadata_that_is_not_utf8(account: Account, container: str) -> None:
    """Metadata of objects are bytes, stored unchanged; containers and accounts have text."""
    headers = {"X-Object-Meta-N": "\xff\xfe"}
    assert account.call("PUT", container, "o", headers=headers).status == 201
    assert account.call("HEAD", container, "o").headers["x-object-meta-n"] == "\xff\xfe"
    for path, name in (((container,), "X-Container-Meta-N"), ((), "X-Account-Meta-N")):
        assert is_clear_refusal(account.call("POST", *path, headers={name: "\xff\xfe"}), 400)


@pytest.mark.parametrize("kind", ["account", "container"])
def test_metadata_of_accounts_and_containers_has_the_same_limits(
    account: Account, container: str, kind: str
) -> None:
    names = () if kind == "account" else (container,)
    for name, value in (("n" * 129, "v"), ("n", "v" * 257)):
        headers = {f"X-{kind}-Meta-{name}": value}
        assert is_clear_refusal(account.call("POST", *names, headers=headers), 400)


@pytest.mark.parametrize("prefix", [b"X-Object-Meta-", b"X-Other-"])
def test_ten_thousand_headers_are_refused(
    cluster: RunningCluster, account: Account, container: str, prefix: bytes
) -> None:
    line = f"PUT {account.url(container, 'bad')}".encode()
    headers = b"".join(prefix + b"%d: v\r\n" % number for number in range(10_000))
    with raw_request(cluster, account, line, headers + b"Content-Length: 1\r\n", b"x") as c:
        assert is_clear_refusal(c.answer(), 400, 431)
    assert account.call("HEAD", container, "bad").status == 404


def test_an_endless_header_is_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    line = f"GET {account.url(container, 'kept')}".encode()
    with raw_request(cluster, account, line, b"X-Long: " + b"x" * 1_000_000 + b"\r\n") as c:
        assert is_clear_refusal(c.answer(), 400, 431)


def test_an_endless_request_line_is_refused(cluster: RunningCluster) -> None:
    with RawConnection(cluster.port) as connection:
        connection.send(b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\n\r\n")
        assert connection.answer().status in (400, 414)


@pytest.mark.parametrize(
    "line",
    [b"", b"GET", b"GET /", b"GET / HTTP/9.9", b"G\x00T / HTTP/1.1", b"\x16\x03\x01\x02\x00"],
)
def test_a_malformed_request_line_is_refused(cluster: RunningCluster, line: bytes) -> None:
    with RawConnection(cluster.port) as connection:
        connection.send(line + b"\r\nHost: martlet\r\n\r\n")
        try:
            assert is_clear_refusal(connection.answer(), 400, 505)
        except ConnectionError:
            assert line == b""  # an empty line is not a request: the connection closes


@pytest.mark.parametrize(
    "header", [b"no colon", b": no name", b"Space : v", b"Nul: a\x00b", b" folded: v"]
)
def test_a_malformed_header_is_refused(
    cluster: RunningCluster, account: Account, container: str, header: bytes
) -> None:
    line = f"GET {account.url(container, 'kept')}".encode()
    with raw_request(cluster, account, line, header + b"\r\n") as connection:
        assert is_clear_refusal(connection.answer(), 400)


def test_an_unknown_method_is_405(account: Account, container: str) -> None:
    assert is_clear_refusal(account.call("BREW", container, "kept"), 405)


# --- tokens ---


def test_a_token_of_another_account_is_refused(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    other = Account(cluster.port, "test2:tester2", "testing2")
    for method in ("GET", "PUT", "POST", "DELETE"):
        body = b"mine" if method == "PUT" else None
        answer = other.send(method, account.url(container, "kept"), body=body)
        assert is_clear_refusal(answer, 403)
    assert other.send("HEAD", account.url(container, "kept")).status == 403
    other.close()


@pytest.mark.parametrize("token", ["", "AUTH_tk", "AUTH_tk" + "0" * 32, "x" * 4000, "AUTH_tk\xff"])
def test_a_made_up_token_is_refused(
    cluster: RunningCluster, account: Account, container: str, token: str
) -> None:
    path = account.url(container, "kept")
    with RawConnection(cluster.port) as connection:
        head = f"GET {path} HTTP/1.1\r\nHost: martlet\r\nX-Auth-Token: {token}\r\n\r\n"
        connection.send(head.encode("latin-1"))
        assert is_clear_refusal(connection.answer(), 401)


def test_a_wrong_key_is_refused(cluster: RunningCluster) -> None:
    with RawConnection(cluster.port) as connection:
        connection.send(
            b"GET /auth/v1.0 HTTP/1.1\r\nHost: martlet\r\nX-Auth-User: test:tester\r\n"
            b"X-Auth-Key: wrong\r\n\r\n"
        )
        assert is_clear_refusal(connection.answer(), 401)
