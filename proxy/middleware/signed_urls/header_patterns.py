# SPDX-License-Identifier: Apache-2.0
"""Lists of header names in options: separated by spaces, ``x-some-*`` for a prefix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeaderPatterns:
    """The headers that an option names."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> HeaderPatterns:
        """Return the patterns of an option's value."""
        words = text.lower().split()
        return cls(
            frozenset(word for word in words if not word.endswith("*")),
            tuple(word[:-1] for word in words if word.endswith("*")),
        )

    def __contains__(self, name: str) -> bool:
        lowered = name.lower()
        return lowered in self.names or lowered.startswith(self.prefixes)
