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
