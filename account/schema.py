# SPDX-License-Identifier: Apache-2.0
"""The tables of an account database, named as OpenStack Swift names them (account-db.md)."""

TABLES = """
CREATE TABLE container (
    ROWID INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT,
    put_timestamp TEXT,
    delete_timestamp TEXT,
    object_count INTEGER,
    bytes_used INTEGER,
    deleted INTEGER DEFAULT 0,
    storage_policy_index INTEGER DEFAULT 0
);
CREATE INDEX ix_container_deleted_name ON container (deleted, name);

CREATE TABLE account_stat (
    account TEXT,
    created_at TEXT,
    put_timestamp TEXT DEFAULT '0',
    delete_timestamp TEXT DEFAULT '0',
    container_count INTEGER,
    object_count INTEGER DEFAULT 0,
    bytes_used INTEGER DEFAULT 0,
    hash TEXT DEFAULT '00000000000000000000000000000000',
    id TEXT,
    status TEXT DEFAULT '',
    status_changed_at TEXT DEFAULT '0',
    metadata TEXT DEFAULT ''
);

CREATE TABLE policy_stat (
    storage_policy_index INTEGER PRIMARY KEY,
    container_count INTEGER DEFAULT 0,
    object_count INTEGER DEFAULT 0,
    bytes_used INTEGER DEFAULT 0
);
"""

# Replication finds a changed row by its new ROWID. So rows are replaced, not updated.
TRIGGERS = """
CREATE TRIGGER container_update BEFORE UPDATE ON container BEGIN
    SELECT RAISE(FAIL, 'rows are replaced: DELETE and INSERT');
END;

CREATE TRIGGER container_insert AFTER INSERT ON container BEGIN
    UPDATE account_stat SET
        container_count = container_count + (1 - new.deleted),
        object_count = object_count + new.object_count,
        bytes_used = bytes_used + new.bytes_used,
        hash = chexor(hash, new.name, new.put_timestamp || '-' || new.delete_timestamp
            || '-' || new.object_count || '-' || new.bytes_used);
END;

CREATE TRIGGER container_delete AFTER DELETE ON container BEGIN
    UPDATE account_stat SET
        container_count = container_count - (1 - old.deleted),
        object_count = object_count - old.object_count,
        bytes_used = bytes_used - old.bytes_used,
        hash = chexor(hash, old.name, old.put_timestamp || '-' || old.delete_timestamp
            || '-' || old.object_count || '-' || old.bytes_used);
END;

CREATE TRIGGER container_insert_ps AFTER INSERT ON container BEGIN
    INSERT INTO policy_stat
    VALUES (new.storage_policy_index, 1 - new.deleted, new.object_count, new.bytes_used)
    ON CONFLICT (storage_policy_index) DO UPDATE SET
        container_count = container_count + excluded.container_count,
        object_count = object_count + excluded.object_count,
        bytes_used = bytes_used + excluded.bytes_used;
END;

CREATE TRIGGER container_delete_ps AFTER DELETE ON container BEGIN
    UPDATE policy_stat SET
        container_count = container_count - (1 - old.deleted),
        object_count = object_count - old.object_count,
        bytes_used = bytes_used - old.bytes_used
    WHERE storage_policy_index = old.storage_policy_index;
END;
"""

#: When each container's totals came, for replication: of two replicas the later report is right.
#: A table of its own, because the columns of ``container`` are those of OpenStack Swift.
REPORT_TABLE = """
CREATE TABLE IF NOT EXISTS container_report (
    name TEXT PRIMARY KEY,
    reported_at TEXT
) WITHOUT ROWID
"""
