# SPDX-License-Identifier: Apache-2.0
"""Whether parts of multipart uploads are in use: the questions before the expirer deletes them.

A batch of tasks often has many parts of one upload. So each upload is asked about once in a batch,
and again if the answer is old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from martlet.http.environ import MADE_OF
from martlet.http.headers import Headers
from martlet.http.internal_client import InternalClient
from martlet.words.names import quote_path
from martlet.words.part_numbers import PARTS, has_number
from martlet.words.timestamp import Timestamp
from replicator.expirer.tasks import UploadPart, names_of_manifest

#: An answer counts no longer: a completion that was slow may make the object meanwhile.
ANSWER_SECONDS_MAX = 10.0

_UPLOAD_ID = "x-object-sysmeta-s3api-upload-id"
_VERSION_ID = "x-backend-version-id"  # of a name that has or had versions
_DATA_TIME = "x-backend-data-timestamp"


class _Use(NamedTuple):
    """The answer about an upload.

    :param status: for parts that are not in ``free``.
    :param free: the paths of parts that the object of the upload does not list.
    """

    status: int
    free: frozenset[str] | set[str] = frozenset()


class _Answer:
    """The last answer. The lock lets others wait for the one that asks."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked_at = 0.0  # monotonic
        self.use: _Use | None = None


class Uses:
    """The answers about the uploads of one batch, which is ``parts``."""

    def __init__(self, client: InternalClient, parts: Iterable[UploadPart]) -> None:
        self._client = client
        self._parts: dict[str, list[UploadPart]] = {}
        for part in parts:
            self._parts.setdefault(part.upload_path, []).append(part)
        self._answers = {path: _Answer() for path in self._parts}

    def status(self, part: UploadPart) -> int:
        """412 if an object of the upload is there and needs the part, 404 if not; 5xx: unknown."""
        answer = self._answers[part.upload_path]
        with answer.lock:
            now = time.monotonic()
            use = answer.use
            if use is None or now - answer.asked_at > ANSWER_SECONDS_MAX:
                use = self._ask(part)
                answer.asked_at, answer.use = now, use
        return 404 if part.path in use.free else use.status

    def _ask(self, part: UploadPart) -> _Use:
        """Ask about the upload of a part.

        A completion that was sent twice may have made several versions, or may have brought the
        object back after it was replaced, or may have listed other parts. Or the object is about to
        be deleted. An upload that is open needs its parts, too.
        """
        begun = quote_path(f"/v1{part.upload_path}")
        opened = self._client.request("HEAD", begun, {"X-Newest": "true"})
        opened.close()
        if opened.status != 404:
            return _Use(412 if opened.status // 100 == 2 else opened.status)
        path = quote_path(f"/v1/{part.account}/{part.bucket}/{part.key}")
        made_of = {MADE_OF: (part.upload_id, "", True)}
        found = self._client.request("HEAD", f"{path}?symlink=get", environ=made_of)
        found.close()
        if found.status // 100 != 2:
            return _Use(found.status)
        if _VERSION_ID in found.headers:  # there may be several, of which any may list a part
            return _Use(412)
        asked = f"{path}?multipart-manifest=get&symlink=get"
        manifest = self._client.request("GET", asked, {"X-Newest": "true"})
        if manifest.status // 100 != 2:
            manifest.close()
            return _Use(manifest.status)
        if manifest.headers.get(_UPLOAD_ID) != part.upload_id:
            manifest.close()  # unread: it may be large
            return _Use(404 if _has_replaced(manifest.headers, found.headers) else 412)
        paths = [one.path for one in self._parts[part.upload_path]]
        listed = manifest.headers.get(PARTS)
        if listed is not None:
            manifest.close()
            return _Use(412, {one for one in paths if not has_number(listed, _number(one))})
        try:
            names = names_of_manifest(manifest.body())
        except ValueError:  # it may be encrypted
            return _Use(412)
        return _Use(412, {one for one in paths if one not in names})


def _number(path: str) -> int:
    return int(path.rpartition("/")[2])


def _has_replaced(newest: Headers, made: Headers) -> bool:
    """Whether the newest object has replaced one of an upload, which some replica still has.

    Where the name has versions, the older one may be kept. The newest replica may not answer now.
    """
    times = [Timestamp(headers.get(_DATA_TIME, "0")) for headers in (newest, made)]
    return _VERSION_ID not in newest and times[0] > times[1]
