"""What ``martlet ring show`` draws, as a tree, as JSON and as a picture."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cluster.command import main
from ring.builder import RingBuilder
from ring.builder_file import save_builder
from ring.file_format import encode_ring
from ring.svg import as_svg
from ring.tree import Branch, Picture, as_text, load_picture

_MARTLET = "import sys; from cluster.command import main; sys.exit(main())"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two regions; one device is being drained, one is new and holds nothing yet."""
    builder = RingBuilder.create(6, 2, 1)
    for number in range(6):
        builder.add_device(
            {
                "region": 1 + number % 2,
                "zone": 1,
                "ip": f"10.0.{number % 2}.{number}",
                "port": 6200,
                "device": "sd<&",
                "weight": 1 + number,
            }
        )
    builder.rebalance("1")
    builder.set_weight(0, 0)
    builder.add_device(
        {"region": 2, "zone": 2, "ip": "::1", "port": 6200, "device": "sda", "weight": 3}
    )
    save_builder(builder, tmp_path / "object.builder")
    ring = encode_ring(builder.ring_data(), "object.ring.gz")
    (tmp_path / "object.ring.gz").write_bytes(ring)
    return tmp_path


def branches(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.children:
        yield from branches(child)


@pytest.mark.parametrize("name", ["object.builder", "object.ring.gz"])
def test_every_level_adds_up(folder: Path, name: str) -> None:
    picture = load_picture(folder / name)
    assert picture.root.held == 128
    assert picture.root.wanted == pytest.approx(128)
    kinds = [branch.kind for branch in branches(picture.root)]
    assert [kinds.count(kind) for kind in ("region", "zone", "server", "device")] == [2, 3, 7, 7]
    for branch in branches(picture.root):
        if branch.children:
            assert branch.held == sum(child.held for child in branch.children)
            assert branch.wanted == pytest.approx(sum(c.wanted for c in branch.children))
            assert branch.weight == sum(child.weight for child in branch.children)


def test_the_tree_in_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ring", "show", str(folder / "object.builder")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "64 partitions, 2 replicas" in lines[0]
    drained = next(line for line in lines if "d0 sd<& :6200" in line).split()
    assert drained[-5:-1] == ["0.00", "0.0", "6", "999.99"]
    new = next(line for line in lines if "d6 sda :6200" in line)
    assert new.split()[-2] == "-100.00"
    assert new.endswith("·" * 10)
    assert any("[::1]" in line for line in lines)


def test_json_has_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ring", "show", "--json", str(folder / "object.ring.gz")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["partitions"], shown["balance"]) == (64, 999.99)
    assert sum(region["parts_held"] for region in shown["tree"]["children"]) == 128


def test_the_picture_is_proper_and_names_every_device(folder: Path) -> None:
    picture = load_picture(folder / "object.builder")
    root = ElementTree.fromstring(as_svg(picture))
    space = "{http://www.w3.org/2000/svg}"
    titles = [title.text or "" for title in root.iter(f"{space}title")]
    assert len(titles) == len(list(branches(picture.root)))
    assert sum(title.startswith("device d") for title in titles) == 7
    boxes = [box.attrib for box in root.iter(f"{space}rect")]
    for row in {box["y"] for box in boxes}:
        widths = [float(box["width"]) for box in boxes if box["y"] == row]
        assert sum(widths) == pytest.approx(1200, abs=0.1)


def test_a_name_without_room_in_the_picture_is_seen_to_be_cut() -> None:
    servers = [Branch("server", f"10.1.30.{n}", 1.0, 5.0, 5) for n in range(100, 120)]
    root = Branch("ring", "object.ring.gz", 20.0, 100.0, 100, servers)
    drawn = as_svg(Picture("object.ring.gz", 1, 100, 1.0, 0.0, 0.0, root))
    assert ">10.1.30…<" in drawn
    assert ">object.ring.gz<" in drawn


def test_the_picture_grows_with_the_devices() -> None:
    devices = [Branch("device", f"d{n} sda", 1.0, 5.0, 5) for n in range(1000)]
    root = Branch("ring", "object.ring.gz", 1000.0, 5000.0, 5000, devices)
    drawn = as_svg(Picture("object.ring.gz", 1, 100, 1.0, 0.0, 0.0, root))
    assert 'width="56000"' in drawn
    assert ">d999 sda<" in drawn


def test_zero_has_no_sign() -> None:
    branch = Branch("ring", "r", 1.0, 3.0, 3)
    branch.wanted = 3.0 + 1e-9
    picture = Picture("r", 1, 3, 1.0, branch.balance, -0.0, branch)
    for text in (as_text(picture), json.dumps(picture.as_json()), as_svg(picture)):
        assert "-0.0" not in text


def test_a_picture_that_cannot_be_written_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "none" / "ring.svg"
    assert main(["ring", "show", "--svg", str(path), str(folder / "object.ring.gz")]) == 2
    assert capsys.readouterr().err == f"martlet: {path}: No such file or directory\n"


@pytest.mark.parametrize("words", [["show"], ["show", "--json"], ["plan"]])
def test_a_closed_pipe_ends_it_without_a_word(folder: Path, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", _MARTLET, "ring", *words, str(folder / "object.builder")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_picture_goes_into_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "ring.svg"
    assert main(["ring", "show", "--svg", str(path), str(folder / "object.ring.gz")]) == 0
    assert path.read_text().startswith("<svg")
    assert capsys.readouterr().out == ""


def test_a_mistake_is_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_builder(RingBuilder.create(4, 2, 1), folder / "new.builder")
    for name, sentence in (
        ("none.ring.gz", "No such file"),
        ("new.builder", "no partition is assigned"),
    ):
        assert main(["ring", "show", str(folder / name)]) == 2
        printed = capsys.readouterr().err
        assert sentence in printed
        assert printed.count("\n") == 1
