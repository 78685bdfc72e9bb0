"""The part of an answer that applications can rely on and that two servers can share."""

from __future__ import annotations

import http.client
import json
import re
import xml.etree.ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Specific to one connection or one server; the policy is that of the filter console.
_IGNORED = [
    "connection",
    "content-security-policy",
    "date",
    "keep-alive",
    "server",
    "transfer-encoding",
    "x-openstack-request-id",
    "x-trans-id",
]
# Times, and the ETag of a manifest, which contains the times of its segments.
_MOMENTS = [
    "last-modified",
    "x-copied-from-last-modified",
    "x-manifest-etag",
    "x-put-timestamp",
    "x-timestamp",
]
_SETS = [
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-expose-headers",
    "allow",
    "vary",
]
# The rest of a refusal is text for people, in each server's own words.
_TOLD_BY_REFUSALS = ["allow", "content-range", "location", "retry-after", "www-authenticate"]
# Except these, which have an object's metadata; their headers about the text are left out.
_TELL_OF_THE_OBJECT = (412, 416)
_OF_THE_SENTENCE = [
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
]
# Container servers report to account servers with a delay.
_LATE = re.compile(r"x-account-.*(count|bytes-used.*)")
#: Values of X-Delete-At that walks set; others come from X-Delete-After.
FIXED_TIMES = ("4102444800", "9999999999", "2147483648")
_TIME = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"
)
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_BOUNDARY = re.compile(r"boundary=(\S+)")
# Also for manifests of ranges within ranges.
_BOUNDARY_LINE = re.compile(rb"--[0-9a-f]{32}")
_SENTENCE = re.compile(rb"(?<=Response Body: )[^\n]*|(?<=<response_body>)[^<]*")
_SHOWN_MAX = 2000


@dataclass(frozen=True)
class Answer:
    """Status (0: no answer), headers by lower-case name, and body: bytes or parsed JSON."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = b""

    def differences(self, other: Answer) -> list[str]:
        """Return a line for each difference; if the status differs, only that line."""
        if self.status != other.status:
            return [f"status {self.status} != {other.status}"]
        found = [
            f"{name} {self.headers.get(name)!r} != {other.headers.get(name)!r}"
            for name in sorted({*self.headers, *other.headers})
            if self.headers.get(name) != other.headers.get(name)
        ]
        if self.body != other.body:
            mine, its = str(self.body)[:_SHOWN_MAX], str(other.body)[:_SHOWN_MAX]
            found.append(f"body {mine} != {its}")
        return found


def normal(response: http.client.HTTPResponse, body: bytes) -> Answer:
    """Return an answer without the parts that depend on one server or one moment."""
    headers = _normal_headers(response)
    status, content_type = response.status, headers.get("content-type", "")
    if status in _TELL_OF_THE_OBJECT:
        shown = {n: v for n, v in headers.items() if n not in _OF_THE_SENTENCE}
        return Answer(status, shown)
    if status >= 400:
        return Answer(status, {n: v for n, v in headers.items() if n in _TOLD_BY_REFUSALS})
    if status == 304:
        headers.pop("content-length", None)
        return Answer(status, headers)
    if status >= 300 or body.startswith(b"<html><h1>") or headers.get("content-length") == "0":
        for name in ("content-type", "content-length"):
            headers.pop(name, None)
        return Answer(status, headers)
    if match := _BOUNDARY.search(content_type):
        headers["content-type"] = content_type.replace(match[1], "BOUNDARY")
    shown = _normal_body(body, content_type)
    if shown != body:
        headers.pop("content-length", None)
    return Answer(status, headers, shown)


def _normal_headers(response: http.client.HTTPResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for given, value in [*response.getheaders(), *_unparsed_headers(response)]:
        name = given.lower()
        if name in _IGNORED:
            continue
        if name in _SETS:
            value = ", ".join(sorted(re.split(", ?", value)))
        is_late = _LATE.fullmatch(name) or (name == "x-delete-at" and value not in FIXED_TIMES)
        if name in _MOMENTS or is_late:
            value = "*"
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if "x-static-large-object" in headers and "x-manifest-etag" not in headers:
        headers["etag"] = "*"  # the manifest itself is shown
    return headers


def _unparsed_headers(response: http.client.HTTPResponse) -> Iterator[tuple[str, str]]:
    """Yield the headers from the first non-ASCII name on: http.client reads them as a body."""
    for line in str(response.headers.get_payload()).split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            yield name, value.strip()


def _normal_body(body: bytes, content_type: str) -> Any:
    if content_type.startswith("application/json"):
        try:
            return _without_times(json.loads(body))
        except ValueError:
            pass  # no JSON, or a part of it
    if "xml" in content_type:
        body = _normal_xml(body)
    if content_type.startswith("multipart/") or body.startswith(b"--"):
        body = _BOUNDARY_LINE.sub(b"--BOUNDARY", body)
    return _SENTENCE.sub(b"*", _TIME.sub(b"*", body))


def _normal_xml(body: bytes) -> bytes:
    # Swift does not escape some characters, so no XML parser accepts the document.
    text = _NOT_IN_XML.sub("\ufffd", body.decode("utf-8", "replace"))
    try:
        text = xml.etree.ElementTree.canonicalize(text).replace("&#xD;", "\n")
    except (ValueError, xml.etree.ElementTree.ParseError):
        return body
    return text.replace(">\n<", "><").encode()


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    if not isinstance(value, dict):
        return value
    shown = {name: _without_times(item) for name, item in value.items()}
    hidden = ["last_modified", "Response Body", *(["hash"] if "slo_etag" in value else [])]
    return shown | {name: "*" for name in hidden if name in shown}
