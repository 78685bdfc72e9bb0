"""``martlet check``: one sentence for each thing that is wrong with a host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from certificates import Authority
from forked_passes import Pass
from grid_peers import service

from cluster.check import host
from cluster.check.command import check_host
from cluster.check.finding import Finding
from cluster.check.host import check_clock, check_open_files, check_secrets
from cluster.command import main
from martlet.conf.cluster import HashOptions
from ring.device_marker import DeviceMarkers


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
def directory(swift_dir: Callable[..., Path], free_port: int) -> Path:
    """A host with an account server, whose device d1 is there."""
    etc = swift_dir(account=[free_port])
    (etc / "devices" / "d1").mkdir(parents=True)
    (etc / "account-server.conf").write_text(
        f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {free_port}\nswift_dir = {etc}\n"
        f"devices = {etc}/devices\nmount_check = false\n"
        "[pipeline:main]\npipeline = account-server\n"
        "[app:account-server]\nuse = egg:martlet#account\n"
    )
    os.chmod(etc / "martlet.conf", 0o640)
    return etc


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def found(directory: Path) -> set[str]:
    """The findings about the directory; those about this machine are left out."""
    with patch("cluster.check.services.subprocess.run", run_forked):
        findings = check_host(directory, None)
    return {
        str(one).replace(f"{directory}/", "")
        for one in findings
        if one.subject.startswith(str(directory))
    }


def run_forked(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """Run the account server's command in a fork: to start it takes half a second each time."""
    assert Path(command[0]).name == "martlet-account-server"
    done = Pass("account.server", *command[1:])
    return subprocess.CompletedProcess(command, done.wait(), *done.communicate())


def matches(findings: set[str], *parts: str) -> bool:
    return any(all(part in finding for part in parts) for finding in findings)


PEERS_SECRET = "the-secret-of-the-other-hosts-0123456789"
SECRET_NONE = "warning: martlet.conf: grid_secret = none: any program that reaches a storage port "
ALL_IS_WELL = {SECRET_NONE + "is served"}


def test_a_host_that_is_well(directory: Path) -> None:
    assert found(directory) == ALL_IS_WELL


def test_a_check_changes_nothing(directory: Path) -> None:
    def content() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in directory.rglob("*") if p.is_file()}

    before = content()
    check_host(directory, None)
    assert content() == before


def test_a_conf_that_the_service_refuses(directory: Path) -> None:
    edit(directory / "account-server.conf", "mount_check", "mount_chekc")
    assert matches(found(directory), "error: account-server.conf", "unknown option 'mount_chekc'")


def test_a_directory_without_confs(tmp_path: Path) -> None:
    assert matches(found(tmp_path), "error: ", "has no proxy-server.conf")


