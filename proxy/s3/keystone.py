# SPDX-License-Identifier: Apache-2.0
"""Requests to Keystone about EC2 credentials: the check of a signature, and the secret of a key.

A string that is signed in version 4 must be one of Amazon's, with a scope, for Keystone to check
the signature. In a form the policy alone is signed. So the secret of the key decides about a form,
and Keystone then checks a text that is signed with the secret here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from martlet.log import fields, get_logger

log = get_logger("proxy.s3token")

#: What Keystone answers for an access key that it does not know.
UNKNOWN_KEY = 404
_PROBE = b"martlet: which user and project has this key?"


class KeystoneError(Exception):
    """Keystone cannot be asked, or its answer makes no sense."""


class Verdict(NamedTuple):
    """Keystone's answer about a signature.

    :param token: the description of the user and the project; None if the signature is refused.
    """

    status: int
    token: dict[str, Any] | None


class Credential(NamedTuple):
    """Keystone's answer about an access key.

    :param secret: None if there is no such key, or if this service may not know it.
    """

    status: int
    secret: str | None


class Keystone:
    """Keystone's API, version 3.

    :param url: with the version, e.g. ``https://keystone.example.com:5000/v3``.
    :param auth: options of a keystoneauth1 plugin, with ``auth_type``: the user of this service.
        Without any, requests have no token; new versions of Keystone refuse those.
    :param verify: for TLS, as keystoneauth1 takes it.
    """

    def __init__(
        self, url: str, auth: Mapping[str, str], timeout: float, verify: bool | str, cert: Any
    ) -> None:
        """:raises ImportError: keystoneauth1 is not installed."""
        loading = importlib.import_module("keystoneauth1.loading")
        session = importlib.import_module("keystoneauth1.session")
        plugin = None
        if auth:
            loader = loading.get_plugin_loader(auth.get("auth_type", "password"))
            given = {name: value for name, value in auth.items() if name != "auth_type"}
            plugin = loader.load_from_options(**given)
        self.has_user = plugin is not None
        self._url = url
        self._session = session.Session(auth=plugin, timeout=timeout, verify=verify, cert=cert)

    def check(self, access_key: str, signature: str, string_to_sign: bytes) -> Verdict:
        """Ask whether a signature is that of the access key.

        :raises KeystoneError: there is no answer.
        """
        credentials = {
            "access": access_key,
            "signature": signature,
            "token": base64.urlsafe_b64encode(string_to_sign).decode("ascii"),
        }
        answer = self._ask("POST", "/s3tokens", json={"credentials": credentials})
        if answer.status_code != 200:
            log.info("Keystone refuses a signature %s", fields(status=answer.status_code))
            return Verdict(answer.status_code, None)
        return Verdict(200, _json_of(answer))

    def secret_of(self, user_id: str, access_key: str) -> str | None:
        """The secret of an access key; None if this service may not know it.

        :raises KeystoneError: there is no answer.
        """
        path = f"/users/{quote(user_id, safe='')}/credentials/OS-EC2/{quote(access_key, safe='')}"
        answer = self._ask("GET", path)
        if answer.status_code != 200:
            log.warning("Keystone gives no secret %s", fields(status=answer.status_code))
            return None
        try:
            return str(_json_of(answer)["credential"]["secret"])
        except (KeyError, TypeError):
            raise KeystoneError("a credential without a secret") from None

    def credential(self, access_key: str) -> Credential:
        """The credential of an access key whose user is not known.

        :raises KeystoneError: there is no answer.
        """
        if not self.has_user:
            return Credential(401, None)
        answer = self._ask("GET", f"/credentials/{hashlib.sha256(access_key.encode()).hexdigest()}")
        if answer.status_code != 200:
            log.info("Keystone gives no credential %s", fields(status=answer.status_code))
            return Credential(answer.status_code, None)
        try:
            blob = json.loads(_json_of(answer)["credential"]["blob"])
            return Credential(200, str(blob["secret"]) if blob["access"] == access_key else None)
        except (KeyError, TypeError, ValueError):
            raise KeystoneError("a credential without a secret") from None

    def owner_of(self, access_key: str, secret: str) -> Verdict:
        """The user and the project of an access key whose secret is known.

        :raises KeystoneError: there is no answer.
        """
        digest = hmac.new(secret.encode(), _PROBE, hashlib.sha1).digest()
        return self.check(access_key, base64.b64encode(digest).decode("ascii"), _PROBE)

    def _ask(self, method: str, path: str, **body: Any) -> Any:
        try:
            return self._session.request(
                f"{self._url}{path}",
                method,
                authenticated=self.has_user,
                raise_exc=False,
                redirect=False,
                log=False,  # the bodies have secrets
                **body,
            )
        except Exception as error:  # of requests, keystoneauth1 and its plugins
            raise KeystoneError(f"{type(error).__name__}: {error}") from None


def _json_of(answer: Any) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        raise KeystoneError("the answer is not JSON") from None
    if not isinstance(found, dict):
        raise KeystoneError("the answer is not an object")
    return found
