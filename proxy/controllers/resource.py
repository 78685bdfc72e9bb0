# SPDX-License-Identifier: Apache-2.0
"""The resource of a request, which is an account, a container or an object, and its route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from martlet.http.environ import AUTHORIZE, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.names import quote_path


class Resource(NamedTuple):
    """The names in the path of a request, as text; empty if the path does not have them."""

    account: str
    container: str = ""
    obj: str = ""

    @property
    def path(self) -> str:
        """The quoted path for the storage servers."""
        if self.obj:
            return quote_path(f"/{self.account}/{self.container}/{self.obj}")
        if self.container:
            return quote_path(f"/{self.account}/{self.container}")
        return quote_path(f"/{self.account}")


@dataclass(frozen=True, slots=True)
class Route:
    """The handler of one method of one kind of resource.

    :param delays_denial: the handler calls `authorize` itself, once it knows the ACL.
    :param cors: the answer may be for a script of another origin.
    """

    handler: Callable[[Request, Resource], Response]
    delays_denial: bool = False
    cors: bool = False


class Denied(Exception):
    """Authorization refused the request; ``response`` is the auth system's answer."""

    def __init__(self, response: WSGIApp) -> None:
        super().__init__("denied")
        self.response = response


def authorize(req: Request, acl: str | None) -> None:
    """Call the check of the pipeline's auth system, if there is one, with the ACL that applies.

    :raises Denied: the check refuses the request.
    """
    req.acl = acl
    check = req.environ.get(AUTHORIZE)
    if check is not None and (denial := check(req)) is not None:
        raise Denied(denial)
