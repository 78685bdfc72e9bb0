"""A port that is handed out can be listened on, and no connection of our own can take it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from cluster.errors import ClusterError
from cluster.ports import HOST, PortPicker, check_proxy_port


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use_is_named(busy_port: int) -> None:
    with pytest.raises(ClusterError, match=f"port {busy_port} is in use by another program"):
        check_proxy_port(busy_port)


def test_a_free_port_is_fine() -> None:
    check_proxy_port(PortPicker(taken=0).keep_or_pick(0))


def test_a_port_in_use_is_replaced(busy_port: int) -> None:
    assert PortPicker(taken=0).keep_or_pick(busy_port) != busy_port


def test_a_free_port_is_kept_once() -> None:
    picker = PortPicker(taken=0)
    port = picker.keep_or_pick(0)
    again = PortPicker(taken=0)
    assert again.keep_or_pick(port) == port
    assert again.keep_or_pick(port) != port


def test_the_proxys_port_is_never_handed_out() -> None:
    port = PortPicker(taken=0).keep_or_pick(0)
    assert PortPicker(taken=port).keep_or_pick(port) != port


def test_ports_lie_below_those_of_outgoing_connections(busy_port: int) -> None:
    picked = PortPicker(taken=0).keep_or_pick(0)
    with socket.create_connection((HOST, busy_port)) as connection:
        assert picked < connection.getsockname()[1]


def test_the_range_of_ports_is_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    free = PortPicker(taken=0).keep_or_pick(0)
    monkeypatch.setenv("MARTLET_PORTS", f"{free}-{free}")
    picker = PortPicker(taken=0)
    assert picker.keep_or_pick(0) == free
    with pytest.raises(ClusterError, match=f"no free port found between {free} and {free}"):
        picker.keep_or_pick(0)


@pytest.mark.parametrize("text", ["10240", "a-b", "20000-10000", "0-10", "10240-70000", "-"])
def test_a_range_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MARTLET_PORTS", text)
    with pytest.raises(ClusterError, match="give two ports as LOW-HIGH"):
        PortPicker(taken=0)
