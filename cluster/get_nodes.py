# SPDX-License-Identifier: Apache-2.0
"""``martlet get-nodes``: the devices of an account, a container or an object, and what is there."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import unquote

from cluster import swift_dir
from cluster.direct import POLICY_HEADER, DirectAnswer, DirectClient, node_name, path_of
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.recon.cells import table
from cluster.swift_dir import KINDS, ClusterFiles
from martlet.conf.storage_policies import StoragePolicy
from martlet.words.names import quote_path
from ring.devices import bracketed
from ring.ring import Node

_SECONDS = 5.0
_RING_FILE = re.compile(r"(account|container|object)(?:-([0-9]+))?\.ring\.gz\Z")
_EPILOG = """\
Without --policy the storage policy of an object is that of its container, if a container server
answers, else the default one. With --ask the exit status is 1 if a primary does not have it.

examples:
  martlet get-nodes AUTH_test photos cat.jpg   the devices of an object, and the first hand-offs
  martlet get-nodes AUTH_test/photos/cat.jpg   the same
  martlet get-nodes --ask AUTH_test photos     ... of a container, and what each of them answers
  martlet get-nodes -a -d /etc/martlet AUTH_test
                                               ... of an account, with all hand-offs
  martlet get-nodes -p 851 --policy gold       the devices of a partition of objects
  martlet get-nodes -p 17 --kind container     ... of a partition of containers
  martlet get-nodes var/etc/object.ring.gz AUTH_test photos cat.jpg
                                               with the arguments of swift-get-nodes
"""


@dataclass(frozen=True)
class Item:
    """An account, a container or an object; or a partition, without ``names``."""

    kind: str
    names: tuple[str, ...]
    policy: StoragePolicy | None  # of objects alone


@dataclass
class Found:
    """The place of an item."""

    item: Item
    partition: int
    hexdigest: str
    primaries: Sequence[Node]
    handoffs: Sequence[Node]
    answers: dict[int, DirectAnswer] = field(default_factory=dict)  # by the id of the device

    @property
    def nodes(self) -> list[Node]:
        return [*self.primaries, *self.handoffs]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``get-nodes`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "get-nodes",
        help="show the devices of an account, a container or an object",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="ACCOUNT [CONTAINER [OBJECT]]")
    parser.add_argument("-a", "--all", action="store_true", help="show all hand-offs")
    parser.add_argument("-p", "--partition", type=int, metavar="N", help="a partition, by number")
    parser.add_argument(
        "--kind", choices=KINDS, help="with --partition: of which ring (default: object)"
    )
    swift_dir.add_policy_option(parser)
    swift_dir.add_option(parser)
    parser.add_argument("-Q", "--quoted", action="store_true", help="the names are URL-encoded")
    parser.add_argument(
        "--ask", action="store_true", help="ask the servers, with a proof of the cluster's secret"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Print the devices; return the exit status.

    :raises ClusterError: there is no such partition, or the rings cannot be used.
    """
    files = ClusterFiles.load(swift_dir.swift_dir_of(home, arguments.swift_dir))
    client = DirectClient(files, _SECONDS)
    item = _item_of(arguments, files, client)
    found = _find(files, item, arguments.partition, arguments.all)
    if arguments.ask:
        _ask(client, found)
    if arguments.json:
        print(json.dumps(_as_json(found), indent=2))
    else:
        print(_as_text(files, found))
    missing = [n for n in found.primaries if n["id"] in found.answers and not _has(found, n)]
    return 1 if missing else 0


def _item_of(arguments: argparse.Namespace, files: ClusterFiles, client: DirectClient) -> Item:
    """
    :raises ClusterError: the names are none of an account, a container or an object.
    """
    names, policy, kind = list(arguments.names), arguments.policy, arguments.kind
    if names and (match := _RING_FILE.search(names[0])):
        names.pop(0)
        kind = match[1]
        policy = policy or (match[2] or "0" if kind == "object" else None)
    if arguments.partition is not None:
        if names:
            raise ClusterError("a partition has no name: leave out --partition, or the names")
        kind = kind or "object"
        return Item(kind, (), files.policy(policy) if kind == "object" else None)
    names = _split(names)
    if arguments.quoted:
        names = [unquote(name) for name in names]
    if not 1 <= len(names) <= 3 or not all(names):
        raise ClusterError("name ACCOUNT, ACCOUNT CONTAINER or ACCOUNT CONTAINER OBJECT")
    kind = KINDS[len(names) - 1]
    if kind != "object":
        return Item(kind, tuple(names), None)
    chosen = files.policy(policy) if policy is not None else None
    return Item(kind, tuple(names), chosen or _policy_of(files, client, names[0], names[1]))


def _split(words: Sequence[str]) -> list[str]:
    """The names; one word may hold all of them, with slashes."""
    if len(words) != 1:
        return list(words)
    path = words[0].removeprefix("/")
    return path.split("/", 2) if path else []


def _policy_of(
    files: ClusterFiles, client: DirectClient, account: str, container: str
) -> StoragePolicy:
    """The storage policy of a container by the first of its servers that answers."""
    if len(files.conf.policies) > 1:
        ring = files.rings.container
        partition, nodes = ring.get_nodes(account, container)
        for node in nodes:
            answer = client.request(node, partition, "HEAD", path_of(account, container))
            index = answer.headers.get(POLICY_HEADER.lower(), "")
            if answer.is_success and (found := _by_index(files, index)):
                return found
    return files.conf.default_policy


def _by_index(files: ClusterFiles, text: str) -> StoragePolicy | None:
    return files.conf.policy_by_index(int(text)) if text.isascii() and text.isdigit() else None


