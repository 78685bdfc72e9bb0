"""Three storage policies on real servers: gold (default), silver (two replicas), old (deprecated).

The container of the deprecated policy was created before the deprecation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account

from cluster.errors import ClusterError
from cluster.object_info import Question, object_info

FOLDER = {"gold": "bundles", "silver": "bundles-1", "old": "bundles-2"}


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    home = tmp_path_factory.mktemp("policies")
    arguments = ("--policy", "gold", "--policy", "silver:2", "--policy", "old")
    running = RunningCluster(home, *arguments).start()
    user = Account(running.port)
    headers = {"X-Storage-Policy": "old"}
    assert user.call("PUT", "before", headers=headers).status == 201
    user.close()
    running.stop()
    conf = home / "etc" / "martlet.conf"
    text = conf.read_text()
    text = text.replace("name = silver", "name = silver\naliases = argentum, White")
    conf.write_text(text.replace("name = old", "name = old\ndeprecated = yes"))
    running.arguments = ()  # the conf has all settings
    running.start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture
def user(policies: RunningCluster) -> Iterator[Account]:
    opened = Account(policies.port)
    yield opened
    opened.close()


def put(user: Account, container: str, policy: str | None = None) -> int:
    headers = {} if policy is None else {"X-Storage-Policy": policy}
    return user.call("PUT", container, headers=headers).status


def policy_of(user: Account, container: str) -> str | None:
    """Return the policy from HEAD and listing, which must agree."""
    head = user.call("HEAD", container).headers.get("x-storage-policy")
    listing = user.call("GET", container, format="json")
    assert listing.status == 200
    assert listing.headers.get("x-storage-policy") == head
    return head


def reports(running: RunningCluster, path: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the output of ``martlet object-info`` for each segment that holds an object."""
    for segment in sorted((running.home / "devices").rglob("*.bundle")):
        question = Question(segment, True, running.home / "etc", None, path)
        try:
            report, is_right = object_info(question)
        except ClusterError:
            continue  # it does not hold it
        assert is_right, report
        assert isinstance(report, dict)
        yield segment.relative_to(running.home / "devices"), report


def copies(running: RunningCluster, path: str) -> dict[str, int]:
    """Return the number of devices that hold an object, by the folder of its policy."""
    return dict(Counter(segment.parts[1] for segment, _ in reports(running, path)))


def await_copies(running: RunningCluster, path: str, wanted: dict[str, int]) -> None:
    """Wait until ``copies`` are these: a write waits for a quorum."""
    await_true(lambda: copies(running, path) == wanted, f"{wanted} of {path}")


def test_up_says_which_policies_there_are(policies: RunningCluster) -> None:
    line = "martlet: storage policies gold (default), silver, old (deprecated)\n"
    assert line in policies.output


def test_info_lists_those_that_can_be_asked_for(user: Account) -> None:
    listed = user.send("GET", "/info").json["swift"]["policies"]
    assert listed == [
        {"name": "gold", "aliases": "gold", "default": True},
        {"name": "silver", "aliases": "silver, argentum, White"},
    ]


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        (None, "gold"),
        ("gold", "gold"),
        ("SILVER", "silver"),
        ("Argentum", "silver"),
        ("white", "silver"),
    ],
)
def test_a_container_has_the_policy_of_any_of_its_names(
    user: Account, asked: str | None, policy: str
) -> None:
    assert put(user, f"named-{asked}", asked) == 201
    assert policy_of(user, f"named-{asked}") == policy


@pytest.mark.parametrize("name", ["platinum", "1", "Policy-0", "gold,silver"])
def test_an_unknown_policy_is_refused(user: Account, name: str) -> None:
    assert put(user, "unknown", name) == 400
    assert user.call("HEAD", "unknown").status == 404


def test_a_deprecated_policy_takes_no_new_container_and_serves_the_old(
    policies: RunningCluster, user: Account
) -> None:
    assert put(user, "after", "old") == 400
    assert user.call("HEAD", "after").status == 404
    assert policy_of(user, "before") == "old"
    assert put(user, "before") == 202
    assert user.call("PUT", "before", "o", body=b"old words").status == 201
    assert user.call("GET", "before", "o").body == b"old words"
    await_copies(policies, f"{_in_account(user)}/before/o", {FOLDER["old"]: 3})


