"""Figures of background programs: merged in one file, which readers find whole."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from martlet.recon import cache
from martlet.recon.cache import read_figures, update_figures


def test_keys_of_others_stay_and_maps_are_merged(tmp_path: Path) -> None:
    folder = str(tmp_path / "made" / "when missing")
    assert read_figures(folder, "object", ["a"]) == {"a": None}
    update_figures(folder, "object", {"a": 1.5, "disks": {"d1": 1, "d2": 2}})
    update_figures(folder, "object", {"b": 7, "disks": {"d2": 3, "d1": {}}})
    update_figures(folder, "account", {"a": 9})
    assert read_figures(folder, "object", ["a", "b", "c", "disks"]) == {
        "a": 1.5,
        "b": 7,
        "c": None,
        "disks": {"d2": 3},
    }
    update_figures(folder, "object", {"disks": {}})
    assert read_figures(folder, "object", ["disks"]) == {"disks": None}
    assert sorted(os.listdir(folder)) == ["account.recon", "object.recon"]


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"a": '])
def test_a_damaged_file_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "object.recon").write_text(text)
    assert read_figures(str(tmp_path), "object", ["a"]) == {"a": None}
    update_figures(str(tmp_path), "object", {"a": True})
    assert read_figures(str(tmp_path), "object", ["a"]) == {"a": True}


def test_many_writers_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOCK_SECONDS", 60.0)  # a busy machine may not get through in 2 s

    def write(number: int) -> None:
        update_figures(str(tmp_path), "object", {f"key{number}": number})

    threads = [threading.Thread(target=write, args=[number]) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = json.loads((tmp_path / "object.recon").read_text())
    assert found == {f"key{number}": number for number in range(20)}
    assert os.listdir(tmp_path) == ["object.recon"]


def test_a_held_lock_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0.05)
    with cache._locked(str(tmp_path / "object.recon")), pytest.raises(BlockingIOError):
        update_figures(str(tmp_path), "object", {"a": 1})


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_figures(str(tmp_path), "object", {"a": 1})

    def refuse(*_: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="no"):
        update_figures(str(tmp_path), "object", {"a": 2})
    assert read_figures(str(tmp_path), "object", ["a"]) == {"a": 1}
    assert os.listdir(tmp_path) == ["object.recon"]