def _find(files: ClusterFiles, item: Item, partition: int | None, is_all: bool) -> Found:
    ring = files.ring(item.kind, item.policy.index if item.policy else 0)
    hexdigest = ""
    if partition is None:
        partition = ring.get_part(*item.names)
        hexdigest = files.rings.hash_path.hexdigest(*item.names)
    elif not 0 <= partition < ring.partition_count:
        raise ClusterError(f"partitions are numbers from 0 to {ring.partition_count - 1}")
    primaries = ring.get_part_nodes(partition)
    handoffs = ring.get_more_nodes(partition)
    few = list(handoffs if is_all else islice(handoffs, len(primaries)))
    return Found(item, partition, hexdigest, primaries, few)


def _ask(client: DirectClient, found: Found) -> None:
    """Send a HEAD to each device at the same time.

    :raises ClusterError: there is no name to ask for.
    """
    if not found.item.names:
        raise ClusterError("--ask needs a name: a partition cannot be asked for")
    headers = _headers(found.item)

    def ask(node: Node) -> DirectAnswer:
        path = path_of(*found.item.names)
        return client.request(node, found.partition, "HEAD", path, headers)

    with ThreadPoolExecutor(max(1, len(found.nodes))) as threads:
        answers = threads.map(ask, found.nodes)
        found.answers = {n["id"]: a for n, a in zip(found.nodes, answers, strict=True)}


def _headers(item: Item) -> dict[str, str]:
    return {POLICY_HEADER: str(item.policy.index)} if item.policy else {}


def _has(found: Found, node: Node) -> bool:
    return found.answers[node["id"]].is_success


def _role(found: Found, node: Node) -> str:
    index = found.nodes.index(node)
    count = len(found.primaries)
    return f"primary {index + 1}" if index < count else f"hand-off {index - count + 1}"


def directory(found: Found, node: Node) -> str:
    """The path below the ``devices`` of a server: of a database, or of a partition's bundle."""
    item = found.item
    suffix = f"-{item.policy.index}" if item.policy and item.policy.index else ""
    kind = f"bundles{suffix}" if item.kind == "object" else f"{item.kind}s"
    path = f"{node['device']}/{kind}/{found.partition}"
    if item.kind == "object" or not found.hexdigest:
        return path
    return f"{path}/{found.hexdigest[-3:]}/{found.hexdigest}"


def _as_json(found: Found) -> dict[str, Any]:
    item = found.item
    nodes = []
    for node in found.nodes:
        one: dict[str, Any] = {
            **{key: node[key] for key in ("id", "region", "zone", "ip", "port", "device")},
            "role": "primary" if node in found.primaries else "handoff",
            "directory": directory(found, node),
        }
        if answer := found.answers.get(node["id"]):
            one["answer"] = {"status": answer.status, "headers": dict(answer.headers)}
            one["answer"] |= {"error": answer.reason or None}
        nodes.append(one)
    return {
        "kind": item.kind,
        **dict(zip(KINDS, item.names, strict=False)),
        "policy": item.policy.index if item.policy else None,
        "partition": found.partition,
        "hash": found.hexdigest or None,
        "nodes": nodes,
    }


def _as_text(files: ClusterFiles, found: Found) -> str:
    item = found.item
    lines = [f"{kind:<10} {name}" for kind, name in zip(KINDS, item.names, strict=False)]
    if item.policy:
        lines.append(f"{'policy':<10} {item.policy.name} ({item.policy.index})")
    lines.append(f"{'partition':<10} {found.partition}")
    if found.hexdigest:
        lines.append(f"{'hash':<10} {found.hexdigest}")
    if found.answers:
        lines += ["", table(("node", "is", "answer", "tells"), _answer_rows(found))]
        return "\n".join(lines)
    rows = [(node_name(node), _role(found, node)) for node in found.nodes]
    lines += ["", table(("node", "is"), rows)]
    if item.names:
        lines += ["", *_requests(files, found)]
    lines += ["", "On each host, below `devices` of its server:"]
    lines += [f"  ls -l {directory(found, node)}  # {node_name(node)}" for node in found.nodes]
    return "\n".join(lines)


def _answer_rows(found: Found) -> list[tuple[str, str, str, str]]:
    told = {
        "account": ("x-account-container-count", "x-account-object-count"),
        "container": ("x-container-object-count", "x-container-bytes-used"),
        "object": ("etag", "content-length"),
    }[found.item.kind]
    rows = []
    for node in found.nodes:
        answer = found.answers[node["id"]]
        headers = ("x-backend-timestamp", "x-timestamp", "x-put-timestamp", *told)
        says = [f"{h}: {answer.headers[h]}" for h in headers if h in answer.headers]
        rows.append((node_name(node), _role(found, node), answer.says(), ", ".join(says)))
    return rows


def _requests(files: ClusterFiles, found: Found) -> list[str]:
    """Commands that ask each server; a cluster with a secret does not answer them."""
    lines = []
    for node in found.nodes:
        scheme = "https" if files.conf.grid.speaks_tls(node["ip"]) else "http"
        path = quote_path(f"/{node['device']}/{found.partition}{path_of(*found.item.names)}")
        headers = "".join(f' -H "{name}: {text}"' for name, text in _headers(found.item).items())
        url = f"{scheme}://{bracketed(node['ip'])}:{node['port']}{path}"
        lines.append(f'  curl -g -I{headers} --path-as-is "{url}"  # {_role(found, node)}')
    head = "Requests to each server:"
    if files.conf.grid.secrets.keys:
        head = (
            "Requests to each server. They are answered with 403 unless grid_plain_http lists this "
            "host:\nuse --ask, which proves the secret."
        )
    return [head, *lines]
