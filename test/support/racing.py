"""Many clients that upload in parallel, to test quotas."""

from __future__ import annotations

import threading
from collections.abc import Callable

from swift_api import Account, Answer

CLIENTS = 64
UPLOADS_EACH = 6


def race(opened: Account, upload: Callable[[Account, int], Answer]) -> list[int]:
    """Run ``CLIENTS`` clients in parallel, each uploading sequentially; return the statuses."""
    statuses: list[int] = []
    barrier = threading.Barrier(CLIENTS)

    def run(client: int) -> None:
        account = opened.again()
        barrier.wait()
        for number in range(UPLOADS_EACH):
            statuses.append(upload(account, client * UPLOADS_EACH + number).status)
        account.close()

    threads = [threading.Thread(target=run, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {201, 413}, sorted(set(statuses))
    assert len(statuses) == CLIENTS * UPLOADS_EACH
    return statuses
