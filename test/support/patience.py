# SPDX-License-Identifier: Apache-2.0
"""Time-outs in tests: a busy machine misses a short one now and then, a defect each of them."""

from __future__ import annotations

from collections.abc import Callable


def patiently(attempt: Callable[[float], None]) -> None:
    """Try longer and longer time-outs, in seconds, until one does not raise.

    :raises Exception: what the longest one raised.
    """
    for timeout in (0.3, 2.0):
        try:
            attempt(timeout)
        except Exception:
            continue
        return
    attempt(15.0)
