# SPDX-License-Identifier: Apache-2.0
"""The multipart uploads of the S3 API whose objects a write has replaced or removed.

s3api leaves their parts to the expirer. So it hears of each here, once it is sure that the object
is gone for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from proxy.replicas.engine import Outcome
from ring.ring import Node

#: The system metadata of such an object.
UPLOAD_ID = "X-Object-Sysmeta-S3api-Upload-Id"
_GONE = "x-backend-replaced-upload"


def replaced_uploads(outcomes: Collection[Outcome], primaries: Collection[Node]) -> set[str]:
    """The ids of the uploads that a PUT with status 201 has replaced; one at most.

    Most of the primaries must agree. One that has missed writes may have replaced another upload,
    and a hand-off has replaced nothing.
    """
    own = [o.answer for o in outcomes if o.answer.status == 201 and o.node in primaries]
    counts = Counter(answer.headers.get(_GONE) for answer in own)
    return {name for name, count in counts.items() if name and count > len(primaries) / 2}


def removed_uploads(outcomes: Collection[Outcome]) -> set[str]:
    """The ids of the uploads that a DELETE has removed, which a quorum has taken.

    One replica suffices: its object was older than the DELETE, and comes back nowhere.
    """
    told = [o.answer.headers.get(_GONE) for o in outcomes if o.answer.status in (204, 404)]
    return {name for name in told if name}
