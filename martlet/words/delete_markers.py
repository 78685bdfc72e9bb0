# SPDX-License-Identifier: Apache-2.0
"""Delete markers in the rows of containers (doc/formats/container-db.md, "Versions")."""

from __future__ import annotations

#: The content type of a delete marker, as Swift shows it.
MARKER_TYPE = "application/x-deleted;swift_versions_deleted=1"
#: Its ETag: that of an empty body.
MARKER_ETAG = "d41d8cd98f00b204e9800998ecf8427e"
#: The ETag of the null version when it is a delete marker. A null version has data at one time and
#: is a marker at another; a late POST may change its content type, but not its ETag. As text it is
#: after every other ETag: of two writes at the same time, the marker wins, as in object servers.
NULL_MARKER_ETAG = "~marker"
