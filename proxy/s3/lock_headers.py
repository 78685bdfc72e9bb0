# SPDX-License-Identifier: Apache-2.0
"""Object lock in writes and reads: the headers for the object servers, and those for clients."""

from __future__ import annotations

import time
from collections.abc import Mapping

from martlet.http.headers import Headers
from proxy.middleware.subrequest import close_body
from proxy.replicas.locks import (
    ENABLED_SYSMETA,
    LOCK_BYPASS,
    LOCK_HOLD,
    LOCK_MODE,
    LOCK_UNTIL,
    is_locked,
    retention_headers,
)
from proxy.s3.bodies import require_sum
from proxy.s3.call import PROTECTED, Call
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.locks import (
    HOLD_HEADER,
    LOCK_HEADERS,
    MODE_HEADER,
    UNTIL_HEADER,
    hold_of_headers,
    retention_of_headers,
    time_text,
)

_BYPASS_HEADER = "x-amz-bypass-governance-retention"
_NO_CONFIGURATION = "Bucket is missing Object Lock Configuration"


def lock_headers(call: Call, *, has_body: bool = False) -> dict[str, str]:
    """The headers of a write for the lock that the client asks for; empty without one.

    :param has_body: the request must have a checksum, as Amazon demands.
    :raises S3Error: a header is wrong, or the bucket has no object lock.
    """
    if not any(name in call.headers for name in LOCK_HEADERS):
        return {}
    retention = retention_of_headers(call.headers, time.time())
    hold = hold_of_headers(call.headers)
    if has_body:
        require_sum(call)
    require_lockable(call)
    found = {} if retention is None else retention_headers(*retention)
    return found if hold is None else {**found, LOCK_HOLD: hold.lower()}


def require_lockable(call: Call) -> Headers:
    """HEAD of the bucket as the client.

    :raises S3Error: it has no object lock, or an error of `Call.require_bucket`.
    """
    headers = call.require_bucket()
    if not headers.get(ENABLED_SYSMETA):
        raise S3Error("InvalidRequest", _NO_CONFIGURATION)
    return headers


def shown_lock(stored: Mapping[str, str]) -> dict[str, str]:
    """The headers for a client about the lock in the pipeline's answer."""
    shown = {}
    if LOCK_MODE in stored:
        shown[MODE_HEADER] = stored[LOCK_MODE]
        shown[UNTIL_HEADER] = time_text(float(stored[LOCK_UNTIL]))
    if LOCK_HOLD in stored:
        shown[HOLD_HEADER] = stored[LOCK_HOLD].upper()
    return shown


def bypass_header(call: Call) -> dict[str, str]:
    """The header of a request that may bypass governance; empty for another one."""
    is_wanted = call.headers.get(_BYPASS_HEADER, "").lower() == "true"
    return {LOCK_BYPASS: "true"} if is_wanted and may_bypass(call) else {}


def may_bypass(call: Call) -> bool:
    """Whether the client has the right s3:BypassGovernanceRetention.

    The owner of the account has it, and each client to which a policy gives it.
    """
    environ = call.request("HEAD", call.bucket, "")
    status, _, chunks = call.send(environ)
    close_body(chunks)
    is_lent = call.access is not None and call.access.may_bypass
    return 200 <= status < 300 and (is_lent or bool(environ.get("swift_owner")))


def refuse_locked(stored: Headers, bypass: bool) -> None:
    """Refuse a removal before anything of the object is removed; object servers refuse it too.

    :param stored: of a HEAD of the version.
    :raises S3Error: AccessDenied, if it is locked.
    """
    lowered = {name.lower(): str(value) for name, value in stored.items()}
    if is_locked(lowered, time.time(), bypass=bypass):
        raise S3Error("AccessDenied", PROTECTED)
