"""``martlet dispersion``: which names it makes, and how it counts their copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.command import main
from cluster.direct import DirectAnswer, DirectClient
from cluster.dispersion import names_for, report, sample_of
from cluster.proxy_account import Login, ProxyAccount
from cluster.swift_dir import ClusterFiles

ACCOUNT = "AUTH_d"


class FakeAccount:
    """An account of the proxy, in memory."""

    name = ACCOUNT

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, str]] = {}

    def put(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.stored[path] = headers or {}

    def names(self, container: str = "", prefix: str = "") -> Iterator[str]:
        for path in sorted(self.stored):
            parent, _, name = path.rpartition("/")
            if parent == container and name.startswith(prefix):
                yield name


@pytest.fixture
def files(swift_dir: Callable[..., Path]) -> ClusterFiles:
    """Rings of 64 partitions, with two replicas on three devices."""
    ports = [11, 12, 13]
    rings = {name: ports for name in ("account", "container", "object", "object_1")}
    return ClusterFiles.load(swift_dir(power=6, replicas=2, **rings))


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> FakeAccount:
    made = FakeAccount()
    monkeypatch.setattr(ProxyAccount, "open", lambda *_, **__: made)
    return made


@pytest.mark.parametrize("kind", ["container", "object"])
def test_names_are_in_partitions_of_their_own(files: ClusterFiles, kind: str) -> None:
    sample = sample_of(files, ACCOUNT, files.policy("silver"), kind)
    names = names_for(sample, 50.0)
    assert len({sample.partition(name) for name in names}) == len(names) == 32
    assert all(name.startswith(sample.prefix) for name in names)
    more = names_for(sample, 50.0, existing=names)
    assert len({sample.partition(name) for name in (*names, *more)}) == 64
    assert names_for(sample, 50.0, existing=(*names, *more)) == []
    assert len(names_for(sample, 100.0)) == 64
    assert names_for(sample, 1.0) == []


class FakeServers:
    """Storage servers that have everything, but for what a test takes away."""

    def __init__(self) -> None:
        self.absent: set[tuple[int, int]] = set()  # port and partition
        self.silent: set[int] = set()  # ports
        self.statuses: dict[int, list[int]] = {}  # by port: the first answers
        self.asked: list[tuple[int, int]] = []

    def request(
        self, node: Any, partition: int, method: str, path: str, headers: dict[str, str]
    ) -> DirectAnswer:
        port = node["port"]
        self.asked.append((port, partition))
        if port in self.silent:
            return DirectAnswer(0, {}, b"", "no answer in 5 s")
        if self.statuses.get(port):
            return DirectAnswer(self.statuses[port].pop(0), {})
        return DirectAnswer(404 if (port, partition) in self.absent else 204, {})


def count(files: ClusterFiles, servers: FakeServers, retries: int = 2) -> Any:
    sample = sample_of(files, ACCOUNT, files.policy(None), "object")
    names = names_for(sample, 25.0)
    client: Any = servers
    return report(sample, names, client, 1, retries, lambda attempt: None)


def test_copies_are_counted(files: ClusterFiles) -> None:
    servers = FakeServers()
    found = count(files, servers)
    assert (found.found, found.expected, found.percent) == (32, 32, 100.0)
    assert (found.partitions, found.coverage) == (16, 25.0)
    assert not found.missing
    servers.absent = {servers.asked[0], *servers.asked[4:6]}
    found = count(files, servers)
    assert found.found == 29
    assert found.missing == {1: 1, 2: 1}
    assert found.incomplete == {servers.asked[0][1]: 1, servers.asked[4][1]: 2}
    assert sum(found.errors.values()) == 3
    assert found.as_json()["missing_one"] == found.as_json()["missing_two"] == 1


def test_a_server_that_is_silent_is_not_asked_again_and_again(files: ClusterFiles) -> None:
    servers = FakeServers()
    servers.silent = {11}
    found = count(files, servers)
    assert [port for port, _ in servers.asked].count(11) == 3  # once, with two repetitions
    assert set(found.errors) == {"127.0.0.1:11/d1 no answer in 5 s"}
    assert found.found < found.expected


def test_what_is_repeated(files: ClusterFiles) -> None:
    servers = FakeServers()
    servers.statuses = {12: [503, 500]}
    assert count(files, servers).percent == 100.0
    assert len(servers.asked) == 32 + 2
    servers = FakeServers()
    servers.statuses = {12: [507]}
    assert count(files, servers).found == 31
    assert len(servers.asked) == 32


def test_the_commands(
    files: ClusterFiles,
    account: FakeAccount,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ["-d", str(files.directory)]
    assert main(["dispersion", "report", *where]) == 1
    assert "run `martlet dispersion populate`" in capsys.readouterr().err
    assert main(["dispersion", "populate", *where]) == 1
    assert "1.0 % of 64 partitions is none: set a --coverage of 1.562" in capsys.readouterr().err
    assert main(["dispersion", "populate", "--coverage", "25", "-P", "silver", *where]) == 0
    assert "made 16 objects" in capsys.readouterr().out
    containers = [path for path in account.stored if "/" not in path]
    assert len(containers) == 16 + 1
    assert all(account.stored[path] == {"X-Storage-Policy": "silver"} for path in containers)
    servers = FakeServers()
    monkeypatch.setattr(DirectClient, "request", lambda self, *a: servers.request(*a))
    assert main(["dispersion", "report", "-P", "1", *where]) == 0
    text = capsys.readouterr().out
    assert "containers: 100.00 % of the copies are there (32 of 32), in 16 partitions" in text
    servers.absent = {servers.asked[-1]}
    asked = ["dispersion", "report", "-P", "1", "--object-only", *where]
    assert main([*asked, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "silver"
    assert found["object"]["copies_found"] == 31
    assert "container" not in found
    assert main([*asked, "-p"]) == 1
    assert f"partition {servers.asked[-1][1]} lacks 1" in capsys.readouterr().out
    again = ["dispersion", "populate", "--coverage", "100", "--no-overlap", "-P", "1", *where]
    assert main(again) == 0
    assert "made 48 containers" in capsys.readouterr().out
    assert main(again) == 1
    assert "has a container of a sample already" in capsys.readouterr().err


def test_the_conf_and_the_environment(
    files: ClusterFiles,
    account: FakeAccount,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (files.directory / "dispersion.conf").write_text(
        "[dispersion]\nauth_url = http://p/auth\nauth_user = u\nauth_key = k\n"
        "dispersion_coverage = 50\nobject_populate = no\n"
    )
    logins: list[Login] = []

    def open_account(login: Login, *_: Any) -> FakeAccount:
        logins.append(login)
        return account

    monkeypatch.setattr(ProxyAccount, "open", open_account)
    for name in ("ST_AUTH", "ST_USER", "ST_KEY", "OS_STORAGE_URL", "OS_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    where = ["-d", str(files.directory)]
    assert main(["dispersion", "populate", *where]) == 0
    assert capsys.readouterr().out.startswith("made 32 containers")
    assert not any("/" in path for path in account.stored)
    monkeypatch.setenv("ST_AUTH", "http://e/auth")
    main(["dispersion", "populate", *where])
    main(["dispersion", "populate", "--user", "me", "--key", "mine", *where])
    monkeypatch.setenv("OS_STORAGE_URL", "http://s/v1/A")
    monkeypatch.setenv("OS_AUTH_TOKEN", "t")
    main(["dispersion", "populate", *where])
    assert logins == [
        Login("http://p/auth", "u", "k"),
        Login("http://e/auth", "", ""),
        Login("http://e/auth", "me", "mine"),
        Login(storage_url="http://s/v1/A", token="t"),
    ]


@pytest.mark.parametrize(
    ("text", "words", "part"),
    [
        ("", ["--coverage", "0"], "above 0, and at most 100"),
        ("", ["--concurrency", "0"], "concurrency must be from 1"),
        ("dispersion_coverage = all\n", [], "'all' in dispersion.conf is no number"),
        ("object_populate = perhaps\n", [], "object_populate in dispersion.conf"),
    ],
)
def test_bad_options(
    files: ClusterFiles,
    account: FakeAccount,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: list[str],
    part: str,
) -> None:
    (files.directory / "dispersion.conf").write_text(f"[dispersion]\n{text}")
    assert main(["dispersion", "populate", "-d", str(files.directory), *words]) == 1
    assert part in capsys.readouterr().err


def test_nobody_to_log_in(
    files: ClusterFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ST_AUTH", "ST_USER", "ST_KEY", "OS_STORAGE_URL", "OS_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main(["dispersion", "report", "-d", str(files.directory)]) == 1
    assert "a user of the proxy is needed" in capsys.readouterr().err
