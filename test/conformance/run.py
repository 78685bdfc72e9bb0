"""Run other projects' suites and programs against a cluster of this tree.

  swift        OpenStack Swift's functional tests, compared with the results of real Swift
  s3           OpenStack Swift's tests of the S3 API, compared with the kept results of this tree
  go-sdks      our own tests with the SDKs of MinIO and Amazon for Go
  s3-clients   aws-cli, rclone, restic, s3fs, Docker's registry, s3cmd, mc: their usual tasks
  s3a          Hadoop's contract tests for S3A, compared with the kept results of this tree
  java-sdk     our own tests with Amazon's SDK for Java (needs Maven and a JDK 17)
  minio-go     minio-go's functional tests, compared with the kept results of this tree
  swiftclient  python-swiftclient's functional tests, with OpenStack's SDK and command line
  clients      rclone, Glance's store, openstack and swift, each through its usual tasks
  fuzz         invalid requests: no answer may be a 5xx
  differences  unusual requests to real Swift and to the cluster: differences for applications
  versions     sequences of requests about versions to both, with the resulting listings
  keystone     both suites with users of a real Keystone, Swift's compared with real Swift
  probes       OpenStack Swift's probe tests on servers and jobs of this tree, about an hour

Without a name, swift, s3, swiftclient, clients and fuzz run. The judges from go-sdks to minio-go
need a cluster without a small limit of sizes, so they do not run beside other judges. For keystone,
MARTLET_KEYSTONE names a directory with Keystone and a martlet-proxy-server that has
keystonemiddleware. The run fails if any other judge fails, or if a test that passes on real Swift
fails here twice, the second time alone.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

import judges
from clients import run_clients
from differences import run_differences
from fuzz_api import run_fuzz
from go_sdks import run_go_sdks
from java_sdk import run_java_sdk
from maven import NEEDED, is_installed
from minio_functional import run_minio_functional
from probes import run_probes
from real_swift import real_swift
from running_cluster import RunningCluster
from s3_clients import run_s3_clients
from s3a import run_s3a
from source_tree import ROOT
from suite import (
    CONSTRAINTS,
    S3,
    SWIFT,
    SWIFTCLIENT,
    Result,
    node_of,
    read_expected,
    s3_users,
    summary,
    trial_users,
    with_second_go,
    worse,
    write_expected,
)
from versions import run_versions
from with_keystone import real_swift_with_keystone, with_keystone

from cluster.confs import render

_EXPECTED = ROOT / "test" / "conformance" / "expected"
EXPECTED = _EXPECTED / "swift-functional.txt"
EXPECTED_WITH_KEYSTONE = _EXPECTED / "swift-functional-keystone.txt"
EXPECTED_OF_PROBES = _EXPECTED / "swift-probe.txt"
EXPECTED_OF_S3 = _EXPECTED / "s3.txt"
EXPECTED_OF_MINIO_GO = _EXPECTED / "minio-go.txt"
EXPECTED_OF_S3A = _EXPECTED / "s3a.txt"
_JUDGES = ("swift", "s3", "swiftclient", "clients", "fuzz")
_KEYSTONE = "keystone"
_PROBES = "probes"
_GO_SDKS, _MINIO_GO = "go-sdks", "minio-go"
_JAVA_SDK, _S3A, _S3_CLIENTS = "java-sdk", "s3a", "s3-clients"
#: They write objects of more bytes than `CONSTRAINTS` allows.
_WITH_LARGE = frozenset({_GO_SDKS, _JAVA_SDK, _MINIO_GO, _S3A, _S3_CLIENTS})
_IN_JAVA = frozenset({_JAVA_SDK, _S3A})
_BESIDE_SWIFT = ("differences", "versions")
_ON_REQUEST = (*_BESIDE_SWIFT, _KEYSTONE, _PROBES, *sorted(_WITH_LARGE))
# Needed by the tests of storage policies.
_POLICIES = ("--policy", "Policy-0", "--policy", "silver")
# On a busy machine a few tests may fail by timing; more failures than this are real.
_SECOND_GOES_MAX = 5


def main() -> int:
    """Return the exit status: 0 without unexpected failures."""
    arguments = _parse()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if arguments.install:
        SWIFT.install()
        return 0
    if _PROBES in arguments.judge:
        return _judge_probes(arguments)
    if arguments.reference and _KEYSTONE in arguments.judge:
        with real_swift_with_keystone(judges.WORK / "real-swift") as test_conf:
            return _measure(test_conf, arguments.tests, EXPECTED_WITH_KEYSTONE)
    if arguments.reference and not {_MINIO_GO, _S3A} & set(arguments.judge):
        with real_swift(judges.WORK / "real-swift") as url:
            return _measure(trial_users(url), arguments.tests, EXPECTED)
    if arguments.url:
        return _judge(arguments, arguments.url)
    home = judges.WORK / "cluster"
    shutil.rmtree(home, ignore_errors=True)
    (home / "etc").mkdir(parents=True)
    constraints = {} if _WITH_LARGE & set(arguments.judge) else {"swift-constraints": CONSTRAINTS}
    (home / "etc" / "martlet.conf").write_text(render(constraints))
    # Suites list what they have just written: rows may not be late, however busy the machine is.
    cluster = RunningCluster(home, *_POLICIES).start().await_writes()
    try:
        return _judge(arguments, cluster.url, home)
    finally:
        cluster.stop()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("judge", nargs="*", help=f"{', '.join((*_JUDGES, *_ON_REQUEST))}")
    parser.add_argument(
        "--install", action="store_true", help="what Swift's own suite needs, and run nothing"
    )
    parser.add_argument("--url", help="a cluster that runs already, e.g. that of `make up`")
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="ARGUMENT",
        help="pytest's arguments for the suites, e.g. test/functional/test_slo.py; or walks; or "
        "classes of java-sdk and s3a",
    )  # fmt: skip
    parser.add_argument("--requests", type=int, default=4000, help="of the fuzz (4000)")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn by chance (1)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of the differences; 10 sequences of versions (5)"
    )
    parser.add_argument("--peer", help="a real Swift that runs already, to compare with")
    parser.add_argument(
        "--reference",
        action="store_true",
        help="run Swift's functional tests on real Swift, and keep the outcomes as expected; "
        "with probes, minio-go or s3a, keep those of this tree",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.judge) - {*_JUDGES, *_ON_REQUEST}:
        parser.error(f"no such judge: {', '.join(sorted(unknown))}")
    if arguments.reference and arguments.tests and {_MINIO_GO, _S3A} & set(arguments.judge):
        parser.error("--reference keeps the results of all tests: leave out --tests")
    if arguments.url and {_KEYSTONE, _PROBES} & set(arguments.judge):
        parser.error(f"{_KEYSTONE} and {_PROBES} start clusters of their own")
    if _PROBES in arguments.judge and arguments.judge != [_PROBES]:
        parser.error(f"{_PROBES} runs alone")
    if _IN_JAVA & set(arguments.judge) and not is_installed():
        parser.error(NEEDED)
    if _WITH_LARGE & set(arguments.judge) and set(arguments.judge) - _WITH_LARGE:
        parser.error(f"{' and '.join(sorted(_WITH_LARGE))} do not run beside other judges")
    return arguments


def _judge(arguments: argparse.Namespace, url: str, home: Path | None = None) -> int:
    failures = 0
    for judge in arguments.judge or _JUDGES:
        started = time.monotonic()
        if judge == "swift":
            results, failed = _compare(trial_users(url), arguments.tests, EXPECTED)
        elif judge == "s3":
            results, failed = _judge_s3(url, arguments.tests)
        elif judge == _MINIO_GO:
            results = run_minio_functional(url, arguments.tests)
            failed = _compare_with_kept(results, EXPECTED_OF_MINIO_GO, arguments)
        elif judge == _S3A:
            results = run_s3a(url, arguments.tests)
            failed = _compare_with_kept(results, EXPECTED_OF_S3A, arguments)
        elif judge == _KEYSTONE and home is not None:
            results, failed = _judge_with_keystone(home, arguments.tests)
        else:
            results = _results_of(judge, arguments, url)
            failed = [result for result in results if result.outcome == "failed"]
            _tell(failed)
        _tell_skipped(results)
        failures += len(failed) if results else 1
        print(f"conformance: {judge}: {summary(results)} in {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


def _results_of(judge: str, arguments: argparse.Namespace, url: str) -> list[Result]:
    """The results of a judge any failure of which fails the run."""
    if judge == "swiftclient":
        return SWIFTCLIENT.run(trial_users(url), arguments.tests)
    if judge == "clients":
        return run_clients(url)
    if judge == _GO_SDKS:
        return run_go_sdks(url)
    if judge == _JAVA_SDK:
        return run_java_sdk(url, arguments.tests)
    if judge == _S3_CLIENTS:
        return run_s3_clients(url)
    if judge in _BESIDE_SWIFT:
        return _beside_swift(judge, arguments, url)
    return run_fuzz(url, arguments.requests, arguments.seed)


def _beside_swift(judge: str, arguments: argparse.Namespace, url: str) -> list[Result]:
    running = nullcontext(arguments.peer) if arguments.peer else None
    with running or real_swift(judges.WORK / "real-swift") as peer:
        if judge == "versions":
            return run_versions(peer, url, 10 * arguments.rounds, arguments.seed)
        return run_differences(peer, url, arguments.rounds, arguments.seed, arguments.tests)


def _judge_with_keystone(home: Path, selection: Sequence[str]) -> tuple[list[Result], list[Result]]:
    """Return all results, and those that fail the run; ``selection`` applies to Swift's tests."""
    with with_keystone(home) as test_conf:
        results, failed = _compare(test_conf, selection, EXPECTED_WITH_KEYSTONE)
        if selection:
            return results, failed
        clients = SWIFTCLIENT.run(test_conf)
    failed_too = [result for result in clients if result.outcome == "failed"]
    _tell(failed_too)
    return [*results, *clients], [*failed, *failed_too]


