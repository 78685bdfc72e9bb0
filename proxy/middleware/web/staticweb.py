# SPDX-License-Identifier: Apache-2.0
"""Containers as web sites: index files, listings as pages, error pages.

A container's metadata enable it: ``X-Container-Meta-Web-Index``, ``-Web-Listings``,
``-Web-Listings-CSS``, ``-Web-Listings-Label``, ``-Web-Error`` and ``-Web-Directory-Type``. It
serves anonymous requests, temporary URLs, and requests with ``X-Web-Mode: true``. Each sub-request
is authorized like the client's request. Place the filter right of the auth filters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

from martlet.conf.options import is_true, option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.info_registry import register_info
from proxy.middleware.signed_urls.tempurl import GENERATOR_HEADER, STATICWEB, TEMPURL_USER
from proxy.middleware.subrequest import ask_app, close_body, get_container_info, sub_environ
from proxy.middleware.web.staticweb_pages import ListingPage, no_listing_page

_SOURCE = "SW"
_DIRECTORY_TYPE = "application/directory"
_HTML = "text/html; charset=UTF-8"
#: The parameters of a temporary URL that the links in a listing need as well.
_LINK_PARAMETERS = (
    "temp_url_prefix",
    "temp_url_expires",
    "temp_url_sig",
    "temp_url_ip_range",
)


@dataclass(frozen=True)
class StaticWebOptions:
    """``[filter:staticweb]``."""

    url_base: str = option(
        "", "Scheme, host or both of redirects: http://host:port, https: or //host:port"
    )


class _Site(NamedTuple):
    """A container's settings; text."""

    index_name: str
    error: str
    sets_listings: bool
    has_listings: bool
    css: str
    label: str
    directory_type: str
    read_acl: str | None

    @property
    def is_on(self) -> bool:
        return bool(self.index_name or self.sets_listings)

    @classmethod
    def of(cls, info: Mapping[str, object], meta: Mapping[str, str]) -> _Site:
        read_acl = info.get("read_acl")
        return cls(
            meta.get("web-index", "").strip(),
            meta.get("web-error", "").strip(),
            bool(meta.get("web-listings", "").strip()),
            is_true(meta.get("web-listings")),
            meta.get("web-listings-css", "").strip(),
            meta.get("web-listings-label", "").strip(),
            meta.get("web-directory-type", "").strip() or _DIRECTORY_TYPE,
            str(read_acl) if read_acl is not None else None,
        )


@dataclass(frozen=True, slots=True)
class _Found:
    """An answer whose body is still unread."""

    status: str
    headers: list[tuple[str, str]]
    body: Iterable[bytes]

    @property
    def code(self) -> int:
        return int(self.status[:3])

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.headers)
        return self.body


