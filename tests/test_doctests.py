"""The examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.modules import MODULES


@pytest.mark.needs("reasoning-gym")
def test_examples_in_docstrings_are_true() -> None:
    modules = {name: importlib.import_module(name) for name in MODULES}
    # Most have none, and looking for them takes far longer than doing them.
    results = {name: doctest.testmod(module) for name, module in modules.items() if has_examples(module)}

    assert {name: result.failed for name, result in results.items() if result.failed} == {}
    assert sum(result.attempted for result in results.values()) > 10


def has_examples(module: ModuleType) -> bool:
    return module.__file__ is not None and ">>> " in Path(module.__file__).read_text(encoding="utf-8")
