# SPDX-License-Identifier: Apache-2.0
"""A log is emptied only when all of it is in the copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cluster import logs


def test_the_log_is_emptied_when_its_last_line_is_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, copy = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_bytes(b"first\n")
    copied: list[bytes] = []

    def copy_and_log_on(*arguments: object, copyfileobj: object = shutil.copyfileobj) -> None:
        assert callable(copyfileobj)
        copyfileobj(*arguments)
        if log.read_bytes() == b"first\n":  # a service goes on while it is copied
            with log.open("ab") as stream:
                stream.write(b"last\n")

    def truncate(path: Path, size: int, truncate: object = os.truncate) -> None:
        assert callable(truncate)
        copied.append(copy.read_bytes())
        truncate(path, size)

    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 1)
    monkeypatch.setattr(shutil, "copyfileobj", copy_and_log_on)
    monkeypatch.setattr(os, "truncate", truncate)
    logs.bound_log(log)
    assert copied == [b"first\nlast\n"]
    assert log.read_bytes() == b""
