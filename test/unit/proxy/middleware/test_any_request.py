"""Every filter answers any request of a client without an unhandled error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from storage_app import StorageApp, account, container

from martlet.conf.sync_realms import CONF_NAME
from martlet.http.call import call_app
from martlet.http.environ import Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.console import console
from proxy.info_registry import clear_info
from proxy.middleware.auth import container_sync
from proxy.middleware.limits import name_check, read_only
from proxy.middleware.links import etag_quoter
from proxy.middleware.signed_urls import formpost, tempurl
from proxy.middleware.web import crossdomain, domain_remap, staticweb
from proxy.s3 import s3api

FILTERS: list[Callable[..., Callable[[WSGIApp], WSGIApp]]] = [
    name_check.filter_factory,
    crossdomain.filter_factory,
    domain_remap.filter_factory,
    etag_quoter.filter_factory,
    console.filter_factory,
    container_sync.filter_factory,
    tempurl.filter_factory,
    formpost.filter_factory,
    read_only.filter_factory,
    s3api.filter_factory,
    staticweb.filter_factory,
]
LISTING = [
    {"subdir": "é/"},
    {"name": "a", "bytes": 1, "content_type": "", "last_modified": "x"},
]
WORDS = st.sampled_from(
    [
        "",
        "/",
        "a",
        "c",
        "AUTH_a",
        "v1",
        "..",
        "%",
        "ÿ",
        "Ã¼",
        "\x00",
        "\r\n",
        '"',
        "<",
        "[",
        "?",
        "&",
        "=",
        "index.html",
        ":",
        "]",
        "%2F",
        " ",
        "4102444800",
        "sha256:",
        "a" * 64,
    ]
)
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=a:b/20130524/us-east-1/s3/aws4_request,SignedHeaders=host,"
    "Signature=0"
)
TEXTS = st.lists(WORDS, max_size=5).map("".join)
PATHS = st.tuples(st.sampled_from(["/v1/AUTH_a/c/", "/v1/AUTH_a/c", "/v1/", "/"]), TEXTS)
HOSTS = st.one_of(TEXTS, st.sampled_from(["c.AUTH-a.example.com", "[::1]:80", ".example.com"]))
NAMES = ["temp_url_sig", "temp_url_expires", "temp_url_prefix", "temp_url_ip_range", "filename"]
QUERIES = st.dictionaries(st.one_of(st.sampled_from([*NAMES, "inline"]), TEXTS), TEXTS, max_size=5)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "X_CONTAINER_SYNC_AUTH",
            "X_CONTAINER_SYNC_TO",
            "X_WEB_MODE",
            "DESTINATION_ACCOUNT",
            "X_CONTAINER_RFC_COMPLIANT_ETAGS",
            "X_TIMESTAMP",
            "X_COPY_FROM",
            "AUTHORIZATION",
            "X_AMZ_DATE",
            "X_AMZ_CONTENT_SHA256",
        ]
    ),
    st.one_of(TEXTS, st.just("US nonce 00"), st.just("true"), st.just(SIGNED)),
    max_size=3,
)
FORMS = st.lists(
    st.one_of(
        st.sampled_from([b"--b\r\n", b"--b--\r\n", b"\r\n\r\n", b"; filename=f"]),
        st.just(b'Content-Disposition: form-data; name="expires"'),
        TEXTS.map(lambda text: text.encode("latin-1")),
    ),
    max_size=8,
).map(b"".join)


def answer(environ: Environ) -> Response:
    if environ["PATH_INFO"].count("/") == 3:
        return Response(200, {"Content-Type": "application/json"}, json.dumps(LISTING))
    status = 200 if len(environ["PATH_INFO"]) % 2 else 404
    return Response(status, {"Etag": "e", "Location": environ["PATH_INFO"]})


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("any")
    (folder / CONF_NAME).write_text("[us]\nkey = k\ncluster_b = http://b/v1/\n")
    site = container(".r:*", web_index="i", web_error="e", web_listings="1", temp_url_key="€")
    infos = {"/v1/AUTH_a": account(temp_url_key="k"), "/v1/AUTH_a/c": {**site, "sync_key": "u"}}
    made: WSGIApp = StorageApp(infos, answer)
    for factory in reversed(FILTERS):
        made = factory({"swift_dir": str(Path(folder))})(made)
    clear_info()
    return made


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE", "COPY", "OPTIONS", "BREW"]),
    path=PATHS.map("".join),
    host=HOSTS,
    query=QUERIES,
    headers=HEADERS,
    body=FORMS,
    boundary=st.one_of(st.just("b"), TEXTS),
)
def test_no_filter_fails(
    app: Any,
    method: str,
    path: str,
    host: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes,
    boundary: str,
) -> None:
    environ = Request.blank("/", method, body=body).environ
    environ["PATH_INFO"], environ["HTTP_HOST"] = path, host
    environ["QUERY_STRING"] = "&".join(f"{name}={value}" for name, value in query.items())
    environ["CONTENT_TYPE"] = f"multipart/form-data; boundary={boundary}"
    environ["swift.authorize"] = lambda request: None
    environ.update({f"HTTP_{name}": value for name, value in headers.items()})
    status, _, chunks = call_app(app, environ)
    b"".join(chunks)
    assert int(status[:3]) < 500
