# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a database, and the HTTP status each is answered with."""


class DatabaseError(Exception):
    """Base of every error of a database; ``path`` is its file, ``status`` the HTTP status."""

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
    """The file is a database, but not of a schema that this version reads; it stays where it is."""


class DatabaseBusy(DatabaseError):
    """Another process held the database for longer than the busy timeout."""

    status = 503


class DeviceFailed(DatabaseError):
    """The device is full or gives I/O errors; nothing of the write was kept."""

    status = 507


class DeviceMissing(DatabaseError):
    """The device of the database is not there, so that nothing is known of the database."""

    status = 507


class DeviceStuck(DeviceFailed):
    """The device does not answer; what a write would have changed may be changed later."""


class ProcessLost(DatabaseError):
    """Another device, which does not answer, keeps this process from its databases."""

    status = 503
