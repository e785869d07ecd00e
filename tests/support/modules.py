"""The modules of the package, by name."""

import functools
import pkgutil
from collections.abc import Iterator

import grimp

import openenv

# Not to be imported: the first runs the command; the second is what uvicorn loads for ``openenv serve --reload``.
PROGRAMS = {"openenv.cli.__main__", "openenv.cli.served"}

MODULES = sorted(
    {"openenv", *(module.name for module in pkgutil.walk_packages(openenv.__path__, "openenv."))} - PROGRAMS
)


@functools.cache
def modules_in_circles() -> list[str]:
    """Return the modules whose import may come back to themselves before it has ended.

    Importing a module imports its packages first. A package that hands out names on first use imports where they live
    when another module imports one.
    """
    running = grimp.build_graph("openenv", cache_dir=None, exclude_type_checking_imports=True)
    with_lazy_names = grimp.build_graph("openenv", cache_dir=None)
    imported = {module: running.find_modules_directly_imported_by(module) for module in running.modules}
    for module, directly in imported.items():
        outside = [one for one in directly if one not in _packages(module) and module not in _packages(one)]
        lazily = [name for package in outside for name in with_lazy_names.find_modules_directly_imported_by(package)]
        for name in {*directly, *lazily}:
            for one in (name, *_packages(name)):
                running.add_import(importer=module, imported=one)
        for package in _packages(module):
            running.add_import(importer=module, imported=package)
    return [module for module in MODULES if module in _reached_from(running, module)]


def _packages(module: str) -> Iterator[str]:
    """The packages around a module, from the inside."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def _reached_from(graph: grimp.ImportGraph, module: str) -> set[str]:
    directly = graph.find_modules_directly_imported_by(module) - {module}
    return directly.union(*map(graph.find_upstream_modules, directly))
