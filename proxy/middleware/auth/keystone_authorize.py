# SPDX-License-Identifier: Apache-2.0
"""Authorization in keystoneauth: access to accounts, containers and objects."""

from __future__ import annotations

import hmac

from martlet.http.environ import SYNC_KEY_COUNTS
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from martlet.words.names import BadNameError
from proxy.middleware.auth.acl import ContainerAcl, parse_acl, referrer_allowed
from proxy.middleware.auth.keystone_domains import ProjectDomains
from proxy.middleware.auth.keystone_identity import Identity
from proxy.middleware.auth.keystone_rules import AccountRules
from proxy.middleware.auth.tempauth_authorize import account_in
from proxy.middleware.auth.tempauth_login import unauthorized
from proxy.s3.wire.policy import NOBODY, Client

_READS = ("GET", "HEAD")


class KeystoneAuthorizer:
    """Authorizes by the user's roles, the container's ACL and the owner of the account."""

    def __init__(
        self,
        rules: AccountRules,
        domains: ProjectDomains,
        reseller_admin_role: str,
        system_reader_roles: frozenset[str],
    ) -> None:
        self._rules = rules
        self._domains = domains
        self._reseller_admin_role = reseller_admin_role
        self._system_reader_roles = system_reader_roles

    def is_reseller_admin(self, identity: Identity) -> bool:
        """Whether the user may do everything in every account."""
        return self._reseller_admin_role in identity.roles

    def client_of(self, identity: Identity) -> Client:
        """The user as policies name it: ids are unique, names are not."""
        if identity.project_id is None or not identity.user_id:
            return NOBODY
        account = self._rules.account_of(identity.project_id)
        grantee = f"{identity.project_id}:{identity.user_id}"
        return Client(account, identity.user_id, identity.user_name or "", grantee)

    def authorize(self, identity: Identity, request: Request) -> Response | None:
        """Return None if an authenticated user is authorized; otherwise 403 or 404."""
        # A COPY is authorized twice; ownership of one end does not hold for the other.
        request.environ.pop("swift_owner", None)
        if request.method == "OPTIONS":
            return None
        try:
            _, account, container, obj = request.split_path(1, 4, True)
        except (ValueError, BadNameError):
            return error_response(404, "The resource could not be found.")
        account = account or ""
        self._domains.note(identity, request, account, container, obj)
        if self.is_reseller_admin(identity):
            request.environ["swift_owner"] = True
            return None
        is_read = request.method in _READS
        if is_read and not self._system_reader_roles.isdisjoint(identity.roles):
            return None
        if container is None and request.method == "DELETE":
            return _forbidden()  # only resellers delete accounts
        acl = parse_acl(request.acl)
        if self._is_in_acl(identity, request, account, acl) or _is_sync(request):
            return None
        is_referred = referrer_allowed(request.environ.get("HTTP_REFERER"), acl.referrers)
        if is_referred and (obj is not None or ".rlistings" in acl.groups):
            return None
        if not self._rules.is_account_of(identity, account):
            return _forbidden()
        if self._is_owner(identity, account):
            request.environ["swift_owner"] = True
            return None
        if is_read and self._is_reader(identity, account):
            return None
        roles_in_acl = frozenset(group.lower() for group in acl.groups)
        if not is_referred and not roles_in_acl.isdisjoint(identity.roles):
            return None
        return _forbidden()

    def authorize_anonymous(self, request: Request) -> Response | None:
        """Return None if anonymous access is authorized; otherwise 401 or 404."""
        if request.method == "OPTIONS":
            return None
        try:
            _, account, _, obj = request.split_path(1, 4, True)
        except (ValueError, BadNameError):
            return error_response(404, "The resource could not be found.")
        if account is not None and self._rules.is_ours(account):
            acl = parse_acl(request.acl)
            if _is_sync(request):
                return None
            is_referred = referrer_allowed(request.environ.get("HTTP_REFERER"), acl.referrers)
            if is_referred and (obj is not None or ".rlistings" in acl.groups):
                return None
        return unauthorized(account_in(request.environ["PATH_INFO"]))

    def _is_in_acl(
        self, identity: Identity, request: Request, account: str, acl: ContainerAcl
    ) -> bool:
        """Whether the ACL names the user: ``project:user``, each as an id, ``*`` or a name.

        Names are unique only within a domain. So they count only if user, project and account all
        belong to the default domain.
        """
        if not acl.groups:
            return False
        projects, users = {identity.project_id, "*"}, {identity.user_id, "*"}
        if self._domains.are_names_unique(identity, request, account):
            projects.add(identity.project_name)
            users.add(identity.user_name)
        return any(f"{project}:{user}" in acl.groups for project in projects for user in users)

    def _is_owner(self, identity: Identity, account: str) -> bool:
        """Whether the user is an operator and, if service roles are set, the service has one."""
        rules = self._rules.rules_of(account)
        if rules.operator_roles.isdisjoint(identity.roles):
            return False
        return not rules.service_roles or not rules.service_roles.isdisjoint(identity.service_roles)

    def _is_reader(self, identity: Identity, account: str) -> bool:
        rules = self._rules.rules_of(account)
        return not rules.project_reader_roles.isdisjoint(identity.roles)


def _is_sync(request: Request) -> bool:
    """Whether it is container sync without realms: the request has the container's key."""
    key = request.environ.get("swift_sync_key")
    if not key or not request.environ.get(SYNC_KEY_COUNTS):
        return False
    given = request.headers.get("X-Container-Sync-Key", "").encode("latin-1")
    return hmac.compare_digest(key.encode(), given)


def _forbidden() -> Response:
    return error_response(403, "Access was denied to this resource.")
