"""The same client under eventlet: a green thread waits where a thread would."""

from __future__ import annotations

from pathlib import Path

from green_pytest import assert_pass_under_eventlet

HERE = Path(__file__).parent


def test_connections_under_eventlet() -> None:
    assert_pass_under_eventlet(HERE / "test_connections.py")
