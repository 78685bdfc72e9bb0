"""The payloads of ``container.update`` are those that the object server writes and reads."""

from __future__ import annotations

import json
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from grid_calls import GridCaller
from source_tree import ROOT
from storage_calls import Caller

from container.app import ContainerServer
from container.grid_update import read_update
from container.record import parse_record

GOLDEN = ROOT / "test" / "golden" / "grid"
NAMES = ("name", "created_at", "size", "content_type", "etag", "deleted")
OTHERS = ("ctype_timestamp", "meta_timestamp", "version_id", "storage_policy_index")


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize("case", cases("container_update_request"), ids=lambda case: case["name"])
def test_a_request_is_read_whole(case: dict[str, Any]) -> None:
    payload = bytes.fromhex(case["hex"])
    assert msgpack.unpackb(payload) == case["elements"]
    update = read_update(payload)
    assert list(update) == case["elements"]
    policy = {"storage_policy_index": update.policy_index}
    items = [
        policy | dict(zip((*NAMES, *OTHERS), row, strict=False)) for row in case["elements"][6]
    ]
    assert update.records() == [parse_record(item) for item in items]


def test_the_answers_are_those_that_the_object_server_reads(
    server: ContainerServer, call: Caller
) -> None:
    grid = GridCaller("container", server.grid_handlers())
    golden = {case["name"]: bytes.fromhex(case["hex"]) for case in cases("container_update_answer")}
    row = ["o", "1700000000.00000", 4096, "text/plain", "e", 0]

    def answer(row: list[Any]) -> bytes:
        payload = ["d1", 0, "a", "c", 0, "1700000000.00000", [row]]
        return grid.handle("update", msgpack.packb(payload))

    assert answer(row) == golden["no container"]
    assert call("PUT", "/d1/0/a/c", 1).status == 201
    assert answer(row) == golden["accepted"]
    assert answer([*row[:5], 2]) == golden["a wrong row"]
