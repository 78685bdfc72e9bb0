# SPDX-License-Identifier: Apache-2.0
"""The payload of ``container.update``: rows of objects (doc/formats/grid-messages.md)."""

from __future__ import annotations

from typing import Any, NamedTuple

from container.record import InvalidRecord, Record, plain_records, record_of
from martlet.http.response import http_error
from martlet.words.names import BadNameError, check_text, str_to_wsgi
from martlet.words.timestamp import Timestamp
from storage.grid_payloads import bad_payload, check_place, unpack

#: Elements of a payload that must be there: up to the rows.
_ELEMENTS_MIN = 7
#: Elements of a row that must be there: up to ``deleted``.
_ROW_MIN = 6
_ROW_MAX = 10
#: For fewer rows the check of each by itself is faster.
_COLUMNWISE_MIN = 4


class GridUpdate(NamedTuple):
    """The elements of the payload; the rows are not checked yet."""

    device: str
    partition: int
    account: str
    container: str
    policy_index: int
    timestamp: str
    rows: list[Any]
    #: The sender follows redirects to shards. Senders of earlier versions do not say it.
    is_redirected: bool

    @property
    def path(self) -> str:
        """The path of this UPDATE in the log, a WSGI string."""
        path = f"/{self.device}/{self.partition}/{self.account}/{self.container}"
        return str_to_wsgi(path)

    def check_names(self) -> None:
        """
        :raises HTTPException: a container cannot have this name.
        """
        for name in (self.account, self.container):
            try:
                check_text(name)
            except BadNameError as error:
                raise http_error(412, str(error)) from None
            if not name or "/" in name:
                raise http_error(400, "Not the name of an account and a container")

    def parsed_timestamp(self) -> Timestamp:
        """
        :raises HTTPException: 400 if it is malformed.
        """
        try:
            return Timestamp(self.timestamp)
        except ValueError:
            raise http_error(400, "Bad timestamp") from None

    def records(self) -> list[Record]:
        """The rows, checked.

        :raises HTTPException: 400 if one of them is wrong.
        """
        if len(self.rows) >= _COLUMNWISE_MIN:
            records = plain_records(self.rows, self.policy_index)
            if records is not None:
                return records
        try:
            return [_record(row, self.policy_index) for row in self.rows]
        except InvalidRecord as error:
            raise http_error(400, str(error)) from None


def read_update(payload: bytes) -> GridUpdate:
    """The update of a payload.

    :raises HandlerError: the payload is wrong.
    """
    values = unpack(payload)
    if len(values) < _ELEMENTS_MIN:
        raise bad_payload(f"it is not an array of {_ELEMENTS_MIN} elements")
    is_redirected = len(values) > _ELEMENTS_MIN and values[_ELEMENTS_MIN] is True
    update = GridUpdate._make([*values[:_ELEMENTS_MIN], is_redirected])
    device, partition, account, container, policy_index, timestamp, rows, _ = update
    check_place(device, partition)
    if not type(account) is type(container) is type(timestamp) is str:
        raise bad_payload("the account, the container and the timestamp are not strings")
    if type(policy_index) is not int:
        raise bad_payload("the storage policy is not a number")
    if type(rows) is not list or not rows:
        raise bad_payload("the rows are not an array")
    return update


def _record(row: Any, policy_index: int) -> Record:
    """
    :raises InvalidRecord: the row is wrong.
    """
    if type(row) is not list or len(row) < _ROW_MIN:
        raise InvalidRecord(f"a row is not an array of {_ROW_MIN} elements")
    name, created_at, size, content_type, etag, deleted = row[:_ROW_MIN]
    content_type_time = metadata_time = version = None
    if len(row) > _ROW_MIN:
        others = [*row[_ROW_MIN:_ROW_MAX], None, None, None, None]
        content_type_time, metadata_time, version, own_policy = others[:4]
        policy_index = policy_index if own_policy is None else own_policy
    times = created_at, content_type_time, metadata_time
    return record_of(name, times, size, content_type, etag, deleted, policy_index, version or "")
