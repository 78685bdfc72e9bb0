"""An account server in this process, on devices in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_calls import Caller, write_cluster

from account.app import AccountServer


@pytest.fixture
def swift_dir(tmp_path: Path) -> Path:
    return write_cluster(tmp_path)


@pytest.fixture
def server(swift_dir: Path) -> Iterator[AccountServer]:
    conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
    app = AccountServer.from_conf({**conf, "mount_check": "false"}, {})
    yield app
    app.pool.close()


@pytest.fixture
def call(server: AccountServer) -> Caller:
    return Caller(server)
