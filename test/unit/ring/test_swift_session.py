"""An operator's session with swift-ring-builder and with ours: alike in what counts.

The exit status is the same for every command. What is printed is the same where a script may read
it; a mistake is a sentence of our own, on standard error.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from swift.cli import ringbuilder as swift_command
from swift.common.ring import RingData as SwiftRingData

from ring.builder_file import load_builder
from ring.command import main
from ring.file_format import read_ring

ADD = [
    f"add r{region}z{zone}-10.{region}.{zone}.{server}:6200/sd{disk} 100"
    for region in (1, 2, 3)
    for zone in (1, 2)
    for server in (1, 2)
    for disk in "ab"
]

# The whole of what is printed is the same.
SAME = {
    "add",
    "version",
    "search",
    "set_weight",
    "set_region",
    "set_zone",
    "set_info",
    "set_replicas",
    "set_overload",
    "set_min_part_hours",
    "pretend_min_part_hours_passed",
    "remove",
    "create",
    "validate",
    "increase_partition_power",
    "finish_increase_partition_power",
    "write_ring",
}

SESSION = [
    "create 8 3 1",
    *ADD,
    "rebalance --seed 1",
    "validate",
    "default",
    "",
    "version",
    "search r1z1",
    "search --region 2 --zone 1",
    "search d99",
    "list_parts d0",
    "dispersion",
    "dispersion -v",
    "dispersion r\\d+z\\d+$ -v",
    "rebalance",
    # a rack more, in the other syntax
    "add --region 3 --zone 3 --ip 10.3.3.1 --port 6200 --device sda --weight 100 --meta rack9",
    "add --region 3 --zone 3 --ip 10.3.3.1 --port 6200 --device sdb --weight 100 "
    "--replication-ip 10.99.0.1 --replication-port 6300",
    "add r3z3-10.3.3.1:6200R10.99.0.2:6300/sdc_new 100 r3z3-10.3.3.2:6200/sda 100",
    "add r3z3-10.3.3.1:6200/sda 100",
    "add r3z3-10.3.3.7:6200/sda",
    "pretend_min_part_hours_passed",
    "rebalance --seed 2",
    # a disk drained and taken out
    "set_weight d3 0",
    "set_weight d3",
    "set_weight d98 1",
    "set_weight r1z2 90 --yes",
    "pretend_min_part_hours_passed",
    "rebalance --seed 3",
    "remove d3",
    "remove d98",
    "pretend_min_part_hours_passed",
    "rebalance --seed 4",
    "set_info d0 10.1.1.9:6201R10.8.8.8:6300/sdq_text",
    "set_info --device sdc --change-ip 10.3.3.9 --change-meta x",
    "set_info d1 10.1.1.9:6201/sdq",
    "set_info d1 _more",
    "set_region d1 2",
    "set_zone d1 2",
    "write_ring",
    "set_min_part_hours 2",
    "set_replicas 2.5",
    "set_replicas 0.5",
    "set_replicas x",
    "set_overload 10%",
    "set_overload 0.2",
    "set_overload 3",
    "set_overload x",
    "set_overload -1",
    "set_overload 0",
    "pretend_min_part_hours_passed",
    "rebalance --seed 5 --force",
    "write_ring --format-version 2",
    "version",
    "write_ring",
    # the partition power
    "increase_partition_power",
    "finish_increase_partition_power",
    "prepare_increase_partition_power",
    "prepare_increase_partition_power",
    "cancel_increase_partition_power",
    "cancel_increase_partition_power",
    "finish_increase_partition_power",
    "prepare_increase_partition_power",
    "add r1z1-10.1.1.7:6200/sda 100",
    "remove d4",
    "rebalance",
    "write_ring",
    "increase_partition_power",
    "increase_partition_power",
    "cancel_increase_partition_power",
    "finish_increase_partition_power",
    "write_ring",
    "nosuch",
]


def theirs(words: list[str]) -> int:
    try:
        swift_command.main(["swift-ring-builder", *words])
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception:
        return 2  # what its command makes of a traceback
    return 0


def ours(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit as stop:  # a mistake in the arguments
        return int(stop.code or 0)


def normal(printed: str) -> str:
    """Without what differs from run to run, and without Swift's note about its own default."""
    printed = re.sub(r"Defaulting to --format-version=1.*?=2\n\n", "", printed, flags=re.DOTALL)
    printed = re.sub(r"build version:? \d+|id [0-9a-f]{32}|\d+:\d\d:\d\d", "", printed)
    return printed


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[list[str]], int], str], tuple[int, str]]:
    """Runs a command line in the folder of one of the two; the status and what was printed."""

    def run_in(command: Callable[[list[str]], int], line: str) -> tuple[int, str]:
        folder = tmp_path / command.__name__
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        status = command(["object.builder", *line.split()])
        return status, normal(capsys.readouterr().out)

    return run_in


