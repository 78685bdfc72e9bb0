"""Figures for recon: those of several processes stand in one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from martlet.recon.report import write_report


def test_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "below" / "object.recon"
    write_report(str(path), {"a": 1, "b": [2]})
    write_report(str(path), {"b": None, "c": 1.5})
    assert json.loads(path.read_text()) == {"a": 1, "b": None, "c": 1.5}


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_what_is_no_document_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "object.recon"
    path.write_text(text)
    write_report(str(path), {"a": 1})
    assert json.loads(path.read_text()) == {"a": 1}


def test_no_figure_of_a_parallel_writer_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "object.recon"
    program = "import sys\nfrom martlet.recon.report import write_report\n"
    program += "for n in range(50): write_report(sys.argv[1], {sys.argv[2]: n})"
    command = [sys.executable, "-c", program, str(path)]
    for writer in [subprocess.Popen([*command, name]) for name in "abc"]:
        assert writer.wait(60) == 0
    assert json.loads(path.read_text()) == {"a": 49, "b": 49, "c": 49}


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_report(str(tmp_path / "file" / "object.recon"), {"a": 1})
