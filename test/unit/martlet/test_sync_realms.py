"""Realms of container sync, and the signatures between their clusters."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from martlet.conf.sync_realms import CONF_NAME, SyncRealms, SyncTarget, sync_signature

CONF = """
[DEFAULT]
mtime_check_interval = 10
[Us]
key = k1
key2 = k2
cluster_dfw = https://dfw.example.com/v1/
cluster_B = http://b/v1
[empty]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CONF_NAME).write_text(CONF)
    return tmp_path


def test_names_have_no_case(folder: Path) -> None:
    realms = SyncRealms(str(folder)).all()
    assert set(realms) == {"US", "EMPTY"}
    assert realms["US"].keys == ("k1", "k2")
    assert realms["US"].endpoints == {"DFW": "https://dfw.example.com/v1/", "B": "http://b/v1"}
    assert realms["EMPTY"].keys == ()


def test_a_change_is_seen_after_a_while(folder: Path) -> None:
    now = 0.0
    realms = SyncRealms(str(folder), lambda: now)
    assert "US" in realms.all()
    (folder / CONF_NAME).write_text("[eu]\nkey = k\n")
    os.utime(folder / CONF_NAME, ns=(1, 1))
    now = 9.0
    assert "US" in realms.all()
    now = 10.0
    assert set(realms.all()) == {"EU"}


@pytest.mark.parametrize(
    "text", ["nonsense", "[a]\nkey=1\n[a]\n", "[DEFAULT]\nmtime_check_interval=x"]
)
def test_a_damaged_file_changes_nothing(folder: Path, text: str) -> None:
    realms = SyncRealms(str(folder), iter(range(0, 10_000, 1000)).__next__)
    assert "US" in realms.all()
    (folder / CONF_NAME).write_text(text)
    os.utime(folder / CONF_NAME, ns=(1, 1))
    assert "US" in realms.all()


def test_without_a_file_there_are_no_realms(tmp_path: Path) -> None:
    assert SyncRealms(str(tmp_path)).all() == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("//us/DFW/a/c", SyncTarget("https://dfw.example.com/v1/a/c", "US", "k1")),
        ("//US/b/a/c/", SyncTarget("http://b/v1/a/c", "US", "k1")),
        ("http://good/v1/a/c", SyncTarget("http://good/v1/a/c")),
        ("https://good:443/v1/a/c", SyncTarget("https://good:443/v1/a/c")),
    ],
)
def test_targets(folder: Path, value: str, expected: SyncTarget) -> None:
    assert SyncRealms(str(folder)).parse(value, ["good"]) == expected


@pytest.mark.parametrize(
    "value",
    [
        "//us/none/a/c",
        "//none/b/a/c",
        "//empty/b/a/c",
        "//us/b/a",
        "//us/b//c",
        "//us/b/a/c/o",
        "ftp://good/a/c",
        "good/a/c",
        "http://bad/v1/a/c",
        "http://good",
        "http://good/a?b",
        "http://good/a#b",
        "http://[good/a",
    ],
)
def test_targets_that_cannot_be(folder: Path, value: str) -> None:
    with pytest.raises(ValueError, match=r"X-Container-Sync-To|No realm key|No cluster"):
        SyncRealms(str(folder)).parse(value, ["good"])


def test_a_signature_is_openstack_swifts() -> None:
    """As OpenStack Swift 2.38 makes it of the same words."""
    words = ("PUT", "/v1/AUTH_a/c/o", "1387219100.00000", "nonce", "k1", "user")
    assert sync_signature(*words) == "217f0f2bc9e6d094e3a4793d041aa687d89b23e1"
