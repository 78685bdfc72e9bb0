# SPDX-License-Identifier: Apache-2.0
"""The target of a symlink: in a client's headers, in stored metadata, in the row of a listing.

Clients name a target as percent-encoded ``container/object``. It is stored as system metadata with
normalized percent-encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from martlet.conf.constraints import ConstraintError, Constraints
from martlet.http.response import http_error, plain_error
from martlet.words.names import BadNameError, split_path, wsgi_to_str

#: Headers of clients.
TARGET = "X-Symlink-Target"
TARGET_ACCOUNT = "X-Symlink-Target-Account"
TARGET_ETAG = "X-Symlink-Target-Etag"
TARGET_BYTES = "X-Symlink-Target-Bytes"
#: Stored headers.
STORED_TARGET = "X-Object-Sysmeta-Symlink-Target"
STORED_ACCOUNT = "X-Object-Sysmeta-Symlink-Target-Account"
STORED_ETAG = "X-Object-Sysmeta-Symlink-Target-Etag"
STORED_BYTES = "X-Object-Sysmeta-Symlink-Target-Bytes"
_CLIENT_NAMES = {
    STORED_TARGET: TARGET,
    STORED_ACCOUNT: TARGET_ACCOUNT,
    STORED_ETAG: TARGET_ETAG,
    STORED_BYTES: TARGET_BYTES,
}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a symlink; percent-encoded.

    :param place: ``container/object``.
    :param account: if empty, the account of the symlink.
    """

    place: str
    account: str = ""

    def path(self, link_path: str) -> str:
        """Return the target's WSGI path for a symlink with the WSGI path ``link_path``."""
        version, account, _, _ = split_path(link_path, 4, 4, True)
        named = unquote(self.account, encoding="latin-1") or account
        return f"/{version}/{named}/{unquote(self.place, encoding='latin-1')}"


def wanted_target(headers: Mapping[str, str], link_path: str, constraints: Constraints) -> Target:
    """Return the target that the headers of a client's PUT name.

    :raises HTTPException: (400, 412) it is not a valid path, or it is the symlink itself.
    """
    place = unquote(headers[TARGET], encoding="latin-1")
    container, _, obj = place.partition("/")
    if not container or not obj or not _is_text(place):
        text = f"{TARGET} header must be of the form <container name>/<object name>"
        raise plain_error(412, text)
    target = Target(_quoted(place), _account(headers, constraints))
    if target.path(link_path) == link_path:
        raise http_error(400, "Symlink cannot target itself")
    return target


def _account(headers: Mapping[str, str], constraints: Constraints) -> str:
    value = headers.get(TARGET_ACCOUNT)
    if value is None:
        return ""
    account = unquote(value, encoding="latin-1")
    if not account:
        raise http_error(412, "Account name cannot be empty")
    try:
        constraints.check_account_name(wsgi_to_str(account))
    except (BadNameError, ConstraintError) as error:
        raise http_error(412, str(error)) from None
    return _quoted(account)


def _is_text(value: str) -> bool:
    try:
        return "\x00" not in wsgi_to_str(value)
    except BadNameError:
        return False


def _quoted(value: str) -> str:
    return quote(value, encoding="latin-1")


def stored_target(headers: Mapping[str, str]) -> Target | None:
    """Return the target in the metadata of an object; None if it is not a symlink."""
    place = headers.get(STORED_TARGET)
    return Target(place, headers.get(STORED_ACCOUNT, "")) if place else None


def show_link(headers: MutableMapping[str, str]) -> None:
    """Replace a symlink's stored headers by the headers for clients."""
    for stored, name in _CLIENT_NAMES.items():
        value = headers.pop(stored, None)
        if value is not None:
            headers[name] = value


def row_parameters(target: Target, etag: str | None, size: str | None) -> dict[str, str]:
    """Return the parameters of a symlink's row (``row_etag``)."""
    values = {
        "symlink_target": target.place,
        "symlink_target_account": target.account,
        "symlink_target_etag": etag,
        "symlink_target_bytes": size if etag else None,
    }
    return {name: value for name, value in values.items() if value}
