"""The command line: every mistake is one sentence and an exit status that is not 0."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.command import COMMANDS, main
from cluster.ports import HOST, PortPicker


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("MARTLET_HOME", str(home))
    monkeypatch.setenv("MARTLET_PORT", str(PortPicker(taken=0).keep_or_pick(0)))
    return home


def failure(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 1
    error = capsys.readouterr().err
    assert error.startswith("martlet: ")
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_found_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: martlet {name} ")


def test_a_command_loads_its_own_modules_alone() -> None:
    script = "import sys; from cluster.command import main; main(['down']); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "cluster.down_command" in loaded
    assert not {"cluster.up", "cluster.recon.command", "ring.builder"} & set(loaded)


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "80 80", "８０", "9" * 5000])
def test_a_bad_port_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], port: str
) -> None:
    monkeypatch.setenv("MARTLET_PORT", port)
    assert "MARTLET_PORT must be a port from 1 to 65535" in failure(capsys, "up")
    assert not home.exists()


@pytest.mark.parametrize(
    "name", ["100%", "a%20b", "#1", "a\nb", pytest.param("\udcff", id="not-utf-8")]
)
def test_a_home_that_no_conf_can_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("MARTLET_HOME", f"{tmp_path}/{name}")
    for command in ("up", "down", "status"):
        assert "MARTLET_HOME may have no" in failure(capsys, command)
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_starts_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("MARTLET_PORT", str(port))
        assert f"port {port} is in use by another program" in failure(capsys, "up")
    assert not (home / "cluster.json").exists()


def test_a_home_that_is_a_file_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.write_text("mine")
    assert "cannot create" in failure(capsys, "up")
    assert home.read_text() == "mine"


@pytest.mark.parametrize("command", ["up", "status"])
def test_a_newer_home_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    home.mkdir()
    (home / "cluster.json").write_text(json.dumps({"format": 99}))
    assert "made by a newer martlet" in failure(capsys, command)


def test_another_number_of_nodes_than_the_home_has_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from cluster.layout import Home, Layout

    home.mkdir()
    Home(home).write_layout(Layout.create(2))
    assert "holds a cluster of 2 nodes" in failure(capsys, "up", "--nodes", "3")


def test_status_and_down_of_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 3
    assert main(["down"]) == 0
    assert capsys.readouterr().out.count(f"no cluster runs in {home}") == 2
    assert main(["status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out) == {"running": False, "home": str(home)}


def test_a_device_is_adopted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = home / "devices" / "d1"
    assert "is not a directory" in failure(capsys, "device", "adopt", str(device))
    device.mkdir(parents=True)
    (home / "etc").mkdir()
    (home / "etc" / "martlet.conf").write_text("[swift-hash]\nswift_hash_path_suffix = s\n")
    assert main(["device", "adopt", str(device)]) == 0
    assert '"device":"d1"' in (device / "martlet-device").read_text()
    other = home / "other"
    other.mkdir()
    assert "martlet.conf" in failure(capsys, "device", "adopt", "-d", str(other), str(device))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_adopts_is_the_services(home: Path) -> None:
    device = home / "devices" / "d1"
    device.mkdir(parents=True)
    os.chown(device, 1234, 1235)
    (home / "etc").mkdir()
    (home / "etc" / "martlet.conf").write_text("[swift-hash]\nswift_hash_path_suffix = s\n")
    assert main(["device", "adopt", str(device)]) == 0
    known = device.parent / ".martlet-devices"
    for path in (device / "martlet-device", known, known / "d1"):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)
