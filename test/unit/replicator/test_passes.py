"""Which databases a pass opens and which it leaves alone; a crash in the middle of a pass."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from replicating import PARTITION, Killed, Replicas
from storage_calls import stamp

from container.app import ContainerServer
from martlet.recon.cache import read_figures
from replicator.passes import Selection
from replicator.quiet import Quiet
from storage.fingerprint import SETTLED_SECONDS, fingerprint

C = f"/d1/{PARTITION}/AUTH_test/c"
PRIMARIES = (1, 2, 3)


def row(name: str, at: float, deleted: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": stamp(at),
        "size": 0 if deleted else 2,
        "content_type": "application/deleted" if deleted else "a/b",
        "etag": "noetag" if deleted else "e",
        "deleted": deleted,
    }


def names(replicas: Replicas, number: int) -> list[str]:
    if replicas.database(number) is None:
        return []
    return [n for (n,) in replicas.query(number, "SELECT name FROM object WHERE deleted = 0")]


def make_quiet(containers: Replicas) -> None:
    """Three equal replicas that did not change for a while, each known to its replicator."""
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2)])
    containers.settle(*PRIMARIES)
    containers.now = time.time() + 30 * SETTLED_SECONDS  # much later than the last change
    for number in PRIMARIES:
        containers.replicate(number)
    containers.wires.seen.clear()


def test_an_unchanged_database_is_not_opened(
    containers: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_quiet(containers)
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("opened"))
    figures = containers.replicate(1)
    assert (figures.databases, figures.unchanged) == (1, 1)
    assert containers.wires.seen == [(2, "missing"), (3, "missing")]


def test_a_changed_database_is_compared(containers: Replicas) -> None:
    make_quiet(containers)
    containers.everywhere([1], "UPDATE", C, 2, {}, [row("b", 3)])
    figures = containers.replicate(1)
    assert (figures.unchanged, figures.sent) == (0, 2)


def test_an_unchanged_database_goes_to_a_peer_that_lost_it(containers: Replicas) -> None:
    make_quiet(containers)
    shutil.rmtree(Path(containers.servers[3].devices) / "d1" / "containers")
    figures = containers.replicate(1)
    assert (figures.unchanged, figures.copied) == (0, 1)
    assert names(containers, 3) == ["a"]


def test_an_unchanged_database_is_compared_after_the_full_interval(containers: Replicas) -> None:
    make_quiet(containers)
    containers.now += 86400.0
    figures = containers.replicate(1)
    assert (figures.unchanged, figures.same) == (0, 2)


@pytest.mark.parametrize("made_at", [1, 5])
def test_a_peer_that_was_made_anew_draws_the_rows(containers: Replicas, made_at: int) -> None:
    """Its replicator asks, which changes the databases of the others."""
    make_quiet(containers)
    shutil.rmtree(Path(containers.servers[3].devices) / "d1" / "containers")
    assert containers.call[3]("PUT", C, made_at).status == 201
    containers.replicate(3)
    containers.replicate(1)
    assert names(containers, 3) == ["a"]


def test_a_damaged_database_is_fetched_from_a_peer(containers: Replicas) -> None:
    make_quiet(containers)
    path = containers.database(1)
    assert path is not None
    containers.servers[1].pool.close()
    path.write_bytes(b"no database" * 1000)
    containers.wires.cut = {2}
    figures = containers.replicate(1)
    assert (figures.fetched, figures.failures) == (1, 0)
    assert names(containers, 1) == ["a"]
    quarantined = Path(containers.servers[1].devices) / "d1" / "quarantined" / "containers"
    assert [kept.name for kept in quarantined.iterdir()] == [path.stem]
    containers.wires.cut = set()
    containers.settle(*PRIMARIES)


def test_a_damaged_database_waits_for_its_peers(containers: Replicas) -> None:
    make_quiet(containers)
    path = containers.database(1)
    assert path is not None
    containers.servers[1].pool.close()
    path.write_bytes(b"no database" * 1000)
    containers.wires.cut = {2, 3}
    figures = containers.replicate(1)
    assert (figures.fetched, figures.failures) == (0, 1)
    containers.wires.cut = set()
    assert containers.replicate(2).copied == 1
    assert names(containers, 1) == ["a"]


def test_the_selection_of_a_pass(containers: Replicas) -> None:
    containers.everywhere([1], "PUT", C, 1)
    assert containers.replicate(1, Selection(["d2"], ())).databases == 0
    assert containers.replicate(1, Selection((), [PARTITION + 1])).databases == 0
    assert containers.replicate(1, Selection(["d1"], [PARTITION])).databases == 1


def test_the_figures_of_passes_are_shown(tmp_path: Path) -> None:
    folder = str(tmp_path / "recon")
    containers = Replicas(ContainerServer, tmp_path, recon_cache_path=folder)
    keys = ("replication_last", "replication_stats", "replication_time")
    containers.everywhere([1, 4], "PUT", C, 1)
    containers.replicate(1, Selection(["d1"], ()))
    assert read_figures(folder, "container", keys) == dict.fromkeys(keys)
    containers.wires.cut = {2}
    containers.replicate(4)
    shown = read_figures(folder, "container", keys)
    assert shown["replication_last"] == containers.now
    assert 0 <= shown["replication_time"] < 60
    stats = shown["replication_stats"]
    assert (stats["attempted"], stats["failure"], stats["success"]) == (1, 1, 0)
    assert (stats["in_sync"], stats["handoffs"], stats["remove"]) == (0, 1, 0)
    containers.wires.cut = set()
    containers.replicate(4)
    stats = read_figures(folder, "container", keys)["replication_stats"]
    assert (stats["failure"], stats["handoffs"], stats["remove"]) == (0, 0, 1)
    for in_sync in (1, 1):  # compared, and then unchanged
        containers.replicate(1)
        stats = read_figures(folder, "container", keys)["replication_stats"]
        assert (stats["attempted"], stats["success"], stats["in_sync"]) == (1, 1, in_sync)
    containers.close()


def test_a_pass_goes_on_without_a_place_for_its_figures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    containers = Replicas(ContainerServer, tmp_path, recon_cache_path=str(tmp_path / "file"))
    containers.everywhere([1], "PUT", C, 1)
    with caplog.at_level("WARNING", "martlet.recon"):
        assert containers.replicate(1).copied == 2
        containers.replicate(1)
    assert caplog.text.count("figures for recon cannot be written") == 1
    containers.close()


def test_the_fingerprint_of_a_database(tmp_path: Path) -> None:
    path = str(tmp_path / "x.db")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    later = time.time() + 10
    marks = [fingerprint(path, later)]
    changed_at = os.stat(f"{path}-wal").st_mtime
    assert fingerprint(path, changed_at) is None  # a change now might have the same time
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    marks.append(fingerprint(path, later))
    connection.close()  # moves the log into the file
    marks.append(fingerprint(path, later))
    assert len({None, *marks}) == 4
    reader = sqlite3.connect(path)
    assert reader.execute("SELECT a FROM t").fetchall() == [(1,)]
    assert fingerprint(path, later) == marks[-1]
    reader.close()
    assert fingerprint(path, later) == marks[-1]
    with pytest.raises(FileNotFoundError):
        fingerprint(str(tmp_path / "none.db"), later)


def test_databases_are_due_at_different_times(tmp_path: Path) -> None:
    quiet = Quiet(1000.0)
    paths = [str(tmp_path / f"{n:032x}.db") for n in (0, 15 << 124)]
    for path in paths:
        Path(path).touch()
        os.utime(path, (1, 1))
        quiet.remember(path, fingerprint(path, 100.0), 100.0)
    assert [quiet.has(path, 590.0) for path in paths] == [True, True]
    assert [quiet.has(path, 700.0) for path in paths] == [False, True]
    assert [quiet.has(path, 1101.0) for path in paths] == [False, False]
    quiet.remember(paths[0], None, 101.0)
    assert not quiet.has(paths[0], 101.0)


def scenes(replicas: Replicas, scene: str) -> None:
    """States in which a pass of the replicator 1 or 4 has work of each kind."""
    replicas.everywhere([1, 2, 3], "PUT", C, 1)
    replicas.everywhere([1, 2, 3], "UPDATE", C, 2, {}, [row("a", 2), row("b", 2)])
    replicas.everywhere([1, 2], "UPDATE", C, 3, {}, [row("a", 3, deleted=1), row("c", 3)])
    if scene == "wiped":
        shutil.rmtree(Path(replicas.servers[3].devices) / "d1" / "containers")
    elif scene == "handoff":
        replicas.ring.primaries = (2, 3, 4)


@pytest.mark.parametrize("scene", ["rows", "wiped", "handoff"])
def test_a_kill_at_any_request_loses_nothing(tmp_path: Path, scene: str) -> None:
    step = 0
    while True:
        step += 1
        replicas = Replicas(ContainerServer, tmp_path / str(step), per_diff=1)
        scenes(replicas, scene)
        replicas.wires.requests, replicas.wires.crash_at = 0, step
        try:
            replicas.replicate(1)
            was_killed = False
        except Killed:
            was_killed = True
        replicas.wires.crash_at = None
        replicas.start_replicator(1)
        replicas.settle()
        for number in replicas.ring.primaries:
            assert names(replicas, number) == ["b", "c"], (step, number)
        if scene == "handoff":
            assert replicas.database(1) is None
        replicas.close()
        if not was_killed:
            break
    assert step > 6


def test_a_quiet_database_is_opened_when_its_deletion_is_old(tmp_path: Path) -> None:
    containers = Replicas(ContainerServer, tmp_path, full_interval=1e9, reclaim_age=100.0)
    try:
        make_quiet(containers)
        containers.now += 50
        assert containers.replicate(1).unchanged == 1
        containers.now += 51
        assert containers.replicate(1).unchanged == 0
    finally:
        containers.close()


def test_empty_directories_are_removed(containers: Replicas) -> None:
    """A crash, a quarantine or a move leaves them."""
    make_quiet(containers)
    top = Path(containers.servers[1].devices) / "d1" / "containers"
    name = "0" * 29 + "abc"
    (top / "5" / "abc" / name).mkdir(parents=True)
    (top / "6" / "def").mkdir(parents=True)
    (top / "7").mkdir()
    full = top / str(PARTITION) / "abc" / name
    full.mkdir(parents=True)
    (full / "notes").write_text("of an operator")
    assert containers.replicate(1).failures == 0
    assert sorted(path.name for path in top.iterdir()) == [str(PARTITION)]
    assert (full / "notes").exists()


def test_a_pass_vacuums_what_it_emptied(containers: Replicas) -> None:
    containers.everywhere([1, 2, 3], "PUT", C, 1)
    rows = [row(f"{number:05d}" + "n" * 300, 2) for number in range(6000)]
    containers.everywhere([1, 2, 3], "UPDATE", C, 2, {}, rows)
    gone = [row(entry["name"], 3, deleted=1) for entry in rows]
    containers.everywhere([1, 2, 3], "UPDATE", C, 3, {}, gone)
    containers.settle(*PRIMARIES)
    path = containers.database(1)
    assert path is not None
    before = path.stat().st_size
    containers.now += 2 * containers.options.reclaim_age
    figures = containers.replicate(1)
    assert (figures.forgotten, figures.vacuumed) == (6000, 1)
    assert path.stat().st_size < before / 4
