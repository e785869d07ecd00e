"""Source of the package, with each module read once: what it names, and what it says."""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "src" / "openenv"


class Text(NamedTuple):
    """Text of a module, and the line where it begins."""

    line: int
    text: str


class Function(NamedTuple):
    """Function or method of a module."""

    line: int
    name: str
    length: int


@dataclass
class Module:
    """One module.

    Attributes:
        path: From the package's folder, as ``core/wire/v1.py``.
        lines: Number of lines.
        names: What it names and uses by name, and its own name.
        docstrings: Those of the module, of classes, functions and attributes.
        messages: Other strings that have a space: what a person reads is among them.
        functions: Functions and methods.
        public_classes: Names of its classes at module level that have no underscore.
        broad_excepts: Lines that catch every exception.
    """

    path: str
    lines: int
    names: set[str]
    docstrings: list[Text] = field(default_factory=list)
    messages: list[Text] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    public_classes: list[str] = field(default_factory=list)
    broad_excepts: list[int] = field(default_factory=list)


@functools.cache
def modules(root: Path = PACKAGE) -> tuple[Module, ...]:
    """Read the modules below a folder, once; the last changed come first, so that a list begins with what is new."""
    return tuple(_read(file, root) for file in sorted(root.rglob("*.py"), key=_age))


def _age(file: Path) -> tuple[int, Path]:
    return -file.stat().st_mtime_ns, file


def _read(file: Path, root: Path) -> Module:
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    module = Module(file.relative_to(root).as_posix(), len(text.splitlines()), {file.stem})
    docstrings = {statement.value for statement in _docstrings(tree)}
    for node in ast.walk(tree):
        module.names.update(_names(node))
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                module.functions.append(Function(node.lineno, name, (node.end_lineno or node.lineno) - node.lineno + 1))
            case ast.Constant(value=str(said)) if node in docstrings:
                module.docstrings.append(Text(node.lineno, said))
            case ast.Constant(value=str(said)) if any(map(str.isspace, said)):
                module.messages.append(Text(node.lineno, said))
            case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException")):
                module.broad_excepts.append(node.lineno)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    module.public_classes += [name for name in classes if not name.startswith("_")]
    return module


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.Attribute(attr=name) | ast.Name(id=name):
            yield name


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Iterate over the strings that are statements; a docstring below an attribute is one of them."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node
