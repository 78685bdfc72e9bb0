# SPDX-License-Identifier: Apache-2.0
"""Parts of multipart uploads that are of no use any more: the expirer deletes them.

They are those of a deleted object, by its manifest; those of an object that was replaced, as the
object servers tell; and those that a completion does not list. They stay for some minutes, so that
clients that read the old object can read on. If the proxy stops between the write and the tasks for
the expirer, the parts stay for good.

Several versions may share the parts. So before parts are deleted, the object servers are asked for
a version that was made of their upload. If too few of them know, the parts stay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from martlet.http.environ import REPLACED_UPLOADS
from martlet.http.headers import Headers
from martlet.log import fields, get_logger
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import ask_app, delete_later, environ_of, get_container_info
from proxy.replicas.versions import NULL
from proxy.s3.bucket import delete_parts
from proxy.s3.call import SOURCE, Call
from proxy.s3.uploads import Upload, made_of

log = get_logger("proxy.s3")
_PAGE = 1000


class Parts(NamedTuple):
    """The parts that a DELETE of an object deletes.

    :param upload: that the object was; None if it was none.
    :param version: the id of the version that the DELETE removes.
    :param headers: of the DELETE.
    :param is_locked: whether the parts have or had a lock.
    :param are_of_slo: Swift's API wrote the object, and slo knows its segments.
    """

    upload: Upload | None = None
    names: Sequence[str] = ()
    headers: Mapping[str, str] = MappingProxyType({})
    version: str = NULL
    is_locked: bool = False
    are_of_slo: bool = False


NO_PARTS = Parts()


def own_parts(upload: Upload, manifest: bytes) -> list[str]:
    """The objects of the parts that a manifest names.

    Swift's API may have copied the manifest from another key, which keeps its parts.
    """
    start = f"/{upload.container}/"
    names = [str(part["name"]).removeprefix(start) for part in json.loads(manifest)]
    return [name for name in names if _number(upload, name) is not None]


def drop_parts(call: Call, parts: Parts) -> None:
    """Have the parts deleted of an object that was deleted.

    If the queue of the expirer takes no tasks, they are deleted at once, unless another version has
    them. An error is logged.
    """
    upload = parts.upload
    if upload is None or not parts.names:
        return
    replaced: list[tuple[str, str]] = call.environ[REPLACED_UPLOADS]
    replaced[:] = [one for one in replaced if one[1] != upload.upload_id]
    account = call.account_of(call.bucket)
    try:
        is_left = not parts.is_locked and _add_tasks(call, account, upload, parts.names)
        if not is_left and made_of(call, upload, parts.version) is None:
            delete_parts(call, upload.container, parts.names, parts.headers)
    except Exception:
        log.exception("parts cannot be deleted")
        _warn(account, upload)


def drop_replaced_parts(call: Call) -> None:
    """Have the parts deleted of the uploads that this request has replaced or removed.

    An error is logged: the request itself has succeeded, and the parts stay.
    """
    replaced: list[tuple[str, str]] = call.environ[REPLACED_UPLOADS]
    while replaced:
        path, upload_id = replaced.pop()
        account, container, key = unquote(path).removeprefix("/").split("/", 2)
        _drop(call, account, Upload(container, key, upload_id, Headers()))


def drop_unlisted_parts(call: Call, upload: Upload, listed: Collection[int]) -> None:
    """Have the parts deleted that a completion has not listed; an error is logged.

    Another completion may list them at the same time: the expirer looks whether they are in use.

    :param listed: their numbers.
    """
    _drop(call, call.account_of(call.bucket), upload, listed)


def _drop(call: Call, account: str, upload: Upload, kept: Collection[int] | None = None) -> None:
    try:
        is_done = _leave_parts(call, account, upload, kept)
    except Exception:
        log.exception("cannot look for the parts of an upload")
        is_done = False
    if not is_done:
        _warn(account, upload)


def _warn(account: str, upload: Upload) -> None:
    shown = fields(account=account, bucket=upload.bucket, key=upload.key)
    log.warning("unused parts stay %s", f"{shown} {fields(upload=upload.upload_id)}")


def _leave_parts(call: Call, account: str, upload: Upload, kept: Collection[int] | None) -> bool:
    """Whether all parts have their tasks, or may still be of use.

    :param kept: the numbers of those to keep; None if the object is gone.
    """
    info = get_container_info(call.base, call.app, account, upload.bucket, SOURCE)
    if not 200 <= info["status"] < 300 or _keeps_copies(info):
        return True
    if kept is not None and info["sysmeta"].get("versions-enabled"):
        return True  # another version of the upload may list other parts
    spared = {None, *(kept or ())}
    for names in _pages(call, account, upload):
        parts = [name for name in names if _number(upload, name) not in spared]
        if not _add_tasks(call, account, upload, parts):
            return False
    return True


def _keeps_copies(info: Mapping[str, Any]) -> bool:
    """Whether another container may have a copy of the manifest of an object that is gone.

    It may with X-Versions-Location or X-History-Location.
    """
    return bool(info["sysmeta"].get("versions-location") or info.get("versions"))  # of old releases


def _add_tasks(call: Call, account: str, upload: Upload, names: Sequence[str]) -> bool:
    """Whether the queue of the expirer has taken a task for each part."""
    due = Timestamp(time.time() + call.options.replaced_parts_delay)
    place = account, upload.container
    return all(
        delete_later(call.base, call.app, place, names[start : start + _PAGE], due, SOURCE)
        for start in range(0, len(names), _PAGE)
    )


def _number(upload: Upload, name: str) -> int | None:
    """The number of the part that is the object ``name``; None if it is none of the upload."""
    number = name.removeprefix(f"{upload.name}/")
    is_part = number != name and number.isascii() and number.isdecimal()
    return int(number) if is_part else None


def _pages(call: Call, account: str, upload: Upload) -> Iterator[list[str]]:
    """The names that begin with that of the upload, page by page.

    :raises RuntimeError: there is no listing.
    """
    path = "/v1/" + "/".join(map(str_to_wsgi, (account, upload.container)))
    query = {"format": "json", "prefix": upload.name, "limit": str(_PAGE)}
    while True:
        text = urlencode(query)
        get = environ_of(call.base, "GET", path, SOURCE, query=text, pre_authorized=True)
        answer = ask_app(call.app, get)
        if answer.status == 404:
            return
        if not answer.is_success:
            raise RuntimeError(f"the listing of {upload.container} was answered {answer.status}")
        names = [str(row["name"]) for row in json.loads(answer.body or b"[]")]
        if names:
            yield names
        if len(names) < _PAGE:
            return
        query["marker"] = names[-1]
