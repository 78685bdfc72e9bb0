# SPDX-License-Identifier: Apache-2.0
"""``martlet audit-account``: whether all replicas of an account have the same in them.

It compares the listings of all databases, and asks each device for each object. It changes nothing.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from cluster import swift_dir
from cluster.direct import POLICY_HEADER, DirectAnswer, DirectClient, node_name, path_of
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.recon.cells import printable
from cluster.swift_dir import ClusterFiles
from ring.errors import RingError
from ring.ring import Node

T = TypeVar("T")
#: An account and a container.
Names = tuple[str, str]

_SECONDS = 10.0
_AT_ONCE_DEFAULT = 16
#: Objects that are asked for before the next page of a listing is read.
_BATCH = 1000
_PAGE = 10_000
_ROW_KEYS = ("hash", "bytes", "last_modified")
#: A shard may have shards in turn.
_SHARD_DEPTH_MAX = 4
_STATE = "x-backend-sharding-state"
_UNSHARDED = "unsharded"
_OVERRIDE = "x-object-sysmeta-container-update-override-etag"
_EPILOG = """\
PATH is ACCOUNT, ACCOUNT/CONTAINER or ACCOUNT/CONTAINER/OBJECT. All of it is compared at all
primaries: rows of listings; of objects the timestamp and the ETag; with --deep also the bytes.
Writes meanwhile, and replicas that have just missed one, are differences as well: repeat it after a
pass of the replicators. So are rows that move into shards. The exit status is 1 if something
differs.

examples:
  martlet audit-account AUTH_test              an account, its containers and its objects
  martlet audit-account AUTH_test/photos       one container
  martlet audit-account --deep --errors paths.txt -d /etc/martlet AUTH_test
                                               all bytes; the paths that differ go to a file
"""


@dataclass
class Audit:
    """The counts of an audit, and its differences."""

    accounts: int = 0
    containers: int = 0
    objects: int = 0
    differences: list[dict[str, str]] = field(default_factory=list)

    def differs(self, path: str, text: str) -> None:
        """Note a difference."""
        self.differences.append({"path": path, "what": text})


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``audit-account`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "audit-account",
        help="compare all replicas of an account",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="an account, or a part of it")
    parser.add_argument("--deep", action="store_true", help="read all objects, check their MD5")
    parser.add_argument(
        *("-c", "--concurrency"),
        type=int,
        default=_AT_ONCE_DEFAULT,
        metavar="N",
        help=f"objects that are asked for at once (default: {_AT_ONCE_DEFAULT})",
    )
    parser.add_argument(
        *("-e", "--errors"), type=Path, metavar="FILE", help="write the paths that differ to FILE"
    )
    swift_dir.add_option(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Compare, print what differs, and return the exit status.

    :raises ClusterError: a path is none, or the rings cannot be used.
    """
    if not 1 <= arguments.concurrency <= 1000:
        raise ClusterError("--concurrency must be from 1 to 1000")
    files = ClusterFiles.load(swift_dir.swift_dir_of(home, arguments.swift_dir))
    paths = [path.strip("/").split("/", 2) for path in arguments.paths]
    if not all(all(names) for names in paths):
        raise ClusterError("PATH is ACCOUNT, ACCOUNT/CONTAINER or ACCOUNT/CONTAINER/OBJECT")
    with ThreadPoolExecutor(arguments.concurrency) as threads:
        auditor = Auditor(files, DirectClient(files, _SECONDS), threads, arguments.deep)
        for names in paths:
            auditor.audit(names)
    audit = auditor.audited
    audit.differences.sort(key=lambda one: one["path"])
    if arguments.errors is not None:
        found = dict.fromkeys(one["path"] for one in audit.differences)
        _write(arguments.errors, "".join(f"{path}\n" for path in found))
    print(json.dumps(asdict(audit), indent=2) if arguments.json else _as_text(audit))
    return 1 if audit.differences else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ClusterError(f"cannot write {path}: {error.strerror}") from None


def _as_text(audit: Audit) -> str:
    lines = [printable(f"{one['path']}: {one['what']}") for one in audit.differences]
    counts = f"{audit.accounts} accounts, {audit.containers} containers, {audit.objects} objects"
    lines.append(f"{counts}: {len(audit.differences) or 'no'} differences")
    return "\n".join(lines)


