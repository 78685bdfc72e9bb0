# SPDX-License-Identifier: Apache-2.0
"""The command line of martlet-ring-builder: its grammar, its help, and the devices named in it."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ring.device_syntax import parse_add_value, parse_change_value, parse_search_value
from ring.devices import normal_address, parse_weight
from ring.errors import DeviceError

_EXAMPLES = """\
examples:
  martlet-ring-builder object.builder create 10 3 1
      2^10 partitions, 3 replicas, a partition moves at most once an hour
  martlet-ring-builder object.builder add r1z1-10.0.0.1:6200/sdb1 100 r1z2-10.0.0.2:6200/sdb1 100
  martlet-ring-builder object.builder add --region 1 --zone 3 --ip 10.0.0.3 --port 6200 \\
      --device sdb1 --weight 100
  martlet-ring-builder object.builder rebalance
      assigns the partitions and writes object.ring.gz
  martlet-ring-builder object.builder
      shows the ring and its devices
  martlet-ring-builder object.builder set_weight d2 50
  martlet-ring-builder object.builder remove 10.0.0.3/sdb1
  martlet-ring-builder object.builder dispersion -v

exit status: 0 done; 1 done or not needed, read the output; 2 error, nothing changed
"""

_SEARCH_HELP = (
    "d<id>r<region>z<zone>-<ip>:<port>R<r_ip>:<r_port>/<device>_<meta>, each part optional; "
    "[...] around an IPv6 address"
)


def _file_name(text: str) -> str:
    if not Path(text).name:
        raise argparse.ArgumentTypeError(f"{text!r} names no file")
    return text


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


_FIELD_OPTIONS: tuple[tuple[str, str, Callable[[str], Any], str], ...] = (
    ("-r", "--region", _whole, "region"),
    ("-z", "--zone", _whole, "zone"),
    ("-i", "--ip", str, "IP address or host name"),
    ("-p", "--port", _whole, "port"),
    ("-j", "--replication-ip", str, "IP address or host name for replication; default: --ip"),
    ("-q", "--replication-port", _whole, "port for replication; default: --port"),
    ("-d", "--device", str, "device name, for example sdb1"),
    ("-w", "--weight", str, "weight, relative to the other devices"),
    ("-m", "--meta", str, "free text about the device"),
)


class _SentenceParser(argparse.ArgumentParser):
    """A parser that reports an error in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"martlet-ring-builder: {message} (--help shows the usage)\n")


