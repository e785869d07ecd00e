"""The imports between the modules of this repository, read from their source.

An import runs with its module, or later: in a function. A name that a package hands out on first use (``lazy_exports``)
counts as an import of the module that it lives in.
"""

import ast
import functools
import graphlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = ("src", "envs", "tests", "benchmarks", "examples")


@dataclass(frozen=True)
class Module:
    """A module's imports.

    Attributes:
        name: Its dotted name.
        path: Its file, relative to the repository.
        imports: Modules of the repository, and packages of others, that are imported when it is.
        later_imports: Those that are imported by its functions only.
    names: What each name that the file imports stands for, as a dotted name.
    """

    name: str
    path: Path
    imports: frozenset[str]
    later_imports: frozenset[str]
    names: Mapping[str, str]


@dataclass
class _Found:
    """Imports as they stand in a file, before names are resolved: a module, or a module and a name in it."""

    at_once: list[tuple[str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    lazy_names: dict[str, str] = field(default_factory=dict)


class ImportGraph:
    """The modules of a repository and their imports; a file is read when it is first needed.

    Args:
        root: The repository's folder.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._files = {module_name(path.relative_to(root)): path for path in _python_files(root)}
        self._found: dict[str, _Found] = {}
        self._modules: dict[str, Module] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[Module]:
        return map(self.module, self._files)

    def paths(self) -> list[Path]:
        """Return the files of all modules, relative to the repository; none is read."""
        return [path.relative_to(self.root) for path in self._files.values()]

    def state(self) -> str:
        """Return a text that differs when a file has come, gone, or changed."""
        stats = ((path, path.stat()) for path in self._files.values())
        return "".join(f"{path} {stat.st_mtime_ns} {stat.st_size}\n" for path, stat in stats)

    def module(self, name: str) -> Module:
        """Return a module of the repository by its dotted name."""
        if name not in self._modules:
            found = self._read(name)
            self._modules[name] = Module(
                name,
                self._files[name].relative_to(self.root),
                frozenset(self._resolved(name, found.at_once)),
                frozenset(self._resolved(name, found.later)),
                {local: self.full_name(home, imported) for local, (home, imported) in found.names.items()},
            )
        return self._modules[name]

    def loaded_with(self, names: Iterable[str]) -> set[str]:
        """Return all that is imported when these modules are: modules of the repository, and packages of others."""
        loaded: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in loaded:
                loaded.add(name)
                waiting.extend(self.module(name).imports if name in self else ())
        return loaded

    def full_name(self, home: str, name: str) -> str:
        """Return where a name of a module is defined; the module itself for an empty name."""
        if not name or f"{home}.{name}" in self:
            return f"{home}.{name}".rstrip(".")
        found = self._read(home) if home in self else _Found()
        if name in found.lazy_names:
            return self.full_name(found.lazy_names[name], name)
        if name in found.names and found.names[name] != (home, name):
            return self.full_name(*found.names[name])
        return f"{home}.{name}"

    def distances_to(self, names: Iterable[str]) -> dict[str, int]:
        """Return how many imports, of either kind, lead from each module to the nearest of these."""
        importers: dict[str, list[str]] = {}
        for module in self:
            for imported in module.imports | module.later_imports:
                importers.setdefault(imported, []).append(module.name)
        distances = dict.fromkeys(names, 0)
        waiting = list(distances)
        for name in waiting:  # grows while it is read, in the order of distance
            for importer in importers.get(name, ()):
                if importer not in distances:
                    distances[importer] = distances[name] + 1
                    waiting.append(importer)
        return distances

    def _read(self, name: str) -> _Found:
        if name not in self._found:
            path = self._files[name]
            reader = _Reader(name if path.name == "__init__.py" else name.rpartition(".")[0])
            reader.read(ast.parse(path.read_bytes()), later=False)
            self._found[name] = reader.found
        return self._found[name]

    def _resolved(self, importer: str, imports: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield the modules that imports lead to, the packages around each among them."""
        around = {importer, *packages_of(importer)}
        for home, name in imports:
            target = f"{home}.{name}"
            if target not in self:
                target = self._read(home).lazy_names.get(name, home) if home in self else home
            known = {module for part in (target, home) for module in (part, *packages_of(part)) if module in self}
            if not known:
                yield target.partition(".")[0]
            # The packages around the importer run before it; a name of theirs has to be there by then.
            yield from known - around | ({home} & known if target == home != importer and name else set())

    def circle(self, names: Iterable[str]) -> list[str]:
        """Return modules that import each other in a circle when they are imported; none if there is no circle."""
        imports = {name: self.module(name).imports & self._files.keys() for name in names}
        try:
            graphlib.TopologicalSorter(imports).prepare()
        except graphlib.CycleError as error:
            circle: list[str] = error.args[1]
            return circle
        return []


@functools.cache
def import_graph() -> ImportGraph:
    """Return the graph of this repository."""
    return ImportGraph()


def module_name(path: Path) -> str:
    """Return the dotted name of a file, given relative to the repository.

    Example:
        >>> module_name(Path("src/openenv/core/seeding.py")), module_name(Path("envs/echo_env/__init__.py"))
        ('openenv.core.seeding', 'echo_env')
    """
    parts = path.with_suffix("").parts
    if parts[0] == "src" or (parts[0] == "envs" and "tests" not in parts):
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def packages_of(name: str) -> Iterator[str]:
    """Yield the packages around a module, from the inside."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _python_files(root: Path) -> Iterator[Path]:
    yield from root.glob("*.py")
    for folder in _FOLDERS:
        yield from sorted((root / folder).rglob("*.py"))


class _Reader:
    """Gathers the imports of a file, statement by statement.

    Args:
        package: The package that relative imports begin at.
    """

    def __init__(self, package: str) -> None:
        self.found = _Found()
        self._package = package

    def read(self, parent: ast.AST, later: bool) -> None:
        """Gather the imports of the statements in a module, a class, a function or a compound statement.

        Args:
            parent: What holds the statements.
            later: Whether they run after the import of the file.
        """
        imports = self.found.later if later else self.found.at_once
        for node in ast.iter_child_nodes(parent):
            match node:
                case ast.Import(names=names):
                    imports += [(alias.name, "") for alias in names]
                    self.found.names |= {_local_name(alias): (_bound_module(alias), "") for alias in names}
                case ast.ImportFrom(names=names):
                    home = self._absolute(node)
                    imports += [(home, alias.name) for alias in names]
                    self.found.names |= {_local_name(alias): (home, alias.name) for alias in names}
                case ast.Assign(targets=[ast.Name(id="pytest_plugins")], value=value):
                    imports += [(name, "") for name in ast.literal_eval(value)]
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.read(node, later=True)
                case ast.Assign(value=ast.Call(func=ast.Name(id="lazy_exports"), args=[_, ast.Dict() as homes, *_])):
                    self._read_lazy_names(homes)
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    self.read(ast.Module(node.orelse, []), later)
                case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                    self.read(node, later=True)
                case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                    self.read(node, later)

    def _read_lazy_names(self, homes: ast.Dict) -> None:
        for home, names in zip(homes.keys, homes.values, strict=True):
            if isinstance(home, ast.Constant) and isinstance(names, ast.Tuple):
                self.found.lazy_names |= dict.fromkeys(ast.literal_eval(names), home.value)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        around = self._package.split(".")
        base = around[: len(around) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


def _local_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _bound_module(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.partition(".")[0]
