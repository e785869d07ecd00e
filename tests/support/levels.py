"""The level of each test, set as a mark by what the test uses, and the CPU time that its level allows.

A level includes those before it. What a test uses is read from source, before anything is imported: its fixtures, the
names in its body, and what the fixtures and helpers behind these use in turn. A test is at least of the level of the
libraries that importing its file loads, so that choosing the first levels imports no library of training, nor one of
an environment::

    make test LEVEL=memory,files,socket

Where source can't show it, ``@pytest.mark.level("process")`` says it; so does a test that is dearer than its own level
allows. ``tests/support/level_marks.py`` holds tests to their levels.
"""

import ast
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support.import_graph import ROOT, ImportGraph, module_name, packages_of

LEVELS = ("memory", "files", "socket", "command", "process", "service", "browser", "training")

LIBRARIES: dict[str, str] = {
    **dict.fromkeys(("accelerate", "datasets", "lightning", "peft", "torch", "transformers", "trl"), "training"),
    **dict.fromkeys(("gymnasium", "inspect_ai", "openreward", "pettingzoo", "pyspiel", "ray"), "service"),
    **dict.fromkeys(("browsergym", "reasoning_gym", "skyrl_gym", "smolagents", "textarena"), "service"),
    "playwright": "browser",
}
"""The level of tests that use a library, or whose file loads it when it is imported."""

LIMITS_S: Mapping[str, float] = {
    "memory": 0.3,
    "files": 1,
    "socket": 2.5,
    "command": 5,
    "process": 15,
    "service": 60,
    "browser": 30,
    "training": 40,
}
"""Seconds of CPU time that a test of a level may take, its processes included, on a machine of 2024."""

NEEDS: Mapping[str, str] = {
    **dict.fromkeys(("git", "ip", "mmdebstrap", "sandbox", "unshare"), "process"),
    **dict.fromkeys(("docker", "docker-compose", "postgres", "reasoning-gym"), "service"),
    "browser": "browser",
}
"""The level of tests that need something of the machine, by its name in ``tests/support/needs.py``."""

USES: dict[str, str] = {
    **dict.fromkeys(("hypothesis.given", "sqlite3", "tempfile", "tmp_path", "tmp_path_factory"), "files"),
    **dict.fromkeys(
        ("asyncio.open_connection", "asyncio.start_server", "http.server", "socket", "socketserver"), "socket"
    ),
    **dict.fromkeys(("httpx.Client", "httpx.get", "httpx.post", "urllib.request", "uvicorn", "websockets"), "socket"),
    **dict.fromkeys(("openenv.core.client", "openenv.core.llm", "tests.support.servers"), "socket"),
    **dict.fromkeys(("openenv.auto.in_process", "openenv.validation.url_checks", "openenv.viewer.run_page"), "socket"),
    **dict.fromkeys(("openenv.cli.__main__", "typer.testing"), "command"),
    **dict.fromkeys(("multiprocessing", "os.fork", "subprocess", "tests.support.forked"), "process"),
    **dict.fromkeys(("openenv.adapters.openspiel.trial", "tests.support.environments.isolated"), "process"),
    **dict.fromkeys(("openenv.adapters.mcp_server", "openenv.auto.auto_env", "openenv.auto.making"), "process"),
    **dict.fromkeys(("openenv.core.env_server.isolation", "openenv.core.providers", "openenv.core.sandbox"), "process"),
    **dict.fromkeys(("openenv.core.env_server.workers", "openenv.doctor", "openenv.providers"), "process"),
    **dict.fromkeys(("mcp.client.stdio", "tests.support.mcp_servers"), "process"),
    **dict.fromkeys(("docker", "kmock", "kubernetes"), "service"),
    **dict.fromkeys(("openenv.fleet.fleet", "tests.support.services"), "service"),
}
"""The level of tests that use a name, or what is within it; the longest name counts."""


def is_test_file(path: Path) -> bool:
    """Whether a file holds tests; its path is relative to the repository."""
    return path.parts[0] in ("tests", "envs") and path.name.startswith("test_")


