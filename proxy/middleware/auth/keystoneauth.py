# SPDX-License-Identifier: Apache-2.0
"""keystoneauth: authorization for users of OpenStack's Keystone.

keystonemiddleware's auth_token, to its left, authenticates the user. An account belongs to the
project whose id follows its prefix (``AUTH_<project id>``). keystoneauth sets the same environ keys
as tempauth: ``swift.authorize``, ``swift.clean_acl``, ``reseller_request``. doc/keystone.md
explains the options.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import SYNC_KEY_COUNTS, Environ, HeaderList, StartResponse, WSGIApp
from martlet.log import get_logger
from proxy.middleware.auth.acl import clean_acl
from proxy.middleware.auth.keystone_authorize import KeystoneAuthorizer
from proxy.middleware.auth.keystone_domains import SYSMETA_HEADER, ProjectDomains
from proxy.middleware.auth.keystone_identity import make_wsgi_headers, read_identity, read_roles
from proxy.middleware.auth.keystone_rules import AccountRules
from proxy.s3.policies.guard import guarded
from proxy.s3.wire.policy import NOBODY

log = get_logger("proxy.keystoneauth")

_SHOWN_DOMAIN = "X-Account-Project-Domain-Id"


@dataclass(frozen=True)
class KeystoneauthOptions:
    """``[filter:keystoneauth]``, beside ``[PREFIX_]operator_roles``, ``[PREFIX_]service_roles`` and
    ``[PREFIX_]project_reader_roles``."""

    reseller_prefix: str = option("AUTH", "Prefixes of the accounts handled here")
    reseller_admin_role: str = option(
        "ResellerAdmin", "Role that may do everything in every account"
    )
    system_reader_roles: str = option("", "Roles that may read everything in every account")
    default_domain_id: str = option(
        "default", "Domain whose users and projects may appear by name in ACLs"
    )
    allow_names_in_acls: bool = option(True, "Let ACLs name users and projects of that domain")
    allow_overrides: bool = option(
        True, "Let filters to the left authorize a request themselves (swift.authorize_override)"
    )
    allow_sync_keys: bool = option(
        False,
        "Let a request with a container's X-Container-Sync-Key write objects into it: for "
        "container sync without realms",
    )
    is_admin: bool = option(False, "No longer has an effect")


class Keystoneauth:
    """The filter."""

    def __init__(self, app: WSGIApp, options: KeystoneauthOptions, rules: AccountRules) -> None:
        self._app = app
        self._allow_overrides = options.allow_overrides
        self._allow_sync_keys = options.allow_sync_keys
        domains = ProjectDomains(app, rules, options.default_domain_id, options.allow_names_in_acls)
        self._authorizer = KeystoneAuthorizer(
            rules,
            domains,
            options.reseller_admin_role.lower(),
            read_roles(options.system_reader_roles),
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on with its hooks set."""
        identity = read_identity(environ)
        make_wsgi_headers(environ)
        # Only a client's timestamp counts: the proxy application later gives every request one.
        environ[SYNC_KEY_COUNTS] = self._allow_sync_keys and "HTTP_X_TIMESTAMP" in environ
        if self._allow_overrides and environ.get("swift.authorize_override"):
            return self._app(environ, start_response)
        if identity is None:
            check = self._authorizer.authorize_anonymous
            environ["swift.authorize"] = guarded(self._app, check, NOBODY)
        else:
            environ["REMOTE_USER"] = identity.project_id or ""
            check = functools.partial(self._authorizer.authorize, identity)
            client = self._authorizer.client_of(identity)
            environ["swift.authorize"] = guarded(self._app, check, client)
            if self._authorizer.is_reseller_admin(identity):
                environ["reseller_request"] = True
            access_logging = environ.setdefault("swift.access_logging", {})
            access_logging["user_id"] = identity.user_id or identity.user_name
        environ["swift.clean_acl"] = clean_acl

        def show_domain(status: str, headers: HeaderList, exc_info: Any = None) -> Any:
            stored = SYSMETA_HEADER.lower()
            shown = [(_SHOWN_DOMAIN, v) for k, v in headers if v and k.lower() == stored]
            return start_response(status, [*headers, *shown], exc_info)

        return self._app(environ, show_domain)


def filter_factory(
    global_conf: Mapping[str, str], **local_conf: str
) -> Callable[[WSGIApp], Keystoneauth]:
    """PasteDeploy's entry point."""
    rules = AccountRules(local_conf.get("reseller_prefix", "AUTH"), local_conf)
    options = load_filter_options(
        KeystoneauthOptions, "keystoneauth", global_conf, local_conf, rules.option_names
    )
    if options.is_admin:
        log.warning("option is_admin of keystoneauth no longer has an effect: remove it")
    return lambda app: Keystoneauth(app, options, rules)
