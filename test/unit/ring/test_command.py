"""martlet-ring-builder: its words, its exit status, its files."""

import contextlib
import fcntl
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ring.builder import RingBuilder
from ring.builder_file import load_builder, save_builder
from ring.command import main
from ring.file_format import read_ring

FOUR = [
    word
    for number in range(1, 5)
    for word in (f"r1z{number}-127.0.0.1:{6200 + number}/d{number}", "1")
]


class Folder:
    """A folder with one builder file, and the command at work on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder = path / "object.builder"
        self.ring = path / "object.ring.gz"

    def run(self, *words: str, status: int = 0, stdin: str = "") -> str:
        """Runs the command in this process; returns what it printed on both channels."""
        printed = io.StringIO()
        with contextlib.chdir(self.path), pytest.MonkeyPatch.context() as patch:
            for name, stream in (("stdin", io.StringIO(stdin)), ("stdout", printed)):
                patch.setattr(sys, name, stream)
            patch.setattr(sys, "stderr", printed)
            try:
                done = main([self.builder.name, *words])
            except SystemExit as end:  # of argparse
                done = end.code  # type: ignore[assignment]
        assert done == status, printed.getvalue()
        return printed.getvalue()

    def start(self, *words: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
        """Runs the command as a process in the folder, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "-m", "ring.command", *words],
            cwd=self.path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    save_builder(RingBuilder.create(6, 3, 1), folder.builder)
    return folder


@pytest.fixture
def full(folder: Folder) -> Folder:
    folder.run("add", *FOUR)
    folder.run("rebalance", "--seed", "1")
    return folder


class Processes(Folder):
    """A folder in which each command is a process, as operators run it."""

    def run(self, *words: str, status: int = 0, stdin: str = "") -> str:
        assert not stdin
        done = self.start(self.builder.name, *words)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr


def test_the_main_session(tmp_path: Path) -> None:
    folder = Processes(tmp_path)
    assert folder.run("create", "6", "3", "1") == ""
    for number in range(0, 8, 2):
        printed = folder.run("add", *FOUR[number : number + 2])
        dev_id, port = number // 2, 6201 + number // 2
        assert printed == (
            f"Device d{dev_id}r1z{dev_id + 1}-127.0.0.1:{port}R127.0.0.1:{port}/d{dev_id + 1}_"
            f'"" with 1.0 weight got id {dev_id}\n'
        )
    assert folder.run("rebalance", "--seed", "1") == (
        "Reassigned 192 (300.00%) partitions. Balance is now 0.00.  Dispersion is now 0.00\n"
    )
    folder.run("write_ring")
    shown = folder.run()
    countdown = re.compile(r"\d+:\d\d:\d\d remaining")  # it may go on between the two calls
    assert countdown.sub("", shown) == countdown.sub("", folder.run("show"))
    assert "64 partitions, 3.000000 replicas, 1 regions, 4 zones, 4 devices, 2-byte IDs" in shown
    assert "Ring file object.ring.gz is up-to-date" in shown
    assert len(shown.splitlines()) == 10
    ring = read_ring(folder.ring)
    assert ring == load_builder(folder.builder).ring_data()
    assert [sum(row.count(n) for row in ring.table) for n in range(4)] == [48] * 4


def test_show_as_json(full: Folder) -> None:
    shown = json.loads(full.run("show", "--json"))
    assert shown["ring_state"] == "current"
    assert (shown["partitions"], shown["replicas"], shown["balance"]) == (64, 3.0, 0.0)
    assert [dev["device"] for dev in shown["devices"]] == ["d1", "d2", "d3", "d4"]


def test_the_state_of_the_ring_file_is_shown(folder: Folder) -> None:
    folder.run("add", *FOUR)
    assert "not found" in folder.run()
    folder.run("rebalance")
    folder.run("set_weight", "d0", "2")
    assert "is obsolete" in folder.run()
    folder.ring.write_bytes(b"junk")
    assert "is invalid: object.ring.gz: not a whole gzip" in folder.run()


