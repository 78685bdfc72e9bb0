# SPDX-License-Identifier: Apache-2.0
"""The XML of lifecycle rules, with the checks and the errors of Amazon S3."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.lifecycle import DAY, Rule
from proxy.s3.wire.tags import OBJECT_TAGS_MAX, checked_tags
from proxy.s3.wire.times import xml_time
from proxy.s3.wire.xml_in import child_text, children, local_name, parse_xml
from proxy.s3.wire.xml_out import Document

ROOT = "LifecycleConfiguration"
RULES_MAX = 1000
_ID_CHARACTERS_MAX = 255
_PREFIX_BYTES_MAX = 1024
_NEWER_VERSIONS_MAX = 100
_INT_MAX = 2**31 - 1
_SIZE_MAX = 2**63 - 1
_TRANSITIONS = ("Transition", "NoncurrentVersionTransition")
_RULE_ELEMENTS = frozenset(
    {
        "ID",
        "Status",
        "Prefix",
        "Filter",
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
        *_TRANSITIONS,
    }
)
_CONDITIONS = frozenset({"Prefix", "Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"})


def rules_of_xml(body: bytes) -> list[Rule]:
    """The rules of a document ``LifecycleConfiguration``.

    :raises S3Error: MalformedXML, InvalidArgument, InvalidRequest, InvalidTag or NotImplemented.
    """
    elements = list(parse_xml(body, ROOT))
    if any(local_name(element) != "Rule" for element in elements):
        raise S3Error("MalformedXML")
    if not 0 < len(elements) <= RULES_MAX:
        text = f"A lifecycle configuration has 1 to {RULES_MAX} rules."
        raise S3Error("MalformedXML", text)
    rules = [_rule(element) for element in elements]
    if len({rule.form == "Prefix" for rule in rules}) > 1:
        raise _mixed()
    ids = [rule.id for rule in rules if rule.id]
    if len(set(ids)) != len(ids):
        text = "Rule ID must be unique. Found same ID for more than one rule"
        raise S3Error("InvalidArgument", text)
    taken = set(ids)
    return [rule if rule.id else rule._replace(id=_new_id(rule, taken)) for rule in rules]


def _mixed() -> S3Error:
    text = "Base level prefix cannot be used in Lifecycle V2, prefixes are only supported in the "
    return S3Error("InvalidRequest", f"{text}Filter.")


def _new_id(rule: Rule, taken: set[str]) -> str:
    """An id for a rule without one: the same rule gets the same id again."""
    number = 0
    while True:
        text = f"{rule}{number}".encode("utf-8", "surrogatepass")
        found = hashlib.sha256(text).hexdigest()[:12]
        if found not in taken:
            taken.add(found)
            return found
        number += 1


def _rule(element: Element) -> Rule:
    parts = _only(element, _RULE_ELEMENTS, may_repeat=_TRANSITIONS)
    if any(name in parts for name in _TRANSITIONS):
        text = "Transitions to other storage classes are not implemented."
        raise S3Error("NotImplemented", text)
    status = child_text(element, "Status")
    if status not in ("Enabled", "Disabled"):
        raise S3Error("MalformedXML")
    rule_id = child_text(element, "ID") or ""
    if len(rule_id) > _ID_CHARACTERS_MAX:
        text = f"ID length should not exceed allowed limit of {_ID_CHARACTERS_MAX}"
        raise S3Error("InvalidArgument", text)
    fields = _filter(parts)
    fields |= _expiration(parts.get("Expiration"))
    fields |= _noncurrent(parts.get("NoncurrentVersionExpiration"))
    fields |= _abort(parts.get("AbortIncompleteMultipartUpload"))
    rule = Rule(rule_id, status == "Enabled", **fields)
    if not rule.has_action:
        raise S3Error("InvalidRequest", "At least one action needs to be specified in a rule")
    _check_together(rule)
    return rule


def _check_together(rule: Rule) -> None:
    """:raises S3Error: an action does not go with the filter."""
    for name, action in (
        ("AbortIncompleteMultipartUpload", rule.abort_days),
        ("ExpiredObjectDeleteMarker", rule.delete_markers),
    ):
        if action is not None and rule.tags:
            raise S3Error("InvalidRequest", f"{name} cannot be specified with Tags.")
        if action is not None and (rule.larger_than, rule.smaller_than) != (None, None):
            raise S3Error("InvalidRequest", f"{name} cannot be specified with Object Size.")


def _only(
    element: Element, allowed: Iterable[str], may_repeat: Iterable[str] = ()
) -> dict[str, Element]:
    """The children by their names.

    :raises S3Error: MalformedXML for another child, or one that is there twice.
    """
    found: dict[str, Element] = {}
    for child in element:
        name = local_name(child)
        if name not in allowed or (name in found and name not in may_repeat):
            raise S3Error("MalformedXML")
        found[name] = child
    return found


def _filter(parts: Mapping[str, Element]) -> dict[str, Any]:
    """The fields of the filter, which old clients state as a prefix of the rule."""
    if "Prefix" in parts:
        if "Filter" in parts:
            raise _mixed()
        return {"form": "Prefix", "prefix": _prefix(parts["Prefix"])}
    if "Filter" not in parts:
        raise S3Error("MalformedXML")
    within = _only(parts["Filter"], {*_CONDITIONS, "And"})
    if len(within) > 1:
        raise S3Error("MalformedXML")
    if "And" not in within:
        return {"form": "Filter", **_conditions(parts["Filter"])}
    conditions = within["And"]
    if len(conditions) < 2:
        raise S3Error("MalformedXML")
    return {"form": "And", **_conditions(conditions)}


def _conditions(element: Element) -> dict[str, Any]:
    parts = _only(element, _CONDITIONS, may_repeat=("Tag",))
    fields: dict[str, Any] = {}
    if "Prefix" in parts:
        fields["prefix"] = _prefix(parts["Prefix"])
    pairs = [_tag(tag) for tag in children(element, "Tag")]
    if len({name for name, _ in pairs}) != len(pairs):
        raise S3Error("InvalidRequest", "Duplicate Tag Keys are not allowed.")
    if pairs:
        fields["tags"] = tuple(checked_tags(pairs, OBJECT_TAGS_MAX).items())
    for name, field in (
        ("ObjectSizeGreaterThan", "larger_than"),
        ("ObjectSizeLessThan", "smaller_than"),
    ):
        if name in parts:
            fields[field] = _number(parts[name], _SIZE_MAX)
    least, most = fields.get("larger_than"), fields.get("smaller_than")
    if most == 0 or (least is not None and most is not None and least >= most):
        text = "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'"
        raise S3Error("InvalidRequest", text)
    return fields


def _prefix(element: Element) -> str:
    if len(element):  # its text would end at the first element, and the rule would match more
        raise S3Error("MalformedXML")
    text = element.text or ""
    if len(text.encode("utf-8", "surrogatepass")) > _PREFIX_BYTES_MAX:
        text = f"The maximum size of a prefix is {_PREFIX_BYTES_MAX}."
        raise S3Error("InvalidRequest", text)
    return text


def _tag(element: Element) -> tuple[str, str]:
    parts = _only(element, {"Key", "Value"})
    if len(parts) != 2:
        raise S3Error("MalformedXML")
    return parts["Key"].text or "", parts["Value"].text or ""


def _expiration(element: Element | None) -> dict[str, Any]:
    if element is None:
        return {}
    parts = _only(element, {"Days", "Date", "ExpiredObjectDeleteMarker"})
    if len(parts) != 1:
        raise S3Error("MalformedXML")
    if "Days" in parts:
        return {"days": _days(parts["Days"], "Expiration")}
    if "Date" in parts:
        return {"date": _date((parts["Date"].text or "").strip())}
    marker = (parts["ExpiredObjectDeleteMarker"].text or "").strip().lower()
    if marker not in ("true", "false"):
        raise S3Error("MalformedXML")
    return {"delete_markers": marker == "true"}


def _date(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise S3Error("MalformedXML") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = moment.timestamp()
    if seconds % DAY or seconds < 0:
        raise S3Error("InvalidArgument", "'Date' must be at midnight GMT")
    return int(seconds)


def _noncurrent(element: Element | None) -> dict[str, Any]:
    if element is None:
        return {}
    action = "NoncurrentVersionExpiration"
    parts = _only(element, {"NoncurrentDays", "NewerNoncurrentVersions"})
    if not parts:
        raise S3Error("MalformedXML")
    fields: dict[str, Any] = {}
    if "NoncurrentDays" in parts:
        fields["noncurrent_days"] = _days(parts["NoncurrentDays"], action)
    if "NewerNoncurrentVersions" in parts:
        kept = _number(parts["NewerNoncurrentVersions"], _INT_MAX)
        if not 0 < kept <= _NEWER_VERSIONS_MAX:
            text = f"'NewerNoncurrentVersions' for {action} action must be a positive integer of "
            raise S3Error("InvalidArgument", f"{text}at most {_NEWER_VERSIONS_MAX}")
        fields["newer_versions"] = kept
    return fields


def _abort(element: Element | None) -> dict[str, Any]:
    if element is None:
        return {}
    parts = _only(element, {"DaysAfterInitiation"})
    if not parts:
        raise S3Error("MalformedXML")
    action = "AbortIncompleteMultipartUpload"
    return {"abort_days": _days(parts["DaysAfterInitiation"], action)}


def _days(element: Element, action: str) -> int:
    """:raises S3Error: InvalidArgument, if the element is no positive number of days."""
    text = (element.text or "").strip()
    is_negative = text.startswith("-") and text[1:].isascii() and text[1:].isdigit()
    days = 0 if is_negative else _number(element, _INT_MAX)
    if days == 0:
        text = f"'{local_name(element)}' for {action} action must be a positive integer"
        raise S3Error("InvalidArgument", text)
    return days


def _number(element: Element, most: int) -> int:
    text = (element.text or "").strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > most:
        raise S3Error("MalformedXML")
    return int(text)


def xml_of_rules(rules: Iterable[Rule]) -> bytes:
    """The document for a client."""
    document = Document(ROOT)
    for rule in rules:
        with document.inside("Rule"):
            document.text("ID", rule.id)
            _write_filter(document, rule)
            document.text("Status", "Enabled" if rule.is_enabled else "Disabled")
            _write_actions(document, rule)
    return document.finish()


def _write_filter(document: Document, rule: Rule) -> None:
    if rule.form == "Prefix":
        document.text("Prefix", rule.prefix)
        return
    with document.inside("Filter"):
        if rule.form == "And":
            with document.inside("And"):
                _write_conditions(document, rule)
        else:
            _write_conditions(document, rule)


def _write_conditions(document: Document, rule: Rule) -> None:
    sizes = (
        ("ObjectSizeGreaterThan", rule.larger_than),
        ("ObjectSizeLessThan", rule.smaller_than),
    )
    has_other = bool(rule.tags) or any(size is not None for _, size in sizes)
    if rule.prefix or not has_other:
        document.text("Prefix", rule.prefix)
    for name, value in rule.tags:
        with document.inside("Tag"):
            document.text("Key", name)
            document.text("Value", value)
    for name, size in sizes:
        if size is not None:
            document.text(name, size)


def _write_actions(document: Document, rule: Rule) -> None:
    if (rule.days, rule.date, rule.delete_markers) != (None, None, None):
        with document.inside("Expiration"):
            if rule.days is not None:
                document.text("Days", rule.days)
            elif rule.date is not None:
                document.text("Date", xml_time(rule.date))
            elif rule.delete_markers is not None:
                document.text("ExpiredObjectDeleteMarker", rule.delete_markers)
    if (rule.noncurrent_days, rule.newer_versions) != (None, None):
        with document.inside("NoncurrentVersionExpiration"):
            if rule.noncurrent_days is not None:
                document.text("NoncurrentDays", rule.noncurrent_days)
            if rule.newer_versions is not None:
                document.text("NewerNoncurrentVersions", rule.newer_versions)
    if rule.abort_days is not None:
        with document.inside("AbortIncompleteMultipartUpload"):
            document.text("DaysAfterInitiation", rule.abort_days)
