# SPDX-License-Identifier: Apache-2.0
"""Settings of all unit tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import settings

# An example that takes longer than 200 ms is no failure: a busy machine is late now and then.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what a daemon's start has set: the next test must not see lines of another level."""
    level, handlers = logging.root.level, [*logging.root.handlers]
    flags = logging.logThreads, logging.logMultiprocessing
    yield
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers
    logging.logThreads, logging.logMultiprocessing = flags
