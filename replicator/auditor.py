# SPDX-License-Identifier: Apache-2.0
"""The auditor: reads the databases of this host as a whole, and finds damage before a client does.

A damaged database is put into quarantine, as by the servers. The replicators of its other replicas
send it again. Facts that contradict each other in a sound file are logged: each replica may be the
right one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass

from martlet.http.response import HTTPException
from martlet.log import fields, get_logger
from martlet.recon.cache import write_figures
from martlet.service.disk_calls import DiskStuck, on_disk
from replicator.options import AuditorOptions
from replicator.sizes import Sizes
from replicator.walk import Held, databases_on, local_devices
from ring.devices import Device
from ring.ring import Ring
from storage.concurrency import for_each
from storage.errors import DatabaseDamaged, DatabaseError, DatabaseMissing
from storage.replicated_database import ReplicatedDatabase

#: Time between two reports to recon in a long pass, seconds; as in OpenStack Swift.
REPORT_SECONDS = 3600.0


@dataclass
class AuditFigures:
    """The work of a pass."""

    passed: int = 0
    failed: int = 0  # with damage, or with facts that contradict each other
    quarantined: int = 0  # of them, damaged
    errors: int = 0  # databases and devices that could not be read
    bytes: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""
        return asdict(self)

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether something could not be audited."""
        return self.errors > 0


class Auditor:
    """The passes over the databases of one kind, ``account`` or ``container``."""

    def __init__(
        self,
        kind: str,
        options: AuditorOptions,
        ring: Ring,
        port: int,
        usable_path: Callable[[str], str],
        open_database: Callable[[str], ReplicatedDatabase],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``usable_path`` returns the directory of a device, or raises HTTPException."""
        self.interval = options.interval
        self._kind = kind
        self._options = options
        self._ring = ring
        self._port = port
        self._usable_path = usable_path
        self._open_database = open_database
        self._sleep = sleep
        # Since the last report to recon: its time, and the databases that passed and failed.
        self._reported_at, self._passed, self._failed = time.time(), 0, 0
        self._sizes = Sizes()
        self._log = get_logger(f"martlet.{kind}.auditor")

    def run_once(self, devices: Collection[str] = ()) -> AuditFigures:
        """Run one pass, over all devices or some, and return its figures.

        :raises RingError: there is no ring.
        """
        figures, started = AuditFigures(), time.monotonic()
        local = local_devices(self._ring, self._port)
        if not local:
            figures.errors += 1
            self._log.error("the ring has no device of this host with port %d", self._port)
        wanted = [device for device in local if not devices or device["device"] in devices]
        self._sizes = Sizes()
        for_each(lambda device: self._audit_device(device, figures), wanted, max(1, len(wanted)))
        figures.seconds = time.monotonic() - started
        # The sizes of some devices would be read as those of all.
        self._report(figures.seconds, {} if devices else self._sizes.for_recon(self._kind))
        shown = {name: round(value, 2) for name, value in figures.as_dict().items()}
        self._log.info("pass done %s", fields(**shown))
        return figures

    def _audit_device(self, device: Device, figures: AuditFigures) -> None:
        try:
            path = self._usable_path(device["device"])
            for held in databases_on(path, device, f"{self._kind}s", None):
                started, before = time.monotonic(), figures.bytes
                self._audit(path, held, figures)
                self._pace(figures.bytes - before, time.monotonic() - started)
                if time.time() - self._reported_at > REPORT_SECONDS:
                    self._report()
        except (DiskStuck, OSError, HTTPException) as error:
            figures.errors += 1
            words = error.response.status if isinstance(error, HTTPException) else error
            self._log.error("pass skips a device %s", fields(device=device["device"], error=words))

    def _audit(self, device_path: str, held: Held, figures: AuditFigures) -> None:
        database = self._open_database(held.path)
        try:
            size = on_disk(device_path, os.path.getsize, held.path)
            faults = database.audit()
            figures.bytes += size
            self._sizes.add(size)
            for fault in faults:
                self._log.error(
                    "a database contradicts itself %s", fields(path=held.path, why=fault)
                )
            self._count(figures, not faults)
        except (FileNotFoundError, DatabaseMissing):
            pass  # removed since it was listed
        except DatabaseDamaged as error:
            figures.quarantined += 1
            self._count(figures, False)
            self._log.error("a damaged database: %s", error)
        except DatabaseError as error:
            figures.errors += 1
            self._log.error("cannot audit a database: %s", error)
        except DiskStuck:
            raise
        except Exception:
            figures.errors += 1
            self._log.exception("cannot audit a database %s", fields(path=held.path))
        finally:
            database.close()

    def _count(self, figures: AuditFigures, is_sound: bool) -> None:
        if is_sound:
            figures.passed += 1
            self._passed += 1
        else:
            figures.failed += 1
            self._failed += 1

    def _pace(self, read_bytes: int, seconds: float) -> None:
        """Wait as long as the limits of databases and bytes demand after a database."""
        needed = pause_after(
            read_bytes, self._options.databases_per_second, self._options.bytes_per_second
        )
        self._sleep(max(0.0, needed - seconds))

    def _report(
        self, pass_seconds: float | None = None, sizes: Mapping[str, object] | None = None
    ) -> None:
        """Write the figures since the last report where recon finds them."""
        kind = self._kind
        figures: dict[str, object] = {
            f"{kind}_audits_since": self._reported_at,
            f"{kind}_audits_passed": self._passed,
            f"{kind}_audits_failed": self._failed,
            **(sizes or {}),
        }
        if pass_seconds is not None:
            figures[f"{kind}_auditor_pass_completed"] = pass_seconds
        write_figures(self._options.recon_cache_path, kind, figures)
        self._reported_at, self._passed, self._failed = time.time(), 0, 0


def pause_after(read_bytes: int, databases_per_second: float, bytes_per_second: int) -> float:
    """The time that a database may take at least by both limits, seconds; 0: no limit. Pure."""
    by_count = 1 / databases_per_second if databases_per_second else 0.0
    by_bytes = read_bytes / bytes_per_second if bytes_per_second else 0.0
    return max(by_count, by_bytes)
