# SPDX-License-Identifier: Apache-2.0
"""The headers of object versioning, as clients and containers have them."""

from __future__ import annotations

ENABLED_HEADER = "X-Versions-Enabled"
#: Whether versioning is enabled; a container that never had it has no such header.
ENABLED_SYSMETA = "X-Container-Sysmeta-Versions-Enabled"
CLIENT_VERSION_ID = "X-Object-Version-Id"
CLIENT_CURRENT_ID = "X-Object-Current-Version-Id"
