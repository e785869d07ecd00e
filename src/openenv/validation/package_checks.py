"""Checks of the requirements of an environment's code: installed packages, and data files in its wheel."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name

from openenv.core.documents import read_toml
from openenv.core.providers.venv.requirements import OURS, requirement_of
from openenv.validation.findings import Check, Finding, fail, warn
from openenv.validation.source import Source

PROJECT, SERVER_LIST = "pyproject.toml", "server/requirements.txt"
OF_TESTS = re.compile(r"(^|/)(tests/|test_\w*\.py$|conftest\.py$|setup\.py$)")
# Files that are no data of an environment, by their endings and names.
_NO_DATA = re.compile(
    r"(\.(py|pyi|md|rst|toml|lock|cfg|ini|in|ipynb|sh)|requirements[\w.-]*\.txt|Dockerfile.*|openenv\.yaml)$"
)
# What the public package requires, and ours does not: environments written for it import these without a word.
_OF_PUBLIC = frozenset({"fastmcp", "gradio", "httpx", "huggingface-hub", "jsonschema", "openai", "requests", "tomli-w"})
# Conditions of imports that are only for type checkers, or only where the module is there.
_OPTIONAL = re.compile(r"TYPE_CHECKING|find_spec\(")
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_READS = frozenset({"read_text", "read_bytes"})


@dataclass(frozen=True)
class Imported:
    """Package that a file imports from elsewhere.

    Attributes:
        name: The topmost package.
        where: File and line.
        is_late: Whether it is imported in a function, and so perhaps never.
    """

    name: str
    where: str
    is_late: bool


def check_requirements(source: Source) -> Iterator[Finding]:
    """Requirements of the package, and of its image, have every import."""
    imported = {each.name: each for each in sorted(_imports(source), key=lambda each: not each.is_late)}
    for name, lines in _lists(source):
        needed = _closure(lines)
        for each in imported.values():
            distributions = _distributions(each.name)
            if _is_required(each.name, distributions, needed):
                continue
            is_of_public = canonicalize_name(each.name) in _OF_PUBLIC
            wanted = each.name if is_of_public else min(distributions, key=len, default=each.name)
            finding = warn if each.is_late or is_of_public else fail
            yield finding(
                f"{each.where} imports {each.name}, which {name} does not require.",
                f'Add "{wanted}" to {name}; without it the import fails where nothing else requires it.',
            )


def _imports(source: Source) -> Iterator[Imported]:
    own = {PurePosixPath(path).parts[-1].removesuffix(".py") for path in source.trees}
    own |= {part for path in source.trees for part in PurePosixPath(path).parts[:-1]}
    top = source.module.partition(".")[0] if isinstance(source.module, str) else source.folder.name
    known = own | {top, "openenv", "openenv_core", "envs"} | sys.stdlib_module_names
    for path, tree in source.trees.items():
        if isinstance(tree, ast.Module) and not OF_TESTS.search(path):
            for name, line, is_late in _imported(tree.body, is_late=False):
                if name not in known:
                    yield Imported(name, f"{path}:{line}", is_late)


def _imported(nodes: Iterable[ast.AST], *, is_late: bool) -> Iterator[tuple[str, int, bool]]:
    """Yield the imports of statements, without those that are only for type checkers or may be missing."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno, is_late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                yield node.module.partition(".")[0], node.lineno, is_late
        elif isinstance(node, ast.If) and _OPTIONAL.search(ast.unparse(node.test)):
            yield from _imported(node.orelse, is_late=is_late)
        elif isinstance(node, ast.expr):
            yield from _imported_by_name(node)
        elif not any(map(_is_import_error, _caught_by(node))):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imported(ast.iter_child_nodes(node), is_late=is_late or is_function)


