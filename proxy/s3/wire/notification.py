# SPDX-License-Identifier: Apache-2.0
"""The notification configuration of a bucket: which events go to which target."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, local_name, parse_xml
from proxy.s3.wire.xml_out import Document

#: The name of the setting of a bucket.
SETTING = "Notification"
_ROOT = "NotificationConfiguration"
CREATED, REMOVED = "s3:ObjectCreated:", "s3:ObjectRemoved:"
EVENTS = frozenset(
    [
        *(CREATED + kind for kind in ("*", "Put", "Post", "Copy", "CompleteMultipartUpload")),
        *(REMOVED + kind for kind in ("*", "Delete", "DeleteMarkerCreated")),
    ]
)
_RULES_MAX = 100
_ID_LENGTH_MAX = 255
_TEXT_BYTES_MAX = 1024
#: As MinIO writes them; the region may be empty.
_ARN = re.compile(r"arn:(?:martlet|minio):sqs:[a-z0-9-]*:([A-Za-z0-9_-]{1,64}):webhook", re.ASCII)
#: Targets of Amazon that do not exist here.
_OTHER_TARGETS = frozenset(
    [
        "TopicConfiguration",
        "CloudFunctionConfiguration",
        "LambdaFunctionConfiguration",
        "EventBridgeConfiguration",
    ]
)


class Rule(NamedTuple):
    """Events of keys that begin with ``prefix`` and end with ``suffix`` go to a target.

    :param target: its name in the conf; ``arn`` is what the client wrote.
    """

    id: str
    arn: str
    target: str
    events: tuple[str, ...]
    prefix: str = ""
    suffix: str = ""

    def wants(self, event: str, key: str) -> bool:
        """Whether the rule holds for an event, e.g. ``s3:ObjectCreated:Put``."""
        if not (key.startswith(self.prefix) and key.endswith(self.suffix)):
            return False
        return event in self.events or f"{event.rpartition(':')[0]}:*" in self.events


def arn_of(target: str) -> str:
    """The ARN of a target."""
    return f"arn:martlet:sqs::{target}:webhook"


def rules_of_xml(body: bytes, targets: Collection[str] | None) -> tuple[Rule, ...]:
    """The rules in a document ``NotificationConfiguration``.

    :param targets: the names of the targets that exist; None for a document that is stored.
    :raises S3Error: MalformedXML or InvalidArgument.
    """
    found: list[Rule] = []
    for element in parse_xml(body, _ROOT):
        name = local_name(element)
        if name in _OTHER_TARGETS:
            raise _unknown_target()
        if name != "QueueConfiguration":
            raise S3Error("MalformedXML")
        rule = _rule_of(element)
        if targets is not None and rule.target not in targets:
            raise _unknown_target()
        if any(_overlap(rule, other) for other in found):
            text = "Configurations overlap. Configurations on the same bucket cannot share a "
            raise S3Error("InvalidArgument", f"{text}common event type.")
        if any(rule.id == other.id for other in found):
            raise S3Error("InvalidArgument", "Same ID used for multiple configurations.")
        found.append(rule)
    if len(found) > _RULES_MAX:
        text = f"A bucket may have {_RULES_MAX} configurations of notifications."
        raise S3Error("InvalidArgument", text)
    return tuple(found)


def _unknown_target() -> S3Error:
    text = "Unable to validate the following destination configurations"
    return S3Error("InvalidArgument", text)


def _rule_of(element: Element) -> Rule:
    arn = child_text(element, "Queue") or ""
    match = _ARN.fullmatch(arn)
    if match is None:
        raise _unknown_target()
    events = tuple((child.text or "").strip() for child in children(element, "Event"))
    if not events:
        raise S3Error("MalformedXML")
    if any(event not in EVENTS for event in events):
        text = "The event is not supported for notifications"
        raise S3Error("InvalidArgument", text)
    stated = child_text(element, "Id") or secrets.token_hex(16)
    if len(stated) > _ID_LENGTH_MAX:
        raise S3Error("InvalidArgument", f"An Id may have {_ID_LENGTH_MAX} characters.")
    sides = dict(_sides_of(element))
    return Rule(stated, arn, match[1], events, sides.get("prefix", ""), sides.get("suffix", ""))


def _sides_of(element: Element) -> Iterator[tuple[str, str]]:
    """The prefix and the suffix in a filter.

    :raises S3Error: another rule, or one of them twice.
    """
    seen = set()
    rules = [
        rule
        for outer in children(element, "Filter")
        for inner in children(outer, "S3Key")
        for rule in children(inner, "FilterRule")
    ]
    for rule in rules:
        name = (child_text(rule, "Name") or "").lower()
        if name not in ("prefix", "suffix") or name in seen:
            raise S3Error("InvalidArgument", "filter rule name must be either prefix or suffix")
        seen.add(name)
        value = next((child.text or "" for child in children(rule, "Value")), "")
        if len(value.encode("utf-8")) > _TEXT_BYTES_MAX:
            text = f"Size of filter rule value cannot exceed {_TEXT_BYTES_MAX} bytes in UTF-8"
            raise S3Error("InvalidArgument", text)
        yield name, value


def _overlap(one: Rule, other: Rule) -> bool:
    """Whether one event of one key would go to the same target twice."""
    if one.target != other.target or not _share_event(one.events, other.events):
        return False
    prefixes, suffixes = (one.prefix, other.prefix), (one.suffix, other.suffix)
    has_prefix = prefixes[0].startswith(prefixes[1]) or prefixes[1].startswith(prefixes[0])
    has_suffix = suffixes[0].endswith(suffixes[1]) or suffixes[1].endswith(suffixes[0])
    return has_prefix and has_suffix


def _share_event(some: Iterable[str], others: Collection[str]) -> bool:
    def is_covered(event: str) -> bool:
        family = event.rpartition(":")[0]
        if event.endswith(":*"):
            return any(other.startswith(f"{family}:") for other in others)
        return event in others or f"{family}:*" in others

    return any(map(is_covered, some))


def xml_of_rules(rules: Iterable[Rule]) -> bytes:
    """The document with these rules."""
    document = Document(_ROOT)
    for rule in rules:
        with document.inside("QueueConfiguration"):
            document.text("Id", rule.id)
            document.text("Queue", rule.arn)
            for event in rule.events:
                document.text("Event", event)
            _add_filter(document, rule)
    return document.finish()


def _add_filter(document: Document, rule: Rule) -> None:
    sides = [("prefix", rule.prefix), ("suffix", rule.suffix)]
    if not any(value for _, value in sides):
        return
    with document.inside("Filter"), document.inside("S3Key"):
        for name, value in sides:
            if value:
                with document.inside("FilterRule"):
                    document.text("Name", name)
                    document.text("Value", value)
