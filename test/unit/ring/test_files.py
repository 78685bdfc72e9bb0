"""Files of a ring folder belong to whoever the operator gave them to, and errors name them."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ring.builder import RingBuilder
from ring.builder_file import load_builder, locked, save_builder
from ring.command import main
from ring.errors import BuilderFileError
from ring.files import replace_file

GROUP, OTHER_USER = 65533, 65532


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o002, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path, umask: int) -> None:
    replace_file(tmp_path / "new", b"1")
    assert mode(tmp_path / "new") == 0o666 & ~umask
    replace_file(tmp_path / "secret", b"1", mode=0o600)
    assert mode(tmp_path / "secret") == 0o600


def test_a_replaced_file_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o660)
    replace_file(path, b"new")
    assert (mode(path), path.read_bytes()) == (0o660, b"new")


def test_lock_and_backup_are_like_the_builder(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "object.builder"
    save_builder(RingBuilder.create(4, 1, 1), path)
    path.chmod(0o664)
    tmp_path.chmod(0o770)
    with locked(path):
        assert mode(tmp_path / ".object.builder.lock") == 0o664
    assert main([str(path), "add", "r1z1-10.0.0.1:6200/sda", "1"]) == 0
    assert main([str(path), "rebalance"]) == 0
    assert mode(tmp_path / "backups") == 0o770
    kept = [entry for entry in (tmp_path / "backups").iterdir() if entry.name.endswith(".builder")]
    assert [mode(entry) for entry in kept] == [0o664]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    for path in (tmp_path / "none" / "ring.svg", tmp_path / "folder", Path()):
        (tmp_path / "folder").mkdir(exist_ok=True)
        with pytest.raises(OSError, match=r"No such file|Is a directory") as caught:
            replace_file(path, b"")
        assert caught.value.filename == str(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_is_no_builder_file(tmp_path: Path) -> None:
    with pytest.raises(BuilderFileError, match="a folder, not a builder file"), locked(tmp_path):
        pass
    assert list(tmp_path.parent.glob(f".{tmp_path.name}.lock")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_two_users_of_a_group_share_a_builder() -> None:
    """The first is root under an ordinary umask; the second owns nothing, but is in the group."""
    folder = Path(tempfile.mkdtemp(prefix="martlet-ring-"))
    before = os.umask(0o022)
    try:
        os.chown(folder, 0, GROUP)
        folder.chmod(0o2770)
        builder = folder / "object.builder"
        assert main([str(builder), "create", "4", "1", "1"]) == 0
        builder.chmod(0o664)
        assert main([str(builder), "add", "r1z1-10.0.0.1:6200/sda", "1"]) == 0
        words = [str(builder), "add", "r1z1-10.0.0.1:6200/sdb", "1"]
        assert _as_another_user(words) == 0
        assert _as_another_user([str(builder), "rebalance"]) == 0
        assert main([str(builder), "set_weight", "d0", "3"]) == 0
        assert [device["weight"] for device in load_builder(builder).devices()] == [3.0, 1.0]
        assert (builder.stat().st_gid, mode(builder)) == (GROUP, 0o664)
    finally:
        os.umask(before)
        shutil.rmtree(folder)


def _as_another_user(words: list[str]) -> int:
    groups = os.getgroups()
    os.setgroups([GROUP])
    os.setegid(OTHER_USER)
    os.seteuid(OTHER_USER)
    try:
        return main(words)
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
