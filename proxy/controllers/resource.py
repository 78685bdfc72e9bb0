# SPDX-License-Identifier: Apache-2.0
"""What a request is about: an account, a container or an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from martlet.http.environ import AUTHORIZE, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.names import quote_path


@dataclass(frozen=True, slots=True)
class Resource:
    """The names in the path of a request, as text; empty where the path ends before."""

    account: str
    container: str = ""
    obj: str = ""

    @property
    def path(self) -> str:
        """The quoted path at the storage servers."""
        if self.obj:
            return quote_path(f"/{self.account}/{self.container}/{self.obj}")
        if self.container:
            return quote_path(f"/{self.account}/{self.container}")
        return quote_path(f"/{self.account}")


@dataclass(frozen=True, slots=True)
class Route:
    """How one method of one kind of resource is served.

    :param delays_denial: the handler asks for authorization itself, once it knows the ACL.
    :param cors: the answer may be for a script of another origin.
    """

    handler: Callable[[Request, Resource], Response]
    delays_denial: bool = False
    cors: bool = False


class Denied(Exception):
    """Authorization refused the request; ``response`` is what the auth system answers."""

    def __init__(self, response: WSGIApp) -> None:
        super().__init__("denied")
        self.response = response


def authorize(req: Request, acl: str | None) -> None:
    """Ask the auth system of the pipeline, if there is one, with the ACL that applies.

    :raises Denied: it says no.
    """
    req.acl = acl
    check = req.environ.get(AUTHORIZE)
    if check is not None and (denial := check(req)) is not None:
        raise Denied(denial)