def test_devices_by_options(folder: Folder) -> None:
    options = "--region 1 --zone 2 --ip Node-1 --port 6200 --device sdb --weight 2.5"
    printed = folder.run("add", *options.split(), "--replication-ip", "::1", "--meta", "a b")
    assert printed.startswith('Device d0r1z2-node-1:6200R[::1]:6200/sdb_"a b" with 2.5 weight')
    printed = folder.run("set_weight", "--ip", "node-1", "7")
    assert "weight set to 7.0" in printed
    assert "is the last device with weight" in folder.run("remove", "--zone", "2", status=2)
    folder.run("add", *FOUR[:2])
    assert "marked for removal" in folder.run("remove", "--zone", "2")
    assert " DEL" in folder.run()


def test_a_missing_region_is_1_and_said_so(folder: Folder) -> None:
    assert "WARNING: no region given" in folder.run("add", "z3-127.0.0.1:6200/d", "1")
    assert load_builder(folder.builder).devs[0]["region"] == 1  # type: ignore[index]


def test_remove_and_rebalance(full: Folder) -> None:
    assert "will be removed next rebalance" in full.run("remove", "127.0.0.1:6201")
    full.run("rebalance")
    assert read_ring(full.ring).devs[0] is None


def test_several_devices_are_changed_after_asking(full: Folder) -> None:
    printed = full.run("set_weight", "127.0.0.1", "5", stdin="n\n", status=2)
    assert "these 4 devices? (y/N)" in printed
    assert "nothing was changed" in printed
    full.run("remove", "r1", status=2)
    assert {dev["weight"] for dev in load_builder(full.builder).devices()} == {1.0}
    full.run("set_weight", "127.0.0.1", "5", stdin="y\n")
    full.run("set_weight", "d0", "6", "r1", "7", "--yes")
    assert {dev["weight"] for dev in load_builder(full.builder).devices()} == {7.0}


def test_fewer_replicas_are_written_though_nothing_may_move(full: Folder) -> None:
    full.run("set_replicas", "2")
    printed = full.run("rebalance", status=1)
    assert "Reassigned 0 (0.00%) partitions." in printed
    assert "wait at least 1 hours" in printed
    assert read_ring(full.ring).replica_count == 2


def test_a_rebalance_that_has_nothing_to_do_is_a_warning(full: Folder) -> None:
    before = full.builder.read_bytes()
    printed = full.run("rebalance", status=1)
    assert "No partitions could be reassigned." in printed
    assert "at least min_part_hours: 1 hours (" in printed
    assert full.builder.read_bytes() == before
    full.run("rebalance", "--force")
    assert full.builder.read_bytes() != before


def test_crowded_zones_are_a_warning(folder: Folder) -> None:
    heavy = [word for n in range(3) for word in (f"r1z1-127.0.0.1:62{n}0/d{n}", "10")]
    folder.run("add", *heavy, "r1z2-127.0.0.1:6300/d9", "1")
    assert "are not optimally dispersed" in folder.run("rebalance", status=1)


def test_the_same_seed_makes_the_same_ring(tmp_path: Path) -> None:
    rings = []
    for name, seed in (("a", ["--seed", "7"]), ("b", ["7"])):
        (tmp_path / name).mkdir()
        folder = Folder(tmp_path / name)
        folder.run("create", "6", "3", "1")
        folder.run("add", *FOUR)
        folder.run("rebalance", *seed)
        rings.append(folder.ring.read_bytes())
    assert rings[0] == rings[1]


def test_format_version_2_on_request(full: Folder) -> None:
    one = full.ring.read_bytes()
    full.run("write_ring", "--format-version", "2")
    assert full.ring.read_bytes() != one
    assert b"R1NG\0\2" in full.ring.read_bytes()
    full.run("write_ring")
    assert full.ring.read_bytes() == one


def test_backups_are_kept_and_nothing_else_is_left(full: Folder) -> None:
    names = sorted(os.listdir(full.path / "backups"))
    assert [name.split(".", 2)[2] for name in names] == ["object.ring.gz", "object.builder"]
    assert (full.path / "backups" / names[0]).read_bytes() == full.ring.read_bytes()
    assert (full.path / "backups" / names[1]).read_bytes() == full.builder.read_bytes()
    assert sorted(os.listdir(full.path)) == [
        ".object.builder.lock",
        "backups",
        "object.builder",
        "object.ring.gz",
    ]


