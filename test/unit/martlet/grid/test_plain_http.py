"""The addresses of servers that are spoken to without proof."""

from __future__ import annotations

import pytest

from martlet.grid.plain_http import PlainHttp


@pytest.mark.parametrize(
    ("ip", "is_in"),
    [
        ("10.1.0.1", True),
        ("10.2.0.1", False),
        ("10.3.0.7", True),
        ("10.3.0.8", False),
        ("::ffff:10.1.0.1", True),  # the form in which a socket of IPv6 shows it
        ("fd00::7", True),
        ("fd01::7", False),
        ("fd00::7%eth0", True),
        ("storage7", False),
        ("", False),
    ],
)
def test_addresses(ip: str, is_in: bool) -> None:
    plain = PlainHttp(["10.1.0.0/16", "10.3.0.7", "fd00::/64"])
    for _ in range(2):
        assert (ip in plain) == is_in


def test_none_is_listed() -> None:
    assert "127.0.0.1" not in PlainHttp()


@pytest.mark.parametrize("text", ["", "host7", "10.1.1.1/16", "10.0.0.0/33"])
def test_not_a_network(text: str) -> None:
    with pytest.raises(ValueError, match="grid_plain_http: "):
        PlainHttp([text])
