"""The prose of the project: docstrings, comments and pages, cut into sentences."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

#: Words for people; a program, a request or a file has a name of its own.
PRONOUNS = re.compile(
    r"\b((no|some|any|every)body|(some|any|every)one|who(so)?ever|whomever)\b", re.IGNORECASE
)
#: A docstring starts with a verb or a noun, not with a question.
QUESTIONS = re.compile(r"(What|Who|Whose|How)\b")
DOCSTRING_WORDS_MAX = 25
PAGE_WORDS_MAX = 30
PAGE_COLUMNS_MAX = 100

_CODE = re.compile(r"``[^`]+``|`[^`]+`")
_LINK = re.compile(r"!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No)\.")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?:;])[)\"'*_”]*(?=\s|$)")
_FIELD = re.compile(r"^\s*:(?:raises|param|returns?|type)\b[^:]*:", re.MULTILINE)
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+", re.MULTILINE)
_TABLE_RULE = re.compile(r"^\s*[=-]{3,}", re.MULTILINE)
_FENCE = re.compile(r"\s*(```|~~~)")
_NO_PROSE = re.compile(r"\s*(?:\||<!--|\[[^\]]+\]:\s)|#{1,6} ")
_OPTION = re.compile(r"#\s*[\w<>]+ *=|#\s*\[")
_GO_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|`[^`]*`|' + r"'(?:\\.|[^'\\\n])*'" + r"|//[^\n]*|/\*.*?\*/", re.DOTALL
)
_GO_DIRECTIVE = re.compile(r"//(?:go:|nolint|export |line )")


@dataclass(frozen=True)
class Prose:
    """A piece of text and the line on which it starts."""

    line: int
    text: str
    is_docstring: bool = False
    is_public: bool = False


@cache
def python_prose(source: str) -> list[Prose]:
    """The docstrings, then the comments, of a Python file."""
    return [*_docstrings(ast.parse(source)), *_python_comments(source)]


def _docstrings(tree: ast.Module) -> Iterator[Prose]:
    """Those of public names: the module, its classes and functions, and their methods."""
    pending: list[tuple[ast.AST, bool]] = [(tree, True)]
    while pending:
        node, is_public = pending.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield Prose(node.body[0].lineno, text, is_docstring=True, is_public=is_public)
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None) or ""
            pending.append((child, is_public and not is_scope and not name.startswith("_")))


def _python_comments(source: str) -> Iterator[Prose]:
    """Comments on lines of their own that follow each other are one text."""
    block: list[str] = []
    start = end = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, column = token.start
        alone = not token.line[:column].strip()
        if not (block and alone and line == end + 1):
            if block:
                yield Prose(start, "\n".join(block))
            block, start = [], line
        block.append(token.string.lstrip("#: "))
        end = line if alone else -1
    if block:
        yield Prose(start, "\n".join(block))


def python_sentences(source: str) -> list[Prose]:
    """The string constants with a space in them, such as messages; no docstrings."""
    tree = ast.parse(source)
    expressions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        Prose(node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and " " in node.value
        and id(node) not in expressions
    ]


def go_prose(source: str) -> list[Prose]:
    """The comments of a Go file; those on lines that follow each other are one text."""
    found: list[Prose] = []
    block: list[str] = []
    start = last = -1
    for match in _GO_TOKEN.finditer(source):
        text = match.group()
        if not text.startswith(("//", "/*")) or _GO_DIRECTIVE.match(text):
            continue
        line = source.count("\n", 0, match.start()) + 1
        if block and line != last + 1:
            found.append(Prose(start, "\n".join(block)))
            block = []
        start = start if block else line
        block.append(text.strip("/* \n"))
        last = line + text.count("\n")
    if block:
        found.append(Prose(start, "\n".join(block)))
    return found


def sample_prose(sample: str) -> list[Prose]:
    """The comments of a configuration file, each block as one text; options are no prose."""
    found: list[Prose] = []
    block: list[str] = []
    for number, line in enumerate([*sample.splitlines(), ""], 1):
        if line.startswith("#") and not _OPTION.match(line):
            block.append(line.lstrip("# "))
        elif block:
            found.append(Prose(number - len(block), "\n".join(block)))
            block = []
    return found


def page_lines(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown page outside code blocks, tables, headings and link targets."""
    is_code = False
    is_after_blank = True
    for number, line in enumerate(page.splitlines(), 1):
        if _FENCE.match(line):
            is_code = not is_code
            continue
        if is_code:
            continue
        is_indented = line.startswith(("    ", "\t")) and (is_after_blank or not line.strip())
        if is_indented and not _ITEM.match(line):
            continue  # a code block, of which every line counts as the first
        is_after_blank = not line.strip()
        if not _NO_PROSE.match(line):
            yield number, line


def page_prose(page: str) -> list[Prose]:
    """The paragraphs and list items of a Markdown page."""
    found: list[Prose] = []
    block: list[str] = []
    start = last = 0
    for number, line in page_lines(page):
        is_new = not line.strip() or number != last + 1 or _ITEM.match(line)
        if is_new and block:
            found.append(Prose(start, "\n".join(block)))
            block = []
        if line.strip():
            start = start if block else number
            block.append(_ITEM.sub("", line))
        last = number
    if block:
        found.append(Prose(start, "\n".join(block)))
    return found


def without_code(text: str) -> str:
    """The text with each piece of code as the word ``code``, and links as their words."""
    return _LINK.sub(r"\1", _CODE.sub("code", text))


def sentences(text: str) -> list[str]:
    """The sentences of a text; a colon or a semicolon ends one, too.

    A blank line, an item of a list and a field such as ``:raises`` start a new one. Tables and
    indented blocks have none.
    """
    text = _ABBREVIATION.sub(r"\1", without_code(text))
    text = _ITEM.sub("\n\n", _FIELD.sub("\n\n", text))
    found = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if _TABLE_RULE.search(paragraph) or paragraph.strip("\n").startswith("    "):
            continue
        parts = _END_OF_SENTENCE.split(" ".join(paragraph.split()))
        found += [part.strip() for part in parts if part.strip()]
    return found


def words(sentence: str) -> int:
    """The number of words; a dash between two of them is none."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))
