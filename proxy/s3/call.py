# SPDX-License-Identifier: Apache-2.0
"""One S3 request while it is served, and the requests that it makes to the rest of the pipeline.

The auth filter checks the signature in each of these requests (``s3api.auth_details``). It puts
the account in the place of the access key in the path.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import (
    ACCESS_LOGGING,
    KEYSTONE_IDENTITY,
    KEYSTONE_INFO,
    NULL_MARKER,
    REPLACED_UPLOADS,
    S3_ACCESS,
    S3_AUTH_DETAILS,
    Environ,
    WSGIApp,
)
from martlet.http.headers import Headers
from martlet.http.response import Response
from martlet.words.names import str_to_wsgi, wsgi_to_str
from proxy.lookup.info import Info
from proxy.middleware.subrequest import (
    Answered,
    close_body,
    environ_of,
    get_container_info,
    is_shared,
    read_body,
)
from proxy.replicas.locks import LOCKED
from proxy.s3.options import S3Options
from proxy.s3.policies.acts import Access
from proxy.s3.wire.addressing import Address
from proxy.s3.wire.credentials import Claim, Message
from proxy.s3.wire.errors import S3Error, invalid_argument

SOURCE = "S3"
_API_VERSION = "v1"
_INT_MAX = 2**31 - 1
#: A token, or what a filter to the left has allowed, must not add rights to a signature.
_OTHER_RIGHTS = frozenset(
    [
        "HTTP_X_AUTH_TOKEN",
        "HTTP_X_STORAGE_TOKEN",
        "HTTP_X_SERVICE_TOKEN",
        "HTTP_X_IDENTITY_STATUS",
        "HTTP_X_SERVICE_IDENTITY_STATUS",
        KEYSTONE_IDENTITY,
        KEYSTONE_INFO,
        "REMOTE_USER",
        "reseller_request",
        "swift.authorize",
        "swift.authorize_override",
        "swift_owner",
    ]
)

Query = Mapping[str, str]

#: Of AccessDenied, as Amazon says it.
PROTECTED = "Access Denied because object protected by object lock."


class Proof:
    """The check of a claim, which the auth filter calls with the secret of the access key."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._signing_key: bytes | None = None
        #: Whether the auth filter knows the access key.
        self.was_asked = False

    def check(self, secret: str) -> bool:
        """Whether the secret gives the signature of the request."""
        self.was_asked = True
        if not self._claim.is_proved_by(secret):
            return False
        if self._claim.signing_key is not None:
            self._signing_key = self._claim.signing_key(secret)
        return True

    def signing_key(self) -> bytes:
        """The key of the signatures of chunks.

        :raises S3Error: the signature of the request has not been accepted.
        """
        if self._signing_key is None:
            text = "Signed chunks cannot be checked here, since the secret is not known."
            raise S3Error("AccessDenied", text)
        return self._signing_key