def test_the_ring_file_may_be_given_in_place_of_the_builder(full: Folder) -> None:
    full.builder = full.ring
    assert "Note: using object.builder instead of object.ring.gz" in full.run()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["rebalnce"], "unknown command 'rebalnce': did you mean rebalance? (--help lists"),
        (["set-weight", "d0", "1"], "'set-weight': did you mean set_weight?"),
        (["frobnicate"], "unknown command 'frobnicate': (--help lists the commands)"),
        (["create", "6", "3", "1"], "object.builder exists already"),
        (["create", "6", "3"], "the following arguments are required: min_part_hours"),
        (["create", "six", "3", "1"], "part_power: 'six' is not a whole number"),
        (["set_replicas", "few"], "replicas: 'few' is not a number"),
        (["add"], "a device needs region, zone, ip, port, device, weight"),
        (["add", "r1z1-127.0.0.1:6200/d"], "each device needs a weight after it"),
        (["add", "r1z1-127.0.0.1:6200/d", "heavy"], "'heavy' is not a weight"),
        (["add", "r1z1-127.0.0.1:6200/d", "-1"], "not a weight"),
        (["add", "r1z1-127.0.0.1:6200/d", "nan"], "not a weight"),
        (["add", "r1z1-127.0.0.300:6200/d", "1"], "'127.0.0.300' is not an IP address"),
        (["add", "r1z1-127.0.0.1:70000/d", "1"], "port must be a whole number 1 to 65535"),
        (["add", "r1z1-127.0.0.1:6200/..", "1"], "'..' is not a device name"),
        (["add", "sdb1", "1"], "'sdb1' is not [r<region>]z<zone>-<ip>:<port>"),
        (["add", *FOUR[:2], *FOUR[:2]], "Device 0 already uses 127.0.0.1:6201/d1"),
        (["add", *FOUR[:2], "--zone", "1"], "not both"),
        (["remove"], "name the devices"),
        (["remove", "d9"], "no device has id 9; nothing was changed"),
        (["search", "d9"], "no device has id 9\n"),
        (["remove", "what"], "'what' is not a search value"),
        (["set_weight", "d0"], "each search value needs a new weight"),
        (["set_weight", "d0", "1"], "no device has id 0"),
        (["rebalance"], "3 replicas need at least 3 devices with weight, there are 0"),
        (["rebalance", "--format-version", "3"], "invalid choice: 3"),
        (["set_region", "d0"], "each search value needs a new region"),
        (["set_info", "d0"], "each search value needs a change"),
        (["set_info", "d0", "what"], "'what' is not a change"),
        (["set_info", "--change-meta", "x"], "name the devices"),
        (["set_info", "d0", "_x", "--change-meta", "x"], "not both"),
        (["set_overload", "much"], "'much' is not an overload"),
        (["set_overload", "inf"], "overload must be a number of at least 0"),
        (["set_min_part_hours", "256"], "min_part_hours must be 0 to 255"),
        (["set_replicas", "nan"], "replicas must be 1 to 256"),
        (["list_parts", "d0"], "no partition is assigned yet"),
        (["dispersion"], "no partition is assigned yet"),
        (["validate"], "no partition is assigned yet"),
        (["version"], "object.ring.gz: No such file"),
        (["write_builder"], "object.builder exists already"),
        (["increase_partition_power"], "cannot be increased"),
        (["write_ring"], "no partition is assigned yet: rebalance first"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    folder: Folder, words: list[str], sentence: str
) -> None:
    before = folder.builder.read_bytes()
    printed = folder.run(*words, status=2)
    assert sentence in printed
    assert printed.startswith("martlet-ring-builder: ")
    assert printed.count("\n") == 1
    assert folder.builder.read_bytes() == before
    assert not folder.ring.exists()


def test_too_few_devices_for_the_replicas(folder: Folder) -> None:
    folder.run("add", *FOUR[:4])
    printed = folder.run("rebalance", status=2)
    assert printed == (
        "martlet-ring-builder: 3 replicas need at least 3 devices with weight, there are 2\n"
    )
    assert not folder.ring.exists()


@pytest.mark.parametrize("words", [[], ["show"], ["rebalance"], ["add", *FOUR[:2]]])
def test_a_missing_or_damaged_builder_file_is_named(folder: Folder, words: list[str]) -> None:
    folder.builder.write_bytes(b"cos\nsystem\n(S'touch owned'\ntR.")
    assert "object.builder: not a builder file: more than plain" in folder.run(*words, status=2)
    assert not (folder.path / "owned").exists()
    folder.builder.unlink()
    assert "object.builder: No such file or directory" in folder.run(*words, status=2)


