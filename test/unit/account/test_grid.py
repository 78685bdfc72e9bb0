"""The account server over the grid."""

from __future__ import annotations

from pathlib import Path

from grid_calls import GridCaller
from storage_calls import Caller, write_cluster

from account.app import AccountServer


def test_each_method(tmp_path: Path) -> None:
    home = write_cluster(tmp_path)
    conf = {"swift_dir": str(home), "devices": str(home / "devices"), "mount_check": "false"}
    server = AccountServer.from_conf(conf, {})
    grid, call = GridCaller("account", server.grid_handlers()), Caller(server)
    container = {
        "X-Put-Timestamp": "1795223502.00000",
        "X-Delete-Timestamp": "0",
        "X-Object-Count": "3",
        "X-Bytes-Used": "7",
    }
    assert grid("put", "/a", 1, {"X-Account-Meta-Colour": "red"}).status == 201
    assert grid("put", "/a/c", 2, container).status == 201
    assert grid("post", "/a", 3, {"X-Account-Meta-Size": "big"}).status == 204
    head = grid("head", "/a")
    assert (head.status, head.headers["X-Account-Meta-Size"]) == (204, "big")
    assert head.headers["content-length"] == "0"
    assert grid("get", "/a?format=json").body == call("GET", "/d1/0/a?format=json").body
    assert grid("get", "/a").body == b"c\n"
    assert grid("delete", "/a", 4).status == 204
    assert grid("get", "/a").status == 404
    methods = {"put", "get", "head", "post", "delete"}
    assert set(server.grid_handlers()) == {f"account.{method}" for method in methods}
    server.pool.close()
