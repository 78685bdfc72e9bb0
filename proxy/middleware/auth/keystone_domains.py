# SPDX-License-Identifier: Apache-2.0
"""The Keystone domain of an account's project, and whether names in ACLs can be trusted.

Names of users and projects are unique only within a domain. ACLs with names date from the time
when there was only the default domain. So an account stores the domain of its project as system
metadata when it is created.
"""

from __future__ import annotations

from martlet.http.environ import WSGIApp
from martlet.http.request import Request
from martlet.log import fields, get_logger
from proxy.middleware.auth.keystone_identity import Identity
from proxy.middleware.auth.keystone_rules import AccountRules
from proxy.middleware.subrequest import get_account_info

log = get_logger("proxy.keystoneauth")

SYSMETA = "project-domain-id"
SYSMETA_HEADER = "X-Account-Sysmeta-Project-Domain-Id"
#: The domain of an account that a user of another project created.
_UNKNOWN = "_unknown"
_SOURCE = "KS"


class ProjectDomains:
    """Stores the domains of accounts and decides whether names are unique."""

    def __init__(
        self, app: WSGIApp, rules: AccountRules, default_domain_id: str, allows_names: bool
    ) -> None:
        self._app = app
        self._rules = rules
        self._default = default_domain_id
        self._allows_names = allows_names

    def note(
        self,
        identity: Identity,
        request: Request,
        account: str,
        container: str | None,
        obj: str | None,
    ) -> None:
        """Make a request that creates or changes an account store the domain of its project.

        A PUT of a container may also create the account.
        """
        headers = request.headers
        methods = ("PUT",) if container else ("PUT", "POST")
        if obj is not None or request.method not in methods or SYSMETA_HEADER in headers:
            return
        exists, stored = self._stored(request, account)
        is_own = self._rules.is_account_of(identity, account)
        said = identity.project_domain_id if is_own else None
        domain: str | None = None
        if not exists:
            domain = said if is_own else _UNKNOWN
        elif stored is None and said == self._default:
            domain = said  # the account is older than domains
        elif stored == _UNKNOWN and is_own:
            domain = said or ""
        elif is_own and stored != said:
            log.warning(
                "domains of account and token differ %s",
                fields(account=account, stored=stored, token=said),
            )
        if domain is not None:
            headers[SYSMETA_HEADER] = domain

    def are_names_unique(self, identity: Identity, request: Request, account: str) -> bool:
        """Whether user, project and account are in the default domain or older than domains."""
        if not self._allows_names:
            return False
        for domain in (identity.user_domain_id, identity.project_domain_id):
            if domain and domain != self._default:
                return False
        if self._rules.is_account_of(identity, account):
            return True
        exists, stored = self._stored(request, account)
        return exists and stored in (self._default, None)

    def _stored(self, request: Request, account: str) -> tuple[bool, str | None]:
        """Return whether the account exists, and its stored domain."""
        info = get_account_info(request.environ, self._app, account, _SOURCE)
        exists = 200 <= info["status"] < 300 and info.get("account_really_exists", True)
        return exists, info["sysmeta"].get(SYSMETA)
