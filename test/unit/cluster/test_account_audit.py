"""``martlet audit-account``: differences between replicas are found, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from cluster import account_audit
from cluster.account_audit import side_by_side
from cluster.command import main
from cluster.direct import DirectAnswer, DirectClient
from cluster.swift_dir import ClusterFiles

BODY = b"body"
ETAG = md5(BODY).hexdigest()
Edit = Callable[["Store"], None]


class Store:
    """The replicas of an account with one container of four objects, on three devices."""

    def __init__(self) -> None:
        self.ports = (11, 12, 13)
        rows = [{"name": f"o{n}", "hash": ETAG, "bytes": 4, "last_modified": "t"} for n in range(4)]
        self.accounts: dict[int, list[dict[str, Any]]] = {p: [{"name": "c"}] for p in self.ports}
        self.containers: dict[int, list[dict[str, Any]]]
        self.containers = {port: copy.deepcopy(rows) for port in self.ports}
        self.counts = dict.fromkeys(self.ports, 4)
        headers = {"etag": f'"{ETAG}"', "x-backend-timestamp": "1.0"}
        self.objects = {(p, f"o{n}"): (BODY, dict(headers)) for p in self.ports for n in range(4)}
        self.silent: set[int] = set()
        self.policies: set[str] = set()

    def listing(self, node: Any, path: str, query: str) -> DirectAnswer:
        words = {key: values[0] for key, values in parse_qs(query).items()}
        is_account = path.count("/") == 1
        rows = (self.accounts if is_account else self.containers)[node["port"]]
        left = [r for r in rows if r["name"] > words.get("marker", "")]
        if "prefix" in words:
            left = [r for r in left if str(r["name"]).startswith(words["prefix"])]
        page = left[: int(words["limit"])]
        headers = {
            "x-container-object-count": str(self.counts[node["port"]]),
            "x-backend-storage-policy-index": "1",
        }
        return DirectAnswer(200, headers, json.dumps(page).encode())

    def request(
        self,
        node: Any,
        partition: int,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        query: str = "",
    ) -> DirectAnswer:
        if node["port"] in self.silent:
            return DirectAnswer(0, {}, b"", "cannot connect")
        if method == "GET":
            return self.listing(node, path, query)
        self.policies.add((headers or {})["X-Backend-Storage-Policy-Index"])
        found = self.objects.get((node["port"], path.rpartition("/")[2]))
        return DirectAnswer(200, found[1]) if found else DirectAnswer(404, {})

    def read(
        self, node: Any, partition: int, path: str, headers: dict[str, str], is_deep: bool
    ) -> tuple[DirectAnswer, str | None]:
        answer = self.request(node, partition, "HEAD", path, headers)
        if not (is_deep and answer.is_success):
            return answer, None
        body = self.objects[node["port"], path.rpartition("/")[2]][0]
        return answer, md5(body).hexdigest()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(DirectClient, "request", lambda self, *a, **k: made.request(*a, **k))
    monkeypatch.setattr(DirectClient, "read", lambda self, *a: made.read(*a))
    monkeypatch.setattr(account_audit, "_PAGE", 3)
    monkeypatch.setattr(account_audit, "_BATCH", 2)
    return made


@pytest.fixture
def directory(swift_dir: Callable[..., Path]) -> Path:
    """Three devices with a replica each."""
    rings = {name: [11, 12, 13] for name in ("account", "container", "object", "object_1")}
    return swift_dir(replicas=3, **rings)


def audit(
    capsys: pytest.CaptureFixture[str], directory: Path, *arguments: str
) -> list[tuple[str, str]]:
    """The paths and texts of the differences."""
    status = main(["audit-account", "--json", "-d", str(directory), *(arguments or ("A",))])
    found = json.loads(capsys.readouterr().out)["differences"]
    assert status == (1 if found else 0)
    return [(one["path"], one["what"]) for one in found]


class ShardedStore(Store):
    """The same, with all rows in one shard."""

    def request(
        self,
        node: Any,
        partition: int,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        query: str = "",
    ) -> DirectAnswer:
        if method != "GET" or path != "/A/c":
            return super().request(node, partition, method, path, headers, query)
        ranges = [{"name": "A/c"}, {"name": ".shards_A/c-0"}]
        found = ranges if "X-Backend-Record-Type" in (headers or {}) else []
        told = {
            "x-container-object-count": "4",
            "x-backend-storage-policy-index": "1",
            "x-backend-sharding-state": "sharded",
        }
        return DirectAnswer(200, told, json.dumps(found).encode())


def test_the_rows_of_shards_are_compared(
    capsys: pytest.CaptureFixture[str],
    store: Store,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sharded = ShardedStore()
    monkeypatch.setattr(store, "request", sharded.request)
    assert audit(capsys, directory, "A", "A/c/o1") == []
    del sharded.containers[12][1]
    what = "not in the listing of 127.0.0.1:12/d2"
    assert audit(capsys, directory) == [("A/c/o1", what)]
    assert audit(capsys, directory, "A/c/o1") == [("A/c/o1", what)]


def test_equal_replicas(capsys: pytest.CaptureFixture[str], store: Store, directory: Path) -> None:
    assert audit(capsys, directory) == []
    assert store.policies == {"1"}  # that of the container
    assert main(["audit-account", "--deep", "-d", str(directory), "A"]) == 0
    assert capsys.readouterr().out == "1 accounts, 1 containers, 4 objects: no differences\n"
    assert main(["audit-account", "-d", str(directory), "A/c/o1", "/A/c"]) == 0
    assert capsys.readouterr().out == "0 accounts, 1 containers, 5 objects: no differences\n"


def lose_row(store: Store) -> None:
    del store.containers[12][2]


def change_row(store: Store) -> None:
    store.containers[13][1]["hash"] = "0" * 32


def lose_container(store: Store) -> None:
    store.accounts[11] = []


def miscount(store: Store) -> None:
    store.counts[12] = 5


def lose_object(store: Store) -> None:
    del store.objects[13, "o3"]


def stale_object(store: Store) -> None:
    store.objects[11, "o0"][1]["x-backend-timestamp"] = "0.5"


def other_object(store: Store) -> None:
    store.objects[11, "o0"][1]["etag"] = "0" * 32


def all_others(store: Store) -> None:
    for port in store.ports:
        store.objects[port, "o0"][1]["etag"] = "0" * 32


@pytest.mark.parametrize(
    ("edit", "path", "text"),
    [
        (lose_row, "A/c/o2", "not in the listing of 127.0.0.1:12/d2"),
        (change_row, "A/c/o1", f"listed hash differs: {ETAG} at 127.0.0.1:11/d1"),
        (lose_container, "A/c", "not in the listing of 127.0.0.1:11/d1"),
        (miscount, "A/c", "x-container-object-count differs: 4 at 127.0.0.1:11/d1, 5 at"),
        (lose_object, "A/c/o3", "127.0.0.1:13/d3 answers 404"),
        (stale_object, "A/c/o0", "timestamp differs: 0.5 at 127.0.0.1:11/d1"),
        (other_object, "A/c/o0", f"ETag differs: {'0' * 32} at 127.0.0.1:11/d1"),
        (all_others, "A/c/o0", f"its ETag is {'0' * 32}, the listings have {ETAG}"),
    ],
)
def test_differences(
    capsys: pytest.CaptureFixture[str],
    store: Store,
    directory: Path,
    edit: Edit,
    path: str,
    text: str,
) -> None:
    edit(store)
    ((found, told),) = audit(capsys, directory)
    assert found == path
    assert told.startswith(text)


def test_rotten_bytes_are_found_by_reading_them(
    capsys: pytest.CaptureFixture[str], store: Store, directory: Path
) -> None:
    store.objects[12, "o1"] = (b"rotten", store.objects[12, "o1"][1])
    assert audit(capsys, directory) == []
    ((path, told),) = audit(capsys, directory, "--deep", "A")
    assert path == "A/c/o1"
    assert told.startswith("its bytes at 127.0.0.1:12/d2 have MD5")


def test_an_override_of_the_listing_counts(
    capsys: pytest.CaptureFixture[str], store: Store, directory: Path
) -> None:
    for port in store.ports:
        store.containers[port][0]["hash"] = f"{'a' * 32}; slo_etag=x"
        headers = store.objects[port, "o0"][1]
        headers["x-object-sysmeta-container-update-override-etag"] = f"{'a' * 32}; slo_etag=x"
    assert audit(capsys, directory) == []


def test_parameters_of_a_row_do_not_count(
    capsys: pytest.CaptureFixture[str], store: Store, directory: Path
) -> None:
    """The row has the object's own ETag before them."""
    for port in store.ports:
        store.containers[port][0]["hash"] += "; s3_class=x"
        headers = store.objects[port, "o0"][1]
        headers["x-object-sysmeta-container-update-override-etag"] = "; s3_class=x"
    assert audit(capsys, directory) == []


