# SPDX-License-Identifier: Apache-2.0
"""The numbers of the parts of an object that was uploaded in parts, as a short text: ``1-3,7``.

The object has them in system metadata, which is not encrypted as the manifest may be. So the
expirer can tell which parts the object needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The system metadata; an object with a list that is too long has none.
PARTS = "X-Object-Sysmeta-S3api-Parts"
#: The longest text that is stored. One run of numbers needs at most eleven bytes.
TEXT_BYTES_MAX = 1024

_TEXT = re.compile(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", re.ASCII)


def text_of_numbers(numbers: Iterable[int]) -> str:
    """The text for ascending numbers; empty if it would be too long."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
    return text if len(text) <= TEXT_BYTES_MAX else ""


def has_number(text: str, number: int) -> bool:
    """Whether the text names the number. One that is malformed names each."""
    if not _TEXT.fullmatch(text):
        return True
    for run in text.split(","):
        first, _, last = run.partition("-")
        if int(first) <= number <= int(last or first):
            return True
    return False
