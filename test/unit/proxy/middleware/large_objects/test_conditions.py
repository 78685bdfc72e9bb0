"""If-Match and the other conditions for an ETag that a filter computed."""

from __future__ import annotations

import pytest

from proxy.middleware.large_objects.conditions import condition_status

THEN = "Fri, 01 Feb 2013 20:38:36 GMT"
BEFORE = "Fri, 01 Feb 2013 20:38:35 GMT"


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ({}, 0),
        ({"IF_MATCH": '"e"'}, 0),
        ({"IF_MATCH": "e"}, 0),
        ({"IF_MATCH": '"a", "e"'}, 0),
        ({"IF_MATCH": "*"}, 0),
        ({"IF_MATCH": '"a"'}, 412),
        ({"IF_NONE_MATCH": '"e"'}, 304),
        ({"IF_NONE_MATCH": "*"}, 304),
        ({"IF_NONE_MATCH": '"a"'}, 0),
        ({"IF_MODIFIED_SINCE": THEN}, 304),
        ({"IF_MODIFIED_SINCE": BEFORE}, 0),
        ({"IF_MODIFIED_SINCE": "yesterday"}, 0),
        ({"IF_UNMODIFIED_SINCE": THEN}, 0),
        ({"IF_UNMODIFIED_SINCE": BEFORE}, 412),
        ({"IF_MATCH": '"e"', "IF_UNMODIFIED_SINCE": BEFORE}, 412),
    ],
)
def test_conditions(conditions: dict[str, str], status: int) -> None:
    environ = {f"HTTP_{name}": value for name, value in conditions.items()}
    assert condition_status(environ, '"e"', THEN) == status


def test_without_a_date_only_etags_count() -> None:
    assert condition_status({"HTTP_IF_MODIFIED_SINCE": THEN}, "e", None) == 0