def test_the_policy_of_a_container_stays(user: Account) -> None:
    assert put(user, "stays", "silver") == 201
    assert put(user, "stays", "gold") == 409
    assert put(user, "stays", "silver") == 202
    assert put(user, "stays") == 202
    assert user.call("POST", "stays", headers={"X-Storage-Policy": "gold"}).status == 204
    assert policy_of(user, "stays") == "silver"


def test_a_container_made_again_may_have_another(policies: RunningCluster, user: Account) -> None:
    for policy in ("silver", "gold", "silver"):
        assert put(user, "again", policy) == 201
        assert user.call("PUT", "again", "o", body=policy.encode()).status == 201
        await_true(lambda: user.call("GET", "again").lines == ["o"], "listed")
        assert policy_of(user, "again") == policy
        assert user.call("GET", "again", "o").body == policy.encode()
        assert user.call("DELETE", "again", "o").status == 204
        await_true(lambda: not user.call("GET", "again").lines, "not listed")
        assert user.call("DELETE", "again").status == 204


@pytest.mark.parametrize(("policy", "replicas"), [("gold", 3), ("silver", 2)])
def test_objects_lie_where_the_ring_of_the_policy_says(
    policies: RunningCluster, user: Account, policy: str, replicas: int
) -> None:
    container = f"placed-{policy}"
    assert put(user, container, policy) == 201
    assert user.call("PUT", container, "o", body=b"hello").status == 201
    path = f"{_in_account(user)}/{container}/o"
    await_copies(policies, path, {FOLDER[policy]: replicas})
    for segment, report in reports(policies, path):
        assert any(node.endswith(f" {segment.parts[0]}") for node in report["nodes"])
        assert str(report["partition"]) == segment.parts[2]
        assert len(report["nodes"]) == replicas


def test_large_objects_too(policies: RunningCluster, user: Account) -> None:
    assert put(user, "large", "silver") == 201
    before = set((policies.home / "devices").rglob("large/*.data"))
    body = b"0123456789abcdef" * (1 << 17)
    assert user.call("PUT", "large", "o", body=body).status == 201

    def folders() -> list[str]:
        written = set((policies.home / "devices").rglob("large/*.data")) - before
        return [path.relative_to(policies.home / "devices").parts[1] for path in written]

    await_true(lambda: folders() == [FOLDER["silver"]] * 2, "two large files")
    etag = md5(body, usedforsecurity=False).hexdigest()
    assert user.call("HEAD", "large", "o").headers["etag"] == etag


def test_a_copy_goes_from_one_policy_to_another(policies: RunningCluster, user: Account) -> None:
    assert put(user, "from", "silver") == 201
    assert put(user, "to", "gold") == 201
    assert user.call("PUT", "from", "o", body=b"copied").status == 201
    assert user.call("COPY", "from", "o", headers={"Destination": "to/one"}).status == 201
    assert user.call("PUT", "to", "two", headers={"X-Copy-From": "from/o"}).status == 201
    for name in ("one", "two"):
        assert user.call("GET", "to", name).body == b"copied"
        await_copies(policies, f"{_in_account(user)}/to/{name}", {FOLDER["gold"]: 3})
    await_copies(policies, f"{_in_account(user)}/from/o", {FOLDER["silver"]: 2})


def test_the_account_counts_by_policy(policies: RunningCluster) -> None:
    user = Account(policies.port, "test2:tester2", "testing2")
    for container, policy, body in (
        ("a", "gold", b"12"),
        ("b", "silver", b"123"),
        ("c", "silver", b""),
    ):
        assert put(user, container, policy) == 201
        if body:
            assert user.call("PUT", container, "o", body=body).status == 201
    wanted = {
        "gold": {"container-count": "1", "object-count": "1", "bytes-used": "2"},
        "silver": {"container-count": "2", "object-count": "1", "bytes-used": "3"},
    }

    def counted() -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        prefix = "x-account-storage-policy-"
        for name, value in user.call("HEAD").headers.items():
            if name.startswith(prefix):
                policy, _, what = name.removeprefix(prefix).partition("-")
                found.setdefault(policy, {})[what] = value
        return found

    await_true(lambda: counted() == wanted, "counted by policy")
    wanted_policies = {"a": "gold", "b": "silver", "c": "silver"}

    def listed() -> dict[str, str]:
        rows = user.call("GET", format="json").json
        return {row["name"]: row["storage_policy"] for row in rows}

    await_true(lambda: listed() == wanted_policies, "listed with their policies")
    user.close()


def _in_account(user: Account) -> str:
    return user.path.removeprefix("/v1")
