# SPDX-License-Identifier: Apache-2.0
"""Temporary URLs: signed URLs for one object, or for all below a prefix, until they expire.

``temp_url_sig`` is an HMAC over method, expiry and path. Its key is in the metadata of the account
or the container. The URL also has ``temp_url_expires`` and may have ``temp_url_prefix``,
``temp_url_ip_range``, ``filename`` and ``inline``. doc/tempurl.md explains how to create one.
Place the filter left of the auth filters.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import environ_key
from martlet.http.response import Response, error_response, http_date
from proxy.info_registry import register_info
from proxy.middleware.signed_urls.header_patterns import HeaderPatterns
from proxy.middleware.signed_urls.signatures import (
    DIGESTS,
    SHOWN_TIME_MAX,
    ScopedKey,
    Signature,
    authorize_within,
    check_digests,
    digests_info,
    is_signed,
    parse_expiry,
    parse_signature,
    scoped_keys,
    unauthorized,
)
from proxy.middleware.subrequest import close_body

#: REMOTE_USER of a request that a temporary URL authorizes.
TEMPURL_USER = ".wsgi.tempurl"
#: The header, and its value, with which staticweb marks its pages.
GENERATOR_HEADER = "X-Backend-Content-Generator"
STATICWEB = "staticweb"

# A URL that allows to write one object must not allow to read another.
_POINTERS = ("X-Object-Manifest", "X-Symlink-Target", "X-Copy-From")
_METHODS_FOR_HEAD = ("HEAD", "GET", "POST", "PUT")


@dataclass(frozen=True)
class TempURLOptions:
    """``[filter:tempurl]``; lists are separated by spaces."""

    methods: str = option("GET HEAD PUT POST DELETE", "Methods that a temporary URL may allow")
    incoming_remove_headers: str = option(
        "x-timestamp x-open-expired", "Headers removed from requests; NAME* is a prefix"
    )
    incoming_allow_headers: str = option("", "Exceptions to incoming_remove_headers")
    outgoing_remove_headers: str = option(
        "x-object-meta-*", "Headers removed from responses; NAME* is a prefix"
    )
    outgoing_allow_headers: str = option(
        "x-object-meta-public-*", "Exceptions to outgoing_remove_headers"
    )
    allowed_digests: str = option(" ".join(DIGESTS), "Digests allowed in signatures")

    def __post_init__(self) -> None:
        check_digests(self.allowed_digests.split())


class _Claim(NamedTuple):
    """The parameters of a temporary URL; WSGI strings."""

    signature: str
    expires: str
    prefix: str | None
    ip_range: str
    filename: str
    is_inline: bool


class _ClaimedObject(NamedTuple):
    """The object that a temporary URL is for; WSGI strings."""

    account: str
    container: str
    obj: str


class TempURL:
    """The filter."""

    def __init__(self, app: WSGIApp, options: TempURLOptions) -> None:
        self._app = app
        self._methods = options.methods.split()
        self._digests = options.allowed_digests.split()
        self._incoming_remove = HeaderPatterns.parse(options.incoming_remove_headers)
        self._incoming_allow = HeaderPatterns.parse(options.incoming_allow_headers)
        self._outgoing_remove = HeaderPatterns.parse(options.outgoing_remove_headers)
        self._outgoing_allow = HeaderPatterns.parse(options.outgoing_allow_headers)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Check temporary URLs; pass requests without their parameters on.

        401 the signature is invalid, for another request, or expired; 400 a header would make the
        new object a pointer to another one.
        """
        claim = _claim(environ)
        if environ["REQUEST_METHOD"] == "OPTIONS" or claim is None:
            return self._app(environ, start_response)
        expires = parse_expiry(claim.expires)
        claimed = self._claimed_object(environ, claim)
        if expires is None or claimed is None or not _is_from(environ, claim.ip_range):
            return _refused()(environ, start_response)
        key = self._signing_key(environ, claim, expires, claimed)
        if key is None:
            return _refused()(environ, start_response)
        refusal = self._clean_request(environ)
        if refusal is not None:
            return refusal(environ, start_response)
        authorize_within(
            self._app, environ, claimed.account, None if key.is_of_account else claimed.container
        )
        environ["REMOTE_USER"] = TEMPURL_USER
        environ["QUERY_STRING"] = _passed_query(claim)
        return self._answer(environ, start_response, claim, expires, claimed)

    def _claimed_object(self, environ: Environ, claim: _Claim) -> _ClaimedObject | None:
        """Return the object of the request; None if a temporary URL cannot refer to it."""
        method = environ["REQUEST_METHOD"]
        parts = environ["PATH_INFO"].split("/", 4)
        if method not in self._methods or parts[:2] != ["", "v1"] or not all(parts[2:4]):
            return None
        if len(parts) == 5 and parts[4].strip("/"):
            claimed = _ClaimedObject(*parts[2:])
        elif claim.prefix == "" and method in ("GET", "HEAD") and len(parts) >= 4:
            # staticweb's page of the whole container.
            claimed = _ClaimedObject(parts[2], parts[3], parts[4] if len(parts) == 5 else "")
        else:
            return None
        return claimed if claimed.obj.startswith(claim.prefix or "") else None

    def _signing_key(
        self, environ: Environ, claim: _Claim, expires: int, claimed: _ClaimedObject
    ) -> ScopedKey | None:
        """Return the key under which the signature is valid."""
        signature = parse_signature(claim.signature)
        if signature is None or signature.digest not in self._digests:
            return None
        method = environ["REQUEST_METHOD"]
        methods = _METHODS_FOR_HEAD if method == "HEAD" else (method,)
        signed = [_message(m, claim, expires, claimed) for m in methods]
        keys = list(scoped_keys(environ, self._app, claimed.account, claimed.container, "TU"))
        return _first_match(signature, signed, keys)

    def _clean_request(self, environ: Environ) -> Response | None:
        if environ["REQUEST_METHOD"] in ("PUT", "POST"):
            for name in _POINTERS:
                if environ_key(name) in environ:
                    return error_response(
                        400, f"The header {name!r} is not allowed in this tempurl"
                    )
        for key in [key for key in environ if key.startswith("HTTP_")]:
            name = key[len("HTTP_") :].replace("_", "-")
            if name in self._incoming_remove and name not in self._incoming_allow:
                del environ[key]
        return None

    def _answer(
        self,
        environ: Environ,
        start_response: StartResponse,
        claim: _Claim,
        expires: int,
        claimed: _ClaimedObject,
    ) -> Iterable[bytes]:
        status, headers, body = call_app(self._app, environ)
        generator = _value_of(headers, GENERATOR_HEADER)
        is_listing = generator != STATICWEB and not claimed.obj.strip("/")
        if is_listing and status.startswith("2"):
            close_body(body)  # temporary URLs do not allow listings
            return _refused()(environ, start_response)
        headers = [
            (name, value)
            for name, value in headers
            if name not in self._outgoing_remove or name in self._outgoing_allow
        ]
        if environ["REQUEST_METHOD"] in ("GET", "HEAD") and status.startswith("2"):
            _present(headers, claim, expires, environ["PATH_INFO"], generator == STATICWEB)
        start_response(status, headers)
        return body


