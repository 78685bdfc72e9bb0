"""The console's view of the cluster: who may see it, and what it says is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from martlet.http.environ import Environ, StartResponse
from martlet.recon.ask import Answer, Reply, Server
from proxy.console import operators
from proxy.console.cluster_state import (
    ClusterState,
    differing_rings,
    ring_as_json,
    server_as_json,
)
from proxy.console.console import API, filter_factory
from ring.builder import RingBuilder
from ring.file_format import encode_ring
from ring.hashing import HashPath
from ring.ring import Ring

NOW = 1_800_000_000.0
SERVER = Server("object", "10.0.0.1", 6200, ("d1", "d2"))
HEALTHY: dict[str, Any] = {
    "replication/object": {"replication_last": NOW - 60, "replication_stats": {"failure": 0}},
    "async": {"async_pending": 3},
    "unmounted": [],
    "diskusage": [
        {"device": "d1", "mounted": True, "size": 100, "used": 50},
        {"device": "other", "mounted": True, "size": 100, "used": 99},
    ],
    "quarantined": {"objects": 0},
    "ringmd5": {"/etc/martlet/object.ring.gz": "a"},
    "version": {"version": "1.2"},
}


class Auth:
    """An auth filter with three tokens, and the application behind it."""

    def __call__(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        token = environ.get("HTTP_X_AUTH_TOKEN", "")
        if token == "forged":
            start_response("401 Unauthorized", [])
            return [b""]
        if token in ("admin", "user"):
            environ["REMOTE_USER"] = token
            if token == "admin":
                environ["reseller_request"] = True
        start_response("200 OK", [])
        return [b"{}"]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Any:
    class State:
        def __init__(self, swift_dir: str) -> None:
            assert swift_dir == "/x"

        def as_json(self) -> dict[str, Any]:
            return {"rings": [], "servers": [], "problems": ["secret"]}

    monkeypatch.setattr(operators, "ClusterState", State)
    return filter_factory({"swift_dir": "/x"})(Auth())


@pytest.mark.parametrize(
    ("token", "user_status", "cluster_status"),
    [("admin", 200, 200), ("user", 200, 403), ("forged", 401, 401), ("", 401, 401)],
)
def test_only_reseller_admins_see_the_cluster(
    ask: Any, app: Any, token: str, user_status: int, cluster_status: int
) -> None:
    headers = {"X-Auth-Token": token} if token else {}
    user = ask(app, f"{API}user", headers=headers)
    assert user.status == user_status
    if user_status == 200:
        assert json.loads(user.body) == {"is_operator": token == "admin"}
    cluster = ask(app, f"{API}cluster", headers=headers)
    assert cluster.status == cluster_status
    assert (b"secret" in cluster.body) == (cluster_status == 200)
    for answer in (user, cluster):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Frame-Options"] == "DENY"


def test_what_a_client_or_another_filter_says_about_the_user_does_not_count(
    ask: Any, app: Any
) -> None:
    claims = {"reseller_request": True, "REMOTE_USER": "admin"}
    for token, status in (("", 401), ("user", 403)):
        headers = {"X-Auth-Token": token, "Reseller-Request": "true"}
        answer = ask(app, f"{API}cluster", headers=headers, environ=claims)
        assert answer.status == status


@pytest.mark.parametrize("path", ["", "absent", "cluster/", "../app.js"])
def test_other_answers(ask: Any, app: Any, path: str) -> None:
    assert ask(app, API + path, headers={"X-Auth-Token": "admin"}).status == 404
    assert ask(app, API + path).status == 401


def test_rings_that_cannot_be_read(ask: Any, tmp_path: Path) -> None:
    app = filter_factory({"swift_dir": str(tmp_path)})(Auth())
    answer = ask(app, f"{API}cluster", headers={"X-Auth-Token": "admin"})
    assert answer.status == 503
    assert str(tmp_path).encode() not in answer.body


def reply(error: str = "", **changes: Any) -> Reply:
    values = {**HEALTHY, **{name.replace("_", "/"): value for name, value in changes.items()}}
    answers = {path: Answer(200, value, NOW, NOW) for path, value in values.items()}
    return Reply(SERVER, {} if error else answers, error)


def test_a_healthy_server() -> None:
    assert server_as_json(reply(), NOW) == {
        "kind": "object",
        "name": "10.0.0.1:6200",
        "ip": "10.0.0.1",
        "port": 6200,
        "version": "1.2",
        "replication_age": 60.0,
        "failures": 0.0,
        "pending": 3.0,
        "quarantined": 0.0,
        "devices": [{"device": "d1", "mounted": True, "size": 100, "used": 50}],
        "problems": [],
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error": "connection refused"}, "it does not answer: connection refused"),
        ({"unmounted": [{"device": "d2", "mounted": False}]}, "device d2 cannot be used"),
        ({"diskusage": [{"device": "d1", "size": 100, "used": 95}]}, "d1 is 95% full"),
        ({"replication_object": {}}, "finished no pass yet"),
        ({"replication_object": {"replication_last": NOW - 86400}}, "no pass for 24 h"),
        ({"quarantined": {"objects": 2}}, "2 objects are in quarantine"),
        (
            {
                "replication_object": {
                    "replication_last": NOW,
                    "replication_stats": {"failure": 4},
                }
            },
            "had 4 failures",
        ),
    ],
)
def test_problems(changes: dict[str, Any], words: str) -> None:
    (problem,) = server_as_json(reply(**changes), NOW)["problems"]
    assert words in problem


@pytest.mark.parametrize("value", [None, [], "text", 7, {"x": []}, [1, None], [{"device": []}]])
def test_answers_of_a_wrong_form(value: Any) -> None:
    values = dict.fromkeys(HEALTHY, value)
    answers = {path: Answer(200, one, NOW, NOW) for path, one in values.items()}
    found = server_as_json(Reply(SERVER, answers), NOW)
    json.dumps(found)
    assert list(differing_rings([Reply(SERVER, answers)])) == []


def test_rings_that_differ() -> None:
    other = reply(ringmd5={"/etc/swift/object.ring.gz": "b"})
    assert list(differing_rings([reply(), reply()])) == []
    (problem,) = differing_rings([reply(), other])
    assert "2 versions of object.ring.gz" in problem


def make_ring(directory: Path, name: str) -> Path:
    builder = RingBuilder.create(4, 2, 1)
    for number, weight in enumerate((100, 100, 200)):
        builder.add_device(
            {
                "region": 1,
                "zone": number,
                "ip": "127.0.0.1",
                "port": 1,
                "device": f"d{number}",
                "weight": weight,
            }
        )
    builder.rebalance()
    path = directory / name
    path.write_bytes(encode_ring(builder.ring_data(), name))
    return path


def test_a_ring_and_servers_that_do_not_answer(tmp_path: Path) -> None:
    for name in ("account", "container", "object"):
        make_ring(tmp_path, f"{name}.ring.gz")
    conf = "[swift-hash]\nswift_hash_path_suffix = x\n[grid]\ngrid_secret = none\n"
    (tmp_path / "martlet.conf").write_text(conf)
    ring = Ring(tmp_path / "object.ring.gz", HashPath(b"", b"x"))
    found = ring_as_json("object", ring)
    assert [one["partitions"] for one in found["devices"]] == [8, 8, 16]
    assert (found["replicas"], found["partitions"]) == (2.0, 16)
    state = ClusterState(str(tmp_path)).as_json()
    assert [one["name"] for one in state["rings"]] == ["account", "container", "object, Policy-0"]
    assert [one["kind"] for one in state["servers"]] == ["account", "container", "object"]
    assert all("does not answer" in problem for problem in state["problems"])
