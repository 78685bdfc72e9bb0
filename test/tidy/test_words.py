"""Plain words: short sentences, no pronouns of people for programs, lines that fit a screen.

The rules are those of a machine. Whether a text says what it should is for its reader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prose import (
    DOCSTRING_WORDS_MAX,
    PAGE_COLUMNS_MAX,
    PAGE_WORDS_MAX,
    PRONOUNS,
    QUESTIONS,
    Prose,
    go_prose,
    page_lines,
    page_prose,
    python_prose,
    python_sentences,
    sentences,
    without_code,
    words,
)
from source_tree import ROOT, GoFile, PythonFile

#: Folders whose text is held to the rules; the others are ``proxy``, ``object-server``, ``doc``.
COVERED = ("martlet", "storage", "account", "container", "ring", "cluster", "bench")
#: Files of these folders that are still to be rewritten.
NOT_YET = frozenset(
    (
        "cluster/object_info.py",
        "cluster/object_info_record.py",
        "cluster/object_info_swift.py",
        "container/app.py",
        "martlet/http/environ.py",
        "martlet/http/listing.py",
        "martlet/log.py",
        "ring/builder.py",
        "ring/file_format.py",
    )
)


def pronouns_in(prose: list[Prose]) -> Iterator[str]:
    """Where a program is spoken of as a person."""
    for piece in prose:
        for match in PRONOUNS.finditer(without_code(piece.text)):
            yield f"{piece.line}: {match.group()}"


def questions_in(prose: list[Prose]) -> Iterator[str]:
    """Docstrings that start as a question does."""
    for piece in prose:
        if piece.is_docstring and QUESTIONS.match(piece.text):
            yield f"{piece.line}: {piece.text.splitlines()[0]}"


def long_sentences_in(prose: list[Prose], limit: int) -> Iterator[str]:
    """Sentences of more than ``limit`` words."""
    for piece in prose:
        for sentence in sentences(piece.text):
            if words(sentence) > limit:
                yield f"{piece.line}: {words(sentence)} words: {sentence[:60]}"


def long_lines_in(page: str) -> Iterator[str]:
    """Lines of a page beyond the limit, but those of one word, such as an address."""
    for number, line in page_lines(page):
        if len(line) > PAGE_COLUMNS_MAX and len(without_code(line).split()) > 1:
            yield f"{number}: {len(line)} columns"


def covered(name: str) -> bool:
    """Whether the file of this name is held to the rules."""
    return name.split("/")[0] in COVERED and name not in NOT_YET


@pytest.fixture(scope="module")
def python_texts(python_files: list[PythonFile]) -> dict[str, str]:
    """The covered Python files by name."""
    return {file.name: file.text for file in python_files if covered(file.name)}


@pytest.fixture(scope="module")
def go_texts(go_files: list[GoFile]) -> dict[str, str]:
    """The covered Go files by name."""
    return {file.name: file.text for file in go_files if covered(file.name)}


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The covered pages by name."""
    paths = sorted((ROOT / "doc").rglob("*.md"))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    return {name: text for name, text in texts.items() if covered(name)}


def test_no_program_is_a_person(
    python_texts: dict[str, str], go_texts: dict[str, str], pages: dict[str, str]
) -> None:
    prose = {n: [*python_prose(t), *python_sentences(t)] for n, t in python_texts.items()}
    prose |= {name: go_prose(text) for name, text in go_texts.items()}
    prose |= {name: page_prose(text) for name, text in pages.items()}
    assert [f"{name}:{found}" for name in prose for found in pronouns_in(prose[name])] == []


def test_no_docstring_is_a_question(python_texts: dict[str, str]) -> None:
    prose = {name: python_prose(text) for name, text in python_texts.items()}
    assert [f"{name}:{found}" for name in prose for found in questions_in(prose[name])] == []


def test_sentences_are_short(python_texts: dict[str, str], pages: dict[str, str]) -> None:
    """Those in docstrings of public names and in pages."""
    long = []
    for name, text in python_texts.items():
        public = [piece for piece in python_prose(text) if piece.is_public]
        long += [f"{name}:{found}" for found in long_sentences_in(public, DOCSTRING_WORDS_MAX)]
    for name, page in pages.items():
        found_here = long_sentences_in(page_prose(page), PAGE_WORDS_MAX)
        long += [f"{name}:{found}" for found in found_here]
    assert long == []


def test_lines_of_pages_fit_a_screen(pages: dict[str, str]) -> None:
    assert [f"{name}:{found}" for name in pages for found in long_lines_in(pages[name])] == []