@pytest.mark.parametrize("name", [".", "/", "", "folder/.."])
def test_a_name_of_no_file_is_a_sentence(folder: Folder, name: str) -> None:
    (folder.path / "folder").mkdir()
    done = folder.start(name, "create", "6", "3", "1")
    assert done.returncode == 2
    assert re.fullmatch("martlet-ring-builder: .*(names no file|a folder, not).*\n", done.stderr)


def test_a_folder_that_is_missing_or_taken_is_named(full: Folder) -> None:
    for path in (full.path / "backups").iterdir():
        path.unlink()
    (full.path / "backups").rmdir()
    (full.path / "backups").write_text("not a folder")
    printed = full.run("write_ring", status=2)
    assert printed == "martlet-ring-builder: backups: no backup can be written: Not a directory\n"
    full.builder = full.path / "none" / "object.builder"
    assert main([str(full.builder), "create", "6", "3", "1"]) == 2


def test_a_builder_without_devices_says_so(folder: Folder) -> None:
    line = "There are no devices in this ring, or all devices have been deleted"
    assert folder.run().splitlines()[-1] == line
    folder.run("add", *FOUR)
    assert line not in folder.run()


@pytest.mark.parametrize("words", [["list_parts", "r1"], ["show"], ["show", "--json"]])
def test_a_closed_pipe_ends_it_without_a_word(full: Folder, words: list[str]) -> None:
    """Nobody reads, as behind a ``head`` that has seen enough."""
    reader, writer = os.pipe()
    os.close(reader)
    done = full.start(full.builder.name, *words, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_the_last_device_keeps_its_weight(folder: Folder) -> None:
    folder.run("add", *FOUR[:4])
    folder.run("set_weight", "d0", "0")
    before = folder.builder.read_bytes()
    for words in (["set_weight", "d1", "0"], ["remove", "d1"]):
        assert "d1r1z2-" in (printed := folder.run(*words, status=2))
        assert "is the last device with weight: add others first" in printed
    assert folder.builder.read_bytes() == before


def test_a_builder_older_than_the_ring_is_refused(full: Folder) -> None:
    old = full.builder.read_bytes()
    full.run("add", "r1z5-127.0.0.1:6209/d9", "1")
    full.run("pretend_min_part_hours_passed")
    full.run("rebalance")
    ring = full.ring.read_bytes()
    full.builder.write_bytes(old)
    for words in (["write_ring"], ["rebalance"]):
        assert "the builder is older" in full.run(*words, status=2)
    assert full.ring.read_bytes() == ring
    full.run("write_ring", "--force")
    assert full.ring.read_bytes() != ring


def test_wider_device_ids_on_request(full: Folder) -> None:
    assert "need ring format version 2" in full.run("write_ring", "--dev-id-bytes", "4", status=2)
    full.run("write_ring", "--dev-id-bytes", "4", "--format-version", "2")
    assert "version: 2 (4-byte IDs), build version: 5" in full.run("version")
    assert "up-to-date" in full.run()


def test_what_each_device_wants_is_shown(full: Folder) -> None:
    assert "DEBUG: d0r1z1-" in full.run("rebalance", "--debug", status=1)


def test_two_builders_at_once(full: Folder) -> None:
    with open(full.path / ".object.builder.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another ring builder is using it" in full.run("set_weight", "d0", "3", status=2)
        full.run("show")
    full.run("set_weight", "d0", "3")


def test_reports_need_no_lock(full: Folder) -> None:
    with open(full.path / ".object.builder.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["validate"], ["dispersion", "-v"], ["search", "d0"], ["list_parts", "d0"]):
            full.run(*words)
        full.run("dispersion", "--recalculate", status=2)


def test_yes_may_stand_anywhere(full: Folder) -> None:
    for words in (["--yes", "r1", "5"], ["r1", "-y", "6"], ["r1", "7", "--yes"]):
        assert full.run("set_weight", *words).count("weight set to") == 4


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "set_weight" in capsys.readouterr().out


def test_help_has_examples(folder: Folder) -> None:
    assert "examples:" in folder.run("--help")
    assert "--format-version" in folder.run("rebalance", "--help")
