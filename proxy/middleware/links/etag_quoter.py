# SPDX-License-Identifier: Apache-2.0
"""ETags of objects in double quotes, as RFC 7232 requires, where this is enabled.

Swift sends bare MD5 sums, which some CDNs do not accept. ``X-Account-Rfc-Compliant-Etags`` and
``X-Container-Rfc-Compliant-Etags`` (true or false) decide. The container's setting overrides the
account's, which overrides the operator's. Place it right of cache and left of listing_formats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.options import is_true, option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.words.names import BadNameError, split_path, wsgi_to_str
from proxy.info_registry import register_info
from proxy.middleware.subrequest import get_account_info, get_container_info

_SOURCE = "EQ"
_SETTING = "rfc-compliant-etags"
_SETTING_KEY = "RFC_COMPLIANT_ETAGS"


@dataclass(frozen=True)
class EtagQuoterOptions:
    """``[filter:etag-quoter]``."""

    enable_by_default: bool = option(
        False, "Quote ETags unless the account's or the container's setting overrides it"
    )


class EtagQuoter:
    """The filter."""

    def __init__(self, app: WSGIApp, options: EtagQuoterOptions) -> None:
        self._app = app
        self._is_default = options.enable_by_default

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Quote ETags in answers about objects; store the setting of accounts and containers."""
        try:
            _, account, container, obj = split_path(environ["PATH_INFO"], 2, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        if obj is not None and account and container:
            return self._object(environ, start_response, account, container)
        kind = "Container" if container else "Account"
        _store_setting(environ, kind.upper())
        status, headers, body = call_app(self._app, environ)
        start_response(status, _shown(headers, kind))
        return body

    def _object(
        self, environ: Environ, start_response: StartResponse, account: str, container: str
    ) -> Iterable[bytes]:
        status, headers, body = call_app(self._app, environ)
        for position, (name, value) in enumerate(headers):
            if name.lower() == "etag" and not _is_quoted(value):
                if self._wants_quotes(environ, account, container):
                    headers = [*headers]
                    headers[position] = (name, f'"{value}"')
                break
        start_response(status, headers)
        return body

    def _wants_quotes(self, environ: Environ, wsgi_account: str, wsgi_container: str) -> bool:
        try:
            account, container = wsgi_to_str(wsgi_account), wsgi_to_str(wsgi_container)
        except BadNameError:
            return self._is_default
        # By now the application has cached the infos in the environ.
        of_container = get_container_info(environ, self._app, account, container, _SOURCE)
        setting = of_container["sysmeta"].get(_SETTING)
        if not setting:
            of_account = get_account_info(environ, self._app, account, _SOURCE)
            setting = of_account["sysmeta"].get(_SETTING)
        return is_true(setting) if setting else self._is_default


def _is_quoted(etag: str) -> bool:
    return len(etag) > 1 and etag.startswith(('"', 'W/"')) and etag.endswith('"')


def _store_setting(environ: Environ, kind: str) -> None:
    """Turn the client's header into the system metadata that stores it."""
    value = environ.get(f"HTTP_X_{kind}_{_SETTING_KEY}")
    if environ.get(f"HTTP_X_REMOVE_{kind}_{_SETTING_KEY}"):
        value = ""
    if value is not None:
        kept = str(is_true(value)) if value else ""
        environ[f"HTTP_X_{kind}_SYSMETA_{_SETTING_KEY}"] = kept


def _shown(headers: HeaderList, kind: str) -> HeaderList:
    kept_name = f"x-{kind.lower()}-sysmeta-{_SETTING}"
    public_name = f"X-{kind}-Rfc-Compliant-Etags"
    return [(public_name if n.lower() == kept_name else n, v) for n, v in headers]


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], EtagQuoter]:
    """PasteDeploy's entry point."""
    options = load_filter_options(EtagQuoterOptions, "etag-quoter", global_conf, local_conf)
    register_info("etag_quoter", enable_by_default=options.enable_by_default)
    return lambda app: EtagQuoter(app, options)
