"""Large objects and symlinks on real servers: segmented uploads of python-swiftclient, a segment
that is lost during a read, and read access."""

from __future__ import annotations

import http.client
import json
import random
from pathlib import Path
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account
from swift_client import swift
from usage import await_usage

SEGMENT_BYTES = 300_000


@pytest.mark.parametrize("kind", ["slo", "dlo"])
def test_swiftclient_uploads_and_downloads_segments(
    cluster: RunningCluster, account: Account, tmp_path: Path, kind: str
) -> None:
    data = random.Random(7).randbytes(4 * SEGMENT_BYTES + 1)
    name, container = "large é", f"large-{kind}"
    (tmp_path / name).write_bytes(data)
    size = str(SEGMENT_BYTES)
    swift(cluster, tmp_path, "upload", "-S", size, f"--use-{kind}", container, name)

    def listed_bytes(name: str) -> list[int]:
        return [row["bytes"] for row in account.call("GET", name, format="json").json]

    await_usage(cluster, account, f"{container}_segments", (5, len(data)))
    assert listed_bytes(f"{container}_segments") == [SEGMENT_BYTES] * 4 + [1]
    whole = [len(data) if kind == "slo" else 0]
    await_true(lambda: listed_bytes(container) == whole, "the large object")

    (tmp_path / name).unlink()
    swift(cluster, tmp_path, "download", container, name)
    assert (tmp_path / name).read_bytes() == data
    ranged = account.call("GET", container, name, headers={"Range": "bytes=299990-600009"})
    assert (ranged.status, ranged.body) == (206, data[299990:600010])

    (tmp_path / name).write_bytes(b"small")
    swift(cluster, tmp_path, "upload", container, name)
    assert account.call("GET", container, name).body == b"small"
    account.await_names([], f"{container}_segments")


def make_slo(account: Account, container: str, parts: dict[str, bytes]) -> None:
    """Create segments ``parts`` and a manifest ``whole`` of them."""
    for name, data in parts.items():
        assert account.call("PUT", container, name, body=data).status == 201
    manifest = json.dumps([{"path": f"/{container}/{name}"} for name in parts]).encode()
    url = account.url(container, "whole", **{"multipart-manifest": "put"})
    assert account.send("PUT", url, body=manifest).status == 201


def test_a_lost_segment_cuts_the_connection(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    parts = {"1": b"a" * 200_000, "2": b"b" * 200_000}
    make_slo(account, container, parts)
    assert account.call("GET", container, "whole").body == parts["1"] + parts["2"]
    assert account.call("DELETE", container, "2").status == 204
    with pytest.raises(http.client.IncompleteRead) as cut:
        account.call("GET", container, "whole")
    # Data in flight when the connection was cut may be lost as well.
    assert parts["1"].startswith(cut.value.partial)
    log = cluster.home / "logs" / "proxy-server.log"
    lost = f"segment /v1/AUTH_test/{container}/2: 404"
    await_true(lambda: lost in log.read_text(), "a line about the segment in the log")
    assert account.call("DELETE", container, "1").status == 204
    assert account.call("GET", container, "whole").status == 409


def test_segments_have_acls_of_their_own(cluster: RunningCluster, account: Account) -> None:
    reader = Account(cluster.port, "test:tester3", "testing3")
    allowed = {"X-Container-Read": "test:tester3"}
    assert account.call("PUT", "acl-segments").status == 201
    assert account.call("PUT", "acl-manifests", headers=allowed).status == 201
    assert account.call("PUT", "acl-segments", "1", body=b"secret").status == 201
    manifest = b'[{"path": "/acl-segments/1"}]'
    url = account.url("acl-manifests", "slo", **{"multipart-manifest": "put"})
    assert account.send("PUT", url, body=manifest).status == 201
    link = {"X-Symlink-Target": "acl-segments/1", "Content-Length": "0"}
    assert account.call("PUT", "acl-manifests", "link", headers=link).status == 201
    dlo = {"X-Object-Manifest": "acl-segments/1", "Content-Length": "0"}
    assert account.call("PUT", "acl-manifests", "dlo", headers=dlo).status == 201

    def statuses() -> list[int]:
        names = ("slo", "link", "dlo")
        paths = [account.url("acl-manifests", name) for name in names]
        return [reader.send("GET", path).status for path in paths]

    assert statuses() == [409, 403, 403]
    assert account.call("POST", "acl-segments", headers=allowed).status == 204
    await_true(lambda: statuses() == [200, 200, 200], "the segments are shown, too")


def test_a_symlink_to_a_large_object(account: Account, container: str) -> None:
    make_slo(account, container, {"1": b"one", "2": b"two"})
    manifest = account.call("HEAD", container, "whole").headers["x-manifest-etag"]
    for name, more in (("dynamic", {}), ("static", {"X-Symlink-Target-Etag": manifest})):
        headers = {"X-Symlink-Target": f"{container}/whole", "Content-Length": "0", **more}
        assert account.call("PUT", container, name, headers=headers).status == 201
        answer = account.call("GET", container, name, headers={"Range": "bytes=1-4"})
        assert (answer.status, answer.body) == (206, b"netw")
        assert answer.headers["content-location"] == account.url(container, "whole")
    rows: dict[str, Any] = {}

    def has_all() -> bool:
        nonlocal rows
        rows = {row["name"]: row for row in account.call("GET", container, format="json").json}
        return rows.keys() == {"1", "2", "whole", "dynamic", "static"}

    await_true(has_all, "the listing")
    assert rows["static"]["symlink_bytes"] == rows["whole"]["bytes"] == 6
    assert rows["static"]["slo_etag"] == rows["whole"]["slo_etag"]
    assert rows["dynamic"]["symlink_path"] == account.url(container, "whole")

    url = account.url(container, "whole", **{"multipart-manifest": "delete"})
    answer = account.send("DELETE", url, {"Accept": "application/json"})
    assert (answer.json["Response Status"], answer.json["Number Deleted"]) == ("200 OK", 3)
    assert account.call("GET", container, "dynamic").status == 404
    account.await_names(["dynamic", "static"], container)
