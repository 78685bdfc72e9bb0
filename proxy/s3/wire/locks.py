# SPDX-License-Identifier: Apache-2.0
"""Object lock in requests and answers: retention, legal hold, the configuration of a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from xml.etree.ElementTree import Element

from proxy.replicas.locks import MODES, WITHOUT_RULE, Rule, rule_of
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.xml_in import child_text, children
from proxy.s3.wire.xml_out import Document

MODE_HEADER = "x-amz-object-lock-mode"
UNTIL_HEADER = "x-amz-object-lock-retain-until-date"
HOLD_HEADER = "x-amz-object-lock-legal-hold"
LOCK_HEADERS = (MODE_HEADER, UNTIL_HEADER, HOLD_HEADER)

#: The longest retention, as Amazon's.
_DAYS_MAX = 36500
_DAY_SECONDS = 86400
_HOLDS = ("ON", "OFF")


class Retention(NamedTuple):
    """Until when a version is kept, in seconds since 1970, and in which mode."""

    mode: str
    until: float


def retention_of_headers(headers: Mapping[str, str], now: float) -> Retention | None:
    """The retention that a write asks for; None without one.

    :raises S3Error: InvalidArgument.
    """
    mode, text = headers.get(MODE_HEADER), headers.get(UNTIL_HEADER)
    if mode is None and text is None:
        return None
    if mode is None or text is None:
        reason = f"{UNTIL_HEADER} and {MODE_HEADER} must both be supplied"
        raise invalid_argument(UNTIL_HEADER if text is None else MODE_HEADER, "", reason)
    if mode not in MODES:
        raise invalid_argument(MODE_HEADER, mode, "Unknown wormMode directive.")
    until = parse_time(text)
    if until is None:
        reason = "The retain until date must be provided in ISO 8601 format"
        raise invalid_argument(UNTIL_HEADER, text, reason)
    return _checked(Retention(mode, until), UNTIL_HEADER, text, now)


def hold_of_headers(headers: Mapping[str, str]) -> str | None:
    """The legal hold that a write asks for, ``ON`` or ``OFF``; None without one.

    :raises S3Error: InvalidArgument.
    """
    hold = headers.get(HOLD_HEADER)
    if hold is not None and hold not in _HOLDS:
        raise invalid_argument(HOLD_HEADER, hold, "Legal Hold must be either of 'ON' or 'OFF'")
    return hold


def retention_of_xml(root: Element, now: float) -> Retention | None:
    """The retention in a document; None if it is empty, which ends the retention.

    :raises S3Error: MalformedXML or InvalidArgument.
    """
    mode, text = child_text(root, "Mode"), child_text(root, "RetainUntilDate")
    if mode is None and text is None and len(root) == 0:
        return None
    until = parse_time(text or "")
    if mode not in MODES or until is None:
        raise S3Error("MalformedXML")
    return _checked(Retention(mode, until), "RetainUntilDate", text or "", now)


def _checked(found: Retention, name: str, text: str, now: float) -> Retention:
    if found.until <= now:
        raise invalid_argument(name, text, "The retain until date must be in the future!")
    if found.until > now + _DAYS_MAX * _DAY_SECONDS:
        raise invalid_argument(name, text, f"A retention may last {_DAYS_MAX} days.")
    return found


def hold_of_xml(root: Element) -> str:
    """The legal hold in a document, ``ON`` or ``OFF``.

    :raises S3Error: MalformedXML.
    """
    hold = child_text(root, "Status")
    if hold not in _HOLDS:
        raise S3Error("MalformedXML")
    return hold


def retention_document(found: Retention) -> bytes:
    """The answer to GetObjectRetention."""
    document = Document("Retention")
    document.text("Mode", found.mode)
    document.text("RetainUntilDate", time_text(found.until))
    return document.finish()


def hold_document(hold: str) -> bytes:
    """The answer to GetObjectLegalHold."""
    document = Document("LegalHold")
    document.text("Status", hold)
    return document.finish()


def stored_configuration(root: Element) -> str:
    """The system metadata of a bucket for its configuration.

    :raises S3Error: MalformedXML or InvalidRetentionPeriod.
    """
    if child_text(root, "ObjectLockEnabled") != "Enabled":
        raise S3Error("MalformedXML")
    rules = list(children(root, "Rule"))
    if not rules:
        return WITHOUT_RULE
    retentions = list(children(rules[0], "DefaultRetention"))
    if len(rules) > 1 or len(retentions) != 1:
        raise S3Error("MalformedXML")
    return str(_rule_of_xml(retentions[0]))


def _rule_of_xml(retention: Element) -> Rule:
    mode = child_text(retention, "Mode")
    lengths = {unit: child_text(retention, unit.title()) for unit in ("days", "years")}
    given = [(unit, text) for unit, text in lengths.items() if text is not None]
    if mode not in MODES or len(given) != 1:
        raise S3Error("MalformedXML")
    unit, text = given[0]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 9:
        raise S3Error("MalformedXML")
    rule = Rule(mode, unit, int(text))
    if rule.length <= 0:
        reason = "Default retention period must be a positive integer value."
        raise S3Error("InvalidRetentionPeriod", reason)
    if rule.days > _DAYS_MAX:
        raise S3Error("InvalidRetentionPeriod", "Default retention period too large.")
    return rule


def configuration_document(stored: str) -> bytes:
    """The answer to GetObjectLockConfiguration, for the system metadata of a bucket."""
    document = Document("ObjectLockConfiguration")
    document.text("ObjectLockEnabled", "Enabled")
    rule = rule_of(stored)
    if rule is not None:
        with document.inside("Rule"), document.inside("DefaultRetention"):
            document.text("Mode", rule.mode)
            document.text(rule.unit.title(), rule.length)
    return document.finish()


def parse_time(text: str) -> float | None:
    """Seconds since 1970 of a time in the form of ISO 8601, with a zone; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def time_text(seconds: float) -> str:
    """``2015-08-30T12:36:00.000Z``."""
    moment = datetime.fromtimestamp(round(seconds, 3), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
