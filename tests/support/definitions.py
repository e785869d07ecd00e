"""The names that the definitions of a module of tests use, read from its source."""

import ast
from collections.abc import Iterator, Mapping


class Definitions:
    """The definitions of a module, and the names that each uses.

    A definition is a function, a class, a method of a class of tests (``TestClass.test_method``), or a name that is
    assigned, at the top of the module.

    Args:
        module: The module's name.
        tree: Its source.
        names: The full names of the names that it imports.
    """

    def __init__(self, module: str, tree: ast.Module, names: Mapping[str, str]) -> None:
        self.module = module
        self._names = names
        self._nodes: dict[str, ast.AST] = {}
        self._shared: dict[str, list[ast.AST]] = {}  # what every test of a class uses: its marks, fixtures for all
        for node in tree.body:
            self._add(node)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes or name in self._names

    def imported(self, name: str) -> str | None:
        """Return the full name of a name that the module imports."""
        return self._names.get(name)

    def tests(self) -> list[str]:
        """Return the tests of the module."""
        others = (name for name, node in self._nodes.items() if not isinstance(node, ast.ClassDef))
        return [name for name in others if name.rpartition(".")[2].startswith("test")]

    def used_by_all_tests(self) -> list[str]:
        """Return the definitions that every test of the module uses: marks, and fixtures for all."""
        return [name for name, node in self._nodes.items() if name == "pytestmark" or _is_autouse(node)]

    def used_by(self, name: str) -> tuple[set[str], set[str]]:
        """Return the full names that a definition uses, and the fixtures that it requests by their names."""
        if name not in self._nodes:
            name = name.partition(".")[0]
        if name not in self._nodes:
            return set(), set()
        node = self._nodes[name]
        test_class = name.rpartition(".")[0]
        parts = [part for root in (node, *self._shared.get(test_class, ())) for part in ast.walk(root)]
        used = {full for part in parts for full in self._full_names(part, test_class)}
        fixtures = {fixture for part in parts for fixture in _constants(part, "usefixtures", "getfixturevalue")}
        if isinstance(node, _FUNCTION) and _requests_fixtures(name, node):
            fixtures |= {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
        own = {fixture for fixture in fixtures if f"{test_class}.{fixture}" in self._nodes}
        return used | {f"{self.module}.{test_class}.{fixture}" for fixture in own}, fixtures - own

    def _full_names(self, part: ast.AST, test_class: str) -> Iterator[str]:
        """Yield the names that a part of a definition uses, and the levels and needs that it declares."""
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
                if f"{test_class}.{attribute}" in self._nodes:
                    yield f"{self.module}.{test_class}.{attribute}"
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in self._names:
                yield f"{self._names[name]}.{attribute}"
            case ast.Name(id=name) if name in self:
                yield self._names.get(name, f"{self.module}.{name}")
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str() as module):
                yield module
            case ast.Constant(value="process" | "in a process"):  # isolation="process"
                yield "level process"
            case ast.Call():
                yield from (f"needs {need}" for need in _constants(part, "needs", "require", "find_program"))
                yield from (f"level {level}" for level in _constants(part, "level"))

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._nodes[name] = node
            case ast.ClassDef(name=name):
                self._nodes[name] = node
                if name.startswith("Test"):
                    self._add_methods(node)
            case ast.Assign(targets=targets):
                self._nodes |= {name: node for target in targets for name in _bound(target)}
            case ast.AnnAssign(target=target):
                self._nodes |= dict.fromkeys(_bound(target), node)
            case ast.If(body=body, orelse=orelse) | ast.Try(body=body, orelse=orelse):
                for inner in (*body, *orelse):
                    self._add(inner)

    def _add_methods(self, node: ast.ClassDef) -> None:
        functions = [statement for statement in node.body if isinstance(statement, _FUNCTION)]
        self._nodes |= {f"{node.name}.{function.name}": function for function in functions}
        others = [statement for statement in node.body if not isinstance(statement, _FUNCTION)]
        self._shared[node.name] = [*node.decorator_list, *others, *filter(_is_autouse, functions)]


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def _bound(target: ast.AST) -> list[str]:
    return [name.id for name in ast.walk(target) if isinstance(name, ast.Name)]


def _constants(part: ast.AST, *functions: str) -> set[str]:
    """Return the constants that one of these functions is called with."""
    match part:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=arguments) if called in functions:
            return {str(argument.value) for argument in arguments if isinstance(argument, ast.Constant)}
    return set()


def _is_autouse(node: ast.AST) -> bool:
    return isinstance(node, _FUNCTION) and any("autouse=True" in ast.unparse(each) for each in node.decorator_list)


def _requests_fixtures(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return name.rpartition(".")[2].startswith("test") or any(
        "fixture" in ast.unparse(decorator) for decorator in node.decorator_list
    )
