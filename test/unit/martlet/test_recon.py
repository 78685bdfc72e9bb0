"""Figures for monitoring: /recon/…"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.recon.filter import Recon, filter_factory
from martlet.service.disk_calls import DiskStuck


def inner(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    return Response(200, {}, b"inner")(environ, start_response)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two devices, one of them a file; rings that are none; a conf."""
    (tmp_path / "devices" / "sda").mkdir(parents=True)
    (tmp_path / "devices" / "sdb").write_text("")
    for name in ("account.ring.gz", "object.ring.gz", "object-1.ring.gz", "other.ring.gz"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "martlet.conf").write_bytes(b"conf")
    return tmp_path


@pytest.fixture
def recon(home: Path) -> Recon:
    conf = {"devices": str(home / "devices"), "mount_check": "false", "swift_dir": str(home)}
    return filter_factory(conf, recon_cache_path=str(home))(inner)


def ask(app: Any, path: str, method: str = "GET") -> tuple[int, bytes]:
    status, _, body = call_app(app, Request.blank(path, method).environ)
    return int(status[:3]), b"".join(body)


def figure(app: Any, path: str) -> Any:
    status, body = ask(app, f"/recon/{path}")
    assert status == 200, body
    return json.loads(body)


def test_the_host(recon: Recon) -> None:
    assert figure(recon, "mem")["MemTotal"].endswith(" kB")
    load = figure(recon, "load")
    assert set(load) == {"1m", "5m", "15m", "tasks", "processes"}
    assert load["1m"] >= 0.0
    assert set(figure(recon, "sockstat")) == {
        "tcp_in_use",
        "orphan",
        "time_wait",
        "tcp_mem_allocated_bytes",
        "tcp6_in_use",
    }
    assert {"device", "path"} == set(figure(recon, "mounted")[0])
    assert abs(figure(recon, "time") - time.time()) < 60.0


def test_the_release_that_runs(recon: Recon, monkeypatch: pytest.MonkeyPatch) -> None:
    running = importlib.metadata.version("martlet")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "files of another one")
    assert figure(recon, "version") == {"version": running}


def test_the_devices(recon: Recon, home: Path) -> None:
    assert figure(recon, "devices") == {str(home / "devices"): ["sda", "sdb"]}
    assert figure(recon, "unmounted") == [{"device": "sdb", "mounted": False}]
    good, bad = figure(recon, "diskusage")
    assert bad == {"device": "sdb", "mounted": False, "size": "", "used": "", "avail": ""}
    assert good["mounted"]
    assert good["size"] >= good["used"] + good["avail"] > 0


def test_mount_check(home: Path) -> None:
    conf = {"devices": str(home / "devices"), "swift_dir": str(home)}
    recon = filter_factory(conf)(inner)
    assert [one["device"] for one in figure(recon, "unmounted")] == ["sda", "sdb"]


def test_devices_that_are_not_there(home: Path) -> None:
    conf = {"devices": str(home / "none"), "swift_dir": str(home / "none")}
    recon = filter_factory(conf)(inner)
    assert figure(recon, "diskusage") == []
    assert figure(recon, "ringmd5") == {}
    assert ask(recon, "/recon/swiftconfmd5")[0] == 500


def test_a_device_that_hangs_is_shown_as_not_mounted(
    recon: Recon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(disk: str, *_arguments: Any) -> None:
        raise DiskStuck(disk)

    monkeypatch.setattr("martlet.recon.figures.on_disk", refuse)
    unmounted = [{"device": name, "mounted": False} for name in ("sda", "sdb")]
    assert figure(recon, "unmounted") == unmounted
    empty = {"size": "", "used": "", "avail": ""}
    assert figure(recon, "diskusage") == [device | empty for device in unmounted]
    assert figure(recon, "quarantined")["containers"] == 0


def test_what_was_put_aside(recon: Recon, home: Path) -> None:
    aside = home / "devices" / "sda" / "quarantined"
    for folder in (
        "accounts/a",
        "containers/c",
        "objects/o1",
        "objects/o2",
        "objects-3/o",
        "tmp/x",
    ):
        (aside / folder).mkdir(parents=True)
    assert figure(recon, "quarantined") == {
        "objects": 3,
        "containers": 1,
        "accounts": 1,
        "policies": {"0": {"objects": 2}, "3": {"objects": 1}},
    }


def test_digests(recon: Recon, home: Path) -> None:
    names = ["account.ring.gz", "object-1.ring.gz", "object.ring.gz"]
    expected = {str(home / n): hashlib.md5(n.encode()).hexdigest() for n in names}
    assert figure(recon, "ringmd5") == expected
    conf = hashlib.md5(b"conf").hexdigest()
    assert figure(recon, "swiftconfmd5") == {
        str(home / "martlet.conf"): conf,
        "/etc/swift/swift.conf": conf,
    }


@pytest.mark.parametrize(
    ("path", "name", "key"),
    [
        ("async", "object", "async_pending"),
        ("auditor/account", "account", "account_audits_passed"),
        ("auditor/container", "container", "container_audits_failed"),
        ("auditor/object", "object", "object_auditor_stats_ZBF"),
        ("driveaudit", "drive", "drive_audit_errors"),
        ("expirer/object", "object", "expired_last_pass"),
        ("relinker", "relinker", "devices"),
        ("replication", "object", "object_replication_time"),
        ("replication/account", "account", "replication_stats"),
        ("replication/container", "container", "replication_last"),
        ("reconciler/container", "container", "reconciler_waits_for"),
        ("sharding", "container", "sharding_stats"),
        ("updater/container", "container", "container_updater_sweep"),
        ("updater/object", "object", "object_updater_sweep"),
    ],
)
def test_what_background_processes_left(
    recon: Recon, home: Path, path: str, name: str, key: str
) -> None:
    assert figure(recon, path)[key] is None
    file = home / f"{name}.recon"
    file.write_text(json.dumps({key: 7, "other": 8}))
    shown = figure(recon, path)
    assert shown[key] == 7
    assert "other" not in shown
    for damaged in ("{", "[]"):
        file.write_text(damaged)
        assert ask(recon, f"/recon/{path}")[0] == 200


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/recon/none", "GET", 404),
        ("/recon/updater/account", "GET", 404),
        ("/recon/%C3%BC", "GET", 404),
        ("/recon/", "GET", 404),
        ("/recon/mem", "PUT", 405),
        ("/recon/mem/", "GET", 200),
        ("/recon/mem", "HEAD", 200),
    ],
)
def test_bad_requests(recon: Recon, path: str, method: str, status: int) -> None:
    assert ask(recon, path, method)[0] == status


def test_everything_else_goes_on(recon: Recon) -> None:
    for path in ("/recon", "/sda/1/a", "/"):
        assert ask(recon, path) == (200, b"inner")


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match=r"\[filter:recon\]"):
        filter_factory({}, recon_path="x")
