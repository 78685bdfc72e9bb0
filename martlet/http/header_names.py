# SPDX-License-Identifier: Apache-2.0
"""Header names in upper, lower and title case.

Swift's clients put UTF-8 into the names of metadata. In a WSGI string each character of such a name
is one byte. Python's own ``lower`` would change bytes that look like letters. These functions
change ASCII letters only.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(1024)  # bounded: clients choose some of the names
def lower_name(name: str) -> str:
    """``x-object-meta-color``."""
    if name.isascii():
        return name.lower()
    return name.encode("latin-1").lower().decode("latin-1")


def upper_name(name: str) -> str:
    """``X-OBJECT-META-COLOR``."""
    if name.isascii():
        return name.upper()
    return name.encode("latin-1").upper().decode("latin-1")


def title_name(name: str) -> str:
    """``X-Object-Meta-Color``."""
    if name.isascii():
        return name.title()
    return name.encode("latin-1").title().decode("latin-1")
