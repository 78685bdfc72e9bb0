# SPDX-License-Identifier: Apache-2.0
"""Parts of multipart uploads that are of no use any more: the expirer deletes them.

The object servers tell which upload a PUT has replaced or a DELETE has removed. Its parts stay for
some minutes, so that clients that read the old object can read on. A completion leaves the parts
that it does not list. If the proxy stops between the write and the tasks for the expirer, the parts
stay for good.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from urllib.parse import unquote, urlencode

from martlet.http.environ import REPLACED_UPLOADS
from martlet.http.headers import Headers
from martlet.log import fields, get_logger
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import ask_app, delete_later, environ_of, get_container_info
from proxy.replicas.gone_uploads import may_keep_objects
from proxy.s3.call import SOURCE, Call
from proxy.s3.uploads import Upload

log = get_logger("proxy.s3")
_PAGE = 1000


def drop_replaced_parts(call: Call) -> None:
    """Have the parts deleted of the uploads that this request has replaced or removed.

    An error is logged: the request itself has succeeded, and the parts stay.
    """
    replaced: list[tuple[str, str]] = call.environ[REPLACED_UPLOADS]
    while replaced:
        path, upload_id = replaced.pop()
        account, container, key = unquote(path).removeprefix("/").split("/", 2)
        _drop(call, account, Upload(container, key, upload_id, Headers()))


def drop_unlisted_parts(call: Call, account: str, upload: Upload, listed: Collection[int]) -> None:
    """Have the parts deleted that a completion has not listed; an error is logged.

    Another completion may list them at the same time: the expirer looks whether they are in use.

    :param listed: their numbers.
    """
    _drop(call, account, upload, listed)


def _drop(call: Call, account: str, upload: Upload, kept: Collection[int] | None = None) -> None:
    try:
        is_done = _leave_parts(call, account, upload, kept)
    except Exception:
        log.exception("cannot look for the parts of an upload")
        is_done = False
    if not is_done:
        shown = fields(account=account, bucket=upload.bucket, key=upload.key)
        log.warning("unused parts stay %s", f"{shown} {fields(upload=upload.upload_id)}")


def _leave_parts(call: Call, account: str, upload: Upload, kept: Collection[int] | None) -> bool:
    """Whether all parts have their tasks, or may still be of use.

    :param kept: the numbers of those to keep; None if the object is gone.
    """
    info = get_container_info(call.base, call.app, account, upload.bucket, SOURCE)
    if not 200 <= info["status"] < 300 or may_keep_objects(info):
        return True
    due = Timestamp(time.time() + call.options.replaced_parts_delay)
    place = account, upload.container
    for names in _pages(call, account, upload):
        if kept is None and upload.name in names:
            return True  # an answer to its completion got lost, and it can be repeated
        parts = [name for name in names if _is_dropped(upload, name, kept or ())]
        if parts and not delete_later(call.base, call.app, place, parts, due, SOURCE):
            return False
    return True


def _is_dropped(upload: Upload, name: str, kept: Collection[int]) -> bool:
    number = name.removeprefix(f"{upload.name}/")
    is_part = number != name and number.isascii() and number.isdecimal()
    return is_part and int(number) not in kept


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
