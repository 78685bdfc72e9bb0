"""A service tells systemd when it serves."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sample_service import Service

from martlet.service.notify import say_ready


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """The socket on which systemd would wait."""
    waiting = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    waiting.bind(str(tmp_path / "notify"))
    waiting.settimeout(60.0)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    return waiting


def test_ready_is_said(systemd: socket.socket) -> None:
    say_ready()
    assert systemd.recv(100) == b"READY=1"
    systemd.close()


def test_without_systemd_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "absent"))
    say_ready()
    monkeypatch.delenv("NOTIFY_SOCKET")
    say_ready()


def test_a_service_is_ready_when_all_its_workers_serve(
    systemd: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "service").mkdir()
    service = Service(tmp_path / "service", workers=2)
    process = service.start(into_log=True)
    try:
        assert systemd.recv(100) == b"READY=1"
        assert service.get("/word") == ""
    finally:
        process.terminate()
        process.wait(60)
        systemd.close()
