# SPDX-License-Identifier: Apache-2.0
"""Websites of buckets: their configuration, and their pages.

Pages are served on hosts below ``website_domain``, without a signature. So they are those that all
may read by a policy or an ACL, and names of buckets must be unique in the cluster.
"""

from __future__ import annotations

from martlet.http.request import Request
from martlet.http.response import STATUS_LINES, Response
from proxy.s3 import settings
from proxy.s3.acl import with_lent
from proxy.s3.actions import access_of
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.objects import read_object
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.website import Redirect, Website, error_page, location_of, website_of_xml

_SETTING = "Website"
_DOCUMENT_BYTES_MAX = 128 * 1024
_REDIRECT = "x-amz-website-redirect-location"
#: Headers about the page that was asked for, not about the error document.
_OF_THE_PAGE = frozenset(
    {"range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"}
)
_HTML = {"Content-Type": "text/html; charset=utf-8"}


def get_website(call: Call) -> Response:
    """GetBucketWebsite."""
    document = settings.read_now(call, _SETTING)
    if document is None:
        raise _absent(call)
    return xml(document)


def _absent(call: Call) -> S3Error:
    return S3Error("NoSuchWebsiteConfiguration", fields={"BucketName": call.bucket})


def put_website(call: Call) -> Response:
    """PutBucketWebsite. The document is stored as it came."""
    call.require_bucket()
    document = read_document(call, _DOCUMENT_BYTES_MAX)
    website_of_xml(document)
    settings.write(call, _SETTING, document)
    return empty(200)


def delete_website(call: Call) -> Response:
    """DeleteBucketWebsite."""
    settings.remove(call, _SETTING)
    return empty(204)


# --- pages


def serve_page(call: Call) -> Response:
    """Serve a GET or HEAD of a page; errors are pages too."""
    key, site = call.key, None
    call.params = {}  # pages have none
    try:
        if call.method not in ("GET", "HEAD"):
            raise S3Error("MethodNotAllowed", fields={"Method": call.method})
        document = settings.read(call, _SETTING) if call.bucket else None
        if document is None:
            raise _absent(call)
        site = website_of_xml(document)
        return _page(call, site, key)
    except S3Error as error:
        return _failed(call, site, key, error)


def _page(call: Call, site: Website, key: str) -> Response:
    """:raises S3Error: there is no such page."""
    if site.redirect_all is not None:
        return _redirect(call, site.redirect_all, key, "")
    rule = site.rule_for(key)
    if rule is not None:
        return _redirect(call, rule.redirect, key, rule.prefix)
    is_directory = not key or key.endswith("/")
    try:
        found = _object(call, f"{key}{site.suffix}" if is_directory else key)
    except S3Error as error:
        if error.status == 404 and not is_directory and _exists(call, f"{key}/{site.suffix}"):
            return _redirect(call, Redirect(status=302), f"{key}/", "")
        raise
    location = found.headers.get(_REDIRECT)
    if not location:
        return found
    _close(found)
    return Response(301, {**_HTML, "Location": location})


def _object(call: Call, key: str) -> Response:
    call.key = key
    call.judge_as(access_of(call, ""))
    return with_lent(call, read_object)


def _exists(call: Call, key: str) -> bool:
    return call.ask("HEAD", call.bucket, key, allowed=range(400, 500)).status == 200


def _close(response: Response) -> None:
    close = getattr(response.app_iter, "close", None)
    if close is not None:
        close()


def _redirect(call: Call, redirect: Redirect, key: str, prefix: str) -> Response:
    scheme, host = call.environ["wsgi.url_scheme"], call.environ.get("HTTP_HOST", "")
    scheme = call.headers.get("x-forwarded-proto", scheme)
    scheme = scheme if scheme in ("http", "https") else "http"
    location = location_of(redirect, key, prefix, scheme, host)
    return Response(redirect.status, {**_HTML, "Location": location})


def _failed(call: Call, site: Website | None, key: str, error: S3Error) -> Response:
    """The answer to a request that failed: a redirect, the error document, or a page about it."""
    if error.status == 304:
        return Response(304, error.headers)
    if site is not None:
        rule = site.rule_for(key, error.status)
        if rule is not None:
            return _redirect(call, rule.redirect, key, rule.prefix)
    if site is not None and site.error_key and error.status < 500:
        call.headers = {n: v for n, v in call.headers.items() if n not in _OF_THE_PAGE}
        try:
            found = _object(call, site.error_key)
            found.status = error.status
            return found
        except S3Error:
            pass  # the page below tells the first error
    status_line = STATUS_LINES.get(error.status, str(error.status))
    page = error_page(status_line, error, Request(call.environ).trans_id)
    return Response(error.status, {**_HTML, **error.headers}, page)
