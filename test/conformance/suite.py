"""A test suite of another project: run by pytest in its own environment, with its results."""

from __future__ import annotations

import os
import subprocess
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import judges

STORAGE_DOMAIN = "example.net"
#: A suite that has not ended by then hangs.
SECONDS_MAX = 3600.0
#: A small limit: Swift's suite announces objects of the largest size, and servers reserve room.
CONSTRAINTS: dict[str, object] = {"max_file_size": (8 << 20) + 2}
# The users are those of `martlet up`.
_CONF = """\
[func_test]
auth_uri = {url}/auth/v1.0
account = test
username = tester
password = testing
account2 = test2
username2 = tester2
password2 = testing2
username3 = tester3
password3 = testing3
account5 = test5
username5 = tester5
password5 = testing5
service_prefix = SERVICE
account6 = test
username6 = tester6
password6 = testing6
collate = C
insecure = no
storage_domain = {storage_domain}
"""

# Continues the section above; the tests by AWS's behaviour have their own. Those of s3_acl skip.
_S3_CONF = """\
s3_storage_url = {url}/
s3_region = us-east-1
s3_access_key = test:tester
s3_secret_key = testing
s3_access_key2 = test:tester2
s3_secret_key2 = testing2
s3_access_key3 = test:tester3
s3_secret_key3 = testing3
[s3api_test]
endpoint = {url}
region = us-east-1
access_key1 = test:tester
secret_key1 = testing
access_key2 = test2:tester2
secret_key2 = testing2
access_key3 = test:tester3
secret_key3 = testing3
s3_acl_tests_enabled = False
"""
_PLUGINS = Path(__file__).parent / "plugins"


@dataclass(frozen=True)
class Result:
    """The outcome of one test: passed, failed or skipped, and the reason if it did not pass."""

    test: str
    outcome: str
    reason: str = ""