class Call:
    """A request of a client."""

    def __init__(
        self,
        app: WSGIApp,
        options: S3Options,
        environ: Environ,
        address: Address,
        message: Message,
        claim: Claim,
    ) -> None:
        """Prepare the requests of a client; none is made yet."""
        self.options = options
        self.environ = environ
        self.address = address
        self.bucket, self.key = address.bucket, address.key
        self.method: str = environ["REQUEST_METHOD"]
        self.headers = message.headers
        self.claim = claim
        self.proof = Proof(claim)
        self.params = {_text(name): _text(value) for name, value in message.query}
        self.app = app
        #: Whether the body is the file of a form, whose length is not known before its end.
        self.is_form = False
        #: The code of an error that came after the status had been sent; empty without one.
        self.late_error = ""
        #: The ids in the pipeline of null versions that the client calls null.
        self.null_ids: set[str] = set()
        #: What the request does, in the words of policies; the requests to the pipeline have it.
        self.access: Access | None = None
        self._account: str | None = None
        self._is_authenticated = claim.is_anonymous
        #: The accounts of buckets, where names are unique in the cluster; None for free names.
        self._owners: dict[str, str | None] = {}
        self.owner_of: Callable[[Call, str], str | None] | None = None
        #: Shared by all requests to the pipeline; the auth filters keep there what they learn.
        self._details: dict[str, Any] = {
            "access_key": claim.access_key,
            "signature": claim.signature,
            "string_to_sign": claim.string_to_sign,
            "other_string_to_sign": claim.other_string,
            "check_signature": self.proof.check,
            "needs_secret": claim.needs_secret,
        }
        if not claim.is_anonymous:
            environ.setdefault(ACCESS_LOGGING, {}).setdefault("user_id", claim.access_key[:128])
        environ.setdefault(REPLACED_UPLOADS, [])
        #: What the requests to the pipeline have in common.
        self.base = {k: v for k, v in environ.items() if is_shared(k) and k not in _OTHER_RIGHTS}
        self.base["swift.infocache"] = environ.setdefault("swift.infocache", {})

    def judge_as(self, access: Access | None) -> None:
        """Have the requests to the pipeline judged as what the client asked for."""
        self.access = access
        if access is not None:
            self.base[S3_ACCESS] = access

    def leave_null_marker(self, key: str) -> None:
        """Have a DELETE of the object leave a delete marker where versioning is suspended."""
        self.base[NULL_MARKER] = "/".join(map(str_to_wsgi, (self.bucket, key)))

    def for_key(self, key: str, version: str) -> Call:
        """The call for one deletion of a request that deletes many keys."""
        one = copy.copy(self)
        one.base = dict(self.base)
        one.judge_as(None if self.access is None else self.access.for_key(key, version))
        return one

    @property
    def resource(self) -> str:
        """The path with the bucket, percent-encoded."""
        return quote("/" + "/".join(part for part in (self.bucket, self.key) if part))

    @property
    def owner_id(self) -> str:
        """The name of the client in answers."""
        return _text(self.claim.access_key) or "anonymous"

    # --- requests to the pipeline

    def ask(
        self,
        method: str,
        bucket: str = "",
        key: str = "",
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        allowed: Iterable[int] = (),
    ) -> Answered:
        """Make a request and read the whole answer.

        :param allowed: statuses that are no error, beside 2xx.
        :raises S3Error: the answer is an error.
        """
        environ = self.request(method, bucket, key, query=query, headers=headers, body=body)
        status, header_list, chunks = self.send(environ)
        answered = Answered(status, header_list, read_body(chunks))
        if not answered.is_success and status not in allowed:
            raise self.refusal(answered, method, bucket, key)
        return answered

    def request(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        pre_authorized: bool = False,
    ) -> Environ:
        """The environ of a request; ``bucket`` and ``key`` are text, headers are WSGI strings."""
        path = self.path(bucket, key)
        environ = environ_of(
            self.base,
            method,
            path,
            SOURCE,
            query=urlencode(query) if query else "",
            headers=headers,
            body=body,
            pre_authorized=pre_authorized,
        )
        if not pre_authorized and not self.claim.is_anonymous:
            environ[S3_AUTH_DETAILS] = self._details
        return environ

    def path(self, bucket: str = "", key: str = "") -> str:
        """The path in the pipeline, a WSGI string."""
        account = self.account_of(bucket) if bucket else self._account or self.claim.access_key
        parts = [account, *(str_to_wsgi(part) for part in (bucket, key) if part)]
        return f"/{_API_VERSION}/{'/'.join(parts)}"

    def account_of(self, bucket: str) -> str:
        """The account of a bucket, or what stands for the client's until it is known.

        :raises S3Error: NoSuchBucket, if the name is free.
        """
        if self.owner_of is None:
            return self._account or self.claim.access_key
        name = bucket.removesuffix("+segments")
        if name not in self._owners:
            self._owners[name] = self.owner_of(self, name)
        owner = self._owners[name]
        if owner is None:
            raise self.no_such_bucket(bucket)
        return owner

    @property
    def knows_account(self) -> bool:
        """Whether the account of the bucket is known, or can be looked up without the client."""
        return self.owner_of is not None or self._account is not None

    def forget_owners(self) -> None:
        """Look the accounts of buckets up again."""
        self._owners.clear()

    def own_account(self) -> str:
        """The client's account, a WSGI string.

        :raises S3Error: the signature is not accepted, or there is none.
        """
        if self.claim.is_anonymous:
            raise S3Error("AccessDenied")
        if self._account is None:
            self.ask("HEAD", allowed=(403, 404))
        if self._account is None:
            raise S3Error("AccessDenied")
        return self._account

    def send(self, environ: Environ) -> tuple[int, Headers, Iterable[bytes]]:
        """Make a request; the caller reads and closes the body."""
        named = _account_in(environ)
        status, header_list, chunks = call_app(self.app, environ)
        # Only the auth filter gives a request a user, and it has put the account into the path.
        if environ.get("swift.authorize"):
            self._is_authenticated = True
            if self._account is None and named == self.claim.access_key:
                self._account = _account_in(environ)
        return int(status[:3]), Headers(header_list), chunks

    def send_or_refuse(
        self, environ: Environ, bucket: str, key: str, allowed: Iterable[int] = ()
    ) -> tuple[int, Headers, Iterable[bytes]]:
        """As ``send``.

        :raises S3Error: the answer is neither 2xx nor ``allowed``.
        """
        status, headers, chunks = self.send(environ)
        if 200 <= status < 300 or status in allowed:
            return status, headers, chunks
        answered = Answered(status, headers, b"")
        if environ["REQUEST_METHOD"] == "HEAD":
            close_body(chunks)
        else:
            answered = answered._replace(body=read_body(chunks))
        raise self.refusal(answered, environ["REQUEST_METHOD"], bucket, key)

    def listing(self, bucket: str, query: Query) -> list[dict[str, Any]]:
        """Rows of a container, or of the account.

        :raises S3Error: the answer is an error.
        """
        allowed = () if bucket else (404,)  # an account without buckets may not exist yet
        answered = self.ask("GET", bucket, query={"format": "json", **query}, allowed=allowed)
        return list(json.loads(answered.body)) if answered.status == 200 else []

    def info(self, bucket: str) -> Info:
        """Facts about the bucket, from the cache. The client must have been authorized before.

        :raises S3Error: the bucket does not exist, or that is unknown.
        """
        account = wsgi_to_str(self.account_of(bucket))
        info = get_container_info(self.base, self.app, account, bucket, SOURCE)
        if info["status"] == 404:
            raise self.no_such_bucket(bucket)
        if not 200 <= info["status"] < 300:
            raise S3Error("ServiceUnavailable")
        return info

    def require_bucket(self) -> Headers:
        """HEAD of the bucket as the client, for its existence and the client's rights.

        :raises S3Error: NoSuchBucket, AccessDenied or another one.
        """
        return self.ask("HEAD", self.bucket).headers

    def may_see_bucket(self) -> bool:
        """HEAD of the bucket as the client, whose signature it proves; whether it is allowed.

        :raises S3Error: NoSuchBucket, or the signature is wrong.
        """
        denials = (401, 403) if self.claim.is_anonymous else (403,)
        return self.ask("HEAD", self.bucket, allowed=denials).status not in denials

    @property
    def is_authenticated(self) -> bool:
        """Whether the auth filter has accepted the signature."""
        return self._is_authenticated

    def is_versioned(self, bucket: str) -> bool:
        """Whether the bucket has or had versioning. The client must have been authorized."""
        return bool(self.info(bucket)["sysmeta"].get("versions-enabled"))

    def is_enabled(self, bucket: str) -> bool:
        """Whether the bucket has versioning. The client must have been authorized."""
        return is_true(self.info(bucket)["sysmeta"].get("versions-enabled"))

    def is_suspended(self, bucket: str) -> bool:
        """Whether versioning of the bucket is suspended. The client must have been authorized."""
        return self.is_versioned(bucket) and not self.is_enabled(bucket)

    # --- errors

    def no_such_bucket(self, bucket: str) -> S3Error:
        """The error about a bucket."""
        return S3Error("NoSuchBucket", fields={"BucketName": bucket})

    def refusal(self, answered: Answered, method: str, bucket: str, key: str) -> S3Error:
        """The S3 error for an error of the pipeline."""
        status = answered.status
        if status == 401:
            return self._unproved()
        if status == 404:
            return self._missing(method, bucket, key)
        if status == 403 and LOCKED in answered.headers:
            return S3Error("AccessDenied", PROTECTED)
        if status in (429, 498) and self.options.ratelimit_as_client_error:
            error = S3Error("SlowDown")
            error.status = 429
            return error
        text = "" if method == "HEAD" else answered.body[:500].decode("utf-8", "replace")
        return error_of_status(status, text, method, bool(key))

    def _unproved(self) -> S3Error:
        if self.claim.is_anonymous:
            return S3Error("AccessDenied")
        if not (self.proof.was_asked or self._details.get("is_known")):
            fields = {"AWSAccessKeyId": self.owner_id}
            return S3Error("InvalidAccessKeyId", fields=fields)
        return self.with_claim(S3Error("SignatureDoesNotMatch"))

    def with_claim(self, error: S3Error) -> S3Error:
        """The error; one about a signature tells what the signature should cover."""
        if error.code != "SignatureDoesNotMatch":
            return error
        texts = {"StringToSign": self.claim.string_to_sign.decode("utf-8", "replace")}
        if self.claim.canonical_request:
            texts["CanonicalRequest"] = self.claim.canonical_request.decode("utf-8", "replace")
        # An error about a chunk has the text that the chunk's signature covers.
        texts["StringToSign"] = error.fields.get("StringToSign", texts["StringToSign"])
        dumps = {f"{name}Bytes": text.encode().hex(" ") for name, text in texts.items()}
        claimed = {"AWSAccessKeyId": self.owner_id, "SignatureProvided": self.claim.signature}
        error.fields = claimed | error.fields | texts | dumps
        return error

    def _missing(self, method: str, bucket: str, key: str) -> S3Error:
        if not key:
            return self.no_such_bucket(bucket)
        try:
            self.info(bucket)
        except S3Error as error:
            return error
        return S3Error("NoSuchKey", fields={"Key": key})

    # --- parameters

    def number(self, name: str, default: int, most: int = _INT_MAX) -> int:
        """A parameter that is a number, at most ``most``.

        :raises S3Error: it is none.
        """
        text = self.params.get(name)
        if text is None:
            return default
        if text.startswith("-") and text[1:].isdecimal():
            reason = f"Argument {name} must be an integer between 0 and {_INT_MAX}"
            raise invalid_argument(name, text, reason)
        if not (text.isascii() and text.isdigit()) or len(text) > 10 or int(text) > _INT_MAX:
            reason = f"Provided {name} not an integer or within integer range"
            raise invalid_argument(name, text, reason)
        return min(int(text), most)

    def encoding_type(self) -> str | None:
        """The parameter encoding-type.

        :raises S3Error: it is unknown.
        """
        value = self.params.get("encoding-type")
        if value not in (None, "url"):
            reason = "Invalid Encoding Method specified in Request"
            raise invalid_argument("encoding-type", value or "", reason)
        return value