def _judge_s3(url: str, selection: Sequence[str]) -> tuple[list[Result], list[Result]]:
    """Return all results, and those of tests that passed when the results were kept."""
    results = S3.run(s3_users(url), selection)
    expected = read_expected(EXPECTED_OF_S3)
    if selection:
        ran = {result.test for result in results}
        expected = {test: outcome for test, outcome in expected.items() if test in ran}
    first = worse(expected, results)
    if 0 < len(first) <= _SECOND_GOES_MAX:
        again = S3.run(s3_users(url), [node_of(result.test) for result in first], "second-go.txt")
        results = with_second_go(results, again)
    failed = worse(expected, results)
    _tell(failed)
    return results, failed


def _compare_with_kept(
    results: list[Result], kept: Path, arguments: argparse.Namespace
) -> list[Result]:
    """Return those of tests that passed when the results were kept; ``--reference`` keeps these."""
    _tell(result for result in results if result.outcome == "failed")
    if arguments.reference:
        write_expected(kept, results)
    expected = read_expected(kept)
    if arguments.tests:
        ran = {result.test for result in results}
        expected = {test: outcome for test, outcome in expected.items() if test in ran}
    failed = worse(expected, results)
    for result in failed:
        print(f"  it passed before: {result.test}")
    return failed


def _compare(
    test_conf: str, selection: Sequence[str], kept: Path
) -> tuple[list[Result], list[Result]]:
    """Return all results, the better one of repeated tests, and those worse than Swift's."""
    results = SWIFT.run(test_conf, selection)
    expected = read_expected(kept)
    if selection:
        ran = {result.test for result in results}
        expected = {test: outcome for test, outcome in expected.items() if test in ran}
    first = worse(expected, results)
    again: list[Result] = []
    if 0 < len(first) <= _SECOND_GOES_MAX:
        again = SWIFT.run(test_conf, [node_of(result.test) for result in first], "second-go.txt")
        results = with_second_go(results, again)
    failed = worse(expected, results)
    passing = sum(outcome == "passed" for outcome in expected.values())
    for result in first:
        if result.test not in {still.test for still in failed}:
            print(f"  passed at the second go: {result.test}: {result.reason}")
    _tell(failed)
    print(
        f"conformance: {passing - len(failed)} of the {passing} tests that pass on OpenStack Swift "
        f"{judges.pinned('swift')} pass, {len(first) - len(failed)} of them at the second go; "
        f"details in {SWIFT.scratch}"
    )
    return results, failed


