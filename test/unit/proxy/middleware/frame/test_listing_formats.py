"""Listings in the requested format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from proxy.middleware.frame.listing_formats import ListingFormats, filter_factory

OBJECTS = [
    {
        "name": "é&<",
        "hash": "h",
        "bytes": 1,
        "content_type": "a/b",
        "last_modified": "2026-01-01T00:00:00.000000",
    },
    {"subdir": "d/"},
]
PLAIN = "é&<\nd/\n".encode()
XML = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<container name="ü"><object><name>é&amp;&lt;</name>'
    "<hash>h</hash><bytes>1</bytes><content_type>a/b</content_type>"
    '<last_modified>2026-01-01T00:00:00.000000</last_modified></object><subdir name="d/">'
    "<name>d/</name></subdir></container>"
).encode()


def make(app: Any) -> ListingFormats:
    return ListingFormats(app, ["v1", "v1.0"])


def listing(Inner: Any, entries: object, status: str = "200 OK", **headers: str) -> Any:
    text = json.dumps(entries).encode()
    listed = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(text))),
        *((name.replace("_", "-"), value) for name, value in headers.items()),
    ]
    return Inner(status, listed, [text])


@pytest.mark.parametrize(
    ("query", "accept", "content_type", "body", "varies"),
    [
        ("", None, "text/plain", PLAIN, True),
        ("", "*/*", "text/plain", PLAIN, True),
        ("?format=plain", "application/json", "text/plain", PLAIN, False),
        ("?format=unknown", None, "text/plain", PLAIN, False),
        ("?format=json", None, "application/json", json.dumps(OBJECTS).encode(), False),
        ("", "application/json", "application/json", json.dumps(OBJECTS).encode(), True),
        ("?format=xml", None, "application/xml", XML, False),
        ("", "application/xml;q=0.9, text/plain;q=0.1", "application/xml", XML, True),
        ("", "text/xml", "text/xml", XML, True),
    ],
)
def test_container(
    ask: Any,
    Inner: Any,
    query: str,
    accept: str | None,
    content_type: str,
    body: bytes,
    varies: bool,
) -> None:
    headers = {"Accept": accept} if accept else {}
    app = make(listing(Inner, OBJECTS))
    answer = ask(app, f"/v1/AUTH_a/%C3%BC{query}", headers=headers)
    assert (answer.status, answer.body) == (200, body)
    assert answer.headers["Content-Type"] == f"{content_type}; charset=utf-8"
    assert answer.headers["Content-Length"] == str(len(body))
    assert answer.headers.get("Vary") == ("Accept" if varies else None)


def test_account(ask: Any, Inner: Any) -> None:
    entry = {"name": "c", "count": 1, "bytes": 2, "last_modified": "t", "storage_policy": "P"}
    answer = ask(make(listing(Inner, [entry])), "/v1/AUTH_a/?format=xml")
    assert answer.body.endswith(
        b'<account name="AUTH_a"><container><name>c</name><count>1</count><bytes>2</bytes>'
        b"<last_modified>t</last_modified><storage_policy>P</storage_policy></container>"
        b"</account>"
    )


@pytest.mark.parametrize(
    ("query", "status", "body"),
    [("", 204, b""), ("?format=json", 200, b"[]"), ("?format=xml", 200, None)],
)
def test_empty_listing(ask: Any, Inner: Any, query: str, status: int, body: bytes | None) -> None:
    answer = ask(make(listing(Inner, [])), f"/v1/a/c{query}")
    assert answer.status == status
    assert answer.headers["Content-Length"] == str(len(answer.body))
    if body is not None:
        assert answer.body == body


@pytest.mark.parametrize(("vary", "expected"), [("Origin", "Origin, Accept"), ("accept", "accept")])
def test_vary_is_added_to(ask: Any, Inner: Any, vary: str, expected: str) -> None:
    answer = ask(make(listing(Inner, [], Vary=vary)), "/v1/a/c")
    assert answer.headers["Vary"] == expected


def test_head_tells_the_type_that_get_would_have(ask: Any, Inner: Any) -> None:
    inner = Inner("204 No Content", [("Content-Type", "text/plain")], [b""])
    answer = ask(make(inner), "/v1/a/c?format=xml", "HEAD")
    assert (answer.status, answer.headers["Content-Type"]) == (
        204,
        "application/xml; charset=utf-8",
    )


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("query", "accept", "status"),
    [("", "image/png", 406), ("", "nonsense", 400), ("?format=%FF", "*/*", 400)],
)
def test_what_cannot_be_given_is_refused(
    ask: Any, Inner: Any, method: str, query: str, accept: str, status: int
) -> None:
    inner = listing(Inner, OBJECTS)
    answer = ask(make(inner), f"/v1/a/c{query}", method, {"Accept": accept})
    assert (answer.status, inner.environs) == (status, [])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/a/c/o"),
        ("PUT", "/v1/a/c"),
        ("GET", "/info"),
        ("GET", "/auth/v1.0"),
        ("GET", "/"),
        ("POST", "/v1/a"),
    ],
)
def test_everything_else_goes_on(ask: Any, Inner: Any, method: str, path: str) -> None:
    answer = ask(make(Inner()), path, method, {"Accept": "image/png"})
    assert (answer.status, answer.body) == (200, b"body")


def test_errors_and_other_types_are_left_alone(ask: Any, Inner: Any) -> None:
    for status, content_type in (("404 Not Found", "application/json"), ("200 OK", "text/html")):
        inner = Inner(status, [("Content-Type", content_type), ("Content-Length", "4")])
        answer = ask(make(inner), "/v1/a/c?format=xml")
        assert (answer.body, answer.headers["Content-Type"]) == (b"body", content_type)


def test_factory(ask: Any, Inner: Any, tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
        "[swift-constraints]\nvalid_api_versions = v7\n"
    )
    app = filter_factory({"swift_dir": str(tmp_path)})(listing(Inner, OBJECTS))
    assert ask(app, "/v7/a/c").body == PLAIN
    assert ask(app, "/v1/a/c").body == json.dumps(OBJECTS).encode()
    with pytest.raises(ConfigError, match="unknown option"):
        filter_factory({"swift_dir": str(tmp_path)}, x="y")