def higher(levels: Iterable[str]) -> str:
    """Return the highest of some levels.

    Example:
        >>> higher(["files", "command", "memory"])
        'command'
    """
    return max(levels, key=LEVELS.index, default=LEVELS[0])


class LevelReader:
    """Reads the levels of tests from their source.

    Args:
        graph: The imports of the repository.
    """

    def __init__(self, graph: ImportGraph) -> None:
        self._graph = graph
        self._floors: dict[Path, str] = {}
        self._sources: dict[str, _Source] = {}
        self._used: dict[str, frozenset[str]] = {}

    def floor_of(self, file: Path) -> str:
        """Return the level of what importing a file loads; its path is relative to the repository."""
        if file not in self._floors:
            loaded = self._graph.loaded_with([module_name(file), *self._conftests(file)])
            self._floors[file] = higher(LIBRARIES[name] for name in loaded if name in LIBRARIES)
        return self._floors[file]

    def level_of(self, file: Path, test: str) -> str:
        """Return the level of a test, by the name of its function, with its class and a dot before it."""
        return higher([self.floor_of(file), *(_level_of_name(name) for name in self._reached(file, test))])

    def levels_of(self, file: Path) -> dict[str, str]:
        """Return the level of each test of a file."""
        return {test: self.level_of(file, test) for test in self._source(module_name(file)).tests()}

    def _reached(self, file: Path, test: str) -> set[str]:
        """Return every name that a test uses, itself and through the fixtures and helpers behind it."""
        module = module_name(file)
        sources = [self._source(name) for name in (module, *self._conftests(file))]
        reached: set[str] = set()
        waiting = [f"{module}.{test}", *(f"{source.module}.{name}" for source in sources for name in source.always)]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += self._used_by(name)
        return reached

    def _used_by(self, name: str) -> frozenset[str]:
        """Return the names that a definition in the tests uses; none for a definition elsewhere."""
        if name not in self._used:
            self._used[name] = frozenset(self._find_used_by(name))
        return self._used[name]

    def _find_used_by(self, definition: str) -> Iterator[str]:
        module = next((package for package in packages_of(definition) if package in self._graph), None)
        if module is None or module.split(".")[0] == "openenv":
            return
        source = self._source(module)
        symbol = definition.removeprefix(f"{module}.")
        if symbol in source.names:
            yield source.names[symbol]
            return
        used, fixtures = source.used_by(symbol)
        for name in used:
            home, _, attribute = name.rpartition(".")
            yield self._graph.full_name(home, attribute) if home in self._graph else name
        for fixture in fixtures:
            yield self._fixture(source, fixture)

    def _fixture(self, source: "_Source", fixture: str) -> str:
        """Return where a fixture is defined; its bare name if that is a plugin."""
        for module in (source.module, *self._conftests(self._graph.module(source.module).path)):
            here = self._source(module)
            if fixture in here.definitions or fixture in here.names:
                return f"{module}.{fixture}"
        return fixture

    def _conftests(self, file: Path) -> list[str]:
        names = (module_name(folder / "conftest.py") for folder in file.parents)
        return [name for name in names if name in self._graph]

    def _source(self, module: str) -> "_Source":
        if module not in self._sources:
            known = self._graph.module(module)
            tree = ast.parse((self._graph.root / known.path).read_bytes())
            self._sources[module] = _Source(module, tree, known.names)
        return self._sources[module]


