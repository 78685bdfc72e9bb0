"""A daemon's requests to the pipeline in its own process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from martlet.http.environ import Environ, StartResponse
from martlet.http.internal_client import InternalClient
from martlet.http.request import Request
from martlet.http.response import Response, http_error


class Pipeline:
    """Answers with the statuses it is given, the last one again and again, and notes requests."""

    def __init__(self, *statuses: int, body: bytes | Iterator[bytes] = b"") -> None:
        self.statuses = list(statuses)
        self.seen: list[tuple[str, str, str, dict[str, str], bytes]] = []
        self._body = body

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        req = Request(environ)
        length = req.content_length or 0
        query = environ["QUERY_STRING"]
        body = b"".join(iter(lambda: req.body_file.read(3), b"")) if length else b""
        self.seen.append((req.method, req.path, query, dict(req.headers), body))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status == 0:
            raise RuntimeError("a fault in a filter")
        if status >= 400:
            return http_error(status)(environ, start_response)
        response = Response(status, {"X-Thing": "1"})
        if isinstance(self._body, bytes):
            response.body = self._body
        else:
            response.app_iter = self._body
        return response(environ, start_response)


def client(pipeline: Pipeline, tries: int = 3) -> tuple[InternalClient, list[float]]:
    pauses: list[float] = []
    return InternalClient(pipeline, "Test-Daemon", tries, pauses.append), pauses


def test_a_request_and_its_answer() -> None:
    pipeline = Pipeline(200, body=b"hello")
    response = client(pipeline)[0].request("GET", "/v1/a/c%20d?format=json", {"X-Newest": "true"})
    assert (response.status, response.headers["x-thing"], response.body()) == (200, "1", b"hello")
    method, path, query, headers, _ = pipeline.seen[0]
    assert (method, path, query) == ("GET", "/v1/a/c d", "format=json")
    assert (headers["User-Agent"], headers["X-Newest"]) == ("Test-Daemon", "true")


@pytest.mark.parametrize(
    ("statuses", "status", "requests"),
    [
        ([200], 200, 1),
        ([404], 404, 1),
        ([503, 200], 200, 2),
        ([0, 503, 204], 204, 3),
        ([503], 503, 3),
        ([0], 500, 3),
    ],
)
def test_a_server_error_is_tried_again(statuses: list[int], status: int, requests: int) -> None:
    pipeline = Pipeline(*statuses)
    sender, pauses = client(pipeline)
    assert sender.request("DELETE", "/v1/a/c/o").status == status
    assert len(pipeline.seen) == requests
    assert pauses == [2.0, 4.0][: requests - 1]


def test_a_body_goes_from_one_answer_into_a_put() -> None:
    closed = []

    def chunks() -> Iterator[bytes]:
        try:
            yield from (b"ab", b"", b"cdefg", b"h")
        finally:
            closed.append(True)

    source = client(Pipeline(200, body=chunks()))[0].request("GET", "/v1/a/c/o")
    sink = Pipeline(201)
    with source:
        answer = client(sink)[0].upload("/v1/a/c/o", {"Content-Type": "x/y"}, source, 8)
        assert answer.status == 201
    assert closed
    assert sink.seen[0][4] == b"abcdefgh"
    assert sink.seen[0][3]["Content-Type"] == "x/y"


def test_an_upload_is_not_sent_again() -> None:
    source = client(Pipeline(200, body=b"abc"))[0].request("GET", "/v1/a/c/o")
    sink = Pipeline(503)
    assert client(sink)[0].upload("/v1/a/c/o", {}, source, 3).status == 503
    assert len(sink.seen) == 1
