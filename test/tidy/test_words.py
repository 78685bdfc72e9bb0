"""Plain words: short sentences, no pronouns of people for programs, lines that fit a screen.

A machine checks these rules. Whether a text is right and clear is for its readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    sample_prose,
    sentences,
    without_code,
    words,
)
from source_tree import ROOT, GoFile, PythonFile

#: The folders, and the pages of the root, that are held to the rules.
COVERED = (
    "martlet",
    "storage",
    "account",
    "container",
    "replicator",
    "proxy",
    "ring",
    "cluster",
    "bench",
    "etc",
    "object-server",
    "doc",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
)


def pronouns_in(prose: Iterable[Prose]) -> Iterator[str]:
    """The words for people."""
    for piece in prose:
        for match in PRONOUNS.finditer(without_code(piece.text)):
            yield f"{piece.line}: {match.group()}"


def questions_in(prose: Iterable[Prose]) -> Iterator[str]:
    """The docstrings that start like a question."""
    for piece in prose:
        if piece.is_docstring and QUESTIONS.match(piece.text):
            yield f"{piece.line}: {piece.text.splitlines()[0]}"


def long_sentences_in(prose: Iterable[Prose], limit: int) -> Iterator[str]:
    """The sentences of more than ``limit`` words."""
    for piece in prose:
        for sentence in sentences(piece.text):
            if words(sentence) > limit:
                yield f"{piece.line}: {words(sentence)} words: {sentence[:60]}"


def long_lines_in(page: str) -> Iterator[str]:
    """The lines of a page over the limit, except those of one word, such as an address."""
    for number, line in page_lines(page):
        if len(line) > PAGE_COLUMNS_MAX and len(without_code(line).split()) > 1:
            yield f"{number}: {len(line)} columns"


def covered(name: str) -> bool:
    """Whether the file of this name is held to the rules."""
    return name.split("/")[0] in COVERED


def read_covered(*patterns: str) -> dict[str, str]:
    """The covered files of the tree that match one of the patterns, by name."""
    paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    names = {str(path.relative_to(ROOT)): path for path in paths}
    return {name: path.read_text("utf-8") for name, path in names.items() if covered(name)}


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
    return read_covered("*.md", "doc/**/*.md")


def test_no_program_is_a_person(
    python_texts: dict[str, str], go_texts: dict[str, str], pages: dict[str, str]
) -> None:
    prose = {n: [*python_prose(t), *python_sentences(t)] for n, t in python_texts.items()}
    prose |= {name: go_prose(text) for name, text in go_texts.items()}
    prose |= {name: page_prose(text) for name, text in pages.items()}
    prose |= {name: sample_prose(text) for name, text in read_covered("etc/*-sample").items()}
    assert [f"{name}:{found}" for name in prose for found in pronouns_in(prose[name])] == []


def test_no_docstring_is_a_question(python_texts: dict[str, str]) -> None:
    prose = {name: python_prose(text) for name, text in python_texts.items()}
    assert [f"{name}:{found}" for name in prose for found in questions_in(prose[name])] == []


def test_sentences_are_short(python_texts: dict[str, str], pages: dict[str, str]) -> None:
    """In docstrings of public names, in pages and in samples of configuration files."""
    long = []
    for name, text in python_texts.items():
        public = [piece for piece in python_prose(text) if piece.is_public]
        long += [f"{name}:{found}" for found in long_sentences_in(public, DOCSTRING_WORDS_MAX)]
    prose = {name: page_prose(text) for name, text in pages.items()}
    prose |= {name: sample_prose(text) for name, text in read_covered("etc/*-sample").items()}
    for name, pieces in prose.items():
        long += [f"{name}:{found}" for found in long_sentences_in(pieces, PAGE_WORDS_MAX)]
    assert long == []


def test_lines_of_pages_fit_a_screen(pages: dict[str, str]) -> None:
    assert [f"{name}:{found}" for name in pages for found in long_lines_in(pages[name])] == []


def test_what_is_covered_exists() -> None:
    assert [name for name in COVERED if not (ROOT / name).exists()] == []


# --- the checks themselves ------------------------------------------------------------------------

LONG = "word " * DOCSTRING_WORDS_MAX + "word."
PYTHON = f'''"""What the module is for."""

#: A port that nobody
#: listens on.
PORT = 1  # whoever asks


def public(name: str) -> str:
    """{LONG}"""
    # Short.
    if name == "nobody":
        raise ValueError("somebody else has it")
    return name


def _private() -> None:
    """{LONG}"""


class Place:
    """Where: {LONG}"""

    def go(self) -> None:
        """How to go."""
'''
GO = """// Package a is for anybody.
package a

const text = "nobody // in a string" // whoever
const raw = `// nobody`

//go:embed nobody
/* Somebody
   else. */
"""
WIDE = "wide " * (PAGE_COLUMNS_MAX // 5) + "line"
ADDRESS = f"https://example.org/{'a' * PAGE_COLUMNS_MAX}"
PAGE = f"""# What nobody reads

{WIDE}
[link](https://example.org/whoever)

| nobody | {WIDE} |

    nobody {WIDE}

- an item for somebody

```
nobody {WIDE}
```

{ADDRESS}
"""
SAMPLE = """# Nobody
# else.
# nobody = 1
[section]
# Short.
"""


def test_the_check_of_pronouns() -> None:
    prose = [*python_prose(PYTHON), *python_sentences(PYTHON)]
    assert list(pronouns_in(prose)) == ["3: nobody", "5: whoever", "12: somebody"]
    assert list(pronouns_in(go_prose(GO))) == ["1: anybody", "4: whoever", "8: Somebody"]
    assert list(pronouns_in(page_prose(PAGE))) == ["10: somebody"]
    assert list(pronouns_in(sample_prose(SAMPLE))) == ["1: Nobody"]
    people = [Prose(1, "everybody, anyone, everyone, someone, whosoever and whomever")]
    assert len(list(pronouns_in(people))) == 6
    programs = [Prose(1, "the user ``nobody``; `whoever`; any one, some ones, every body")]
    assert list(pronouns_in(programs)) == []


def test_the_check_of_questions() -> None:
    found = ["1: What the module is for.", "24: How to go."]
    assert sorted(questions_in(python_prose(PYTHON))) == found


def test_the_check_of_sentences() -> None:
    limit = DOCSTRING_WORDS_MAX
    public = [piece for piece in python_prose(PYTHON) if piece.is_public]
    found = {found.split(": ")[0] for found in long_sentences_in(public, limit)}
    assert found == {"9", "21"}
    two = "One two, three (four). Five ``six seven`` eight?\nNine: ten; e.g. eleven"
    parts = ["One two, three (four).", "Five code eight?", "Nine:", "ten;", "e.g eleven"]
    assert sentences(two) == parts
    fields = "Do it.\n\n:raises OSError: it failed.\n:param name: a name\n\n- one\n- two\n\n    x y"
    assert sentences(fields) == ["Do it.", "it failed.", "a name", "one", "two"]
    assert sentences("=====  ====\na table\n=====  ====") == []
    assert words("one - two – `three` 4 §") == 4


def test_the_check_of_lines() -> None:
    assert list(long_lines_in(PAGE)) == [f"3: {len(WIDE)} columns"]


def test_the_coverage() -> None:
    assert covered("ring/ring.py")
    assert covered("README.md")
    assert covered("doc/formats/ring.md")
    assert covered("object-server/ring/ring.go")
    assert not covered("vendor/ring.py")
