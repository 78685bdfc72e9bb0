"""A container server in this process, on devices in a temporary directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_accounts import AccountServers, Ring
from storage_calls import Caller, write_cluster

from container.app import ContainerServer
from container.config import ContainerOptions
from container.reporter import Reporter


@pytest.fixture
def swift_dir(tmp_path: Path) -> Path:
    return write_cluster(tmp_path)


@pytest.fixture
def server(swift_dir: Path) -> Iterator[ContainerServer]:
    conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
    app = ContainerServer.from_conf({**conf, "mount_check": "false"}, {})
    yield app
    app.pool.close()


@pytest.fixture
def call(server: ContainerServer) -> Caller:
    return Caller(server)


@pytest.fixture
def accounts() -> AccountServers:
    return AccountServers()


@pytest.fixture
def reporter(server: ContainerServer, accounts: AccountServers) -> Reporter:
    server._client = accounts  # type: ignore[assignment]
    # The slot of a test's container comes at some time of the day.
    options = ContainerOptions(report_repeat_interval=0.0)
    made = Reporter(options, server.devices, server.pool, accounts, Ring)  # type: ignore[arg-type]
    server.reporter = made
    return made
