"""The limit of open files: raised, and options that do not fit are lowered and logged."""

import json
import subprocess
import sys

import pytest

# In a process of its own: the hard limit cannot be raised again.
_PROGRAM = """
import json, logging, resource
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))
from martlet.service.descriptors import connections_max, databases_max, half_of_descriptors
values = [
    half_of_descriptors(),
    resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    connections_max(0),
    connections_max(100),
    connections_max(101),
    databases_max(10, 10),
    databases_max(256, 10),
    databases_max(9, 500),
]
print(json.dumps(values))
"""


@pytest.fixture(scope="module")
def outcome() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_the_limit_is_raised_and_divided(outcome: subprocess.CompletedProcess[str]) -> None:
    assert json.loads(outcome.stdout) == [100, 200, 100, 100, 101, 10, 10, 1]


def test_what_does_not_fit_is_logged(outcome: subprocess.CompletedProcess[str]) -> None:
    assert outcome.stderr.splitlines() == [
        "max_connections=101 is above half of the limit of open files, 100",
        "the limit of open files allows no database_pool_size=256: it is 10",
        "the limit of open files allows no database_pool_size=9: it is 1",
    ]
