# SPDX-License-Identifier: Apache-2.0
"""s3token: S3 requests that are signed with EC2 credentials of OpenStack's Keystone.

Place it right of s3api and left of keystoneauth; authtoken is left of s3api. Keystone checks the
signature and names the user and the project. The filter gives the request the headers that
authtoken gives one with a token, so keystoneauth decides as for that user.

With a user of its own that may read credentials, the filter also learns the secret. It keeps it for
a while, and checks signatures itself meanwhile. Bodies in signed chunks need the secret, and so do
forms that are signed in version 4.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from martlet.conf.options import ConfigError, option
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.environ import (
    KEYSTONE_INFO,
    S3_AUTH_DETAILS,
    Environ,
    StartResponse,
    WSGIApp,
)
from martlet.http.headers import environ_key
from martlet.http.response import error_response
from martlet.log import fields, get_logger
from martlet.words.names import str_to_wsgi, wsgi_to_str
from proxy.s3.keystone import UNKNOWN_KEY, Keystone, KeystoneError

log = get_logger("proxy.s3token")

_SECRETS_MAX = 8192
#: Where a request keeps the user that Keystone has named, for the sub-requests that follow.
_KNOWN = "keystone_user"
#: The options of keystoneauth1's plugins that make sense for the user of a service.
_AUTH_OPTION_NAMES = """
    auth_type auth_url username user_id password user_domain_id user_domain_name project_id
    project_name project_domain_id project_domain_name system_scope region_name
    application_credential_id application_credential_name application_credential_secret
    default_domain_id default_domain_name trust_id
