# SPDX-License-Identifier: Apache-2.0
"""Options of ``[filter:slo]``, and the headers that identify a static large object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from martlet.conf.options import is_true, option

#: The header that marks the manifest of a static large object.
IS_SLO = "X-Static-Large-Object"
#: System metadata of a manifest: ETag (without quotes) and size of the whole.
SLO_ETAG = "X-Object-Sysmeta-Slo-Etag"
SLO_SIZE = "X-Object-Sysmeta-Slo-Size"


@dataclass(frozen=True)
class SloOptions:
    """``[filter:slo]``."""

    max_manifest_segments: int = option(1000, "Most segments of one manifest that are objects")
    max_manifest_size: int = option(8 * 1024 * 1024, "Longest manifest in a PUT", "bytes")
    yield_frequency: float = option(
        10, "Longest silence before white space is sent in a long PUT or DELETE", "seconds"
    )
    rate_limit_after_segment: int = option(
        10, "Small segments of one GET before the rate limit applies", "count"
    )
    rate_limit_segments_per_sec: float = option(
        1, "Small segments that one GET may start in a second after those; 0: no limit", "count"
    )
    rate_limit_under_size: int = option(
        1024 * 1024, "A segment is small if fewer bytes of it are requested", "bytes"
    )
    max_get_time: int = option(
        86400, "How long after its start a GET may start a segment", "seconds"
    )
    concurrency: int = option(2, "Segments that one PUT checks in parallel", "count")
    delete_concurrency: int = option(128, "Objects that one DELETE deletes in parallel", "count")
    allow_async_delete: bool = option(
        True, "Leave the segments of a DELETE with async=on to the object expirer"
    )

    def __post_init__(self) -> None:
        for name in (
            "max_manifest_segments",
            "max_manifest_size",
            "concurrency",
            "delete_concurrency",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.yield_frequency <= 0:
            raise ValueError("yield_frequency must be above 0")


def is_slo(headers: Mapping[str, str]) -> bool:
    """Whether these are the headers of a static large object's manifest."""
    return is_true(headers.get(IS_SLO))
