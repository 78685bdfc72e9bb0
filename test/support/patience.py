# SPDX-License-Identifier: Apache-2.0
"""Time-outs in tests: a busy machine misses a short one sometimes, a defect misses all."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def patiently(attempt: Callable[[float], None]) -> None:
    """Try increasing time-outs, in seconds, until one does not raise an exception.

    :raises Exception: the exception of the longest time-out.
    """
    for timeout in (0.3, 2.0):
        try:
            attempt(timeout)
        except (Exception, pytest.fail.Exception):  # pytest.raises fails with a BaseException
            continue
        return
    attempt(15.0)
