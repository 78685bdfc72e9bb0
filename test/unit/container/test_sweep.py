"""The sweep opens the databases that may have work."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from fake_accounts import CONTAINER as C
from fake_accounts import ROW, AccountServers, devices
from storage_calls import Caller

from container.report_slots import ReportSlots
from container.reporter import Reporter
from container.sweep import Sweeper
from storage.fingerprint import SETTLED_SECONDS

NEVER = ReportSlots(0, 0)


def test_a_sweep_opens_what_has_changed(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    at = time.time() + 100 * SETTLED_SECONDS  # much later than the last change of the test

    def has_work(path: str, info: Any, is_due: bool) -> bool:
        opened.append(info.container)
        return bool(info.is_unreported)

    monkeypatch.setattr("container.sweep.time.time", lambda: at)
    sweeper = Sweeper(devices(reporter), 10**6, "/nowhere", has_work, NEVER)

    def swept() -> list[str]:
        opened.clear()
        sweeper.sweep()
        return sorted(opened)

    call("PUT", C, 1)
    call("PUT", "/d2/5/AUTH_test/c2", 1)
    assert swept() == ["c", "c2"]
    assert swept() == ["c", "c2"]  # they have work
    reporter.report_changed()
    assert swept() == ["c", "c2"]
    assert swept() == []
    call("UPDATE", C, 2, body=[ROW])
    assert swept() == ["c"]
    assert swept() == ["c"]
    reporter.report_changed()
    assert swept() == ["c"]
    assert swept() == []


def test_recon_shows_the_time_of_a_sweep(call: Caller, reporter: Reporter, tmp_path: Path) -> None:
    (tmp_path / "container.recon").write_text('{"other": 1}')
    call("PUT", C, 1)
    Sweeper(devices(reporter), 10**6, str(tmp_path), lambda *seen: False, NEVER).sweep()
    figures = json.loads((tmp_path / "container.recon").read_text())
    assert figures["other"] == 1
    assert 0 < figures["container_updater_sweep"] < 60