def _claim(environ: Environ) -> _Claim | None:
    """Return the parameters of a temporary URL, the first of each name; None if there are none."""
    query = environ.get("QUERY_STRING", "")
    if "temp_url_" not in query:
        return None
    given: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, encoding="latin-1"):
        given.setdefault(name, value)
    if "temp_url_sig" not in given and "temp_url_expires" not in given:
        return None
    return _Claim(
        given.get("temp_url_sig", ""),
        given.get("temp_url_expires", ""),
        given.get("temp_url_prefix"),
        given.get("temp_url_ip_range", ""),
        given.get("filename", ""),
        "inline" in given,
    )


def _is_from(environ: Environ, ip_range: str) -> bool:
    """Whether the client's address is in the range of the URL."""
    if not ip_range:
        return True
    try:
        address = ipaddress.ip_address(environ.get("REMOTE_ADDR") or "")
        return address in ipaddress.ip_network(ip_range)
    except ValueError:
        return False


def _message(method: str, claim: _Claim, expires: int, claimed: _ClaimedObject) -> str:
    """Return the text that is signed."""
    if claim.prefix is None:
        path = f"/v1/{'/'.join(claimed)}"
    else:
        path = f"prefix:/v1/{claimed.account}/{claimed.container}/{claim.prefix}"
    lines = [method, str(expires), path]
    return "\n".join([f"ip={claim.ip_range}", *lines] if claim.ip_range else lines)


def _first_match(
    signature: Signature, messages: list[str], keys: list[ScopedKey]
) -> ScopedKey | None:
    for key in keys:
        if any(is_signed(signature, message, key.key) for message in messages):
            return key
    return None


def _passed_query(claim: _Claim) -> str:
    """Return the query for the rest of the pipeline, without unsigned parameters."""
    query = {"temp_url_sig": claim.signature, "temp_url_expires": claim.expires}
    if claim.prefix is not None:
        query["temp_url_prefix"] = claim.prefix
    if claim.ip_range:
        query["temp_url_ip_range"] = claim.ip_range
    if claim.filename:
        query["filename"] = claim.filename
    if claim.is_inline:
        query["inline"] = ""
    return urlencode(query, encoding="latin-1")


def _present(headers: HeaderList, claim: _Claim, expires: int, path: str, is_page: bool) -> None:
    """Set Content-Disposition and Expires for browsers."""
    if claim.is_inline:
        disposition: str | None = _disposition("inline", claim.filename)
    elif claim.filename:
        disposition = _disposition("attachment", claim.filename)
    elif is_page or _value_of(headers, "Content-Disposition") is not None:
        disposition = None
    else:
        disposition = _disposition("attachment", path.rstrip("/").rpartition("/")[2])
    if disposition is not None:
        headers[:] = [h for h in headers if h[0].lower() != "content-disposition"]
        headers.append(("Content-Disposition", disposition))
    if _value_of(headers, "Expires") is None:
        headers.append(("Expires", http_date(min(expires, SHOWN_TIME_MAX))))


def _disposition(kind: str, filename: str) -> str:
    """Return a Content-Disposition that names the file for old and new browsers."""
    if not filename:
        return kind
    plain = quote(filename, safe=" /", encoding="latin-1")
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, encoding='latin-1')}"


def _value_of(headers: HeaderList, wanted: str) -> str | None:
    return next((value for name, value in headers if name.lower() == wanted.lower()), None)


def _refused() -> Response:
    return unauthorized("401 Unauthorized: Temp URL invalid\n")


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], TempURL]:
    """PasteDeploy's entry point."""
    options = load_filter_options(TempURLOptions, "tempurl", global_conf, local_conf)
    lists: dict[str, Any] = {
        "methods": options.methods.split(),
        "incoming_remove_headers": options.incoming_remove_headers.split(),
        "incoming_allow_headers": options.incoming_allow_headers.split(),
        "outgoing_remove_headers": options.outgoing_remove_headers.split(),
        "outgoing_allow_headers": options.outgoing_allow_headers.split(),
    }
    register_info("tempurl", **lists, **digests_info(options.allowed_digests.split()))
    return lambda app: TempURL(app, options)
