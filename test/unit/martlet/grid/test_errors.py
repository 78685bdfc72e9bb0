# SPDX-License-Identifier: Apache-2.0
"""Whether a failed request may have been executed, as the page of the format says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from martlet.grid.errors import Code, RequestError, may_have_run

PAGE = Path(__file__).parents[4] / "doc/formats/grid.md"
CODES = re.findall(
    r"^\| (\d+) \| ([a-z ]+) \| .* \| (no|perhaps) \|$", PAGE.read_text(), re.MULTILINE
)
ADDRESS = ("192.0.2.1", 6200)


def test_the_codes_are_those_of_the_page() -> None:
    names = {int(code): name.replace(" ", "_").upper() for code, name, _ in CODES}
    assert names == {code.value: code.name for code in Code}


@pytest.mark.parametrize(("code", "executed"), [(int(code), text) for code, _, text in CODES])
def test_what_a_server_answers_with(code: int, executed: str) -> None:
    assert may_have_run(RequestError(ADDRESS, code, "why")) == (executed == "perhaps")


def test_an_answer_that_is_too_large_ends_what_was_executed() -> None:
    assert may_have_run(RequestError(ADDRESS, Code.TOO_LARGE, "the answer has 1048577 bytes"))
