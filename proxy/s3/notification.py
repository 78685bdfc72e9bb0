# SPDX-License-Identifier: Apache-2.0
"""The notification configuration of buckets; ``proxy.s3.events`` sends the notifications."""

from __future__ import annotations

from martlet.http.environ import NOTIFICATION_TARGETS
from martlet.http.response import Response
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.wire.notification import SETTING, rules_of_xml, xml_of_rules

_DOCUMENT_BYTES_MAX = 256 * 1024


def get_notification(call: Call) -> Response:
    """GetBucketNotificationConfiguration."""
    document = settings.read_now(call, SETTING)
    return xml(xml_of_rules(()) if document is None else document)


def put_notification(call: Call) -> Response:
    """PutBucketNotificationConfiguration. An empty document ends all notifications."""
    targets: set[str] = set()
    call.base[NOTIFICATION_TARGETS] = targets
    call.require_bucket()  # the filter that sends notifications adds its targets
    rules = rules_of_xml(read_document(call, _DOCUMENT_BYTES_MAX), targets)
    if rules:
        settings.write(call, SETTING, xml_of_rules(rules))
    else:
        settings.remove(call, SETTING)
    return empty(200)
