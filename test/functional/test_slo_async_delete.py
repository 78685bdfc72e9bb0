"""DELETE of large objects with async=on: the expirer deletes the segments."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from expirer_pass import expire
from other_proxy import OtherProxy
from running_cluster import RunningCluster, await_true
from swift_api import Account

from cluster.confs import PIPELINE

_numbers = itertools.count(1)
ASYNC: dict[str, Any] = {"multipart-manifest": "delete", "async": "on"}


@pytest.fixture
def films(account: Account) -> str:
    """A container with the object ``film``; its segments 1 and 2 are in another container."""
    name = f"films-{next(_numbers)}"
    for container in (name, f"{name}-parts"):
        assert account.call("PUT", container).status == 201
    put_film(account, name, f"{name}-parts")
    return name


def put_film(account: Account, films: str, *containers: str, key: str = "film") -> None:
    """PUT a large object of the segments 1 and 2 in each container."""
    entries = []
    for container in containers:
        for number in (1, 2):
            put = account.call("PUT", container, f"{number}", body=b"%d" % number)
            entries.append({"path": f"/{container}/{number}", "etag": put.headers["etag"]})
    manifest = json.dumps(entries).encode()
    query: dict[str, Any] = {"multipart-manifest": "put"}
    assert account.call("PUT", films, key, body=manifest, **query).status == 201


def await_segments(cluster: RunningCluster, account: Account, films: str, names: list[str]) -> None:
    def is_done() -> bool:
        expire(cluster)
        return account.call("GET", f"{films}-parts").lines == names

    await_true(is_done, f"the segments {names} are left")


def test_the_segments_go_after_the_answer(
    cluster: RunningCluster, account: Account, films: str
) -> None:
    assert account.call("PUT", f"{films}-parts", "other", body=b"x").status == 201
    assert account.call("DELETE", films, "film", **ASYNC).status == 204
    assert account.call("GET", films).lines == []
    assert account.call("GET", f"{films}-parts").lines == ["1", "2", "other"]
    # What is written now has nothing to do with the object that was deleted.
    assert account.call("PUT", f"{films}-parts", "2", body=b"new").status == 201
    await_segments(cluster, account, films, ["2", "other"])
    assert account.call("GET", f"{films}-parts", "2").body == b"new"
    assert account.call("DELETE", films, "film", **ASYNC).status == 404


def test_what_cannot_be_left_is_refused(
    cluster: RunningCluster, account: Account, films: str
) -> None:
    put_film(account, films, f"{films}-parts", films, key="several")
    refused = account.call("DELETE", films, "several", **ASYNC)
    assert (refused.status, b"in one container" in refused.body) == (400, True)
    inner = account.call("HEAD", films, "film").headers["etag"]
    manifest = json.dumps([{"path": f"/{films}/film", "etag": inner.strip('"')}]).encode()
    put: dict[str, Any] = {"multipart-manifest": "put"}
    assert account.call("PUT", films, "outer", body=manifest, **put).status == 201
    refused = account.call("DELETE", films, "outer", **ASYNC)
    assert (refused.status, b"large objects" in refused.body) == (400, True)
    assert account.call("PUT", films, "plain", body=b"x").status == 201
    assert account.call("DELETE", films, "plain", **ASYNC).status == 400
    expire(cluster)
    assert account.call("GET", films, "outer").body == b"12"


def test_it_needs_the_right_to_write_segments(
    cluster: RunningCluster, account: Account, films: str
) -> None:
    third = Account(cluster.port, "test:tester3", "testing3")
    other = Account.with_token(cluster.port, third.token, account.path)
    rights = {"X-Container-Read": "test:tester3", "X-Container-Write": "test:tester3"}
    for number, container in enumerate((films, f"{films}-parts")):
        assert other.call("DELETE", films, "film", **ASYNC).status in (400, 403), number
        assert account.call("POST", container, headers=rights).status == 204
        expire(cluster)
        assert account.call("GET", films, "film").body == b"12"
    assert other.call("DELETE", films, "film", **ASYNC).status == 204
    await_segments(cluster, account, films, [])
    other.close()


def test_it_can_be_switched_off(
    cluster: RunningCluster, account: Account, films: str, tmp_path: Path
) -> None:
    section = {"use": "egg:martlet#slo", "allow_async_delete": "no"}
    with OtherProxy(cluster, tmp_path, PIPELINE, {"filter:slo": section}, workers=1) as proxy:
        own = Account(proxy.port)
        assert own.call("DELETE", films, "film", **ASYNC).status == 200
        assert own.call("GET", f"{films}-parts").lines == []
        own.close()


def test_what_is_refused_keeps_its_segments(
    cluster: RunningCluster, account: Account, films: str
) -> None:
    """The DELETE of the manifest is refused after the segments got their tasks."""
    condition = {"X-If-Delete-At": "1"}
    refused = account.call("DELETE", films, "film", headers=condition, **ASYNC)
    assert refused.status == 412
    # By the passes that delete these, tasks for the others would have been worked off, too.
    for number in range(3):
        later = f"{films}-later-{number}"
        for container in (later, f"{later}-parts"):
            assert account.call("PUT", container).status == 201
        put_film(account, later, f"{later}-parts")
        assert account.call("DELETE", later, "film", **ASYNC).status == 204
        await_segments(cluster, account, later, [])
    for _ in range(2):
        expire(cluster)
    assert account.call("GET", films, "film").body == b"12"