_CODES = {
    403: "AccessDenied",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    411: "MissingContentLength",
    412: "PreconditionFailed",
    413: "EntityTooLarge",
    416: "InvalidRange",
    422: "BadDigest",
    429: "SlowDown",
    498: "SlowDown",
    499: "IncompleteBody",
    501: "NotImplemented",
    503: "ServiceUnavailable",
    507: "ServiceUnavailable",
}


def error_of_status(status: int, text: str, method: str, is_object: bool) -> S3Error:
    """The S3 error for a status of the pipeline; ``text`` is the body of its answer."""
    if status == 400 and "X-Delete-A" in text:
        return S3Error("InvalidArgument", text)
    if status == 400:
        code = "MetadataTooLarge" if "etadata" in text else "InvalidRequest"
        return S3Error(code, text if not text.startswith("<") else "")
    if status == 409:
        is_bucket_delete = method == "DELETE" and not is_object
        return S3Error("BucketNotEmpty" if is_bucket_delete else "OperationAborted")
    if status == 413 and "quota" in text.lower():
        return S3Error("EntityTooLarge", text)
    if status == 403 and "container limit" in text:
        return S3Error("TooManyBuckets", text)
    return S3Error(_CODES.get(status, "InternalError"))


def empty(status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body. The type is that of Swift's empty answers."""
    return Response(status, {"Content-Type": "text/html; charset=UTF-8", **(headers or {})})


def xml(body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that is a document."""
    return Response(200, {"Content-Type": "application/xml", **(headers or {})}, body)


def _account_in(environ: Environ) -> str:
    """The account in the path of a request to the pipeline, a WSGI string."""
    return str(environ["PATH_INFO"].split("/", 3)[2])


def _text(value: str) -> str:
    """The text of a WSGI string; bytes that are not UTF-8 become U+FFFD."""
    if value.isascii():
        return value
    return value.encode("latin-1", "replace").decode("utf-8", "replace")
