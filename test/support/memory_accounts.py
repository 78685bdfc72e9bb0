"""Account databases in memory."""

from __future__ import annotations

import sqlite3

from account.schema import REPORT_TABLE, TABLES, TRIGGERS
from storage.schema import chexor


def memory_database() -> sqlite3.Connection:
    """A database of an account without containers."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.create_function("chexor", 3, chexor, deterministic=True)
    connection.executescript(TABLES + TRIGGERS + REPORT_TABLE)
    connection.execute("INSERT INTO account_stat (account, container_count) VALUES ('a', 0)")
    return connection
