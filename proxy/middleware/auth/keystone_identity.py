# SPDX-License-Identifier: Apache-2.0
"""Who asks, as keystonemiddleware's auth_token found out: from the headers that it sets."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.http.environ import Environ
from martlet.words.names import str_to_wsgi

_CONFIRMED = "Confirmed"
#: What auth_token sets, besides the names that begin so for a service.
_HEADERS = """
    DOMAIN_ID DOMAIN_NAME IDENTITY_STATUS IS_ADMIN_PROJECT PROJECT_DOMAIN_ID PROJECT_DOMAIN_NAME
    PROJECT_ID PROJECT_NAME ROLE ROLES TENANT TENANT_ID TENANT_NAME USER USER_DOMAIN_ID
    USER_DOMAIN_NAME USER_ID USER_NAME
"""
_KEYS = tuple(f"HTTP_X_{s}{name}" for s in ("", "SERVICE_") for name in _HEADERS.split())


@dataclass(frozen=True, slots=True)
class Identity:
    """A user in a project, both with id and name; roles are in lower case.

    The ids of the domains are None where Keystone's first API made the token, or where it has no
    project.
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
    """The user of a request; None without a token, or with one that is not valid.

    A client can send all these headers, but not what auth_token says of a token in the environment.
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
    """Make headers of what auth_token sets: it writes text where WSGI has bytes, and None."""
    for key in (*_KEYS, "HTTP_OPENSTACK_SYSTEM_SCOPE"):
        if key in environ:
            value = environ[key]
            if value is None:
                del environ[key]
            else:
                environ[key] = str_to_wsgi(str(value))


def read_roles(text: str) -> frozenset[str]:
    """The roles in a comma-separated list; Keystone does not tell their case apart."""
    return frozenset(role.strip().lower() for role in text.split(",") if role.strip())
