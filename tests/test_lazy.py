"""The names that packages hand out on first use, as they run and as type checkers read them."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from openenv._lazy import lazy_exports

PACKAGES = [
    "openenv",
    "openenv.core",
    "openenv.core.containers.runtime",
    "openenv.core.providers",
    "openenv.core.env_server",
    "openenv.train",
    "openenv.train.generation",
]


# Names that programs of earlier versions import, and that are no longer among those which a package shows.
UNLISTED = {
    "openenv.train": "ApiAgent CollectResult ComponentReward EnvironmentTools Episode Evaluation PlaySettings Policy "
    "TrainResult Turn build_tool_tokenizer collect generate_rollout_completions"
}


def shown_to_type_checkers(package: ModuleType) -> dict[str, str]:
    """The names that a package imports under ``if TYPE_CHECKING``, each with the module that it is imported from."""
    assert package.__file__ is not None
    blocks = [
        node
        for node in ast.parse(Path(package.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    found: dict[str, str] = {}
    for statement in blocks[0].body:
        assert isinstance(statement, ast.ImportFrom)
        assert statement.module is not None
        for alias in statement.names:
            names = importlib.import_module(statement.module).__all__ if alias.name == "*" else [alias.name]
            found |= dict.fromkeys(names, statement.module)
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_type_checkers_see_the_names_that_are_there_and_no_others(name: str) -> None:
    package = importlib.import_module(name)
    shown = shown_to_type_checkers(package)

    unlisted = UNLISTED.get(name, "").split()
    assert sorted(shown) == sorted([*unlisted, *(export for export in package.__all__ if export != "__version__")])
    assert set(unlisted).isdisjoint(dir(package))
    others = [
        export
        for export, module in shown.items()
        if getattr(importlib.import_module(module), export) is not getattr(package, export)
    ]
    assert others == []


def test_a_module_is_imported_when_a_name_of_it_is_used() -> None:
    names, resolve, _ = lazy_exports("pack", {"string": ("digits",), "no.such.module": ("nothing",)})

    assert names == ["digits", "nothing"]
    assert resolve("digits") == "0123456789"
    with pytest.raises(ModuleNotFoundError):
        resolve("nothing")
    with pytest.raises(AttributeError, match="module 'pack' has no attribute 'else'"):
        resolve("else")


@pytest.mark.parametrize("name", PACKAGES)
def test_completion_lists_the_public_names_and_nothing_of_how_the_package_is_made(name: str) -> None:
    package = importlib.import_module(name)
    listed = [found for found in dir(package) if not found.startswith("__")]

    assert set(package.__all__) - {"__version__"} <= set(listed)
    others = [found for found in listed if found not in package.__all__]
    assert [found for found in others if not inspect.ismodule(getattr(package, found))] == []


def test_dir_imports_nothing() -> None:
    program = (
        "import sys, openenv; before = set(sys.modules); dir(openenv); print(sorted(set(sys.modules) - before)); "
        "print(sorted(name for name in before if name.startswith('openenv.') and not name.startswith('openenv._')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "[]\n[]\n"


def test_the_public_functions_show_their_parameters_in_an_editor() -> None:
    package = importlib.import_module("openenv")
    functions = {name: getattr(package, name) for name in package.__all__ if inspect.isfunction(getattr(package, name))}
    parameters = {name: list(inspect.signature(function).parameters) for name, function in functions.items()}

    assert functions.keys() >= {"client_for", "create_app", "make", "serve", "tool"}
    assert [name for name, names in parameters.items() if {"args", "kwargs"} <= set(names)] == []
    assert [name for name, function in functions.items() if not inspect.getdoc(function)] == []