@dataclass(frozen=True)
class Suite:
    """Tests in a source distribution.

    :param requirements: the packages that they import.
    :param environment: the name of theirs; several suites may have one.
    :param options: the options of pytest.
    :param tests: pytest's arguments without a selection.
    """

    name: str
    package: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("test/functional",)
    environment: str = ""

    def install(self) -> tuple[Path, Path]:
        """Return ``bin`` of its environment and its source, both made if they are missing."""
        return judges.environment(self.environment or self.name, *self.requirements), judges.source(
            self.package
        )

    def run(
        self,
        test_conf: str,
        selection: Sequence[str] = (),
        output: str = "output.txt",
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Result]:
        """Run all tests or those of ``selection`` (pytest's arguments); return results by name.

        The output of pytest is in the file ``output`` of ``scratch``.

        :param test_conf: the address and the users of the cluster.
        """
        binaries, source = self.install()
        self.scratch.mkdir(parents=True, exist_ok=True)
        conf, report = self.scratch / "test.conf", self.scratch / "report.xml"
        conf.write_text(test_conf)
        report.unlink(missing_ok=True)
        command = [str(binaries / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += [
            "-c",
            os.devnull,
            "--rootdir=.",
            "--tb=short",
            f"--junitxml={report}",
            *self.options,
        ]
        environ = {
            **os.environ,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": f"{source}:{_PLUGINS}",
            "SWIFT_TEST_CONFIG_FILE": str(conf),
            **variables,
        }
        with (self.scratch / output).open("wb") as said:
            subprocess.run(
                [*command, *(selection or self.tests)],
                cwd=source,
                env=environ,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=SECONDS_MAX,
            )
        if not report.exists():
            raise RuntimeError(f"{self.name} did not run: see {self.scratch / output}")
        return read_report(report)

    @property
    def scratch(self) -> Path:
        """The directory of the results and of pytest's output."""
        return judges.WORK / f"{self.name}-results"


_FOR_SWIFT = (
    "awscrt",
    "boto",
    "boto3",
    "keystonemiddleware",
    "pbr",
    "pytest",
    "python-keystoneclient",
    "python-swiftclient",
    "requests-mock",
    "setuptools",
    "swift",
)
#: ``s3api`` is left out: `S3` has it.
SWIFT = Suite(
    "swift",
    "swift",
    _FOR_SWIFT,
    ("--ignore=test/functional/s3api", "--override-ini=python_files=test_*.py tests.py"),
)
#: Swift's tests of the S3 API: those of its functional suite, and those by AWS's behaviour.
S3 = Suite(
    "s3",
    "swift",
    _FOR_SWIFT,
    ("-p", "green_first"),
    ("test/functional/s3api", "test/s3api"),
    environment="swift",
)
#: The plugin replaces Swift's servers. doc/probes.md says why some files are left out.
PROBES = Suite(
    "probes",
    "swift",
    _FOR_SWIFT,
    (
        "-pprobe_plugin",
        "--ignore=test/probe/test_reconstructor_rebuild.py",
        "--ignore=test/probe/test_reconstructor_revert.py",
        "--ignore=test/probe/test_sharder.py",
        "--ignore=test/probe/test_signals.py",
    ),
    ("test/probe",),
    environment="swift",
)
#: With OpenStack's SDK and command line, which log in like swiftclient.
SWIFTCLIENT = Suite(
    "python-swiftclient",
    "python-swiftclient",
    ("openstacksdk", "pytest", "python-openstackclient", "python-swiftclient"),
)


def node_of(test: str) -> str:
    """Return pytest's argument that selects the test of a `Result`."""
    module, case, name = test.rsplit(".", 2)
    folder = "" if module.startswith("test.") else "test/functional/"
    return f"{folder}{module.replace('.', '/')}.py::{case}::{name}"


def trial_users(url: str) -> str:
    """Return the suites' conf for the users of `martlet up`.

    Tests expect that the account exists; the first write to it creates it.
    """
    headers = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/auth/v1.0", headers=headers)
    ) as answer:
        account, token = answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"]
    headers = {"X-Auth-Token": token}
    urllib.request.urlopen(urllib.request.Request(account, method="POST", headers=headers)).close()
    return _CONF.format(url=url, storage_domain=STORAGE_DOMAIN)


def s3_users(url: str) -> str:
    """Return the conf of the tests of the S3 API for the same users."""
    return trial_users(url) + _S3_CONF.format(url=url)


def read_report(report: Path) -> list[Result]:
    """Return the results of a JUnit report, by name. A failed sub-test fails its test."""
    found: dict[str, Result] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module = (
            case.get("classname", "").removeprefix("test.functional.").removeprefix("test.probe.")
        )
        result = Result(f"{module}.{case.get('name')}", "passed")
        for child in case:
            if child.tag in ("failure", "error"):
                result = Result(result.test, "failed", _reason(child))
            elif child.tag == "skipped":
                result = Result(result.test, "skipped", _reason(child))
        known = found.get(result.test)
        if known is None or known.outcome != "failed":
            found[result.test] = result
    return [found[name] for name in sorted(found)]


def _reason(element: ElementTree.Element) -> str:
    """The message; the class of an exception that has none."""
    return " ".join((element.get("message") or element.get("type") or "").split())[:300]


def write_expected(path: Path, results: Sequence[Result]) -> None:
    """Write the outcomes, one ``outcome test`` per line."""
    path.write_text("".join(f"{result.outcome} {result.test}\n" for result in results))


def read_expected(path: Path) -> dict[str, str]:
    """Return the outcomes by test."""
    lines = path.read_text().splitlines()
    return {test: outcome for outcome, _, test in (line.partition(" ") for line in lines)}


def worse(expected: dict[str, str], results: Sequence[Result]) -> list[Result]:
    """Return the tests that pass at the peer and not here; absent tests count as failed."""
    here = {result.test: result for result in results}
    return [
        here.get(test, Result(test, "failed", "did not run"))
        for test, outcome in expected.items()
        if outcome == "passed" and (test not in here or here[test].outcome != "passed")
    ]


def with_second_go(results: Sequence[Result], again: Sequence[Result]) -> list[Result]:
    """Return the results, with passes of the second run in place of the first results."""
    passed = {result.test: result for result in again if result.outcome == "passed"}
    first = {result.test: result for result in results}
    merged = first | passed
    return [merged[test] for test in sorted(merged)]


def summary(results: Sequence[Result]) -> str:
    """Return a summary: ``851 passed, 0 failed, 16 skipped``."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped"))