class _Visit:
    """One request for a page; ``obj`` is a WSGI string."""

    def __init__(
        self, app: WSGIApp, environ: Environ, site: _Site, obj: str, url_base: str
    ) -> None:
        self._app = app
        self._environ = environ
        self._site = site
        self._obj = obj
        self._base = urlsplit(url_base)
        self._path: str = environ["PATH_INFO"]
        self._is_directory = self._path.endswith("/")

    def serve(self, start_response: StartResponse) -> Iterable[bytes]:
        """Serve the page of a container or of a directory in it, or an object."""
        if not self._obj:
            return (
                self._directory(start_response)
                if self._site.is_on
                else self._nothing(start_response)
            )
        found = self._ask(self._path)
        if 200 <= found.code < 400 and not self._is_marker(found):
            return found(self._environ, start_response)
        if found.code not in (200, 404):
            return found(self._environ, start_response)
        close_body(found.body)
        if not self._site.is_on:
            return self._failed(404, start_response)
        return self._directory(start_response)

    def _nothing(self, start_response: StartResponse) -> Iterable[bytes]:
        denial = self._denial()
        if denial is not None:
            return self._failed(denial.status, start_response, denial)
        return self._failed(404, start_response)

    def _is_marker(self, found: _Found) -> bool:
        """Whether an object stands for a directory."""
        headers = Headers(found.headers)
        return (
            self._site.is_on
            and found.code == 200
            and headers.get("content-type", "") == self._site.directory_type
            and headers.get("content-length", "") in ("0", "1")
        )

    def _directory(self, start_response: StartResponse) -> Iterable[bytes]:
        if not self._obj and not self._is_directory:
            return self._redirect(start_response)
        if self._site.index_name:
            slash = "" if self._is_directory else "/"
            name = self._site.index_name.encode("utf-8").decode("latin-1")
            index = self._ask(f"{self._path}{slash}{name}")
            if index.code < 400:
                if self._is_directory:
                    return index(self._environ, start_response)
                close_body(index.body)
                return self._redirect(start_response)
            if index.code != 404:
                return self._failed(index.code, start_response, index)
            close_body(index.body)
        if self._is_directory:
            return self._listing(start_response)
        if self._entries(limit=1):
            return self._redirect(start_response)
        return self._failed(404, start_response)

    def _listing(self, start_response: StartResponse) -> Iterable[bytes]:
        label = self._label()
        if not self._site.has_listings:
            denial = self._denial()
            if denial is not None:
                return self._failed(denial.status, start_response, denial)
            page = no_listing_page(label, self._site.index_name)
            return self._failed(404, start_response, Response(404, {"Content-Type": _HTML}, page))
        answer = ask_app(self._app, self._listing_request())
        if not answer.is_success:
            response = Response(answer.status, answer.headers.as_list(), answer.body)
            return self._failed(answer.status, start_response, response)
        entries = json.loads(answer.body or b"[]")
        if not entries and self._obj:
            return self._failed(404, start_response)
        prefix = wsgi_to_str(self._obj)
        query, scope = self._link_query()
        has_parent = len(prefix) > len(scope)
        page = ListingPage(label, prefix, self._site.css, query, has_parent).render(entries)
        headers = {"Content-Type": _HTML, GENERATOR_HEADER: STATICWEB}
        return Response(200, headers, page)(self._environ, start_response)

    def _entries(self, limit: int) -> bool:
        """Whether there are objects below this path."""
        answer = ask_app(self._app, self._listing_request(limit))
        return answer.is_success and bool(json.loads(answer.body or b"[]"))

    def _listing_request(self, limit: int = 0) -> Environ:
        prefix = self._obj
        if prefix and not prefix.endswith("/"):
            prefix += "/"
        query = "delimiter=/&format=json"
        if prefix:
            query += f"&prefix={quote(prefix, safe='', encoding='latin-1')}"
        if limit:
            query += f"&limit={limit}"
        container_path = "/".join(self._path.split("/", 4)[:4])
        return sub_environ(self._environ, "GET", container_path, _SOURCE, query=query)

    def _label(self) -> str:
        if not self._site.label:
            return wsgi_to_str(self._path)
        return f"{self._site.label}/{wsgi_to_str(self._obj)}"

    def _link_query(self) -> tuple[str, str]:
        """Return the query for links, so that a temporary URL also opens them, and its prefix."""
        if self._environ.get("REMOTE_USER") != TEMPURL_USER:
            return "", ""
        query = self._environ.get("QUERY_STRING", "")
        given = dict(parse_qsl(query, keep_blank_values=True))
        if "temp_url_prefix" not in given:
            return "", wsgi_to_str(self._obj)  # valid for this path alone, not for its links
        kept = [f"{name}={quote(given[name])}" for name in _LINK_PARAMETERS if name in given]
        if "inline" in given:
            kept.append("inline")
        return f"?{escape('&'.join(kept))}", given["temp_url_prefix"]

    def _redirect(self, start_response: StartResponse) -> Iterable[bytes]:
        """Redirect to the path with a slash at its end, so that relative links are correct."""
        denial = self._denial()
        if denial is not None:
            return self._failed(denial.status, start_response, denial)
        environ = self._environ
        scheme = self._base.scheme or environ["wsgi.url_scheme"]
        host = self._base.netloc or environ.get("HTTP_HOST") or _server_name(environ)
        path = environ.get("SCRIPT_NAME", "") + self._path
        location = f"{scheme}://{host}{quote(path, encoding='latin-1')}/"
        return Response(301, {"Location": location, "Content-Type": _HTML})(environ, start_response)

    def _denial(self) -> Response | None:
        """Return the refusal of auth, for answers that need no sub-request."""
        request = Request(self._environ)
        request.acl = self._site.read_acl
        denial: Response | None = self._environ["swift.authorize"](request)
        return denial

    def _failed(
        self, status: int, start_response: StartResponse, response: WSGIApp | None = None
    ) -> Iterable[bytes]:
        """Answer with the owner's error page if there is one, else with the error itself."""
        if self._site.error and status in (401, 404):
            name = f"{status}{self._site.error}".encode().decode("latin-1")
            path = "/".join([*self._path.split("/", 4)[:4], name])
            environ = sub_environ(self._environ, "GET", path, _SOURCE)
            code, headers, body = call_app(self._app, environ)
            if code.startswith("2"):
                if isinstance(response, _Found):
                    close_body(response.body)
                return Response(status, headers, app_iter=body)(self._environ, start_response)
            close_body(body)
        return (response or error_response(status))(self._environ, start_response)

    def _ask(self, path: str) -> _Found:
        """Repeat the client's request for ``path``, with its conditions and ranges."""
        environ = dict(self._environ)
        if path != self._path:
            environ["PATH_INFO"] = path
            environ["swift.source"] = _SOURCE
            environ.pop("swift.proxy_access_log_made", None)
        return _Found(*call_app(self._app, environ))


class StaticWeb:
    """The filter."""

    def __init__(self, app: WSGIApp, options: StaticWebOptions) -> None:
        self._app = app
        self._url_base = options.url_base

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve pages for GET and HEAD of containers that are sites; pass other requests on."""
        if not _is_visitor(environ):
            return self._app(environ, start_response)
        try:
            names = split_path(environ["PATH_INFO"], 2, 4, True)[1:]
            account, container = (wsgi_to_str(name or "") for name in names[:2])
            wsgi_to_str(names[2] or "")
        except (ValueError, BadNameError):
            return self._app(environ, start_response)
        if not container:
            return self._app(environ, start_response)
        info = get_container_info(environ, self._app, account, container, _SOURCE)
        if not 200 <= info["status"] < 300:
            return self._app(environ, start_response)
        site = _Site.of(info, info["meta"])
        obj = names[2] or ""
        if not site.is_on and not obj:
            if not is_true(environ.get("HTTP_X_WEB_MODE")):
                return self._app(environ, start_response)
        elif not site.is_on and not site.error:
            return self._app(environ, start_response)
        return _Visit(self._app, environ, site, obj, self._url_base).serve(start_response)


def _is_visitor(environ: Environ) -> bool:
    """Whether to serve pages: to requests without a token, or that ask for pages."""
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return False
    if "swift.authorize" not in environ:
        return False  # a request that another filter makes
    user = environ.get("REMOTE_USER")
    return not user or user == TEMPURL_USER or is_true(environ.get("HTTP_X_WEB_MODE"))


def _server_name(environ: Environ) -> str:
    return f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], StaticWeb]:
    """PasteDeploy's entry point."""
    options = load_filter_options(StaticWebOptions, "staticweb", global_conf, local_conf)
    register_info("staticweb")
    return lambda app: StaticWeb(app, options)
