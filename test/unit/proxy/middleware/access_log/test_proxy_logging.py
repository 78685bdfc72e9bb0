"""One correct access line for each request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from proxy.middleware.access_log.options import ProxyLoggingOptions
from proxy.middleware.access_log.proxy_logging import ProxyLogging, filter_factory


@pytest.fixture(autouse=True)
def access_level() -> Iterator[None]:
    access = logging.getLogger("proxy.access")
    access.setLevel(logging.INFO)
    yield
    access.setLevel(logging.NOTSET)


def make(app: Any) -> ProxyLogging:
    return ProxyLogging(app, ProxyLoggingOptions())


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    """Return the access lines as dicts; only for lines whose values contain no space."""
    messages = [r.getMessage() for r in caplog.records if r.name == "proxy.access"]
    return [dict(item.split("=", 1) for item in message.split(" ")) for message in messages]


def test_line_tells_what_happened(ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    headers = [("Content-Length", "4"), ("X-Backend-Storage-Policy-Index", "1")]
    answer = ask(
        make(Inner(headers=headers)),
        "/v1/AUTH_t/c/o?format=json",
        headers={"User-Agent": "curl/8", "Referer": "http://x/", "Etag": "abc"},
        environ={
            "REMOTE_ADDR": "1.2.3.4",
            "swift.trans_id": "tx1",
            "swift.access_logging": {"user_id": "t:u"},
            "swift.log_info": ["a:1", "b:2"],
        },
    )
    assert answer.body == b"body"
    (line,) = lines(caplog)
    assert 0 <= float(line.pop("ttfb")) <= float(line.pop("request_time")) < 5
    assert line == {
        "client_ip": "1.2.3.4",
        "remote_addr": "1.2.3.4",
        "method": "GET",
        "path": "/v1/AUTH_t/c/o?format=json",
        "protocol": "HTTP/1.0",
        "status": "200",
        "bytes_recvd": "0",
        "bytes_sent": "4",
        "trans_id": "tx1",
        "referer": "http://x/",
        "user_agent": "curl/8",
        "client_etag": "abc",
        "user": "t:u",
        "policy_index": "1",
        "log_info": "a:1,b:2",
    }


def test_two_filters_make_one_line(ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    ask(make(make(Inner())), "/v1/a")
    assert len(lines(caplog)) == 1


def test_sub_request_has_a_line_of_its_own(
    ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    right = make(Inner())

    def middle(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        ask(right, "/v1/a/c/sub", environ={"swift.source": "SSC"})
        return right(environ, start_response)

    ask(make(middle), "/v1/a/c/o")
    assert [(x["path"], x.get("source")) for x in lines(caplog)] == [
        ("/v1/a/c/sub", "SSC"),
        ("/v1/a/c/o", None),
    ]


def test_line_shows_what_the_client_asked_for(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    def rewriting(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ.update(REQUEST_METHOD="PUT", PATH_INFO="/other", QUERY_STRING="x=y")
        start_response("200 OK", [])
        return [b""]

    ask(make(rewriting), "/v1/a/c/o?a=b", "COPY")
    assert [(x["method"], x["path"]) for x in lines(caplog)] == [("COPY", "/v1/a/c/o?a=b")]


def test_bytes_of_the_request_are_counted(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    def reading(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        stream = environ["wsgi.input"]
        assert stream.read(3) == b"123"
        assert stream.readline() == b"45\n"
        assert list(stream) == [b"67\n", b"8"]
        assert stream.seekable()  # other attributes are passed through
        start_response("201 Created", [])
        return [b""]

    ask(make(reading), "/v1/a/c/o", "PUT", body=b"12345\n67\n8")
    assert [(x["bytes_recvd"], x["status"]) for x in lines(caplog)] == [("10", "201")]


def test_client_that_goes_away_while_sending_is_499(
    ask: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise ConnectionResetError

    def reading(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"] = Broken()
        return logged(environ, start_response)

    def inner(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        try:
            environ["wsgi.input"].read(1)
        except ConnectionResetError:
            start_response("503 Service Unavailable", [])
        return [b""]

    logged = make(inner)
    ask(reading, "/v1/a/c/o", "PUT", body=b"x")
    assert [x["status"] for x in lines(caplog)] == ["499"]


def chunked(*chunks: bytes, error: Exception | None = None) -> Iterator[bytes]:
    yield from chunks
    if error:
        raise error


def test_streamed_body_is_counted_to_its_end(
    ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask(make(Inner(headers=[], body=chunked(b"ab", b"cde"))), "/v1/a")
    assert [(x["status"], x["bytes_sent"]) for x in lines(caplog)] == [("200", "5")]


@pytest.mark.parametrize(("method", "status", "sent"), [("GET", "499", "2"), ("HEAD", "200", "2")])
def test_client_that_goes_away_while_reading_is_499(
    Inner: Any, caplog: pytest.LogCaptureFixture, method: str, status: str, sent: str
) -> None:
    app = make(Inner(headers=[], body=chunked(b"ab", b"cde")))
    _, _, body = call_app(app, Request.blank("/v1/a", method).environ)
    assert next(iter(body)) == b"ab"
    body.close()  # type: ignore[attr-defined]
    body.close()  # type: ignore[attr-defined]
    assert [(x["status"], x["bytes_sent"]) for x in lines(caplog)] == [(status, sent)]


def test_body_that_breaks_off_is_500(Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = make(Inner(headers=[], body=chunked(b"ab", error=OSError())))
    _, _, body = call_app(app, Request.blank("/v1/a").environ)
    with pytest.raises(OSError):  # noqa: PT011
        list(body)
    body.close()  # type: ignore[attr-defined]
    assert [(x["status"], x["bytes_sent"]) for x in lines(caplog)] == [("500", "2")]


def test_large_listed_body_is_logged_when_it_is_sent(
    Inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app = make(Inner(headers=[], body=[b"x" * 70_000]))
    _, _, body = call_app(app, Request.blank("/v1/a").environ)
    body.close()  # type: ignore[attr-defined]
    assert [(x["status"], x["bytes_sent"]) for x in lines(caplog)] == [("499", "0")]


def test_application_that_raises_is_500(ask: Any, caplog: pytest.LogCaptureFixture) -> None:
    def failing(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        ask(make(failing), "/v1/a")
    assert [x["status"] for x in lines(caplog)] == ["500"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/a/c/%C3%A9%20%0Ax", "/v1/a/c/%C3%A9%20%0Ax"),
        ("/v1/a/c/%3Fq", "/v1/a/c/%3Fq"),
        ("/v1/a?prefix=%2F&x=a+b", "/v1/a?prefix=%2F&x=a+b"),
        (
            "/v1/a/c/o?temp_url_sig=0123456789abcdef0123&temp_url_expires=9",
            "/v1/a/c/o?temp_url_sig=0123456789abcdef...&temp_url_expires=9",
        ),
        ("/b?X-Amz-Signature=0123456789abcdef01", "/b?X-Amz-Signature=0123456789abcdef..."),
        ("/b?Signature=short", "/b?Signature=short"),
    ],
)
def test_paths_are_quoted_and_signatures_cut(
    ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture, path: str, shown: str
) -> None:
    ask(make(Inner()), path)
    assert [x["path"] for x in lines(caplog)] == [shown]


def test_clients_text_cannot_forge_fields(
    ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ask(make(Inner()), "/v1/a", headers={"User-Agent": "x status=200\nclient_ip=6 'é\x00"})
    message = caplog.records[0].getMessage()
    assert message.endswith(r"""user_agent="x status=200\nclient_ip=6 '\xe9\x00" """.strip())


def test_no_token_is_ever_logged(ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    ask(make(Inner()), "/v1/a", headers={"X-Auth-Token": "AUTH_tksecret", "X-Auth-Key": "secret"})
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "ip"),
    [
        ({"X-Forwarded-For": "9.9.9.9, 8.8.8.8"}, "9.9.9.9"),
        ({"X-Cluster-Client-Ip": "7.7.7.7", "X-Forwarded-For": "9.9.9.9"}, "7.7.7.7"),
    ],
)
def test_client_behind_a_load_balancer(
    ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture, headers: dict[str, str], ip: str
) -> None:
    ask(make(Inner()), "/v1/a", headers=headers, environ={"REMOTE_ADDR": "1.1.1.1"})
    assert [(x["client_ip"], x["remote_addr"]) for x in lines(caplog)] == [(ip, "1.1.1.1")]


def test_level_turns_it_off(ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    inner = Inner()
    app = filter_factory({}, access_log_level="warning")(inner)
    assert ask(app, "/v1/a").body == b"body"
    assert lines(caplog) == []
    assert "swift.proxy_access_log_made" not in inner.environ


def test_factory_refuses_an_unknown_level() -> None:
    with pytest.raises(ConfigError, match="access_log_level must be one of DEBUG"):
        filter_factory({}, access_log_level="loud")
