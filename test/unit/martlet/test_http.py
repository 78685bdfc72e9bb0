"""Requests and responses over plain WSGI."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import (
    STATUS_LINES,
    HTTPException,
    Response,
    error_response,
    http_error,
)
from martlet.words.names import BadNameError


def test_headers_are_a_view_of_the_environ() -> None:
    req = Request.blank("/v1/a", headers={"X-Foo": "1", "Content-Type": "text/x"})
    assert req.headers["x-foo"] == "1"
    assert req.environ["CONTENT_TYPE"] == "text/x"
    req.headers["X-Bar"] = "2"
    assert "X-BAR" in req.headers
    assert set(req.headers) == {"Host", "X-Foo", "X-Bar", "Content-Type"}
    del req.headers["X-Foo"]
    assert req.headers.get("X-Foo") is None


def test_path_and_parameters_are_text() -> None:
    req = Request.blank("/v1/a/c/%C3%BC?prefix=%C3%BC&empty=&a=1&a=2")
    assert req.path == "/v1/a/c/ü"
    assert req.params == {"prefix": "ü", "empty": "", "a": "2"}
    for bad in ("/%ff", "/ok?p=%ff"):
        request = Request.blank(bad)
        with pytest.raises(BadNameError):
            print(request.path, request.params)


@pytest.mark.parametrize("text", ["-1", "x", "1 2", "+5", "١"])
def test_bad_content_length(text: str) -> None:
    req = Request.blank("/", environ={"CONTENT_LENGTH": text})
    with pytest.raises(HTTPException) as caught:
        assert req.content_length
    assert caught.value.response.status == 400


def test_response_sets_its_length_and_head_has_no_body() -> None:
    response = Response(200, {"X-A": "1"}, "körper")
    status, headers, body = call_app(response, Request.blank("/").environ)
    assert (status, b"".join(body)) == ("200 OK", "körper".encode())
    assert ("Content-Length", "7") in headers
    _, headers, body = call_app(response, Request.blank("/", "HEAD").environ)
    assert b"".join(body) == b""
    assert ("Content-Length", "7") in headers


def test_every_response_tells_its_length() -> None:
    for status in (204, 404):
        _, headers, _ = call_app(Response(status), Request.blank("/", "HEAD").environ)
        assert ("Content-Length", "0") in headers


def test_errors_escape_what_the_client_sent() -> None:
    response = error_response(412, "Bad <name> & more")
    assert response.body == b"Bad &lt;name&gt; &amp; more"
    assert response.headers["Content-Type"] == "text/html; charset=UTF-8"
    assert error_response(404).body == b"<html><h1>Not Found</h1><p>Not Found</p></html>"
    raised = http_error(404, "gone")
    assert call_app(raised, Request.blank("/").environ)[0] == "404 Not Found"
    assert error_response(499).status_line == "499 Client Disconnect"


def test_generator_applications_lose_no_chunk_and_are_closed() -> None:
    closed = []

    def app(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
        start_response("200 OK", [])
        try:
            yield b"one"
            yield b"two"
        finally:
            closed.append(True)

    status, _, body = call_app(app, {})
    assert status == "200 OK"
    assert list(body) == [b"one", b"two"]
    body.close()  # type: ignore[attr-defined]
    assert closed


def test_status_lines_are_the_same_on_every_python() -> None:
    assert [STATUS_LINES[status] for status in (413, 414, 416, 422)] == [
        "413 Request Entity Too Large",
        "414 Request-URI Too Long",
        "416 Requested Range Not Satisfiable",
        "422 Unprocessable Entity",
    ]
