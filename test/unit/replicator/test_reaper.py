"""The reaper empties deleted accounts, and no others, however often it is ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replicating import PARTITION, Killed, Replicas
from storage_calls import stamp

from account.app import AccountServer
from account.database import AccountDatabase
from martlet.http.backend_client import BackendError
from replicator import reaper as module
from replicator.options import ReaperOptions
from replicator.reaper import Reaper, is_of_share
from replicator.reaper_requests import Entry, Page, ReaperRequests, ReapError, update_headers

ACCOUNT = "AUTH_test"
A = f"/d1/{PARTITION}/{ACCOUNT}"
PAGE = 3


class Cluster:
    """The servers of containers and objects; the accounts are real databases."""

    def __init__(self, accounts: Replicas) -> None:
        self.accounts = accounts
        #: Container -> policy -> its objects and versions.
        self.containers: dict[str, dict[int, list[Entry]]] = {}
        self.own_policy: dict[str, int] = {}
        self.broken: set[str] = set()  # containers and objects whose servers do not answer
        self.silent = 0  # replicas of containers that do not answer to a DELETE
        self.steps = 0
        self.killed_at: int | None = None

    def add(self, container: str, *entries: Entry, policy: int = 0) -> None:
        self.containers.setdefault(container, {}).setdefault(policy, []).extend(entries)
        self.own_policy.setdefault(container, policy)
        self._tell(container, put=stamp(2))

    def _tell(self, container: str, put: str = "0", delete: str = "0") -> None:
        headers = {
            "X-Put-Timestamp": put,
            "X-Delete-Timestamp": delete,
            "X-Object-Count": "0",
            "X-Bytes-Used": "0",
            "X-Account-Override-Deleted": "yes",
        }
        for number in (1, 2, 3):
            path = f"{A}/{container}"
            assert self.accounts.call[number]("PUT", path, 2, headers).status // 100 == 2

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.killed_at:
            raise Killed

    def list_objects(
        self, account: str, container: str, after: Entry, policy_index: int | None
    ) -> Page | None:
        self._step()
        assert account == ACCOUNT
        if container in self.broken:
            raise ReapError("broken")
        if container not in self.containers:
            return None
        policy = self.own_policy[container] if policy_index is None else policy_index
        found = sorted(self.containers[container].get(policy, []))
        later = [entry for entry in found if entry > after]
        return Page(later[:PAGE], policy)

    def delete_object(self, account: str, container: str, entry: Entry, policy_index: int) -> None:
        self._step()
        if entry.name in self.broken:
            raise ReapError("broken")
        found = self.containers[container][policy_index]
        if entry in found:
            found.remove(entry)

    def delete_container(self, account: str, container: str) -> list[int]:
        self._step()
        if container not in self.containers:
            return [404, 404, 404]
        if any(self.containers[container].values()):
            return [409, 409, 409]
        if self.silent == 3:
            return [503] * 3
        del self.containers[container]
        self._tell(container, delete=stamp(50))
        return [503] * self.silent + [204] * (3 - self.silent)

    def forget_container(self, account: str, container: str) -> list[int]:
        self._step()
        self._tell(container, delete=stamp(60))
        return [204, 204, 204]


class Reaping:
    """Three account servers, and a reaper for each."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.accounts = Replicas(AccountServer, directory)
        self.cluster = Cluster(self.accounts)
        self.now = 1795223500.0 + 100
        self.options = ReaperOptions(**options)
        ring: Any = self.accounts.ring
        self.reapers = {
            number: Reaper(
                self.options,
                ring,
                number,
                lambda device, number=number: f"{self.accounts.servers[number].devices}/{device}",
                AccountDatabase,
                self.cluster,
                (0, 1),
                lambda: self.now,
            )
            for number in (1, 2, 3)
        }
        for number in (1, 2, 3):
            assert self.accounts.call[number]("PUT", A, 1).status == 201

    def delete_account(self) -> None:
        assert self.accounts.everywhere([1, 2, 3], "DELETE", A, 10) == [204] * 3

    def run(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        for reaper in self.reapers.values():
            for name, value in reaper.run_once().as_dict().items():
                sums[name] = sums.get(name, 0) + value
        return sums

    def rows(self, number: int) -> list[str]:
        query = "SELECT name FROM container WHERE deleted = 0 ORDER BY name"
        return [name for (name,) in self.accounts.query(number, query)]


@pytest.fixture
def reaping(tmp_path: Path) -> Iterator[Reaping]:
    made = Reaping(tmp_path)
    yield made
    made.accounts.close()


def objects(count: int) -> list[Entry]:
    return [Entry(f"o{number:03d}") for number in range(count)]


def test_a_deleted_account_is_emptied(reaping: Reaping) -> None:
    for number in range(10):
        reaping.cluster.add(f"c{number}", *objects(number))
    reaping.delete_account()
    figures = reaping.run()
    assert (figures["containers"], figures["objects"]) == (10, 45)
    assert (figures["containers_left"], figures["failures"]) == (0, 0)
    assert reaping.cluster.containers == {}
    assert [reaping.rows(number) for number in (1, 2, 3)] == [[]] * 3
    assert reaping.run()["accounts"] == 0


def test_an_account_that_is_not_deleted_is_left_alone(reaping: Reaping) -> None:
    reaping.cluster.add("c", *objects(2))
    assert reaping.run()["accounts"] == 0
    assert reaping.cluster.steps == 0


def test_the_containers_are_shared_out(reaping: Reaping) -> None:
    """Each container is one primary's; a hand-off has none."""
    for number in range(30):
        reaping.cluster.add(f"c{number}")
    reaping.delete_account()
    shares = [reaping.reapers[number].run_once().containers for number in (1, 2, 3)]
    assert sum(shares) == 30
    assert all(shares)
    for number in range(30):
        assert sum(is_of_share(f"c{number}", place, 3) for place in range(3)) == 1


def test_the_share_is_that_of_swift() -> None:
    # int(md5(b'c').hexdigest(), 16) % 3 and so on, from Swift's rule.
    import hashlib

    for name in ("c", "ü", "with space"):
        number = int(hashlib.md5(name.encode()).hexdigest(), 16) % 3
        assert is_of_share(name, number, 3)


def test_a_deletion_waits(tmp_path: Path) -> None:
    reaping = Reaping(tmp_path, delay_reaping=200.0)
    reaping.cluster.add("c", *objects(1))
    reaping.delete_account()
    figures = reaping.run()
    assert (figures["accounts"], figures["delayed"], figures["containers"]) == (3, 3, 0)
    reaping.now += 111
    assert reaping.run()["containers"] == 1
    reaping.accounts.close()


def test_an_account_that_is_not_reaped_for_long_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reaping = Reaping(tmp_path, delay_reaping=50.0, reap_warn_after=100.0)
    reaping.cluster.add("c", *objects(1))
    reaping.cluster.broken = {"o000"}
    reaping.delete_account()
    reaping.now += 30
    reaping.run()
    assert "not reaped yet" not in caplog.text
    reaping.now += 100
    figures = reaping.run()
    assert f"account is not reaped yet account={ACCOUNT}" in caplog.text
    assert (figures["failures"], figures["containers_left"], figures["containers"]) == (1, 1, 0)
    reaping.cluster.broken.clear()
    assert reaping.run()["containers"] == 1
    reaping.accounts.close()


def test_one_bad_container_does_not_stop_the_others(reaping: Reaping) -> None:
    for name in ("a", "b", "c"):
        reaping.cluster.add(name, *objects(2))
    reaping.cluster.broken = {"b"}
    reaping.delete_account()
    figures = reaping.run()
    assert (figures["containers"], figures["containers_left"], figures["failures"]) == (2, 1, 1)
    assert list(reaping.cluster.containers) == ["b"]


def test_versions_are_deleted(reaping: Reaping) -> None:
    versions = [Entry("o", stamp(number)) for number in range(7)]
    reaping.cluster.add("c", Entry("plain"), *versions)
    reaping.delete_account()
    assert reaping.run()["objects"] == 8
    assert reaping.cluster.containers == {}


def test_misplaced_objects_are_deleted(reaping: Reaping) -> None:
    reaping.cluster.add("c", *objects(2))
    reaping.cluster.add("c", *objects(4), policy=1)
    reaping.delete_account()
    figures = reaping.run()
    assert (figures["objects"], figures["containers"]) == (6, 1)


def test_the_row_of_a_lost_container_goes(reaping: Reaping) -> None:
    reaping.cluster.add("c", *objects(2))
    reaping.cluster.containers.clear()
    reaping.delete_account()
    assert reaping.run()["containers"] == 1
    assert reaping.rows(1) == []


@pytest.mark.parametrize(("silent", "containers"), [(1, 1), (2, 0), (3, 0)])
def test_most_replicas_of_a_container_must_know(
    reaping: Reaping, silent: int, containers: int
) -> None:
    reaping.cluster.add("c")
    reaping.cluster.silent = silent
    reaping.delete_account()
    assert reaping.run()["containers"] == containers


def test_killed_at_every_step(tmp_path: Path) -> None:
    kills = 0
    while True:
        reaping = Reaping(tmp_path / str(kills))
        for number in range(3):
            reaping.cluster.add(f"c{number}", *objects(4))
        reaping.delete_account()
        reaping.cluster.killed_at = kills + 1
        try:
            reaping.run()
            break
        except Killed:
            kills += 1
        assert reaping.run()["containers_left"] == 0
        assert reaping.cluster.containers == {}
        assert reaping.rows(1) == []
        reaping.accounts.close()
    assert kills >= 3 * (4 + 3 + 1)  # each object, each part of a listing, each container


def test_many_containers_come_in_parts(reaping: Reaping, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONTAINERS_AT_ONCE", 2)
    for number in range(7):
        reaping.cluster.add(f"c{number}")
    reaping.delete_account()
    assert reaping.run()["containers"] == 7


def test_an_account_without_work_is_not_opened_again(
    reaping: Reaping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.reaper.time.time", lambda: 4e9)  # long after the last write
    reaping.run()
    with monkeypatch.context() as patched:
        patched.setattr(AccountDatabase, "info", lambda self: pytest.fail("opened"))
        reaping.run()
    reaping.cluster.add("c")
    reaping.delete_account()
    assert reaping.run()["containers"] == 1


def test_bad_options() -> None:
    for wrong in ({"concurrency": 0}, {"interval": 0.0}, {"delay_reaping": -1.0}):
        with pytest.raises(ValueError, match="must"):
            ReaperOptions(**wrong)  # type: ignore[arg-type]


# --- the requests -------------------------------------------------------------------------------


def node(number: int, ip: str = "10.0.0.1") -> dict[str, Any]:
    return {"id": number, "ip": ip, "port": 6000 + number, "device": f"d{number}"}


@pytest.mark.parametrize(
    ("requests", "holders", "expected"),
    [
        (3, 3, ["d1", "d2", "d3"]),
        (2, 3, ["d1,d3", "d2"]),
        (3, 2, ["d1", "d2", "d1"]),
        (1, 1, ["d1"]),
    ],
)
def test_every_replica_is_informed(requests: int, holders: int, expected: list[str]) -> None:
    nodes: Any = [node(number + 1) for number in range(holders)]
    headers = update_headers(requests, "Container", 7, nodes)
    assert [found["X-Container-Device"] for found in headers] == expected
    assert {found["X-Container-Partition"] for found in headers} == {"7"}


def test_an_address_with_colons_is_in_brackets() -> None:
    nodes: Any = [node(1, "::1")]
    (headers,) = update_headers(1, "Account", 7, nodes)
    assert headers["X-Account-Host"] == "[::1]:6001"


class Servers:
    """Storage servers that note their requests; by port a status, or None without an answer."""

    def __init__(self, body: Any = None) -> None:
        self.seen: list[tuple[int, str, str, Mapping[str, str]]] = []
        self.statuses: dict[int, int | None] = {}
        self.body = body

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: Mapping[str, str]
    ) -> SimpleNamespace:
        self.seen.append((address[1], method, path, headers))
        status = self.statuses.get(address[1], 200 if method == "GET" else 204)
        if status is None:
            raise BackendError(address, "refused")
        answer = SimpleNamespace(
            status=status,
            headers={"x-backend-storage-policy-index": "1"},
            body=lambda limit: json.dumps(self.body).encode(),
            close=lambda: None,
        )
        answer.response = lambda: answer
        return answer

    request = start


class ThreeRings:
    """The account on ports 6001 to 6003, containers on 6011, objects on 6021 and so on."""

    def __init__(self, first: int, power: int | None = None) -> None:
        self.nodes = [node(first + number) for number in range(3)]
        self.next_part_power = power

    def get_nodes(self, *names: str) -> tuple[int, Sequence[dict[str, Any]]]:
        return 5, self.nodes


def requests_to(servers: Servers) -> ReaperRequests:
    rings: Any = SimpleNamespace(
        account=ThreeRings(1), container=ThreeRings(11), objects={1: ThreeRings(21, 9)}
    )
    client: Any = servers
    return ReaperRequests(rings, client)


def test_the_deletion_of_an_object() -> None:
    servers = Servers()
    requests_to(servers).delete_object("a", "c", Entry("ö/ 1"), 1)
    assert [(s[0], s[1], s[2]) for s in servers.seen] == [
        (port, "DELETE", f"/d{port - 6000}/5/a/c/%C3%B6/%201") for port in (6021, 6022, 6023)
    ]
    headers = servers.seen[1][3]
    assert headers["X-Backend-Storage-Policy-Index"] == "1"
    assert headers["X-Backend-Next-Part-Power"] == "9"
    assert headers["X-Container-Host"] == "10.0.0.1:6012"
    assert headers["X-Container-Device"] == "d12"
    assert headers["X-Timestamp"] > stamp(0)
    assert "X-Backend-Version-Id" not in headers
    servers.seen.clear()
    requests_to(servers).delete_object("a", "c", Entry("o", stamp(3)), 1)
    assert servers.seen[0][3]["X-Backend-Version-Id"] == stamp(3)


@pytest.mark.parametrize(
    ("statuses", "is_done"),
    [
        ([204, 204, 204], True),
        ([404, 404, 404], True),
        ([503, None, 204], True),  # replication brings the tombstone to the others
        ([503, None, 507], False),
        ([409, 409, 409], False),
    ],
)
def test_one_replica_of_an_object_is_enough(statuses: list[int | None], is_done: bool) -> None:
    servers = Servers()
    servers.statuses = dict(zip((6021, 6022, 6023), statuses, strict=True))
    if is_done:
        requests_to(servers).delete_object("a", "c", Entry("o"), 1)
    else:
        with pytest.raises(ReapError, match="no replica of /a/c/o"):
            requests_to(servers).delete_object("a", "c", Entry("o"), 1)


def test_a_locked_version_is_left() -> None:
    servers = Servers()
    servers.statuses = {6021: 204, 6022: 403, 6023: 404}
    with pytest.raises(ReapError, match="/a/c/o is locked"):
        requests_to(servers).delete_object("a", "c", Entry("o", stamp(3)), 1)


def test_an_unknown_policy() -> None:
    with pytest.raises(ReapError, match="no ring of storage policy 7"):
        requests_to(Servers()).delete_object("a", "c", Entry("o"), 7)


def test_the_deletion_of_a_container() -> None:
    servers = Servers()
    servers.statuses = {6012: None}
    assert requests_to(servers).delete_container("a", "c") == [204, 503, 204]
    headers = servers.seen[2][3]
    assert (headers["X-Account-Host"], headers["X-Account-Device"]) == ("10.0.0.1:6003", "d3")
    assert headers["X-Account-Override-Deleted"] == "yes"


def test_a_listing_comes_from_any_replica() -> None:
    rows = [{"name": "o", "version_id": stamp(1)}, {"name": "p", "version_id": "null"}]
    servers = Servers([*rows, {"name": "of Swift"}])
    servers.statuses = {6011: 404, 6012: None}
    after = Entry("n ü", stamp(0))
    for _ in range(5):  # in any order
        page = requests_to(servers).list_objects("a", "c", after, None)
        assert page == Page([Entry("o", stamp(1)), Entry("p"), Entry("of Swift")], 1)
    path = servers.seen[-1][2]
    assert path.endswith(f"&versions=true&marker=n%20%C3%BC&version_marker={stamp(0)}")
    servers.statuses = dict.fromkeys((6011, 6012, 6013), 404)
    assert requests_to(servers).list_objects("a", "c", after, 1) is None
    assert servers.seen[-1][3]["X-Backend-Storage-Policy-Index"] == "1"
    servers.statuses = {6011: 404, 6012: None, 6013: 503}
    with pytest.raises(ReapError, match="no listing"):
        requests_to(servers).list_objects("a", "c", after, None)


def test_a_body_that_is_no_listing() -> None:
    for body in ({"name": "o"}, [1], "x", [{"no": "name"}]):
        with pytest.raises(ReapError, match="not a listing"):
            requests_to(Servers(body)).list_objects("a", "c", Entry(""), None)


class ShardedServers(Servers):
    """A container with two shards; the first one is empty, and the container has rows itself."""

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: Mapping[str, str]
    ) -> SimpleNamespace:
        answer = super().start(address, method, path, headers)
        is_root = "/5/a/c?" in path
        names = (".shards_a/c-0", "a/c", ".shards_a/c-1")
        rows: list[dict[str, str]] = [{"name": name} for name in names]
        if is_root:
            answer.headers["x-backend-record-type"] = "shard"
        else:
            rows = [{"name": "z"}] if "c-1?" in path else []
        answer.body = lambda limit: json.dumps(rows).encode()
        return answer

    request = start


def test_the_objects_of_shards_are_found() -> None:
    servers = ShardedServers()
    page = requests_to(servers).list_objects("a", "c", Entry("y"), None)
    assert page == Page([Entry("z")], 1)
    asked = [path.partition("?")[0].rpartition("/5/")[2] for _, _, path, _ in servers.seen]
    assert asked == ["a/c", ".shards_a/c-0", ".shards_a/c-1"]
    assert servers.seen[2][3]["X-Backend-Storage-Policy-Index"] == "1"
    assert all("marker=y" in path for _, _, path, _ in servers.seen)