"""
AUTH_OPTIONS = frozenset(_AUTH_OPTION_NAMES.split())


@dataclass(frozen=True)
class S3TokenOptions:
    """``[filter:s3token]``, beside the options of a keystoneauth1 plugin."""

    auth_uri: str = option("", "Keystone's address with its version: http://host:5000/v3")
    reseller_prefix: str = option("AUTH", "Prefix of the accounts of projects")
    delay_auth_decision: bool = option(
        False, "Pass on requests that Keystone refuses: another filter may know the user"
    )
    http_timeout: float = option(10.0, "Longest wait for Keystone", "s")
    secret_cache_duration: int = option(60, "How long a secret is kept; 0: not at all", "s")
    insecure: bool = option(False, "Do not verify Keystone's certificate")
    certfile: str = option("", "Authorities that sign it; with keyfile: the client's certificate")
    keyfile: str = option("", "The key of the client's certificate")

    def __post_init__(self) -> None:
        parts = urlsplit(self.auth_uri)
        is_url = parts.scheme in ("http", "https") and parts.hostname
        if self.auth_uri and not is_url:
            raise ValueError("auth_uri must be an http or https URL")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError("auth_uri may not have a user, a query or a fragment")
        if not 0 < self.http_timeout <= 60:
            raise ValueError("http_timeout must be above 0 and at most 60")
        if self.secret_cache_duration < 0:
            raise ValueError("secret_cache_duration may not be negative")


class _User(NamedTuple):
    headers: dict[str, str]
    token: dict[str, Any]

    @property
    def project(self) -> str:
        return self.headers["X-Project-Id"]


class _Known(NamedTuple):
    user: _User
    secret: str
    expires: float


class S3Token:
    """The filter."""

    def __init__(
        self,
        app: WSGIApp,
        options: S3TokenOptions,
        keystone: Keystone,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._prefix = f"{options.reseller_prefix.rstrip('_')}_" if options.reseller_prefix else ""
        self._passes_refused = options.delay_auth_decision
        self._keystone = keystone
        self._seconds = options.secret_cache_duration if keystone.has_user else 0
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}  # by access key; guarded by the lock

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """401 for a signature that Keystone refuses, 503 if it does not answer."""
        details = environ.get(S3_AUTH_DETAILS)
        if details is None:
            return self._app(environ, start_response)
        try:
            user = details.get(_KNOWN) or self._user_of(details)
        except (KeystoneError, UnicodeError) as error:
            log.error("a signature cannot be checked %s", fields(error=error))
            return error_response(503, "The auth service is unavailable.")(environ, start_response)
        if user is not None:
            details[_KNOWN] = user
            self._admit(environ, details, user)
        elif not self._passes_refused:
            return error_response(401, "Unauthorized")(environ, start_response)
        return self._app(environ, start_response)

    def _admit(self, environ: Environ, details: Mapping[str, Any], user: _User) -> None:
        for key in [k for k in environ if k.startswith("HTTP_X_SERVICE_")]:
            del environ[key]
        for name, value in user.headers.items():
            environ[environ_key(name)] = value
        environ[KEYSTONE_INFO] = user.token
        access_key: str = details["access_key"]
        version, _, rest = environ["PATH_INFO"].removeprefix("/").partition("/")
        if rest == access_key or rest.startswith(f"{access_key}/"):
            account = str_to_wsgi(f"{self._prefix}{user.project}")
            environ["PATH_INFO"] = f"/{version}/{account}{rest.removeprefix(access_key)}"

    def _user_of(self, details: dict[str, Any]) -> _User | None:
        access_key = wsgi_to_str(details["access_key"])
        check: Callable[[str], bool] = details["check_signature"]
        with self._lock:
            known = self._known.get(access_key)
        if known is not None and known.expires > self._clock() and check(known.secret):
            return known.user
        if details.get("needs_secret"):
            return self._user_by_secret(access_key, details)
        signature, other = details["signature"], details.get("other_string_to_sign")
        verdict = self._keystone.check(access_key, signature, details["string_to_sign"])
        if verdict.status == 401 and other:
            verdict = self._keystone.check(access_key, signature, other)
        details["is_known"] = verdict.status != UNKNOWN_KEY
        if verdict.token is None:
            return None
        user = _User(headers_of(verdict.token), verdict.token)
        self._learn_secret(access_key, user, check)
        return user

    def _user_by_secret(self, access_key: str, details: dict[str, Any]) -> _User | None:
        """The user of a signature that Keystone cannot check, if the secret proves it."""
        status, secret = self._keystone.credential(access_key)
        details["is_known"] = status != UNKNOWN_KEY
        if secret is None or not details["check_signature"](secret):
            return None
        verdict = self._keystone.owner_of(access_key, secret)
        if verdict.token is None:
            return None
        user = _User(headers_of(verdict.token), verdict.token)
        self._keep(access_key, user, secret)
        return user

    def _learn_secret(self, access_key: str, user: _User, check: Callable[[str], bool]) -> None:
        if self._seconds == 0:
            return
        secret = self._keystone.secret_of(user.headers["X-User-Id"], access_key)
        if secret is not None and check(secret):
            self._keep(access_key, user, secret)

    def _keep(self, access_key: str, user: _User, secret: str) -> None:
        if self._seconds == 0:
            return
        with self._lock:
            if len(self._known) >= _SECRETS_MAX:
                self._known.clear()
            self._known[access_key] = _Known(user, secret, self._clock() + self._seconds)


def headers_of(token: Mapping[str, Any]) -> dict[str, str]:
    """The headers that authtoken would set for a token, as text.

    :raises KeystoneError: the token has no user or no project.
    """
    try:
        token = token["token"]
        user, project = token["user"], token["project"]
        return {
            "X-Identity-Status": "Confirmed",
            "X-Roles": ",".join(str(role["name"]) for role in token["roles"]),
            "X-User-Id": str(user["id"]),
            "X-User-Name": str(user["name"]),
            "X-User-Domain-Id": str(user["domain"]["id"]),
            "X-User-Domain-Name": str(user["domain"]["name"]),
            "X-Project-Id": str(project["id"]),
            "X-Project-Name": str(project["name"]),
            "X-Project-Domain-Id": str(project["domain"]["id"]),
            "X-Project-Domain-Name": str(project["domain"]["name"]),
            "X-Tenant-Id": str(project["id"]),
            "X-Tenant-Name": str(project["name"]),
        }
    except (KeyError, TypeError):
        raise KeystoneError("a token without a user, a project or roles") from None


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], S3Token]:
    """PasteDeploy's entry point."""
    options = load_filter_options(S3TokenOptions, "s3token", global_conf, local_conf, AUTH_OPTIONS)
    if not options.auth_uri:
        raise ConfigError(f"{where('s3token', global_conf)}: auth_uri is needed")
    auth = {name: local_conf[name] for name in AUTH_OPTIONS if local_conf.get(name)}
    if not auth:
        log.warning("s3token has no user of its own: new versions of Keystone refuse its requests")
    is_client_cert = options.certfile and options.keyfile
    verify: bool | str = not options.insecure
    if verify and options.certfile and not is_client_cert:
        verify = options.certfile
    cert = (options.certfile, options.keyfile) if is_client_cert else None
    try:
        url = options.auth_uri.rstrip("/")
        keystone = Keystone(url, auth, options.http_timeout, verify, cert)
    except Exception as error:  # of keystoneauth1's plugins, or it is not installed
        raise ConfigError(f"{where('s3token', global_conf)}: {error}") from None
    return lambda app: S3Token(app, options, keystone)
