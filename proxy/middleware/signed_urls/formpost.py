# SPDX-License-Identifier: Apache-2.0
"""Uploads from a browser's form: a signed ``POST`` of ``multipart/form-data`` becomes PUTs.

The form states its limits (``max_file_size``, ``max_file_count``, ``expires``, ``redirect``). A
signature covers them and the path; its key is a key of the account or the container, as for
temporary URLs. Fields apply to the files after them. doc/tempurl.md explains how to create such a
form. Place the filter left of the auth filters.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from multipart import parse_options_header

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import STATUS_LINES, Response
from martlet.words.names import str_to_wsgi
from proxy.info_registry import register_info
from proxy.middleware.signed_urls.formpost_parts import FormError, Part, parts_of
from proxy.middleware.signed_urls.signatures import (
    DIGESTS,
    ScopedKey,
    authorize_within,
    check_digests,
    digests_info,
    is_signed,
    parse_signature,
    scoped_keys,
    unauthorized,
)
from proxy.middleware.subrequest import ask_app, sub_environ

_SOURCE = "FP"
_FIELD_COUNT_MAX = 100
#: Allowed redirects: no scheme whose URL is executed as a script.
_is_web_url = re.compile(r"https?://|/", re.IGNORECASE).match
_PLAIN = {"Content-Type": "text/plain"}
#: The fields that the signature covers, after the path.
_SIGNED = ("redirect", "max_file_size", "max_file_count", "expires")
_EXPIRY_FIELDS = {"x_delete_at": "HTTP_X_DELETE_AT", "x_delete_after": "HTTP_X_DELETE_AFTER"}
_CONTENT_FIELDS = {"content-type": "CONTENT_TYPE", "content-encoding": "HTTP_CONTENT_ENCODING"}
_WHOLE_NUMBERS = {
    "max_file_size": "max_file_size not an integer",
    "max_file_count": "max_file_count not an integer",
    "expires": "expired not an integer",
    "x_delete_at": "x_delete_at not an integer: Unix timestamp required.",
    "x_delete_after": "x_delete_after not an integer: Number of seconds required.",
}


@dataclass(frozen=True)
class FormPostOptions:
    """``[filter:formpost]``."""

    allowed_digests: str = option(
        " ".join(DIGESTS), "Digests allowed in signatures, separated by spaces"
    )

    def __post_init__(self) -> None:
        check_digests(self.allowed_digests.split())


class _FormUnauthorized(Exception):
    """The form is expired or its signature is invalid."""


class _Outcome(NamedTuple):
    """The status of the last upload, the error of the form, and the upload's error page."""

    status: int
    message: str = ""
    content_type: str = ""
    page: bytes = b""


