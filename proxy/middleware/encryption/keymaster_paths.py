# SPDX-License-Identifier: Apache-2.0
"""Keys from the path of a request, or from the path that is stored with a ciphertext.

A key id is ``{"v": version, "path": path, "secret_id": id}``, without ``secret_id`` for the secret
without an id. The version gives the form of the path, which OpenStack Swift has changed twice:

====  ==================================================================================
1     an object name that begins with a slash replaced the whole path, and its key was
      derived from that; otherwise as version 2
2     text that is not ASCII may be a WSGI string (each byte a character), or plain text
3     text
====  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from martlet.log import fields, get_logger
from martlet.words.names import BadNameError, split_path, str_to_wsgi, wsgi_to_str
from proxy.middleware.encryption.keys import FetchKeys, Keys, UnknownSecretError
from proxy.middleware.encryption.meta import CryptoError, KeyId

log = get_logger("proxy.keymaster")

META_VERSIONS = ("1", "2", "3")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The root secrets of a keymaster.

    :param ids: the ids of all secrets.
    :param active: the id of the secret for writing.
    :param derive: returns the key of an id and a path (text).
    """

    ids: tuple[str | None, ...]
    active: str | None
    derive: Callable[[str | None, str], bytes]


class _Names(NamedTuple):
    """Names of an account and, if present, of a container and an object; text."""

    account: str
    container: str | None
    obj: str | None


class PathKeys:
    """The keys of one request's path."""

    __slots__ = ("_further", "_path_info", "_secrets", "_version")

    def __init__(
        self, secrets: Secrets, version: str, path_info: str, further: FetchKeys | None
    ) -> None:
        """Create it; ``further`` is another keymaster's callable, for secrets not known here."""
        self._secrets = secrets
        self._version = version
        self._path_info = path_info
        self._further = further

    def fetch(self, key_id: KeyId | None = None) -> Keys:
        """See `proxy.middleware.encryption.keys`.

        :raises CryptoError: the key id is malformed, or no keymaster has its secret.
        """
        here = self._requested()
        if key_id is None:
            secret_id, version, named, has_short_path = (
                self._secrets.active,
                self._version,
                here,
                self._version == "1" and (here.obj or "").startswith("/"),
            )
        else:
            secret_id, version = key_id.get("secret_id"), key_id.get("v", "")
            named, has_short_path = _read_path(key_id, here)
        if secret_id not in self._secrets.ids:
            if self._further is not None:
                return self._further(key_id=key_id)
            log.warning("unknown root secret %s", fields(id=secret_id))
            raise UnknownSecretError(f"there is no root secret with the id {secret_id!r:.100}")
        return self._keys(here, named, secret_id, version, has_short_path)

    def _keys(
        self,
        here: _Names,
        named: _Names,
        secret_id: str | None,
        version: str,
        has_short_path: bool,
    ) -> Keys:
        if here.container is None:
            return {}
        path = f"/{named.account}/{named.container}"
        keys: dict[str, object] = {"container": self._secrets.derive(secret_id, path)}
        if here.obj is not None:
            if named.obj is None:
                raise CryptoError("the path of an object's key id names no object")
            path = named.obj if has_short_path else f"{path}/{named.obj}"
            keys["object"] = self._secrets.derive(secret_id, path)
        keys["id"] = _key_id(path, secret_id, version)
        ids = [_key_id(path, id_, version) for id_ in self._secrets.ids]
        if self._further is not None:
            ids.extend(self._further().get("all_ids", ()))
        keys["all_ids"] = ids
        return keys

    def _requested(self) -> _Names:
        try:
            path = wsgi_to_str(self._path_info)
            _, account, container, obj = split_path(path, 2, 4, True)
        except ValueError:
            raise CryptoError("there are no keys for this path") from None
        return _Names(account or "", container, obj)


def _key_id(path: str, secret_id: str | None, version: str) -> KeyId:
    key_id = {"v": version, "path": path if version == "3" else str_to_wsgi(path)}
    if secret_id:
        key_id["secret_id"] = secret_id
    return key_id


def _read_path(key_id: KeyId, here: _Names) -> tuple[_Names, bool]:
    """Return the names in a key id, and whether its path is the object's name alone."""
    version, path = key_id.get("v"), key_id.get("path")
    if version not in META_VERSIONS or not isinstance(path, str):
        raise CryptoError("unknown version of a key id")
    accounts = (f"/{here.account}/", f"/{str_to_wsgi(here.account)}/")
    if version == "1" and not path.startswith(accounts):
        # Account and container are those of the request, unless the object was moved.
        return _Names(here.account, here.container, _as_text(path, here.obj)), True
    try:
        account, container, obj = split_path(path, 1, 3, True)
    except ValueError:
        raise CryptoError("malformed path in a key id") from None
    named = _Names(account or "", container, obj)
    if not _is_here(named, here):
        other = _decoded(named) if version != "3" else named
        if _is_here(other, here):
            return other, False
        # A copy made right of the encryption filter keeps the path of its source.
        log.info("key id has another path %s", fields(path=path))
    return named, False


def _is_here(named: _Names, here: _Names) -> bool:
    """Whether the names match all those in the request."""
    return all(wanted is None or wanted == found for found, wanted in zip(named, here, strict=True))


def _decoded(named: _Names) -> _Names:
    """Return the names decoded, if they are WSGI strings."""
    try:
        return _Names(*(part and wsgi_to_str(part) for part in named))  # type: ignore[arg-type]
    except BadNameError:
        return named


def _as_text(path: str, wanted: str | None) -> str:
    try:
        decoded = wsgi_to_str(path)
    except BadNameError:
        return path
    return decoded if decoded == wanted else path