def _imported_by_name(expression: ast.expr) -> Iterator[tuple[str, int, bool]]:
    """Yield the imports of calls such as ``import_module("numpy.random")``; they count as late ones."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
            name = (_constant(node.args[:1]) or "").partition(".")[0]
            if name:
                yield name, node.lineno, True


def _caught_by(node: ast.AST) -> Iterator[ast.expr | None]:
    """Yield the exceptions that a ``try`` or ``with suppress(...)`` catches; ``None`` for every exception."""
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    elif isinstance(node, ast.With):
        for call in (item.context_expr for item in node.items):
            if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "suppress":
                yield from call.args


def _is_import_error(caught: ast.expr | None) -> bool:
    return caught is None or ast.unparse(caught) in _CATCHES


def _lists(source: Source) -> Iterator[tuple[str, list[str]]]:
    """Yield the lists of requirements whose lines are all known, by the names of their files."""
    project = _project(source)
    if project and "dependencies" not in project.get("dynamic", ()):
        optional = project.get("optional-dependencies", {})
        yield PROJECT, [*project.get("dependencies", ()), *(line for lines in optional.values() for line in lines)]
    text = source.texts.get(SERVER_LIST)
    if text is not None:
        lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        if not any(line.startswith("-") for line in lines):  # an option may name a further list
            yield SERVER_LIST, lines


def _project(source: Source) -> dict[str, Any]:
    file = source.top_folder / PROJECT
    if not file.is_file() or not isinstance(source.module, str):  # otherwise that it is valid TOML is not known
        return {}
    project: dict[str, Any] = read_toml(file).get("project", {})
    return project


def _closure(lines: Iterable[str]) -> frozenset[str]:
    """Return the distributions that lines require, and all that these require, as far as they are installed."""
    found: set[tuple[str, str]] = set()
    waiting = [(requirement, "") for line in lines if (requirement := requirement_of(line)) is not None]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in found:
                found.add((name, wanted))
                waiting += [(each, wanted) for each in map(requirement_of, _required_by(name)) if each is not None]
    return frozenset(name for name, _ in found)


@cache
def _required_by(name: str) -> tuple[str, ...]:
    for installed in (name, *sorted(OURS)) if name in OURS else (name,):
        try:
            return tuple(requires(installed) or ())
        except PackageNotFoundError:
            continue
    return ()


@cache
def _by_module() -> Mapping[str, list[str]]:
    return packages_distributions()


def _distributions(module: str) -> frozenset[str]:
    """Return the distributions of a package, by their normalized names; none where it is not installed."""
    return frozenset(canonicalize_name(name) for name in _by_module().get(module, ()))


def _is_required(module: str, distributions: frozenset[str], needed: frozenset[str]) -> bool:
    if distributions:
        return not distributions.isdisjoint(needed)
    # What is not installed may have any name, as one of those that are required and not installed.
    missing = [name for name in needed if not _required_by(name) and not _is_installed(name)]
    return canonicalize_name(module) in needed or bool(missing)


@cache
def _is_installed(distribution: str) -> bool:
    return any(distribution == canonicalize_name(name) for names in _by_module().values() for name in names)


def check_data(source: Source) -> Iterator[Finding]:
    """Data files that the code reads are there, and in the wheel, from which the image is made."""
    for path, tree in source.trees.items():
        if isinstance(tree, ast.Module) and not OF_TESTS.search(path):
            yield from _opened(source, path, tree)
    packaged = _packaged(source)
    if packaged is None:
        return
    texts = [text for path, text in source.texts.items() if path.endswith(".py") and not OF_TESTS.search(path)]
    for file in _data_files(source):
        if file not in packaged and any(file.name in text for text in texts):
            path = file.relative_to(source.top_folder).as_posix()
            yield fail(
                f"{path} is named in the code, and no package data in pyproject.toml: the wheel and the image lack it.",
                f'Add a pattern for it under [tool.setuptools.package-data], such as "**/*{file.suffix}", or rename it '
                "where [tool.setuptools.exclude-package-data] has a pattern that it matches.",
            )


def _opened(source: Source, path: str, tree: ast.Module) -> Iterator[Finding]:
    """Find files that are read by a path from the folder that a server starts in, or of this machine."""
    for node in ast.walk(tree):
        name = _read_name(node)
        if name is None or name.startswith(("/proc/", "/sys/", "/dev/", "/etc/")):
            continue
        assert isinstance(node, ast.Call)
        yield warn(
            f"{path}:{node.lineno} opens {name}, "
            + ("which only this machine may have." if name.startswith(("/", "~")) else _from_where(source, name)),
            'Put the file into the package, and open it as Path(__file__).parent / "NAME".',
        )


def _from_where(source: Source, name: str) -> str:
    if (source.folder / name).exists():
        return "which is found only where the server starts in this folder."
    return "which this folder does not have."


def _read_name(node: ast.AST) -> str | None:
    """Return the path that a call reads, if it is written out there: ``open("x")`` or ``Path("x").read_text()``."""
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Name) and function.id == "open":
        mode = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
        return _constant(node.args[:1]) if not mode or _constant(mode) in ("r", "rb", "rt") else None
    if not isinstance(function, ast.Attribute) or function.attr not in _READS:
        return None
    path = function.value
    is_path = isinstance(path, ast.Call) and ast.unparse(path.func) in ("Path", "pathlib.Path") and len(path.args) == 1
    return _constant(path.args) if is_path and isinstance(path, ast.Call) else None


def _constant(nodes: list[ast.expr]) -> str | None:
    node = nodes[0] if nodes else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _packaged(source: Source) -> set[Path] | None:
    """Return the files that setuptools takes for package data; ``None`` where something else decides."""
    file = source.top_folder / PROJECT
    if not _project(source) or (source.top_folder / "MANIFEST.in").is_file():
        return None
    document = read_toml(file)
    settings = document.get("tool", {}).get("setuptools", {})
    build = document.get("build-system", {})
    lists_files = any("scm" in requirement or "git" in requirement for requirement in build.get("requires", ()))
    packages = _packages(source, settings)
    if lists_files or packages is None or not build.get("build-backend", "setuptools").startswith("setuptools"):
        return None
    included, excluded = (settings.get(name, {}) for name in ("package-data", "exclude-package-data"))
    return {
        found
        for package, folder in packages.items()
        for pattern in (*included.get(package, ()), *included.get("*", ()))
        for found in folder.glob(pattern)
        if not any(
            fnmatch(found.relative_to(folder).as_posix(), each)
            for each in (*excluded.get(package, ()), *excluded.get("*", ()))
        )
    }


def _packages(source: Source, settings: Mapping[str, Any]) -> dict[str, Path] | None:
    """Return the folders of the packages that setuptools is given, by their names; ``None`` where it finds them."""
    folder = source.top_folder
    packages, folders = settings.get("packages"), settings.get("package-dir", {})
    if isinstance(packages, list):
        root = folder / folders.get("", ".")
        return {name: folder / folders[name] if name in folders else root / name.replace(".", "/") for name in packages}
    if not isinstance(packages, dict) or "find" not in packages:
        return None
    roots = [folder / where for where in packages["find"].get("where", ["."])]
    found = [(source.folder / path).parent for path in source.files if PurePosixPath(path).name == "__init__.py"]
    names = ((path, path.relative_to(root)) for path in found for root in roots if path.is_relative_to(root))
    return {".".join(name.parts): path for path, name in names if name.parts}


def _data_files(source: Source) -> Iterator[Path]:
    for path in source.files:
        if not _NO_DATA.search(path) and not OF_TESTS.search(path):
            yield source.folder / path


PACKAGE_CHECKS = (
    Check("static.requirements", "what is imported is required", check_requirements),
    Check("static.data", "the files that the code reads are there, and in the wheel", check_data),
)
