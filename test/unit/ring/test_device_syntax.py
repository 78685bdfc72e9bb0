"""Devices as operators write them: what is wrong is refused and named."""

from typing import Any

import pytest

from ring.device_syntax import parse_add_value, parse_search_value
from ring.devices import checked_device, format_device, normal_address, parse_weight
from ring.errors import DeviceError


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10.0.0.1:6200/sdb1",
        "r1-10.0.0.1:6200/sdb1",
        "z1-10.0.0.1/sdb1",
        "z1-10.0.0.1:x/sdb1",
        "z1-10.0.0.1:6200",
        "zx-10.0.0.1:6200/sdb1",
        "z1-10.0.0.999:6200/sdb1",
        "z1-10.0.0:6200/sdb1",
        "z1-host:6200/sdb1",
        "z1-[::1:6200/sdb1",
        "z1-[::x]:6200/sdb1",
        "z1-10.0.0.1:6200R:6300/sdb1",
        "z1-10.0.0.1:6200R10.0.0.x:6300/sdb1",
        "z99999999999999999999-10.0.0.1:6200/sdb1",
    ],
)
def test_what_is_no_device_is_refused(text: str) -> None:
    with pytest.raises(DeviceError) as caught:
        parse_add_value(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "-", "x", "d", "z1-", "1.2.3.4.5", "[::x]", "d1d2", ":x"])
def test_what_is_no_search_is_refused(text: str) -> None:
    if text == "z1-":
        assert parse_search_value(text) == {"zone": 1}
        return
    with pytest.raises(DeviceError):
        parse_search_value(text)


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "1e999", "-inf"])
def test_what_is_no_weight_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="not a weight"):
        parse_weight(text)


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("[2001:0DB8:0::1]", "2001:db8::1"),
        ("::1", "::1"),
        ("Node-1.Example.ORG", "node-1.example.org"),
        ("node1", "node1"),
    ],
)
def test_an_address_has_one_spelling(written: str, normal: str) -> None:
    assert normal_address(written) == normal


@pytest.mark.parametrize(
    "text",
    ["", "10.0.0.256", "1.2.3", "10", "-a", "a-", "a..b", "a_b", "[node1]", "a b", "x" * 256],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="not an IP address or a host name"):
        normal_address(text)


GOOD: dict[str, Any] = {
    "region": 1,
    "zone": 2,
    "ip": "::1",
    "port": 6200,
    "device": "sdb1",
    "weight": 3,
}


def test_a_device_is_completed_and_shown() -> None:
    device = checked_device({**GOOD, "id": 7, "meta": "m"})
    assert device["replication_ip"] == "::1"
    assert device["replication_port"] == 6200
    assert type(device["weight"]) is float
    assert format_device(device) == 'd7r1z2-[::1]:6200R[::1]:6200/sdb1_"m"'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("region", -1),
        ("zone", "1"),
        ("zone", True),
        ("ip", None),
        ("port", 0),
        ("port", 65536),
        ("replication_port", 0),
        ("weight", -1),
        ("weight", float("nan")),
        ("weight", "heavy"),
        ("device", ""),
        ("device", "a/b"),
        ("device", ".."),
        ("device", " a"),
        ("device", "a\n"),
        ("device", "a\0"),
        ("device", "x" * 256),
        ("meta", 3),
        ("id", 2**32),
    ],
)
def test_a_field_out_of_range_is_refused(key: str, value: object) -> None:
    with pytest.raises(DeviceError):
        checked_device({**GOOD, key: value})


def test_missing_fields_are_named() -> None:
    with pytest.raises(DeviceError, match="a device needs ip, weight"):
        checked_device({k: v for k, v in GOOD.items() if k not in ("ip", "weight")})
