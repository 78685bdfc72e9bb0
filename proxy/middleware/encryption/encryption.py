# SPDX-License-Identifier: Apache-2.0
"""The filter that encrypts objects for the storage servers and decrypts them for clients.

It encrypts bodies, ETags and the values of user metadata. Names, sizes, content types and
timestamps stay in the clear. The formats are OpenStack Swift's (doc/formats/encryption.md), so that
each system reads the other's data. Place the filter right of all filters except proxy-logging, with
a keymaster to its left. See doc/encryption.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.cluster import ClusterConf
from martlet.conf.constraints import Constraints
from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import HTTPException, http_error
from martlet.log import fields, get_logger
from martlet.words.names import BadNameError, wsgi_to_str
from proxy.info_registry import register_info
from proxy.middleware.encryption.meta import CryptoError
from proxy.middleware.encryption.read import read_listing, read_object
from proxy.middleware.encryption.write import post_object, put_object

log = get_logger("proxy.encryption")


@dataclass(frozen=True)
class EncryptionOptions:
    """``[filter:encryption]``."""

    disable_encryption: bool = option(False, "Store new data in the clear; still decrypt old data")


class Encryption:
    """The filter."""

    def __init__(self, app: WSGIApp, options: EncryptionOptions, constraints: Constraints) -> None:
        self._app = app
        self._encrypts = not options.disable_encryption
        self._constraints = constraints

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve PUT, POST, GET and HEAD of objects and GET of containers; pass others on."""
        if environ.get("swift.crypto.override"):
            return self._app(environ, start_response)
        try:
            segments = wsgi_to_str(environ["PATH_INFO"]).split("/", 4)
            if len(segments) == 5 and segments[4]:
                return self._object(environ, start_response)
            if len(segments) >= 4 and segments[3] and environ["REQUEST_METHOD"] == "GET":
                return read_listing(self._app, environ, start_response)
        except BadNameError:
            pass  # the application answers with the error
        except HTTPException as refusal:
            return refusal(environ, start_response)
        except CryptoError as error:
            log.error(
                "event=crypto_failed %s",
                fields(
                    path=environ["PATH_INFO"], reason=error, trans_id=environ.get("swift.trans_id")
                ),
            )
            failure = http_error(500, "The object cannot be encrypted or decrypted.")
            return failure(environ, start_response)
        return self._app(environ, start_response)

    def _object(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method in ("GET", "HEAD"):
            return read_object(self._app, environ, start_response)
        if self._encrypts and method == "PUT":
            return put_object(self._app, environ, start_response, self._constraints)
        if self._encrypts and method == "POST":
            return post_object(self._app, environ, start_response, self._constraints)
        return self._app(environ, start_response)


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], Encryption]:
    """PasteDeploy's entry point."""
    options = load_filter_options(EncryptionOptions, "encryption", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    register_info("encryption", admin=True, enabled=not options.disable_encryption)
    return lambda app: Encryption(app, options, cluster.constraints)
