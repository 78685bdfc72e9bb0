# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet deploy``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cluster.deploy.files import files_of
from cluster.deploy.plan import PORTS, Plan, make_plan
from cluster.errors import ClusterError
from cluster.layout import Home
from ring.builder import RingBuilder
from ring.builder_file import save_builder
from ring.file_format import encode_ring

PART_POWER_DEFAULT = 14
_MIN_PART_HOURS = 1

_EPILOG = """\
Writes DIR/NAME for each host: all files of its /etc/martlet, with secrets that are made for this
cluster. The same rings are in each. DIR/builders has their builder files: keep these. It contacts
no host. doc/install.md has the whole installation.

examples:
  martlet deploy new --host a=192.0.2.11 --host b=192.0.2.12 --host c=192.0.2.13 --device d1
                                       three hosts, each with the device /srv/node/d1
  martlet deploy new --host a=192.0.2.11 --device d1 --device d2 --metrics-from 192.0.2.9
                                       one host with two devices, and a monitoring host
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``deploy`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "deploy",
        help="write the confs and rings of a new cluster of several hosts",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a directory that is made")
    for name, metavar, text in (
        ("--host", "NAME=ADDRESS", "a host, which is a zone of its own; repeated"),
        ("--device", "NAME", "a directory below /srv/node on each host; repeated"),
    ):
        parser.add_argument(name, action="append", required=True, metavar=metavar, help=text)
    parser.add_argument(
        "--user",
        default="admin:admin",
        metavar="ACCOUNT:USER",
        help="first user (default: %(default)s)",
    )
    parser.add_argument(
        "--part-power",
        type=int,
        default=PART_POWER_DEFAULT,
        metavar="N",
        help="2**N partitions (default: %(default)s, good for up to 160 devices)",
    )
    parser.add_argument(
        "--metrics-from",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="a host that may read the metrics of the proxies",
    )


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Write the files; return the exit status.

    :raises ClusterError: an argument cannot be used, or the files cannot be written.
    """
    plan = make_plan(
        arguments.host,
        arguments.device,
        arguments.user,
        arguments.part_power,
        arguments.metrics_from,
    )
    try:
        write_all(plan, arguments.directory)
    except FileExistsError:
        raise ClusterError(f"{arguments.directory} exists: a new cluster needs a new one") from None
    except OSError as error:
        raise ClusterError(f"{error.filename}: {error.strerror}") from None
    names = ", ".join(host.name for host in plan.hosts)
    print(f"{arguments.directory}: the files of {names}, and builders")
    print(f"first user: {plan.account}:{plan.user}, key {plan.user_key}")
    return 0


def write_all(plan: Plan, directory: Path) -> None:
    """Write the directory of each host, and the builders.

    :raises OSError: a file cannot be written, or the directory exists.
    """
    directory.mkdir(mode=0o700)
    builders = directory / "builders"
    builders.mkdir()
    rings = {kind: _ring(plan, kind, builders / f"{kind}.builder") for kind in PORTS}
    for host in plan.hosts:
        folder = directory / host.name
        folder.mkdir()
        for name, text in files_of(plan, host):
            _write(folder / name, text.encode(), 0o640)
        for kind, ring in rings.items():
            _write(folder / f"{kind}.ring.gz", ring, 0o644)


def _ring(plan: Plan, kind: str, builder_path: Path) -> bytes:
    builder = RingBuilder.create(plan.part_power, float(plan.replicas), _MIN_PART_HOURS)
    for host in plan.hosts:
        for device in plan.devices:
            builder.add_device(
                {
                    "region": 1,
                    "zone": host.zone,
                    "ip": host.ip,
                    "port": PORTS[kind],
                    "device": device,
                    "weight": 100.0,
                }
            )
    builder.rebalance()
    builder.validate()
    save_builder(builder, builder_path)
    ring = encode_ring(builder.ring_data(), f"{kind}.ring.gz")
    _write(builder_path.with_suffix(".ring.gz"), ring, 0o644)
    return ring


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
