"""Hints: a server with a write learns that another replica missed it."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest

from martlet.grid.errors import Code, RequestError
from proxy.replicas import hints as hints_module
from proxy.replicas.engine import Outcome
from proxy.replicas.hints import Hints
from proxy.replicas.quorum import Answer

NODES: list[Any] = [
    {"id": i, "ip": f"10.0.0.{i}", "port": 6200, "device": f"d{i}"} for i in range(4)
]
HANDOFF: Any = {**NODES[3], "handoff_index": 0}


class FakeGrid:
    """Takes requests, or refuses them with a code."""

    def __init__(self, refusal: Code | None = None) -> None:
        self.sent: list[tuple[tuple[str, int], str, dict[str, Any]]] = []
        self.refusal = refusal
        self.noted: list[str] = []
        self.client = self

    def serves(self, node: Any, name: str) -> bool:
        return name not in self.noted

    def note(self, address: Any, name: str, error: Any) -> bool:
        self.noted.append(name)
        return True

    def request(self, address: tuple[str, int], name: str, payload: bytes, timeout: float) -> bytes:
        self.sent.append((address, name, msgpack.unpackb(payload)))
        if self.refusal is not None:
            raise RequestError(address, self.refusal, "the test refuses it")
        return b"\x80"


class Collected:
    """Hints that are sent when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusal: Code | None = None) -> None:
        self.grid = FakeGrid(refusal)
        self.runs: list[Any] = []
        grid: Any = self.grid
        self.hints = Hints(grid, logging.getLogger("hints"), sleep=lambda seconds: None)

        class Later:
            def __init__(self, target: Any, **_: Any) -> None:
                self.start = lambda: runs.append(target)

        runs = self.runs
        # The module's own name: a thread that another test has left may start threads meanwhile.
        monkeypatch.setattr(hints_module, "threading", SimpleNamespace(Thread=Later))

    def note(self, *answers: tuple[Any, int], method: str = "PUT", partition: int = 7) -> None:
        outcomes = [
            Outcome(i, node, Answer(status, {}, b"")) for i, (node, status) in enumerate(answers)
        ]
        self.hints.note(method, 1, partition, 3, outcomes)

    def send(self) -> list[tuple[str, dict[str, Any]]]:
        for run in self.runs:
            run()
        self.runs.clear()
        return [(address[0], hint) for address, name, hint in self.grid.sent if name]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Collected:
    return Collected(monkeypatch)


def hint(node: Any, *partitions: int) -> tuple[str, dict[str, Any]]:
    return node["ip"], {"device": node["device"], "policy": 1, "partitions": list(partitions)}


@pytest.mark.parametrize(
    ("method", "statuses"), [("PUT", (201, 201, 201)), ("DELETE", (204, 404, 204))]
)
def test_nothing_is_said_of_a_write_that_all_have(
    collected: Collected, method: str, statuses: tuple[int, ...]
) -> None:
    collected.note(*zip(NODES, statuses, strict=False), method=method)
    assert collected.runs == []


def test_one_primary_is_told(collected: Collected) -> None:
    collected.note((NODES[0], 201), (NODES[2], 201))
    collected.note((NODES[0], 201), (NODES[1], 201), partition=5)
    collected.note((NODES[1], 202), (NODES[0], 404), (NODES[2], 202), method="POST", partition=9)
    assert sorted(collected.send()) == [hint(NODES[0], 5, 7), hint(NODES[1], 9)]


def test_hand_offs_with_the_write_are_told(collected: Collected) -> None:
    collected.note((NODES[0], 201), (NODES[2], 201), (HANDOFF, 201))
    collected.note((HANDOFF, 201), (NODES[0], 500), partition=8)
    assert sorted(collected.send()) == [hint(NODES[0], 7), hint(HANDOFF, 7, 8)]


def test_nobody_is_told_of_a_write_that_failed_everywhere(collected: Collected) -> None:
    collected.note((NODES[0], 500), (NODES[1], 503))
    assert collected.runs == []


def test_one_thread_at_a_time_sends(collected: Collected) -> None:
    for partition in range(3):
        collected.note((NODES[0], 201), partition=partition)
    assert len(collected.runs) == 1
    assert collected.send() == [hint(NODES[0], 0, 1, 2)]
    collected.note((NODES[0], 201))
    assert len(collected.runs) == 1


def test_the_number_is_bounded(collected: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints_module, "HINTS_MAX", 2)
    for partition in range(5):
        collected.note((NODES[0], 201), partition=partition)
    assert collected.send() == [hint(NODES[0], 0, 1)]
    collected.note((NODES[0], 201))
    assert collected.send()[1:] == [hint(NODES[0], 7)]


def test_a_server_that_knows_no_hints_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = Collected(monkeypatch, Code.UNKNOWN_NAME)
    for _ in range(2):
        collected.note((NODES[0], 201))
        collected.send()
    assert len(collected.grid.sent) == 1