def test_the_session(
    run: Callable[[Callable[[list[str]], int], str], tuple[int, str]], tmp_path: Path
) -> None:
    for line in SESSION:
        (status, printed), (swift_status, swift_printed) = run(ours, line), run(theirs, line)
        # Balance and spread of a repair differ; whether a warning is due may, too.
        if not line.startswith(("rebalance", "dispersion")):
            assert status == swift_status, line
        assert (status == 2) == (swift_status == 2), line
        if status != 2 and line.split(" ")[0] in SAME and "search" not in line:
            assert printed == swift_printed, line
        if line.startswith("search") and status == 0:
            assert [row.split()[:7] for row in printed.splitlines()] == [
                row.split()[:7] for row in swift_printed.splitlines()
            ]
        if line.startswith(("rebalance", "write_ring")) and status != 2:
            written = read_ring(tmp_path / "ours" / "object.ring.gz")
            loaded = SwiftRingData.load(str(tmp_path / "ours" / "object.ring.gz"))
            assert loaded.devs == written.devs, line
            assert loaded._replica2part2dev_id == written.table, line
            assert loaded.next_part_power == written.next_part_power, line
    mine, yours = (load_builder(tmp_path / name / "object.builder") for name in ("ours", "theirs"))
    plain = [
        [{**dev, "parts": 0, "parts_wanted": 0} for dev in side.devices()] for side in (mine, yours)
    ]
    assert plain[0] == plain[1]
    assert (mine.part_power, mine.replicas, mine.min_part_hours, mine.overload) == (9, 2.5, 2, 0.0)
    assert sorted(os.listdir(tmp_path / "ours")) == [
        ".object.builder.lock",
        *sorted(os.listdir(tmp_path / "theirs")),
    ]


def test_reports_on_one_builder_are_the_same_text(
    run: Callable[[Callable[[list[str]], int], str], tuple[int, str]], tmp_path: Path
) -> None:
    """Both look at the ring that Swift made."""
    for line in ("create 8 3 1", *ADD, "add r4z1-10.4.1.1:6200/sda 500", "rebalance --seed 1"):
        run(theirs, line)
    os.rename(tmp_path / "theirs", tmp_path / "ours")
    reports = [
        "",
        "version",
        "search r1",
        "search -w 500",
        "list_parts d0 r4",
        "dispersion",
        "dispersion -v",
        "dispersion --recalculate",
        "dispersion r\\d+z\\d+$ -v",
        "set_weight d0 90",
        "remove d5",
        "",
    ]
    found = []
    for line in reports:
        mine = run(ours, line)
        os.rename(tmp_path / "ours", tmp_path / "theirs")
        # The second to change a device meets the first one's change: the lines are the same.
        yours = run(theirs, line) if line != "remove d5" else mine
        os.rename(tmp_path / "theirs", tmp_path / "ours")
        assert mine == yours, line
        found.append(mine)
    assert found[-1][1].count("DEL") == 1


def test_a_lost_builder_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ("create 6 2.5 1", *ADD, "rebalance --seed 1 -f"):
        ours(["object.builder", *line.split()])
    before = load_builder(tmp_path / "object.builder")
    os.rename("object.builder", "lost.builder")
    assert ours(["object.ring.gz", "write_builder", "7"]) == 0
    after = load_builder(tmp_path / "object.builder")
    assert after.devs == [dev and {**dev, "parts_wanted": 0} for dev in before.devs]
    assert (after.table, after.replicas, after.min_part_hours) == (before.table, 2.5, 7)
    assert ours(["object.ring.gz", "write_builder", "7"]) == 2
    assert theirs(["object.builder", "validate"]) == 0
