# SPDX-License-Identifier: Apache-2.0
"""The figures of the service itself: its requests, and what its workers know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from prometheus_client.core import Metric

from martlet.metrics.families import counter, gauge, histogram
from martlet.metrics.requests import BOUNDS, KIND
from martlet.metrics.shared import OVERFLOW, SharedTable
from martlet.service.release import RUNNING

#: The kind of a row of a worker's gauge: the first word of its key.
GAUGE_KIND = "gauge"
#: The gauge that each worker sets to 1 while it serves.
WORKERS = "martlet_workers"

_NAMES_OF_BOUNDS = [*map(str, BOUNDS), "+Inf"]


@runtime_checkable
class HasGauges(Protocol):
    """An application with figures of its process; those of all workers are added."""

    def gauges(self) -> Mapping[tuple[str, ...], float]:
        """By the name of a metric and the values of its labels, which have no spaces."""


def gauge_rows(gauges: Mapping[tuple[str, ...], float]) -> dict[str, float]:
    """The rows of the shared table for the gauges of a worker."""
    return {" ".join((GAUGE_KIND, *key)): value for key, value in gauges.items()}


class ServiceCollector:
    """Collects from the table that all workers share."""

    def __init__(self, service: str, table: SharedTable) -> None:
        self._service = service
        self._table = table

    def collect(self) -> Iterator[Metric]:
        """The metrics, in the form of prometheus_client."""
        build = gauge("martlet_build_info")
        build.add_metric([self._service, RUNNING], 1)
        yield build
        requests: dict[tuple[str, ...], list[float]] = {}
        gauges: defaultdict[tuple[str, ...], float] = defaultdict(float)
        for is_live, key, numbers in self._table.rows():
            kind, *words = key.split(" ")
            if kind == KIND:
                _add(requests, tuple(words), numbers)
            elif kind == OVERFLOW:
                _add(requests, ("other", "-", "0"), numbers)
            elif kind == GAUGE_KIND and is_live:
                gauges[tuple(words)] += numbers[0]
        yield from _of_requests(requests)
        yield from _of_gauges(gauges)


def _add(sums: dict[tuple[str, ...], list[float]], key: tuple[str, ...], numbers: Any) -> None:
    before = sums.get(key)
    sums[key] = (
        list(numbers)
        if before is None
        else [one + other for one, other in zip(before, numbers, strict=True)]
    )


def _of_requests(requests: Mapping[tuple[str, ...], list[float]]) -> Iterator[Metric]:
    count, durations = (
        counter("martlet_requests_total"),
        histogram("martlet_request_duration_seconds"),
    )
    by_method: dict[tuple[str, ...], list[float]] = {}
    for key, numbers in sorted(requests.items()):
        method, policy, status = key
        count.add_metric([method, _policy(policy), status], sum(numbers[1:]))
        _add(by_method, (method, policy), numbers)
    for (method, policy), numbers in by_method.items():
        durations.add_metric([method, _policy(policy)], _cumulated(numbers[1:]), numbers[0])
    yield count
    yield durations


def _policy(word: str) -> str:
    return "" if word == "-" else word


def _cumulated(counts: Iterable[float]) -> list[tuple[str, float]]:
    total, buckets = 0.0, []
    for name, count in zip(_NAMES_OF_BOUNDS, counts, strict=True):
        total += count
        buckets.append((name, total))
    return buckets


def _of_gauges(gauges: Mapping[tuple[str, ...], float]) -> Iterator[Metric]:
    families = {name: gauge(name) for name, *_ in sorted(gauges)}
    for (name, *labels), value in sorted(gauges.items()):
        if value or not labels:
            families[name].add_metric(labels, value)
    yield from families.values()


def worker_gauges(app: Any) -> dict[tuple[str, ...], float]:
    """The gauges of this worker now, from all layers of its pipeline."""
    found: dict[tuple[str, ...], float] = {(WORKERS,): 1.0}
    while app is not None:
        app = getattr(app, "__self__", app)  # a proxy's pipeline has bound methods
        if isinstance(app, HasGauges):
            found.update(app.gauges())
        # Each filter has the next one under one of these names.
        app = getattr(app, "app", None) or getattr(app, "_app", None)
    return found
