# SPDX-License-Identifier: Apache-2.0
"""The logging of buckets: its setting, and the lines about requests.

A line is about a request of S3 for a bucket that has the setting. It is made when the answer ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from martlet.http.request import Request
from martlet.http.response import Response
from martlet.log import fields, get_logger
from martlet.words.names import wsgi_to_str
from proxy.middleware.subrequest import close_body
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.log_delivery import LogDelivery, Place
from proxy.s3.wire.access_line import Access, line_of, operation_name
from proxy.s3.wire.bucket_logging import SETTING, target_of_xml, xml_of_target
from proxy.s3.wire.errors import S3Error

log = get_logger("proxy.access_logs")

_DOCUMENT_BYTES_MAX = 64 * 1024


def get_logging(call: Call) -> Response:
    """GetBucketLogging."""
    document = settings.read_now(call, SETTING)
    return xml(xml_of_target(None) if document is None else document)


def put_logging(call: Call) -> Response:
    """PutBucketLogging. An empty document ends it."""
    call.require_bucket()
    target = target_of_xml(read_document(call, _DOCUMENT_BYTES_MAX))
    if target is None:
        settings.remove(call, SETTING)
        return empty(200)
    if not call.options.logging_dir:
        raise S3Error("NotImplemented", "The operator has not enabled access logs.")
    _check_target(call, target.bucket)
    settings.write(call, SETTING, xml_of_target(target))
    return empty(200)


def _check_target(call: Call, bucket: str) -> None:
    """:raises S3Error: there is no such bucket, or it is another account's or client's."""
    refusal = S3Error("InvalidTargetBucketForLogging", fields={"TargetBucket": bucket})
    try:
        is_own = call.account_of(bucket) == call.account_of(call.bucket)
        found = is_own and call.ask("HEAD", bucket, allowed=(403, 404)).is_success
    except S3Error:
        raise refusal from None
    if not found:
        raise refusal


class AccessLogs:
    """Makes the lines about requests, and hands them to the delivery."""

    def __init__(
        self,
        delivery: LogDelivery,
        subresource_of: Callable[[Mapping[str, str]], str],
        clock: Callable[[], float],
    ) -> None:
        """Create it; ``clock`` returns seconds since 1970."""
        self.delivery = delivery
        self._subresource_of = subresource_of
        self._clock = clock

    def watch(
        self, call: Call, response: Response, error_code: str, body: Iterable[bytes], began: float
    ) -> Iterable[bytes]:
        """The body of an answer, whose end makes a line if the bucket wants one.

        :param began: the time of the request, as ``time.monotonic`` has it.
        """
        knows_account = call.knows_account  # not yet, if white space precedes a slow answer
        place = self._place_of(call) if knows_account else None
        if place is None and knows_account:
            return body
        answer = _Answer(response, error_code, began)
        return _Watched(body, lambda sent: self._note(call, place, answer, sent))

    def _place_of(self, call: Call) -> Place | None:
        """Where the line goes; None if the bucket wants none, or does not exist."""
        try:
            document = settings.read(call, SETTING) if call.bucket else None
            target = None if document is None else target_of_xml(document)
            if target is None:
                return None
            return Place(wsgi_to_str(call.account_of(call.bucket)), target.bucket, target.prefix)
        except S3Error:
            return None

    def _note(self, call: Call, place: Place | None, answer: _Answer, sent: _Sent) -> None:
        """Make the line.

        :param place: None if the account was unknown when the answer began.
        """
        try:
            place = place or (self._place_of(call) if call.knows_account else None)
            if place is not None:
                self.delivery.put(place, line_of(self._access(call, place, answer, sent)))
        except Exception as error:  # the request has been served
            log.exception("a line of an access log is lost %s", fields(error=error))

    def _access(self, call: Call, place: Place, answer: _Answer, sent: _Sent) -> Access:
        environ, claim = call.environ, call.claim
        response, error_code, began = answer
        name = self._subresource_of(call.params)
        is_copy = call.method == "PUT" and "x-amz-copy-source" in call.headers
        path = environ.get("RAW_PATH_INFO") or Request(environ).path
        query = environ.get("QUERY_STRING")
        target = f"{path}?{query}" if query else path
        is_object = bool(call.key) and not name and response.status in (200, 206)
        size = _size_of(response) if is_object and call.method in ("GET", "HEAD") else None
        # The answer names the null version as the client does.
        version = response.headers.get("x-amz-version-id") or call.params.get("versionId", "")
        return Access(
            owner=place.account,
            bucket=call.bucket,
            received=self._clock() - (sent.ended - began),
            address=str(environ.get("REMOTE_ADDR") or ""),
            requester="" if claim.is_anonymous else call.owner_id,
            request_id=Request(environ).trans_id,
            operation=operation_name(call.method, name, bool(call.key), is_copy),
            key=call.key,
            request_line=f"{call.method} {target} {environ.get('SERVER_PROTOCOL', 'HTTP/1.1')}",
            status=response.status,
            error_code=call.late_error or error_code,
            bytes_sent=sent.count,
            object_size=size,
            seconds=sent.ended - began,
            turn_around=sent.began - began,
            referer=str(environ.get("HTTP_REFERER") or ""),
            user_agent=str(environ.get("HTTP_USER_AGENT") or ""),
            version=str(version or ""),
            signature_version="" if claim.is_anonymous else _signature_version(call),
            authentication=_authentication(call),
            host=str(environ.get("HTTP_HOST") or ""),
        )


def _signature_version(call: Call) -> str:
    return "SigV2" if call.claim.signing_key is None and not call.claim.needs_secret else "SigV4"


def _authentication(call: Call) -> str:
    if call.claim.is_anonymous:
        return ""
    return "QueryString" if call.claim.is_presigned else "AuthHeader"


def _size_of(response: Response) -> int | None:
    """The size of a whole object, from the headers of an answer."""
    text = str(response.headers.get("content-range", "")).rpartition("/")[2]
    text = text or str(response.headers.get("content-length", ""))
    return int(text) if text.isdecimal() else None


class _Answer(NamedTuple):
    response: Response
    error_code: str
    began: float


class _Sent:
    """The part of an answer that is sent; times as ``time.monotonic`` has them."""

    def __init__(self) -> None:
        self.count = 0
        self.began = self.ended = time.monotonic()


class _Watched:
    """A body that tells once when it has ended or is closed."""

    def __init__(self, body: Iterable[bytes], tell: Callable[[_Sent], None]) -> None:
        self._body = body
        self._tell: Callable[[_Sent], None] | None = tell
        self._sent = _Sent()

    def __iter__(self) -> Iterator[bytes]:
        try:
            for piece in self._body:
                self._sent.count += len(piece)
                yield piece
        finally:
            self.close()

    def close(self) -> None:
        """Close the body, and tell of it."""
        tell, self._tell = self._tell, None
        if tell is not None:
            close_body(self._body)
            self._sent.ended = time.monotonic()
            tell(self._sent)
