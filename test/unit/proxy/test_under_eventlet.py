"""The proxy runs under eventlet: what holds with real threads must hold with green ones."""

from __future__ import annotations

from pathlib import Path

from green_pytest import assert_pass_under_eventlet

HERE = Path(__file__).parent


def test_uploads_and_fan_out_under_eventlet() -> None:
    assert_pass_under_eventlet(HERE / "test_object_put.py", HERE / "test_object_change.py")


def test_requests_over_the_grid_under_eventlet() -> None:
    assert_pass_under_eventlet(HERE / "test_grid_replicas.py", HERE / "test_object_get.py")
