# SPDX-License-Identifier: Apache-2.0
"""``X-Container-Sync-To``: the container in another cluster that this one is copied to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from container.database import ContainerDatabase
from container.sync_rows import SyncPoints, set_points
from martlet.conf.sync_realms import SyncRealms
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import wsgi_to_str
from storage.errors import DatabaseMissing
from storage.metadata import Metadata

SYNC_TO = "x-container-sync-to"


def check_sync_target(req: Request, realms: SyncRealms, allowed_hosts: Sequence[str]) -> None:
    """Check the target that a request sets.

    :raises HTTPException: 400 if the container cannot be copied to it.
    """
    target = req.headers.get(SYNC_TO)
    if target:
        try:
            realms.parse(wsgi_to_str(target), allowed_hosts)
        except ValueError as error:
            raise http_error(400, str(error)) from None


@contextmanager
def restarting_sync(database: ContainerDatabase, updates: Metadata) -> Iterator[None]:
    """Restart the sync from the first row if the write in this context changes the target."""
    changed = {n: v for n, (v, _) in updates.items() if n.lower() == SYNC_TO}
    before: Metadata = {}
    if changed:
        try:
            before = database.info().metadata
        except DatabaseMissing:
            changed = {}
    yield
    if any(before.get(name, ("", ""))[0] != value for name, value in changed.items()):
        set_points(database, SyncPoints(-1, -1))
