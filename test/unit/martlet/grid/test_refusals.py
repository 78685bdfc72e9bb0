# SPDX-License-Identifier: Apache-2.0
"""The kinds of refusal, which have the same names in all servers."""

from __future__ import annotations

import re
from pathlib import Path

from martlet.grid.refusals import Refusal

PAGE = Path(__file__).parents[4] / "doc/formats/grid.md"


def test_the_kinds_are_those_of_the_page() -> None:
    _, _, rest = PAGE.read_text().partition("### Kinds of refusal\n")
    table, _, _ = rest.partition("\n### ")
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [kind.value for kind in Refusal]
