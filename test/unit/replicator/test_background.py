"""`martlet-background` with jobs that are scripts, as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from background_jobs import Background

from martlet.service.child_process import is_alive
from replicator import background

FOREVER = "exec sleep 60"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Background]:
    made = Background(tmp_path)
    yield made
    made.close()


def await_true(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition did not come true"
        time.sleep(0.01)


def await_running(node: Background, *names: str) -> dict[str, int]:
    """Wait until the jobs run; return their process ids."""
    await_true(lambda: all(node.job(name).get("state") == "running" for name in names))
    return {name: node.job(name)["pid"] for name in names}


def test_the_jobs_that_are_on_run_with_their_conf(node: Background, tmp_path: Path) -> None:
    node.add_job("one", f'echo "$@" > {tmp_path}/words; {FOREVER}')
    node.add_job("two", FOREVER)
    node.add_job("three", FOREVER, is_on=False)
    process = node.start()
    pids = await_running(node, "one", "two")
    assert [entry["job"] for entry in node.status()["jobs"]] == ["one", "two"]
    assert node.status()["pid"] == process.pid
    assert all(is_alive(pid) for pid in pids.values())
    words = tmp_path / "words"
    await_true(lambda: words.exists() and words.read_text() == f"{node.etc / 'one.conf'}\n")


def test_a_killed_job_is_restarted_and_the_others_go_on(node: Background) -> None:
    node.add_job("one", FOREVER)
    node.add_job("two", FOREVER)
    node.start()
    before = await_running(node, "one", "two")
    os.kill(before["one"], signal.SIGKILL)
    await_true(lambda: node.job("one")["restarts"] == 1)
    after = await_running(node, "one", "two")
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]
    assert node.job("one")["last_exit"]["words"] == "was killed by SIGKILL"
    assert node.job("one")["last_exit"]["status"] == -9
    assert node.job("two")["last_exit"] is None
    assert len(node.lines("job died")) == 1


def test_a_job_that_dies_all_the_time_is_failing_until_it_runs(
    node: Background, tmp_path: Path
) -> None:
    node.add_job("one", f"test -e {tmp_path}/well || exit 3; {FOREVER}")
    node.start()
    await_true(lambda: node.job("one").get("restarts", 0) >= 6)
    assert node.job("one")["state"] == "failing"
    (tmp_path / "well").touch()
    await_running(node, "one")
    for words in ("job died", "job fails again and again", "job runs again"):
        assert len(node.lines(words)) == 1, words


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_and_leaves_no_process(node: Background, number: signal.Signals) -> None:
    node.add_job("one", f"sleep 61 & echo $! > {node.etc}/child; wait")
    node.add_job("two", FOREVER)
    node.add_job("dying", "exit 1")
    process = node.start()
    pids = await_running(node, "one", "two")
    child = node.etc / "child"
    await_true(lambda: child.exists() and child.read_text().endswith("\n"))
    process.send_signal(number)
    assert process.wait(60) == 0
    assert not any(is_alive(pid) for pid in pids.values())
    await_true(lambda: not is_alive(int(child.read_text())))
    assert node.status()["state"] == "stopped"
    states = {(entry["state"], entry["pid"]) for entry in node.status()["jobs"]}
    assert states == {("stopped", None)}


def test_a_job_that_does_not_stop_is_killed_in_time(node: Background) -> None:
    node.add_job("deaf", f"trap '' TERM; touch {node.etc}/deaf; while :; do sleep 0.1; done")
    node.add_job("good", FOREVER)
    process = node.start("--stop-seconds=0.5")
    pids = await_running(node, "deaf", "good")
    await_true((node.etc / "deaf").exists)
    process.terminate()
    assert process.wait(60) == 0
    assert not any(is_alive(pid) for pid in pids.values())
    assert len(node.lines("did not stop in time")) == 1
    assert node.job("deaf")["last_exit"]["words"] == "was killed by SIGKILL"
    assert node.job("good")["last_exit"]["words"] == "was killed by SIGTERM"


def test_every_job_is_asked_to_stop_and_may_finish(node: Background) -> None:
    for name in ("one", "two", "three"):
        node.add_job(
            name,
            f"trap 'echo {name} >> {node.etc}/finished; exit' TERM\n"
            f"touch {node.etc}/{name}.ready; while :; do sleep 0.02; done",
        )
    process = node.start()
    await_running(node, "one", "two", "three")
    await_true(lambda: len([*node.etc.glob("*.ready")]) == 3)
    process.terminate()
    assert process.wait(60) == 0
    assert sorted((node.etc / "finished").read_text().split()) == ["one", "three", "two"]
    assert {entry["last_exit"]["status"] for entry in node.status()["jobs"]} == {0}


def test_a_reload_reaches_every_job(node: Background) -> None:
    for name in ("one", "two"):
        node.add_job(
            name,
            f"trap 'echo x >> {node.etc}/{name}.reloads' HUP; touch {node.etc}/{name}.ready\n"
            "while :; do sleep 0.05; done",
        )
    process = node.start()
    before = await_running(node, "one", "two")
    await_true(lambda: len([*node.etc.glob("*.ready")]) == 2)
    process.send_signal(signal.SIGHUP)
    await_true(lambda: len([*node.etc.glob("*.reloads")]) == 2)
    assert await_running(node, "one", "two") == before


def test_a_killed_supervisor_takes_its_jobs_along(node: Background) -> None:
    node.add_job("one", FOREVER)
    process = node.start()
    pid = await_running(node, "one")["one"]
    process.kill()
    await_true(lambda: not is_alive(pid))


def test_a_second_supervisor_is_refused_in_one_sentence(node: Background) -> None:
    node.add_job("one", f"echo x >> {node.etc}/starts; {FOREVER}")
    first = node.start()
    await_running(node, "one")
    await_true((node.etc / "starts").exists)
    assert node.start().wait(60) == 1
    sentence = f"martlet-background: process {first.pid} already runs the jobs of {node.run}"
    assert node.log.read_text().splitlines()[-1] == sentence
    assert node.start("--once").wait(60) == 1
    assert (node.etc / "starts").read_text() == "x\n"


def test_after_a_kill_the_next_one_waits_for_the_last_process(node: Background) -> None:
    """A job's child outlives it here: the next supervisor must not start a second copy."""
    node.add_job(
        "one",
        f"test -e {node.etc}/child && {FOREVER}\n"
        f"sleep 62 & echo $! > {node.etc}/new; mv {node.etc}/new {node.etc}/child; wait",
    )
    first = node.start()
    await_running(node, "one")
    await_true((node.etc / "child").exists)
    child = int((node.etc / "child").read_text())
    first.kill()
    first.wait()
    second = node.start()
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1.0)
    assert node.status()["pid"] == first.pid
    os.kill(child, signal.SIGKILL)
    await_true(lambda: node.status()["pid"] == second.pid)
    await_running(node, "one")


