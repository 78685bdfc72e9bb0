"""The state that a cluster must reach by itself after all faults: equal replicas everywhere."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from checked_clients import CONTAINERS, CheckedClients, Object
from cluster_databases import call, ring_of
from object_replicas import ObjectReplicas
from running_cluster import RunningCluster
from swift_api import Account

from martlet.words.names import quote_path

_PAUSE_SECONDS = 0.2
_ROWS = "SELECT created_at, deleted FROM object WHERE name = ?"


class Convergence:
    """Compares what all storage servers have with what the clients know."""

    def __init__(self, cluster: RunningCluster, clients: CheckedClients, account: Account) -> None:
        self._cluster = cluster
        self._clients = clients
        self._account = account
        self._owner = clients.account_name

    def await_all(self, seconds: float) -> tuple[float, list[str]]:
        """Wait until everything is equal.

        :returns: the seconds that it took, and what is not yet right after ``seconds``.
        """
        began = time.monotonic()
        deadline = began + seconds
        checks: list[Callable[[], Iterator[str]]] = [
            self._services,
            self._objects,
            self._partitions,
            self._containers,
            self._totals,
            self._databases,
        ]
        left: list[str] = []
        for check in checks:
            while left := list(check()):
                if time.monotonic() > deadline:
                    return time.monotonic() - began, left
                time.sleep(_PAUSE_SECONDS)
        return time.monotonic() - began, left

    def check_bodies(self, seconds: float) -> Iterator[str]:
        """Compare the bytes of each replica with those of the only possible state.

        A rotten body is found when it is read. The replica refuses it then, and gets it from a
        peer: it has ``seconds`` for that. It must never answer with other bytes, or with 404.
        """
        replicas = ObjectReplicas(self._cluster)
        deadline = time.monotonic() + seconds
        items = self._objects_of_all()
        while items:
            is_last = time.monotonic() > deadline
            refused = []
            for item in items:
                (state,) = item.may_be
                wanted = (200, item.body(state.put)) if state.put else (404, b"")
                for status, body in replicas.bodies(self._owner, item.container, item.name):
                    if (status, body if state.put else b"") == wanted:
                        continue
                    if status in (200, 404) or is_last:
                        answer = f"{status} with {len(body)} bytes"
                        yield f"{item.container}/{item.name}: a replica answers {answer}, {state}"
                    else:
                        refused.append(item)
            items = list({id(item): item for item in refused}.values())
            time.sleep(_PAUSE_SECONDS if items else 0)
        replicas.close()

    def _objects_of_all(self) -> list[Object]:
        return [item for mine in self._clients.objects for item in mine]

    def _services(self) -> Iterator[str]:
        for name, entry in self._cluster.services().items():
            if entry["state"] != "ok":
                yield f"{name} is {entry['state']}"

    def _objects(self) -> Iterator[str]:
        """Objects whose primaries differ, or that a hand-off still has."""
        replicas = ObjectReplicas(self._cluster)
        for item in self._objects_of_all():
            try:
                answers, handoffs = replicas.of(self._owner, item.container, item.name)
            except OSError as error:
                yield str(error)
                return
            name = f"{item.container}/{item.name}"
            if len(answers) > 1 or not {answer.status for answer in answers} <= {200, 404}:
                yield f"{name}: replicas {sorted(answers, key=str)}"
            if set(handoffs) != {404}:
                yield f"{name}: hand-offs answer {handoffs}"
        replicas.close()

    def _partitions(self) -> Iterator[str]:
        """Partitions of objects on devices that are none of their primaries."""
        ring = ring_of(self._cluster, "object")
        for directory in (self._cluster.home / "devices").glob("*/*/bundles/*"):
            if directory.name.isdigit() and _has_files(directory):
                primaries = ring.get_part_nodes(int(directory.name))
                if directory.parts[-3] not in {node["device"] for node in primaries}:
                    yield f"left over: {directory}"

    def _databases(self) -> Iterator[str]:
        """Databases on devices that are none of their primaries."""
        for kind in ("account", "container"):
            ring = ring_of(self._cluster, kind)
            for path in (self._cluster.home / "devices").glob(f"*/*/{kind}s/*/*/*/*.db"):
                device, _, partition = path.parts[-6:-3]
                primaries = ring.get_part_nodes(int(partition))
                if device not in {node["device"] for node in primaries}:
                    yield f"left over: {path}"

    def _containers(self) -> Iterator[str]:
        """Containers with a replica that does not list exactly the objects that are there."""
        ring = ring_of(self._cluster, "container")
        there: dict[str, dict[str, int]] = {f"attack-{n}": {} for n in range(CONTAINERS)}
        for item in self._objects_of_all():
            answer = self._account.call("HEAD", item.container, item.name)
            if answer.status == 200:
                there[item.container][item.name] = int(answer.headers["content-length"])
        for container, sizes in there.items():
            partition, nodes = ring.get_nodes(self._owner, container)
            names = quote_path(f"/{self._owner}/{container}")
            for node in nodes:
                path = f"/{node['device']}/{partition}{names}?format=json"
                status, body = call(self._cluster, node["port"], path, node["ip"])
                rows = json.loads(body) if status == 200 else []
                listed = {row["name"]: row["bytes"] for row in rows}
                if listed != sizes:
                    others = sorted({name for name, _ in listed.items() ^ sizes.items()})
                    evidence = "; ".join(self._evidence(container, name) for name in others[:5])
                    yield f"{container}: {node['device']} ({status}) lists {len(rows)}: {evidence}"
            found = self._counts(container)
            if found != (len(sizes), sum(sizes.values())):
                yield f"{container}: counts {found}"

    def _evidence(self, container: str, name: str) -> str:
        """The rows and replicas of an object, for the search for the cause."""
        rows = []
        for path in (self._cluster.home / "devices").glob("*/*/containers/*/*/*/*.db"):
            with closing(sqlite3.connect(path, timeout=10)) as database:
                found = database.execute(_ROWS, (name,)).fetchall()  # names are in one container
            rows += [f"{path.parts[-6]} {created_at} {deleted}" for created_at, deleted in found]
        replicas = ObjectReplicas(self._cluster)
        try:
            answers = sorted(map(str, replicas.of(self._owner, container, name)[0]))
        except OSError as error:
            answers = [str(error)]
        finally:
            replicas.close()
        return f"{name}: rows {sorted(rows)}, objects {answers}"

    def _counts(self, container: str) -> tuple[int, int] | str:
        """Objects and bytes that the proxy tells; a sentence if it does not."""
        answer = self._account.call("HEAD", container)
        if answer.status != 204:
            return f"HEAD answers {answer.status}"
        count, size = "x-container-object-count", "x-container-bytes-used"
        return int(answer.headers[count]), int(answer.headers[size])

    def _totals(self) -> Iterator[str]:
        """Replicas of the account whose rows are not the totals of the containers."""
        names = [f"attack-{number}" for number in range(CONTAINERS)]
        wanted = {name: self._counts(name) for name in names}
        partition, nodes = ring_of(self._cluster, "account").get_nodes(self._owner)
        for node in nodes:
            path = f"/{node['device']}/{partition}/{self._owner}?format=json&prefix=attack-"
            status, body = call(self._cluster, node["port"], path, node["ip"])
            rows = json.loads(body) if status == 200 else []
            found = {row["name"]: (row["count"], row["bytes"]) for row in rows}
            if found != wanted:
                yield f"account: {node['device']} ({status}) has {found}, the containers {wanted}"


def _has_files(directory: Path) -> bool:
    return any(path.is_file() for path in directory.rglob("*"))
