"""The reconciler's command refuses a bad conf in a sentence; what it asks of container servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from container.misplaced import Entry, Failed
from container.queue_servers import QueueServers, Unanswered, VersionRows
from container.reconciler_daemon import load_reconciler, run_once
from martlet.conf.options import ConfigError
from martlet.http.backend_client import BackendError
from martlet.words.timestamp import Timestamp

SECTION = "[container-reconciler]\n"
#: The answer of a replica that has never heard of the container.
BLANK = 404, -1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read"),
        ("[elsewhere]\n", r"no section \[container-reconciler\]"),
        ("[DEFAULT]\nport = 1\n" + SECTION, "unknown option 'port'"),
        (SECTION + "speed = 1\n", "unknown option 'speed'"),
        (SECTION + "interval = 0\n", "interval must be above 0"),
        (SECTION + "concurrency = 0\n", "concurrency must be at least 1"),
        (SECTION + "processes = 2\nprocess = 2\n", "process must be from 0 to processes - 1"),
        (SECTION, "container-reconciler.conf"),  # there is no pipeline
    ],
)
def test_a_bad_conf_is_a_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    path = tmp_path / "container-reconciler.conf"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_reconciler(path)
    assert "\n" not in str(caught.value)


class OutOfReach:
    """A reconciler that finds no queue."""

    def run_once(self) -> None:
        raise Failed("GET /v1/.misplaced_objects was answered 503")


def test_a_queue_out_of_reach_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_once(OutOfReach()) == 1  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "cannot be read: GET /v1/.misplaced_objects was answered 503" in said
    assert said.count("\n") == 1


class Servers:
    """Container servers. ``answers`` are status and policy by port; None does not answer."""

    def __init__(self, *answers: tuple[int, int] | None) -> None:
        self.answers = answers
        self.count = len(answers) or 3
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def get_nodes(self, account: str, container: str) -> tuple[int, list[dict[str, Any]]]:
        return 7, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in range(self.count)]

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Exchange:
        self.requests.append((method, path, headers))
        answer = self.answers[address[1]]
        if answer is None:
            raise BackendError(address, "refused")
        return Exchange(*answer)


class Exchange:
    """An answer that is there; also the exchange."""

    def __init__(self, status: int, policy: int) -> None:
        self.status = status
        self.headers = {
            "x-backend-storage-policy-index": str(policy),
            "x-backend-put-timestamp": f"000000000{5 + policy}.00000",
            "x-backend-delete-timestamp": "0000000000.00000",
            "x-backend-status-changed-at": f"000000000{5 + policy}.00000",
        }
        if policy < 0:
            self.headers |= dict.fromkeys(list(self.headers)[1:], "0")
        self.content = b""

    def response(self) -> Exchange:
        return self

    def body(self) -> bytes:
        return self.content

    def close(self) -> None:
        pass

    abort = close


class Sharded(Servers):
    """A root whose rows are in a shard. ``updates`` are the rows that were stored, by container."""

    def __init__(self, *down: int) -> None:
        super().__init__()
        self.down = down
        self.updates: list[tuple[str, list[dict[str, Any]]]] = []

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Exchange:
        if address[1] in self.down:
            raise BackendError(address, "refused")
        exchange = Exchange(202 if method == "UPDATE" else 200, 1)
        place, _, query = path.partition("?")
        container = place.split("/", 3)[3]
        if method == "UPDATE":
            self.updates.append((container, json.loads(body)))
            return exchange
        exchange.headers["x-backend-sharding-state"] = (
            "sharded" if container == "a/c" else "unsharded"
        )
        exchange.content = json.dumps(self.content(container, query, headers)).encode()
        return exchange

    def content(self, container: str, query: str, headers: dict[str, str]) -> Any:
        if headers["X-Backend-Record-Type"] == "shard":
            assert query == "states=updating&includes=o%20p"
            return [{"name": "a/c" if container == ".shards_a/s" else ".shards_a/s"}]
        assert query.startswith("name=o%20p&limit=500&marker=")
        assert headers["X-Backend-Storage-Policy-Index"] == "1"
        return [{"version_id": "1"}] if container == ".shards_a/s" else None


ENTRY = Entry("1:/a/c/o p", 1, "a", "c", "o p", False, Timestamp(5), Timestamp(5))


def test_rows_of_versions_are_changed_in_the_shard_where_they_are() -> None:
    servers = Sharded(1)
    queue = queue_of(servers)
    found = list(queue.version_rows(ENTRY) or ())
    assert found == [(".shards_a", "s", [{"version_id": "1"}])]
    queue.move_rows(found[0], 0)
    changed = [{"version_id": "1", "storage_policy_index": 0}]
    assert servers.updates == [(".shards_a/s", changed)] * 2


def test_rows_of_versions_need_most_replicas() -> None:
    queue = queue_of(Sharded(0, 1))
    with pytest.raises(Failed, match="1 replicas of /a/c have answered"):
        queue.version_rows(ENTRY)
    with pytest.raises(Failed, match=r"1 replicas of /\.shards_a/s have answered"):
        queue.move_rows(VersionRows(".shards_a", "s", [{"version_id": "1"}]), 0)


class Paged(Servers):
    """Replicas with rows of different versions, of which one is of an earlier release."""

    def __init__(self, *replicas: str) -> None:
        super().__init__()
        self.replicas = replicas
        self.requests = 0

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes
    ) -> Exchange:
        self.requests += 1
        marker, versions = path.rpartition("marker=")[2], self.replicas[address[1]]
        exchange = Exchange(200, 1)
        exchange.headers["x-backend-sharding-state"] = "unsharded"
        if address[1] < 2:
            later = [version for version in versions if version > marker]
            versions = "".join(later[:2])
            if len(later) > 1:
                exchange.headers["x-backend-next-version"] = versions[-1]
        rows = [{"version_id": version} for version in versions if version != "-"]
        exchange.content = json.dumps(rows).encode()
        return exchange


@pytest.mark.parametrize("replicas", [("abcdef", "bdfgh", "ah"), ("", "", "x"), ("", "--", "")])
def test_rows_of_versions_come_in_pages(replicas: tuple[str, ...]) -> None:
    """Each row once, whichever replica has it, and a request for every two of a replica."""
    servers = Paged(*replicas)
    pages = list(queue_of(servers).version_rows(ENTRY) or ())
    found = [row["version_id"] for page in pages for row in page.rows]
    assert sorted(found) == sorted(set("".join(replicas)) - {"-"})
    assert all(len(page.rows) <= 4 for page in pages)


def queue_of(servers: Servers) -> QueueServers:
    return QueueServers(servers, servers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "policy"),
    [
        ([(204, 1), (204, 1), (204, 1)], 1),
        ([(204, 2), (204, 1), (204, 2)], 1),  # the first that was made
        ([(204, 1), None, (404, 2)], 1),
        ([(204, 1), None, None], "no answer from ::1:1/d1 ::1:2/d2"),
        ([(204, 1), (503, 1), (507, 1)], "no answer from ::1:1/d1 ::1:2/d2"),
        ([None, None, None], "no answer from ::1:0/d0 ::1:1/d1 ::1:2/d2"),
        ([(204, 1), None], "no answer from ::1:1/d1"),
        ([(204, 1), (404, 2)], 1),
    ],
)
def test_most_replicas_must_answer(answers: list[Any], policy: int | str) -> None:
    queue = queue_of(Servers(*answers))
    if isinstance(policy, int):
        assert queue.policy_of("a", "c") == policy
        return
    with pytest.raises(Unanswered) as caught:
        queue.policy_of("a", "c")
    assert str(caught.value) == policy


@pytest.mark.parametrize(
    ("answers", "by_all", "by_most"),
    [
        ([(204, 1), (204, 1), (404, 1)], True, True),
        ([(204, 1), (204, 1), (204, 2)], False, False),
        ([(204, 1), (204, 1), None], None, True),
        ([(204, 1), (503, 1), (204, 1)], None, True),
        ([(204, 1), (204, 2), None], False, False),
        ([(204, 1), None, None], None, None),
        ([(204, 1), None], None, None),  # the other one may have another policy
        ([(204, 1), BLANK], True, True),  # in place of a device that has left the ring
    ],
)
def test_replicas_must_agree_before_versions_are_moved(
    answers: list[Any], by_all: bool | None, by_most: bool | None
) -> None:
    """None stands for too few answers."""
    servers = Servers((204, 1), (204, 1), (204, 1))
    queue = queue_of(servers)
    assert queue.policy_of("a", "c") == 1
    servers.answers = tuple(answers)  # a policy that is cached does not count
    servers.count = len(answers)
    for is_old, agreed in ((False, by_all), (True, by_most)):
        if agreed is None:
            with pytest.raises(Unanswered):
                queue.is_agreed("a", "c", 1, by_most=is_old)
        else:
            assert queue.is_agreed("a", "c", 1, by_most=is_old) == agreed
    assert not queue.is_agreed("a", "c", 2, by_most=True)


def test_a_policy_is_believed_for_a_while_and_what_is_not_known_is_asked_again() -> None:
    servers = Servers((204, 1), (204, 1), (204, 1))
    queue = queue_of(servers)
    assert [queue.policy_of("a", "c d") for _ in range(3)] == [1, 1, 1]
    assert [(method, path) for method, path, _ in servers.requests] == [
        ("HEAD", f"/d{port}/7/a/c%20d") for port in range(3)
    ]
    servers.answers = (None, None, None)
    with pytest.raises(Unanswered):
        queue.policy_of("a", "other")
    servers.answers = ((204, 0), (204, 0), (204, 0))
    assert queue.policy_of("a", "other") == 0


def test_an_entry_is_taken_off_every_replica() -> None:
    servers = Servers((204, 0), None, (404, 0))
    times = Timestamp("1700000000.00000"), Timestamp("1700000005.00000")
    entry = Entry("1:/a/c/o p", 1, "a", "c", "o p", False, *times)
    queue_of(servers).remove_entry("1699999200", entry)
    assert [path for _, path, _ in servers.requests] == [
        f"/d{port}/7/.misplaced_objects/1699999200/1%3A/a/c/o%20p" for port in range(3)
    ]
    for method, _, headers in servers.requests:
        assert method == "DELETE"
        assert headers["X-Timestamp"] == "1700000005.00000_0000000000000002"
