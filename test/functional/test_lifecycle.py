"""Start, stop and restart: the guarantees of `martlet up`."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account

from cluster.ports import HOST
from martlet.service.child_process import is_alive

NewCluster = Callable[..., RunningCluster]


@pytest.fixture(autouse=True)
def execution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new clusters of this file run the command itself, as a user does it."""
    monkeypatch.setattr(RunningCluster, "is_forked", False)


def test_up_says_how_to_use_it(cluster: RunningCluster) -> None:
    text = "".join(cluster.output)
    ready = next(line for line in cluster.output if line.startswith("ready "))
    assert ready == f"ready {cluster.url}\n"
    after = text[text.index(ready) :]
    assert f"{cluster.url}/auth/v1.0" in after
    assert "test:tester" in after
    assert "testing" in after
    assert after.count("swift -A ") == 2
    assert "WARNING" in after
    assert "for trials only" in after
    console = urlsplit(after[after.index("console ") :].split()[1]).path
    page = Account(cluster.port).send("GET", console)
    assert (page.status, b"martlet console" in page.body) == (200, True)


def test_status_names_every_service(cluster: RunningCluster, four_nodes: RunningCluster) -> None:
    assert set(cluster.services()) == {
        "account-server", "container-server", "object-server", "proxy-server",
    }  # fmt: skip
    assert len(four_nodes.services()) == 13
    for running in (cluster, four_nodes):
        await_well(running)


def await_well(running: RunningCluster) -> None:
    """Wait until all services answer: a busy one may need more than the two seconds it gets."""
    await_true(lambda: running.command("status").returncode == 0, "all services answer")


def test_a_proxy_worker_for_each_processor(cluster: RunningCluster) -> None:
    from running_cluster import descendants

    from cluster.confs import usable_processors

    def workers() -> int:
        return len(descendants(cluster.pid_of("proxy-server")))

    await_true(lambda: workers() == usable_processors(), "a worker for each processor")


def test_a_token_is_good_in_every_worker(cluster: RunningCluster, account: Account) -> None:
    for _ in range(20):
        account.close()  # a new connection goes to any worker
        assert account.call("HEAD").status in (200, 204)


def test_no_end_leaves_a_process_and_the_data_stay(new_cluster: NewCluster) -> None:
    """Two signals and a killed supervisor, each followed by a start; then `martlet down`."""
    running = new_cluster().start()
    user = Account(running.port)
    assert user.call("PUT", "c").status == 201
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        user = Account(running.port)
        assert user.call("PUT", "c", "o", body=number.name.encode() * 1000).status == 201
        pids = running.all_pids()
        assert len(pids) >= 6
        is_told = number != signal.SIGKILL
        assert running.stop(number) == (0 if is_told else -signal.SIGKILL)
        if is_told:
            await_end(pids)
            assert running.command("status").returncode == 3
        running.start()
        assert [pid for pid in pids if is_alive(pid)] == []
        user = Account(running.port)
        # A killed server may not have finished the write: two of three replicas have it.
        newest = user.call("GET", "c", "o", headers={"X-Newest": "true"})
        assert newest.body == number.name.encode() * 1000
        user.await_names(["o"], "c")
    pids = running.all_pids()
    assert running.command("down").returncode == 0
    await_end(pids)


def await_end(pids: set[int]) -> None:
    """Wait for the end of processes: a slow one is killed, and a kill takes effect a bit later."""
    await_true(lambda: not any(map(is_alive, pids)), "no process is left", 30.0)


def test_a_second_up_is_refused_and_the_first_goes_on(
    cluster: RunningCluster, new_cluster: NewCluster
) -> None:
    second = new_cluster(home=cluster.home)
    second.launch()
    assert second.process is not None
    assert second.process.wait(120) == 1
    second.stop()
    assert second.output[-1].startswith(f"martlet: a cluster already runs in {cluster.home}")
    await_well(cluster)


def test_a_port_in_use_is_one_sentence_and_nothing_starts(
    new_cluster: NewCluster, tmp_path: Path
) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        running = new_cluster(port=port)
        running.launch()
        assert running.process is not None
        assert running.process.wait(120) == 1
        running.stop()
    assert running.output[-1].startswith(f"martlet: port {port} is in use by another program")
    assert not (tmp_path / "home" / "etc").exists()


def test_a_service_that_cannot_start_stops_the_others(new_cluster: NewCluster) -> None:
    """No partial start: a device directory that is a file stops the object server."""
    running = new_cluster().start()
    running.stop()
    conf = running.home / "etc" / "container.ring.gz"
    conf.write_bytes(b"damaged")
    running.launch()
    assert running.process is not None
    assert running.process.wait(120) == 1
    assert running.stop() == 1
    assert not running.is_ready
    assert running.command("status").returncode == 3


def test_a_newer_home_is_left_alone(new_cluster: NewCluster) -> None:
    running = new_cluster()
    running.home.mkdir()
    layout = running.home / "cluster.json"
    layout.write_text(json.dumps({"format": 99}))
    running.launch()
    assert running.process is not None
    assert running.process.wait(120) == 1
    running.stop()
    assert "made by a newer martlet" in running.output[-1]
    assert json.loads(layout.read_text()) == {"format": 99}


def test_ports_are_kept_and_a_taken_one_is_replaced(new_cluster: NewCluster) -> None:
    running = new_cluster().start()
    before = {name: entry["port"] for name, entry in running.services().items()}
    user = Account(running.port)
    assert user.call("PUT", "c").status == 201
    assert user.call("PUT", "c", "o", body=b"kept").status == 201
    running.stop()
    with socket.create_server((HOST, before["container-server"])):
        running.start()
        after = {name: entry["port"] for name, entry in running.services().items()}
        changed = {name for name in before if before[name] != after[name]}
        assert changed == {"container-server"}
        user = Account(running.port)
        user.await_names(["o"], "c")
        assert user.call("PUT", "c", "second", body=b"x").status == 201
        await_true(lambda: user.call("GET", "c").lines == ["o", "second"], "both listed")
        running.stop()
