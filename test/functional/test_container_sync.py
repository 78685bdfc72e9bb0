"""Containers that are synced to another cluster; here both ends are the same cluster."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from running_cluster import RunningCluster, free_port
from s3_client import s3_client
from swift_api import Account

from container.sync_daemon import load_daemon

COMMAND = str(Path(sysconfig.get_path("scripts")) / "martlet-container-sync")


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster in a realm with itself, and in a realm whose other cluster is unreachable."""
    home = tmp_path_factory.mktemp("synced")
    port = free_port()
    (home / "etc").mkdir()
    (home / "etc" / "container-sync-realms.conf").write_text(
        f"[Near]\nkey = secret\ncluster_here = http://127.0.0.1:{port}/v1/\n"
        "[Far]\nkey = other\ncluster_away = http://127.0.0.1:1/v1/\n"
    )
    running = RunningCluster(home, port=port).start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture
def account(synced: RunningCluster) -> Iterator[Account]:
    opened = Account(synced.port)
    yield opened
    opened.close()


def one_pass(cluster: RunningCluster) -> int:
    """Run one pass of the daemon in this process: starting another process takes a second."""
    conf = cluster.home / "etc" / "container-server.conf"
    return min(load_daemon(conf).run_once(), 1)


def command_once(cluster: RunningCluster) -> int:
    """Run the command and return its exit status."""
    command = [COMMAND, str(cluster.home / "etc" / "container-server.conf"), "--once"]
    return subprocess.run(command, timeout=300, check=False).returncode


def link(account: Account, source: str, target: str, realm: str = "near/HERE") -> None:
    assert account.call("PUT", target, headers={"X-Container-Sync-Key": "user"}).status == 201
    sync_to = f"//{realm}/{account.path.rpartition('/')[2]}/{target}"
    headers = {"X-Container-Sync-Key": "user", "X-Container-Sync-To": sync_to}
    assert account.call("PUT", source, headers=headers).status in (201, 202)


def test_objects_and_deletions_are_brought_over(synced: RunningCluster, account: Account) -> None:
    link(account, "from", "to")
    headers = {"X-Object-Meta-Colour": "red", "Content-Type": "a/b"}
    for name in ("über/one", "two", "three"):
        body = name.encode() * 50_000
        assert account.call("PUT", "from", name, headers=headers, body=body).status == 201
    assert account.call("DELETE", "from", "three").status == 204
    assert command_once(synced) == 0
    account.await_names(["two", "über/one"], "to")
    for name in ("über/one", "two"):
        source, copy = (account.call("GET", c, name) for c in ("from", "to"))
        assert copy.body == source.body
        for header in ("x-timestamp", "etag", "content-type", "x-object-meta-colour"):
            assert copy.headers[header] == source.headers[header]
    assert account.call("DELETE", "from", "two").status == 204
    assert account.call("PUT", "from", "über/one", body=b"changed").status == 201
    assert one_pass(synced) == 0
    account.await_names(["über/one"], "to")
    assert account.call("GET", "to", "über/one").body == b"changed"
    later = {"X-Object-Meta-Colour": "blue", "Content-Type": "c/d"}
    assert account.call("POST", "from", "über/one", headers=later).status == 202
    assert one_pass(synced) == 0
    copy = account.call("GET", "to", "über/one")
    assert copy.headers["x-object-meta-colour"] == "blue"
    assert (copy.headers["content-type"], copy.body) == ("c/d", b"changed")


def test_manifests_and_links_are_brought_over_as_they_are(
    synced: RunningCluster, account: Account
) -> None:
    other = Account(synced.port, "test2:tester2", "testing2")
    for name in ("parts", "big"):
        key = {"X-Container-Sync-Key": "user"}
        assert other.call("PUT", name, headers=key).status == 201
        to = {"X-Container-Sync-To": f"//near/here/AUTH_test2/{name}", **key}
        assert account.call("PUT", name, headers=to).status == 201
    assert account.call("PUT", "parts", "1", body=b"one").status == 201
    manifest = json.dumps([{"path": "/parts/1"}]).encode()
    path = account.url("big", "object", **{"multipart-manifest": "put"})
    assert account.send("PUT", path, body=manifest).status == 201
    link_to = {"X-Symlink-Target": "parts/1"}
    assert account.call("PUT", "big", "link", headers=link_to).status == 201
    assert one_pass(synced) == 0
    big = other.call("GET", "big", "object")
    assert (big.body, big.headers["x-static-large-object"]) == (b"one", "True")
    assert other.call("GET", "big", "link").body == b"one"
    seen = other.call("HEAD", "big", "link", symlink="get")
    assert seen.headers["x-symlink-target"] == "parts/1"
    other.close()


