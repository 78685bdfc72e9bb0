# SPDX-License-Identifier: Apache-2.0
"""Which account a bucket is in, where names of buckets are unique in the cluster.

The map is a container of a hidden account, with an empty object for each bucket. Its metadata name
the account. An entry is written on the condition that there is none. Of two accounts that claim a
name at once, one gets it. Caches keep entries for a while.
"""

from __future__ import annotations

from proxy.cache.interface import Cache
from proxy.headers import IF_TIMESTAMP
from proxy.middleware.subrequest import Answered, ask_app, sub_environ
from proxy.s3.call import SOURCE, Call
from proxy.s3.wire.errors import S3Error

ACCOUNT, CONTAINER = ".martlet_s3", "buckets"
_OWNER = "X-Object-Sysmeta-S3Api-Account"
_CACHED_SECONDS = 60.0


def claim_bucket(call: Call, bucket: str) -> bool:
    """Enter the bucket for the client's account; whether the entry is new.

    :raises S3Error: BucketAlreadyExists, if another account has the name.
    """
    own = call.own_account()
    owner = look_up(call, bucket, is_fresh=True)
    if owner is None:
        headers = {_OWNER: own, "If-None-Match": "*", "Content-Type": "application/x-bucket"}
        answer = _ask(call, "PUT", bucket, headers)
        if answer.status == 404:
            _make_map(call)
            answer = _ask(call, "PUT", bucket, headers)
        _forget(call, bucket)
        if answer.status == 201:
            return True
        if answer.status not in (202, 412):
            raise S3Error("ServiceUnavailable")
        owner = look_up(call, bucket, is_fresh=True)
    if owner != own:
        raise S3Error("BucketAlreadyExists", fields={"BucketName": bucket})
    return False


def release_bucket(call: Call, bucket: str) -> None:
    """Remove the entry of a bucket of the client's account, unless it has changed meanwhile."""
    entry = _ask(call, "HEAD", bucket, {"X-Newest": "true"})
    since = entry.headers.get("x-backend-data-timestamp")
    if entry.is_success and since and entry.headers.get(_OWNER) == call.own_account():
        _ask(call, "DELETE", bucket, {IF_TIMESTAMP: since})
    _forget(call, bucket)


def look_up(call: Call, bucket: str, *, is_fresh: bool = False) -> str | None:
    """The account of a bucket, a WSGI string; None if the name is free.

    :raises S3Error: ServiceUnavailable, if that is unknown.
    """
    cache: Cache | None = call.environ.get("swift.cache")
    key = _key(bucket)
    found, lease = (None, None) if cache is None else cache.lookup(key)
    if found and not is_fresh:
        return str(found)
    answer = _ask(call, "HEAD", bucket, {"X-Newest": "true"} if is_fresh else {})
    if answer.status == 404:
        return None
    owner = answer.headers.get(_OWNER)
    if not answer.is_success or not owner:
        raise S3Error("ServiceUnavailable")
    if cache is not None:
        cache.set(key, owner, time=_CACHED_SECONDS, lease=lease)
    return str(owner)


def _ask(call: Call, method: str, bucket: str, headers: dict[str, str]) -> Answered:
    path = f"/v1/{ACCOUNT}/{CONTAINER}" + (f"/{bucket}" if bucket else "")
    environ = sub_environ(call.base, method, path, SOURCE, headers=headers, pre_authorized=True)
    return ask_app(call.app, environ)


def _make_map(call: Call) -> None:
    """:raises S3Error: it cannot be made."""
    if not _ask(call, "PUT", "", {}).is_success:
        raise S3Error("ServiceUnavailable", "The map of buckets cannot be created.")


def _forget(call: Call, bucket: str) -> None:
    cache: Cache | None = call.environ.get("swift.cache")
    if cache is not None:
        cache.delete(_key(bucket))


def _key(bucket: str) -> str:
    return f"s3bucket/{bucket}"
