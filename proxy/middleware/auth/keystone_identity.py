# SPDX-License-Identifier: Apache-2.0
"""The authenticated user, from the headers that keystonemiddleware's auth_token sets."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.http.environ import Environ
from martlet.words.names import str_to_wsgi

_CONFIRMED = "Confirmed"
#: The headers that auth_token sets, also with the prefix SERVICE_.
_HEADERS = """
    DOMAIN_ID DOMAIN_NAME IDENTITY_STATUS IS_ADMIN_PROJECT PROJECT_DOMAIN_ID PROJECT_DOMAIN_NAME
    PROJECT_ID PROJECT_NAME ROLE ROLES TENANT TENANT_ID TENANT_NAME USER USER_DOMAIN_ID
    USER_DOMAIN_NAME USER_ID USER_NAME
"""
_KEYS = tuple(f"HTTP_X_{s}{name}" for s in ("", "SERVICE_") for name in _HEADERS.split())


@dataclass(frozen=True, slots=True)
class Identity:
    """A user in a project, both with id and name; roles are in lower case.

    The domain ids are None for tokens of Keystone's first API and for tokens without a project.
    """

    user_id: str | None
    user_name: str | None
    project_id: str | None
    project_name: str | None
    user_domain_id: str | None
    project_domain_id: str | None
    roles: frozenset[str]
    service_roles: frozenset[str]


def read_identity(environ: Environ) -> Identity | None:
    """Return the user of a request; None without a valid token.

    A client can send all these headers, but not the environ key ``keystone.token_info``.
    """
    token_info = environ.get("keystone.token_info")
    if token_info is None or environ.get("HTTP_X_IDENTITY_STATUS") != _CONFIRMED:
        return None
    if environ.get("HTTP_X_SERVICE_IDENTITY_STATUS", _CONFIRMED) != _CONFIRMED:
        return None
    has_domains = "token" in token_info
    return Identity(
        user_id=environ.get("HTTP_X_USER_ID"),
        user_name=environ.get("HTTP_X_USER_NAME"),
        project_id=environ.get("HTTP_X_PROJECT_ID", environ.get("HTTP_X_TENANT_ID")),
        project_name=environ.get("HTTP_X_PROJECT_NAME", environ.get("HTTP_X_TENANT_NAME")),
        user_domain_id=environ.get("HTTP_X_USER_DOMAIN_ID") if has_domains else None,
        project_domain_id=environ.get("HTTP_X_PROJECT_DOMAIN_ID") if has_domains else None,
        roles=read_roles(environ.get("HTTP_X_ROLES") or ""),
        service_roles=read_roles(environ.get("HTTP_X_SERVICE_ROLES") or ""),
    )


def make_wsgi_headers(environ: Environ) -> None:
    """Turn auth_token's values into WSGI strings: it sets text and None."""
    for key in (*_KEYS, "HTTP_OPENSTACK_SYSTEM_SCOPE"):
        if key in environ:
            value = environ[key]
            if value is None:
                del environ[key]
            else:
                environ[key] = str_to_wsgi(str(value))


def read_roles(text: str) -> frozenset[str]:
    """Return the roles of a comma-separated list; Keystone ignores their case."""
    return frozenset(role.strip().lower() for role in text.split(",") if role.strip())
