# SPDX-License-Identifier: Apache-2.0
"""A fact that stops a service, or that an operator should know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error stops a service or endangers data. A warning does neither."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One sentence about a subject, such as a path."""

    severity: Severity
    subject: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.sentence}"


def error(subject: object, sentence: str) -> Finding:
    """A finding that stops a service or endangers data."""
    return Finding(Severity.ERROR, str(subject), sentence)


def warning(subject: object, sentence: str) -> Finding:
    """A finding that does neither."""
    return Finding(Severity.WARNING, str(subject), sentence)
