"""Fixtures of the HTTP server's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from wsgi_calls import serving


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (port, _):
        yield port
