"""Clients that upload continuously while servers die, and record acknowledged uploads."""

from __future__ import annotations

import hashlib
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from running_cluster import await_true
from swift_api import Account

_SIZES = (0, 1, 100, 4096, 4096, 4096, 70_000, 300_000)


def content_of(name: str) -> bytes:
    """Return the content of the object of that name: fixed, and unique to the name."""
    seed = hashlib.sha256(name.encode()).digest()
    size = _SIZES[seed[0] % len(_SIZES)]
    return (seed * (size // len(seed) + 1))[:size]


class Uploader:
    """Threads that upload new objects to one container until stopped."""

    def __init__(
        self, port: int, container: str, threads: int = 6, names_max: int | None = None
    ) -> None:
        """Create the threads; each uploads at most ``names_max`` names."""
        self.names_max = names_max
        self.container = container
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._upload, args=(Account(port), f"t{number}"))
            for number in range(threads)
        ]

    def _upload(self, account: Account, prefix: str) -> None:
        number = 0
        while not self._stop.is_set():
            if self.names_max is None or number < self.names_max:
                self._put(account, f"{prefix}-{number:06d}")
                number += 1
            self._between_uploads(account)
        account.close()

    def _put(self, account: Account, name: str) -> None:
        try:
            answer = account.call("PUT", self.container, name, body=content_of(name))
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(repr(error))
            return
        if answer.status == 201:
            self.acknowledged.append(name)
        else:
            self.failures.append(f"{answer.status} {answer.body[:200]!r}")

    def _between_uploads(self, account: Account) -> None:
        """Run between two uploads of a thread; for subclasses."""

    def await_more(self, count: int, seconds: float = 120.0) -> None:
        """Wait until ``count`` more uploads are acknowledged."""
        wanted = len(self.acknowledged) + count
        await_true(
            lambda: len(self.acknowledged) >= wanted,
            f"{count} more acknowledged uploads; last failures {self.failures[-3:]}",
            seconds,
        )

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Upload while the block runs."""
        for thread in self._threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(60)


def assert_nothing_is_lost(account: Account, uploader: Uploader, seconds: float = 120.0) -> None:
    """Check that acknowledged objects are read back unchanged and are listed after updates."""
    assert uploader.acknowledged
    for name in uploader.acknowledged:
        answer = account.call("GET", uploader.container, name)
        assert answer.status == 200, (name, answer.status, answer.body[:200])
        assert answer.body == content_of(name), name
    wanted = set(uploader.acknowledged)
    await_true(
        lambda: wanted <= set(listing(account, uploader.container)),
        "every acknowledged object in the listing",
        seconds,
    )


def listing(account: Account, container: str) -> list[str]:
    """Return all names in a container, read page by page."""
    names: list[str] = []
    while True:
        marker = names[-1] if names else ""
        answer = account.call("GET", container, marker=marker, limit=1000)
        assert answer.status in (200, 204), answer
        if not answer.lines:
            return names
        assert not names or answer.lines[0].encode() > names[-1].encode()
        names += answer.lines
