# SPDX-License-Identifier: Apache-2.0
"""``martlet device adopt``: an operator confirms that a directory is the device of its name."""

from __future__ import annotations

import argparse
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.swift_dir import swift_dir_of
from martlet.conf.cluster import CONF_NAME, HashOptions
from martlet.conf.options import ConfigError
from ring.device_marker import DeviceMarkers

_EPILOG = """\
A storage service refuses a device without its marker, or with the marker of another device: most
likely it is not mounted, or the wrong disk is mounted. Use `adopt` for a new disk that replaces a
broken one, or for a disk with a new name. See doc/formats/device-marker.md.

examples:
  martlet device adopt var/devices/d1          a device of the cluster in MARTLET_HOME
  martlet device adopt -d /etc/martlet /srv/node/sdb
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``device`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "device",
        help="confirm that a directory is the device of its name",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    adopt = steps.add_parser("adopt", help="mark a directory as the device of its name")
    adopt.add_argument("-d", "--swift-dir", type=Path, metavar="DIR", help="that of martlet.conf")
    adopt.add_argument("path", type=Path, help="the directory of the device")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Mark the device; return the exit status.

    :raises ClusterError: it cannot be marked.
    """
    path = Path(arguments.path).absolute()
    if not path.is_dir():
        raise ClusterError(f"{path} is not a directory")
    swift_dir = swift_dir_of(home, arguments.swift_dir)
    try:
        salts = HashOptions.read(swift_dir / CONF_NAME)
        DeviceMarkers(salts, mount_check=False).adopt(str(path))
    except (ConfigError, OSError) as error:
        raise ClusterError(str(error)) from None
    print(f"{path} is {path.name} of the cluster in {swift_dir}")
    return 0