def test_a_port_in_use(directory: Path, free_port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        assert matches(found(directory), "error: ", f":{free_port} is in use by another program")


def test_an_address_of_another_host(directory: Path) -> None:
    edit(directory / "account-server.conf", "127.0.0.1", "192.0.2.77")
    assert matches(found(directory), "error: ", "bind_ip 192.0.2.77 is no address of this host")


def test_a_port_that_the_ring_does_not_have(directory: Path, free_port: int) -> None:
    edit(directory / "account-server.conf", f"= {free_port}\n", "= 64999\n")
    text = f"the account ring has this host with port {free_port}, bind_port is 64999"
    assert matches(found(directory), "error: ", text)


def test_an_address_that_the_ring_does_not_have(directory: Path) -> None:
    edit(directory / "account-server.conf", "bind_ip = 127.0.0.1", "bind_ip = 127.0.0.2")
    text = "the account ring has this host as 127.0.0.1, but bind_ip is 127.0.0.2"
    assert matches(found(directory), "error: ", text)


def test_rings_that_are_missing_or_damaged(directory: Path) -> None:
    ring = directory / "account.ring.gz"
    ring.write_bytes(ring.read_bytes()[:40])
    [damaged] = found(directory) - ALL_IS_WELL
    assert damaged.startswith("error: account.ring.gz: ")
    ring.unlink()
    assert "error: account.ring.gz: is missing: copy it from the host with the builders" in found(
        directory
    )


def test_devices_that_cannot_be_used(directory: Path) -> None:
    device = directory / "devices" / "d1"
    (device / "martlet-device").write_text('{"cluster":"another","device":"d7"}')
    assert matches(found(directory), "error: devices/d1: is device d7 of cluster another")
    (device / "martlet-device").unlink()
    device.rmdir()
    assert "error: devices/d1: is in the ring and is not there" in found(directory)
    device.mkdir()
    edit(directory / "account-server.conf", "mount_check = false", "mount_check = true")
    assert "error: devices/d1: is not mounted (mount_check)" in found(directory)


def test_the_marker_of_this_device_is_right(directory: Path) -> None:
    salts = HashOptions.read(directory / "martlet.conf")
    DeviceMarkers(salts, mount_check=False).adopt(str(directory / "devices" / "d1"))
    assert found(directory) == ALL_IS_WELL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_device_of_another_user(directory: Path) -> None:
    os.chown(directory / "devices" / "d1", 12345, 12345)
    assert matches(found(directory), "error: devices/d1: belongs to user 12345; chown it")


def test_memcached_that_does_not_answer(directory: Path, free_port: int) -> None:
    with (directory / "account-server.conf").open("a") as stream:
        stream.write("[filter:cache]\nuse = egg:martlet#cache\nmemcache_servers = 127.0.0.1:1\n")
    assert matches(found(directory), "warning: ", "memcached 127.0.0.1:1 does not answer")


def secrets(path: Path, text: str, mode: int = 0o640) -> list[Finding]:
    path.write_text(text)
    os.chmod(path, mode)
    return list(check_secrets(path.parent, []))


def test_secrets_that_others_know_or_may_read(tmp_path: Path) -> None:
    path = tmp_path / "martlet.conf"
    good = f"[swift-hash]\nswift_hash_path_suffix = {'x' * 32}\n[grid]\ngrid_secret = {'0' * 64}\n"
    assert secrets(path, good) == []
    [finding] = secrets(path, good, 0o644)
    assert "chmod 0640" in finding.sentence
    [finding] = secrets(path, good.replace("0" * 64, "short"))
    assert "has 5 characters" in finding.sentence
    [finding] = secrets(path, good.replace("x" * 32, "changeme"))
    assert "well known" in finding.sentence


def test_keys_of_a_trial_cluster(directory: Path) -> None:
    conf = directory / "proxy-server.conf"
    conf.write_text(
        "[filter:tempauth]\nuser_test_tester = testing .admin\nuser_a_b = fX2qT .admin\n"
    )
    os.chmod(conf, 0o640)
    findings = {one.sentence for one in check_secrets(directory, [conf])}
    assert "user_test_tester has a key that is well known" in findings
    assert not any("user_a_b" in sentence for sentence in findings)


@pytest.fixture
def among_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with a secret. Its server counts as one of another host."""
    edit(directory / "martlet.conf", "grid_secret = none", f"grid_secret = {PEERS_SECRET}")
    monkeypatch.setattr("cluster.check.devices.is_local", lambda ip: False)
    return directory


def says_no_login(directory: Path, port: int, reason: str = "") -> bool:
    start = f"error: martlet.conf: no login to the server at 127.0.0.1:{port}: "
    return matches(found(directory), start, reason)


def test_another_host_has_another_secret(among_others: Path, free_port: int) -> None:
    peer = ("--port", str(free_port), "--secret")
    with service(*peer, PEERS_SECRET) as running:
        assert not says_no_login(among_others, free_port)
        running.end()
    assert not says_no_login(among_others, free_port)
    with service(*peer, PEERS_SECRET[::-1]):
        assert says_no_login(among_others, free_port, "no secret in common")


def test_another_host_has_tls_or_has_not(among_others: Path, free_port: int) -> None:
    authority = Authority(among_others)
    made = authority.issue("127.0.0.1")
    tls = ("--certificate", str(made.certificate), "--key", str(made.key))
    peer = ("--port", str(free_port), "--secret", PEERS_SECRET)
    with service(*peer, *tls):
        assert says_no_login(among_others, free_port, "This server speaks TLS")
    edit(among_others / "martlet.conf", "[grid]\n", f"[grid]\ngrid_tls_ca = {authority.path}\n")
    with service(*peer):
        assert says_no_login(among_others, free_port, "no TLS")
    with service(*peer, *tls):
        assert not says_no_login(among_others, free_port)


def test_another_host_that_hangs_may_be_well(among_others: Path, free_port: int) -> None:
    with socket.create_server(("127.0.0.1", free_port)):
        assert not says_no_login(among_others, free_port)


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        state = 5

        def adjtimex(self, timex: object) -> int:
            return self.state

    monkeypatch.setattr(host.ctypes, "CDLL", lambda *_, **__: Libc())
    assert [one.subject for one in check_clock()] == ["clock"]
    Libc.state = 0
    assert list(check_clock()) == []


def test_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.resource, "getrlimit", lambda _: (1024, 4096))
    assert [one.sentence[:25] for one in check_open_files()] == ["the hard limit is 4096; a"]
    monkeypatch.setattr(host.resource, "getrlimit", lambda _: (1024, 1 << 20))
    assert list(check_open_files()) == []


def test_the_command(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(directory)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 errors, ")
    (directory / "account.ring.gz").unlink()
    assert main(["check", "--json", str(directory)]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown[0]["severity"] == "error"
    assert main(["check", "--user", "no-such-user", str(directory)]) == 1
    assert "there is no user" in capsys.readouterr().err
