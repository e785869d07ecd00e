"""The names that packages hand out on first use, as they run and as type checkers read them."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from openenv._lazy import lazy_exports

PACKAGES = ["openenv", "openenv.core", "openenv.core.containers.runtime", "openenv.core.env_server"]


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

    assert sorted(shown) == [export for export in package.__all__ if export != "__version__"]
    others = [
        export
        for export, module in shown.items()
        if getattr(importlib.import_module(module), export) is not getattr(package, export)
    ]
    assert others == []


def test_a_module_is_imported_when_a_name_of_it_is_used() -> None:
    names, resolve = lazy_exports("pack", {"string": ("digits",), "no.such.module": ("nothing",)})

    assert names == ["digits", "nothing"]
    assert resolve("digits") == "0123456789"
    with pytest.raises(ModuleNotFoundError):
        resolve("nothing")
    with pytest.raises(AttributeError, match="module 'pack' has no attribute 'else'"):
        resolve("else")
