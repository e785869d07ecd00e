"""``docs/glossary.md`` says what the code says."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import openenv.core

ROOT = Path(openenv.core.__file__).parent
SERVER = ROOT / "env_server"
PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its head."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def names_in(file: Path) -> Iterator[str]:
    """Every name that a module gives to something, and its own."""
    yield file.stem
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Attribute(attr=name) | ast.Name(id=name):
                yield name


def words_of(name: str) -> str:
    """A name as words: ``_LastSeat`` and ``last_seat`` are both `` last seat ``."""
    return f" {' '.join(re.findall(r'[A-Z]?[a-z]+|[A-Z]+(?![a-z])', name)).lower()} "


def test_each_folder_of_the_server_has_its_row() -> None:
    folders = {folder.parent.name for folder in SERVER.glob("*/__init__.py")}
    assert [row[0].strip("`") for row in rows("The folders of the server")] != []
    assert {row[0].strip("`") for row in rows("The folders of the server")} == folders


@pytest.mark.parametrize(("heading", "package"), [("The words", "core"), ("The words of training", "train")])
def test_each_word_is_in_the_code(heading: str, package: str) -> None:
    words = rows(heading)
    assert words
    for _, _, where in words:
        module, _, name = where.strip("`").rpartition(".")
        assert hasattr(importlib.import_module(f"openenv.{package}.{module}"), name), where


def test_no_word_has_two_rows() -> None:
    words = [word for heading in ("The words", "The words of training") for word, *_ in rows(heading)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("heading", "folders"),
    [
        ("Words that are not used", (SERVER, ROOT / "wire", ROOT / "schema")),
        ("Words that the client does not use", (ROOT / "client",)),
        ("Words that training does not use", (ROOT.parent / "train",)),
    ],
)
def test_words_that_are_not_used_are_not_used(heading: str, folders: tuple[Path, ...]) -> None:
    unused = [word for row in rows(heading) for word in row[0].split(", ")]
    assert unused
    found = [
        (str(file.relative_to(ROOT.parent)), name)
        for folder in folders
        for file in sorted(folder.rglob("*.py"))
        for name in names_in(file)
        if any(f" {word} " in words_of(name) or f" {word}s " in words_of(name) for word in unused)
    ]
    assert not found
