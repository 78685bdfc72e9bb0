"""martlet/http/environ.py has every environ key that filters and the proxy app share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from source_tree import ROOT, PythonFile

MODULE = "martlet/http/environ.py"
DOTTED = re.compile(r"(keystone|martlet|swift)\.[a-z_.]+(?<!\.conf)")
BARE = re.compile(r"[a-z][a-z_.]*")
LISTED = re.compile(r"[A-Za-z]\w*(\.\w+)*", re.ASCII)
# Of PEP 3333, of the HTTP server, and of filters that only pass it on.
NOT_OURS = re.compile(r"wsgi\..*")
NAMES_OF_INFO = {"swift.auto_create_account_prefix", "swift.valid_api_versions"}
LOGGERS = ("get_logger", "logging.getLogger")
METHODS = ("get", "pop", "setdefault")


def is_environ(node: ast.expr) -> bool:
    """``environ`` or ``something.environ``, but not that of the process."""
    if isinstance(node, ast.Attribute):
        is_of_process = isinstance(node.value, ast.Name) and node.value.id == "os"
        return node.attr in ("environ", "_environ") and not is_of_process
    return isinstance(node, ast.Name) and node.id == "environ"


def literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def keys_of_environ(tree: ast.Module) -> Iterator[str]:
    """Literal lower-case keys of an ``environ``, in any way to read or write them."""
    for node in ast.walk(tree):
        key: str | None = None
        if isinstance(node, ast.Subscript) and is_environ(node.value):
            key = literal(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr in METHODS and is_environ(node.func.value):
                key = literal(node.args[0])
        elif isinstance(node, ast.Compare) and is_environ(node.comparators[0]):
            key = literal(node.left)
        if key is not None and BARE.fullmatch(key) and not NOT_OURS.fullmatch(key):
            yield key


def dotted_words(tree: ast.Module) -> Iterator[str]:
    """Literals that look like our keys, wherever they stand; names of loggers are none."""
    loggers = {
        id(argument)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGGERS
        for argument in node.args
    }
    for node in ast.walk(tree):
        word = literal(node) if isinstance(node, ast.expr) else None
        if word is not None and DOTTED.fullmatch(word) and id(node) not in loggers:
            yield word


def listed_words(tree: ast.Module) -> Iterator[str]:
    """Lower-case words of literals that list keys: words alone, among them two headers."""
    for node in ast.walk(tree):
        words = (literal(node) or "").split() if isinstance(node, ast.expr) else []
        header_count = sum(word.startswith("HTTP_") for word in words)
        if header_count > 1 and all(LISTED.fullmatch(word) for word in words):
            yield from (w for w in words if BARE.fullmatch(w) and not NOT_OURS.fullmatch(w))


@cache
def keys_in(tree: ast.Module) -> set[str]:
    """The keys that a module names by literals."""
    return {*keys_of_environ(tree), *dotted_words(tree), *listed_words(tree)} - NAMES_OF_INFO


def documented() -> dict[str, tuple[str, str]]:
    """The name of each constant of the module, with its value and the comment above it."""
    text = (ROOT / MODULE).read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = literal(node.value)
            if value is not None:
                comment: list[str] = []
                number = node.lineno - 2
                while lines[number].startswith("#: "):
                    comment.insert(0, lines[number].removeprefix("#: "))
                    number -= 1
                found[node.targets[0].id] = value, " ".join(comment)
    return found


def test_every_key_stands_in_the_module(modules: list[PythonFile]) -> None:
    known = {value for value, _ in documented().values()}
    known |= {file.name.removesuffix(".py").replace("/", ".") for file in modules}
    unknown = {file.name: keys_in(file.tree) - known for file in modules}
    assert {name: keys for name, keys in unknown.items() if keys} == {}


def test_each_key_says_its_type_its_writers_its_readers_and_its_meaning() -> None:
    entry = re.compile(r"``[^`]+``.*?\. Written by .+?\. Read\s+by .+?\. [A-Z].*\.")
    wrong = [name for name, (_, comment) in documented().items() if not entry.fullmatch(comment)]
    assert wrong == []


def test_no_key_stands_there_that_nothing_uses(modules: list[PythonFile]) -> None:
    others = [file for file in modules if file.name != MODULE]
    used = {key for file in others for key in keys_in(file.tree)}
    names = {
        alias.name
        for file in others
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "martlet.http.environ"
        for alias in node.names
    }
    unused = [n for n, (value, _) in documented().items() if n not in names and value not in used]
    assert unused == []


def test_the_search_finds_keys_in_all_their_forms() -> None:
    tree = ast.parse(
        "environ['swift_owner'] = environ.get('bare')\n"
        "if 'other' not in req.environ: self._environ.setdefault('set', 1)\n"
        "KEY = 'martlet.new'\n"
        "SHARED = 'HTTP_HOST HTTP_RANGE listed keystone.who wsgi.input'.split()\n"
        "NAMES, TEXT = 'etag expires', 'HTTP_HOST is missing.'\n"
        "environ['wsgi.input'], environ['HTTP_HOST'], os.environ['path'], lines['x']\n"
        "get_logger('martlet.log'), 'martlet.conf', 'swift.valid_api_versions'\n"
    )
    found = {"swift_owner", "bare", "other", "set", "martlet.new", "listed", "keystone.who"}
    assert keys_in(tree) == found
