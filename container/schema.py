# SPDX-License-Identifier: Apache-2.0
"""The tables of a container database, named as OpenStack Swift names them (container-db.md)."""

TABLES = """
CREATE TABLE object (
    ROWID INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT,
    created_at TEXT,
    size INTEGER,
    content_type TEXT,
    etag TEXT,
    deleted INTEGER DEFAULT 0,
    storage_policy_index INTEGER DEFAULT 0
);
CREATE INDEX ix_object_deleted_name ON object (deleted, name);

CREATE TABLE policy_stat (
    storage_policy_index INTEGER PRIMARY KEY,
    object_count INTEGER DEFAULT 0,
    bytes_used INTEGER DEFAULT 0
);

CREATE TABLE container_info (
    account TEXT,
    container TEXT,
    created_at TEXT,
    put_timestamp TEXT DEFAULT '0',
    delete_timestamp TEXT DEFAULT '0',
    reported_put_timestamp TEXT DEFAULT '0',
    reported_delete_timestamp TEXT DEFAULT '0',
    reported_object_count INTEGER DEFAULT 0,
    reported_bytes_used INTEGER DEFAULT 0,
    hash TEXT DEFAULT '00000000000000000000000000000000',
    id TEXT,
    status TEXT DEFAULT '',
    status_changed_at TEXT DEFAULT '0',
    metadata TEXT DEFAULT '',
    x_container_sync_point1 INTEGER DEFAULT -1,
    x_container_sync_point2 INTEGER DEFAULT -1,
    storage_policy_index INTEGER DEFAULT 0,
    reconciler_sync_point INTEGER DEFAULT -1
);

CREATE TABLE shard_range (
    ROWID INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT,
    timestamp TEXT,
    lower TEXT,
    upper TEXT,
    object_count INTEGER DEFAULT 0,
    bytes_used INTEGER DEFAULT 0,
    meta_timestamp TEXT,
    deleted INTEGER DEFAULT 0,
    state INTEGER,
    state_timestamp TEXT,
    epoch TEXT,
    reported INTEGER DEFAULT 0,
    tombstones INTEGER DEFAULT -1
);
"""

# Replication finds a changed row by its new ROWID. So rows are replaced, not updated.
_NO_UPDATES = """
CREATE TRIGGER object_update BEFORE UPDATE ON object BEGIN
    SELECT RAISE(FAIL, 'rows are replaced: DELETE and INSERT');
END;
CREATE TRIGGER shard_range_update BEFORE UPDATE ON shard_range BEGIN
    SELECT RAISE(FAIL, 'rows are replaced: DELETE and INSERT');
END;
"""

# They update counts and hash on every write of a row. A merge counts its rows itself (merge.py): it
# puts a "-" before the hash while it inserts and deletes. No other transaction can see that.
COUNTING_TRIGGERS = """
CREATE TRIGGER object_insert_policy_stat AFTER INSERT ON object
WHEN (SELECT substr(hash, 1, 1) <> '-' FROM container_info) BEGIN
    INSERT INTO policy_stat VALUES (new.storage_policy_index, 1 - new.deleted, new.size)
    ON CONFLICT (storage_policy_index) DO UPDATE SET
        object_count = object_count + excluded.object_count,
        bytes_used = bytes_used + excluded.bytes_used;
    UPDATE container_info SET hash = chexor(hash, new.name, new.created_at);
END;

CREATE TRIGGER object_delete_policy_stat AFTER DELETE ON object
WHEN (SELECT substr(hash, 1, 1) <> '-' FROM container_info) BEGIN
    UPDATE policy_stat SET
        object_count = object_count - (1 - old.deleted),
        bytes_used = bytes_used - old.size
    WHERE storage_policy_index = old.storage_policy_index;
    UPDATE container_info SET hash = chexor(hash, old.name, old.created_at);
END;
"""

TRIGGERS = _NO_UPDATES + COUNTING_TRIGGERS

# The single table from before storage policies, as a view for tools that still use it.
STAT_VIEW = """
CREATE VIEW container_stat AS
SELECT info.account, info.container, info.created_at, info.put_timestamp, info.delete_timestamp,
    info.reported_put_timestamp, info.reported_delete_timestamp, info.reported_object_count,
    info.reported_bytes_used, info.hash, info.id, info.status, info.status_changed_at,
    info.metadata, info.x_container_sync_point1, info.x_container_sync_point2,
    info.reconciler_sync_point, info.storage_policy_index,
    coalesce(stat.object_count, 0) AS object_count, coalesce(stat.bytes_used, 0) AS bytes_used
FROM container_info AS info
LEFT JOIN policy_stat AS stat ON stat.storage_policy_index = info.storage_policy_index;

CREATE TRIGGER container_stat_update INSTEAD OF UPDATE ON container_stat BEGIN
    UPDATE container_info SET
        account = new.account,
        container = new.container,
        created_at = new.created_at,
        put_timestamp = new.put_timestamp,
        delete_timestamp = new.delete_timestamp,
        reported_put_timestamp = new.reported_put_timestamp,
        reported_delete_timestamp = new.reported_delete_timestamp,
        reported_object_count = new.reported_object_count,
        reported_bytes_used = new.reported_bytes_used,
        hash = new.hash,
        id = new.id,
        status = new.status,
        status_changed_at = new.status_changed_at,
        metadata = new.metadata,
        x_container_sync_point1 = new.x_container_sync_point1,
        x_container_sync_point2 = new.x_container_sync_point2,
        storage_policy_index = new.storage_policy_index,
        reconciler_sync_point = new.reconciler_sync_point;
END;
"""
