# SPDX-License-Identifier: Apache-2.0
"""Rows of listings: what S3 shows of an object, beside the ETag of Swift's API."""

from __future__ import annotations

from proxy.middleware.large_objects.row_etag import Row, join_row_etag, split_row_etag
from proxy.s3.object_headers import DEFAULT_CLASS, ROW_CLASS

_ROW_ETAG = "s3_etag"
#: Part of each listing with a row that `split_row` changes.
MARK = b"; s3_"


def split_row(row: Row) -> None:
    """Move the ETag and the storage class for S3 from a row's hash into fields of their own."""
    if ";" not in row["hash"]:
        return
    etag, parameters = split_row_etag(row["hash"])
    shown = {name: parameters.pop(name) for name in (_ROW_ETAG, ROW_CLASS) if name in parameters}
    if not shown:
        return
    row["hash"] = join_row_etag(etag, parameters)
    if _ROW_ETAG in shown:
        row[_ROW_ETAG] = f'"{shown[_ROW_ETAG]}"'
    if ROW_CLASS in shown:
        row[ROW_CLASS] = shown[ROW_CLASS]


def etag_of_row(row: Row) -> str:
    """The ETag of a row that `split_row` has seen, with quotes."""
    if _ROW_ETAG in row:
        return str(row[_ROW_ETAG])
    if "slo_etag" in row:
        etag = str(row["slo_etag"]).strip('"')
        return f'"{etag}-N"'  # the number of parts is not known here
    etag = str(row.get("hash", "")).strip('"')  # a delete marker has none
    return f'"{etag}"'


def class_of_row(row: Row) -> str:
    """The storage class of a row that `split_row` has seen."""
    return str(row.get(ROW_CLASS, DEFAULT_CLASS))
