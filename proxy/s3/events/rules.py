# SPDX-License-Identifier: Apache-2.0
"""The rules of a bucket, from the cached information about its container."""

from __future__ import annotations

from functools import lru_cache

from martlet.log import fields, get_logger
from proxy.lookup.info import Info
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.notification import SETTING, Rule, rules_of_xml
from proxy.s3.wire.stored_documents import document_of

log = get_logger("proxy.notifications")


def rules_of(info: Info) -> tuple[Rule, ...]:
    """The rules of a container; none if they are damaged, which is logged."""
    try:
        document = document_of(info["sysmeta"], SETTING)
        return () if document is None else _parsed(document)
    except S3Error as error:
        log.error("the notification rules of a bucket are damaged %s", fields(error=error.message))
        return ()


@lru_cache(maxsize=256)
def _parsed(document: bytes) -> tuple[Rule, ...]:
    return rules_of_xml(document, None)
