# SPDX-License-Identifier: Apache-2.0
"""The types of WSGI (PEP 3333), and the environ keys that filters and the proxy app share.

A request carries one ``environ`` through the whole pipeline. Filters and the proxy app leave values
in it for each other. This module lists every such key: its type, its writers, its readers and its
meaning. Names that start with ``swift``, and ``reseller_request``, are those of OpenStack Swift, so
that filters made for Swift work. Names that start with ``martlet.`` are ours.

A sub-request of a filter carries nearly all of them (`proxy.middleware.subrequest`). A test in
``test/tidy`` finds keys that are missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Environ = dict[str, Any]
HeaderList = list[tuple[str, str]]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]

# The transaction.

#: ``str``. Written by catch_errors, else by the HTTP server or the app. Read by `Request.trans_id`
#: and by filters that log. The transaction id.
TRANS_ID = "swift.trans_id"
#: ``str``. Written by the app. Read by filters made for Swift; none of ours does. The method of the
#: request as the client sent it.
ORIGINAL_METHOD = "swift.orig_req_method"
#: ``str``, a few capitals. Written by filters, in sub-requests and in requests that they change.
#: Read by proxy-logging. The filter that asks.
SOURCE = "swift.source"

#: ``Callable[[martlet.wsgi.connection.Successor], None]``. Written by the HTTP server. Read by
#: `martlet.grid.server`. The successor takes the connection over once the answer, 101, is sent.
HAND_OVER = "martlet.hand_over"

#: ``dict[str, Any]``. Written by the HTTP server, empty for each new connection. Read by
#: `martlet.grid.gate`. Whatever is kept as long as the connection.
CONNECTION = "martlet.connection"

#: ``dict[str, str]``. Written by the HTTP server. Read by s3api. The headers with an underscore in
#: their names, in lower case; they have no key of their own.
UNDERSCORED_HEADERS = "martlet.underscored_headers"

# Authentication and authorization.

#: ``Callable[[Request], Response | None]``. Written by tempauth, keystoneauth, tempurl and
#: formpost. Read by the app, which takes it out once it allowed the request; by filters that act
#: for the client. The check of the auth system: it reads ``Request.acl`` and returns a refusal or
#: None.
AUTHORIZE = "swift.authorize"
#: ``bool``. Written by container_sync, tempurl, formpost and pre-authorized sub-requests. Read by
#: tempauth and keystoneauth. They leave the request alone: another filter has authenticated it.
AUTHORIZE_OVERRIDE = "swift.authorize_override"
#: ``Callable[[str, str], str]``. Written by tempauth and keystoneauth. Read by the app. Takes the
#: name and value of an ACL header; returns the ACL as it is stored, or raises ValueError.
CLEAN_ACL = "swift.clean_acl"
#: ``bool``. Written by tempauth, keystoneauth and pre-authorized sub-requests. Read by the app. The
#: client owns the account, so it may see and set the headers in ``swift_owner_headers``.
OWNER = "swift_owner"
#: ``bool``. Written by tempauth and keystoneauth. Read by account_quotas. The client is a reseller
#: admin.
RESELLER_REQUEST = "reseller_request"
#: ``str | None``. Written by the app where an object is to be written. Read by keystoneauth. The
#: key by which the container is synchronized.
SYNC_KEY = "swift_sync_key"
#: ``dict[str, Any]``. Written by s3api in the requests that it makes. Read by tempauth, and by
#: filters made for Swift. The access key, the signature, the signed text, and a callable that
#: takes the secret of the access key and returns whether the signature is its.
S3_AUTH_DETAILS = "s3api.auth_details"
#: ``proxy.s3.policies.acts.Access``. Written by s3api in the requests that it makes. Read by
#: `proxy.s3.policies.guard`, which writes the client there. What the S3 request does, for bucket
#: policies.
S3_ACCESS = "martlet.s3_access"
#: ``str``, ``Post`` or ``Copy``. Written by s3api in the requests that it makes. Read by
#: notifications. The S3 request that a PUT stands for, if it is not one of that name.
S3_WRITE = "martlet.s3_write"
#: ``set[str]``. Written by s3api in the requests that it makes. Read by notifications. It adds
#: the names of its targets, which rules of buckets may name.
NOTIFICATION_TARGETS = "martlet.notification_targets"
#: ``bool``. Written by keystoneauth. Read by its authorization. Whether `SYNC_KEY` lets this
#: request write.
SYNC_KEY_COUNTS = "martlet.sync_key_counts"
#: ``dict``. Written by authtoken of keystonemiddleware. Read by keystoneauth. The token as Keystone
#: describes it.
KEYSTONE_INFO = "keystone.token_info"
#: ``dict``. Written by Swift's keystoneauth; ours does not. Read by filters made for Swift; none of
#: ours does. The user of the token, who is also that of a sub-request.
KEYSTONE_IDENTITY = "keystone.identity"

# What is known of accounts and containers.

#: ``proxy.cache.interface.Cache``. Written by cache. Read by the app, ratelimit and cname_lookup.
#: The cache of the cluster.
CACHE = "swift.cache"
#: ``dict[str, Info]``. Written by the app, and by filters for their sub-requests. Read by
#: `proxy.lookup.info`. What this request and its sub-requests have learned, by the keys of the
#: cache.
INFO_CACHE = "swift.infocache"
#: ``Callable[[proxy.lookup.known.Known], None]``. Written by `proxy.middleware.subrequest` in a
#: HEAD of an account or container. Read by the app. The app calls it with what it knows of the
#: path, in place of serving the request.
LOOK_UP = "martlet.look_up"
#: ``Callable[[Request, str], Info]``. Written by the app, and by tempauth for the filters before
#: the app. Read by tempauth's authorization. What is known of an account.
ACCOUNT_INFO = "martlet.account_info"
#: ``Callable[[Request, str, str], Info]``. Written by the app. Read by `proxy.s3.policies.guard`,
#: which asks the app by a request of its own where it is missing. What is known of a container.
CONTAINER_INFO = "martlet.container_info"

# Objects.

#: ``proxy.replicas.footers.UpdateFooters``. Written by encryption. Read by the app, and by
#: encryption where another filter has put one. Adds metadata once the body has been read.
UPDATE_FOOTERS = "swift.callback.update_footers"
#: ``proxy.middleware.encryption.keys.FetchKeys``. Written by keymaster. Read by encryption, and by
#: keymaster where another one has put its own. Returns the keys of this path.
FETCH_KEYS = "swift.callback.fetch_crypto_keys"
#: ``bool``. Written by filters made for Swift; none of ours does. Read by encryption. The request
#: passes as it is.
CRYPTO_OVERRIDE = "swift.crypto.override"
#: ``proxy.replicas.versions.VersionRequest``. Written by object_versioning. Read by the app, which
#: sends its headers to the object servers. What the request says about versions.
VERSION_REQUEST = "martlet.version_request"
#: ``str``, a WSGI string. Written by s3api. Read by object_versioning. The container and object
#: whose DELETE leaves a delete marker with the id null, if versioning is suspended.
NULL_MARKER = "martlet.null_marker"
#: ``bool``. Written by s3api in a DELETE. Read by the app and by versioned_writes. The DELETE is
#: refused with 409 and X-Static-Large-Object, if the object may have segments that go with it.
SPARES_LARGE = "martlet.spares_large"
#: ``bool``. Written by s3api in a HEAD. Read by object_versioning. The version id null means the
#: null version also if it is not current.
ANY_NULL = "martlet.any_null"
#: ``tuple[str, str, bool]``. Written by s3api and the expirer in a HEAD. Read by the app. The id of
#: a multipart upload, that of a version that was removed, or "", and whether a 404 needs all
#: primaries. The HEAD is of another version that was made of the upload. It need not be current.
MADE_OF = "martlet.made_of"
#: ``bool``. Written by s3api in a HEAD with `MADE_OF`. Read by the app. The answer waits for a
#: quorum that has the version, and says if there is none.
MADE_BY_QUORUM = "martlet.made_by_quorum"
#: ``bool``. Written by s3api in a DELETE. Read by object_versioning. With the version id null, it
#: leaves another version alone that is current: the answer is 404.
SPARES_VERSIONS = "martlet.spares_versions"
#: ``list[tuple[str, str]]``. Written by s3api. Read by the app. It adds the multipart uploads whose
#: objects a PUT replaces or a DELETE removes: the quoted path ``/account/container/object``, and
#: the upload's id.
REPLACED_UPLOADS = "martlet.replaced_uploads"
#: ``bool``. Written by s3api in a PUT. Read by the app. A PUT with the same timestamp was sent
#: before. A replica that has its object answers 409, and counts as one that has stored it.
SENT_BEFORE = "martlet.sent_before"
#: ``bool``. Written by s3api in a POST that locks. Read by the app. A replica that refuses the lock
#: because it has one that protects as well and as long counts as one that has taken it. If one has
#: a later change that protects less, the answer is 409.
LOCKS_AT_LEAST = "martlet.locks_at_least"
#: ``Callable[[list[dict[str, Any]]], list[tuple[str, str]]]``. Written by s3api. Read by slo. Takes
#: the entries of a manifest before it is stored, each with the ``headers`` of its object; returns
#: the names to refuse, with reasons.
SLO_MANIFEST_HOOK = "swift.callback.slo_manifest_hook"
#: ``bool``. Written by container_sync. Read by slo. A manifest passes as it is.
SLO_OVERRIDE = "swift.slo_override"
#: ``bool``. Written by container_sync and versioned_writes. Read by symlink. The ETag that a link
#: names is not compared with that of its target.
SYMLINK_OVERRIDE = "swift.symlink_override"

# Answers.

#: ``bool``. Written by object_versioning. Read by listing_formats. The listing stays JSON, whatever
#: format the request asks for.
LISTING_IS_JSON = "martlet.listing_is_json"
#: ``bool``. Written by symlink. Read by gatekeeper. A Location without a host stays so.
RELATIVE_LOCATION = "swift.leave_relative_location"

#: ``Callable[[str], None]``. Written by the service, which counts requests. Read by the app. Takes
#: the index of the storage policy of an object.
TELL_POLICY = "martlet.tell_policy"

# Once for each request.

#: ``bool``. Written by proxy-logging, and removed by filters for what they pass on. Read by
#: proxy-logging. The request has its line in the access log.
ACCESS_LOG_MADE = "swift.proxy_access_log_made"
#: ``dict[str, str | None]``, with ``user_id``. Written by tempauth and keystoneauth. Read by
#: proxy-logging. What the access log says of the client.
ACCESS_LOGGING = "swift.access_logging"
#: ``list[str]``. Written by container_sync. Read by proxy-logging. Remarks for the access log.
LOG_INFO = "swift.log_info"
#: ``bool``. Written by ratelimit. Read by ratelimit. The request has been counted.
RATE_COUNTED = "swift.ratelimit.handled"
