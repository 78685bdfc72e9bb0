# SPDX-License-Identifier: Apache-2.0
"""The lifecycle rules of a bucket: their stored form, and when a rule expires an object.

``doc/formats/s3-lifecycle.md`` has the form. The job of the object servers that carries the rules
out reads it, too (``object-server/lifecycle``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from martlet.http.response import http_date

DAY = 86400
_FORMAT = 1


class Rule(NamedTuple):
    """A rule; None: without that condition or action.

    :param form: how the XML states the filter: ``Prefix`` of the rule itself, ``Filter`` with one
        condition at most, or ``And`` within it.
    :param date: seconds since 1970.
    :param delete_markers: delete markers without other versions go.
    :param newer_versions: noncurrent versions that stay in any case.
    """

    id: str
    is_enabled: bool
    form: str = "Filter"
    prefix: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    larger_than: int | None = None
    smaller_than: int | None = None
    days: int | None = None
    date: int | None = None
    delete_markers: bool | None = None
    noncurrent_days: int | None = None
    newer_versions: int | None = None
    abort_days: int | None = None

    @property
    def has_action(self) -> bool:
        """Whether it does anything."""
        return any(action is not None for action in self[self._fields.index("days") :])

    def matches(self, key: str, size: int, tags: Mapping[str, str]) -> bool:
        """Whether its filter holds for an object."""
        return (
            key.startswith(self.prefix)
            and (self.larger_than is None or size > self.larger_than)
            and (self.smaller_than is None or size < self.smaller_than)
            and all(tags.get(name) == value for name, value in self.tags)
        )


class Facts(NamedTuple):
    """The current version of an object, as far as rules ask about it.

    :param written: seconds since 1970.
    """

    key: str
    size: int
    tags: Mapping[str, str]
    written: float


class Expiry(NamedTuple):
    """When an object expires, and by which rule."""

    seconds: int
    rule_id: str

    def header(self) -> str:
        """The value of x-amz-expiration."""
        return f'expiry-date="{http_date(self.seconds)}", rule-id="{quote(self.rule_id)}"'


def due_after(since: float, days: int) -> int:
    """The midnight (UTC) at which that many whole days have passed."""
    return (int(since) // DAY + days + 1) * DAY


def expiry_of(rules: Iterable[Rule], facts: Facts) -> Expiry | None:
    """When the first rule expires the current version of an object; None if none does."""
    found = []
    for rule in rules:
        if not rule.is_enabled or not rule.matches(facts.key, facts.size, facts.tags):
            continue
        if rule.days is not None:
            found.append(Expiry(due_after(facts.written, rule.days), rule.id))
        if rule.date is not None:
            found.append(Expiry(rule.date, rule.id))
    return min(found, default=None)


def document_of(rules: Iterable[Rule]) -> bytes:
    """The stored form."""
    stored = {"format": _FORMAT, "rules": [_stored(rule) for rule in rules]}
    return json.dumps(stored, separators=(",", ":")).encode("ascii")


def _stored(rule: Rule) -> dict[str, Any]:
    """The fields that differ from their defaults; an id and a status always."""
    defaults = Rule._field_defaults
    return {
        name: dict(value) if name == "tags" else value
        for name, value in rule._asdict().items()
        if name not in defaults or value != defaults[name]
    }


def rules_of(document: bytes) -> list[Rule]:
    """The rules of a stored document.

    :raises ValueError: it has another form.
    """
    try:
        stored = json.loads(document)
        if stored["format"] != _FORMAT:
            raise ValueError("the format of the rules is unknown")
        return [
            Rule(**{**fields, "tags": tuple(fields.get("tags", {}).items())})
            for fields in stored["rules"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the rules are malformed: {error}") from None
