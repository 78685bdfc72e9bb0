# SPDX-License-Identifier: Apache-2.0
"""Rules for cross-origin requests: their XML, which rule holds, and the headers that it gives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

METHODS = ("GET", "PUT", "HEAD", "POST", "DELETE")
_ROOT = "CORSConfiguration"
_RULES_MAX = 100
_ID_CHARACTERS_MAX = 255
_SECONDS_MAX = 2**31 - 1
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"


class Rule(NamedTuple):
    """One rule; patterns have at most one ``*``."""

    rule_id: str | None
    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    exposed: tuple[str, ...]
    max_age: int | None


class Question(NamedTuple):
    """The request that a script wants to make; headers in lower case."""

    origin: str
    method: str
    headers: tuple[str, ...] = ()


def rules_of_xml(body: bytes) -> list[Rule]:
    """The rules of a document ``CORSConfiguration``.

    :raises S3Error: MalformedXML or InvalidRequest.
    """
    root = parse_xml(body, _ROOT)
    rules = [_rule_of(element) for element in children(root, "CORSRule")]
    if not rules:
        raise S3Error("MalformedXML")
    if len(rules) > _RULES_MAX:
        text = f"The number of CORS rules should not exceed allowed limit of {_RULES_MAX} rules."
        raise S3Error("InvalidRequest", text)
    return rules


def _rule_of(element: Element) -> Rule:
    rule = Rule(
        rule_id=child_text(element, "ID"),
        origins=_texts(element, "AllowedOrigin"),
        methods=_texts(element, "AllowedMethod"),
        headers=_texts(element, "AllowedHeader"),
        exposed=_texts(element, "ExposeHeader"),
        max_age=_seconds_of(element),
    )
    if not rule.origins or not rule.methods or len(rule.rule_id or "") > _ID_CHARACTERS_MAX:
        raise S3Error("MalformedXML")
    for method in rule.methods:
        if method not in METHODS:
            text = f"Found unsupported HTTP method in CORS config. Unsupported method is {method}"
            raise S3Error("InvalidRequest", text)
    for name, patterns in (("AllowedOrigin", rule.origins), ("AllowedHeader", rule.headers)):
        for pattern in patterns:
            if pattern.count("*") > 1:
                text = f'{name} "{pattern}" can not have more than one wildcard.'
                raise S3Error("InvalidRequest", text)
    for header in rule.exposed:
        if "*" in header:
            text = f'ExposeHeader "{header}" contains wildcard. We currently do not support '
            raise S3Error("InvalidRequest", f"{text}wildcard for ExposeHeader.")
        if not _TOKEN.fullmatch(header):
            raise S3Error("InvalidRequest", "ExposeHeader must be the name of a header.")
    return rule


def _texts(element: Element, name: str) -> tuple[str, ...]:
    """:raises S3Error: one is empty."""
    found = tuple((child.text or "").strip() for child in children(element, name))
    if not all(found):
        raise S3Error("MalformedXML")
    return found


def _seconds_of(rule: Element) -> int | None:
    text = child_text(rule, "MaxAgeSeconds")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > _SECONDS_MAX:
        raise S3Error("MalformedXML")
    return int(text)


def document_of_rules(rules: Iterable[Rule]) -> bytes:
    """The XML of rules."""
    document = Document(_ROOT)
    for rule in rules:
        with document.inside("CORSRule"):
            if rule.rule_id is not None:
                document.text("ID", rule.rule_id)
            for name, values in (
                ("AllowedOrigin", rule.origins),
                ("AllowedMethod", rule.methods),
                ("AllowedHeader", rule.headers),
                ("ExposeHeader", rule.exposed),
            ):
                for value in values:
                    document.text(name, value)
            if rule.max_age is not None:
                document.text("MaxAgeSeconds", rule.max_age)
    return document.finish()


def asked_headers(value: str) -> tuple[str, ...]:
    """The names in Access-Control-Request-Headers, in lower case."""
    return tuple(name.strip().lower() for name in value.split(",") if name.strip())


def answer_of(rules: Iterable[Rule], question: Question) -> dict[str, str] | None:
    """The headers of the first rule that allows what is asked; None without one."""
    if not (question.origin.isascii() and question.origin.isprintable()):
        return None
    for rule in rules:
        origin = next((o for o in rule.origins if matches(o, question.origin)), None)
        if origin is None or question.method not in rule.methods:
            continue
        if all(_allows_header(rule, name) for name in question.headers):
            return _headers_of(rule, origin, question)
    return None


def _allows_header(rule: Rule, name: str) -> bool:
    return any(matches(pattern.lower(), name) for pattern in rule.headers) and bool(
        _TOKEN.fullmatch(name)
    )


def _headers_of(rule: Rule, origin: str, question: Question) -> dict[str, str]:
    headers = {
        "Access-Control-Allow-Origin": "*" if origin == "*" else question.origin,
        "Access-Control-Allow-Methods": ", ".join(rule.methods),
    }
    if origin != "*":
        headers["Access-Control-Allow-Credentials"] = "true"
    if question.headers:
        headers["Access-Control-Allow-Headers"] = ", ".join(question.headers)
    if rule.exposed:
        headers["Access-Control-Expose-Headers"] = ", ".join(rule.exposed)
    if rule.max_age is not None:
        headers["Access-Control-Max-Age"] = str(rule.max_age)
    headers["Vary"] = _VARY
    return headers


def matches(pattern: str, text: str) -> bool:
    """Whether the text has the form of the pattern, whose one ``*`` stands for any text."""
    start, star, end = pattern.partition("*")
    if not star:
        return text == pattern
    return len(text) >= len(start) + len(end) and text.startswith(start) and text.endswith(end)
