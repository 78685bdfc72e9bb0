"""The HTTP server once more under eventlet, with the sockets that a service has there."""

from __future__ import annotations

from pathlib import Path

from green_pytest import assert_pass_under_eventlet

_FILES = (
    "test_hub_socket",
    "test_wsgi_answers",
    "test_wsgi_bodies",
    "test_wsgi_connections",
    "test_wsgi_hand_over",
    "test_wsgi_places",
)


def test_the_server_under_eventlet() -> None:
    assert_pass_under_eventlet(*(Path(__file__).with_name(f"{name}.py") for name in _FILES))
