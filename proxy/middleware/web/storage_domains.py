# SPDX-License-Identifier: Apache-2.0
"""Host names below the domains of the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from martlet.http.environ import Environ


def host_of(environ: Environ) -> tuple[str, str]:
    """Return the request's host name and port (with its colon, or empty); "" for an IPv6 host."""
    host: str = environ.get("HTTP_HOST") or environ.get("SERVER_NAME") or ""
    if host.startswith("["):
        return "", ""
    name, colon, port = host.partition(":")
    return name, colon + port


def dotted(domains: Iterable[str]) -> list[str]:
    """Return the domains of an option, each with one leading dot."""
    return [f".{domain.lower().lstrip('.')}" for domain in domains]


def label_in(name: str, domains: Iterable[str]) -> str | None:
    """Return the part of ``name`` before the first matching domain; None if no domain matches."""
    for domain in domains:
        if name.lower().endswith(domain):
            return name[: -len(domain)]
    return None