class CommandParser(_SentenceParser):
    """The parser of martlet-ring-builder's arguments."""

    def __init__(self) -> None:
        super().__init__(
            prog="martlet-ring-builder",
            description="Builds rings, which assign partitions to devices.",
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("builder_file", type=_file_name, help="for example object.builder")
        self.set_defaults(json=False)
        commands = self.add_subparsers(
            dest="command", metavar="command", title="commands", parser_class=_SentenceParser
        )
        commands.default = "show"  # for a builder file without a command
        _add_create(commands)
        _add_device_commands(commands)
        _add_ring_commands(commands)
        self._names = tuple(commands.choices)

    def refuse_unknown_command(self, words: Sequence[str]) -> None:
        """Exit with one sentence, while argparse would list every command."""
        if len(words) < 2 or words[1].startswith("-") or words[1] in self._names:
            return
        near = difflib.get_close_matches(words[1], self._names, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        self.exit(
            2,
            f"martlet-ring-builder: unknown command {words[1]!r}: {hint}"
            "(--help lists the commands)\n",
        )


if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[_SentenceParser]


def _add_create(commands: _Commands) -> None:
    create = commands.add_parser("create", help="make a new builder file")
    create.add_argument("part_power", type=_whole, help="2^part_power partitions, 0 to 32")
    create.add_argument("replicas", type=_real, help="replicas of each partition, 3 or 2.5")
    create.add_argument(
        "min_part_hours", type=_whole, help="hours before a partition may move again, 0 to 255"
    )


def _add_device_commands(commands: _Commands) -> None:
    add = commands.add_parser("add", help="add devices")
    add.add_argument(
        "devices",
        nargs="*",
        metavar="device weight",
        help="[r<region>]z<zone>-<ip>:<port>[R<r_ip>:<r_port>]/<device>[_<meta>] and its weight, "
        "one or more pairs",
    )
    _add_field_options(add)
    remove = commands.add_parser("remove", help="mark devices; the next rebalance removes them")
    search = commands.add_parser("search", help="show the devices that match")
    list_parts = commands.add_parser("list_parts", help="list the partitions of devices")
    for command in (remove, search, list_parts):
        command.add_argument("searches", nargs="*", metavar="search", help=_SEARCH_HELP)
    changing = [remove]
    for name, what in (("weight", "weight"), ("region", "region"), ("zone", "zone")):
        change = commands.add_parser(f"set_{name}", help=f"change the {what} of devices")
        change.add_argument("changes", nargs="*", metavar=f"search {what}", help=_SEARCH_HELP)
        changing.append(change)
    changing.append(_add_set_info(commands))
    for command in (*changing, search, list_parts):
        command.add_argument("-u", "--id", type=_whole, help="device id")
        _add_field_options(command)
    for command in changing:
        command.add_argument(
            "-y", "--yes", action="store_true", help="do not ask if several devices match"
        )


def _add_set_info(commands: _Commands) -> _SentenceParser:
    info = commands.add_parser("set_info", help="change address, name or text of devices")
    info.add_argument(
        "changes",
        nargs="*",
        metavar="search change",
        help=f"{_SEARCH_HELP}; and <ip>:<port>[R<r_ip>:<r_port>]/<device>_<meta>, "
        "each part optional",
    )
    for short, long, kind, text in _FIELD_OPTIONS:
        if long not in ("--region", "--zone", "--weight"):
            info.add_argument(short.upper(), f"--change-{long[2:]}", type=kind, help=f"new {text}")
    return info


def _add_ring_commands(commands: _Commands) -> None:
    rebalance = commands.add_parser("rebalance", help="assign partitions and write the ring file")
    rebalance.add_argument("seed_argument", nargs="?", metavar="seed", help="the same as --seed")
    rebalance.add_argument("-s", "--seed", help="the same seed gives the same ring")
    rebalance.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="save even if less than 1%% changed, or if the ring file is newer than the builder",
    )
    rebalance.add_argument(
        "-d", "--debug", action="store_true", help="show how much each device should hold"
    )
    write_ring = commands.add_parser("write_ring", help="write the ring file again")
    write_ring.add_argument(
        "-f", "--force", action="store_true", help="even if the ring file is newer"
    )
    write_ring.add_argument(
        "--dev-id-bytes", type=int, choices=(2, 4), help="width of a device id; 4: format 2 only"
    )
    for command in (rebalance, write_ring):
        command.add_argument(
            "--format-version", type=int, choices=(1, 2), default=1, help="default: 1"
        )
    show = commands.add_parser("show", help="show the ring and its devices (the default)")
    show.add_argument("--json", action="store_true", help="for programs")
    commands.add_parser("default", help="the same as show")
    commands.add_parser("version", help="versions of the ring file")
    commands.add_parser("validate", help="check the assignments")
    dispersion = commands.add_parser("dispersion", help="how well partitions are spread")
    dispersion.add_argument("filter", nargs="?", help="regular expression; tiers that match")
    dispersion.add_argument(
        "--recalculate", action="store_true", help="measure again and save the figures"
    )
    dispersion.add_argument("-v", "--verbose", action="store_true", help="a table of tiers")
    write_builder = commands.add_parser("write_builder", help="make a lost builder from the ring")
    write_builder.add_argument(
        "min_part_hours", type=_whole, nargs="?", help="default: 24; it is not in the ring"
    )
    _add_settings(commands)


def _add_settings(commands: _Commands) -> None:
    hours = commands.add_parser("set_min_part_hours", help="hours before a partition moves again")
    hours.add_argument("hours", type=_whole)
    replicas = commands.add_parser("set_replicas", help="replicas of each partition, 3 or 2.5")
    replicas.add_argument("replicas", type=_real)
    overload = commands.add_parser(
        "set_overload", help="how much over its weight a device may hold to spread partitions"
    )
    overload.add_argument("overload", help="0.1 or 10%%")
    for name, text in (
        ("pretend_min_part_hours_passed", "let every partition move now (dangerous)"),
        ("prepare_increase_partition_power", "announce the doubling of the partitions"),
        ("increase_partition_power", "split each partition into two"),
        ("cancel_increase_partition_power", "cancel a prepared increase"),
        ("finish_increase_partition_power", "end an increase or its cancellation"),
    ):
        commands.add_parser(name, help=text)


def _add_field_options(command: argparse.ArgumentParser) -> None:
    for short, long, kind, text in _FIELD_OPTIONS:
        command.add_argument(short, long, type=kind, help=text)


def devices_and_weights(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the devices of an ``add``, in either notation.

    :raises DeviceError: a device is not complete or is malformed.
    """
    fields = _fields(options)
    if not options.devices:
        yield fields
        return
    _refuse_mixture(fields)
    for text, weight in _pairs(options.devices, "each device needs a weight after it"):
        yield {**parse_add_value(text), "weight": parse_weight(weight)}


def search_groups(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The fields that select the devices of a command; a device matches if it has one group.

    :raises DeviceError: a search value is malformed or missing.
    """
    fields = _fields(options)
    if options.searches:
        _refuse_mixture(fields)
        return [parse_search_value(text) for text in options.searches]
    if not fields:
        raise DeviceError("name the devices by a search value or with options such as --ip")
    return [fields]


def search_and_value(options: argparse.Namespace) -> list[tuple[dict[str, Any], str]]:
    """The searches and new values of a ``set_weight``, ``set_region`` or ``set_zone``.

    :raises DeviceError: a search value is malformed, or a value is missing.
    """
    fields = _fields(options)
    if fields and len(options.changes) == 1:
        return [(fields, options.changes[0])]
    _refuse_mixture(fields)
    what = options.command.removeprefix("set_")
    pairs = _pairs(options.changes, f"each search value needs a new {what} after it")
    return [(parse_search_value(text), value) for text, value in pairs]


def info_changes(options: argparse.Namespace) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The searches and new fields of a ``set_info``.

    :raises DeviceError: a search value or a change is malformed.
    """
    fields = _fields(options)
    new = _fields(options, "change_")
    if new and not options.changes:
        if not fields:
            raise DeviceError("name the devices with options such as --ip")
        return [(fields, new)]
    if new:
        raise DeviceError("give each change as one text or with options, not both")
    _refuse_mixture(fields)
    pairs = _pairs(options.changes, "each search value needs a change after it")
    return [(parse_search_value(text), parse_change_value(change)) for text, change in pairs]


def whole_number(text: str, what: str) -> int:
    """:raises DeviceError: the text is not a whole number."""
    try:
        return int(text)
    except ValueError:
        raise DeviceError(f"{text!r} is not a {what}: a whole number is needed") from None


def _fields(options: argparse.Namespace, prefix: str = "") -> dict[str, Any]:
    """The device fields given as options whose names begin with ``prefix``."""
    keys = ["id"] + [long[2:].replace("-", "_") for _, long, _, _ in _FIELD_OPTIONS]
    given = {key: getattr(options, prefix + key, None) for key in keys}
    fields = {key: value for key, value in given.items() if value is not None}
    for key in ("ip", "replication_ip"):
        if key in fields:
            fields[key] = normal_address(fields[key])
    if "weight" in fields:
        fields["weight"] = parse_weight(fields["weight"])
    return fields


def _refuse_mixture(fields: dict[str, Any]) -> None:
    if fields:
        raise DeviceError("give each device as one text or with options, not both")


def _pairs(texts: list[str], message: str) -> list[tuple[str, str]]:
    if not texts or len(texts) % 2:
        raise DeviceError(message)
    return list(zip(texts[::2], texts[1::2], strict=True))