@dataclass(frozen=True)
class Replicas:
    """The listings of the replicas that answer, and the storage policy of a container."""

    listings: Mapping[str, Iterator[dict[str, Any]]]
    policy: int = 0
    has_shards: bool = False


class Auditor:
    """Compares replicas, and notes in ``audited`` what differs."""

    def __init__(
        self,
        files: ClusterFiles,
        client: DirectClient,
        threads: ThreadPoolExecutor,
        is_deep: bool,
    ) -> None:
        self._files = files
        self._client = client
        self._threads = threads
        self._is_deep = is_deep
        self.audited = Audit()

    def audit(self, names: Sequence[str]) -> None:
        """Compare an account, a container or an object, and all that is in it."""
        if len(names) == 1:
            self._account(names[0])
        elif len(names) == 2:
            self._container(names[0], names[1])
        else:
            self._one_object(names[0], names[1], names[2])

    def _account(self, account: str) -> None:
        self.audited.accounts += 1
        counts = ("x-account-container-count", "x-account-object-count", "x-account-bytes-used")
        replicas = self._replicas((account,), counts).listings
        for name, rows in side_by_side(replicas):
            self._compare_rows(f"{account}/{name}", rows, replicas, ())
            self._container(account, name)

    def _container(self, account: str, container: str) -> None:
        self.audited.containers += 1
        self._rows_of_container((account, container), account, container)

    def _rows_of_container(self, names: Names, account: str, container: str) -> None:
        """Compare the rows of a container, or those that one of its shards has."""
        counts = ("x-container-object-count", "x-container-bytes-used", POLICY_HEADER.lower())
        found = self._replicas(names, counts)
        rows = side_by_side(found.listings)
        while batch := list(islice(rows, _BATCH)):
            for name, by_replica in batch:
                self._compare_rows(
                    f"{account}/{container}/{name}", by_replica, found.listings, _ROW_KEYS
                )
            self.audited.objects += len(batch)
            work = partial(self._object, account, container, found.policy)
            list(self._threads.map(work, *zip(*batch, strict=True)))
        for shard in self._shards(names, "") if found.has_shards else ():
            self._rows_of_container(shard, account, container)

    def _shards(self, names: Names, name: str) -> list[Names]:
        """The shards of a container, of all names or of one, in the order of names."""
        partition, nodes = self._files.ring("container").get_nodes(*names)
        headers = {"X-Backend-Record-Type": "shard"}
        query = {"format": "json", "states": "listing", "includes": name}
        encoded = urlencode(query, errors="surrogateescape")
        for node in nodes:
            answer = self._client.request(node, partition, "GET", path_of(*names), headers, encoded)
            if answer.is_success:
                found = [str(item.get("name")).partition("/") for item in answer.listing()]
                shards = dict.fromkeys((account, container) for account, _, container in found)
                return [shard for shard in shards if shard != names]
        return []

    def _one_object(self, account: str, container: str, name: str) -> None:
        holder, wanted = (account, container), (POLICY_HEADER.lower(),)
        found = self._replicas(holder, wanted, name)
        for _ in range(_SHARD_DEPTH_MAX):
            shards = self._shards(holder, name) if found.has_shards else []
            if not shards:
                break
            holder = shards[0]
            found = self._replicas(holder, wanted, name)
        rows = dict(side_by_side(found.listings)).get(name, {})
        self._compare_rows(f"{account}/{container}/{name}", rows, found.listings, _ROW_KEYS)
        self.audited.objects += 1
        self._object(account, container, found.policy, name, rows)

    def _replicas(
        self, names: tuple[str, ...], compared: Sequence[str], only: str | None = None
    ) -> Replicas:
        """The replicas of an account or a container. Notes what their headers differ in."""
        kind = "account" if len(names) == 1 else "container"
        partition, nodes = self._files.ring(kind).get_nodes(*names)
        path, shown = path_of(*names), "/".join(names)
        ask = partial(self._page, partition=partition, path=path, marker="", only=only)
        answers = list(zip(nodes, self._each(ask, nodes), strict=True))
        for node, answer in answers:
            if not answer.is_success:
                self.audited.differs(shown, f"{node_name(node)} answers {answer.says()}")
        good = [(node, answer) for node, answer in answers if answer.is_success]
        for header in compared:
            self._compare(shown, header, {node_name(n): a.headers.get(header) for n, a in good})
        index = next((a.headers.get(POLICY_HEADER.lower()) for _, a in good), None)
        listings = {
            node_name(node): self._rows(node, answer, partition, path, only)
            for node, answer in good
        }
        states = {answer.headers.get(_STATE, _UNSHARDED) for _, answer in good}
        policy = int(index) if index and index.isdigit() else 0
        return Replicas(listings, policy, bool(states - {_UNSHARDED}))

    def _page(
        self, node: Node, partition: int, path: str, marker: str, only: str | None
    ) -> DirectAnswer:
        query = {"format": "json", "limit": str(_PAGE), "marker": marker}
        if only is not None:
            query |= {"prefix": only, "limit": "1"}
        encoded = urlencode(query, errors="surrogateescape")
        return self._client.request(node, partition, "GET", path, query=encoded)

    def _rows(
        self, node: Node, first: DirectAnswer, partition: int, path: str, only: str | None
    ) -> Iterator[dict[str, Any]]:
        """The rows of one replica, in order."""
        page = first.listing()
        while page:
            yield from page
            if only is not None:
                return
            answer = self._page(node, partition, path, str(page[-1].get("name")), None)
            if answer.status not in (200, 204):
                text = f"{node_name(node)} answers {answer.says()} in the middle of its listing"
                self.audited.differs(path.removeprefix("/"), text)
                return
            page = answer.listing()

    def _compare_rows(
        self,
        path: str,
        rows: Mapping[str, Mapping[str, Any]],
        replicas: Iterable[str],
        keys: Sequence[str],
    ) -> None:
        """Note in which replicas a row is missing, or another one."""
        missing = [name for name in replicas if name not in rows]
        if missing:
            self.audited.differs(path, f"not in the listing of {', '.join(missing)}")
        for key in keys:
            self._compare(path, f"listed {key}", {name: row.get(key) for name, row in rows.items()})

    def _compare(self, path: str, what: str, by_node: Mapping[str, Any]) -> None:
        if len(set(by_node.values())) > 1:
            told = ", ".join(f"{value} at {node}" for node, value in sorted(by_node.items()))
            self.audited.differs(path, f"{what} differs: {told}")

    def _object(
        self,
        account: str,
        container: str,
        policy: int,
        name: str,
        rows: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """Compare an object at all of its primaries, and with its row."""
        path = f"{account}/{container}/{name}"
        try:
            ring = self._files.rings.object_ring(policy)
        except RingError as error:
            self.audited.differs(path, str(error))
            return
        partition, nodes = ring.get_nodes(account, container, name)
        headers = {POLICY_HEADER: str(policy)}
        etags, stamps = dict[str, str | None](), dict[str, str | None]()
        listed = {str(row.get("hash", "")).partition(";")[0] for row in rows.values()}
        for node in nodes:
            answer, digest = self._client.read(
                node, partition, path_of(account, container, name), headers, self._is_deep
            )
            where = node_name(node)
            if not answer.is_success:
                self.audited.differs(path, f"{where} answers {answer.says()}")
                continue
            etag = answer.headers.get("etag", "").strip('"')
            if digest is not None and digest != etag:
                self.audited.differs(path, f"its bytes at {where} have MD5 {digest}, not {etag}")
            shown = answer.headers.get(_OVERRIDE, "").strip('"').partition(";")[0]
            etags[where] = shown or etag
            stamps[where] = answer.headers.get("x-backend-timestamp")
        self._compare(path, "ETag", etags)
        self._compare(path, "timestamp", stamps)
        if listed and etags and not listed & {etag or "" for etag in etags.values()}:
            told = f"the listings have {', '.join(sorted(listed))}"
            self.audited.differs(path, f"its ETag is {next(iter(etags.values()))}, {told}")

    def _each(self, work: Callable[[Node], T], nodes: Sequence[Node]) -> Iterator[T]:
        return self._threads.map(work, nodes)


def side_by_side(
    replicas: Mapping[str, Iterator[dict[str, Any]]],
) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """The rows of each name by replica. Each replica has its rows in the order of names."""

    def named(replica: str, rows: Iterator[dict[str, Any]]) -> Iterator[tuple[str, str, Any]]:
        return ((str(row["name"]), replica, row) for row in rows if "name" in row)

    merged = heapq.merge(*(named(*one) for one in replicas.items()), key=lambda row: row[:2])
    for name, group in groupby(merged, key=lambda row: row[0]):
        yield name, {replica: row for _, replica, row in group}
