# SPDX-License-Identifier: Apache-2.0
"""The parts of an object that was uploaded in parts, and their checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from martlet.http.headers import Headers
from proxy.middleware.subrequest import ask_app
from proxy.s3.call import Call
from proxy.s3.object_headers import CHECKSUM


def parts_of_object(call: Call, query: Mapping[str, str]) -> tuple[Headers, list[dict[str, Any]]]:
    """The stored headers of the object, and the entries of its manifest, in the order of the parts.

    :param query: names the version.
    :raises S3Error: the object cannot be read.
    """
    answer = call.ask("GET", call.bucket, call.key, query={**query, "multipart-manifest": "get"})
    return answer.headers, json.loads(answer.body)


def checksum_of_part(call: Call, part: Mapping[str, Any]) -> str:
    """The stored checksum, empty without one.

    Who may read the object need not have rights on its parts.
    """
    container, _, name = str(part["name"]).removeprefix("/").partition("/")
    request = call.request("HEAD", container, name, pre_authorized=True)
    return str(ask_app(call.app, request).headers.get(CHECKSUM, ""))
