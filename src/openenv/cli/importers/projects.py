"""Environments that a project of another library defines, found in its syntax trees; nothing of it is imported."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from openenv.cli.importers.base import DetectedEnvironment
from openenv.validation.names import Definition, External, Names, statements
from openenv.validation.source import Source, read_files

__all__ = ["Kind", "Project"]

Kind: TypeAlias = Literal["ors", "verifiers"]

_LOADER = "load_environment"
_LONGEST_SUMMARY = 200


@dataclass(frozen=True)
class Project:
    """A project's folder.

    Attributes:
        taskset: A class of verifiers' v1 interface that the project defines, if it defines one.
    """

    folder: Path
    _sources: dict[Path, Source] = field(default_factory=dict, init=False, compare=False)

    @cached_property
    def environments(self) -> list[DetectedEnvironment]:
        """The environments, in the order of their files."""
        return [found for path, tree in self._modules() for found in self._of_file(path, tree)]

    @cached_property
    def taskset(self) -> str | None:
        """Name of a class that extends verifiers' ``Taskset``; ``None`` if there is none."""
        for path, tree in self._modules():
            for cls in _classes(tree):
                if self._extends(path, cls, "verifiers", "Taskset"):
                    return cls.name
        return None

    def _modules(self) -> Iterator[tuple[str, ast.Module]]:
        for path, tree in self._source(self.folder).trees.items():
            if isinstance(tree, ast.Module) and _is_module(path) and not _is_test(path):
                yield path, tree

    def _of_file(self, path: str, tree: ast.Module) -> Iterator[DetectedEnvironment]:
        for cls in _classes(tree):
            if self._extends(path, cls, "openreward", "Environment"):
                yield self._environment("ors", path, cls)
        if self._imports_verifiers:
            for node in statements(tree):
                if isinstance(node, ast.FunctionDef) and node.name == _LOADER:
                    yield self._environment("verifiers", path, node, ast.get_docstring(tree))

    def _environment(
        self, kind: Kind, path: str, node: ast.ClassDef | ast.FunctionDef, documentation: str | None = None
    ) -> DetectedEnvironment:
        _, parts = self._root_and_parts(path)
        text = ast.get_docstring(node) or documentation or ""
        summary = text.partition("\n")[0].strip()[:_LONGEST_SUMMARY]
        return DetectedEnvironment(kind, node.name, ".".join(parts), self.folder / path, summary)

    def _root_and_parts(self, path: str) -> tuple[Path, Sequence[str]]:
        """Return the folder of a file's topmost package or module, and its module's name from there, in parts."""
        file = self.folder / path
        root = file.parent
        while (root / "__init__.py").is_file():
            root = root.parent
        module = file.parent if file.name == "__init__.py" else file.with_suffix("")
        return root, module.relative_to(root).parts

    def _extends(self, path: str, cls: ast.ClassDef, library: str, base: str) -> bool:
        """Return whether a class extends a class of a library, as far as the project's source shows."""
        root, _ = self._root_and_parts(path)
        folder = root if root.is_relative_to(self.folder) else self.folder
        source = self._source(folder)
        seen = (self.folder / path).relative_to(folder).as_posix()
        definition = next((each for each in _classes(source.trees[seen]) if each.name == cls.name), cls)
        for each in Names(source).ancestors(Definition(seen, definition)):
            if isinstance(each, External) and each.name == base and each.dotted.partition(".")[0] == library:
                return True
        return False

    def _source(self, folder: Path) -> Source:
        if folder not in self._sources:
            self._sources[folder] = read_files(folder)
        return self._sources[folder]

    @cached_property
    def _imports_verifiers(self) -> bool:
        return any(_imports(node, "verifiers") for _, tree in self._modules() for node in ast.walk(tree))


def _classes(tree: ast.Module | SyntaxError) -> list[ast.ClassDef]:
    found = () if isinstance(tree, SyntaxError) else statements(tree)
    return [node for node in found if isinstance(node, ast.ClassDef)]


def _imports(node: ast.AST, library: str) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] == library for alias in node.names)
    return isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == library


def _is_module(path: str) -> bool:
    """Return whether a file can be loaded by its name: alone by nearly any, in a package by an identifier."""
    return re.fullmatch(r"[\w-]+", PurePosixPath(path).stem) is not None


def _is_test(path: str) -> bool:
    """Return whether a file tests the project, and so may define environments for that."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    return "tests" in parts[:-1] or name.startswith("test_") or name == "conftest.py"
