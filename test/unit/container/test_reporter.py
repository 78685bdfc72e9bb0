"""A container's totals reach its account: at once, soon, or by the sweep."""

from pathlib import Path

import pytest
from fake_accounts import CONTAINER as C
from fake_accounts import ROW, AccountServers, Ring, devices, proxy_headers
from storage_calls import Caller, stamp

from container.app import ContainerServer
from container.database import ContainerDatabase
from container.reporter import REPORTED_TOGETHER, Reporter
from martlet.words.timestamp import Timestamp
from storage.errors import DeviceFailed


def test_put_and_delete_tell_the_account_at_once(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    assert call("PUT", "/d1/0/AUTH_test/c%20%0A☃", 1, proxy_headers()).status == 201
    told = accounts.take()
    assert [(r[0], r[2]) for r in told] == [
        (("10.0.0.1", 1), "/sda/77/AUTH_test/c%20%0A%E2%98%83"),
        (("10.0.0.2", 2), "/sdb/77/AUTH_test/c%20%0A%E2%98%83"),
        (("::1", 3), "/sdc/77/AUTH_test/c%20%0A%E2%98%83"),
    ]
    headers = told[0][3]
    assert headers["X-Put-Timestamp"] == stamp(1)
    assert headers["X-Delete-Timestamp"] in ("0", "0000000000.00000")
    assert (headers["X-Object-Count"], headers["X-Bytes-Used"]) == ("0", "0")
    assert "X-Account-Override-Deleted" not in headers
    deletion = proxy_headers(X_Account_Override_Deleted="yes")
    assert call("DELETE", "/d1/0/AUTH_test/c%20%0A☃", 2, deletion).status == 204
    headers = accounts.take()[0][3]
    assert headers["X-Delete-Timestamp"] == stamp(2)
    assert headers["X-Account-Override-Deleted"] == "yes"


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({}, 201),
        ({1: 404, 2: 404}, 201),
        ({1: 404, 2: 404, 3: 404}, 404),
        ({1: 0, 2: -1, 3: 500}, 201),
        ({1: 0, 2: 404, 3: 404}, 201),
    ],
)
def test_what_the_account_says(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    statuses: dict[int, int],
    expected: int,
) -> None:
    accounts.statuses = statuses
    assert call("PUT", C, 1, proxy_headers()).status == expected
    assert len(accounts.requests) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"X_Account_Host": "10.0.0.1:1"},
        {"X_Account_Device": "sda"},
        {"X_Account_Host": "10.0.0.1:1,10.0.0.2,::1:3"},
        {"X_Account_Host": "a:1,b:x,c:3"},
        {"X_Account_Host": "a:1,b:65536,c:3"},
        {"X_Account_Host": f"a:1,b:{'9' * 5000},c:3"},
    ],
)
def test_bad_account_headers(call: Caller, reporter: Reporter, change: dict[str, str]) -> None:
    assert call("PUT", C, 1, proxy_headers(**change)).status == 400


