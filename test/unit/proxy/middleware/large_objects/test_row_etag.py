"""Parameters in the ETags of listings."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from martlet.http.call import call_app
from martlet.http.request import Request
from proxy.middleware.large_objects.row_etag import Row, join_row_etag, pass_listing, split_row_etag


@pytest.mark.parametrize(
    ("text", "etag", "parameters"),
    [
        ("abc", "abc", {}),
        ("abc; a=1; b=2", "abc", {"a": "1", "b": "2"}),
        ("abc;a=1;", "abc", {"a": "1"}),
        ("abc; a=c/o=p", "abc", {"a": "c/o=p"}),
    ],
)
def test_split(text: str, etag: str, parameters: dict[str, str]) -> None:
    assert split_row_etag(text) == (etag, parameters)
    assert split_row_etag(join_row_etag(etag, parameters)) == (etag, parameters)


def test_rows_with_the_mark_are_changed(Inner: Callable[..., Any]) -> None:
    rows = [{"name": "é", "hash": "a; x=1"}, {"subdir": "s/"}, {"name": "b", "hash": "b"}]
    text = json.dumps(rows).encode()
    headers = [("Content-Type", "application/json; charset=utf-8"), ("Content-Length", "9")]

    def change(row: Row) -> None:
        row["hash"] = row["hash"].partition(";")[0]

    seen: list[Any] = []
    body = pass_listing(
        Inner(headers=headers, body=[text]),
        Request.blank("/v1/a/c").environ,
        lambda *args: seen.append(args),
        b"x=",
        change,
    )
    changed = b"".join(body)
    assert json.loads(changed) == [{"name": "é", "hash": "a"}, {"subdir": "s/"}, rows[2]]
    assert dict(seen[0][1])["Content-Length"] == str(len(changed))


@pytest.mark.parametrize(
    ("status", "content_type", "text"),
    [
        ("200 OK", "application/json", b'[{"hash": "a"}]'),
        ("200 OK", "text/plain", b"x="),
        ("404 Not Found", "application/json", b"x="),
        ("200 OK", "application/json", b"x= but no JSON"),
    ],
)
def test_everything_else_passes_as_it_is(
    Inner: Callable[..., Any], status: str, content_type: str, text: bytes
) -> None:
    inner = Inner(status, [("Content-Type", content_type)], [text])

    def app(environ: Any, start_response: Any) -> Any:
        return pass_listing(inner, environ, start_response, b"x=", lambda row: None)

    answered, _, body = call_app(app, Request.blank("/v1/a/c").environ)
    assert (answered, b"".join(body)) == (status, text)
