"""The proxy runs under eventlet: what holds with real threads must hold with green ones."""

from __future__ import annotations

from pathlib import Path

from green_pytest import assert_pass_under_eventlet

HERE = Path(__file__).parent


def test_requests_under_eventlet() -> None:
    assert_pass_under_eventlet(
        HERE / "test_object_put.py",
        HERE / "test_object_change.py",
        HERE / "test_grid_replicas.py",
        HERE / "test_object_get.py",
    )