def test_changes_are_reported_once(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    before = Timestamp.now()
    call("PUT", C, 1)
    call("UPDATE", C, 2, body=[ROW])
    reporter.report_changed()
    told = accounts.take()
    assert [r[2] for r in told] == [f"/d{port}/3/AUTH_test/c" for port in (1, 2, 3)]
    assert (told[0][3]["X-Object-Count"], told[0][3]["X-Bytes-Used"]) == ("1", "5")
    assert told[0][3]["X-Account-Override-Deleted"] == "yes"
    read_at = Timestamp(told[0][3]["X-Backend-Reported-At"])
    assert before <= read_at <= Timestamp.now()
    reporter.report_changed()
    reporter.sweep()
    reporter.report_changed()
    assert accounts.take() == []
    call("DELETE", f"{C}/o", 3)
    reporter.report_changed()
    assert accounts.take()[0][3]["X-Object-Count"] == "0"


def test_what_was_not_reported_is_found_again(
    call: Caller, reporter: Reporter, accounts: AccountServers, swift_dir: Path
) -> None:
    """As after a crash: another process, which knows of no change, sweeps the devices."""
    call("PUT", C, 1)
    call("PUT", "/d2/5/AUTH_test/c2", 1)
    (swift_dir / "devices" / "d1" / "containers" / "0" / "stray").write_text("")
    later = Reporter(reporter._options, devices(reporter), reporter._pool, accounts, Ring)  # type: ignore[arg-type]
    later.report_changed()
    assert accounts.take() == []
    later.sweep()
    later.report_changed()
    assert accounts.take_names() == [(port, name) for port in (1, 2, 3) for name in ("c", "c2")]


def test_a_device_is_swept_by_one_process(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    call("PUT", C, 1)
    second = Reporter(reporter._options, devices(reporter), reporter._pool, accounts, Ring)  # type: ignore[arg-type]
    reporter.sweep()
    second.sweep()
    second.report_changed()
    assert accounts.take() == []
    reporter.report_changed()
    assert len(accounts.take()) == 3


def test_an_account_out_of_reach_is_left_alone_for_a_while(
    call: Caller, reporter: Reporter, accounts: AccountServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("container.reporter.time.monotonic", lambda: now)
    call("PUT", C, 1)
    accounts.statuses = {1: -1, 2: 0}
    reporter.report_changed()
    assert len(accounts.take()) == 3
    reporter.report_changed()
    assert accounts.take() == []
    accounts.statuses = {1: -1}
    now += 61
    reporter.report_changed()  # two of three is enough
    assert len(accounts.take()) == 3
    now += 61
    reporter.report_changed()
    assert accounts.take() == []


def test_a_container_that_only_its_rows_made_is_not_reported(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    headers = {"X-Backend-Storage-Policy-Index": "0", "X-Backend-Auto-Create": "yes"}
    call("UPDATE", C, 0 - 1795223500, headers, [ROW])
    reporter.report_changed()
    assert accounts.take() == []


def test_without_an_account_ring_the_news_wait(
    call: Caller, server: ContainerServer, caplog: pytest.LogCaptureFixture
) -> None:
    call("PUT", C, 1)
    call("PUT", "/d1/0/AUTH_test/other", 1)
    server.reporter.report_changed()
    errors = [r.message[:31] for r in caplog.records if r.levelname == "ERROR"]
    assert errors == ["cannot report to the accounts: "]
    assert len(server.reporter._changed) == 2


def test_one_bad_database_does_not_stop_the_others(
    call: Caller, reporter: Reporter, accounts: AccountServers, swift_dir: Path
) -> None:
    call("PUT", C, 1)
    call("PUT", "/d1/1/AUTH_test/good", 1)
    bad = next((swift_dir / "devices" / "d1" / "containers" / "0").glob("**/*.db"))
    reporter._pool.close()
    bad.write_bytes(b"x" * 4096)
    reporter.report_changed()
    assert {r[2][-5:] for r in accounts.take()} == {"/good"}
    reporter.sweep()
    reporter.report_changed()


def fill_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on SQLite finds no room for a commit."""

    def write(self: ContainerDatabase, transaction: object) -> None:
        raise DeviceFailed(self.path, "database or disk is full")

    monkeypatch.setattr(ContainerDatabase, "write", write)


def test_a_full_disk_is_one_line_and_waited_for(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 1000.0
    monkeypatch.setattr("container.reporter.time.monotonic", lambda: now)
    for number in range(5):
        call("PUT", f"{C}{number}", 1)
    with monkeypatch.context() as full:
        fill_up(full)
        for _ in range(3):
            reporter.report_changed()
    (record,) = [r for r in caplog.records if r.levelname != "INFO"]
    assert f"takes no reports device={devices(reporter)}/d1 pause_seconds=60" in record.message
    assert "disk is full" in record.message
    assert record.exc_info is None
    assert len(accounts.take()) == 3  # one request to each, and none after it
    now += 61
    reporter.report_changed()
    assert len(accounts.take_names()) == 15


def test_an_account_that_takes_no_report_is_named(
    call: Caller, reporter: Reporter, accounts: AccountServers, caplog: pytest.LogCaptureFixture
) -> None:
    accounts.statuses = {1: 404, 2: 404}
    for number in range(3):
        call("PUT", f"{C}{number}", 1)
    for _ in range(3):
        reporter.report_changed()
    lines = [r.message for r in caplog.records if "does not take reports" in r.message]
    assert len(lines) == 1
    assert "account=AUTH_test" in lines[0]
    assert "statuses=404,404,201" in lines[0]


def test_a_lock_file_that_cannot_be_made_spoils_one_device(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    swift_dir: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    call("PUT", C, 1)
    call("PUT", "/d2/5/AUTH_test/c2", 1)
    reporter._changed.clear()
    (swift_dir / "devices/d1/containers/.sweep.lock").mkdir()  # stands for ENOSPC
    reporter.sweep()
    reporter.report_changed()
    assert {r[2][-3:] for r in accounts.take()} == {"/c2"}
    (record,) = [r for r in caplog.records if r.levelname != "INFO"]
    assert "sweep skips a device" in record.message
    assert record.exc_info is None


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_the_request_has_told_is_not_told_again(
    call: Caller, reporter: Reporter, accounts: AccountServers, method: str
) -> None:
    if method == "DELETE":
        call("PUT", C, 1)
        reporter.report_changed()
        accounts.take()
    assert call(method, C, 2, proxy_headers()).status // 100 == 2
    assert len(accounts.take()) == 3
    reporter.report_changed()
    reporter.sweep()
    reporter.report_changed()
    assert accounts.take() == []
    path = next(Path(devices(reporter)).rglob("*.db"))
    assert not ContainerDatabase(str(path)).info().is_unreported


def test_a_request_that_one_replica_missed_is_told_again(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    accounts.statuses = {2: 0}
    call("PUT", C, 1, proxy_headers())
    accounts.take()
    accounts.statuses = {}
    reporter.report_changed()
    assert accounts.take_names() == [(1, "c"), (2, "c"), (3, "c")]


def test_a_change_after_the_request_is_told(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    call("PUT", C, 1, proxy_headers())
    accounts.take()
    call("UPDATE", C, 2, body=[ROW])
    reporter.report_changed()
    assert accounts.take()[0][3]["X-Object-Count"] == "1"


def test_of_two_reports_at_once_another_follows(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    """The accounts may get the two in any order, so neither record proves that they know."""
    call("PUT", C, 1)
    database = ContainerDatabase(str(next(Path(devices(reporter)).rglob("*.db"))))
    first = database.info()
    call("UPDATE", C, 2, body=[ROW])
    second = database.info()
    assert first.read_at < second.read_at
    assert database.set_reported(second)
    assert not database.set_reported(first)
    reporter.report_changed()
    assert accounts.take()[0][3]["X-Object-Count"] == "1"
    assert not database.info().is_unreported
    database.close()


def test_the_same_report_twice_is_done(call: Caller, reporter: Reporter) -> None:
    call("PUT", C, 1)
    database = ContainerDatabase(str(next(Path(devices(reporter)).rglob("*.db"))))
    info = database.info()
    assert database.set_reported(info)
    assert database.set_reported(info)
    assert not database.info().is_unreported
    database.close()


def test_containers_of_an_account_are_told_together(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    for number in range(5):
        call("PUT", f"{C}{number}", 1)
    call("UPDATE", f"{C}3", 2, body=[ROW])
    call("PUT", "/d1/0/AUTH_other/x", 1)
    reporter.report_changed()
    rows = [told for port, told in accounts.rows if port == 2]
    together = next(told for told in rows if len(told) > 1)
    assert sorted(row["name"] for row in together) == [f"c{number}" for number in range(5)]
    (row,) = [row for row in together if row["name"] == "c3"]
    assert (row["object_count"], row["bytes_used"]) == (1, 5)
    assert (row["put_timestamp"], row["storage_policy_index"]) == (stamp(1), 0)
    told = accounts.take()
    assert len(told) == 6
    assert {(r[1], r[2]) for r in told if r[0][1] == 2} == {
        ("UPDATE", "/d2/3/AUTH_test"),
        ("PUT", "/d2/3/AUTH_other/x"),
    }
    assert all(r[3]["X-Account-Override-Deleted"] == "yes" for r in told)
    reporter.report_changed()
    reporter.sweep()
    reporter.report_changed()
    assert accounts.take() == []


def test_a_batch_has_a_limit(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert REPORTED_TOGETHER * 1000 < 4 * 1024**2  # the account server takes it
    monkeypatch.setattr("container.reporter.REPORTED_TOGETHER", 2)
    for number in range(5):
        call("PUT", f"{C}{number}", 1)
    reporter.report_changed()
    assert sorted(len(rows) for port, rows in accounts.rows if port == 1) == [1, 2, 2]


def test_a_server_without_updates_gets_puts(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    """As those of OpenStack Swift."""
    accounts.is_of_swift = True
    for number in range(3):
        call("PUT", f"{C}{number}", 1)
    reporter.report_changed()
    puts = [(r[0][1], r[2].rpartition("/")[2]) for r in accounts.take() if r[1] == "PUT"]
    assert sorted(puts) == [(p, f"c{n}") for p in (1, 2, 3) for n in range(3)]
    reporter.report_changed()
    assert accounts.take() == []


def test_a_deleted_container_of_no_account_is_done(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    """Nothing is left to tell, so that its files can be reclaimed."""
    call("PUT", C, 1)
    call("PUT", f"{C}2", 1)
    reporter.report_changed()
    accounts.statuses = {1: 404, 2: 404, 3: 404}
    call("DELETE", C, 2)
    call("UPDATE", f"{C}2", 2, body=[ROW])
    accounts.take()
    reporter.report_changed()
    accounts.statuses = {}
    reporter._suppressed.clear()
    reporter.report_changed()
    told = accounts.take()
    assert {r[2].rpartition("/")[2] for r in told if r[1] == "PUT"} == {"c2"}


def test_what_account_servers_answer_is_in_the_log(
    call: Caller, reporter: Reporter, accounts: AccountServers, caplog: pytest.LogCaptureFixture
) -> None:
    accounts.statuses = {1: 503, 2: 0, 3: 404}
    call("PUT", C, 1, proxy_headers())
    said = [r.getMessage() for r in caplog.records if "account update failed" in r.getMessage()]
    assert [line.partition("repeated: ")[2] for line in said] == [
        "10.0.0.1:1 answered 503",
        "10.0.0.2:2 lost",
    ]
