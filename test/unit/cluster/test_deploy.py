"""``martlet deploy``: the files of a new cluster of several hosts."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from source_tree import ROOT

from cluster.command import main
from cluster.deploy.files import ETC, firewall, haproxy_conf
from martlet.conf.cluster import ClusterConf
from martlet.conf.options import load_options, read_ini
from martlet.service.programs import find_program
from martlet.service.server import ServerOptions, load_server_options
from ring.builder_file import load_builder
from ring.file_format import read_ring

SAMPLE = ["192.0.2.11", "192.0.2.12", "192.0.2.13"]
HOSTS = [word for n, ip in zip("abc", SAMPLE, strict=True) for word in ("--host", f"{n}={ip}")]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    directory = tmp_path / "new"
    arguments = ["deploy", str(directory), *HOSTS, "--device", "d1", "--part-power", "6"]
    assert main([*arguments, "--metrics-from", "192.0.2.9", "--user", "shop:root"]) == 0
    return directory


def here(path: Path) -> Path:
    """Let the confs name the directory in place of /etc/martlet."""
    for conf in path.glob("*.conf"):
        text = conf.read_text().replace(str(ETC), str(path))
        conf.write_text(text.replace("[DEFAULT]\n", f"[DEFAULT]\nswift_dir = {path}\n"))
    return path


def test_all_hosts_have_the_same_secrets_and_rings(new: Path) -> None:
    for name in ("martlet.conf", "account.ring.gz", "container.ring.gz", "object.ring.gz"):
        contents = {(new / host / name).read_bytes() for host in "abc"}
        assert len(contents) == 1, name
        if name.endswith(".gz"):
            assert contents == {(new / "builders" / name).read_bytes()}
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    assert stat.S_IMODE((new / "a" / "martlet.conf").stat().st_mode) & stat.S_IRWXO == 0


def test_two_clusters_share_no_secret(new: Path, tmp_path: Path) -> None:
    assert (
        main(["deploy", str(tmp_path / "other"), *HOSTS, "--device", "d1", "--part-power", "2"])
        == 0
    )
    first, second = (read_ini(tmp_path / name / "a" / "martlet.conf") for name in ("new", "other"))
    for section, option in (("grid", "grid_secret"), ("swift-hash", "swift_hash_path_suffix")):
        assert len(first[section][option]) == 64
        assert first[section][option] != second[section][option]


def test_the_rings_have_each_host_as_a_zone(new: Path) -> None:
    for kind, port in (("account", 6202), ("container", 6201), ("object", 6200)):
        ring = read_ring(new / "b" / f"{kind}.ring.gz")
        found = [(d["ip"], d["port"], d["zone"], d["device"]) for d in ring.devs if d is not None]
        assert found == [(ip, port, zone, "d1") for zone, ip in enumerate(SAMPLE, 1)]
        assert load_builder(new / "builders" / f"{kind}.builder").replicas == 3


def test_the_confs_can_be_used(new: Path) -> None:
    etc = here(new / "b")
    assert len(ClusterConf.load(etc).grid.secrets.keys) == 1
    options = load_server_options(etc / "proxy-server.conf")
    assert (options.bind_ip, options.bind_port) == ("192.0.2.12", 8080)
    assert options.metrics_from == ["192.0.2.9"]
    for kind in ("proxy", "account", "container"):
        # In a process of its own, as a service: other tests import OpenStack Swift, which changes
        # PasteDeploy.
        command = [find_program(f"martlet-{kind}-server"), "--check", f"{etc}/{kind}-server.conf"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, ""), kind
    objects = read_ini(etc / "object-server.conf")
    assert dict(objects["object-expirer"])["process"] == "1"
    assert objects["object-expirer"]["processes"] == "3"


def test_the_first_user_has_the_key_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["deploy", str(tmp_path / "x"), *HOSTS, "--device", "d1", "--part-power", "2"])
    key = capsys.readouterr().out.split()[-1]
    user = read_ini(tmp_path / "x" / "c" / "proxy-server.conf")["filter:tempauth"][
        "user_admin_admin"
    ]
    assert user.split()[0] == key


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--host", "a=nonsense", "--device", "d1"], "nonsense"),
        (["--host", "192.0.2.1", "--device", "d1"], "NAME=ADDRESS"),
        (["--host", "a=192.0.2.1", "--host", "a=192.0.2.2", "--device", "d1"], "same name"),
        (["--host", "a=192.0.2.1", "--host", "b=192.0.2.1", "--device", "d1"], "same address"),
        (["--host", "a=192.0.2.1", "--device", "../d"], "--device"),
        (["--host", "a=192.0.2.1", "--device", "d1", "--user", "admin"], "ACCOUNT:USER"),
        (["--host", "a=192.0.2.1", "--device", "d1", "--part-power", "40"], "from 1 to 24"),
    ],
)
def test_words_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["deploy", str(tmp_path / "new"), *arguments]) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_an_existing_directory_is_left_alone(new: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (new / "a" / "martlet.conf").read_bytes()
    assert main(["deploy", str(new), *HOSTS, "--device", "d1"]) == 1
    assert "exists" in capsys.readouterr().err
    assert (new / "a" / "martlet.conf").read_bytes() == before


def test_the_samples_are_those_of_three_hosts() -> None:
    assert (ROOT / "etc" / "haproxy.cfg").read_text() == haproxy_conf(SAMPLE)
    assert (ROOT / "etc" / "nftables.conf").read_text() == firewall(SAMPLE, ("192.0.2.9",))


def test_addresses_of_ipv6() -> None:
    assert "server proxy1 [2001:db8::1]:8080 check" in haproxy_conf(["2001:db8::1"])
    rules = firewall(["2001:db8::1", "192.0.2.1"], ())
    assert "ip6 saddr { 2001:db8::1 }" in rules
    assert "ip saddr { 192.0.2.1 }" in rules


def test_timeouts_of_haproxy_are_above_those_of_the_proxy() -> None:
    options: Any = load_options(ServerOptions, {})
    text = haproxy_conf(SAMPLE)
    seconds = {name: int(number) for name, number in re.findall(r"timeout (\w+) (\d+)s", text)}
    assert seconds["client"] == options.client_timeout + 5
    assert seconds["server"] == 600 >= options.client_timeout + 15