class _Source:
    """What the definitions of a module use, by name.

    Attributes:
        definitions: Functions, classes, their methods (``Class.method``), and what is assigned, at the module's top.
        names: What imported names stand for.
        always: Definitions that every test of the module uses.
    """

    def __init__(self, module: str, tree: ast.Module, names: Mapping[str, str]) -> None:
        self.module = module
        self.names = names
        self.definitions: dict[str, ast.AST] = {}
        for node in tree.body:
            self._define(node)
        self.always = [name for name, node in self.definitions.items() if name == "pytestmark" or _is_autouse(node)]

    def tests(self) -> list[str]:
        """Return the tests of the module, by the names that ``LevelReader`` takes."""
        return [
            name
            for name, node in self.definitions.items()
            if name.rpartition(".")[2].startswith("test") and not isinstance(node, ast.ClassDef)
        ]

    def used_by(self, symbol: str) -> tuple[set[str], set[str]]:
        """Return the full names that a definition uses, and the fixtures that it requests."""
        node = self.definitions.get(symbol) or self.definitions.get(symbol.partition(".")[0])
        used: set[str] = set()
        fixtures: set[str] = set()
        if node is None:
            return used, fixtures
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _requests_fixtures(symbol, node):
            fixtures |= {argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]}
        for part in ast.walk(node):
            match part:
                case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)):
                    used |= self._full_names(name, part)
                case ast.Constant(value="process" | "in a process"):  # isolation="process"
                    used.add("level process")
                case ast.Call(func=function, args=arguments):
                    constants = {
                        argument.value
                        for argument in arguments
                        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                    }
                    called = ast.unparse(function).rpartition(".")[2] if constants else ""
                    if called in ("usefixtures", "getfixturevalue"):
                        fixtures |= constants
                    elif called in ("needs", "require", "find_program"):
                        used |= {f"needs {constant}" for constant in constants}
                    elif called == "level":
                        used |= {f"level {constant}" for constant in constants}
        return used, fixtures

    def _full_names(self, name: str, node: ast.expr) -> set[str]:
        if name in self.names:
            attribute = f".{node.attr}" if isinstance(node, ast.Attribute) else ""
            return {self.names[name] + attribute}
        return {f"{self.module}.{name}"} if name in self.definitions else set()

    def _define(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.definitions[name] = node
            case ast.ClassDef(name=name, body=body):
                self.definitions[name] = node
                if name.startswith("Test"):
                    for method in body:
                        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                            self.definitions[f"{name}.{method.name}"] = method
            case ast.Assign(targets=targets):
                self.definitions |= {name: node for target in targets for name in _bound(target)}
            case ast.AnnAssign(target=target):
                self.definitions |= dict.fromkeys(_bound(target), node)
            case ast.If(body=body, orelse=orelse) | ast.Try(body=body, orelse=orelse):
                for inner in (*body, *orelse):
                    self._define(inner)


def _bound(target: ast.AST) -> list[str]:
    return [name.id for name in ast.walk(target) if isinstance(name, ast.Name)]


def _is_autouse(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        "autouse=True" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def _requests_fixtures(symbol: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return symbol.rpartition(".")[2].startswith("test") or any(
        "fixture" in ast.unparse(decorator) for decorator in node.decorator_list
    )


@functools.cache
def _level_of_name(name: str) -> str:
    kind, _, rest = name.partition(" ")
    if kind == "needs" and rest:
        return NEEDS[rest]
    if kind == "level" and rest:
        return rest
    levels = LIBRARIES | USES
    return next((levels[prefix] for prefix in (name, *packages_of(name)) if prefix in levels), LEVELS[0])


Levels = dict[str, dict[str, str]]
"""The level of each test of each file, by the path of the file."""


def read_levels(root: Path = ROOT) -> Levels:
    """Return the level of every test of a repository; kept in ``.cache`` as long as no file changes."""
    graph = ImportGraph(root)
    cache = root / ".cache" / "levels.json"
    state = hashlib.sha256(graph.state().encode()).hexdigest()
    if cache.exists():
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["state"] == state:
            levels: Levels = kept["levels"]
            return levels
    reader = LevelReader(graph)
    levels = {str(module.path): reader.levels_of(module.path) for module in graph if is_test_file(module.path)}
    cache.parent.mkdir(exist_ok=True)
    draft = cache.with_name(f"levels-{os.getpid()}.json")
    draft.write_text(json.dumps({"state": state, "levels": levels}), encoding="utf-8")
    draft.replace(cache)
    return levels
