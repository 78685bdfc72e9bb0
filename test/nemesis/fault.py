"""A fault of the nemesis: it begins, lasts for a while under load, and ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

End = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """A fault that can begin; what it begins returns the function that ends it."""

    name: str
    begin: Callable[[], End]
    #: Its end waits for servers that other faults may have stopped.
    ends_last: bool = False
