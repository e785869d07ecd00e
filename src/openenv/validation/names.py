"""Meaning of a name in a module, found by reading the syntax trees."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from openenv.validation.source import Source

MAX_HOPS = 20
OUR_PACKAGES = ("openenv", "openenv_core", "pydantic")
# Bases of environments in OpenEnv, which are read like those of the package.
_ADAPTERS = "openenv/adapters/"
_SOURCES = Path(__file__).parents[2].as_posix()


@dataclass(frozen=True)
class Definition:
    """Statement of the package that gives a name its meaning.

    Attributes:
        path: The file, relative to the folder. If it begins with ``..``, it lies in the package that the folder is part
            of; an absolute one is a file of ``openenv.adapters``.
        node: The class, function or assignment.
    """

    path: str
    node: ast.AST


@dataclass(frozen=True)
class External:
    """Name that comes from another package.

    Attributes:
        dotted: Its dotted name, such as ``pydantic.BaseModel``.
    """

    dotted: str

    @property
    def name(self) -> str:
        """The last part of the dotted name."""
        return self.dotted.rpartition(".")[2]

    @property
    def is_ours(self) -> bool:
        """Return whether it comes from OpenEnv, or from pydantic, whose models count as actions."""
        return self.dotted.partition(".")[0] in OUR_PACKAGES


Meaning = Definition | External | None


class Names:
    """Looks up names in an environment's package."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._package = source.module if isinstance(source.module, str) else source.folder.name

    def find(self, module: str, name: str) -> Meaning:
        """Return the meaning of a name in a module, following imports; ``None`` if nothing binds it."""
        path = self.path(module)
        return None if path is None else self._find_in(path, name, MAX_HOPS)

    def path(self, module: str) -> str | None:
        """Return the file of a module as seen from the folder, or ``None`` if there is none."""
        return self._file(module.replace(".", "/"))

    def bases(self, cls: Definition) -> list[Meaning]:
        """Return the meaning of each base of a class."""
        assert isinstance(cls.node, ast.ClassDef)
        return [self._expression(cls.path, base) for base in cls.node.bases]

    def parameters(self, cls: Definition) -> list[list[Meaning]]:
        """Return the meanings of the parameters of a class's bases, of a union each member."""
        assert isinstance(cls.node, ast.ClassDef)
        slices = [base.slice for base in cls.node.bases if isinstance(base, ast.Subscript)]
        given = [each for part in slices for each in (part.elts if isinstance(part, ast.Tuple) else [part])]
        return [
            [self._expression(cls.path, node) for node in ast.walk(each) if isinstance(node, ast.Name)]
            for each in given
        ]

    def ancestors(self, cls: Definition) -> Iterator[Definition | External]:
        """Yield a class and everything that it extends, as far as the package and ``openenv.adapters`` have it."""
        waiting: list[Meaning] = [cls]
        seen = set()
        while waiting:
            each = waiting.pop(0)
            if each is None or each in seen:
                continue
            seen.add(each)
            yield each
            if isinstance(each, Definition) and isinstance(each.node, ast.ClassDef):
                waiting += self.bases(each)

    def _find_in(self, path: str, name: str, hops: int) -> Meaning:
        """Return the meaning of a name in a file; of alternatives, as in a ``try``, the first that is known here."""
        found = list(self._meanings(path, name, hops))
        known = (each for each in found if isinstance(each, Definition) or (each and each.is_ours))
        return next(known, found[0] if found else None)

    def _meanings(self, path: str, name: str, hops: int) -> Iterator[Meaning]:
        tree = self._source.tree(path)
        if tree is None or hops == 0:
            return
        for node in statements(tree):
            if _defines(node, name):
                yield Definition(path, node)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield self._imported(path, node, alias.name, hops)

    def _imported(self, path: str, node: ast.ImportFrom, name: str, hops: int) -> Meaning:
        module = self._module_of(path, node)
        if module is None:
            return External(f"{node.module}.{name}")
        target = self._file(module)
        return None if target is None else self._find_in(target, name, hops - 1)

    def _module_of(self, path: str, node: ast.ImportFrom) -> str | None:
        """Return the path of an import's module without its ending; ``None`` for one of another package."""
        written = (node.module or "").replace(".", "/")
        top, _, folder = self._package.replace(".", "/").partition("/")
        if node.level:
            module = join(folder, dirname(path), "../" * (node.level - 1), written)
        elif written == top or written.startswith(f"{top}/"):
            module = written.removeprefix(top).lstrip("/")
        elif f"{written}/".startswith(_ADAPTERS):
            return join(_SOURCES, written)
        else:
            # `from models import X`, as environments do that run from within their folder or that of the file.
            here = (written, join(dirname(path), written))
            return next((module for module in here if self._file(module) is not None), None)
        climbed_out = normpath(module).startswith("..")
        return None if climbed_out else relpath(f"/{module}", f"/{folder}")

    def _file(self, module: str) -> str | None:
        """Return the file of a module, which is given as a path without its ending."""
        candidates = (f"{module}.py", normpath(join(module, "__init__.py")))
        return next((path for path in candidates if self._source.tree(path) is not None), None)

    def _dotted(self, path: str, written: str) -> str:
        """Return a dotted name with the module of its first part, as in ``vf.Environment``."""
        head, _, rest = written.partition(".")
        tree = self._source.tree(path)
        imported = (_imported_module(node, head) for node in (() if tree is None else statements(tree)))
        module = next((module for module in imported if module is not None), head)
        return f"{module}.{rest}"

    def _expression(self, path: str, node: ast.expr) -> Meaning:
        if isinstance(node, ast.Subscript):
            return self._expression(path, node.value)
        if isinstance(node, ast.Attribute):
            return External(self._dotted(path, ast.unparse(node)))
        return self._find_in(path, node.id, MAX_HOPS) if isinstance(node, ast.Name) else None


def _imported_module(node: ast.stmt, name: str) -> str | None:
    """Return the module that a statement imports under a name."""
    if isinstance(node, ast.Import):
        return next((alias.name for alias in node.names if alias.asname == name), None)
    if isinstance(node, ast.ImportFrom) and not node.level:
        found = (alias.name for alias in node.names if (alias.asname or alias.name) == name)
        return next((f"{node.module}.{each}" for each in found), None)
    return None


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, with those inside ``if`` and ``try``."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if isinstance(node, ast.If):
            waiting = [*node.body, *node.orelse, *waiting]
        elif isinstance(node, ast.Try):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            waiting = [*node.body, *handlers, *node.orelse, *node.finalbody, *waiting]


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name
    return isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]
