# SPDX-License-Identifier: Apache-2.0
"""The result of a comparison: medians, ratios, tables, the plot, and its way through a file."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from compare.completion import CompletionSample
from compare.machine import busy_ticks
from compare.plot import svg
from compare.report import PeerFacts, Result, cells, markdown, number, size_name
from compare.session import rotated
from compare.signed import Refused
from compare.versions import VersionSample, read_page
from compare.workload import Sample
from processes import count_flushes

MACHINE = {
    "at": "2026-01-02 03:04 UTC",
    "commit": "abc",
    "processors": 2,
    "kernel": "6",
    "file_system": "xfs",
    "rounds": 3,
    "objects": 9,
    "clients": 4,
    "load_before": "0.1 0.2 0.3",
    "others_percent": 1.4,
    "client_percent": 20.0,
}
OURS = Sample("martlet", "s3", "PUT", 4096, 0, 9, 1000.0, 0.5, 0.04, 10.0, 20.0, 0)
THEIRS = replace(OURS, peer="minio-1", cpu_ms=0.25, per_second=2500.0, median_ms=4.0)
PEERS = [
    PeerFacts("martlet", "1", "3 copies", 0.5, 200.4, 210.6, 1.0),
    PeerFacts("minio-1", "2", "1 copy", None, 100.0, 110.0, 2.0),
    PeerFacts("seaweedfs", "3", "1 copy", missing="no compiler"),
]


def result(*samples: Sample) -> Result:
    versions = [VersionSample("martlet", "PUT", 1000, 2.5, 1.25)]
    completions = [CompletionSample("martlet", 5, 1 << 30, took, 8.0) for took in (30.0, 20.0, 4.0)]
    return Result(MACHINE, PEERS, samples, versions, completions)


def test_a_cell_has_the_median_of_each_figure_by_itself() -> None:
    rounds = [
        replace(OURS, cpu_ms=1.0, per_second=5.0),
        replace(OURS, cpu_ms=3.0, per_second=4.0, errors=2),
        replace(OURS, cpu_ms=2.0, per_second=9.0, errors=1),
    ]
    (cell,) = cells(rounds).values()
    assert (cell.cpu_ms, cell.per_second, cell.errors) == (2.0, 5.0, 3)


def test_the_tables_have_figures_and_ratios_of_medians() -> None:
    lines = markdown(result(THEIRS, OURS)).splitlines()
    assert "|  | martlet | minio-1 |" in lines
    assert "| PUT 4 KiB | 0.500 | 0.250 (0.50) |" in lines
    assert "| PUT 4 KiB | 1,000 | 2,500 (2.50) |" in lines
    assert "| PUT 4 KiB | 10.0 / 20.0 | 4.00 / 20.0 |" in lines
    assert "| 5 parts of 1 GiB | 20.0 (8.00) |" in lines
    assert "| PUT, 1,000 versions | 2.50 (1.25) |" in lines
    assert "| martlet | 1 | 3 copies, flushed | 0.50 | 200 | 211 | 1.0 |" in lines
    assert "| minio-1 | 2 | 1 copy | not counted | 100 | 110 | 2.0 |" in lines
    assert "| seaweedfs | 3 | not measured: no compiler |  |  |  |  |" in lines


def test_errors_make_a_cell_void_in_tables_and_plot() -> None:
    broken = replace(THEIRS, errors=1, first_error="PUT answered 500")
    text = markdown(result(OURS, THEIRS, broken))
    assert "| PUT 4 KiB | 0.500 | errors |" in text
    assert "Error: minio-1, s3, PUT: PUT answered 500" in text
    assert "minio-1" not in svg(result(OURS, THEIRS, broken), "s3", 4096)


def test_without_ours_there_are_no_ratios() -> None:
    text = markdown(result(THEIRS, replace(OURS, errors=1)))
    assert "| PUT 4 KiB | errors | 0.250 |" in text


def test_a_result_survives_a_file() -> None:
    first = result(OURS, THEIRS)
    again = Result.from_json(json.loads(json.dumps(first.to_json())))
    assert markdown(again) == markdown(first)


def test_the_plot_is_xml_and_smaller_is_further_left() -> None:
    root = ElementTree.fromstring(svg(result(OURS, THEIRS), "s3", 4096))
    dots = root.findall("{http://www.w3.org/2000/svg}circle")
    ours_cpu, ours_rate, their_cpu, their_rate = (float(dot.attrib["cx"]) for dot in dots)
    assert their_cpu < ours_cpu < ours_rate < their_rate
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "4 KiB objects, 4 clients, S3 with signatures checked" in texts


def test_nothing_to_plot_is_said() -> None:
    with pytest.raises(ValueError, match="nothing to plot: swift, 4 KiB"):
        svg(result(OURS), "swift", 4096)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (12345.0, "12,345")],
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("size", "text"), [(1 << 30, "1 GiB"), (65 << 20, "65 MiB"), (1024, "1 KiB"), (1500, "1500 B")]
)
def test_sizes_have_units(size: int, text: str) -> None:
    assert size_name(size) == text


def test_each_round_begins_with_another_peer() -> None:
    assert [rotated([1, 2, 3], number) for number in range(4)] == [
        [1, 2, 3],
        [2, 3, 1],
        [3, 1, 2],
        [1, 2, 3],
    ]
    assert rotated([], 1) == []


def test_waiting_for_a_disk_is_not_work() -> None:
    assert busy_ticks("cpu  1 2 4 1000 2000 8 16 0 0 0\ncpu0 9 9 9 9\n") == 31


def test_pages_of_versions_are_counted() -> None:
    page = (
        b'<ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>'
        b"<IsTruncated>%s</IsTruncated>%s<Version><Key>k</Key></Version><Version/>"
        b"</ListVersionsResult>"
    )
    markers = b"<NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>7</NextVersionIdMarker>"
    none = {"key-marker": "", "version-id-marker": ""}
    assert read_page(page % (b"false", b"")) == (2, none, True)
    following = {"key-marker": "k", "version-id-marker": "7"}
    assert read_page(page % (b"true", markers)) == (2, following, False)
    with pytest.raises(Refused):
        read_page(page % (b"true", b""))


def test_flushes_are_counted_once_each() -> None:
    lines = [
        "7 fsync(5 <unfinished ...>",
        "8 fdatasync(6) = 0",
        "7 <... fsync resumed>) = 0",
        '7 openat(AT_FDCWD, "a", O_WRONLY|O_CREAT|O_SYNC|O_CLOEXEC, 0666) = 9',
        '7 openat(AT_FDCWD, "b", O_WRONLY|O_DSYNC, 0666 <unfinished ...>',
        '7 openat(AT_FDCWD, "O_SYNCED", O_RDONLY|O_CLOEXEC) = 9',
        "7 +++ exited with 0 +++",
    ]
    assert count_flushes(lines) == 4


def test_a_peer_that_does_not_flush_is_called_so() -> None:
    facts = replace(PEERS[0], flushes_per_put=0.0)
    assert facts.safety == "3 copies, not flushed"
