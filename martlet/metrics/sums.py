# SPDX-License-Identifier: Apache-2.0
"""Figures of an application in each worker, added up over all workers of its service.

A count goes on if its worker ends: the next one of the region begins where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from martlet.metrics.shared import Region, SharedTable

# The first words of the keys of rows.
_COUNT, _STATE = "count", "state"

#: By name.
Figures = Mapping[str, int]


@runtime_checkable
class HasSums(Protocol):
    """An application that shows sums over all workers. Its names of figures are always the same."""

    def figures(self) -> tuple[Figures, Figures]:
        """Counts since the start of this process, and values of now."""

    def use_sums(self, sums: Callable[[], Figures]) -> None:
        """Show these from now on; a call returns both kinds."""


class WorkerSums:
    """The figures of this worker's application in the shared table, and the sums.

    :param region: of this worker.
    """

    def __init__(self, table: SharedTable, region: Region, app: HasSums) -> None:
        self._table = table
        self._region = region
        self._app = app
        counts, _ = app.figures()
        self._before = {name: int(region.row(f"{_COUNT} {name}")[0]) for name in counts}
        self.show()

    def show(self) -> None:
        """Show the figures of this worker to the others."""
        counts, state = self._app.figures()
        for name, value in counts.items():
            self._region.row(f"{_COUNT} {name}")[0] = self._before[name] + value
        for name, value in state.items():
            self._region.row(f"{_STATE} {name}")[0] = value

    def sums(self) -> Figures:
        """Those of this worker now, and of the others as they showed them last."""
        self.show()
        counts, state = self._app.figures()
        found = dict.fromkeys((*counts, *state), 0)
        for is_live, key, numbers in self._table.rows():
            kind, _, name = key.partition(" ")
            if name in found and (kind == _COUNT or (kind == _STATE and is_live)):
                found[name] += int(numbers[0])
        return found
