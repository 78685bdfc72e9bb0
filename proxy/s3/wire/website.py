# SPDX-License-Identifier: Apache-2.0
"""The website of a bucket: its configuration, and where a request for a page is redirected."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple
from urllib.parse import quote
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, parse_xml

_RULES_MAX = 50
_LOCATION_BYTES_MAX = 2048
_STARTS = ("/", "http://", "https://")


class Redirect(NamedTuple):
    """Where to; empty parts are those of the request. ``key`` replaces the whole key."""

    host: str = ""
    protocol: str = ""
    key_prefix: str | None = None
    key: str | None = None
    status: int = 301


class Rule(NamedTuple):
    """A routing rule; ``status`` is that of an error, 0 for a request before it is served."""

    prefix: str
    status: int
    redirect: Redirect


class Website(NamedTuple):
    """A configuration."""

    suffix: str
    error_key: str
    rules: tuple[Rule, ...]
    redirect_all: Redirect | None

    def rule_for(self, key: str, status: int = 0) -> Rule | None:
        """The first rule about a key: before it is served, or after an error."""
        found = (r for r in self.rules if r.status == status and key.startswith(r.prefix))
        return next(found, None)


def website_of_xml(body: bytes) -> Website:
    """The configuration in a document ``WebsiteConfiguration``.

    :raises S3Error: MalformedXML, InvalidArgument or InvalidRequest.
    """
    root = parse_xml(body, "WebsiteConfiguration")
    index, error = _only(root, "IndexDocument"), _only(root, "ErrorDocument")
    routing, every = _only(root, "RoutingRules"), _only(root, "RedirectAllRequestsTo")
    if every is not None:
        if index is not None or error is not None or routing is not None:
            text = "RedirectAllRequestsTo cannot be provided in conjunction with other Routing "
            raise S3Error("InvalidRequest", f"{text}Rules.")
        host = child_text(every, "HostName")
        if not host:
            raise S3Error("MalformedXML")
        return Website("", "", (), Redirect(host, _protocol_of(every)))
    suffix = None if index is None else child_text(index, "Suffix")
    if suffix is None:
        text = "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty"
        raise S3Error("InvalidArgument", text)
    if not suffix or "/" in suffix:
        raise S3Error("InvalidArgument", "The IndexDocument Suffix is not well formed")
    key = "" if error is None else child_text(error, "Key") or ""
    if error is not None and not key:
        raise S3Error("MalformedXML")
    rules = () if routing is None else tuple(map(_rule_of, children(routing, "RoutingRule")))
    if len(rules) > _RULES_MAX:
        text = f"{len(rules)} routing rules provided, the number of routing rules in a website "
        raise S3Error("InvalidRequest", f"{text}configuration is limited to {_RULES_MAX}.")
    return Website(suffix, key, rules, None)


def _only(element: Element, name: str) -> Element | None:
    """:raises S3Error: there are several."""
    found = list(children(element, name))
    if len(found) > 1:
        raise S3Error("MalformedXML")
    return found[0] if found else None


def _protocol_of(element: Element) -> str:
    protocol = child_text(element, "Protocol") or ""
    if protocol not in ("", "http", "https"):
        text = "Invalid protocol, protocol can be http or https. If not defined the protocol will "
        raise S3Error("InvalidRequest", f"{text}be selected automatically.")
    return protocol


def _rule_of(rule: Element) -> Rule:
    condition, redirect = _only(rule, "Condition"), _only(rule, "Redirect")
    if redirect is None:
        raise S3Error("MalformedXML")
    prefix, status = "", 0
    if condition is not None:
        prefix = child_text(condition, "KeyPrefixEquals") or ""
        status = _status(condition, "HttpErrorCodeReturnedEquals", 0, range(400, 600))
        if not prefix and not status:
            raise S3Error("MalformedXML")
    key_prefix, key = (child_text(redirect, f"ReplaceKey{n}With") for n in ("Prefix", ""))
    if key_prefix is not None and key is not None:
        text = "You can only define ReplaceKeyPrefix or ReplaceKey but not both."
        raise S3Error("InvalidRequest", text)
    host, protocol = child_text(redirect, "HostName") or "", _protocol_of(redirect)
    code = _status(redirect, "HttpRedirectCode", 301, range(301, 400))
    is_empty = not (host or protocol or key_prefix is not None or key is not None)
    if is_empty and child_text(redirect, "HttpRedirectCode") is None:
        raise S3Error("MalformedXML")
    return Rule(prefix, status, Redirect(host, protocol, key_prefix, key, code))


def _status(element: Element, name: str, default: int, allowed: Iterable[int]) -> int:
    text = child_text(element, name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) == 3) or int(text) not in allowed:
        text = f"The provided HTTP redirect or error code ({text}) is not valid."
        raise S3Error("InvalidRequest", text)
    return int(text)


def location_of(redirect: Redirect, key: str, prefix: str, scheme: str, host: str) -> str:
    """The URL of a redirect.

    :param prefix: the part of ``key`` that the rule matched.
    :param scheme: of the request, as ``host``.
    """
    if redirect.key is not None:
        key = redirect.key
    elif redirect.key_prefix is not None:
        key = redirect.key_prefix + key.removeprefix(prefix)
    target = quote(redirect.host or host, safe=":.-_[]")
    return f"{redirect.protocol or scheme}://{target}/{quote(key)}"


def check_location(location: str) -> None:
    """:raises S3Error: the header x-amz-website-redirect-location is malformed."""
    if not location.startswith(_STARTS):
        text = "The website redirect location must have a prefix of 'http://' or 'https://' or '/'."
        raise S3Error("InvalidRedirectLocation", text)
    if len(location) > _LOCATION_BYTES_MAX:
        text = f"The length of website redirect location cannot exceed {_LOCATION_BYTES_MAX} bytes."
        raise S3Error("InvalidRedirectLocation", text)


def error_page(status_line: str, error: S3Error, request_id: str) -> bytes:
    """The page about an error, for sites without an error document."""
    facts = {"Code": error.code, "Message": error.message, **error.fields, "RequestId": request_id}
    items = "\n".join(f"<li>{escape(n)}: {escape(v)}</li>" for n, v in facts.items())
    title = escape(status_line)
    page = f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"
    return f"{page}<ul>\n{items}\n</ul>\n<hr/>\n</body>\n</html>\n".encode()
