# SPDX-License-Identifier: Apache-2.0
"""The response body of a logged request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from proxy.middleware.access_log.request_record import RequestRecord


class LoggedBody:
    """A response body that calls ``finish(record, status)`` when it is closed, once."""

    def __init__(
        self,
        body: Iterable[bytes],
        record: RequestRecord,
        finish: Callable[[RequestRecord, int], None],
    ) -> None:
        self._body = body
        self._chunks = iter(body)
        self._record: RequestRecord | None = record
        self._finish = finish
        # The answer to HEAD is complete without its body.
        self._status_at_close = record.status if record.method == "HEAD" else 499

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        record = self._record
        try:
            chunk = next(self._chunks)
        except StopIteration:
            if record is not None:
                self._status_at_close = record.status
            raise
        except Exception:
            self._status_at_close = 500
            raise
        if record is not None:
            record.bytes_sent += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the inner body and finish the request."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            if self._record is not None:
                record, self._record = self._record, None
                self._finish(record, self._status_at_close)
