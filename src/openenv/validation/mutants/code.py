"""A file of an environment's code as operators see it, and the changes that they make in its text."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from openenv.validation.findings import shortened

Function = ast.FunctionDef | ast.AsyncFunctionDef
NodeT = TypeVar("NodeT", bound=ast.AST)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LONGEST = 100
# Functions that draw a position for people or end an environment: no answer to an agent depends on them.
_UNSEEN = ("render", "render_web", "close", "main", "__repr__", "__str__", "__del__")


@dataclass(frozen=True)
class Edit:
    """Text that replaces a part of a file.

    Attributes:
        start: Line, from 1, and byte in the line, from 0, at which the part begins.
        end: Line and byte behind its end.
        text: The new text.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True)
class Mutation:
    """A change of a file.

    Attributes:
        line: The line that shows it.
        lines: Lines of the statement that is changed; it has an effect only where one of them runs.
        change: The change, for people.
        edits: Its texts.
    """

    line: int
    lines: range
    change: str
    edits: tuple[Edit, ...]


class Code:
    """A file of an environment's code.

    Args:
        path: The file as seen from the environment's folder.
        text: Its content, which parses.

    Attributes:
        tree: Its syntax tree.
    """

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text)
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes that run and may be changed, in their order in the file."""
        found = [node for each in self.tree.body if not _is_docstring(each) for node in _running(each)]
        return sorted(found, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))

    @cached_property
    def functions(self) -> list[Function]:
        """The functions whose results an agent may see."""
        return [node for node in self.nodes if isinstance(node, FUNCTIONS)]

    @cached_property
    def environments(self) -> list[ast.ClassDef]:
        """The classes that reset and step."""
        return [node for node in self.nodes if isinstance(node, ast.ClassDef) and {"reset", "step"} <= _methods(node)]

    def of_type(self, kind: type[NodeT]) -> Iterator[NodeT]:
        """Iterate over the nodes of a kind."""
        return (node for node in self.nodes if isinstance(node, kind))

    def function_of(self, node: ast.AST) -> Function | None:
        """Return the innermost function that a node is in; ``None`` at the top of a file or a class."""
        return next((each for each in self.around(node) if isinstance(each, FUNCTIONS)), None)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that a node is in."""
        return next(each for each in (node, *self.around(node)) if isinstance(each, ast.stmt))

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Iterate over the nodes that a node is in, from the innermost."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def replace(self, node: ast.expr | ast.stmt, by: str, what: str = "") -> Mutation:
        """Return the mutation that replaces a node."""
        change = what or f"{in_a_line(node)} becomes {in_a_line(by)}"
        return self.change(node, [_span(node, by if isinstance(node, ast.stmt) else f"({by})")], change)

    def rewrite(self, function: Function, body: Sequence[str], what: str) -> Mutation:
        """Return the mutation that gives a function another body, of lines."""
        first, last = function.body[0], function.body[-1]
        text = f"\n{' ' * first.col_offset}".join(body)
        end = (last.end_lineno or 0, last.end_col_offset or 0)
        return self.change(_working(function), [Edit((first.lineno, first.col_offset), end, text)], what)

    def begin(self, function: Function, text: str, what: str) -> Mutation:
        """Return the mutation that puts a statement at the begin of a function's body."""
        first = _working(function)
        at = (first.lineno, first.col_offset)
        return self.change(first, [Edit(at, at, f"{text}\n{' ' * first.col_offset}")], what)

    def change(self, node: ast.expr | ast.stmt, edits: Iterable[Edit], change: str) -> Mutation:
        """Return the mutation that makes edits, of which a node is the first."""
        statement = self.statement_of(node)
        last = node.end_lineno or node.lineno
        lines = range(statement.lineno, (last if node is not statement else _header_end(statement)) + 1)
        return Mutation(node.lineno, lines, change, tuple(edits))

    def mutated(self, mutation: Mutation) -> str:
        """Return the file's text with a mutation."""
        lines = [line.encode() for line in self.text.splitlines(keepends=True)]
        for edit in sorted(mutation.edits, key=lambda edit: edit.start, reverse=True):
            (first, begin), (last, end) = edit.start, edit.end
            changed = lines[first - 1][:begin] + edit.text.encode() + lines[last - 1][end:]
            lines[first - 1 : last] = [changed]
        return b"".join(lines).decode()


def _working(function: Function) -> ast.stmt:
    """Return the first statement of a function behind its docstring."""
    body = function.body
    return body[1] if ast.get_docstring(function) is not None and len(body) > 1 else body[0]


def in_a_line(node: ast.AST | str) -> str:
    """Return code in one short line."""
    text = " ".join((node if isinstance(node, str) else ast.unparse(node)).split())
    return shortened(text, _LONGEST)


def _span(node: ast.expr | ast.stmt, text: str) -> Edit:
    return Edit((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0), text)


def _header_end(statement: ast.stmt) -> int:
    """Return the last line of a statement without the statements in it."""
    inner = [child.lineno for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
    return min(inner) - 1 if inner else statement.end_lineno or statement.lineno


def _methods(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, FUNCTIONS)}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Iterate over a node and those in it, without annotations, decorators, docstrings and parts of formatted texts."""
    if isinstance(node, FUNCTIONS) and node.name in _UNSEEN:
        return
    if isinstance(node, ast.Import | ast.ImportFrom | ast.arguments):
        return
    if isinstance(node, ast.If) and _is_main(node.test):
        return
    yield node
    if isinstance(node, ast.JoinedStr):  # whose parts have no positions of their own
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords") and isinstance(
            node, (*FUNCTIONS, ast.ClassDef, ast.AnnAssign, ast.arg)
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_docstring(child):
                yield from _running(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_main(test: ast.expr) -> bool:
    return ast.unparse(test).startswith("__name__ ==") or ast.unparse(test).endswith("TYPE_CHECKING")
