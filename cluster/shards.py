# SPDX-License-Identifier: Apache-2.0
"""``martlet shards``: the shards of a container, and a start of sharding by hand."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster import swift_dir
from cluster.direct import DirectAnswer, DirectClient, node_name, path_of
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.recon.cells import NOTHING, Cell, count, size, table
from cluster.swift_dir import ClusterFiles
from martlet.words.timestamp import Timestamp
from ring.ring import Node

_SECONDS = 10.0
_AS_RANGES = {"X-Backend-Record-Type": "shard"}
_STATES = {
    10: "found",
    20: "created",
    30: "cleaved",
    40: "active",
    50: "shrinking",
    60: "sharding",
    70: "sharded",
    80: "shrunk",
}
_EPILOG = """\
A range is the names above FROM and up to TO; the first and the last have no bound. Each replica of
the container gives its rows to the shards by itself. A range is active once all have given it. The
exit status is 1 if no replica answers.

examples:
  martlet shards AUTH_test photos              the shards of a container, and its replicas
  martlet shards AUTH_test photos --json       the same, as JSON
  martlet shards AUTH_test photos --start      divide it at the next pass of the sharder, although
                                               it is small, or auto_shard is off
"""


@dataclass
class Replica:
    """The answers of a primary of the container."""

    node: Node
    answer: DirectAnswer
    given: Sequence[Mapping[str, Any]]  # the bounds of names whose rows are in shards

    @property
    def state(self) -> str:
        if not self.answer.is_success:
            return self.answer.says()
        return self.answer.headers.get("x-backend-sharding-state", "unsharded")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``shards`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "shards",
        help="show the shards of a container, or divide it",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("account", metavar="ACCOUNT")
    parser.add_argument("container", metavar="CONTAINER")
    parser.add_argument("--start", action="store_true", help="divide the container now")
    swift_dir.add_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Show the shards, or start; return the exit status.

    :raises ClusterError: the rings cannot be used, or the replicas do not take the start.
    """
    files = ClusterFiles.load(swift_dir.swift_dir_of(home, arguments.swift_dir))
    client = DirectClient(files, _SECONDS)
    names = arguments.account, arguments.container
    partition, nodes = files.ring("container").get_nodes(*names)
    if arguments.start:
        _start(client, partition, nodes, names)
    replicas = [_ask(client, partition, node, names) for node in nodes]
    ranges = next((r.answer.listing() for r in replicas if r.answer.is_success), [])
    if arguments.json:
        print(json.dumps(_report(names, replicas, ranges), indent=2))
    else:
        print(_as_text(names, replicas, ranges))
    return 0 if any(replica.answer.is_success for replica in replicas) else 1


def _start(
    client: DirectClient, partition: int, nodes: Sequence[Node], names: tuple[str, str]
) -> None:
    """Mark the container, as OpenStack Swift's tool does."""
    headers = {
        "X-Timestamp": Timestamp.now().internal,
        "X-Container-Sysmeta-Sharding": "True",
        "X-Backend-No-Timestamp-Update": "true",
    }
    path = path_of(*names)
    answers = [client.request(node, partition, "POST", path, headers) for node in nodes]
    if not any(answer.is_success for answer in answers):
        said = ", ".join(answer.says() for answer in answers)
        raise ClusterError(f"no replica of {path} took the start: {said}")


def _ask(client: DirectClient, partition: int, node: Node, names: tuple[str, str]) -> Replica:
    path = path_of(*names)
    answer = client.request(node, partition, "GET", path, _AS_RANGES, "format=json")
    query = "format=json&states=given"
    given = client.request(node, partition, "GET", path, _AS_RANGES, query).listing()
    return Replica(node, answer, given)


def _report(
    names: tuple[str, str], replicas: Sequence[Replica], ranges: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    shown = [dict(item) | {"state": _STATES.get(item["state"], item["state"])} for item in ranges]
    return {
        "account": names[0],
        "container": names[1],
        "ranges": shown,
        "replicas": [
            {
                "node": node_name(replica.node),
                "state": replica.state,
                "ranges_given": _given_count(replica, ranges),
            }
            for replica in replicas
        ],
    }


def _given_count(replica: Replica, ranges: Sequence[Mapping[str, Any]]) -> int:
    """The ranges whose rows a replica has given to their shards."""
    return sum(any(_is_around(bounds, item) for bounds in replica.given) for item in ranges)


def _is_around(bounds: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    is_upper = not bounds["upper"] or (item["upper"] and item["upper"] <= bounds["upper"])
    return bool(bounds["lower"] <= item["lower"] and is_upper)


def _as_text(
    names: tuple[str, str], replicas: Sequence[Replica], ranges: Sequence[Mapping[str, Any]]
) -> str:
    lines = [f"{path_of(*names)}: {len(ranges)} ranges"]
    rows: list[Sequence[Cell | str]] = [
        (
            _STATES.get(item["state"], str(item["state"])),
            count(item["object_count"]),
            size(item["bytes_used"]),
            item["lower"] or NOTHING,
            item["upper"] or NOTHING,
            item["name"],
        )
        for item in ranges
    ]
    if rows:
        lines += ["", table(("state", "objects", "bytes", "from", "to", "shard"), rows)]
    told = [
        (node_name(r.node), r.state, f"{_given_count(r, ranges)} of {len(ranges)}")
        for r in replicas
    ]
    return "\n".join([*lines, "", table(("replica", "state", "ranges given"), told)])
