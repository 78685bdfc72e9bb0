# SPDX-License-Identifier: Apache-2.0
"""The S3 API: each request of it becomes requests to the filters and the app to the right.

So users, ACLs, quotas, rate limits, encryption and the access log are those of Swift's API. A
bucket is a container, and an object written through one API is read through the other.

The way of a request: ``wire.addressing`` finds the bucket and the key, ``claims`` the signature
that is to be checked, ``operations`` the function that serves it, with a ``Call``. The auth filter
checks the signature. Place this filter right of cache and directly left of the auth filter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import S3_WRITE, Environ, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.log import fields, get_logger
from martlet.words.names import split_path
from proxy.info_registry import register_info
from proxy.middleware.large_objects.row_etag import pass_listing
from proxy.s3 import cors
from proxy.s3.acl import with_lent
from proxy.s3.actions import access_of
from proxy.s3.bucket_logging import AccessLogs
from proxy.s3.call import Call
from proxy.s3.claims import bucket_of_path, claim_of, is_for_s3, message_of
from proxy.s3.copy_object import source_of
from proxy.s3.encryption import check_encryption
from proxy.s3.forms import is_form, post_form
from proxy.s3.log_delivery import LogDelivery
from proxy.s3.namespace import look_up
from proxy.s3.null_version import name_null
from proxy.s3.object_headers import check_unsupported
from proxy.s3.operations import SLOW, Operation, is_copy, operation_of, subresource_of
from proxy.s3.options import S3Options
from proxy.s3.rows import MARK, split_row
from proxy.s3.slow_answers import answer_in_time
from proxy.s3.unused_parts import drop_replaced_parts
from proxy.s3.website import serve_page
from proxy.s3.wire.addressing import Address, address_of, bucket_in_host, is_bucket_name
from proxy.s3.wire.credentials import ANONYMOUS, Claim, Message
from proxy.s3.wire.errors import S3Error, error_document
from proxy.s3.wire.payload import check_content_sha256

log = get_logger("proxy.s3")


class S3Api:
    """The filter."""

    def __init__(
        self, app: WSGIApp, options: S3Options, clock: Callable[[], float] = time.time
    ) -> None:
        """Create the filter; ``clock`` returns seconds since 1970."""
        self._app = app
        self._options = options
        self._domains = [domain.lower().strip(".") for domain in options.storage_domain]
        self._sites = [domain.lower().strip(".") for domain in options.website_domain]
        self._all_domains = [*self._sites, *self._domains]
        self._is_cluster_wide = options.bucket_namespace == "cluster"
        self._clock = clock
        self._logs: AccessLogs | None = None
        if options.logging_dir:
            path, most = Path(options.logging_dir), options.logging_bytes_max
            delivery = LogDelivery(app, path, options.logging_interval, most, clock)
            self._logs = AccessLogs(delivery, subresource_of, clock)

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        return {} if self._logs is None else self._logs.delivery.gauges()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve requests of the S3 API; pass others on."""
        if not self._is_for_s3(environ):
            return self._pass(environ, start_response)
        call, code, began = None, "", time.monotonic()
        try:
            host, path = environ.get("HTTP_HOST", ""), environ["PATH_INFO"]
            address = address_of(host, path, self._all_domains)
            message = message_of(environ, address)
            if "HTTP_ORIGIN" in environ:  # in one namespace, it suffices for the bucket's rules
                call = self._new_call(environ, address, message, ANONYMOUS)
            if message.method == "OPTIONS":
                response = self._preflight(environ, address, message)
            elif self._is_page(environ):
                call = self._new_call(environ, address, message, ANONYMOUS)
                response = serve_page(call)
            elif is_form(environ, self._domains):
                now = self._clock()
                call, store = post_form(environ, address, self._options, now, self._new_call)
                response = self._respond(call, store)
            else:
                claim = claim_of(message, self._options, self._clock())
                call = self._new_call(environ, address, message, claim)
                response = self._respond(call)
        except Exception as failure:
            error = _known(failure)
            response, code = self._refuse(environ, error), error.code
        if call is not None and "HTTP_ORIGIN" in environ:
            cors.share(call, response)
        if call is not None:
            name_null(call, response.headers)
        request_id = Request(environ).trans_id
        response.headers["x-amz-request-id"] = request_id
        response.headers["x-amz-id-2"] = request_id
        body = response(environ, start_response)
        if self._logs is None or call is None:
            return body
        return self._logs.watch(call, response, code, body, began)

    def _is_for_s3(self, environ: Environ) -> bool:
        return (
            self._is_page(environ)
            or is_for_s3(environ, self._domains)
            or is_form(environ, self._domains)
            or self._is_anonymous(environ)
            or cors.is_preflight(environ)
        )

    def _is_page(self, environ: Environ) -> bool:
        """Whether the request is for the website of a bucket."""
        return bool(self._sites) and bool(bucket_in_host(environ.get("HTTP_HOST", ""), self._sites))

    def _respond(self, call: Call, operation: Operation | None = None) -> Response:
        claim = call.claim
        if claim.chunks is not None and not claim.is_presigned:
            check_content_sha256(claim.content_sha256)
        self._check_address(call.address)
        check_unsupported(call.headers)
        check_encryption(call.headers)
        _check_owner(call)
        chosen = operation or operation_of(call)
        if call.is_form or is_copy(call):
            call.base[S3_WRITE] = "Post" if call.is_form else "Copy"
        call.judge_as(access_of(call, subresource_of(call.params)))
        if chosen not in SLOW:
            return _carry_out(call, chosen)
        return answer_in_time(
            lambda: _carry_out(call, chosen),
            self._options.yield_frequency,
            lambda error: self._refuse_late(call, _known(error)),
        )

    def _new_call(self, environ: Environ, address: Address, message: Message, claim: Claim) -> Call:
        call = Call(self._app, self._options, environ, address, message, claim)
        if self._is_cluster_wide:
            call.owner_of = look_up
        return call

    def _preflight(self, environ: Environ, address: Address, message: Message) -> Response:
        """:raises S3Error: a script may not make the request that it asks about."""
        self._check_address(address)
        claim = cors.preflight_claim(message, self._options, self._clock())
        call = None if claim is None else self._new_call(environ, address, message, claim)
        return cors.preflight(call, address, message, self._options.cors_preflight_allow_origin)

    def _check_address(self, address: Address) -> None:
        must_suit_dns = self._options.dns_compliant_bucket_names
        if address.bucket and not is_bucket_name(address.bucket, must_suit_dns):
            raise S3Error("InvalidBucketName", fields={"BucketName": address.bucket})

    def _is_anonymous(self, environ: Environ) -> bool:
        """Whether a request without a signature names a bucket in its path."""
        if not self._is_cluster_wide:
            return False
        bucket = bucket_of_path(environ)
        if not bucket:
            return False
        address, message = Address(bucket, ""), Message("", "", [], {})
        try:
            call = Call(self._app, self._options, environ, address, message, ANONYMOUS)
            return look_up(call, bucket) is not None
        except S3Error:
            return False

    def _refuse_late(self, call: Call, error: S3Error) -> Response:
        """The document of an error that comes after the status has been sent."""
        call.late_error = error.code
        return self._refuse(call.environ, error)

    def _refuse(self, environ: Environ, error: S3Error) -> Response:
        request_id = Request(environ).trans_id
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        headers = {"Content-Type": "application/xml", **error.headers}
        if environ["REQUEST_METHOD"] == "HEAD" or error.status == 304:
            return Response(error.status, headers)
        body = error_document(error, path, request_id, request_id)
        return Response(error.status, headers, body)

    def _pass(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass a request of Swift's API on; a listing shows what S3 has in its rows."""
        if environ["REQUEST_METHOD"] == "GET" and _is_container(environ["PATH_INFO"]):
            return pass_listing(self._app, environ, start_response, MARK, split_row)
        return self._app(environ, start_response)


def _carry_out(call: Call, operation: Operation) -> Response:
    try:
        return with_lent(call, operation)
    finally:
        drop_replaced_parts(call)


def _known(error: Exception) -> S3Error:
    """The error that the client sees. Another one is logged; call this where it is caught."""
    if isinstance(error, S3Error):
        return error
    log.exception("unhandled error of an S3 request %s", fields(error=error))
    return S3Error("InternalError")


def _check_owner(call: Call) -> None:
    """:raises S3Error: the client expects another owner of a bucket than its account."""
    source = "x-amz-source-expected-bucket-owner"
    for name in ("x-amz-expected-bucket-owner", source):
        expected = call.headers.get(name)
        if expected is None:
            continue
        bucket = source_of(call).bucket if name == source and is_copy(call) else call.bucket
        own = call.own_account()
        owner = call.account_of(bucket) if bucket else own
        if expected != owner and not (owner == own and expected == call.claim.access_key):
            raise S3Error("AccessDenied")


def _is_container(path: str) -> bool:
    try:
        split_path(path, 3, 3)
    except ValueError:
        return False
    return True


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], S3Api]:
    """PasteDeploy's entry point."""
    options = load_filter_options(S3Options, "s3api", global_conf, local_conf)
    shown: dict[str, Any] = {
        "max_bucket_listing": options.max_bucket_listing,
        "max_parts_listing": options.max_parts_listing,
        "max_upload_part_num": options.max_upload_part_num,
        "max_multi_delete_objects": options.max_multi_delete_objects,
        "allow_multipart_uploads": options.allow_multipart_uploads,
        "min_segment_size": options.min_segment_size,
        "s3_acl": False,
    }
    register_info("s3api", **shown)
    return lambda app: S3Api(app, options)
