"""Access lines with an operator's template, headers in them, and metrics for StatsD."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.response import Response
from proxy.middleware.access_log import template as access_template
from proxy.middleware.access_log.proxy_logging import filter_factory
from proxy.middleware.access_log.template import AccessTemplate

OBJECT = "/v1/AUTH_a/c/a%20b"
FIELDS = {
    "client_ip": "127.0.0.1",
    "path": "/a b",
    "start_time": 1700000000.25,
    "end_time": 1700000001.5,
    "user_agent": "",
}


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    log = logging.getLogger("proxy.access")
    before = log.level
    log.setLevel(logging.INFO)
    yield
    log.setLevel(before)


def line_of(ask: Any, caplog: pytest.LogCaptureFixture, Inner: Any, **options: str) -> str:
    """Return the access line of one request."""
    caplog.clear()
    app = filter_factory({}, **options)(Inner())
    headers = {
        "Host": "host:80",
        "User-Agent": "a b",
        "X-Auth-Token": "AUTH_tk0123456789abcdef",
        "X-Foo": "b%c",
    }
    environ = {"swift.trans_id": "tx1", "REMOTE_ADDR": "10.0.0.1"}
    ask(app, f"{OBJECT}?temp_url_sig=0123456789abcdef0123", "GET", headers, environ=environ)
    lines = [r.getMessage() for r in caplog.records if r.name == "proxy.access"]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{method} {status_int} {bytes_sent} {bytes_recvd}", "GET 200 4 -"),
        ("{account} {container} {object}", "AUTH_a c a%20b"),
        ("{path}", "/v1/AUTH_a/c/a%2520b%3Ftemp_url_sig%3D0123456789abcdef..."),
        ("{auth_token} {user_agent} {referer}", "AUTH_tk012345678... a%20b -"),
        ("{client_ip} {remote_addr} {domain}", "10.0.0.1 10.0.0.1 host"),
        ("{transaction_id} {source} {policy_index}", "tx1 - -"),
        ("acc:{account.anonymized}", "acc:{MD5}f186f6fca42e8f9d844aadbd0c6272af"),
    ],
)
def test_templates(
    ask: Any, caplog: pytest.LogCaptureFixture, Inner: Any, template: str, expected: str
) -> None:
    line = line_of(ask, caplog, Inner, log_msg_template=template)
    assert line == expected


def test_the_process_id(ask: Any, caplog: pytest.LogCaptureFixture, Inner: Any) -> None:
    assert line_of(ask, caplog, Inner, log_msg_template="{pid}") == str(os.getpid())


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{start_time} {end_time.s}", "1700000000.250000000 1700000001"),
        ("{start_time.ms} {start_time.us} {end_time.ns}", "250 250000 500000000"),
        ("{start_time.datetime}", "14/Nov/2023/22/13/20"),
        ("{start_time.iso8601}", "2023-11-14T22:13:20"),
        ("{start_time.asctime}", "Tue%20Nov%2014%2022:13:20%202023"),
        ("{start_time.H}:{start_time.M}", "22:13"),
        ("{path} {user_agent} {user_agent.anonymized}", "/a%20b - -"),
        ("{client_ip.anonymized}", "{SSHA1}c852fb25833767675b2d0b46fc3fee7c9caedfd7"),
    ],
)
def test_forms_of_fields(template: str, expected: str) -> None:
    assert AccessTemplate(template, "SHA1", "zz").render(FIELDS) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"log_msg_template": "{nope}"},
        {"log_msg_template": "{method.anonymized}"},
        {"log_msg_template": "{start_time.Q}"},
        {"log_msg_template": "{"},
        {"log_msg_template": "{}"},
        {"log_anonymization_method": "ROT13"},
        {"access_log_statsd_default_sample_rate": "2"},
        {"access_log_statsd_host": "no such host", "access_log_statsd_port": "1"},
    ],
)
def test_bad_options(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        filter_factory({}, **options)


def test_headers(ask: Any, caplog: pytest.LogCaptureFixture, Inner: Any) -> None:
    assert " headers=" not in line_of(ask, caplog, Inner)
    line = line_of(ask, caplog, Inner, access_log_headers="true")
    assert "X-Foo: b%c" in line
    assert "X-Auth-Token: AUTH_tk012345678...\\n" in line
    assert "0123456789abcdef\\n" not in line
    options = {"access_log_headers": "true", "access_log_headers_only": "x-foo, none"}
    assert line_of(ask, caplog, Inner, **options).endswith(" headers='X-Foo: b%c'")


KEYS = {
    "X-Account-Meta-Temp-Url-Key": "short",
    "X-Account-Meta-Temp-URL-Key-2": "a key that is far longer",
    "X-Container-Meta-Temp-Url-Key": "short",
    "X-Container-Meta-Temp-Url-Key-2": "short",
    "X-Container-Sync-Key": "short",
    "X-Auth-Key": "short",
    "X-Storage-Pass": "short",
    "Cookie": "session=short",
    "X-Amz-Server-Side-Encryption-Customer-Key": "short",
    "X-Amz-Copy-Source-Server-Side-Encryption-Customer-Key": "short",
}
SIGNATURE = "0123456789abcdef"
SIGNED = {
    "X-Container-Sync-Auth": f"{SIGNATURE}0123456789",
    "X-Service-Token": f"{SIGNATURE}0123456789",
    "Authorization": f"{SIGNATURE}0123456789",
    "Referer": f"http://h/v1/a/c/o?x=1&temp_url_sig={SIGNATURE}0123456789&temp_url_expires=9",
    "X-Original": f"/info?swiftinfo_sig={SIGNATURE}0123456789",
}


@pytest.mark.parametrize("form", ["", "{headers} {referer} {auth_token} {path}"])
def test_no_secret_of_a_request_is_logged(
    ask: Any, caplog: pytest.LogCaptureFixture, Inner: Any, form: str
) -> None:
    app = filter_factory({}, access_log_headers="yes", log_msg_template=form)(Inner())
    ask(app, f"{OBJECT}?temp_url_sig={SIGNATURE}0123456789", "POST", {**KEYS, **SIGNED})
    (line,) = [r.getMessage() for r in caplog.records if r.name == "proxy.access"]
    assert "short" not in line
    assert "far longer" not in line
    assert f"{SIGNATURE}0" not in line
    shown = line.count(SIGNATURE + "...")
    assert shown == len(SIGNED) + 2, "headers, the path, and the referer in its own field"


def figures(ask: Any, app: Any, listener: socket.socket, path: str, method: str) -> set[str]:
    """Return the names and kinds of the metrics of one request."""
    ask(app, path, method, {}, b"xyz" if method == "PUT" else b"")
    packet = listener.recv(4096).decode()
    lines = [line.rpartition("|")[::2] for line in packet.splitlines()]
    return {f"{left.rpartition(':')[0]}|{kind}" for left, kind in lines} | set(packet.splitlines())


@pytest.mark.parametrize("log_level", ["INFO", "ERROR"])
def test_statsd(ask: Any, Inner: Any, log_level: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10.0)
        options = {
            "access_log_level": log_level,
            "access_log_statsd_host": "127.0.0.1",
            "access_log_statsd_port": str(listener.getsockname()[1]),
            "access_log_statsd_metric_prefix": "here",
        }
        inner = Inner(headers=[("Content-Length", "4"), ("X-Backend-Storage-Policy-Index", "1")])
        app = filter_factory({}, **options)(inner)
        seen = figures(ask, app, listener, OBJECT, "GET")
        for name in ("object", "object.policy.1"):
            assert f"here.proxy-server.{name}.GET.200.timing|ms" in seen
            assert f"here.proxy-server.{name}.GET.200.first-byte.timing|ms" in seen
            assert f"here.proxy-server.{name}.GET.200.xfer:4|c" in seen
        seen = figures(ask, app, listener, "/v1/AUTH_a/c", "PUT")
        assert "here.proxy-server.container.PUT.200.timing|ms" in seen
        assert not any("first-byte" in name or "policy" in name for name in seen)
        seen = figures(ask, app, listener, "/v1/AUTH_a/", "BREW")
        assert "here.proxy-server.account.BAD_METHOD.200.xfer:4|c" in seen
        assert "here.proxy-server.UNKNOWN.GET.200.xfer:4|c" in figures(
            ask, app, listener, "/info", "GET"
        )


def test_bytes_of_both_directions_are_counted(ask: Any) -> None:
    def echo(environ: Any, start_response: Any) -> Any:
        return Response(201, {}, environ["wsgi.input"].read())(environ, start_response)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(10.0)
        port = str(listener.getsockname()[1])
        options = {"access_log_statsd_host": "127.0.0.1", "access_log_statsd_port": port}
        app = filter_factory({}, **options)(echo)
        seen = figures(ask, app, listener, OBJECT, "PUT")
        assert "proxy-server.object.PUT.201.xfer:6|c" in seen


def test_the_fields_are_in_the_documentation() -> None:
    text = (Path(__file__).parents[5] / "doc" / "filters.md").read_text(encoding="utf-8")
    assert [name for name in access_template.FIELDS if f"`{name}`" not in text] == []
