"""Listings of containers and accounts, with every parameter and in every format."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from cluster_databases import listed as listings
from cluster_databases import ring_of
from running_cluster import RunningCluster, await_true
from swift_api import Account
from usage import settled, used

NAMES = ["a", "a/1", "a/2", "a//x", "b/1/deep", "b/2", "c", "ä", "é/1", "日本/語", "\U0001f426"]
ORDER = sorted(NAMES, key=str.encode)


@pytest.fixture(scope="module")
def listed(cluster: RunningCluster) -> Account:
    """An account that no other test uses, with one container, ``list``, that contains NAMES."""
    admin = Account(cluster.port, "admin:admin", "admin")
    account = Account.with_token(cluster.port, admin.token, "/v1/AUTH_listings")
    assert account.call("PUT", "list").status in (201, 202)
    for name in NAMES:
        headers = {"Content-Type": "text/plain"}
        assert account.call("PUT", "list", name, headers=headers, body=name.encode()).status == 201
    containers = ring_of(cluster, "container")
    await_true(
        lambda: listings(cluster, containers, "AUTH_listings", "list") == [ORDER] * 3,
        "the names in each replica of the listing",
    )
    return account


def lines(account: Account, **query: Any) -> list[str]:
    answer = account.call("GET", "list", **query)
    assert answer.status in (200, 204)
    return answer.lines


def test_names_come_in_the_order_of_their_bytes(listed: Account) -> None:
    assert lines(listed) == ORDER


def test_reverse(listed: Account) -> None:
    assert lines(listed, reverse="true") == ORDER[::-1]


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_make_the_whole(listed: Account, limit: int) -> None:
    found: list[str] = []
    while page := lines(listed, limit=limit, marker=found[-1] if found else ""):
        assert len(page) <= limit
        found += page
        assert len(found) <= len(ORDER)
    assert found == ORDER


def test_marker_and_end_marker_are_left_out(listed: Account) -> None:
    assert lines(listed, marker="a/1", end_marker="c") == ["a/2", "b/1/deep", "b/2"]


def test_prefix(listed: Account) -> None:
    assert lines(listed, prefix="b/") == ["b/1/deep", "b/2"]
    assert lines(listed, prefix="日") == ["日本/語"]
    assert lines(listed, prefix="none") == []


def test_delimiter_folds_what_is_below(listed: Account) -> None:
    assert lines(listed, delimiter="/") == [
        "a", "a/", "b/", "c", "ä", "é/", "日本/", "\U0001f426",
    ]  # fmt: skip
    assert lines(listed, prefix="b/", delimiter="/") == ["b/1/", "b/2"]


def test_a_delimiter_of_several_characters(listed: Account) -> None:
    assert lines(listed, prefix="a/", delimiter="//") == ["a//x", "a/1", "a/2"]
    assert lines(listed, prefix="a", delimiter="//") == ["a", "a//", "a/1", "a/2"]


def test_path_lists_one_level(listed: Account) -> None:
    assert lines(listed, path="a") == ["a/1", "a/2"]


def test_json_tells_size_and_type(listed: Account) -> None:
    entries = listed.call("GET", "list", format="json").json
    assert [entry["name"] for entry in entries] == ORDER
    for entry in entries:
        assert entry["bytes"] == len(entry["name"].encode())
        assert entry["content_type"] == "text/plain"
        assert len(entry["hash"]) == 32
        assert entry["last_modified"].startswith("20")
    folded = listed.call("GET", "list", format="json", delimiter="/").json
    assert {"subdir": "a/"} in folded


def test_xml_tells_the_same(listed: Account) -> None:
    answer = listed.call("GET", "list", format="xml")
    assert answer.headers["content-type"].startswith("application/xml")
    root = ElementTree.fromstring(answer.body)
    assert (root.tag, root.get("name")) == ("container", "list")
    assert [entry.findtext("name") for entry in root.iter("object")] == ORDER


def test_accept_chooses_the_format(listed: Account) -> None:
    answer = listed.call("GET", "list", headers={"Accept": "application/json"})
    assert [entry["name"] for entry in answer.json] == ORDER


def test_counts_of_container_and_account(cluster: RunningCluster, listed: Account) -> None:
    bytes_used = sum(len(name.encode()) for name in NAMES)
    assert used(listed, "list") == (len(NAMES), bytes_used)
    assert settled(listed, cluster.home) == (len(NAMES), bytes_used)
    assert listed.call("HEAD").headers["x-account-container-count"] == "1"

    def entries() -> list[tuple[str, int, int]]:
        rows = listed.call("GET", format="json").json
        return [(row["name"], row["count"], row["bytes"]) for row in rows]

    await_true(lambda: entries() == [("list", len(NAMES), bytes_used)], "the account's listing")
