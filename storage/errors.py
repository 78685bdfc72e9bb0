# SPDX-License-Identifier: Apache-2.0
"""The errors of a database, and the HTTP status for each."""


class DatabaseError(Exception):
    """The base of all errors of a database; ``path`` is its file, ``status`` the HTTP status."""

    status = 500

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DatabaseMissing(DatabaseError):
    """There is no such database."""

    status = 404

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such database")


class DatabaseExists(DatabaseError):
    """Another writer has created the database first."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the database exists")


class DatabaseDamaged(DatabaseError):
    """The file is not a whole SQLite database; it has been moved to quarantine."""


class DatabaseUnsupported(DatabaseError):
    """The file is a database, but this version does not read its schema; it is left in place."""


class DatabaseBusy(DatabaseError):
    """Another process held the database for longer than the busy timeout."""

    status = 503


class DeviceFailed(DatabaseError):
    """The device is full or gives I/O errors; nothing of the write was kept."""

    status = 507


class DeviceBusy(DatabaseError):
    """So many databases are being made on the device that nothing was begun."""

    status = 529

    def __init__(self, path: str) -> None:
        super().__init__(path, "too many databases are being made")


class DeviceMissing(DatabaseError):
    """The device of the database is missing, so the state of the database is unknown."""

    status = 507


class DeviceStuck(DeviceFailed):
    """The device does not answer; the change of a write may still happen later."""


class ProcessLost(DatabaseError):
    """Another device, which does not answer, prevents this process from opening databases."""

    status = 503
