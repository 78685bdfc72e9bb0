"""Servers and their replicators in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from replicating import Replicas

from account.app import AccountServer
from container.app import ContainerServer


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Replicas]:
    """Four container servers; three have the primaries of everything."""
    made = Replicas(ContainerServer, tmp_path)
    yield made
    made.close()


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Replicas]:
    """Four account servers; three have the primaries of everything."""
    made = Replicas(AccountServer, tmp_path)
    yield made
    made.close()
