"""An auditor finds damage and contradictions, keeps to its rates, and tells recon."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from replicating import PARTITION, Replicas
from storage_calls import stamp

from account.app import AccountServer
from account.database import AccountDatabase
from container.app import ContainerServer
from container.database import ContainerDatabase
from replicator import auditor as module
from replicator.auditor import AuditFigures, Auditor, pause_after
from replicator.options import AccountAuditorOptions, AuditorOptions, ContainerAuditorOptions
from storage.audit import check_integrity
from storage.storage_server import StorageServer

A = f"/d1/{PARTITION}/AUTH_test"
C = f"{A}/c"


class Audited:
    """One server with a database, and its auditor."""

    def __init__(self, server: type[Any], directory: Path, **options: Any) -> None:
        self.replicas = Replicas(server, directory, servers=2, primaries=(1, 2))
        self.server: StorageServer = self.replicas.servers[1]
        self.call = self.replicas.call[1]
        self.recon = directory
        self.pauses: list[float] = []
        is_account = server is AccountServer
        kind = AccountAuditorOptions if is_account else ContainerAuditorOptions
        self.options: AuditorOptions = kind(recon_cache_path=str(directory), **options)
        ring: Any = self.replicas.ring
        self.auditor = Auditor(
            server.name,
            self.options,
            ring,
            1,
            lambda device: f"{self.server.devices}/{device}",
            AccountDatabase if is_account else ContainerDatabase,
            self.pauses.append,
        )
        assert self.call("PUT", A if is_account else C, 1).status == 201

    def run(self) -> AuditFigures:
        return self.auditor.run_once()

    @property
    def path(self) -> Path | None:
        return self.replicas.database(1)

    def close_and_connect(self) -> sqlite3.Connection:
        self.server.pool.close()
        assert self.path is not None
        return sqlite3.connect(self.path, isolation_level=None)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Audited]:
    audited = Audited(ContainerServer, tmp_path)
    rows = [
        {
            "name": f"o{number:04d}" + "n" * 100,
            "created_at": stamp(2),
            "size": 1,
            "content_type": "a/b",
            "etag": "e",
        }
        for number in range(200)
    ]
    assert audited.call("UPDATE", C, 2, {}, rows).status == 202
    yield audited
    audited.replicas.close()


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Audited]:
    audited = Audited(AccountServer, tmp_path)
    rows = [
        {
            "name": f"c{number}",
            "put_timestamp": stamp(2),
            "delete_timestamp": "0",
            "object_count": 1,
            "bytes_used": 10,
            "storage_policy_index": number % 2,
        }
        for number in range(20)
    ]
    assert audited.call("UPDATE", A, 2, {}, rows).status == 202
    yield audited
    audited.replicas.close()


def recon(audited: Audited) -> dict[str, Any]:
    path = audited.recon / f"{audited.server.name}.recon"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_sound_container(containers: Audited) -> None:
    figures = containers.run()
    assert (figures.passed, figures.failed, figures.errors) == (1, 0, 0)
    assert figures.bytes > 4096
    told = recon(containers)
    assert (told["container_audits_passed"], told["container_audits_failed"]) == (1, 0)
    assert told["container_auditor_pass_completed"] > 0
    assert told["container_audits_since"]


@pytest.mark.parametrize("damage", ["page", "index", "text", "no database"])
def test_damage_is_quarantined(containers: Audited, damage: str) -> None:
    connection = containers.close_and_connect()
    path = containers.path
    assert path is not None
    if damage == "index":  # a row that its index does not have
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET rootpage = 2 WHERE name LIKE 'ix_object%'")
    if damage == "text":
        connection.execute("DROP TRIGGER object_update")
        query = "UPDATE object SET created_at = CAST(x'ff31' AS TEXT) WHERE name LIKE 'o0001%'"
        connection.execute(query)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    if damage in ("page", "no database"):
        with path.open("r+b") as file:
            file.seek(0 if damage == "no database" else path.stat().st_size - 4096)
            file.write(b"\x55" * 64)
    figures = containers.run()
    assert (figures.passed, figures.failed, figures.quarantined) == (0, 1, 1)
    assert figures.errors == 0
    assert containers.path is None
    shelf = Path(containers.server.devices) / "d1" / "quarantined" / "containers"
    assert [entry.name for entry in shelf.iterdir()] == [path.stem]
    assert recon(containers)["container_audits_failed"] == 1
    figures = containers.run()
    assert (figures.passed, figures.failed) == (0, 0)


@pytest.mark.parametrize(("code", "is_damage"), [(266, False), (8458, False), (11, True)])
def test_a_page_that_cannot_be_read_now_is_no_damage(code: int, is_damage: bool) -> None:
    class Connection:
        def execute(self, query: str) -> Connection:
            return self

        def fetchone(self) -> tuple[str]:
            return (f"Tree 2 page 3: unable to get the page. error code={code}",)

    connection: Any = Connection()
    with pytest.raises(sqlite3.DatabaseError) as caught:
        check_integrity(connection)
    found = getattr(caught.value, "sqlite_errorcode", 0) & 0xFF
    assert (found == sqlite3.SQLITE_CORRUPT) == is_damage


def test_a_changed_row_is_reported_and_stays(
    containers: Audited, caplog: pytest.LogCaptureFixture
) -> None:
    """Which replica is right is not known here."""
    connection = containers.close_and_connect()
    connection.execute("DROP TRIGGER object_update")
    connection.execute("UPDATE object SET created_at = ? WHERE name LIKE 'o0001%'", (stamp(9),))
    connection.close()
    figures = containers.run()
    assert (figures.failed, figures.quarantined) == (1, 0)
    assert containers.path is not None
    assert "the hash is not that of the rows" in caplog.text


def test_a_sound_account(accounts: Audited) -> None:
    figures = accounts.run()
    assert (figures.passed, figures.failed, figures.errors) == (1, 0, 0)
    assert recon(accounts)["account_audits_passed"] == 1


@pytest.mark.parametrize("column", ["container_count", "object_count", "bytes_used"])
def test_totals_that_are_not_those_of_the_policies(accounts: Audited, column: str) -> None:
    connection = accounts.close_and_connect()
    connection.execute(
        f"UPDATE policy_stat SET {column} = {column} + 1 WHERE storage_policy_index = 1"
    )
    connection.close()
    figures = accounts.run()
    assert (figures.failed, figures.quarantined) == (1, 0)
    assert accounts.path is not None
    # As in OpenStack Swift, those of a deleted account do not matter.
    assert accounts.call("DELETE", A, 9).status == 204
    assert accounts.run().failed == 0


def test_a_row_of_an_account_that_has_changed(accounts: Audited) -> None:
    connection = accounts.close_and_connect()
    connection.execute("DROP TRIGGER container_update")
    connection.execute("UPDATE container SET bytes_used = 11 WHERE name = 'c1'")
    connection.close()
    assert accounts.run().failed == 1


def test_the_pauses(containers: Audited) -> None:
    containers.auditor._options = ContainerAuditorOptions(containers_per_second=0.001)
    containers.run()
    (pause,) = containers.pauses
    assert 900 < pause < 1000  # less the time that the audit took
    assert pause_after(0, 200, 10_000_000) == 1 / 200
    assert pause_after(10**7, 200, 10**6) == 10
    assert pause_after(10**7, 0, 0) == 0


def test_a_long_pass_reports_in_between(
    containers: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPORT_SECONDS", -1.0)
    monkeypatch.setattr(containers.auditor, "_report", calls := _Calls())
    containers.run()
    assert len(calls.seen) == 2


class _Calls:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, *arguments: Any) -> None:
        self.seen.append(arguments)


def test_a_missing_device_is_one_error(containers: Audited) -> None:
    def missing(device: str) -> str:
        raise OSError("no such device")

    containers.auditor._usable_path = missing
    figures = containers.run()
    assert (figures.errors, figures.is_to_be_repeated) == (1, True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": 0.0},
        {"containers_per_second": -1.0},
        {"bytes_per_second": -1},
        {"nice_priority": 20},
        {"ionice_class": "idle"},
    ],
)
def test_bad_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|rate"):
        ContainerAuditorOptions(**wrong)
