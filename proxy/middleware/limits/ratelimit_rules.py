# SPDX-License-Identifier: Apache-2.0
"""The rate limit of a request, by its kind and by the size of the container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

WRITES_PREFIX = "container_ratelimit_"
LISTINGS_PREFIX = "container_listing_ratelimit_"


class RateStep(NamedTuple):
    """A rate in requests per second for containers with at least ``object_count`` objects."""

    object_count: int
    rate: float


def read_steps(values: Mapping[str, str], prefix: str) -> list[RateStep]:
    """Return the steps among options, ``<prefix><objects> = <requests a second>``, smallest first.

    :raises ValueError: an option has another form; the message names it.
    """
    steps = []
    for name, text in values.items():
        if not name.startswith(prefix):
            continue
        count = name.removeprefix(prefix)
        try:
            rate = float(text)
        except ValueError:
            rate = -1.0
        if not (count.isascii() and count.isdigit()) or rate < 0:
            raise ValueError(f"{name} = {text}: expected {prefix}<objects> = <requests a second>")
        steps.append(RateStep(int(count), rate))
    return sorted(steps)


def rate_for(steps: Sequence[RateStep], object_count: int) -> float | None:
    """Return the rate for a container of that size, interpolated linearly between two steps.

    The result is None, without a limit, below the first step.
    """
    below = [step for step in steps if step.object_count <= object_count]
    if not below or not object_count:
        return None
    step = below[-1]
    if len(below) == len(steps):
        return step.rate
    following = steps[len(below)]
    share = (object_count - step.object_count) / (following.object_count - step.object_count)
    return step.rate + share * (following.rate - step.rate)
