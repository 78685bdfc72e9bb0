# SPDX-License-Identifier: Apache-2.0
"""The same socket over a green one, and its users."""

from __future__ import annotations

from pathlib import Path

from green_pytest import assert_pass_under_eventlet

HERE = Path(__file__).parent


def test_tls_under_eventlet() -> None:
    assert_pass_under_eventlet(
        HERE / "test_tls_socket.py",
        HERE / "test_contexts.py",
        HERE.parent / "test_backend_client_tls.py",
        HERE.parent / "test_wsgi_tls.py",
    )
