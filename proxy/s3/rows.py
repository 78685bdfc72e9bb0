# SPDX-License-Identifier: Apache-2.0
"""Rows of listings: the ETag for S3 beside that of Swift's API."""

from __future__ import annotations

from proxy.middleware.large_objects.row_etag import Row, join_row_etag, split_row_etag


def show_etag(row: Row) -> None:
    """Move the ETag for S3 from a row's hash into ``s3_etag``."""
    if ";" not in row["hash"]:
        return
    etag, parameters = split_row_etag(row["hash"])
    found = parameters.pop("s3_etag", None)
    if found is not None:
        row["s3_etag"] = f'"{found}"'
        row["hash"] = join_row_etag(etag, parameters)


def etag_of_row(row: Row) -> str:
    """The ETag of a row, with quotes."""
    show_etag(row)
    if "s3_etag" in row:
        return str(row["s3_etag"])
    if "slo_etag" in row:
        etag = str(row["slo_etag"]).strip('"')
        return f'"{etag}-N"'  # the number of parts is not known here
    etag = str(row["hash"]).strip('"')
    return f'"{etag}"'
