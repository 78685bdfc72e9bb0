# SPDX-License-Identifier: Apache-2.0
"""The client of the comparison: framing of answers, signatures, and what counts as an error."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from compare.answers import Answer, BadAnswer
from compare.apis import REGION, S3Access, SwiftAccess
from compare.client import Load, Outcome, Step, body_of, run

LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"
)


@pytest.mark.parametrize("data", [LENGTH, CHUNKED])
def test_an_answer_ends_at_its_end_however_it_is_cut(data: bytes) -> None:
    for cut in range(1, len(data)):
        answer = Answer()
        answer.feed(data[:cut])
        assert not answer.is_whole
        answer.feed(data[cut:])
        assert answer.is_whole
        assert (answer.status, answer.body_bytes, bytes(answer.kept)) == (200, 5, b"hello")


@pytest.mark.parametrize(
    ("head", "has_body"),
    [(b"HTTP/1.1 200 OK\r\nContent-Length: 9", False), (b"HTTP/1.1 204 No Content", True)],
)
def test_an_answer_without_a_body_ends_with_its_headers(head: bytes, has_body: bool) -> None:
    answer = Answer(has_body=has_body)
    answer.feed(head + b"\r\n\r\n")
    assert answer.is_whole
    assert not answer.is_last


def test_a_server_may_say_that_it_closes() -> None:
    answer = Answer()
    answer.feed(b"HTTP/1.1 503 Busy\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n")
    assert (answer.status, answer.is_whole, answer.is_last) == (503, True, True)


@pytest.mark.parametrize(
    "data",
    [
        LENGTH + b"x",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + bytes(70_000),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        Answer().feed(data)


@pytest.mark.parametrize(
    ("method", "target"),
    [("PUT", "/bucket/r0-4096-000001"), ("GET", "/bucket?list-type=2&max-keys=1000&prefix=r0-")],
)
def test_signatures_are_those_of_botocore(method: str, target: str) -> None:
    digest = hashlib.sha256(b"body").hexdigest()
    headers = S3Access("127.0.0.1:80", "access", "secret").headers(method, target, digest)
    theirs = AWSRequest(method, f"http://127.0.0.1:80{target}", headers={"Host": "127.0.0.1:80"})
    theirs.headers["X-Amz-Content-SHA256"] = digest
    theirs.headers["X-Amz-Date"] = headers["X-Amz-Date"]
    theirs.context["timestamp"] = headers["X-Amz-Date"]
    signer = S3SigV4Auth(Credentials("access", "secret"), "s3", REGION)
    canonical = signer.canonical_request(theirs).rpartition("\n")[0] + f"\n{digest}"
    signature = signer.signature(signer.string_to_sign(theirs, canonical), theirs)
    assert headers["Authorization"].endswith(f"Signature={signature}")


class Handler(BaseHTTPRequestHandler):
    """Stores bodies by path; answers /broken with an error and /closed with nothing."""

    protocol_version = "HTTP/1.1"
    stored: ClassVar[dict[str, bytes]]
    server: ThreadingHTTPServer

    def do_PUT(self) -> None:
        self.stored[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(201, b"")

    def do_GET(self) -> None:
        if self.path in ("/closed", "/gone"):
            self.close_connection = True
            if self.path == "/gone":
                self.server.socket.close()
        elif self.path == "/broken":
            self.answer(500, b"broken")
        else:
            self.answer(200, self.stored[self.path])

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Handler.stored = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def send(port: int, steps: list[Step]) -> Outcome:
    return run(Load(port, SwiftAccess("token"), steps), 2, 1, lambda: 0.0)


def test_what_is_written_is_read_again(port: int) -> None:
    sizes = [0, 5, 300_000]
    puts = [Step("PUT", f"/{size}", 201, size) for size in sizes]
    gets = [Step("GET", f"/{size}", 200, 0, size) for size in sizes]
    assert send(port, puts).failures == []
    assert Handler.stored == {f"/{size}": bytes(body_of(size)) for size in sizes}
    outcome = send(port, gets)
    assert outcome.failures == []
    assert len(outcome.latencies_ms) == len(sizes)


def test_a_server_that_is_gone_is_an_error(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    steps = [Step("GET", "/gone", 200)] * 5
    outcome = send(port, steps)
    assert len(outcome.latencies_ms) < len(steps)
    assert any("a connection is lost" in failure for failure in outcome.failures)
    outcome = send(port, steps)
    assert outcome.failures == ["a client process failed"]
    # The kernel may take a connection more while the thread that accepts them waits for one.
    assert re.search("Connection(Refused|Reset)Error", capfd.readouterr().err)


def test_an_error_is_counted_and_the_others_go_on(port: int) -> None:
    Handler.stored = {"/short": b"1234"}
    steps = [
        Step("GET", "/closed", 200),
        Step("GET", "/short", 200, 0, 5),
        Step("GET", "/broken", 200),
        Step("GET", "/short", 200, 0, 4),
        Step("GET", "/short", 200),
    ]
    failures = sorted(send(port, steps).failures)
    assert [failure.partition(":")[0] for failure in failures] == [
        "GET /broken answered 500, 6 bytes",
        "GET /closed",
        "GET /short answered 200, 4 bytes",
    ]
