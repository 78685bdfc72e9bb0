"""The payloads of requests to object servers and of their answers, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.replicas.grid_messages import RequestPacker, unpack_answer
from proxy.wire_headers import WireHeaders

GOLDEN = Path(__file__).parents[2] / "golden" / "grid"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "object_messages.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("common", [0, 1, 100])
def test_requests_are_those_of_the_golden_files(case: dict[str, Any], common: int) -> None:
    names, values = case["headers"][::2], case["headers"][1::2]
    pairs = list(zip(names, values, strict=True))
    headers = WireHeaders(dict(pairs[common:]), WireHeaders(dict(pairs[:common])))
    packer = RequestPacker(case["partition"], case["path"], case["body"].encode())
    golden = (GOLDEN / f"{case['name']}_request.bin").read_bytes()
    assert packer.pack(case["device"], headers) == golden


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_answers_of_the_golden_files_are_read(case: dict[str, Any]) -> None:
    answer, is_left_out = unpack_answer((GOLDEN / f"{case['name']}_answer.bin").read_bytes(), False)
    assert answer.status == case["status"]
    assert answer.headers == case["answer_headers"]
    assert answer.body == case["answer_body"].encode()
    assert not is_left_out