def test_what_is_newer_there_stays(synced: RunningCluster, account: Account) -> None:
    link(account, "older", "newer")
    assert account.call("PUT", "older", "o", body=b"old").status == 201
    assert account.call("PUT", "newer", "o", body=b"new").status == 201
    assert one_pass(synced) == 0
    assert account.call("GET", "newer", "o").body == b"new"


def test_a_new_target_gets_everything(synced: RunningCluster, account: Account) -> None:
    link(account, "moved", "first")
    assert account.call("PUT", "moved", "o", body=b"x").status == 201
    assert one_pass(synced) == 0
    link(account, "moved", "second")
    assert one_pass(synced) == 0
    account.await_names(["o"], "second")


def test_a_wrong_key_brings_nothing_and_is_tried_again(
    synced: RunningCluster, account: Account
) -> None:
    link(account, "waiting", "shut")
    wrong = {"X-Container-Sync-Key": "wrong"}
    assert account.call("POST", "shut", headers=wrong).status == 204
    assert account.call("PUT", "waiting", "o", body=b"x").status == 201
    assert one_pass(synced) == 1
    assert account.call("GET", "shut").lines == []
    right = {"X-Container-Sync-Key": "user"}
    assert account.call("POST", "shut", headers=right).status == 204
    assert one_pass(synced) == 0
    account.await_names(["o"], "shut")


def test_a_cluster_out_of_reach(synced: RunningCluster, account: Account) -> None:
    link(account, "lonely", "unused", "far/away")
    assert account.call("PUT", "lonely", "o", body=b"x").status == 201
    assert command_once(synced) == 1
    assert account.call("DELETE", "lonely", "o").status == 204
    assert account.call("POST", "lonely", headers={"X-Container-Sync-To": ""}).status == 204
    assert one_pass(synced) == 0


@pytest.mark.parametrize(
    "target", ["//near/none/a/c", "//near/here/a", "ftp://x/y", "http://x/v1/a"]
)
def test_targets_that_cannot_be(account: Account, target: str) -> None:
    answer = account.call("PUT", "refused", headers={"X-Container-Sync-To": target})
    assert answer.status == 400, answer


def test_signed_requests_only(synced: RunningCluster, account: Account) -> None:
    link(account, "signed", "guarded")
    headers = {"X-Container-Sync-Auth": "near nonce 00", "X-Timestamp": "1700000000.00000"}
    assert account.call("PUT", "guarded", "o", headers=headers, body=b"x").status == 401
    assert "NEAR" in account.send("GET", "/info").json["container_sync"]["realms"]


def test_versions_and_a_target_exclude_each_other(synced: RunningCluster, account: Account) -> None:
    target = {"X-Container-Sync-To": "//near/here/AUTH_test/copy", "X-Container-Sync-Key": "user"}
    versions = {"X-Versions-Enabled": "true"}
    assert account.call("PUT", "both", headers=target | versions).status == 400
    assert account.call("HEAD", "both").status == 404
    link(account, "source", "copy")
    for method in ("POST", "PUT"):
        refused = account.call(method, "source", headers=versions)
        assert (refused.status, refused.body) == (
            400,
            b"Cannot enable object versioning on a container that is synced.",
        )
    with pytest.raises(ClientError, match=r"InvalidRequest.*on a container that is synced"):
        s3_client(synced.port).put_bucket_versioning(
            Bucket="source", VersioningConfiguration={"Status": "Enabled"}
        )
    assert account.call("PUT", "versioned", headers=versions).status == 201
    for method in ("POST", "PUT"):
        refused = account.call(method, "versioned", headers=target)
        assert (refused.status, refused.body) == (
            400,
            b"A container with object versioning cannot be synced.",
        )
    assert account.call("PUT", "source", "o", body=b"x").status == 201
    assert one_pass(synced) == 0
    account.await_names(["o"], "copy")
    # One of the two makes room for the other, in one request as well.
    none = {"X-Container-Sync-To": ""}
    assert account.call("POST", "source", headers=versions | none).status == 204
    suspended = {"X-Versions-Enabled": "false"}
    assert account.call("POST", "versioned", headers=suspended | target).status == 204
