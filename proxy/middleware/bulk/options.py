# SPDX-License-Identifier: Apache-2.0
"""The options of ``[filter:bulk]``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from martlet.conf.options import option

_MAY_BE_ZERO = ("delete_container_retry_count", "max_unpacked_bytes", "max_unpack_ratio")


@dataclass(frozen=True)
class BulkOptions:
    """``[filter:bulk]``."""

    max_containers_per_extraction: int = option(10000, "Containers that one archive may create")
    max_failed_extractions: int = option(1000, "Failed files after which an extraction stops")
    max_unpacked_bytes: int = option(
        100 * 1024**3, "Unpacked size limit of a compressed archive; 0: no limit", "bytes"
    )
    max_unpack_ratio: int = option(
        200,
        "The same limit as a multiple of the bytes sent, from 64 MiB on; 0: no limit",
    )
    max_deletes_per_request: int = option(10000, "Names that one bulk delete may contain")
    max_failed_deletes: int = option(1000, "Failed deletes after which a request stops")
    yield_frequency: float = option(
        10.0, "Interval of the white space sent while the request is in progress", "s"
    )
    upload_concurrency: int = option(128, "Small files of one archive stored in parallel")
    delete_concurrency: int = option(128, "Objects of one request deleted in parallel")
    delete_container_retry_count: int = option(
        0, "Retries of the delete of a container that is not empty"
    )

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name in _MAY_BE_ZERO else 1
            if field.name == "yield_frequency":
                if self.yield_frequency <= 0:
                    raise ValueError("yield_frequency must be above 0")
            elif getattr(self, field.name) < least:
                raise ValueError(f"{field.name} must be at least {least}")
        for name in ("upload_concurrency", "delete_concurrency"):
            if getattr(self, name) > 1000:
                raise ValueError(f"{name} must be at most 1000")
