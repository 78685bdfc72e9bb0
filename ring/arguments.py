# SPDX-License-Identifier: Apache-2.0
"""The command line of martlet-ring-builder: its grammar, its help, and the devices named in it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ring.device_syntax import parse_add_value, parse_search_value
from ring.devices import normal_address, parse_weight
from ring.errors import DeviceError

_EXAMPLES = """\
examples:
  martlet-ring-builder object.builder create 10 3 1
      2^10 partitions, 3 replicas, a partition moves once an hour at most
  martlet-ring-builder object.builder add r1z1-10.0.0.1:6200/sdb1 100 r1z2-10.0.0.2:6200/sdb1 100
  martlet-ring-builder object.builder add --region 1 --zone 3 --ip 10.0.0.3 --port 6200 \\
      --device sdb1 --weight 100
  martlet-ring-builder object.builder rebalance
      assigns the partitions and writes object.ring.gz
  martlet-ring-builder object.builder
      shows the ring and its devices
  martlet-ring-builder object.builder set_weight d2 50
  martlet-ring-builder object.builder remove 10.0.0.3/sdb1

exit status: 0 done; 1 done or not needed, but look at what was printed; 2 error, nothing changed
"""

_SEARCH_HELP = (
    "d<id>r<region>z<zone>-<ip>:<port>R<r_ip>:<r_port>/<device>_<meta>, each part optional; "
    "[...] around an IPv6 address"
)
_FIELD_OPTIONS: tuple[tuple[str, str, type, str], ...] = (
    ("-r", "--region", int, "region"),
    ("-z", "--zone", int, "zone"),
    ("-i", "--ip", str, "IP address or host name"),
    ("-p", "--port", int, "port"),
    ("-j", "--replication-ip", str, "IP address or host name for replication; default: --ip"),
    ("-q", "--replication-port", int, "port for replication; default: --port"),
    ("-d", "--device", str, "device name, for example sdb1"),
    ("-w", "--weight", str, "weight, relative to the other devices"),
    ("-m", "--meta", str, "free text about the device"),
)


class _SentenceParser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"martlet-ring-builder: {message} (--help shows how it is used)\n")


class CommandParser(_SentenceParser):
    """Reads the arguments of martlet-ring-builder."""

    def __init__(self) -> None:
        super().__init__(
            prog="martlet-ring-builder",
            description="Builds rings: which devices hold which partition.",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("builder_file", help="for example object.builder")
        self.set_defaults(json=False)
        commands = self.add_subparsers(
            dest="command", metavar="command", title="commands", parser_class=_SentenceParser
        )
        commands.default = "show"  # what a builder file without a command asks for
        _add_create(commands)
        _add_device_commands(commands)
        _add_ring_commands(commands)


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[_SentenceParser]


def _add_create(commands: _Commands) -> None:
    create = commands.add_parser("create", help="make a new builder file")
    create.add_argument("part_power", type=int, help="2^part_power partitions, 0 to 32")
    create.add_argument("replicas", type=float, help="replicas of each partition")
    create.add_argument(
        "min_part_hours", type=int, help="hours before a partition may move again, 0 to 255"
    )


def _add_device_commands(commands: _Commands) -> None:
    add = commands.add_parser("add", help="add devices")
    add.add_argument(
        "devices",
        nargs="*",
        metavar="device weight",
        help="[r<region>]z<zone>-<ip>:<port>[R<r_ip>:<r_port>]/<device>[_<meta>] and its weight, "
        "as many pairs as wanted",
    )
    _add_field_options(add)
    remove = commands.add_parser("remove", help="mark devices; the next rebalance removes them")
    remove.add_argument("searches", nargs="*", metavar="search", help=_SEARCH_HELP)
    weight = commands.add_parser("set_weight", help="change the weight of devices")
    weight.add_argument("changes", nargs="*", metavar="search weight", help=_SEARCH_HELP)
    for command in (remove, weight):
        command.add_argument("-u", "--id", type=int, help="device id")
        _add_field_options(command)
        command.add_argument(
            "-y", "--yes", action="store_true", help="do not ask if several devices match"
        )


def _add_ring_commands(commands: _Commands) -> None:
    rebalance = commands.add_parser("rebalance", help="assign partitions and write the ring file")
    rebalance.add_argument("seed_argument", nargs="?", metavar="seed", help="the same as --seed")
    rebalance.add_argument("-s", "--seed", help="the same seed gives the same ring")
    rebalance.add_argument(
        "-f", "--force", action="store_true", help="save even if less than 1%% changed"
    )
    write_ring = commands.add_parser("write_ring", help="write the ring file again")
    for command in (rebalance, write_ring):
        command.add_argument(
            "--format-version", type=int, choices=(1, 2), default=1, help="default: 1"
        )
    show = commands.add_parser("show", help="show the ring and its devices (the default)")
    show.add_argument("--json", action="store_true", help="for programs")


def _add_field_options(command: argparse.ArgumentParser) -> None:
    for short, long, kind, text in _FIELD_OPTIONS:
        command.add_argument(short, long, type=kind, help=text)


def devices_and_weights(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The devices of an ``add``, in either notation.

    :raises DeviceError: what is written does not make devices.
    """
    fields = _fields(options)
    if not options.devices:
        yield fields
        return
    _refuse_mixture(fields)
    for text, weight in _pairs(options.devices, "each device needs a weight after it"):
        yield {**parse_add_value(text), "weight": parse_weight(weight)}


def search_groups(options: argparse.Namespace) -> list[dict[str, Any]]:
    """What the devices of a ``remove`` must have; a device that fits one group is meant.

    :raises DeviceError: a search value is written wrongly, or nothing is searched for.
    """
    fields = _fields(options)
    if options.searches:
        _refuse_mixture(fields)
        return [parse_search_value(text) for text in options.searches]
    if not fields:
        raise DeviceError("say which devices: by a search value, or with options such as --ip")
    return [fields]


def weight_changes(options: argparse.Namespace) -> list[tuple[dict[str, Any], float]]:
    """Searches and new weights of a ``set_weight``.

    :raises DeviceError: a search value or a weight is written wrongly.
    """
    fields = _fields(options)
    if fields and len(options.changes) == 1:
        return [(fields, parse_weight(options.changes[0]))]
    _refuse_mixture(fields)
    pairs = _pairs(options.changes, "each search value needs a new weight after it")
    return [(parse_search_value(text), parse_weight(weight)) for text, weight in pairs]


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """The device fields given as options."""
    keys = ["id"] + [long[2:].replace("-", "_") for _, long, _, _ in _FIELD_OPTIONS]
    given = {key: getattr(options, key, None) for key in keys}
    fields = {key: value for key, value in given.items() if value is not None}
    for key in ("ip", "replication_ip"):
        if key in fields:
            fields[key] = normal_address(fields[key])
    if "weight" in fields:
        fields["weight"] = parse_weight(fields["weight"])
    return fields


def _refuse_mixture(fields: dict[str, Any]) -> None:
    if fields:
        raise DeviceError("give devices in one text each or with options, not both")


def _pairs(texts: list[str], message: str) -> list[tuple[str, str]]:
    if not texts or len(texts) % 2:
        raise DeviceError(message)
    return list(zip(texts[::2], texts[1::2], strict=True))
