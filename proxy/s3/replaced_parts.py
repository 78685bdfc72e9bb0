# SPDX-License-Identifier: Apache-2.0
"""The parts of multipart uploads whose objects were replaced: the expirer deletes them.

The object servers tell which upload a PUT has replaced. Its parts stay for some minutes, so that
clients that read the old object can read on. If the proxy stops between the PUT and the tasks for
the expirer, the parts stay for good.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from urllib.parse import unquote, urlencode

from martlet.http.environ import REPLACED_UPLOADS
from martlet.http.headers import Headers
from martlet.log import fields, get_logger
from martlet.words.names import str_to_wsgi
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import ask_app, delete_later, environ_of, get_container_info
from proxy.s3.call import SOURCE, Call
from proxy.s3.uploads import Upload

log = get_logger("proxy.s3")
_PAGE = 1000


def drop_replaced_parts(call: Call) -> None:
    """Have the parts deleted of the uploads that this request has replaced.

    An error is logged: the request itself has succeeded, and the parts stay.
    """
    replaced: list[tuple[str, str]] = call.environ[REPLACED_UPLOADS]
    while replaced:
        path, upload_id = replaced.pop()
        account, container, key = unquote(path).removeprefix("/").split("/", 2)
        try:
            is_done = _drop(call, account, Upload(container, key, upload_id, Headers()))
        except Exception:
            log.exception("cannot look for the parts of a replaced upload")
            is_done = False
        if not is_done:
            shown = fields(account=account, container=container, key=key, upload=upload_id)
            log.warning("the parts of a replaced upload stay %s", shown)


def _drop(call: Call, account: str, upload: Upload) -> bool:
    """Whether all parts have their tasks, or may still be of use.

    Where versions are or were kept, the object may live on as one, and with X-Versions-Location or
    X-History-Location as a copy of its manifest.
    """
    info = get_container_info(call.base, call.app, account, upload.bucket, SOURCE)
    stored = info["sysmeta"]
    keeps_versions = stored.get("versions-enabled") or stored.get("versions-location")
    keeps_versions = keeps_versions or info.get("versions")  # of old releases
    if keeps_versions or not 200 <= info["status"] < 300:
        return True
    due = Timestamp(time.time() + call.options.replaced_parts_delay)
    place = account, upload.container
    for names in _pages(call, account, upload):
        if upload.name in names:  # an answer to its completion got lost, and it can be repeated
            return True
        parts = [name for name in names if _is_part(upload, name)]
        if parts and not delete_later(call.base, call.app, place, parts, due, SOURCE):
            return False
    return True


def _is_part(upload: Upload, name: str) -> bool:
    number = name.removeprefix(f"{upload.name}/")
    return number != name and number.isascii() and number.isdecimal()


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
