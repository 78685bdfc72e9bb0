# SPDX-License-Identifier: Apache-2.0
"""tempauth: authentication with users from the configuration file, tokens, and authorization.

A user has a token, or signs S3 requests with the key (s3api). For each request it authenticates
the user and sets in the environ

- ``REMOTE_USER``: the user's groups, comma-separated (``account,account:user,...``);
- ``swift.authorize(request)``: None if the request is authorized, else the response to send.
  The controllers set ``request.acl`` to the container's ACL before they call it. The hook sets
  ``swift_owner`` for users who may see and change ACLs;
- ``swift.clean_acl(header, value)``: the ACL in its short form, or ValueError;
- ``reseller_request``: True for reseller admins.

Requests for tokens go to ``tempauth_login``. doc/auth.md explains the options.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError, option
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.environ import (
    ACCOUNT_INFO,
    S3_AUTH_DETAILS,
    Environ,
    StartResponse,
    WSGIApp,
)
from martlet.http.request import Request
from martlet.words.names import BadNameError, str_to_wsgi, wsgi_to_str
from proxy.info_registry import register_info
from proxy.lookup.info import Info
from proxy.middleware.auth.acl import clean_acl
from proxy.middleware.auth.tempauth_authorize import (
    TempauthAuthorizer,
    account_in,
    denied,
)
from proxy.middleware.auth.tempauth_login import Login, unauthorized
from proxy.middleware.auth.tempauth_tokens import TokenSigner
from proxy.middleware.auth.tempauth_users import (
    RESELLER_ADMIN,
    USER_OPTION_PREFIXES,
    Resellers,
    User,
    read_users,
)
from proxy.middleware.subrequest import get_account_info
from proxy.s3.policies.guard import guarded
from proxy.s3.wire.policy import NOBODY, Client

#: Tokens that a worker caches after it has checked their signatures.
_KNOWN_TOKENS_MAX = 8192
_URL_SCHEMES = ("default", "http", "https")


@dataclass(frozen=True)
class TempauthOptions:
    """``[filter:tempauth]``, beside ``user_*``, ``user64_*`` and ``[PREFIX_]require_group``."""

    reseller_prefix: str = option(
        "AUTH", "Prefixes of the accounts handled here; the first is the prefix of tokens"
    )
    auth_prefix: str = option("/auth/", "Path under which tokens are issued")
    token_life: int = option(86400, "How long a token is valid", "s")
    token_secret: str = option(
        "",
        "Signs the tokens; the same on every proxy. Empty: derived from the hash path prefix and"
        " suffix of martlet.conf and all users with their keys",
    )
    allow_overrides: bool = option(
        True, "Let filters to the left authorize a request themselves (swift.authorize_override)"
    )
    storage_url_scheme: str = option(
        "default", "Scheme of storage URLs: http, https, or default for that of the request"
    )

    def __post_init__(self) -> None:
        if not self.auth_prefix.strip("/"):
            raise ValueError("auth_prefix may not be empty")
        if self.token_life <= 0:
            raise ValueError("token_life must be positive")
        if self.storage_url_scheme not in _URL_SCHEMES:
            raise ValueError(f"storage_url_scheme must be one of {', '.join(_URL_SCHEMES)}")


class _Identity(NamedTuple):
    user: User
    expires: int


class Tempauth:
    """The filter."""

    def __init__(
        self,
        app: WSGIApp,
        options: TempauthOptions,
        users: dict[str, User],
        resellers: Resellers,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create the filter; ``secret`` signs the tokens, ``clock`` returns seconds since 1970."""
        self._app = app
        self._users = users
        self._clients = {
            user.id: Client(resellers.first + user.account, user.name, user.name, user.id)
            for user in users.values()
        }
        self._resellers = resellers
        self._authorizer = TempauthAuthorizer(resellers)
        self._clock = clock
        self._auth_prefix = f"/{options.auth_prefix.strip('/')}/"
        self._allow_overrides = options.allow_overrides
        self._signer = TokenSigner(secret, resellers.first)
        self._known_tokens: dict[str, _Identity] = {}
        self._login = Login(
            users, self._signer, options.token_life, options.storage_url_scheme, clock
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 401 for an invalid token of tempauth; pass other requests on with hooks set."""
        path: str = environ["PATH_INFO"]
        if path.startswith(self._auth_prefix):
            rest = path[len(self._auth_prefix) - 1 :]
            return self._login.respond(Request(environ), rest)(environ, start_response)
        if self._allow_overrides and environ.get("swift.authorize_override"):
            return self._app(environ, start_response)
        details = environ.get(S3_AUTH_DETAILS)
        if details is not None:
            if not self._admit_signed(environ, details):
                return unauthorized(account_in(path))(environ, start_response)
            return self._app(environ, start_response)
        token = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_X_STORAGE_TOKEN")
        if token and token.startswith(self._resellers.first):
            user = self.user_of(token)
            if user is not None:
                self._admit(environ, user)
            elif self._resellers.first:
                return unauthorized(account_in(path))(environ, start_response)
            else:  # with an empty prefix, the token may belong to another filter
                environ.setdefault("swift.authorize", denied)
        elif self._resellers.prefix_of(account_in(path)):
            self._take_charge(environ)
        elif "" in self._resellers.prefixes:
            if "swift.authorize" not in environ:
                self._take_charge(environ)
        else:
            environ.setdefault("swift.authorize", denied)
        return self._app(environ, start_response)

    def _admit_signed(self, environ: Environ, details: Mapping[str, Any]) -> bool:
        """Admit the user who signed an S3 request; False if the signature is not the user's.

        s3api puts the access key, which is the user's id, in the place of the account.
        """
        access_key: str = details["access_key"]
        try:
            user = self._users.get(wsgi_to_str(access_key))
        except BadNameError:
            user = None
        if user is None or not details["check_signature"](user.key):
            return False
        version, _, rest = environ["PATH_INFO"].removeprefix("/").partition("/")
        if rest == access_key or rest.startswith(f"{access_key}/"):
            account = str_to_wsgi(user.storage_account)
            environ["PATH_INFO"] = f"/{version}/{account}{rest.removeprefix(access_key)}"
        self._admit(environ, user)
        return True

    def user_of(self, token: str) -> User | None:
        """Return the user of ``token``; None if the token is invalid or expired."""
        known = self._known_tokens.get(token)
        if known is None:
            contents = self._signer.read(token, self._key_of)
            if contents is None:
                return None
            known = _Identity(self._users[contents.user], contents.expires)
            if len(self._known_tokens) >= _KNOWN_TOKENS_MAX:
                self._known_tokens.clear()
            self._known_tokens[token] = known
        if known.expires <= self._clock():
            del self._known_tokens[token]
            return None
        return known.user

    def _key_of(self, user_id: str) -> str | None:
        user = self._users.get(user_id)
        return user.key if user else None

    def _take_charge(self, environ: Environ, user: User | None = None) -> None:
        client = NOBODY if user is None else self._clients[user.id]
        environ["swift.authorize"] = guarded(self._app, self._authorizer.authorize, client)
        environ["swift.clean_acl"] = clean_acl
        # For filters to the right; the proxy application replaces this function with its own.
        environ.setdefault(ACCOUNT_INFO, self._account_info)

    def _account_info(self, request: Request, account: str) -> Info:
        return get_account_info(request.environ, self._app, account, "TA")

    def _admit(self, environ: Environ, user: User) -> None:
        groups = user.groups
        service_token = environ.get("HTTP_X_SERVICE_TOKEN")
        if service_token:
            service_user = self.user_of(service_token)
            if service_user is not None:
                groups += service_user.groups
        environ["REMOTE_USER"] = ",".join(groups)
        environ.setdefault("swift.access_logging", {})["user_id"] = user.id
        if RESELLER_ADMIN in groups:
            environ["reseller_request"] = True
        self._take_charge(environ, user)


def derive_secret(cluster: ClusterConf, users: Mapping[str, User]) -> bytes:
    """Return a signing secret, the same on all proxies with the same configuration.

    It covers every user's key, so changing one key invalidates the tokens of all users.
    """
    salts = [cluster.hash.swift_hash_path_prefix, cluster.hash.swift_hash_path_suffix]
    table = sorted((user.id, user.key, user.url, user.groups) for user in users.values())
    text = json.dumps(["martlet tempauth 1", table])
    return hmac.digest(json.dumps(salts).encode("utf-8"), text.encode("utf-8"), "sha256")


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Tempauth]:
    """PasteDeploy's entry point."""
    section = where("tempauth", global_conf)
    resellers = Resellers.from_options(local_conf.get("reseller_prefix", "AUTH"), local_conf)
    own = {
        name: value
        for name, value in local_conf.items()
        if not name.startswith(USER_OPTION_PREFIXES) and name not in resellers.option_names
    }
    options = load_filter_options(TempauthOptions, "tempauth", global_conf, own)
    users = read_users(local_conf, resellers, section)
    if not users:
        raise ConfigError(f"{section}: no user_<account>_<user> option: no user could log in")
    if options.token_secret:
        secret = options.token_secret.encode("utf-8")
    else:
        cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
        secret = derive_secret(cluster, users)
    register_info("tempauth", account_acls=True)
    return lambda app: Tempauth(app, options, users, resellers, secret)
