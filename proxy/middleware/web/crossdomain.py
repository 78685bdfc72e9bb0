# SPDX-License-Identifier: Apache-2.0
"""``GET /crossdomain.xml``: the policy for Flash, Silverlight and Java in a browser.

Place the filter left of the auth filters: the browser sends no token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response
from proxy.info_registry import register_info

_DOCTYPE = (
    '<!DOCTYPE cross-domain-policy SYSTEM "http://www.adobe.com/xml/dtds/cross-domain-policy.dtd" >'
)


@dataclass(frozen=True)
class CrossDomainOptions:
    """``[filter:crossdomain]``."""

    cross_domain_policy: str = option(
        '<allow-access-from domain="*" secure="false" />', "XML of the policy, one line or several"
    )


class CrossDomain:
    """The filter."""

    def __init__(self, app: WSGIApp, options: CrossDomainOptions) -> None:
        self._app = app
        self._document = (
            f'<?xml version="1.0"?>\n{_DOCTYPE}\n<cross-domain-policy>\n'
            f"{options.cross_domain_policy}\n</cross-domain-policy>"
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer with the policy; pass other requests on."""
        if environ["PATH_INFO"] != "/crossdomain.xml" or environ["REQUEST_METHOD"] != "GET":
            return self._app(environ, start_response)
        headers = {"Content-Type": "application/xml"}
        return Response(200, headers, self._document)(environ, start_response)


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], CrossDomain]:
    """PasteDeploy's entry point."""
    options = load_filter_options(CrossDomainOptions, "crossdomain", global_conf, local_conf)
    register_info("crossdomain")
    return lambda app: CrossDomain(app, options)