def _judge_probes(arguments: argparse.Namespace) -> int:
    """Compare with the outcomes that are kept; ``--reference`` keeps those of this run."""
    started = time.monotonic()
    results = run_probes(arguments.tests)
    _tell(result for result in results if result.outcome == "failed")
    if arguments.reference:
        write_expected(EXPECTED_OF_PROBES, results)
    expected = read_expected(EXPECTED_OF_PROBES)
    ran = {result.test for result in results}
    failed = worse({test: outcome for test, outcome in expected.items() if test in ran}, results)
    for result in failed:
        print(f"  it passed before: {result.test}")
    print(f"conformance: probes: {summary(results)} in {time.monotonic() - started:.0f} s")
    return 1 if failed or not results else 0


def _tell_skipped(results: Sequence[Result]) -> None:
    reasons = Counter(result.reason for result in results if result.outcome == "skipped")
    for reason, count in reasons.most_common():
        print(f"  skipped {count}: {reason}")


def _measure(test_conf: str, selection: Sequence[str], kept: Path) -> int:
    results = SWIFT.run(test_conf, selection)
    _tell(result for result in results if result.outcome != "passed")
    print(f"conformance: OpenStack Swift {judges.pinned('swift')}: {summary(results)}")
    if not selection:
        write_expected(kept, results)
        print(f"conformance: kept in {kept.relative_to(ROOT)}")
    return 0


def _tell(results: Iterable[Result]) -> None:
    for result in results:
        print(f"  {result.outcome} {result.test}: {result.reason}")


if __name__ == "__main__":
    sys.exit(main())