def test_a_job_gets_no_signal_mask_and_a_group_of_its_own(node: Background) -> None:
    node.add_job("one", FOREVER)
    node.start()
    pid = await_running(node, "one")["one"]
    status = Path(f"/proc/{pid}/status").read_text()
    blocked = next(line for line in status.splitlines() if line.startswith("SigBlk"))
    assert int(blocked.split()[1], 16) == 0
    assert os.getpgid(pid) == pid


def test_once_runs_each_job_and_ends_with_the_worst_status(node: Background) -> None:
    for name, status in (("one", 0), ("two", 3), ("three", 1)):
        node.add_job(name, f'echo "{name} $2" >> {node.etc}/order; exit {status}')
    assert node.start("--once").wait(60) == 3
    lines = (node.etc / "order").read_text().splitlines()
    assert lines == ["one --once", "two --once", "three --once"]
    exits = {entry["job"]: entry["last_exit"]["status"] for entry in node.status()["jobs"]}
    assert exits == {"one": 0, "two": 3, "three": 1}
    assert {entry["restarts"] for entry in node.status()["jobs"]} == {0}


def test_once_of_jobs_that_all_succeed_is_0(node: Background) -> None:
    node.add_job("one", "exit 0")
    assert node.start("--once").wait(60) == 0


def test_once_counts_a_killed_job_as_a_shell_does(node: Background) -> None:
    node.add_job("one", "kill -9 $$")
    node.add_job("two", "exit 2")
    assert node.start("--once").wait(60) == 128 + 9


def test_once_can_be_stopped(node: Background) -> None:
    node.add_job("one", FOREVER)
    node.add_job("two", f"touch {node.etc}/second")
    process = node.start("--once")
    await_true(lambda: node.job("one").get("pid"))
    process.terminate()
    assert process.wait(60) == 128 + 15
    assert not (node.etc / "second").exists()


def test_the_list_shows_what_is_on_and_what_runs(node: Background) -> None:
    node.add_job("one", FOREVER)
    node.add_job("two", FOREVER, is_on=False)
    listed, _ = node.start("--list", "--json").communicate(timeout=60)
    rows = {row["job"]: row for row in json.loads(listed)}
    assert [rows[name]["state"] for name in ("one", "two")] == ["not running", "off"]
    assert rows["one"]["command"] == [node.scripts["one"], str(node.etc / "one.conf")]
    node.start()
    pid = await_running(node, "one")["one"]
    table, _ = node.start("--list").communicate(timeout=60)
    head, one, two = table.splitlines()
    assert head.split() == ["JOB", "STATE", "PID", "CONF"]
    assert one.split() == ["one", "running", str(pid), str(node.etc / "one.conf")]
    assert two.split()[:3] == ["two", "off", "-"]
    assert two.endswith("(two.conf has no section [two])")


def test_a_missing_program_is_an_error_before_anything_runs(node: Background) -> None:
    node.add_job("one", f"touch {node.etc}/ran")
    node.add_job("two", "")
    Path(node.scripts["two"]).unlink()
    node.scripts["two"] = "martlet-not-installed"
    assert node.start().wait(60) == 1
    assert "two.conf has section [two], but martlet-not-installed is not" in node.log.read_text()
    listing = node.start("--list")
    listed, _ = listing.communicate(timeout=60)
    assert listing.returncode == 1
    assert "not there" in listed
    assert not (node.etc / "ran").exists()


def test_a_directory_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, node: Background
) -> None:
    node.add_job("one", FOREVER)
    (tmp_path / "run").write_text("a file")
    assert node.start().wait(60) == 1
    (line,) = node.log.read_text().splitlines()
    assert line.startswith(f"martlet-background: cannot write {node.run}/background.lock: ")


@pytest.mark.parametrize(
    "arguments",
    [[], ["/etc", "--json"], ["/etc", "--job", "unknown"], ["/etc", "--stop-seconds", "-1"]],
)
def test_a_wrong_command_line_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        background.main(arguments)
    assert ended.value.code == 2


def test_one_kind_of_job_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "object-server.conf").write_text("[object-replicator]\n")
    arguments = [str(tmp_path), f"--run={tmp_path}", "--list", "--job", "object-replicator"]
    background.main([*arguments, "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["job"], row["on"]) == ("object-replicator", True)
