# SPDX-License-Identifier: Apache-2.0
"""Cross-origin requests (CORS): the rules of a bucket, and what they allow a script.

A browser asks before a request (OPTIONS, the preflight), without a signature. If names of buckets
are unique per account, only a presigned URL tells the bucket's account. Other preflights are then
answered as the option ``cors_preflight_allow_origin`` says: it lets a script send its request, and
the rules of the bucket decide whether the script may read the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.claims import bucket_of_path, claim_of
from proxy.s3.options import S3Options
from proxy.s3.wire.addressing import Address
from proxy.s3.wire.cors import (
    METHODS,
    Question,
    Rule,
    answer_of,
    asked_headers,
    document_of_rules,
    rules_of_xml,
)
from proxy.s3.wire.credentials import ANONYMOUS, Claim, Message
from proxy.s3.wire.errors import S3Error

_SETTING = "Cors"
_DOCUMENT_BYTES_MAX = 64 * 1024
_REFUSED = (
    "CORSResponse: This CORS request is not allowed. This is usually because the evalution of "
    "Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers are "
    "not whitelisted by the resource's CORS spec."
)
_DISABLED = "CORSResponse: CORS is not enabled for this bucket."


def get_cors(call: Call) -> Response:
    """GetBucketCors."""
    document = settings.read_now(call, _SETTING)
    if document is None:
        raise S3Error("NoSuchCORSConfiguration", fields={"BucketName": call.bucket})
    return xml(document)


def put_cors(call: Call) -> Response:
    """PutBucketCors."""
    call.require_bucket()
    rules = rules_of_xml(read_document(call, _DOCUMENT_BYTES_MAX))
    settings.write(call, _SETTING, document_of_rules(rules))
    return empty(200)


def delete_cors(call: Call) -> Response:
    """DeleteBucketCors."""
    settings.remove(call, _SETTING)
    return empty(204)


def _rules(call: Call) -> list[Rule] | None:
    """:raises S3Error: they cannot be read, or there is no such bucket."""
    document = settings.read(call, _SETTING)
    return None if document is None else rules_of_xml(document)


# --- requests of scripts


def share(call: Call, response: Response) -> None:
    """Let the script that made the request read the answer, if the rules of the bucket allow it."""
    origin = call.headers.get("origin")
    if not origin or not call.bucket or not call.knows_account:
        return
    try:
        found = answer_of(_rules(call) or (), Question(origin, call.method))
    except S3Error:
        return  # the answer of the request says what is wrong
    if found is not None:
        response.headers.update(found)


def is_preflight(environ: Environ) -> bool:
    """Whether a browser asks about a signed request, which does not tell the bucket's account."""
    asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    is_asked = environ["REQUEST_METHOD"] == "OPTIONS" and bool(environ.get("HTTP_ORIGIN"))
    return is_asked and "authorization" in asked_headers(asked) and bool(bucket_of_path(environ))


def preflight_claim(message: Message, options: S3Options, now: float) -> Claim | None:
    """The claim with which a preflight finds the account; None if the request names none.

    A preflight has no signature of its own, and it does not have the headers that the signature of
    a presigned URL covers. So the access key alone counts: it tells which account is meant.
    """
    if options.bucket_namespace == "cluster":
        return ANONYMOUS
    method = message.headers.get("access-control-request-method", "")
    try:
        claim = claim_of(message._replace(method=method), options, now)
    except S3Error:
        return None
    return claim._replace(sign=lambda secret: claim.signature)


def preflight(
    call: Call | None, address: Address, message: Message, option: Sequence[str]
) -> Response:
    """The answer to OPTIONS.

    :param call: a request that finds the account, None if that is impossible.
    :param option: the origins that are allowed then.
    :raises S3Error: the request is not allowed, or is no preflight.
    """
    origin = message.headers.get("origin")
    if not origin:
        raise S3Error("BadRequest", "Insufficient information. Origin request header needed.")
    method = message.headers.get("access-control-request-method")
    if method not in METHODS:
        text = f"Invalid Access-Control-Request-Method: {method or 'null'}"
        raise S3Error("BadRequest", text)
    asked = asked_headers(message.headers.get("access-control-request-headers", ""))
    question = Question(origin, method, asked)
    rules = _rules_before(option, question) if call is None else _rules_of(call, address, question)
    found = answer_of(rules, question)
    if found is None:
        raise _forbidden(_REFUSED, address, question)
    return Response(200, found)


def _rules_before(option: Sequence[str], question: Question) -> list[Rule]:
    if not option:
        return []
    return [Rule(None, tuple(option), METHODS, ("*",), (), None)]


def _rules_of(call: Call, address: Address, question: Question) -> list[Rule]:
    """:raises S3Error: there is no such bucket, or it has no rules."""
    try:
        if not call.knows_account:
            call.own_account()
        rules = _rules(call)
    except S3Error as error:
        if error.code == "NoSuchBucket":
            raise _forbidden("CORSResponse: Bucket not found", address, question) from None
        if error.status < 500:
            raise _forbidden(_REFUSED, address, question) from None
        raise
    if rules is None:
        raise _forbidden(_DISABLED, address, question)
    return rules


def _forbidden(text: str, address: Address, question: Question) -> S3Error:
    kind = "OBJECT" if address.key else "BUCKET"
    fields = {"Method": question.method, "ResourceType": kind}
    return S3Error("AccessForbidden", text, fields=fields)