def test_a_server_that_is_away(
    capsys: pytest.CaptureFixture[str], store: Store, directory: Path, tmp_path: Path
) -> None:
    store.silent = {12}
    list_of_paths = tmp_path / "paths"
    found = audit(capsys, directory, "-e", str(list_of_paths), "A")
    assert {told for _, told in found} == {"127.0.0.1:12/d2 answers cannot connect"}
    paths = ["A", "A/c", *(f"A/c/o{n}" for n in range(4))]
    assert sorted(path for path, _ in found) == paths
    assert list_of_paths.read_text().split() == paths


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["A", "-c", "0"], "--concurrency"),
        (["A//o"], "PATH is ACCOUNT"),
        ([""], "PATH is ACCOUNT"),
        (["A", "-e", "/nonexistent/x"], "cannot write /nonexistent/x"),
    ],
)
def test_bad_arguments(
    capsys: pytest.CaptureFixture[str],
    store: Store,
    directory: Path,
    words: list[str],
    part: str,
) -> None:
    assert main(["audit-account", "-d", str(directory), *words]) == 1
    assert part in capsys.readouterr().err


def test_listings_side_by_side() -> None:
    one = [{"name": "a"}, {"name": "b"}, {"name": "é"}]
    two = [{"name": "b"}, {"name": "c"}]
    merged = dict(side_by_side({"one": iter(one), "two": iter(two), "none": iter([])}))
    assert {name: sorted(rows) for name, rows in merged.items()} == {
        "a": ["one"],
        "b": ["one", "two"],
        "c": ["two"],
        "é": ["one"],
    }
    assert list(merged) == ["a", "b", "c", "é"]


def test_files_that_are_loaded(directory: Path) -> None:
    assert ClusterFiles.load(directory).policy("SILVER").index == 1
