"""The clients of a cluster with several proxies: each request goes to one of them by chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from s3_client import s3_client
from several_proxies import SeveralProxies
from swift_api import Account

USER, OTHER = ("test:tester", "testing"), ("test2:tester2", "testing2")
#: What a request may raise that gets no answer, or another one than a client expects.
FAILURES = (OSError, HTTPException, BotoCoreError, ClientError)


class Clients:
    """A user of Swift's API and of S3's, and one of another account. Not for several threads."""

    def __init__(self, proxies: Sequence[tuple[str, int]], seed: str) -> None:
        self._chance = random.Random(seed)
        self._proxies = proxies
        self.own = SeveralProxies(
            proxies, *USER, lambda _: self._chance.randrange(len(self._proxies))
        )
        self._other = Account(proxies[0][1], *OTHER)
        self._other.close()
        self._s3 = [s3_client(port) for _, port in proxies]

    @property
    def s3(self) -> Any:
        """A client of boto3 for the next request."""
        return self._chance.choice(self._s3)

    def status_for_other(self, container: str, name: str) -> int:
        """The status of a GET of an object by a user of another account."""
        host, port = self._chance.choice(self._proxies)
        account = Account.with_token(port, self._other.token, self.own.path, host)
        status = account.call("GET", container, name).status
        account.close()
        return status

    def close(self) -> None:
        self.own.close()
        for client in self._s3:
            client.close()


@dataclass(frozen=True)
class Check:
    """A question to the cluster and its right answer."""

    what: str
    ask: Callable[[Clients], object]
    wanted: object

    def finding(self, clients: Clients) -> str:
        """A sentence if the answer is another one; else empty."""
        try:
            found = self.ask(clients)
        except FAILURES as error:
            found = repr(error)
        return (
            ""
            if found == self.wanted
            else f"{self.what}: {_short(found)}, not {_short(self.wanted)}"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
