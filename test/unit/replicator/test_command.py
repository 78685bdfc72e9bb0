"""The command line and the conf of the replicators."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from storage_calls import write_cluster

from account.database import AccountDatabase
from martlet.conf.options import ConfigError, load_options
from replicator.command import arguments_of, run
from replicator.options import ReplicatorOptions
from ring.builder import RingBuilder
from ring.file_format import encode_ring


@pytest.mark.parametrize(
    "words",
    [
        ["x.conf", "--device", "d1"],
        ["x.conf", "--json"],
        ["x.conf", "--partitions", "1"],
        ["x.conf", "--once", "--partitions", "one"],
        [],
    ],
)
def test_usage_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments_of(words, "account")
    assert "usage: martlet-account-replicator" in capsys.readouterr().err


def test_devices_and_partitions() -> None:
    found = arguments_of(["x.conf", "once", "-d", "d1,d2", "-p", "3,17"], "container")
    assert found.once
    assert found.devices == {"d1", "d2"}
    assert found.partitions == {3, 17}


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments_of(["--help"], "container")
    text = capsys.readouterr().out
    assert "martlet-container-replicator /etc/martlet/container-server.conf --once" in text


@pytest.mark.parametrize(
    "values",
    [
        {"concurrency": "0"},
        {"interval": "0"},
        {"databases_per_second": "-1"},
        {"nice_priority": "20"},
        {"ionice_class": "IDLE"},
        {"ionice_priority": "8"},
        {"no_such": "1"},
    ],
)
def test_bad_options(values: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        load_options(ReplicatorOptions, values, "x.conf [account-replicator]")


def write_conf(directory: Path) -> Path:
    write_cluster(directory)
    conf = directory / "account-server.conf"
    conf.write_text(
        f"[DEFAULT]\nswift_dir = {directory}\ndevices = {directory}/devices\n"
        "mount_check = false\nbind_port = 6202\n[account-replicator]\nrun_pause = 5\n"
        f"[filter:recon]\nuse = egg:martlet#recon\nrecon_cache_path = {directory}/recon\n"
    )
    return conf


def test_a_missing_ring_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(write_conf(tmp_path)), "--once"], "account", AccountDatabase) == 1
    assert "account.ring.gz" in capsys.readouterr().err


def test_a_pass_of_a_host_without_peers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = write_conf(tmp_path)
    builder = RingBuilder.create(4, 1, 0)
    for device in ("d1", "d2"):
        builder.add_device(
            {
                "region": 1,
                "zone": 1,
                "ip": "127.0.0.1",
                "port": 6202,
                "device": device,
                "weight": 1.0,
            }
        )
    builder.rebalance()
    ring = encode_ring(builder.ring_data(), "account.ring.gz", 1)
    (tmp_path / "account.ring.gz").write_bytes(ring)
    assert run([str(conf), "--once", "--json"], "account", AccountDatabase) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["databases"], figures["failures"]) == (0, 0)
    shown = json.loads((tmp_path / "recon" / "account.recon").read_text())
    assert shown["replication_last"] == pytest.approx(time.time(), abs=60.0)
    (tmp_path / "recon" / "account.recon").unlink()
    assert run([str(conf), "--once", "--device", "d1"], "account", AccountDatabase) == 0
    assert not (tmp_path / "recon" / "account.recon").exists()  # a part is not shown as all
    conf.write_text(conf.read_text().replace("run_pause = 5", f"recon_cache_path = {tmp_path}/o"))
    assert run([str(conf), "--once"], "account", AccountDatabase) == 0
    assert (tmp_path / "o" / "account.recon").exists()
