# SPDX-License-Identifier: Apache-2.0
"""Completions of one upload at the same moment: one of them makes a version, the others name it.

Where a bucket has or had versions, the write of the object depends on what is current. First that
is read, then the versions are looked through for one of the upload. So if another completion has
made one before, it is found. If another makes one after, the write is refused, and all of this is
done again.

Such a write needs the first replica of the object. If that fails, it may be back soon: the write
waits up to two seconds for it. Too few of the others may take a write where other writes come
between. Then it is sent again without the condition, at the same time: that is the same version.
If the replicas do not agree for long, the object is written without a condition, too: two versions
do less harm than none. They share the parts.

A version that is found is acknowledged once a quorum has it. If too few have it, it is written
again, at its time. Replicas on which it was removed meanwhile refuse that. Where the write would
not be the same, the client has to try again: replicators bring the version to the others.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from martlet.http.environ import SENT_BEFORE, Environ
from martlet.http.headers import Headers, environ_key
from martlet.words.timestamp import Timestamp
from proxy.headers import IF_TIMESTAMP
from proxy.middleware.subrequest import ask_app
from proxy.replicas.locks import LOCK_CHANGES
from proxy.replicas.versions import MADE_BY_FEW, NULL, UNKNOWN, VERSION_ID
from proxy.s3.call import Call
from proxy.s3.conditions import is_conditional
from proxy.s3.object_headers import ETAG
from proxy.s3.uploads import (
    QUORUM_SECONDS,
    Upload,
    by_quorum,
    is_made_by_few,
    made_by_few,
    made_of,
)
from proxy.s3.wire.errors import S3Error

#: Writes with a condition before one without. Other clients may write the key all the time. Each
#: that is refused lets another write of the key in, so a crowd needs about as many as it has.
_CONDITIONAL_TRIES = 12
#: How long a version that can be sent again may be on its way by another request, seconds.
_RACE_SECONDS = 0.35
#: How long a write waits for its first replica before it is tried again, seconds.
_PAUSES = (0.5, 1.5)
#: After these were of no use, how long no write waits, seconds. Any replica may be down then.
_OUTAGE_SECONDS = 10.0
_REFUSED = (202, 409, 412)
_DATA_TIME = "x-backend-data-timestamp"


class _Outage:
    """When writes wait again for a replica that does not answer; a time.monotonic()."""

    until = 0.0


_outage = _Outage()


class Repeated(Exception):
    """Another request has completed the upload with the same parts."""

    def __init__(self, made: Upload) -> None:
        super().__init__()
        self.made = made


class OneVersion:
    """The condition under which the object of an upload is written, for all tries of a request."""

    def __init__(self, call: Call, upload: Upload, headers: Mapping[str, str]) -> None:
        """Nothing is read yet.

        :param headers: of the object, with its lock and those of the client's own condition.
        """
        self._call = call
        self._upload = upload
        self._etag = headers[ETAG]
        self._is_stated = is_conditional(headers)
        self._is_locked = any(name in headers for name in LOCK_CHANGES)
        self._tries_left = 0 if self._is_stated else _CONDITIONAL_TRIES
        self._depends = False
        self._pauses = list(_PAUSES)
        self._wait_until = 0.0  # a time.monotonic(), once there was a reason to wait
        self._sent_at = ""  # the time of a write that some replicas may have taken

    def prepare(self, environ: Environ) -> None:
        """Put the condition into the request that writes the object, right before it is sent.

        :raises Repeated: a version with the ETag was made of the upload.
        :raises S3Error: too few replicas have it, and it cannot be sent again.
        """
        self._depends = False
        if not self._call.is_versioned(self._call.bucket):
            return
        condition = self._condition() if self._tries_left else {}
        if self._look():
            condition = {}
        if self._sent_at:
            environ["HTTP_X_TIMESTAMP"] = self._sent_at
            environ[SENT_BEFORE] = True
        environ.update(condition)
        self._depends = bool(condition)

    def shall_repeat(self, environ: Environ, status: int) -> bool:
        """Whether the write is to be tried again, as only its condition was refused.

        :param environ: of the write, after its answer with this status.
        :raises Repeated: the client's own condition was refused, and a version was made.
        """
        if self._is_stated and status in _REFUSED:
            if self._call.is_versioned(self._call.bucket):
                self._look()
            return False
        if not self._depends or status not in (*_REFUSED, 503):
            return False
        self._tries_left -= 1
        self._sent_at = ""  # the first replica knows it, and has refused it
        if status == 503:
            self._sent_at = environ.get("HTTP_X_TIMESTAMP", "")
            if not self._has_waited():
                self._tries_left = 0
        return True

    def _has_waited(self) -> bool:
        """Wait a little for the first replica, unless others have lately waited for nothing."""
        now = time.monotonic()
        if now < _outage.until:
            return False
        if not self._wait_until:
            self._wait_until = now + sum(_PAUSES)
        left = self._wait_until - now  # a try may have waited for a replica that hangs
        if not self._pauses or left <= 0:
            _outage.until = now + _OUTAGE_SECONDS
            return False
        time.sleep(min(self._pauses.pop(0), left))
        return True

    def _condition(self) -> dict[str, str]:
        """The keys of the environ that make a write depend on what is current."""
        call, query = self._call, {"symlink": "get"}
        head = call.request("HEAD", call.bucket, call.key, query=query,
                            headers={"x-newest": "true"}, pre_authorized=True)  # fmt: skip
        found = ask_app(call.app, head)
        if found.status == 404:
            return {"HTTP_IF_NONE_MATCH": "*"}
        since = found.headers.get(_DATA_TIME) if found.is_success else None
        return {} if since is None else {environ_key(IF_TIMESTAMP): since}

    def _look(self) -> bool:
        """Look for a version of the upload; whether too few replicas have one. It is sent again.

        :raises Repeated: another request has made a version with the ETag.
        :raises S3Error: too few replicas have it, and it cannot be sent again.
        """
        try:
            made = made_of(self._call, self._upload, needs_quorum=True)
        except S3Error:
            return False  # two versions do less harm than none
        if made is None or made.get(ETAG) != self._etag:
            return False
        if self._is_own(made):
            return True
        seconds = _RACE_SECONDS if self._time_to_send(made) else QUORUM_SECONDS
        made = by_quorum(self._call, self._upload, made, seconds)
        if made is None or made.get(ETAG) != self._etag:
            return False
        if not is_made_by_few(made):
            raise Repeated(self._upload._replace(headers=made, is_completed=True))
        self._sent_at = self._time_to_send(made)
        if not self._sent_at:
            raise made_by_few()
        return True

    def _is_own(self, made: Headers) -> bool:
        """Whether it is the version that this request has sent, and that too few replicas took."""
        written = Timestamp(made.get(_DATA_TIME, "0"))
        return bool(self._sent_at) and written == Timestamp(self._sent_at)

    def _time_to_send(self, made: Headers) -> str:
        """The time at which the write makes this same version; empty if it would make another.

        Versioning may have been enabled or suspended since, or the version was made current again.
        A lock that ends at another time could bring the version back after its removal. So could
        hand-offs, if most of the primaries cannot refuse the write.
        """
        if made.get(MADE_BY_FEW) == UNKNOWN:
            return ""
        if self._is_stated or self._is_locked or _DATA_TIME not in made:
            return ""
        version, written = made.get(VERSION_ID, NULL), Timestamp(made[_DATA_TIME])
        if self._call.is_enabled(self._call.bucket):
            is_same = version != NULL and Timestamp(version) == written
        else:
            is_same = version == NULL
        return written.internal if is_same else ""
