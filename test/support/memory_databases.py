"""Databases of accounts and containers in memory, as this program makes them."""

from __future__ import annotations

import sqlite3

from account import schema as of_accounts
from container import schema as of_containers
from storage.schema import chexor


def account_in_memory() -> sqlite3.Connection:
    """The database of an account without containers."""
    tables = of_accounts.TABLES + of_accounts.TRIGGERS + of_accounts.REPORT_TABLE
    connection = _opened(tables)
    connection.execute("INSERT INTO account_stat (account, container_count) VALUES ('a', 0)")
    return connection


def container_in_memory() -> sqlite3.Connection:
    """The database of a container without objects."""
    tables = of_containers.TABLES + of_containers.TRIGGERS + of_containers.STAT_VIEW
    connection = _opened(tables)
    connection.execute("INSERT INTO container_info (account, container) VALUES ('a', 'c')")
    return connection


def _opened(script: str) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.create_function("chexor", 3, chexor, deterministic=True)
    connection.executescript(script)
    return connection
