"""``martlet get-nodes``: the devices of a name or a partition."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.command import main
from cluster.direct import DirectAnswer, DirectClient
from ring.hashing import HashPath

SALT = HashPath(b"", b"s")


@pytest.fixture
def directory(swift_dir: Callable[..., Path]) -> Path:
    """Each ring has three devices in eight partitions, and one replica."""
    ports = [11, 12, 13]
    return swift_dir(power=3, account=ports, container=ports, object=ports, object_1=ports)


def nodes(
    capsys: pytest.CaptureFixture[str], directory: Path, *arguments: str, status: int = 0
) -> dict[str, Any]:
    assert main(["get-nodes", "--json", "-d", str(directory), *arguments]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("words", "kind", "names"),
    [
        (["AUTH_a"], "account", ("AUTH_a",)),
        (["/AUTH_a/c"], "container", ("AUTH_a", "c")),
        (["AUTH_a", "c"], "container", ("AUTH_a", "c")),
        (["AUTH_a/c/o/p"], "object", ("AUTH_a", "c", "o/p")),
        (["AUTH_a", "c", "o/p", "-P", "gold"], "object", ("AUTH_a", "c", "o/p")),
        (["AUTH_a", "c", "o%2Fp", "-Q", "-P", "0"], "object", ("AUTH_a", "c", "o/p")),
        (["x/container.ring.gz", "AUTH_a", "c"], "container", ("AUTH_a", "c")),
    ],
)
def test_names(
    capsys: pytest.CaptureFixture[str],
    directory: Path,
    words: list[str],
    kind: str,
    names: tuple[str, ...],
) -> None:
    found = nodes(capsys, directory, *words)
    assert found["kind"] == kind
    assert tuple(found[k] for k in ("account", "container", "object") if k in found) == names
    assert found["hash"] == SALT.hexdigest(*names)
    assert found["partition"] == int(found["hash"][:8], 16) >> 29
    roles = [node["role"] for node in found["nodes"]]
    assert roles == ["primary", "handoff"]
    assert found["policy"] == (0 if kind == "object" else None)


@pytest.mark.parametrize(
    ("words", "directory_name"),
    [
        (["AUTH_a"], "accounts/{part}/{suffix}/{hash}"),
        (["AUTH_a/c"], "containers/{part}/{suffix}/{hash}"),
        (["AUTH_a/c/o", "-P", "gold"], "bundles/{part}"),
        (["AUTH_a/c/o", "-P", "silver"], "bundles-1/{part}"),
        (["object-1.ring.gz", "AUTH_a/c/o"], "bundles-1/{part}"),
        (["-p", "1", "--kind", "account"], "accounts/{part}"),
        (["-p", "1", "-P", "1"], "bundles-1/{part}"),
        (["container.ring.gz", "-p", "1"], "containers/{part}"),
    ],
)
def test_directories(
    capsys: pytest.CaptureFixture[str], directory: Path, words: list[str], directory_name: str
) -> None:
    found = nodes(capsys, directory, *words)
    place = directory_name.format(
        part=found["partition"], suffix=(found["hash"] or "")[-3:], hash=found["hash"]
    )
    assert [n["directory"] for n in found["nodes"]] == [
        f"{n['device']}/{place}" for n in found["nodes"]
    ]


def test_all_handoffs_and_texts(capsys: pytest.CaptureFixture[str], directory: Path) -> None:
    assert len(nodes(capsys, directory, "-a", "AUTH_a")["nodes"]) == 3
    assert main(["get-nodes", "-d", str(directory), "AUTH_a/c/o", "-P", "silver"]) == 0
    text = capsys.readouterr().out
    assert "policy     silver (1)" in text
    assert 'curl -g -I -H "X-Backend-Storage-Policy-Index: 1" --path-as-is "http://127.0' in text
    assert "403" not in text  # the cluster has no secret
    conf = directory / "martlet.conf"
    conf.write_text(conf.read_text().replace("= none", f"= {'s' * 40}"))
    assert main(["get-nodes", "-d", str(directory), "AUTH_a/c/o", "-P", "silver"]) == 0
    assert "use --ask, which proves the secret" in capsys.readouterr().out


def answering(monkeypatch: pytest.MonkeyPatch, statuses: dict[int, int], policy: str = "1") -> None:
    """Let servers answer by their port; 0: not at all."""

    def request(
        self: Any, node: Any, partition: int, method: str, path: str, *_: Any
    ) -> DirectAnswer:
        status = statuses[node["port"]]
        headers = {"x-timestamp": "1.0", "x-backend-storage-policy-index": policy}
        return DirectAnswer(status, headers, b"", "" if status else "no answer in 5 s")

    monkeypatch.setattr(DirectClient, "request", request)


def test_asking(
    capsys: pytest.CaptureFixture[str], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {11: 200, 12: 200, 13: 200})
    found = nodes(capsys, directory, "--ask", "-a", "AUTH_a/c/o")
    assert found["policy"] == 1  # that of the container
    assert [n["answer"]["status"] for n in found["nodes"]] == [200, 200, 200]
    # Rings differ from run to run, and so do the primaries of the two policies.
    answering(monkeypatch, {11: 0, 12: 0, 13: 0})
    assert nodes(capsys, directory, "--ask", "AUTH_a/c/o", status=1)["policy"] == 0
    assert main(["get-nodes", "--ask", "-d", str(directory), "AUTH_a/c/o"]) == 1
    assert "no answer in 5 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "name ACCOUNT"),
        (["AUTH_a", ""], "name ACCOUNT"),
        (["a", "c", "o", "more"], "name ACCOUNT"),
        (["-p", "1", "AUTH_a"], "a partition has no name"),
        (["-p", "8"], "numbers from 0 to 7"),
        (["-p", "1", "--ask"], "--ask needs a name"),
        (["a/c/o", "-P", "bronze"], "no storage policy 'bronze'"),
        (["-p", "0", "-P", "7"], "no storage policy '7'"),
    ],
)
def test_what_cannot_be_shown(
    capsys: pytest.CaptureFixture[str], directory: Path, words: list[str], part: str
) -> None:
    assert main(["get-nodes", "-d", str(directory), *words]) == 1
    assert part in capsys.readouterr().err
