"""Real clusters for the functional tests: a default one and one of four nodes, for the session."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from cluster_logs import errors_since
from ill_disk import DEVICE, IllDisk, build_ill_disk
from running_cluster import RunningCluster
from swift_api import Account

from cluster.ports import PORTS_VARIABLE

_numbers = itertools.count(1)
#: The ports of all processes that run tests, unless MARTLET_PORTS names others.
_PORTS = "10240-22239"
#: The files that take longest, in this order; `--durations=0` measures it.
_LONGEST = (
    "test_sharding.py",
    "test_database_jobs.py",
    "test_sharding_cluster.py",
    "test_attack.py",
    "test_background.py",
    "test_nemesis.py",
    "test_kill.py",
    "test_database_replication.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that none runs alone at the end."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure which errors the servers of each running cluster logged meanwhile."""
    report = yield
    if report.failed:
        for cluster in list(RunningCluster.made):
            lines = errors_since(cluster.home, call.start) if cluster.is_running else []
            if lines:
                report.sections.append((f"errors in {cluster.home}", "\n".join(lines)))
    return report


@pytest.fixture(scope="session", autouse=True)
def ports(worker_id: str) -> Iterator[None]:
    """Ranges of ports, so that clusters which start together do not pick the same port."""
    with pytest.MonkeyPatch.context() as patch:
        if worker_id.startswith("gw"):
            first, _, last = os.environ.get(PORTS_VARIABLE, _PORTS).partition("-")
            each = (int(last) + 1 - int(first)) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
            low = int(first) + int(worker_id.removeprefix("gw")) * each
            patch.setenv(PORTS_VARIABLE, f"{low}-{low + each - 1}")
        yield


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """The default cluster. Tests leave it running and intact."""
    running = RunningCluster(tmp_path_factory.mktemp("one-node")).start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture(scope="session")
def four_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Four storage nodes with their own servers. Tests leave it running and intact."""
    home = tmp_path_factory.mktemp("four-nodes")
    running = RunningCluster(home, "--nodes", "4").start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture
def new_cluster(tmp_path: Path) -> Iterator[Callable[..., RunningCluster]]:
    """Create clusters for one test, not started; stop them at its end."""
    made: list[RunningCluster] = []

    def make(
        *arguments: str, home: Path | None = None, port: int = 0, background: bool = False
    ) -> RunningCluster:
        home = home or tmp_path / "home"
        made.append(RunningCluster(home, *arguments, port=port, background=background))
        return made[-1]

    yield make
    for running in made:
        if running.is_running:
            running.stop()


@pytest.fixture
def account(cluster: RunningCluster) -> Iterator[Account]:
    """test:tester on the default cluster."""
    opened = Account(cluster.port)
    yield opened
    opened.close()


@pytest.fixture
def container(account: Account) -> str:
    """A new container of that account; its objects are not deleted."""
    name = f"container-{next(_numbers)}"
    assert account.call("PUT", name).status == 201
    return name


@pytest.fixture(scope="session")
def ill_disk_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program behind ``disk``, built once."""
    return build_ill_disk(tmp_path_factory.mktemp("ill-disk"))


@pytest.fixture
def disk(ill_disk_program: Path, tmp_path: Path) -> Iterator[IllDisk]:
    """One of the four devices of the cluster in ``tmp_path / "home"``, which is not started yet."""
    mount_point = tmp_path / "home" / "devices" / DEVICE
    with IllDisk(ill_disk_program, tmp_path / "backing", mount_point) as ill:
        yield ill
