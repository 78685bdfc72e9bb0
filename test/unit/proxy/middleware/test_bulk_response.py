"""The outcome of many things in one body."""

from __future__ import annotations

import json

import pytest

from proxy.middleware.bulk_response import bulk_body, bulk_content_type

VALUES = {"Response Status": "400 Bad Request", "Number Deleted": 2}
PROBLEMS = [("/c/a&b", "404 Not Found")]


def test_plain() -> None:
    assert bulk_body("text/plain", "delete", VALUES, PROBLEMS) == (
        b"Number Deleted: 2\nResponse Status: 400 Bad Request\nErrors:\n/c/a&b, 404 Not Found\n"
    )


def test_json() -> None:
    body = bulk_body("application/json", "delete", VALUES, PROBLEMS)
    assert json.loads(body) == {**VALUES, "Errors": [["/c/a&b", "404 Not Found"]]}


@pytest.mark.parametrize("content_type", ["application/xml", "text/xml"])
def test_xml(content_type: str) -> None:
    assert bulk_body(content_type, "delete", VALUES, PROBLEMS) == (
        b"<delete>\n<number_deleted>2</number_deleted>\n"
        b"<response_status>400 Bad Request</response_status>\n<errors>\n"
        b"<object><name>/c/a&amp;b</name><status>404 Not Found</status></object>\n"
        b"</errors>\n</delete>\n"
    )


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain"),
        ("application/json", "application/json"),
        ("text/xml", "text/xml"),
        ("image/png", "text/plain"),
        ("nonsense", "text/plain"),
    ],
)
def test_the_form_the_client_prefers(accept: str | None, content_type: str) -> None:
    assert bulk_content_type(accept) == content_type
