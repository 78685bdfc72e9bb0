# SPDX-License-Identifier: Apache-2.0
"""Provides the keys of the encryption filter: each is derived from a root secret and a path.

The key of a path is HMAC-SHA256(root secret, path), as in OpenStack Swift. Only the root secrets
have to be stored. There may be several, each with its own id: one is used to write, all to read.
See doc/encryption.md.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from martlet.conf.options import ConfigError, load_options, option, read_ini
from martlet.filters.filter_options import where
from martlet.http.environ import FETCH_KEYS, Environ, StartResponse, WSGIApp
from proxy.middleware.encryption.keymaster_paths import META_VERSIONS, PathKeys, Secrets
from proxy.middleware.encryption.keys import FetchKeys

SECRET_OPTION = "encryption_root_secret"
_SECRET_BYTES_MIN = 32
_METHODS = frozenset(["GET", "HEAD", "PUT", "POST"])
_CACHED_KEYS_MAX = 1024


@dataclass(frozen=True)
class KeymasterOptions:
    """``[filter:keymaster]``, beside ``encryption_root_secret_<id>`` for further secrets."""

    encryption_root_secret: str = option("", "At least 32 random bytes, in base64")
    active_root_secret_id: str = option("", "Id of the secret to write with; empty: without id")
    keymaster_config_path: str = option("", "File whose section [keymaster] has the options")
    meta_version_to_write: str = option("2", "Version of the paths in crypto metadata: 1, 2 or 3")

    def __post_init__(self) -> None:
        if self.meta_version_to_write not in META_VERSIONS:
            raise ValueError(f"meta_version_to_write must be one of {', '.join(META_VERSIONS)}")


class Keymaster:
    """The filter; keymasters with other sources of secrets reuse it."""

    def __init__(
        self, app: WSGIApp, secrets: Mapping[str | None, bytes], active: str | None, version: str
    ) -> None:
        self._app = app
        hashes = {id_: hmac.new(secret, digestmod="sha256") for id_, secret in secrets.items()}
        derive = lru_cache(_CACHED_KEYS_MAX)(lambda id_, path: _derive(hashes[id_], path))
        self._secrets = Secrets(tuple(sorted(secrets, key=lambda id_: id_ or "")), active, derive)
        self._version = version

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Offer the keys of the path to the filters on the right."""
        if environ["REQUEST_METHOD"] in _METHODS:
            further: FetchKeys | None = environ.get(FETCH_KEYS)
            keys = PathKeys(self._secrets, self._version, environ["PATH_INFO"], further)
            environ[FETCH_KEYS] = keys.fetch
        return self._app(environ, start_response)


def _derive(keyed: hmac.HMAC, path: str) -> bytes:
    """Return the HMAC of a path; copying a keyed HMAC is faster than creating one."""
    code = keyed.copy()
    code.update(path.encode("utf-8"))
    return code.digest()


def read_secrets(values: Mapping[str, str], section: str) -> dict[str | None, bytes]:
    """Return the root secrets by id among the options of a section.

    :raises ConfigError: a secret is not base64 or is too short.
    """
    secrets: dict[str | None, bytes] = {}
    for name, text in values.items():
        if not is_secret_option(name):
            continue
        try:
            secret = b64decode("".join(text.split()), validate=True)
        except ValueError:
            secret = b""
        if len(secret) < _SECRET_BYTES_MIN:
            # The message omits the value, which may be most of a secret.
            raise ConfigError(
                f"{section}: option {name} must be the base64 of at least {_SECRET_BYTES_MIN} bytes"
            )
        secrets[name.removeprefix(f"{SECRET_OPTION}_") if name != SECRET_OPTION else None] = secret
    return secrets


def is_secret_option(name: str) -> bool:
    """Whether an option holds a root secret."""
    return name == SECRET_OPTION or name.startswith(f"{SECRET_OPTION}_")


def options_of_file(
    path: str, section: str, given: Mapping[str, str], where_given: str
) -> dict[str, str]:
    """Return the options of the file that ``keymaster_config_path`` names, or else ``given``.

    ``given`` holds the options of the filter's own section.

    :raises ConfigError: both places have options, or the file cannot be read.
    """
    if not path:
        return dict(given)
    others = sorted(given.keys() - {"keymaster_config_path", "meta_version_to_write"})
    if others:
        raise ConfigError(
            f"{where_given}: keymaster_config_path is set, so {', '.join(others)} must be in {path}"
        )
    parser = read_ini(Path(path))
    if not parser.has_section(section):
        raise ConfigError(f"{path} has no section [{section}]")
    return {**given, **dict(parser.items(section))}


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], Keymaster]:
    """PasteDeploy's entry point."""
    section = where("keymaster", global_conf)
    path = local_conf.get("keymaster_config_path", "").strip()
    values = options_of_file(path, "keymaster", local_conf, section)
    plain = {name: value for name, value in values.items() if not is_secret_option(name)}
    options = load_options(KeymasterOptions, plain, section)
    secrets = read_secrets(values, section)
    active = options.active_root_secret_id or None
    if active not in secrets:
        wanted = f"{SECRET_OPTION}_{active}" if active else SECRET_OPTION
        raise ConfigError(f"{section}: the root secret to write with, {wanted}, is missing")
    return lambda app: Keymaster(app, secrets, active, options.meta_version_to_write)
