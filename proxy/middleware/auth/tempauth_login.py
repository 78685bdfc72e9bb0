# SPDX-License-Identifier: Apache-2.0
"""Tokens of tempauth on request: ``GET /auth/v1.0`` with user and key in headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

from martlet.http.request import Request
from martlet.http.response import Response, error_response
from martlet.log import fields, get_logger
from martlet.words.names import BadNameError, str_to_wsgi, wsgi_to_str
from proxy.middleware.auth.tempauth_tokens import TokenSigner
from proxy.middleware.auth.tempauth_users import User

log = get_logger("proxy.tempauth")

#: Compared with the key when there is no such user, so that the answer takes the same time.
_NOBODY = User("", "", "", "", ())


class Login:
    """Answers requests for tokens.

    ============================= ================================= ==============================
    path                          user                              key
    ============================= ================================= ==============================
    /auth/v1.0, /auth/auth        X-Auth-User or X-Storage-User:    X-Auth-Key or X-Storage-Pass
                                  ``account:user``
    /auth/v1/<account>/auth       X-Storage-User: ``user``, or      X-Storage-Pass or X-Auth-Key
                                  X-Auth-User: ``account:user``
    ============================= ================================= ==============================
    """

    def __init__(
        self,
        users: Mapping[str, User],
        signer: TokenSigner,
        token_life_seconds: int,
        storage_url_scheme: str,
        clock: Callable[[], float],
    ) -> None:
        self._users = users
        self._signer = signer
        self._token_life = token_life_seconds
        self._scheme = storage_url_scheme
        self._clock = clock

    def respond(self, request: Request, path: str) -> Response:
        """Return 200 with token and storage URL, or 400, 401, 404 or 405.

        ``path`` is the part after the auth prefix, with its leading slash.
        """
        if request.method != "GET":
            return error_response(405, "Request a token with GET.", {"Allow": "GET"})
        parts = path[1:].split("/")
        if not parts[0]:
            return error_response(404, "Request a token at v1.0.")
        try:
            if parts[0] in ("v1.0", "auth"):
                realm, user_id, key = _general_credentials(request)
            elif len(parts) >= 3 and parts[0] == "v1" and parts[1] and parts[2] == "auth":
                realm, user_id, key = _account_credentials(request, parts[1])
            else:
                return error_response(400, "Request a token at v1.0 or v1/<account>/auth.")
        except BadNameError as error:
            return error_response(400, str(error))
        return self._respond_to(request, realm, user_id, key)

    def _respond_to(self, request: Request, realm: str, user_id: str, key: str) -> Response:
        user = self._users.get(user_id)
        # Compare the key in every case, so that the time does not depend on the user.
        is_right = (user or _NOBODY).has_key(key)
        if user is None or not key or not is_right:
            log.info("login refused %s", fields(user=user_id, trans_id=request.trans_id))
            return unauthorized(str_to_wsgi(realm))
        request.environ.setdefault("swift.access_logging", {})["user_id"] = user.id
        token = self._signer.issue(user.id, user.key, int(self._clock()) + self._token_life)
        headers = {
            "X-Auth-Token": token,
            "X-Storage-Token": token,
            "X-Auth-Token-Expires": str(self._token_life),
            "X-Storage-Url": self._storage_url(request, user),
            "Content-Type": "text/plain",
        }
        return Response(200, headers)

    def _storage_url(self, request: Request, user: User) -> str:
        environ = request.environ
        host = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
        url = user.url.replace("$HOST", f"{environ['wsgi.url_scheme']}://{host}")
        if self._scheme == "default":
            return url
        return f"{self._scheme}:{url.partition(':')[2]}"


def _general_credentials(request: Request) -> tuple[str, str, str]:
    """Return realm, user id and key of a request that names the account with the user."""
    get = request.headers.get
    user_id = wsgi_to_str(get("X-Auth-User") or get("X-Storage-User") or "")
    key = wsgi_to_str(get("X-Auth-Key") or get("X-Storage-Pass") or "")
    account, colon, _ = user_id.partition(":")
    return account if colon else "", user_id, key


def _account_credentials(request: Request, wsgi_account: str) -> tuple[str, str, str]:
    """Return realm, user id and key of a request that names the account in its path."""
    get = request.headers.get
    account = wsgi_to_str(wsgi_account)
    key = wsgi_to_str(get("X-Storage-Pass") or get("X-Auth-Key") or "")
    name = wsgi_to_str(get("X-Storage-User") or "")
    if name:
        return account, f"{account}:{name}", key
    user_id = wsgi_to_str(get("X-Auth-User") or "")
    return account, user_id if user_id.startswith(f"{account}:") else "", key


def unauthorized(wsgi_realm: str) -> Response:
    """Return 401 with the challenge for an account, whose name may be empty."""
    realm = quote(wsgi_realm, encoding="latin-1") or "unknown"
    text = "This request requires a valid token or a valid user and key."
    return error_response(401, text, {"WWW-Authenticate": f'Swift realm="{realm}"'})