class FormPost:
    """The filter."""

    def __init__(self, app: WSGIApp, options: FormPostOptions) -> None:
        self._app = app
        self._digests = options.allowed_digests.split()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve POSTs of forms; pass other requests on.

        303 to the form's ``redirect`` with status and message; without it the status of the last
        upload; 400 the form is invalid; 401 it is expired or not signed.
        """
        if environ["REQUEST_METHOD"] != "POST":
            return self._app(environ, start_response)
        boundary = _boundary(environ)
        if not boundary or "/" not in environ["PATH_INFO"].strip("/"):
            # One name alone is a bucket: the S3 API has forms of its own.
            return self._app(environ, start_response)
        form = _Form(self._app, environ, self._digests)
        try:
            response = _report(form.store(boundary), form.redirect)
        except _FormUnauthorized as error:
            response = unauthorized(f"FormPost: {error}")
        except FormError as error:
            response = Response(400, _PLAIN, f"FormPost: {error}")
        return response(environ, start_response)


class _Form:
    """A form while it arrives: ``fields`` so far, ``redirect`` once the signature is checked."""

    def __init__(self, app: WSGIApp, environ: Environ, digests: list[str]) -> None:
        self.fields: dict[str, str] = {}
        self.redirect = ""
        self._app = app
        self._environ = environ
        self._digests = digests
        self._key: ScopedKey | None = None
        parts = environ["PATH_INFO"].split("/", 4)
        has_names = len(parts) > 3 and all(parts[1:4])
        self._account: str = parts[2] if has_names else ""
        self._container: str = parts[3] if has_names else ""

    def store(self, boundary: str) -> _Outcome:
        """Store file after file, up to the first that fails.

        :raises FormError: before anything has been stored.
        :raises _FormUnauthorized: the signature does not match the fields so far.
        """
        outcome = _Outcome(400, "no files to process")
        file_count = 0
        try:
            for part in parts_of(self._environ["wsgi.input"], boundary):
                if not part.is_file:
                    self.fields[part.name] = part.value()
                    if len(self.fields) > _FIELD_COUNT_MAX:
                        raise FormError("too many fields")
                    continue
                if not part.filename:
                    continue  # the user chose no file
                self._key = self._check()  # a field may have been repeated since the last file
                file_count += 1
                if file_count > int(self.fields.get("max_file_count") or 0):
                    return _Outcome(400, "max file count exceeded")
                outcome = self._put(part)
                if not 200 <= outcome.status < 300:
                    return outcome
        except FormError as error:
            if self._key is None:
                raise
            return _Outcome(400, str(error))
        if not file_count:
            self._check()  # only the owner's signature may redirect
        return outcome

    def _check(self) -> ScopedKey:
        """Return the key with which the owner signed this form.

        :raises FormError: a field is not the number or URL that it must be.
        :raises _FormUnauthorized: the form is expired or not signed.
        """
        for name, complaint in _WHOLE_NUMBERS.items():
            _whole_number(self.fields.get(name), complaint)
        if int(self.fields.get("expires") or 0) < time.time():
            raise _FormUnauthorized("Form Expired")
        # Values that are not UTF-8 are signed as raw bytes.
        values = [self.fields.get(name, "").encode("utf-8", "surrogateescape") for name in _SIGNED]
        message = "\n".join([self._environ["PATH_INFO"], *(v.decode("latin-1") for v in values)])
        signature = parse_signature(self.fields.get("signature", ""))
        if signature is not None and signature.digest in self._digests and self._container:
            names = self._account, self._container
            for key in scoped_keys(self._environ, self._app, *names, _SOURCE):
                if is_signed(signature, message, key.key):
                    self.redirect = _checked_redirect(self.fields.get("redirect", ""))
                    return key
        raise _FormUnauthorized("Invalid Signature")

    def _put(self, part: Part) -> _Outcome:
        path = self._environ["PATH_INFO"]
        if path.count("/") < 4:
            path += "/"
        upload = sub_environ(self._environ, "PUT", path + str_to_wsgi(part.filename), _SOURCE)
        is_of_account = self._key is not None and self._key.is_of_account
        authorize_within(
            self._app, upload, self._account, None if is_of_account else self._container
        )
        upload["REMOTE_USER"] = ".wsgi.formpost"
        upload.pop("CONTENT_LENGTH")
        upload["HTTP_TRANSFER_ENCODING"] = "chunked"
        upload["wsgi.input"] = part
        part.bytes_max = int(self.fields.get("max_file_size") or 0)
        self._describe(upload, part)
        try:
            answer = ask_app(self._app, upload)
        except FormError as error:
            return _Outcome(400, str(error))
        if part.error is not None:  # the application treated it as a broken connection
            return _Outcome(400, str(part.error))
        if answer.is_success:
            return _Outcome(answer.status)
        return _Outcome(answer.status, "", answer.headers.get("content-type", ""), answer.body)

    def _describe(self, upload: Environ, part: Part) -> None:
        """Set the headers of the new object from the form, else from the part of the file."""
        for field, key in _EXPIRY_FIELDS.items():
            if self.fields.get(field):
                upload[key] = self.fields[field].strip()
        for name, key in _CONTENT_FIELDS.items():
            value = self.fields.get(name) or part.headers.get(name)
            if value:
                upload[key] = value.encode("utf-8", "surrogateescape").decode("latin-1")


def _boundary(environ: Environ) -> str:
    kind, parameters = parse_options_header(environ.get("CONTENT_TYPE") or "")
    return parameters.get("boundary", "") if kind == "multipart/form-data" else ""


def _whole_number(text: str | None, complaint: str) -> None:
    """:raises FormError: it is not a whole number."""
    try:
        int(text or 0)
    except ValueError:
        raise FormError(complaint) from None


def _checked_redirect(url: str) -> str:
    """:raises FormError: it is not an allowed redirect."""
    if url and not _is_web_url(url):
        raise FormError("redirect must be an http or https URL")
    return url


def _report(outcome: _Outcome, redirect: str) -> Response:
    """Return the response for the browser."""
    if not redirect:
        text = STATUS_LINES.get(outcome.status, str(outcome.status))
        if outcome.message:
            text += f"\r\nFormPost: {outcome.message}"
        content_type = outcome.content_type or "text/plain"
        return Response(outcome.status, {"Content-Type": content_type}, outcome.page or text)
    mark = "&" if "?" in redirect else "?"
    location = f"{redirect}{mark}status={outcome.status}&message={quote(outcome.message)}"
    page = f'<html><body><p><a href="{escape(location)}">Click to continue...</a></p></body></html>'
    # Header values are bytes; characters not allowed in a URL are quoted.
    target = quote(location, safe="%/:=&?~#+!$,;'@()*[]", errors="surrogateescape")
    headers = {"Location": target, "Content-Type": "text/html; charset=UTF-8"}
    return Response(303, headers, page.encode("utf-8", "surrogateescape"))


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], FormPost]:
    """PasteDeploy's entry point."""
    options = load_filter_options(FormPostOptions, "formpost", global_conf, local_conf)
    register_info("formpost", **digests_info(options.allowed_digests.split()))
    return lambda app: FormPost(app, options)
